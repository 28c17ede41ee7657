//! Which of the threads in state `R` were on a processor.
//!
//! /proc tells `R` of both, those on a processor and those that wait for one, and at the instant of a
//! look the sampler itself is on a processor that another thread would have had. So the state of one
//! instant is not to be had. What the scheduler counted between two looks is: the time that a thread ran
//! and the time that it waited. Where the two looks leave no doubt (no turn on a processor began
//! between them) the state is certain; otherwise looks are given to `R` and `Q` in proportion to
//! these times, so that over many looks both sums are those of the scheduler.

use super::parse::Sched;

/// On a processor.
pub(super) const ON_PROCESSOR: u8 = b'R';
/// Ready to run, waiting for a processor.
pub(super) const WAITING: u8 = b'Q';

/// What was known of a thread when it was looked at last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    /// What the scheduler had counted.
    pub sched: Sched,
    /// When it was read, in nanoseconds since the sampler was opened.
    pub at_ns: u64,
    /// It was in state `R`.
    pub ready: bool,
    /// Share of a look that is owed to [`WAITING`].
    pub owed: f64,
}

impl Before {
    /// The state of a thread in state `R` of which the scheduler has counted `now` at `now_ns`.
    pub fn split(&mut self, now: Sched, now_ns: u64) -> u8 {
        let run_ns = now.run_ns.saturating_sub(self.sched.run_ns);
        if now.turns == self.sched.turns {
            // Not even a clock tick was counted, or it slept since: it has not got its turn yet.
            let waits = run_ns == 0 || !self.ready;
            return if waits { WAITING } else { ON_PROCESSOR };
        }
        // The beginning of a long wait that just ended belongs to earlier looks.
        let most = now_ns.saturating_sub(self.at_ns).saturating_sub(run_ns);
        let wait_ns = now.wait_ns.saturating_sub(self.sched.wait_ns).min(most);
        let both = run_ns + wait_ns;
        if both == 0 {
            return ON_PROCESSOR;
        }
        self.owed += wait_ns as f64 / both as f64;
        if self.owed < 0.5 {
            return ON_PROCESSOR;
        }
        self.owed -= 1.0;
        WAITING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sched(run: u64, wait: u64, turns: u64) -> Sched {
        Sched { run_ns: run * MS, wait_ns: wait * MS, turns }
    }

    fn before(ready: bool) -> Before {
        Before { sched: sched(100, 10, 7), at_ns: 1000 * MS, ready, owed: 0.0 }
    }

    #[test]
    fn without_a_new_turn_it_is_certain() {
        assert_eq!(before(true).split(sched(150, 10, 7), 1050 * MS), ON_PROCESSOR);
        assert_eq!(before(true).split(sched(100, 10, 7), 1050 * MS), WAITING);
        // It slept at the last look and has not run since.
        assert_eq!(before(false).split(sched(100, 10, 7), 1050 * MS), WAITING);
        assert_eq!(before(false).split(sched(101, 10, 7), 1050 * MS), WAITING);
    }

    #[test]
    fn shares_are_those_of_the_scheduler() {
        let mut thread = before(true);
        let mut waiting = 0;
        for look in 1..=100 {
            // 15 ms of 50 on a processor, 35 waiting.
            let now = sched(100 + 15 * look, 10 + 35 * look, 7 + 5 * look);
            let at_ns = (1000 + 50 * look) * MS;
            waiting += u32::from(thread.split(now, at_ns) == WAITING);
            thread = Before { sched: now, at_ns, ready: true, owed: thread.owed };
        }
        assert_eq!(waiting, 70);
    }

    #[test]
    fn a_long_wait_counts_once() {
        // It waited for 1 s, of which 49 ms fall between these looks: those before said so already.
        let mut thread = before(true);
        assert_eq!(thread.split(sched(101, 1010, 8), 1050 * MS), WAITING);
        assert!((thread.owed - (49.0 / 50.0 - 1.0)).abs() < 1e-9, "{}", thread.owed);
    }

    #[test]
    fn counters_that_go_back_do_no_harm() {
        assert_eq!(before(true).split(sched(0, 0, 1), 1050 * MS), ON_PROCESSOR);
    }
}
