//! The data plane: one worker between its first and its last I/O.
//!
//! A worker owns all of its state. Between its first and its last I/O it does not allocate, lock or read
//! settings; it reads the clock once before and once after each turn.

mod batches;
mod core;
mod issue;
mod outcome;
mod pauses;
mod reap;

pub(crate) use self::core::Core;

use crate::clock;
use crate::queue::{Op, Queue, Request};
use crate::source::{IoGenerator, Source};
use crate::stats::Stats;
use crate::token::{Tag, Token};
use fathom_model::Dir;

/// At the end of the job, I/Os in flight are abandoned after this time without a completion.
const DRAIN_NS: u64 = 8_000_000_000;
/// Sleep until a zone is looked at again that another worker writes to.
const ZONE_NAP_NS: u64 = 50_000;
/// Longest sleep between checks of the stop flag.
const NAP_NS: u64 = 50_000_000;

/// The remaining request of a slot, without its offset. In fixed-size jobs, only flushes and
/// retries write to it.
#[derive(Clone, Copy)]
struct Slot {
    /// When it was scheduled, under a rate or by a trace; 0 without a schedule. When a flush was submitted.
    due_ns: u64,
    len: u32,
    file: u32,
    /// Batch and direction, or [`Tag::SLOW_PATH`] for a flush.
    tag: Tag,
    /// The result of a success; of a flush, whether it is of data only.
    expect: u32,
}

impl Slot {
    /// A free slot, with `len` pre-filled for fixed-size jobs.
    fn fresh(len: u32) -> Self {
        Self { due_ns: 0, len, file: 0, tag: Tag::SLOW_PATH, expect: len }
    }
}

/// Whether the worker issues I/Os, or first drains the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IssueState {
    Issuing,
    /// Flush this file once nothing is in flight.
    DrainToFlush(Op, u32),
    Flushing,
    /// Call sync_file_range(2) for this file once nothing is in flight.
    DrainToSyncRange(u32),
    /// Flush this file beside the I/Os in flight.
    FlushBeside(Op, u32),
    /// Pause for the plan's thinktime once nothing is in flight.
    DrainToThink,
    /// Leave the span once nothing is in flight, to read back what was written.
    DrainToVerify,
}

#[derive(Clone, Copy)]
struct DeferredIo {
    dir: Dir,
    due_ns: u64,
    request: Request,
    /// Whether its zone is already in use by it, if the job uses zones.
    is_placed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SpanEnd {
    Finished,
    /// Not over: something is to be verified before it goes on.
    VerifyDue,
    TimeOver,
    Stopped,
    Failed,
}

/// A worker: a job with its queue, its source and its counters.
pub(crate) struct Worker<'a, Q, S> {
    pub core: Core<'a>,
    pub queue: Q,
    pub source: S,
}

pub(crate) trait AnyWorker<'a> {
    fn core(&mut self) -> &mut Core<'a> {
        self.parts().0
    }
    fn parts(&mut self) -> (&mut Core<'a>, &mut dyn Queue);
    fn work(&mut self) -> SpanEnd;
    /// What is to be done next, apart from the job's own I/Os.
    fn do_first(&mut self, requests: Vec<Request>);
    /// Counts the writes of at most so many I/Os and bytes, which do not take place.
    fn count_writes(&mut self, ios: Option<u64>, bytes: Option<u64>);
}

impl<'a> dyn AnyWorker<'a> + '_ {
    /// Works until `until_ns` or for `ios` or `bytes`, including I/Os already in flight; counts into
    /// `stats`.
    pub fn span(
        &mut self,
        stats: &'a Stats,
        until_ns: u64,
        ios: Option<u64>,
        bytes: Option<u64>,
    ) -> SpanEnd {
        self.core().begin_span(stats, until_ns, ios, bytes);
        self.work()
    }

    /// Reads and verifies, or trims, in the middle of a span, with nothing in flight, until `until_ns`; counts into `stats`.
    pub fn interpose(
        &mut self,
        requests: Vec<Request>,
        stats: &'a Stats,
        until_ns: u64,
    ) -> SpanEnd {
        let count = requests.len() as u64;
        self.do_first(requests);
        let core = self.core();
        let before = core.interrupt_span();
        core.check_reads(true);
        let end = self.span(stats, until_ns, Some(count), None);
        if end != SpanEnd::Finished {
            self.drain();
        }
        let core = self.core();
        core.resume_span(before);
        core.check_reads(false);
        end
    }

    /// Waits for all I/Os in flight; reports an error for those that do not complete.
    pub fn drain(&mut self) {
        self.core().begin_drain();
        self.work();
        self.core().end_drain();
    }

    pub fn flush_all(&mut self) {
        for file in 0..self.core().paths.len() as u32 {
            if self.core().fatal {
                return;
            }
            let (core, queue) = self.parts();
            core.push_flush(Op::Fsync, file, queue);
            self.drain();
        }
    }
}

fn slow(slot: u32) -> Token {
    Token::new(slot, Tag::SLOW_PATH)
}

impl<'a, Q: Queue, S: Source> AnyWorker<'a> for Worker<'a, Q, S> {
    fn parts(&mut self) -> (&mut Core<'a>, &mut dyn Queue) {
        (&mut self.core, &mut self.queue)
    }

    fn work(&mut self) -> SpanEnd {
        loop {
            if self.core.may_end()
                && let Some(end) = self.core.end(&mut self.queue)
            {
                return end;
            }
            let idle_before = self.core.idle_len;
            let not_before = self.refill();
            let idle = self.core.idle_len;
            if self.core.in_flight == 0 {
                if self.core.is_finished() {
                    return SpanEnd::Finished;
                }
                if self.core.verify_now() {
                    return SpanEnd::VerifyDue;
                }
                self.core.rest(not_before);
                continue;
            }
            self.turn(not_before);
            let reaped = self.core.idle_len - idle;
            self.core.batch_limit.adapt(idle_before - idle, reaped, idle > 0);
        }
    }

    fn do_first(&mut self, requests: Vec<Request>) {
        self.source.do_first(requests);
    }

    fn count_writes(&mut self, ios: Option<u64>, bytes: Option<u64>) {
        let (mut ios, mut bytes) = (ios.unwrap_or(u64::MAX), bytes.unwrap_or(u64::MAX));
        let mut draw = self.source.batch();
        let Some(verifier) = self.core.writes.verifier.as_mut() else { return };
        while ios > 0 && bytes > 0 && !self.core.shared.is_stopping() {
            let dir = draw.next_direction();
            let request = draw.next_io(dir, bytes);
            match dir {
                Dir::Write if !verifier.pretend(&request) => return,
                Dir::Trim => verifier.forget(&request),
                _ => {}
            }
            ios -= 1;
            bytes = bytes.saturating_sub(u64::from(request.len));
        }
    }
}

impl<Q: Queue, S: Source> Worker<'_, Q, S> {
    /// Submits and waits, at most until the next I/O is due, then counts the completions.
    #[inline]
    fn turn(&mut self, not_before: u64) {
        let scheduled = if S::FULL { not_before } else { 0 };
        let wait_for = match S::FULL && self.core.deferred.is_some() {
            true => 1,
            false => self.core.wait_for(scheduled > 0),
        };
        if S::FULL {
            self.core.write_ahead();
        }
        self.core.begin_turn();
        if let Err(error) = self.queue.submit_and_wait(wait_for, self.core.deadline_ns(scheduled)) {
            self.core.broken(&error);
        }
        self.core.now_ns = clock::now_ns();
        let reaped = self.reap();
        if S::FULL
            && let Some(observer) = &mut self.core.observer
        {
            observer.turned(self.core.now_ns);
        }
        self.core.end_turn(wait_for, reaped);
    }
}
