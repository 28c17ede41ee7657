//! Experiments (`fathom try`, `fathom sweep`): conditions that are measured alternately, which of them are compared, and
//! what was found.

use crate::Histogram;
use crate::record::{DiskRecord, Header};
use crate::watch::Level;
use crate::window::{Conditions, CpuTime, Estimate, Ratio, WorkerCpu};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of conditions of an experiment.
pub const CONDITIONS_MAX: usize = 1024;

/// What is measured, and what is compared with what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// Name, such as `scheduler`.
    pub name: String,
    /// The question that it answers.
    pub question: String,
    /// The metric of effects.
    pub metric: Metric,
    /// The conditions, in the order of the report. Those of one cell follow each other, its baseline first.
    pub conditions: Vec<Condition>,
    /// Who published the results that it is compared with, and on which machine; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Names of the keys that make up its grid, the one along which curves are drawn last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<String>,
}

/// The metric of effects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// I/Os per second.
    #[default]
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Mean completion latency.
    Latency,
    /// CPU time per I/O.
    Cpu,
    /// Time until the work is done.
    Time,
}

impl Metric {
    /// All metrics with their names.
    pub const NAMES: [(&str, Self); 5] = [
        ("iops", Self::Iops),
        ("bandwidth", Self::Bandwidth),
        ("latency", Self::Latency),
        ("cpu", Self::Cpu),
        ("time", Self::Time),
    ];

    /// Its name in reports.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::Bandwidth => "bandwidth",
            Self::Latency => "mean latency",
            Self::Cpu => "CPU per I/O",
            Self::Time => "time",
        }
    }
}

/// One way to do the work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// Name of the variant, such as `mq-deadline`.
    pub name: String,
    /// Its place in the grid: a value for each of [`Experiment::axes`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cell: Vec<String>,
    /// What does the work.
    pub load: Load,
    /// The targets that it uses.
    #[serde(default)]
    pub targets: TargetUse,
    /// Settings of the machine, as `NAME=VALUE`, in effect while it is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// How much of the machine is sampled while it is measured.
    pub sampling: Level,
    /// Arrival rate in I/Os per second, as a share of its cell's peak without a rate limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_share: Option<f64>,
    /// How many of several machines take part, by rank; absent for all. The others wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    /// Indices of the conditions to whose sum it is compared; empty for a baseline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<usize>,
    /// Index of the condition of which it is a repetition (A/A).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<usize>,
    /// A published result, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
}

impl Condition {
    /// Its name with its place in the grid.
    pub fn label(&self, axes: &[String]) -> String {
        let cell = axes.iter().zip(&self.cell).map(|(axis, value)| format!("{axis}={value}"));
        let name = Some(self.name.clone()).filter(|name| !name.is_empty());
        let parts: Vec<String> = name.into_iter().chain(cell).collect();
        parts.join(" ")
    }
}

/// What does the work of a condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// fathom's own workers, by fio's keys: `rw=randread`, `bs=4k`.
    Job(Vec<String>),
    /// A command line for the shell; the environment variable TARGET names the targets.
    Command(String),
}

impl Default for Load {
    fn default() -> Self {
        Self::Job(Vec::new())
    }
}

/// Which of the targets a condition uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetUse {
    /// All, each with workers of its own.
    #[default]
    Each,
    /// All, every worker on all of them.
    Shared,
    /// One, by its place on the command line.
    Only(usize),
}

/// A published result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// As published.
    pub text: String,
    /// The metric relative to the baseline's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
}

/// Change of a metric relative to the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// It rose.
    Higher,
    /// It fell.
    Lower,
    /// It did not change noticeably.
    Same,
}

/// How an experiment is measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Protocol {
    /// Time for all rounds, in seconds.
    pub seconds: f64,
    /// Measured time of a window, in nanoseconds.
    pub window_ns: u64,
    /// Time under load before it, in nanoseconds.
    pub ramp_ns: u64,
    /// Half-width of a sufficiently narrow interval, as a share: 0.01 is ±1%.
    pub precision: f64,
    /// Minimum number of rounds, if time permits.
    pub rounds_min: u32,
    /// Rounds at the start that do not count.
    pub rounds_warm: u32,
    /// Seed of the order of the conditions within each round.
    pub seed: u64,
}

/// The `record.json` of an experiment. `windows.ndjson` in the same directory holds the windows, one [`RoundWindow`] per line.
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
    pub report: ExperimentReport,
    /// The machines that measured together, by rank; empty for one alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<ExperimentRank>,
}

/// One of several machines that measured an experiment together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentRank {
    /// Its host name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// The experiment's metric over all its windows, by condition; absent where it did nothing.
    pub metrics: Vec<Option<f64>>,
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

/// A window of an experiment and its result: a line of `windows.ndjson`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundWindow {
    /// Index of the condition.
    pub condition: usize,
    /// Number of the round, from 0; the first ones warm up.
    pub round: u32,
    /// The measurement, or why the window failed.
    pub outcome: Result<WindowResult, String>,
    /// The condition cannot be measured on this machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rejects: bool,
}

/// A window of a condition, or of one load of a search. Everything except `took_ns` covers the measured time only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowResult {
    /// The measured time, in nanoseconds; in a search that of the window.
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub elapsed_ns: u64,
    /// Setup, ramp, measured time, and waiting for the last I/Os, in nanoseconds; in a search that of the window.
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub took_ns: u64,
    /// I/Os that moved all their bytes: those of the workers, or for a command those of the disks.
    pub ios: u64,
    /// Bytes of these I/Os.
    pub bytes: u64,
    /// I/Os that failed.
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub errors: u64,
    /// I/Os that moved only a part of their bytes; older versions count those of experiments as failed.
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub short_ios: u64,
    /// Message of the first failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// Completion latencies; from the instant at which each I/O was due where a rate is given.
    pub clat: Histogram,
    /// Submission latencies.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub slat: Histogram,
    /// Latencies of flushes (fsync and the like), which those of I/Os leave out.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub flush_lat: Histogram,
    /// CPU time of the workers, or of the command and its children, in nanoseconds; in a search that of `workers`.
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub user_ns: u64,
    /// See `user_ns`.
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub system_ns: u64,
    /// CPU time of kernel threads that worked for the rings (SQPOLL, io-wq), and of samplers, in nanoseconds.
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub helper_ns: u64,
    /// CPU time of each worker of a search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerCpu>,
    /// Context switches of the workers.
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub switches: u64,
    /// System calls of the workers to submit, wait and reap.
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub system_calls: u64,
    /// Mean time for which a worker was runnable but waited for a CPU, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
    /// `elapsed_ns` without `run_delay_ns`, where only other programs can have caused it and no I/O was in flight meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undelayed_ns: Option<u64>,
    /// I/Os that were due but not started, where a rate is given.
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub unstarted: u64,
    /// CPU time on the allowed CPUs, where /proc/stat is readable; in a search that of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuTime>,
    /// Counters of the block devices below the targets, added up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskRecord>,
    /// Mean number of requests in flight at the driver of the load's device, below its I/O scheduler (sysfs inflight,
    /// sampled); only in searches, for devices with a scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_queue: Option<f64>,
}

impl WindowResult {
    /// Adds what was done in another window, on this machine or on another. How long both took, and what was in flight below
    /// them, depends on whether they were concurrent.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.ios, other.ios),
            (&mut self.bytes, other.bytes),
            (&mut self.errors, other.errors),
            (&mut self.short_ios, other.short_ios),
            (&mut self.unstarted, other.unstarted),
            (&mut self.user_ns, other.user_ns),
            (&mut self.system_ns, other.system_ns),
            (&mut self.helper_ns, other.helper_ns),
            (&mut self.switches, other.switches),
            (&mut self.system_calls, other.system_calls),
        ] {
            *sum = sum.saturating_add(more);
        }
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
        self.clat.merge(&other.clat);
        self.slat.merge(&other.slat);
        self.flush_lat.merge(&other.flush_lat);
        let delays = self.run_delay_ns.into_iter().chain(other.run_delay_ns);
        self.run_delay_ns = delays.reduce(u64::saturating_add);
        self.cpu = self.cpu.into_iter().chain(other.cpu).reduce(CpuTime::plus);
    }

    /// The figure of this window; `None` where nothing was done.
    pub fn metric(&self, metric: Metric) -> Option<f64> {
        let (amount, per) = self.rate(metric);
        Some(amount / per).filter(|value| *value > 0.0 && value.is_finite())
    }

    /// The figure of this window as an amount and what it is per: I/Os and seconds, latencies and their number.
    pub fn rate(&self, metric: Metric) -> (f64, f64) {
        let seconds = self.elapsed_ns as f64 / 1e9;
        match metric {
            Metric::Iops => (self.ios as f64, seconds),
            Metric::Bandwidth => (self.bytes as f64, seconds),
            Metric::Latency => {
                let count = self.clat.count() as f64;
                (self.clat.mean_ns() * count, count)
            }
            Metric::Cpu => (self.cpu_ns() as f64, self.ios as f64),
            Metric::Time => (self.elapsed_ns as f64, 1.0),
        }
    }

    /// The same, corrected for waiting for a CPU; `None` where that is not valid.
    pub fn corrected(&self, metric: Metric) -> Option<(f64, f64)> {
        let undelayed = self.undelayed_ns? as f64 / 1e9;
        match metric {
            Metric::Iops | Metric::Bandwidth => Some((self.rate(metric).0, undelayed)),
            Metric::Latency | Metric::Cpu | Metric::Time => None,
        }
    }

    /// CPU time of all that worked for the I/Os, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns + self.helper_ns
    }
}

/// What an experiment found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentReport {
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
    /// 99th percentile of the latency of flushes in nanoseconds; 0 without flushes.
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub flush_p99_ns: u64,
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

/// A comparison and what it shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// The metric relative to what it is compared with, and its 95% interval.
    pub ratio: Option<Ratio>,
    /// Its 99% interval, which decides whether the metric differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_99: Option<Ratio>,
    /// Rounds in which both were measured.
    pub pairs: u32,
    /// The claim.
    pub claim: Claim,
}

/// What a comparison allows to claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// The metric differs: the 99% interval excludes "no difference", and the control does not differ as much.
    Changed,
    /// No difference above this share (95%).
    NoneAbove(f64),
    /// Neither can be claimed, for this reason.
    Inconclusive(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_variant_and_cell() {
        let condition = Condition {
            name: "none".into(),
            cell: vec!["4k".into(), "16".into()],
            ..Condition::default()
        };
        assert_eq!(condition.label(&["bs".into(), "iodepth".into()]), "none bs=4k iodepth=16");
        assert_eq!(Condition::default().label(&[]), "");
    }
}
