//! Distinguishes on-CPU from runnable threads, which /proc both reports as `R`.
//!
//! The instantaneous state would not help: while sampling, the sampler occupies a CPU that another
//! thread would have had. Instead, the scheduler's statistics between two samples are used: the
//! time that a thread ran and the time that it was runnable. If no timeslice began in between, the
//! state is certain; otherwise samples are divided between `R` and `Q` in proportion to these
//! times, so that over many samples both sums are those of the scheduler.

use super::parse::Sched;

/// On-CPU.
pub(super) const ON_CPU_STATE: u8 = b'R';
/// Runnable, waiting for a CPU.
pub(super) const RUNNABLE_STATE: u8 = b'Q';

/// A thread's statistics at the previous sample.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SchedBaseline {
    /// Scheduler statistics.
    pub sched: Sched,
    /// When they were read, in nanoseconds since the sampler was opened.
    pub at_ns: u64,
    /// Whether it was in state `R`.
    pub ready: bool,
    /// Fraction of a sample still to be attributed to [`RUNNABLE_STATE`].
    pub wait_share: f64,
}

impl SchedBaseline {
    /// The state of a thread in state `R` whose statistics are `now` at `now_ns`.
    pub fn split(&mut self, now: Sched, now_ns: u64) -> u8 {
        let run_ns = now.run_ns.saturating_sub(self.sched.run_ns);
        if now.timeslices == self.sched.timeslices {
            // It has not run since, or slept before: its timeslice has not begun.
            let is_runnable = run_ns == 0 || !self.ready;
            return if is_runnable { RUNNABLE_STATE } else { ON_CPU_STATE };
        }
        // The beginning of a long wait belongs to earlier samples.
        let most = now_ns.saturating_sub(self.at_ns).saturating_sub(run_ns);
        let wait_ns = now.wait_ns.saturating_sub(self.sched.wait_ns).min(most);
        let both = run_ns + wait_ns;
        if both == 0 {
            return ON_CPU_STATE;
        }
        self.wait_share += wait_ns as f64 / both as f64;
        if self.wait_share < 0.5 {
            return ON_CPU_STATE;
        }
        self.wait_share -= 1.0;
        RUNNABLE_STATE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sched(run: u64, wait: u64, timeslices: u64) -> Sched {
        Sched { run_ns: run * MS, wait_ns: wait * MS, timeslices }
    }

    fn before(ready: bool) -> SchedBaseline {
        SchedBaseline { sched: sched(100, 10, 7), at_ns: 1000 * MS, ready, wait_share: 0.0 }
    }

    #[test]
    fn without_a_new_timeslice_the_state_is_certain() {
        assert_eq!(before(true).split(sched(150, 10, 7), 1050 * MS), ON_CPU_STATE);
        assert_eq!(before(true).split(sched(100, 10, 7), 1050 * MS), RUNNABLE_STATE);
        // It slept at the previous sample and has not run since.
        assert_eq!(before(false).split(sched(100, 10, 7), 1050 * MS), RUNNABLE_STATE);
        assert_eq!(before(false).split(sched(101, 10, 7), 1050 * MS), RUNNABLE_STATE);
    }

    #[test]
    fn shares_match_the_scheduler() {
        let mut thread = before(true);
        let mut waiting = 0;
        for look in 1..=100 {
            // 15 ms of 50 on-CPU, 35 runnable.
            let now = sched(100 + 15 * look, 10 + 35 * look, 7 + 5 * look);
            let at_ns = (1000 + 50 * look) * MS;
            waiting += u32::from(thread.split(now, at_ns) == RUNNABLE_STATE);
            thread =
                SchedBaseline { sched: now, at_ns, ready: true, wait_share: thread.wait_share };
        }
        assert_eq!(waiting, 70);
    }

    #[test]
    fn long_waits_count_once() {
        // It waited for 1 s, of which 49 ms are in this interval; earlier samples covered the rest.
        let mut thread = before(true);
        assert_eq!(thread.split(sched(101, 1010, 8), 1050 * MS), RUNNABLE_STATE);
        assert!((thread.wait_share - (49.0 / 50.0 - 1.0)).abs() < 1e-9, "{}", thread.wait_share);
    }

    #[test]
    fn decreasing_counters_are_harmless() {
        assert_eq!(before(true).split(sched(0, 0, 1), 1050 * MS), ON_CPU_STATE);
    }
}
