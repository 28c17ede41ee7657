//! What could not be seen, and what seeing cost.

use crate::escape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that could not be seen. As text: `threads' kernel stacks: /proc/1/stack: permission
/// denied; run as root`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// What is not there to be seen.
    pub what: String,
    /// Why: what was tried and what the kernel said.
    pub why: String,
    /// What would allow it; empty where nothing would.
    pub allow: String,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", escape::text(&self.what), escape::text(&self.why))?;
        if self.allow.is_empty() { Ok(()) } else { write!(f, "; {}", escape::text(&self.allow)) }
    }
}

/// Processor time of the watching thread for one sampler. What perf events cost where they happen
/// is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SamplerCost {
    /// The sampler.
    pub sampler: String,
    /// Times it looked, since it was opened.
    pub looks: u64,
    /// Processor time since it was opened, in nanoseconds.
    pub cpu_ns: u64,
    /// Looks that came too late to be made, since it was opened.
    pub missed: u64,
}
