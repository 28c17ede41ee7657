//! I/O engines and their settings.

use super::{Names, Paths};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// I/O engine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// io_uring on a file or block device.
    IoUring(Uring),
    /// io_uring passthrough commands on an NVMe generic device (`/dev/ngXnY`) or a SCSI disk's bsg device.
    IoUringCmd(Uring),
    /// Linux native AIO: io_submit(2), io_getevents(2).
    Libaio,
    /// One system call per I/O.
    Psync(Psync),
    /// readv(2) or writev(2), one call for adjacent I/Os of a batch.
    Vsync,
    /// Loads from and stores to memory mappings.
    Mmap,
    /// splice(2) and vmsplice(2), through a pipe.
    Splice,
    /// EXT4_IOC_MOVE_EXT: exchanges blocks with another file (fio's `e4defrag`).
    MoveExtents(Donor),
    /// POSIX asynchronous I/O: aio_read(3), aio_write(3).
    Posixaio,
    /// SCSI commands through SG_IO, on SCSI disks and their generic devices (`/dev/sgN`).
    Sg(ScsiCommands),
    /// Operations on the names of files and directories.
    Names(Names),
    /// Uses CPU time, and does no I/O (fio's `cpuio`).
    Cpu(CpuLoad),
    /// io_uring no-ops: measures the overhead of the ring.
    Nop(Uring),
    /// Completes I/Os immediately without the kernel: measures the overhead of the engine.
    #[default]
    Null,
}

impl Engine {
    /// The name in fio's `ioengine`.
    pub fn name(&self) -> &'static str {
        match self {
            Engine::IoUring(_) => "io_uring",
            Engine::IoUringCmd(_) => "io_uring_cmd",
            Engine::Libaio => "libaio",
            Engine::Psync(p) => match p {
                Psync::Plain => "psync",
                Psync::Seek => "sync",
                Psync::Vectored => "pvsync",
                Psync::VectoredFlags { .. } => "pvsync2",
                Psync::Allocate => "falloc",
                Psync::Truncate => "ftruncate",
            },
            Engine::Vsync => "vsync",
            Engine::Mmap => "mmap",
            Engine::Splice => "splice",
            Engine::MoveExtents(_) => "e4defrag",
            Engine::Posixaio => "posixaio",
            Engine::Sg(_) => "sg",
            Engine::Names(names) => names.op.name(),
            Engine::Cpu(_) => "cpuio",
            Engine::Nop(_) => "nop",
            Engine::Null => "null",
        }
    }

    /// Whether each call does one I/O and waits for it, regardless of the queue depth requested.
    pub fn is_synchronous(&self) -> bool {
        matches!(
            self,
            Engine::Psync(_)
                | Engine::Mmap
                | Engine::Splice
                | Engine::MoveExtents(_)
                | Engine::Sg(_)
                | Engine::Names(_)
                | Engine::Cpu(_)
        )
    }

    /// Whether the engine sends commands to the device, past the block layer and the page cache.
    pub fn is_passthrough(&self) -> bool {
        matches!(self, Engine::IoUringCmd(_) | Engine::Sg(_))
    }

    /// Whether I/Os are of files or devices, not operations on names.
    pub fn moves_data(&self) -> bool {
        self.paths().is_none()
    }

    /// Whether it opens files or devices.
    pub fn uses_files(&self) -> bool {
        !matches!(self, Engine::Nop(_) | Engine::Null | Engine::Names(_) | Engine::Cpu(_))
    }

    /// The file whose blocks the job exchanges with those of its own.
    pub fn donor(&self) -> Option<&Donor> {
        match self {
            Engine::MoveExtents(donor) => Some(donor),
            _ => None,
        }
    }

    /// The names that the job operates on, if it transfers no data.
    pub fn paths(&self) -> Option<&Paths> {
        match self {
            Engine::Names(names) => Some(&names.paths),
            _ => None,
        }
    }

    /// The io_uring settings, if the engine uses io_uring.
    pub fn uring(&self) -> Option<&Uring> {
        match self {
            Engine::IoUring(u) | Engine::IoUringCmd(u) | Engine::Nop(u) => Some(u),
            _ => None,
        }
    }

    /// Whether polling for completions is requested (`hipri`).
    pub fn is_polled(&self) -> bool {
        match self {
            Engine::Psync(call) => matches!(call, Psync::VectoredFlags { hipri: true, .. }),
            Engine::Sg(scsi) => scsi.hipri,
            _ => self.uring().is_some_and(|uring| uring.iopoll),
        }
    }
}

/// Load on a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuLoad {
    /// Percentage of the time that is spent busy-looping, from 1 to 100 (`cpuload`).
    pub percent: u32,
    /// How long at a time, in nanoseconds (`cpuchunks`).
    pub chunk_ns: u64,
    /// Sort numbers rather than loop (`cpumode=qsort`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sorts: bool,
    /// End when all jobs of other engines have ended (`exit_on_io_done`).
    pub ends_with_io: bool,
}

/// The file that blocks come from (`e4defrag`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Donor {
    /// The path of one of the plan's targets (`donorname`).
    pub path: String,
    /// Allocate its blocks with each I/O, and free them afterwards (`inplace`).
    pub in_place: bool,
}

/// System calls of a synchronous engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Psync {
    /// pread(2), pwrite(2).
    Plain,
    /// lseek(2), then read(2) or write(2) (fio's `sync`).
    Seek,
    /// preadv(2), pwritev(2).
    Vectored,
    /// preadv2(2), pwritev2(2).
    VectoredFlags {
        /// RWF_HIPRI: poll for the completion.
        hipri: bool,
        /// RWF_NOWAIT.
        nowait: bool,
    },
    /// fallocate(2): a write allocates blocks, a trim punches a hole; no data is transferred.
    Allocate,
    /// ftruncate(2): a write sets the size of the file to its offset.
    Truncate,
}

/// Requested io_uring settings. Those in effect are in [`crate::record::InEffect`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Uring {
    /// Register the I/O buffers (`fixedbufs`).
    pub fixed_buffers: bool,
    /// Register the files (`registerfiles`).
    pub registered_files: bool,
    /// Poll for completions instead of taking interrupts (`hipri`; IORING_SETUP_IOPOLL).
    pub iopoll: bool,
    /// Sleep for half of the mean latency before polling (`hybrid_iopoll`; IORING_SETUP_HYBRID_IOPOLL).
    #[serde(default)]
    pub hybrid_iopoll: bool,
    /// Let a kernel thread submit I/O (`sqthread_poll`; IORING_SETUP_SQPOLL).
    pub sqpoll: Option<SqPoll>,
    /// Use the vectored operations READV and WRITEV (`nonvectored=0`).
    pub vectored: bool,
    /// Issue every Nth I/O with IOSQE_ASYNC (`force_async`); 0 for none.
    pub force_async: u32,
    /// Commands of `io_uring_cmd`.
    #[serde(default)]
    pub nvme: NvmeCommands,
    /// SCSI commands instead (`cmd_type=bsg`).
    #[serde(default)]
    pub scsi: Option<ScsiCommands>,
}

/// NVMe commands other than plain reads and writes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NvmeCommands {
    /// What writes are, with percentages that add up to 100 (`write_mode`); empty for plain writes.
    pub write_modes: Vec<(WriteMode, u32)>,
    /// Set the Force Unit Access bit of reads (`readfua`).
    pub read_fua: bool,
    /// The same for writes (`writefua`).
    pub write_fua: bool,
    /// Set the Deallocate bit of Write Zeroes (`deac`).
    pub deallocate: bool,
    /// Ranges of one deallocation (`num_range`); 0 and 1 for one.
    pub ranges: u32,
    /// Protection information, on namespaces that have it.
    #[serde(default, skip_serializing_if = "Protection::is_default")]
    pub protection: Protection,
    /// Which writes belong together, for devices that keep those apart from others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<DataPlacement>,
}

/// Identifiers that writes have, so that the device stores those with the same one together (`dataplacement`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DataPlacement {
    /// Whose identifiers they are.
    pub directive: Directive,
    /// How each write gets one (`plid_select`).
    pub select: PlacementSelect,
    /// Streams, or indices in the device's list of identifiers; empty for all of that (`plids`).
    pub ids: Vec<u16>,
    /// Identifiers by offset: of bytes from the first number on, up to the second (`dp_scheme`).
    pub by_offset: Vec<(u64, u64, u16)>,
}

/// Type of a directive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Directive {
    /// Streams.
    Streams,
    /// Flexible data placement.
    #[default]
    Placement,
}

/// How each write gets its placement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlacementSelect {
    /// One after the other.
    #[default]
    RoundRobin,
    /// At random.
    Random,
    /// By the offset of the write.
    ByOffset,
}

/// How the protection information of NVMe blocks is made and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Protection {
    /// It is transferred: made and checked by the host (`pi_act=0`) instead of added and removed by the controller.
    pub by_host: bool,
    /// Check the checksum of the data (`pi_chk=GUARD`).
    pub guard: bool,
    /// Check the block's address (`pi_chk=REFTAG`).
    pub reference: bool,
    /// Check the application tag (`pi_chk=APPTAG`).
    pub application: bool,
    /// Application tag of writes, and of reads that are checked (`apptag`).
    pub tag: u16,
    /// The bits of it that are checked (`apptag_mask`).
    pub mask: u16,
}

impl Default for Protection {
    /// fio's.
    fn default() -> Self {
        Self {
            by_host: false,
            guard: false,
            reference: false,
            application: false,
            tag: 0x1234,
            mask: 0xffff,
        }
    }
}

impl Protection {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The command that a write is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// Write.
    Write,
    /// Write Zeroes.
    Zeroes,
    /// Write Uncorrectable.
    Uncorrectable,
    /// Verify.
    Verify,
    /// Zone Append: the controller chooses the place in the zone.
    Append,
}

/// SCSI commands (`sg`, and `io_uring_cmd` with `cmd_type=bsg`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScsiCommands {
    /// What writes are (`sg_write_mode`).
    pub write: ScsiWrite,
    /// Set the Force Unit Access bit of reads (`readfua`).
    pub read_fua: bool,
    /// The same for writes (`writefua`).
    pub write_fua: bool,
    /// Request polling (`hipri`), which drivers from outside the kernel offer.
    pub hipri: bool,
    /// Stream of WRITE STREAM (`stream_id`).
    pub stream: u16,
}

/// The SCSI command that a write is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScsiWrite {
    /// WRITE.
    #[default]
    Write,
    /// WRITE AND VERIFY.
    WriteAndVerify,
    /// WRITE SAME: sends one block.
    WriteSame,
    /// WRITE SAME without data: writes zeroes.
    WriteSameNdob,
    /// WRITE STREAM.
    WriteStream,
    /// VERIFY of the medium alone (BYTCHK 00).
    VerifyMedium,
    /// VERIFY against as much data (BYTCHK 01).
    VerifyData,
    /// VERIFY of each block against one (BYTCHK 11).
    VerifyBlock,
}

impl Default for Uring {
    /// Enables settings that only reduce CPU time.
    fn default() -> Self {
        Self {
            fixed_buffers: true,
            registered_files: true,
            iopoll: false,
            hybrid_iopoll: false,
            sqpoll: None,
            vectored: false,
            force_async: 0,
            nvme: NvmeCommands::default(),
            scsi: None,
        }
    }
}

/// The SQPOLL thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SqPoll {
    /// Bind it to this CPU.
    pub cpu: Option<u32>,
    /// Idle time after which it sleeps, in milliseconds; `None` for the kernel's default.
    pub idle_ms: Option<u32>,
}

/// Batch sizes (`iodepth_batch*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Batch {
    /// Maximum number of I/Os to submit at once (`iodepth_batch`); `None` adapts to the device.
    pub submit_max: Option<u32>,
    /// Minimum number of completions to wait for (`iodepth_batch_complete_min`); 0 polls.
    pub complete_min: u32,
    /// Maximum number of completions to reap at once (`iodepth_batch_complete_max`); `None` for all
    /// available.
    pub complete_max: Option<u32>,
    /// Queue depth at which to start refilling (`iodepth_low`); `None` refills immediately.
    pub low: Option<u32>,
}

impl Default for Batch {
    /// Submits in batches that adapt to the device, and reaps all available completions.
    fn default() -> Self {
        Self { submit_max: None, complete_min: 1, complete_max: None, low: None }
    }
}
