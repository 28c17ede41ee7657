//! SIGINT, SIGTERM and SIGHUP: the first ends the run early with a valid result, a second one ends it immediately. Also
//! the resource limits of this process.

use crate::stdio::error;
use fathom_runner::CancelToken;
use fathom_runner::experiment::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::{flag, iterator};
use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A second signal within this time is ignored: `timeout` sends each signal to the process and again to its group.
const ECHO: Duration = Duration::from_millis(200);
const TAKEN: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Makes writes beyond RLIMIT_FSIZE fail with an error that can be reported, instead of ending the program with
/// SIGXFSZ. Commands that fathom starts get the default action.
pub fn fail_writes_beyond_limits() {
    // If the handler is refused, the signal ends the program.
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Raises the limits of open files and locked memory to their maximum, and returns the previous ones.
pub fn raise_limits() -> Limits {
    let raise = |resource: Resource| {
        let limit = getrlimit(resource);
        // If that is refused, whatever needs more reports it.
        let _ = setrlimit(resource, Rlimit { current: limit.maximum, maximum: limit.maximum });
        (resource, limit)
    };
    [Resource::Nofile, Resource::Memlock].map(raise).to_vec()
}

#[derive(Clone)]
pub struct Signals {
    cancel: CancelToken,
}

impl Signals {
    /// Installs the handlers. SIGHUP stays ignored under `nohup`.
    pub fn take() -> Result<Self, String> {
        let taken = TAKEN.into_iter().filter(|signal| *signal != SIGHUP || !is_ignored(SIGHUP));
        let taken: Vec<i32> = taken.collect();
        let this = Self { cancel: CancelToken::default() };
        if this.wait_in_thread(&taken).is_err() {
            // Without the thread, a second signal has no effect.
            for signal in taken {
                flag::register_usize(signal, this.cancel.signal(), signal as usize)
                    .map_err(|e| format!("cannot install signal handlers: {e}"))?;
            }
        }
        Ok(this)
    }

    /// Hydra sends SIGUSR1 when another rank was killed, which would end this one. Which one, the ranks find out.
    pub fn ignore_loss(&self) -> Result<(), String> {
        let ignored = flag::register(SIGUSR1, Arc::default());
        ignored.map(|_| ()).map_err(|e| format!("cannot install signal handlers: {e}"))
    }

    /// Waits for signals in a separate thread, so that a second one ends the program even if other threads hang.
    fn wait_in_thread(&self, taken: &[i32]) -> io::Result<()> {
        let first = self.cancel.signal();
        let mut signals = iterator::Signals::new(taken)?;
        thread::Builder::new().name("fathom-signals".into()).spawn(move || {
            let mut came: Option<Instant> = None;
            for signal in signals.forever() {
                match came {
                    None => {
                        came = Some(Instant::now());
                        first.store(signal as usize, Ordering::Relaxed);
                    }
                    Some(at) if at.elapsed() < ECHO => {}
                    // A closing terminal causes several: from the kernel and from the shell.
                    Some(_) if signal == SIGHUP => {}
                    #[allow(
                        clippy::disallowed_methods,
                        reason = "ends threads stuck in the kernel"
                    )]
                    Some(_) => process::exit(128 + signal),
                }
            }
        })?;
        Ok(())
    }

    pub fn caught(&self) -> Option<&'static str> {
        self.cancel.reason()
    }

    pub fn cancel_token(&self) -> &CancelToken {
        &self.cancel
    }
}

/// Reports that a signal ended the run early, and how much of it is `done`.
pub fn interrupted(signal: &str, done: &str, asked: &str) {
    error!("interrupted by {signal} after {done} of {asked}");
}

/// Whether a signal was ignored when the program started, from /proc/self/status.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status) & (1 << (signal - 1)) != 0
}

/// The mask of ignored signals in a process's status.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_of_the_status() {
        let status =
            "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t00000001800004e8\n";
        assert_eq!(ignored(status), 0x1001);
        assert_eq!(ignored(""), 0);
        // Rust's runtime ignores it.
        assert!(is_ignored(signal_hook::consts::SIGPIPE) && !is_ignored(SIGXFSZ));
    }
}
