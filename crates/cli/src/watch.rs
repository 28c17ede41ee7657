//! `fathom watch`: the whole machine, or a program, from now to its end, into one record.

mod child;
mod end;
mod recording;

pub use child::{HELD, HeldArgs, held};
pub use end::{End, Process};
pub use recording::{NewRecording, Recording};

use crate::output;
use crate::quantity;
use crate::session;
use crate::session::watching::{self, Watch, Watching};
use crate::stdio::{Kind, note};
use fathom_machine::Roots;
use fathom_model::escape;
use fathom_model::progress::Sample;
use fathom_model::record::RECORD_VERSION;
use fathom_model::watch::{Level, WatchRecord};
use fathom_model::{Facts, RunRecord};
use fathom_store::Reader;
use fathom_watch::threads::HZ_MAX;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Between two looks whether what is watched has ended.
const TICK: Duration = Duration::from_millis(20);
/// What a record says until it is whole.
pub const UNFINISHED: &str = "watching did not end: it was killed, or the machine stopped";

/// What `fathom watch` takes.
#[derive(clap::Args)]
pub struct Args {
    /// Watch this process and all that descend from it until it ends; can be given more than once.
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Vec<i32>,
    /// End after this time, such as 60s or 5m.
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::time, conflicts_with = "command")]
    time: Option<Duration>,
    /// Between two samples, 50ms to 1h.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = quantity::interval)]
    interval: Duration,
    /// Look at threads so many times a second, 1 to 100, instead of as often as suits the machine.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(HZ_MAX)))]
    hz: Option<u32>,
    /// How much to watch.
    #[arg(long, value_parser = watching::level(), default_value = "full")]
    level: Level,
    /// Count what comes with each I/O, or each run of io_uring's task work, all the time instead of a
    /// sixteenth of it: exact, but slows fast devices by up to a quarter.
    #[arg(long)]
    each_io: bool,
    /// Keep the record in this folder instead of among your runs.
    #[arg(short = 'o', long, value_name = "DIR")]
    record: Option<String>,
    /// The command to run and to watch; its exit status becomes that of fathom.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Watches. The exit status is that of the command; without one, 0 where all was recorded.
///
/// # Errors
/// Why nothing was watched, or not all of it recorded.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let mut end = End::new(&args.command, &args.pid, args.time)?;
    let recording = NewRecording::create(args.record.as_deref())?;
    session::raise_limits();
    let watch = Watch {
        level: args.level,
        scope: end.scope(),
        interval: args.interval,
        threads_hz: args.hz,
        each_io: args.each_io,
        ..Watch::default()
    };
    let mut watching = Watching::start(&watch)?;
    let mut recording = recording.begin(&watching)?;
    let began = Instant::now();
    end.begin()?;
    // A command goes on to its end whether it can be recorded or not.
    let can_go_on = |recording: &Recording, watching: &Watching, end: &End| {
        end.is_command() || !(recording.has_failed() || watching.has_broken())
    };
    let mut failed = None;
    while !end.has_come()? && can_go_on(&recording, &watching, &end) {
        let seen = if recording.has_room() { watching.next(TICK) } else { wait() };
        seen.iter().for_each(|sample| recording.keep(sample));
        failed = failed.or_else(|| recording.complaint().inspect(say));
    }
    let (rest, watched) = watching.stop();
    rest.iter().for_each(|sample| recording.keep(sample));
    let path = recording.path().to_path_buf();
    let watched = WatchRecord { command: end.command(&args.command, began), ..watched };
    let (record, ended) = recording.end(watched, end.interrupted());
    failed = ended.err().filter(|error| failed.as_ref() != Some(error)).inspect(say).or(failed);
    let code = end.code_if(tell(&path, &record, end.is_command()));
    // The command's own failure says more.
    let failed = failed.is_some() && code == ExitCode::SUCCESS;
    Ok(if failed { ExitCode::FAILURE } else { code })
}

fn say(error: &String) {
    note!("{error}");
}

/// In place of a sample that is better not taken yet.
fn wait() -> Option<Sample> {
    std::thread::sleep(TICK);
    None
}

/// A record that knows where and when it began, and nothing of what was seen.
pub fn new_record() -> RunRecord {
    RunRecord {
        record_version: RECORD_VERSION,
        fathom_version: env!("CARGO_PKG_VERSION").to_string(),
        command: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
        started_unix_ns: fathom_engine::clock::unix_ns(),
        facts: Facts { host: fathom_machine::host(&Roots::default()), targets: Vec::new() },
        ..RunRecord::default()
    }
}

/// Shows what was seen: on standard error where standard output is the command's.
fn tell(folder: &Path, record: &RunRecord, is_command: bool) -> Result<(), String> {
    let mut reader = Reader::open(folder)?;
    let mut seen = fathom_analysis::watch::Seen::default();
    while let Some(moment) = reader.forward()? {
        seen.add(&moment.sample);
    }
    let mut text = fathom_report::watch::render(&seen, record, reader.stacks()?);
    text += &format!("record: {}\n", escape::path(folder));
    if is_command {
        output::emit_beside(&text, Kind::Lines)
    } else {
        output::emit(&text, Kind::Lines, None)
    }
}
