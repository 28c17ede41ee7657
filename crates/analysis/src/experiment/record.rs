//! The record of an experiment (`fathom try`, `fathom sweep`), and what it found.

use super::rounds::Rounds;
use super::totals::Totals;
use crate::limit::KNEE_SHARE;
use crate::stats;
use fathom_model::experiment::{Detail, Experiment, ExperimentReport, MeasuredCondition, Request};

/// What `design` shows so far; `details` by condition.
pub fn report(design: &Rounds, request: &Request, details: &[Option<Detail>]) -> ExperimentReport {
    let count = request.experiment.conditions.len();
    let mut conditions: Vec<MeasuredCondition> = (0..count)
        .map(|index| MeasuredCondition {
            detail: details.get(index).cloned().flatten(),
            ..measured(design, index)
        })
        .collect();
    if request.is_sweep {
        curves(&request.experiment).iter().for_each(|curve| judge(curve, design, &mut conditions));
    }
    ExperimentReport {
        seconds_used: design.seconds_used(),
        windows: design.windows(),
        rounds: design.rounds(),
        conditions,
    }
}

fn measured(design: &Rounds, index: usize) -> MeasuredCondition {
    MeasuredCondition {
        metric: design.estimate(index),
        corrected: design.corrected(index),
        effect: design.effect(index),
        control: design.control(index),
        rejected: design.rejected(index).map(str::to_string),
        ..design.totals(index).map(Totals::figures).unwrap_or_default()
    }
}

/// Indices of the conditions that differ in the last axis only, in their order.
pub fn curves(experiment: &Experiment) -> Vec<Vec<usize>> {
    let mut curves: Vec<(Vec<String>, Vec<usize>)> = Vec::new();
    for (index, condition) in experiment.conditions.iter().enumerate() {
        if condition.repeats.is_some() {
            continue;
        }
        let along = condition.cell.len().saturating_sub(1);
        let mut key = condition.cell[..along].to_vec();
        key.push(condition.name.clone());
        match curves.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(index),
            None => curves.push((key, vec![index])),
        }
    }
    curves.into_iter().map(|(_, members)| members).collect()
}

/// Compares the cells of one curve with its best, and marks the knee: the first cell that reaches 95% of the best, or
/// under a given load the one with the most throughput per latency (Kleinrock's power, 1979).
fn judge(curve: &[usize], design: &Rounds, conditions: &mut [MeasuredCondition]) {
    let iops = |index: usize, of: &[MeasuredCondition]| of[index].iops;
    let best =
        curve.iter().copied().max_by(|a, b| iops(*a, conditions).total_cmp(&iops(*b, conditions)));
    let Some(best) = best.filter(|best| iops(*best, conditions) > 0.0) else { return };
    for index in curve.iter().copied().filter(|index| *index != best) {
        let pairs = design.pairs_of(index, best);
        conditions[index].to_best = stats::paired_robust(&pairs).or_else(|| stats::paired(&pairs));
    }
    conditions[best].is_best = true;
    let peak = iops(best, conditions);
    let knee = match design.has_rate(best) {
        true => {
            let power = |index: usize| {
                let latency = conditions[index].clat_mean_ns;
                if latency > 0.0 { iops(index, conditions) / latency } else { 0.0 }
            };
            curve.iter().copied().max_by(|a, b| power(*a).total_cmp(&power(*b)))
        }
        false => curve.iter().copied().find(|index| iops(*index, conditions) >= KNEE_SHARE * peak),
    };
    // At the end of a curve that still rises, there is no knee yet.
    let is_reached = |knee: &usize| curve.len() > 2 && Some(knee) != curve.last();
    if let Some(knee) = knee.filter(is_reached) {
        conditions[knee].is_knee = true;
    }
}
