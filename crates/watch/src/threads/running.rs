//! How a thread spent the time between two samples.
//!
//! The sampled state alone overstates threads that sleep briefly: while the sampler wakes up and reads, their
//! short I/O completes, and they are already runnable. So time on-CPU and time runnable come from the
//! scheduler's statistics (`schedstat`); only the rest, off-CPU, is divided by what samples found.

use super::parse::Sched;

/// State letter of threads on a CPU.
pub(super) const ON_CPU: u8 = b'R';
/// State letter of threads that wait for a CPU, which /proc reports as `R`, too.
pub(super) const RUNNABLE: u8 = b'Q';

/// The longest tick (`CONFIG_HZ=100`), up to which statistics of running threads lag.
const TICK_NS: u64 = 10_000_000;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SchedBaseline {
    /// Scheduler statistics; `None` if not available.
    pub sched: Option<Sched>,
    /// When they were read, in nanoseconds since the sampler was opened; `None` before the first sample.
    pub at_ns: Option<u64>,
    /// Whether it was in state `R`.
    pub ready: bool,
    /// Time on-CPU that exceeds the elapsed time, as statistics of running threads lag by up to a tick.
    pub ahead_ns: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StateTimes {
    pub run_ns: u64,
    pub wait_ns: u64,
    pub off_ns: u64,
    pub timeslices: Option<u64>,
}

impl SchedBaseline {
    /// How a thread whose statistics are `now` at `now_ns` has spent the time since the previous sample.
    /// `ready`: its state is `R`. A thread that is new represents itself for `period_ns`.
    pub fn advance(
        &mut self,
        now: Option<Sched>,
        now_ns: u64,
        ready: bool,
        period_ns: u64,
    ) -> StateTimes {
        let before =
            std::mem::replace(self, Self { sched: now, at_ns: Some(now_ns), ready, ahead_ns: 0 });
        let elapsed = before.at_ns.map(|at_ns| now_ns.saturating_sub(at_ns));
        match (now, before.sched, elapsed) {
            (Some(now), Some(then), Some(elapsed)) => self.since(now, then, elapsed, &before),
            (Some(now), None, None) => {
                // One that is older than a period was only found now.
                let is_new = now.run_ns + now.wait_ns <= period_ns;
                let elapsed = if is_new { period_ns } else { 0 };
                let spent = self.since(now, Sched::default(), elapsed, &before);
                StateTimes { timeslices: is_new.then_some(now.timeslices), ..spent }
            }
            (_, _, elapsed) if ready => {
                StateTimes { run_ns: elapsed.unwrap_or(period_ns), ..StateTimes::default() }
            }
            (_, _, elapsed) => {
                StateTimes { off_ns: elapsed.unwrap_or(period_ns), ..StateTimes::default() }
            }
        }
    }

    fn since(&mut self, now: Sched, then: Sched, elapsed: u64, before: &Self) -> StateTimes {
        let ran = now.run_ns.saturating_sub(then.run_ns);
        let run_ns = (ran + before.ahead_ns).min(elapsed);
        if before.at_ns.is_some() {
            self.ahead_ns = (ran + before.ahead_ns - run_ns).min(elapsed);
        }
        let rest = elapsed - run_ns;
        // A wait is only accounted when it ends: its beginning belongs to earlier samples.
        let wait_ns = now.wait_ns.saturating_sub(then.wait_ns).min(rest);
        let off_ns = rest - wait_ns;
        let timeslices = Some(now.timeslices.saturating_sub(then.timeslices));
        if !(self.ready && before.ready && now.timeslices == then.timeslices) {
            return StateTimes { run_ns, wait_ns, off_ns, timeslices };
        }
        // It was on-CPU all the time, or has waited for a CPU since it ran.
        self.ahead_ns = 0;
        if ran == 0 || rest > TICK_NS {
            StateTimes { run_ns, wait_ns: rest, off_ns: 0, timeslices }
        } else {
            StateTimes { run_ns: elapsed, wait_ns: 0, off_ns: 0, timeslices }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const PERIOD: u64 = 50 * MS;

    fn sched(run: u64, wait: u64, timeslices: u64) -> Sched {
        Sched { run_ns: run * MS, wait_ns: wait * MS, timeslices }
    }

    fn before(ready: bool) -> SchedBaseline {
        SchedBaseline { sched: Some(sched(100, 10, 7)), at_ns: Some(1000 * MS), ready, ahead_ns: 0 }
    }

    /// Run, wait and off-CPU time of the next 50 ms, in milliseconds.
    fn next(mut thread: SchedBaseline, now: Sched, ready: bool) -> [u64; 3] {
        let spent = thread.advance(Some(now), 1050 * MS, ready, PERIOD);
        [spent.run_ns, spent.wait_ns, spent.off_ns].map(|ns| ns / MS)
    }

    #[test]
    fn without_a_new_timeslice_a_ready_thread_ran_or_waited() {
        assert_eq!(next(before(true), sched(149, 10, 7), true), [50, 0, 0]);
        assert_eq!(next(before(true), sched(100, 10, 7), true), [0, 50, 0]);
        // Its cgroup used up its quota.
        assert_eq!(next(before(true), sched(120, 10, 7), true), [20, 30, 0]);
    }

    #[test]
    fn a_brief_sleeper_that_is_sampled_runnable_was_asleep_all_the_same() {
        assert_eq!(next(before(true), sched(105, 11, 900), true), [5, 1, 44]);
        assert_eq!(next(before(false), sched(100, 10, 7), true), [0, 0, 50]);
        assert_eq!(next(before(false), sched(105, 11, 900), false), [5, 1, 44]);
    }

    #[test]
    fn long_waits_count_once() {
        // It waited for 1 s, of which 49 ms are in this interval; earlier samples covered the rest.
        assert_eq!(next(before(true), sched(101, 1010, 8), true), [1, 49, 0]);
    }

    #[test]
    fn time_on_cpu_is_conserved() {
        let mut thread = before(true);
        let mut sum = 0;
        for (step, run) in [(1, 40), (2, 104), (3, 140)] {
            let now_ns = (1000 + 50 * step) * MS;
            sum +=
                thread.advance(Some(sched(100 + run, 10, 7 + step)), now_ns, true, PERIOD).run_ns;
        }
        assert_eq!(sum, 140 * MS);
    }

    #[test]
    fn a_new_thread_stands_for_one_period() {
        let first = |now| SchedBaseline::default().advance(Some(now), 9000 * MS, true, PERIOD);
        assert_eq!(
            first(sched(20, 5, 3)),
            StateTimes { run_ns: 20 * MS, wait_ns: 5 * MS, off_ns: 25 * MS, timeslices: Some(3) }
        );
        // One that existed before was only found now.
        assert_eq!(first(sched(2000, 5, 3)), StateTimes::default());
    }

    #[test]
    fn without_statistics_the_state_counts() {
        let mut thread = SchedBaseline { at_ns: Some(0), ..SchedBaseline::default() };
        assert_eq!(
            thread.advance(None, 7, true, PERIOD),
            StateTimes { run_ns: 7, ..StateTimes::default() }
        );
        assert_eq!(
            thread.advance(None, 9, false, PERIOD),
            StateTimes { off_ns: 2, ..StateTimes::default() }
        );
    }

    #[test]
    fn decreasing_counters_are_harmless() {
        assert_eq!(next(before(true), sched(0, 0, 1), true), [0, 0, 50]);
    }
}
