//! What came of a run: raw counters and mergeable histograms, from which all else is derived.

use crate::facts::Facts;
use crate::finding::{Finding, Severity};
use crate::histogram::Histogram;
use crate::per_dir::PerDir;
use crate::plan::Plan;
use crate::progress::Counts;
use crate::watch::{CacheEvent, Missing, WatchRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the record's format; raised when a field changes its meaning or goes away.
pub const RECORD_VERSION: u32 = 1;

/// A whole run, as `record.json` holds it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// [`RECORD_VERSION`] of the program that wrote it.
    pub record_version: u32,
    /// Version of the program that wrote it.
    pub fathom_version: String,
    /// The command line.
    pub command: Vec<String>,
    /// Start of the run, in nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
    /// Length of the run from first start to last end, in nanoseconds.
    pub elapsed_ns: u64,
    /// The machine and the targets.
    pub facts: Facts,
    /// What was to be done.
    pub plan: Plan,
    /// One entry for each job of the plan, in its order.
    pub jobs: Vec<JobRecord>,
    /// Block devices below the targets, each once.
    pub disks: Vec<DiskRecord>,
    /// How the machine was watched, where it was.
    #[serde(default)]
    pub watch: Option<WatchRecord>,
    /// What ended the run early, if something did: `SIGINT`, `SIGTERM`.
    pub interrupted: Option<String>,
    /// Why samples end before the run did, where they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_lost: Option<String>,
    /// What it means, worst first.
    pub findings: Vec<Finding>,
}

impl RunRecord {
    /// Whether all that was asked was done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let undone = |finding: &Finding| finding.severity == Severity::Error;
        let failed = |job: &JobRecord| job.error.is_some();
        self.interrupted.is_none()
            && !self.jobs.iter().any(failed)
            && !self.findings.iter().any(undone)
    }
}

/// What one worker did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobRecord {
    /// The first error that ended the job or counts as its failure.
    pub error: Option<JobError>,
    /// Start of the measured time, since the run began, in nanoseconds.
    pub started_ns: u64,
    /// Start of the measured time, in nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
    /// Length of the measured time in nanoseconds.
    pub runtime_ns: u64,
    /// What was done in each direction.
    pub dirs: PerDir<DirRecord>,
    /// Flushes.
    pub flushes: FlushRecord,
    /// Processor time and the like.
    pub usage: Usage,
    /// How many I/Os were in flight, by share of submissions.
    pub depth: DepthRecord,
    /// What the kernel granted.
    pub granted: Granted,
    /// Instructions and cycles per I/O, from a short window of their own, where they could be read.
    pub cost: Option<Cost>,
    /// Why `cost` is absent.
    pub cost_missing: Option<String>,
    /// What of `cost` could not be counted: the kernel's part, or cache misses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost_lacks: Vec<Missing>,
    /// Targets that were deleted or truncated while the job ran, in words.
    pub target_changes: Vec<String>,
    /// Waits for completions that were there, which the kernel did not end.
    #[serde(default, skip_serializing_if = "LostWakeups::is_none")]
    pub lost_wakeups: LostWakeups,
}

/// Waits of a worker that only a signal ended, after a second or more: completions were there, but the
/// kernel had not woken the thread (a race in io_uring's deferred work of Linux 6.x).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostWakeups {
    /// How many.
    pub count: u64,
    /// The longest, in nanoseconds, to about half a second.
    pub longest_ns: u64,
}

impl LostWakeups {
    /// Whether there were none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.count == 0
    }
}

/// Why a job failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobError {
    /// errno, or 0 where no system call failed.
    pub errno: i32,
    /// What failed, on what, and what to do.
    pub message: String,
}

/// What was done in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirRecord {
    /// I/Os and bytes.
    pub counts: Counts,
    /// Submission latency: from preparing an I/O to handing it to the kernel.
    pub slat: Histogram,
    /// Completion latency: from handing it to the kernel to seeing its completion.
    pub clat: Histogram,
    /// Both together: service time.
    pub lat: Histogram,
    /// From the scheduled instant to seeing the completion; only under a rate.
    pub response: Histogram,
    /// I/Os that started more than 1 ms later than scheduled; only under a rate.
    pub late_ios: u64,
    /// I/Os that were scheduled within the run but never started; only under a rate.
    pub unstarted_ios: u64,
    /// errno values seen, with their counts, ascending.
    pub errnos: Vec<(i32, u64)>,
    /// Counts at ends of intervals: (nanoseconds since the job's measured time began, I/Os, bytes), growing.
    pub intervals: Vec<(u64, u64, u64)>,
}

/// Flushes of one job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlushRecord {
    /// Flushes that were done.
    pub count: u64,
    /// Their latencies.
    pub lat: Histogram,
}

/// Processor time and the like of one worker's thread (getrusage RUSAGE_THREAD).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// User time in nanoseconds.
    pub user_ns: u64,
    /// System time in nanoseconds.
    pub system_ns: u64,
    /// Processor time of kernel threads that worked for this job's ring (SQPOLL), in nanoseconds.
    pub helper_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Page faults that needed none.
    pub minor_faults: u64,
}

/// How many I/Os were in flight and how they were batched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DepthRecord {
    /// I/Os by how many were in flight after their submission: (depth, I/Os), ascending.
    pub level: Vec<(u32, u64)>,
    /// Submitting calls by how many I/Os they submitted: (size, calls), ascending.
    pub submit: Vec<(u32, u64)>,
    /// Reaps by how many completions they took: (size, reaps), ascending.
    pub complete: Vec<(u32, u64)>,
    /// System calls made to submit, wait and reap.
    pub system_calls: u64,
    /// Most I/Os in flight at once.
    pub in_flight_max: u32,
}

/// What the kernel granted, as against what was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Granted {
    /// Setup flags in force, by name, such as `DEFER_TASKRUN`.
    pub setup_flags: Vec<String>,
    /// Setup flags that were asked and refused, by name.
    pub refused_flags: Vec<String>,
    /// Features of the ring, by name, such as `NODROP`.
    pub features: Vec<String>,
    /// Polling for completions was asked (`hipri`) and the kernel did not refuse it. Whether the device
    /// has polled queues is in its facts.
    pub polled: bool,
    /// Buffers are registered.
    pub fixed_buffers: bool,
    /// Files are registered.
    pub registered_files: bool,
    /// The ring's own descriptor is registered.
    pub registered_ring: bool,
    /// Buffers are in huge pages.
    pub huge_pages: bool,
    /// O_DIRECT is in force.
    pub direct: bool,
    /// Completions that overflowed the ring.
    pub overflows: u64,
    /// Requests to the SQPOLL thread to wake up.
    pub sq_wakeups: u64,
    /// What was asked and could not be had, in words.
    pub fallbacks: Vec<String>,
}

/// Instructions, cycles and cache misses per I/O, counted in a window of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// I/Os done in the window.
    pub ios: u64,
    /// Length of the window in nanoseconds.
    pub window_ns: u64,
    /// Instructions in user mode per I/O.
    pub user_instructions: f64,
    /// Instructions in kernel mode per I/O; `None` without the right to count them.
    pub kernel_instructions: Option<f64>,
    /// Cycles in user mode per I/O.
    pub user_cycles: f64,
    /// Cycles in kernel mode per I/O; `None` without the right to count them.
    pub kernel_cycles: Option<f64>,
    /// Cache accesses and misses per I/O, of the modes whose instructions are counted; `None` where the
    /// machine cannot count them.
    #[serde(default)]
    pub cache: Option<CacheCost>,
    /// Time for which the events were wanted while the worker ran, in nanoseconds.
    #[serde(default)]
    pub enabled_ns: u64,
    /// Time in which all of them were counted. Where it is less, other programs had the processor's
    /// counters for the rest, and the figures are estimates.
    #[serde(default)]
    pub running_ns: u64,
    /// I/Os per second in the window over I/Os per second in the measured time: what counting cost.
    pub speed_ratio: f64,
}

/// Cache accesses and misses per I/O.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheCost {
    /// What was counted.
    pub event: CacheEvent,
    /// Accesses per I/O.
    pub references: f64,
    /// Misses per I/O.
    pub misses: f64,
}

/// A block device before and after: differences of /proc/diskstats.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskRecord {
    /// Kernel name.
    pub name: String,
    /// I/Os completed, for each direction.
    pub ios: PerDir<u64>,
    /// I/Os merged, for each direction.
    pub merges: PerDir<u64>,
    /// 512-byte sectors, for each direction.
    pub sectors: PerDir<u64>,
    /// Time of I/Os added up, in milliseconds, for each direction.
    pub ticks_ms: PerDir<u64>,
    /// Time with at least one I/O in flight, in milliseconds.
    pub busy_ms: u64,
    /// Time weighted by I/Os in flight, in milliseconds.
    pub weighted_ms: u64,
    /// Length of time covered, in milliseconds.
    pub elapsed_ms: u64,
}

impl DiskRecord {
    /// Mean number of I/Os in flight at the device (iostat's aqu-sz).
    #[must_use]
    pub fn queue_mean(&self) -> f64 {
        if self.elapsed_ms == 0 { 0.0 } else { self.weighted_ms as f64 / self.elapsed_ms as f64 }
    }
}
