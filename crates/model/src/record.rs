//! The record of a run: raw counters and mergeable histograms, from which all figures are derived.

mod checked;
mod promises;

pub use checked::{BlockHeader, Damage, SteadyRecord, VerifyRecord, WrongBlock};
pub use promises::{BlockOutcomes, LostBlock, PromiseRecord, PromiseReport};

use crate::experiment::ExperimentRecord;
use crate::facts::Facts;
use crate::finding::{Finding, Severity};
use crate::histogram::Histogram;
use crate::limit::{BlockSpec, LimitRecord};
use crate::outcome::{self, Outcome, RecordKind};
use crate::per_dir::{Dir, PerDir};
use crate::plan::{Distribution, Order, Plan};
use crate::progress::Counts;
use crate::watch::{CacheEvent, SamplingRecord, Unavailable};
use crate::window::Rw;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the record format; incremented when a field changes its meaning or is removed.
pub const RECORD_VERSION: u32 = 3;

/// What every kind of record begins with: who measured, where and when, how it ended, and what it means.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// [`RECORD_VERSION`] of the program that wrote it.
    pub record_version: u32,
    /// Kind of record.
    #[serde(default)]
    pub kind: RecordKind,
    /// A random UUID; empty in records of version 1.
    #[serde(default)]
    pub run_id: String,
    /// Version of the program that wrote it.
    pub fathom_version: String,
    /// The command line.
    pub command: Vec<String>,
    /// Start of the run, in nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// Time from the first start of a job to the last end, or of the whole search, in nanoseconds; 0 in records of
    /// searches and experiments before version 3.
    #[serde(default)]
    pub elapsed_ns: u64,
    /// The machine and the targets.
    pub facts: Facts,
    /// How the machine was sampled, if it was.
    #[serde(default, alias = "watch", skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingRecord>,
    /// How hot the drives were at the end, as far as that can be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heat: Vec<DriveHeat>,
    /// How it ended.
    #[serde(alias = "interrupted", deserialize_with = "outcome::of_any_version")]
    pub outcome: Outcome,
    /// Why samples are missing at the end, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_lost: Option<String>,
    /// Whether host names, serial numbers, paths and command lines were replaced, to give the record to others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Findings, most severe first, and last the verdict.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

/// Temperature of a drive, and the one from which it protects itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriveHeat {
    /// Kernel name of the drive.
    pub device: String,
    /// Its temperature in °C (temp1_input of hwmon).
    pub celsius: f64,
    /// Its warning threshold in °C (temp1_max of hwmon).
    pub warning_celsius: f64,
    /// Seconds for which it throttled itself meanwhile (NVMe thermal management 1 and 2); absent where its health log is
    /// not readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_seconds: Option<u64>,
}

impl Header {
    /// The header that is stored until the record is complete.
    pub fn unfinished(&self) -> Self {
        Self { outcome: Outcome::unfinished(), ..self.clone() }
    }
}

/// A run or an observation, as stored in `record.json`. An observation has neither plan nor jobs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// What all records have.
    #[serde(flatten)]
    pub header: Header,
    /// The plan that was run.
    pub plan: Plan,
    /// One entry per job of the plan, in order.
    pub jobs: Vec<JobRecord>,
    /// Block devices below the targets, without duplicates.
    pub disks: Vec<DiskRecord>,
    /// What a search found earlier for these devices and this kind of I/O.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_limits: Vec<DeviceLimit>,
    /// The machines that ran these jobs together, by rank; empty for one alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankRecord>,
    /// What all of them did over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks_over_time: Vec<RankSpan>,
}

/// One of several fathoms that a launcher started together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankRecord {
    /// Its host name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// Random UUID of its own record, which that host keeps; that of rank 0 is this one.
    pub run_id: String,
    /// Indices of its jobs in this record; none if it was lost.
    pub jobs: Vec<usize>,
    /// Start of its first job, in nanoseconds after that of the earliest rank.
    pub started_ns: u64,
    /// By how much that may be wrong, because clocks differ, in nanoseconds.
    pub clock_error_ns: u64,
    /// End of its last job, in nanoseconds after the start of the earliest rank.
    pub ended_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// What limited it most: the rule, and its sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Finding>,
    /// What it did over time; of many machines, only that of all together is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over_time: Vec<RankSpan>,
}

/// What one or all of several machines did in a span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankSpan {
    /// Its ends, in nanoseconds after the start of the earliest rank.
    pub from_ns: u64,
    /// See `from_ns`.
    pub to_ns: u64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// 99th percentile of completion latency, in nanoseconds; absent for all together, and where nothing completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clat_p99_ns: Option<u64>,
}

/// The peak of a device in an earlier search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceLimit {
    /// Kernel name of the device, or of a root complex, such as `pci0000:40`, that several share.
    pub device: String,
    /// The peak, in bytes per second; of a root complex, that of its disks together.
    pub bytes_per_second: f64,
    /// Name of the search's run directory.
    pub run_name: String,
}

impl RunRecord {
    /// The kind of I/O that all jobs do, if it is one that a search measures: direct, of one size, uniform if random, without
    /// a rate or pauses of their own.
    pub fn kind_of_io(&self) -> Option<BlockSpec> {
        let mut kinds = self.plan.jobs.iter().map(|job| {
            let rw = Rw::ALL.into_iter().find(|rw| {
                rw.mix() == job.access.mix
                    && match job.access.order {
                        Order::Sequential { skip } => skip == 0 && !rw.is_random(),
                        Order::Random { ref distribution, run } => {
                            let is_even = matches!(
                                distribution,
                                Distribution::EachOnce | Distribution::Uniform
                            );
                            run == 1 && is_even && rw.is_random()
                        }
                    }
            })?;
            let (least, most) = (job.block_min(), job.block_max());
            (job.direct && least == most).then(|| BlockSpec::new(most, rw))
        });
        let first = kinds.next()??;
        kinds.all(|kind| kind == Some(first)).then_some(first)
    }

    /// Whether the whole request was carried out.
    pub fn is_complete(&self) -> bool {
        let undone = |finding: &Finding| finding.severity == Severity::Error;
        let failed = |job: &JobRecord| job.error.is_some();
        self.header.outcome.is_finished()
            && !self.jobs.iter().any(failed)
            && !self.header.findings.iter().any(undone)
    }
}

/// A record of any kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Record {
    /// A run, or an observation.
    Run(Box<RunRecord>),
    /// A search.
    Limit(Box<LimitRecord>),
    /// An experiment.
    Experiment(Box<ExperimentRecord>),
}

impl Record {
    /// What all records have.
    pub fn header(&self) -> &Header {
        match self {
            Self::Run(record) => &record.header,
            Self::Limit(record) => &record.header,
            Self::Experiment(record) => &record.header,
        }
    }

    /// The same, to change it.
    pub fn header_mut(&mut self) -> &mut Header {
        match self {
            Self::Run(record) => &mut record.header,
            Self::Limit(record) => &mut record.header,
            Self::Experiment(record) => &mut record.header,
        }
    }
}

/// Results of one worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobRecord {
    /// The first error that ended the job or counts as a failure.
    pub error: Option<JobError>,
    /// Start of measurement, in nanoseconds since the start of the run.
    pub started_ns: u64,
    /// Start of measurement, in nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// Measured time in nanoseconds.
    pub runtime_ns: u64,
    /// Results per direction.
    pub dirs: PerDir<DirRecord>,
    /// Flushes.
    pub flushes: FlushRecord,
    /// CPU time, context switches and page faults.
    pub usage: Usage,
    /// Queue depth and batch sizes.
    pub depth: DepthRecord,
    /// Settings in effect.
    pub granted: InEffect,
    /// Instructions and cycles per I/O, measured in a separate short window, if available.
    pub cost: Option<Cost>,
    /// Why `cost` is absent.
    pub cost_missing: Option<String>,
    /// Parts of `cost` that are not available: kernel mode, or cache misses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost_lacks: Vec<Unavailable>,
    /// Descriptions of targets that were deleted or truncated while the job ran.
    pub target_changes: Vec<String>,
    /// Waits that did not end although enough completions were available.
    #[serde(default, skip_serializing_if = "LostWakeups::is_none")]
    pub lost_wakeups: LostWakeups,
    /// Time that the worker waited for the writer of its logs instead of doing I/O, in nanoseconds.
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub log_wait_ns: u64,
    /// Whether the job reached a steady state; of several that are reported as one, the last has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyRecord>,
    /// The queue depth that meets the job's latency target, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetRecord>,
    /// What was verified, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyRecord>,
    /// Zones that the job reset (`zonemode=zbd`).
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub zone_resets: u64,
}

/// What a job with a latency target found (`latency_target`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetRecord {
    /// The queue depth; the last one that was used, if no window met the target.
    pub depth: u32,
    /// Whether the last window met the target.
    pub met: bool,
}

/// Waits of a worker that lasted a second or more and ended only when a signal interrupted them, with as many
/// completions available as the wait was for. The suspected cause is a race in io_uring's deferred task work
/// (Linux 6.x); it is not proven.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostWakeups {
    /// Number of lost wake-ups.
    pub count: u64,
    /// The longest wait in nanoseconds, with a resolution of about half a second.
    pub longest_ns: u64,
}

impl LostWakeups {
    /// Whether there were none.
    pub fn is_none(&self) -> bool {
        self.count == 0
    }
}

/// Why a job failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobError {
    /// errno, or 0 if no system call failed.
    pub errno: i32,
    /// What failed, on what, and what to do.
    pub message: String,
}

/// Results in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirRecord {
    /// I/Os and bytes.
    pub counts: Counts,
    /// Submission latency: from preparing an I/O to submitting it.
    pub slat: Histogram,
    /// Completion latency: from submission to reaping the completion.
    pub clat: Histogram,
    /// Total latency: the sum of both.
    pub lat: Histogram,
    /// Response time: from scheduled arrival to reaping the completion; only under a rate limit.
    pub response: Histogram,
    /// I/Os that started more than 1 ms late; only under a rate limit.
    pub late_ios: u64,
    /// I/Os that were scheduled within the run but never started; only under a rate limit.
    pub unstarted_ios: u64,
    /// errno values with their counts, ascending.
    pub errnos: Vec<(i32, u64)>,
    /// Latencies by priority, in jobs that give single I/Os priorities of their own (`cmdprio_*`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priorities: Vec<PriorityRecord>,
    /// Cumulative counts at the end of each interval: (nanoseconds since the start of measurement, I/Os, bytes).
    pub intervals: Vec<(u64, u64, u64)>,
}

/// Latencies of the I/Os with one priority.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PriorityRecord {
    /// As in ioprio_set(2): class, hint and level.
    pub priority: u16,
    /// Completion latency.
    pub clat: Histogram,
    /// Total latency.
    pub lat: Histogram,
}

/// Flushes of one job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlushRecord {
    /// Number of flushes.
    pub count: u64,
    /// Flush latency.
    pub lat: Histogram,
}

/// Resource usage of a worker thread (getrusage(2) with RUSAGE_THREAD).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// User CPU time in nanoseconds.
    pub user_ns: u64,
    /// System CPU time in nanoseconds.
    pub system_ns: u64,
    /// CPU time of kernel threads that worked for this job's ring (SQPOLL, io-wq), in nanoseconds.
    pub helper_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Major page faults.
    pub major_faults: u64,
    /// Minor page faults.
    pub minor_faults: u64,
    /// Time runnable but waiting for a CPU, in nanoseconds; none where the kernel does not account for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
}

/// Queue depth and batch sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DepthRecord {
    /// I/Os by queue depth after their submission: (depth, I/Os), ascending.
    pub level: Vec<(u32, u64)>,
    /// Submission calls by batch size: (size, calls), ascending.
    pub submit: Vec<(u32, u64)>,
    /// Reaps by batch size: (size, reaps), ascending.
    pub complete: Vec<(u32, u64)>,
    /// System calls to submit, wait and reap.
    pub system_calls: u64,
    /// Maximum number of I/Os in flight.
    pub in_flight_max: u32,
}

/// Settings in effect, as opposed to those requested.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InEffect {
    /// Setup flags in effect, by name, such as `DEFER_TASKRUN`.
    pub setup_flags: Vec<String>,
    /// Setup flags that were requested but refused, by name.
    pub refused_flags: Vec<String>,
    /// Features of the ring, by name, such as `NODROP`.
    pub features: Vec<String>,
    /// Polling for completions was requested (`hipri`) and not refused by the kernel. The facts state
    /// whether the device has poll queues.
    pub polled: bool,
    /// Buffers are registered.
    pub fixed_buffers: bool,
    /// Files are registered.
    pub registered_files: bool,
    /// The ring's own descriptor is registered.
    pub registered_ring: bool,
    /// Buffers are in huge pages.
    pub huge_pages: bool,
    /// O_DIRECT is in effect.
    pub direct: bool,
    /// Wake-ups of the SQPOLL thread.
    pub sq_wakeups: u64,
    /// Descriptions of requested settings that are not in effect.
    pub fallbacks: Vec<String>,
}

/// Instructions, cycles and cache misses per I/O, counted in a separate window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// I/Os completed in the window.
    pub ios: u64,
    /// Length of the window in nanoseconds.
    pub window_ns: u64,
    /// Instructions in user mode per I/O.
    pub user_instructions: f64,
    /// Instructions in kernel mode per I/O; `None` without permission to count them.
    pub kernel_instructions: Option<f64>,
    /// Cycles in user mode per I/O.
    pub user_cycles: f64,
    /// Cycles in kernel mode per I/O; `None` without permission to count them.
    pub kernel_cycles: Option<f64>,
    /// Cache accesses and misses per I/O, in the modes whose instructions are counted; `None` if the
    /// machine cannot count them.
    #[serde(default)]
    pub cache: Option<CacheCost>,
    /// Time the events were enabled while the worker ran, in nanoseconds.
    #[serde(default)]
    pub enabled_ns: u64,
    /// Time the events were counted, in nanoseconds. If less than `enabled_ns`, the counters were
    /// multiplexed, and the figures are estimates.
    #[serde(default)]
    pub running_ns: u64,
    /// IOPS in the window divided by IOPS in the measured time: the overhead of counting.
    pub speed_ratio: f64,
}

/// Cache accesses and misses per I/O.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheCost {
    /// The event that was counted.
    pub event: CacheEvent,
    /// Accesses per I/O.
    pub references: f64,
    /// Misses per I/O.
    pub misses: f64,
}

/// Differences of the /proc/diskstats counters of a block device over the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskRecord {
    /// Kernel name.
    pub name: String,
    /// I/Os completed, per direction.
    pub ios: PerDir<u64>,
    /// I/Os merged, per direction.
    pub merges: PerDir<u64>,
    /// 512-byte sectors, per direction.
    pub sectors: PerDir<u64>,
    /// Sum of I/O times in milliseconds, per direction.
    pub ticks_ms: PerDir<u64>,
    /// Time with at least one I/O in flight, in milliseconds.
    pub busy_ms: u64,
    /// Time weighted by I/Os in flight, in milliseconds.
    pub weighted_ms: u64,
    /// Time covered, in milliseconds.
    pub elapsed_ms: u64,
}

impl DiskRecord {
    /// Mean number of I/Os in flight at the device (iostat's aqu-sz).
    pub fn queue_mean(&self) -> f64 {
        if self.elapsed_ms == 0 { 0.0 } else { self.weighted_ms as f64 / self.elapsed_ms as f64 }
    }

    /// Share of the time with at least one I/O in flight (iostat's %util), in percent.
    pub fn util(&self) -> f64 {
        // Busy time and elapsed time are not read at the same instant, so their ratio can exceed 100%.
        (self.busy_ms as f64 * 100.0 / self.elapsed_ms.max(1) as f64).min(100.0)
    }

    /// This disk and another, at the same time, as one.
    pub fn with(mut self, other: &Self) -> Self {
        for dir in Dir::ALL {
            self.ios[dir] = self.ios[dir].saturating_add(other.ios[dir]);
            self.merges[dir] = self.merges[dir].saturating_add(other.merges[dir]);
            self.sectors[dir] = self.sectors[dir].saturating_add(other.sectors[dir]);
            self.ticks_ms[dir] = self.ticks_ms[dir].saturating_add(other.ticks_ms[dir]);
        }
        self.busy_ms = self.busy_ms.max(other.busy_ms);
        self.weighted_ms = self.weighted_ms.saturating_add(other.weighted_ms);
        self
    }
}
