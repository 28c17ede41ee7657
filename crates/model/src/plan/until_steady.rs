//! Ending a job at steady state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

crate::named! {
    /// What is to be steady.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum SteadyFigure {
        /// I/Os per second.
        #[default]
        Iops = "iops",
        /// Bytes per second.
        Bandwidth = "bw",
        /// Mean completion latency in nanoseconds.
        Latency = "lat",
    }
}

/// When a job, or a group that is reported as one, has reached a steady state, which ends it (`steadystate`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UntilSteady {
    /// What is to be steady.
    pub figure: SteadyFigure,
    /// Whether the slope of a line through the figures counts, per interval; otherwise the largest deviation from their
    /// mean.
    pub slope: bool,
    /// Below which it is steady: in the figure's unit, or in percent of its mean.
    pub limit: f64,
    /// Whether the limit is in percent.
    pub percent: bool,
    /// Time for which it must be, in nanoseconds (`steadystate_duration`).
    pub duration_ns: u64,
    /// Time before the first figure, in nanoseconds (`steadystate_ramp_time`).
    pub ramp_ns: u64,
    /// Time between figures, in nanoseconds (`steadystate_check_interval`).
    pub interval_ns: u64,
}

impl UntilSteady {
    /// How many figures must be steady. At least 1.
    pub fn count(&self) -> usize {
        (self.duration_ns / self.interval_ns.max(1)).max(1) as usize
    }

    /// The criterion as in job files, without its limit: `iops_slope`.
    pub fn name(&self) -> String {
        format!("{}{}", self.figure.name(), if self.slope { "_slope" } else { "" })
    }
}
