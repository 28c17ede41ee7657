//! Distribution of queue depth and batch sizes.

use fathom_model::record::DepthRecord;

/// Counts by depth and by batch size; allocated once.
pub(crate) struct DepthCounts {
    level: Box<[u64]>,
    submit: Box<[u64]>,
    complete: Box<[u64]>,
}

impl DepthCounts {
    pub fn new(depth: u32) -> Self {
        let zeroes = || vec![0; depth as usize + 1].into_boxed_slice();
        Self { level: zeroes(), submit: zeroes(), complete: zeroes() }
    }

    /// Resets all counts.
    pub fn clear(&mut self) {
        [&mut self.level, &mut self.submit, &mut self.complete]
            .into_iter()
            .for_each(|counts| counts.fill(0));
    }

    /// Counts a batch of `count` I/Os, after which `in_flight` are in flight.
    #[inline]
    pub fn submitted(&mut self, count: u32, in_flight: u32) {
        self.level[in_flight as usize] += u64::from(count);
        self.submit[count as usize] += 1;
    }

    /// Counts a reap of `count` completions.
    #[inline]
    pub fn completed(&mut self, count: u32) {
        self.complete[count as usize] += 1;
    }

    /// The counts that are not zero.
    pub fn record(&self, system_calls: u64) -> DepthRecord {
        let sparse = |counts: &[u64]| {
            counts
                .iter()
                .enumerate()
                .filter(|(_, n)| **n > 0)
                .map(|(size, n)| (size as u32, *n))
                .collect()
        };
        DepthRecord {
            level: sparse(&self.level),
            submit: sparse(&self.submit),
            complete: sparse(&self.complete),
            system_calls,
            in_flight_max: self.level.iter().rposition(|n| *n > 0).unwrap_or(0) as u32,
        }
    }
}
