//! Unavailable data, and sampling overhead.

use crate::escape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Data that is not available. As text: `kernel stacks: /proc/1/stack: permission denied; run as
/// root`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unavailable {
    /// The unavailable data.
    #[serde(alias = "what")]
    pub source: String,
    /// What was tried, and the error.
    #[serde(alias = "why")]
    pub reason: String,
    /// What would make it available; empty if nothing would.
    #[serde(alias = "allow")]
    pub remedy: String,
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", escape::text(&self.source), escape::text(&self.reason))?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", escape::text(&self.remedy)) }
    }
}

/// Sampling overhead of one sampler: CPU time of the sampling thread. Excludes the cost of perf
/// events where they occur.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SamplerCost {
    /// Name of the sampler.
    pub sampler: String,
    /// Samples taken since it was opened.
    #[serde(alias = "looks")]
    pub samples: u64,
    /// CPU time since it was opened, in nanoseconds.
    pub cpu_ns: u64,
    /// Samples skipped since it was opened because they would have been too late.
    pub missed: u64,
}
