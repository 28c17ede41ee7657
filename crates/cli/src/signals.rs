//! SIGINT and SIGTERM: the first ends the work early with a valid result, the second ends at once.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which signals have come.
#[derive(Clone)]
pub struct Signals {
    interrupt: Arc<AtomicBool>,
    terminate: Arc<AtomicBool>,
}

impl Signals {
    /// Begins to take signals.
    ///
    /// # Errors
    /// When the kernel refuses the handlers.
    pub fn take() -> io::Result<Self> {
        let this = Self { interrupt: Arc::default(), terminate: Arc::default() };
        let any = Arc::new(AtomicBool::new(false));
        for (signal, flag) in [(SIGINT, &this.interrupt), (SIGTERM, &this.terminate)] {
            // In this order the first signal passes and only a second one of either kind exits.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&any),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&any))?;
            signal_hook::flag::register(signal, Arc::clone(flag))?;
        }
        Ok(this)
    }

    /// The name of the signal that has come, if one has.
    #[must_use]
    pub fn caught(&self) -> Option<&'static str> {
        if self.interrupt.load(Ordering::Relaxed) {
            Some("SIGINT")
        } else if self.terminate.load(Ordering::Relaxed) {
            Some("SIGTERM")
        } else {
            None
        }
    }
}
