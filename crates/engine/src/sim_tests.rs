//! A simulated queue with seeded faults, and the worker held against it.

use crate::buffers::Slab;
use crate::error::{EngineError, Hint, Operation};
use crate::observer::{Observe, ObservedIo};
use crate::queue::{Op, Push, Queue, Request};
use crate::source::{AnySource, FullSource, Source};
use crate::stats::{Shared, Stats};
use crate::token::Token;
use crate::worker::{AnyWorker, Core, SpanEnd, Worker};
use fathom_model::plan::{
    Batch, BlockSizes, Distribution, Engine, JobPlan, Mix, Order, Region, Replay, Think,
    TraceEvent, TraceOp,
};
use fathom_model::record::DepthRecord;
use fathom_model::{Dir, PerDir};
use proptest::prelude::*;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;

/// Rates of faults, as one in n; 0 is never.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    short: u64,
    again: u64,
    error: u64,
    /// The error to inject; by default EIO.
    errno: i32,
    /// Reads beyond this offset move nothing, as after a truncation.
    truncated_at: Option<u64>,
    /// Maximum number of turns that a request takes.
    delay_max: u64,
    /// Capacity of the completion queue; excess completions are delayed.
    completions_max: usize,
    /// Requests that can be pushed before a turn, where that is less than the depth.
    room_max: u32,
    /// Requests complete only in turns that wait, at most this many in each; 0: in any turn.
    burst: usize,
    /// Turns after which the queue itself fails.
    breaks_after: u64,
    /// Whether a flush may be pushed while writes are in flight, as those of a trace are.
    flushes_beside: bool,
}

struct SimQueue {
    faults: Faults,
    random: Xoshiro256PlusPlus,
    turns: u64,
    pushed: u32,
    /// Requests in flight, by slot, with the turn in which they complete.
    flying: HashMap<u32, (Token, Request, u64)>,
    ready: Vec<(Token, i32)>,
    moved: u64,
    writes_in_flight: u32,
    flushes: u32,
}

impl SimQueue {
    fn new(faults: Faults, seed: u64) -> Self {
        Self {
            faults,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            turns: 0,
            pushed: 0,
            flying: HashMap::new(),
            ready: Vec::new(),
            moved: 0,
            writes_in_flight: 0,
            flushes: 0,
        }
    }

    fn strikes(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.random.next_u64().is_multiple_of(one_in)
    }

    fn result(&mut self, request: &Request) -> i32 {
        let Op::Io(dir) = request.op else { return 0 };
        if self.faults.truncated_at.is_some_and(|at| request.offset >= at) {
            return 0;
        }
        if self.strikes(self.faults.again) {
            return -if self.random.next_u64().is_multiple_of(2) {
                libc::EAGAIN
            } else {
                libc::EINTR
            };
        }
        if self.strikes(self.faults.error) {
            return -if self.faults.errno > 0 { self.faults.errno } else { libc::EIO };
        }
        let mut len = request.len;
        if self.strikes(self.faults.short) && len > 512 {
            len = (self.random.next_u64() % u64::from(len / 512)) as u32 * 512;
            len = len.max(512);
        }
        self.moved += u64::from(len);
        if dir == Dir::Trim { 0 } else { len as i32 }
    }
}

impl Push for SimQueue {
    fn push(&mut self, token: Token, request: &Request) {
        let slot = token.slot();
        assert!(self.sq_space_left() > 0, "pushed into a full queue");
        self.pushed += 1;
        if request.op == Op::Io(Dir::Write) {
            self.writes_in_flight += 1;
        } else if !matches!(request.op, Op::Io(_)) {
            assert!(
                self.writes_in_flight == 0 || self.faults.flushes_beside,
                "a flush covers the writes before it only once they are complete"
            );
            self.flushes += 1;
        }
        let delay = if self.faults.delay_max > 0 {
            self.random.next_u64() % self.faults.delay_max
        } else {
            0
        };
        let before = self.flying.insert(slot, (token, *request, self.turns + delay));
        assert_eq!(before.map(|b| b.1), None, "slot {slot} is in flight already");
    }
}

impl Queue for SimQueue {
    type Batch<'a> = &'a mut Self;

    fn sq_space_left(&self) -> u32 {
        if self.faults.room_max > 0 { self.faults.room_max - self.pushed } else { u32::MAX }
    }

    fn batch(&mut self) -> &mut Self {
        self
    }

    fn submit_and_wait(&mut self, wait_for: u32, _deadline_ns: Option<u64>) -> io::Result<()> {
        self.turns += 1;
        self.pushed = 0;
        if self.faults.breaks_after > 0 && self.turns > self.faults.breaks_after {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let mut due: Vec<u32> =
            self.flying.iter().filter(|(_, f)| f.2 < self.turns).map(|(slot, _)| *slot).collect();
        // A map has no order of its own that a seed could repeat.
        due.sort_unstable();
        let turn = self.random.next_u64() as usize;
        let pivot = turn % due.len().max(1);
        due.rotate_left(pivot);
        if self.faults.burst > 0 {
            due.truncate(if wait_for > 0 { self.faults.burst } else { 0 });
        }
        for slot in due {
            if self.faults.completions_max > 0 && self.ready.len() >= self.faults.completions_max {
                break;
            }
            if let Some((token, request, _)) = self.flying.remove(&slot) {
                self.writes_in_flight -= u32::from(request.op == Op::Io(Dir::Write));
                let result = self.result(&request);
                self.ready.push((token, result));
            }
        }
        Ok(())
    }

    fn reap(&mut self, max: u32, mut each: impl FnMut(Token, i32)) {
        let count = self.ready.len().min(max as usize);
        self.ready.drain(..count).for_each(|(token, result)| each(token, result));
    }

    fn system_calls(&self) -> u64 {
        self.turns
    }
}

struct SimResult {
    end: SpanEnd,
    shared: Shared,
    moved: u64,
    flushes: u32,
    failure: Option<EngineError>,
    in_flight: u32,
    in_flight_max: u32,
    submitted: Vec<(u32, u64)>,
    errnos: PerDir<Vec<(i32, u64)>>,
    seen: Seen,
}

/// What an observer receives: submissions, and completions with their completion latency.
#[derive(Default, Clone)]
struct Seen {
    submitted: Vec<ObservedIo>,
    completed: Vec<(ObservedIo, u64)>,
}

impl Observe for Rc<RefCell<Seen>> {
    fn submitted(&mut self, _now_ns: u64, io: ObservedIo, _slat_ns: u64) {
        self.borrow_mut().submitted.push(io);
    }

    fn completed(&mut self, _now_ns: u64, io: ObservedIo, clat_ns: u64, lat_ns: u64) {
        assert!(lat_ns >= clat_ns);
        self.borrow_mut().completed.push((io, clat_ns));
    }
}

impl SimResult {
    fn counts(&self) -> fathom_model::progress::Counts {
        let mut sum = fathom_model::progress::Counts::default();
        Dir::ALL.iter().for_each(|d| sum += self.shared.stats.dirs[*d].counts());
        sum
    }
}

fn job(mix: Mix, depth: u32) -> JobPlan {
    let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
    let mut job = JobPlan::new("sim", Engine::Null, mix, order);
    job.depth = depth;
    job.regions = vec![Region { target: 0, start: 0, len: 4 << 20 }];
    job
}

fn worker<'a, S: Source>(
    job: &'a JobPlan,
    shared: &'a Shared,
    queue: SimQueue,
    source: S,
) -> Worker<'a, SimQueue, S> {
    let slab = Slab::new(job.depth, job.block_max(), &job.buffers).unwrap();
    let core = Core::new(job, vec!["target".into()], shared, slab, source.len(), None);
    Worker { core, queue, source }
}

/// In the loop for all jobs, which is observed.
fn simulate(job: &JobPlan, faults: Faults, seed: u64, ios: u64) -> SimResult {
    simulate_with(FullSource::new(job, &[], &[], false), job, faults, seed, ios)
}

fn simulate_with(
    source: impl Source,
    job: &JobPlan,
    faults: Faults,
    seed: u64,
    ios: u64,
) -> SimResult {
    let shared = Shared::default();
    let seen = Rc::new(RefCell::new(Seen::default()));
    let mut worker = worker(job, &shared, SimQueue::new(faults, seed), source);
    worker.core.observer = Some(Box::new(Rc::clone(&seen)));
    let work: &mut dyn AnyWorker<'_> = &mut worker;
    let end = work.span(&shared.stats, u64::MAX, Some(ios), None);
    work.drain();
    let Worker { core, queue: SimQueue { moved, flushes, .. }, .. } = &mut worker;
    let (moved, flushes, in_flight) = (*moved, *flushes, core.in_flight);
    let failure = core.failure.take();
    let errnos = std::mem::take(&mut core.errnos);
    let seen = seen.take();
    let DepthRecord { in_flight_max, submit: submitted, .. } = core.depth.record(0);
    drop(worker);
    SimResult {
        end,
        shared,
        moved,
        flushes,
        failure,
        in_flight,
        in_flight_max,
        submitted,
        errnos,
        seen,
    }
}

proptest! {
    #[test]
    fn delays_reordering_and_short_transfers_lose_nothing(
        seed in any::<u64>(), depth in 1u32..40, ios in 1u64..600,
        short in 0u64..6, again in prop::sample::select(vec![0u64, 2, 7]), delay_max in 0u64..6,
        completions_max in 0usize..9, room_max in 0u32..5,
        submit_max in prop::option::of(1u32..9), complete_min in 0u32..9,
        complete_max in prop::option::of(1u32..9), low in prop::option::of(0u32..9),
        mix in prop::sample::select(vec![Mix::Only(Dir::Read), Mix::Only(Dir::Write), Mix::ReadWrite { read_percent: 50 }]),
    ) {
        let mut job = job(mix, depth);
        job.batch = Batch { submit_max, complete_min, complete_max, low };
        let faults = Faults { short, again, delay_max, completions_max, room_max, ..Faults::default() };
        let out = simulate(&job, faults, seed, ios);
        prop_assert_eq!(out.end, SpanEnd::Finished);
        let counts = out.counts();
        prop_assert_eq!((counts.ios, counts.bytes, counts.errors, counts.short_ios), (ios, ios * 4096, 0, 0));
        prop_assert_eq!(out.moved, ios * 4096);
        prop_assert_eq!((out.in_flight, out.failure), (0, None));
        prop_assert!(out.in_flight_max <= depth);
        let latencies: u64 = Dir::ALL.iter().map(|d| out.shared.stats.dirs[*d].clat.snapshot().count()).sum();
        prop_assert_eq!(latencies, ios);
        // Each I/O is observed once, as it was before retries and short transfers.
        let of = |dir| move |io: &&ObservedIo| io.dir == dir;
        for dir in Dir::ALL {
            let latencies = out.shared.stats.dirs[dir].clat.snapshot();
            let sum: u64 = out.seen.completed.iter().filter(|(io, _)| io.dir == dir).map(|(_, ns)| ns).sum();
            prop_assert_eq!(latencies.mean_ns(), sum as f64 / latencies.count().max(1) as f64);
            prop_assert_eq!(out.seen.submitted.iter().filter(of(dir)).count() as u64, latencies.count());
        }
        let offsets = |ios: &mut dyn Iterator<Item = &ObservedIo>| {
            let mut offsets: Vec<(u64, u32)> = ios.map(|io| (io.offset, io.len)).collect();
            offsets.sort_unstable();
            offsets
        };
        let completed = offsets(&mut out.seen.completed.iter().map(|(io, _)| io));
        prop_assert_eq!(&completed, &offsets(&mut out.seen.submitted.iter()));
        prop_assert!(completed.iter().all(|(_, len)| *len == 4096));
        let plain = simulate_with(AnySource::new(&job), &job, faults, seed, ios);
        prop_assert_eq!((plain.counts(), plain.moved), (counts, ios * 4096));
    }

    #[test]
    fn a_trace_is_issued_in_its_order_with_all_its_flushes(
        seed in any::<u64>(), depth in 1u32..9, passes in 1u32..4, delay_max in 0u64..6, room_max in 0u32..5,
        ops in prop::collection::vec(0u32..5, 1..60), submit_max in prop::option::of(1u32..9),
        again in prop::sample::select(vec![0u64, 5]),
    ) {
        let op = |op: &u32| match op {
            0 => TraceOp::Io(Dir::Read),
            1 => TraceOp::Io(Dir::Write),
            2 => TraceOp::Io(Dir::Trim),
            3 => TraceOp::Fsync,
            _ => TraceOp::Fdatasync,
        };
        let event = |(at, what): (usize, &u32)| {
            let is_io = *what < 3;
            let (offset, len) = if is_io { (at as u64 * 4096, 512 * (1 + at as u32 % 8)) } else { (0, 0) };
            TraceEvent { at_ns: 0, op: op(what), file: 0, offset, len }
        };
        let events: Vec<TraceEvent> = ops.iter().enumerate().map(event).collect();
        let ios: Vec<&TraceEvent> = events.iter().filter(|event| event.len > 0).collect();
        let mut job = job(Mix::Traced(PerDir::splat(true)), depth);
        job.batch.submit_max = submit_max;
        job.replay = Some(Replay { passes: Some(passes), events: events.clone().into(), ..Replay::default() });
        let faults = Faults { delay_max, room_max, again, flushes_beside: true, ..Faults::default() };
        let out = simulate(&job, faults, seed, u64::MAX);
        prop_assert_eq!((out.end, out.in_flight, out.failure.clone()), (SpanEnd::Finished, 0, None));
        let flushes = (events.len() - ios.len()) as u32 * passes;
        prop_assert_eq!((out.flushes, out.shared.stats.flushes.get()), (flushes, flushes.into()));
        let seen: Vec<(Dir, u64, u32)> = out.seen.submitted.iter().map(|io| (io.dir, io.offset, io.len)).collect();
        let expected = ios.iter().map(|io| match io.op {
            TraceOp::Io(dir) => (dir, io.offset, io.len),
            _ => unreachable!(),
        });
        let expected: Vec<_> = expected.collect::<Vec<_>>().repeat(passes as usize);
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(out.counts().ios, ios.len() as u64 * u64::from(passes));
    }

    #[test]
    fn errors_that_may_go_on_are_counted_apart(seed in any::<u64>(), ios in 50u64..500) {
        let mut job = job(Mix::Only(Dir::Read), 16);
        job.on_error.keep_going.read = true;
        let out = simulate(&job, Faults { error: 4, short: 3, delay_max: 3, ..Faults::default() }, seed, ios);
        let counts = out.counts();
        prop_assert_eq!(out.end, SpanEnd::Finished);
        prop_assert_eq!(counts.ios + counts.errors + counts.short_ios, ios);
        prop_assert_eq!(counts.bytes, counts.ios * 4096, "only whole I/Os count as performance");
        let seen: u64 = out.errnos.read.iter().map(|e| e.1).sum();
        prop_assert_eq!(seen, counts.errors + counts.short_ios);
        prop_assert_eq!(out.failure, None);
    }

    #[test]
    fn flushes_come_when_due_and_cover_what_was_written(seed in any::<u64>(), every in 1u32..20, ios in 1u64..200) {
        let mut job = job(Mix::Only(Dir::Write), 8);
        job.sync.fsync_every = every;
        job.think = Some(Think { time_ns: 10, spin_ns: 10, blocks: 7, io_ns: 0 });
        let out = simulate(&job, Faults { delay_max: 4, ..Faults::default() }, seed, ios);
        prop_assert_eq!(out.counts().ios, ios);
        prop_assert_eq!(u64::from(out.flushes), ios / u64::from(every));
    }
}

#[test]
fn batches_stay_small_on_a_device_slower_than_the_cpu() {
    // Completions one by one, in bursts, and all at once.
    for burst in [1, 2, 15, 32] {
        let faults = Faults { burst, ..Faults::default() };
        let out = simulate(&job(Mix::Only(Dir::Read), 32), faults, 1, 1024);
        assert_eq!((out.counts().ios, out.in_flight_max), (1024, 32), "bursts of {burst}");
        let largest = out.submitted.iter().map(|(size, _)| *size).max();
        assert!(largest.is_some_and(|size| size <= 4), "bursts of {burst}: {:?}", out.submitted);
    }
}

#[test]
fn batches_grow_to_the_depth_on_a_device_faster_than_the_cpu() {
    let out = simulate(&job(Mix::Only(Dir::Read), 32), Faults::default(), 1, 4 + 8 + 16 + 32 * 31);
    assert_eq!(out.submitted, [(4, 1), (8, 1), (16, 1), (32, 31)]);
}

#[test]
fn an_error_ends_the_job_and_says_where() {
    let out =
        simulate(&job(Mix::Only(Dir::Write), 4), Faults { error: 1, ..Faults::default() }, 1, 100);
    assert_eq!((out.end, out.in_flight, out.counts().ios), (SpanEnd::Failed, 0, 0));
    let error = out.failure.unwrap();
    assert!(matches!(error.op, Operation::Io { dir: Dir::Write, len: 4096, .. }), "{error:?}");
    assert_eq!((error.file.as_deref(), error.hint), (Some("target"), Hint::DeviceError));
}

#[test]
fn no_error_is_taken_for_a_success_after_a_retry() {
    let mut job = job(Mix::Only(Dir::Read), 4);
    job.on_error.keep_going.read = true;
    let faults = Faults { again: 2, error: 2, errno: libc::EPERM, ..Faults::default() };
    let out = simulate(&job, faults, 1, 400);
    let counts = out.counts();
    assert_eq!(counts.ios + counts.errors, 400);
    assert_eq!(out.moved, counts.ios * 4096);
    assert_eq!(out.errnos.read, [(libc::EPERM, counts.errors)]);
}

#[test]
fn an_error_to_be_ignored_is_no_failure() {
    let mut job = job(Mix::Only(Dir::Read), 4);
    job.on_error.ignore.read = vec![libc::EIO];
    let out = simulate(&job, Faults { error: 2, ..Faults::default() }, 1, 100);
    assert_eq!((out.end, out.failure), (SpanEnd::Finished, None));
}

#[test]
fn reads_beyond_a_new_end_are_no_performance() {
    let mut job = job(Mix::Only(Dir::Read), 4);
    job.on_error.keep_going.read = true;
    let out = simulate(&job, Faults { truncated_at: Some(2 << 20), ..Faults::default() }, 1, 1024);
    let counts = out.counts();
    assert_eq!((counts.ios, counts.errors), (512, 512), "each block once: half of them lie beyond");
    assert_eq!(out.failure, None, "continued as requested");
    job.on_error.keep_going.read = false;
    let out = simulate(&job, Faults { truncated_at: Some(2 << 20), ..Faults::default() }, 1, 1024);
    assert_eq!(out.failure.unwrap().hint, Hint::Shrunk);
}

#[test]
fn a_broken_queue_ends_the_job_without_a_hang() {
    let faults = Faults { breaks_after: 5, delay_max: 3, ..Faults::default() };
    let out = simulate(&job(Mix::Only(Dir::Read), 8), faults, 1, 10_000);
    assert_eq!(out.end, SpanEnd::Failed);
    assert!(matches!(out.failure.unwrap().op, Operation::UseQueue { engine: "null", .. }));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let mut job = job(Mix::ReadWrite { read_percent: 30 }, 8);
    job.access.block_sizes = PerDir::splat(BlockSizes::Range { min: 512, max: 8192 });
    let faults = Faults { short: 3, again: 5, delay_max: 4, ..Faults::default() };
    let run = || {
        let out = simulate(&job, faults, 42, 500);
        (out.shared.stats.dirs.map(|_, d| d.counts()), out.moved)
    };
    assert_eq!(run(), run());
}

#[test]
fn a_ramp_is_not_measured() {
    let job = job(Mix::Only(Dir::Read), 4);
    let (shared, ramp) = (Shared::default(), Stats::default());
    let mut worker =
        worker(&job, &shared, SimQueue::new(Faults::default(), 1), AnySource::new(&job));
    let worker: &mut dyn AnyWorker<'_> = &mut worker;
    assert_eq!(worker.span(&ramp, u64::MAX, Some(100), None), SpanEnd::Finished);
    assert_eq!(worker.span(&shared.stats, u64::MAX, Some(10), None), SpanEnd::Finished);
    assert_eq!((ramp.dirs.read.ios.get(), shared.stats.dirs.read.ios.get()), (100, 10));
}
