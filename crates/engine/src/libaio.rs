//! Linux native asynchronous I/O, through its system calls.

use crate::buffers::{Slab, SlotAddresses};
use crate::clock;
use crate::error::{EngineError, Hint, Operation};
use crate::files::{FileKind, OpenFile};
use crate::hints::Priorities;
use crate::psync::RWF_ATOMIC;
use crate::queue::{Op, Push, Queue, Request};
use crate::sync_queue::{outcome, without_data};
use crate::token::Token;
use fathom_model::Dir;
use fathom_model::plan::JobPlan;
use fathom_model::record::InEffect;
use std::io;

// Opcodes of linux/aio_abi.h.
const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_PWRITE: u16 = 1;
const IOCB_CMD_FSYNC: u16 = 2;
const IOCB_CMD_FDSYNC: u16 = 3;

/// `struct iocb` of linux/aio_abi.h on little-endian machines.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    result_fd: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct AioEvent {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

const IOCB_FLAG_IOPRIO: u32 = 1 << 1;

pub(crate) struct Libaio<const RW_FLAGS: bool> {
    atomic: bool,
    priorities: Option<Priorities>,
    context: libc::c_ulong,
    descriptors: Vec<i32>,
    slots_at: SlotAddresses,
    requests: Vec<Iocb>,
    /// Addresses of requests pushed and not yet submitted.
    pending: Vec<*const Iocb>,
    events: Vec<AioEvent>,
    ready: usize,
    reaped: usize,
    calls: u64,
}

impl<const RW_FLAGS: bool> Libaio<RW_FLAGS> {
    pub fn new(job: &JobPlan, files: &[OpenFile], slab: &Slab) -> Result<Self, EngineError> {
        let depth = slab.slots();
        let mut context: libc::c_ulong = 0;
        // SAFETY: `context` is a zeroed place for the handle, as io_setup(2) asks.
        let result = unsafe {
            libc::syscall(libc::SYS_io_setup, libc::c_long::from(depth as i32), &raw mut context)
        };
        if result < 0 {
            let error = EngineError::last(Operation::SetUpAio(depth));
            let hint = match error.errno {
                libc::EAGAIN => Hint::AioMaxNr,
                libc::ENOSYS => Hint::NoAio,
                _ => Hint::None,
            };
            return Err(error.hint(hint));
        }
        Ok(Self {
            atomic: job.flags.atomic,
            priorities: Priorities::new(job),
            context,
            descriptors: files.iter().map(OpenFile::raw).collect(),
            slots_at: slab.slot_addresses(),
            requests: vec![Iocb::default(); depth as usize],
            pending: Vec::with_capacity(depth as usize),
            events: vec![AioEvent::default(); depth as usize],
            ready: 0,
            reaped: 0,
            calls: 0,
        })
    }

    fn set_flags(&mut self, slot: u32, request: &Request) {
        let entry = &mut self.requests[slot as usize];
        if self.atomic && entry.opcode == IOCB_CMD_PWRITE {
            entry.rw_flags = RWF_ATOMIC as u32;
        }
        let priority = self.priorities.as_mut().map_or(0, |priorities| priorities.next(request));
        if priority > 0 {
            (entry.flags, entry.priority) = (IOCB_FLAG_IOPRIO, priority.cast_signed());
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            self.calls += 1;
            // SAFETY: the pointers name requests in `self.requests`, which is never resized.
            let taken = unsafe {
                libc::syscall(
                    libc::SYS_io_submit,
                    self.context,
                    self.pending.len(),
                    self.pending.as_ptr(),
                )
            };
            if taken < 0 {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    // The device's queue is full: reap completions first.
                    Some(libc::EAGAIN) => return Ok(()),
                    _ => return Err(error),
                }
            }
            self.pending.drain(..taken as usize);
        }
        Ok(())
    }
}

impl<const RW_FLAGS: bool> Push for Libaio<RW_FLAGS> {
    fn push(&mut self, token: Token, request: &Request) {
        let slot = token.slot();
        let opcode = match request.op {
            Op::Io(Dir::Read) => IOCB_CMD_PREAD,
            Op::Io(_) => IOCB_CMD_PWRITE,
            Op::Fsync => IOCB_CMD_FSYNC,
            Op::Fdatasync => IOCB_CMD_FDSYNC,
        };
        let moves = matches!(request.op, Op::Io(_));
        self.requests[slot as usize] = Iocb {
            data: token.0,
            opcode,
            fd: self.descriptors[request.file as usize] as u32,
            buffer: if moves { self.slots_at.address(slot, request) } else { 0 },
            bytes: u64::from(request.len),
            offset: request.offset as i64,
            ..Iocb::default()
        };
        if RW_FLAGS {
            self.set_flags(slot, request);
        }
        self.pending.push(&raw const self.requests[slot as usize]);
    }
}

impl<const RW_FLAGS: bool> Queue for Libaio<RW_FLAGS> {
    type Batch<'a> = &'a mut Self;

    fn sq_space_left(&self) -> u32 {
        (self.requests.len() - self.pending.len()) as u32
    }

    fn batch(&mut self) -> &mut Self {
        self
    }

    fn submit_and_wait(&mut self, wait_for: u32, deadline_ns: Option<u64>) -> io::Result<()> {
        self.submit()?;
        if self.ready > self.reaped {
            return Ok(());
        }
        (self.ready, self.reaped) = (0, 0);
        // Nothing else ends this wait: a short timeout lets the worker notice a stop.
        let wait_max_ns = 100_000_000;
        let wait_ns =
            deadline_ns.map_or(wait_max_ns, |d| d.saturating_sub(clock::now_ns()).min(wait_max_ns));
        let timeout = clock::timespec(wait_ns);
        self.calls += 1;
        // SAFETY: `events` has room for the requested number of events.
        let got = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                libc::c_long::from(wait_for),
                self.events.len() as libc::c_long,
                self.events.as_mut_ptr(),
                &raw const timeout,
            )
        };
        if got >= 0 {
            self.ready = got as usize;
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::EINTR) { Ok(()) } else { Err(error) }
    }

    fn reap(&mut self, max: u32, mut each: impl FnMut(Token, i32)) {
        let count = (self.ready - self.reaped).min(max as usize);
        for event in &self.events[self.reaped..self.reaped + count] {
            each(Token(event.data), event.result as i32);
        }
        self.reaped += count;
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }

    fn priority(&self, slot: u32) -> u16 {
        self.requests[slot as usize].priority.cast_unsigned()
    }
}

impl<const RW_FLAGS: bool> Drop for Libaio<RW_FLAGS> {
    fn drop(&mut self) {
        // SAFETY: the context is ours and not used again. Waits for what is in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

// SAFETY: the pointers in `pending` name the queue's own requests.
unsafe impl<const RW_FLAGS: bool> Send for Libaio<RW_FLAGS> {}

/// Trims for a queue that has none, as in fio: executes them itself, one at a time, in [`Queue::submit_and_wait`], and passes on all other requests.
pub(crate) struct InlineTrims<Q> {
    queue: Q,
    files: Vec<(i32, FileKind)>,
    /// Whether the last request of each slot is a trim.
    trims: Box<[bool]>,
    pushed: Vec<(Token, Request)>,
    done: Vec<(Token, i32)>,
    calls: u64,
}

impl<Q> InlineTrims<Q> {
    /// Trims beside the requests of `queue`, of at most `depth` slots.
    pub fn new(queue: Q, files: &[OpenFile], depth: u32) -> Self {
        Self {
            queue,
            files: files.iter().map(|file| (file.raw(), file.kind)).collect(),
            trims: vec![false; depth as usize].into(),
            pushed: Vec::with_capacity(depth as usize),
            done: Vec::with_capacity(depth as usize),
            calls: 0,
        }
    }
}

impl<Q: Push> Push for InlineTrims<Q> {
    fn push(&mut self, token: Token, request: &Request) {
        let is_trim = request.op == Op::Io(Dir::Trim);
        self.trims[token.slot() as usize] = is_trim;
        match is_trim {
            true => self.pushed.push((token, *request)),
            false => self.queue.push(token, request),
        }
    }
}

impl<Q: Queue> Queue for InlineTrims<Q> {
    type Batch<'a>
        = &'a mut Self
    where
        Self: 'a;

    fn sq_space_left(&self) -> u32 {
        self.queue.sq_space_left() - self.pushed.len() as u32
    }

    fn batch(&mut self) -> &mut Self {
        self
    }

    fn submit_and_wait(&mut self, wait_for: u32, deadline_ns: Option<u64>) -> io::Result<()> {
        if self.pushed.is_empty() && self.done.is_empty() {
            return self.queue.submit_and_wait(wait_for, deadline_ns);
        }
        // The device works on the other requests during the trims.
        self.queue.submit_and_wait(0, deadline_ns)?;
        for (token, request) in self.pushed.drain(..) {
            let (fd, kind) = self.files[request.file as usize];
            self.calls += 1;
            self.done.push((token, outcome(without_data(fd, kind, &request))));
        }
        Ok(())
    }

    fn reap(&mut self, max: u32, mut each: impl FnMut(Token, i32)) {
        let count = self.done.len().min(max as usize);
        self.done.drain(..count).for_each(|(token, result)| each(token, result));
        self.queue.reap(max - count as u32, each);
    }

    fn system_calls(&self) -> u64 {
        self.queue.system_calls() + self.calls
    }

    fn priority(&self, slot: u32) -> u16 {
        if self.trims[slot as usize] { 0 } else { self.queue.priority(slot) }
    }

    fn granted(&self) -> InEffect {
        self.queue.granted()
    }
}
