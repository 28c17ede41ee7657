//! What a thread's time off-CPU is attributed to.
//!
//! A thread that sleeps briefly is often sampled running or runnable. The time that it slept since the previous
//! sample then belongs to the cause last found, unless its sleeps have become much shorter or longer since:
//! these are other sleeps, whose cause a later sample has to find.

use super::running::StateTimes;
use fathom_model::watch::ThreadState;

/// Between samples with the same cause, the number of sleeps differs by this factor at most.
const SAME_FACTOR: u64 = 8;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OffCpu {
    found: Option<Found>,
    pending_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Found {
    cause: ThreadState,
    /// Timeslices since the sample before, if known.
    timeslices: Option<u64>,
}

impl OffCpu {
    /// Adds the time since the previous sample, at whose end the thread was found asleep for `cause`, or
    /// awake. Returns to what time off-CPU can now be attributed, and how much, in nanoseconds.
    pub fn add(
        &mut self,
        spent: StateTimes,
        cause: Option<ThreadState>,
    ) -> Option<(ThreadState, u64)> {
        self.pending_ns += spent.off_ns;
        let StateTimes { timeslices, .. } = spent;
        if let Some(cause) = cause {
            self.found = Some(Found { cause, timeslices });
        }
        let found = self.found.filter(|found| are_alike(found.timeslices, timeslices))?;
        // Once it goes on, it is not stopped again and again.
        if cause.is_none() && found.cause == ThreadState::Stopped {
            return None;
        }
        Some((found.cause, std::mem::take(&mut self.pending_ns)))
    }

    pub fn take_pending(&mut self) -> u64 {
        std::mem::take(&mut self.pending_ns)
    }
}

fn are_alike(before: Option<u64>, now: Option<u64>) -> bool {
    let (Some(before), Some(now)) = (before, now) else { return true };
    before.max(now) <= SAME_FACTOR * (before.min(now) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ThreadState::{Disk, Futex};

    fn slept(off_ns: u64, timeslices: u64) -> StateTimes {
        StateTimes { off_ns, timeslices: Some(timeslices), ..StateTimes::default() }
    }

    #[test]
    fn a_sleep_that_is_over_gets_no_time_of_later_ones() {
        let mut thread = OffCpu::default();
        assert_eq!(thread.add(slept(50, 1), Some(Futex)), Some((Futex, 50)));
        assert_eq!(thread.add(slept(30, 900), None), None);
        assert_eq!(thread.add(slept(31, 950), None), None);
        assert_eq!(thread.add(slept(32, 980), Some(Disk)), Some((Disk, 93)));
        assert_eq!(thread.add(slept(33, 700), None), Some((Disk, 33)));
        // A long sleep, awake again when it is sampled.
        assert_eq!(thread.add(slept(40, 2), None), None);
        assert_eq!(thread.take_pending(), 40);
        assert_eq!(thread.take_pending(), 0);
    }

    #[test]
    fn a_thread_that_goes_on_is_no_longer_stopped() {
        let mut thread = OffCpu::default();
        let stopped = ThreadState::Stopped;
        assert_eq!(thread.add(slept(50, 0), Some(stopped)), Some((stopped, 50)));
        assert_eq!(thread.add(slept(20, 1), None), None);
        assert_eq!(thread.take_pending(), 20);
    }

    #[test]
    fn without_statistics_the_last_cause_counts() {
        let mut thread = OffCpu::default();
        let off = StateTimes { off_ns: 7, ..StateTimes::default() };
        assert_eq!(thread.add(off, None), None);
        assert_eq!(thread.add(off, Some(Disk)), Some((Disk, 14)));
        assert_eq!(thread.add(off, None), Some((Disk, 7)));
    }
}
