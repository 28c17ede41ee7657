//! What stages exchange with the search.

use super::state::{At, Event};
use fathom_model::limit::Phase;
use fathom_model::window::{Load, Setting};

/// The next step of a stage.
pub(super) enum Step {
    Measure(WindowRequest),
    /// Apply this, then request the next.
    Report(Box<Event>),
    /// The stage has no open question.
    Done,
}

/// A window that a stage needs.
#[derive(Debug, Clone)]
pub(super) struct WindowRequest {
    pub phase: Phase,
    pub loads: Vec<Load>,
    /// Index into [`Config::blocks`](super::Config::blocks).
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

impl From<Option<WindowRequest>> for Step {
    fn from(request: Option<WindowRequest>) -> Self {
        request.map_or(Step::Done, Step::Measure)
    }
}
