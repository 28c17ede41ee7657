//! The interface of all I/O engines.

use crate::error::{EngineError, ScsiError};
use crate::token::Token;
use fathom_model::Dir;
use fathom_model::record::InEffect;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Io(Dir),
    Fsync,
    Fdatasync,
}

/// One request. Its data is in its slot's buffer, from `buffer_offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub op: Op,
    pub file: u32,
    pub offset: u64,
    pub len: u32,
    /// Offset into the slot's buffer; above 0 only for the rest of a short transfer.
    pub buffer_offset: u32,
}

pub(crate) trait Push {
    /// Adds a request; `token` names its slot. It may reach the kernel only with [`Queue::submit_and_wait`].
    fn push(&mut self, token: Token, request: &Request);
}

impl<P: Push> Push for &mut P {
    #[inline]
    fn push(&mut self, token: Token, request: &Request) {
        (**self).push(token, request);
    }
}

/// A queue of requests to the kernel. Every request has a slot, which is also its buffer.
pub(crate) trait Queue: Push {
    /// Accepts several requests; keeps what they have in common in registers.
    type Batch<'a>: Push
    where
        Self: Sized + 'a;

    fn sq_space_left(&self) -> u32;

    fn batch(&mut self) -> Self::Batch<'_>
    where
        Self: Sized;

    /// Begins a batch of `count` requests with the same direction, file and length as all others pushed
    /// this way.
    fn batch_alike(&mut self, _count: u32) -> Self::Batch<'_>
    where
        Self: Sized,
    {
        self.batch()
    }

    /// Submits everything pushed so far and waits for at least `wait_for` completions, or until
    /// `deadline_ns`, if given, on the engine's clock. May return early, for example after a signal or
    /// [`crate::queue`]. Fails only if the queue itself is broken.
    fn submit_and_wait(&mut self, wait_for: u32, deadline_ns: Option<u64>) -> io::Result<()>;

    /// Reaps at most `max` completions; `each` gets the token and the bytes transferred, or `-errno`.
    fn reap(&mut self, max: u32, each: impl FnMut(Token, i32))
    where
        Self: Sized;

    /// Called after `count` [`Token::WAKE`] completions were reaped.
    fn woken(&mut self, _count: u32) {}

    fn system_calls(&self) -> u64;

    /// The priority of the last request of `slot`; 0 is that of the thread.
    fn priority(&self, _slot: u32) -> u16 {
        0
    }

    fn granted(&self) -> InEffect {
        InEffect::default()
    }

    /// Optimizations that it does without.
    fn fallbacks(&self) -> &[EngineError] {
        &[]
    }

    /// Called after the last I/O: removes what the job created, if that was requested.
    fn finish(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// What is known about the failure of the last request, beyond its errno: the first, if several are in flight.
    fn last_failure(&self) -> Option<ScsiError> {
        None
    }

    /// The targets' memory mappings, by file, if the queue accesses them through memory.
    fn mappings(&self) -> Vec<MappedRange> {
        Vec::new()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MappedRange {
    pub address: usize,
    pub bytes: usize,
}

/// A queue that performs no I/O: completes every request immediately, to measure the engine without the kernel.
pub(crate) struct Null {
    done: Vec<(Token, i32)>,
}

impl Null {
    pub fn new(depth: u32) -> Self {
        Self { done: Vec::with_capacity(depth as usize) }
    }
}

impl Push for Null {
    fn push(&mut self, token: Token, request: &Request) {
        let bytes =
            if matches!(request.op, Op::Io(Dir::Read | Dir::Write)) { request.len } else { 0 };
        self.done.push((token, bytes as i32));
    }
}

impl Queue for Null {
    type Batch<'a> = &'a mut Self;

    fn sq_space_left(&self) -> u32 {
        (self.done.capacity() - self.done.len()) as u32
    }

    fn batch(&mut self) -> &mut Self {
        self
    }

    fn submit_and_wait(&mut self, _wait_for: u32, _deadline_ns: Option<u64>) -> io::Result<()> {
        Ok(())
    }

    fn reap(&mut self, max: u32, mut each: impl FnMut(Token, i32)) {
        let count = self.done.len().min(max as usize);
        self.done.drain(..count).for_each(|(token, result)| each(token, result));
    }

    fn system_calls(&self) -> u64 {
        0
    }
}

/// Ends a worker's wait from another thread: an eventfd(2), readable once [`Wake::wake`] was called.
pub(crate) struct Wake(OwnedFd);

impl Wake {
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub fn wake(&self) {
        // Fails only when the counter is full: readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
