//! Counts requests punted to io-wq: all while they are few, in windows while they are many, such as
//! when every read of a device would block.

use crate::perf::{GroupLeaders, PerCpuEvents, TraceCoverage, WindowSchedule};
use std::time::Instant;

/// Events per second above which windows are used: counting them costs 0.1% of a CPU.
const MANY: f64 = 10_000.0;
/// Periods between readings while all are counted: each reading interrupts every CPU.
const READ_EVERY: u32 = 8;

#[derive(Debug)]
pub(super) struct PuntCounter {
    counter: PerCpuEvents,
    /// `None` if every event is counted whatever it costs.
    leaders: Option<GroupLeaders>,
    schedule: WindowSchedule,
    periods: u32,
    estimate: PuntedEstimate,
}

/// The number of events, extrapolated over the time during which the counter was disabled.
#[derive(Debug)]
struct PuntedEstimate {
    all: f64,
    count: u64,
    at: Instant,
    rate: f64,
    is_estimate: bool,
}

impl PuntedEstimate {
    fn new(at: Instant) -> Self {
        Self { all: 0.0, count: 0, at, rate: 0.0, is_estimate: false }
    }

    /// Adds a reading of the counter, which was enabled or disabled since the last call.
    fn add(&mut self, count: u64, at: Instant, was_on: bool) {
        let seconds = at.saturating_duration_since(self.at).as_secs_f64();
        if was_on {
            let new = count.saturating_sub(self.count) as f64;
            self.all += new;
            // Too short for a rate.
            if seconds > 0.01 {
                self.rate = new / seconds;
            }
        } else {
            self.is_estimate = true;
            self.all += self.rate * seconds;
        }
        (self.count, self.at) = (count, at);
    }
}

impl PuntCounter {
    /// Opens `counter` as a member of `leaders` and starts counting.
    pub fn open<E>(
        each_io: TraceCoverage,
        leaders: impl FnOnce() -> Result<GroupLeaders, E>,
        counter: impl FnOnce(Option<&GroupLeaders>) -> Result<PerCpuEvents, E>,
    ) -> Result<Self, E> {
        let leaders = (each_io != TraceCoverage::Full).then(leaders).transpose()?;
        let counter = counter(leaders.as_ref())?;
        let estimate = PuntedEstimate::new(Instant::now());
        let schedule = WindowSchedule::default();
        let mut punted = Self { counter, leaders, schedule, periods: 0, estimate };
        if let Some(leaders) = &mut punted.leaders {
            leaders.set_enabled(true);
        }
        Ok(punted)
    }

    /// Switches between counting all events and windows according to the rate. Call once per
    /// [`WindowSchedule::PERIOD`].
    pub fn advance(&mut self) {
        let Some(leaders) = &self.leaders else { return };
        self.periods += 1;
        if leaders.is_enabled()
            && self.estimate.rate < MANY
            && !self.periods.is_multiple_of(READ_EVERY)
        {
            return;
        }
        self.settle();
        if let Some(leaders) = &mut self.leaders {
            leaders.set_enabled(self.estimate.rate < MANY || self.schedule.next());
        }
    }

    /// Events since the start, and whether this is an estimate; `None` if the counter cannot be
    /// read.
    pub fn read(&mut self) -> Option<(u64, bool)> {
        self.settle()?;
        Some((self.estimate.all as u64, self.estimate.is_estimate))
    }

    fn settle(&mut self) -> Option<()> {
        let was_on = self.leaders.as_ref().is_none_or(GroupLeaders::is_enabled);
        // A disabled counter does not change.
        let count = if was_on { self.counter.read().ok()? } else { self.estimate.count };
        self.estimate.add(count, Instant::now(), was_on);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::time::Duration;

    #[test]
    fn few_events_are_read_rarely() {
        let none = |_: Option<&GroupLeaders>| Ok::<_, io::Error>(PerCpuEvents::new(Vec::new()));
        let leaders = || GroupLeaders::open(&[]);
        let mut punted = PuntCounter::open(TraceCoverage::Off, leaders, none).unwrap();
        let mut is_read = |_: &u32| {
            let before = punted.estimate.at;
            punted.advance();
            punted.estimate.at != before
        };
        assert_eq!((0..80).filter(|period| is_read(period)).count(), 10);
    }

    #[test]
    fn disabled_periods_are_extrapolated() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut estimate = PuntedEstimate::new(began);
        estimate.add(5_000, at(50), true);
        assert_eq!(
            (estimate.all, estimate.rate, estimate.is_estimate),
            (5_000.0, 100_000.0, false)
        );
        estimate.add(5_000, at(750), false);
        assert_eq!((estimate.all, estimate.is_estimate), (75_000.0, true));
        // A window with a lower rate, read once in the middle.
        estimate.add(5_100, at(775), true);
        estimate.add(5_101, at(776), true);
        assert_eq!((estimate.all.round(), estimate.rate.round()), (75_101.0, 4_000.0));
        // All events are counted from here on.
        estimate.add(5_301, at(825), true);
        assert_eq!(estimate.all.round(), 75_301.0);
        assert!(estimate.rate < MANY);
    }
}
