//! How long a job works, and how fast.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a job ends: with the first that is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Until {
    /// Bytes moved (`io_size` times `loops`); `None` with `time_based`.
    pub bytes: Option<u64>,
    /// I/Os done (`number_ios`).
    pub ios: Option<u64>,
    /// Time measured, in nanoseconds (`runtime`).
    pub runtime_ns: Option<u64>,
    /// Work this long, in nanoseconds, before measuring (`ramp_time`).
    pub ramp_ns: u64,
}

/// Which jobs end with one that has `exitall` (`exit_what`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExitWhat {
    /// Those of its group, also those that have not begun.
    #[default]
    Group,
    /// Those that run now, of any group.
    Stonewall,
    /// All, also those that have not begun.
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

/// How arrivals are spread under a rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RateProcess {
    /// Evenly.
    #[default]
    Linear,
    /// As a Poisson process: exponential gaps.
    Poisson,
}

/// A pause between I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Think {
    /// Length in nanoseconds (`thinktime`).
    pub time_ns: u64,
    /// The part of it spent in a busy loop, in nanoseconds (`thinktime_spin`).
    pub spin_ns: u64,
    /// After this many I/Os (`thinktime_blocks`).
    pub blocks: u32,
}
