//! A window: what to measure, and the measurement.

use super::rw::Rw;
use fathom_model::Histogram;
use fathom_model::record::DiskRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Workers and queue depth.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Setting {
    /// Worker threads, each with its own io_uring.
    pub workers: u32,
    /// Queue depth of each worker.
    pub depth: u32,
}

impl Setting {
    /// One worker with one I/O in flight.
    pub const ONE: Self = Self { workers: 1, depth: 1 };

    /// Such as `1 worker, QD128`.
    pub fn describe(self) -> String {
        match self.workers {
            1 => format!("1 worker, QD{}", self.depth),
            n => format!("{n} workers, QD{} each", self.depth),
        }
    }

    /// The same in a sentence: `1 worker at QD128`, `2 workers at QD32`.
    pub fn in_words(self) -> String {
        let noun = if self.workers == 1 { "worker" } else { "workers" };
        format!("{} {noun} at QD{}", self.workers, self.depth)
    }

    /// I/Os in flight over all workers.
    pub fn in_flight(self) -> u64 {
        u64::from(self.workers) * u64::from(self.depth)
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{} × {}", self.workers, self.depth))
    }
}

/// A window to measure. `P` names the part of an experiment that requested it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Probe")]
pub struct Probe<P> {
    /// What the window is for.
    pub phase: P,
    /// The loads, all driven at the same time; empty on an idle machine.
    pub loads: Vec<Load>,
    /// Bytes of each I/O. Offsets are multiples of it.
    pub block_bytes: u64,
    /// Kind of access.
    #[serde(default)]
    pub rw: Rw,
    /// Restricts the workers to this many of the allowed CPUs; `None`: all of them.
    pub cores: Option<u32>,
    /// Time under load before the measurement starts, in nanoseconds.
    pub ramp_ns: u64,
    /// Measured time, in nanoseconds.
    pub window_ns: u64,
}

/// One target, or the NOP ring, and its workers and queue depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// Index into the experiment's targets; `None` is a ring whose operations do nothing.
    pub target: Option<usize>,
    /// Workers and queue depth.
    pub setting: Setting,
    /// I/Os per second that arrive, as a Poisson process, whether or not earlier ones have completed; `None`: as many
    /// as complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
}

impl Load {
    /// As many I/Os as complete at `setting`.
    pub const fn at(target: usize, setting: Setting) -> Self {
        Self { target: Some(target), setting, iops: None }
    }

    /// The NOP ring.
    pub const fn nop(setting: Setting) -> Self {
        Self { target: None, setting, iops: None }
    }
}

/// A window and its result: a line of `windows.ndjson`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Window")]
pub struct Window<P> {
    /// What was requested.
    pub probe: Probe<P>,
    /// The measurement, or why the window failed.
    pub outcome: Result<Measurement, String>,
}

/// The result of a window. Everything except `took_ns` covers the measured time only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// The measured time, in nanoseconds.
    pub elapsed_ns: u64,
    /// Setup, ramp, measured time, and waiting for the last I/Os, in nanoseconds.
    pub took_ns: u64,
    /// One entry for each load of the probe, in its order.
    pub loads: Vec<LoadMeasure>,
    /// CPU time on the allowed CPUs, where /proc/stat is readable.
    pub cpu: Option<CpuTime>,
}

/// The result of one load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadMeasure {
    /// I/Os that moved all their bytes.
    pub ios: u64,
    /// Bytes of these I/Os.
    pub bytes: u64,
    /// I/Os that failed.
    pub errors: u64,
    /// I/Os that moved only a part of their bytes.
    pub short_ios: u64,
    /// Message of the first failure.
    pub first_error: Option<String>,
    /// Completion latencies of all workers; with [`Load::iops`] from the instant at which each I/O was due.
    pub clat: Histogram,
    /// I/Os that were due but not started; only with [`Load::iops`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unstarted: u64,
    /// CPU time of each worker.
    pub workers: Vec<WorkerCpu>,
    /// Counters of the underlying block device (/proc/diskstats), if any.
    pub disk: Option<DiskRecord>,
    /// Mean number of requests in flight at the driver of that device, below its I/O scheduler (sysfs inflight, sampled);
    /// only for devices with a scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_queue: Option<f64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// CPU time of one worker's thread and of kernel threads working for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerCpu {
    /// User time in nanoseconds.
    pub user_ns: u64,
    /// System time in nanoseconds.
    pub system_ns: u64,
}

/// CPU time summed over the allowed CPUs, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuTime {
    /// User, nice, system and interrupt time of all programs.
    pub busy_ns: u64,
    /// Stolen by the hypervisor.
    pub steal_ns: u64,
    /// Idle and I/O wait.
    pub idle_ns: u64,
    /// Time for which the CPU quota of the cgroup kept its threads from running, summed over the CPUs.
    #[serde(default)]
    pub throttled_ns: u64,
}

/// CPU usage of the allowed CPUs, as shares from 0 to 1; the rest is idle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuShares {
    /// User, nice, system and interrupt time of all programs.
    pub busy: f64,
    /// Stolen by the hypervisor.
    pub steal: f64,
    /// Time for which the CPU quota of the cgroup kept its threads from running. The CPUs were idle, or ran others.
    #[serde(default)]
    pub throttled: f64,
}

impl CpuTime {
    /// The shares; `None` where no time passed.
    pub fn shares(self) -> Option<CpuShares> {
        let (busy, steal) = (self.busy_ns as f64, self.steal_ns as f64);
        let all = busy + steal + self.idle_ns as f64;
        let share = |ns: f64| ns / all;
        (all > 0.0).then(|| CpuShares {
            busy: share(busy),
            steal: share(steal),
            throttled: share(self.throttled_ns as f64),
        })
    }
}

impl CpuShares {
    /// Busy plus stolen.
    pub fn taken(self) -> f64 {
        self.busy + self.steal
    }
}
