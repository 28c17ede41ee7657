//! The search for the peak: a deeper queue with one worker, then more workers, then queue depths around the best, and
//! finally the best few again. Then settings whose figures would mislead are measured again.

use super::stage::{Stage, WindowOutcome, WindowRequest};
use super::state::{At, SearchState};
use super::thresholds::{GAIN_MIN, WINDOWS_SURE, helps};
use fathom_model::limit::Phase;
use fathom_model::window::Setting;

/// So many steps without a gain end a direction: one may be chance.
const FLAT_STEPS: u32 = 2;
/// Settings within this share of the best are measured again.
const NEAR_BEST: f64 = 0.95;
/// Maximum number of settings that are measured again.
const REPEATED_SETTINGS: usize = 3;
/// Windows of the confirmation at most: what stays noisy is marked.
const CONFIRM_WINDOWS_MAX: u32 = 12;

#[derive(Debug)]
enum Move {
    /// One worker, this queue depth.
    Deepen(u32),
    AddWorkers(u32),
    /// Deeper or shallower than the best with several workers.
    AdjustDepth {
        top: Setting,
        deeper: bool,
    },
    /// The best few, alternating.
    Repeat {
        left: Vec<Setting>,
    },
    Done,
}

#[derive(Debug)]
pub(super) struct Climb {
    at: At,
    next: Move,
    best: f64,
    flat: u32,
    /// Queue depth of each worker while workers are added.
    depth: u32,
    failed: bool,
}

impl Climb {
    pub fn new(at: At) -> Self {
        Self { at, next: Move::Deepen(1), best: 0.0, flat: 0, depth: 1, failed: false }
    }

    fn setting(&self) -> Option<Setting> {
        match self.next {
            Move::Deepen(depth) => Some(Setting { workers: 1, depth }),
            Move::AddWorkers(workers) => Some(Setting { workers, depth: self.depth }),
            Move::AdjustDepth { top, deeper } => {
                let depth = if deeper { top.depth.saturating_mul(2) } else { top.depth / 2 };
                Some(Setting { depth: depth.max(1), ..top })
            }
            Move::Repeat { .. } | Move::Done => None,
        }
    }

    /// Continues from `setting`, which was measured or cannot be.
    fn advance(&mut self, state: &SearchState, setting: Setting) {
        let curve = &state.block(self.at).curve;
        let measured = curve.windows(setting) > 0;
        let depth_max = state.spec(self.at.block).depth_max;
        match self.next {
            Move::Deepen(depth) => {
                let deepest = depth.saturating_mul(2) > depth_max;
                if !measured || self.is_flat(curve.mean(setting)) || deepest {
                    self.start_adding_workers(state);
                } else {
                    self.next = Move::Deepen(depth * 2);
                }
            }
            Move::AddWorkers(workers) => {
                let cores = state.config.cores;
                if !measured || self.is_flat(curve.mean(setting)) || workers >= cores {
                    self.start_adjusting_depth(state);
                } else {
                    self.add_workers(state, workers.saturating_mul(2).min(cores));
                }
            }
            Move::AdjustDepth { top, deeper } => {
                let better = curve.mean(setting) >= GAIN_MIN * curve.mean(top) && setting != top;
                match (better, deeper) {
                    (true, _) if setting.depth < depth_max => {
                        self.next = Move::AdjustDepth { top: setting, deeper };
                    }
                    (false, true) => self.next = Move::AdjustDepth { top, deeper: false },
                    _ => self.start_repeating(state),
                }
            }
            Move::Repeat { .. } | Move::Done => {}
        }
    }

    /// Whether the last steps yielded no gain.
    fn is_flat(&mut self, mean: f64) -> bool {
        self.flat = if mean >= GAIN_MIN * self.best && mean > 0.0 { 0 } else { self.flat + 1 };
        self.best = self.best.max(mean);
        self.flat >= FLAT_STEPS
    }

    fn start_adding_workers(&mut self, state: &SearchState) {
        match state.block(self.at).curve.best_of_one_worker() {
            None => self.next = Move::Done,
            Some(one) => {
                self.flat = 0;
                self.depth = one.depth;
                if state.config.cores > 1 {
                    self.add_workers(state, 2);
                } else {
                    self.start_repeating(state);
                }
            }
        }
    }

    fn add_workers(&mut self, state: &SearchState, workers: u32) {
        let depth_max = state.in_flight_max(self.at) / u64::from(workers.max(1));
        self.depth = self.depth.min(u32::try_from(depth_max).unwrap_or(u32::MAX)).max(1);
        self.next = Move::AddWorkers(workers);
    }

    fn start_adjusting_depth(&mut self, state: &SearchState) {
        match state.block(self.at).curve.cheapest_best(|_, _| true) {
            Some(top) if top.workers > 1 => {
                let deeper = top.depth < state.spec(self.at.block).depth_max;
                self.next = Move::AdjustDepth { top, deeper };
            }
            Some(_) => self.start_repeating(state),
            None => self.next = Move::Done,
        }
    }

    fn start_repeating(&mut self, state: &SearchState) {
        let curve = &state.block(self.at).curve;
        let best = curve.best_mean();
        let mut near: Vec<_> = curve.iter().filter(|(_, c)| c.mean() >= NEAR_BEST * best).collect();
        near.sort_by(|a, b| b.1.mean().total_cmp(&a.1.mean()));
        near.truncate(REPEATED_SETTINGS);
        let mut left: Vec<Setting> = near.iter().map(|(s, _)| *s).collect();
        if let Some(cheapest) = curve.cheapest_best(|_, _| true).filter(|s| !left.contains(s)) {
            left.push(cheapest);
        }
        self.next = Move::Repeat { left };
    }
}

impl Stage for Climb {
    fn next(&mut self, state: &mut SearchState) -> Option<WindowRequest> {
        let block = state.block(self.at);
        while !block.is_broken() {
            if let Move::Repeat { left } = &mut self.next {
                let again = if self.failed { None } else { left.pop() };
                return again.map(|setting| WindowRequest::one(Phase::Climb, self.at, setting));
            }
            let setting = self.setting()?;
            let is_new = block.curve.windows(setting) == 0;
            if !self.failed && is_new && state.allows(self.at, setting) {
                return Some(WindowRequest::one(Phase::Climb, self.at, setting));
            }
            self.advance(state, setting);
            self.failed = false;
        }
        None
    }

    fn observe(&mut self, _: &mut SearchState, outcome: WindowOutcome<'_>) {
        self.failed = outcome.is_err();
    }

    /// The best setting so far, preferably of those measured more than once.
    fn close(&mut self, state: &mut SearchState) {
        let curve = &state.block(self.at).curve;
        let in_reach = |s: Setting| state.is_in_range(self.at.block, s);
        let Some(any) = curve.cheapest_best(|s, _| in_reach(s)) else { return };
        // A single window that is far better is the better guess.
        let setting = curve
            .cheapest_best(|s, c| in_reach(s) && c.windows() > 1)
            .filter(|repeated| curve.mean(any) <= GAIN_MIN * curve.mean(*repeated))
            .unwrap_or(any);
        state.offer_best(self.at, setting);
    }
}

/// Measures again the highest setting, if it rests on a window or two, and those that look like a stall.
#[derive(Debug)]
pub(super) struct Confirm {
    at: At,
    requests: u32,
    failed: bool,
}

impl Confirm {
    pub fn new(at: At) -> Self {
        Self { at, requests: 0, failed: false }
    }
}

impl Stage for Confirm {
    fn next(&mut self, state: &mut SearchState) -> Option<WindowRequest> {
        let block = state.block(self.at);
        if self.failed || block.is_broken() || self.requests >= CONFIRM_WINDOWS_MAX {
            return None;
        }
        let peak = state.peak(self.at).filter(|peak| block.curve.windows(*peak) < WINDOWS_SURE);
        let setting = peak.or_else(|| block.curve.to_repeat())?;
        self.requests += 1;
        Some(WindowRequest::one(Phase::Confirm, self.at, setting))
    }

    fn observe(&mut self, _: &mut SearchState, outcome: WindowOutcome<'_>) {
        self.failed = outcome.is_err();
    }

    /// A setting that surely exceeds the one that was tested becomes the one to test.
    fn close(&mut self, state: &mut SearchState) {
        let block = state.block(self.at);
        let both = state.peak(self.at).zip(block.peak.setting);
        let gain = |(best, tested)| block.curve.ratio(best, tested).filter(helps);
        if let Some((best, _)) = both.filter(|both| gain(*both).is_some()) {
            state.offer_best(self.at, best);
        }
    }
}
