//! Handles completions other than plain successes. Cold.

use super::Worker;
use crate::observer::Observe;
use crate::queue::{Op, Queue};
use crate::source::Source;
use fathom_model::Dir;
use fathom_model::plan::{Engine, Psync};
use fathom_model::record::JobError;
use std::io;

/// An I/O fails after this many retries.
const RETRIES_MAX: u32 = 1_000_000;

impl<Q: Queue, S: Source, O: Observe> Worker<'_, Q, S, O> {
    /// Handles the completion of `slot` with `result`: bytes transferred, or `-errno`.
    pub(super) fn unusual_completion(&mut self, slot: u32, result: i32) {
        let request = self.request(slot);
        let dir = match request.op {
            Op::Io(dir) => dir,
            flush => return self.flushed(slot, flush, result),
        };
        match result {
            0 if dir == Dir::Trim => self.late_success(slot, dir),
            n if n > 0 && n as u32 == request.len => self.late_success(slot, dir),
            n if -n == libc::EAGAIN || -n == libc::EINTR => self.again(slot, dir, -n),
            n if n < 0 => self.failed(slot, dir, -n, ""),
            // Zero bytes: the target has shrunk since the run began.
            0 if dir == Dir::Read => self.failed(
                slot,
                dir,
                libc::ENODATA,
                "; the target is shorter than at the start of the run: it was truncated, or the device is gone (see `dmesg`)",
            ),
            0 => self.failed(slot, dir, libc::ENOSPC, ""),
            n if (n as u32) < request.len => self.rest_of(slot, n as u32),
            n => {
                self.failed(slot, dir, libc::EIO, &format!("; the kernel reports {n} bytes transferred"))
            }
        }
    }

    /// A success after retries or in parts.
    fn late_success(&mut self, slot: u32, dir: Dir) {
        let (request, due_ns) = (self.request(slot), self.slots[slot as usize].due_ns);
        let io = O::ON.then(|| self.observed(slot));
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
        if let Some(io) = io {
            self.observer.completed(self.now_ns, io, clat_ns, lat_ns);
        }
    }

    fn again(&mut self, slot: u32, dir: Dir, errno: i32) {
        let nowait = Engine::Psync(Psync::VectoredFlags { hipri: false, nowait: true });
        if errno == libc::EAGAIN && self.job.engine == nowait {
            return self.failed(slot, dir, errno, "; the request would block, and nowait=1 is set");
        }
        self.retries[slot as usize] += 1;
        if self.retries[slot as usize] > RETRIES_MAX {
            self.failed(slot, dir, errno, "; gave up after 1,000,000 retries");
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

    fn failed(&mut self, slot: u32, dir: Dir, errno: i32, more: &str) {
        let request = self.request(slot);
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
            let what = match &self.job.engine {
                Engine::Names(names) => names.op.name().to_string(),
                _ => format!("{dir} of {} bytes at offset {}", request.len, request.offset),
            };
            self.failure = Some(self.describe(&what, request.file, errno, more));
        }
    }

    fn flushed(&mut self, slot: u32, op: Op, result: i32) {
        let file = self.slots[slot as usize].file;
        if -result == libc::EINTR || -result == libc::EAGAIN {
            self.retry.push(slot);
            return;
        }
        self.retire(slot);
        self.resume_issuing();
        if result < 0 {
            let what = if op == Op::Fsync { "fsync" } else { "fdatasync" };
            self.fatal = true;
            let error = self.describe(what, file, -result, "");
            self.failure.get_or_insert(error);
        } else {
            self.stats.flushes.add(1);
            self.stats.flush_lat.record_n(self.now_ns.saturating_sub(self.flush_started_ns), 1);
        }
    }

    /// The queue itself failed; nothing more can be done with it.
    #[cold]
    pub(super) fn broken(&mut self, error: &io::Error) {
        self.fatal = true;
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        self.failure.get_or_insert(JobError {
            errno,
            message: format!(
                "{}: the queue failed: {error}; {} I/Os were in flight",
                self.job.engine.name(),
                self.in_flight
            ),
        });
        self.queue_broken = true;
    }

    /// Reports the I/Os that did not complete.
    pub(super) fn give_up(&mut self) {
        let lost = self.in_flight;
        self.fatal = true;
        self.failure.get_or_insert(JobError {
            errno: libc::ETIMEDOUT,
            message: format!(
                "{lost} I/Os on {} did not complete within 8 s of the end of the job; the device or its driver hangs: see `dmesg`",
                self.paths.join(", ")
            ),
        });
    }

    fn describe(&self, what: &str, file: u32, errno: i32, more: &str) -> JobError {
        let path = self.paths.get(file as usize).map_or("the target", String::as_str);
        let error = io::Error::from_raw_os_error(errno);
        let polled = self.job.engine.uring().is_some_and(|u| u.iopoll);
        let known = self.queue.last_failure();
        let advice = match errno {
            _ if known.is_some() => "",
            libc::EOPNOTSUPP if polled => {
                "; the device has no polled queues: for NVMe, load the driver with nvme.poll_queues=N, or omit hipri"
            }
            libc::EOPNOTSUPP => "; the target does not support this operation",
            libc::EINVAL if self.job.direct => {
                "; direct I/O must be aligned to the target's logical block: check bs, offset and blockalign"
            }
            libc::EINVAL if self.job.engine == Engine::Splice => {
                "; its file system does not support splice: use ioengine=psync"
            }
            libc::ESTALE if matches!(self.job.engine, Engine::Names(_)) => {
                "; it was replaced since it was laid out, and fathom removes only what it created"
            }
            libc::EFAULT if self.job.engine == Engine::Mmap => {
                "; the target is shorter than at the start of the run: it was truncated"
            }
            libc::EIO => "; the device reports an error: see `dmesg`",
            libc::ENOSPC => {
                "; the file system or device is full, or the device is gone (see `dmesg`)"
            }
            libc::ENODATA if more.is_empty() => "; a medium error: see `dmesg`",
            libc::EREMOTEIO => "; the device rejected the request: see `dmesg`",
            libc::EDQUOT => "; raise the quota, or use a smaller size",
            libc::ENODEV | libc::ENXIO => "; the device is gone",
            libc::EBADF => "; the target is not open for this operation",
            _ => "",
        };
        let known = known.map_or_else(String::new, |known| format!("; {known}"));
        JobError {
            errno,
            message: format!("{what} of {path} failed: {error}{more}{known}{advice}"),
        }
    }
}
