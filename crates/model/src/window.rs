//! Windows of searches and experiments: what is measured in them, and the figures of a setting.

use crate::Dir;
use crate::experiment::WindowResult;
use crate::limit::Phase;
use crate::plan::Mix;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

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

/// A window of a search to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// What the window is for.
    pub phase: Phase,
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
pub struct Window {
    /// What was requested.
    pub probe: Probe,
    /// The measurement, or why the window failed.
    pub outcome: Result<Measurement, String>,
}

impl From<&Window> for Probe {
    fn from(window: &Window) -> Self {
        window.probe.clone()
    }
}

/// The result of a window. Everything except `took_ns` covers the measured time only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// The measured time, in nanoseconds.
    pub elapsed_ns: u64,
    /// Setup, ramp, measured time, and waiting for the last I/Os, in nanoseconds.
    pub took_ns: u64,
    /// One entry for each load of the probe, in its order.
    pub loads: Vec<WindowResult>,
    /// CPU time on the allowed CPUs, where /proc/stat is readable.
    pub cpu: Option<CpuTime>,
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
    /// That of both.
    pub fn plus(self, other: Self) -> Self {
        Self {
            busy_ns: self.busy_ns.saturating_add(other.busy_ns),
            steal_ns: self.steal_ns.saturating_add(other.steal_ns),
            idle_ns: self.idle_ns.saturating_add(other.idle_ns),
            throttled_ns: self.throttled_ns.saturating_add(other.throttled_ns),
        }
    }

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

impl Measurement {
    /// The result of each load, with what was measured of the whole window.
    pub fn results(&self) -> impl Iterator<Item = WindowResult> {
        let of = |load: &WindowResult| WindowResult {
            elapsed_ns: self.elapsed_ns,
            cpu: self.cpu,
            ..load.clone()
        };
        self.loads.iter().map(of)
    }
}

/// The results at one setting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Worker threads.
    pub workers: u32,
    /// Requested queue depth of each worker.
    pub depth: u32,
    /// I/Os per second: all I/Os over the time of all windows, as [`Self::bytes_per_second`] is all bytes.
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
    /// Mean I/Os in flight at the underlying block device, if any.
    pub device_queue: Option<f64>,
    /// Mean number of them that were at the driver, below the I/O scheduler; only for devices with a scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_queue: Option<f64>,
    /// Bytes transferred by the underlying block device over bytes of I/O: near 0 where another layer serves
    /// the I/O, above 1 where other programs use the device.
    pub from_disk: Option<f64>,
    /// User CPU time of the workers per I/O, in nanoseconds.
    pub user_ns_per_io: f64,
    /// System CPU time of the workers per I/O, in nanoseconds.
    pub system_ns_per_io: f64,
    /// CPU time of the whole machine per I/O, in nanoseconds: includes interrupts, kernel threads and
    /// other programs.
    pub machine_ns_per_io: Option<f64>,
    /// CPU usage of the busiest worker, from 0 to 1.
    pub worker_share: f64,
    /// CPU usage of the allowed CPUs.
    pub cpu: Option<CpuShares>,
    /// The windows disagree, or too few of them contradict a lower load: not a figure to rely on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub noisy: bool,
}

impl Point {
    /// Workers and queue depth.
    pub fn setting(&self) -> Setting {
        Setting { workers: self.workers, depth: self.depth }
    }

    /// CPU time of the workers per I/O, in nanoseconds.
    pub fn cpu_ns_per_io(&self) -> f64 {
        self.user_ns_per_io + self.system_ns_per_io
    }

    /// Max IOPS per core: the rate at which one CPU is fully used at this CPU time per I/O.
    pub fn one_core_iops(&self) -> Option<f64> {
        let cost = self.cpu_ns_per_io();
        (cost > 0.0).then(|| 1e9 / cost)
    }
}

/// The mean of repeated windows and the interval that it is in with 95% confidence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The mean, in the unit of the measurement.
    pub mean: f64,
    /// Lower end of the interval; absent with fewer than two windows.
    pub low: Option<f64>,
    /// Upper end of the interval; absent with fewer than two windows.
    pub high: Option<f64>,
    /// Windows measured.
    pub windows: u32,
}

impl Estimate {
    /// Half the width of the interval as a share of the mean: 0.03 is "±3%". `None` when unknown.
    pub fn relative(&self) -> Option<f64> {
        let (low, high) = (self.low?, self.high?);
        (self.mean > 0.0).then(|| (high - low) / 2.0 / self.mean)
    }
}

/// A ratio with its 95% confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The ratio; 1 is no difference.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Ratio {
    /// Half the width of the interval on the logarithm: 0.03 is about "±3%".
    pub fn spread(&self) -> f64 {
        (self.high / self.low).ln() / 2.0
    }

    /// The interval in words: `95% CI 0.95–1.05`. Two windows that differ much may give one of many digits, which says no more
    /// than that it is wide.
    pub fn interval(&self) -> String {
        match self.high {
            ..=100.0 => format!("95% CI {:.2}–{:.2}", self.low, self.high),
            _ => format!("95% CI {:.2} to more than 100", self.low),
        }
    }
}

crate::named! {
    /// Kind of access, as in fio's `rw`.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum Rw {
        /// Sequential reads.
        Read = "read",
        /// Sequential writes.
        Write = "write",
        /// Random reads.
        #[default]
        Randread = "randread",
        /// Random writes.
        Randwrite = "randwrite",
        /// Sequential reads and writes, 70:30.
        Rw = "rw",
        /// Random reads and writes, 70:30.
        Randrw = "randrw",
    }
}

impl Rw {
    /// Percentage of reads in a mix.
    pub const READ_PERCENT: u32 = 70;

    /// In words, of many I/Os.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Read => "sequential reads",
            Self::Write => "sequential writes",
            Self::Randread => "random reads",
            Self::Randwrite => "random writes",
            Self::Rw => "sequential reads and writes (70:30)",
            Self::Randrw => "random reads and writes (70:30)",
        }
    }

    /// Directions and their percentage of the I/Os.
    pub const fn dirs(self) -> &'static [(Dir, u32)] {
        match self {
            Self::Read | Self::Randread => &[(Dir::Read, 100)],
            Self::Write | Self::Randwrite => &[(Dir::Write, 100)],
            Self::Rw | Self::Randrw => {
                &[(Dir::Read, Self::READ_PERCENT), (Dir::Write, 100 - Self::READ_PERCENT)]
            }
        }
    }

    /// The mix of directions.
    pub const fn mix(self) -> Mix {
        match self.dirs() {
            [(dir, _)] => Mix::Only(*dir),
            _ => Mix::ReadWrite { read_percent: Self::READ_PERCENT },
        }
    }

    /// Whether offsets are random.
    pub const fn is_random(self) -> bool {
        matches!(self, Self::Randread | Self::Randwrite | Self::Randrw)
    }

    /// Whether it changes the target.
    pub fn modifies(self) -> bool {
        self.dirs().iter().any(|(dir, _)| dir.modifies())
    }
}

impl std::fmt::Display for Rw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Rw {
    type Err = String;

    /// Takes fio's names, also `readwrite` for `rw`.
    fn from_str(text: &str) -> Result<Self, String> {
        let name = if text == "readwrite" { "rw" } else { text };
        let known = Self::ALL.into_iter().find(|rw| rw.name() == name);
        let names = || Self::ALL.map(Self::name).join(", ");
        known.ok_or_else(|| format!("expected one of {}", names()))
    }
}

/// How a target was accessed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// With O_DIRECT; otherwise through the page cache.
    pub direct: bool,
    /// It is a scratch file created for the measurement.
    pub scratch: bool,
}
