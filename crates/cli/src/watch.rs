//! `fathom watch`: records the machine, or a program from now to its end.

mod child;
mod end;

pub use child::{HELD, HeldCommandArgs, held};
pub use end::{StopCondition, TICK};

use crate::page::{PageArgs, RecordArgs};
use crate::quantity;
use crate::stdio::{self, note};
use crate::{level, limits};
use fathom_model::escape;
use fathom_model::watch::Level;
use fathom_report::json::{self, WatchResult};
use fathom_report::pages;
use fathom_runner::SamplingOptions;
use fathom_runner::observe::Observer;
use fathom_watch::threads::HZ_MAX;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The first sample comes at once, unless the record's disk is slow.
const FIRST_SAMPLE: Duration = Duration::from_secs(5);

/// What `fathom watch` takes.
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
    #[arg(long, value_parser = level::parser(), default_value = "full")]
    sampling: Level,
    /// Trace every I/O (default: 1/16 of the time)
    ///
    /// Latencies and io_uring task work are then exact, but a fast device slows down by up to a quarter.
    #[arg(long)]
    each_io: bool,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    page: PageArgs,
    /// Command to run and watch; fathom exits with its status
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Watches. The exit status is that of the command; without one, 0 if everything was recorded.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let time = args.time.or(args.count.and_then(|count| args.interval.checked_mul(count)));
    let mut end = StopCondition::new(&args.command, &args.pid, time)?;
    if let Some(code) = end.never_began() {
        return Ok(code);
    }
    let record = args.record.to(true);
    let files = record.check()?;
    let to = args.page.destination(files.iter().map(String::as_str))?;
    let options = SamplingOptions {
        level: args.sampling,
        scope: end.scope(),
        interval: args.interval,
        threads_hz: args.hz,
        each_io: args.each_io,
        ..SamplingOptions::default()
    };
    limits::raise();
    let mut observer = Observer::start(&options, &record)?;
    // The command begins when there is a sample of the time before.
    observer.next(FIRST_SAMPLE);
    let began = Instant::now();
    end.begin()?;
    // A command runs to its end even if it cannot be recorded.
    let can_go_on = |observer: &Observer, failed: &Option<String>, end: &StopCondition| {
        end.is_command() || (failed.is_none() && !observer.has_panicked())
    };
    let mut failed = None;
    while !end.is_met()? && can_go_on(&observer, &failed, &end) {
        observer.next(TICK);
        failed = failed.or_else(|| observer.complaint().inspect(say));
    }
    let path = observer.record_dir().map(Path::to_path_buf);
    let command = end.command(&args.command, began);
    let observed = observer.finish(command, end.interrupted(), &mut |text| note!("{text}"));
    let new = observed.written.err().filter(|error| failed.as_ref() != Some(error));
    failed = new.inspect(say).or(failed);
    let page = pages::watch(&observed.observed, &observed.record, args.page.verbose);
    let json = || json::text(&WatchResult::of(&observed.record, &observed.observed));
    let shown = match end.is_command() && to.is_none() {
        // Standard output belongs to the command.
        true => args.page.print_to_stderr(&page, json),
        false => args.page.print(&page, json, to.as_ref()),
    };
    let code = end.exit_code(shown);
    if let Some(path) = path {
        stdio::remark(&format!("record: {}", escape::path(&path)));
    }
    // The command's own failure takes precedence.
    let failed = failed.is_some() && code == ExitCode::SUCCESS;
    Ok(if failed { ExitCode::FAILURE } else { code })
}

fn say(error: &String) {
    note!("{error}");
}
