//! `fathom watch`: the whole machine, or a program, from now to its end, into one record.

mod child;
mod end;

pub use child::{HELD, HeldArgs, held};
pub use end::{End, TICK};

use crate::page::PageArgs;
use crate::quantity;
use crate::stdio::{self, note};
use crate::{level, limits};
use fathom_analysis::watch::ObservedTotals;
use fathom_model::escape;
use fathom_model::progress::Sample;
use fathom_model::watch::Level;
use fathom_report::pages::{self, Observed};
use fathom_runner::observe::Observer;
use fathom_runner::{RecordTo, SamplingOptions};
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
    /// Watch this process and its descendants until it ends: by ID, or by part of its name; may be repeated.
    #[arg(short, long, value_name = "PID|PATTERN", conflicts_with = "command")]
    pid: Vec<String>,
    /// End after this time, such as 60s or 5m.
    #[arg(short = 't', long = "duration", value_name = "TIME", value_parser = quantity::time, conflicts_with = "command")]
    time: Option<Duration>,
    /// Between two samples, 50ms to 1h.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = quantity::interval)]
    interval: Duration,
    /// Thread samples per second, 1 to 100; by default a rate that costs at most 0.5% of the CPUs.
    #[arg(short = 'F', long = "frequency", value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=i64::from(HZ_MAX)))]
    hz: Option<u32>,
    /// How much to sample.
    #[arg(long, value_parser = level::parser(), default_value = "full")]
    sampling: Level,
    /// Trace the events of every I/O and of io_uring's task work all the time instead of for a sixteenth of it:
    /// exact, but slows fast devices by up to a quarter.
    #[arg(long)]
    each_io: bool,
    /// Run directory for the record, instead of a new one among your runs.
    #[arg(long, value_name = "DIR")]
    record: Option<String>,
    /// Keep no record.
    #[arg(long, conflicts_with = "record")]
    no_record: bool,
    #[command(flatten)]
    page: PageArgs,
    /// The command to run and watch; fathom exits with its status.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Watches. The exit status is that of the command; without one, 0 where all was recorded.
///
/// # Errors
/// Why nothing was watched, or not all of it recorded.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let mut end = End::new(&args.command, &args.pid, args.time)?;
    let record = match args.no_record {
        true => RecordTo::Nowhere,
        false => RecordTo::Required(args.record.clone()),
    };
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
    let first = observer.next(FIRST_SAMPLE);
    let began = Instant::now();
    end.begin()?;
    // A command runs to its end whether it can be recorded or not.
    let can_go_on = |observer: &Observer, failed: &Option<String>, end: &End| {
        end.is_command() || (failed.is_none() && !observer.has_panicked())
    };
    let (mut failed, mut seen, mut stacks) = (None, ObservedTotals::default(), Vec::new());
    let mut add = |sample: &Sample| {
        seen.add(sample);
        let new = sample.machine.stacks.iter().flat_map(|stacks| &stacks.new);
        stacks.extend(new.cloned());
    };
    first.iter().for_each(&mut add);
    while !end.has_come()? && can_go_on(&observer, &failed, &end) {
        observer.next(TICK).iter().for_each(&mut add);
        failed = failed.or_else(|| observer.complaint().inspect(say));
    }
    let path = observer.record_dir().map(Path::to_path_buf);
    let command = end.command(&args.command, began);
    let observed = observer.finish(command, end.interrupted(), &mut |text| note!("{text}"));
    observed.rest.iter().for_each(&mut add);
    let new = observed.written.err().filter(|error| failed.as_ref() != Some(error));
    failed = new.inspect(say).or(failed);
    let page = pages::watch(
        &Observed { seen: &seen, stacks: &stacks },
        &observed.record,
        args.page.verbose,
    );
    let shown = match end.is_command() && to.is_none() {
        // Standard output is the command's.
        true => args.page.print_beside(&page),
        false => args.page.print(&page, None, to.as_ref()),
    };
    let code = end.code_if(shown);
    if let Some(path) = path {
        stdio::remark(&format!("record: {}", escape::path(&path)));
    }
    // The command's own failure says more.
    let failed = failed.is_some() && code == ExitCode::SUCCESS;
    Ok(if failed { ExitCode::FAILURE } else { code })
}

fn say(error: &String) {
    note!("{error}");
}
