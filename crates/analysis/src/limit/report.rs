//! The report of what a search knows.

use super::knee::KneeFound;
use super::state::{BlockState, CounterResults, Curve, SearchState};
use super::thresholds::{KNEE_SHARE, helps};
use crate::experiment::Rate;
use crate::stats;
use fathom_model::limit::{
    BlockLimit, Confirmation, HigherPoint, KneePoint, LimitReport, OwnCeiling, TargetLimit,
};
use fathom_model::window::{Point, Setting};

/// Everything but the use of time.
pub(super) fn report(state: &SearchState) -> LimitReport {
    let own = |rates: &[Rate]| (!rates.is_empty()).then(|| stats::rate(rates));
    let blocks = |blocks: &[BlockState]| {
        (0..).zip(blocks).map(|(index, block)| block_limit(state, index, block)).collect()
    };
    let targets = state.config.targets.iter().zip(&state.targets);
    LimitReport {
        cores: state.config.cores,
        idle: state.idle,
        own: OwnCeiling { one_worker: own(&state.own[0]), all_cores: own(&state.own[1]) },
        targets: targets
            .map(|(name, known)| TargetLimit { name: name.clone(), blocks: blocks(known) })
            .collect(),
        combined: state.combined.iter().map(|(_, combined)| combined.clone()).collect(),
        ..LimitReport::default()
    }
}

fn block_limit(state: &SearchState, index: usize, block: &BlockState) -> BlockLimit {
    let (cores, spec) = (state.config.cores, state.spec(index));
    let curve = &block.curve;
    let point = |s: Setting| {
        let cell = curve.get(s)?;
        Some(Point { noisy: curve.is_noisy(s, cell), ..cell.point(s, cores) })
    };
    let suite = state.config.suite.get(index).map(|test| test.setting);
    let peak = suite.or_else(|| curve.peak(|setting| spec.is_in_range(setting, cores)));
    let knee = block.knee.zip(peak).map(|(knee, peak)| knee.up_to(peak));
    let confirmation = |results: Option<&CounterResults>, peak: Option<Setting>| {
        let results = results?;
        Some(Confirmation {
            at: results.base.setting(),
            base: Some(results.base.clone()),
            higher: higher(results, curve, peak),
            experiments: results.experiments.clone(),
            cause: None,
            reason: None,
        })
    };
    // One worker that reaches the knee is not the limit.
    let needs_workers = knee.map(|knee| knee.setting).or(peak).is_some_and(|s| s.workers > 1);
    BlockLimit {
        block_bytes: spec.block_bytes,
        rw: spec.rw,
        points: curve.iter().filter_map(|(s, _)| point(s)).collect(),
        latency: point(Setting::ONE),
        peak: peak.and_then(point),
        target: block.target.clone(),
        knee: knee.and_then(|found| {
            let KneeFound { setting, of_peak, depths, refined } = found;
            // Later windows may have shown that it is surely below its share of the peak.
            of_peak.is_none_or(|ratio| ratio.high >= KNEE_SHARE).then_some(())?;
            Some(KneePoint { point: point(setting)?, of_peak, depths, refined })
        }),
        confirmation: confirmation(block.peak.results.as_ref(), peak),
        one_worker: confirmation(block.peak.one_worker.as_ref().filter(|_| needs_workers), None),
        problems: block.problems.clone(),
    }
}

/// The peak, if it is surely higher than the setting that was tested.
fn higher(results: &CounterResults, curve: &Curve, peak: Option<Setting>) -> Option<HigherPoint> {
    let base = results.base.setting();
    if let Some((over, gain)) = results.moved.filter(|_| !results.is_examined()) {
        return Some(HigherPoint { setting: base, over, gain });
    }
    let is_other =
        |peak: &Setting| *peak != base && !results.experiments.iter().any(|e| e.setting == *peak);
    let setting = peak.filter(is_other)?;
    let (best, tested) = (curve.get(setting)?, curve.get(base)?);
    let gain = stats::welch(&best.iops(), &tested.iops()).filter(helps)?;
    Some(HigherPoint { setting, over: base, gain })
}
