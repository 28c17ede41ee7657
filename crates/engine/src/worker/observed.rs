//! Reports single I/Os to the observer, in jobs that have one.

use super::Worker;
use crate::observer::{Observe, ObservedIo};
use crate::queue::Queue;
use crate::source::Source;

impl<Q: Queue, S: Source, O: Observe> Worker<'_, Q, S, O> {
    /// Reports the I/Os of the batch being filled: the last `count` of the free slots.
    pub(super) fn observe_submitted(&mut self, count: usize, now_ns: u64) {
        let slat_ns = now_ns.saturating_sub(self.now_ns);
        for at in (self.idle_len - count..self.idle_len).rev() {
            let io = self.observed(self.idle[at]);
            self.observer.submitted(now_ns, io, slat_ns);
        }
    }

    /// Reports plain successes: the free slots from `first` on.
    pub(super) fn observe_completed(&mut self, first: usize) {
        for at in first..self.idle_len {
            let slot = self.idle[at];
            let batch = self.batches.last(self.slots[slot as usize].tag.batch());
            let clat_ns = self.now_ns.saturating_sub(batch.submitted_ns);
            let lat_ns = self.now_ns.saturating_sub(batch.prepared_ns);
            let io = self.observed(slot);
            self.observer.completed(self.now_ns, io, clat_ns, lat_ns);
        }
    }

    /// The I/O of a slot, all of it.
    pub(super) fn observed(&self, slot: u32) -> ObservedIo {
        let (index, moved) = (slot as usize, self.moved[slot as usize]);
        ObservedIo {
            dir: self.slots[index].tag.dir(),
            offset: self.offsets[index] - u64::from(moved),
            len: self.slots[index].len + moved,
            priority: self.queue.priority(slot),
        }
    }
}
