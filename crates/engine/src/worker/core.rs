//! What a worker is, apart from its queue and its source, and all that it does rarely: compiled once. Only [`super::issue`]
//! and [`super::reap`] are compiled for each kind of queue and source.

use super::batches::{BatchLimit, Batches};
use super::issue::{RangeSyncs, Writes};
use super::{DeferredIo, IssueState, NAP_NS, Slot, SpanEnd, ZONE_NAP_NS};
use crate::buffers::Slab;
use crate::clock;
use crate::error::{EngineError, Operation};
use crate::files::OpenFile;
use crate::observer::{Observe, ObservedIo};
use crate::pace::{LATE_NS, Pace};
use crate::queue::{Op, Queue, Request};
use crate::stats::{DepthCounts, Shared, Stats};
use crate::token::Token;
use crate::verify::{Helpers, Io, Verifier};
use crate::zones::{Placed, ZoneUser};
use fathom_model::plan::{JobPlan, Think};
use fathom_model::record::WrongBlock;
use fathom_model::{Dir, PerDir};
use std::io;
use std::sync::atomic::Ordering::{Relaxed, Release};

pub(super) struct Drain {
    /// I/Os in flight before the last turn.
    pub before: u32,
    /// When some of them last completed.
    pub progress_ns: u64,
}

/// What is left of a span that another one interrupts.
pub(super) struct Interrupted<'a> {
    stats: &'a Stats,
    left_ios: u64,
    left_bytes: u64,
    until_ns: u64,
    until_think: u64,
    issue_state: IssueState,
    pace: Option<Pace>,
    depth: DepthCounts,
}

/// A worker without its queue and its source.
pub(crate) struct Core<'a> {
    pub job: &'a JobPlan,
    pub paths: Vec<String>,
    pub shared: &'a Shared,
    pub stats: &'a Stats,
    pub observer: Option<Box<dyn Observe + 'a>>,
    /// Where I/Os go, if the job uses zones.
    pub zones: Option<Box<ZoneUser>>,
    pub(super) writes: Writes,
    pub pace: Option<Pace>,
    /// Length of all I/Os, or of the longest.
    pub(super) len: u32,
    pub(super) slots: Box<[Slot]>,
    pub(super) offsets: Box<[u64]>,
    pub(super) retries: Box<[u32]>,
    pub(super) moved: Box<[u32]>,
    pub(super) batches: Batches,
    /// Free slots: the first `idle_len` of these.
    pub(super) idle: Box<[u32]>,
    pub(super) idle_len: usize,
    /// Free slots that are not used, to limit the queue depth.
    pub(super) withheld: usize,
    pub in_flight: u32,
    /// I/Os and bytes that may still be issued.
    pub(super) left_ios: u64,
    pub(super) left_bytes: u64,
    pub(super) until_think: u64,
    /// When the next think time is due (`thinktime_iotime`).
    pub(super) think_at_ns: u64,
    pub(super) issue_state: IssueState,
    pub until_ns: u64,
    /// The end of the job, once it has begun.
    pub(super) drain: Option<Drain>,
    /// System calls before measuring began.
    pub calls_before: u64,
    pub(super) batch_limit: BatchLimit,
    pub(super) complete_min: u32,
    pub(super) complete_max: u32,
    /// `iodepth_low`: whether the queue is being refilled.
    pub(super) filling: bool,
    /// An I/O that waits for one in flight, if the source serializes them.
    pub(super) deferred: Option<DeferredIo>,
    /// Slots whose request must be resubmitted.
    pub(super) retry: Vec<u32>,
    pub(super) flushing: u32,
    /// Completions other than plain successes.
    pub(super) exceptions: Vec<(Token, i32)>,
    pub now_ns: u64,
    pub depth: DepthCounts,
    pub failure: Option<EngineError>,
    pub(super) fatal: bool,
    /// The queue itself failed: there is nothing to wait for.
    pub(super) queue_broken: bool,
    pub errnos: PerDir<Vec<(i32, u64)>>,
}

pub(super) fn ios_between_thinking(think: Think) -> u64 {
    if think.blocks > 0 { u64::from(think.blocks) } else { u64::MAX }
}

impl<'a> Core<'a> {
    /// That of a worker which is ready to start. `slab` has one buffer per I/O in flight, and `len` is the length of
    /// all I/Os, or of the longest.
    pub fn new(
        job: &'a JobPlan,
        paths: Vec<String>,
        shared: &'a Shared,
        slab: Slab,
        len: u32,
        observer: Option<Box<dyn Observe + 'a>>,
    ) -> Self {
        let depth = slab.slots();
        Self {
            job,
            paths,
            shared,
            stats: &shared.stats,
            observer,
            zones: None,
            writes: Writes::new(job, slab, shared),
            pace: None,
            len,
            slots: vec![Slot::fresh(len); depth as usize].into(),
            offsets: vec![0; depth as usize].into(),
            retries: vec![0; depth as usize].into(),
            moved: vec![0; depth as usize].into(),
            batches: Batches::new(depth),
            // Taken from the end: slot 0 comes first.
            idle: (0..depth).rev().collect(),
            idle_len: depth as usize,
            withheld: 0,
            in_flight: 0,
            left_ios: u64::MAX,
            left_bytes: u64::MAX,
            until_think: job.think.map_or(u64::MAX, ios_between_thinking),
            think_at_ns: u64::MAX,
            issue_state: IssueState::Issuing,
            until_ns: u64::MAX,
            drain: None,
            calls_before: 0,
            batch_limit: BatchLimit::new(job.batch.submit_max, depth),
            complete_min: job.batch.complete_min,
            complete_max: job.batch.complete_max.unwrap_or(u32::MAX),
            flushing: 0,
            filling: true,
            deferred: None,
            retry: Vec::with_capacity(depth as usize),
            exceptions: Vec::with_capacity(depth as usize),
            now_ns: clock::now_ns(),
            depth: DepthCounts::new(depth),
            failure: None,
            fatal: false,
            queue_broken: false,
            errnos: PerDir::from_fn(|_| Vec::with_capacity(16)),
        }
    }

    /// Begins the time of I/O before the next think time, if that is what separates them.
    pub fn begin_io_time(&mut self) {
        let think = self.job.think.filter(|think| think.io_ns > 0);
        self.think_at_ns = think.map_or(u64::MAX, |think| self.now_ns.saturating_add(think.io_ns));
    }

    /// Sets what prepares and checks the data, if the job verifies any.
    pub fn verify(&mut self, verifier: Option<Box<Verifier>>) {
        self.writes.verifier = verifier;
    }

    /// Sets the threads that check data beside the worker.
    pub fn verify_with(&mut self, helpers: Option<Box<Helpers>>) {
        self.writes.helpers = helpers;
    }

    /// Prepares for sync_file_range(2) of `files`, if the job calls it.
    pub fn sync_ranges(&mut self, files: &[OpenFile]) {
        self.writes.ranges = RangeSyncs::new(self.job, files);
    }

    pub fn verifier(&mut self) -> Option<&mut Verifier> {
        self.writes.verifier.as_deref_mut()
    }

    /// What was written and has not completed, for good.
    pub fn lost(&self) -> Vec<Request> {
        let idle = &self.idle[..self.idle_len];
        let busy = (0..self.slots.len() as u32).filter(|slot| !idle.contains(slot));
        busy.map(|slot| self.request(slot)).filter(|r| r.op == Op::Io(Dir::Write)).collect()
    }

    /// Limits the I/Os in flight to `depth`; those beyond it complete first.
    pub fn limit_depth(&mut self, depth: u32) {
        self.withheld = self.slots.len().saturating_sub(depth as usize);
    }

    /// Whether the job has ended by a failure, not by one that it goes on after.
    pub fn has_failed(&self) -> bool {
        self.fatal
    }

    /// Written blocks that are to be trimmed now. As in fio, they are among the I/Os of the span, but end with their batch.
    pub fn trims_due(&mut self) -> Vec<Request> {
        let trims = self.verifier().map(Verifier::trims).unwrap_or_default();
        self.left_ios = self.left_ios.saturating_sub(trims.len() as u64);
        trims
    }

    /// Whether the reads in flight, and those to come, are to be verified.
    pub(super) fn check_reads(&mut self, checks: bool) {
        self.writes.verifier.iter_mut().for_each(|verifier| verifier.checking = checks);
    }

    /// Whether something is to be verified before the span goes on; with nothing in flight.
    pub(super) fn verify_now(&mut self) -> bool {
        let due = self.issue_state == IssueState::DrainToVerify && self.retry.is_empty();
        if due {
            self.resume_issuing();
        }
        due
    }

    pub fn is_huge(&self) -> bool {
        self.writes.slab.is_huge()
    }

    /// Resets the counters outside [`Stats`] at the end of the ramp, after `calls` system calls.
    pub fn begin_measuring(&mut self, system_calls: u64) {
        self.depth.clear();
        self.calls_before = system_calls;
        let now_ns = self.now_ns;
        self.observer.iter_mut().for_each(|observer| observer.begin(now_ns));
        Dir::ALL.iter().for_each(|dir| self.errnos[*dir].clear());
    }

    pub(super) fn begin_span(
        &mut self,
        stats: &'a Stats,
        until_ns: u64,
        ios: Option<u64>,
        bytes: Option<u64>,
    ) {
        self.stats = stats;
        // Its length was limited by what was left of the span before.
        self.drop_deferred();
        let begun = u64::from(self.in_flight) + self.retry.len() as u64;
        self.left_ios = ios.map_or(u64::MAX, |ios| ios.saturating_sub(begun));
        let begun_bytes = begun * u64::from(self.len);
        self.left_bytes = bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(begun_bytes));
        self.until_ns = until_ns;
        self.shared.deadline_ns.store(if until_ns == u64::MAX { 0 } else { until_ns }, Release);
    }

    /// What is left of the span, to be given to [`Core::resume_span`] after another one. Its I/Os know no schedule.
    pub(super) fn interrupt_span(&mut self) -> Interrupted<'a> {
        let Self { stats, left_ios, left_bytes, until_ns, until_think, issue_state, .. } = *self;
        (self.until_think, self.issue_state) = (u64::MAX, IssueState::Issuing);
        let depth = std::mem::replace(&mut self.depth, DepthCounts::new(self.slots.len() as u32));
        let pace = self.pace.take();
        Interrupted { stats, left_ios, left_bytes, until_ns, until_think, issue_state, pace, depth }
    }

    pub(super) fn resume_span(&mut self, span: Interrupted<'a>) {
        self.begin_span(span.stats, span.until_ns, None, None);
        (self.left_ios, self.left_bytes) = (span.left_ios, span.left_bytes);
        (self.until_think, self.issue_state) = (span.until_think, span.issue_state);
        (self.pace, self.depth) = (span.pace, span.depth);
    }

    /// Puts on disk what the journal has to say before the next I/Os are submitted.
    pub fn write_ahead(&mut self) {
        let result = self.verifier().map_or(Ok(()), Verifier::write_ahead);
        self.journaled(result);
    }

    /// Puts all of the journal on disk.
    pub fn sync_journal(&mut self) {
        let result = self.verifier().map_or(Ok(()), Verifier::sync_journal);
        self.journaled(result);
    }

    fn journaled(&mut self, result: io::Result<()>) {
        let Err(error) = result else { return };
        self.fatal = true;
        let path = self.verifier().map_or_else(String::new, |v| v.journal_path().to_string());
        let error = EngineError::by_kernel(Operation::WriteJournal, &error).on(&path);
        self.failure.get_or_insert(error);
    }

    /// Verifies plain successes: the free slots from `first` on.
    #[cold]
    pub(super) fn verify_completed(&mut self, first: usize) {
        if self.writes.helpers.is_some() && self.writes.is_checking() && self.idle_len - first > 1 {
            return self.verify_together(first);
        }
        for at in first..self.idle_len {
            let slot = self.idle[at];
            let Slot { tag, len, file, .. } = self.slots[slot as usize];
            self.check_completed(slot, tag.dir(), file, self.offsets[slot as usize], len);
        }
    }

    /// Verifies what a slot has read, if it is to be verified, or enters its write in the journal, if there is one.
    pub(super) fn check_completed(
        &mut self,
        slot: u32,
        dir: Dir,
        file: u32,
        offset: u64,
        len: u32,
    ) {
        let Writes { slab, verifier, .. } = &mut self.writes;
        let Some(verifier) = verifier else { return };
        if dir == Dir::Write {
            verifier.completed(slot);
        }
        if !verifier.checking || dir != Dir::Read {
            return;
        }
        let request = Request { op: Op::Io(dir), file, offset, len, buffer_offset: 0 };
        let path = self.paths.get(file as usize).map_or("", String::as_str);
        let io = &mut slab.slot_mut(slot)[..len as usize];
        let found = verifier.check(io, &request, path);
        found.into_iter().for_each(|(wrong, ends)| self.found_wrong(wrong, ends));
    }

    fn found_wrong(&mut self, wrong: WrongBlock, ends: bool) {
        self.fatal |= ends;
        if self.failure.is_none() {
            let path = wrong.file.clone();
            let op = Operation::Verify(Box::new(wrong));
            self.failure = Some(EngineError::new(op).errno(libc::EILSEQ).on(&path));
        }
    }

    /// The same by several threads (`verify_async`); the results are entered in the order of completion.
    fn verify_together(&mut self, first: usize) {
        let Writes { slab, verifier: Some(verifier), helpers: Some(helpers), .. } =
            &mut self.writes
        else {
            return;
        };
        for at in first..self.idle_len {
            let slot = self.idle[at];
            let Slot { tag, len, file, .. } = self.slots[slot as usize];
            let (dir, offset) = (tag.dir(), self.offsets[slot as usize]);
            match dir {
                Dir::Read => {
                    let request = Request { op: Op::Io(dir), file, offset, len, buffer_offset: 0 };
                    helpers.ios.push(Io::new(&mut slab.slot_mut(slot)[..len as usize], request));
                }
                Dir::Write => verifier.completed(slot),
                Dir::Trim => {}
            }
        }
        helpers.check(verifier, &self.paths);
        let checked = helpers.ios.drain(..).filter_map(|io| io.checked);
        let found: Vec<_> = checked.filter_map(|checked| verifier.enter(checked)).collect();
        found.into_iter().for_each(|(wrong, ends)| self.found_wrong(wrong, ends));
    }

    /// CPU time of the threads that verify, in nanoseconds.
    pub fn verify_cpu_ns(&self) -> u64 {
        self.writes.helpers.as_ref().map_or(0, |helpers| helpers.cpu_ns())
    }

    /// Tells the zones of plain successes, the free slots from `first` on, that these ended.
    #[cold]
    pub(super) fn leave_zones(&mut self, first: usize) {
        for at in first..self.idle_len {
            self.leave_zone(self.idle[at], true);
        }
    }

    /// Tells the zone of a slot's I/O that it ended.
    pub(super) fn leave_zone(&mut self, slot: u32, succeeded: bool) {
        let Slot { tag, file, .. } = self.slots[slot as usize];
        let at = self.offsets[slot as usize] - u64::from(self.moved[slot as usize]);
        let Some(zones) = self.zones.as_mut().filter(|_| !self.writes.is_checking()) else {
            return;
        };
        if !tag.is_slow_path() {
            zones.completed(tag.dir(), file, at, succeeded);
        }
    }

    pub(super) fn drop_deferred(&mut self) {
        let Some(DeferredIo { dir, request, is_placed: true, .. }) = self.deferred.take() else {
            return;
        };
        self.zones
            .iter_mut()
            .for_each(|zones| zones.completed(dir, request.file, request.offset, false));
    }

    /// Deals with the deferred I/O, which found no place in a zone, after `pushed` others; returns when to try again.
    #[cold]
    pub(super) fn not_placed(&mut self, why: Placed, pushed: u64) -> u64 {
        match why {
            // With nothing in flight, others have the zone.
            Placed::Wait if self.in_flight == 0 && pushed == 0 => return self.now_ns + ZONE_NAP_NS,
            Placed::Wait | Placed::At(_) => return 0,
            Placed::Done(request) => self.trimmed_zone(&request),
            Placed::End => self.left_ios = pushed,
            Placed::Failed(error) => {
                self.fatal = true;
                self.failure.get_or_insert(error);
            }
        }
        self.deferred = None;
        0
    }

    /// Counts a trim in whose place a zone was reset.
    fn trimmed_zone(&mut self, request: &Request) {
        let (dir, len) = (Dir::Trim, request.len);
        let took_ns = clock::now_ns().saturating_sub(self.now_ns);
        let stats = &self.stats.dirs[dir];
        stats.ios.add(1);
        stats.bytes.add(u64::from(len));
        stats.clat.record_n(took_ns, 1);
        stats.lat.record_n(took_ns, 1);
        self.left_ios = self.left_ios.saturating_sub(1);
        self.left_bytes = self.left_bytes.saturating_sub(u64::from(len));
        self.pace.iter_mut().for_each(|pace| pace.advance(dir, len));
        let (file, offset) = (request.file, request.offset);
        self.observe(ObservedIo { dir, file, offset, len, priority: 0 }, took_ns, took_ns);
    }

    /// Whether the span may be over, which [`Core::end`] decides.
    #[inline]
    pub(super) fn may_end(&self) -> bool {
        self.fatal || self.now_ns >= self.until_ns || self.shared.is_stopping()
    }

    /// Whether everything was issued and has completed, if nothing is in flight.
    pub(super) fn is_finished(&self) -> bool {
        self.retry.is_empty() && (self.left_ios == 0 || self.left_bytes == 0)
    }

    /// Whether there is more to do before an I/O is issued than to look for a free slot.
    #[inline]
    pub(super) fn is_interrupted(&self) -> bool {
        !self.retry.is_empty()
            || self.issue_state != IssueState::Issuing
            || self.job.batch.low.is_some()
            || self.now_ns >= self.think_at_ns
    }

    #[inline]
    pub(super) fn wait_for(&self, waits_for_schedule: bool) -> u32 {
        let may_issue = self.issue_state == IssueState::Issuing
            && self.left_ios > 0
            && self.left_bytes > 0
            && self.filling;
        if may_issue && self.idle_len > self.withheld && !waits_for_schedule {
            // The batch limit held back I/Os: do not wait.
            0
        } else if may_issue {
            self.complete_min.min(self.in_flight)
        } else {
            self.complete_min.clamp(1, self.in_flight)
        }
    }

    /// When the next turn ends at the latest; `scheduled` is when the next I/O is due, or 0.
    #[inline]
    pub(super) fn deadline_ns(&self, scheduled: u64) -> Option<u64> {
        if scheduled > 0 {
            Some(scheduled.min(self.until_ns))
        } else {
            self.drain.is_some().then_some(self.now_ns + NAP_NS)
        }
    }

    #[inline]
    pub(super) fn account_batch(&mut self, count: usize, pushed: &[u64; 3], now: u64) {
        self.idle_len -= count;
        let count = count as u32;
        self.batches.submitted(self.now_ns, now, count);
        for (dir, n) in Dir::ALL.into_iter().zip(pushed).filter(|(_, n)| **n > 0) {
            self.stats.dirs[dir].slat.record_n(now.saturating_sub(self.now_ns), *n);
        }
        // Unlimited jobs start with a count that no worker reaches.
        self.left_ios -= u64::from(count);
        self.until_think -= u64::from(count);
        if self.until_think == 0 && self.issue_state == IssueState::Issuing {
            self.issue_state = IssueState::DrainToThink;
        }
        self.in_flight += count;
        self.depth.submitted(count, self.in_flight);
        self.filling &= self.job.batch.low.is_none() || self.idle_len > 0;
    }

    /// Of the batch being filled, the last `count` of the free slots: counts I/Os that are late, and reports all.
    pub(super) fn observe_submitted(&mut self, count: usize, now_ns: u64, queue: &dyn Queue) {
        for at in (self.idle_len - count..self.idle_len).rev() {
            let slot = &self.slots[self.idle[at] as usize];
            if slot.due_ns > 0 && now_ns.saturating_sub(slot.due_ns) > LATE_NS {
                self.stats.dirs[slot.tag.dir()].late_ios.add(1);
            }
            if self.observer.is_some() {
                let (io, slat_ns) =
                    (self.observed(self.idle[at], queue), now_ns.saturating_sub(self.now_ns));
                let observer = self.observer.iter_mut();
                observer.for_each(|observer| observer.submitted(now_ns, io, slat_ns));
            }
        }
    }

    /// Reports plain successes: the free slots from `first` on.
    pub(super) fn observe_completed(&mut self, first: usize, queue: &dyn Queue) {
        if self.observer.is_none() {
            return;
        }
        for at in first..self.idle_len {
            let slot = self.idle[at];
            let batch = self.batches.last(self.slots[slot as usize].tag.batch());
            let clat_ns = self.now_ns.saturating_sub(batch.submitted_ns);
            let lat_ns = self.now_ns.saturating_sub(batch.prepared_ns);
            let io = self.observed(slot, queue);
            self.observe(io, clat_ns, lat_ns);
        }
    }

    pub(super) fn observe(&mut self, io: ObservedIo, clat_ns: u64, lat_ns: u64) {
        let now_ns = self.now_ns;
        self.observer.iter_mut().for_each(|o| o.completed(now_ns, io, clat_ns, lat_ns));
    }

    pub(super) fn observed(&self, slot: u32, queue: &dyn Queue) -> ObservedIo {
        let (index, moved) = (slot as usize, self.moved[slot as usize]);
        ObservedIo {
            dir: self.slots[index].tag.dir(),
            file: self.slots[index].file,
            offset: self.offsets[index] - u64::from(moved),
            len: self.slots[index].len + moved,
            priority: queue.priority(slot),
        }
    }

    pub fn pauses(&mut self) {
        self.sync_journal();
        self.observer.iter_mut().for_each(|observer| observer.pauses());
    }

    #[inline]
    pub(super) fn begin_turn(&self) {
        self.shared.in_flight.store(self.in_flight, Relaxed);
        self.shared.turns.add(1);
    }

    #[inline]
    pub(super) fn end_turn(&self, wait_for: u32, reaped: u32) {
        if self.shared.wait_check.is_requested() {
            self.shared.wait_check.answer(wait_for, reaped);
        }
    }

    /// Why the span is over, if it is.
    #[cold]
    pub(super) fn end(&mut self, queue: &mut dyn Queue) -> Option<SpanEnd> {
        if self.drain.is_some() {
            return self.is_drained(queue).then_some(SpanEnd::Finished);
        }
        Some(if self.fatal {
            SpanEnd::Failed
        } else if self.now_ns >= self.until_ns {
            SpanEnd::TimeOver
        } else {
            SpanEnd::Stopped
        })
    }
}
