//! What writes need beside their place: contents, and flushes that fall due.

use super::Gate;
use crate::buffers::{Filler, Slab};
use crate::queue::{Op, Request};
use crate::stats::Shared;
use fathom_model::Dir;
use fathom_model::plan::{JobPlan, Sync};

/// Buffers, their contents and the flushes of a job.
pub(super) struct Writes {
    pub slab: Slab,
    filler: Option<Filler>,
    plan: Sync,
    since_fsync: u32,
    since_fdatasync: u32,
}

impl Writes {
    /// Fills all buffers, unless the worker is asked to stop meanwhile: no I/O is issued then.
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

    /// Makes the contents of a write; returns what must happen after it.
    pub fn prepare(&mut self, slot: u32, request: &Request) -> Gate {
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
            Gate::Flush(Op::Fsync, request.file)
        } else if self.plan.fdatasync_every > 0 && self.since_fdatasync >= self.plan.fdatasync_every
        {
            Gate::Flush(Op::Fdatasync, request.file)
        } else {
            Gate::Open
        }
    }

    /// A flush was issued: counting begins anew.
    pub fn flushed(&mut self) {
        (self.since_fsync, self.since_fdatasync) = (0, 0);
    }
}
