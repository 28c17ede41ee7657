//! The engine of a job, its queue depth, and which keys belong to it.

use super::File;
use crate::job::Job;
use crate::keys::{self, Key};
use fathom_model::PerDir;
use fathom_model::facts::{Host, TargetKind};
use fathom_model::plan::{
    Batch, Engine, JobPlan, Psync, ScsiCommands, ScsiWrite, Uring, WriteMode,
};

/// First kernel with io_uring discards of block devices (BLOCK_URING_CMD_DISCARD).
const RING_DISCARDS: (u32, u32) = (6, 12);

/// Gives `plan` the engine of `job`, and what it can do of its keys; returns a note where it does I/Os one at a time.
pub(super) fn resolve(
    job: &Job,
    plan: &mut JobPlan,
    files: &[File<'_>],
    host: &Host,
) -> Option<String> {
    plan.engine = with_settings(job);
    let note = one_at_a_time(job, plan, files, host);
    let modifies = job.modifies();
    plan.serialize_overlap &= plan.depth > 1 && modifies;
    plan.batch = batch(&job.batch, plan.depth);
    let supports = |key: &str| keys::find(key).is_some_and(|key| key.is_for(&job.engine));
    plan.flags.atomic &= supports("atomic");
    plan.flags.uncached &= supports("uncached");
    if !supports("cmdprio_percentage") {
        plan.priorities = PerDir::default();
    }
    note
}

fn one_at_a_time(job: &Job, plan: &mut JobPlan, files: &[File<'_>], host: &Host) -> Option<String> {
    let (name, depth) = (&job.name, job.depth);
    let on_device = files.iter().any(|file| file.facts.kind == TargetKind::BlockDevice);
    let discards = job.trims() && on_device;
    let note = match &plan.engine {
        Engine::IoUring(_) if discards && host.kernel_version() < RING_DISCARDS => {
            plan.engine = Engine::Psync(Psync::Plain);
            Some(format!(
                "job '{name}': discards run one at a time: io_uring discards of block devices need \
                 Linux 6.12"
            ))
        }
        Engine::Posixaio if depth > 1 && files.len() == 1 => {
            return Some(format!(
                "job '{name}': the C library executes the I/Os of a file one at a time, so \
                 ioengine=posixaio only queues {depth}; use ioengine=io_uring, or nrfiles"
            ));
        }
        engine if engine.is_synchronous() => {
            let instead = match engine {
                Engine::Names(_) | Engine::Sg(_) => "",
                _ => "ioengine=io_uring, or ",
            };
            (depth > 1).then(|| {
                format!(
                    "job '{name}': synchronous engine {} runs at queue depth 1, not iodepth={depth}; use \
                     {instead}numjobs={depth}",
                    engine.name()
                )
            })
        }
        _ => return None,
    };
    plan.depth = 1;
    plan.requested_depth = (depth > 1).then_some(depth);
    note
}

fn with_settings(job: &Job) -> Engine {
    let (ring, nvme) = (&job.ring, &job.ring.nvme);
    let scsi = ScsiCommands { read_fua: nvme.read_fua, write_fua: nvme.write_fua, ..job.scsi };
    match &job.engine {
        Engine::IoUring(_) => Engine::IoUring(ring.clone()),
        Engine::Nop(_) => Engine::Nop(ring.clone()),
        Engine::IoUringCmd(_) => {
            let verifies = nvme.write_modes.iter().any(|(mode, _)| *mode == WriteMode::Verify);
            let write = if verifies { ScsiWrite::VerifyMedium } else { ScsiWrite::Write };
            let bsg = ScsiCommands { write, stream: 0, ..scsi };
            Engine::IoUringCmd(Uring { scsi: job.bsg.then_some(bsg), ..ring.clone() })
        }
        Engine::Psync(Psync::VectoredFlags { .. }) => {
            Engine::Psync(Psync::VectoredFlags { hipri: ring.iopoll, nowait: job.nowait })
        }
        Engine::Sg(_) => Engine::Sg(ScsiCommands { hipri: ring.iopoll, ..scsi }),
        engine => engine.clone(),
    }
}

/// Batches limited to the queue depth, as in fio.
fn batch(given: &Batch, depth: u32) -> Batch {
    let within = |n: u32| n.min(depth);
    let complete_min = within(given.complete_min);
    Batch {
        submit_max: given.submit_max.map(within),
        complete_min,
        complete_max: given.complete_max.map(|n| within(n).max(complete_min)),
        low: given.low.map(within),
    }
}

/// Keys that are set, and that the engine does not support: errors in the job's own section, meant for other jobs in
/// `[global]`.
pub(super) fn foreign(job: &Job) -> impl Iterator<Item = &'static Key> {
    let is_set = |key: &Key| {
        job.last(key.name).is_some_and(|given| given.value != "0" && !key.is_off(&given.value))
    };
    keys::keys().filter(move |key| !key.is_for(&job.engine) && is_set(key))
}
