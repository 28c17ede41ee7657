//! Where threads waited.

use super::threads::{ThreadState, ThreadTime};
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
    /// Further threads, less active than these.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub left_out: u64,
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
    /// How much of the interval it existed, in nanoseconds; 0 for all of it.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub lived_ns: u64,
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
    /// Of waits for a lock, in futex(2) or in the kernel: the threads that ended most of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<LockHolder>,
    /// What all threads that ended such waits did from their begin to their end, the longest first; not waits for locks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meanwhile: Vec<ThreadTime>,
}

/// A thread that ended waits for a lock, or kept one that did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockHolder {
    /// Thread ID.
    pub tid: i32,
    /// Name of the thread.
    pub comm: String,
    /// Waits that it ended.
    pub count: u64,
    /// Time of such waits that passed with what it did, in nanoseconds: it ended them, or those that kept the thread that did.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub ns: u64,
}

impl OffCpuSample {
    pub(super) fn memory_bytes(&self) -> usize {
        let waits = |thread: &SwitchedThread| {
            let wait = |wait: &WaitSum| {
                let names = wait.holders.iter().map(|holder| holder.comm.len()).sum::<usize>();
                let lists = size_of_val(&*wait.holders) + size_of_val(&*wait.meanwhile);
                wait.function.len() + names + lists
            };
            let waits = thread.waits.iter().map(wait).sum::<usize>();
            size_of_val(&*thread.waits) + thread.comm.len() + waits
        };
        size_of_val(&*self.threads) + self.threads.iter().map(waits).sum::<usize>()
    }
}
