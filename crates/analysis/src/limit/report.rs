//! The report of what a search knows.

use super::knee::KneeFound;
use super::peak::CounterResults;
use super::state::{BlockState, SearchState};
use super::verdict::{self, Evidence};
use crate::experiment::Rate;
use crate::stats;
use fathom_model::limit::{
    BlockLimit, KneePoint, LimitReport, OwnCeiling, QueueFacts, TargetLimit, Verdict,
};
use fathom_model::window::{Point, Setting};

/// Everything but the use of time.
pub(super) fn report(state: &SearchState) -> LimitReport {
    let own = |rates: &[Rate]| (!rates.is_empty()).then(|| stats::rate(rates));
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
    let curve = &block.curve;
    let point = |s: Setting| {
        let cell = curve.get(s)?;
        Some(Point { noisy: curve.is_noisy(s, cell), ..cell.point(s, cores) })
    };
    let suite = state.config.suite.get(index).map(|test| test.setting);
    let peak = suite.or_else(|| curve.peak(|setting| spec.is_in_range(setting, cores)));
    let knee = block.knee.zip(peak).map(|(knee, peak)| knee.up_to(peak));
    let verdict = |results: Option<&CounterResults>, peak: Option<Setting>| -> Option<Verdict> {
        let (results, seconds) = (results?, state.config.seconds);
        let evidence = Evidence { results, cores, spec, queue, curve, peak, seconds };
        Some(verdict::decide(&evidence))
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
            Some(KneePoint { point: point(setting)?, of_peak, depths, refined })
        }),
        verdict: verdict(block.peak.results(), peak),
        one_worker: verdict(block.peak.one_worker().filter(|_| needs_workers), None),
        problems: block.problems.clone(),
    }
}
