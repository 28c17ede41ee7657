//! A run: starts the workers of a plan wave by wave, supervises and joins them.

use crate::entries::EntrySender;
use crate::error::{EngineError, JobResult, Operation};
use crate::files::OpenFile;
use crate::job::{self, Task};
use crate::names::WorkerNames;
use crate::pace::{self, FlowGroup};
use crate::queue::Wake;
use crate::rate_floor::{self, FloorCheck};
use crate::stall::{self, Overdue, StallDetector};
use crate::stats::Shared;
use crate::verify::JournalFile;
use crate::zones::{self, ZonedTarget};
use crate::{clock, posixaio, until_steady};
use fathom_model::plan::{Engine, ExitWhat, JobPlan, Plan, STACK_BYTES};
use fathom_model::progress::{JobProgress, JobTotals, Phase, Progress};
use fathom_model::record::JobRecord;
use fathom_model::{Dir, PerDir, list};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Interval of bandwidth statistics, as fio's `bwavgtime`.
const INTERVAL: Duration = Duration::from_millis(500);

struct Member {
    shared: Shared,
    wake: Wake,
}

#[derive(Default)]
pub struct JobInput {
    pub files: Vec<OpenFile>,
    pub names: Option<WorkerNames>,
    /// The file whose blocks it exchanges with those of `files`.
    pub donor: Option<OwnedFd>,
    pub log: Mutex<Option<EntrySender>>,
    /// Where the journal of what it writes goes, if it keeps one.
    pub journal: Mutex<Option<JournalFile>>,
    /// Called by the worker with true before its first I/O, and with false after its last.
    pub on_work: Option<Box<dyn Fn(bool) + Send + Sync>>,
}

struct RunState {
    jobs: Vec<JobPlan>,
    inputs: Vec<JobInput>,
    members: Vec<Member>,
    flows: BTreeMap<u32, Arc<FlowGroup>>,
    zones: BTreeMap<usize, Arc<ZonedTarget>>,
    start_ns: u64,
    stopped: AtomicBool,
    over: Mutex<bool>,
    over_changed: Condvar,
}

impl RunState {
    fn stop(&self, index: usize) {
        self.members[index].shared.ask_stop();
        self.members[index].wake.wake();
    }

    fn stop_all(&self) {
        self.stopped.store(true, Release);
        (0..self.members.len()).for_each(|index| self.stop(index));
    }
}

pub struct Running {
    state: Arc<RunState>,
    supervisor: thread::JoinHandle<Vec<JobResult>>,
}

/// Starts the jobs of `plan`. `files` holds, per job, one open file per region.
pub fn start(plan: &Plan, files: Vec<Vec<OpenFile>>) -> Result<Running, EngineError> {
    let input = |files| JobInput { files, ..JobInput::default() };
    start_with(plan, files.into_iter().map(input).collect())
}

pub fn start_with(plan: &Plan, inputs: Vec<JobInput>) -> Result<Running, EngineError> {
    let failed = |error: std::io::Error| EngineError::by_kernel(Operation::Start, &error);
    stall::install_handler().map_err(failed)?;
    posixaio::allow_threads(&plan.jobs);
    let member = |_| Ok(Member { shared: Shared::default(), wake: Wake::new()? });
    let members = plan.jobs.iter().map(member).collect::<std::io::Result<_>>();
    let state = Arc::new(RunState {
        jobs: plan.jobs.clone(),
        zones: zones::targets(&plan.jobs, &inputs)?,
        flows: pace::groups(plan.jobs.iter().map(|job| job.flow)),
        inputs,
        members: members.map_err(failed)?,
        start_ns: clock::now_ns(),
        stopped: AtomicBool::new(false),
        over: Mutex::new(false),
        over_changed: Condvar::new(),
    });
    let shared = Arc::clone(&state);
    let supervisor = thread::Builder::new().name("supervisor".into()).spawn(move || {
        let results = supervise(&shared);
        *shared.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        shared.over_changed.notify_all();
        results
    });
    let supervisor =
        supervisor.map_err(|error| EngineError::by_kernel(Operation::SpawnWorker, &error))?;
    Ok(Running { state, supervisor })
}

impl Running {
    pub fn progress(&self) -> Progress {
        let jobs = self.state.jobs.iter().zip(&self.state.members);
        Progress {
            elapsed_ns: clock::now_ns() - self.state.start_ns,
            jobs: jobs.map(|(job, member)| progress(job, &member.shared)).collect(),
        }
    }

    pub fn totals(&self, index: usize) -> JobTotals {
        self.state.members[index].shared.job_totals()
    }

    /// Ends the run early; workers wait for their I/Os in flight.
    pub fn stop(&self) {
        self.state.stop_all();
    }

    /// Waits for all workers, at most `timeout`; returns whether they have ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        let over = self.state.over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.state.over_changed.wait_timeout_while(over, timeout, |over| !*over);
        let (over, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *over || self.supervisor.is_finished()
    }

    pub fn is_over(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    pub fn thread_ids(&self) -> Vec<Option<i32>> {
        let live = |m: &Member| matches!(m.shared.phase(), Phase::Ramp | Phase::Running);
        self.state.members.iter().map(|m| live(m).then(|| m.shared.tid.load(Relaxed))).collect()
    }

    pub fn join(self) -> Vec<JobResult> {
        let count = self.state.jobs.len();
        self.supervisor
            .join()
            .unwrap_or_else(|_| vec![EngineError::new(Operation::Supervise).into(); count])
    }
}

fn progress(job: &JobPlan, shared: &Shared) -> JobProgress {
    let mut progress = shared.progress();
    let (ios, bytes) = shared.totals();
    let share =
        |part: u64, whole: Option<u64>| whole.map_or(0.0, |w| part as f64 / w.max(1) as f64);
    let replayed = job.replay.as_ref().and_then(|replay| {
        let once: u64 = replay.ios.iter().map(|(_, ios)| ios).sum();
        Some(once.saturating_mul(replay.passes?.into()))
    });
    progress.done = match progress.phase {
        Phase::Waiting | Phase::Ramp => 0.0,
        Phase::Verifying | Phase::Finishing | Phase::Done => 1.0,
        Phase::Running => share(ios, job.until.ios)
            .max(share(ios, replayed))
            .max(share(bytes, job.until.bytes))
            .max(share(shared.measured_ns(), job.until.runtime_ns))
            .min(1.0),
    };
    progress
}

enum WorkerEvent {
    Ready(usize, Result<(), EngineError>),
    Ended(usize, Box<JobResult>),
}

#[derive(Default)]
struct Barrier {
    go: Mutex<Option<bool>>,
    changed: Condvar,
}

impl Barrier {
    fn wait(&self) -> bool {
        let mut go = self.go.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(go) = *go {
                return go;
            }
            go = self.changed.wait(go).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn decide(&self, go: bool) {
        *self.go.lock().unwrap_or_else(PoisonError::into_inner) = Some(go);
        self.changed.notify_all();
    }
}

fn supervise(state: &Arc<RunState>) -> Vec<JobResult> {
    let mut results = vec![JobResult::default(); state.jobs.len()];
    for wave in list::ascending(state.jobs.iter().map(|job| job.wave)) {
        let members: Vec<usize> =
            (0..state.jobs.len()).filter(|i| state.jobs[*i].wave == wave).collect();
        if state.stopped.load(Acquire) || !run_wave(state, &members, &mut results) {
            break;
        }
    }
    for member in &state.members {
        member.shared.set_phase(Phase::Done);
    }
    results
}

/// Runs the jobs of one wave; false when some could not be set up, in which case none ran.
fn run_wave(state: &Arc<RunState>, members: &[usize], results: &mut [JobResult]) -> bool {
    let (events, inbox) = channel();
    let barrier = Arc::new(Barrier::default());
    let mut pending = 0;
    let mut go = true;
    for index in members {
        match spawn(state, *index, events.clone(), Arc::clone(&barrier)) {
            Ok(()) => pending += 1,
            Err(error) => {
                results[*index] = EngineError::by_kernel(Operation::SpawnWorker, &error).into();
                go = false;
            }
        }
    }
    drop(events);
    go &= all_ready(&inbox, pending, results);
    barrier.decide(go);
    if go {
        supervise_wave(state, members, &inbox, results);
    }
    go
}

fn spawn(
    state: &Arc<RunState>,
    index: usize,
    events: Sender<WorkerEvent>,
    barrier: Arc<Barrier>,
) -> std::io::Result<()> {
    let state = Arc::clone(state);
    let name = format!("worker-{index}");
    thread::Builder::new().name(name).stack_size(STACK_BYTES as usize).spawn(move || {
        let member = &state.members[index];
        let task = Task {
            job: &state.jobs[index],
            index,
            files: &state.inputs[index].files,
            names: state.inputs[index].names.as_ref(),
            donor: state.inputs[index].donor.as_ref(),
            log: &state.inputs[index].log,
            journal: &state.inputs[index].journal,
            shared: &member.shared,
            wake: &member.wake,
            flow: state.jobs[index].flow.and_then(|flow| state.flows.get(&flow.id)),
            zones: &state.zones,
            run_start_ns: state.start_ns,
        };
        let (works, on_work) = (Cell::new(false), state.inputs[index].on_work.as_ref());
        let perform = || {
            job::perform(&task, |ready| {
                works.set(true);
                on_work.iter().for_each(|call| call(true));
                // A supervisor that has ended no longer needs the work.
                events.send(WorkerEvent::Ready(index, ready)).is_ok() && barrier.wait()
            })
        };
        // A panic in a worker must be reported as this job's failure.
        let result = catch_unwind(AssertUnwindSafe(perform)).unwrap_or_else(|_| {
            let error = EngineError::new(Operation::Work);
            let _ = events.send(WorkerEvent::Ready(index, Err(error.clone())));
            error.into()
        });
        on_work.filter(|_| works.get()).iter().for_each(|call| call(false));
        member.shared.set_phase(Phase::Done);
        // Without a receiver, the result is no longer needed.
        let _ = events.send(WorkerEvent::Ended(index, Box::new(result)));
    })?;
    Ok(())
}

/// Waits until all workers of a wave are set up; records the errors of those that failed.
fn all_ready(inbox: &Receiver<WorkerEvent>, mut pending: usize, results: &mut [JobResult]) -> bool {
    let mut all = true;
    while pending > 0 {
        match inbox.recv() {
            Ok(WorkerEvent::Ready(index, result)) => {
                pending -= 1;
                if let Err(error) = result {
                    all = false;
                    results[index].error = Some(error);
                }
            }
            Ok(WorkerEvent::Ended(..)) => {}
            Err(_) => return false,
        }
    }
    all
}

#[derive(Default)]
struct Supervised {
    has_ended: bool,
    /// Time, I/Os and bytes at the end of each interval.
    intervals: PerDir<Vec<(u64, u64, u64)>>,
    overdue: Overdue,
    stall: StallDetector,
    floor: FloorCheck,
    too_slow: Option<EngineError>,
}

impl Supervised {
    /// At the end of an interval; returns whether the job must stop.
    fn check(&mut self, job: &JobPlan, shared: &Shared) -> bool {
        self.sample(shared);
        let too_slow = self.floor.check(&job.rate_floor, shared);
        let must_stop = too_slow.is_some() || rate_floor::is_too_late(&job.rate_floor, shared);
        self.too_slow = too_slow.or(self.too_slow.take());
        if job.engine.uring().is_some() && self.stall.check(shared, clock::now_ns()) {
            stall::interrupt(shared.tid.load(Relaxed));
        }
        must_stop
    }

    fn sample(&mut self, shared: &Shared) {
        if shared.phase() != Phase::Running {
            return;
        }
        let at = shared.measured_ns();
        for dir in Dir::ALL {
            let (counts, intervals) = (shared.stats.dirs[dir].counts(), &mut self.intervals[dir]);
            if counts.ios > 0 || !intervals.is_empty() {
                intervals.push((at, counts.ios, counts.bytes));
            }
        }
    }

    fn complete(&mut self, job: &JobPlan, result: &mut JobResult) {
        self.has_ended = true;
        let late = rate_floor::latency_error(&job.rate_floor, &result.record);
        if let Some(error) = self.too_slow.take().or(late) {
            result.error.get_or_insert(error);
        }
    }
}

fn supervise_wave(
    state: &RunState,
    members: &[usize],
    inbox: &Receiver<WorkerEvent>,
    results: &mut [JobResult],
) {
    let mut jobs: BTreeMap<usize, Supervised> =
        members.iter().map(|index| (*index, Supervised::default())).collect();
    end_loads(state, &jobs);
    let mut steady = until_steady::checks(&state.jobs, members);
    let mut next_sample = clock::now_ns() + INTERVAL.as_nanos() as u64;
    while jobs.values().any(|job| !job.has_ended) {
        let wait = Duration::from_nanos(next_sample.saturating_sub(clock::now_ns()).max(1_000_000));
        match inbox.recv_timeout(wait) {
            Ok(WorkerEvent::Ended(index, result)) => {
                results[index] = *result;
                if let Some(job) = jobs.get_mut(&index) {
                    job.complete(&state.jobs[index], &mut results[index]);
                }
                end_others(state, index, results[index].error.is_some(), &jobs);
                end_loads(state, &jobs);
            }
            Ok(WorkerEvent::Ready(..)) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let is_due = clock::now_ns() >= next_sample;
        if is_due {
            next_sample += INTERVAL.as_nanos() as u64;
        }
        for check in steady.iter_mut().filter(|_| is_due) {
            if check.check(|job| &state.members[job].shared) {
                check.jobs.iter().for_each(|job| state.stop(*job));
            }
        }
        for (index, job) in jobs.iter_mut().filter(|(_, job)| !job.has_ended) {
            let shared = &state.members[*index].shared;
            if is_due && job.check(&state.jobs[*index], shared) {
                state.stop(*index);
            }
            let now = clock::now_ns();
            if job.overdue.is_over(shared, now) {
                state.stop(*index);
            }
            // Abandoned: a thread blocked in the kernel cannot be terminated, and the other results must not be lost.
            if job.overdue.is_stuck(now) {
                job.has_ended = true;
                results[*index] = partial(shared, state.start_ns);
            }
        }
    }
    for check in steady {
        if let Some(last) = check.jobs.last() {
            results[*last].record.steady = Some(check.record);
        }
    }
    for (index, job) in jobs {
        let record = &mut results[index].record;
        record.lost_wakeups = job.stall.lost();
        let mut intervals = job.intervals;
        Dir::ALL
            .iter()
            .for_each(|dir| record.dirs[*dir].intervals = std::mem::take(&mut intervals[*dir]));
    }
}

/// Stops the jobs that end with this one (`exitall`, `exitall_on_error`, `exit_what`).
fn end_others(state: &RunState, index: usize, failed: bool, wave: &BTreeMap<usize, Supervised>) {
    let job = &state.jobs[index];
    match job.exit_what {
        _ if !(job.exitall || job.exitall_on_error && failed) => {}
        ExitWhat::All => state.stop_all(),
        ExitWhat::Stonewall => {
            let running = wave.iter().filter(|(_, job)| !job.has_ended);
            running.for_each(|(other, _)| state.stop(*other));
        }
        ExitWhat::Group => (0..state.jobs.len())
            .filter(|other| state.jobs[*other].group == job.group)
            .for_each(|other| state.stop(other)),
    }
}

/// Stops loads on CPUs that end with the I/O (`exit_on_io_done`), once only loads are left.
fn end_loads(state: &RunState, wave: &BTreeMap<usize, Supervised>) {
    let load = |job: usize| match state.jobs[job].engine {
        Engine::Cpu(load) => Some(load.ends_with_io),
        _ => None,
    };
    let running = || wave.iter().filter(|(_, job)| !job.has_ended).map(|(job, _)| *job);
    if running().all(|job| load(job).is_some()) {
        running().filter(|job| load(*job) == Some(true)).for_each(|job| state.stop(job));
    }
}

fn partial(shared: &Shared, start_ns: u64) -> JobResult {
    let mut record = JobRecord {
        started_ns: shared.measured_from_ns.load(Acquire).saturating_sub(start_ns),
        runtime_ns: shared.measured_ns(),
        ..JobRecord::default()
    };
    for dir in Dir::ALL {
        let stats = &shared.stats.dirs[dir];
        record.dirs[dir].counts = stats.counts();
        record.dirs[dir].clat = stats.clat.snapshot();
        record.dirs[dir].lat = stats.lat.snapshot();
        record.dirs[dir].slat = stats.slat.snapshot();
    }
    let error = EngineError::new(Operation::EndWorker).errno(libc::ETIMEDOUT);
    JobResult { record, ..error.into() }
}
