//! What a search found.

use super::probe::{CpuShares, Setting};
use crate::stats::{Estimate, Ratio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of a search, complete or not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitReport {
    /// Time that was to be used, in seconds.
    pub seconds_planned: f64,
    /// Time that the windows took, in seconds.
    pub seconds_used: f64,
    /// Windows measured.
    pub windows: u32,
    /// The search came to its own end, by results or by time; false when it was cut off.
    pub finished: bool,
    /// Processors that the workers could run on.
    pub cores: u32,
    /// The processors before any load.
    pub idle: Option<CpuShares>,
    /// The tool's own ceiling.
    pub own: OwnCeiling,
    /// One entry for each target, in the order asked.
    pub targets: Vec<TargetLimit>,
    /// Several targets at once, one entry for each block size; empty for a single target.
    pub together: Vec<Together>,
}

/// What the tool could do if I/Os cost nothing: a ring whose operations do nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnCeiling {
    /// One worker, in operations per second.
    pub one_worker: Option<Estimate>,
    /// As many workers as processors, in operations per second.
    pub all_cores: Option<Estimate>,
}

/// One target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetLimit {
    /// Its name as asked.
    pub name: String,
    /// One entry for each of [`super::BLOCKS`].
    pub blocks: Vec<BlockLimit>,
}

/// One target at one block size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockLimit {
    /// Bytes of each I/O.
    pub block_bytes: u64,
    /// All settings measured without errors, by workers and depth.
    pub points: Vec<Point>,
    /// One worker with one I/O in flight.
    pub latency: Option<Point>,
    /// The setting with the most I/Os per second; of those within 1% of it the one with the fewest
    /// in flight.
    pub peak: Option<Point>,
    /// The fewest workers, and with those the least depth, that reach 95% of the peak.
    pub knee: Option<KneePoint>,
    /// What stopped it at the peak.
    pub verdict: Option<Verdict>,
    /// What stopped a single worker, where it does not reach 95% of the peak.
    pub one_worker: Option<Verdict>,
    /// Windows that do not count, and settings that could not be had.
    pub problems: Vec<Problem>,
}

/// What was measured at one setting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Worker threads.
    pub workers: u32,
    /// I/Os in flight per worker, as asked.
    pub depth: u32,
    /// I/Os per second.
    pub iops: Estimate,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Mean completion latency in nanoseconds.
    pub clat_mean_ns: f64,
    /// Median completion latency in nanoseconds.
    pub clat_p50_ns: u64,
    /// 99th percentile of completion latency in nanoseconds.
    pub clat_p99_ns: u64,
    /// I/Os in flight by Little's law: I/Os per second times mean latency.
    pub in_flight: f64,
    /// Mean I/Os in flight at the block device below, where there is one.
    pub device_queue: Option<f64>,
    /// Bytes that the block device below delivered over bytes read: near 0 where reads never
    /// reach it, above 1 where others use it too.
    pub from_disk: Option<f64>,
    /// User time of the workers per I/O, in nanoseconds.
    pub user_ns_per_io: f64,
    /// System time of the workers per I/O, in nanoseconds.
    pub system_ns_per_io: f64,
    /// Time of all processors beyond their idle state's per I/O, in nanoseconds: with interrupts
    /// and kernel threads.
    pub machine_ns_per_io: Option<f64>,
    /// Share of one processor that the busiest worker used, from 0 to 1.
    pub worker_share: f64,
    /// The processors.
    pub cpu: Option<CpuShares>,
}

impl Point {
    /// The setting.
    #[must_use]
    pub fn setting(&self) -> Setting {
        Setting { workers: self.workers, depth: self.depth }
    }

    /// Processor time of the workers per I/O, in nanoseconds.
    #[must_use]
    pub fn cpu_ns_per_io(&self) -> f64 {
        self.user_ns_per_io + self.system_ns_per_io
    }

    /// I/Os per second at which one processor would be full, as each costs what it cost here.
    #[must_use]
    pub fn one_core_iops(&self) -> Option<f64> {
        let cost = self.cpu_ns_per_io();
        (cost > 0.0).then(|| 1e9 / cost)
    }
}

/// The knee.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KneePoint {
    /// What was measured there.
    pub point: Point,
    /// Its share of the peak, where both were measured often enough to tell.
    pub of_peak: Option<Ratio>,
    /// The search between the last depth that fails and this one came to its end.
    pub refined: bool,
}

/// What stops more I/Os per second from being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The worker's thread fills its processor, and more workers do more.
    SubmittingCore,
    /// All processors are full.
    AllCores,
    /// The device, or something below the block layer: processors are free, and more workers or depth do
    /// not do more.
    Device,
    /// The depth: more in flight does more, and we went no deeper.
    Depth,
    /// The evidence does not separate them.
    Undecided,
}

/// What stopped it, and how that was confirmed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Where the question was asked.
    pub at: Setting,
    /// The answer.
    pub cause: Cause,
    /// Why this is the answer, or why there is none, in one sentence.
    pub reason: String,
    /// The counter-experiments.
    pub experiments: Vec<Experiment>,
}

/// What a counter-experiment changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExperimentKind {
    /// Twice the depth.
    Deeper,
    /// More workers.
    MoreWorkers,
    /// The same on half of the processors.
    FewerCores,
}

/// A counter-experiment: windows with one thing changed, in turn with windows without.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// What was changed.
    pub kind: ExperimentKind,
    /// Workers and depth with the change.
    pub setting: Setting,
    /// Processors that the workers could run on, with the change.
    pub cores: u32,
    /// I/Os per second without the change, over the windows taken in turn.
    pub base_iops: Estimate,
    /// I/Os per second with the change.
    pub changed_iops: Estimate,
    /// I/Os per second with the change over without; absent with fewer than two pairs.
    pub gain: Option<Ratio>,
    /// Mean latency with the change over without.
    pub latency_ratio: Option<f64>,
    /// Why it could not be done, if it could not.
    pub refused: Option<String>,
}

/// Windows that do not count as performance, or a setting that could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Where.
    pub setting: Setting,
    /// I/Os that failed.
    pub errors: u64,
    /// I/Os that moved only a part of their bytes.
    pub short_ios: u64,
    /// What happened, in words.
    pub message: String,
}

/// All targets at once, each at its own peak's setting, in turn with each alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Together {
    /// Bytes of each I/O.
    pub block_bytes: u64,
    /// The targets that took part.
    pub targets: Vec<TogetherTarget>,
    /// I/Os per second of each alone, added up.
    pub alone_iops: Estimate,
    /// I/Os per second of all at once.
    pub together_iops: Estimate,
    /// All at once over the sum of each alone.
    pub ratio: Option<Ratio>,
    /// The processors while all worked.
    pub cpu: Option<CpuShares>,
    /// The answer.
    pub cause: TogetherCause,
    /// Why, in one sentence.
    pub reason: String,
}

/// One target's part of [`Together`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TogetherTarget {
    /// Index into [`LimitReport::targets`].
    pub target: usize,
    /// Workers.
    pub workers: u32,
    /// Depth of each.
    pub depth: u32,
    /// I/Os per second alone.
    pub alone_iops: Estimate,
    /// I/Os per second beside the others.
    pub together_iops: Estimate,
    /// Beside the others over alone.
    pub ratio: Option<Ratio>,
}

/// Whether targets slow each other down, and by what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TogetherCause {
    /// They do not.
    Independent,
    /// They do, and the processors are full while they do.
    Cores,
    /// They do, though the processors are not full: something below is shared.
    SharedBelow,
    /// The evidence does not say.
    #[default]
    Undecided,
}
