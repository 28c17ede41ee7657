//! The search for the knee: the fewest workers, and with those the lowest queue depth, that reach 95% of the peak.
//!
//! First it settles the number of workers by bisection, at their best queue depths. Then it measures a ladder of queue
//! depths with these workers, alternating with the peak, so that drift affects both alike, and finds the knee on a fit.

use super::saturation::{LevelAtDepth, Saturation};
use super::stage::{Stage, WindowOutcome, WindowRequest};
use super::state::{At, Curve, SearchState};
use super::thresholds::{GAIN_MIN, KNEE_SHARE};
use crate::experiment::{Series, Totals};
use crate::stats;
use fathom_model::limit::Phase;
use fathom_model::window::{Ratio, Setting};

/// After this many windows at a setting, its mean decides regardless of the interval.
const WINDOWS_MAX: usize = 4;
/// A single window this far from the threshold decides.
const FAR: f64 = 0.15;
/// A bound in case noise makes settings pass and fail alternately.
const REQUESTS_MAX: u32 = 20;
/// Rounds until the knee is known to a quarter, and windows at the knee itself.
const ROUNDS_MIN: usize = 3;
/// After so many windows it is as exact as it gets: the verdict needs time too.
const LADDER_WINDOWS_MAX: usize = 30;
/// Depths that reach less than this share of the peak in the climb are left out.
const SHARE_MIN: f64 = 0.7;
/// A step this close below the knee counts as at it.
const STEP_SHARE: f64 = 0.9;
/// Share of the peak's mean that the knee itself must have: less than the 95% of the fit, as windows are noisy.
const REACHES_MIN: f64 = 0.9;
/// Steps at most, the deepest ones.
const STEPS_MAX: usize = 8;

#[derive(Debug, Clone, Copy)]
pub(super) struct KneeFound {
    pub setting: Setting,
    /// Its share of the peak.
    pub of_peak: Option<Ratio>,
    /// The queue depths that the knee is between with 95% confidence.
    pub depths: Option<(u32, u32)>,
    pub refined: bool,
}

impl KneeFound {
    /// Checked against the final `peak` by all windows of both: these may differ from those of the ladder. Where it does
    /// not hold, the next higher load that does.
    pub fn checked(self, curve: &Curve, peak: Setting) -> Self {
        let holds = |s: Setting| {
            let share = curve.mean(s) / curve.mean(peak);
            let may_reach = || curve.ratio(s, peak).is_none_or(|ratio| ratio.high >= KNEE_SHARE);
            share >= KNEE_SHARE || (share >= REACHES_MIN && may_reach())
        };
        let is_higher = |s: Setting, cell: &Totals| {
            (s == self.setting || (s > self.setting && !curve.is_noisy(s, cell)))
                && s.in_flight() < peak.in_flight()
        };
        let mut all = curve.iter().filter(|(s, cell)| is_higher(*s, cell)).map(|(s, _)| s);
        let setting = all.find(|s| holds(*s)).unwrap_or(peak);
        let of_peak = curve.ratio(setting, peak).filter(|_| setting != peak);
        let depths = self.depths.filter(|_| setting == self.setting);
        Self { setting, of_peak, depths, ..self }
    }
}

#[derive(Debug)]
pub(super) struct Knee {
    at: At,
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
    pub fn new(at: At) -> Self {
        Self { at, peak: None, requests: 0, failed: false, ladder: None, is_last: false }
    }
}

impl Stage for Knee {
    fn next(&mut self, state: &mut SearchState) -> Option<WindowRequest> {
        let block = state.block(self.at);
        let peak = block.peak.setting?;
        if self.peak != Some(peak) {
            *self = Self { peak: Some(peak), ..Self::new(self.at) };
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
            self.ladder = Some(Ladder::new(&block.curve, peak, workers));
        }
        let ladder = self.ladder.as_mut()?;
        let step = ladder.next();
        self.is_last = step.is_none();
        let setting = step.or_else(|| ladder.setting_to_measure(&block.curve))?;
        Some(WindowRequest::one(Phase::Knee, self.at, setting))
    }

    fn observe(&mut self, _: &mut SearchState, outcome: WindowOutcome<'_>) {
        match &mut self.ladder {
            Some(ladder) if !self.is_last => ladder.series.observe(outcome),
            _ => self.failed = outcome.is_err(),
        }
    }

    fn close(&mut self, state: &mut SearchState) {
        let block = state.block(self.at);
        let Some(peak) = block.peak.setting else { return };
        let ladder = self.ladder.as_mut().filter(|_| self.peak == Some(peak));
        let knee = ladder
            .and_then(|ladder| ladder.knee(&block.curve))
            .or_else(|| by_means(&block.curve, peak));
        state.offer_knee(self.at, knee);
    }
}

/// Without time for a ladder: the cheapest setting whose mean reaches the share.
fn by_means(curve: &Curve, peak: Setting) -> Option<KneeFound> {
    let least = KNEE_SHARE * curve.mean(peak);
    // Settings are ordered by workers, then by depth.
    let (setting, _) = curve
        .iter()
        .find(|(s, c)| s.in_flight() <= peak.in_flight() && c.mean() >= least && c.mean() > 0.0)?;
    let of_peak = curve.ratio(setting, peak);
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
    let is_sure = |ratio: Ratio| ratio.low >= KNEE_SHARE || ratio.high < KNEE_SHARE;
    let sure = || curve.ratio(setting, peak).is_some_and(is_sure);
    cell.windows() >= WINDOWS_MAX || (share - KNEE_SHARE).abs() > FAR || sure()
}

/// The ladder; the baseline of the series is the peak, the other conditions are in order of queue depth.
#[derive(Debug)]
struct Ladder {
    series: Series<Setting>,
    rounds: usize,
    /// What the climb knows of fewer in flight.
    below: Vec<LevelAtDepth>,
}

impl Ladder {
    /// Queue depths with `workers` up to as many I/Os in flight as at the peak.
    fn new(curve: &Curve, peak: Setting, workers: u32) -> Self {
        let top = match workers == peak.workers {
            true => u64::from(peak.depth),
            false => peak.in_flight() / u64::from(workers.max(1)),
        };
        let least = SHARE_MIN * curve.mean(peak);
        let is_low = |setting: Setting| {
            let measured = curve.get(setting).is_some_and(|cell| cell.mean() < least);
            // A queue of n takes at most n times the IOPS of one.
            let bound = curve.mean(Setting::ONE) * setting.in_flight() as f64;
            measured || (bound > 0.0 && bound < least)
        };
        let all = steps().take_while(|depth| u64::from(*depth) <= top);
        let all: Vec<Setting> = all.map(|depth| Setting { workers, depth }).collect();
        let first = all.iter().rposition(|s| is_low(*s)).map_or(0, |low| low + 1);
        let first = first.max(all.len().saturating_sub(STEPS_MAX));
        let steps = all[first..].iter().copied().filter(|setting| *setting != peak);
        let lowest = all.get(first).map_or(u64::from(u32::MAX), |step| step.in_flight());
        let below = curve.iter().filter(|(s, _)| s.workers == workers && s.in_flight() < lowest);
        let below = below.map(|(s, cell)| LevelAtDepth {
            in_flight: s.in_flight() as f64,
            log: (cell.mean() / curve.mean(peak)).ln(),
            weight: 1.0,
        });
        let below = below.filter(|observed| observed.log.is_finite()).collect();
        let series = Series::new(std::iter::once(peak).chain(steps));
        Self { series, rounds: 0, below }
    }

    /// The setting to measure next; `None` when the knee is known.
    fn next(&mut self) -> Option<Setting> {
        loop {
            if self.series.is_between_rounds() && self.is_settled() {
                return None;
            }
            if let Some(index) = self.series.next_in_round() {
                return Some(self.series.conditions()[index].value);
            }
            self.rounds += 1;
        }
    }

    fn is_settled(&self) -> bool {
        let is_narrow = |(low, high): (u32, u32)| high <= low + low.div_ceil(4);
        let conditions = self.series.conditions().len();
        let rounds_max = (LADDER_WINDOWS_MAX / conditions.max(1)).max(ROUNDS_MIN);
        self.rounds >= rounds_max
            || conditions < 2
            || (self.rounds >= ROUNDS_MIN
                && self.found().and_then(|k| k.depths).is_some_and(is_narrow))
    }

    /// The knee by the windows so far, at a setting that is on `curve`; abandons the current round.
    fn knee(&mut self, curve: &Curve) -> Option<KneeFound> {
        let refined = self.series.is_between_rounds() && self.is_settled();
        self.series.restart_round();
        let (found, peak) = (self.found()?, self.series.baseline()?.value);
        let steps = self.series.conditions().iter().skip(1).map(|condition| condition.value);
        let measured = Some(found.setting).filter(|s| curve.windows(*s) > 0);
        let is_near =
            |s: &Setting| f64::from(s.depth) >= STEP_SHARE * f64::from(found.setting.depth);
        // The fit goes past a single depth that the device dislikes; the knee must not be there.
        let reaches = |s: &Setting| curve.mean(*s) >= REACHES_MIN * curve.mean(peak);
        let all = measured.into_iter().chain(steps.filter(is_near));
        let setting = all.filter(reaches).min_by_key(|s| s.depth).unwrap_or(peak);
        let depths = found.depths.map(|(low, high)| (low, high.max(setting.depth)));
        Some(KneeFound { setting, depths, refined, ..found })
    }

    /// The setting at the knee, once it is known, until it has enough windows.
    fn setting_to_measure(&self, curve: &Curve) -> Option<Setting> {
        let setting = self.found().filter(|_| self.is_settled())?.setting;
        (curve.windows(setting) < ROUNDS_MIN).then_some(setting)
    }

    fn found(&self) -> Option<KneeFound> {
        let conditions = self.series.conditions();
        let peak = conditions.first()?.value;
        let alone = KneeFound { setting: peak, of_peak: None, depths: None, refined: false };
        let Some(last) = conditions.get(1..)?.last() else { return Some(alone) };
        let (observed, half) = self.observed()?;
        let fit = Saturation::fit(&observed)?;
        // Where twice as many in flight would not be worth it, the peak may be as high by chance only.
        let top = (peak.in_flight() as f64).min(fit.flat_from(GAIN_MIN.ln()));
        let least = fit.log_at(top) + KNEE_SHARE.ln();
        let workers = last.value.workers;
        let deepest = (top / f64::from(workers)).floor().max(1.0);
        let depth = |log: f64| {
            let depth = fit.in_flight_for(log) / f64::from(workers);
            depth.ceil().clamp(1.0, deepest) as u32
        };
        let (low, knee, high) = (depth(least - half), depth(least), depth(least + half));
        let share = fit.log_at(f64::from(knee * workers).min(top)) - fit.log_at(top);
        let of_peak =
            Ratio { value: share.exp(), low: (share - half).exp(), high: (share + half).exp() };
        Some(KneeFound {
            setting: Setting { workers, depth: knee },
            of_peak: Some(of_peak),
            depths: Some((low, high)),
            refined: false,
        })
    }

    /// Shares of the peak, and half the 95% interval of a difference on their fit, as logarithms; `None` with fewer
    /// than two rounds.
    fn observed(&self) -> Option<(Vec<LevelAtDepth>, f64)> {
        let log = |(step, peak): &(f64, f64)| (step / peak).ln();
        let logs = |index| -> Vec<f64> {
            let pairs = self.series.pairs(index);
            pairs.iter().map(log).filter(|log| log.is_finite()).collect()
        };
        let mut observed = self.below.clone();
        let (mut squares, mut freedom, mut windows) = (0.0, 0, 0);
        for (index, condition) in self.series.conditions().iter().enumerate() {
            let logs = logs(index);
            if logs.len() < 2 {
                continue;
            }
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
            freedom += if index == 0 { 0 } else { logs.len() - 1 };
            windows += logs.len();
            let in_flight = condition.value.in_flight() as f64;
            observed.push(LevelAtDepth { in_flight, log: mean, weight: logs.len() as f64 });
        }
        // Half of the windows determine the level of the knee, half that of the peak.
        let deviation = (squares / freedom.max(1) as f64).sqrt();
        let half = 2.0 * stats::t_975(freedom as f64) * deviation / (windows as f64).sqrt();
        (freedom > 0).then_some((observed, half))
    }
}

/// Powers of two and one and a half times each: 1, 2, 3, 4, 6, 8, 12...
fn steps() -> impl Iterator<Item = u32> {
    (0..31).flat_map(|power| {
        let one = 1_u32 << power;
        std::iter::once(one).chain((one > 1).then_some(one + one / 2))
    })
}
