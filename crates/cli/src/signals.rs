//! SIGINT and SIGTERM: the first ends the work early with a valid result, the second ends at once.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A signal so soon after the first is taken for the same one: `timeout` sends each of its signals
/// to the process and once more to its group.
const ECHO: Duration = Duration::from_millis(200);

/// Which signal came first.
#[derive(Clone)]
pub struct Signals {
    first: Arc<AtomicI32>,
}

impl Signals {
    /// Begins to take signals.
    ///
    /// # Errors
    /// When the kernel refuses the handlers or the thread that waits for signals.
    pub fn take() -> io::Result<Self> {
        let this = Self { first: Arc::default() };
        let first = Arc::clone(&this.first);
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
        // A thread of its own, so that a second signal ends whatever the others are stuck in.
        thread::Builder::new().name("signals".into()).spawn(move || {
            let mut came: Option<Instant> = None;
            for signal in signals.forever() {
                match came {
                    None => {
                        came = Some(Instant::now());
                        first.store(signal, Ordering::Relaxed);
                    }
                    Some(at) if at.elapsed() < ECHO => {}
                    Some(_) => process::exit(128 + signal),
                }
            }
        })?;
        Ok(this)
    }

    /// The name of the signal that has come, if one has.
    #[must_use]
    pub fn caught(&self) -> Option<&'static str> {
        match self.first.load(Ordering::Relaxed) {
            SIGINT => Some("SIGINT"),
            SIGTERM => Some("SIGTERM"),
            _ => None,
        }
    }
}
