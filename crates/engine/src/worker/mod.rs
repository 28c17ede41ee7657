//! The data plane: one worker between its first and its last I/O.
//!
//! A worker owns all of its state. Between its first and its last I/O it allocates nothing, takes
//! no lock and reads no setting; it reads the clock once before and once after each turn.

mod outcome;
mod pauses;

use crate::buffers::{Filler, Slab};
use crate::clock;
use crate::depth::DepthCounts;
use crate::pace::{Due, LATE_NS, Pace};
use crate::queue::{Op, Queue, Request};
use crate::source::Source;
use crate::stats::{Shared, Stats};
use fathom_model::plan::JobPlan;
use fathom_model::record::JobError;
use fathom_model::{Dir, PerDir};
use std::sync::atomic::Ordering::Relaxed;

/// Without any completion for this long, what is in flight is given up when the job ends.
const DRAIN_NS: u64 = 8_000_000_000;
/// Longest sleep between looks at the stop flag.
const NAP_NS: u64 = 50_000_000;

/// What a slot is busy with.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub request: Request,
    /// The result that means success; `u32::MAX` sends every result to the cold path.
    pub expect: u32,
    /// Length when it was first issued.
    pub len: u32,
    pub retries: u32,
    /// When it was prepared, handed over, and (under a rate) scheduled; 0 without a schedule.
    pub prepared_ns: u64,
    pub submitted_ns: u64,
    pub due_ns: u64,
}

/// A pause in issuing: everything in flight completes first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// Flush this file, then go on.
    Flush(Op, u32),
    /// A flush is in flight.
    Flushing,
    /// Pause for the plan's thinktime.
    Think,
}

/// Why a span of work ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// All that was asked is issued and complete.
    Finished,
    /// Its time is over.
    TimeOver,
    /// Asked to stop from outside.
    Stopped,
    /// An error that ends the job.
    Failed,
}

/// A worker: a job, its queue and its counters.
pub(crate) struct Worker<'a, Q> {
    pub job: &'a JobPlan,
    pub paths: &'a [String],
    pub shared: &'a Shared,
    /// Where the current span counts.
    pub stats: &'a Stats,
    pub queue: Q,
    pub slab: Slab,
    pub filler: Option<Filler>,
    pub source: Source,
    pub pace: Option<Pace>,
    pub slots: Box<[Slot]>,
    /// Slots without a request: the first `idle_len` of these.
    idle: Box<[u32]>,
    idle_len: usize,
    pub in_flight: u32,
    /// What may still be issued.
    left_ios: u64,
    left_bytes: u64,
    until_think: u64,
    since_flush: PerFlush,
    pub gate: Gate,
    /// `iodepth_low`: whether the queue is being refilled.
    filling: bool,
    /// Slots whose request must be pushed once more.
    pub retry: Vec<u32>,
    /// Completions that are not plain successes: (slot, result).
    unusual: Vec<(u32, i32)>,
    /// The last look at the clock.
    pub now_ns: u64,
    pub depth: DepthCounts,
    pub failure: Option<JobError>,
    /// The job must end.
    pub fatal: bool,
    /// The queue itself failed: waiting for it is of no use.
    pub queue_broken: bool,
    pub errnos: PerDir<Vec<(i32, u64)>>,
}

/// Writes since the last flush of each kind.
#[derive(Default)]
struct PerFlush {
    fsync: u32,
    fdatasync: u32,
}

/// Successes of one reap that share direction and submission, counted at once.
struct Run {
    dir: Dir,
    submitted_ns: u64,
    prepared_ns: u64,
    ios: u64,
    bytes: u64,
}

impl Run {
    #[inline]
    fn count(&mut self, stats: &Stats, now_ns: u64) {
        if self.ios > 0 {
            let dir = &stats.dirs[self.dir];
            dir.ios.add(self.ios);
            dir.bytes.add(self.bytes);
            dir.clat.record_n(now_ns.saturating_sub(self.submitted_ns), self.ios);
            dir.lat.record_n(now_ns.saturating_sub(self.prepared_ns), self.ios);
        }
    }
}

impl<'a, Q: Queue> Worker<'a, Q> {
    /// A worker that is ready to go. `slab` has a buffer for each I/O in flight.
    pub fn new(
        job: &'a JobPlan,
        paths: &'a [String],
        shared: &'a Shared,
        queue: Q,
        mut slab: Slab,
    ) -> Self {
        let depth = slab.slots();
        let request = Request { op: Op::Fsync, file: 0, offset: 0, len: 0, buffer_offset: 0 };
        let slot = Slot {
            request,
            expect: 0,
            len: 0,
            retries: 0,
            prepared_ns: 0,
            submitted_ns: 0,
            due_ns: 0,
        };
        let filler = job.access.mix.has(Dir::Write).then(|| {
            let mut filler = Filler::new(&job.buffers, job.access.seed);
            (0..depth).for_each(|slot| filler.fill(slab.slot_mut(slot)));
            filler
        });
        Self {
            job,
            paths,
            shared,
            stats: &shared.stats,
            queue,
            slab,
            filler,
            source: Source::new(job),
            pace: None,
            slots: vec![slot; depth as usize].into(),
            // The last of these is taken first: begin with slot 0.
            idle: (0..depth).rev().collect(),
            idle_len: depth as usize,
            in_flight: 0,
            left_ios: u64::MAX,
            left_bytes: u64::MAX,
            until_think: job.think.map_or(u64::MAX, |t| u64::from(t.blocks.max(1))),
            since_flush: PerFlush::default(),
            gate: Gate::Open,
            filling: true,
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

    /// Works until `until_ns`, counting into `stats`, and issues at most so much.
    pub fn span(
        &mut self,
        stats: &'a Stats,
        until_ns: u64,
        ios: Option<u64>,
        bytes: Option<u64>,
    ) -> End {
        self.stats = stats;
        self.left_ios = ios.unwrap_or(u64::MAX);
        self.left_bytes = bytes.unwrap_or(u64::MAX);
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
            let not_before = self.refill::<PACED>();
            if self.in_flight == 0 {
                if self.retry.is_empty() && (self.left_ios == 0 || self.left_bytes == 0) {
                    return End::Finished;
                }
                self.rest(not_before, until_ns);
                continue;
            }
            let deadline =
                if PACED && not_before > 0 { Some(not_before.min(until_ns)) } else { None };
            self.turn::<PACED>(self.wait_for(deadline.is_some()), deadline);
        }
    }

    /// How many completions the next turn waits for.
    #[inline]
    fn wait_for(&self, waits_for_schedule: bool) -> u32 {
        let may_issue =
            self.gate == Gate::Open && self.left_ios > 0 && self.left_bytes > 0 && self.filling;
        if may_issue && self.idle_len > 0 && !waits_for_schedule {
            // A batch limit held back what could be issued: go on at once.
            0
        } else if may_issue {
            self.job.batch.complete_min.min(self.in_flight)
        } else {
            self.job.batch.complete_min.clamp(1, self.in_flight)
        }
    }

    /// Issues all that is free and allowed; returns the instant before which nothing more is due, or 0.
    #[inline]
    fn refill<const PACED: bool>(&mut self) -> u64 {
        if !self.retry.is_empty() {
            self.push_retries();
        }
        if self.gate != Gate::Open || self.job.batch.low.is_some() {
            self.pass_gate();
            if self.gate != Gate::Open || !self.filling {
                return 0;
            }
        }
        let before = self.idle_len;
        let allowed =
            self.left_ios.min(self.until_think).min(u64::from(self.queue.room())) as usize;
        let most = before.min(allowed).min(self.job.batch.submit_max.unwrap_or(u32::MAX) as usize);
        let mut pushed = PerDir { read: 0u64, write: 0, trim: 0 };
        let mut not_before = 0;
        while before - self.idle_len < most && self.left_bytes > 0 && self.gate == Gate::Open {
            let (dir, due_ns) = if PACED {
                match self.next_due() {
                    Ok(next) => next,
                    Err(instant) => {
                        not_before = instant;
                        break;
                    }
                }
            } else {
                (self.source.next_dir(), 0)
            };
            self.issue(dir, due_ns);
            pushed[dir] += 1;
        }
        let count = before - self.idle_len;
        if count > 0 {
            self.submitted::<PACED>(before, count, &pushed);
        }
        not_before
    }

    /// Prepares one I/O and pushes it.
    #[inline]
    fn issue(&mut self, dir: Dir, due_ns: u64) {
        self.idle_len -= 1;
        let slot = self.idle[self.idle_len];
        let request = self.source.next(dir, self.left_bytes);
        self.left_bytes -= u64::from(request.len);
        self.slots[slot as usize] = Slot {
            request,
            expect: if dir == Dir::Trim { 0 } else { request.len },
            len: request.len,
            retries: 0,
            prepared_ns: self.now_ns,
            submitted_ns: 0,
            due_ns,
        };
        if dir == Dir::Write {
            self.prepare_write(slot, &request);
        }
        if let Some(pace) = &mut self.pace {
            pace.advance(dir, request.len);
        }
        self.queue.push(slot, &request);
    }

    /// What is due under the schedule, or the instant before which nothing is.
    fn next_due(&mut self) -> Result<(Dir, u64), u64> {
        let Some(pace) = &self.pace else { return Ok((self.source.next_dir(), 0)) };
        match pace.due(self.now_ns) {
            Due::At(dir, due) => Ok((dir, due)),
            Due::NotBefore(instant) => Err(instant),
            Due::Free => {
                let dir = self.source.next_dir();
                let free =
                    Dir::ALL.into_iter().find(|d| pace.is_free(*d) && self.job.access.mix.has(*d));
                Ok((if pace.is_free(dir) { dir } else { free.unwrap_or(dir) }, 0))
            }
        }
    }

    /// Contents of a write, and whether a flush is due after it.
    fn prepare_write(&mut self, slot: u32, request: &Request) {
        if let Some(filler) = &mut self.filler {
            if filler.refills() {
                filler.fill(&mut self.slab.slot_mut(slot)[..request.len as usize]);
            } else if filler.stamps() {
                filler.stamp(&mut self.slab.slot_mut(slot)[..request.len as usize], request.offset);
            }
        }
        let plan = &self.job.sync;
        self.since_flush.fsync += 1;
        self.since_flush.fdatasync += 1;
        if plan.fsync_every > 0 && self.since_flush.fsync >= plan.fsync_every {
            self.gate = Gate::Flush(Op::Fsync, request.file);
        } else if plan.fdatasync_every > 0 && self.since_flush.fdatasync >= plan.fdatasync_every {
            self.gate = Gate::Flush(Op::Fdatasync, request.file);
        }
    }

    /// Books what was pushed: one look at the clock for the whole batch.
    #[inline]
    fn submitted<const PACED: bool>(&mut self, before: usize, count: usize, pushed: &PerDir<u64>) {
        let now = clock::now_ns();
        for slot in &self.idle[self.idle_len..before] {
            let slot = &mut self.slots[*slot as usize];
            slot.submitted_ns = now;
            if PACED
                && slot.due_ns > 0
                && now.saturating_sub(slot.due_ns) > LATE_NS
                && let Op::Io(dir) = slot.request.op
            {
                self.stats.dirs[dir].late_ios.add(1);
            }
        }
        for (dir, n) in pushed.iter() {
            if *n > 0 {
                self.stats.dirs[dir].slat.record_n(now.saturating_sub(self.now_ns), *n);
            }
        }
        let count = count as u32;
        if self.left_ios != u64::MAX {
            self.left_ios -= u64::from(count);
        }
        if self.until_think != u64::MAX {
            self.until_think -= u64::from(count);
            if self.until_think == 0 {
                self.gate = if self.gate == Gate::Open { Gate::Think } else { self.gate };
            }
        }
        self.in_flight += count;
        self.depth.submitted(count, self.in_flight);
        if self.job.batch.low.is_some() && self.idle_len == 0 {
            self.filling = false;
        }
    }

    /// Lets the kernel work, then counts what completed.
    #[inline]
    fn turn<const PACED: bool>(&mut self, wait_for: u32, deadline_ns: Option<u64>) {
        self.shared.in_flight.store(self.in_flight, Relaxed);
        if let Err(error) = self.queue.turn(wait_for, deadline_ns) {
            self.broken(&error);
        }
        self.now_ns = clock::now_ns();
        self.reap::<PACED>();
    }

    #[inline]
    fn reap<const PACED: bool>(&mut self) {
        let (now_ns, stats) = (self.now_ns, self.stats);
        let mut run =
            Run { dir: Dir::Read, submitted_ns: u64::MAX, prepared_ns: 0, ios: 0, bytes: 0 };
        let Self { queue, slots, idle, idle_len, unusual, .. } = self;
        let max = self.job.batch.complete_max.unwrap_or(u32::MAX);
        let count = queue.reap(max, |index, result| {
            let slot = &slots[index as usize];
            let Op::Io(dir) = slot.request.op else { return unusual.push((index, result)) };
            if result as u32 != slot.expect || slot.retries > 0 {
                return unusual.push((index, result));
            }
            if slot.submitted_ns != run.submitted_ns || dir != run.dir {
                run.count(stats, now_ns);
                run = Run {
                    dir,
                    submitted_ns: slot.submitted_ns,
                    prepared_ns: slot.prepared_ns,
                    ios: 0,
                    bytes: 0,
                };
            }
            run.ios += 1;
            run.bytes += u64::from(slot.len);
            if PACED && slot.due_ns > 0 {
                stats.dirs[dir].response.record_n(now_ns.saturating_sub(slot.due_ns), 1);
            }
            idle[*idle_len] = index;
            *idle_len += 1;
        });
        run.count(stats, now_ns);
        self.in_flight -= count;
        if count > 0 {
            self.depth.completed(count);
        }
        if !self.unusual.is_empty() {
            self.handle_unusual();
        }
    }

    #[cold]
    fn handle_unusual(&mut self) {
        for index in 0..self.unusual.len() {
            let (slot, result) = self.unusual[index];
            self.unusual_completion(slot, result);
        }
        self.unusual.clear();
    }
}
