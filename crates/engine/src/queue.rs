//! The one shape of all ways to the kernel.

use crate::token::Token;
use fathom_model::Dir;
use fathom_model::record::Granted;
use std::io;

/// What is asked of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Move data, or discard.
    Io(Dir),
    /// fsync(2).
    Fsync,
    /// fdatasync(2).
    Fdatasync,
}

/// One request. Its memory is that of its slot, from `buffer_offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub op: Op,
    /// Index of the file among the worker's files.
    pub file: u32,
    /// First byte on the target.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
    /// Where in the slot's buffer; above 0 only for the rest of a short transfer.
    pub buffer_offset: u32,
}

/// Takes requests for the next turn.
pub(crate) trait Push {
    /// Adds a request; `token` names its slot. It may reach the kernel only with [`Queue::turn`].
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
    /// What takes several requests at once; it keeps in registers what does not change between them.
    type Batch<'a>: Push
    where
        Self: 'a;

    /// How many requests can be pushed now.
    fn room(&self) -> u32;

    /// Begins to push.
    fn batch(&mut self) -> Self::Batch<'_>;

    /// Begins to push `count` requests of the one direction, file and length that all requests have
    /// which are pushed this way.
    fn batch_alike(&mut self, _count: u32) -> Self::Batch<'_> {
        self.batch()
    }

    /// Hands over all that was pushed and waits for at least `wait_for` completions, or until
    /// `deadline_ns`, where given, on the engine's clock. May return early without either, as
    /// after a signal or [`crate::wake`]. Fails only when the queue itself is broken.
    fn turn(&mut self, wait_for: u32, deadline_ns: Option<u64>) -> io::Result<()>;

    /// Takes at most `max` completions; `each` gets the token and the bytes moved or `-errno`.
    fn reap(&mut self, max: u32, each: impl FnMut(Token, i32));

    /// Is told of so many [`Token::WAKE`] that were reaped.
    fn woken(&mut self, _count: u32) {}

    /// System calls made so far.
    fn system_calls(&self) -> u64;

    /// What the kernel granted, as known now.
    fn granted(&self) -> Granted;
}
