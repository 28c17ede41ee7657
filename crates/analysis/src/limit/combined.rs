//! Several targets: all concurrently, interleaved with each individually.

use super::stage::{Stage, WindowOutcome, WindowRequest};
use super::state::{At, SearchState};
use super::thresholds::{CORES_SUSPECT, NOT_SLOWER, SAME, SLOWER};
use super::{percent, times};
use crate::experiment::{Rate, Series, per_second};
use crate::stats;
use fathom_model::limit::{Combined, CombinedCause, CombinedTarget, Phase};
use fathom_model::window::{CpuShares, Load, Ratio, Setting};

const ROUNDS_MIN: usize = 3;
const ROUNDS_MAX: usize = 8;
/// Half the width of an interval that ends the rounds early, as a share: ±3%.
const PRECISION: f64 = 0.03;

/// CPU usage from which the CPUs slow targets down; more than for a single target, as no test with fewer CPUs shows it.
const CORES_FULL: f64 = 0.95;

#[derive(Debug)]
pub(super) struct CombinedStage {
    block: usize,
    /// The baseline is all loads concurrently; the other conditions are each load individually.
    series: Series<Vec<Load>>,
    failed: Option<String>,
}

impl CombinedStage {
    pub fn new(block: usize) -> Self {
        Self { block, series: Series::new([]), failed: None }
    }

    fn loads(&self) -> &[Load] {
        self.series.baseline().map_or(&[], |all| &all.value)
    }

    fn target(&self, index: usize) -> Option<CombinedTarget> {
        let load = self.loads().get(index)?;
        let pair = |round: &[Vec<Rate>]| {
            Some((*round.first()?.get(index)?, *round.get(index + 1)?.first()?))
        };
        let pairs: Vec<(Rate, Rate)> = self.series.complete_rounds().filter_map(pair).collect();
        let (combined, alone): (Vec<Rate>, Vec<Rate>) = pairs.iter().copied().unzip();
        let pairs: Vec<(f64, f64)> =
            pairs.iter().map(|(a, b)| (per_second(*a), per_second(*b))).collect();
        Some(CombinedTarget {
            target: load.target?,
            workers: load.setting.workers,
            depth: load.setting.depth,
            alone_iops: stats::rate(&alone),
            combined_iops: stats::rate(&combined),
            ratio: stats::paired(&pairs),
        })
    }

    /// IOPS of all targets concurrently, and the sum of each individually, by round.
    fn sums(&self) -> Vec<(f64, f64)> {
        let sum =
            |rates: &mut dyn Iterator<Item = &Rate>| rates.map(|rate| per_second(*rate)).sum();
        let both = |round: &[Vec<Rate>]| {
            (sum(&mut round[0].iter()), sum(&mut round[1..].iter().flatten()))
        };
        self.series.complete_rounds().map(both).collect()
    }

    fn ratio(&self) -> Option<Ratio> {
        stats::paired(&self.sums())
    }

    fn is_settled(&self) -> bool {
        let rounds = self.series.complete_rounds().count();
        let is_precise = || self.ratio().is_some_and(|r| r.spread() <= PRECISION);
        rounds >= ROUNDS_MAX || (rounds >= ROUNDS_MIN && is_precise())
    }
}

impl Stage for CombinedStage {
    fn next(&mut self, state: &mut SearchState) -> Option<WindowRequest> {
        if self.series.baseline().is_none() {
            let all = loads(state, self.block);
            let each: Vec<_> = all.iter().map(|load| vec![*load]).collect();
            self.series = Series::new(std::iter::once(all).chain(each));
        }
        if self.loads().len() < 2 || self.failed.is_some() {
            return None;
        }
        loop {
            if self.series.is_between_rounds() && self.is_settled() {
                return None;
            }
            if let Some(index) = self.series.next_in_round() {
                let loads = self.series.conditions()[index].value.clone();
                return Some(WindowRequest::new(Phase::Combined, self.block, loads));
            }
        }
    }

    fn observe(&mut self, _: &mut SearchState, outcome: WindowOutcome<'_>) {
        self.failed = outcome.err().map(str::to_string);
        self.series.observe(outcome);
    }

    fn close(&mut self, state: &mut SearchState) {
        if self.loads().len() < 2 {
            return;
        }
        self.series.restart_round();
        let cpu = self.series.baseline().and_then(|all| all.totals.cpu());
        let targets: Vec<_> = (0..self.loads().len()).filter_map(|i| self.target(i)).collect();
        // The most affected target: a fast one must not hide it in the sum.
        let ratios = targets.iter().filter_map(|target| target.ratio);
        let worst = ratios.min_by(|a, b| a.value.total_cmp(&b.value));
        let (cause, reason) = match &self.failed {
            Some(why) => (CombinedCause::Inconclusive, format!("A window failed: {why}")),
            None => decide(self.ratio(), worst, cpu),
        };
        let (combined, alone): (Vec<f64>, Vec<f64>) = self.sums().into_iter().unzip();
        let combined = Combined {
            block_bytes: state.spec(self.block).block_bytes,
            rw: state.spec(self.block).rw,
            targets,
            alone_iops: stats::mean(&alone),
            combined_iops: stats::mean(&combined),
            ratio: self.ratio(),
            cpu,
            cause,
            reason,
        };
        state.combined.retain(|(known, _)| *known != self.block);
        state.combined.push((self.block, combined));
    }
}

/// Each usable target at its peak's setting; a lower queue depth if memory does not suffice for all.
fn loads(state: &SearchState, block: usize) -> Vec<Load> {
    let peak = |target: usize| {
        let block = state.block(At { target, block });
        Some((target, block.peak.setting.filter(|_| !block.is_broken())?))
    };
    let peaks: Vec<(usize, Setting)> = (0..state.targets.len()).filter_map(peak).collect();
    let wanted: u64 = peaks.iter().map(|(_, s)| s.in_flight()).sum();
    let room = state.config.buffers_bytes_max / state.spec(block).block_bytes;
    let scale = (room as f64 / wanted.max(1) as f64).min(1.0);
    let fit = |s: Setting| Setting { depth: ((f64::from(s.depth) * scale) as u32).max(1), ..s };
    peaks.into_iter().map(|(t, s)| Load::at(t, fit(s))).collect()
}

fn decide(
    ratio: Option<Ratio>,
    worst: Option<Ratio>,
    cpu: Option<CpuShares>,
) -> (CombinedCause, String) {
    let (Some(sum), Some(worst)) = (ratio, worst) else {
        let text = "Not enough time for two rounds";
        return (CombinedCause::Inconclusive, text.into());
    };
    let yields = format!(
        "Combined, the targets reach {} the sum of their individual rates; the most affected one reaches {} its \
         own",
        times(&sum),
        times(&worst)
    );
    let sum_slower = sum.high < 1.0 && sum.value < SLOWER;
    if !sum_slower && worst.high >= NOT_SLOWER {
        let sum_same = sum.low >= SLOWER || (sum.low >= NOT_SLOWER && sum.value >= SAME);
        return if sum_same && worst.value >= NOT_SLOWER {
            (CombinedCause::Independent, yields)
        } else {
            let text = format!("{yields}. The intervals are too wide for a conclusion");
            (CombinedCause::Inconclusive, text)
        };
    }
    let Some(taken) = cpu.map(CpuShares::taken) else {
        return (CombinedCause::Inconclusive, format!("{yields}. CPU usage was not measured"));
    };
    let usage = percent(taken);
    if taken >= CORES_FULL {
        (CombinedCause::Cores, format!("{yields}. CPU usage is {usage}"))
    } else if taken < CORES_SUSPECT {
        (CombinedCause::SharedBelow, format!("{yields}. CPU usage is only {usage}"))
    } else {
        let text = format!("{yields}. CPU usage is {usage}, too close to full to exclude the CPUs");
        (CombinedCause::Inconclusive, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, value: f64, high: f64) -> Option<Ratio> {
        Some(Ratio { value, low, high })
    }

    fn cause(sum: Option<Ratio>, worst: Option<Ratio>, busy: f64) -> CombinedCause {
        decide(sum, worst, Some(CpuShares { busy, steal: 0.0, throttled: 0.0 })).0
    }

    #[test]
    fn a_fast_target_does_not_hide_a_slow_one() {
        let same = ratio(0.98, 1.0, 1.02);
        assert_eq!(cause(same, same, 0.1), CombinedCause::Independent);
        assert_eq!(cause(same, ratio(0.4, 0.5, 0.6), 0.1), CombinedCause::SharedBelow);
        assert_eq!(cause(same, ratio(0.6, 0.8, 1.1), 0.1), CombinedCause::Inconclusive);
    }

    #[test]
    fn cpu_usage_tells_what_is_shared() {
        let slow = ratio(0.55, 0.6, 0.65);
        assert_eq!(cause(slow, slow, 0.97), CombinedCause::Cores);
        assert_eq!(cause(slow, slow, 0.90), CombinedCause::Inconclusive);
        assert_eq!(cause(slow, slow, 0.50), CombinedCause::SharedBelow);
        assert_eq!(decide(slow, slow, None).0, CombinedCause::Inconclusive);
    }

    #[test]
    fn noise_and_too_few_rounds_are_inconclusive() {
        let noisy = ratio(0.6, 0.9, 1.3);
        assert_eq!(cause(noisy, noisy, 0.1), CombinedCause::Inconclusive);
        assert_eq!(cause(None, noisy, 0.1), CombinedCause::Inconclusive);
    }
}
