//! What a search measures, and what it found.

use super::rated::LatencyTarget;
use crate::experiment::{self, CpuShares, Point, Rw, Setting};
use crate::stats::{Estimate, Ratio};
use fathom_model::units;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A window of a search.
pub type Probe = experiment::Probe<Phase>;
/// A window of a search and its result: a line of `windows.ndjson`.
pub type Window = experiment::Window<Phase>;

/// What a window is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No I/O: CPU usage of the idle machine.
    Idle,
    /// Ceiling of the load generator (NOP ring).
    Own,
    /// Latency with one I/O in flight.
    Latency,
    /// Search for the peak.
    Climb,
    /// Confirmation tests at the peak.
    Counter,
    /// Confirmation tests at the best setting with one worker.
    CounterOne,
    /// Search for the knee.
    Knee,
    /// The highest setting, and those that looked like a stall, again.
    Confirm,
    /// Search for the highest load that meets the latency target.
    Rated,
    /// A row of the suite.
    Suite,
    /// Several targets, individually and combined.
    #[serde(rename = "together")]
    Combined,
}

/// The result of a search, complete or not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitReport {
    /// Planned time, in seconds.
    pub seconds_planned: f64,
    /// Time that the windows took, in seconds.
    pub seconds_used: f64,
    /// Windows measured.
    pub windows: u32,
    /// The search ended by itself, by results or by time; false if it was interrupted.
    pub finished: bool,
    /// CPUs that the workers could run on.
    pub cores: u32,
    /// CPU usage before any load.
    pub idle: Option<CpuShares>,
    /// The ceiling of the load generator.
    pub own: OwnCeiling,
    /// One entry for each target, in the order of the command line.
    pub targets: Vec<TargetLimit>,
    /// All targets concurrently, one entry for each kind of I/O; empty for a single target.
    #[serde(rename = "together")]
    pub combined: Vec<Combined>,
}

/// The ceiling of the load generator: operations per second of a ring whose operations do nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnCeiling {
    /// One worker, in operations per second.
    pub one_worker: Option<Estimate>,
    /// One worker per CPU, in operations per second.
    pub all_cores: Option<Estimate>,
}

/// One target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetLimit {
    /// Its name on the command line.
    pub name: String,
    /// One entry for each of [`Config::blocks`](super::Config::blocks).
    pub blocks: Vec<BlockLimit>,
}

/// One target and kind of I/O.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockLimit {
    /// Bytes of each I/O.
    pub block_bytes: u64,
    /// Kind of access.
    #[serde(default)]
    pub rw: Rw,
    /// All settings measured without errors, by workers and queue depth.
    pub points: Vec<Point>,
    /// One worker with one I/O in flight.
    pub latency: Option<Point>,
    /// Within the search's range, the setting with the most I/Os per second of those that are not noisy; of the settings
    /// within 3% of it, the one with the fewest in flight, and of those the one with the fewest workers.
    pub peak: Option<Point>,
    /// The fewest workers, and with those the lowest queue depth, that reach 95% of the peak by a fit to all queue
    /// depths: the figures there may be some percent below or above.
    pub knee: Option<KneePoint>,
    /// The limit at the peak. Its confirmation tests were made at [`Verdict::at`], which differs from the peak where
    /// later windows moved that on the same plateau.
    pub verdict: Option<Verdict>,
    /// The limit of a single worker, if it does not reach 95% of the peak.
    pub one_worker: Option<Verdict>,
    /// The highest load that meets the latency target, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetResult>,
    /// Windows that do not count, and settings that were refused.
    pub problems: Vec<Problem>,
}

/// The highest load that meets a latency target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetResult {
    /// The target.
    pub target: LatencyTarget,
    /// The highest rate that meets it; absent if none does.
    pub best: Option<RatedPoint>,
    /// All rates tried, in order.
    pub tried: Vec<RatedPoint>,
}

/// A rate at which I/Os arrived, as a Poisson process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RatedPoint {
    /// Arrivals per second.
    pub iops: f64,
    /// I/Os per second that completed.
    pub completed_iops: f64,
    /// The percentile of the latency target, from the instant at which each I/O was due, in nanoseconds.
    pub latency_ns: u64,
    /// Median of the same, in nanoseconds.
    pub p50_ns: u64,
    /// Windows measured.
    pub windows: u32,
    /// Whether it meets the target.
    pub meets: bool,
}

impl BlockLimit {
    /// Such as `4 KiB randread`.
    pub fn name(&self) -> String {
        format!("{} {}", units::bytes(self.block_bytes), self.rw)
    }
}

impl Combined {
    /// Such as `4 KiB randread`.
    pub fn name(&self) -> String {
        format!("{} {}", units::bytes(self.block_bytes), self.rw)
    }
}

/// The knee.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KneePoint {
    /// The results there.
    pub point: Point,
    /// Its share of the peak, from windows alternating with it; absent with fewer than two windows of each.
    pub of_peak: Option<Ratio>,
    /// The lowest and highest queue depth that the knee may be at with 95% confidence.
    #[serde(default)]
    pub depths: Option<(u32, u32)>,
    /// The search for the knee is complete.
    pub refined: bool,
}

/// What limits I/Os per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A worker's CPU: its thread is CPU-bound, and more workers yield more.
    SubmittingCore,
    /// All CPUs are fully used.
    AllCores,
    /// The device or its backing storage: CPUs are available, and neither more workers nor a deeper queue yield
    /// more.
    Device,
    /// An I/O limit of the cgroup.
    CgroupIoLimit,
    /// The CPU quota of the cgroup.
    CpuQuota,
    /// The requests of the device's queues (nr_requests).
    QueueRequests,
    /// The I/O scheduler: it holds I/Os back from a driver that would take more.
    IoScheduler,
    /// The queue depth: a deeper queue yields more than the deepest one that the search allows.
    Depth,
    /// The evidence is inconclusive.
    #[serde(rename = "undecided")]
    Inconclusive,
}

/// A limit and the evidence for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The setting in question.
    pub at: Setting,
    /// The limit.
    pub cause: Cause,
    /// The evidence, or why it is inconclusive; the last sentence lacks its full stop.
    pub reason: String,
    /// The confirmation tests.
    pub experiments: Vec<Experiment>,
}

/// What a confirmation test changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExperimentKind {
    /// Twice the queue depth.
    Deeper,
    /// More workers.
    MoreWorkers,
    /// The same on half of the CPUs.
    FewerCores,
}

/// A confirmation test: windows with one change, interleaved with windows without.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// The change.
    pub kind: ExperimentKind,
    /// Workers and queue depth with the change.
    pub setting: Setting,
    /// CPUs that the workers could run on, with the change.
    pub cores: u32,
    /// I/Os per second without the change, in the same rounds.
    pub base_iops: Estimate,
    /// I/Os per second with the change.
    pub changed_iops: Estimate,
    /// I/Os per second with the change over without; absent with fewer than two pairs.
    pub gain: Option<Ratio>,
    /// Mean latency with the change over without.
    pub latency_ratio: Option<f64>,
    /// Why it failed or was not possible.
    pub refused: Option<String>,
}

/// Windows that do not count, or a setting that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The setting.
    pub setting: Setting,
    /// I/Os that failed.
    pub errors: u64,
    /// I/Os that moved only a part of their bytes.
    pub short_ios: u64,
    /// The first error message.
    pub message: String,
}

/// All targets concurrently, each at the setting of its peak, interleaved with each individually.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Combined {
    /// Bytes of each I/O.
    pub block_bytes: u64,
    /// Kind of access.
    #[serde(default)]
    pub rw: Rw,
    /// The targets included.
    pub targets: Vec<CombinedTarget>,
    /// Sum of the I/Os per second of each target individually.
    pub alone_iops: Estimate,
    /// IOPS of all targets concurrently.
    #[serde(rename = "together_iops")]
    pub combined_iops: Estimate,
    /// Ratio of the two: concurrent over sum.
    pub ratio: Option<Ratio>,
    /// CPU usage with all targets concurrently.
    pub cpu: Option<CpuShares>,
    /// The conclusion.
    pub cause: CombinedCause,
    /// The evidence; the last sentence lacks its full stop.
    pub reason: String,
}

/// One target in [`Combined`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CombinedTarget {
    /// Index into [`LimitReport::targets`].
    pub target: usize,
    /// Workers.
    pub workers: u32,
    /// Queue depth of each worker.
    pub depth: u32,
    /// I/Os per second individually.
    pub alone_iops: Estimate,
    /// I/Os per second with all targets concurrently.
    #[serde(rename = "together_iops")]
    pub combined_iops: Estimate,
    /// Ratio: concurrent over individual.
    pub ratio: Option<Ratio>,
}

/// Whether targets slow each other down, and why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CombinedCause {
    /// They do not slow each other down.
    Independent,
    /// They do, and the CPUs are fully used.
    Cores,
    /// They do although CPUs are available: they share something below the block layer.
    SharedBelow,
    /// The evidence is inconclusive.
    #[default]
    #[serde(rename = "undecided")]
    Inconclusive,
}
