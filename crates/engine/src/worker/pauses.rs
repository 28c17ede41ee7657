//! Interruptions of issuing: retries, flushes, think time, waiting for the schedule, and the end. Cold.

use super::batches::Batch;
use super::{DRAIN_NS, IssueState, NAP_NS, Slot, Worker};
use crate::clock;
use crate::observer::Observe;
use crate::queue::{Op, Push, Queue, Request};
use crate::source::Source;
use crate::token::{Tag, Token};
use std::sync::atomic::Ordering::Relaxed;

impl<Q: Queue, S: Source, O: Observe> Worker<'_, Q, S, O> {
    /// Frees the slot of an I/O that completed or was abandoned; returns its batch.
    pub(super) fn retire(&mut self, slot: u32) -> Batch {
        self.idle[self.idle_len] = slot;
        self.idle_len += 1;
        self.retries[slot as usize] = 0;
        self.moved[slot as usize] = 0;
        let tag = self.slots[slot as usize].tag;
        self.slots[slot as usize] = Slot::fresh(&self.source);
        match tag {
            Tag::APART => Batch::default(),
            tag => self.batches.done(tag.batch(), 1),
        }
    }

    /// The remaining request of a slot.
    pub(super) fn request(&self, slot: u32) -> Request {
        let (offset, Slot { len, file, tag, .. }) =
            (self.offsets[slot as usize], self.slots[slot as usize]);
        let op = if tag == Tag::APART { self.flush_op } else { Op::Io(tag.dir()) };
        Request { op, file, offset, len, buffer_offset: self.moved[slot as usize] }
    }

    /// Resubmits requests that the kernel did not complete, or only in part.
    #[cold]
    pub(super) fn push_retries(&mut self) {
        while self.queue.room() > 0 {
            let Some(slot) = self.retry.pop() else { break };
            self.push_apart(slot);
        }
    }

    /// Pushes a slot's request outside any batch; its result is handled individually.
    fn push_apart(&mut self, slot: u32) {
        let request = self.request(slot);
        self.queue.batch().push(Token::new(slot, Tag::APART), &request);
        self.in_flight += 1;
    }

    /// Flushes or pauses once nothing is in flight, and applies `iodepth_low`.
    #[cold]
    pub(super) fn end_drain(&mut self) {
        if let Some(low) = self.job.batch.low {
            self.filling |= self.in_flight <= low;
        }
        if self.in_flight > 0 || !self.retry.is_empty() {
            return;
        }
        match self.issue_state {
            IssueState::DrainToFlush(op, file) => {
                self.push_flush(op, file);
                self.issue_state = IssueState::Flushing;
                self.writes.flushed();
            }
            IssueState::DrainToThink => {
                self.think();
                self.issue_state = IssueState::Issuing;
            }
            IssueState::Flushing | IssueState::Issuing => {}
        }
    }

    /// Resumes issuing after a flush; a pause that is due comes first.
    pub(super) fn resume_issuing(&mut self) {
        self.issue_state =
            if self.until_think == 0 { IssueState::DrainToThink } else { IssueState::Issuing };
    }

    pub(super) fn push_flush(&mut self, op: Op, file: u32) {
        self.idle_len -= 1;
        let slot = self.idle[self.idle_len];
        self.flush_op = op;
        self.flush_started_ns = clock::now_ns();
        self.offsets[slot as usize] = 0;
        self.slots[slot as usize] = Slot { due_ns: 0, len: 0, file, tag: Tag::APART, expect: 0 };
        self.push_apart(slot);
    }

    pub(super) fn think(&mut self) {
        let Some(think) = self.job.think else { return };
        self.until_think = u64::from(think.blocks.max(1));
        if self.left_ios == 0 || self.left_bytes == 0 {
            return;
        }
        self.observer.pauses();
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
    }

    /// Sleeps while no I/O is in flight or due.
    #[cold]
    pub(super) fn rest(&mut self, not_before: u64, until_ns: u64) {
        if not_before > self.now_ns {
            self.observer.pauses();
            clock::sleep_until(not_before.min(until_ns).min(self.now_ns + NAP_NS));
        }
        self.now_ns = clock::now_ns();
    }

    /// Waits for all I/Os in flight; reports an error for those that do not complete.
    pub fn drain(&mut self) {
        self.drop_retries();
        let mut last_progress = self.now_ns;
        while self.in_flight > 0 && !self.queue_broken {
            let before = self.in_flight;
            let deadline = clock::now_ns() + NAP_NS;
            if self.pace.is_some() {
                self.turn::<true>(1, Some(deadline))
            } else {
                self.turn::<false>(1, Some(deadline))
            }
            self.drop_retries();
            // A flush may take as long as the device needs, unless a stop is requested.
            let patient = self.issue_state == IssueState::Flushing && !self.shared.is_stopping();
            if patient || self.in_flight < before {
                last_progress = self.now_ns;
            } else if self.now_ns.saturating_sub(last_progress) > DRAIN_NS {
                self.give_up();
                break;
            }
        }
        self.shared.in_flight.store(self.in_flight, Relaxed);
    }

    /// Abandons I/Os that need a retry; resubmits flushes.
    pub(super) fn drop_retries(&mut self) {
        while let Some(slot) = self.retry.pop() {
            let request = self.request(slot);
            match request.op {
                Op::Io(dir) => {
                    if request.buffer_offset > 0 {
                        self.stats.dirs[dir].short_ios.add(1);
                    }
                    self.retire(slot);
                }
                Op::Fsync | Op::Fdatasync => self.push_apart(slot),
            }
        }
    }

    /// Flushes every file, as at the end of a job.
    pub fn flush_all(&mut self) {
        for file in 0..self.paths.len() as u32 {
            if self.fatal {
                return;
            }
            self.push_flush(Op::Fsync, file);
            self.issue_state = IssueState::Flushing;
            self.drain();
        }
    }
}
