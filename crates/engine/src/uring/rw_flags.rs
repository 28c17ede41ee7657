//! Entries with RWF_* flags and priorities of their own.

use super::mode::{Mode, ReadWrite, TargetView, Vectored};
use super::ring::Sqe;
use crate::priorities::Priorities;
use crate::psync::rw_flags;
use crate::queue::{Op, Request};
use fathom_model::Dir;
use fathom_model::plan::JobPlan;

/// Another mode with RWF_* flags (`atomic`, `uncached`) and priorities (`cmdprio_*`) of reads and writes.
pub(crate) struct WithRwFlags<M> {
    inner: M,
    priorities: Option<Priorities>,
    /// Those of the last requests, by slot.
    chosen: Box<[u16]>,
    /// As part of the fourth word of an entry.
    read: u64,
    write: u64,
}

impl<M> WithRwFlags<M> {
    pub fn new(inner: M, job: &JobPlan) -> Self {
        let (read, write) = rw_flags(job.flags);
        let (read, write) = ((read as u64) << 32, (write as u64) << 32);
        let priorities = Priorities::new(job);
        let slots = if priorities.is_some() { job.depth } else { 0 };
        Self { inner, priorities, chosen: vec![0; slots as usize].into(), read, write }
    }
}

impl<M: Mode> Mode for WithRwFlags<M> {
    fn encode(&mut self, sqe: &mut Sqe<'_>, target: &TargetView<'_>, slot: u32, request: &Request) {
        self.inner.encode(sqe, target, slot, request);
        sqe.words()[3] |= match request.op {
            Op::Io(Dir::Read) => self.read,
            Op::Io(Dir::Write) => self.write,
            _ => 0,
        };
        if let Some(priorities) = &mut self.priorities {
            let priority = priorities.next(request);
            self.chosen[slot as usize] = priority;
            sqe.words()[0] |= u64::from(priority) << 16;
        }
    }

    fn priority(&self, slot: u32) -> u16 {
        self.chosen.get(slot as usize).copied().unwrap_or(0)
    }
}

/// Reads and writes, with vectors or without.
pub(crate) enum AnyReadWrite {
    ReadWrite(ReadWrite<true>),
    Vectored(Vectored),
}

impl Mode for AnyReadWrite {
    fn encode(&mut self, sqe: &mut Sqe<'_>, target: &TargetView<'_>, slot: u32, request: &Request) {
        match self {
            Self::ReadWrite(mode) => mode.encode(sqe, target, slot, request),
            Self::Vectored(mode) => mode.encode(sqe, target, slot, request),
        }
    }
}
