//! The record of a trial (`fathom try`, `fathom sweep`), and what it found.

use super::tally::{Sample, Tally};
use super::trial::{Trial, Turn};
use super::verdict::Effect;
use crate::limit::{Conditions, KNEE_SHARE};
use crate::stats::{Estimate, Ratio};
use fathom_model::experiment::{Experiment, Protocol};
use fathom_model::record::Header;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The `record.json` of a trial. `windows.ndjson` in the same directory holds the windows, one [`TrialWindow`] per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentRecord {
    /// What all records have.
    #[serde(flatten)]
    pub header: Header,
    /// What was requested: enough to continue where it ended.
    pub request: Request,
    /// How each target of `request` was accessed.
    #[serde(default)]
    pub conditions: Vec<Conditions>,
    /// What was found.
    pub report: TrialReport,
}

impl ExperimentRecord {
    /// Whether the whole request was carried out.
    pub fn is_complete(&self) -> bool {
        let has_failed = |c: &MeasuredCondition| c.errors > 0 || c.windows == 0;
        self.header.outcome.is_finished() && !self.report.conditions.iter().any(has_failed)
    }
}

/// What is measured, how and on what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    /// The conditions.
    pub experiment: Experiment,
    /// Time and precision.
    pub protocol: Protocol,
    /// Files and block devices; a scratch file if there is none.
    pub targets: Vec<String>,
    /// Size of the scratch file, in bytes.
    pub scratch_bytes: u64,
    /// Directory of the scratch file.
    pub scratch_dir: String,
    /// Whether each condition is also measured with everything sampled, after the rounds.
    pub details: bool,
    /// Whether it is a grid of which each cell stands for itself (`fathom sweep`).
    pub is_sweep: bool,
    /// I/Os per second that a cell reaches without a limit, by its place in the grid without the rate; measured first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peaks: BTreeMap<String, f64>,
}

/// A window of a trial and its result: a line of `windows.ndjson`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialWindow {
    /// Index of the condition.
    pub condition: usize,
    /// Number of the round, from 0; the first ones warm up.
    pub round: u32,
    /// The measurement, or why the window failed.
    pub outcome: Result<Sample, String>,
    /// The condition cannot be measured on this machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rejects: bool,
}

impl TrialWindow {
    /// Whose turn it was.
    pub fn turn(&self) -> Turn {
        Turn { condition: self.condition, round: self.round }
    }
}

/// What a trial found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialReport {
    /// Time that the windows took, in seconds.
    pub seconds_used: f64,
    /// Windows measured, those of warm-up rounds included.
    pub windows: u32,
    /// Complete rounds that count.
    pub rounds: u32,
    /// One entry for each condition.
    pub conditions: Vec<MeasuredCondition>,
}

/// What was found for one condition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredCondition {
    /// Windows that count.
    pub windows: u32,
    /// The experiment's metric, in its unit.
    pub metric: Estimate,
    /// The metric corrected for waiting for a CPU, where effects rest on that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected: Option<Estimate>,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Mean completion latency in nanoseconds; 0 where none is measured.
    pub clat_mean_ns: f64,
    /// Median completion latency in nanoseconds.
    pub clat_p50_ns: u64,
    /// 99th percentile of completion latency in nanoseconds.
    pub clat_p99_ns: u64,
    /// Mean submission latency in nanoseconds.
    pub slat_mean_ns: f64,
    /// Mean measured time of a window, in nanoseconds.
    pub elapsed_mean_ns: f64,
    /// CPUs kept busy by workers and their kernel threads, or by the command.
    pub cores: f64,
    /// User, system and kernel-thread CPU time per I/O, in nanoseconds.
    pub cpu_ns_per_io: Option<[f64; 3]>,
    /// Share of the allowed CPUs that was busy, over all programs.
    pub machine_busy: Option<f64>,
    /// Share of the time for which workers were runnable but waited for a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay: Option<f64>,
    /// Context switches per I/O.
    pub switches_per_io: Option<f64>,
    /// I/Os per system call.
    pub ios_per_call: Option<f64>,
    /// Requests completed by the disks per I/O.
    pub disk_requests_per_io: Option<f64>,
    /// Share of the I/Os due that were started in time; only with a rate.
    pub started_share: Option<f64>,
    /// I/Os that failed or were short.
    pub errors: u64,
    /// Message of the first failure.
    pub first_error: Option<String>,
    /// The comparison with its baseline.
    pub effect: Option<Effect>,
    /// A repetition of the baseline, compared with it.
    pub control: Option<Effect>,
    /// Why it was not measured, or no further.
    pub rejected: Option<String>,
    /// In a sweep: relative to the best cell of its curve.
    pub to_best: Option<Ratio>,
    /// In a sweep: the cell of its curve with the most I/Os per second.
    pub is_best: bool,
    /// In a sweep: the knee of its curve; none where that still rises at its end.
    pub is_knee: bool,
    /// From a window in which everything was sampled.
    pub detail: Option<Detail>,
}

/// What a window with full sampling shows. It does not count for anything else.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detail {
    /// CPU samples.
    pub samples: u64,
    /// CPU time by layer, by its name, as shares of the samples' time.
    pub layers: Vec<LayerShare>,
    /// Unplugs by number of requests: (requests at least, unplugs), ascending.
    pub unplugs: Vec<(u32, u64)>,
    /// Most io-wq workers at one time.
    pub io_wq_workers: u32,
}

/// The part of the CPU time that went to one layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerShare {
    /// Name of the layer.
    pub layer: String,
    /// Share of the CPU time, from 0 to 1.
    pub share: f64,
}

impl Detail {
    /// Mean requests per unplug, by the lower bounds of the classes.
    pub fn unplug_mean(&self) -> Option<f64> {
        let unplugs: u64 = self.unplugs.iter().map(|(_, n)| n).sum();
        let requests: f64 = self.unplugs.iter().map(|(size, n)| f64::from(*size) * *n as f64).sum();
        (unplugs > 0).then(|| requests / unplugs as f64)
    }
}

impl TrialReport {
    /// What `trial` shows so far; `details` by condition.
    pub fn of(trial: &Trial, request: &Request, details: &[Option<Detail>]) -> Self {
        let count = request.experiment.conditions.len();
        let mut conditions: Vec<MeasuredCondition> = (0..count)
            .map(|index| MeasuredCondition {
                detail: details.get(index).cloned().flatten(),
                ..measured(trial, index)
            })
            .collect();
        if request.is_sweep {
            curves(&request.experiment)
                .iter()
                .for_each(|curve| judge(curve, trial, &mut conditions));
        }
        Self {
            seconds_used: trial.seconds_used(),
            windows: trial.windows(),
            rounds: trial.rounds(),
            conditions,
        }
    }
}

fn measured(trial: &Trial, index: usize) -> MeasuredCondition {
    let none = Tally::default();
    let tally = trial.tally(index).unwrap_or(&none);
    let sum = &tally.sum;
    let per_io = |ns: u64| ns as f64 / sum.ios.max(1) as f64;
    let due = sum.ios + sum.unstarted;
    MeasuredCondition {
        windows: tally.windows,
        metric: trial.estimate(index),
        corrected: trial.corrected(index),
        iops: tally.iops(),
        bytes_per_second: tally.bytes_per_second(),
        clat_mean_ns: sum.clat.mean_ns(),
        clat_p50_ns: sum.clat.percentile(50.0).unwrap_or(0),
        clat_p99_ns: sum.clat.percentile(99.0).unwrap_or(0),
        slat_mean_ns: sum.slat.mean_ns(),
        elapsed_mean_ns: sum.elapsed_ns as f64 / f64::from(tally.windows.max(1)),
        cores: tally.cores(),
        cpu_ns_per_io: tally
            .cpu_ns_per_io()
            .map(|_| [per_io(sum.user_ns), per_io(sum.system_ns), per_io(sum.helper_ns)]),
        machine_busy: tally.cpu().map(|cpu| cpu.busy),
        run_delay: tally.run_delay(),
        switches_per_io: tally.switches_per_io(),
        ios_per_call: tally.ios_per_call(),
        disk_requests_per_io: tally.disk_requests_per_io(),
        started_share: (sum.unstarted > 0).then(|| sum.ios as f64 / due as f64),
        errors: sum.errors,
        first_error: sum.first_error.clone(),
        effect: trial.effect(index),
        control: trial.control(index),
        rejected: trial.rejected(index).map(str::to_string),
        to_best: None,
        is_best: false,
        is_knee: false,
        detail: None,
    }
}

/// Indices of the conditions that differ in the last axis only, in their order.
pub fn curves(experiment: &Experiment) -> Vec<Vec<usize>> {
    let mut curves: Vec<(Vec<String>, Vec<usize>)> = Vec::new();
    for (index, condition) in experiment.conditions.iter().enumerate() {
        if condition.repeats.is_some() {
            continue;
        }
        let along = condition.cell.len().saturating_sub(1);
        let mut key = condition.cell[..along].to_vec();
        key.push(condition.name.clone());
        match curves.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(index),
            None => curves.push((key, vec![index])),
        }
    }
    curves.into_iter().map(|(_, members)| members).collect()
}

/// Compares the cells of one curve with its best, and marks the knee: the first cell that reaches 95% of the best, or
/// under a given load the one with the most throughput per latency (Kleinrock's power, 1979).
fn judge(curve: &[usize], trial: &Trial, conditions: &mut [MeasuredCondition]) {
    let iops = |index: usize, of: &[MeasuredCondition]| of[index].iops;
    let best =
        curve.iter().copied().max_by(|a, b| iops(*a, conditions).total_cmp(&iops(*b, conditions)));
    let Some(best) = best.filter(|best| iops(*best, conditions) > 0.0) else { return };
    for index in curve.iter().copied().filter(|index| *index != best) {
        let pairs = trial.pairs_of(index, best);
        conditions[index].to_best = Ratio::paired_robust(&pairs).or_else(|| Ratio::paired(&pairs));
    }
    conditions[best].is_best = true;
    let peak = iops(best, conditions);
    let knee = match trial.has_rate(best) {
        true => {
            let power = |index: usize| {
                let latency = conditions[index].clat_mean_ns;
                if latency > 0.0 { iops(index, conditions) / latency } else { 0.0 }
            };
            curve.iter().copied().max_by(|a, b| power(*a).total_cmp(&power(*b)))
        }
        false => curve.iter().copied().find(|index| iops(*index, conditions) >= KNEE_SHARE * peak),
    };
    // At the end of a curve that still rises, there is no knee yet.
    let is_reached = |knee: &usize| curve.len() > 2 && Some(knee) != curve.last();
    if let Some(knee) = knee.filter(is_reached) {
        conditions[knee].is_knee = true;
    }
}
