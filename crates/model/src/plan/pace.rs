//! End conditions, rate limits and think time.

use crate::per_dir::{Dir, PerDir};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// End conditions of a job: the first one reached ends it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Until {
    /// Bytes transferred (`io_size` times `loops`); `None` with `time_based`.
    pub bytes: Option<u64>,
    /// I/Os completed (`number_ios`).
    pub ios: Option<u64>,
    /// Measured time in nanoseconds (`runtime`).
    pub runtime_ns: Option<u64>,
    /// Time to run before measuring, in nanoseconds (`ramp_time`).
    pub ramp_ns: u64,
    /// A write for which there is no space left (`fill_device`).
    #[serde(default)]
    pub full: bool,
}

/// Which jobs end when a job with `exitall` ends (`exit_what`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExitWhat {
    /// Jobs of its group, including those not started.
    #[default]
    Group,
    /// Running jobs of any group.
    Stonewall,
    /// All jobs, including those not started.
    All,
}

/// A rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Bytes per second (`rate`).
    BytesPerSecond(u64),
    /// I/Os per second (`rate_iops`).
    Iops(u64),
}

/// Distribution of arrival times under a rate limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RateProcess {
    /// Constant gaps.
    #[default]
    Linear,
    /// A Poisson process, with exponential gaps.
    Poisson,
}

/// Think time between I/Os.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Think {
    /// Length in nanoseconds (`thinktime`).
    pub time_ns: u64,
    /// Part spent busy-looping, in nanoseconds (`thinktime_spin`).
    pub spin_ns: u64,
    /// Number of I/Os between waits (`thinktime_blocks`); 0 for any.
    pub blocks: u32,
    /// Time of I/O between waits, in nanoseconds (`thinktime_iotime`); 0 for none.
    #[serde(default)]
    pub io_ns: u64,
}

/// The share of a job in the I/Os of all jobs with the same `flow_id` (`flow`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// The jobs that share (`flow_id`).
    pub id: u32,
    /// The weight of this job among them (`flow`), above 0.
    pub weight: u32,
    /// Time in nanoseconds to wait when the job is ahead of its share (`flow_sleep`).
    pub sleep_ns: u64,
}

/// The latency that a job searches the highest queue depth for (`latency_target`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyTarget {
    /// Total latency in nanoseconds that an I/O may take.
    pub target_ns: u64,
    /// Time in nanoseconds for which each depth is measured (`latency_window`).
    pub window_ns: u64,
    /// Percentage of I/Os that must not take longer (`latency_percentile`).
    pub percentile: f64,
    /// Whether the depth is adjusted until the job ends, otherwise what is reported is one window at the depth found
    /// (`latency_run`).
    pub run: bool,
}

/// Rates below which, and latencies above which, a job fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RateFloor {
    /// In bytes per second (`rate_min`).
    pub bytes: PerDir<Option<u64>>,
    /// In I/Os per second (`rate_iops_min`).
    pub iops: PerDir<Option<u64>>,
    /// Time in nanoseconds over which rates are averaged (`rate_cycle`).
    pub cycle_ns: u64,
    /// The longest latency of an I/O in nanoseconds (`max_latency`).
    #[serde(default)]
    pub latency_ns: PerDir<Option<u64>>,
}

impl RateFloor {
    /// Whether any rate is required.
    pub fn is_set(&self) -> bool {
        [&self.bytes, &self.iops]
            .into_iter()
            .any(|floor| Dir::ALL.iter().any(|dir| floor[*dir].is_some()))
    }
}
