//! A job as specified, independent of any machine.

mod parts;

pub use crate::engine_name::EngineName;
pub use parts::{DedupeSpec, Nodes, PlacementSpec, PriorityShare, PrioritySpec, RateSpec};

use crate::error::Place;
use fathom_model::plan::{
    Advice, Batch, BlockSizes, Buffers, Distribution, ExitWhat, Fallocate, FileService, FlushPlan,
    IoFlags, Logs, Mix, OnError, RateFloor, ScsiCommands, Show, StatCall, SteadyState, SyncIo,
    Uring, WriteLife,
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

/// One section of a job file, or one `--name`: `numjobs` identical workers.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    pub name: String,
    pub description: Option<String>,
    /// The line of the job file that begins the section.
    pub place: Option<Place>,
    /// Keys in the order given, those of `[global]` first.
    pub given: Vec<Given>,
    pub numjobs: u32,
    pub files: TargetKeys,
    pub work: AccessKeys,
    pub engine: EngineSpec,
    pub schedule: ScheduleKeys,
    pub rate: RateSpec,
    pub sync: FlushPlan,
    pub sync_io: SyncIo,
    pub buffers: Buffers,
    pub on_error: OnError,
    pub placement: PlacementSpec,
    pub priorities: PrioritySpec,
    pub dedupe: DedupeSpec,
    pub show: Show,
    /// fio's logs; prefixes of file names are empty for the job's name.
    pub logs: Logs,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TargetKeys {
    pub filename: Vec<String>,
    pub directory: Vec<String>,
    /// `filename_format`; empty for fio's default.
    pub format: String,
    /// `nrfiles`.
    pub count: u32,
    pub open_max: Option<u32>,
    /// `size`: the total of all files.
    pub size: Option<Size>,
    /// `filesize`: minimum and maximum size of each file, in bytes.
    pub file_size: Option<(u64, u64)>,
    pub offset: Size,
    /// `offset_increment`: added for each clone.
    pub offset_increment: Size,
    /// `offset_align`, in bytes.
    pub offset_align: Option<u64>,
    /// `file_append`.
    pub append: bool,
    pub fallocate: Fallocate,
    pub create_on_open: bool,
    pub create_only: bool,
    /// `allow_file_create`.
    pub allow_create: bool,
    /// `overwrite`: also lay out files that are only written.
    pub overwrite: bool,
    pub unlink: bool,
    pub unlink_each_loop: bool,
    pub invalidate: bool,
    pub pre_read: bool,
    /// `file_service_type`.
    pub service: FileService,
    /// The number after its colon.
    pub service_ios: u32,
    /// `fadvise_hint`; `None` follows the I/O pattern.
    pub advice: Option<Advice>,
    /// `write_hint`.
    pub write_life: Option<WriteLife>,
}

/// `rw`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RwKey {
    /// The pattern without `rand`: `read`, `write`, `trim`, `rw` or `trimwrite`.
    pub kind: RwKind,
    pub random: bool,
    /// The number after the colon: I/Os per random offset, or bytes to skip.
    pub postfix: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RwKind {
    Read,
    Write,
    Trim,
    Both,
    TrimWrite,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AccessKeys {
    pub rw: RwKey,
    /// `rwmixread`, in percent.
    pub read_percent: u32,
    /// `bs`, `bsrange` or `bssplit`, whichever was given last.
    pub sizes: PerDir<BlockSizes>,
    /// `blockalign`, in bytes.
    pub align: PerDir<Option<u64>>,
    /// `norandommap`.
    pub no_map: bool,
    /// `percentage_random`.
    pub random_percent: PerDir<u32>,
    /// `random_distribution`, other than `random`.
    pub distribution: Option<Distribution>,
    /// `random_sequence_stride`.
    pub sequence_stride: bool,
    /// `sprandom`.
    pub to_steady_state: bool,
    /// `spr_num_regions`, `spr_op` and `spr_cs`.
    pub steady_state: SteadyState,
    /// `rw_sequencer=identical`.
    pub repeat_offset: bool,
    /// `randrepeat`.
    pub repeat: bool,
    /// `randseed`.
    pub seed: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EngineSpec {
    /// `ioengine`.
    pub name: EngineName,
    /// `iodepth`.
    pub depth: u32,
    /// `iodepth_batch*` and `iodepth_low`.
    pub batch: Batch,
    /// `direct`, or the opposite of `buffered`.
    pub direct: bool,
    /// io_uring settings; `iopoll` is `hipri`, for pvsync2, too.
    pub uring: Uring,
    /// `sqthread_poll`.
    pub sqpoll: bool,
    /// `sqthread_poll_cpu`.
    pub sqpoll_cpu: Option<u32>,
    /// `sqthread_poll_idle`, in milliseconds.
    pub sqpoll_idle_ms: Option<u32>,
    pub nowait: bool,
    /// `atomic` and `uncached`.
    pub flags: IoFlags,
    pub serialize_overlap: bool,
    /// `stat_type`.
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
    pub group_reporting: bool,
    pub wait_for: Option<String>,
    /// `startdelay`: minimum and maximum, in nanoseconds.
    pub start_delay_ns: (u64, u64),
    pub exitall: bool,
    pub exitall_on_error: bool,
    pub exit_what: ExitWhat,
    /// `runtime`, in nanoseconds.
    pub runtime_ns: Option<u64>,
    pub time_based: bool,
    /// `ramp_time`, in nanoseconds.
    pub ramp_ns: u64,
    pub loops: u32,
    /// `io_size`.
    pub io_size: Option<Size>,
    /// `number_ios`.
    pub ios: Option<u64>,
}

impl JobSpec {
    pub fn new() -> Self {
        Self {
            name: String::new(),
            description: None,
            place: None,
            given: Vec::new(),
            numjobs: 1,
            files: TargetKeys::default(),
            work: AccessKeys::default(),
            engine: EngineSpec::default(),
            schedule: ScheduleKeys { loops: 1, ..ScheduleKeys::default() },
            rate: RateSpec {
                think_blocks: 1,
                floor: RateFloor { cycle_ns: 1_000_000_000, ..RateFloor::default() },
                ..RateSpec::default()
            },
            sync: FlushPlan::default(),
            sync_io: SyncIo::None,
            buffers: Buffers::default(),
            on_error: OnError::default(),
            placement: PlacementSpec::default(),
            priorities: PrioritySpec::default(),
            dedupe: DedupeSpec { percent: 0, from_set: false, set_percent: 5, global: false },
            show: Show::default(),
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
        self.files.invalidate && !self.files.pre_read
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

impl Default for TargetKeys {
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
            append: false,
            fallocate: Fallocate::Native,
            create_on_open: false,
            create_only: false,
            allow_create: true,
            overwrite: false,
            unlink: false,
            unlink_each_loop: false,
            invalidate: true,
            pre_read: false,
            service: FileService::RoundRobin,
            service_ios: 1,
            advice: None,
            write_life: None,
        }
    }
}

impl Default for AccessKeys {
    fn default() -> Self {
        Self {
            rw: RwKey { kind: RwKind::Read, random: false, postfix: None },
            read_percent: 50,
            sizes: PerDir::splat(BlockSizes::Fixed(4096)),
            align: PerDir::default(),
            no_map: false,
            random_percent: PerDir::splat(100),
            distribution: None,
            sequence_stride: false,
            to_steady_state: false,
            steady_state: SteadyState::default(),
            repeat_offset: false,
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
            flags: IoFlags::default(),
            serialize_overlap: false,
            stat: StatCall::Stat,
            scsi: ScsiCommands::default(),
            bsg: false,
        }
    }
}
