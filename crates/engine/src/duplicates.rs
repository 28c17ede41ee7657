//! Duplicates among the buffers that a job writes (`dedupe_percentage`).

use crate::source::below;
use fathom_model::plan::Dedupe;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// What the contents of the working set of all jobs derive from.
const GLOBAL_SEED: u64 = 0x6465_6475_7065_6721;

/// Chooses which buffers repeat another one. Contents derive from a seed, so that none have to be kept.
pub(crate) struct Duplicates {
    plan: Dedupe,
    random: Xoshiro256PlusPlus,
    /// Seed of the working set.
    set_seed: u64,
    /// Seed of the last unique buffer.
    previous: u64,
}

impl Duplicates {
    pub fn new(plan: &Dedupe, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x0064_6564_7570_6521);
        let set_seed = if plan.global { GLOBAL_SEED } else { random.next_u64() };
        let previous = random.next_u64();
        Self { plan: plan.clone(), random, set_seed, previous }
    }

    /// Length in bytes of what is repeated.
    pub fn unit_bytes(&self) -> usize {
        self.plan.unit_bytes.max(1) as usize
    }

    /// The generator of the next buffer's contents.
    pub fn next(&mut self) -> Xoshiro256PlusPlus {
        let is_duplicate = below(&mut self.random, 100) < u64::from(self.plan.percent);
        let seed = match (is_duplicate, self.plan.working_set) {
            (true, Some(count)) => {
                self.set_seed.wrapping_add(below(&mut self.random, count.max(1)))
            }
            (true, None) => self.previous,
            (false, _) => {
                self.previous = self.random.next_u64();
                self.previous
            }
        };
        Xoshiro256PlusPlus::seed_from_u64(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// How often each of 4000 buffers' contents occurs.
    fn contents(plan: &Dedupe, seed: u64) -> HashMap<u64, u32> {
        let mut duplicates = Duplicates::new(plan, seed);
        let mut counts = HashMap::new();
        (0..4000).for_each(|_| *counts.entry(duplicates.next().next_u64()).or_default() += 1);
        counts
    }

    #[test]
    fn a_percentage_repeats_the_last_unique_buffer_or_one_of_a_set() {
        let dedupe =
            |percent, working_set| Dedupe { percent, unit_bytes: 4096, working_set, global: false };
        assert_eq!(contents(&dedupe(0, None), 1).len(), 4000);
        assert_eq!(contents(&dedupe(100, None), 1).len(), 1);
        let unique = contents(&dedupe(30, None), 1).len();
        assert!(unique.abs_diff(2800) < 120, "{unique}");
        let counts = contents(&dedupe(50, Some(10)), 1);
        assert!(counts.len().abs_diff(2010) < 120, "{}", counts.len());
        assert_eq!(counts.values().filter(|count| **count > 1).count(), 10);
    }

    #[test]
    fn jobs_share_a_global_working_set_only() {
        let shared = |global| {
            let plan = Dedupe { percent: 50, unit_bytes: 512, working_set: Some(10), global };
            let (one, other) = (contents(&plan, 1), contents(&plan, 2));
            one.keys().filter(|key| other.contains_key(key)).count()
        };
        assert_eq!((shared(true), shared(false)), (10, 0));
    }
}
