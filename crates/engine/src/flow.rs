//! Shares of jobs in the I/Os of a group (`flow`): a job that is ahead of its share waits, as in fio.

use fathom_model::plan::Flow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Shortest wait of a job that is ahead.
const WAIT_NS: u64 = 5_000;

/// The jobs with one `flow_id`.
#[derive(Debug, Default)]
pub(crate) struct FlowGroup {
    /// I/Os issued by the jobs that run.
    issued: AtomicU64,
    /// Sum of their weights.
    weight: AtomicU64,
}

/// The groups of all `plans`, by `flow_id`.
pub(crate) fn groups(plans: impl Iterator<Item = Option<Flow>>) -> BTreeMap<u32, Arc<FlowGroup>> {
    plans.flatten().map(|flow| (flow.id, Arc::default())).collect()
}

/// One job's share in its group.
#[derive(Debug)]
pub(crate) struct FlowShare {
    plan: Flow,
    group: Arc<FlowGroup>,
    issued: u64,
}

impl FlowShare {
    /// Joins `group`.
    pub fn new(plan: Flow, group: Arc<FlowGroup>) -> Self {
        group.weight.fetch_add(u64::from(plan.weight), Relaxed);
        Self { plan, group, issued: 0 }
    }

    /// How long to wait before the next I/O, in nanoseconds, if the job is ahead of its share.
    pub fn wait_ns(&self) -> Option<u64> {
        // As in fio, one I/O more than were issued: a job that is alone never waits.
        let (issued, weight) =
            (self.group.issued.load(Relaxed) + 1, self.group.weight.load(Relaxed));
        let ahead = u128::from(self.issued) * u128::from(weight)
            > u128::from(issued) * u128::from(self.plan.weight);
        ahead.then_some(self.plan.sleep_ns.max(WAIT_NS))
    }

    /// Counts an I/O.
    pub fn advance(&mut self) {
        self.issued += 1;
        self.group.issued.fetch_add(1, Relaxed);
    }
}

impl Drop for FlowShare {
    fn drop(&mut self) {
        self.group.issued.fetch_sub(self.issued, Relaxed);
        self.group.weight.fetch_sub(u64::from(self.plan.weight), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_issue_in_proportion_to_their_weights() {
        let group = Arc::new(FlowGroup::default());
        let share =
            |weight| FlowShare::new(Flow { id: 0, weight, sleep_ns: 0 }, Arc::clone(&group));
        let mut alone = share(3);
        (0..100).for_each(|_| alone.advance());
        assert_eq!(alone.wait_ns(), None);
        drop(alone);
        let (mut one, mut three) = (share(1), share(3));
        for _ in 0..4000 {
            for share in [&mut one, &mut three] {
                if share.wait_ns().is_none() {
                    share.advance();
                }
            }
        }
        let ratio = three.issued as f64 / one.issued as f64;
        assert!((2.9..3.1).contains(&ratio), "{ratio}");
    }
}
