//! Cancellation of a run from outside, such as by a signal handler.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

/// Signals by number, as they are reported.
const SIGNALS: [(usize, &str); 4] =
    [(1, "SIGHUP"), (2, "SIGINT"), (15, "SIGTERM"), (LOST_RANK, "the loss of another rank")];
/// No signal has this number.
const LOST_RANK: usize = 1 << 16;

/// Requests a run to end early with a valid result. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicUsize>, Arc<OnceLock<&'static str>>);

impl CancelToken {
    pub fn cancel(&self) {
        self.0.store(usize::MAX, Relaxed);
    }

    /// The same, because another rank is gone: `who`, if that is known.
    pub(crate) fn cancel_for_lost_rank(&self, who: Option<&str>) {
        if let Some(who) = who {
            // A process loses others once.
            self.1.get_or_init(|| format!("the loss of {who}").leak());
        }
        let _ = self.0.compare_exchange(0, LOST_RANK, Relaxed, Relaxed);
    }

    /// Where a signal handler stores the number of the signal that cancels, as it may do nothing else.
    pub fn signal(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.0)
    }

    /// What cancelled the run, such as `SIGINT`, if anything did.
    pub fn reason(&self) -> Option<&'static str> {
        let number = self.0.load(Relaxed);
        if let (LOST_RANK, Some(lost)) = (number, self.1.get()) {
            return Some(lost);
        }
        let named = SIGNALS.iter().find(|(signal, _)| *signal == number);
        (number != 0).then(|| named.map_or("the caller", |(_, name)| name))
    }
}
