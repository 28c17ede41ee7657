//! The stages of a search behind one interface.

use super::climb::Climb;
use super::combined::CombinedStage;
use super::confirm::Confirm;
use super::counter::Counter;
use super::knee::Knee;
use super::rated::Rated;
use super::request::{Step, WindowRequest};
use super::state::{At, Event, SearchState};
use fathom_model::limit::Phase;
use fathom_model::window::{CpuTime, Load, Measurement, Setting};

/// Queue depth of the NOP ring.
const OWN_DEPTH: u32 = 128;
/// Windows of each NOP setting, and of latency at queue depth 1.
pub(super) const WINDOWS: usize = 3;
/// Rounds of the suite.
pub(super) const SUITE_ROUNDS: usize = 5;

/// One stage. All only read the state; what they find is in their events.
#[derive(Debug)]
pub(super) enum Stage {
    Idle {
        done: bool,
    },
    Own {
        done: usize,
    },
    Latency {
        at: At,
        done: usize,
    },
    Climb(Climb),
    Counter(Counter),
    Knee(Knee),
    Confirm(Confirm),
    Rated(Rated),
    /// The rows of the suite, alternating, until time is up.
    Suite {
        target: usize,
        turn: usize,
    },
    Combined(CombinedStage),
}

impl Stage {
    /// What to do next.
    pub fn next(&mut self, state: &SearchState) -> Step {
        match self {
            Stage::Idle { done } => {
                (!*done).then(|| WindowRequest::new(Phase::Idle, 0, Vec::new())).into()
            }
            Stage::Own { done } => {
                (*done < 2 * WINDOWS).then(|| own(*done, state.config.cores)).into()
            }
            Stage::Latency { at, done } => (*done < WINDOWS && !state.block(*at).is_broken())
                .then(|| WindowRequest::one(Phase::Latency, *at, Setting::ONE))
                .into(),
            Stage::Climb(climb) => climb.next(state).into(),
            Stage::Counter(counter) => counter.next(state),
            Stage::Knee(knee) => knee.next(state).into(),
            Stage::Confirm(confirm) => confirm.next(state).into(),
            Stage::Rated(rated) => rated.next(state).into(),
            Stage::Suite { target, turn } => suite(*target, *turn, state).into(),
            Stage::Combined(combined) => combined.next(state).into(),
        }
    }

    /// Takes the result of the last request: a window without errors, or why it does not count. The curve has it already.
    pub fn observe(&mut self, outcome: Result<&Measurement, &str>) -> Option<Event> {
        match self {
            Stage::Idle { done } => {
                *done = true;
                return outcome.ok().map(|w| Event::Idle(w.cpu.and_then(CpuTime::shares)));
            }
            Stage::Own { done } => {
                *done += 1;
                let all_cores = done.is_multiple_of(2);
                let rate = |w: &Measurement| Some(w.loads.first()?.rate(w.elapsed_ns));
                let rate = outcome.ok().and_then(rate);
                return rate.map(|rate| Event::OwnCeiling { all_cores, rate });
            }
            Stage::Latency { done, .. } => *done += 1,
            Stage::Climb(climb) => climb.observe(outcome.is_err()),
            Stage::Counter(counter) => counter.observe(outcome),
            Stage::Knee(knee) => knee.observe(outcome),
            Stage::Confirm(confirm) => confirm.observe(outcome.is_err()),
            Stage::Rated(rated) => rated.observe(outcome),
            Stage::Suite { turn, .. } => *turn += 1,
            Stage::Combined(combined) => combined.observe(outcome),
        }
        None
    }

    /// What the stage found, at its end or when its time is up.
    pub fn close(&mut self, state: &SearchState) -> Option<Event> {
        match self {
            Stage::Idle { .. }
            | Stage::Own { .. }
            | Stage::Latency { .. }
            | Stage::Suite { .. } => None,
            Stage::Climb(climb) => climb.close(state),
            Stage::Counter(counter) => counter.close(state),
            Stage::Knee(knee) => knee.close(state),
            Stage::Confirm(confirm) => confirm.close(state),
            Stage::Rated(rated) => rated.close(),
            Stage::Combined(combined) => combined.close(state),
        }
    }
}

/// The row of the suite for this turn; one whose windows failed is left out.
fn suite(target: usize, turn: usize, state: &SearchState) -> Option<WindowRequest> {
    let tests = &state.config.suite;
    let block = turn % tests.len().max(1);
    let at = At { target, block };
    let is_over = turn >= SUITE_ROUNDS * tests.len() || state.block(at).is_broken();
    (!is_over).then(|| WindowRequest::one(Phase::Suite, at, tests[block].setting))
}

/// One worker and all cores, alternating.
fn own(turn: usize, cores: u32) -> WindowRequest {
    let workers = if turn.is_multiple_of(2) { 1 } else { cores };
    let load = Load::nop(Setting { workers, depth: OWN_DEPTH });
    WindowRequest::new(Phase::Own, 0, vec![load])
}
