//! The search for the knee: the fewest workers, and with those the lowest queue depth, that reach 95% of the peak.
//!
//! First it settles the number of workers by bisection, at their best queue depths. Then it measures a ladder of queue
//! depths with these workers, alternating with the peak, so that drift affects both alike, and finds the knee on a fit.

use super::curve::Curve;
use super::ladder::Ladder;
use super::request::WindowRequest;
use super::state::{At, Event, SearchState};
use super::thresholds::KNEE_SHARE;
use crate::stats;
use fathom_model::limit::Phase;
use fathom_model::window::{Measurement, Ratio, Rw, Setting};

/// After this many windows at a setting, its mean decides regardless of the interval.
const WINDOWS_MAX: usize = 4;
/// A single window this far from the threshold decides.
const FAR: f64 = 0.15;
/// A bound in case noise makes settings pass and fail alternately.
const REQUESTS_MAX: u32 = 20;

/// The knee of one target and kind of I/O.
#[derive(Debug, Clone, Copy)]
pub(super) struct KneeFound {
    pub setting: Setting,
    /// Its share of the peak.
    pub of_peak: Option<Ratio>,
    /// The queue depths that the knee is between with 95% confidence.
    pub depths: Option<(u32, u32)>,
    /// The search for it is complete.
    pub refined: bool,
}

impl KneeFound {
    /// The same, or `peak` where the knee would be beyond it.
    pub fn up_to(self, peak: Setting) -> Self {
        if self.setting.in_flight() <= peak.in_flight() {
            return self;
        }
        Self { setting: peak, of_peak: None, depths: None, ..self }
    }
}

/// The search for one target's knee.
#[derive(Debug)]
pub(super) struct Knee {
    at: At,
    rw: Rw,
    /// Where the peak was when the search began.
    peak: Option<Setting>,
    /// Windows requested to settle the number of workers.
    requests: u32,
    failed: bool,
    ladder: Option<Ladder>,
    /// The ladder is complete, and the knee itself is measured.
    is_last: bool,
}

impl Knee {
    pub fn new(at: At, rw: Rw) -> Self {
        Self { at, rw, peak: None, requests: 0, failed: false, ladder: None, is_last: false }
    }

    pub fn next(&mut self, state: &SearchState) -> Option<WindowRequest> {
        let block = state.block(self.at);
        let peak = block.peak.setting()?;
        if self.peak != Some(peak) {
            *self = Self { peak: Some(peak), ..Self::new(self.at, self.rw) };
        }
        if self.failed || block.is_broken() {
            return None;
        }
        if self.ladder.is_none() {
            let open = Workers::of(&block.curve, peak)?.open(&block.curve, peak, state, self.at);
            if let Some(setting) = open.filter(|_| self.requests < REQUESTS_MAX) {
                self.requests += 1;
                return Some(WindowRequest::one(Phase::Knee, self.at, setting));
            }
            let workers = Workers::of(&block.curve, peak)?.pass.workers;
            self.ladder = Some(Ladder::new(&block.curve, self.rw, peak, workers));
        }
        let ladder = self.ladder.as_mut()?;
        let step = ladder.next();
        self.is_last = step.is_none();
        let setting = step.or_else(|| ladder.setting_to_measure(&block.curve))?;
        Some(WindowRequest::one(Phase::Knee, self.at, setting))
    }

    pub fn observe(&mut self, outcome: Result<&Measurement, &str>) {
        match &mut self.ladder {
            Some(ladder) if !self.is_last => ladder.observe(outcome),
            _ => self.failed = outcome.is_err(),
        }
    }

    pub fn close(&mut self, state: &SearchState) -> Option<Event> {
        let block = state.block(self.at);
        let peak = block.peak.setting()?;
        let ladder = self.ladder.as_mut().filter(|_| self.peak == Some(peak));
        let knee = ladder
            .and_then(|ladder| ladder.knee(&block.curve))
            .or_else(|| by_means(&block.curve, peak));
        Some(Event::Knee { at: self.at, knee })
    }
}

/// Without time for a ladder: the cheapest setting whose mean reaches the share.
fn by_means(curve: &Curve, peak: Setting) -> Option<KneeFound> {
    let least = KNEE_SHARE * curve.mean(peak);
    // Settings are ordered by workers, then by depth.
    let (setting, cell) = curve
        .iter()
        .find(|(s, c)| s.in_flight() <= peak.in_flight() && c.mean() >= least && c.mean() > 0.0)?;
    let of_peak = stats::welch(&cell.iops(), &curve.get(peak)?.iops());
    Some(KneeFound { setting, of_peak, depths: None, refined: false })
}

/// The fewest workers of which one setting passes, and the next fewer measured, of which none does.
struct Workers {
    pass: Setting,
    fewer: Option<Setting>,
}

impl Workers {
    fn of(curve: &Curve, peak: Setting) -> Option<Self> {
        let least = KNEE_SHARE * curve.mean(peak);
        let eligible =
            || curve.iter().filter(|(s, c)| s.in_flight() <= peak.in_flight() && c.mean() > 0.0);
        let best_of = |workers: u32| {
            let same = eligible().filter(|(s, _)| s.workers == workers);
            same.max_by(|a, b| a.1.mean().total_cmp(&b.1.mean())).map(|(s, _)| s)
        };
        let (pass, _) = eligible().find(|(_, c)| c.mean() >= least)?;
        let fewer = eligible().map(|(s, _)| s.workers).filter(|w| *w < pass.workers).max();
        Some(Self { pass: best_of(pass.workers)?, fewer: fewer.and_then(best_of) })
    }

    /// What to measure to settle it.
    fn open(&self, curve: &Curve, peak: Setting, state: &SearchState, at: At) -> Option<Setting> {
        let is_open = |s: &Setting| *s != peak && !is_decided(curve, *s, peak);
        // The ladder decides about the workers of the peak.
        let pass = Some(self.pass).filter(|s| s.workers != peak.workers && is_open(s));
        pass.or_else(|| self.fewer.filter(is_open)).or_else(|| {
            let fewer = self.fewer?.workers;
            let gap = self.pass.workers - fewer;
            let workers = (gap > 1).then(|| fewer + gap / 2)?;
            let depth = u32::try_from(peak.in_flight() / u64::from(workers)).ok()?;
            let depth = depth.clamp(1, state.spec(at.block).depth_max);
            Some(Setting { workers, depth })
        })
    }
}

/// Whether it is sufficiently certain on which side of 95% of the peak `setting` is.
fn is_decided(curve: &Curve, setting: Setting, peak: Setting) -> bool {
    let (Some(cell), Some(top)) = (curve.get(setting), curve.get(peak)) else { return false };
    let share = cell.mean() / top.mean();
    let sure = || {
        stats::welch(&cell.iops(), &top.iops())
            .is_some_and(|r| r.low >= KNEE_SHARE || r.high < KNEE_SHARE)
    };
    cell.windows() >= WINDOWS_MAX || (share - KNEE_SHARE).abs() > FAR || sure()
}
