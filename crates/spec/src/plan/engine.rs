//! The engine of a job, its queue depth, and which keys belong to it.

use super::File;
use crate::job::{EngineName, EngineSpec, JobSpec};
use fathom_model::Dir;
use fathom_model::facts::{Host, TargetKind};
use fathom_model::plan::{
    Batch, Engine, Names, Psync, ScsiCommands, ScsiWrite, SqPoll, Uring, WriteMode,
};

/// First kernel with io_uring discards of block devices (BLOCK_URING_CMD_DISCARD).
const RING_DISCARDS: (u32, u32) = (6, 12);

pub(super) struct Choice {
    pub engine: Engine,
    pub depth: u32,
    /// The queue depth that the job requests, if that is another.
    pub requested: Option<u32>,
    /// Where that is not what the job requests.
    pub note: Option<String>,
}

pub(super) fn choose(job: &JobSpec, files: &[File<'_>], host: &Host) -> Choice {
    let name = &job.name;
    let (engine, depth) = (resolve(&job.engine), job.engine.depth);
    let on_device = files.iter().any(|file| file.facts.kind == TargetKind::BlockDevice);
    let trims = job.mix().has(Dir::Trim);
    if trims
        && on_device
        && matches!(engine, Engine::IoUring(_))
        && host.kernel_version() < RING_DISCARDS
    {
        let note = format!(
            "job '{name}': discards run one at a time: io_uring discards of block devices need \
             Linux 6.12"
        );
        let engine = Engine::Psync(Psync::Plain);
        return Choice {
            engine,
            depth: 1,
            requested: (depth > 1).then_some(depth),
            note: Some(note),
        };
    }
    if !engine.is_synchronous() {
        let one_file = engine == Engine::Posixaio && depth > 1 && files.len() == 1;
        let note = one_file.then(|| {
            format!(
                "job '{name}': the C library executes the I/Os of a file one at a time, so \
                 ioengine=posixaio only queues {depth}; use ioengine=io_uring, or nrfiles"
            )
        });
        return Choice { engine, depth, requested: None, note };
    }
    let instead = match engine {
        Engine::Names(_) | Engine::Sg(_) => "",
        _ => "ioengine=io_uring, or ",
    };
    let note = (depth > 1).then(|| {
        format!(
            "job '{name}': synchronous engine {} runs at queue depth 1, not iodepth={depth}; use \
             {instead}numjobs={depth}",
            engine.name()
        )
    });
    Choice { engine, depth: 1, requested: (depth > 1).then_some(depth), note }
}

/// A direction of a job that its engine cannot do, and what to do instead.
pub(super) fn without(job: &JobSpec) -> Option<(Dir, &'static str)> {
    let (lacks, instead) = match job.engine.name {
        EngineName::Falloc => (&[Dir::Read][..], "use rw=write, randwrite, trim or randtrim"),
        EngineName::Ftruncate => (&[Dir::Read, Dir::Trim][..], "use rw=write or randwrite"),
        _ => return None,
    };
    let lacking = job.used_dirs().find(|dir| lacks.contains(dir))?;
    Some((lacking, instead))
}

fn resolve(spec: &EngineSpec) -> Engine {
    let sqpoll =
        spec.sqpoll.then_some(SqPoll { cpu: spec.sqpoll_cpu, idle_ms: spec.sqpoll_idle_ms });
    let ring = || Uring { sqpoll, ..spec.uring.clone() };
    match spec.name {
        EngineName::IoUring => Engine::IoUring(ring()),
        EngineName::IoUringCmd => {
            Engine::IoUringCmd(Uring { scsi: spec.bsg.then(|| bsg(spec)), ..ring() })
        }
        EngineName::Nop => Engine::Nop(ring()),
        EngineName::Libaio => Engine::Libaio,
        EngineName::Psync => Engine::Psync(Psync::Plain),
        EngineName::Sync => Engine::Psync(Psync::Seek),
        EngineName::Pvsync => Engine::Psync(Psync::Vectored),
        EngineName::Pvsync2 => {
            Engine::Psync(Psync::VectoredFlags { hipri: spec.uring.iopoll, nowait: spec.nowait })
        }
        EngineName::Falloc => Engine::Psync(Psync::Allocate),
        EngineName::Ftruncate => Engine::Psync(Psync::Truncate),
        EngineName::Vsync => Engine::Vsync,
        EngineName::Mmap => Engine::Mmap,
        EngineName::Splice => Engine::Splice,
        EngineName::Posixaio => Engine::Posixaio,
        EngineName::Sg => Engine::Sg(ScsiCommands {
            read_fua: spec.uring.nvme.read_fua,
            write_fua: spec.uring.nvme.write_fua,
            hipri: spec.uring.iopoll,
            ..spec.scsi
        }),
        EngineName::Names(op) => Engine::Names(Names::new(op)),
        EngineName::Null => Engine::Null,
    }
}

fn bsg(spec: &EngineSpec) -> ScsiCommands {
    let nvme = &spec.uring.nvme;
    let verifies = nvme.write_modes.iter().any(|(mode, _)| *mode == WriteMode::Verify);
    ScsiCommands {
        write: if verifies { ScsiWrite::VerifyMedium } else { ScsiWrite::Write },
        read_fua: nvme.read_fua,
        write_fua: nvme.write_fua,
        ..ScsiCommands::default()
    }
}

/// Batches limited to the queue depth, as in fio.
pub(super) fn batch(spec: &EngineSpec, depth: u32) -> Batch {
    let within = |n: u32| n.min(depth);
    let complete_min = within(spec.batch.complete_min);
    Batch {
        submit_max: spec.batch.submit_max.map(within),
        complete_min,
        complete_max: spec.batch.complete_max.map(|n| within(n).max(complete_min)),
        low: spec.batch.low.map(within),
    }
}

type Supports = fn(EngineName) -> bool;

/// Keys that only some engines support.
const KEYS: &[(&str, Supports)] = &[
    ("fixedbufs", EngineName::is_ring),
    ("registerfiles", EngineName::is_ring),
    ("sqthread_poll", EngineName::is_ring),
    ("sqthread_poll_cpu", EngineName::is_ring),
    ("sqthread_poll_idle", EngineName::is_ring),
    ("nonvectored", EngineName::is_ring),
    ("force_async", EngineName::is_ring),
    ("hipri", |name| {
        matches!(name, EngineName::Pvsync2 | EngineName::Sg)
            || (name.is_ring() && name != EngineName::Nop)
    }),
    ("hybrid_iopoll", |name| name.is_ring() && name != EngineName::Nop),
    ("atomic", |name| {
        matches!(name, EngineName::IoUring | EngineName::Libaio | EngineName::Pvsync2)
    }),
    ("uncached", |name| matches!(name, EngineName::IoUring | EngineName::Pvsync2)),
    ("file_append", |name| name != EngineName::Mmap),
    ("unlink_each_loop", EngineName::moves_data),
    ("nowait", |name| name == EngineName::Pvsync2),
    ("cmdprio_percentage", |name| matches!(name, EngineName::IoUring | EngineName::Libaio)),
    ("cmdprio_bssplit", |name| matches!(name, EngineName::IoUring | EngineName::Libaio)),
    ("cmd_type", |name| name == EngineName::IoUringCmd),
    ("write_mode", |name| name == EngineName::IoUringCmd),
    ("readfua", EngineName::is_passthrough),
    ("writefua", EngineName::is_passthrough),
    ("sg_write_mode", |name| name == EngineName::Sg),
    ("stream_id", |name| name == EngineName::Sg),
    ("pre_read", |name| !name.is_passthrough()),
    ("deac", |name| name == EngineName::IoUringCmd),
    ("num_range", |name| name == EngineName::IoUringCmd),
    ("stat_type", |name| matches!(name, EngineName::Names(op) if op.is_stat())),
    ("direct", EngineName::moves_data),
    ("fsync", EngineName::moves_data),
    ("fdatasync", EngineName::moves_data),
    ("end_fsync", EngineName::moves_data),
    ("fsync_on_close", EngineName::moves_data),
    ("sync", EngineName::moves_data),
    ("rate", EngineName::moves_data),
    ("rate_min", EngineName::moves_data),
];

pub(super) fn supports(job: &JobSpec, key: &str) -> bool {
    keys_of(job.engine.name).any(|known| known == key)
}

/// Keys in the job's own section that its engine does not support: errors.
pub(super) fn unsupported_keys(job: &JobSpec) -> impl Iterator<Item = &'static str> {
    foreign(job).filter(|key| job.has_own(key))
}

/// Keys from `[global]` that its engine does not support: meant for other jobs.
pub(super) fn ignored_keys(job: &JobSpec) -> impl Iterator<Item = &'static str> {
    foreign(job).filter(|key| !job.has_own(key))
}

/// Keys that only some engines support, `name` among them.
pub(crate) fn keys_of(name: EngineName) -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter(move |(_, knows)| knows(name)).map(|(key, _)| *key)
}

fn foreign(job: &JobSpec) -> impl Iterator<Item = &'static str> {
    let known = |(_, knows): &&(&str, Supports)| !knows(job.engine.name);
    KEYS.iter().filter(known).map(|(key, _)| *key).filter(|key| job.has(key) && !is_off(job, key))
}

fn is_off(job: &JobSpec, key: &str) -> bool {
    let last = job.given.iter().rev().find(|given| given.key == key);
    last.is_some_and(|given| match key {
        "num_range" => given.value == "1",
        "write_mode" | "sg_write_mode" => given.value == "write",
        _ => given.value == "0",
    })
}
