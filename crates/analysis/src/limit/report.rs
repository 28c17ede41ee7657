//! The report of what a search knows.

use super::config::QueueFacts;
use super::knee::KneeFound;
use super::outcome::{BlockLimit, KneePoint, LimitReport, OwnCeiling, TargetLimit, Verdict};
use super::peak::CounterResults;
use super::state::{BlockState, SearchState};
use super::verdict::{self, Evidence};
use crate::experiment::Setting;
use crate::stats::Estimate;

/// Everything but the use of time.
pub(super) fn report(state: &SearchState) -> LimitReport {
    let own = |rates: &[f64]| (!rates.is_empty()).then(|| Estimate::of(rates));
    let blocks = |queue: Option<&QueueFacts>, blocks: &[BlockState]| {
        (0..).zip(blocks).map(|(index, block)| block_limit(state, queue, index, block)).collect()
    };
    let targets = state.config.targets.iter().zip(state.targets());
    LimitReport {
        cores: state.config.cores,
        idle: state.idle,
        own: OwnCeiling {
            one_worker: own(&state.own_one_worker),
            all_cores: own(&state.own_all_cores),
        },
        targets: targets
            .enumerate()
            .map(|(index, (name, known))| TargetLimit {
                name: name.clone(),
                blocks: blocks(state.config.queues.get(index), known),
            })
            .collect(),
        combined: state.combined.iter().map(|(_, combined)| combined.clone()).collect(),
        ..LimitReport::default()
    }
}

fn block_limit(
    state: &SearchState,
    queue: Option<&QueueFacts>,
    index: usize,
    block: &BlockState,
) -> BlockLimit {
    let (cores, spec) = (state.config.cores, state.spec(index));
    let (curve, peak) = (&block.curve, &block.peak);
    let point = |s: Setting| curve.get(s).map(|cell| cell.point(s, cores));
    let verdict = |results: Option<&CounterResults>| -> Option<Verdict> {
        let (results, idle) = (results?, state.idle);
        let evidence = Evidence { results, idle, cores, spec, queue, curve };
        Some(verdict::decide(&evidence))
    };
    BlockLimit {
        block_bytes: spec.block_bytes,
        rw: spec.rw,
        points: curve.iter().map(|(s, cell)| cell.point(s, cores)).collect(),
        latency: point(Setting::ONE),
        peak: peak
            .setting()
            .or_else(|| Some(state.config.suite.get(index)?.setting))
            .and_then(point),
        target: block.target.clone(),
        knee: block.knee.and_then(|found| {
            let KneeFound { setting, of_peak, depths, refined } = found;
            Some(KneePoint { point: point(setting)?, of_peak, depths, refined })
        }),
        verdict: verdict(peak.results()),
        one_worker: verdict(peak.one_worker()),
        problems: block.problems.clone(),
    }
}
