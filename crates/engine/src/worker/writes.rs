//! Contents of writes, and the flushes due after them.

use super::IssueState;
use crate::buffers::{Filler, Slab};
use crate::queue::{Op, Request};
use crate::stats::Shared;
use fathom_model::Dir;
use fathom_model::plan::{FlushPlan, JobPlan};

/// Buffers, their contents and the flushes of a job.
pub(super) struct Writes {
    pub slab: Slab,
    filler: Option<Filler>,
    plan: FlushPlan,
    since_fsync: u32,
    since_fdatasync: u32,
}

impl Writes {
    /// Fills all buffers; ends early if a stop is requested, as no I/O follows then.
    pub fn new(job: &JobPlan, mut slab: Slab, shared: &Shared) -> Self {
        let filler = job.access.mix.has(Dir::Write).then(|| {
            let mut filler = Filler::new(&job.buffers, job.access.seed);
            for slot in 0..slab.slots() {
                filler.fill_unless(slab.slot_mut(slot), || shared.is_stopping());
            }
            filler
        });
        Self { slab, filler, plan: job.sync, since_fsync: 0, since_fdatasync: 0 }
    }

    /// Prepares the contents of a write; returns the state after it.
    pub fn prepare(&mut self, slot: u32, request: &Request) -> IssueState {
        if let Some(filler) = &mut self.filler {
            let buffer = &mut self.slab.slot_mut(slot)[..request.len as usize];
            if filler.refills() {
                filler.fill(buffer);
            } else if filler.stamps() {
                filler.stamp(buffer, request.offset);
            }
        }
        self.since_fsync += 1;
        self.since_fdatasync += 1;
        if self.plan.fsync_every > 0 && self.since_fsync >= self.plan.fsync_every {
            IssueState::DrainToFlush(Op::Fsync, request.file)
        } else if self.plan.fdatasync_every > 0 && self.since_fdatasync >= self.plan.fdatasync_every
        {
            IssueState::DrainToFlush(Op::Fdatasync, request.file)
        } else {
            IssueState::Issuing
        }
    }

    /// Resets the counts after a flush was issued.
    pub fn flushed(&mut self) {
        (self.since_fsync, self.since_fdatasync) = (0, 0);
    }
}
