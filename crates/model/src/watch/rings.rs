//! io_uring instances.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// io_uring instances of the processes covered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RingsSample {
    /// Each ring once, even if several processes share it; by process and descriptor, ascending.
    pub rings: Vec<RingSample>,
    /// Number of io-wq workers, by process, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<RingWorkers>,
    /// Event counts since the sampler was opened; absent if not available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<RingEvents>,
}

impl RingsSample {
    pub(super) fn memory_bytes(&self) -> usize {
        let rings = self.rings.iter().map(|ring| size_of_val(ring) + ring.comm.len());
        let task_work = self.events.as_ref().map_or(0, |events| size_of_val(&*events.task_work));
        rings.sum::<usize>() + size_of_val(&*self.workers) + task_work
    }
}

/// A ring, from /proc/PID/fdinfo.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RingSample {
    /// The lowest ID of the processes that have it open.
    pub pid: i32,
    /// Name of that process.
    pub comm: String,
    /// Descriptor in that process.
    pub fd: i32,
    /// Inode, which identifies the ring; absent on kernels where all rings share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
    /// Number of processes that have it open.
    pub processes: u32,
    /// Its queues; absent if the ring was locked at each attempt, in which case newer kernels
    /// report nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<RingQueues>,
    /// Its SQPOLL thread, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sq_poll: Option<SqPollThread>,
    /// Setup flags (IORING_SETUP_*); known only for rings created while events were being recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_flags: Option<u32>,
}

/// The queues of a ring. The kernel does not read them atomically.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingQueues {
    /// SQ entries.
    pub sq_entries: u32,
    /// CQ entries.
    pub cq_entries: u32,
    /// SQ entries not yet consumed by the kernel.
    pub sq_ready: u32,
    /// CQ entries not yet consumed by the program.
    pub cq_ready: u32,
    /// SQ entries consumed by the kernel since setup, modulo 2^32.
    pub submitted: u32,
    /// Completions posted since setup, modulo 2^32.
    pub completed: u32,
    /// Overflowed completions that wait in the kernel.
    pub overflowed: u32,
    /// Registered files, including empty slots.
    pub files: u32,
    /// Registered buffers, including empty slots.
    pub buffers: u32,
}

/// The SQPOLL thread of a ring, possibly shared with other rings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SqPollThread {
    /// Thread ID in the initial PID namespace.
    pub thread: i32,
    /// CPU that it is pinned to; on newer kernels, the CPU on which it last ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Its CPU time since setup, in microseconds; since Linux 6.9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_us: Option<u64>,
    /// The part of its CPU time with work to do, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_us: Option<u64>,
}

/// io-wq workers of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingWorkers {
    /// Process ID.
    pub pid: i32,
    /// Number of workers.
    pub threads: u32,
}

/// io_uring events of all processes since the sampler was opened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RingEvents {
    /// Requests punted to io-wq (`io_uring_queue_async_work`).
    pub punted: Option<u64>,
    /// Whether `punted` is an estimate, because frequent events were counted in windows only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub punted_estimated: bool,
    /// CQ overflows (`io_uring_cqe_overflow`).
    pub overflows: Option<u64>,
    /// Total length of the windows in which task work was counted, in nanoseconds; absent if it
    /// always was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_work_ns: Option<u64>,
    /// Task work runs by number of requests: (minimum requests, runs), ascending
    /// (`io_uring_task_work_run`, `io_uring_local_work_run`). Empty runs are omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_work: Vec<(u32, u64)>,
}
