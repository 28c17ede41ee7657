//! Chooses the queue and the source of a job, so that its loop has no branches for what it does not use. Each pair is a loop
//! that is compiled: where system calls or copies dominate the cost per I/O, one source serves all jobs.

use super::Task;
use crate::buffers::Slab;
use crate::cpu::Burn;
use crate::error::{EngineError, Operation};
use crate::libaio::{InlineTrims, Libaio};
use crate::mmap::Mmap;
use crate::move_extents::MoveExtents;
use crate::names::{EachName, NameOps};
use crate::observer::{IoObserver, Observe};
use crate::posixaio::PosixAio;
use crate::psync::Calls;
use crate::queue::{Null, Queue};
use crate::sg::Sg;
use crate::source::{
    AnySource, FixedSource, FullSource, Permutation, RangeTable, Ranges, Sequential, Source,
    Uniform, makes_passes,
};
use crate::splice::Splice;
use crate::sync_queue::SyncQueue;
use crate::uring::{self, UringQueue};
use crate::verify::Verifier;
use crate::vsync::Vsync;
use crate::worker::{AnyWorker, Core, Worker};
use crate::zones::ZoneUser;
use fathom_model::Dir;
use fathom_model::plan::{self, Engine, Mix, Zoning};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Built<'a> = Result<Box<dyn AnyWorker<'a> + 'a>, EngineError>;

pub(super) fn worker<'a>(task: &Task<'a>, slab: Slab) -> Built<'a> {
    each_region_has_a_file(task)?;
    let (job, files) = (task.job, task.files);
    let depth = slab.slots();
    match &job.engine {
        Engine::IoUring(plan) => dispatch_uring(task, plan, slab),
        Engine::IoUringCmd(plan) => dispatch_commands(task, plan, slab),
        Engine::Nop(plan) => {
            let queue = UringQueue::new(&parts(task, plan, &slab), uring::Nop::new(depth))?;
            with_fixed(task, queue, slab)
        }
        Engine::Libaio if job.trims() => {
            let queue = Libaio::<true>::new(job, files, &slab)?;
            with_full(task, InlineTrims::new(queue, files, depth), slab)
        }
        Engine::Libaio if job.flags.atomic || !job.priorities.is_empty() => {
            let queue = Libaio::<true>::new(job, files, &slab)?;
            with_full(task, queue, slab)
        }
        Engine::Libaio => {
            let queue = Libaio::<false>::new(job, files, &slab)?;
            with_fixed(task, queue, slab)
        }
        Engine::Psync(call) => {
            let queue = SyncQueue::new(Calls::new(*call, job.flags, files), &slab);
            with_fixed(task, queue, slab)
        }
        Engine::Vsync => {
            let queue = SyncQueue::new(Vsync::new(files, &slab), &slab);
            with_full(task, queue, slab)
        }
        Engine::Mmap => {
            let queue = SyncQueue::new(Mmap::new(job, files)?, &slab);
            with_full(task, queue, slab)
        }
        Engine::Splice => {
            let queue = SyncQueue::new(Splice::new(files)?, &slab);
            with_full(task, queue, slab)
        }
        Engine::MoveExtents(_) => {
            let queue = SyncQueue::new(MoveExtents::new(job, files, task.donor)?, &slab);
            with_full(task, queue, slab)
        }
        Engine::Sg(plan) => {
            let queue = SyncQueue::new(Sg::new(*plan, files), &slab);
            with_full(task, queue, slab)
        }
        Engine::Posixaio => {
            let queue = PosixAio::new(files, &slab);
            with_full(task, queue, slab)
        }
        Engine::Names(plan) => {
            let table = task.names.filter(|table| !table.names.is_empty());
            let table = table.ok_or_else(|| EngineError::new(Operation::FindNames))?;
            let queue = SyncQueue::new(NameOps::new(plan, table), &slab);
            let source = EachName::new(job, table.names.len());
            Ok(build(task, queue, source, slab))
        }
        Engine::Cpu(load) => {
            let queue = SyncQueue::new(Burn::new(load, task.shared), &slab);
            Ok(build(task, queue, EachName::new(job, 1), slab))
        }
        Engine::Null => with_fixed(task, Null::new(depth), slab),
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn each_region_has_a_file(task: &Task<'_>) -> Result<(), EngineError> {
    let (job, files) = (task.job, task.files);
    let needs_none = !job.engine.uses_files();
    if needs_none || !files.is_empty() && files.len() == job.regions.len() {
        return Ok(());
    }
    let (regions, files) = (job.regions.len(), files.len());
    Err(EngineError::new(Operation::MatchFiles { regions, files }))
}

fn parts<'a>(task: &Task<'a>, plan: &'a plan::Uring, slab: &'a Slab) -> uring::RingInputs<'a> {
    uring::RingInputs {
        plan,
        depth: slab.slots(),
        files: task.files,
        slab,
        wake: task.wake,
        wait_max: task.job.batch.complete_min,
        async_trims: match task.job.trims() {
            true => uring::without_nowait(task.files),
            false => None,
        },
    }
}

/// SCSI commands, or NVMe's: plain reads and writes, or others.
fn dispatch_commands<'a>(task: &Task<'a>, plan: &plan::Uring, slab: Slab) -> Built<'a> {
    let (job, depth) = (task.job, slab.slots());
    if let Some(scsi) = plan.scsi {
        let queue = UringQueue::new(&parts(task, plan, &slab), uring::Bsg::new(depth, scsi))?;
        return with_full(task, queue, slab);
    }
    if !uring::Commands::apply(&plan.nvme, task.files, job.trims()) {
        let queue = UringQueue::new(&parts(task, plan, &slab), uring::Passthrough::new(depth))?;
        return with_fixed(task, queue, slab);
    }
    let zone_bytes = match job.access.zoning {
        Some(Zoning::WritePointers(rules)) => rules.zone_bytes,
        _ => 0,
    };
    let placed = uring::placements(&plan.nvme, task.files)?;
    let mode = |table| {
        let commands = uring::Commands::new(depth, &plan.nvme, zone_bytes, table, job.access.seed);
        commands.placing(placed.clone())
    };
    if plan.nvme.ranges <= 1 || job.access.mix != Mix::Only(Dir::Trim) {
        let queue = UringQueue::new(&parts(task, plan, &slab), mode(None))?;
        return with_full(task, queue, slab);
    }
    let table = Rc::new(RangeTable::new(depth, plan.nvme.ranges));
    let queue = UringQueue::new(&parts(task, plan, &slab), mode(Some(Rc::clone(&table))))?;
    let source = Ranges::new(AnySource::new(job), table, plan.nvme.ranges);
    Ok(build(task, queue, source, slab))
}

/// Picks the mode with the fewest branches per I/O.
fn dispatch_uring<'a>(task: &Task<'a>, plan: &plan::Uring, slab: Slab) -> Built<'a> {
    let (job, depth) = (task.job, slab.slots());
    let parts = parts(task, plan, &slab);
    let trims = parts.async_trims.is_some();
    if job.flags.any() || !job.priorities.is_empty() {
        let mode = match plan.vectored {
            true => uring::AnyReadWrite::Vectored(uring::Vectored::new(depth)),
            false => uring::AnyReadWrite::ReadWrite(uring::ReadWrite::<true>),
        };
        let mode = uring::WithRwFlags::new(mode, job);
        let mode = uring::ForceAsync::new(mode, plan.force_async, trims);
        let queue = UringQueue::new(&parts, mode)?;
        return with_any(task, queue, slab);
    }
    if plan.vectored {
        let mode = uring::ForceAsync::new(uring::Vectored::new(depth), plan.force_async, trims);
        let queue = UringQueue::new(&parts, mode)?;
        return with_any(task, queue, slab);
    }
    if plan.force_async > 0 || trims {
        let mode = uring::ForceAsync::new(uring::ReadWrite::<true>, plan.force_async, trims);
        let queue = UringQueue::new(&parts, mode)?;
        return with_full(task, queue, slab);
    }
    if uring::needs_many(&slab) {
        let queue = UringQueue::new(&parts, uring::ReadWrite::<true>)?;
        return with_any(task, queue, slab);
    }
    let queue = UringQueue::new(&parts, uring::ReadWrite::<false>)?;
    with_fixed(task, queue, slab)
}

fn with_fixed<'a, Q: Queue + 'a>(task: &Task<'a>, queue: Q, slab: Slab) -> Built<'a> {
    let job = task.job;
    if needs_full(task) {
        return with_full(task, queue, slab);
    }
    if let Some(source) = FixedSource::<Permutation, false>::new(job) {
        return Ok(build(task, queue, source, slab));
    }
    if let Some(source) = FixedSource::<Uniform, false>::new(job) {
        return Ok(build(task, queue, source, slab));
    }
    if let Some(source) = FixedSource::<Sequential, false>::new(job) {
        return Ok(build(task, queue, source, slab));
    }
    if let Some(source) = FixedSource::<Permutation, true>::new(job) {
        return Ok(build(task, queue, source, slab));
    }
    with_any(task, queue, slab)
}

fn with_any<'a, Q: Queue + 'a>(task: &Task<'a>, queue: Q, slab: Slab) -> Built<'a> {
    match needs_full(task) {
        true => with_full(task, queue, slab),
        false => Ok(build(task, queue, AnySource::new(task.job), slab)),
    }
}

/// Works with the source for all jobs, where the system calls or copies of the queue dominate the cost per I/O.
fn with_full<'a, Q: Queue + 'a>(task: &Task<'a>, queue: Q, slab: Slab) -> Built<'a> {
    let has_journal = lock(task.journal).is_some();
    let source = FullSource::new(task.job, task.files, &queue.mappings(), has_journal);
    Ok(build(task, queue, source, slab))
}

/// Whether I/Os are scheduled, which dominates their cost, observed one by one, wait for others, or are preceded by more than
/// a flush.
fn needs_full(task: &Task<'_>) -> bool {
    let job = task.job;
    lock(task.log).is_some()
        || !job.priorities.is_empty()
        || job.is_held_back()
        || makes_passes(job)
        || job.serialize_overlap
        || job.verify.is_some()
        || job.replay.is_some()
        || job.latency_target.is_some()
        || job.access.mix == Mix::TrimThenWrite
        || matches!(job.access.zoning, Some(Zoning::WritePointers(_)))
}

fn build<'a, Q: Queue + 'a, S: Source + 'a>(
    task: &Task<'a>,
    queue: Q,
    source: S,
    slab: Slab,
) -> Box<dyn AnyWorker<'a> + 'a> {
    let core = core(task, slab, source.len());
    Box::new(Worker { core, queue, source })
}

fn core<'a>(task: &Task<'a>, slab: Slab, len: u32) -> Core<'a> {
    let named = task.names.into_iter().flat_map(|table| &table.names);
    let named = named.map(|name| name.path.to_string_lossy().into_owned());
    let paths = task.files.iter().map(|f| f.path.clone()).chain(named).collect();
    let log = lock(task.log).take();
    let is_observed = log.is_some() || !task.job.priorities.is_empty();
    let observer =
        is_observed.then(|| Box::new(IoObserver::new(task.job, log)) as Box<dyn Observe>);
    let mut core = Core::new(task.job, paths, task.shared, slab, len, observer);
    core.sync_ranges(task.files);
    core.zones = ZoneUser::new(task.job, task.index, task.files, task.zones);
    core.verify(Verifier::new(task.job, task.index, lock(task.journal).take()));
    core
}
