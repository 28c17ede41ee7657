//! Handles completions other than plain successes. Cold.

use super::{Core, IssueState, Slot};
use crate::error::{EngineError, Hint, Operation};
use crate::queue::{Op, Queue, Request};
use fathom_model::Dir;
use fathom_model::plan::{Engine, Psync};
use std::io;

/// An I/O fails after this many retries.
const RETRIES_MAX: u32 = 1_000_000;

impl Core<'_> {
    #[cold]
    pub(super) fn handle_exceptions(&mut self, queue: &mut dyn Queue) {
        for index in 0..self.exceptions.len() {
            let (token, result) = self.exceptions[index];
            let slot = token.slot();
            if !token.tag().is_slow_path() {
                self.slots[slot as usize].tag = token.tag();
            }
            self.complete_slow(slot, result, queue);
        }
        self.exceptions.clear();
    }

    /// Handles the completion of `slot` with `result`: bytes transferred, or `-errno`.
    fn complete_slow(&mut self, slot: u32, result: i32, queue: &dyn Queue) {
        let request = self.request(slot);
        let dir = match request.op {
            Op::Io(dir) => dir,
            flush => return self.flushed(slot, flush, result, queue),
        };
        match result {
            0 if dir == Dir::Trim => self.complete_retried(slot, dir, queue),
            n if n > 0 && n as u32 == request.len => self.complete_retried(slot, dir, queue),
            n if -n == libc::EAGAIN || -n == libc::EINTR => self.again(slot, dir, -n, queue),
            n if n < 0 => self.failed((slot, dir), -n, Hint::None, queue),
            // Zero bytes: the target has shrunk since the run began.
            0 if dir == Dir::Read => self.failed((slot, dir), libc::ENODATA, Hint::Shrunk, queue),
            0 => self.failed((slot, dir), libc::ENOSPC, Hint::None, queue),
            n if (n as u32) < request.len => self.rest_of(slot, n as u32),
            n => self.failed((slot, dir), libc::EIO, Hint::Overrun(n), queue),
        }
    }

    /// A success after retries or in parts.
    fn complete_retried(&mut self, slot: u32, dir: Dir, queue: &dyn Queue) {
        let (request, due_ns) = (self.request(slot), self.slots[slot as usize].due_ns);
        let io = self.observed(slot, queue);
        self.check_completed(slot, dir, request.file, io.offset, io.len);
        self.leave_zone(slot, true);
        let batch = self.retire(slot);
        let stats = &self.stats.dirs[dir];
        stats.ios.add(1);
        // `buffer_offset` is the number of bytes transferred before the last part.
        stats.bytes.add(u64::from(request.buffer_offset) + u64::from(request.len));
        let clat_ns = self.now_ns.saturating_sub(batch.submitted_ns);
        let lat_ns = self.now_ns.saturating_sub(batch.prepared_ns);
        stats.clat.record_n(clat_ns, 1);
        stats.lat.record_n(lat_ns, 1);
        if due_ns > 0 {
            stats.response.record_n(self.now_ns.saturating_sub(due_ns), 1);
        }
        self.observe(io, clat_ns, lat_ns);
    }

    fn again(&mut self, slot: u32, dir: Dir, errno: i32, queue: &dyn Queue) {
        let nowait = Engine::Psync(Psync::VectoredFlags { hipri: false, nowait: true });
        if errno == libc::EAGAIN && self.job.engine == nowait {
            return self.failed((slot, dir), errno, Hint::WouldBlock, queue);
        }
        self.retries[slot as usize] += 1;
        if self.retries[slot as usize] > RETRIES_MAX {
            self.failed((slot, dir), errno, Hint::Retried, queue);
        } else {
            self.retry.push(slot);
        }
    }

    /// A short transfer: resubmit the rest.
    fn rest_of(&mut self, slot: u32, moved: u32) {
        self.offsets[slot as usize] += u64::from(moved);
        self.slots[slot as usize].len -= moved;
        self.moved[slot as usize] += moved;
        self.retry.push(slot);
    }

    fn failed(&mut self, (slot, dir): (u32, Dir), errno: i32, hint: Hint, queue: &dyn Queue) {
        let request = self.request(slot);
        self.forget(&request);
        self.leave_zone(slot, false);
        if self.job.until.full && dir == Dir::Write && matches!(errno, libc::ENOSPC | libc::EDQUOT)
        {
            self.retire(slot);
            self.left_ios = 0;
            return;
        }
        let stats = &self.stats.dirs[dir];
        if request.buffer_offset > 0 {
            stats.short_ios.add(1)
        } else {
            stats.errors.add(1)
        }
        let seen = &mut self.errnos[dir];
        match seen.iter_mut().find(|(e, _)| *e == errno) {
            Some((_, count)) => *count += 1,
            None => seen.push((errno, 1)),
        }
        self.retire(slot);
        let plan = &self.job.on_error;
        if plan.ignore[dir].contains(&errno) || plan.keep_going[dir] {
            return;
        }
        self.fatal = true;
        if self.failure.is_none() {
            let op = match &self.job.engine {
                Engine::Names(names) => Operation::Name(names.op),
                _ => Operation::Io { dir, len: request.len, offset: request.offset },
            };
            self.failure = Some(self.describe(op, request.file, errno, hint, queue));
        }
    }

    fn flushed(&mut self, slot: u32, op: Op, result: i32, queue: &dyn Queue) {
        let Slot { file, due_ns: started_ns, .. } = self.slots[slot as usize];
        if -result == libc::EINTR || -result == libc::EAGAIN {
            self.retry.push(slot);
            return;
        }
        self.retire(slot);
        self.flushing -= 1;
        if self.issue_state == IssueState::Flushing {
            self.resume_issuing();
        }
        if result < 0 {
            let op = if op == Op::Fsync { Operation::Fsync } else { Operation::Fdatasync };
            self.fatal = true;
            let error = self.describe(op, file, -result, Hint::None, queue);
            self.failure.get_or_insert(error);
        } else {
            if let Some(verifier) = self.verifier() {
                verifier.flushed();
                verifier.flush_completed(file);
            }
            self.stats.flushes.add(1);
            self.stats.flush_lat.record_n(self.now_ns.saturating_sub(started_ns), 1);
        }
    }

    /// A write that failed or was given up cannot be verified.
    pub(super) fn forget(&mut self, request: &Request) {
        let moved = request.buffer_offset;
        let whole = Request {
            offset: request.offset - u64::from(moved),
            len: request.len + moved,
            ..*request
        };
        if let (Op::Io(Dir::Write), Some(verifier)) = (request.op, self.verifier()) {
            verifier.fail(&whole);
        }
    }

    /// The queue itself failed; nothing more can be done with it.
    #[cold]
    pub(super) fn broken(&mut self, error: &io::Error) {
        self.fatal = true;
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        let (engine, in_flight) = (self.job.engine.name(), self.in_flight);
        let failed = EngineError::new(Operation::UseQueue { engine, in_flight }).errno(errno);
        self.failure.get_or_insert(failed);
        self.queue_broken = true;
    }

    pub(super) fn give_up(&mut self) {
        self.fatal = true;
        let op = Operation::Drain { lost: self.in_flight, paths: self.paths.clone() };
        self.failure.get_or_insert(EngineError::new(op).errno(libc::ETIMEDOUT));
    }

    fn describe(
        &self,
        op: Operation,
        file: u32,
        errno: i32,
        hint: Hint,
        queue: &dyn Queue,
    ) -> EngineError {
        let hint = match (queue.last_failure(), hint) {
            (Some(why), _) => Hint::Scsi(why),
            (None, Hint::None) => self.hint(errno),
            (None, hint) => hint,
        };
        let error = EngineError::new(op).errno(errno).hint(hint);
        match self.paths.get(file as usize) {
            Some(path) => error.on(path),
            None => error,
        }
    }

    fn hint(&self, errno: i32) -> Hint {
        let polled = self.job.engine.uring().is_some_and(|u| u.iopoll);
        match errno {
            libc::EINVAL | libc::ENOTTY | libc::EOPNOTSUPP | libc::EXDEV
                if self.job.engine.donor().is_some() =>
            {
                Hint::NoMoveExtents
            }
            libc::EOPNOTSUPP if polled => Hint::NoPolledQueues,
            libc::EOPNOTSUPP => Hint::Unsupported,
            libc::EINVAL if self.job.direct => Hint::Misaligned,
            libc::EINVAL if self.job.engine == Engine::Splice => Hint::NoSplice,
            libc::ESTALE if matches!(self.job.engine, Engine::Names(_)) => Hint::Replaced,
            libc::EFAULT if self.job.engine == Engine::Mmap => Hint::Truncated,
            libc::EIO => Hint::DeviceError,
            libc::ENOSPC => Hint::Full,
            libc::ENODATA => Hint::MediumError,
            libc::EREMOTEIO => Hint::Rejected,
            libc::EDQUOT => Hint::QuotaExceeded,
            libc::ENODEV | libc::ENXIO => Hint::DeviceGone,
            libc::EBADF => Hint::NotOpen,
            _ => Hint::None,
        }
    }
}
