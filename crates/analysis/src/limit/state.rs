//! What a search knows: the curve, the peak and the knee of each target and kind of I/O. Every rule by which the peak
//! moves is here.

use super::knee::KneeFound;
use super::thresholds::{
    AS_GOOD, DROPPED, GAIN_MIN, KNEE_SHARE, WIDE, WINDOWS_NOISY_MAX, WINDOWS_SURE, helps,
};
use crate::experiment::{Rate, Totals};
use crate::stats;
use fathom_model::experiment::WindowResult;
use fathom_model::limit::{
    BlockLimit, BlockSpec, Combined, Config, Confirmation, Experiment, HigherPoint, KneePoint,
    LimitReport, OwnCeiling, Problem, TargetLimit, TargetResult,
};
use fathom_model::window::{CpuShares, Point, Ratio, Rw, Setting};
use std::collections::BTreeMap;

/// After this many windows with errors a target is no longer measured.
const BAD_WINDOWS_MAX: u32 = 3;

/// Which target and which of [`Config::blocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub target: usize,
    pub block: usize,
}

#[derive(Debug)]
pub(super) struct SearchState {
    pub config: Config,
    /// CPU usage of the idle machine.
    pub idle: Option<CpuShares>,
    /// Windows of the NOP ring: with one worker, and with one per CPU.
    pub own: [Vec<Rate>; 2],
    /// By target, then by index into [`Config::blocks`].
    pub targets: Vec<Vec<BlockState>>,
    /// By index into [`Config::blocks`], the most recent last.
    pub combined: Vec<(usize, Combined)>,
}

/// One target and kind of I/O.
#[derive(Debug)]
pub(super) struct BlockState {
    pub curve: Curve,
    pub peak: Peak,
    pub knee: Option<KneeFound>,
    pub target: Option<TargetResult>,
    pub problems: Vec<Problem>,
    bad_windows: u32,
    /// As many I/Os in flight, or more, were refused.
    refused_in_flight: Option<u64>,
}

impl SearchState {
    pub fn new(config: Config) -> Self {
        let block = |spec: &BlockSpec| BlockState {
            curve: Curve { rw: spec.rw, cells: BTreeMap::new() },
            peak: Peak::default(),
            knee: None,
            target: None,
            problems: Vec::new(),
            bad_windows: 0,
            refused_in_flight: None,
        };
        let blocks = |_| config.blocks.iter().map(block).collect();
        let targets = config.targets.iter().map(blocks).collect();
        Self { targets, config, idle: None, own: [Vec::new(), Vec::new()], combined: Vec::new() }
    }

    pub fn spec(&self, block: usize) -> BlockSpec {
        self.config.blocks[block]
    }

    pub fn block(&self, at: At) -> &BlockState {
        &self.targets[at.target][at.block]
    }

    pub fn block_mut(&mut self, at: At) -> &mut BlockState {
        &mut self.targets[at.target][at.block]
    }

    pub fn in_flight_max(&self, at: At) -> u64 {
        let memory = (self.config.buffers_bytes_max / self.spec(at.block).block_bytes).max(1);
        self.block(at).refused_in_flight.map_or(memory, |r| memory.min(r.saturating_sub(1)).max(1))
    }

    /// Whether `setting` may be measured: a confirmation test may double the climb's maximum queue depth.
    pub fn allows(&self, at: At, setting: Setting) -> bool {
        setting.depth <= self.spec(at.block).depth_max.saturating_mul(2)
            && setting.in_flight() <= self.in_flight_max(at)
    }

    /// Whether `setting` may be the peak.
    pub fn is_in_range(&self, block: usize, setting: Setting) -> bool {
        self.spec(block).is_in_range(setting, self.config.cores)
    }

    /// The peak, by the windows so far.
    pub fn peak(&self, at: At) -> Option<Setting> {
        self.block(at).curve.peak(|setting| self.is_in_range(at.block, setting))
    }

    /// A setting that may be the peak; it becomes it if there is none that is about as good.
    pub fn offer_best(&mut self, at: At, best: Setting) {
        let cores = self.config.cores;
        let BlockState { peak, curve, .. } = self.block_mut(at);
        if curve.mean(best) > GAIN_MIN * peak.setting.map_or(0.0, |peak| curve.mean(peak)) {
            peak.move_to(best, curve, cores);
        }
    }

    /// A knee with more I/Os per second becomes the peak. Where both are one plateau, and the knee is higher by
    /// chance, the peak stays where its confirmation tests were made.
    pub fn offer_knee(&mut self, at: At, knee: Option<KneeFound>) {
        let cores = self.config.cores;
        let BlockState { peak, curve, knee: known, .. } = self.block_mut(at);
        *known = knee;
        let Some(KneeFound { setting, of_peak, .. }) = knee else { return };
        let is_examined = peak.results.as_ref().is_some_and(is_examined);
        let margin = if is_examined { KNEE_SHARE } else { 1.0 };
        if of_peak.is_some_and(|ratio| ratio.value > 1.0 / margin) {
            peak.move_to(setting, curve, cores);
        }
        if setting.workers == 1 {
            // One worker that reaches the knee is not the limit.
            peak.one_worker = None;
        }
    }

    /// A window with errors or short transfers is reported and does not count.
    pub fn add_bad_window(&mut self, at: At, setting: Setting, load: &WindowResult) {
        let message = match &load.first_error {
            Some(message) => message.clone(),
            None if load.errors > 0 => "I/O errors".to_string(),
            None => "short transfers".to_string(),
        };
        let (errors, short_ios) = (load.errors, load.short_ios);
        let block = self.block_mut(at);
        block.bad_windows += 1;
        block.add_problem(Problem { setting, errors, short_ios, message });
    }

    /// A setting was refused. Nothing with as many in flight is requested again, unless it was measured before:
    /// then the target has changed.
    pub fn refuse(&mut self, at: At, setting: Setting, message: String) {
        let block = self.block_mut(at);
        let was_measured = block.curve.windows(setting) > 0;
        if was_measured {
            block.bad_windows += 1;
        } else {
            let in_flight = setting.in_flight();
            block.refused_in_flight =
                Some(block.refused_in_flight.map_or(in_flight, |r| r.min(in_flight)));
        }
        let errors = u64::from(was_measured);
        block.add_problem(Problem { setting, errors, short_ios: 0, message });
    }
}

impl BlockState {
    /// Too many errors, or no I/O possible at all: nothing more is measured here.
    pub fn is_broken(&self) -> bool {
        self.bad_windows >= BAD_WINDOWS_MAX || self.refused_in_flight.is_some_and(|r| r <= 1)
    }

    /// One problem for each setting, with the message of the first.
    fn add_problem(&mut self, problem: Problem) {
        if let Some(known) = self.problems.iter_mut().find(|p| p.setting == problem.setting) {
            known.errors = known.errors.saturating_add(problem.errors);
            known.short_ios = known.short_ios.saturating_add(problem.short_ios);
        } else {
            self.problems.push(problem);
        }
    }
}

#[derive(Debug)]
pub(super) struct Curve {
    rw: Rw,
    cells: BTreeMap<Setting, Totals>,
}

impl Curve {
    pub fn add(&mut self, setting: Setting, load: &WindowResult) {
        self.cells.entry(setting).or_default().add(load);
    }

    pub fn get(&self, setting: Setting) -> Option<&Totals> {
        self.cells.get(&setting)
    }

    /// Mean I/Os per second at `setting`; 0 if it was not measured.
    pub fn mean(&self, setting: Setting) -> f64 {
        self.get(setting).map_or(0.0, Totals::mean)
    }

    /// I/Os per second at `setting` over those at `base`, by unpaired windows; `None` with fewer than two of each.
    pub fn ratio(&self, setting: Setting, base: Setting) -> Option<Ratio> {
        stats::welch(&self.get(setting)?.iops(), &self.get(base)?.iops())
    }

    pub fn best_mean(&self) -> f64 {
        self.cells.values().map(Totals::mean).fold(0.0, f64::max)
    }

    pub fn windows(&self, setting: Setting) -> usize {
        self.get(setting).map_or(0, Totals::windows)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Setting, &Totals)> {
        self.cells.iter().map(|(s, c)| (*s, c))
    }

    /// Of the settings that `is_eligible` accepts and that completed I/Os: the fewest in flight that are as good as
    /// the best, and of those the fewest workers.
    pub fn cheapest_best(&self, is_eligible: impl Fn(Setting, &Totals) -> bool) -> Option<Setting> {
        let eligible = || self.iter().filter(|(s, c)| c.mean() > 0.0 && is_eligible(*s, c));
        let best = eligible().map(|(_, c)| c.mean()).fold(0.0, f64::max);
        eligible()
            .filter(|(_, c)| c.mean() >= AS_GOOD * best)
            .map(|(s, _)| s)
            .min_by_key(|s| (s.in_flight(), s.workers))
    }

    /// The peak: the highest IOPS of all settings that `is_in_range` accepts and that are not noisy; of those as good as
    /// it, the fewest in flight.
    pub fn peak(&self, is_in_range: impl Fn(Setting) -> bool) -> Option<Setting> {
        let is_clear =
            |setting, cell: &Totals| is_in_range(setting) && !self.is_noisy(setting, cell);
        self.cheapest_best(is_clear).or_else(|| self.cheapest_best(|s, _| is_in_range(s)))
    }

    /// Whether the windows of `cell` disagree, or it is far below a lower load and has few windows, as after a stall.
    pub fn is_noisy(&self, setting: Setting, cell: &Totals) -> bool {
        let is_lower =
            |s: Setting| s != setting && s.workers <= setting.workers && s.depth <= setting.depth;
        let lower = self.iter().filter(|(s, _)| is_lower(*s)).map(|(_, cell)| cell.mean());
        let has_dropped = cell.mean() < DROPPED * lower.fold(0.0, f64::max);
        let is_wide = cell.estimate().relative().is_some_and(|part| part > WIDE);
        is_wide || (has_dropped && cell.windows() < WINDOWS_SURE)
    }

    /// The first noisy setting that more windows may make clear.
    pub fn to_repeat(&self) -> Option<Setting> {
        let open = |s: Setting, cell: &Totals| {
            self.is_noisy(s, cell) && cell.windows() < WINDOWS_NOISY_MAX
        };
        self.iter().find(|(s, cell)| open(*s, cell)).map(|(s, _)| s)
    }

    pub fn best_of_one_worker(&self) -> Option<Setting> {
        self.cheapest_best(|s, _| s.workers == 1)
    }
}

/// Confirmation tests at `base`; `moved` if it was found by them: the previous peak, and the gain over it.
pub(super) fn confirmation(
    base: Point,
    experiments: Vec<Experiment>,
    moved: Option<(Setting, Ratio)>,
) -> Confirmation {
    let at = base.setting();
    let higher = moved.map(|(over, gain)| HigherPoint { setting: at, over, gain });
    Confirmation { at, base: Some(base), higher, experiments, cause: None, reason: None }
}

/// Whether any confirmation test was made or rejected.
fn is_examined(tests: &Confirmation) -> bool {
    tests.experiments.iter().any(|e| e.gain.is_some() || e.refused.is_some())
}

/// The peak, and the confirmation tests made there and at the best setting with one worker.
#[derive(Debug, Default)]
pub(super) struct Peak {
    pub setting: Option<Setting>,
    pub results: Option<Confirmation>,
    pub one_worker: Option<Confirmation>,
}

impl Peak {
    /// Results at another setting do not apply at `to`.
    fn move_to(&mut self, to: Setting, curve: &Curve, cores: u32) {
        self.setting = Some(to);
        if self.one_worker.as_ref().is_some_and(|results| results.at == to) {
            self.results = self.one_worker.take();
        } else if let (Some(results), Some(cell)) = (&mut self.results, curve.get(to)) {
            *results = confirmation(cell.point(curve.rw, to, cores), Vec::new(), None);
        }
    }
}

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
        Some(Point { noisy: curve.is_noisy(s, cell), ..cell.point(spec.rw, s, cores) })
    };
    let suite = state.config.suite.get(index).map(|test| test.setting);
    let peak = suite.or_else(|| curve.peak(|setting| spec.is_in_range(setting, cores)));
    let knee = block.knee.zip(peak).map(|(knee, peak)| knee.checked(curve, peak));
    let confirmation = |tests: &Confirmation, peak: Option<Setting>| Confirmation {
        higher: higher(tests, curve, peak),
        ..tests.clone()
    };
    // One worker that reaches the knee is not the limit.
    let needs_workers = knee.map(|knee| knee.setting).or(peak).is_some_and(|s| s.workers > 1);
    let one_worker = block.peak.one_worker.as_ref().filter(|_| needs_workers);
    BlockLimit {
        block_bytes: spec.block_bytes,
        rw: spec.rw,
        points: curve.iter().filter_map(|(s, _)| point(s)).collect(),
        latency: point(Setting::ONE),
        peak: peak.and_then(point),
        target: block.target.clone(),
        knee: knee.and_then(|found| {
            let KneeFound { setting, of_peak, depths, refined } = found;
            // The peak is not looked for among noisy settings, and might be below it.
            let point = point(setting).filter(|point| !point.noisy || Some(setting) == peak)?;
            Some(KneePoint { point, of_peak, depths, refined })
        }),
        confirmation: block.peak.results.as_ref().map(|tests| confirmation(tests, peak)),
        one_worker: one_worker.map(|tests| confirmation(tests, None)),
        problems: block.problems.clone(),
    }
}

/// The peak, if it is surely higher than the setting that was tested.
fn higher(tests: &Confirmation, curve: &Curve, peak: Option<Setting>) -> Option<HigherPoint> {
    if let Some(moved) = tests.higher.filter(|_| !is_examined(tests)) {
        return Some(moved);
    }
    let base = tests.at;
    let is_other =
        |peak: &Setting| *peak != base && !tests.experiments.iter().any(|e| e.setting == *peak);
    let setting = peak.filter(is_other)?;
    let gain = curve.ratio(setting, base).filter(helps)?;
    Some(HigherPoint { setting, over: base, gain })
}
