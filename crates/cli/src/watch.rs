//! `fathom watch`: records the machine, or a program from now to its end.

mod child;
mod end;

pub use child::{EXEC_STOPPED, ExecStoppedArgs, exec_stopped};
pub use end::{StopCondition, TICK};

use crate::live::MeasureView;
use crate::output::Destination;
use crate::page::{PageArgs, RecordArgs};
use crate::stdio::{self, error};
use crate::{quantity, signals};
use fathom_analysis::watch::Observed;
use fathom_model::progress::Sample;
use fathom_model::watch::{Level, Unavailable};
use fathom_model::{RunRecord, escape};
use fathom_report::json::{self, WatchResult};
use fathom_report::pages;
use fathom_runner::{CancelToken, RecordTo, SamplingOptions, Session, experiment};
use fathom_watch::threads::HZ_MAX;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The first sample comes at once, unless the record's disk is slow.
const FIRST_SAMPLE: Duration = Duration::from_secs(5);
/// Observed before a verdict is tested, unless a duration is given.
const BEFORE_TESTS: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub struct Args {
    /// Watch this process until it ends; repeatable
    ///
    /// Includes its descendants. A PATTERN is part of a process's name.
    #[arg(short, long, value_name = "PID|PATTERN", conflicts_with = "command")]
    pid: Vec<String>,
    /// How long to watch, such as 60s or 5m; by default until Ctrl-C
    #[arg(short = 't', long = "duration", value_name = "TIME", value_parser = quantity::time, conflicts_with = "command")]
    time: Option<Duration>,
    /// Time between samples, 50ms to 1h
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = quantity::interval)]
    interval: Duration,
    /// End after N intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = quantity::whole(1..=u32::MAX),
          conflicts_with_all = ["command", "time"])]
    count: Option<u32>,
    /// Thread sampling rate, 1 to 100
    ///
    /// The default is the highest rate, up to 20, at which sampling threads takes at most 0.5% of the CPUs.
    #[arg(short = 'F', long = "frequency", value_name = "HZ", value_parser = quantity::whole(1..=HZ_MAX))]
    hz: Option<u32>,
    /// How much of the machine to sample
    #[arg(long, value_parser = quantity::level(), default_value = "full")]
    sampling: Level,
    /// Trace every I/O (default: 1/16 of the time)
    ///
    /// Latencies and io_uring task work are then exact, but a fast device slows down by up to a quarter.
    #[arg(long)]
    each_io: bool,
    /// Account for the processes that the program waits for as well
    ///
    /// These are at the other end of its pipes and sockets on this machine: a client waits for what its server does.
    #[arg(long, value_name = "on|off", value_parser = quantity::on_off(), default_value = "on", action = clap::ArgAction::Set)]
    follow_peers: bool,
    /// Afterwards test the first limiter of the processes, which continue to run, for up to 30 s
    ///
    /// Changes one thing outside of them for single windows, and restores it: the I/O scheduler, nr_requests or
    /// read-ahead of the disk, their CPU affinity, or the CPU quota of their cgroup. Without --duration, watches for 10 s first.
    #[arg(long, requires = "pid")]
    confirm: bool,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    page: PageArgs,
    /// Command to run and watch; fathom exits with its status
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn command(args: &Args) -> Result<ExitCode, String> {
    let time = args.time.or(args.count.and_then(|count| args.interval.checked_mul(count)));
    let time = time.or(args.confirm.then_some(BEFORE_TESTS));
    let mut end = StopCondition::new(&args.command, &args.pid, time)?;
    if let Some(code) = end.spawn_error() {
        return Ok(code);
    }
    let record = args.record.to();
    let files = record.check()?;
    let to = args.page.destination(files.iter().map(String::as_str))?;
    let options = SamplingOptions {
        level: args.sampling,
        scope: end.scope(),
        interval: args.interval,
        threads_hz: args.hz,
        each_io: args.each_io,
        ignores_peers: !args.follow_peers,
        ..SamplingOptions::default()
    };
    let tested =
        end.processes().filter(|_| args.confirm).map(|(pids, cancel)| (pids, cancel.clone()));
    let mut view = Summary { page: &args.page, to, is_command: !args.command.is_empty(), tested };
    observe(&options, &record, end, &args.command, &mut view)
}

pub struct Summary<'a> {
    pub page: &'a PageArgs,
    pub to: Option<Destination>,
    /// Whether standard output belongs to a command.
    pub is_command: bool,
    /// The processes whose verdict is tested, and what interrupts that.
    pub tested: Option<(Vec<i32>, CancelToken)>,
}

impl SampleView for Summary<'_> {
    fn judged(&mut self, record: &mut RunRecord) -> Result<(), String> {
        let Some((pids, cancel)) = &self.tested else { return Ok(()) };
        if !record.header.outcome.is_finished() {
            return Ok(());
        }
        let mut progress = MeasureView::of_experiment();
        let confirmed = experiment::confirm_watched(pids, record, cancel, &mut progress);
        progress.clear();
        confirmed.map_err(|why| format!("not confirmed: {why}"))
    }

    fn finish(&mut self, record: &RunRecord, observed: &Observed) -> Result<(), String> {
        let page = pages::watch(observed, record, self.page.verbose);
        let json = || json::text(&WatchResult::of(record, observed));
        match self.is_command && self.to.is_none() {
            true => self.page.print_to_stderr(&page, json),
            false => self.page.print(&page, json, self.to.as_ref()),
        }
    }
}

/// What is printed of samples, as they come or when they are read from a record.
pub trait SampleView {
    /// Sampling begins, without these sources.
    fn begin(&mut self, _missing: &[Unavailable]) {}

    /// Takes the next sample. Whether there may be another one.
    fn add(&mut self, _sample: &Sample) -> Result<bool, String> {
        Ok(true)
    }

    /// The record has its verdict, which may still be tested.
    fn judged(&mut self, _record: &mut RunRecord) -> Result<(), String> {
        Ok(())
    }

    fn finish(&mut self, record: &RunRecord, observed: &Observed) -> Result<(), String>;
}

/// Samples until `end`, records it and shows it in `view`. The exit status is that of `command`; without one, whether
/// everything was done.
pub fn observe(
    options: &SamplingOptions,
    to: &RecordTo,
    mut end: StopCondition,
    command: &[OsString],
    view: &mut dyn SampleView,
) -> Result<ExitCode, String> {
    signals::raise_limits();
    let mut notice = |text: &str| error!("{text}");
    let (mut session, mut record) = Session::observe(options, to, &mut notice)?;
    view.begin(session.sampling().map_or(&[], |sampling| &sampling.missing));
    // The command begins when there is a sample of the time before.
    let mut state = session.next(FIRST_SAMPLE).map_or(Ok(true), |sample| view.add(&sample));
    let began = Instant::now();
    end.begin()?;
    let mut lost = false;
    // A command runs to its end even if it cannot be recorded.
    while !end.is_met()?
        && (end.is_command() || matches!(state, Ok(true)) && !lost && !session.has_panicked())
    {
        if let Some(sample) = session.next(TICK) {
            state = state.and_then(|_| view.add(&sample));
        }
        if let Some(error) = session.take_error() {
            error!("{error}");
            lost = session.required;
        }
    }
    let path = session.record_dir().map(Path::to_path_buf);
    let ran = end.command(command, began);
    let rest = session.end(&mut record, ran, end.interrupted());
    let judged = view.judged(&mut record);
    let shown = state
        .and_then(|_| rest.iter().try_for_each(|sample| view.add(sample).map(drop)))
        .and_then(|()| view.finish(&record, session.observed()))
        .and(judged);
    let code = end.exit_code(shown);
    // After the result is printed: the record's disk may be full, or stall.
    let finished = session.finish(&mut record, |record| &mut record.header, Ok(()), &mut notice);
    if let Err(error) = &finished {
        error!("{error}");
    }
    if let Some(path) = path.filter(|_| options.view.is_none() || std::io::stderr().is_terminal()) {
        stdio::info(&format!("record: {}", escape::path(&path)));
    }
    // The command's own failure takes precedence.
    let failed = finished.is_err() && code == ExitCode::SUCCESS;
    Ok(if failed { ExitCode::FAILURE } else { code })
}
