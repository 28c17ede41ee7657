//! Counting what completed. Hot: runs once per I/O.

use super::batches::Batches;
use super::{Slot, Worker};
use crate::queue::Queue;
use crate::source::Source;
use crate::stats::Stats;

/// Successes of one reap that share batch and direction, counted at once.
struct Run {
    tag: u32,
    /// The first of the slots that they left idle.
    from: usize,
    /// Their bytes, where not all I/Os of the job have the same length.
    bytes: u64,
}

impl<Q: Queue, S: Source> Worker<'_, Q, S> {
    /// Takes the completions that are there.
    #[inline]
    pub(super) fn reap<const PACED: bool>(&mut self) {
        let (now_ns, stats) = (self.now_ns, self.stats);
        let Self { queue, slots, idle, unusual, batches, .. } = self;
        let mut idle_len = self.idle_len;
        let len_fixed = u64::from(self.source.len());
        let mut run = Run { tag: Slot::FLUSH, from: idle_len, bytes: 0 };
        let mut end = |run: &Run, to: usize| {
            let ios = (to - run.from) as u64;
            if ios > 0 {
                let bytes = if S::FIXED { len_fixed * ios } else { run.bytes };
                count(stats, batches, now_ns, run.tag, ios, bytes);
            }
        };
        let reaped = queue.reap(self.complete_max, |index, result| {
            // SAFETY: queues give back only slots that were pushed.
            let slot = unsafe { slots.get_unchecked(index as usize) };
            if result as u32 != slot.expect {
                return unusual.push((index, result));
            }
            if slot.tag != run.tag {
                end(&run, idle_len);
                run = Run { tag: slot.tag, from: idle_len, bytes: 0 };
            }
            if !S::FIXED {
                run.bytes += u64::from(slot.len);
            }
            if PACED && slot.due_ns > 0 {
                let dir = Slot::dir_of(slot.tag);
                stats.dirs[dir].response.record_n(now_ns.saturating_sub(slot.due_ns), 1);
            }
            // SAFETY: `idle` has a place for each slot, and this one was not idle.
            *unsafe { idle.get_unchecked_mut(idle_len) } = index;
            idle_len += 1;
        });
        end(&run, idle_len);
        self.idle_len = idle_len;
        self.in_flight -= reaped;
        if reaped > 0 {
            self.depth.completed(reaped);
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

/// Books `ios` I/Os of one batch and direction that completed together. Kept out of the loop over
/// completions, whose registers it would take.
#[inline(never)]
fn count(stats: &Stats, batches: &mut Batches, now_ns: u64, tag: u32, ios: u64, bytes: u64) {
    let batch = batches.done(Slot::batch(tag), ios as u32);
    let dir = &stats.dirs[Slot::dir_of(tag)];
    dir.ios.add(ios);
    dir.bytes.add(bytes);
    dir.clat.record_n(now_ns.saturating_sub(batch.submitted_ns), ios);
    dir.lat.record_n(now_ns.saturating_sub(batch.prepared_ns), ios);
}
