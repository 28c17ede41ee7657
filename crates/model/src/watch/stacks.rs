//! Where processors were.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Samples of processors in one interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StacksSample {
    /// What made the samples: `cycles` or `cpu-clock`.
    pub event: String,
    /// Samples for each second of a processor's busy time.
    pub hz: u32,
    /// Samples lost because a buffer was full.
    pub lost: u64,
    /// Each distinct place with its samples.
    pub counts: Vec<StackCount>,
    /// Stacks first seen in this interval; they go to `stacks.ndjson`.
    #[serde(skip)]
    pub new: Vec<Stack>,
}

/// Samples in one place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackCount {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// The thread's name.
    pub comm: String,
    /// Line of the record's `stacks.ndjson`, counted from 0, which holds a [`Stack`].
    pub stack: u32,
    /// Samples.
    pub count: u32,
}

/// A call chain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Kernel functions, outermost first; empty where the processor was in user mode.
    pub kernel: Vec<String>,
    /// User functions, outermost first; empty unless they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user: Vec<String>,
}
