//! One job as its keys describe it, not yet held against a machine.

use fathom_model::PerDir;
use fathom_model::plan::{
    Batch, BlockSizes, Buffers, Distribution, ExitWhat, Fallocate, FileService, OnError,
    RateProcess, Show, Sync, SyncIo, Uring,
};

/// A key as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The key's first name.
    pub key: &'static str,
    /// What stood behind it; a key without a value has `1` here.
    pub value: String,
    /// It stood in a `[global]` section.
    pub global: bool,
}

/// A length or place, absolute or in percent of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// In bytes.
    Bytes(u64),
    /// In percent, from 0 to 100.
    Percent(u32),
}

/// One section of a job file, or one `--name`: `numjobs` workers that do the same.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    /// Section name, or `name`.
    pub name: String,
    /// `description`.
    pub description: Option<String>,
    /// Its keys in the order in which they were given, those of `[global]` first.
    pub given: Vec<Given>,
    /// How many clones of it run.
    pub numjobs: u32,
    /// What it works on.
    pub files: Files,
    /// Directions, sizes and places.
    pub work: Work,
    /// How I/O reaches the kernel.
    pub engine: EngineSpec,
    /// When it starts and ends.
    pub schedule: Schedule,
    /// Rate limits and pauses.
    pub rate: RateSpec,
    /// Flushes.
    pub sync: Sync,
    /// Synchronous writes.
    pub sync_io: SyncIo,
    /// What is written, and from where.
    pub buffers: Buffers,
    /// Which errors do not end it.
    pub on_error: OnError,
    /// Where its threads run.
    pub placement: PlacementSpec,
    /// What of its results is shown.
    pub show: Show,
}

/// What a job works on.
#[derive(Debug, Clone, PartialEq)]
pub struct Files {
    /// `filename`, taken apart.
    pub filename: Vec<String>,
    /// `directory`, taken apart; clones take turns.
    pub directory: Vec<String>,
    /// `filename_format`; empty is fio's default.
    pub format: String,
    /// `nrfiles`.
    pub count: u32,
    /// `openfiles`.
    pub open_max: Option<u32>,
    /// `size`: all files together.
    pub size: Option<Size>,
    /// `filesize`: least and greatest size of each file, in bytes.
    pub file_size: Option<(u64, u64)>,
    /// `offset`.
    pub offset: Size,
    /// `offset_increment`: added for each clone.
    pub offset_increment: Size,
    /// `offset_align`, in bytes.
    pub offset_align: Option<u64>,
    /// `fallocate`.
    pub fallocate: Fallocate,
    /// `create_on_open`.
    pub create_on_open: bool,
    /// `create_only`.
    pub create_only: bool,
    /// `allow_file_create`.
    pub allow_create: bool,
    /// `overwrite`: lay out files that are only written, too.
    pub overwrite: bool,
    /// `unlink`.
    pub unlink: bool,
    /// `invalidate`.
    pub invalidate: bool,
    /// `file_service_type`.
    pub service: FileService,
}

/// `rw`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rw {
    /// Its name without `rand`: `read`, `write`, `trim` or `rw`.
    pub kind: RwKind,
    /// Random offsets.
    pub random: bool,
    /// What stands behind the colon: I/Os per random offset, or bytes to skip.
    pub postfix: Option<i64>,
}

/// Which directions `rw` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RwKind {
    /// Only reads.
    Read,
    /// Only writes.
    Write,
    /// Only trims.
    Trim,
    /// Reads and writes.
    Both,
}

/// Directions, sizes and places.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// `rw`.
    pub rw: Rw,
    /// `rwmixread`, in percent.
    pub read_percent: u32,
    /// `bs`, `bsrange` or `bssplit`, whichever came last.
    pub sizes: PerDir<BlockSizes>,
    /// `blockalign`, in bytes.
    pub align: PerDir<Option<u64>>,
    /// `norandommap`.
    pub no_map: bool,
    /// `random_distribution`, other than `random`.
    pub distribution: Option<Distribution>,
    /// `randrepeat`.
    pub repeat: bool,
    /// `randseed`.
    pub seed: Option<u64>,
}

/// `ioengine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineName {
    /// io_uring.
    IoUring,
    /// NVMe passthrough over io_uring.
    IoUringCmd,
    /// Linux native asynchronous I/O.
    Libaio,
    /// pread, pwrite.
    Psync,
    /// lseek, read, write.
    Sync,
    /// preadv, pwritev.
    Pvsync,
    /// preadv2, pwritev2.
    Pvsync2,
    /// A ring of operations that do nothing.
    Nop,
    /// Nothing at all.
    Null,
}

/// How I/O reaches the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSpec {
    /// `ioengine`.
    pub name: EngineName,
    /// `iodepth`.
    pub depth: u32,
    /// `iodepth_batch` and its like.
    pub batch: Batch,
    /// `direct`, or the contrary of `buffered`.
    pub direct: bool,
    /// Settings of rings; `iopoll` is `hipri`, also for pvsync2.
    pub uring: Uring,
    /// `sqthread_poll`.
    pub sqpoll: bool,
    /// `sqthread_poll_cpu`.
    pub sqpoll_cpu: Option<u32>,
    /// `sqthread_poll_idle`, in milliseconds.
    pub sqpoll_idle_ms: Option<u32>,
    /// `nowait`.
    pub nowait: bool,
}

/// When a job starts and ends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schedule {
    /// `stonewall`: starts when all jobs before it have ended.
    pub stonewall: bool,
    /// `new_group`.
    pub new_group: bool,
    /// `group_reporting`.
    pub group_reporting: bool,
    /// `wait_for`.
    pub wait_for: Option<String>,
    /// `startdelay`: least and greatest, in nanoseconds.
    pub start_delay_ns: (u64, u64),
    /// `exitall`.
    pub exitall: bool,
    /// `exit_what`.
    pub exit_what: ExitWhat,
    /// `runtime`, in nanoseconds.
    pub runtime_ns: Option<u64>,
    /// `time_based`.
    pub time_based: bool,
    /// `ramp_time`, in nanoseconds.
    pub ramp_ns: u64,
    /// `loops`.
    pub loops: u32,
    /// `io_size`.
    pub io_size: Option<Size>,
    /// `number_ios`.
    pub ios: Option<u64>,
}

/// Rate limits and pauses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RateSpec {
    /// `rate`, in bytes per second.
    pub bytes: PerDir<Option<u64>>,
    /// `rate_iops`.
    pub iops: PerDir<Option<u64>>,
    /// `rate_process`.
    pub process: RateProcess,
    /// `thinktime`, in nanoseconds.
    pub think_ns: u64,
    /// `thinktime_spin`, in nanoseconds.
    pub think_spin_ns: u64,
    /// `thinktime_blocks`.
    pub think_blocks: u32,
}

/// Where a job's threads run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacementSpec {
    /// `cpus_allowed`; empty leaves them free.
    pub cpus: Vec<u32>,
    /// `cpus_allowed_policy=split`: one processor for each clone.
    pub split: bool,
    /// `nice`.
    pub nice: i32,
    /// `prioclass`.
    pub io_class: Option<u8>,
    /// `prio`.
    pub io_level: Option<u8>,
}

impl JobSpec {
    /// A job of which nothing is set.
    #[must_use]
    pub fn new() -> Self {
        Self {
            name: String::new(),
            description: None,
            given: Vec::new(),
            numjobs: 1,
            files: Files::default(),
            work: Work::default(),
            engine: EngineSpec::default(),
            schedule: Schedule { loops: 1, ..Schedule::default() },
            rate: RateSpec { think_blocks: 1, ..RateSpec::default() },
            sync: Sync::default(),
            sync_io: SyncIo::None,
            buffers: Buffers::default(),
            on_error: OnError::default(),
            placement: PlacementSpec::default(),
            show: Show::default(),
        }
    }

    /// Whether `key` (its first name) was given in the job's own section.
    #[must_use]
    pub fn has_own(&self, key: &str) -> bool {
        self.given.iter().any(|given| given.key == key && !given.global)
    }

    /// Whether `key` (its first name) was given at all.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.given.iter().any(|given| given.key == key)
    }

    /// Whether it writes or trims.
    #[must_use]
    pub fn modifies(&self) -> bool {
        self.work.rw.kind != RwKind::Read
    }

    /// Whether its engine works on files at all.
    #[must_use]
    pub fn uses_files(&self) -> bool {
        !matches!(self.engine.name, EngineName::Nop | EngineName::Null)
    }
}

impl Default for JobSpec {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for Files {
    fn default() -> Self {
        Self {
            filename: Vec::new(),
            directory: Vec::new(),
            format: String::new(),
            count: 1,
            open_max: None,
            size: None,
            file_size: None,
            offset: Size::Bytes(0),
            offset_increment: Size::Bytes(0),
            offset_align: None,
            fallocate: Fallocate::Native,
            create_on_open: false,
            create_only: false,
            allow_create: true,
            overwrite: false,
            unlink: false,
            invalidate: true,
            service: FileService::RoundRobin,
        }
    }
}

impl Default for Work {
    fn default() -> Self {
        Self {
            rw: Rw { kind: RwKind::Read, random: false, postfix: None },
            read_percent: 50,
            sizes: PerDir::splat(BlockSizes::Fixed(4096)),
            align: PerDir::default(),
            no_map: false,
            distribution: None,
            repeat: true,
            seed: None,
        }
    }
}

impl Default for EngineSpec {
    fn default() -> Self {
        Self {
            name: EngineName::IoUring,
            depth: 1,
            batch: Batch::default(),
            direct: false,
            uring: Uring::default(),
            sqpoll: false,
            sqpoll_cpu: None,
            sqpoll_idle_ms: None,
            nowait: false,
        }
    }
}

impl EngineName {
    /// The name as `ioengine` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::IoUringCmd => "io_uring_cmd",
            Self::Libaio => "libaio",
            Self::Psync => "psync",
            Self::Sync => "sync",
            Self::Pvsync => "pvsync",
            Self::Pvsync2 => "pvsync2",
            Self::Nop => "nop",
            Self::Null => "null",
        }
    }

    /// Whether it is a ring of io_uring.
    #[must_use]
    pub const fn is_ring(self) -> bool {
        matches!(self, Self::IoUring | Self::IoUringCmd | Self::Nop)
    }
}
