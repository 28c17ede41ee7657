//! The queue of engines that execute one request at a time.

use crate::buffers::{Slab, SlotAddresses};
use crate::error::{EngineError, ScsiError};
use crate::files::FileKind;
use crate::queue::{MappedRange, Op, Push, Queue, Request};
use crate::token::Token;
use fathom_model::record::InEffect;
use std::io;

/// BLKDISCARD of linux/fs.h: `_IO(0x12, 119)`.
const BLKDISCARD: libc::c_ulong = 0x1277;

pub(crate) trait SyncEngine {
    /// Executes a request on the slot's memory at `buffer`; returns the bytes transferred, or `-errno`.
    fn execute(&mut self, buffer: *mut libc::c_void, request: &Request) -> i32;

    /// Executes the first of `requests`, and others with it; returns how many have a result in `done`.
    #[inline]
    fn execute_first(
        &mut self,
        requests: &[(Token, Request)],
        slots_at: SlotAddresses,
        done: &mut Vec<(Token, i32)>,
    ) -> usize {
        let (token, request) = requests[0];
        let buffer = slots_at.address(token.slot(), &request);
        done.push((token, self.execute(buffer as *mut libc::c_void, &request)));
        1
    }

    /// Called when a request is pushed, before its latency begins.
    fn prepare(&mut self, _request: &Request) {}

    fn system_calls(&self) -> u64;

    fn granted(&self) -> InEffect {
        InEffect::default()
    }

    /// Called after the last request: removes what was created, if that was requested.
    fn finish(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// What is known about the failure of the last request, beyond its errno.
    fn last_failure(&self) -> Option<ScsiError> {
        None
    }

    fn mappings(&self) -> Vec<MappedRange> {
        Vec::new()
    }
}

/// A queue that executes its requests one by one, in [`Queue::submit_and_wait`].
pub(crate) struct SyncQueue<E> {
    engine: E,
    slots_at: SlotAddresses,
    pushed: Vec<(Token, Request)>,
    done: Vec<(Token, i32)>,
}

impl<E: SyncEngine> SyncQueue<E> {
    pub fn new(engine: E, slab: &Slab) -> Self {
        Self {
            engine,
            slots_at: slab.slot_addresses(),
            pushed: Vec::with_capacity(slab.slots() as usize),
            done: Vec::with_capacity(slab.slots() as usize),
        }
    }
}

impl<E: SyncEngine> Push for SyncQueue<E> {
    fn push(&mut self, token: Token, request: &Request) {
        self.engine.prepare(request);
        self.pushed.push((token, *request));
    }
}

impl<E: SyncEngine> Queue for SyncQueue<E> {
    type Batch<'a>
        = &'a mut Self
    where
        Self: 'a;

    fn sq_space_left(&self) -> u32 {
        (self.pushed.capacity() - self.pushed.len()) as u32
    }

    fn batch(&mut self) -> &mut Self {
        self
    }

    fn submit_and_wait(&mut self, _wait_for: u32, _deadline_ns: Option<u64>) -> io::Result<()> {
        let mut next = 0;
        while next < self.pushed.len() {
            next += self.engine.execute_first(&self.pushed[next..], self.slots_at, &mut self.done);
        }
        self.pushed.clear();
        Ok(())
    }

    fn reap(&mut self, max: u32, mut each: impl FnMut(Token, i32)) {
        let count = self.done.len().min(max as usize);
        self.done.drain(..count).for_each(|(token, result)| each(token, result));
    }

    fn system_calls(&self) -> u64 {
        self.engine.system_calls()
    }

    fn granted(&self) -> InEffect {
        self.engine.granted()
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        self.engine.finish()
    }

    fn last_failure(&self) -> Option<ScsiError> {
        self.engine.last_failure()
    }

    fn mappings(&self) -> Vec<MappedRange> {
        self.engine.mappings()
    }
}

pub(crate) fn without_data(fd: i32, kind: FileKind, request: &Request) -> isize {
    match request.op {
        // SAFETY: takes no pointers.
        Op::Fsync => unsafe { libc::fsync(fd) as isize },
        // SAFETY: takes no pointers.
        Op::Fdatasync => unsafe { libc::fdatasync(fd) as isize },
        Op::Io(_) => discard(fd, kind, request),
    }
}

fn discard(fd: i32, kind: FileKind, request: &Request) -> isize {
    let range = [request.offset, u64::from(request.len)];
    // SAFETY: BLKDISCARD reads two numbers; fallocate takes no pointers.
    unsafe {
        if let FileKind::Block { trims } = kind {
            libc::ioctl(trims.unwrap_or(fd), BLKDISCARD, range.as_ptr()) as isize
        } else {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            libc::fallocate(fd, mode, request.offset as i64, i64::from(request.len)) as isize
        }
    }
}

/// A system call's return value as the result of a request; a failure is read from errno.
pub(crate) fn outcome(returned: isize) -> i32 {
    if returned >= 0 { returned as i32 } else { last_error() }
}

pub(crate) fn last_error() -> i32 {
    -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::Dir;
    use fathom_model::plan::Buffers;

    /// Returns each request's length, and the buffers that it was given.
    #[derive(Default)]
    struct Echo(Vec<u64>);

    impl SyncEngine for Echo {
        fn execute(&mut self, buffer: *mut libc::c_void, request: &Request) -> i32 {
            self.0.push(buffer as u64);
            request.len as i32
        }

        fn system_calls(&self) -> u64 {
            self.0.len() as u64
        }
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn requests_run_in_order_on_the_memory_of_their_slots() {
        let slab = Slab::new(2, 4096, &Buffers::default()).unwrap();
        let mut queue = SyncQueue::new(Echo::default(), &slab);
        let tokens = [1, 0].map(Token);
        for (token, buffer_offset) in tokens.into_iter().zip([512, 0]) {
            let op = Op::Io(Dir::Read);
            queue.push(token, &Request { op, file: 0, offset: 0, len: 7, buffer_offset });
        }
        assert_eq!(queue.sq_space_left(), 0);
        queue.submit_and_wait(1, None).unwrap();
        let mut reaped = Vec::new();
        queue.reap(9, |token, result| reaped.push((token, result)));
        assert_eq!(reaped, tokens.map(|token| (token, 7)));
        assert_eq!(queue.engine.0, [slab.address(1) + 512, slab.address(0)]);
        assert_eq!((queue.sq_space_left(), queue.system_calls()), (2, 2));
    }
}
