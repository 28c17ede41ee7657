//! What limited a workload, from what was sampled while it ran: the block "Limited by" of `run` and `watch`.
//!
//! Each cause is a rule with evidence of its own; none is found by elimination. Here causes are weighed: by the part
//! of the workload's time that each of them explains.

pub(super) mod cgroup;
pub(super) mod cpu;
pub(super) mod device;
pub(super) mod memory;
pub(super) mod queue;
pub(super) mod stacked;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
pub(super) mod threads;
mod view;

pub(super) use view::View;

use super::{Claim, Input, RULES, Rule};
use crate::watch::ObservedTotals;
use fathom_model::RunRecord;
use fathom_model::finding::Finding;
use fathom_model::watch::Stack;

/// So many causes are named at most.
const CAUSES_MAX: usize = 3;
/// A cause that explains a smaller part than this of what the largest does is left out.
const PART_OF_LARGEST: f64 = 0.25;
/// A cause supersedes another from this part of its weight on.
const SUPERSEDES_FROM: f64 = 0.5;
/// Fewer samples of the machine than this show nothing.
const SAMPLES_MIN: u64 = 2;
/// Ranked last: that CPU time or a device is in use matters less than what uses it, or holds I/Os back.
static LAST: [&Rule; 3] = [&cpu::BUSY_CPUS, &cpu::OWN_TIME, &device::DEVICE];

/// What limited a workload.
#[derive(Debug, Clone, PartialEq)]
pub enum Limiters {
    /// These, the largest first.
    Found(Vec<Finding>),
    /// Nothing that was sampled; what would settle it.
    Inconclusive(String),
}

/// What limited the workload of `record` while `seen` was sampled, whose samples refer to `stacks`.
#[must_use]
pub fn limiters(record: &RunRecord, seen: &ObservedTotals, stacks: &[Stack]) -> Limiters {
    let view = View::new(record, seen, stacks);
    let settle = view.what_would_settle_it();
    if seen.samples < SAMPLES_MIN || view.life_ns() < view::LIFE_MIN_NS {
        return Limiters::Inconclusive(settle);
    }
    let input = Input::View(&view);
    let held = RULES.iter().filter_map(|rule| Some((*rule, rule.claim(&input)?))).collect();
    let causes = weigh(held);
    match causes.is_empty() {
        true => Limiters::Inconclusive(settle),
        false => Limiters::Found(causes.into_iter().map(|(rule, c)| rule.finding(c)).collect()),
    }
}

/// The few causes that matter, the largest first.
fn weigh(held: Vec<(&'static Rule, Claim)>) -> Vec<(&'static Rule, Claim)> {
    let supersedes = |(rule, claim): &(&Rule, Claim), weaker: &(&Rule, Claim)| {
        rule.supersedes.iter().any(|other| other.id == weaker.0.id)
            && claim.weight >= weaker.1.weight * SUPERSEDES_FROM
    };
    let is_superseded: Vec<bool> =
        held.iter().map(|one| held.iter().any(|other| supersedes(other, one))).collect();
    let largest = held.iter().map(|(_, claim)| claim.weight).fold(0.0, f64::max);
    let kept = held.into_iter().zip(is_superseded);
    let kept = kept.filter(|((_, claim), superseded)| {
        !superseded && claim.weight >= largest * PART_OF_LARGEST
    });
    let mut causes: Vec<(&Rule, Claim)> = kept.map(|(cause, _)| cause).collect();
    let is_last = |rule: &Rule| LAST.iter().any(|last| last.id == rule.id);
    causes.sort_by(|(a, one), (b, other)| {
        is_last(a).cmp(&is_last(b)).then(other.weight.total_cmp(&one.weight))
    });
    causes.truncate(CAUSES_MAX);
    causes
}
