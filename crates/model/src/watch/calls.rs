//! Latencies of the system calls of programs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reads, writes and flushes of files by the processes covered, since the sampler was opened. Calls on sockets, pipes and
/// terminals are excluded: they wait for other programs and users.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallsSample {
    /// Time for which calls were recorded, in nanoseconds: all of it, or windows where there are many system calls.
    pub seen_ns: u64,
    /// Records lost because a ring buffer was full: long calls may then be underrepresented.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub lost: u64,
    /// Calls on sockets, pipes and terminals that were left out.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub not_files: u64,
    /// Calls that had not returned one second after their window, and were no longer awaited: long calls are then
    /// underrepresented.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub unfinished: u64,
    /// By system call, those that occurred.
    pub calls: Vec<CallTimes>,
}

/// Latency of one system call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallTimes {
    /// Name, such as `pread64`.
    pub call: String,
    /// Calls that failed, of those in `latency`.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub failed: u64,
    /// From entry to return.
    pub latency: crate::Histogram,
}

impl CallsSample {
    pub(super) fn memory_bytes(&self) -> usize {
        let calls = self.calls.iter();
        let calls = calls.map(|of| size_of_val(of) + of.call.len() + of.latency.memory_bytes());
        calls.sum()
    }
}
