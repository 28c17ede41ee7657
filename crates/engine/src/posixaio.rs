//! POSIX asynchronous I/O: aio_read(3) and its siblings, as the C library implements them.
//!
//! glibc executes requests on threads of its own, one thread per descriptor: the I/Os of a file run one at a time.

use crate::buffers::{Slab, SlotAddresses};
use crate::clock;
use crate::files::{FileKind, OpenFile};
use crate::queue::{Op, Push, Queue, Request};
use crate::sync_queue::{last_error, outcome, without_data};
use crate::token::Token;
use fathom_model::Dir;
use fathom_model::plan::{Engine, JobPlan};
use std::io;

/// Requests that one wait names, oldest first: the C library keeps an entry for each on the stack.
const SUSPEND_MAX: usize = 64;
/// Nothing else ends a wait: a short timeout lets the worker notice a stop.
const WAIT_MAX_NS: u64 = 100_000_000;

pub(crate) struct PosixAio {
    files: Vec<(i32, FileKind)>,
    slots_at: SlotAddresses,
    /// The C library's state of each slot's request.
    controls: Box<[libc::aiocb]>,
    requests: Box<[(Token, Request)]>,
    /// Slots pushed and not yet started.
    pushed: Vec<u32>,
    /// Slots started and not yet completed, oldest first.
    started: Vec<u32>,
    done: Vec<(Token, i32)>,
    awaited: Vec<*const libc::aiocb>,
    calls: u64,
}

impl PosixAio {
    pub fn new(files: &[OpenFile], slab: &Slab) -> Self {
        let depth = slab.slots() as usize;
        let none = Request { op: Op::Fsync, file: 0, offset: 0, len: 0, buffer_offset: 0 };
        // SAFETY: all-zero bytes are a valid aiocb.
        let control: libc::aiocb = unsafe { std::mem::zeroed() };
        Self {
            files: files.iter().map(|file| (file.raw(), file.kind)).collect(),
            slots_at: slab.slot_addresses(),
            controls: vec![control; depth].into(),
            requests: vec![(Token::WAKE, none); depth].into(),
            pushed: Vec::with_capacity(depth),
            started: Vec::with_capacity(depth),
            done: Vec::with_capacity(depth),
            awaited: Vec::with_capacity(SUSPEND_MAX),
            calls: 0,
        }
    }

    fn start(&mut self, slot: u32) {
        let (token, request) = self.requests[slot as usize];
        let (fd, kind) = self.files[request.file as usize];
        self.calls += 1;
        let control = &mut self.controls[slot as usize];
        // SAFETY: all-zero bytes are a valid aiocb, and this one is not in use.
        *control = unsafe { std::mem::zeroed() };
        control.aio_fildes = fd;
        control.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        control.aio_offset = request.offset as i64;
        control.aio_nbytes = request.len as usize;
        control.aio_buf = self.slots_at.address(slot, &request) as *mut libc::c_void;
        // SAFETY: the control block and the slot's memory stay in place until the request completes: the worker keeps
        // both while it is in flight.
        let started = unsafe {
            match request.op {
                Op::Io(Dir::Read) => libc::aio_read(control),
                Op::Io(Dir::Write) => libc::aio_write(control),
                Op::Fsync => libc::aio_fsync(libc::O_SYNC, control),
                Op::Fdatasync => libc::aio_fsync(libc::O_DSYNC, control),
                Op::Io(Dir::Trim) => {
                    self.done.push((token, outcome(without_data(fd, kind, &request))));
                    return;
                }
            }
        };
        match started {
            0 => self.started.push(slot),
            // EAGAIN is from a lack of memory or threads; the worker tries again.
            _ => self.done.push((token, last_error())),
        }
    }

    fn collect(&mut self) {
        let Self { controls, requests, started, done, .. } = self;
        started.retain(|slot| {
            let control = &raw mut controls[*slot as usize];
            // SAFETY: the control block is that of a request that was started.
            let result = match unsafe { libc::aio_error(control) } {
                libc::EINPROGRESS => return true,
                // SAFETY: the request completed, and its result is fetched once.
                0 => unsafe { libc::aio_return(control) as i32 },
                errno => -errno,
            };
            done.push((requests[*slot as usize].0, result));
            false
        });
    }

    /// Waits until one of the oldest requests completes, for at most `wait_ns`.
    fn suspend(&mut self, wait_ns: u64) -> io::Result<()> {
        self.awaited.clear();
        let oldest = self.started.iter().take(SUSPEND_MAX);
        self.awaited.extend(oldest.map(|slot| &raw const self.controls[*slot as usize]));
        let timeout = clock::timespec(wait_ns);
        self.calls += 1;
        let count = self.awaited.len() as libc::c_int;
        // SAFETY: the list names control blocks of requests that were started.
        let result = unsafe { libc::aio_suspend(self.awaited.as_ptr(), count, &raw const timeout) };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(()),
            _ => Err(error),
        }
    }
}

impl Push for PosixAio {
    fn push(&mut self, token: Token, request: &Request) {
        self.requests[token.slot() as usize] = (token, *request);
        self.pushed.push(token.slot());
    }
}

impl Queue for PosixAio {
    type Batch<'a> = &'a mut Self;

    fn sq_space_left(&self) -> u32 {
        (self.controls.len() - self.pushed.len()) as u32
    }

    fn batch(&mut self) -> &mut Self {
        self
    }

    fn submit_and_wait(&mut self, wait_for: u32, deadline_ns: Option<u64>) -> io::Result<()> {
        for index in 0..self.pushed.len() {
            self.start(self.pushed[index]);
        }
        self.pushed.clear();
        self.collect();
        let end_ns = clock::now_ns() + WAIT_MAX_NS;
        let end_ns = deadline_ns.map_or(end_ns, |deadline| deadline.min(end_ns));
        while self.done.len() < wait_for as usize && !self.started.is_empty() {
            let wait_ns = end_ns.saturating_sub(clock::now_ns());
            if wait_ns == 0 {
                break;
            }
            self.suspend(wait_ns)?;
            self.collect();
        }
        Ok(())
    }

    fn reap(&mut self, max: u32, mut each: impl FnMut(Token, i32)) {
        let count = self.done.len().min(max as usize);
        self.done.drain(..count).for_each(|(token, result)| each(token, result));
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }
}

// SAFETY: the pointers in `controls` and `awaited` name the worker's own memory.
unsafe impl Send for PosixAio {}

/// Lets the C library use as many threads as it allows each of fio's processes. Without effect after the first request
/// of this process.
pub(crate) fn allow_threads(jobs: &[JobPlan]) {
    /// Threads per process by default, in glibc's aio_misc.c.
    const THREADS: usize = 20;
    let count = jobs.iter().filter(|job| job.engine == Engine::Posixaio).count();
    if count > 1 {
        set_threads((count * THREADS) as libc::c_int);
    }
}

#[cfg(target_env = "gnu")]
fn set_threads(count: libc::c_int) {
    /// `struct aioinit` of aio.h.
    #[repr(C)]
    #[derive(Default)]
    struct AioInit {
        threads: libc::c_int,
        requests: libc::c_int,
        unused: [libc::c_int; 4],
        idle_seconds: libc::c_int,
        reserved: libc::c_int,
    }
    unsafe extern "C" {
        fn aio_init(init: *const AioInit);
    }
    // Simultaneous requests expected: glibc's default. 0 leaves the idle time as it is.
    let init = AioInit { threads: count, requests: 64, ..AioInit::default() };
    // SAFETY: `init` has the layout that aio.h declares, and is only read.
    unsafe { aio_init(&raw const init) };
}

/// Other C libraries start threads as they need.
#[cfg(not(target_env = "gnu"))]
fn set_threads(_count: libc::c_int) {}
