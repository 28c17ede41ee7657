//! What is to be done, fully resolved: every size in bytes, every time in nanoseconds, every
//! clone a job of its own. The engine reads a plan and asks nothing more.

mod access;
mod data;
mod engine;
mod pace;
mod show;

pub use access::{Access, BlockSizes, Distribution, Mix, Order, Zone};
pub use data::{Buffers, Fill, Memory, OnError, Sync, SyncIo};
pub use engine::{Batch, Engine, Psync, SqPoll, Uring};
pub use pace::{ExitWhat, Rate, RateProcess, Think, Until};
pub use show::{DEFAULT_PERCENTILES, Show, Unified};

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
    /// When this job ends, others end too (`exitall`).
    pub exitall: bool,
    /// Which others.
    #[serde(default)]
    pub exit_what: ExitWhat,
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
            exit_what: ExitWhat::Group,
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

    /// What every I/O is a multiple of, the shortened ones too, in bytes: the greatest common
    /// divisor of the sizes of all directions that occur. At least 1.
    #[must_use]
    pub fn block_unit(&self) -> u64 {
        let units = self.used_dirs().map(|dir| self.access.block_sizes[dir].unit());
        units.fold(0, access::common).max(1)
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
