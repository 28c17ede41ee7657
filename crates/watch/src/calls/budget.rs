//! When system calls are recorded.

use crate::perf::{TraceBudget, WindowSchedule};
use std::time::Duration;

/// Time between two decisions; the length of a window.
pub(super) const PERIOD: Duration = WindowSchedule::PERIOD;
/// System calls per second and CPU up to which all of them are recorded: at half a microsecond each, 1% of the CPU time.
const RATE_MAX: u64 = 20_000;
/// Maximum number of periods for which returns are recorded after a window: one second.
const RETURN_PERIODS_MAX: u32 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recorded {
    pub entries: bool,
    pub returns: bool,
}

#[derive(Debug)]
pub(super) struct CallBudget {
    entries: TraceBudget,
    waited: u32,
}

impl CallBudget {
    /// For a machine with `cpus` CPUs; starts with a window.
    pub fn new(cpus: usize) -> Self {
        Self { entries: TraceBudget::new(cpus, RATE_MAX), waited: 0 }
    }

    /// What to record in the next period, after one with `calls` system calls on the machine in `elapsed`, of which
    /// `in_flight` have not returned.
    pub fn next(&mut self, calls: u64, elapsed: Duration, in_flight: usize) -> Recorded {
        let entries = self.entries.next(calls, elapsed);
        self.waited = if entries { 0 } else { self.waited.saturating_add(1) };
        // In the first period after a window, calls may still have begun since the records were read.
        let awaited = in_flight > 0 || self.waited < 2;
        Recorded { entries, returns: entries || awaited && self.waited <= RETURN_PERIODS_MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is recorded in each of `periods`, at `rate` system calls per second and CPU.
    fn recorded(
        budget: &mut CallBudget,
        rate: u64,
        periods: usize,
        in_flight: usize,
    ) -> Vec<Recorded> {
        let calls = rate * 2 / 20;
        (0..periods).map(|_| budget.next(calls, PERIOD, in_flight)).collect()
    }

    #[test]
    fn few_system_calls_are_all_recorded_and_many_in_windows() {
        let mut budget = CallBudget::new(2);
        let first = recorded(&mut budget, 5_000, 40, 0);
        assert!(first.iter().all(|now| now.entries && now.returns));
        let many = recorded(&mut budget, 500_000, 161, 0);
        let windows = many.iter().filter(|now| now.entries).count();
        assert!((9..=12).contains(&windows), "{windows}");
        // Between the two limits nothing changes.
        let some = recorded(&mut budget, 15_000, 160, 0);
        assert!(some.iter().filter(|now| now.entries).count() <= 11);
        assert!(recorded(&mut budget, 5_000, 17, 0).iter().any(|now| now.entries));
        assert!(recorded(&mut budget, 15_000, 40, 0).iter().all(|now| now.entries));
    }

    #[test]
    fn returns_are_recorded_for_as_long_as_calls_last() {
        let mut budget = CallBudget::new(1);
        assert!(budget.next(0, PERIOD, 0).entries);
        let after = recorded(&mut budget, 1_000_000, 10, 1);
        assert!(after.iter().all(|now| now.returns));
        let after = recorded(&mut budget, 1_000_000, 10, 0);
        assert!(after.iter().any(|now| !now.returns));
    }
}
