//! io_uring instances.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// io_uring of the processes that are watched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RingsSample {
    /// Each ring once, however many processes share it; by process and descriptor, ascending.
    pub rings: Vec<RingSample>,
    /// Worker threads of io-wq at this instant, by process, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<RingWorkers>,
    /// Events since the sampler was opened, where they can be counted.
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

/// One ring, from /proc/PID/fdinfo.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RingSample {
    /// Process with the lowest number that has it open.
    pub pid: i32,
    /// Its name.
    pub comm: String,
    /// Descriptor there.
    pub fd: i32,
    /// Inode, which tells rings apart; absent where the kernel gives all rings the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
    /// Processes that have it open.
    pub processes: u32,
    /// Its queues; absent where the ring was in use at each attempt: newer kernels tell nothing then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<RingQueues>,
    /// Its SQPOLL thread, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sq_poll: Option<SqPoll>,
    /// Flags it was set up with (IORING_SETUP_*); known of rings made while the sampler was open and
    /// could count events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_flags: Option<u32>,
}

/// The queues of a ring at one instant. The kernel does not read them all at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingQueues {
    /// Places in the submission queue.
    pub sq_entries: u32,
    /// Places in the completion queue.
    pub cq_entries: u32,
    /// Entries that the kernel has not taken yet.
    pub sq_ready: u32,
    /// Completions that the program has not taken yet.
    pub cq_ready: u32,
    /// Entries taken by the kernel since setup, modulo 2^32.
    pub submitted: u32,
    /// Completions posted since setup, modulo 2^32.
    pub completed: u32,
    /// Completions that found no place and wait in the kernel.
    pub overflowed: u32,
    /// Registered files, places without one included.
    pub files: u32,
    /// Registered buffers, places without one included.
    pub buffers: u32,
}

/// The SQPOLL thread of a ring. Several rings may share one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SqPoll {
    /// Thread, as the kernel numbers it outside of all pid namespaces.
    pub thread: i32,
    /// Processor that it is bound to; newer kernels: on which it ran last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Its processor time since setup, in microseconds, from kernel 6.9 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_us: Option<u64>,
    /// Processor time of it in which it had work, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_us: Option<u64>,
}

/// Worker threads of io-wq of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingWorkers {
    /// Process.
    pub pid: i32,
    /// Threads.
    pub threads: u32,
}

/// io_uring's tracepoints of all processes of the machine, counted since the sampler was opened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RingEvents {
    /// Requests handed to io-wq (`io_uring_queue_async_work`).
    pub punted: Option<u64>,
    /// They were so many that they were counted for a part of the time only: their number is an estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub punted_estimated: bool,
    /// Completions that found no place (`io_uring_cqe_overflow`).
    pub overflows: Option<u64>,
    /// Nanoseconds for which runs of task work were counted; absent where they always are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_work_ns: Option<u64>,
    /// Runs of task work by how many requests each ran: (requests at least, runs), ascending
    /// (`io_uring_task_work_run`, `io_uring_local_work_run`). Runs that found nothing are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_work: Vec<(u32, u64)>,
}
