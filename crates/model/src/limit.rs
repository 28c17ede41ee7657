//! The search of `fathom limit`: what it measures, and what it found.

use crate::per_dir::Dir;
use crate::record::{Cost, Header};
use crate::units;
use crate::watch::{ProcessUse, Unavailable};
use crate::window::{Conditions, CpuShares, Estimate, Point, Ratio, Rw, Setting};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The `record.json` of `fathom limit`. `windows.ndjson` in the same directory holds the windows, one
/// [`Window`](crate::window::Window) per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitRecord {
    /// What all records have; the targets are in the order of [`Config::targets`].
    #[serde(flatten)]
    pub header: Header,
    /// What the search measured and could use.
    pub config: Config,
    /// How each target was accessed, in the order of [`Config::targets`].
    pub conditions: Vec<Conditions>,
    /// Other programs that ran during the search, the one with the most CPU time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub competitors: Vec<Competitor>,
    /// What was found.
    pub report: LimitReport,
    /// Hardware counters per I/O at each peak, measured in a separate window after the search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<PeakCost>,
    /// Why `costs` lacks some or all peaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs_missing: Option<String>,
    /// The machines that measured together, by rank; none if it was one. Worker `n` of a setting is on rank `n` modulo their
    /// number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<LimitRank>,
}

/// One of several machines that measured together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitRank {
    /// Its host name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// CPUs that its workers may run on.
    pub cores: u32,
    /// What it did at each peak.
    pub at_peaks: Vec<RankPeak>,
}

/// What one of several machines did at a peak.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankPeak {
    /// Index into [`Config::targets`].
    pub target: usize,
    /// Bytes of each I/O.
    pub block_bytes: u64,
    /// Kind of access.
    pub rw: Rw,
    /// Its workers.
    pub workers: u32,
    /// Its I/Os per second; absent if it had no workers.
    pub iops: Option<f64>,
    /// 99th percentile of their completion latencies, in nanoseconds.
    pub clat_p99_ns: Option<u64>,
    /// CPU usage of its allowed CPUs.
    pub cpu: Option<CpuShares>,
}

/// Instructions, cycles and cache misses of an I/O at a peak.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeakCost {
    /// Index into [`Config::targets`].
    pub target: usize,
    /// Bytes of each I/O.
    pub block_bytes: u64,
    /// Kind of access.
    #[serde(default)]
    pub rw: Rw,
    /// The counters; their speed is relative to the peak.
    pub cost: Cost,
    /// Counters that are not available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<Unavailable>,
}

/// Another program that ran during a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Competitor {
    /// What it used.
    pub uses: ProcessUse,
    /// CPUs that it kept busy on average.
    pub cpus: f64,
    /// Bytes per second that it read from and wrote to block devices.
    pub disk_bytes_per_second: f64,
}

impl LimitRecord {
    /// Whether the whole request was carried out, without errors on any target.
    pub fn is_complete(&self) -> bool {
        let blocks = || self.report.targets.iter().flat_map(|t| &t.blocks);
        self.header.outcome.is_finished()
            && blocks().all(|b| b.problems.iter().all(|p| p.errors == 0 && p.short_ios == 0))
            && blocks().all(|b| b.peak.is_some())
    }

    /// Whether the latency target is met with all kinds of I/O; `None` if that is inconclusive: the time was up before a rate
    /// met it, or one did so only once.
    pub fn meets_target(&self) -> Option<bool> {
        let Some(_) = self.config.target else { return Some(true) };
        let blocks = self.report.targets.iter().flat_map(|target| &target.blocks);
        let all: Vec<Option<bool>> = blocks.map(BlockLimit::meets_target).collect();
        match all.contains(&Some(false)) {
            true => Some(false),
            false => all.iter().all(|met| *met == Some(true)).then_some(true),
        }
    }
}

/// A search for a rate that meets a latency target ends below this share of the peak.
const LEAST_TRIED: f64 = 0.06;

/// What a search measures and what it may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Config {
    /// Names of the targets, as reported.
    pub targets: Vec<String>,
    /// Time for everything, in seconds.
    pub seconds: f64,
    /// CPUs that the workers may run on; at least 1.
    pub cores: u32,
    /// Upper bound of the memory of all I/Os in flight, in bytes.
    pub buffers_bytes_max: u64,
    /// The kinds of I/O to search, in order.
    #[serde(default = "BlockSpec::defaults")]
    pub blocks: Vec<BlockSpec>,
    /// Latency that must be kept: the highest load that meets it is searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<LatencyTarget>,
    /// Fixed settings to measure instead of a search, one for each of `blocks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suite: Vec<SuiteTest>,
    /// What may hold I/Os back above the devices; by target, where known.
    #[serde(default)]
    pub queues: Vec<QueueFacts>,
    /// CPU limit of the cgroup, in CPUs; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_limit: Option<f64>,
    /// What each target is specified for, if that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<DeviceSpec>,
}

/// A row of the suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuiteTest {
    /// As CrystalDiskMark names it, such as `SEQ1M Q8T1`.
    pub name: String,
    /// Workers and queue depth.
    pub setting: Setting,
}

/// What may hold I/Os back above a target's device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueFacts {
    /// Kernel name of the device.
    pub device: String,
    /// Whether it is not visible which device holds the target.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// queue/nr_requests.
    pub nr_requests: Option<u32>,
    /// queue/scheduler: the active one.
    #[serde(default)]
    pub scheduler: Option<String>,
    /// Requests that the driver takes for each hardware queue (mq/0/nr_tags; device/queue_depth if less).
    #[serde(default)]
    pub driver_tags: Option<u32>,
    /// queue/rotational.
    #[serde(default)]
    pub rotational: Option<bool>,
    /// Number of hardware queues.
    pub hardware_queues: Option<u32>,
    /// Limits of the cgroup on this device: as in [`crate::watch::CgroupSample::io_limits`].
    pub io_limits: Vec<String>,
}

/// The queue depth of a worker is at most what these bytes in flight make, within the bounds below.
const IN_FLIGHT_BYTES: u64 = 64 << 20;
const DEPTH_LEAST: u64 = 32;
const DEPTH_MOST: u64 = 1024;
/// From this block size on, bandwidth is what people ask for.
pub const LARGE_BYTES: f64 = 131_072.0;

/// Whether I/Os of so many bytes, on average, are large: their rate is given in bytes per second.
pub fn is_large(bytes: f64) -> bool {
    bytes >= LARGE_BYTES
}

/// A kind of I/O to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockSpec {
    /// Bytes of each I/O; at least 1.
    pub block_bytes: u64,
    /// Kind of access.
    #[serde(default)]
    pub rw: Rw,
    /// Maximum queue depth of a worker. A confirmation test doubles it.
    pub depth_max: u32,
}

impl BlockSpec {
    /// This kind of access with blocks of `block_bytes`, at least 1.
    pub fn new(block_bytes: u64, rw: Rw) -> Self {
        let block_bytes = block_bytes.max(1);
        let depth_max = (IN_FLIGHT_BYTES / block_bytes).clamp(DEPTH_LEAST, DEPTH_MOST);
        Self { block_bytes, rw, depth_max: depth_max as u32 }
    }

    /// Small random reads for I/Os per second, large ones for bandwidth.
    pub fn defaults() -> Vec<Self> {
        vec![Self::new(4096, Rw::Randread), Self::new(1 << 20, Rw::Randread)]
    }

    /// The same, and writes.
    pub fn with_writes() -> Vec<Self> {
        let writes = Self::defaults().into_iter();
        let writes = writes.map(|spec| Self { rw: Rw::Randwrite, ..spec });
        Self::defaults().into_iter().chain(writes).collect()
    }

    /// Whether the search may end at `setting` on a machine with so many CPUs; confirmation tests exceed that.
    pub fn is_in_range(&self, setting: Setting, cores: u32) -> bool {
        setting.depth <= self.depth_max && setting.workers <= cores.max(1)
    }

    /// Such as `4 KiB randread`.
    pub fn name(&self) -> String {
        format!("{} {}", units::bytes(self.block_bytes), self.rw)
    }
}

/// The rows of CrystalDiskMark's default profile: name, block size, whether offsets are random, queue depth.
const SUITE: [(&str, u64, bool, u32); 4] = [
    ("SEQ1M Q8T1", 1 << 20, false, 8),
    ("SEQ1M Q1T1", 1 << 20, false, 1),
    ("RND4K Q32T1", 4096, true, 32),
    ("RND4K Q1T1", 4096, true, 1),
];

impl SuiteTest {
    /// All rows with their kinds of I/O: reads and, if wanted, writes.
    pub fn all(writes: bool) -> (Vec<BlockSpec>, Vec<Self>) {
        let kinds = |random| match random {
            true => [Rw::Randread, Rw::Randwrite],
            false => [Rw::Read, Rw::Write],
        };
        let row = |(name, block_bytes, random, depth): (&str, u64, bool, u32)| {
            let wanted = kinds(random).into_iter().filter(move |rw| writes || !rw.modifies());
            let test = Self { name: name.into(), setting: Setting { workers: 1, depth } };
            wanted.map(move |rw| (BlockSpec::new(block_bytes, rw), test.clone()))
        };
        SUITE.into_iter().flat_map(row).unzip()
    }
}

impl Config {
    /// The default time of a search, in seconds: a minute, or 15 s for a quick one; more for many targets, or for more
    /// than two kinds of I/O.
    pub fn default_seconds(targets: usize, kinds: usize, quick: bool) -> f64 {
        let (base, free, each) = if quick { (15.0, 1, 8.0) } else { (60.0, 4, 12.0) };
        let for_two = base + each * targets.saturating_sub(free) as f64;
        for_two * (1.0 + kinds.saturating_sub(2) as f64 / 3.0)
    }
}

/// A limit of a percentile of latency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyTarget {
    /// The percentile, above 0 and below 100.
    pub percentile: f64,
    /// What it must be below, in nanoseconds.
    pub below_ns: u64,
}

impl std::fmt::Display for LatencyTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let below = units::time(self.below_ns as f64);
        f.pad(&format!("p{} < {below}", self.percentile))
    }
}

impl FromStr for LatencyTarget {
    type Err = String;

    /// Takes `p99<2ms`, with a unit of ns, us, ms or s.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || "expected a percentile and a time, such as p99<2ms or p99.9<500us".to_string();
        let (percentile, below) = text.split_once('<').ok_or_else(expected)?;
        let percentile = percentile.trim().strip_prefix('p').ok_or_else(expected)?;
        let percentile: f64 = percentile.parse().map_err(|_| expected())?;
        let below_ns = units::time_ns(below.trim()).ok_or_else(expected)? as u64;
        let is_valid = percentile > 0.0 && percentile < 100.0 && below_ns > 0;
        is_valid.then_some(Self { percentile, below_ns }).ok_or_else(expected)
    }
}

/// What a device is specified for, as in its data sheet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceSpec {
    /// Random reads of up to 4 KiB per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_iops: Option<f64>,
    /// Random writes of up to 4 KiB per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_iops: Option<f64>,
    /// Bytes per second of large reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_second: Option<f64>,
    /// Bytes per second of large writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes_per_second: Option<f64>,
}

/// Data sheets state I/Os per second for blocks of this size.
const SPEC_BLOCK_BYTES: u64 = 4096;

impl DeviceSpec {
    /// I/Os per second of a kind of I/O; `None` where data sheets state none: for mixes of reads and writes, and between
    /// small random and large blocks.
    pub fn iops(&self, block_bytes: u64, rw: Rw) -> Option<f64> {
        let (iops, bandwidth) = match rw.dirs() {
            [(Dir::Read, _)] => (self.read_iops, self.read_bytes_per_second),
            [(Dir::Write, _)] => (self.write_iops, self.write_bytes_per_second),
            _ => return None,
        };
        match block_bytes {
            bytes if is_large(bytes as f64) => Some(bandwidth? / bytes as f64),
            ..=SPEC_BLOCK_BYTES if rw.is_random() => iops,
            _ => None,
        }
    }
}

impl FromStr for DeviceSpec {
    type Err = String;

    /// Takes `iops=1000k,bw=7000M`: decimal suffixes, as in data sheets, and binary ones such as `MiB`. `read-iops`,
    /// `write-iops`, `read-bw` and `write-bw` are for one direction.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut spec = Self::default();
        let parts = text.split(',').map(|part| {
            let (key, value) = part.split_once('=').ok_or_else(spec_expected)?;
            let value = units::decimal(value).filter(|value| *value > 0.0);
            Ok((key.trim(), value.ok_or_else(spec_expected)?))
        });
        let mut parts = parts.collect::<Result<Vec<(&str, f64)>, String>>()?;
        // What is for one direction comes after what is for both.
        parts.sort_by_key(|(key, _)| key.contains('-'));
        for (index, (key, value)) in parts.iter().enumerate() {
            if parts[..index].iter().any(|(other, _)| other == key) {
                return Err(format!("{key} is given twice"));
            }
            let fields: &mut [&mut Option<f64>] = match *key {
                "iops" => &mut [&mut spec.read_iops, &mut spec.write_iops],
                "read-iops" => &mut [&mut spec.read_iops],
                "write-iops" => &mut [&mut spec.write_iops],
                "bw" => &mut [&mut spec.read_bytes_per_second, &mut spec.write_bytes_per_second],
                "read-bw" => &mut [&mut spec.read_bytes_per_second],
                "write-bw" => &mut [&mut spec.write_bytes_per_second],
                _ => return Err(spec_expected()),
            };
            fields.iter_mut().for_each(|field| **field = Some(*value));
        }
        Ok(spec)
    }
}

fn spec_expected() -> String {
    "expected figures of the data sheet, such as iops=1000k,bw=7000M; keys: iops, read-iops, write-iops, bw, read-bw, \
     write-bw; without --spec, common NVMe drives are compared with figures that fathom knows"
        .to_string()
}

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
    /// One entry for each of [`Config::blocks`].
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
    /// depths. The figures there may be some percent below, but no setting that surely misses 95%, or is below 90%.
    pub knee: Option<KneePoint>,
    /// Confirmation tests at the peak, or at another setting where later windows moved the peak on the same plateau.
    #[serde(alias = "verdict")]
    pub confirmation: Option<Confirmation>,
    /// Those with a single worker, if it does not reach 95% of the peak.
    pub one_worker: Option<Confirmation>,
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
    /// Whether the latency target is met; `None` if that is inconclusive.
    pub fn meets_target(&self) -> Option<bool> {
        let (found, peak) = self.target.as_ref().zip(self.peak.as_ref())?;
        let least = found.tried.iter().map(|rate| rate.iops).fold(f64::INFINITY, f64::min);
        match found.best {
            Some(_) => Some(true),
            None if found.tried.iter().any(|rate| rate.meets) => None,
            // Otherwise lower rates were not tried.
            None => (least < LEAST_TRIED * peak.iops.mean).then_some(false),
        }
    }

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
    /// Its share of the peak, by all windows of both; absent at the peak, and with fewer than two windows of each.
    pub of_peak: Option<Ratio>,
    /// The lowest and highest queue depth that the knee may be at with 95% confidence.
    #[serde(default)]
    pub depths: Option<(u32, u32)>,
    /// The search for the knee is complete.
    pub refined: bool,
}

/// Confirmation tests at a setting, from which rules judge what limits it; the verdict is among the findings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confirmation {
    /// The setting.
    pub at: Setting,
    /// The results there in the windows of the tests; absent before version 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Point>,
    /// A setting that is surely higher, but was not tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub higher: Option<HigherPoint>,
    /// The confirmation tests.
    pub experiments: Vec<Experiment>,
    /// Before version 3: what limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Before version 3: the evidence, without its last full stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A setting that yields more than one that was tested.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HigherPoint {
    /// The setting.
    pub setting: Setting,
    /// The lower one.
    pub over: Setting,
    /// Its I/Os per second over those of the lower one.
    pub gain: Ratio,
}

/// What limits I/Os per second, in records before version 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A worker's CPU.
    SubmittingCore,
    /// All CPUs.
    AllCores,
    /// The device or its backing storage.
    Device,
    /// An I/O limit of the cgroup.
    CgroupIoLimit,
    /// The CPU quota of the cgroup.
    CpuQuota,
    /// The requests of the device's queues (nr_requests).
    QueueRequests,
    /// The I/O scheduler.
    IoScheduler,
    /// The queue depth.
    Depth,
    /// The evidence is inconclusive.
    Undecided,
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
    #[serde(rename = "inconclusive")]
    Inconclusive,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_those_of_data_sheets() {
        let spec: DeviceSpec =
            "iops=1000k,bw=7000M,write-iops=0.2M,write-bw=4GiB/s".parse().unwrap();
        let iops = |bytes, rw| spec.iops(bytes, rw);
        assert_eq!(iops(4096, Rw::Randread), Some(1e6));
        assert_eq!(iops(512, Rw::Randwrite), Some(2e5));
        assert_eq!(iops(1 << 20, Rw::Read), Some(7e9 / 1_048_576.0));
        assert_eq!(iops(1 << 20, Rw::Randwrite), Some(4096.0));
        // Not specified: sequential small blocks, blocks in between, and mixes.
        assert_eq!(iops(4096, Rw::Read), None);
        assert_eq!(iops(16_384, Rw::Randread), None);
        assert_eq!(iops(4096, Rw::Randrw), None);
        let reads: DeviceSpec = "read-iops=5".parse().unwrap();
        assert_eq!(reads.iops(4096, Rw::Randwrite), None);
    }

    #[test]
    fn bad_specifications_are_refused() {
        for bad in
            ["", "iops", "iops=", "iops=0", "iops=x", "iosp=1", "bw=1q", "bw=-1", "iops=1,iops=2"]
        {
            assert!(bad.parse::<DeviceSpec>().is_err(), "{bad}");
        }
    }
}
