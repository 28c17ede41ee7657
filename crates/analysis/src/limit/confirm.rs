//! Settings whose figures would mislead are measured again: the highest one, if it rests on a window or two, and those
//! that look like a stall.

use super::request::WindowRequest;
use super::state::{At, Event, SearchState};
use super::thresholds::{WINDOWS_SURE, helps};
use crate::stats;
use fathom_model::limit::Phase;

/// Windows at most: what stays noisy is marked.
const REQUESTS_MAX: u32 = 12;

/// The confirmation of one target and kind of I/O.
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

    pub fn next(&mut self, state: &SearchState) -> Option<WindowRequest> {
        let block = state.block(self.at);
        if self.failed || block.is_broken() || self.requests >= REQUESTS_MAX {
            return None;
        }
        let peak = state.peak(self.at).filter(|peak| block.curve.windows(*peak) < WINDOWS_SURE);
        let setting = peak.or_else(|| block.curve.to_repeat())?;
        self.requests += 1;
        Some(WindowRequest::one(Phase::Confirm, self.at, setting))
    }

    pub fn observe(&mut self, failed: bool) {
        self.failed = failed;
    }

    /// A setting that surely exceeds the one that was tested becomes the one to test.
    pub fn close(&self, state: &SearchState) -> Option<Event> {
        let block = state.block(self.at);
        let (best, tested) = (state.peak(self.at)?, block.peak.setting()?);
        let cells = block.curve.get(best).zip(block.curve.get(tested));
        let gain = cells.and_then(|(best, tested)| stats::welch(&best.iops(), &tested.iops()));
        gain.is_some_and(|gain| helps(&gain)).then_some(Event::Best { at: self.at, setting: best })
    }
}
