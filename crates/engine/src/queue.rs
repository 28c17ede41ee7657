//! The interface of all I/O engines.

use crate::error::{EngineError, ScsiError};
use crate::token::Token;
use fathom_model::Dir;
use fathom_model::record::Granted;
use std::io;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Transfer data, or discard.
    Io(Dir),
    /// fsync(2).
    Fsync,
    /// fdatasync(2).
    Fdatasync,
}

/// One request. Its data is in its slot's buffer, from `buffer_offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub op: Op,
    /// Index of the file among the worker's files.
    pub file: u32,
    /// First byte on the target.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
    /// Offset into the slot's buffer; above 0 only for the rest of a short transfer.
    pub buffer_offset: u32,
}

/// Accepts requests for the next turn.
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
pub(crate) trait Queue {
    /// Accepts several requests; keeps what they have in common in registers.
    type Batch<'a>: Push
    where
        Self: Sized + 'a;

    /// Number of requests that can be pushed now.
    fn sq_space_left(&self) -> u32;

    /// Begins a batch of requests.
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

    /// Accepts a single request.
    fn push_one(&mut self, token: Token, request: &Request);

    /// Submits everything pushed so far and waits for at least `wait_for` completions, or until
    /// `deadline_ns`, if given, on the engine's clock. May return early, for example after a signal or
    /// [`crate::wake`]. Fails only if the queue itself is broken.
    fn submit_and_wait(&mut self, wait_for: u32, deadline_ns: Option<u64>) -> io::Result<()>;

    /// Reaps at most `max` completions; `each` gets the token and the bytes transferred, or `-errno`.
    fn reap(&mut self, max: u32, each: impl FnMut(Token, i32))
    where
        Self: Sized;

    /// Called after `count` [`Token::WAKE`] completions were reaped.
    fn woken(&mut self, _count: u32) {}

    /// System calls made so far.
    fn system_calls(&self) -> u64;

    /// The priority of the last request of `slot`; 0 is that of the thread.
    fn priority(&self, _slot: u32) -> u16 {
        0
    }

    /// Settings in effect so far.
    fn granted(&self) -> Granted;

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
    fn mappings(&self) -> Vec<Mapping> {
        Vec::new()
    }
}

/// Where a part of a target is mapped into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Address of its first page.
    pub address: usize,
    /// Length in bytes.
    pub bytes: usize,
}
