//! What is to be done, fully resolved: every size in bytes, every time in nanoseconds, every
//! clone a job of its own. The engine reads a plan and asks nothing more.

use crate::per_dir::{Dir, PerDir};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All jobs of one run and the targets that they use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// What the jobs work on, each once; jobs name them by index.
    pub targets: Vec<Target>,
    /// One entry for each job clone, that is, for each worker thread.
    pub jobs: Vec<JobPlan>,
    /// What the user should know before the run, in words: where fathom reads a key in
    /// another way than fio, or what a key cannot do here.
    pub notes: Vec<String>,
    /// Options of the whole run as given (fio's "global options"), for output.
    pub global_options: BTreeMap<String, String>,
}

/// A file or device that jobs work on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// The path as the user named it, or as made from `directory` and the job's name.
    pub path: String,
    /// The `directory` that the job named, where it did: what `path` leads to, with symbolic links
    /// resolved, must be below it.
    #[serde(default)]
    pub within: Option<String>,
    /// For a file that does not exist or is shorter: make it this long, in bytes.
    pub create_size: Option<u64>,
    /// How the space of a file that is made is reserved.
    pub fallocate: Fallocate,
    /// Write data into what is newly made, so that reads of it reach the disk. Set when a
    /// job reads; a file that is only written needs no contents.
    pub fill: bool,
    /// Make the file when it is opened by its job rather than before the run (`create_on_open`).
    pub create_on_open: bool,
    /// Remove the file afterwards; honoured only for a file that this run made.
    pub unlink: bool,
    /// Drop the target's pages from the page cache before the run.
    pub invalidate: bool,
    /// Some job writes to it.
    pub written: bool,
    /// Some job trims it.
    pub trimmed: bool,
}

/// How the space of a new file is reserved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fallocate {
    /// Not at all; the file is sparse until it is written.
    None,
    /// `fallocate(2)`; where the file system cannot, as `None`.
    #[default]
    Native,
    /// `posix_fallocate(3)`: writes zeroes where the file system cannot reserve.
    Posix,
    /// `fallocate(2)` with FALLOC_FL_KEEP_SIZE.
    Keep,
    /// `ftruncate(2)` only.
    Truncate,
}

/// One worker: a thread of its own with a queue of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobPlan {
    /// Section name, or `--name`.
    pub name: String,
    /// The `description` key, for output.
    pub description: Option<String>,
    /// Which clone of its section this is, from 0 (`numjobs`).
    pub clone: u32,
    /// Reporting group, from 0; jobs of a group are shown as one with `group_reporting`.
    pub group: u32,
    /// Show this job's group as one (`group_reporting`).
    pub group_reporting: bool,
    /// Jobs of wave n start when all of wave n-1 have ended (`stonewall`).
    pub wave: u32,
    /// When this job ends, all end (`exitall`).
    pub exitall: bool,
    /// Wait this long after the wave's start, in nanoseconds (`startdelay`).
    pub start_delay_ns: u64,
    /// How I/O reaches the kernel.
    pub engine: Engine,
    /// I/Os in flight at most (`iodepth`).
    pub depth: u32,
    /// Sizes of submission and completion batches.
    pub batch: Batch,
    /// O_DIRECT; otherwise through the page cache.
    pub direct: bool,
    /// O_SYNC, or O_DSYNC, on writes (`sync`).
    pub sync_io: SyncIo,
    /// The regions worked on, in order; never empty, except for engines that take no target.
    pub regions: Vec<Region>,
    /// How the next region is picked.
    pub file_service: FileService,
    /// Directions, sizes and places of the I/Os.
    pub access: Access,
    /// When the job ends.
    pub until: Until,
    /// Rate limits; all `None` when the job runs as fast as it can.
    pub rate: PerDir<Option<Rate>>,
    /// How arrivals are spread under a rate.
    pub rate_process: RateProcess,
    /// Pauses between I/Os (`thinktime`).
    pub think: Option<Think>,
    /// Flushes.
    pub sync: Sync,
    /// What is written, and the memory it is in.
    pub buffers: Buffers,
    /// Which errors do not end the job.
    pub on_error: OnError,
    /// Where and how the worker's thread runs.
    pub placement: Placement,
    /// What of the results is shown.
    pub show: Show,
    /// The job's keys as given, defaults left out (fio's "job options"), for output.
    pub options: BTreeMap<String, String>,
}

/// A contiguous part of a target that a job works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Region {
    /// Index into [`Plan::targets`].
    pub target: usize,
    /// First byte.
    pub start: u64,
    /// Length in bytes, never 0.
    pub len: u64,
}

/// How I/O reaches the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// io_uring on a file or block device.
    IoUring(Uring),
    /// io_uring passthrough commands on an NVMe generic device (`/dev/ngXnY`).
    IoUringCmd(Uring),
    /// Linux native asynchronous I/O: io_submit(2), io_getevents(2).
    Libaio,
    /// One system call per I/O.
    Psync(Psync),
    /// io_uring with operations that do nothing: what the ring itself costs.
    Nop(Uring),
    /// Completes everything at once without the kernel: what the engine itself costs.
    Null,
}

impl Engine {
    /// The name as in fio's `ioengine`.
    #[must_use]
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
            },
            Engine::Nop(_) => "nop",
            Engine::Null => "null",
        }
    }

    /// Whether each call does one I/O and waits for it, whatever the depth asked.
    #[must_use]
    pub fn is_synchronous(&self) -> bool {
        matches!(self, Engine::Psync(_))
    }

    /// The io_uring settings, where the engine is a ring.
    #[must_use]
    pub fn uring(&self) -> Option<&Uring> {
        match self {
            Engine::IoUring(u) | Engine::IoUringCmd(u) | Engine::Nop(u) => Some(u),
            _ => None,
        }
    }
}

/// Which system call the synchronous engine uses.
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
}

/// What is asked of io_uring. What was granted is in [`crate::record::Granted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Uring {
    /// Register the buffers, so that the kernel maps them once (`fixedbufs`).
    pub fixed_buffers: bool,
    /// Register the files (`registerfiles`).
    pub registered_files: bool,
    /// Poll for completions instead of taking interrupts (`hipri`; IORING_SETUP_IOPOLL).
    pub iopoll: bool,
    /// A kernel thread submits (`sqthread_poll`; IORING_SETUP_SQPOLL).
    pub sqpoll: Option<SqPoll>,
    /// Use the vectored operations READV and WRITEV (`nonvectored=0`).
    pub vectored: bool,
    /// Every n-th I/O goes to a kernel worker thread at once (`force_async`); 0 is none.
    pub force_async: u32,
}

impl Default for Uring {
    /// What changes no meaning, only cost, is on.
    fn default() -> Self {
        Self {
            fixed_buffers: true,
            registered_files: true,
            iopoll: false,
            sqpoll: None,
            vectored: false,
            force_async: 0,
        }
    }
}

/// The kernel's submission thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SqPoll {
    /// Bind it to this processor.
    pub cpu: Option<u32>,
    /// It sleeps after this time without work, in milliseconds; `None` leaves the kernel's default.
    pub idle_ms: Option<u32>,
}

/// Sizes of batches (`iodepth_batch*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Batch {
    /// Submit at most this many at once (`iodepth_batch`); `None`: all that is free.
    pub submit_max: Option<u32>,
    /// Wait for at least this many completions (`iodepth_batch_complete_min`); 0 only looks.
    pub complete_min: u32,
    /// Reap at most this many at once (`iodepth_batch_complete_max`); `None`: all that is there.
    pub complete_max: Option<u32>,
    /// Once the depth is reached, let it fall to this before refilling (`iodepth_low`);
    /// `None`: refill at once.
    pub low: Option<u32>,
}

impl Default for Batch {
    /// Adaptive: reap all that is there, refill all that is free.
    fn default() -> Self {
        Self { submit_max: None, complete_min: 1, complete_max: None, low: None }
    }
}

/// Synchronous writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyncIo {
    /// Neither.
    #[default]
    None,
    /// O_DSYNC.
    Dsync,
    /// O_SYNC.
    Sync,
}

/// How the next of several regions is picked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileService {
    /// One after the other, changing after every I/O.
    #[default]
    RoundRobin,
    /// By chance.
    Random,
    /// The first until it is done, then the next.
    Sequential,
}

/// Directions, sizes and places of a job's I/Os.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Access {
    /// Which directions occur.
    pub mix: Mix,
    /// The order of offsets.
    pub order: Order,
    /// Sizes of the I/Os, for each direction.
    pub block_sizes: PerDir<BlockSizes>,
    /// Random offsets are multiples of this, in bytes (`blockalign`; by default the least block size).
    pub align: PerDir<u64>,
    /// Seed of everything random in this job, already different for each clone.
    pub seed: u64,
}

/// Which directions occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mix {
    /// One direction only.
    Only(Dir),
    /// Reads and writes by chance.
    ReadWrite {
        /// Share of reads in percent.
        read_percent: u32,
    },
}

impl Mix {
    /// Whether `dir` occurs.
    #[must_use]
    pub fn has(self, dir: Dir) -> bool {
        match self {
            Mix::Only(only) => only == dir,
            Mix::ReadWrite { .. } => dir != Dir::Trim,
        }
    }
}

/// The order of offsets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Ascending, from the region's start; begins anew at its end.
    Sequential {
        /// Added to the offset after each I/O, in bytes (`rw=read:8k`); may be negative.
        skip: i64,
    },
    /// By chance.
    Random {
        /// How the blocks are drawn.
        distribution: Distribution,
        /// After each random offset go on sequentially for this many I/Os in all
        /// (`rw=randread:8`); 1 draws every time.
        run: u32,
    },
}

/// How random blocks are drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Every block once before any is drawn again: a permutation, in constant memory.
    EachOnce,
    /// Uniform and independent (`norandommap`).
    Uniform,
    /// Zipf: block of rank k with probability proportional to k^-theta, ranks scattered.
    Zipf {
        /// The exponent, above 0 and not 1.
        theta: f64,
    },
    /// Pareto with shape h (0 < h < 1), as fio's `pareto:h`.
    Pareto {
        /// The shape.
        h: f64,
    },
    /// Normal around the middle of the region.
    Normal {
        /// Standard deviation in percent of the region.
        deviation_percent: f64,
    },
    /// Zones with shares of accesses.
    Zoned(Vec<Zone>),
}

/// A zone of [`Distribution::Zoned`]; the zones follow each other from the region's start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Zone {
    /// Share of the accesses in percent; all zones together 100.
    pub access_percent: f64,
    /// Length in percent of the region; all zones together 100.
    pub span_percent: f64,
}

/// Sizes of I/Os.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockSizes {
    /// Always the same, in bytes.
    Fixed(u64),
    /// Uniform between the two, in multiples of the lower, in bytes (`bsrange`).
    Range {
        /// Least size.
        min: u64,
        /// Greatest size.
        max: u64,
    },
    /// Sizes in bytes with their shares in percent, which add up to 100 (`bssplit`).
    Split(Vec<(u64, u32)>),
}

impl BlockSizes {
    /// The least size in bytes.
    #[must_use]
    pub fn min(&self) -> u64 {
        match self {
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { min, .. } => *min,
            BlockSizes::Split(parts) => parts.iter().map(|p| p.0).min().unwrap_or(0),
        }
    }

    /// The greatest size in bytes.
    #[must_use]
    pub fn max(&self) -> u64 {
        match self {
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { max, .. } => *max,
            BlockSizes::Split(parts) => parts.iter().map(|p| p.0).max().unwrap_or(0),
        }
    }
}

/// When a job ends: with the first that is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Until {
    /// Bytes moved (`io_size` times `loops`); `None` with `time_based`.
    pub bytes: Option<u64>,
    /// I/Os done (`number_ios`).
    pub ios: Option<u64>,
    /// Time measured, in nanoseconds (`runtime`).
    pub runtime_ns: Option<u64>,
    /// Work this long, in nanoseconds, before measuring (`ramp_time`).
    pub ramp_ns: u64,
}

/// A rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Bytes per second (`rate`).
    BytesPerSecond(u64),
    /// I/Os per second (`rate_iops`).
    Iops(u64),
}

/// How arrivals are spread under a rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RateProcess {
    /// Evenly.
    #[default]
    Linear,
    /// As a Poisson process: exponential gaps.
    Poisson,
}

/// A pause between I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Think {
    /// Length in nanoseconds (`thinktime`).
    pub time_ns: u64,
    /// The part of it spent in a busy loop, in nanoseconds (`thinktime_spin`).
    pub spin_ns: u64,
    /// After this many I/Os (`thinktime_blocks`).
    pub blocks: u32,
}

/// Flushes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sync {
    /// fsync(2) after this many writes; 0 is never (`fsync`).
    pub fsync_every: u32,
    /// fdatasync(2) after this many writes; 0 is never (`fdatasync`).
    pub fdatasync_every: u32,
    /// fsync(2) at the end of the job (`end_fsync`).
    pub at_end: bool,
    /// fsync(2) when a file is closed (`fsync_on_close`).
    pub on_close: bool,
}

/// What is written, and the memory it is in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Buffers {
    /// Contents.
    pub fill: Fill,
    /// Make the contents anew for every write (`refill_buffers`).
    pub refill: bool,
    /// Share of each buffer that compresses away, in percent (`buffer_compress_percentage`).
    pub compress_percent: u32,
    /// The memory's kind (`mem`).
    pub memory: Memory,
}

/// Contents of write buffers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// Pseudo-random bytes.
    #[default]
    Random,
    /// Zeroes (`zero_buffers`).
    Zero,
    /// These bytes over and over (`buffer_pattern`).
    Pattern(Vec<u8>),
}

/// The kind of memory that buffers are in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Anonymous pages.
    #[default]
    Normal,
    /// Huge pages of hugetlbfs (`mem=mmaphuge`, `shmhuge`); an error where none are reserved.
    Huge,
}

/// Which errors do not end the job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OnError {
    /// Go on after any error in this direction, counting it (`continue_on_error`).
    pub keep_going: PerDir<bool>,
    /// errno values that are not even counted as the job's failure (`ignore_error`).
    pub ignore: PerDir<Vec<i32>>,
}

/// Where and how a worker's thread runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    /// Processors it may run on; empty leaves it free.
    pub cpus: Vec<u32>,
    /// nice(2) value.
    pub nice: i32,
    /// I/O priority class and level, as ioprio_set(2) takes them (`prioclass`, `prio`).
    pub io_priority: Option<(u8, u8)>,
}

/// What of a job's results is shown. All is always recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Show {
    /// Percentiles listed (`percentile_list`).
    pub percentiles: Vec<f64>,
    /// Percentiles of submission latency.
    pub slat_percentiles: bool,
    /// Percentiles of completion latency.
    pub clat_percentiles: bool,
    /// Percentiles of total latency.
    pub lat_percentiles: bool,
    /// Submission latency at all.
    pub slat: bool,
    /// Completion latency at all.
    pub clat: bool,
    /// Total latency at all.
    pub lat: bool,
    /// Bandwidth statistics over samples.
    pub bw: bool,
    /// All directions as one (`unified_rw_reporting`).
    pub unified: Unified,
    /// A kilobyte is 1000 or 1024 bytes in text output (`kb_base`).
    pub kb_base: u32,
    /// Text output in bits (8) or bytes (1) per second (`unit_base`); 0 picks bytes.
    pub unit_base: u32,
}

impl Default for Show {
    fn default() -> Self {
        Self {
            percentiles: DEFAULT_PERCENTILES.to_vec(),
            slat_percentiles: false,
            clat_percentiles: true,
            lat_percentiles: false,
            slat: true,
            clat: true,
            lat: true,
            bw: true,
            unified: Unified::Separate,
            kb_base: 1024,
            unit_base: 0,
        }
    }
}

/// How directions are put together (`unified_rw_reporting`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unified {
    /// Each for itself.
    #[default]
    Separate,
    /// All as one, called "mixed".
    Mixed,
    /// Both.
    Both,
}

/// fio's default `percentile_list`.
pub const DEFAULT_PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

impl JobPlan {
    /// A job with fio's defaults: 4 KiB, depth 1, buffered, as fast as it can.
    #[must_use]
    pub fn new(name: impl Into<String>, engine: Engine, mix: Mix, order: Order) -> Self {
        let block = BlockSizes::Fixed(4096);
        Self {
            name: name.into(),
            description: None,
            clone: 0,
            group: 0,
            group_reporting: false,
            wave: 0,
            exitall: false,
            start_delay_ns: 0,
            engine,
            depth: 1,
            batch: Batch::default(),
            direct: false,
            sync_io: SyncIo::None,
            regions: Vec::new(),
            file_service: FileService::RoundRobin,
            access: Access {
                mix,
                order,
                block_sizes: PerDir::splat(block),
                align: PerDir::splat(4096),
                seed: 1,
            },
            until: Until::default(),
            rate: PerDir::default(),
            rate_process: RateProcess::Linear,
            think: None,
            sync: Sync::default(),
            buffers: Buffers::default(),
            on_error: OnError::default(),
            placement: Placement::default(),
            show: Show::default(),
            options: BTreeMap::new(),
        }
    }

    /// The greatest I/O of any direction that occurs, in bytes.
    #[must_use]
    pub fn block_max(&self) -> u64 {
        self.used_dirs().map(|dir| self.access.block_sizes[dir].max()).max().unwrap_or(0)
    }

    /// The directions that occur.
    pub fn used_dirs(&self) -> impl Iterator<Item = Dir> + '_ {
        Dir::ALL.into_iter().filter(|dir| self.access.mix.has(*dir))
    }

    /// Whether some direction has a rate limit.
    #[must_use]
    pub fn is_paced(&self) -> bool {
        self.used_dirs().any(|dir| self.rate[dir].is_some())
    }
}
