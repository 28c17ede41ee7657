//! The stages of a search: what they have in common, and those that only repeat windows.

use super::state::{At, SearchState};
use fathom_model::experiment::Metric;
use fathom_model::limit::Phase;
use fathom_model::window::{CpuTime, Load, Measurement, Setting};

/// Queue depth of the NOP ring.
const OWN_DEPTH: u32 = 128;
/// Windows of each NOP setting, and of latency at queue depth 1.
pub(super) const WINDOWS: usize = 3;
pub(super) const SUITE_ROUNDS: usize = 5;

/// The result of a window without errors, or why it does not count.
pub(super) type WindowOutcome<'a> = Result<&'a Measurement, &'a str>;

/// One stage. It enters what it finds in the state.
pub(super) trait Stage: std::fmt::Debug {
    /// The next window; `None` without an open question.
    fn next(&mut self, state: &mut SearchState) -> Option<WindowRequest>;

    /// Takes the result of the last request. The curve has it already.
    fn observe(&mut self, state: &mut SearchState, outcome: WindowOutcome<'_>);

    /// The stage has no open question, or its time is up.
    fn close(&mut self, _state: &mut SearchState) {}
}

#[derive(Debug, Clone)]
pub(super) struct WindowRequest {
    pub phase: Phase,
    pub loads: Vec<Load>,
    /// Index into [`Config::blocks`](fathom_model::limit::Config::blocks).
    pub block: usize,
    pub cores: Option<u32>,
}

impl WindowRequest {
    /// `loads` on all CPUs.
    pub fn new(phase: Phase, block: usize, loads: Vec<Load>) -> Self {
        Self { phase, loads, block, cores: None }
    }

    /// One target at one setting.
    pub fn one(phase: Phase, at: At, setting: Setting) -> Self {
        Self::new(phase, at.block, vec![Load::at(at.target, setting)])
    }

    /// The point of a curve that it measures: one target on all CPUs, with as many I/Os as complete.
    pub fn curve_point(&self) -> Option<(At, Setting)> {
        let ([load], None) = (self.loads.as_slice(), self.cores) else { return None };
        if load.iops.is_some() {
            return None;
        }
        Some((At { target: load.target?, block: self.block }, load.setting))
    }
}

/// A fixed number of windows, of one of four phases: the idle machine, the NOP ring with one worker and with one per CPU,
/// latency at queue depth 1, the tests of the suite in turn.
#[derive(Debug)]
pub(super) struct Repeated {
    pub phase: Phase,
    /// For the suite only its target counts.
    pub at: At,
    pub turn: usize,
}

impl Stage for Repeated {
    fn next(&mut self, state: &mut SearchState) -> Option<WindowRequest> {
        let Self { phase, at, turn } = *self;
        let suite = &state.config.suite;
        let at = if phase == Phase::Suite { At { block: turn % suite.len(), ..at } } else { at };
        let (windows, loads) = match phase {
            Phase::Idle => (1, Vec::new()),
            Phase::Own => {
                let workers = if turn.is_multiple_of(2) { 1 } else { state.config.cores };
                (2 * WINDOWS, vec![Load::nop(Setting { workers, depth: OWN_DEPTH })])
            }
            Phase::Suite => {
                (SUITE_ROUNDS * suite.len(), vec![Load::at(at.target, suite[at.block].setting)])
            }
            _ => (WINDOWS, vec![Load::at(at.target, Setting::ONE)]),
        };
        let is_broken = || loads.iter().any(|l| l.target.is_some()) && state.block(at).is_broken();
        (turn < windows && !is_broken()).then(|| WindowRequest::new(phase, at.block, loads))
    }

    fn observe(&mut self, state: &mut SearchState, outcome: WindowOutcome<'_>) {
        self.turn += 1;
        let Ok(window) = outcome else { return };
        match self.phase {
            Phase::Idle => state.idle = window.cpu.and_then(CpuTime::shares),
            Phase::Own => {
                let rates = window.results().map(|load| load.rate(Metric::Iops));
                state.own[(self.turn + 1) % 2].extend(rates);
            }
            _ => {}
        }
    }
}
