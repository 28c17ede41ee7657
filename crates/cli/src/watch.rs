//! `fathom watch`: the whole machine, or a program, from now to its end, into one record.

pub mod child;
mod recording;

pub use recording::{NewRecording, Recording};

use crate::folder::read::Reader;
use crate::quantity;
use crate::session;
use crate::session::watching::{self, Watch, Watching};
use crate::signals::Signals;
use child::Watched;
use fathom_machine::Roots;
use fathom_model::record::RECORD_VERSION;
use fathom_model::watch::{CommandRecord, Level, WatchRecord};
use fathom_model::{Facts, RunRecord};
use fathom_watch::Scope;
use fathom_watch::threads::HZ_MAX;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
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
    let mut end = End::new(args)?;
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
    let mut told = false;
    while !end.has_come()? && can_go_on(&recording, &watching, &end) {
        if let Some(sample) = watching.next(TICK) {
            told |= complain(recording.keep(&sample));
        }
    }
    let (rest, watched) = watching.stop();
    for sample in rest {
        told |= complain(recording.keep(&sample));
    }
    let path = recording.path().to_path_buf();
    let ended = recording.end(WatchRecord { command: end.command(args, began), ..watched });
    tell(&path, end.is_command())?;
    let failed = if told { ended.is_err() } else { complain(ended) };
    // The command's own failure says more.
    Ok(if failed && end.code() == ExitCode::SUCCESS { ExitCode::FAILURE } else { end.code() })
}

/// Says what is wrong; whether something is.
fn complain(result: Result<(), String>) -> bool {
    result.map_err(|error| eprintln!("fathom: {error}")).is_err()
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
fn tell(folder: &Path, is_command: bool) -> Result<(), String> {
    let mut reader = Reader::open(folder)?;
    let mut seen = fathom_analysis::watch::Seen::default();
    while let Some(moment) = reader.forward()? {
        seen.add(&moment.sample);
    }
    let record = reader.record().clone();
    let mut text = fathom_report::watch::render(&seen, &record, reader.stacks()?);
    text += &format!("record: {}\n", folder.display());
    if is_command {
        eprint!("{text}");
        Ok(())
    } else {
        crate::output::help(&text)
    }
}

/// What ends the watching.
struct End {
    child: Option<Watched>,
    processes: Vec<Process>,
    /// Taken where there is no command: that one gets the signals itself.
    signals: Option<Signals>,
    time: Option<Duration>,
    until: Option<Instant>,
}

impl End {
    fn new(args: &Args) -> Result<Self, String> {
        let child =
            if args.command.is_empty() { None } else { Some(Watched::hold(&args.command)?) };
        let signals = match child {
            None => Some(Signals::take().map_err(|e| format!("cannot take signals: {e}"))?),
            Some(_) => None,
        };
        let processes = Process::find_all(&args.pid)?;
        Ok(Self { child, processes, signals, time: args.time, until: None })
    }

    fn scope(&self) -> Scope {
        let child = self.child.iter().map(|child| child.id().as_raw_nonzero().get());
        let pids: Vec<i32> = child.chain(self.processes.iter().map(|p| p.pid)).collect();
        if pids.is_empty() { Scope::Machine } else { Scope::Trees(pids) }
    }

    fn begin(&mut self) -> Result<(), String> {
        self.until = self.time.and_then(|time| Instant::now().checked_add(time));
        self.child.as_mut().map_or(Ok(()), Watched::release)
    }

    fn has_come(&mut self) -> Result<bool, String> {
        if let Some(child) = &mut self.child {
            return Ok(child.ended()?.is_some());
        }
        let stopped = self.signals.as_ref().is_some_and(|signals| signals.caught().is_some());
        let ended = !self.processes.is_empty() && !self.processes.iter().any(Process::is_alive);
        Ok(stopped || ended || self.until.is_some_and(|until| Instant::now() >= until))
    }

    fn is_command(&self) -> bool {
        self.child.is_some()
    }

    fn command(&mut self, args: &Args, began: Instant) -> Option<CommandRecord> {
        let (status, at) = self.child.as_mut()?.ended().ok()??;
        Some(CommandRecord {
            argv: args.command.iter().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            elapsed_ns: at.saturating_duration_since(began).as_nanos() as u64,
            status: Some(child::code(status)),
        })
    }

    fn code(&mut self) -> ExitCode {
        let ended = self.child.as_mut().and_then(|child| child.ended().ok().flatten());
        ended.map_or(ExitCode::SUCCESS, |(status, _)| ExitCode::from(child::code(status) as u8))
    }
}

/// A process, told from a later one with its number.
pub struct Process {
    pid: i32,
    stat: PathBuf,
    started: String,
}

impl Process {
    /// Those with these numbers, as `--pid` gives them.
    ///
    /// # Errors
    /// Names the first that does not run.
    pub fn find_all(pids: &[i32]) -> Result<Vec<Self>, String> {
        pids.iter().map(|pid| Self::find(*pid)).collect()
    }

    fn find(pid: i32) -> Result<Self, String> {
        let stat = Roots::default().proc.join(pid.to_string()).join("stat");
        let text = std::fs::read_to_string(&stat).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("--pid {pid}: there is no such process; name one that runs")
            }
            _ => format!("--pid {pid}: {}: {error}", stat.display()),
        })?;
        let started = started(&text).ok_or(format!("--pid {pid}: this process has ended"))?;
        Ok(Self { pid, started, stat })
    }

    fn is_alive(&self) -> bool {
        let text = std::fs::read_to_string(&self.stat).ok();
        text.and_then(|text| started(&text)).is_some_and(|started| started == self.started)
    }
}

/// When a process began, by /proc/PID/stat; `None` for one that has ended and is only kept for its
/// parent.
fn started(stat: &str) -> Option<String> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then_some(())?;
    // Field 22 of the line; the state is field 3.
    fields.nth(18).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start() {
        let line = "7 (a) Z) S 1 7 7 0 -1 4 9 0 0 0 1 2 0 0 20 0 1 0 4711 1 1 1";
        assert_eq!(started(line).as_deref(), Some("4711"));
        assert_eq!(started(&line.replace(") S 1", ") Z 1")), None);
        assert_eq!(started("7 (a"), None);
        let own = Process::find(std::process::id() as i32).unwrap();
        assert!(own.is_alive());
        assert!(!Process { started: "1".into(), ..own }.is_alive());
        assert!(Process::find(i32::MAX).err().unwrap().contains("--pid 2147483647"));
    }
}
