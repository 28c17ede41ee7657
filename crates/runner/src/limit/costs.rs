//! The cost per I/O at each peak in instructions, cycles and cache misses, measured in separate windows after the
//! search.

use super::executor::plan;
use crate::cancel::CancelToken;
use crate::cost;
use crate::targets::OpenTargets;
use fathom_analysis::derive;
use fathom_model::limit::{BlockSpec, LimitRecord, PeakCost, Phase};
use fathom_model::record::{Cost, JobRecord};
use fathom_model::window::{Conditions, Load, Point, Probe};

/// Stores the cost per I/O at the peaks of `record`, or why it is unknown.
pub fn measure(targets: &OpenTargets, cancel: &CancelToken, record: &mut LimitRecord) {
    let mut costs = Vec::new();
    // The suite has no peaks.
    if !record.config.suite.is_empty() {
        return;
    }
    for (target, limit) in record.report.targets.iter().enumerate() {
        for (block, spec) in limit.blocks.iter().zip(&record.config.blocks) {
            let Some(peak) = &block.peak else { continue };
            if !record.header.outcome.is_finished() || cancel.reason().is_some() {
                break;
            }
            let load = Load::at(target, peak.setting());
            // A number that no window of the search has used.
            let number = u64::from(record.report.windows) + 1 + costs.len() as u64;
            let probe = probe(load, spec);
            match one(targets, cancel, &record.conditions, &probe, number) {
                Ok(jobs) => costs.extend(at_peak(&jobs, &probe, peak)),
                Err(why) => record.costs_missing = Some(why),
            }
        }
    }
    record.costs = costs;
}

fn probe(load: Load, spec: &BlockSpec) -> Probe {
    let BlockSpec { block_bytes, rw, .. } = *spec;
    let (phase, loads) = (Phase::Climb, vec![load]);
    Probe { phase, loads, block_bytes, rw, cores: None, ramp_ns: 0, window_ns: 0 }
}

fn one(
    targets: &OpenTargets,
    cancel: &CancelToken,
    conditions: &[Conditions],
    probe: &Probe,
    number: u64,
) -> Result<Vec<JobRecord>, String> {
    let plan = plan(probe, &targets.facts, conditions, number)?;
    let mut jobs = vec![JobRecord::default(); plan.jobs.len()];
    cost::measure(targets, &plan, cancel, &mut jobs);
    match jobs.iter().find_map(|job| job.cost_missing.clone()) {
        Some(why) => Err(why),
        None => Ok(jobs),
    }
}

fn at_peak(jobs: &[JobRecord], probe: &Probe, peak: &Point) -> Option<PeakCost> {
    let costs: Vec<Cost> = jobs.iter().filter_map(|job| job.cost).collect();
    let cost = derive::merge_costs(&costs)?;
    let counted = cost.ios as f64 * 1e9 / cost.window_ns.max(1) as f64;
    let speed_ratio = if peak.iops.mean > 0.0 { counted / peak.iops.mean } else { 0.0 };
    let lacks = jobs.first().map(|job| job.cost_lacks.clone()).unwrap_or_default();
    let target = probe.loads.first()?.target?;
    Some(PeakCost {
        target,
        block_bytes: probe.block_bytes,
        rw: probe.rw,
        cost: Cost { speed_ratio, ..cost },
        lacks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::window::{Estimate, Setting};

    #[test]
    fn workers_are_put_together_and_compared_with_the_peak() {
        let job = |ios, user_instructions| JobRecord {
            cost: Some(Cost { ios, user_instructions, window_ns: 100_000_000, ..Cost::default() }),
            ..JobRecord::default()
        };
        let load = Load::at(1, Setting { workers: 2, depth: 8 });
        let iops = Estimate { mean: 8_000.0, ..Estimate::default() };
        let peak = Point { iops, ..Point::default() };
        let probe = probe(load, &BlockSpec::defaults()[0]);
        let cost = at_peak(&[job(100, 10.0), job(300, 20.0)], &probe, &peak).unwrap();
        assert_eq!((cost.target, cost.block_bytes, cost.cost.ios), (1, 4096, 400));
        assert_eq!((cost.cost.user_instructions, cost.cost.speed_ratio), (17.5, 0.5));
        assert_eq!(at_peak(&[JobRecord::default()], &probe, &peak), None);
    }
}
