//! How far this host's clock is from that of rank 0.

use super::{Lost, Ranks};
use fathom_engine::clock::unix_ns;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Each round can only narrow the bounds.
const ROUNDS: u32 = 8;

/// Bounds on this clock's time minus that of rank 0, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockBounds {
    pub least: i64,
    pub most: i64,
}

impl ClockBounds {
    /// Nothing is known.
    pub const NONE: Self = Self { least: i64::MIN, most: i64::MAX };

    /// Nobody leaves a barrier before everybody entered it: this rank left at `left`, after rank 0 entered, and rank 0 left
    /// after this rank entered.
    fn within(self, (entered, left): (i64, i64), (zero_entered, zero_left): (i64, i64)) -> Self {
        Self {
            least: self.least.max(entered.saturating_sub(zero_left)),
            most: self.most.min(left.saturating_sub(zero_entered)),
        }
    }

    /// The middle of the bounds, in nanoseconds.
    pub fn offset_ns(self) -> i64 {
        ((i128::from(self.least) + i128::from(self.most)) / 2) as i64
    }

    /// By how much the offset may be wrong, in nanoseconds.
    pub fn error_ns(self) -> u64 {
        (i128::from(self.most) - i128::from(self.least)).max(0) as u64 / 2
    }
}

impl Ranks {
    /// Compares the clocks, in some barriers.
    pub fn compare_clocks(&mut self, time: Duration) -> Result<ClockBounds, Lost> {
        let now = || i64::try_from(unix_ns()).unwrap_or(i64::MAX);
        let mut own = Vec::new();
        for _ in 0..ROUNDS {
            let entered = now();
            self.exchange(None, 0..0, time)?;
            own.push((entered, now()));
        }
        let zero = self.broadcast(&own, time)?;
        let rounds = own.iter().zip(&zero);
        Ok(rounds.fold(ClockBounds::NONE, |bounds, (own, zero)| bounds.within(*own, *zero)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_the_offset_and_narrow() {
        // This clock is 1000 ahead; barriers were released at 500 and 5000 of rank 0's clock.
        let first = ClockBounds::NONE.within((1300, 1540), (100, 510));
        assert_eq!(first, ClockBounds { least: 790, most: 1440 });
        let both = first.within((5990, 6010), (4980, 5005));
        assert_eq!(both, ClockBounds { least: 985, most: 1030 });
        assert_eq!((both.offset_ns(), both.error_ns()), (1007, 22));
    }
}
