//! Requests handed to io-wq, counted: each where they are few, and where they are many, as with every
//! read of a device that would block, for a part of the time.

use crate::perf::{EachIo, Gate, OnCpus, Turns};
use std::time::Instant;

/// So many a second are many: to count each costs a thousandth of a processor's time.
const MANY: f64 = 10_000.0;

/// The counter.
#[derive(Debug)]
pub(super) struct Punted {
    counter: OnCpus,
    /// None where each is counted whatever it costs.
    gate: Option<Gate>,
    turns: Turns,
    estimate: Estimate,
}

/// How many there were, from when the counter was on.
#[derive(Debug)]
struct Estimate {
    all: f64,
    /// The counter's value, and when that was read.
    count: u64,
    at: Instant,
    /// Events a second, as of the last look at which the counter was on.
    rate: f64,
    /// Some of the time was left out.
    is_rough: bool,
}

impl Estimate {
    fn new(at: Instant) -> Self {
        Self { all: 0.0, count: 0, at, rate: 0.0, is_rough: false }
    }

    /// The counter, which was on since the last call or was not, stands at `count`.
    fn add(&mut self, count: u64, at: Instant, was_on: bool) {
        let seconds = at.saturating_duration_since(self.at).as_secs_f64();
        if was_on {
            let new = count.saturating_sub(self.count) as f64;
            self.all += new;
            // An instant is too short to tell.
            if seconds > 0.01 {
                self.rate = new / seconds;
            }
        } else {
            self.is_rough = true;
            self.all += self.rate * seconds;
        }
        (self.count, self.at) = (count, at);
    }
}

impl Punted {
    /// Opens `counter` with the gate that it is given, and counts from now on.
    pub fn open<E>(
        each_io: EachIo,
        gate: impl FnOnce() -> Result<Gate, E>,
        counter: impl FnOnce(Option<&Gate>) -> Result<OnCpus, E>,
    ) -> Result<Self, E> {
        let gate = (each_io != EachIo::Always).then(gate).transpose()?;
        let counter = counter(gate.as_ref())?;
        let estimate = Estimate::new(Instant::now());
        let mut punted = Self { counter, gate, turns: Turns::default(), estimate };
        if let Some(gate) = &mut punted.gate {
            gate.switch(true);
        }
        Ok(punted)
    }

    /// Looks at how many there are, and leaves out a part of the time where they are many. To be called each
    /// [`Turns::PERIOD`].
    pub fn turn(&mut self) {
        self.settle();
        if let Some(gate) = &mut self.gate {
            gate.switch(self.estimate.rate < MANY || self.turns.next());
        }
    }

    /// How many there were since it was opened, and whether that is an estimate; none where the counter cannot
    /// be read.
    pub fn read(&mut self) -> Option<(u64, bool)> {
        self.settle()?;
        Some((self.estimate.all as u64, self.estimate.is_rough))
    }

    fn settle(&mut self) -> Option<()> {
        let was_on = self.gate.as_ref().is_none_or(Gate::is_on);
        // While it is off it stands still.
        let count = if was_on { self.counter.read().ok()? } else { self.estimate.count };
        self.estimate.add(count, Instant::now(), was_on);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_was_left_out_is_taken_to_be_as_what_was_seen() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut estimate = Estimate::new(began);
        estimate.add(5_000, at(50), true);
        assert_eq!((estimate.all, estimate.rate, estimate.is_rough), (5_000.0, 100_000.0, false));
        estimate.add(5_000, at(750), false);
        assert_eq!((estimate.all, estimate.is_rough), (75_000.0, true));
        // A window in which there were fewer, read once in its middle.
        estimate.add(5_100, at(775), true);
        estimate.add(5_101, at(776), true);
        assert_eq!((estimate.all.round(), estimate.rate.round()), (75_101.0, 4_000.0));
        // Each is counted from here on.
        estimate.add(5_301, at(825), true);
        assert_eq!(estimate.all.round(), 75_301.0);
        assert!(estimate.rate < MANY);
    }
}
