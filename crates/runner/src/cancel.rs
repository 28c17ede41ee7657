//! Cancellation of a run from outside, such as by a signal handler.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Signals by number, as they are reported.
const SIGNALS: [(usize, &str); 4] =
    [(1, "SIGHUP"), (2, "SIGINT"), (15, "SIGTERM"), (LOST_RANK, "the loss of another rank")];
/// No signal has this number.
const LOST_RANK: usize = 1 << 16;

/// Requests a run to end early with a valid result. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicUsize>);

impl CancelToken {
    pub fn cancel(&self) {
        self.0.store(usize::MAX, Relaxed);
    }

    /// The same, because another rank is gone.
    pub(crate) fn cancel_for_lost_rank(&self) {
        let _ = self.0.compare_exchange(0, LOST_RANK, Relaxed, Relaxed);
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
