//! One window: what is asked of it and what came of it.

use fathom_model::Histogram;
use fathom_model::record::DiskRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How hard a target is driven.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Setting {
    /// Worker threads, each with a queue of its own.
    pub workers: u32,
    /// I/Os that each worker keeps in flight.
    pub depth: u32,
}

impl Setting {
    /// One worker with one I/O in flight.
    pub const ONE: Self = Self { workers: 1, depth: 1 };

    /// I/Os in flight over all workers.
    #[must_use]
    pub fn in_flight(self) -> u64 {
        u64::from(self.workers) * u64::from(self.depth)
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{} × {}", self.workers, self.depth))
    }
}

/// What a window is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No I/O: what else the machine is doing.
    Idle,
    /// The tool's own ceiling (NOP ring).
    Own,
    /// Latency with one I/O in flight.
    Latency,
    /// The search for the peak.
    Climb,
    /// Counter-experiments at the peak.
    Counter,
    /// Counter-experiments where one worker is at its best.
    CounterOne,
    /// The search for the knee.
    Knee,
    /// Several targets, alone and together in turn.
    Together,
}

/// A window to be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// What it is for.
    pub phase: Phase,
    /// What is driven, all at the same time; empty in [`Phase::Idle`].
    pub loads: Vec<Load>,
    /// Bytes of each I/O: reads at random offsets that are multiples of it.
    pub block_bytes: u64,
    /// Let the workers run only on this many of the allowed processors; `None`: on all.
    pub cores: Option<u32>,
    /// Work this long before measuring, in nanoseconds.
    pub ramp_ns: u64,
    /// Measure this long, in nanoseconds.
    pub window_ns: u64,
}

/// One target, or the NOP ring, and how hard it is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// Index into [`super::Config::targets`]; `None` is a ring whose operations do nothing.
    pub target: Option<usize>,
    /// Workers and depth.
    pub setting: Setting,
}

/// What came of a window. All of it covers the measured time only, except `took_ns`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// The measured time, in nanoseconds.
    pub elapsed_ns: u64,
    /// Everything: set-up, ramp, measured time, and waiting for the last I/Os, in nanoseconds.
    pub took_ns: u64,
    /// One entry for each load of the probe, in its order.
    pub loads: Vec<LoadMeasure>,
    /// The machine's allowed processors, where /proc/stat could be read.
    pub cpu: Option<CpuTime>,
}

/// What one load did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadMeasure {
    /// I/Os that moved all their bytes.
    pub ios: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// I/Os that failed.
    pub errors: u64,
    /// I/Os that moved only a part of their bytes.
    pub short_ios: u64,
    /// The first failure, in words.
    pub first_error: Option<String>,
    /// Completion latencies of all workers.
    pub clat: Histogram,
    /// Processor time of each worker.
    pub workers: Vec<WorkerCpu>,
    /// What the block device below saw (/proc/diskstats), where there is one.
    pub disk: Option<DiskRecord>,
}

/// Processor time of one worker's thread and of kernel threads that worked for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerCpu {
    /// User time in nanoseconds.
    pub user_ns: u64,
    /// System time in nanoseconds.
    pub system_ns: u64,
}

/// Where the time of the allowed processors went, in nanoseconds over all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuTime {
    /// Worked, for whomever: user, nice, system and interrupts.
    pub busy_ns: u64,
    /// Ready to run, but the hypervisor ran something else.
    pub steal_ns: u64,
    /// Idle, or waiting for I/O.
    pub idle_ns: u64,
}

/// Where the time of the allowed processors went, as shares from 0 to 1; the rest was idle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuShares {
    /// Worked, for whomever: user, nice, system and interrupts.
    pub busy: f64,
    /// Ready to run, but the hypervisor ran something else.
    pub steal: f64,
}

impl CpuTime {
    /// The shares; `None` where no time passed.
    #[must_use]
    pub fn shares(self) -> Option<CpuShares> {
        let (busy, steal) = (self.busy_ns as f64, self.steal_ns as f64);
        let all = busy + steal + self.idle_ns as f64;
        (all > 0.0).then(|| CpuShares { busy: busy / all, steal: steal / all })
    }
}

impl CpuShares {
    /// Not idle: worked or wanted to.
    #[must_use]
    pub fn taken(self) -> f64 {
        self.busy + self.steal
    }
}
