//! io_uring instances.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// io_uring of the processes that are watched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RingsSample {
    /// Each ring.
    pub rings: Vec<RingSample>,
    /// Requests handed to io-wq, since the sampler was opened.
    pub punted: Option<u64>,
    /// Completion queue overflows, since the sampler was opened.
    pub overflows: Option<u64>,
    /// Runs of task work by how many requests they completed: (requests at least, runs), ascending,
    /// since the sampler was opened.
    pub task_work: Vec<(u32, u64)>,
}

/// One ring, from /proc/PID/fdinfo.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RingSample {
    /// Process.
    pub pid: i32,
    /// Descriptor.
    pub fd: i32,
    /// Entries of the submission queue that the kernel has not taken yet.
    pub sq_ready: u32,
    /// Completions that the program has not taken yet.
    pub cq_ready: u32,
    /// Submissions taken by the kernel since setup, modulo 2^32.
    pub submitted: u32,
    /// Completions posted since setup, modulo 2^32.
    pub completed: u32,
    /// The SQPOLL thread, where there is one.
    pub sq_thread: Option<i32>,
    /// Time of the SQPOLL thread since setup, in microseconds, where the kernel tells.
    pub sq_total_us: Option<u64>,
    /// Time of it in which it had work, in microseconds.
    pub sq_work_us: Option<u64>,
    /// Worker threads of io-wq at this instant.
    pub workers: u32,
}
