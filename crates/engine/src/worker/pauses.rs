//! Interruptions of issuing: retries, flushes, think time, waiting for the schedule, and the end. Cold.

use super::batches::BatchTimes;
use super::core::{Core, Drain, ios_between_thinking};
use super::{DRAIN_NS, IssueState, NAP_NS, Slot, slow};
use crate::clock;
use crate::error::{EngineError, Operation};
use crate::queue::{Op, Queue, Request};
use crate::token::Tag;
use std::sync::atomic::Ordering::Relaxed;

impl Core<'_> {
    /// Frees the slot of an I/O that completed or was abandoned; returns its batch.
    pub(super) fn retire(&mut self, slot: u32) -> BatchTimes {
        self.idle[self.idle_len] = slot;
        self.idle_len += 1;
        self.retries[slot as usize] = 0;
        self.moved[slot as usize] = 0;
        let tag = self.slots[slot as usize].tag;
        self.slots[slot as usize] = Slot::fresh(self.len);
        match tag {
            Tag::SLOW_PATH => BatchTimes::default(),
            tag => self.batches.done(tag.batch(), 1),
        }
    }

    pub(super) fn request(&self, slot: u32) -> Request {
        let (offset, Slot { len, file, tag, expect, .. }) =
            (self.offsets[slot as usize], self.slots[slot as usize]);
        let op = match tag {
            Tag::SLOW_PATH if expect > 0 => Op::Fdatasync,
            Tag::SLOW_PATH => Op::Fsync,
            tag => Op::Io(tag.dir()),
        };
        Request { op, file, offset, len, buffer_offset: self.moved[slot as usize] }
    }

    /// Does what comes before the next I/O: retries, flushes, pauses and `iodepth_low`; returns whether one may be issued.
    #[cold]
    pub(super) fn resume(&mut self, queue: &mut dyn Queue) -> bool {
        while queue.sq_space_left() > 0 {
            let Some(slot) = self.retry.pop() else { break };
            self.push_slow(slot, queue);
        }
        if self.now_ns >= self.think_at_ns && self.issue_state == IssueState::Issuing {
            self.issue_state = IssueState::DrainToThink;
        }
        self.flush_or_think(queue);
        self.issue_state == IssueState::Issuing && self.filling
    }

    /// Pushes a slot's request outside any batch; its result is handled individually.
    fn push_slow(&mut self, slot: u32, queue: &mut dyn Queue) {
        let request = self.request(slot);
        queue.push(slow(slot), &request);
        self.in_flight += 1;
    }

    /// Flushes or pauses once nothing is in flight, and applies `iodepth_low`.
    fn flush_or_think(&mut self, queue: &mut dyn Queue) {
        if let Some(low) = self.job.batch.low {
            self.filling |= self.in_flight <= low;
        }
        if let IssueState::FlushBeside(op, file) = self.issue_state {
            if self.idle_len > 0 && queue.sq_space_left() > 0 {
                self.push_flush(op, file, queue);
                self.issue_state = IssueState::Issuing;
            }
            return;
        }
        if self.in_flight > 0 || !self.retry.is_empty() {
            return;
        }
        match self.issue_state {
            IssueState::DrainToFlush(op, file) => {
                self.push_flush(op, file, queue);
                self.writes.flushed();
            }
            IssueState::DrainToSyncRange(file) => {
                self.sync_range(file);
                self.resume_issuing();
            }
            IssueState::DrainToThink => {
                self.think();
                self.issue_state = IssueState::Issuing;
            }
            IssueState::Flushing
            | IssueState::FlushBeside(..)
            | IssueState::Issuing
            | IssueState::DrainToVerify => {}
        }
    }

    /// Resumes issuing after a flush; a pause that is due comes first.
    pub(super) fn resume_issuing(&mut self) {
        self.issue_state =
            if self.until_think == 0 { IssueState::DrainToThink } else { IssueState::Issuing };
    }

    pub(super) fn push_flush(&mut self, op: Op, file: u32, queue: &mut dyn Queue) {
        self.verifier().into_iter().for_each(|verifier| verifier.flush_begun(file));
        self.idle_len -= 1;
        let slot = self.idle[self.idle_len];
        self.flushing += 1;
        let (now_ns, data_only) = (clock::now_ns(), op == Op::Fdatasync);
        self.observer.iter_mut().for_each(|o| o.flushing(now_ns, file, data_only));
        self.offsets[slot as usize] = 0;
        self.slots[slot as usize] =
            Slot { due_ns: now_ns, len: 0, file, tag: Tag::SLOW_PATH, expect: data_only.into() };
        self.push_slow(slot, queue);
        self.issue_state = IssueState::Flushing;
    }

    /// Calls sync_file_range(2) for what was written to `file` since the last call.
    fn sync_range(&mut self, file: u32) {
        let Some(ranges) = &mut self.writes.ranges else { return };
        let began_ns = clock::now_ns();
        let result = ranges.sync(file);
        self.now_ns = clock::now_ns();
        if result < 0 {
            self.fatal = true;
            let path = self.paths.get(file as usize).map_or("", String::as_str);
            let error = EngineError::new(Operation::SyncRange).errno(-result).on(path);
            self.failure.get_or_insert(error);
            return;
        }
        self.stats.flushes.add(1);
        self.stats.flush_lat.record_n(self.now_ns - began_ns, 1);
    }

    fn think(&mut self) {
        let Some(think) = self.job.think else { return };
        self.until_think = ios_between_thinking(think);
        if self.left_ios == 0 || self.left_bytes == 0 {
            return;
        }
        self.pauses();
        let start = clock::now_ns();
        let end = (start + think.time_ns).min(self.until_ns);
        let spin_from = (start + think.time_ns.saturating_sub(think.spin_ns)).min(end);
        while clock::now_ns() < spin_from && !self.shared.is_stopping() {
            clock::sleep_until(spin_from.min(clock::now_ns() + NAP_NS));
        }
        while clock::now_ns() < end && !self.shared.is_stopping() {
            std::hint::spin_loop();
        }
        self.now_ns = clock::now_ns();
        self.begin_io_time();
    }

    /// Sleeps while no I/O is in flight or due.
    #[cold]
    pub(super) fn rest(&mut self, not_before: u64) {
        if not_before > self.now_ns {
            self.pauses();
            clock::sleep_until(not_before.min(self.until_ns).min(self.now_ns + NAP_NS));
        }
        self.now_ns = clock::now_ns();
    }

    /// From here on, the loop only waits for I/Os in flight, one by one.
    pub(super) fn begin_drain(&mut self) {
        self.drop_deferred();
        self.drain = Some(Drain { before: self.in_flight, progress_ns: self.now_ns });
        (self.left_ios, self.until_ns, self.complete_min) = (0, 0, 1);
    }

    /// Whether nothing is in flight any more, or nothing will complete.
    pub(super) fn is_drained(&mut self, queue: &mut dyn Queue) -> bool {
        self.drop_retries(queue);
        let Some(drain) = &mut self.drain else { return true };
        if self.in_flight == 0 || self.queue_broken {
            return true;
        }
        // A flush may take as long as the device needs, unless a stop is requested.
        let patient = self.flushing > 0 && !self.shared.is_stopping();
        if patient || self.in_flight < drain.before {
            drain.progress_ns = self.now_ns;
        } else if self.now_ns.saturating_sub(drain.progress_ns) > DRAIN_NS {
            self.give_up();
            return true;
        }
        drain.before = self.in_flight;
        false
    }

    pub(super) fn end_drain(&mut self) {
        self.drain = None;
        self.complete_min = self.job.batch.complete_min;
        self.shared.in_flight.store(self.in_flight, Relaxed);
    }

    /// Abandons I/Os that need a retry; resubmits flushes.
    fn drop_retries(&mut self, queue: &mut dyn Queue) {
        while let Some(slot) = self.retry.pop() {
            let request = self.request(slot);
            match request.op {
                Op::Io(dir) => {
                    if request.buffer_offset > 0 {
                        self.stats.dirs[dir].short_ios.add(1);
                    }
                    self.forget(&request);
                    self.leave_zone(slot, false);
                    self.retire(slot);
                }
                Op::Fsync | Op::Fdatasync => self.push_slow(slot, queue),
            }
        }
    }
}
