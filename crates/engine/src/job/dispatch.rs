//! Chooses the queue and the source of a job, so that its loop has no branches for what it does not use.

use super::{Ready, Task, work_with};
use crate::buffers::Slab;
use crate::error::{EngineError, JobResult, Operation};
use crate::inline_trims::InlineTrims;
use crate::libaio::Libaio;
use crate::mmap::Mmap;
use crate::names::{EachName, NameOps};
use crate::null::Null;
use crate::observer::IoObserver;
use crate::posixaio::PosixAio;
use crate::psync::Calls;
use crate::queue::Queue;
use crate::sg::Sg;
use crate::source::{
    Ascending, General, Invalidating, Permutation, RangeTable, Ranges, Simple, Uniform,
    makes_passes,
};
use crate::splice::Splice;
use crate::sync_queue::SyncQueue;
use crate::uring::{self, Uring};
use crate::vsync::Vsync;
use fathom_model::Dir;
use fathom_model::plan::{self, Engine, Mix};
use std::rc::Rc;
use std::sync::PoisonError;

/// Creates the plan's queue and runs the job on it.
pub(super) fn dispatch(
    task: &Task<'_>,
    slab: Slab,
    ready: &mut Option<Ready<'_>>,
) -> Result<JobResult, EngineError> {
    each_region_has_a_file(task)?;
    let (job, files) = (task.job, task.files);
    let depth = slab.slots();
    match &job.engine {
        Engine::IoUring(plan) => dispatch_uring(task, plan, slab, ready),
        Engine::IoUringCmd(plan) => dispatch_commands(task, plan, slab, ready),
        Engine::Nop(plan) => {
            let queue = Uring::new(&parts(task, plan, &slab), uring::Nop::new(depth))?;
            work(task, queue, slab, ready)
        }
        Engine::Libaio if job.access.mix.has(Dir::Trim) => {
            let queue = Libaio::<true>::new(job, files, &slab)?;
            work_on_any(task, InlineTrims::new(queue, files, depth), slab, ready)
        }
        Engine::Libaio if job.flags.atomic || !job.priorities.is_empty() => {
            let queue = Libaio::<true>::new(job, files, &slab)?;
            work_on_any(task, queue, slab, ready)
        }
        Engine::Libaio => {
            let queue = Libaio::<false>::new(job, files, &slab)?;
            work(task, queue, slab, ready)
        }
        Engine::Psync(call) => {
            let queue = SyncQueue::new(Calls::new(*call, job.flags, files), &slab);
            work(task, queue, slab, ready)
        }
        Engine::Vsync => {
            let queue = Vsync::new(files, &slab);
            work_on_any(task, queue, slab, ready)
        }
        Engine::Mmap => {
            let queue = SyncQueue::new(Mmap::new(job, files)?, &slab);
            work_on_any(task, queue, slab, ready)
        }
        Engine::Splice => {
            let queue = SyncQueue::new(Splice::new(files)?, &slab);
            work_on_any(task, queue, slab, ready)
        }
        Engine::Sg(plan) => {
            let queue = SyncQueue::new(Sg::new(*plan, files), &slab);
            work_on_any(task, queue, slab, ready)
        }
        Engine::Posixaio => {
            let queue = PosixAio::new(files, &slab);
            work_on_any(task, queue, slab, ready)
        }
        Engine::Names(plan) => {
            let table = task.names.filter(|table| !table.names.is_empty());
            let table = table.ok_or_else(|| EngineError::new(Operation::FindNames))?;
            let queue = SyncQueue::new(NameOps::new(plan, table), &slab);
            let source = EachName::new(job, table.names.len());
            work_with(task, queue, source, slab, ready, observer(task))
        }
        Engine::Null => work(task, Null::new(depth), slab, ready),
    }
}

fn each_region_has_a_file(task: &Task<'_>) -> Result<(), EngineError> {
    let (job, files) = (task.job, task.files);
    let needs_none = matches!(job.engine, Engine::Nop(_) | Engine::Null | Engine::Names(_));
    if needs_none || !files.is_empty() && files.len() == job.regions.len() {
        return Ok(());
    }
    let (regions, files) = (job.regions.len(), files.len());
    Err(EngineError::new(Operation::MatchFiles { regions, files }))
}

/// What a ring is made of.
fn parts<'a>(task: &Task<'a>, plan: &'a plan::Uring, slab: &'a Slab) -> uring::Parts<'a> {
    uring::Parts {
        plan,
        depth: slab.slots(),
        files: task.files,
        slab,
        wake: task.wake,
        wait_max: task.job.batch.complete_min,
        trims_offloaded: match task.job.access.mix.has(Dir::Trim) {
            true => uring::without_nowait(task.files),
            false => None,
        },
    }
}

/// SCSI commands, or NVMe's: plain reads and writes, or others.
fn dispatch_commands(
    task: &Task<'_>,
    plan: &plan::Uring,
    slab: Slab,
    ready: &mut Option<Ready<'_>>,
) -> Result<JobResult, EngineError> {
    let (job, depth) = (task.job, slab.slots());
    if let Some(scsi) = plan.scsi {
        let queue = Uring::new(&parts(task, plan, &slab), uring::Bsg::new(depth, scsi))?;
        return work_on_any(task, queue, slab, ready);
    }
    if !uring::Commands::apply(&plan.nvme, job.access.mix.has(Dir::Trim)) {
        let queue = Uring::new(&parts(task, plan, &slab), uring::Passthrough::new(depth))?;
        return work(task, queue, slab, ready);
    }
    let mode = |table| uring::Commands::new(depth, &plan.nvme, table, job.access.seed);
    if plan.nvme.ranges <= 1 || job.access.mix != Mix::Only(Dir::Trim) {
        let queue = Uring::new(&parts(task, plan, &slab), mode(None))?;
        return work_on_any(task, queue, slab, ready);
    }
    let table = Rc::new(RangeTable::new(depth, plan.nvme.ranges));
    let queue = Uring::new(&parts(task, plan, &slab), mode(Some(Rc::clone(&table))))?;
    let source = Ranges::new(General::new(job), table, plan.nvme.ranges);
    work_with(task, queue, source, slab, ready, observer(task))
}

/// Picks the mode with the fewest branches per I/O.
fn dispatch_uring(
    task: &Task<'_>,
    plan: &plan::Uring,
    slab: Slab,
    ready: &mut Option<Ready<'_>>,
) -> Result<JobResult, EngineError> {
    let (job, depth) = (task.job, slab.slots());
    let parts = parts(task, plan, &slab);
    let trims = parts.trims_offloaded.is_some();
    if job.flags.any() || !job.priorities.is_empty() {
        let mode = match plan.vectored {
            true => uring::AnyPlain::Vectored(uring::Vectored::new(depth)),
            false => uring::AnyPlain::Plain(uring::Plain::<true>),
        };
        let mode = uring::Flagged::new(mode, job);
        let mode = uring::Offloaded::new(mode, plan.force_async, trims);
        let queue = Uring::new(&parts, mode)?;
        return work(task, queue, slab, ready);
    }
    if plan.vectored {
        let mode = uring::Offloaded::new(uring::Vectored::new(depth), plan.force_async, trims);
        let queue = Uring::new(&parts, mode)?;
        return work(task, queue, slab, ready);
    }
    if plan.force_async > 0 || trims {
        let mode = uring::Offloaded::new(uring::Plain::<true>, plan.force_async, trims);
        let queue = Uring::new(&parts, mode)?;
        return work_on_any(task, queue, slab, ready);
    }
    if uring::needs_many(&slab) {
        let queue = Uring::new(&parts, uring::Plain::<true>)?;
        return work(task, queue, slab, ready);
    }
    let queue = Uring::new(&parts, uring::Plain::<false>)?;
    work(task, queue, slab, ready)
}

/// Picks the cheapest source, so that the loop has no branches for features that the job does not use.
fn work<Q: Queue>(
    task: &Task<'_>,
    queue: Q,
    slab: Slab,
    ready: &mut Option<Ready<'_>>,
) -> Result<JobResult, EngineError> {
    let job = task.job;
    if is_observed(task) {
        return work_on_any(task, queue, slab, ready);
    }
    // A rate limit dominates the cost per I/O.
    let is_plain = job.access.mix != Mix::TrimThenWrite && !job.serialize_overlap;
    if makes_passes(job) || !is_plain || job.is_held_back() {
        return work_on_any(task, queue, slab, ready);
    }
    if let Some(source) = Simple::<Permutation, false>::new(job) {
        return work_with(task, queue, source, slab, ready, ());
    }
    if let Some(source) = Simple::<Uniform, false>::new(job) {
        return work_with(task, queue, source, slab, ready, ());
    }
    if let Some(source) = Simple::<Ascending, false>::new(job) {
        return work_with(task, queue, source, slab, ready, ());
    }
    if let Some(source) = Simple::<Permutation, true>::new(job) {
        return work_with(task, queue, source, slab, ready, ());
    }
    work_on_any(task, queue, slab, ready)
}

/// Whether single I/Os are observed, for logs or by priority.
fn is_observed(task: &Task<'_>) -> bool {
    let log = task.log.lock().unwrap_or_else(PoisonError::into_inner);
    log.is_some() || !task.job.priorities.is_empty()
}

fn observer(task: &Task<'_>) -> IoObserver {
    let log = task.log.lock().unwrap_or_else(PoisonError::into_inner).take();
    IoObserver::new(task.job, log)
}

/// Works with a source for any job, where the system calls or copies of the queue dominate the cost per I/O.
fn work_on_any<Q: Queue>(
    task: &Task<'_>,
    queue: Q,
    slab: Slab,
    ready: &mut Option<Ready<'_>>,
) -> Result<JobResult, EngineError> {
    let job = task.job;
    let special = |queue: &Q| Invalidating::new(job, task.files, &queue.mappings());
    if is_observed(task) {
        let source = special(&queue);
        return work_with(task, queue, source, slab, ready, observer(task));
    }
    if makes_passes(job) || job.serialize_overlap || job.access.mix == Mix::TrimThenWrite {
        let source = special(&queue);
        return work_with(task, queue, source, slab, ready, ());
    }
    work_with(task, queue, General::new(job), slab, ready, ())
}
