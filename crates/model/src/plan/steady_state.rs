//! Random writes that leave an SSD as it is at steady state (`sprandom`): each block once, and some of them again soon, so
//! that regions of flash memory hold as much invalid data as garbage collection would have left in them.
//!
//! Model: P. Desnoyers, "Analytic Models of SSD Write Performance", ACM Transactions on Storage 8(2), 2012: the fraction
//! of flash blocks with a given share of valid data is inversely proportional to that share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of the model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteadyState {
    /// Regions that are written one after the other (`spr_num_regions`).
    pub regions: u32,
    /// Flash memory beyond the logical size, as a fraction of that (`spr_op`).
    pub over_provisioning: f64,
    /// Size of the device's cache in bytes (`spr_cs`). Above 0, blocks are written again a region later, when the cache no
    /// longer holds them.
    pub cache_bytes: u64,
}

impl Default for SteadyState {
    /// fio's defaults.
    fn default() -> Self {
        Self { regions: 100, over_provisioning: 0.15, cache_bytes: 0 }
    }
}

impl SteadyState {
    /// Bytes written in all, in whole blocks: those of the flash memory.
    pub fn physical_bytes(&self, logical_bytes: u64, block_bytes: u64) -> u64 {
        let more = (logical_bytes as f64 * self.over_provisioning).ceil() as u64;
        let all = logical_bytes.saturating_add(more);
        all - all % block_bytes.max(1)
    }

    /// Writes of each region.
    pub fn region_writes(&self, logical_bytes: u64, block_bytes: u64) -> u64 {
        let physical = self.physical_bytes(logical_bytes, block_bytes);
        physical / u64::from(self.regions.max(1)) / block_bytes.max(1)
    }

    /// The share of valid data in what garbage collection picks.
    fn least_valid(&self) -> f64 {
        let write_amplification = 0.5 / self.over_provisioning + 0.7;
        1.0 - 1.0 / write_amplification
    }

    /// Upper bound for the blocks remembered for rewriting: six standard deviations above the
    /// expectation.
    pub fn remembered_max(&self, logical_bytes: u64, block_bytes: u64) -> u64 {
        let writes = self.region_writes(logical_bytes, block_bytes) as f64;
        let again = 1.0 - self.least_valid();
        let deviation = (writes * again * (1.0 - again)).sqrt();
        let of_region = (writes * again + 6.0 * deviation).ceil() as u64;
        // With a cache, those of two regions.
        if self.cache_bytes > 0 { of_region.saturating_mul(2) } else { of_region }
    }

    /// The probability, by region, that a block written in it is written again.
    pub fn again(&self) -> Vec<f64> {
        let count = self.regions.max(1) as usize;
        let part = |index: usize| index as f64 / (count - 1).max(1) as f64;
        let (first, least) = (1.0, self.least_valid());
        let valid: Vec<f64> = (0..count).map(|i| first + (least - first) * part(i)).collect();
        let sums = valid.iter().scan(0.0, |sum, valid| {
            *sum += 1.0 / valid;
            Some(*sum)
        });
        let sizes: Vec<f64> = sums.collect();
        let (from, to) = (sizes[0], sizes[count - 1]);
        let share =
            |index: usize| 1.0 - interpolated(from + (to - from) * part(index), &sizes, &valid);
        // The regions written first are the oldest, with most invalid data.
        (0..count).rev().map(share).collect()
    }
}

/// The value of the curve through (`xs`, `ys`) at `x`; `xs` ascends.
fn interpolated(x: f64, xs: &[f64], ys: &[f64]) -> f64 {
    let after = xs.partition_point(|known| *known < x).min(xs.len() - 1);
    let Some(before) = after.checked_sub(1) else { return ys[0] };
    let part = ((x - xs[before]) / (xs[after] - xs[before])).clamp(0.0, 1.0);
    ys[before] + (ys[after] - ys[before]) * part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_again_fills_the_spare_flash() {
        for (regions, over_provisioning) in [(100, 0.15), (400, 0.07), (50, 0.28)] {
            let plan = SteadyState { regions, over_provisioning, cache_bytes: 0 };
            let again = plan.again();
            assert_eq!(again.len(), regions as usize);
            assert!(again.windows(2).all(|pair| pair[0] >= pair[1]), "older regions lose more");
            let amplification = 0.5 / over_provisioning + 0.7;
            assert!((again[0] - 1.0 / amplification).abs() < 1e-9);
            assert!(again[regions as usize - 1].abs() < 1e-9);
            // Physical size × share = physical size - logical size, about: the model is an approximation.
            let share = again.iter().sum::<f64>() / f64::from(regions);
            let spare = over_provisioning / (1.0 + over_provisioning);
            assert!((share - spare).abs() < 0.005, "{share} {spare}");
        }
    }

    #[test]
    fn one_region_has_nothing_to_write_again() {
        let plan = SteadyState { regions: 1, ..SteadyState::default() };
        assert_eq!(plan.again(), [0.0]);
    }

    #[test]
    fn sizes_are_whole_blocks() {
        let plan = SteadyState::default();
        assert_eq!(
            plan.physical_bytes(1 << 30, 4096),
            (((1 << 30) as f64 * 1.15).ceil() as u64) / 4096 * 4096
        );
        assert_eq!(plan.region_writes(1 << 30, 4096), 3014);
        assert!(plan.remembered_max(1 << 30, 4096) > 3014 / 4);
    }
}
