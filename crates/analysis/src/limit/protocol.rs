//! The protocol of a search: the order of its stages, their shares of the time, and the length of
//! a window.

use super::climb::Climb;
use super::combined::CombinedStage;
use super::confirm::Confirm;
use super::counter::Counter;
use super::knee::Knee;
use super::rated::Rated;
use super::request::WindowRequest;
use super::stage::{SUITE_ROUNDS, Stage, WINDOWS};
use super::state::{At, SearchState};
use crate::experiment::{Budget, Planned, Schedule};
use fathom_model::limit::{Config, Phase};
use fathom_model::window::{Probe, Rw};

/// A window with its ramp takes this fraction of the time of one target and kind of I/O, within the bounds below.
const SLOTS: f64 = 75.0;
pub(super) const SLOT_MIN_NS: f64 = 0.1e9;
const SLOT_MAX_NS: f64 = 1.0e9;
/// Rows of the suite take longer: there are few windows.
const SUITE_MAX_NS: f64 = 5.0e9;
/// The kernel accounts for CPU time in steps of 10 ms.
const IDLE_MIN_NS: f64 = 0.25e9;
/// The ramp's share of a slot.
const RAMP_SHARE: f64 = 0.2;
/// A slow target gets longer windows, so that each has about this many I/Os.
const IOS_WANTED: f64 = 100.0;
/// Maximum factor of such a stretch.
const STRETCH_MAX: f64 = 2.5;

/// Time of a window with its ramp, in nanoseconds, unless stretched.
pub(super) fn slot_ns(config: &Config) -> f64 {
    if !config.suite.is_empty() {
        let windows = SUITE_ROUNDS * config.suite.len() * config.targets.len().max(1);
        // The rest is for beginning and ending them.
        return (0.9 * config.seconds * 1e9 / windows as f64).clamp(SLOT_MIN_NS, SUITE_MAX_NS);
    }
    let searches = config.targets.len().max(1) * config.blocks.len().max(1);
    let slot = config.seconds * 1e9 / SLOTS / searches as f64;
    slot.clamp(SLOT_MIN_NS, SLOT_MAX_NS)
}

pub(super) fn budget(config: &Config) -> Budget {
    Budget::new(config.seconds * 1e9, STRETCH_MAX * slot_ns(config))
}

/// All stages in order. Those with several targets start once all targets have had a first round.
pub(super) fn schedule(config: &Config) -> Schedule<Stage> {
    let planned =
        |stage, weight| Planned { stage, weight, reserved_ns: None, may_reopen: false, open: true };
    // Short, and the rest is relative to it. Twice the slot leaves time for setup.
    let reserved = |stage, windows: usize| Planned {
        reserved_ns: Some(2.0 * slot_ns(config)),
        ..planned(stage, windows as f64)
    };
    // The peak may move, and what was too noisy may become clear.
    let reopening = |stage, weight| Planned { may_reopen: true, ..planned(stage, weight) };
    let mut first = vec![reserved(Stage::Idle { done: false }, 3)];
    if config.suite.is_empty() {
        first.push(reserved(Stage::Own { done: 0 }, 2 * WINDOWS));
    }
    for target in 0..config.targets.len() {
        for (block, spec) in config.blocks.iter().enumerate() {
            let at = At { target, block };
            let counter = |phase| Stage::Counter(Counter::new(at, phase, spec.rw));
            if !config.suite.is_empty() {
                continue;
            }
            first.extend([
                reserved(Stage::Latency { at, done: 0 }, WINDOWS),
                planned(Stage::Climb(Climb::new(at)), 20.0),
                reopening(Stage::Confirm(Confirm::new(at)), 3.0),
                reopening(counter(Phase::Counter), 15.0),
                reopening(counter(Phase::CounterOne), 9.0),
                reopening(Stage::Knee(Knee::new(at, spec.rw)), 20.0),
            ]);
            let rated = |wanted| planned(Stage::Rated(Rated::new(at, wanted)), 20.0);
            first.extend(config.target.map(rated));
        }
    }
    if !config.suite.is_empty() {
        let suites = (0..config.targets.len()).map(|target| Stage::Suite { target, turn: 0 });
        first
            .extend(suites.map(|suite| planned(suite, (SUITE_ROUNDS * config.suite.len()) as f64)));
        return Schedule::new(first, Vec::new());
    }
    let several = config.blocks.iter().enumerate().filter(|_| config.targets.len() > 1);
    let weight = 4.0 * (config.targets.len() as f64 + 1.0);
    let combined = several
        .map(|(block, spec)| planned(Stage::Combined(CombinedStage::new(block, spec.rw)), weight));
    Schedule::new(first, combined.collect())
}

/// The window for `request`.
pub(super) fn probe(request: &WindowRequest, state: &SearchState) -> Probe {
    let (ramp_ns, window_ns) = times(request, state);
    let spec = state.config.blocks.get(request.block);
    Probe {
        phase: request.phase,
        loads: request.loads.clone(),
        block_bytes: spec.map_or(1, |spec| spec.block_bytes),
        rw: spec.filter(|_| request.phase != Phase::Own).map_or(Rw::default(), |spec| spec.rw),
        cores: request.cores,
        ramp_ns: ramp_ns as u64,
        window_ns: window_ns as u64,
    }
}

/// Ramp and window in nanoseconds: longer where the target is so slow that a window would have few I/Os, or would
/// begin before the first ones complete.
fn times(request: &WindowRequest, state: &SearchState) -> (f64, f64) {
    let slot_ns = slot_ns(&state.config);
    let (ramp, window) = (slot_ns * RAMP_SHARE, slot_ns * (1.0 - RAMP_SHARE));
    if request.phase == Phase::Idle {
        return (0.0, window.max(IDLE_MIN_NS));
    }
    let mut stretched = (ramp, window);
    for load in &request.loads {
        let Some(target) = load.target else { continue };
        let curve = &state.block(At { target, block: request.block }).curve;
        let known = curve.mean(load.setting);
        let rate = if known > 0.0 { known } else { curve.best_mean() };
        let rate = load.iops.map_or(rate, |iops| iops as f64);
        if rate > 0.0 {
            let latency_ns = load.setting.in_flight() as f64 * 1e9 / rate;
            stretched.0 = stretched.0.max(2.0 * latency_ns);
            stretched.1 = stretched.1.max(IOS_WANTED * 1e9 / rate);
        }
    }
    (stretched.0.min(STRETCH_MAX * window), stretched.1.min(STRETCH_MAX * window))
}
