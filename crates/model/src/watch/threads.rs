//! Thread activity.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Samples of all threads in one interval, aggregated.
///
/// [`Self::times`] covers all threads, [`Self::active`] those that were on-CPU, runnable or waiting for I/O. The
/// average number of threads with an activity is its time divided by `elapsed_ns`; in records that do not hold
/// times, its count divided by `samples`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadsSample {
    /// Samples taken in this interval.
    #[serde(alias = "looks")]
    pub samples: u32,
    /// Threads sampled, including sleeping ones, summed over all samples.
    pub seen: u64,
    /// From the last sample of the previous interval to the last one of this interval, in nanoseconds.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub elapsed_ns: u64,
    /// Samples of threads that ran while they were being sampled: their time counts as spent where they slept
    /// before.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub torn: u64,
    /// How all threads spent the time; the sum divided by `elapsed_ns` is the average number of threads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<ThreadTime>,
    /// The same for each thread of the watched processes; absent where the whole machine is watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_thread: Vec<TimesOfThread>,
    /// Whether all threads were sampled at once by BPF, instead of through their /proc files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
    /// Distinct activities with their counts, sorted.
    pub active: Vec<ThreadCount>,
}

impl ThreadsSample {
    /// The mean number of threads with this activity.
    pub fn average(&self, activity: &ThreadCount) -> f64 {
        match self.elapsed_ns {
            0 => f64::from(activity.count) / f64::from(self.samples.max(1)),
            elapsed_ns => activity.ns as f64 / elapsed_ns as f64,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let texts = |count: &ThreadCount| {
            let names = count.comm.len() + count.process.len();
            count.kstack.len() + count.filename.len() + count.cmdline.len() + names
        };
        size_of_val(&*self.active)
            + size_of_val(&*self.times)
            + self.by_thread.iter().map(TimesOfThread::memory_bytes).sum::<usize>()
            + self.active.iter().map(texts).sum::<usize>()
    }
}

/// Time that threads spent in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadTime {
    /// The state.
    pub state: ThreadState,
    /// Time summed over all threads, in nanoseconds.
    pub ns: u64,
}

/// How a thread spent the time of an interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimesOfThread {
    /// Process ID.
    pub pid: i32,
    /// Thread ID.
    pub tid: i32,
    /// Name of the thread.
    pub comm: String,
    /// Name of its process; empty if it is the thread's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub process: String,
    /// 0, or the number of threads that these times are of: those of all processes with this name, without IDs, that were
    /// not among the most active ones of the interval.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub others: u64,
    /// Time by state; the sum is the time for which it existed.
    pub times: Vec<ThreadTime>,
}

impl TimesOfThread {
    fn memory_bytes(&self) -> usize {
        size_of_val(self) + size_of_val(&*self.times) + self.comm.len() + self.process.len()
    }
}

crate::named! {
    /// What a thread does, or what it waits for.
    #[derive(
        Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
    )]
    #[serde(rename_all = "snake_case")]
    pub enum ThreadState {
        /// On a CPU.
        OnCpu = "on CPU",
        /// Runnable, waiting for a CPU.
        Runnable = "runnable",
        /// In uninterruptible sleep: I/O, its page or its buffer.
        Disk = "disk I/O",
        /// For data or a journal to reach the disk, in fsync(2) and the like or in a write with O_DSYNC.
        Flush = "flush",
        /// For a page that a memory access needs: a file's, or one that was swapped out.
        PageFault = "page fault",
        /// In uninterruptible sleep for a kernel lock, such as an inode's.
        KernelLock = "kernel lock",
        /// In io_uring_enter(2).
        IoUring = "io_uring",
        /// In io_getevents(2).
        Aio = "aio",
        /// In futex(2): a lock, a condition variable or a thread to join.
        Futex = "futex",
        /// In futex(2), having run since the previous sample: short waits, as for a contended lock.
        FutexBrief = "futex (brief)",
        /// For a socket.
        Socket = "socket",
        /// In epoll_wait(2), poll(2) or select(2).
        Poll = "epoll/poll",
        /// For the other end of a pipe.
        Pipe = "pipe",
        /// For input from a terminal.
        Terminal = "terminal",
        /// For a time that the program chose: nanosleep(2), or the timeout of another wait.
        Timer = "timer",
        /// For a child process.
        Child = "child process",
        /// For a signal.
        Signal = "signal",
        /// A kernel thread without work.
        KernelThread = "idle kernel thread",
        /// Stopped or traced.
        Stopped = "stopped",
        /// Kept from a CPU by the quota of its cgroup.
        Throttled = "throttled",
        /// Asleep for another reason.
        Other = "other",
        /// Off-CPU, in sleeps of which no sample found one.
        Unknown = "unknown",
    }
}

/// Parts of the names of functions in which a thread sleeps for a lock and not for I/O.
///
/// The kernel omits the functions of mutexes and semaphores from wait channels and kernel stacks
/// (`in_sched_functions` in kernel/sched/core.c), so a lock's caller stands for it: those here take the lock of a file,
/// a directory or an address space, and leave waiting for I/O to functions that they call.
pub const LOCK_CALLERS: [&str; 17] = [
    // A file's.
    "_read_iter",
    "_write_iter",
    "inode_lock",
    "xfs_ilock",
    "vfs_fallocate",
    "ext4_fallocate",
    "do_truncate",
    "fdget_pos",
    // A directory's.
    "open_last_lookups",
    "filename_create",
    "do_unlinkat",
    "lock_rename",
    "iterate_dir",
    // An address space's.
    "lock_mm_and_find_vma",
    "vm_mmap_pgoff",
    "vm_munmap",
    // Shown by its own name.
    "percpu_rwsem",
];

impl ThreadState {
    /// What a thread in uninterruptible sleep waits for, by the kernel function in which it sleeps.
    pub fn uninterruptible(wchan: &str) -> Self {
        let is_lock = LOCK_CALLERS.iter().any(|part| wchan.contains(part));
        if is_lock { Self::KernelLock } else { Self::Disk }
    }
}

/// The activity of a thread. Texts are empty and numbers absent if they do not apply, were not
/// requested or are not available.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct ThreadCount {
    /// Process ID.
    pub pid: i32,
    /// Thread ID.
    pub tid: i32,
    /// Name of the thread.
    pub comm: String,
    /// Name of its process; empty if it is the thread's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub process: String,
    /// State as in /proc/PID/stat, with `R` split: `R` on-CPU, `Q` runnable; `D` uninterruptible
    /// sleep; `S` sleeping, only included for threads that wait for I/O unless all states were
    /// requested.
    pub state: char,
    /// System call in which it sleeps, by name, or by number if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub syscall: String,
    /// Kernel function in which it sleeps.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wchan: String,
    /// Kernel stack of a sleeping thread, outermost function first, separated by `;`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kstack: String,
    /// File whose descriptor is an argument of the system call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub filename: String,
    /// Arguments of the process, separated by spaces.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cmdline: String,
    /// Effective user of the process, by name, or by ID if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// CPU on which it last ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// For io_uring's kernel threads (`iou-wrk-N`, `iou-sqp-N`): the thread that created the ring
    /// for which they work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub works_for: Option<i32>,
    /// Whether the thread ran while it was being sampled, so that the fields may be inconsistent; only in records
    /// that do not hold times.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub torn: bool,
    /// Number of samples that found it so.
    pub count: u32,
    /// Time spent, in nanoseconds: on-CPU and runnable as the scheduler accounts it, the rest divided by samples.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub ns: u64,
}

impl ThreadCount {
    /// Name of its process.
    pub fn process_name(&self) -> &str {
        if self.process.is_empty() { &self.comm } else { &self.process }
    }
}
