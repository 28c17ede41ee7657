//! A fully resolved request: sizes in bytes, times in nanoseconds, one job per clone. The engine
//! needs no other input.

mod access;
mod data;
mod engine;
mod memory;
mod names;
mod pace;
mod replay;
mod show;
mod steady_state;
mod until_steady;
mod verify;

pub use access::{
    AbsoluteZone, Access, BlockSizes, Distribution, Mix, Order, Zone, ZoneRules, Zoning,
};
pub use data::{Advice, CommandPriority, IoFlags, MemoryPolicy, WriteLife};
pub use data::{Buffers, Dedupe, Fill, FlushPlan, Memory, OnError, RangeSync, SyncIo};
pub use engine::{
    Batch, CpuLoad, DataPlacement, Directive, Donor, Engine, NvmeCommands, PlacementSelect,
    Protection, Psync, ScsiCommands, ScsiWrite, SqPoll, Uring, WriteMode,
};
pub use memory::{
    BUFFER_ALIGN, HUGE_PAGE_BYTES, MemoryNeed, SLOT_BYTES, STACK_BYTES, block_map_levels,
};
pub use names::{NameOp, Names, Paths, StatCall};
pub use pace::{ExitWhat, Flow, LatencyTarget, Rate, RateFloor, RateProcess, Think, Until};
pub use replay::{Replay, TraceEvent, TraceOp};
pub use show::{DEFAULT_PERCENTILES, Show, Unified};
pub use show::{LogKind, Logs};
pub use steady_state::SteadyState;
pub use until_steady::{SteadyFigure, UntilSteady};
pub use verify::{HEADER_BYTES, Verify, VerifyMethod, VerifyTrims};

use crate::per_dir::{Dir, PerDir};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All jobs of one run and the targets that they use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Files and devices, without duplicates; jobs refer to them by index.
    pub targets: Vec<Target>,
    /// One entry per job clone, that is, per worker thread.
    pub jobs: Vec<JobPlan>,
    /// Notes for the user: differences from fio, and keys that have no effect.
    pub notes: Vec<String>,
    /// Keys of `[global]` as given (fio's "global options"), for output.
    pub global_options: BTreeMap<String, String>,
    /// Idle time of the CPUs in fio's output (`--idle-prof`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idleness: Option<Idleness>,
}

/// Of which CPUs fio's output has the idle time (`--idle-prof`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Idleness {
    /// Of all together.
    System,
    /// Also of each.
    PerCpu,
}

/// Permissions given on the command line. A job file cannot give any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Values of `--erase`: `<device>` or `<device>@<serial number or size>`.
    pub erase: Vec<String>,
    /// Values of `--overwrite`: paths of files.
    pub overwrite: Vec<String>,
}

/// A file or device used by jobs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// The path as given, or generated from `directory` and the job's name.
    pub path: String,
    /// The `directory` of the job, if set: `path` must be below it with symbolic links resolved.
    #[serde(default)]
    pub within: Option<String>,
    /// Size in bytes to create a missing file with, or to extend a shorter one to.
    pub create_size: Option<u64>,
    /// How to preallocate a new file.
    pub fallocate: Fallocate,
    /// Write data to the new part, so that reads of it reach the disk. Set if a job reads; not needed
    /// if the file is only written.
    pub fill: bool,
    /// Create the file when its job opens it, not before the run (`create_on_open`).
    pub create_on_open: bool,
    /// Remove the file after the run, if this run created it.
    pub unlink: bool,
    /// Invalidate the target's page cache before the run.
    pub invalidate: bool,
    /// Whether any job writes to it.
    pub written: bool,
    /// Whether any job trims it.
    pub trimmed: bool,
}

impl Target {
    /// Adds what another use of the same file requires. It is created before the run if any use needs it then.
    pub fn join(&mut self, other: &Self) {
        self.create_size = self.create_size.max(other.create_size);
        self.fill |= other.fill;
        self.create_on_open &= other.create_on_open;
        self.unlink |= other.unlink;
        self.invalidate |= other.invalidate;
        self.written |= other.written;
        self.trimmed |= other.trimmed;
    }
}

/// How to preallocate a new file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fallocate {
    /// No preallocation; the file is sparse until written.
    None,
    /// `fallocate(2)`; like `None` if the file system does not support it.
    #[default]
    Native,
    /// `posix_fallocate(3)`: writes zeroes if the file system does not support preallocation.
    Posix,
    /// `fallocate(2)` with FALLOC_FL_KEEP_SIZE.
    Keep,
    /// `ftruncate(2)` only.
    Truncate,
}

/// One worker: a thread with its own queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobPlan {
    /// Section name, or `--name`.
    pub name: String,
    /// The `description` key, for output.
    pub description: Option<String>,
    /// Index of the clone in its section, from 0 (`numjobs`).
    pub clone: u32,
    /// Reporting group, from 0; reported as one with `group_reporting`.
    pub group: u32,
    /// Whether the job's group is reported as one (`group_reporting`).
    pub group_reporting: bool,
    /// Jobs of wave n start when all jobs of wave n-1 have ended (`stonewall`).
    pub wave: u32,
    /// Whether other jobs end when this job ends (`exitall`).
    pub exitall: bool,
    /// Whether all jobs end when this job fails (`exitall_on_error`).
    #[serde(default)]
    pub exitall_on_error: bool,
    /// Which other jobs (`exit_what`).
    #[serde(default)]
    pub exit_what: ExitWhat,
    /// Delay after the start of the wave, in nanoseconds (`startdelay`).
    pub start_delay_ns: u64,
    /// I/O engine.
    pub engine: Engine,
    /// Queue depth (`iodepth`).
    pub depth: u32,
    /// The `iodepth` of the job file, where the engine cannot do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_depth: Option<u32>,
    /// Sizes of submission and completion batches.
    pub batch: Batch,
    /// O_DIRECT; otherwise buffered I/O.
    pub direct: bool,
    /// O_SYNC, or O_DSYNC, on writes (`sync`).
    pub sync_io: SyncIo,
    /// Regions, in order; never empty, except for engines without a target.
    pub regions: Vec<Region>,
    /// What an engine without a target takes offsets from in place of regions, one for each file that another engine
    /// would use; empty if the job has no size. Their targets are not among those of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub virtual_regions: Vec<Region>,
    /// How to select the next region.
    pub file_service: FileService,
    /// I/Os to a region before the next is selected (`file_service_type=random:N`).
    #[serde(default = "one")]
    pub file_service_ios: u32,
    /// Regions in use at once, if not all of them (`openfiles`).
    #[serde(default)]
    pub open_files: Option<u32>,
    /// Hint to the kernel about the access pattern (`fadvise_hint`).
    #[serde(default)]
    pub advice: Advice,
    /// Hint to the kernel about the lifetime of the data (`write_hint`).
    #[serde(default)]
    pub write_life: Option<WriteLife>,
    /// Drop the page cache of the targets before the job, and before each further pass (`invalidate`).
    #[serde(default)]
    pub invalidate: bool,
    /// Passes, each of which but the first begins without the blocks of files that this run created, if the job writes
    /// (`unlink_each_loop`); 1 for all I/Os at once.
    #[serde(default = "one")]
    pub fresh_passes: u32,
    /// Read the regions into the page cache before the first I/O (`pre_read`).
    #[serde(default)]
    pub pre_read: bool,
    /// Flags of each I/O (`atomic`, `uncached`).
    #[serde(default)]
    pub flags: IoFlags,
    /// Priorities of a part of the I/Os (`cmdprio_*`).
    #[serde(default, skip_serializing_if = "PerDir::is_empty")]
    pub priorities: PerDir<Vec<CommandPriority>>,
    /// Whether an I/O waits for those in flight that overlap it (`serialize_overlap`).
    #[serde(default)]
    pub serialize_overlap: bool,
    /// I/O pattern.
    pub access: Access,
    /// The I/Os of a trace, in place of those of the pattern (`read_iolog`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// End conditions.
    pub until: Until,
    /// End at steady state (`steadystate`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_steady: Option<UntilSteady>,
    /// Rate limits; all `None` without a limit.
    pub rate: PerDir<Option<Rate>>,
    /// Distribution of arrival times under a rate limit.
    pub rate_process: RateProcess,
    /// Rates below which, and latencies above which, the job fails (`rate_min`, `rate_iops_min`, `max_latency`).
    #[serde(default)]
    pub rate_floor: RateFloor,
    /// Search for the highest queue depth that meets a latency (`latency_target`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_target: Option<LatencyTarget>,
    /// The job's share in the I/Os of several jobs (`flow`).
    #[serde(default)]
    pub flow: Option<Flow>,
    /// Think time (`thinktime`).
    pub think: Option<Think>,
    /// Flushes.
    pub sync: FlushPlan,
    /// Contents and memory of the buffers.
    pub buffers: Buffers,
    /// Errors that do not end the job.
    pub on_error: OnError,
    /// What is verified, if anything (`verify`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// CPU affinity and priorities.
    pub placement: Placement,
    /// What is reported.
    pub show: Show,
    /// fio's logs, if any.
    #[serde(default)]
    pub logs: Option<Logs>,
    /// The job's keys as given, without defaults (fio's "job options"), for output.
    pub options: BTreeMap<String, String>,
}

fn one() -> u32 {
    1
}

impl JobPlan {
    /// A job with fio's defaults: 4 KiB, queue depth 1, buffered, no rate limit.
    pub fn new(name: impl Into<String>, engine: Engine, mix: Mix, order: Order) -> Self {
        Self {
            name: name.into(),
            engine,
            depth: 1,
            file_service_ios: 1,
            fresh_passes: 1,
            access: Access { mix, order, ..Access::default() },
            ..Self::default()
        }
    }

    /// The regions that offsets are taken from; empty for an engine without a target if the job has no size.
    pub fn offset_regions(&self) -> &[Region] {
        if self.regions.is_empty() { &self.virtual_regions } else { &self.regions }
    }

    /// The largest block size of the directions in use, in bytes.
    pub fn block_max(&self) -> u64 {
        self.used_dirs().map(|dir| self.access.block_sizes[dir].max()).max().unwrap_or(0)
    }

    /// The smallest block size of the directions in use, in bytes. At least 1.
    pub fn block_min(&self) -> u64 {
        self.used_dirs().map(|dir| self.access.block_sizes[dir].min()).min().unwrap_or(1).max(1)
    }

    /// The unit in bytes of all I/O sizes, including shortened I/Os: the greatest common divisor of
    /// the block sizes of all directions in use. At least 1.
    pub fn block_unit(&self) -> u64 {
        let units = self.used_dirs().map(|dir| self.access.block_sizes[dir].unit());
        units.fold(0, access::common).max(1)
    }

    /// The unit in bytes of all places and sizes of I/Os within a region. At least 1.
    pub fn place_unit(&self) -> u64 {
        let skip = match self.access.order {
            Order::Sequential { skip } => skip.unsigned_abs(),
            Order::Random { .. } => 0,
        };
        let aligned = self.used_dirs().map(|dir| self.access.align[dir]);
        aligned.fold(access::common(self.block_unit(), skip), access::common).max(1)
    }

    /// The directions in use.
    pub fn used_dirs(&self) -> impl Iterator<Item = Dir> + '_ {
        Dir::ALL.into_iter().filter(|dir| self.access.mix.has(*dir))
    }

    /// Whether I/Os of different sizes share blocks that are each accessed once: as in fio, an I/O is then shortened to
    /// the blocks that are still free, which takes a map of them.
    pub fn maps_blocks(&self) -> bool {
        let access = &self.access;
        let each_once =
            matches!(access.order, Order::Random { distribution: Distribution::EachOnce, run: 1 });
        let varies = |dir| !matches!(access.block_sizes[dir], BlockSizes::Fixed(_));
        let least = self.block_min();
        let is_least = |dir| access.align[dir] == least && access.block_sizes[dir].min() == least;
        each_once && self.used_dirs().any(varies) && self.used_dirs().all(is_least)
    }

    /// Whether the job changes data in this direction: one that only verifies does not.
    pub fn modifies(&self, dir: Dir) -> bool {
        let only_reads = self.verify.as_ref().is_some_and(|verify| verify.only);
        let uses = self.access.mix.has(dir) || dir == Dir::Trim && self.trims();
        dir.modifies() && uses && !only_reads
    }

    /// Whether the job trims anything.
    pub fn trims(&self) -> bool {
        let verified = self.verify.as_ref().is_some_and(|verify| verify.trims.is_some());
        self.access.mix.has(Dir::Trim) || verified
    }

    /// Whether a schedule or the progress of other jobs holds I/Os back.
    pub fn is_held_back(&self) -> bool {
        self.flow.is_some() || self.is_paced()
    }

    /// Whether I/Os have a schedule: a rate limit, or the times of a trace.
    pub fn is_paced(&self) -> bool {
        self.replay.as_ref().is_some_and(|replay| replay.timed) || self.has_rate()
    }

    /// Whether any direction has a rate limit.
    pub fn has_rate(&self) -> bool {
        self.used_dirs().any(|dir| self.rate[dir].is_some())
    }
}

/// A contiguous part of a target used by a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Region {
    /// Index into [`Plan::targets`].
    pub target: usize,
    /// First byte.
    pub start: u64,
    /// Length in bytes, never 0.
    pub len: u64,
}

/// How to select the next region.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileService {
    /// Round-robin, switching after every I/O.
    #[default]
    RoundRobin,
    /// At random.
    Random,
    /// Each region to its end, then the next.
    Sequential,
}

/// CPU affinity and priorities of a worker thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    /// CPUs it may run on; empty for all.
    pub cpus: Vec<u32>,
    /// nice(2) value.
    pub nice: i32,
    /// The user that the worker runs as (`uid`), if another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// Its group (`gid`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// I/O priority class and level as in ioprio_set(2) (`prioclass`, `prio`).
    pub io_priority: Option<(u8, u8)>,
    /// Memory that it locks, besides what it needs, in bytes (`lockmem`).
    #[serde(default)]
    pub locked_bytes: u64,
    /// NUMA nodes of its memory (`numa_mem_policy`).
    #[serde(default)]
    pub memory: MemoryPolicy,
}
