//! Draws blocks such that an SSD is left as at steady state; see [`plan::SteadyState`].

use super::distribution::unit;
use super::permutation::Permutation;
use fathom_model::plan;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;

/// The blocks of a region are those written again from the one before, and new ones.
pub(super) struct SteadyStateOrder {
    /// Each block once, then again in another order.
    order: Permutation,
    /// By region: the probability that a block written in it is written again.
    again: Vec<f64>,
    region: usize,
    region_writes: u64,
    /// New blocks that the region still lacks.
    new_left: u64,
    /// Blocks to be written again: `due` in this region, the others in the next. Never grows.
    remembered: VecDeque<u64>,
    due: usize,
    /// Write them at the end of a region instead of at its start.
    at_end: bool,
}

impl SteadyStateOrder {
    pub fn new(plan: &plan::SteadyState, blocks: u64, block_bytes: u64, seed: u64) -> Self {
        let logical = blocks.saturating_mul(block_bytes);
        let region_writes = plan.region_writes(logical, block_bytes).max(1);
        let most = plan.remembered_max(logical, block_bytes) as usize;
        Self {
            order: Permutation::new(blocks, seed),
            again: plan.again(),
            region: 0,
            region_writes,
            new_left: region_writes,
            remembered: VecDeque::with_capacity(most),
            due: 0,
            at_end: plan.cache_bytes > 0,
        }
    }

    pub fn next(&mut self, random: &mut Xoshiro256PlusPlus) -> u64 {
        if self.new_left == 0 && self.due == 0 {
            self.region = (self.region + 1).min(self.again.len() - 1);
            self.due = self.remembered.len();
            self.new_left = self.region_writes.saturating_sub(self.due as u64);
        }
        let repeats = self.due > 0 && (self.new_left == 0 || !self.at_end);
        let repeated = if repeats { self.remembered.pop_front() } else { None };
        match repeated {
            Some(_) => self.due -= 1,
            None => self.new_left = self.new_left.saturating_sub(1),
        }
        let block = repeated.unwrap_or_else(|| self.order.next());
        let has_room = self.remembered.len() < self.remembered.capacity();
        if unit(random) <= self.again[self.region] && has_room {
            self.remembered.push_back(block);
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    const BLOCKS: u64 = 200_000;

    fn drawn(cache_bytes: u64) -> (SteadyStateOrder, Vec<u64>) {
        let plan = plan::SteadyState { cache_bytes, ..plan::SteadyState::default() };
        let mut source = SteadyStateOrder::new(&plan, BLOCKS, 4096, 7);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let writes = plan.physical_bytes(BLOCKS * 4096, 4096) / 4096;
        let capacity = source.remembered.capacity();
        let all = (0..writes).map(|_| source.next(&mut random)).collect();
        assert_eq!(source.remembered.capacity(), capacity, "nothing is allocated");
        (source, all)
    }

    /// By region of flash memory, the share of blocks that no later write made invalid.
    fn valid(all: &[u64], region_writes: usize) -> Vec<f64> {
        let mut last = vec![0; BLOCKS as usize];
        all.iter().enumerate().for_each(|(at, block)| last[*block as usize] = at);
        let regions = all.chunks(region_writes).enumerate();
        let share = |(index, region): (usize, &[u64])| {
            let from = index * region_writes;
            let still =
                region.iter().zip(from..).filter(|(block, at)| last[**block as usize] == *at);
            still.count() as f64 / region.len() as f64
        };
        regions.map(share).collect()
    }

    #[test]
    fn regions_hold_as_much_valid_data_as_the_model_says() {
        for cache_bytes in [0, 4096] {
            let (source, all) = drawn(cache_bytes);
            let writes = source.region_writes as usize;
            let valid = valid(&all, writes);
            // The blocks of the last two regions are not due again yet.
            for (index, (valid, again)) in valid.iter().zip(&source.again).enumerate().take(95) {
                assert!((valid - (1.0 - again)).abs() < 0.06, "region {index}: {valid} {again}");
            }
            let distinct: std::collections::BTreeSet<u64> = all.iter().copied().collect();
            assert!(distinct.len() as u64 > BLOCKS * 98 / 100, "{}", distinct.len());
        }
    }

    #[test]
    fn with_a_cache_blocks_are_written_again_a_region_later() {
        let nearest = |all: &[u64]| {
            let mut last = vec![None; BLOCKS as usize];
            let gaps = all.iter().enumerate().filter_map(|(at, block)| {
                last[*block as usize].replace(at).map(|before| at - before)
            });
            gaps.min().unwrap()
        };
        let (source, all) = drawn(4096);
        let writes = source.region_writes as usize;
        // At the end, blocks are drawn in another order.
        let gap = nearest(&all[..95 * writes]);
        assert!(gap >= writes / 2, "{gap}");
        assert!(nearest(&drawn(0).1[..95 * writes]) < writes / 2);
    }
}
