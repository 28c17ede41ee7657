//! `fathom top`: the machine as it works, on one screen or as lines.

mod feed;
mod live;
mod replay;
mod screen;

use crate::level;
use crate::output;
use crate::quantity;
use crate::signals::{self, Signals};
use crate::stdio::{Kind, note};
use fathom_machine::Roots;
use fathom_model::watch::Level;
use fathom_report::top::{View, lines};
use fathom_runner::SamplingOptions;
use fathom_watch::{Process, Scope};
use feed::Feed;
use live::Live;
use replay::Replay;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

/// Between two looks for keys, signals and samples.
const TICK: Duration = Duration::from_millis(100);
/// Lines after which the columns are named again on a terminal.
const LINES_PER_HEADER: u64 = 20;

/// What `fathom top` takes.
#[derive(clap::Args)]
pub struct Args {
    /// Between two samples, 50ms to 1h.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = quantity::interval, conflicts_with = "replay")]
    interval: Duration,
    /// End after this many intervals.
    #[arg(short = 'n', long, value_name = "INTERVALS", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print a line for each interval in the columns of dstat -tpcrmd; the default if standard output is not a
    /// terminal.
    #[arg(long, group = "form")]
    plain: bool,
    /// Print a line of CSV for each interval.
    #[arg(long, group = "form")]
    csv: bool,
    /// Print each interval as a JSON object on one line.
    #[arg(long, group = "form")]
    ndjson: bool,
    /// How much to sample: `full`, or `default` for --plain and --csv.
    #[arg(long, value_parser = level::parser(), conflicts_with = "replay")]
    sampling: Option<Level>,
    /// Trace the events of every I/O and of io_uring's task work all the time instead of for a sixteenth of it:
    /// exact, but slows fast devices by up to a quarter.
    #[arg(long, conflicts_with = "replay")]
    each_io: bool,
    /// Sample threads, stacks and rings of this process and its descendants only: by ID, or by part of its name; may
    /// be repeated.
    #[arg(short, long, value_name = "PID|PATTERN", conflicts_with = "replay")]
    pid: Vec<String>,
    /// Record into this run directory.
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    record: Option<String>,
    /// Replay a record instead: a run directory or a ring of them.
    #[arg(long, value_name = "DIR")]
    replay: Option<String>,
    /// Begin at this time of the record: 14:03:22, 2026-11-22T14:03:22, or +90s.
    #[arg(long, value_name = "TIME", requires = "replay")]
    from: Option<String>,
    /// End at this time of the record.
    #[arg(long, value_name = "TIME", requires = "replay")]
    to: Option<String>,
}

/// Shows the machine until the user or a signal ends it.
///
/// # Errors
/// Why nothing can be shown or recorded.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let processes = Process::named(&Roots::default().proc, &args.pid)?;
    let pids: Vec<i32> = processes.iter().map(|process| process.pid).collect();
    let signals = Signals::take().map_err(|e| format!("cannot install signal handlers: {e}"))?;
    let form = form(args);
    let mut feed: Box<dyn Feed> = match &args.replay {
        Some(dir) => {
            Box::new(Replay::open(dir, args.from.as_deref(), args.to.as_deref(), form.is_some())?)
        }
        None => Box::new(Live::start(&watch(args, form, pids), args.record.as_deref())?),
    };
    let mut told = None;
    let shown = match form {
        Some(form) => print(feed.as_mut(), form, args, &signals, &mut told),
        None => screen::show(feed.as_mut(), args.count, &signals),
    };
    let (shown, all) = shown.map_or_else(|error| (Err(error), false), |all| (Ok(()), all));
    // What was recorded is whole also where it could not be shown.
    match shown.and(feed.finish()) {
        Err(error) if told.as_ref() == Some(&error) => Ok(ExitCode::FAILURE),
        ended => ended.map(|()| if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
    }
}

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// In dstat's columns.
    Plain,
    /// Comma-separated values.
    Csv,
    /// JSON objects.
    Ndjson,
}

/// The form of the lines; `None` for the full screen.
fn form(args: &Args) -> Option<Form> {
    match args {
        Args { csv: true, .. } => Some(Form::Csv),
        Args { ndjson: true, .. } => Some(Form::Ndjson),
        Args { plain: true, .. } => Some(Form::Plain),
        _ => (!std::io::stdout().is_terminal()).then_some(Form::Plain),
    }
}

/// What is watched of the machine.
fn watch(args: &Args, form: Option<Form>, pids: Vec<i32>) -> SamplingOptions {
    // Lines that tell of processors and disks only need not cost what threads and stacks do.
    let few = matches!(form, Some(Form::Plain | Form::Csv)) && args.record.is_none();
    let usual = if few { Level::Default } else { Level::Full };
    SamplingOptions {
        level: args.sampling.unwrap_or(usual),
        scope: if pids.is_empty() { Scope::Machine } else { Scope::Trees(pids) },
        interval: args.interval,
        each_io: args.each_io,
        ..SamplingOptions::default()
    }
}

/// Whether all is shown that was asked for, where a signal ended it after `done` intervals; says so where not.
fn is_all(signals: &Signals, count: Option<u64>, done: u64) -> bool {
    let cut = count.filter(|count| done < *count).zip(signals.caught());
    if let Some((count, signal)) = cut {
        signals::interrupted(signal, &done.to_string(), &format!("{count} intervals"));
    }
    cut.is_none()
}

/// Prints lines; what is wrong with the record, as soon as it is known and in `told`. Whether all was printed that
/// was asked for.
fn print(
    feed: &mut dyn Feed,
    form: Form,
    args: &Args,
    signals: &Signals,
    told: &mut Option<String>,
) -> Result<bool, String> {
    for missing in feed.missing() {
        note!("not measured: {missing}");
    }
    let kind = if form == Form::Ndjson { Kind::Json } else { Kind::Lines };
    let repeats = std::io::stdout().is_terminal();
    let mut printed = 0;
    while args.count.is_none_or(|count| printed < count) && signals.caught().is_none() {
        let came = feed.poll()?;
        if let Some(complaint) = feed.complaint() {
            note!("{complaint}");
            *told = Some(complaint);
        }
        if !came {
            if feed.at_end() {
                break;
            }
            std::thread::sleep(TICK);
            continue;
        }
        let Some(view) = feed.view()? else { continue };
        let header = printed == 0 || (repeats && printed % LINES_PER_HEADER == 0);
        let text = line(&view, form, header).map_err(|e| format!("cannot write JSON: {e}"))?;
        if !output::stream(&text, kind)? {
            return Ok(true);
        }
        printed += 1;
    }
    match signals.caught().filter(|_| args.replay.is_some() && !feed.at_end()) {
        Some(signal) if args.count.is_none() => {
            signals::interrupted(signal, &printed.to_string(), "all intervals of the record");
            Ok(false)
        }
        _ => Ok(feed.at_end() || is_all(signals, args.count, printed)),
    }
}

fn line(view: &View<'_>, form: Form, header: bool) -> serde_json::Result<String> {
    let below = |names: String, line: String| if header { names + &line } else { line };
    Ok(match form {
        Form::Plain => below(lines::plain_header(view), lines::plain(view)),
        Form::Csv => below(lines::csv_header(), lines::csv(view)),
        Form::Ndjson => lines::ndjson(view)?,
    })
}
