//! What a search knows. Stages read it; only [`Search`](super::Search) applies their events to it.

use super::curve::Curve;
use super::knee::KneeFound;
use super::peak::{CounterResults, Peak};
use crate::experiment::Rate;
use fathom_model::limit::{BlockSpec, Combined, Config, Problem, TargetResult};
use fathom_model::window::{CpuShares, LoadMeasure, Measurement, Setting};

/// After this many windows with errors a target is no longer measured.
const BAD_WINDOWS_MAX: u32 = 3;

/// Which target and which of [`Config::blocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub target: usize,
    pub block: usize,
}

/// What a stage found.
#[derive(Debug)]
pub(super) enum Event {
    /// CPU usage of the idle machine.
    Idle(Option<CpuShares>),
    /// Operations of the NOP ring and their seconds, with one worker or with one per CPU.
    OwnCeiling { all_cores: bool, rate: Rate },
    /// The best setting of the climb.
    Best { at: At, setting: Setting },
    /// A confirmation test yielded a gain.
    PeakMoved { at: At, results: CounterResults },
    /// Confirmation tests at the peak, or at the best setting with one worker.
    Examined { at: At, is_one_worker: bool, results: CounterResults },
    /// The knee, if any.
    Knee { at: At, knee: Option<KneeFound> },
    /// The highest load that meets the latency target.
    Rated { at: At, result: TargetResult },
    /// All targets concurrently.
    Combined { block: usize, combined: Combined },
}

/// Everything known so far.
#[derive(Debug)]
pub(super) struct SearchState {
    pub config: Config,
    pub idle: Option<CpuShares>,
    /// Windows of the NOP ring with one worker.
    pub own_one_worker: Vec<Rate>,
    /// Windows of the NOP ring with one worker per CPU.
    pub own_all_cores: Vec<Rate>,
    /// By target, then by index into [`Config::blocks`].
    targets: Vec<Vec<BlockState>>,
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
        let blocks = |_| config.blocks.iter().map(BlockState::new).collect();
        Self {
            targets: config.targets.iter().map(blocks).collect(),
            config,
            idle: None,
            own_one_worker: Vec::new(),
            own_all_cores: Vec::new(),
            combined: Vec::new(),
        }
    }

    pub fn spec(&self, block: usize) -> BlockSpec {
        self.config.blocks[block]
    }

    pub fn block(&self, at: At) -> &BlockState {
        &self.targets[at.target][at.block]
    }

    fn block_mut(&mut self, at: At) -> &mut BlockState {
        &mut self.targets[at.target][at.block]
    }

    /// Each target's kinds of I/O.
    pub fn targets(&self) -> &[Vec<BlockState>] {
        &self.targets
    }

    /// Maximum I/Os in flight.
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

    /// Applies what a stage found.
    pub fn apply(&mut self, event: Event) {
        let cores = self.config.cores;
        match event {
            Event::Idle(cpu) => self.idle = cpu,
            Event::OwnCeiling { all_cores: false, rate } => self.own_one_worker.push(rate),
            Event::OwnCeiling { all_cores: true, rate } => self.own_all_cores.push(rate),
            Event::Best { at, setting } => {
                let BlockState { peak, curve, .. } = self.block_mut(at);
                peak.offer_best(setting, curve, cores);
            }
            Event::PeakMoved { at, results } => self.block_mut(at).peak.advance(results),
            Event::Examined { at, is_one_worker, results } => {
                self.block_mut(at).peak.examine(results, is_one_worker);
            }
            Event::Knee { at, knee } => {
                let block = self.block_mut(at);
                block.peak.offer_knee(knee, &block.curve, cores);
                block.knee = knee;
            }
            Event::Rated { at, result } => self.block_mut(at).target = Some(result),
            Event::Combined { block, combined } => {
                self.combined.retain(|(known, _)| *known != block);
                self.combined.push((block, combined));
            }
        }
    }

    /// Adds a window without errors to the curve.
    pub fn add_window(
        &mut self,
        at: At,
        setting: Setting,
        window: &Measurement,
        load: &LoadMeasure,
    ) {
        self.block_mut(at).curve.add(setting, window, load);
    }

    /// A window with errors or short transfers is reported and does not count.
    pub fn add_bad_window(&mut self, at: At, setting: Setting, load: &LoadMeasure) {
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
    fn new(spec: &BlockSpec) -> Self {
        Self {
            curve: Curve::new(spec.rw),
            peak: Peak::default(),
            knee: None,
            target: None,
            problems: Vec::new(),
            bad_windows: 0,
            refused_in_flight: None,
        }
    }

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
