//! Errors of jobs. Typed: callers word them, since they know the vocabulary of their users.

use fathom_model::Dir;
use fathom_model::plan::NameOp;
use fathom_model::record::{JobRecord, WrongBlock};
use rustix::io::Errno;
use std::io;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobResult {
    /// What it did. `error` and `granted.fallbacks` are left to the caller.
    pub record: JobRecord,
    pub error: Option<EngineError>,
    /// Optimizations that it did without.
    pub fallbacks: Vec<EngineError>,
    /// Wrong blocks, to be written to files (`verify_dump`).
    pub dumps: Vec<BlockDump>,
}

/// The bytes of a wrong block.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BlockDump {
    /// Its number among the described ones of the record.
    pub block: usize,
    /// Where its files go.
    pub directory: String,
    pub received: Vec<u8>,
    /// Unknown where neither the job's writes nor a header say what it should be.
    pub expected: Option<Vec<u8>>,
}

/// Why a job failed, or did without an optimization.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineError {
    pub op: Operation,
    pub file: Option<String>,
    /// errno, or 0 if no system call failed.
    pub errno: i32,
    /// What is known of the cause, beyond `errno`.
    pub hint: Hint,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    Start,
    SpawnWorker,
    Supervise,
    /// The worker: it panicked.
    Work,
    EndWorker,
    /// `bytes` is the length of each.
    AllocateBuffers {
        count: u32,
        bytes: u64,
    },
    SetNice(i32),
    SetIoPriority {
        class: u8,
        level: u8,
    },
    LockMemory(u64),
    SetMemoryPolicy,
    SetAffinity(Vec<u32>),
    SetUser(u32),
    SetGroup(u32),
    /// Pinning to a CPU whose number is above the maximum.
    UseCpu {
        cpu: u32,
        max: u32,
    },
    PreRead(u64),
    FreeBlocks,
    /// Blocks of the file that a job exchanges blocks with.
    AllocateDonor,
    ReadPlacements,
    /// An index beyond the device's list of placements, which has that many.
    UsePlacement {
        index: u16,
        count: usize,
    },
    ReportZones,
    /// The zone that begins at this byte.
    ResetZone(u64),
    FinishZone(u64),
    Advise,
    HintWriteLife,
    HandleBusErrors,
    /// Mapping this many bytes of the target into memory.
    Map(usize),
    CreatePipe,
    SetUpRing(u32),
    PollWake,
    /// Reads and writes of unregistered buffers on a ring before Linux 5.6.
    UseUnregistered,
    RegisterFiles(usize),
    RegisterBuffers(usize),
    /// From the submitting thread, without io-wq.
    IssueTrims,
    /// For this many I/Os.
    SetUpAio(u32),
    MatchFiles {
        regions: usize,
        files: usize,
    },
    FindNames,
    Io {
        dir: Dir,
        len: u32,
        offset: u64,
    },
    Fsync,
    Fdatasync,
    SyncRange,
    Name(NameOp),
    /// `more` are those beside the one in `file`.
    RemoveNames {
        more: usize,
    },
    UseQueue {
        engine: &'static str,
        in_flight: u32,
    },
    /// I/Os in flight at the end of the job, which did not complete.
    Drain {
        lost: u32,
        paths: Vec<String>,
    },
    /// The state of a verification (`verify_state_load`), or why it is none.
    LoadState(&'static str),
    SaveState(&'static str),
    /// To the journal of what was written, which is in `file`.
    WriteJournal,
    /// What was read is not what was written.
    Verify(Box<WrongBlock>),
    MeetLatency {
        dir: Dir,
        max_ns: u64,
        took_ns: u64,
    },
    /// The rate that the job needs, in bytes or I/Os per second.
    MeetRate {
        dir: Dir,
        in_bytes: bool,
        needed: u64,
        reached: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    None,
    Shrunk,
    /// The kernel reports more bytes than were requested.
    Overrun(i32),
    /// The request would block, which the job forbids.
    WouldBlock,
    /// A million retries failed.
    Retried,
    NoPolledQueues,
    Unsupported,
    Misaligned,
    NoSplice,
    /// Blocks are exchanged within one ext4 only.
    NoMoveExtents,
    /// The name was replaced since it was laid out.
    Replaced,
    /// The mapped target was truncated.
    Truncated,
    DeviceError,
    Full,
    MediumError,
    Rejected,
    QuotaExceeded,
    DeviceGone,
    NotOpen,
    Scsi(ScsiError),
    NoHugePages,
    /// RLIMIT_AS is too small.
    AddressSpace,
    SeccompOrNoRing,
    NoRing,
    /// kernel.io_uring_disabled is 2.
    RingDisabled,
    /// kernel.io_uring_disabled is 1.
    RingDisabledForUsers,
    Seccomp,
    NoPermission,
    /// RLIMIT_MEMLOCK is too small, or memory is.
    LockedMemory,
    NoSqThread,
    /// Too many entries, or these flags, some of which the kernel lacks.
    RingFlags(Vec<String>),
    AioMaxNr,
    NoAio,
    /// In the words of who removes names.
    Explained(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScsiError {
    NoCommand,
    /// The kernel did not send the command, with this errno.
    NotSent(i32),
    /// Sense key, additional sense code and qualifier.
    Sense(u8, u8, u8),
    /// Without sense data.
    Status {
        device: u8,
        host: u16,
    },
}

impl EngineError {
    pub(crate) fn new(op: Operation) -> Self {
        Self { op, file: None, errno: 0, hint: Hint::None }
    }

    pub(crate) fn by_kernel(op: Operation, error: &io::Error) -> Self {
        Self::new(op).errno(error.raw_os_error().unwrap_or(0))
    }

    /// A failure of a call of rustix.
    pub(crate) fn by(op: Operation) -> impl FnOnce(Errno) -> Self {
        |error| Self::new(op).errno(error.raw_os_error())
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
