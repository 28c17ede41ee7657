//! A command that is watched from its first instruction on.

use crate::stdio::note;
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

/// The name of the hidden command that becomes the watched one.
pub const HELD: &str = "held-command";

/// A command that was started. It is killed where it is dropped before it was released.
pub struct Watched {
    child: Child,
    signals: Option<Signals>,
    /// When it ended, by a thread that does nothing but wait for that.
    ended_at: Arc<OnceLock<Instant>>,
    ended: Option<(ExitStatus, Instant)>,
}

impl Watched {
    /// Starts `argv`, which waits before its first instruction until [`Watched::release`].
    ///
    /// # Errors
    /// When no process can be made.
    pub fn hold(argv: &[OsString]) -> Result<Self, String> {
        let fail = |error: io::Error| format!("cannot start {}: {error}", escape::path(&argv[0]));
        let mut command = Command::new("/proc/self/exe");
        command.arg(HELD).arg(std::process::id().to_string()).arg("--").args(argv);
        let child = command.spawn().map_err(fail)?;
        let this = Self { child, signals: None, ended_at: Arc::default(), ended: None };
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(this.id()), stopped).map_err(|e| fail(e.into()))?;
        Ok(this)
    }

    /// Its process.
    #[must_use]
    pub fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Lets it go. From here on signals are meant for it.
    ///
    /// # Errors
    /// When the kernel refuses the handlers of signals.
    pub fn release(&mut self) -> Result<(), String> {
        let passed = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
        let signals =
            Signals::new(passed).map_err(|e| format!("cannot install signal handlers: {e}"))?;
        self.signals = Some(signals);
        let (id, at) = (self.id(), Arc::clone(&self.ended_at));
        let wait = move || {
            if waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).is_ok() {
                // Set by nobody else.
                let _ = at.set(Instant::now());
            }
        };
        // Without it the end is known when it is looked for.
        let _ = thread::Builder::new().name("fathom-wait".into()).spawn(wait);
        // One that was killed meanwhile is seen to have ended.
        let _ = kill_process(self.id(), Signal::CONT);
        Ok(())
    }

    /// How and when it ended, if it has; passes signals on to it until then.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn ended(&mut self) -> Result<Option<(ExitStatus, Instant)>, String> {
        let id = self.id();
        if self.ended.is_none() {
            // Not waited for to its end: samplers read once more what it used.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            let ended = waitid(WaitId::Pid(id), options);
            let ended = ended.map_err(|e| format!("cannot wait for the command: {e}"))?;
            let at = || self.ended_at.get().copied().unwrap_or_else(Instant::now);
            self.ended = ended.map(|ended| (status(&ended), at()));
        }
        let pending = self.signals.iter_mut().flat_map(Signals::pending);
        for signal in pending.collect::<Vec<i32>>() {
            let from_terminal = matches!(signal, SIGINT | SIGQUIT) && in_foreground();
            // The terminal has sent it to the command too.
            if let (None, false, Some(signal)) =
                (self.ended, from_terminal, Signal::from_named_raw(signal))
            {
                let _ = kill_process(id, signal);
            }
        }
        Ok(self.ended)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.signals.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // One that has ended.
        let _ = self.child.try_wait();
    }
}

/// How a process ended, as wait(2) encodes it.
fn status(ended: &WaitIdStatus) -> ExitStatus {
    let signal = ended.terminating_signal();
    ExitStatus::from_raw(signal.unwrap_or_else(|| ended.exit_status().unwrap_or(0) << 8))
}

/// Whether what is typed at the terminal comes to this process.
fn in_foreground() -> bool {
    let terminal = File::open("/dev/tty").ok();
    let group = terminal.and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
    group.is_some_and(|group| group == rustix::process::getpgrp())
}

/// A command's status as shells give it: its own, or 128 and the number of the signal that ended it.
#[must_use]
pub fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// What [`Watched::hold`] starts.
#[derive(clap::Args)]
pub struct HeldArgs {
    /// The process that watches.
    parent: i32,
    /// The command.
    #[arg(required = true, last = true)]
    argv: Vec<OsString>,
}

/// Waits to be let go, then becomes the command. Returns only where there is no such command.
///
/// # Errors
/// When it cannot wait.
pub fn held(args: &HeldArgs) -> Result<ExitCode, String> {
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
        true => note!("command not found: {}", escape::path(program)),
        false => note!("cannot run {}: {error}", escape::path(program)),
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
