//! Where threads waited.

use super::threads::ThreadState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What threads did in an interval, from all of their context switches: those of the watched processes, and those of the
/// processes that woke them from waits for a peer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OffCpuSample {
    /// Time for which context switches were recorded, in nanoseconds: the whole interval, or windows where there are many.
    pub seen_ns: u64,
    /// Records lost because a ring buffer was full; the time from then on to the end of the window is not in `seen_ns`.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub lost: u64,
    /// Threads, by process and thread ID.
    pub threads: Vec<SwitchedThread>,
}

/// A thread that a context switch was recorded of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchedThread {
    /// Process ID.
    pub pid: i32,
    /// Thread ID.
    pub tid: i32,
    /// Name of the thread.
    pub comm: String,
    /// Whether its process is not watched, but woke threads of the watched ones that waited for a peer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub peer: bool,
    /// The time for which `run_ns` and `runnable_ns` are known from the scheduler's statistics, in nanoseconds; 0 if they are of
    /// the recorded time.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub interval_ns: u64,
    /// Time on a CPU, in nanoseconds.
    pub run_ns: u64,
    /// Time runnable, waiting for a CPU, in nanoseconds.
    pub runnable_ns: u64,
    /// Its waits, the longest in sum first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitSum>,
}

/// Waits of a thread for the same cause, in the same function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitSum {
    /// What it waited for.
    pub cause: ThreadState,
    /// Kernel function in which it waited, without those of the scheduler and of waiting itself.
    pub function: String,
    /// Waits that ended.
    pub count: u64,
    /// Their time within what was recorded, in nanoseconds.
    pub ns: u64,
    /// Those of them that processes of this sample ended.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub within: u64,
}

impl OffCpuSample {
    pub(super) fn memory_bytes(&self) -> usize {
        let waits = |thread: &SwitchedThread| {
            let functions = thread.waits.iter().map(|wait| wait.function.len());
            size_of_val(&*thread.waits) + thread.comm.len() + functions.sum::<usize>()
        };
        size_of_val(&*self.threads) + self.threads.iter().map(waits).sum::<usize>()
    }
}
