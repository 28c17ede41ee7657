//! A ladder of queue depths measured in turn with the peak, and the knee on a monotone fit to their shares of it.

use super::curve::Curve;
use super::knee::KneeFound;
use super::thresholds::KNEE_SHARE;
use crate::experiment::{Measurement, Series, Setting};
use crate::stats::{Ratio, isotonic, t_975};
use fathom_model::Dir;

/// Rounds until the knee is known to one step.
const ROUNDS_MIN: usize = 3;
/// After so many windows it is as exact as it gets: the verdict needs time too.
const WINDOWS_MAX: usize = 30;
/// Depths that reach less than this share of the peak in the climb are left out.
const SHARE_MIN: f64 = 0.7;
/// Steps at most, the deepest ones.
const STEPS_MAX: usize = 8;

/// The ladder; the baseline of the series is the peak, the other conditions are in order of queue depth.
#[derive(Debug)]
pub(super) struct Ladder {
    series: Series<Setting>,
    rounds: usize,
}

/// A point of the fit: its share of the peak, and the interval, as logarithms.
struct Fitted {
    setting: Setting,
    log: f64,
    half: f64,
}

impl Ladder {
    /// Queue depths with `workers` up to as many I/Os in flight as at the peak.
    pub fn new(curve: &Curve, dir: Dir, peak: Setting, workers: u32) -> Self {
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
        let series = Series::new(dir, std::iter::once(peak).chain(steps));
        Self { series, rounds: 0 }
    }

    /// The setting to measure next; `None` when the knee is known.
    pub fn next(&mut self) -> Option<Setting> {
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

    pub fn observe(&mut self, outcome: Result<&Measurement, &str>) {
        match outcome {
            Ok(window) => self.series.observe(Some(window)),
            Err(why) => self.series.reject(why),
        }
    }

    fn is_settled(&self) -> bool {
        let is_step = |(low, high): (u32, u32)| high <= low + low.div_ceil(2);
        let conditions = self.series.conditions().len();
        let rounds_max = (WINDOWS_MAX / conditions.max(1)).max(ROUNDS_MIN);
        self.rounds >= rounds_max
            || conditions < 2
            || (self.rounds >= ROUNDS_MIN
                && self.found().and_then(|k| k.depths).is_some_and(is_step))
    }

    /// The knee by the windows so far; abandons the current round.
    pub fn knee(&mut self) -> Option<KneeFound> {
        let refined = self.series.is_between_rounds() && self.is_settled();
        self.series.restart_round();
        self.found().map(|found| KneeFound { refined, ..found })
    }

    fn found(&self) -> Option<KneeFound> {
        let peak = self.series.baseline()?.value;
        let fit = self.fit();
        // Only a depth that the search took for worse can be above the peak.
        let top = fit.last().map_or(0.0, |last| last.log.max(0.0));
        let threshold = top + KNEE_SHARE.ln();
        let first = |bound: &dyn Fn(&Fitted) -> f64| fit.iter().find(|f| bound(f) >= threshold);
        let workers = self.series.conditions().last()?.value.workers;
        if self.series.conditions().len() > 1 && fit.is_empty() {
            return None;
        }
        // A ladder with as many workers as the peak has ends there.
        let depth = |found: Option<&Fitted>| match found {
            Some(fitted) => Some(fitted.setting.depth),
            None => (workers == peak.workers).then_some(peak.depth),
        };
        let low = depth(first(&|f| f.log + f.half));
        let high = depth(first(&|f| f.log - f.half));
        let knee = first(&|f| f.log);
        let ratio = knee.map(|f| Ratio {
            value: f.log.exp(),
            low: (f.log - f.half).exp(),
            high: (f.log + f.half).exp(),
        });
        Some(KneeFound {
            setting: knee.map_or(peak, |f| f.setting),
            of_peak: ratio,
            depths: low.zip(high),
            refined: false,
        })
    }

    /// The fit, by depth; empty with fewer than two rounds.
    fn fit(&self) -> Vec<Fitted> {
        let log = |(step, peak): &(f64, f64)| (step / peak).ln();
        let logs = |index| -> Vec<f64> {
            let pairs = self.series.pairs(index);
            pairs.iter().map(log).filter(|log| log.is_finite()).collect()
        };
        let conditions = self.series.conditions().iter().enumerate().skip(1);
        let steps: Vec<(Setting, Vec<f64>)> = conditions
            .map(|(index, condition)| (condition.value, logs(index)))
            .filter(|(_, logs)| logs.len() > 1)
            .collect();
        let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
        let means: Vec<(f64, f64)> =
            steps.iter().map(|(_, logs)| (mean(logs), logs.len() as f64)).collect();
        // One variance for all: a single step has too few rounds for its own.
        let squares: f64 = steps
            .iter()
            .flat_map(|(_, logs)| logs.iter().map(|log| (log - mean(logs)).powi(2)))
            .sum();
        let freedom: usize = steps.iter().map(|(_, logs)| logs.len() - 1).sum();
        let deviation = (squares / freedom.max(1) as f64).sqrt();
        let half = |n: f64| t_975(freedom as f64) * deviation / n.sqrt();
        let fitted = isotonic(&means).into_iter().zip(&means).zip(&steps);
        fitted
            .map(|((log, (_, n)), (setting, _))| Fitted { setting: *setting, log, half: half(*n) })
            .collect()
    }
}

/// Powers of two and one and a half times each: 1, 2, 3, 4, 6, 8, 12...
fn steps() -> impl Iterator<Item = u32> {
    (0..31).flat_map(|power| {
        let one = 1_u32 << power;
        std::iter::once(one).chain((one > 1).then_some(one + one / 2))
    })
}
