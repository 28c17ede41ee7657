//! The highest load that meets a latency target: a search over the rate at which I/Os arrive, whether or not earlier
//! ones have completed.

use super::stage::{Stage, WindowOutcome, WindowRequest};
use super::state::{At, SearchState};
use crate::experiment::Totals;
use fathom_model::limit::{LatencyTarget, Phase, RatedPoint, TargetResult};
use fathom_model::window::{Load, Setting};

/// Windows at each rate while it is searched for, and at the rate that is reported.
const WINDOWS_TRIED: usize = 2;
const WINDOWS_SURE: usize = 5;
/// The search ends when rates that pass and fail differ by less than this share of the peak.
const STEP_MIN: f64 = 0.03;
/// A rate that passed at first and failed with more windows is lowered by this factor.
const BACK_OFF: f64 = 0.95;
const RATES_MAX: usize = 16;
/// Share of the arrivals that must have completed in time.
const COMPLETED_MIN: f64 = 0.98;
/// The queue holds as many I/Os as arrive in this many times the allowed latency: fewer would throttle them.
const QUEUE_PART: f64 = 4.0;

#[derive(Debug)]
struct RateResult {
    iops: f64,
    totals: Totals,
}

#[derive(Debug)]
pub(super) struct Rated {
    at: At,
    target: LatencyTarget,
    /// The peak when the search began, and its IOPS.
    peak: Option<(Setting, f64)>,
    /// Rates that pass and fail.
    pass: f64,
    fail: f64,
    tried: Vec<RateResult>,
    failed: bool,
    done: bool,
}

impl Rated {
    pub fn new(at: At, target: LatencyTarget) -> Self {
        let (peak, tried) = (None, Vec::new());
        Self { at, target, peak, pass: 0.0, fail: 0.0, tried, failed: false, done: false }
    }

    /// More windows where nothing better is left to try.
    fn windows_wanted(&self, peak: f64) -> usize {
        if self.fail - self.pass_or_tried() < STEP_MIN * peak {
            WINDOWS_SURE
        } else {
            WINDOWS_TRIED
        }
    }

    /// The highest rate that passes, that of the last one included if it does so far.
    fn pass_or_tried(&self) -> f64 {
        let last = self.tried.last().filter(|last| last.meets(&self.target));
        last.map_or(self.pass, |last| last.iops.max(self.pass))
    }

    /// Judges the last rate, and begins the next.
    fn advance(&mut self, peak: f64) {
        if let Some(last) = self.tried.last() {
            let (iops, meets) = (last.iops, last.meets(&self.target));
            let sure = last.totals.windows() >= WINDOWS_SURE;
            if meets {
                self.pass = self.pass.max(iops)
            } else {
                self.fail = self.fail.min(iops)
            }
            // With more windows a rate may fail that passed with few.
            if self.fail <= self.pass {
                self.pass = self.fail * BACK_OFF;
            }
            self.done = (meets && sure) || self.fail < STEP_MIN * peak;
        }
        let is_narrow = self.fail - self.pass < STEP_MIN * peak + 1.0;
        let next = if is_narrow { self.pass } else { f64::midpoint(self.pass, self.fail) };
        if next < 1.0 || self.tried.len() >= RATES_MAX {
            self.done = true;
        }
        if self.done {
            return;
        }
        self.tried.push(RateResult { iops: next, totals: Totals::default() });
    }

    fn request(&self, state: &SearchState, peak: Setting, iops: f64) -> WindowRequest {
        let waiting = QUEUE_PART * iops * self.target.below_ns as f64 / 1e9;
        let workers = u64::from(peak.workers);
        let depth_max = (state.in_flight_max(self.at) / workers)
            .min(u64::from(state.spec(self.at.block).depth_max));
        let depth = ((waiting / workers as f64) as u64).clamp(1, depth_max.max(1));
        let setting = Setting { depth: depth.max(u64::from(peak.depth)) as u32, ..peak };
        let load = Load { iops: Some(iops as u64), ..Load::at(self.at.target, setting) };
        WindowRequest::new(Phase::Rated, self.at.block, vec![load])
    }
}

impl Stage for Rated {
    fn next(&mut self, state: &mut SearchState) -> Option<WindowRequest> {
        let block = state.block(self.at);
        if self.peak.is_none() {
            let peak = block.peak.setting?;
            let iops = block.curve.mean(peak);
            (self.peak, self.fail) = (Some((peak, iops)), iops);
        }
        let (peak, iops) = self.peak?;
        while !self.failed && !self.done && !block.is_broken() {
            let last = self.tried.last();
            let wanted = self.windows_wanted(iops);
            if let Some(open) = last.filter(|last| last.totals.windows() < wanted) {
                return Some(self.request(state, peak, open.iops));
            }
            self.advance(iops);
        }
        None
    }

    fn observe(&mut self, _: &mut SearchState, outcome: WindowOutcome<'_>) {
        let (Some(tried), Ok(window)) = (self.tried.last_mut(), outcome) else {
            self.failed = true;
            return;
        };
        window.results().for_each(|load| tried.totals.add(&load));
    }

    fn close(&mut self, state: &mut SearchState) {
        let measured = self.tried.iter().filter(|tried| tried.totals.windows() > 0);
        let tried: Vec<RatedPoint> = measured.map(|tried| tried.point(&self.target)).collect();
        let best = best(&tried).cloned();
        if !tried.is_empty() {
            let result = TargetResult { target: self.target, best, tried };
            state.block_mut(self.at).target = Some(result);
        }
    }
}

/// The highest rate that meets the target and did not fail later, at itself or below.
fn best(tried: &[RatedPoint]) -> Option<&RatedPoint> {
    let with = |windows: usize| {
        let stands = |at: usize, point: &RatedPoint| {
            let mut later = tried.iter().skip(at + 1);
            let is_refuted = later.any(|later| !later.meets && later.iops <= point.iops);
            point.meets && point.windows as usize >= windows && !is_refuted
        };
        let all = tried.iter().enumerate().filter(|(at, point)| stands(*at, point));
        all.map(|(_, point)| point).max_by(|a, b| a.iops.total_cmp(&b.iops))
    };
    with(WINDOWS_SURE).or_else(|| with(WINDOWS_TRIED))
}

impl RateResult {
    fn meets(&self, target: &LatencyTarget) -> bool {
        let sum = &self.totals.sum;
        let due = sum.ios.saturating_add(sum.unstarted);
        sum.clat.percentile(target.percentile).is_some_and(|ns| ns < target.below_ns)
            && sum.ios as f64 >= COMPLETED_MIN * due as f64
    }

    fn point(&self, target: &LatencyTarget) -> RatedPoint {
        let sum = &self.totals.sum;
        RatedPoint {
            iops: self.iops,
            completed_iops: sum.ios as f64 * 1e9 / sum.elapsed_ns.max(1) as f64,
            latency_ns: sum.clat.percentile(target.percentile).unwrap_or(0),
            p50_ns: sum.clat.percentile(50.0).unwrap_or(0),
            windows: self.totals.windows() as u32,
            meets: self.meets(target),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_failed_later_is_not_the_best() {
        let point = |iops: f64, windows: u32, meets: bool| RatedPoint {
            iops,
            completed_iops: iops,
            latency_ns: 1,
            p50_ns: 1,
            windows,
            meets,
        };
        let first = point(35_854.0, 2, true);
        let refuted = [first.clone(), point(35_854.0, 5, false), point(34_060.0, 1, false)];
        assert_eq!(best(&refuted), None);
        let slower = [first.clone(), point(34_060.0, 1, false)];
        assert_eq!(best(&slower), None, "a lower rate failed");
        let faster = [first.clone(), point(40_000.0, 2, false)];
        assert_eq!(best(&faster), Some(&first));
        let sure = [first, point(35_854.0, 5, false), point(34_060.0, 5, true)];
        assert_eq!(best(&sure), Some(&sure[2]));
    }

    #[test]
    fn targets_are_parsed_and_shown() {
        for (text, percentile, below_ns) in [
            ("p99<2ms", 99.0, 2_000_000),
            ("p99.9<500us", 99.9, 500_000),
            ("p50 < 1.5s", 50.0, 1_500_000_000),
        ] {
            assert_eq!(text.parse(), Ok(LatencyTarget { percentile, below_ns }));
        }
        for bad in
            ["", "p99", "99<2ms", "p99<2", "p100<2ms", "p0<1ms", "p99<0ms", "p99<2h", "p99>2ms"]
        {
            assert!(bad.parse::<LatencyTarget>().is_err(), "{bad}");
        }
        assert_eq!("p99.9<500us".parse::<LatencyTarget>().unwrap().to_string(), "p99.9 < 500 µs");
    }
}
