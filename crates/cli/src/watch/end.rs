//! What ends an observation, and which processes it observes.

use super::child::{self, WatchedCommand};
use crate::quantity;
use crate::signals::{self, Signals};
use crate::stdio::error;
use fathom_machine::Roots;
use fathom_model::watch::CommandRecord;
use fathom_runner::CancelToken;
use fathom_watch::{Process, Scope};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Time between checks for the end.
pub const TICK: Duration = Duration::from_millis(20);

pub struct StopCondition {
    child: Option<WatchedCommand>,
    processes: Vec<Process>,
    /// Handled unless there is a command, which gets the signals itself.
    signals: Option<Signals>,
    time: Option<Duration>,
    began: Instant,
    interrupted: Option<&'static str>,
}

impl StopCondition {
    /// The end of `command`, which waits to be released; if that is empty, the end of all processes `named` by
    /// `--pid`, of `time`, or a signal.
    pub fn new(
        command: &[OsString],
        named: &[String],
        time: Option<Duration>,
    ) -> Result<Self, String> {
        let child = if command.is_empty() { None } else { Some(WatchedCommand::hold(command)?) };
        let signals = match child {
            None => Some(Signals::take()?),
            Some(_) => None,
        };
        let processes = Process::named(&Roots::default().proc, named)?;
        let (began, interrupted) = (Instant::now(), None);
        Ok(Self { child, processes, signals, time, began, interrupted })
    }

    /// The exit status of a command that cannot be executed.
    pub fn spawn_error(&mut self) -> Option<ExitCode> {
        let (status, _) = self.child.as_mut()?.ended().ok()??;
        Some(ExitCode::from(child::code(status) as u8))
    }

    pub fn scope(&self) -> Scope {
        let child = self.child.iter().map(|child| child.id().as_raw_nonzero().get());
        let pids: Vec<i32> = child.chain(self.processes.iter().map(|p| p.pid)).collect();
        if pids.is_empty() { Scope::Machine } else { Scope::Trees(pids) }
    }

    /// The processes that `--pid` names, and what a signal cancels; `None` without any.
    pub fn processes(&self) -> Option<(Vec<i32>, &CancelToken)> {
        let pids: Vec<i32> = self.processes.iter().map(|process| process.pid).collect();
        let cancel = self.signals.as_ref()?.cancel_token();
        (!pids.is_empty()).then_some((pids, cancel))
    }

    /// Starts the duration, and releases the command.
    pub fn begin(&mut self) -> Result<(), String> {
        self.began = Instant::now();
        self.child.as_mut().map_or(Ok(()), WatchedCommand::release)
    }

    /// Whether the end has come; until then, forwards signals to the command.
    pub fn is_met(&mut self) -> Result<bool, String> {
        if let Some(child) = &mut self.child {
            return Ok(child.ended()?.is_some());
        }
        let took = self.began.elapsed();
        let ended = !self.processes.is_empty() && !self.processes.iter().any(Process::is_alive);
        if ended || self.time.is_some_and(|time| took >= time) {
            return Ok(true);
        }
        let Some(signal) = self.signals.as_ref().and_then(Signals::caught) else {
            return Ok(false);
        };
        // Without a time, a signal is the regular end.
        if let Some(time) = self.time.filter(|_| self.interrupted.is_none()) {
            self.interrupted = Some(signal);
            signals::interrupted(signal, &quantity::shown(took), &quantity::shown(time));
        }
        Ok(true)
    }

    /// The signal that ended the observation early, if any.
    pub fn interrupted(&self) -> Option<&'static str> {
        self.interrupted
    }

    pub fn is_command(&self) -> bool {
        self.child.is_some()
    }

    /// How the command `argv`, which was released at `began`, ended.
    pub fn command(&mut self, argv: &[OsString], began: Instant) -> Option<CommandRecord> {
        let (status, at) = self.child.as_mut()?.ended().ok()??;
        Some(CommandRecord {
            argv: argv.iter().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            elapsed_ns: at.saturating_duration_since(began).as_nanos() as u64,
            status: Some(child::code(status)),
        })
    }

    /// The exit status. If the result could not be `shown`, reports that and returns a failure.
    pub fn exit_code(&mut self, shown: Result<(), String>) -> ExitCode {
        match (shown, self.code()) {
            (Err(error), code) => {
                error!("{error}");
                // The command's own failure takes precedence.
                if code == ExitCode::SUCCESS { ExitCode::FAILURE } else { code }
            }
            (Ok(()), code) => code,
        }
    }

    /// The command's status; without a command, whether the requested duration was completed.
    fn code(&mut self) -> ExitCode {
        if self.interrupted.is_some() {
            return ExitCode::FAILURE;
        }
        let ended = self.child.as_mut().and_then(|child| child.ended().ok().flatten());
        ended.map_or(ExitCode::SUCCESS, |(status, _)| ExitCode::from(child::code(status) as u8))
    }
}
