//! Confirmation tests: the setting in question, interleaved with variants that change one thing.

use super::stage::{Stage, WindowOutcome, WindowRequest};
use super::state::{At, SearchState, confirmation};
use super::thresholds::{CORES_SUSPECT, KNEE_SHARE, helps, surely_helps};
use crate::experiment::{Condition, Series};
use fathom_model::limit::{Experiment, ExperimentKind, Phase};
use fathom_model::window::{Ratio, Setting};

/// Windows of the baseline at least, and rounds in each turn of the stage at most.
const ROUNDS_MIN: usize = 3;
const ROUNDS_MAX: usize = 12;
/// Half the width of an interval that is precise, as a share: ±3%.
const PRECISION: f64 = 0.03;

/// The baseline, or one change to it.
#[derive(Debug)]
struct Variant {
    /// `None` for the baseline.
    kind: Option<ExperimentKind>,
    setting: Setting,
    cores: Option<u32>,
}

/// The confirmation tests at the peak, or at the best setting with one worker.
#[derive(Debug)]
pub(super) struct Counter {
    at: At,
    phase: Phase,
    base: Option<Setting>,
    series: Series<Variant>,
    /// Rounds in this turn of the stage.
    rounds: usize,
    moved: Option<(Setting, Ratio)>,
}

impl Counter {
    /// In [`Phase::Counter`] at the peak, in [`Phase::CounterOne`] at the best setting with one worker.
    pub fn new(at: At, phase: Phase) -> Self {
        Self { at, phase, base: None, series: Series::new([]), rounds: 0, moved: None }
    }

    /// Whether the peak is no longer where these experiments were made.
    fn is_elsewhere(&self, state: &SearchState) -> bool {
        self.phase == Phase::Counter && self.base != state.block(self.at).peak.setting
    }

    /// The setting in question, if any.
    fn question(&self, state: &SearchState) -> Option<Setting> {
        let block = state.block(self.at);
        let peak = block.peak.setting?;
        if self.phase == Phase::Counter {
            return Some(peak);
        }
        let one = block.curve.best_of_one_worker().filter(|_| peak.workers > 1)?;
        (block.curve.mean(one) < KNEE_SHARE * block.curve.mean(peak)).then_some(one)
    }

    fn start(&mut self, state: &SearchState, base: Setting) {
        let deeper = Setting { depth: base.depth.saturating_mul(2), ..base };
        let more = Setting { workers: base.workers + (base.workers / 2).max(1), ..base };
        let baseline = Variant { kind: None, setting: base, cores: None };
        self.series = Series::new([baseline]);
        self.base = Some(base);
        self.rounds = 0;
        self.add_variant(state, ExperimentKind::Deeper, deeper, None);
        self.add_variant(state, ExperimentKind::MoreWorkers, more, None);
    }

    fn add_variant(
        &mut self,
        state: &SearchState,
        kind: ExperimentKind,
        setting: Setting,
        cores: Option<u32>,
    ) {
        let rejected = (!state.allows(self.at, setting)).then(|| {
            format!("{} I/Os in flight exceed the memory or kernel limit", setting.in_flight())
        });
        self.series.push(Variant { kind: Some(kind), setting, cores }, rejected);
    }

    /// Adds the variant with fewer CPUs once they appear fully used.
    fn suspect_cores(&mut self, state: &SearchState) {
        let fewer = Some(ExperimentKind::FewerCores);
        let known = self.series.conditions().iter().any(|c| c.value.kind == fewer);
        let cpu = self.series.baseline().and_then(|base| base.totals.cpu());
        let full = cpu.is_some_and(|cpu| cpu.taken() >= CORES_SUSPECT);
        let half = state.config.cores / 2;
        if let (true, Some(base)) = (full && !known && half > 0, self.base) {
            self.add_variant(state, ExperimentKind::FewerCores, base, Some(half));
        }
    }

    fn is_settled(&self) -> bool {
        let Some(baseline) = self.series.baseline() else { return true };
        let precision = baseline.totals.estimate().relative();
        let is_precise = precision.is_some_and(|p| p <= PRECISION);
        let mut variants = self.series.conditions().iter().enumerate().skip(1);
        self.rounds >= ROUNDS_MAX
            || (is_precise && variants.all(|(i, c)| c.rejected.is_some() || self.is_clear(i)))
    }

    /// The ratio of a variant is precise, or so far from 1 that more precision would change nothing.
    fn is_clear(&self, index: usize) -> bool {
        self.series
            .ratio(index)
            .is_some_and(|g| g.spread() <= PRECISION || g.low > 1.25 || g.high < 0.8)
    }

    /// A variant with a gain, and within reach of the climb, becomes the peak, and the experiments restart there.
    fn move_up(&mut self, state: &mut SearchState, is_gain: fn(&Ratio) -> bool) -> Option<()> {
        let base = self.base.filter(|_| self.phase == Phase::Counter)?;
        let cores = state.config.cores;
        let is_within_reach = |c: &Condition<Variant>| {
            let Variant { setting, cores: fewer, .. } = c.value;
            fewer.is_none() && state.is_in_range(self.at.block, setting)
        };
        let variants = self.series.conditions().iter().enumerate().skip(1);
        let (gain, condition) = variants
            .filter(|(_, c)| is_within_reach(c))
            .filter_map(|(i, c)| Some((self.series.ratio(i).filter(is_gain)?, c)))
            .max_by(|a, b| a.0.value.total_cmp(&b.0.value))?;
        let (setting, moved) = (condition.value.setting, Some((base, gain)));
        let base = condition.totals.point(state.spec(self.at.block).rw, setting, cores);
        self.moved = moved;
        self.start(state, setting);
        let peak = &mut state.block_mut(self.at).peak;
        peak.setting = Some(setting);
        peak.results = Some(confirmation(base, Vec::new(), moved));
        Some(())
    }

    fn experiment(&self, index: usize, all_cores: u32) -> Option<Experiment> {
        let conditions = self.series.conditions();
        let (changed, base) = (conditions.get(index)?, conditions.first()?);
        let (changed_ns, base_ns) =
            (changed.totals.sum.clat.mean_ns(), base.totals.sum.clat.mean_ns());
        Some(Experiment {
            kind: changed.value.kind?,
            setting: changed.value.setting,
            cores: changed.value.cores.unwrap_or(all_cores),
            base_iops: self.series.base_estimate(index),
            changed_iops: changed.totals.estimate(),
            gain: self.series.ratio(index),
            latency_ratio: (changed_ns > 0.0 && base_ns > 0.0).then(|| changed_ns / base_ns),
            refused: changed.rejected.clone(),
        })
    }
}

impl Stage for Counter {
    fn next(&mut self, state: &mut SearchState) -> Option<WindowRequest> {
        if state.block(self.at).is_broken() {
            return None;
        }
        if self.base.is_none() || self.is_elsewhere(state) {
            let base = self.question(state)?;
            self.moved = None;
            self.start(state, base);
        }
        loop {
            let windows = self.series.baseline().map_or(0, |base| base.totals.windows());
            if self.series.is_between_rounds() && windows >= ROUNDS_MIN {
                let settled = self.is_settled();
                let has_moved = self.move_up(state, if settled { helps } else { surely_helps });
                if has_moved.is_none() && settled {
                    return None;
                }
            }
            if let Some(index) = self.series.next_in_round() {
                let Variant { setting, cores, .. } = self.series.conditions()[index].value;
                let request = WindowRequest::one(self.phase, self.at, setting);
                return Some(WindowRequest { cores, ..request });
            }
            self.rounds += 1;
            self.suspect_cores(state);
        }
    }

    fn observe(&mut self, _: &mut SearchState, outcome: WindowOutcome<'_>) {
        self.series.observe(outcome);
    }

    fn close(&mut self, state: &mut SearchState) {
        // A sure gain moves the peak even if no time is left to continue from there.
        if self.is_elsewhere(state) || self.move_up(state, helps).is_some() {
            return;
        }
        self.rounds = 0;
        self.series.restart_round();
        let cores = state.config.cores;
        let baseline = self.series.baseline().filter(|baseline| baseline.totals.windows() > 0);
        let Some((base, baseline)) = self.base.zip(baseline) else { return };
        let variants = 1..self.series.conditions().len();
        let point = baseline.totals.point(state.spec(self.at.block).rw, base, cores);
        let experiments = variants.filter_map(|i| self.experiment(i, cores)).collect();
        let results = confirmation(point, experiments, self.moved);
        let peak = &mut state.block_mut(self.at).peak;
        match self.phase {
            Phase::CounterOne => peak.one_worker = Some(results),
            _ => peak.results = Some(results),
        }
    }
}
