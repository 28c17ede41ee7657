//! One job from set-up to record, on a thread of its own.

use crate::buffers::Slab;
use crate::clock;
use crate::files::{FileKind, OpenFile};
use crate::libaio::Libaio;
use crate::null::Null;
use crate::pace::Pace;
use crate::placement;
use crate::psync::Sync;
use crate::queue::Queue;
use crate::refusal::Refusal;
use crate::source::{Ascending, General, Permutation, Simple, Source, Uniform};
use crate::stats::{Shared, Stats};
use crate::uring::{self, Uring};
use crate::usage;
use crate::wake::Wake;
use crate::worker::{End, Worker};
use fathom_model::plan::{Engine, JobPlan, Psync};
use fathom_model::progress::Phase;
use fathom_model::record::{DirRecord, FlushRecord, JobError, JobRecord, Usage};
use fathom_model::{Dir, PerDir};
use std::sync::atomic::Ordering::{Relaxed, Release};

/// What a job's thread is given.
pub(crate) struct Task<'a> {
    pub job: &'a JobPlan,
    pub files: &'a [OpenFile],
    pub shared: &'a Shared,
    pub wake: &'a Wake,
    /// Start of the run, on the engine's clock.
    pub run_start_ns: u64,
}

/// Runs a job: sets it up, tells `ready` whether that worked and, when `ready` says so, does the work.
pub(crate) fn perform(
    task: &Task<'_>,
    ready: impl FnOnce(Result<(), JobError>) -> bool,
) -> JobRecord {
    // SAFETY: takes no pointers and cannot fail.
    task.shared.tid.store(unsafe { libc::gettid() }, Relaxed);
    match prepare(task, ready) {
        Ok(record) => record,
        Err(error) => JobRecord { error: Some(error), ..JobRecord::default() },
    }
}

type Ready<'r> = Box<dyn FnOnce(Result<(), JobError>) -> bool + 'r>;

fn prepare(
    task: &Task<'_>,
    ready: impl FnOnce(Result<(), JobError>) -> bool,
) -> Result<JobRecord, JobError> {
    let mut ready: Option<Ready<'_>> = Some(Box::new(ready));
    let result =
        placement::apply(&task.job.placement).and_then(|()| slab(task)).and_then(|slab| match task
            .shared
            .is_stopping()
        {
            true => Ok(never_begun(&mut ready)),
            false => dispatch(task, slab, &mut ready),
        });
    result.map_err(|Refusal(error)| {
        if let Some(ready) = ready {
            ready(Err(error.clone()));
        }
        error
    })
}

/// How many buffers a worker needs, and of how many bytes each.
pub(crate) fn buffers(job: &JobPlan) -> (u32, u64) {
    // Each synchronous call waits for its I/O: one buffer is all it uses.
    let depth = if job.engine.is_synchronous() { 1 } else { job.depth.max(1) };
    let bytes = if job.used_dirs().any(|d| d != Dir::Trim) { job.block_max() } else { 1 };
    (depth, bytes)
}

/// What is known of a worker that was asked to stop while it was prepared.
fn never_begun(ready: &mut Option<Ready<'_>>) -> JobRecord {
    if let Some(ready) = ready.take() {
        ready(Ok(()));
    }
    JobRecord::default()
}

fn slab(task: &Task<'_>) -> Result<Slab, Refusal> {
    let (job, files) = (task.job, task.files);
    let (depth, bytes) = buffers(job);
    // What waits for its turn is not in flight, and its wait is not the device's latency.
    let depth = if trims_in_turn(job, files, usage::kernel_version()) { 1 } else { depth };
    let slab = Slab::new(depth, bytes, job.buffers.memory);
    let registered = job.engine.uring().is_some_and(|ring| ring.fixed_buffers);
    let populated = slab.map(|mut slab| {
        if registered {
            slab.populate(|| task.shared.is_stopping());
        }
        slab
    });
    populated.map_err(|error| {
        let kind = if job.buffers.memory == fathom_model::plan::Memory::Huge {
            "reserve huge pages (`sysctl vm.nr_hugepages`)"
        } else {
            "lower iodepth, bs or numjobs"
        };
        let message = format!("no memory for {depth} buffers of {bytes} bytes: {error}; {kind}");
        Refusal::by_kernel(&error, message)
    })
}

/// Makes the queue that the plan names and works with it.
fn dispatch(
    task: &Task<'_>,
    slab: Slab,
    ready: &mut Option<Ready<'_>>,
) -> Result<JobRecord, Refusal> {
    let (job, files) = (task.job, task.files);
    let depth = slab.slots();
    let needs_none = matches!(job.engine, Engine::Nop(_) | Engine::Null);
    if !needs_none && (files.is_empty() || files.len() != job.regions.len()) {
        return Err(format!(
            "{} regions and {} open files: each region needs one",
            job.regions.len(),
            files.len()
        )
        .into());
    }
    let parts = |plan| uring::Parts {
        plan,
        depth,
        files,
        slab: &slab,
        wake: task.wake,
        wait_max: job.batch.complete_min,
    };
    match &job.engine {
        Engine::IoUring(_) if trims_in_turn(job, files, usage::kernel_version()) => {
            let note =
                "discards run one at a time: io_uring discards of block devices need Linux 6.12"
                    .to_string();
            let queue = Sync::new(Psync::Plain, files, &slab, vec![note]);
            work(task, queue, slab, ready)
        }
        Engine::IoUring(plan) if plan.vectored => {
            let mode = uring::Offloaded::new(uring::Vectored::new(depth), plan.force_async);
            work(task, Uring::new(&parts(plan), mode)?, slab, ready)
        }
        Engine::IoUring(plan) if plan.force_async > 0 => {
            let mode = uring::Offloaded::new(uring::Plain::<true>, plan.force_async);
            work(task, Uring::new(&parts(plan), mode)?, slab, ready)
        }
        Engine::IoUring(plan) if uring::needs_many(&slab) => {
            work(task, Uring::new(&parts(plan), uring::Plain::<true>)?, slab, ready)
        }
        Engine::IoUring(plan) => {
            work(task, Uring::new(&parts(plan), uring::Plain::<false>)?, slab, ready)
        }
        Engine::IoUringCmd(plan) => {
            check_passthrough(job, files)?;
            let mode = uring::Passthrough::new(depth);
            let queue = Uring::new(&parts(plan), mode)?;
            work(task, queue, slab, ready)
        }
        Engine::Nop(plan) => {
            let queue = Uring::new(&parts(plan), uring::Nop::new(depth))?;
            work(task, queue, slab, ready)
        }
        Engine::Libaio if job.access.mix.has(Dir::Trim) => {
            Err("libaio has no trim; use --ioengine=io_uring or psync".to_string().into())
        }
        Engine::Libaio => {
            let queue = Libaio::new(depth, files, &slab)?;
            work(task, queue, slab, ready)
        }
        Engine::Psync(call) => {
            let queue = Sync::new(*call, files, &slab, Vec::new());
            work(task, queue, slab, ready)
        }
        Engine::Null => work(task, Null::new(depth), slab, ready),
    }
}

/// Whether discards must run one at a time: kernels before 6.12 know none through io_uring.
fn trims_in_turn(job: &JobPlan, files: &[OpenFile], kernel: (u32, u32)) -> bool {
    let on_device = files.iter().any(|f| f.kind == FileKind::Block);
    let by_ring = matches!(job.engine, Engine::IoUring(_));
    by_ring && job.access.mix.has(Dir::Trim) && on_device && kernel < (6, 12)
}

fn check_passthrough(job: &JobPlan, files: &[OpenFile]) -> Result<(), String> {
    if job.access.mix.has(Dir::Trim) {
        return Err("io_uring_cmd has no trim here; use --ioengine=io_uring on the block device"
            .to_string());
    }
    for file in files {
        let FileKind::NvmeGeneric { lba_bytes, .. } = file.kind else {
            return Err(format!(
                "{}: io_uring_cmd needs an NVMe generic device such as /dev/ng0n1",
                file.path
            ));
        };
        let sizes =
            job.used_dirs().flat_map(|d| [job.access.block_sizes[d].min(), job.access.align[d]]);
        if let Some(odd) = sizes.into_iter().find(|size| size % u64::from(lba_bytes) != 0) {
            return Err(format!(
                "{}: {odd} is no multiple of the logical block of {lba_bytes} bytes; change bs",
                file.path
            ));
        }
    }
    Ok(())
}

/// Picks the cheapest source for the job, so that its loop has no branch for what it does not do.
fn work<Q: Queue>(
    task: &Task<'_>,
    queue: Q,
    slab: Slab,
    ready: &mut Option<Ready<'_>>,
) -> Result<JobRecord, Refusal> {
    let job = task.job;
    // Under a rate the clock is what counts.
    if job.is_paced() {
        return work_with(task, queue, General::new(job), slab, ready);
    }
    if let Some(source) = Simple::<Permutation, false>::new(job) {
        return work_with(task, queue, source, slab, ready);
    }
    if let Some(source) = Simple::<Uniform, false>::new(job) {
        return work_with(task, queue, source, slab, ready);
    }
    if let Some(source) = Simple::<Ascending, false>::new(job) {
        return work_with(task, queue, source, slab, ready);
    }
    if let Some(source) = Simple::<Permutation, true>::new(job) {
        return work_with(task, queue, source, slab, ready);
    }
    work_with(task, queue, General::new(job), slab, ready)
}

fn work_with<Q: Queue, S: Source>(
    task: &Task<'_>,
    queue: Q,
    source: S,
    slab: Slab,
    ready: &mut Option<Ready<'_>>,
) -> Result<JobRecord, Refusal> {
    let paths: Vec<String> = task.files.iter().map(|f| f.path.clone()).collect();
    let mut worker = Worker::new(task.job, &paths, task.shared, queue, source, slab);
    let ramp_stats = (task.job.until.ramp_ns > 0).then(Stats::default);
    let go = ready.take().is_none_or(|ready| ready(Ok(())));
    if !go {
        return Ok(JobRecord::default());
    }
    let record = measured(task, &mut worker, ramp_stats.as_ref());
    if worker.in_flight > 0 {
        // The kernel may still write into these buffers, and closing the queue may wait for that.
        std::mem::forget(worker);
    }
    Ok(record)
}

/// From the first I/O to the record.
fn measured<'a, Q: Queue, S: Source>(
    task: &Task<'a>,
    worker: &mut Worker<'a, Q, S>,
    ramp: Option<&'a Stats>,
) -> JobRecord {
    let (job, shared) = (task.job, task.shared);
    wait_until(task, clock::now_ns() + job.start_delay_ns);
    worker.now_ns = clock::now_ns();
    if job.is_paced() {
        worker.pace = Some(Pace::new(job, worker.now_ns));
    }
    let mut end = End::TimeOver;
    if let Some(ramp) = ramp {
        shared.set_phase(Phase::Ramp);
        end = worker.span(ramp, worker.now_ns + job.until.ramp_ns, None, None);
    }
    let (before, from_ns, from_unix_ns) = (usage::thread(), worker.now_ns, clock::unix_ns());
    let until_ns = job.until.runtime_ns.map_or(u64::MAX, |t| from_ns.saturating_add(t));
    if end == End::TimeOver {
        shared.measured_from_ns.store(from_ns, Release);
        shared.set_phase(Phase::Running);
        worker.begin_measuring();
        end = worker.span(&shared.stats, until_ns, job.until.ios, job.until.bytes);
    }
    shared.set_phase(Phase::Finishing);
    let unstarted = unstarted(worker, end, until_ns);
    worker.drain();
    shared.measured_to_ns.store(worker.now_ns.max(from_ns), Release);
    let usage = usage::difference(&usage::thread(), &before);
    if job.access.mix.has(Dir::Write) && (job.sync.at_end || job.sync.on_close) {
        worker.flush_all();
    }
    let mut record = record(task, worker, usage, &unstarted);
    record.started_ns = from_ns.saturating_sub(task.run_start_ns);
    record.started_unix_ns = from_unix_ns;
    record
}

/// I/Os that were scheduled before the job's time was over, or it was stopped, and never started.
fn unstarted<Q: Queue, S: Source>(
    worker: &Worker<'_, Q, S>,
    end: End,
    until_ns: u64,
) -> PerDir<u64> {
    match (&worker.pace, end) {
        (Some(pace), End::TimeOver | End::Stopped) => {
            PerDir::from_fn(|dir| pace.unstarted(dir, until_ns.min(worker.now_ns)))
        }
        _ => PerDir::default(),
    }
}

fn wait_until(task: &Task<'_>, start_ns: u64) {
    while clock::now_ns() < start_ns && !task.shared.is_stopping() {
        clock::sleep_until(start_ns.min(clock::now_ns() + 50_000_000));
    }
}

fn record<Q: Queue, S: Source>(
    task: &Task<'_>,
    worker: &mut Worker<'_, Q, S>,
    usage: Usage,
    unstarted: &PerDir<u64>,
) -> JobRecord {
    let shared = task.shared;
    let mut granted = worker.queue.granted();
    granted.direct = task.job.direct;
    granted.huge_pages = worker.is_huge();
    let dirs = PerDir::from_fn(|dir| {
        let stats = &shared.stats.dirs[dir];
        let mut errnos = std::mem::take(&mut worker.errnos[dir]);
        errnos.sort_unstable();
        DirRecord {
            counts: stats.counts(),
            slat: stats.slat.snapshot(),
            clat: stats.clat.snapshot(),
            lat: stats.lat.snapshot(),
            response: stats.response.snapshot(),
            late_ios: stats.late_ios.get(),
            unstarted_ios: unstarted[dir],
            errnos,
            intervals: Vec::new(),
        }
    });
    JobRecord {
        error: worker.failure.take(),
        runtime_ns: shared.measured_ns(),
        dirs,
        flushes: FlushRecord {
            count: shared.stats.flushes.get(),
            lat: shared.stats.flush_lat.snapshot(),
        },
        usage,
        depth: worker.depth.record(worker.system_calls()),
        granted,
        ..JobRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::{Mix, Order, Uring};

    #[test]
    fn a_worker_that_is_stopped_while_it_is_prepared_does_no_io_and_has_not_failed() {
        let order = Order::Sequential { skip: 0 };
        let ring = Engine::IoUring(Uring { fixed_buffers: true, ..Uring::default() });
        for engine in [Engine::Null, ring] {
            let mut job = JobPlan::new("t", engine, Mix::Only(Dir::Write), order.clone());
            // No ring has so many entries: none is made.
            job.depth = 1 << 20;
            let (shared, wake) = (Shared::default(), Wake::new().unwrap());
            shared.ask_stop();
            let task =
                Task { job: &job, files: &[], shared: &shared, wake: &wake, run_start_ns: 0 };
            let mut said = None;
            let record = perform(&task, |ready| {
                said = Some(ready);
                true
            });
            assert_eq!((said, record), (Some(Ok(())), JobRecord::default()));
        }
    }

    #[test]
    fn discards_that_wait_for_their_turn_are_not_in_flight() {
        let fd = std::os::fd::OwnedFd::from(tempfile::tempfile().unwrap());
        let block = [OpenFile { fd, kind: FileKind::Block, path: "/dev/disk".to_string() }];
        let in_turn = |engine, dir, kernel| {
            let job = JobPlan::new("t", engine, Mix::Only(dir), Order::Sequential { skip: 0 });
            trims_in_turn(&job, &block, kernel)
        };
        let ring = || Engine::IoUring(Uring::default());
        assert!(in_turn(ring(), Dir::Trim, (6, 11)));
        assert!(!in_turn(ring(), Dir::Trim, (6, 12)));
        assert!(!in_turn(ring(), Dir::Write, (6, 1)));
        assert!(!in_turn(Engine::Null, Dir::Trim, (6, 1)));
    }
}
