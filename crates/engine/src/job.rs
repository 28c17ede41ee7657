//! One job from set-up to record, on its own thread.

mod dispatch;

use crate::buffers::Slab;
use crate::depth_search::DepthSearch;
use crate::entries::EntrySender;
use crate::error::{EngineError, Hint, JobResult, Operation};
use crate::files::OpenFile;
use crate::names::WorkerNames;
use crate::pace::{FlowGroup, FlowShare, Pace};
use crate::queue::{Queue, Wake};
use crate::stats::{DirStats, Shared, Stats};
use crate::thread::{self, Locked};
use crate::verify::state::State;
use crate::verify::{Helpers, JournalFile, Verifier};
use crate::worker::{AnyWorker, Core, SpanEnd};
use crate::zones::ZonedTarget;
use crate::{clock, hints};
use fathom_model::plan::{Engine, JobPlan, Memory};
use fathom_model::progress::Phase;
use fathom_model::record::{DirRecord, FlushRecord, JobRecord, Usage, VerifyRecord};
use fathom_model::{Dir, PerDir};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};

/// Workers whose I/Os did not return before the end; listed so that leak checkers do not report them.
static ABANDONED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

pub(crate) struct Task<'a> {
    pub job: &'a JobPlan,
    /// Its number among the jobs of the run.
    pub index: usize,
    pub files: &'a [OpenFile],
    /// What an engine that operates on names uses in place of files.
    pub names: Option<&'a WorkerNames>,
    pub donor: Option<&'a OwnedFd>,
    /// What takes the entries of its logs, until the worker has it.
    pub log: &'a Mutex<Option<EntrySender>>,
    /// Where its journal goes, if it keeps one, until the worker has it.
    pub journal: &'a Mutex<Option<JournalFile>>,
    pub shared: &'a Shared,
    pub wake: &'a Wake,
    pub flow: Option<&'a Arc<FlowGroup>>,
    /// The zones of targets that are used by their write pointers, by the targets' numbers.
    pub zones: &'a BTreeMap<usize, Arc<ZonedTarget>>,
    pub run_start_ns: u64,
}

/// Runs a job: sets it up, reports the result to `ready`, and does the work if `ready` returns true.
pub(crate) fn perform(
    task: &Task<'_>,
    ready: impl FnOnce(Result<(), EngineError>) -> bool,
) -> JobResult {
    // SAFETY: takes no pointers and cannot fail.
    task.shared.tid.store(unsafe { libc::gettid() }, Relaxed);
    prepare(task, ready).unwrap_or_else(JobResult::from)
}

fn prepare(
    task: &Task<'_>,
    ready: impl FnOnce(Result<(), EngineError>) -> bool,
) -> Result<JobResult, EngineError> {
    let mut locked = None;
    let ramp_stats =
        (task.job.until.ramp_ns > 0 || task.job.latency_target.is_some()).then(Stats::default);
    let verify_stats = task.job.verify.as_ref().map(|_| Stats::default());
    let set_up = prepare_thread(task, &mut locked).and_then(|()| slab(task)).and_then(|slab| {
        // If it was stopped during set-up, there is nothing to work on.
        let is_stopped = task.shared.is_stopping();
        let worker = (!is_stopped).then(|| dispatch::worker(task, slab)).transpose()?;
        worker.map(|worker| resumed(task, worker)).transpose()
    });
    let go = ready(set_up.as_ref().map(|_| ()).map_err(Clone::clone));
    let Some(mut worker) = set_up?.filter(|_| go) else { return Ok(JobResult::default()) };
    let result = measured(task, &mut *worker, ramp_stats.as_ref(), verify_stats.as_ref());
    if worker.core().in_flight > 0 {
        // The kernel may still write to these buffers, and closing the queue may block on that.
        let mut abandoned = ABANDONED.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned.push(Box::into_raw(worker).addr());
    }
    Ok(result)
}

/// The worker, which verifies only what was written before, if a file is to say what that is; an error if it could not write
/// such a file.
fn resumed<'a>(
    task: &Task<'a>,
    mut worker: Box<dyn AnyWorker<'a> + 'a>,
) -> Result<Box<dyn AnyWorker<'a> + 'a>, EngineError> {
    let Some(plan) = &task.job.verify else { return Ok(worker) };
    if plan.save_state && !plan.state_optional {
        State::check_place(&plan.state_file)?;
    }
    if let Some(verifier) = worker.core().verifier().filter(|_| plan.load_state) {
        verifier.resume(State::load(&plan.state_file, task.job.depth)?);
    }
    worker.core().verify_with(Helpers::new(plan, task.job.depth)?);
    Ok(worker)
}

/// Writes to a file which writes took place, for a verification by another run.
fn save_state(task: &Task<'_>, core: &mut Core<'_>) -> Option<EngineError> {
    let plan = task.job.verify.as_ref().filter(|plan| plan.save_state)?;
    let lost = core.lost();
    let state = core.verifier()?.state(&lost);
    state.save(&plan.state_file, &task.job.name, task.index, task.job.depth).err()
}

/// `locked` is the memory that stays locked until the job has ended.
fn prepare_thread(task: &Task<'_>, locked: &mut Option<Locked>) -> Result<(), EngineError> {
    *locked = Some(Locked::new(task.job.placement.locked_bytes)?);
    thread::apply(&task.job.placement)?;
    hints::apply(task.job, task.files)?;
    hints::pre_read(task.job, task.files, || task.shared.is_stopping())?;
    thread::become_user(&task.job.placement)
}

fn slab(task: &Task<'_>) -> Result<Slab, EngineError> {
    let job = task.job;
    let (depth, bytes) = (job.depth, job.buffer_bytes());
    let slab = Slab::new(depth, bytes, &job.buffers);
    let registered = job.engine.uring().is_some_and(|ring| ring.fixed_buffers);
    let populated = slab.map(|mut slab| {
        if registered {
            slab.populate(|| task.shared.is_stopping());
        }
        slab
    });
    populated.map_err(|error| {
        let hint = match job.buffers.memory {
            Memory::Huge => Hint::NoHugePages,
            Memory::Normal => Hint::None,
        };
        let op = Operation::AllocateBuffers { count: depth, bytes };
        EngineError::by_kernel(op, &error).hint(hint)
    })
}

fn measured<'a>(
    task: &Task<'a>,
    worker: &mut (dyn AnyWorker<'a> + 'a),
    ramp: Option<&'a Stats>,
    verify: Option<&'a Stats>,
) -> JobResult {
    let (job, shared) = (task.job, task.shared);
    wait_until(task, clock::now_ns() + job.start_delay_ns);
    if let Err(error) = worker.core().zones.as_ref().map_or(Ok(()), |zones| zones.begin()) {
        return error.into();
    }
    worker.core().now_ns = clock::now_ns();
    if job.is_held_back() {
        let flow = job.flow.zip(task.flow);
        let flow = flow.map(|(plan, group)| FlowShare::new(plan, Arc::clone(group)));
        let core = worker.core();
        core.pace = Some(Pace::new(job, core.now_ns, flow));
    }
    worker.core().begin_io_time();
    let mut end = ramped(task, worker, ramp, verify);
    let mut search = job.latency_target.map(|target| DepthSearch::new(target, job.depth));
    let now_ns = worker.core().now_ns;
    let mut until_ns = job.until.runtime_ns.map_or(u64::MAX, |t| now_ns.saturating_add(t));
    if let (Some(target), Some(search), Some(stats)) = (job.latency_target, &mut search, ramp)
        && !target.run
        && end == SpanEnd::TimeOver
    {
        shared.set_phase(Phase::Ramp);
        end = search.find(worker, stats, until_ns);
        until_ns = worker.core().now_ns.saturating_add(target.window_ns);
    }
    let (before, from_ns, from_unix_ns) = (thread::usage(), worker.core().now_ns, clock::unix_ns());
    let verified_before_ns = worker.core().verify_cpu_ns();
    if end == SpanEnd::TimeOver {
        shared.measured_from_ns.store(from_ns, Release);
        shared.set_phase(Phase::Running);
        let (core, queue) = worker.parts();
        core.begin_measuring(queue.system_calls());
        end = match &mut search {
            Some(search) if job.latency_target.is_some_and(|target| target.run) => {
                search.follow(worker, &shared.stats, until_ns, || left(task))
            }
            _ => passes(task, worker, until_ns, verify),
        };
    }
    shared.set_phase(Phase::Finishing);
    let unstarted = unstarted(worker.core(), end, until_ns);
    worker.drain();
    // As in fio, these flushes count towards the runtime, and so do they in the bandwidth.
    if job.modifies(Dir::Write) && (job.sync.at_end || job.sync.on_close) {
        worker.flush_all();
    }
    worker.core().pace = None;
    shared.measured_to_ns.store(worker.core().now_ns.max(from_ns), Release);
    let mut usage = thread::usage_since(&before);
    usage.user_ns += worker.core().verify_cpu_ns() - verified_before_ns;
    if let Some(stats) = verify.filter(|_| end != SpanEnd::Stopped) {
        read_back(task, worker, stats);
    }
    worker.core().sync_journal();
    let (core, queue) = worker.parts();
    let unsaved = save_state(task, core);
    let finished = queue.finish();
    let mut record = record(task, core, queue, usage, &unstarted);
    record.target = search.map(|search| search.record());
    record.verify = verify.and_then(|stats| verify_record(core, stats));
    record.started_ns = from_ns.saturating_sub(task.run_start_ns);
    record.started_unix_ns = from_unix_ns;
    let mut fallbacks = queue.fallbacks().to_vec();
    let is_optional = task.job.verify.as_ref().is_some_and(|plan| plan.state_optional);
    let unsaved = match is_optional {
        true => {
            fallbacks.extend(unsaved);
            None
        }
        false => unsaved,
    };
    let error = core.failure.take().or(finished.err()).or(unsaved);
    let dumps = core.verifier().map(|verifier| std::mem::take(&mut verifier.dumps));
    JobResult { record, error, fallbacks, dumps: dumps.unwrap_or_default() }
}

/// The I/Os before the measured time (`ramp_time`), if there are any.
fn ramped<'a>(
    task: &Task<'a>,
    worker: &mut (dyn AnyWorker<'a> + 'a),
    ramp: Option<&'a Stats>,
    verify: Option<&'a Stats>,
) -> SpanEnd {
    let ramp_ns = task.job.until.ramp_ns;
    let only_verifies = task.job.verify.as_ref().is_some_and(|verify| verify.only);
    let Some(stats) = ramp.filter(|_| !only_verifies && ramp_ns > 0) else {
        return SpanEnd::TimeOver;
    };
    task.shared.set_phase(Phase::Ramp);
    let until_ns = worker.core().now_ns + ramp_ns;
    let end = worker.span(stats, until_ns, None, None);
    with_backlog(task, worker, end, verify)
}

/// Of the I/Os and bytes of the job, those that are still to be done.
fn left(task: &Task<'_>) -> (Option<u64>, Option<u64>) {
    let (ios, bytes) = task.shared.totals();
    let left = |most: Option<u64>, done| most.map(|most| most.saturating_sub(done));
    (left(task.job.until.ios, ios), left(task.job.until.bytes, bytes))
}

/// The measured I/Os, pass by pass where each is to find its files without blocks (`unlink_each_loop`).
fn passes<'a>(
    task: &Task<'a>,
    worker: &mut (dyn AnyWorker<'a> + 'a),
    until_ns: u64,
    verify: Option<&'a Stats>,
) -> SpanEnd {
    let until = &task.job.until;
    if worker.core().verifier().is_some_and(|verifier| verifier.only()) {
        worker.count_writes(until.ios, until.bytes);
        return read_all(task, worker, &task.shared.stats, until_ns);
    }
    let count = u64::from(task.job.fresh_passes.max(1));
    let each = |all: Option<u64>| all.map(|all| all / count);
    let most = worker.core().verifier().and_then(|verifier| verifier.reads_max());
    let ios = each(until.ios).into_iter().chain(most).min();
    for pass in 1..=count {
        let end = worker.span(&task.shared.stats, until_ns, ios, each(until.bytes));
        let end = with_backlog(task, worker, end, verify);
        if end != SpanEnd::Finished || pass == count {
            return end;
        }
        worker.core().verifier().into_iter().for_each(Verifier::forget_all);
        worker.core().write_ahead();
        if let Err(error) = hints::free_blocks(task.files, &task.job.regions) {
            worker.core().failure.get_or_insert(error);
            return SpanEnd::Failed;
        }
        worker.core().now_ns = clock::now_ns();
    }
    SpanEnd::Finished
}

/// Reads back what the job wrote and has not verified yet, after its measured time.
fn read_back<'a>(task: &Task<'a>, worker: &mut (dyn AnyWorker<'a> + 'a), stats: &'a Stats) {
    let reads_back = worker.core().verifier().is_some_and(|v| v.reads_back() && !v.only());
    if !reads_back || worker.core().has_failed() {
        return;
    }
    task.shared.set_phase(Phase::Verifying);
    let from_ns = clock::now_ns();
    worker.core().now_ns = from_ns;
    // No page that is dirty can be dropped.
    let cached = task.files.iter().enumerate().filter(|(_, file)| !hints::is_passthrough(file));
    for (index, file) in cached {
        worker.core().verifier().into_iter().for_each(|v| v.flush_begun(index as u32));
        if let Err(error) = rustix::fs::fdatasync(&file.fd) {
            let error = EngineError::by(Operation::Fdatasync)(error).on(&file.path);
            worker.core().failure.get_or_insert(error);
            return;
        }
        worker.core().verifier().into_iter().for_each(|v| v.flush_completed(index as u32));
    }
    worker.core().sync_journal();
    read_all(task, worker, stats, u64::MAX);
    worker.drain();
    let runtime_ns = worker.core().now_ns.saturating_sub(from_ns);
    if let Some(verifier) = worker.core().verifier() {
        verifier.record.runtime_ns += runtime_ns;
    }
    task.shared.set_phase(Phase::Finishing);
}

/// Reads what was written and has not been verified, from the target, in the order of offsets.
fn read_all<'a>(
    task: &Task<'a>,
    worker: &mut (dyn AnyWorker<'a> + 'a),
    stats: &'a Stats,
    until_ns: u64,
) -> SpanEnd {
    // Pages that are mapped cannot be dropped.
    worker.parts().1.mappings().into_iter().for_each(hints::unmap_pages);
    task.files.iter().zip(&task.job.regions).for_each(|(file, r)| hints::drop_pages(file.raw(), r));
    loop {
        let chunk = worker.core().verifier().map(|verifier| verifier.next_chunk());
        let Some(chunk) = chunk.filter(|chunk| !chunk.is_empty()) else {
            return SpanEnd::Finished;
        };
        let all: u64 = chunk.iter().map(|read| u64::from(read.len)).sum();
        let read = |worker: &mut (dyn AnyWorker<'a> + 'a)| {
            worker.core().verifier().map_or(0, |verifier| verifier.record.bytes)
        };
        let before = read(worker);
        let end = worker.interpose(chunk, stats, until_ns);
        if end != SpanEnd::Finished {
            let left = all.saturating_sub(read(worker) - before);
            worker.core().verifier().into_iter().for_each(|v| v.record.unread_bytes += left);
            return end;
        }
    }
}

fn verify_record(core: &mut Core<'_>, stats: &Stats) -> Option<VerifyRecord> {
    let verifier = core.verifier()?;
    verifier.record.unread_bytes += verifier.bytes_left();
    let record = std::mem::take(&mut verifier.record);
    Some(VerifyRecord { reads: dir_record(&stats.dirs[Dir::Read]), ..record })
}

fn dir_record(stats: &DirStats) -> DirRecord {
    DirRecord {
        counts: stats.counts(),
        slat: stats.slat.snapshot(),
        clat: stats.clat.snapshot(),
        lat: stats.lat.snapshot(),
        response: stats.response.snapshot(),
        late_ios: stats.late_ios.get(),
        ..DirRecord::default()
    }
}

/// Trims and reads back whenever that is due (`trim_backlog`, `verify_backlog`), and goes on with the span, which ended with `end`.
fn with_backlog<'a>(
    task: &Task<'a>,
    worker: &mut (dyn AnyWorker<'a> + 'a),
    end: SpanEnd,
    verify: Option<&'a Stats>,
) -> SpanEnd {
    let mut end = end;
    // Trims may be due at the end, too.
    while let (SpanEnd::VerifyDue | SpanEnd::Finished, Some(stats)) = (end, verify) {
        let (until_ns, own) = (worker.core().until_ns, worker.core().stats);
        let trims = worker.core().trims_due();
        if trims.is_empty() && end == SpanEnd::Finished {
            return end;
        }
        if !trims.is_empty() {
            let trimmed = worker.interpose(trims, own, until_ns);
            if trimmed != SpanEnd::Finished || end == SpanEnd::Finished {
                return trimmed;
            }
        }
        let (phase, from_ns) = (task.shared.phase(), worker.core().now_ns);
        task.shared.set_phase(Phase::Verifying);
        let due = worker.core().verifier().map(|verifier| verifier.due()).unwrap_or_default();
        end = worker.interpose(due.clone(), stats, until_ns);
        let took_ns = worker.core().now_ns.saturating_sub(from_ns);
        let verifier = worker.core().verifier();
        verifier.into_iter().for_each(|verifier| verifier.record.runtime_ns += took_ns);
        task.shared.set_phase(phase);
        if let (Some(verifier), SpanEnd::Finished) = (worker.core().verifier(), end) {
            // Once is enough.
            due.iter().for_each(|read| verifier.forget(read));
            end = worker.work();
        }
    }
    end
}

/// I/Os scheduled before the job ended or was stopped, but never started.
fn unstarted(core: &Core<'_>, end: SpanEnd, until_ns: u64) -> PerDir<u64> {
    match (&core.pace, end) {
        (Some(pace), SpanEnd::TimeOver | SpanEnd::Stopped) => {
            PerDir::from_fn(|dir| pace.unstarted(dir, until_ns.min(core.now_ns)))
        }
        _ => PerDir::default(),
    }
}

fn wait_until(task: &Task<'_>, start_ns: u64) {
    while clock::now_ns() < start_ns && !task.shared.is_stopping() {
        clock::sleep_until(start_ns.min(clock::now_ns() + 50_000_000));
    }
}

fn record(
    task: &Task<'_>,
    core: &mut Core<'_>,
    queue: &dyn Queue,
    usage: Usage,
    unstarted: &PerDir<u64>,
) -> JobRecord {
    let shared = task.shared;
    let mut granted = queue.granted();
    // Mappings always are of the page cache.
    granted.direct = task.job.direct && task.job.engine != Engine::Mmap;
    granted.huge_pages = core.is_huge();
    core.pauses();
    let mut priorities = core.observer.as_mut().map(|o| o.priorities()).unwrap_or_default();
    let dirs = PerDir::from_fn(|dir| {
        let mut errnos = std::mem::take(&mut core.errnos[dir]);
        errnos.sort_unstable();
        DirRecord {
            unstarted_ios: unstarted[dir],
            errnos,
            priorities: std::mem::take(&mut priorities[dir]),
            ..dir_record(&shared.stats.dirs[dir])
        }
    });
    JobRecord {
        runtime_ns: shared.measured_ns(),
        dirs,
        flushes: FlushRecord {
            count: shared.stats.flushes.get(),
            lat: shared.stats.flush_lat.snapshot(),
        },
        usage,
        depth: core.depth.record(queue.system_calls() - core.calls_before),
        granted,
        zone_resets: core.zones.as_ref().map_or(0, |zones| zones.resets()),
        log_wait_ns: core.observer.as_ref().map_or(0, |observer| observer.log_wait_ns()),
        ..JobRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::{Mix, Order, Uring};

    #[test]
    fn a_worker_stopped_during_set_up_does_no_io_and_has_not_failed() {
        let order = Order::Sequential { skip: 0 };
        let ring = Engine::IoUring(Uring { fixed_buffers: true, ..Uring::default() });
        for engine in [Engine::Null, ring] {
            let mut job = JobPlan::new("t", engine, Mix::Only(Dir::Write), order.clone());
            // Exceeds the ring's maximum: creating it would fail.
            job.depth = 1 << 20;
            let (shared, wake) = (Shared::default(), Wake::new().unwrap());
            shared.ask_stop();
            let task = Task {
                job: &job,
                index: 0,
                files: &[],
                names: None,
                donor: None,
                log: &Mutex::new(None),
                journal: &Mutex::new(None),
                shared: &shared,
                wake: &wake,
                flow: None,
                zones: &BTreeMap::new(),
                run_start_ns: 0,
            };
            let mut reported = None;
            let record = perform(&task, |ready| {
                reported = Some(ready);
                true
            });
            assert_eq!((reported, record), (Some(Ok(())), JobResult::default()));
        }
    }
}
