//! Issuing. Hot: runs once per I/O.

use super::{Gate, Slot, Worker};
use crate::clock;
use crate::pace::{Due, LATE_NS, Pace};
use crate::queue::Queue;
use crate::source::Source;
use fathom_model::Dir;

impl<Q: Queue, S: Source> Worker<'_, Q, S> {
    /// Issues all that is free and allowed; returns the instant before which nothing more is due, or 0.
    #[inline]
    pub(super) fn refill<const PACED: bool>(&mut self) -> u64 {
        if !self.retry.is_empty() {
            self.push_retries();
        }
        if self.gate != Gate::Open || self.job.batch.low.is_some() {
            self.pass_gate();
            if self.gate != Gate::Open || !self.filling {
                return 0;
            }
        }
        let before = self.idle_len;
        let allowed = self.left_ios.min(self.until_think).min(u64::from(self.queue.room()));
        let mut most = before.min(allowed as usize).min(self.submit_max);
        if S::FIXED {
            most = most.min((self.left_bytes / u64::from(self.source.len())) as usize);
        }
        if most == 0 || self.left_bytes == 0 {
            return 0;
        }
        let most = self.source.ready(most);
        let batch = self.batches.next();
        let now_ns = self.now_ns;
        let mut pushed = [0u64; 3];
        let mut not_before = 0;
        let Self { queue, source, slots, idle, pace, writes, left_bytes, gate, .. } = self;
        for &index in idle[before - most..before].iter().rev() {
            let (dir, due_ns) = match pace {
                Some(pace) if PACED => match next_due(pace, source, now_ns) {
                    Ok(next) => next,
                    Err(instant) => {
                        not_before = instant;
                        break;
                    }
                },
                _ => (source.next_dir(), 0),
            };
            let request = source.next(dir, *left_bytes);
            // SAFETY: `idle` holds only numbers of slots.
            let slot = unsafe { slots.get_unchecked_mut(index as usize) };
            slot.offset = request.offset;
            slot.tag = Slot::tag(batch, dir);
            if PACED {
                slot.due_ns = due_ns;
            }
            if !S::FIXED {
                slot.len = request.len;
                slot.file = request.file;
                slot.expect = expected(dir, request.len);
            }
            let mut must_pause = false;
            if dir == Dir::Write {
                *gate = writes.prepare(index, &request);
                must_pause = *gate != Gate::Open;
            }
            if PACED && let Some(pace) = pace {
                pace.advance(dir, request.len);
            }
            queue.push(index, &request);
            pushed[dir as usize] += 1;
            if !S::FIXED {
                *left_bytes -= u64::from(request.len);
            }
            if must_pause || (!S::FIXED && *left_bytes == 0) {
                break;
            }
        }
        let count = pushed.iter().sum::<u64>() as usize;
        source.made(count);
        if S::FIXED {
            *left_bytes -= count as u64 * u64::from(source.len());
        }
        if count > 0 {
            self.handed_over::<PACED>(count, &pushed);
        }
        not_before
    }

    /// Books what was pushed: one look at the clock for the whole batch.
    #[inline]
    fn handed_over<const PACED: bool>(&mut self, count: usize, pushed: &[u64; 3]) {
        let now = clock::now_ns();
        let taken = &self.idle[self.idle_len - count..self.idle_len];
        if PACED {
            for slot in taken.iter().map(|slot| &self.slots[*slot as usize]) {
                if slot.due_ns > 0 && now.saturating_sub(slot.due_ns) > LATE_NS {
                    self.stats.dirs[Slot::dir_of(slot.tag)].late_ios.add(1);
                }
            }
        }
        self.idle_len -= count;
        let count = count as u32;
        self.batches.hand_over(self.now_ns, now, count);
        for (dir, n) in Dir::ALL.into_iter().zip(pushed).filter(|(_, n)| **n > 0) {
            self.stats.dirs[dir].slat.record_n(now.saturating_sub(self.now_ns), *n);
        }
        if self.left_ios != u64::MAX {
            self.left_ios -= u64::from(count);
        }
        if self.until_think != u64::MAX {
            self.until_think -= u64::from(count);
            if self.until_think == 0 && self.gate == Gate::Open {
                self.gate = Gate::Think;
            }
        }
        self.in_flight += count;
        self.depth.submitted(count, self.in_flight);
        self.filling &= self.job.batch.low.is_none() || self.idle_len > 0;
    }
}

/// What is due under the schedule, or the instant before which nothing is.
fn next_due(pace: &Pace, source: &mut impl Source, now_ns: u64) -> Result<(Dir, u64), u64> {
    match pace.due(now_ns) {
        Due::At(dir, due) => Ok((dir, due)),
        Due::NotBefore(instant) => Err(instant),
        Due::Free => {
            let dir = source.next_dir();
            Ok((if pace.is_free(dir) { dir } else { pace.free().unwrap_or(dir) }, 0))
        }
    }
}

impl Slot {
    const DIR_SHIFT: u32 = 30;
    /// The tag of a flush.
    pub(super) const FLUSH: u32 = 3 << Self::DIR_SHIFT;

    /// What tells apart I/Os that are counted apart: their batch and direction.
    #[inline]
    fn tag(batch: u32, dir: Dir) -> u32 {
        batch | (dir as u32) << Self::DIR_SHIFT
    }

    /// Number of the batch that a tag names.
    #[inline]
    pub(super) fn batch(tag: u32) -> u32 {
        tag & ((1 << Self::DIR_SHIFT) - 1)
    }

    /// The direction that a tag names.
    #[inline]
    pub(super) fn dir_of(tag: u32) -> Dir {
        Dir::ALL[((tag >> Self::DIR_SHIFT) as usize).min(2)]
    }
}

/// The result that means success.
#[inline]
pub(super) fn expected(dir: Dir, len: u32) -> u32 {
    if dir == Dir::Trim { 0 } else { len }
}
