//! Rules that name what limited a workload: the block "Limited by" of `run` and `watch`.
//!
//! Each cause is a rule with evidence of its own; none is found by elimination. Here causes are weighed: by the part
//! of the workload's time that each of them explains.

pub(super) mod cgroup;
pub(super) mod cpu;
pub(super) mod device;
pub(super) mod drop;
pub(super) mod generator;
pub(super) mod links;
pub(super) mod memory;
pub(super) mod queue;
pub(super) mod setting;
pub(super) mod stacked;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
pub(super) mod threads;
mod view;
pub(super) mod waits;

pub(super) use setting::SettingView;
pub(crate) use setting::verdicts as setting_verdicts;
pub(super) use view::View;

#[cfg(test)]
use super::testing::{Case, gains};
use super::{Check, Claim, Input, RULES, Rule};
use crate::watch::Observed;
use fathom_model::RunRecord;
use fathom_model::finding::{Class, Evidence, Finding, Unit};
use fathom_model::watch::Level;

const CAUSES_MAX: usize = 3;
/// A cause that explains a smaller part than this of what the largest does is left out.
const PART_OF_LARGEST: f64 = 0.25;
/// A cause supersedes another from this part of its weight on.
const SUPERSEDES_FROM: f64 = 0.5;
/// A share of the time is known to within this: so much larger must what has no remedy be to come before what has one.
const SHARE_KNOWN_TO: f64 = 0.05;
/// Fewer samples of the machine than this show nothing.
const SAMPLES_MIN: u64 = 2;
/// What takes time that no remedy makes up for: what the program does itself, or where it has nothing to do.
static WITHOUT_GAIN: [&Rule; 8] = [
    &cpu::OWN_TIME,
    &cpu::BUSY_CPUS,
    &drop::THROUGHPUT_DROP,
    &generator::LOAD_GENERATOR,
    &memory::NOT_ON_DISK,
    &waits::IDLE,
    &waits::NOT_RUNNING,
    &waits::TIMER,
];
/// None of the causes; found for want of others.
pub(super) static INCONCLUSIVE: Rule = Rule {
    id: "inconclusive",
    meaning: "Nothing that was sampled is known to have limited the workload.",
    threshold: || {
        format!(
            "No other limiter explains the workload's time, the largest part of it is waits of unknown cause, or it was not judged: fewer than {SAMPLES_MIN} samples, or \
             less than {:.0} s. In a search, no limiter holds for the setting.",
            view::LIFE_MIN_NS as f64 / 1e9
        )
    },
    checks: &[Check::Setting("", setting::inconclusive)],
    #[cfg(test)]
    cases: &[
        Case::Setting {
            holds: |r| gains(r, [0.9, 1.3], [0.9, 1.3]),
            near_miss: |_| (),
            summary: "Doubling the queue depth yields 1.10× the IOPS (95% CI 0.90–1.30): too noisy for a conclusion.",
        },
        Case::Setting {
            holds: |r| {
                gains(r, [0.98, 1.02], [0.98, 1.02]);
                cpu::on_half_of_the_cpus(r, [0.9, 1.0]);
            },
            near_miss: |r| {
                gains(r, [0.98, 1.02], [0.98, 1.02]);
                cpu::on_half_of_the_cpus(r, [0.45, 0.55]);
            },
            summary: "CPU usage is 97%. Yet with half the CPUs, IOPS are 0.95× (95% CI 0.90–1.00): more CPUs mostly wait for each \
                      other, for locks and cache lines of what they share, such as one file.",
        },
    ],
    ..Rule::LIMITER
};

/// What limited the workload of `record` while `observed` was sampled, the largest cause first, or that no cause was
/// found; nothing without samples. `findings` are those of other rules about the record.
pub(super) fn verdict(
    record: &RunRecord,
    findings: &[Finding],
    observed: &Observed,
) -> Vec<Finding> {
    if !has_samples(record, observed) {
        return Vec::new();
    }
    let view = View::new(record, findings, observed);
    let input = Input::View(&view);
    let causes = match observed.samples < SAMPLES_MIN || view.life_ns() < view::LIFE_MIN_NS {
        true => Vec::new(),
        false => {
            let limiters = RULES.iter().filter(|rule| rule.class == Class::Limiter);
            let held = limiters.filter_map(|rule| Some((*rule, rule.claim(&input)?)));
            // Shares of all of the time need no comparison with each other.
            let part = if view.account.is_some() { 0.0 } else { PART_OF_LARGEST };
            weigh(held.collect(), view.share_min(0.0), part)
        }
    };
    let largest = causes.first().map_or(0.0, |(_, claim)| claim.weight);
    // A smaller part that has a name is not the cause.
    let unnamed = view.unnamed(largest).filter(|_| view.account.is_some() && largest > 0.0);
    if let Some(claim) = unnamed {
        return vec![Finding { rank: Some(1), ..INCONCLUSIVE.finding(claim) }];
    }
    if causes.is_empty() {
        let samples = Evidence::number("samples", observed.samples as f64, Unit::Count);
        let claim = Claim { evidence: vec![samples], ..view.inconclusive() };
        return vec![Finding { rank: Some(1), ..INCONCLUSIVE.finding(claim) }];
    }
    // A share of all of the time.
    let are_of_all = view.account.is_some();
    let ranked = (1..).zip(causes).map(|(rank, (rule, claim))| {
        let share = claim.weight;
        let claim = if are_of_all && has_gain(rule) { claim.gain_of(share) } else { claim };
        Finding { rank: Some(rank), share_explained: Some(share), ..rule.finding(claim) }
    });
    ranked.collect()
}

/// What else the samples say: the findings of rules that name no limiter.
pub(super) fn noted(record: &RunRecord, findings: &[Finding], observed: &Observed) -> Vec<Finding> {
    if !has_samples(record, observed) {
        return Vec::new();
    }
    let view = View::new(record, findings, observed);
    let others = RULES.iter().filter(|rule| rule.class != Class::Limiter);
    others.filter_map(|rule| rule.check(&Input::View(&view))).collect()
}

/// Whether it was sampled as a whole: a single source is no basis for a verdict.
fn has_samples(record: &RunRecord, observed: &Observed) -> bool {
    let Some(sampling) = &record.header.sampling else { return observed.samples > 0 };
    // A run that ended before the first sample was taken was too short to be judged, which is said.
    let was_short =
        sampling.level != Level::Off && record.jobs.iter().any(|job| job.runtime_ns > 0);
    sampling.view.is_none() && (observed.samples > 0 || was_short)
}

fn has_gain(rule: &Rule) -> bool {
    WITHOUT_GAIN.iter().all(|other| other.id != rule.id)
}

/// The few causes that matter, the largest first. A cause that explains part of what another one does leaves that one the
/// rest, or nothing if it explains half.
fn weigh(
    held: Vec<(&'static Rule, Claim)>,
    least: f64,
    part_of_largest: f64,
) -> Vec<(&'static Rule, Claim)> {
    let part_of = |(rule, claim): &(&Rule, Claim)| {
        let explains = |(other, _): &&(&Rule, Claim)| {
            other.supersedes.iter().any(|weaker| weaker.id == rule.id)
        };
        let known = held.iter().filter(explains).map(|(_, other)| other.weight).fold(0.0, f64::max);
        if known >= claim.weight * SUPERSEDES_FROM { 0.0 } else { claim.weight - known }
    };
    let rest: Vec<f64> = held.iter().map(part_of).collect();
    let largest = rest.iter().copied().fold(0.0, f64::max);
    let kept = held
        .into_iter()
        .zip(rest)
        .filter(|(_, rest)| *rest > 0.0 && *rest >= largest * part_of_largest && *rest >= least);
    let mut causes: Vec<(&Rule, Claim)> =
        kept.map(|((rule, claim), weight)| (rule, Claim { weight, ..claim })).collect();
    let order = |(rule, claim): &(&Rule, Claim)| match has_gain(rule) {
        true => claim.weight + SHARE_KNOWN_TO,
        false => claim.weight,
    };
    causes.sort_by(|one, other| order(other).total_cmp(&order(one)));
    causes.truncate(CAUSES_MAX);
    causes
}
