//! The data plane: one worker between its first and its last I/O.
//!
//! A worker owns all of its state. Between its first and its last I/O it does not allocate, lock or read
//! settings; it reads the clock once before and once after each turn.

mod batch_limit;
mod batches;
mod issue;
mod observed;
mod outcome;
mod pauses;
mod reap;
mod writes;

use crate::buffers::Slab;
use crate::clock;
use crate::depth::DepthCounts;
use crate::error::EngineError;
use crate::observer::Observe;
use crate::pace::Pace;
use crate::queue::{Op, Queue, Request};
use crate::source::Source;
use crate::stats::{Shared, Stats};
use crate::token::{Tag, Token};
use batch_limit::BatchLimit;
use batches::Batches;
use fathom_model::plan::JobPlan;
use fathom_model::{Dir, PerDir};
use std::sync::atomic::Ordering::{Relaxed, Release};
use writes::Writes;

/// At the end of the job, I/Os in flight are abandoned after this time without a completion.
const DRAIN_NS: u64 = 8_000_000_000;
/// Longest sleep between checks of the stop flag.
const NAP_NS: u64 = 50_000_000;

/// The remaining request of a slot, without its offset. In fixed-size jobs, only flushes and
/// retries write to it.
#[derive(Clone, Copy)]
struct Slot {
    /// When it was scheduled, under a rate; 0 without a schedule.
    due_ns: u64,
    len: u32,
    file: u32,
    /// Batch and direction, or [`Tag::APART`] for a flush.
    tag: Tag,
    /// The result that means success.
    expect: u32,
}

impl Slot {
    /// A free slot, with `len` pre-filled for fixed-size jobs.
    fn fresh(source: &impl Source) -> Self {
        let len = source.len();
        Self { due_ns: 0, len, file: 0, tag: Tag::APART, expect: len }
    }
}

/// Whether the worker issues I/Os, or first drains what is in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IssueState {
    Issuing,
    /// Flush this file once nothing is in flight.
    DrainToFlush(Op, u32),
    /// A flush is in flight.
    Flushing,
    /// Pause for the plan's thinktime once nothing is in flight.
    DrainToThink,
}

/// An I/O that was drawn but not issued yet.
#[derive(Clone, Copy)]
struct Held {
    dir: Dir,
    due_ns: u64,
    request: Request,
}

/// Why a span of work ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// All I/Os were issued and completed.
    Finished,
    /// The deadline passed.
    TimeOver,
    /// A stop was requested.
    Stopped,
    /// An error that ends the job.
    Failed,
}

/// A worker: a job, its queue and its counters.
pub(crate) struct Worker<'a, Q, S, O = ()> {
    pub job: &'a JobPlan,
    pub paths: &'a [String],
    pub shared: &'a Shared,
    /// Counters of the current span.
    pub stats: &'a Stats,
    pub queue: Q,
    pub observer: O,
    writes: Writes,
    pub source: S,
    pub pace: Option<Pace>,
    slots: Box<[Slot]>,
    /// Offset of each slot's request on its target.
    offsets: Box<[u64]>,
    /// Retries of each slot's request.
    retries: Box<[u32]>,
    /// Bytes of each slot's request already transferred.
    moved: Box<[u32]>,
    batches: Batches,
    /// Free slots: the first `idle_len` of these.
    idle: Box<[u32]>,
    idle_len: usize,
    pub in_flight: u32,
    /// I/Os and bytes that may still be issued.
    left_ios: u64,
    left_bytes: u64,
    until_think: u64,
    issue_state: IssueState,
    /// End of the current span.
    until_ns: u64,
    /// System calls before measuring began.
    calls_before: u64,
    batch_limit: BatchLimit,
    complete_max: u32,
    /// `iodepth_low`: whether the queue is being refilled.
    filling: bool,
    /// An I/O that waits for one in flight, if the source serializes them.
    held: Option<Held>,
    /// Slots whose request must be resubmitted.
    retry: Vec<u32>,
    flush_op: Op,
    flush_started_ns: u64,
    /// Completions other than plain successes.
    unusual: Vec<(Token, i32)>,
    /// The last clock read.
    pub now_ns: u64,
    pub depth: DepthCounts,
    pub failure: Option<EngineError>,
    /// The job must end.
    pub fatal: bool,
    /// The queue itself failed: there is nothing to wait for.
    pub queue_broken: bool,
    pub errnos: PerDir<Vec<(i32, u64)>>,
}

impl<'a, Q: Queue, S: Source, O: Observe> Worker<'a, Q, S, O> {
    /// A worker that is ready to start. `slab` has one buffer per I/O in flight.
    pub fn new(
        job: &'a JobPlan,
        paths: &'a [String],
        shared: &'a Shared,
        queue: Q,
        source: S,
        slab: Slab,
        observer: O,
    ) -> Self {
        let depth = slab.slots();
        let slot = Slot::fresh(&source);
        Self {
            job,
            paths,
            shared,
            stats: &shared.stats,
            queue,
            observer,
            writes: Writes::new(job, slab, shared),
            source,
            pace: None,
            slots: vec![slot; depth as usize].into(),
            offsets: vec![0; depth as usize].into(),
            retries: vec![0; depth as usize].into(),
            moved: vec![0; depth as usize].into(),
            batches: Batches::new(depth),
            // Taken from the end: slot 0 comes first.
            idle: (0..depth).rev().collect(),
            idle_len: depth as usize,
            in_flight: 0,
            left_ios: u64::MAX,
            left_bytes: u64::MAX,
            until_think: job.think.map_or(u64::MAX, |t| u64::from(t.blocks.max(1))),
            issue_state: IssueState::Issuing,
            until_ns: u64::MAX,
            calls_before: 0,
            batch_limit: BatchLimit::new(job.batch.submit_max, depth),
            complete_max: job.batch.complete_max.unwrap_or(u32::MAX),
            flush_op: Op::Fsync,
            flush_started_ns: 0,
            filling: true,
            held: None,
            retry: Vec::with_capacity(depth as usize),
            unusual: Vec::with_capacity(depth as usize),
            now_ns: clock::now_ns(),
            depth: DepthCounts::new(depth),
            failure: None,
            fatal: false,
            queue_broken: false,
            errnos: PerDir::from_fn(|_| Vec::with_capacity(16)),
        }
    }

    /// Whether the buffers are in huge pages.
    pub fn is_huge(&self) -> bool {
        self.writes.slab.is_huge()
    }

    /// Resets the counters outside [`Stats`], at the end of the ramp.
    pub fn begin_measuring(&mut self) {
        self.depth.clear();
        self.calls_before = self.queue.system_calls();
        self.observer.begin(self.now_ns);
        Dir::ALL.iter().for_each(|dir| self.errnos[*dir].clear());
    }

    /// System calls of the queue since measuring began.
    pub fn system_calls(&self) -> u64 {
        self.queue.system_calls() - self.calls_before
    }

    /// Works until `until_ns` or for `ios` or `bytes`, including I/Os already in flight; counts into
    /// `stats`.
    pub fn span(
        &mut self,
        stats: &'a Stats,
        until_ns: u64,
        ios: Option<u64>,
        bytes: Option<u64>,
    ) -> End {
        self.stats = stats;
        // Its length was limited by what was left of the span before.
        self.held = None;
        let begun = u64::from(self.in_flight) + self.retry.len() as u64;
        self.left_ios = ios.map_or(u64::MAX, |ios| ios.saturating_sub(begun));
        let begun_bytes = begun * u64::from(self.source.len());
        self.left_bytes = bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(begun_bytes));
        self.until_ns = until_ns;
        self.shared.deadline_ns.store(if until_ns == u64::MAX { 0 } else { until_ns }, Release);
        if self.pace.is_some() { self.work::<true>(until_ns) } else { self.work::<false>(until_ns) }
    }

    fn work<const PACED: bool>(&mut self, until_ns: u64) -> End {
        loop {
            if self.fatal {
                return End::Failed;
            }
            if self.now_ns >= until_ns {
                return End::TimeOver;
            }
            if self.shared.is_stopping() {
                return End::Stopped;
            }
            let idle_before = self.idle_len;
            let not_before = self.refill::<PACED>();
            let idle = self.idle_len;
            if self.in_flight == 0 {
                if self.retry.is_empty() && (self.left_ios == 0 || self.left_bytes == 0) {
                    return End::Finished;
                }
                self.rest(not_before, until_ns);
                continue;
            }
            let scheduled = PACED && not_before > 0;
            let deadline = scheduled.then(|| not_before.min(until_ns));
            self.turn::<PACED>(self.wait_for(scheduled), deadline);
            let reaped = self.idle_len - idle;
            self.batch_limit.adapt(idle_before - idle, reaped, idle > 0);
        }
    }

    /// Number of completions that the next turn waits for.
    #[inline]
    fn wait_for(&self, waits_for_schedule: bool) -> u32 {
        let may_issue = self.issue_state == IssueState::Issuing
            && self.left_ios > 0
            && self.left_bytes > 0
            && self.filling;
        if S::SERIALIZES && self.held.is_some() {
            1
        } else if may_issue && self.idle_len > 0 && !waits_for_schedule {
            // The batch limit held back I/Os: do not wait.
            0
        } else if may_issue {
            self.job.batch.complete_min.min(self.in_flight)
        } else {
            self.job.batch.complete_min.clamp(1, self.in_flight)
        }
    }

    /// Submits and waits, then counts the completions.
    #[inline]
    fn turn<const PACED: bool>(&mut self, wait_for: u32, deadline_ns: Option<u64>) {
        self.shared.in_flight.store(self.in_flight, Relaxed);
        self.shared.turns.add(1);
        if let Err(error) = self.queue.turn(wait_for, deadline_ns) {
            self.broken(&error);
        }
        self.now_ns = clock::now_ns();
        let reaped = self.reap::<PACED>();
        if O::ON {
            self.observer.turned(self.now_ns);
        }
        if self.shared.wait_check.is_requested() {
            self.shared.wait_check.answer(wait_for, reaped);
        }
    }
}
