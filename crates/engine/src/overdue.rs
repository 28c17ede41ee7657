//! Detects workers that run past their deadline.

use crate::stats::Shared;
use fathom_model::Dir;
use fathom_model::progress::Phase;
use std::sync::atomic::Ordering::Acquire;

/// A worker notices its deadline by itself within this time.
const GRACE_NS: u64 = 500_000_000;
/// An overdue worker without progress for this long is stuck. Longer than a worker waits for its I/Os in
/// flight.
const STUCK_NS: u64 = 9_000_000_000;

/// Deadline state of one worker.
#[derive(Default)]
pub(crate) struct Overdue {
    /// While it is overdue: its amount of work, and the time since which that has not grown.
    idle: Option<(u64, u64)>,
}

impl Overdue {
    /// Checks the worker; returns whether it should have ended by now.
    pub fn is_over(&mut self, shared: &Shared, now_ns: u64) -> bool {
        let deadline = shared.deadline_ns.load(Acquire);
        let late = deadline > 0 && now_ns > deadline.saturating_add(GRACE_NS);
        // A final flush may take as long as the device needs, unless a stop is requested.
        let over = shared.is_stopping() || (late && shared.phase() != Phase::Finishing);
        let done = work_done(shared);
        self.idle = match self.idle {
            Some((before, since)) if over && before == done => Some((before, since)),
            _ => over.then_some((done, now_ns)),
        };
        over
    }

    /// Whether it is overdue and has made no progress for [`STUCK_NS`].
    pub fn is_stuck(&self, now_ns: u64) -> bool {
        self.idle.is_some_and(|(_, since)| now_ns.saturating_sub(since) > STUCK_NS)
    }
}

/// Grows with every completion of the worker.
fn work_done(shared: &Shared) -> u64 {
    let of = |dir: &Dir| {
        let counts = shared.stats.dirs[*dir].counts();
        counts.ios + counts.errors + counts.short_ios
    };
    Dir::ALL.iter().map(of).sum::<u64>() + shared.stats.flushes.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Release;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_silent_worker_is_stuck_and_a_busy_one_is_not() {
        let (shared, mut overdue) = (Shared::default(), Overdue::default());
        shared.deadline_ns.store(10 * S, Release);
        assert!(!overdue.is_over(&shared, 10 * S) && !overdue.is_stuck(100 * S));
        assert!(overdue.is_over(&shared, 11 * S) && !overdue.is_stuck(19 * S));
        shared.stats.dirs.read.ios.add(1);
        assert!(
            overdue.is_over(&shared, 19 * S) && !overdue.is_stuck(21 * S),
            "it has done something"
        );
        assert!(overdue.is_over(&shared, 29 * S) && overdue.is_stuck(29 * S));
    }

    #[test]
    fn a_flush_at_the_end_may_last_until_a_stop() {
        let (shared, mut overdue) = (Shared::default(), Overdue::default());
        shared.deadline_ns.store(S, Release);
        shared.set_phase(Phase::Finishing);
        assert!(!overdue.is_over(&shared, 100 * S));
        shared.ask_stop();
        assert!(overdue.is_over(&shared, 100 * S) && !overdue.is_stuck(108 * S));
        assert!(overdue.is_over(&shared, 110 * S) && overdue.is_stuck(110 * S));
    }
}
