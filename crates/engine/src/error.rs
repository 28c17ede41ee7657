//! Errors of jobs. Typed: callers word them, since they know the vocabulary of their users.

use fathom_model::Dir;
use fathom_model::plan::NameOp;
use fathom_model::record::JobRecord;
use std::io;

/// The result of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobResult {
    /// What it did. `error` and `granted.fallbacks` are left to the caller.
    pub record: JobRecord,
    /// Why it failed.
    pub error: Option<EngineError>,
    /// Optimizations that it did without.
    pub fallbacks: Vec<EngineError>,
}

/// Why a job failed, or did without an optimization.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineError {
    /// What failed.
    pub op: Operation,
    /// The path of the target, if it is about one.
    pub file: Option<String>,
    /// errno, or 0 if no system call failed.
    pub errno: i32,
    /// What is known of the cause, beyond `errno`.
    pub hint: Hint,
}

/// What failed.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Creating the descriptors and signal handlers of a run.
    Start,
    /// Creating a worker's thread.
    SpawnWorker,
    /// The thread that supervises the workers.
    Supervise,
    /// The worker: it panicked.
    Work,
    /// Ending a worker within the time that it has for that.
    EndWorker,
    /// Allocating buffers.
    AllocateBuffers {
        /// How many.
        count: u32,
        /// The length of each.
        bytes: u64,
    },
    /// Setting the nice value.
    SetNice(i32),
    /// Setting the I/O priority.
    SetIoPriority {
        /// Its class.
        class: u8,
        /// Its level.
        level: u8,
    },
    /// Locking memory, in bytes.
    LockMemory(u64),
    /// Setting the NUMA policy.
    SetMemoryPolicy,
    /// Pinning to these CPUs.
    SetAffinity(Vec<u32>),
    /// Pinning to a CPU whose number is above the maximum.
    UseCpu {
        /// Its number.
        cpu: u32,
        /// The highest one.
        max: u32,
    },
    /// Reading the target into the page cache, at an offset.
    PreRead(u64),
    /// Freeing blocks between passes.
    FreeBlocks,
    /// Advice on the page cache.
    Advise,
    /// A hint about the life of written data.
    HintWriteLife,
    /// Installing the handler of bus errors.
    HandleBusErrors,
    /// Mapping bytes of the target into memory.
    Map(usize),
    /// Creating the pipe of splice.
    CreatePipe,
    /// Creating a ring of this many entries.
    SetUpRing(u32),
    /// Registering the descriptor that ends waits.
    PollWake,
    /// Reads and writes of unregistered buffers on a ring before Linux 5.6.
    UseUnregistered,
    /// Registering this many files.
    RegisterFiles(usize),
    /// Registering buffers of this many bytes.
    RegisterBuffers(usize),
    /// Issuing trims from the submitting thread, without io-wq.
    IssueTrims,
    /// Creating an AIO context for this many I/Os.
    SetUpAio(u32),
    /// Opening one file per region.
    MatchFiles {
        /// Number of regions.
        regions: usize,
        /// Number of open files.
        files: usize,
    },
    /// Finding a name to operate on.
    FindNames,
    /// An I/O.
    Io {
        /// Its direction.
        dir: Dir,
        /// Its length in bytes.
        len: u32,
        /// Its offset in bytes.
        offset: u64,
    },
    /// fsync(2).
    Fsync,
    /// fdatasync(2).
    Fdatasync,
    /// An operation on a name.
    Name(NameOp),
    /// Removing the names that the job created.
    RemoveNames {
        /// How many beside the one in `file`.
        more: usize,
    },
    /// Submitting, or waiting for completions.
    UseQueue {
        /// The name of the engine.
        engine: &'static str,
        /// I/Os in flight.
        in_flight: u32,
    },
    /// I/Os in flight at the end of the job, which did not complete.
    Drain {
        /// How many.
        lost: u32,
        /// The paths of the job's targets.
        paths: Vec<String>,
    },
    /// An I/O within the latency that the job allows.
    MeetLatency {
        /// Its direction.
        dir: Dir,
        /// What is allowed.
        max_ns: u64,
        /// What it took.
        took_ns: u64,
    },
    /// The rate that the job needs.
    MeetRate {
        /// In which direction.
        dir: Dir,
        /// Whether the rate is in bytes per second, and not in I/Os per second.
        in_bytes: bool,
        /// The rate needed.
        needed: u64,
        /// The rate reached.
        reached: u64,
    },
}

/// What is known of the cause, beyond the errno.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// Nothing.
    None,
    /// The target is shorter than at the start of the run.
    Shrunk,
    /// The kernel reports more bytes than were requested.
    Overrun(i32),
    /// The request would block, which the job forbids.
    WouldBlock,
    /// A million retries failed.
    Retried,
    /// The device has no polled queues.
    NoPolledQueues,
    /// The target does not support the operation.
    Unsupported,
    /// Direct I/O that may not be aligned.
    Misaligned,
    /// The file system does not support splice.
    NoSplice,
    /// The name was replaced since it was laid out.
    Replaced,
    /// The mapped target was truncated.
    Truncated,
    /// The device reports an error.
    DeviceError,
    /// No space is left, or no device.
    Full,
    /// A medium error.
    MediumError,
    /// The device rejected the request.
    Rejected,
    /// The quota is exhausted.
    QuotaExceeded,
    /// The device is gone.
    DeviceGone,
    /// The target is not open for the operation.
    NotOpen,
    /// Why a SCSI command failed.
    Scsi(ScsiError),
    /// Too few huge pages are reserved.
    NoHugePages,
    /// The address space is limited.
    AddressSpace,
    /// A seccomp filter, or a kernel without io_uring.
    SeccompOrNoRing,
    /// A kernel without io_uring.
    NoRing,
    /// kernel.io_uring_disabled is 2.
    RingDisabled,
    /// kernel.io_uring_disabled is 1.
    RingDisabledForUsers,
    /// A seccomp filter.
    Seccomp,
    /// Neither of these, but no permission.
    NoPermission,
    /// RLIMIT_MEMLOCK is too small, or memory is.
    LockedMemory,
    /// The SQPOLL thread cannot be created.
    NoSqThread,
    /// A ring with too many entries, or with flags that the kernel lacks.
    RingFlags(Vec<String>),
    /// fs.aio-max-nr is exhausted.
    AioMaxNr,
    /// A kernel without native asynchronous I/O.
    NoAio,
    /// In the words of who removes names.
    Explained(String),
}

/// Why a SCSI command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScsiError {
    /// No command expresses the request.
    NoCommand,
    /// The kernel did not send the command, with this errno.
    NotSent(i32),
    /// Sense key, additional sense code and qualifier.
    Sense(u8, u8, u8),
    /// The status of device and host, without sense data.
    Status {
        /// Of the device.
        device: u8,
        /// Of the host adapter.
        host: u16,
    },
}

impl EngineError {
    /// No system call failed.
    pub(crate) fn new(op: Operation) -> Self {
        Self { op, file: None, errno: 0, hint: Hint::None }
    }

    /// A failed system call.
    pub(crate) fn by_kernel(op: Operation, error: &io::Error) -> Self {
        Self::new(op).errno(error.raw_os_error().unwrap_or(0))
    }

    /// The system call of this thread that failed last.
    pub(crate) fn last(op: Operation) -> Self {
        Self::by_kernel(op, &io::Error::last_os_error())
    }

    pub(crate) fn errno(self, errno: i32) -> Self {
        Self { errno, ..self }
    }

    pub(crate) fn on(self, path: impl Into<String>) -> Self {
        Self { file: Some(path.into()), ..self }
    }

    pub(crate) fn hint(self, hint: Hint) -> Self {
        Self { hint, ..self }
    }
}

impl From<EngineError> for JobResult {
    fn from(error: EngineError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }
}
