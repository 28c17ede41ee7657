//! Modes that modify the entries of others: RWF_* flags and priorities of their own, and issue by threads of the kernel (io-wq).

use super::mode::{Mode, ReadWrite, TargetView, Vectored};
use super::ring::Sqe;
use crate::files::{FileKind, OpenFile};
use crate::hints::Priorities;
use crate::psync::rw_flags;
use crate::queue::{Op, Request};
use fathom_model::Dir;
use fathom_model::plan::JobPlan;
use linux_raw_sys::io_uring as sys;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::io::IoSliceMut;

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

/// Another mode with IOSQE_ASYNC on every n-th request (`force_async`), and on trims of devices that cannot take them
/// without waiting.
pub(crate) struct ForceAsync<M> {
    inner: M,
    every: u32,
    count: u32,
    trims: bool,
}

impl<M> ForceAsync<M> {
    /// Offloads every `every`-th request, or none if that is 0; with `trims` all trims.
    pub fn new(inner: M, every: u32, trims: bool) -> Self {
        Self { inner, every, count: 0, trims }
    }
}

impl<M: Mode> Mode for ForceAsync<M> {
    const WIDE: bool = M::WIDE;

    fn encode(&mut self, sqe: &mut Sqe<'_>, target: &TargetView<'_>, slot: u32, request: &Request) {
        self.inner.encode(sqe, target, slot, request);
        let mut offloads = self.trims && request.op == Op::Io(Dir::Trim);
        if self.every > 0 {
            self.count += 1;
            if self.count == self.every {
                self.count = 0;
                offloads = true;
            }
        }
        if offloads {
            sqe.words()[0] |= 1 << (8 + sys::io_uring_sqe_flags_bit::IOSQE_ASYNC_BIT as u32);
        }
    }

    fn priority(&self, slot: u32) -> u16 {
        self.inner.priority(slot)
    }

    fn result(&self, slot: u32, result: i32) -> i32 {
        self.inner.result(slot, result)
    }
}

/// The first of `files` that is a block device of which the driver does not support REQ_NOWAIT. The kernel fails its
/// trims with EOPNOTSUPP when the submitting thread issues them, instead of handing them to io-wq as it does reads.
pub(crate) fn without_nowait(files: &[OpenFile]) -> Option<&OpenFile> {
    let mut devices = files.iter().filter(|file| matches!(file.kind, FileKind::Block { .. }));
    devices.find(|file| {
        let mut byte = [0];
        // Checked before the offset, which is beyond the end of any device: nothing is read.
        let (vector, offset) = (&mut [IoSliceMut::new(&mut byte)], 1 << 62);
        preadv2(&file.fd, vector, offset, ReadWriteFlags::NOWAIT) == Err(Errno::OPNOTSUPP)
    })
}
