//! Priorities of single I/Os (`cmdprio_*`).

use crate::queue::{Op, Request};
use crate::source::below;
use fathom_model::PerDir;
use fathom_model::plan::{CommandPriority, JobPlan};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

pub(crate) struct Priorities {
    rules: PerDir<Vec<CommandPriority>>,
    random: Xoshiro256PlusPlus,
}

impl Priorities {
    pub fn new(job: &JobPlan) -> Option<Self> {
        // The seed of the offsets, which must not follow from the same numbers.
        let random = Xoshiro256PlusPlus::seed_from_u64(job.access.seed ^ 0x0070_7269_6f72_6974);
        let rules = job.priorities.clone();
        (!rules.is_empty()).then_some(Self { rules, random })
    }

    /// The value for `request`; 0 is the priority of the thread.
    pub fn next(&mut self, request: &Request) -> u16 {
        let Op::Io(dir) = request.op else { return 0 };
        let mut pick = below(&mut self.random, 100) as u32;
        for rule in &self.rules[dir] {
            if rule.block.is_some_and(|bytes| bytes != u64::from(request.len)) {
                continue;
            }
            if pick < rule.percent {
                return rule.value;
            }
            pick -= rule.percent;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::Dir;
    use fathom_model::plan::{Engine, Mix, Order};

    #[test]
    fn each_block_size_has_its_shares() {
        let order = Order::Sequential { skip: 0 };
        let mut job = JobPlan::new("t", Engine::Libaio, Mix::Only(Dir::Read), order);
        assert!(Priorities::new(&job).is_none());
        let rule = |block, percent, value| CommandPriority { block, percent, value };
        job.priorities.read =
            vec![rule(Some(4096), 25, 1), rule(Some(8192), 100, 2), rule(Some(4096), 75, 3)];
        let mut priorities = Priorities::new(&job).unwrap();
        let mut count = |op, len, value| {
            let request = Request { op, file: 0, offset: 0, len, buffer_offset: 0 };
            (0..10_000).filter(|_| priorities.next(&request) == value).count()
        };
        assert!(count(Op::Io(Dir::Read), 4096, 1).abs_diff(2500) < 200);
        assert_eq!(count(Op::Io(Dir::Read), 4096, 0), 0);
        assert_eq!(count(Op::Io(Dir::Read), 8192, 2), 10_000);
        assert_eq!(count(Op::Io(Dir::Read), 512, 0), 10_000);
        assert_eq!(count(Op::Io(Dir::Write), 4096, 0), 10_000);
        assert_eq!(count(Op::Fsync, 4096, 0), 10_000);
    }
}
