//! A command that is observed from its first instruction.

use crate::stdio::error;
use fathom_model::escape;
use rustix::fs::Access;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, getppid, kill_process,
    set_parent_process_death_signal, waitid,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

/// The name of the hidden command that executes the observed one.
pub const EXEC_STOPPED: &str = "exec-stopped";

/// A started command. Killed if dropped before it was released.
pub struct WatchedCommand {
    child: Child,
    signals: Option<Signals>,
    /// When it ended, set by a thread that waits for it.
    ended_at: Arc<OnceLock<Instant>>,
    ended: Option<(ExitStatus, Instant)>,
}

impl WatchedCommand {
    /// Starts `argv`, stopped before its first instruction until [`WatchedCommand::release`].
    pub fn hold(argv: &[OsString]) -> Result<Self, String> {
        let fail = |error: io::Error| format!("cannot start {}: {error}", escape::path(&argv[0]));
        let mut command = Command::new("/proc/self/exe");
        command.arg(EXEC_STOPPED).arg(std::process::id().to_string()).arg("--").args(argv);
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!(
                "cannot start {}: fathom needs /proc for that; mount it: mount -t proc proc /proc",
                escape::path(&argv[0])
            ),
            _ => fail(error),
        })?;
        let this = Self { child, signals: None, ended_at: Arc::default(), ended: None };
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(this.id()), stopped).map_err(|e| fail(e.into()))?;
        Ok(this)
    }

    pub fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Resumes it. From then on, signals are forwarded to it.
    pub fn release(&mut self) -> Result<(), String> {
        let passed = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
        let signals =
            Signals::new(passed).map_err(|e| format!("cannot install signal handlers: {e}"))?;
        self.signals = Some(signals);
        let (id, at) = (self.id(), Arc::clone(&self.ended_at));
        let wait = move || {
            if waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).is_ok() {
                // Only this thread sets it.
                let _ = at.set(Instant::now());
            }
        };
        // Without the thread, the end is noticed at the next check.
        let _ = thread::Builder::new().name("fathom-wait".into()).spawn(wait);
        // An error means that it has been killed, which is noticed later.
        let _ = kill_process(self.id(), Signal::CONT);
        Ok(())
    }

    /// How and when it ended, if it has; until then, forwards signals to it.
    pub fn ended(&mut self) -> Result<Option<(ExitStatus, Instant)>, String> {
        let id = self.id();
        if self.ended.is_none() {
            // Not reaped, so that samplers can read its final counters.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            let ended = waitid(WaitId::Pid(id), options);
            let ended = ended.map_err(|e| format!("cannot wait for the command: {e}"))?;
            let at = || self.ended_at.get().copied().unwrap_or_else(Instant::now);
            self.ended = ended.map(|ended| (status(&ended), at()));
        }
        let pending = self.signals.iter_mut().flat_map(Signals::pending);
        for signal in pending.collect::<Vec<i32>>() {
            let from_terminal = matches!(signal, SIGINT | SIGQUIT) && in_foreground();
            // The terminal has sent the signal to the command as well.
            if let (None, false, Some(signal)) =
                (self.ended, from_terminal, Signal::from_named_raw(signal))
            {
                let _ = kill_process(id, signal);
            }
        }
        Ok(self.ended)
    }
}

impl Drop for WatchedCommand {
    fn drop(&mut self) {
        if self.signals.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // Reaps a command that has ended.
        let _ = self.child.try_wait();
    }
}

/// How a process ended, in the encoding of wait(2).
fn status(ended: &WaitIdStatus) -> ExitStatus {
    let signal = ended.terminating_signal();
    ExitStatus::from_raw(signal.unwrap_or_else(|| ended.exit_status().unwrap_or(0) << 8))
}

fn in_foreground() -> bool {
    let terminal = File::open("/dev/tty").ok();
    let group = terminal.and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
    group.is_some_and(|group| group == rustix::process::getpgrp())
}

/// A command's exit status, or 128 plus the number of the signal that ended it, as in shells.
pub fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Arguments of the hidden command that [`WatchedCommand::hold`] starts.
#[derive(clap::Args)]
pub struct ExecStoppedArgs {
    parent: i32,
    /// The command.
    #[arg(required = true, last = true)]
    argv: Vec<OsString>,
}

/// Stops until released, then executes the command. Returns only if that fails.
pub fn exec_stopped(args: &ExecStoppedArgs) -> Result<ExitCode, String> {
    let fail = |error: rustix::io::Errno| format!("cannot wait for the watching process: {error}");
    if let Err(error) = executable(&args.argv[0]) {
        return Ok(cannot_run(&args.argv[0], &error));
    }
    // If the watching process is killed, nothing would resume this one.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(fail)?;
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(args.parent) {
        return Ok(ExitCode::FAILURE);
    }
    kill_process(getpid(), Signal::STOP).map_err(fail)?;
    set_parent_process_death_signal(None).map_err(fail)?;
    let error = Command::new(&args.argv[0]).args(&args.argv[1..]).exec();
    Ok(cannot_run(&args.argv[0], &error))
}

/// Reports why a command cannot be run, and returns the exit status that shells and env(1) use for that.
fn cannot_run(program: &OsStr, error: &io::Error) -> ExitCode {
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    match is_missing {
        true => error!("command not found: {}", escape::path(program)),
        false => error!("cannot run {}: {error}", escape::path(program)),
    }
    ExitCode::from(if is_missing { 127 } else { 126 })
}

/// Checks that exec would find `program`, in `PATH` unless its name has a slash.
fn executable(program: &OsStr) -> io::Result<()> {
    let check = |path: &Path| Ok(rustix::fs::access(path, Access::EXEC_OK)?);
    if program.as_encoded_bytes().contains(&b'/') {
        return check(Path::new(program));
    }
    // Without PATH, exec uses a default of its own.
    let Some(path) = std::env::var_os("PATH") else { return Ok(()) };
    let found = std::env::split_paths(&path).map(|dir| check(&dir.join(program)));
    found.reduce(|one, other| one.or(other)).unwrap_or(Ok(()))
}
