//! The search for the knee: the fewest workers, and with those the lowest queue depth, that reach
//! 95% of the peak. It bisects the gap between a setting that fails and one that passes.

use super::curve::Curve;
use super::outcome::Phase;
use super::request::WindowRequest;
use super::state::{At, Event, SearchState};
use super::thresholds::KNEE_SHARE;
use crate::experiment::Setting;
use crate::stats::Ratio;

/// After this many windows at a setting, its mean decides regardless of the interval.
const WINDOWS_MAX: usize = 4;
/// A single window this far from the threshold decides.
const FAR: f64 = 0.15;
/// The gap is narrow enough at this fraction of the queue depth.
const GAP_PART: u32 = 8;
/// A bound in case noise makes settings pass and fail alternately.
const REQUESTS_MAX: u32 = 60;

/// The search for one target's knee.
#[derive(Debug)]
pub(super) struct Knee {
    at: At,
    /// Where the peak was when the search began.
    peak: Option<Setting>,
    requests: u32,
    failed: bool,
    refined: bool,
}

/// The cheapest setting that passes, and the measured settings below it, which fail.
struct Bracket {
    pass: Setting,
    /// The next lower queue depth with as many workers.
    fail: Option<Setting>,
    /// The best with the next fewer workers.
    fewer_workers: Option<Setting>,
}

impl Knee {
    pub fn new(at: At) -> Self {
        Self { at, peak: None, requests: 0, failed: false, refined: false }
    }

    pub fn next(&mut self, state: &SearchState) -> Option<WindowRequest> {
        let block = state.block(self.at);
        let peak = block.peak.setting()?;
        if self.peak != Some(peak) {
            *self = Self { peak: Some(peak), ..Self::new(self.at) };
        }
        if self.failed || self.refined || self.requests >= REQUESTS_MAX || block.is_broken() {
            return None;
        }
        let curve = &block.curve;
        let bracket = Bracket::of(curve, peak)?;
        let open = |s: &Setting| *s != peak && !is_decided(curve, *s, peak);
        let next = Some(bracket.pass)
            .filter(open)
            .or_else(|| bracket.fewer_workers.filter(open))
            .or_else(|| bracket.between_workers(peak, state.spec(self.at.block).depth_max))
            .or_else(|| bracket.fail.filter(open))
            .or_else(|| bracket.between_depths());
        self.refined = next.is_none();
        self.requests += 1;
        next.map(|setting| WindowRequest::one(Phase::Knee, self.at, setting))
    }

    pub fn observe(&mut self, failed: bool) {
        self.failed = failed;
    }

    pub fn close(&self, state: &SearchState) -> Option<Event> {
        let block = state.block(self.at);
        let knee = Bracket::of(&block.curve, block.peak.setting()?).map(|b| b.pass);
        Some(Event::Knee { at: self.at, knee, refined: self.refined })
    }
}

impl Bracket {
    fn of(curve: &Curve, peak: Setting) -> Option<Self> {
        let least = KNEE_SHARE * curve.mean(peak);
        // Settings are ordered by workers, then by depth.
        let pass = curve
            .iter()
            .find(|(s, c)| s.in_flight() <= peak.in_flight() && c.mean() >= least && c.mean() > 0.0)
            .map(|(s, _)| s)?;
        let same_workers = curve.iter().map(|(s, _)| s).filter(|s| s.workers == pass.workers);
        let fail = same_workers.filter(|s| s.depth < pass.depth).last();
        let below = |s: &Setting| s.workers < pass.workers && s.in_flight() <= peak.in_flight();
        let fewer_workers = curve
            .iter()
            .filter(|(s, _)| below(s))
            .max_by(|a, b| a.0.workers.cmp(&b.0.workers).then(a.1.mean().total_cmp(&b.1.mean())))
            .map(|(s, _)| s);
        Some(Self { pass, fail, fewer_workers })
    }

    /// Workers between the two, with as many in flight as at the peak.
    fn between_workers(&self, peak: Setting, depth_max: u32) -> Option<Setting> {
        let fewer = self.fewer_workers?.workers;
        let workers = halfway(fewer, self.pass.workers)?;
        let depth = u32::try_from(peak.in_flight() / u64::from(workers)).ok()?;
        Some(Setting { workers, depth: depth.clamp(1, depth_max) })
    }

    /// A queue depth between the two.
    fn between_depths(&self) -> Option<Setting> {
        let depth = halfway(self.fail.map_or(0, |s| s.depth), self.pass.depth)?;
        Some(Setting { depth, ..self.pass })
    }
}

/// The middle of a gap that is worth bisecting.
fn halfway(fail: u32, pass: u32) -> Option<u32> {
    let gap = pass.saturating_sub(fail);
    (gap > 1 && gap > pass / GAP_PART).then(|| fail + gap / 2)
}

/// Whether it is sufficiently certain on which side of 95% of the peak `setting` is.
fn is_decided(curve: &Curve, setting: Setting, peak: Setting) -> bool {
    let (Some(cell), Some(top)) = (curve.get(setting), curve.get(peak)) else { return false };
    let share = cell.mean() / top.mean();
    let sure = || {
        Ratio::welch(cell.iops(), top.iops())
            .is_some_and(|r| r.low >= KNEE_SHARE || r.high < KNEE_SHARE)
    };
    cell.windows() >= WINDOWS_MAX || (share - KNEE_SHARE).abs() > FAR || sure()
}
