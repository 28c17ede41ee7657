//! `fathom top`: the machine live, on one screen or as lines.

mod export;
mod live;
mod replay;
mod screen;

use crate::output;
use crate::quantity;
use crate::signals::{self, Signals};
use crate::stdio::{Kind, error, report_missing, usage_error};
pub use export::{ExportArgs, Exported};
use fathom_analysis::machine::{self, MachineRates};
use fathom_machine::Roots;
use fathom_model::progress::Sample;
use fathom_model::watch::{Level, MachineSample, SamplingRecord, Stack, Unavailable};
use fathom_report::top::{Go, TopSource, TopView, lines};
use fathom_runner::SamplingOptions;
use fathom_watch::{Process, Scope};
use live::LiveSamples;
use replay::Replay;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

/// Time between polls for keys, signals and samples.
const TICK: Duration = Duration::from_millis(100);
/// Lines between headers on a terminal.
const LINES_PER_HEADER: u64 = 20;

#[derive(clap::Args)]
pub struct Args {
    /// Time between samples, 50ms to 1h
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = quantity::interval, conflicts_with = "replay")]
    interval: Duration,
    /// End after this time, such as 60s or 5m
    #[arg(short = 't', long, value_name = "TIME", value_parser = quantity::time, conflicts_with_all = ["count", "replay"])]
    duration: Option<Duration>,
    /// End after N intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = quantity::whole(1..=u32::MAX))]
    count: Option<u32>,
    /// Print a line per interval instead of the full screen
    ///
    /// `text` has the columns of dstat -tpcrmd, and is the default if standard output is not a terminal; `csv` has the
    /// machine's totals; `json` has every figure, with one object per line.
    #[arg(long, value_enum)]
    format: Option<Form>,
    /// Same as --format=json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    #[command(flatten)]
    export: ExportArgs,
    /// How much of the machine to sample
    ///
    /// The default is `full`, or `default` with --format text or csv, --prometheus and --otlp.
    #[arg(long, value_parser = quantity::level(), conflicts_with = "replay")]
    sampling: Option<Level>,
    /// Trace every I/O (default: 1/16 of the time)
    ///
    /// Latencies and io_uring task work are then exact, but a fast device slows down by up to a quarter.
    #[arg(long, conflicts_with = "replay")]
    each_io: bool,
    /// Only threads, stacks and rings of this process; repeatable
    ///
    /// Includes its descendants. A PATTERN is part of a process's name.
    #[arg(short, long, value_name = "PID|PATTERN", conflicts_with = "replay")]
    pid: Vec<String>,
    /// Run directory to record into
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    record: Option<String>,
    /// Replay a run directory or the ring of `fathom record`
    #[arg(long, value_name = "DIR")]
    replay: Option<String>,
    /// Start of the replay: 14:03:22, 2026-11-22T14:03:22 or +90s
    #[arg(long, value_name = "TIME", requires = "replay")]
    from: Option<String>,
    /// End of the replay
    #[arg(long, value_name = "TIME", requires = "replay")]
    to: Option<String>,
    /// Also print why figures are unavailable
    ///
    /// On the full screen, `!` shows the reasons.
    #[arg(short, long)]
    verbose: bool,
}

impl Args {
    fn intervals(&self) -> Option<u64> {
        let of_time = |time: Duration| time.as_secs_f64() / self.interval.as_secs_f64();
        self.count.map(u64::from).or(self.duration.map(|time| of_time(time).ceil() as u64))
    }
}

/// Shows the machine until the user, the duration or a signal ends it.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let processes = Process::named(&Roots::default().proc, &args.pid)?;
    let pids: Vec<i32> = processes.iter().map(|process| process.pid).collect();
    let signals = Signals::take()?;
    if args.export.is_given() && (args.format.is_some() || args.json || args.replay.is_some()) {
        return Ok(usage_error(
            "--prometheus and --otlp print nothing, and do not go with --format, --json or --replay",
        ));
    }
    let exported = args.export.open()?;
    let form = form(args);
    let mut feed: Box<dyn Feed> = match &args.replay {
        Some(dir) => {
            Box::new(Replay::open(dir, args.from.as_deref(), args.to.as_deref(), form.is_some())?)
        }
        None => Box::new(LiveSamples::start(&watch(args, form, pids), args.record.as_deref())?),
    };
    let shown = match form {
        Some(form) => print(feed.as_mut(), form, args, (&signals, exported)),
        None => screen::show(feed.as_mut(), args.intervals(), &signals),
    };
    let (shown, all) = shown.map_or_else(|error| (Err(error), false), |all| (Ok(()), all));
    // The record is completed even if the view could not be shown.
    shown.and(feed.finish())?;
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// dstat's columns.
    Text,
    /// Comma-separated values.
    Csv,
    /// One JSON object per line.
    Json,
}

/// The format of the lines; `None` for the full screen.
fn form(args: &Args) -> Option<Form> {
    let given = args.format.or(args.json.then_some(Form::Json));
    let given = given.or(args.export.is_given().then_some(Form::Text));
    given.or((!std::io::stdout().is_terminal()).then_some(Form::Text))
}

fn watch(args: &Args, form: Option<Form>, pids: Vec<i32>) -> SamplingOptions {
    // These lines have no figures of threads or stacks, so those need not be sampled.
    let few = matches!(form, Some(Form::Text | Form::Csv)) && args.record.is_none();
    let usual = if few { Level::Default } else { Level::Full };
    SamplingOptions {
        level: args.sampling.unwrap_or(usual),
        scope: if pids.is_empty() { Scope::Machine } else { Scope::Trees(pids) },
        interval: args.interval,
        each_io: args.each_io,
        ..SamplingOptions::default()
    }
}

/// Whether `count` intervals were shown. If a signal ended the view after `done` of them, reports that.
fn is_all(signals: &Signals, count: Option<u64>, done: u64) -> bool {
    let cut = count.filter(|count| done < *count).zip(signals.caught());
    if let Some((count, signal)) = cut {
        signals::interrupted(signal, &done.to_string(), &format!("{count} intervals"));
    }
    cut.is_none()
}

/// Prints lines, or exports each interval, and problems with the record as they occur. Whether all requested intervals were
/// printed.
fn print(
    feed: &mut dyn Feed,
    form: Form,
    args: &Args,
    (signals, mut exported): (&Signals, Option<Exported>),
) -> Result<bool, String> {
    report_missing(feed.missing(), args.verbose);
    let kind = if form == Form::Json { Kind::Json } else { Kind::Lines };
    let repeats = std::io::stdout().is_terminal();
    let mut printed = 0;
    let count = args.intervals();
    while count.is_none_or(|count| printed < count) && signals.caught().is_none() {
        let came = feed.poll()?;
        if let Some(error) = feed.take_error() {
            error!("{error}");
        }
        if !came {
            if feed.at_end() {
                break;
            }
            std::thread::sleep(TICK);
            continue;
        }
        let Some(view) = feed.view()? else { continue };
        if let Some(exported) = &mut exported {
            exported.write_interval(&view.interval(), view.unix_ns);
            printed += 1;
            continue;
        }
        let header = printed == 0 || (repeats && printed % LINES_PER_HEADER == 0);
        let text = line(&view, form, header).map_err(|e| format!("cannot write JSON: {e}"))?;
        if !output::stream(&text, kind)? {
            return Ok(true);
        }
        printed += 1;
    }
    match signals.caught().filter(|_| args.replay.is_some() && !feed.at_end()) {
        Some(signal) if count.is_none() => {
            signals::interrupted(signal, &printed.to_string(), "all intervals of the record");
            Ok(false)
        }
        _ => Ok(feed.at_end() || is_all(signals, count, printed)),
    }
}

fn line(view: &TopView<'_>, form: Form, header: bool) -> serde_json::Result<String> {
    let below = |names: String, line: String| if header { names + &line } else { line };
    Ok(match form {
        Form::Text => below(lines::plain_header(view), lines::plain(view)),
        Form::Csv => below(lines::csv_header(), lines::csv(view)),
        Form::Json => lines::ndjson(view)?,
    })
}

/// A source of intervals, with a current position in time.
pub trait Feed {
    /// Polls for new intervals; whether there are any.
    fn poll(&mut self) -> Result<bool, String>;

    fn at_end(&self) -> bool;

    /// The interval at the current position, once there is one.
    fn view(&mut self) -> Result<Option<TopView<'_>>, String>;

    fn go(&mut self, go: &Go) -> Result<(), String>;

    fn missing(&self) -> &[Unavailable];

    /// A problem to report to the user; returned once.
    fn take_error(&mut self) -> Option<String> {
        None
    }

    /// Completes the record, if any.
    fn finish(self: Box<Self>) -> Result<(), String>;
}

#[derive(Debug, Default)]
pub struct ViewSample {
    /// In nanoseconds since 1970.
    pub unix_ns: u64,
    /// On the monotonic clock, in nanoseconds.
    pub at_ns: u64,
    /// CPU time of this process until then, in nanoseconds.
    pub own_ns: Option<u64>,
    pub machine: MachineSample,
}

impl ViewSample {
    pub fn of(sample: Sample) -> Self {
        let Sample { unix_ns, elapsed_ns: at_ns, machine, .. } = sample;
        Self { unix_ns, at_ns, own_ns: None, machine }
    }
}

/// Two samples and the rates between them.
#[derive(Debug)]
pub struct ViewedInterval {
    pub before: Rc<ViewSample>,
    pub now: Rc<ViewSample>,
    pub elapsed_ns: u64,
    pub rates: MachineRates,
}

impl ViewedInterval {
    pub fn new(before: Rc<ViewSample>, now: Rc<ViewSample>) -> Self {
        let elapsed_ns = now.at_ns.saturating_sub(before.at_ns);
        let rates = machine::rates(&before.machine, &now.machine, elapsed_ns);
        Self { before, now, elapsed_ns, rates }
    }

    pub fn view<'a>(
        &'a self,
        source: TopSource,
        stacks: &'a [Stack],
        watched: &'a SamplingRecord,
    ) -> TopView<'a> {
        TopView {
            before: &self.before.machine,
            now: &self.now.machine,
            rates: &self.rates,
            elapsed_ns: self.elapsed_ns,
            unix_ns: self.now.unix_ns,
            zone: crate::page::zone(),
            source,
            stacks,
            wiring: &watched.wiring,
            missing: &watched.missing,
            own_ns: self.own_ns(),
        }
    }

    /// CPU time of this process in the interval, in nanoseconds.
    fn own_ns(&self) -> Option<u64> {
        self.now.own_ns?.checked_sub(self.before.own_ns?)
    }
}
