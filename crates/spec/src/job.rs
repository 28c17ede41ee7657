//! A job as specified, independent of any machine.

pub use crate::keys::EngineName;

use crate::error::Place;
use fathom_model::plan::{
    Advice, Batch, Distribution, Engine, Fallocate, IoFlags, JobPlan, Logs, Mix, Order,
    ScsiCommands, StatCall, SteadyState, Uring,
};
use fathom_model::{Dir, PerDir};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub key: &'static str,
    pub value: String,
    /// Whether it is from a `[global]` section.
    pub global: bool,
    /// The line of the job file that it is from.
    pub place: Option<Place>,
    /// Whether the end of its value was ignored, as fio ignores it.
    pub cut: bool,
}

/// A length or offset, absolute or relative to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Bytes(u64),
    /// In percent, from 0 to 100; of a whole device also more, which is all of it.
    Percent(u32),
}

impl Default for Size {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

/// One section of a job file, or one `--name`: `numjobs` identical workers.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    pub name: String,
    /// The line of the job file that begins the section.
    pub place: Option<Place>,
    /// Keys in the order given, those of `[global]` first.
    pub given: Vec<Given>,
    pub numjobs: u32,
    /// Fields that keys set and no other key, clone or machine changes; the others have fio's defaults.
    pub plan: JobPlan,
    pub files: TargetKeys,
    pub work: AccessKeys,
    pub engine: EngineSpec,
    pub schedule: ScheduleKeys,
    pub rate: RateSpec,
    pub placement: PlacementSpec,
    pub priorities: PrioritySpec,
    pub dedupe: DedupeSpec,
    /// fio's logs; prefixes of file names are empty for the job's name.
    pub logs: Logs,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetKeys {
    pub filename: Vec<String>,
    pub directory: Vec<String>,
    /// `filename_format`; empty for fio's default.
    pub format: String,
    pub count: u32,
    /// `size`: the total of all files.
    pub size: Option<Size>,
    /// `filesize`: minimum and maximum size of each file, in bytes.
    pub file_size: Option<(u64, u64)>,
    pub offset: Size,
    /// `offset_increment`: added for each clone.
    pub offset_increment: Size,
    /// `offset_align`, in bytes.
    pub offset_align: Option<u64>,
    pub append: bool,
    pub fallocate: Fallocate,
    pub create_on_open: bool,
    pub create_only: bool,
    pub allow_create: bool,
    /// `overwrite`: also lay out files that are only written.
    pub overwrite: bool,
    pub unlink: bool,
    pub unlink_each_loop: bool,
    pub invalidate: bool,
    /// `fadvise_hint`; `None` follows the I/O pattern.
    pub advice: Option<Advice>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RwKey {
    /// The pattern without `rand`: `read`, `write`, `trim`, `rw` or `trimwrite`.
    pub kind: RwKind,
    pub random: bool,
    /// The number after the colon: I/Os per random offset, or bytes to skip.
    pub postfix: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RwKind {
    #[default]
    Read,
    Write,
    Trim,
    Both,
    TrimWrite,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct AccessKeys {
    pub rw: RwKey,
    /// `rwmixread`, in percent.
    pub read_percent: u32,
    /// `blockalign`, in bytes.
    pub align: PerDir<Option<u64>>,
    pub no_map: bool,
    /// `random_distribution`, other than `random`.
    pub distribution: Option<Distribution>,
    pub sequence_stride: bool,
    pub to_steady_state: bool,
    /// `spr_num_regions`, `spr_op` and `spr_cs`.
    pub steady_state: SteadyState,
    pub repeat: bool,
    pub seed: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct EngineSpec {
    pub name: EngineName,
    pub depth: u32,
    /// `iodepth_batch*` and `iodepth_low`.
    pub batch: Batch,
    /// `direct`, or the opposite of `buffered`.
    pub direct: bool,
    /// io_uring settings; `iopoll` is `hipri`, for pvsync2, too.
    pub uring: Uring,
    pub sqpoll: bool,
    pub sqpoll_cpu: Option<u32>,
    /// `sqthread_poll_idle`, in milliseconds.
    pub sqpoll_idle_ms: Option<u32>,
    pub nowait: bool,
    /// `atomic` and `uncached`.
    pub flags: IoFlags,
    pub serialize_overlap: bool,
    pub stat: StatCall,
    /// `sg_write_mode` and `stream_id`; what sg has in common with io_uring is in `uring`.
    pub scsi: ScsiCommands,
    /// `cmd_type=bsg`.
    pub bsg: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScheduleKeys {
    /// `stonewall`: wait for all preceding jobs.
    pub stonewall: bool,
    pub new_group: bool,
    pub wait_for: Option<String>,
    /// `startdelay`: minimum and maximum, in nanoseconds.
    pub start_delay_ns: (u64, u64),
    pub time_based: bool,
    pub loops: u32,
    pub io_size: Option<Size>,
    pub ios: Option<u64>,
}

/// Priorities of single I/Os (`cmdprio_*`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrioritySpec {
    pub percent: PerDir<u32>,
    pub class: PerDir<u16>,
    pub level: PerDir<u16>,
    pub hint: PerDir<u16>,
    pub split: PerDir<Vec<PriorityShare>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityShare {
    pub block: u64,
    pub percent: u32,
    /// Class, level and hint; `None` for those of the job.
    pub own: Option<[u16; 3]>,
}

/// Duplicates among buffers (`dedupe_*`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DedupeSpec {
    pub percent: u32,
    /// `dedupe_mode=working_set`.
    pub from_set: bool,
    pub set_percent: u32,
    pub global: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct RateSpec {
    /// `rate`, in bytes per second.
    pub bytes: PerDir<Option<u64>>,
    pub iops: PerDir<Option<u64>>,
    /// `flow`, the job's weight; 0 for none.
    pub flow: u32,
    pub flow_id: u32,
    /// `flow_sleep`, in nanoseconds.
    pub flow_sleep_ns: u64,
    /// `thinktime`, in nanoseconds.
    pub think_ns: u64,
    /// `thinktime_spin`, in nanoseconds.
    pub think_spin_ns: u64,
    pub think_blocks: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacementSpec {
    /// `cpus_allowed`; empty means all CPUs.
    pub cpus: Vec<u32>,
    /// `cpus_allowed_policy=split`: one CPU per clone.
    pub split: bool,
    pub io_class: Option<u8>,
    pub io_level: Option<u8>,
    pub nodes: Option<Nodes>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nodes {
    All,
    Only(Vec<u32>),
    Without(Vec<u32>),
}

impl JobSpec {
    pub fn new() -> Self {
        let order = Order::Sequential { skip: 0 };
        let mut plan = JobPlan::new("", Engine::Null, Mix::Only(Dir::Read), order);
        plan.rate_floor.cycle_ns = 1_000_000_000;
        Self {
            name: String::new(),
            place: None,
            given: Vec::new(),
            numjobs: 1,
            plan,
            files: TargetKeys {
                count: 1,
                allow_create: true,
                invalidate: true,
                ..TargetKeys::default()
            },
            work: AccessKeys { read_percent: 50, repeat: true, ..AccessKeys::default() },
            engine: EngineSpec { depth: 1, ..EngineSpec::default() },
            schedule: ScheduleKeys { loops: 1, ..ScheduleKeys::default() },
            rate: RateSpec { think_blocks: 1, ..RateSpec::default() },
            placement: PlacementSpec::default(),
            priorities: PrioritySpec { class: PerDir::splat(1), ..PrioritySpec::default() },
            dedupe: DedupeSpec { set_percent: 5, ..DedupeSpec::default() },
            logs: Logs { average: true, per_job: true, ..Logs::default() },
        }
    }

    pub fn mix(&self) -> Mix {
        match self.work.rw.kind {
            RwKind::Read => Mix::Only(Dir::Read),
            RwKind::Write => Mix::Only(Dir::Write),
            RwKind::Trim => Mix::Only(Dir::Trim),
            RwKind::TrimWrite => Mix::TrimThenWrite,
            RwKind::Both => Mix::ReadWrite { read_percent: self.work.read_percent },
        }
    }

    pub fn used_dirs(&self) -> impl Iterator<Item = Dir> + use<> {
        let mix = self.mix();
        Dir::ALL.into_iter().filter(move |dir| mix.has(*dir))
    }

    /// Whether the job's own section has `key` (a canonical name).
    pub fn has_own(&self, key: &str) -> bool {
        self.given.iter().any(|given| given.key == key && !given.global)
    }

    /// Whether the job or `[global]` has `key` (a canonical name).
    pub fn has(&self, key: &str) -> bool {
        self.given.iter().any(|given| given.key == key)
    }

    /// Where `key` (a canonical name) was given last, or else where the job begins.
    pub(crate) fn place_of(&self, key: &str) -> Option<&Place> {
        let given = self.given.iter().rev().find(|given| given.key == key);
        given.and_then(|given| given.place.as_ref()).or(self.place.as_ref())
    }

    /// Whether I/O is direct; as in fio, `atomic` implies it, whatever the order of the keys.
    pub fn is_direct(&self) -> bool {
        self.engine.direct || self.engine.flags.atomic
    }

    /// Whether the page cache is dropped before the job; as in fio, not if it will be filled.
    pub fn invalidates(&self) -> bool {
        self.files.invalidate && !self.plan.pre_read
    }

    /// The number of passes that are to find their files without blocks; as in fio, `time_based` makes one.
    pub fn fresh_passes(&self) -> u32 {
        let fresh = self.files.unlink_each_loop && !self.schedule.time_based;
        if fresh { self.schedule.loops } else { 1 }
    }

    pub fn modifies(&self) -> bool {
        self.work.rw.kind != RwKind::Read
    }

    pub fn uses_files(&self) -> bool {
        !matches!(self.engine.name, EngineName::Nop | EngineName::Null | EngineName::Names(_))
    }
}

impl Default for JobSpec {
    fn default() -> Self {
        Self::new()
    }
}
