//! The engine of a job, and which keys belong to it.

use crate::job::{EngineName, EngineSpec, JobSpec};
use fathom_model::plan::{Batch, Engine, Psync, SqPoll, Uring};

/// The engine with its settings.
pub(super) fn resolve(spec: &EngineSpec) -> Engine {
    let sqpoll =
        spec.sqpoll.then_some(SqPoll { cpu: spec.sqpoll_cpu, idle_ms: spec.sqpoll_idle_ms });
    let ring = || Uring { sqpoll, ..spec.uring.clone() };
    match spec.name {
        EngineName::IoUring => Engine::IoUring(ring()),
        EngineName::IoUringCmd => Engine::IoUringCmd(ring()),
        EngineName::Nop => Engine::Nop(ring()),
        EngineName::Libaio => Engine::Libaio,
        EngineName::Psync => Engine::Psync(Psync::Plain),
        EngineName::Sync => Engine::Psync(Psync::Seek),
        EngineName::Pvsync => Engine::Psync(Psync::Vectored),
        EngineName::Pvsync2 => {
            Engine::Psync(Psync::VectoredFlags { hipri: spec.uring.iopoll, nowait: spec.nowait })
        }
        EngineName::Null => Engine::Null,
    }
}

/// Batches within the depth, as fio trims them.
pub(super) fn batch(spec: &EngineSpec) -> Batch {
    let within = |n: u32| n.min(spec.depth);
    let complete_min = within(spec.batch.complete_min);
    Batch {
        submit_max: spec.batch.submit_max.map(within),
        complete_min,
        complete_max: spec.batch.complete_max.map(|n| within(n).max(complete_min)),
        low: spec.batch.low.map(within),
    }
}

/// Whether an engine knows a key.
type Knows = fn(EngineName) -> bool;

/// Keys that only some engines know.
const KEYS: &[(&str, Knows)] = &[
    ("fixedbufs", EngineName::is_ring),
    ("registerfiles", EngineName::is_ring),
    ("sqthread_poll", EngineName::is_ring),
    ("sqthread_poll_cpu", EngineName::is_ring),
    ("sqthread_poll_idle", EngineName::is_ring),
    ("nonvectored", EngineName::is_ring),
    ("force_async", EngineName::is_ring),
    ("hipri", |name| name == EngineName::Pvsync2 || (name.is_ring() && name != EngineName::Nop)),
    ("nowait", |name| name == EngineName::Pvsync2),
    ("cmd_type", |name| name == EngineName::IoUringCmd),
];

/// Keys in the job's own section that its engine does not know: those are an error.
pub(super) fn foreign_key(job: &JobSpec) -> Option<&'static str> {
    foreign(job).find(|key| job.has_own(key))
}

/// Keys from `[global]` that its engine does not know: those are for other jobs.
pub(super) fn idle_keys(job: &JobSpec) -> impl Iterator<Item = &'static str> {
    foreign(job).filter(|key| !job.has_own(key))
}

fn foreign(job: &JobSpec) -> impl Iterator<Item = &'static str> {
    let known = |(_, knows): &&(&str, Knows)| !knows(job.engine.name);
    KEYS.iter().filter(known).map(|(key, _)| *key).filter(|key| job.has(key))
}
