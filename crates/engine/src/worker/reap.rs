//! Counting what completed. Hot: runs once per I/O.

use super::batches::Batches;
use super::{Slot, Worker};
use crate::queue::Queue;
use crate::source::Source;
use crate::stats::Stats;

/// Successes of one reap that share batch and direction, counted at once.
struct Run {
    tag: u32,
    ios: u32,
    bytes: u64,
}

impl Run {
    /// A run of nothing yet.
    const NONE: Self = Self { tag: u32::MAX, ios: 0, bytes: 0 };

    #[inline]
    fn count(&self, stats: &Stats, batches: &mut Batches, now_ns: u64) {
        if self.ios > 0 {
            let batch = batches.done(Slot::batch(self.tag), self.ios);
            let dir = &stats.dirs[Slot::dir_of(self.tag)];
            let ios = u64::from(self.ios);
            dir.ios.add(ios);
            dir.bytes.add(self.bytes);
            dir.clat.record_n(now_ns.saturating_sub(batch.submitted_ns), ios);
            dir.lat.record_n(now_ns.saturating_sub(batch.prepared_ns), ios);
        }
    }
}

impl<Q: Queue, S: Source> Worker<'_, Q, S> {
    /// Takes the completions that are there.
    #[inline]
    pub(super) fn reap<const PACED: bool>(&mut self) {
        let (now_ns, stats) = (self.now_ns, self.stats);
        let mut run = Run::NONE;
        let Self { queue, slots, idle, idle_len, unusual, batches, .. } = self;
        let count = queue.reap(self.complete_max, |index, result| {
            let slot = &slots[index as usize];
            if result as u32 != slot.expect {
                return unusual.push((index, result));
            }
            if slot.tag != run.tag {
                run.count(stats, batches, now_ns);
                run = Run { tag: slot.tag, ..Run::NONE };
            }
            run.ios += 1;
            run.bytes += u64::from(slot.request.len);
            if PACED && slot.due_ns > 0 {
                let dir = Slot::dir_of(slot.tag);
                stats.dirs[dir].response.record_n(now_ns.saturating_sub(slot.due_ns), 1);
            }
            // SAFETY: `idle` has a place for each slot, and this one was not idle.
            *unsafe { idle.get_unchecked_mut(*idle_len) } = index;
            *idle_len += 1;
        });
        run.count(stats, batches, now_ns);
        self.in_flight -= count;
        if count > 0 {
            self.depth.completed(count);
        }
        if !self.unusual.is_empty() {
            self.handle_unusual();
        }
    }

    #[cold]
    fn handle_unusual(&mut self) {
        for index in 0..self.unusual.len() {
            let (slot, result) = self.unusual[index];
            self.unusual_completion(slot, result);
        }
        self.unusual.clear();
    }
}
