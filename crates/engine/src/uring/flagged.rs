//! Entries with RWF_* flags.

use super::mode::{Mode, Plain, Vectored, View};
use super::ring::Sqe;
use crate::psync::rw_flags;
use crate::queue::{Op, Request};
use fathom_model::Dir;
use fathom_model::plan::IoFlags;

/// Another mode with RWF_* flags on reads and writes (`atomic`, `uncached`).
pub(crate) struct Flagged<M> {
    inner: M,
    /// As part of the fourth word of an entry.
    read: u64,
    write: u64,
}

impl<M> Flagged<M> {
    pub fn new(inner: M, flags: IoFlags) -> Self {
        let (read, write) = rw_flags(flags);
        Self { inner, read: (read as u64) << 32, write: (write as u64) << 32 }
    }
}

impl<M: Mode> Mode for Flagged<M> {
    fn encode(&mut self, sqe: &mut Sqe<'_>, target: &View<'_>, slot: u32, request: &Request) {
        self.inner.encode(sqe, target, slot, request);
        sqe.words()[3] |= match request.op {
            Op::Io(Dir::Read) => self.read,
            Op::Io(Dir::Write) => self.write,
            _ => 0,
        };
    }
}

/// Reads and writes, with vectors or without.
pub(crate) enum AnyPlain {
    Plain(Plain<true>),
    Vectored(Vectored),
}

impl Mode for AnyPlain {
    fn encode(&mut self, sqe: &mut Sqe<'_>, target: &View<'_>, slot: u32, request: &Request) {
        match self {
            Self::Plain(mode) => mode.encode(sqe, target, slot, request),
            Self::Vectored(mode) => mode.encode(sqe, target, slot, request),
        }
    }
}
