//! End conditions, rate limits and think time.

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Think {
    /// Length in nanoseconds (`thinktime`).
    pub time_ns: u64,
    /// Part spent busy-looping, in nanoseconds (`thinktime_spin`).
    pub spin_ns: u64,
    /// Number of I/Os between waits (`thinktime_blocks`).
    pub blocks: u32,
}
