//! A run: starts the workers of a plan wave by wave, supervises and joins them.

use crate::clock;
use crate::entries::EntrySender;
use crate::error::{EngineError, JobResult, Operation};
use crate::files::OpenFile;
use crate::flow::{self, FlowGroup};
use crate::job::{self, Task};
use crate::names::NameTable;
use crate::overdue::Overdue;
use crate::posixaio;
use crate::rate_floor::{self, FloorCheck};
use crate::stall::{self, StallDetector};
use crate::stats::Shared;
use crate::wake::Wake;
use fathom_model::plan::{ExitWhat, JobPlan, Plan, STACK_BYTES};
use fathom_model::progress::{JobProgress, JobTotals, Phase, Progress};
use fathom_model::record::JobRecord;
use fathom_model::{Dir, PerDir};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Interval of bandwidth statistics, as fio's `bwavgtime`.
const INTERVAL: Duration = Duration::from_millis(500);

/// One worker as the run sees it.
struct Member {
    shared: Shared,
    wake: Wake,
}

/// What a job works on.
#[derive(Default)]
pub struct JobInput {
    /// One open file per region.
    pub files: Vec<OpenFile>,
    /// What an engine that operates on names uses.
    pub names: Option<NameTable>,
    /// What takes the entries of its logs, if each I/O has one.
    pub log: Mutex<Option<EntrySender>>,
    /// Called by the worker with true before its first I/O, and with false after its last.
    pub on_work: Option<Box<dyn Fn(bool) + Send + Sync>>,
}

struct State {
    jobs: Vec<JobPlan>,
    inputs: Vec<JobInput>,
    members: Vec<Member>,
    flows: BTreeMap<u32, Arc<FlowGroup>>,
    start_ns: u64,
    stopped: AtomicBool,
    over: Mutex<bool>,
    over_changed: Condvar,
}

impl State {
    fn stop(&self, index: usize) {
        self.members[index].shared.ask_stop();
        self.members[index].wake.wake();
    }

    fn stop_all(&self) {
        self.stopped.store(true, Release);
        (0..self.members.len()).for_each(|index| self.stop(index));
    }
}

/// A run in progress.
pub struct Running {
    state: Arc<State>,
    conductor: thread::JoinHandle<Vec<JobResult>>,
}

/// Starts the jobs of `plan`. `files` holds, per job, one open file per region.
///
/// # Errors
///
/// If threads or descriptors cannot be created. Errors of a job are in its result.
pub fn start(plan: &Plan, files: Vec<Vec<OpenFile>>) -> Result<Running, EngineError> {
    let input = |files| JobInput { files, ..JobInput::default() };
    start_with(plan, files.into_iter().map(input).collect())
}

/// Starts the jobs of `plan` with an input for each.
///
/// # Errors
///
/// As [`start`].
pub fn start_with(plan: &Plan, inputs: Vec<JobInput>) -> Result<Running, EngineError> {
    let failed = |error: std::io::Error| EngineError::by_kernel(Operation::Start, &error);
    stall::install_handler().map_err(failed)?;
    posixaio::allow_threads(&plan.jobs);
    let member = |_| Ok(Member { shared: Shared::default(), wake: Wake::new()? });
    let members = plan.jobs.iter().map(member).collect::<std::io::Result<_>>();
    let state = Arc::new(State {
        jobs: plan.jobs.clone(),
        flows: flow::groups(plan.jobs.iter().map(|job| job.flow)),
        inputs,
        members: members.map_err(failed)?,
        start_ns: clock::now_ns(),
        stopped: AtomicBool::new(false),
        over: Mutex::new(false),
        over_changed: Condvar::new(),
    });
    let shared = Arc::clone(&state);
    let conductor = thread::Builder::new().name("conductor".into()).spawn(move || {
        let results = conduct(&shared);
        *shared.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        shared.over_changed.notify_all();
        results
    });
    let conductor =
        conductor.map_err(|error| EngineError::by_kernel(Operation::SpawnWorker, &error))?;
    Ok(Running { state, conductor })
}

impl Running {
    /// Progress of all workers.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let jobs = self.state.jobs.iter().zip(&self.state.members);
        Progress {
            elapsed_ns: clock::now_ns() - self.state.start_ns,
            jobs: jobs.map(|(job, member)| progress(job, &member.shared)).collect(),
        }
    }

    /// Totals of worker `index`, with all latencies.
    #[must_use]
    pub fn totals(&self, index: usize) -> JobTotals {
        self.state.members[index].shared.job_totals()
    }

    /// Ends the run early; workers wait for their I/Os in flight.
    pub fn stop(&self) {
        self.state.stop_all();
    }

    /// Waits for all workers, at most `timeout`; returns whether they have ended.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        let over = self.state.over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.state.over_changed.wait_timeout_while(over, timeout, |over| !*over);
        let (over, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *over || self.conductor.is_finished()
    }

    /// Whether all workers have ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// Thread IDs of the running workers, by job index.
    #[must_use]
    pub fn thread_ids(&self) -> Vec<Option<i32>> {
        let live = |m: &Member| matches!(m.shared.phase(), Phase::Ramp | Phase::Running);
        self.state.members.iter().map(|m| live(m).then(|| m.shared.tid.load(Relaxed))).collect()
    }

    /// Waits for all workers and returns their results in the order of the plan's jobs.
    #[must_use]
    pub fn join(self) -> Vec<JobResult> {
        let count = self.state.jobs.len();
        self.conductor
            .join()
            .unwrap_or_else(|_| vec![EngineError::new(Operation::Supervise).into(); count])
    }
}

fn progress(job: &JobPlan, shared: &Shared) -> JobProgress {
    let mut progress = shared.progress();
    let (ios, bytes) = shared.totals();
    let share =
        |part: u64, whole: Option<u64>| whole.map_or(0.0, |w| part as f64 / w.max(1) as f64);
    progress.done = match progress.phase {
        Phase::Waiting | Phase::Ramp => 0.0,
        Phase::Finishing | Phase::Done => 1.0,
        Phase::Running => share(ios, job.until.ios)
            .max(share(bytes, job.until.bytes))
            .max(share(shared.measured_ns(), job.until.runtime_ns))
            .min(1.0),
    };
    progress
}

/// Messages from a worker to the conductor.
enum Event {
    Ready(usize, Result<(), EngineError>),
    Ended(usize, Box<JobResult>),
}

/// Holds the workers of a wave until all are set up.
#[derive(Default)]
struct Barrier {
    /// Whether to start; `None` until decided.
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

fn conduct(state: &Arc<State>) -> Vec<JobResult> {
    let mut results = vec![JobResult::default(); state.jobs.len()];
    let mut waves: Vec<u32> = state.jobs.iter().map(|j| j.wave).collect();
    waves.sort_unstable();
    waves.dedup();
    for wave in waves {
        let members: Vec<usize> =
            (0..state.jobs.len()).filter(|i| state.jobs[*i].wave == wave).collect();
        if state.stopped.load(Acquire) || !perform_wave(state, &members, &mut results) {
            break;
        }
    }
    for member in &state.members {
        member.shared.set_phase(Phase::Done);
    }
    results
}

/// Runs the jobs of one wave; false when some could not be set up, in which case none ran.
fn perform_wave(state: &Arc<State>, members: &[usize], results: &mut [JobResult]) -> bool {
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
        attend(state, members, &inbox, results);
    }
    go
}

fn spawn(
    state: &Arc<State>,
    index: usize,
    events: Sender<Event>,
    barrier: Arc<Barrier>,
) -> std::io::Result<()> {
    let state = Arc::clone(state);
    let name = format!("worker-{index}");
    thread::Builder::new().name(name).stack_size(STACK_BYTES as usize).spawn(move || {
        let member = &state.members[index];
        let task = Task {
            job: &state.jobs[index],
            files: &state.inputs[index].files,
            names: state.inputs[index].names.as_ref(),
            log: &state.inputs[index].log,
            shared: &member.shared,
            wake: &member.wake,
            flow: state.jobs[index].flow.and_then(|flow| state.flows.get(&flow.id)),
            run_start_ns: state.start_ns,
        };
        let (works, on_work) = (Cell::new(false), state.inputs[index].on_work.as_ref());
        let perform = || {
            job::perform(&task, |ready| {
                works.set(true);
                on_work.iter().for_each(|call| call(true));
                // A conductor that has ended no longer needs the work.
                events.send(Event::Ready(index, ready)).is_ok() && barrier.wait()
            })
        };
        // A panic in a worker must be reported as this job's failure.
        let result = catch_unwind(AssertUnwindSafe(perform)).unwrap_or_else(|_| {
            let error = EngineError::new(Operation::Work);
            let _ = events.send(Event::Ready(index, Err(error.clone())));
            error.into()
        });
        on_work.filter(|_| works.get()).iter().for_each(|call| call(false));
        member.shared.set_phase(Phase::Done);
        // Without a receiver, the result is no longer needed.
        let _ = events.send(Event::Ended(index, Box::new(result)));
    })?;
    Ok(())
}

/// Waits until all workers of a wave are set up; records the errors of those that failed.
fn all_ready(inbox: &Receiver<Event>, mut pending: usize, results: &mut [JobResult]) -> bool {
    let mut all = true;
    while pending > 0 {
        match inbox.recv() {
            Ok(Event::Ready(index, result)) => {
                pending -= 1;
                if let Err(error) = result {
                    all = false;
                    results[index].error = Some(error);
                }
            }
            Ok(Event::Ended(..)) => {}
            Err(_) => return false,
        }
    }
    all
}

/// Supervises the workers of a wave until all have ended.
fn attend(state: &State, members: &[usize], inbox: &Receiver<Event>, results: &mut [JobResult]) {
    let mut running: Vec<usize> = members.to_vec();
    let mut intervals: Vec<PerDir<Vec<(u64, u64, u64)>>> =
        vec![PerDir::default(); state.jobs.len()];
    let mut overdue: Vec<Overdue> = state.jobs.iter().map(|_| Overdue::default()).collect();
    let mut stalls: Vec<StallDetector> =
        state.jobs.iter().map(|_| StallDetector::default()).collect();
    let mut floors: Vec<FloorCheck> = state.jobs.iter().map(|_| FloorCheck::default()).collect();
    let mut too_slow: Vec<Option<EngineError>> = vec![None; state.jobs.len()];
    let mut next_sample = clock::now_ns() + INTERVAL.as_nanos() as u64;
    while !running.is_empty() {
        let wait = Duration::from_nanos(next_sample.saturating_sub(clock::now_ns()).max(1_000_000));
        match inbox.recv_timeout(wait) {
            Ok(Event::Ended(index, result)) => {
                running.retain(|i| *i != index);
                results[index] = *result;
                let floor = &state.jobs[index].rate_floor;
                let late = rate_floor::latency_error(floor, &results[index].record);
                if let Some(error) = too_slow[index].take().or(late) {
                    results[index].error.get_or_insert(error);
                }
                let failed = results[index].error.is_some();
                end_others(state, index, failed, &running);
            }
            Ok(Event::Ready(..)) => {}
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if clock::now_ns() >= next_sample {
            next_sample += INTERVAL.as_nanos() as u64;
            for index in &running {
                let shared = &state.members[*index].shared;
                sample(shared, &mut intervals[*index]);
                let floor = &state.jobs[*index].rate_floor;
                if let Some(error) = floors[*index].check(floor, shared) {
                    too_slow[*index] = Some(error);
                    state.stop(*index);
                }
                if rate_floor::is_too_late(floor, shared) {
                    state.stop(*index);
                }
                let on_ring = state.jobs[*index].engine.uring().is_some();
                if on_ring && stalls[*index].check(shared, clock::now_ns()) {
                    stall::interrupt(shared.tid.load(Relaxed));
                }
            }
        }
        let now = clock::now_ns();
        for index in &running {
            if overdue[*index].is_over(&state.members[*index].shared, now) {
                state.stop(*index);
            }
        }
        let stuck: Vec<usize> =
            running.iter().copied().filter(|i| overdue[*i].is_stuck(now)).collect();
        abandon(state, &stuck, &mut running, results);
    }
    for index in members {
        let record = &mut results[*index].record;
        record.lost_wakeups = stalls[*index].lost();
        let seen = std::mem::take(&mut intervals[*index]);
        for dir in Dir::ALL {
            record.dirs[dir].intervals.clone_from(&seen[dir]);
        }
    }
}

/// Stops the jobs that end with this one (`exitall`, `exitall_on_error`, `exit_what`).
fn end_others(state: &State, index: usize, failed: bool, running: &[usize]) {
    let job = &state.jobs[index];
    match job.exit_what {
        _ if !(job.exitall || job.exitall_on_error && failed) => {}
        ExitWhat::All => state.stop_all(),
        ExitWhat::Stonewall => running.iter().for_each(|other| state.stop(*other)),
        ExitWhat::Group => (0..state.jobs.len())
            .filter(|other| state.jobs[*other].group == job.group)
            .for_each(|other| state.stop(other)),
    }
}

/// Appends a worker's current totals to its intervals.
fn sample(shared: &Shared, intervals: &mut PerDir<Vec<(u64, u64, u64)>>) {
    if shared.phase() != Phase::Running {
        return;
    }
    let at = shared.measured_ns();
    for dir in Dir::ALL {
        let counts = shared.stats.dirs[dir].counts();
        if counts.ios > 0 || !intervals[dir].is_empty() {
            intervals[dir].push((at, counts.ios, counts.bytes));
        }
    }
}

/// Abandons workers that do not end, with a partial result: a thread blocked in the kernel cannot be
/// terminated, and the other results must not be lost.
fn abandon(state: &State, stuck: &[usize], running: &mut Vec<usize>, results: &mut [JobResult]) {
    for index in stuck {
        running.retain(|i| i != index);
        results[*index] = partial(&state.members[*index].shared, state.start_ns);
    }
}

/// The result of a worker that did not end.
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
