//! The engine of a job, and which keys belong to it.

use crate::job::{EngineName, EngineSpec, JobSpec};
use fathom_model::plan::{Engine, Psync, SqPoll, Uring};

/// The engine with its settings.
pub(super) fn resolve(spec: &EngineSpec) -> Engine {
    let sqpoll = (spec.sqpoll || spec.sqpoll_cpu.is_some())
        .then_some(SqPoll { cpu: spec.sqpoll_cpu, idle_ms: spec.sqpoll_idle_ms });
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
