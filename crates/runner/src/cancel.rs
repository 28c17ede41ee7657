//! Cancellation of a run from outside, such as by a signal handler.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Signals by number, as they are reported.
const SIGNALS: [(usize, &str); 3] = [(1, "SIGHUP"), (2, "SIGINT"), (15, "SIGTERM")];

/// Requests a run to end early with a valid result. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicUsize>);

impl CancelToken {
    pub fn cancel(&self) {
        self.0.store(usize::MAX, Relaxed);
    }

    /// Where a signal handler stores the number of the signal that cancels, as it may do nothing else.
    pub fn signal(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.0)
    }

    /// What cancelled the run, such as `SIGINT`, if anything did.
    pub fn reason(&self) -> Option<&'static str> {
        let number = self.0.load(Relaxed);
        let named = SIGNALS.iter().find(|(signal, _)| *signal == number);
        (number != 0).then(|| named.map_or("the caller", |(_, name)| name))
    }
}
