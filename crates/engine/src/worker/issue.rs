//! Issuing. Hot: runs once per I/O.

use super::{Held, IssueState, Slot, Worker};
use crate::clock;
use crate::observer::Observe;
use crate::pace::{Due, LATE_NS, Pace};
use crate::queue::{Push, Queue, Request};
use crate::source::{Draw, Source};
use crate::token::{Tag, Token};
use fathom_model::Dir;

impl<Q: Queue, S: Source, O: Observe> Worker<'_, Q, S, O> {
    /// Issues as many I/Os as limits and free slots allow; returns the time before which none is due, or 0.
    #[inline]
    pub(super) fn refill<const PACED: bool>(&mut self) -> u64 {
        if !self.retry.is_empty() {
            self.push_retries();
        }
        if self.issue_state != IssueState::Issuing || self.job.batch.low.is_some() {
            self.end_drain();
            if self.issue_state != IssueState::Issuing || !self.filling {
                return 0;
            }
        }
        let before = self.idle_len;
        let allowed = self.left_ios.min(self.until_think).min(u64::from(self.queue.room()));
        let mut most = before.min(allowed as usize).min(self.batch_limit.get());
        if S::FIXED {
            most = most.min((self.left_bytes / u64::from(self.source.len())) as usize);
        }
        if most == 0 || self.left_bytes == 0 {
            return 0;
        }
        let most = self.source.ready(most);
        let (pushed, not_before) =
            if S::FIXED { (self.issue_alike(most), 0) } else { self.issue_any::<PACED>(most) };
        let count = pushed.iter().sum::<u64>() as usize;
        if count > 0 {
            self.account_batch::<PACED>(count, &pushed);
        }
        not_before
    }

    /// Issues `most` I/Os that differ only in their offsets; returns the number per direction.
    #[inline]
    fn issue_alike(&mut self, most: usize) -> [u64; 3] {
        let Self { queue, source, offsets, idle, writes, batches, .. } = self;
        // Locals stay in registers: stores to entries might alias fields of `self`.
        let (mut out, mut draw) = (queue.batch_alike(most as u32), source.batch());
        let offsets = &mut offsets[..];
        let dir = draw.next_dir();
        let tag = Tag::new(batches.next(), dir);
        for &index in idle[self.idle_len - most..self.idle_len].iter().rev() {
            let request = draw.next(dir, u64::MAX);
            // SAFETY: `idle` holds only numbers of slots.
            *unsafe { offsets.get_unchecked_mut(index as usize) } = request.offset;
            if dir == Dir::Write {
                writes.prepare(index, &request);
            }
            out.push(Token::new(index, tag), &request);
        }
        drop(out);
        draw.end(most);
        self.left_bytes -= most as u64 * u64::from(self.source.len());
        let mut pushed = [0; 3];
        pushed[dir as usize] = most as u64;
        pushed
    }

    /// Issues at most `most` I/Os of any kind; returns the number per direction, and the time
    /// before which none is due, or 0.
    #[inline]
    fn issue_any<const PACED: bool>(&mut self, most: usize) -> ([u64; 3], u64) {
        let mut pushed = [0; 3];
        let Self {
            queue,
            source,
            slots,
            offsets,
            idle,
            pace,
            writes,
            left_bytes,
            issue_state,
            held,
            ..
        } = self;
        let serializes = S::SERIALIZES && source.serializes();
        let (mut out, mut draw) = (queue.batch(), source.batch());
        for &index in idle[self.idle_len - most..self.idle_len].iter().rev() {
            let waited = if S::SERIALIZES { held.take() } else { None };
            let (dir, due_ns) = match (&waited, &pace) {
                (Some(held), _) if S::SERIALIZES => (held.dir, held.due_ns),
                (_, Some(pace)) if PACED => match next_due(pace, &mut draw, self.now_ns) {
                    Ok(next) => next,
                    Err(instant) => return (pushed, instant),
                },
                _ => (draw.next_dir(), 0),
            };
            let request = match waited {
                Some(held) if S::SERIALIZES => held.request,
                _ => draw.next(dir, *left_bytes),
            };
            if S::SERIALIZES && serializes {
                let taken = pushed.iter().sum::<u64>() as usize;
                if overlaps(&request, &idle[..self.idle_len - taken], slots, offsets) {
                    *held = Some(Held { dir, due_ns, request });
                    break;
                }
            }
            let (Request { len, file, .. }, tag) = (request, Tag::new(self.batches.next(), dir));
            slots[index as usize] = Slot { due_ns, len, file, tag, expect: expected(dir, len) };
            offsets[index as usize] = request.offset;
            if dir == Dir::Write {
                *issue_state = writes.prepare(index, &request);
            }
            if PACED && let Some(pace) = pace {
                pace.advance(dir, len);
            }
            out.push(Token::new(index, tag), &request);
            pushed[dir as usize] += 1;
            // The last of a mix may be longer than what is left.
            *left_bytes = left_bytes.saturating_sub(u64::from(len));
            if *issue_state != IssueState::Issuing || *left_bytes == 0 {
                break;
            }
        }
        (pushed, 0)
    }

    /// Accounts for a submitted batch with a single clock read.
    #[inline]
    fn account_batch<const PACED: bool>(&mut self, count: usize, pushed: &[u64; 3]) {
        let now = clock::now_ns();
        if PACED {
            let taken = &self.idle[self.idle_len - count..self.idle_len];
            for slot in taken.iter().map(|slot| &self.slots[*slot as usize]) {
                if slot.due_ns > 0 && now.saturating_sub(slot.due_ns) > LATE_NS {
                    self.stats.dirs[slot.tag.dir()].late_ios.add(1);
                }
            }
        }
        if O::ON {
            self.observe_submitted(count, now);
        }
        self.idle_len -= count;
        let count = count as u32;
        self.batches.submitted(self.now_ns, now, count);
        for (dir, n) in Dir::ALL.into_iter().zip(pushed).filter(|(_, n)| **n > 0) {
            self.stats.dirs[dir].slat.record_n(now.saturating_sub(self.now_ns), *n);
        }
        // Unlimited jobs start with a count that no worker reaches.
        self.left_ios -= u64::from(count);
        self.until_think -= u64::from(count);
        if self.until_think == 0 && self.issue_state == IssueState::Issuing {
            self.issue_state = IssueState::DrainToThink;
        }
        self.in_flight += count;
        self.depth.submitted(count, self.in_flight);
        self.filling &= self.job.batch.low.is_none() || self.idle_len > 0;
    }
}

/// Whether `request` overlaps the I/O of any slot that is not `idle`.
fn overlaps(request: &Request, idle: &[u32], slots: &[Slot], offsets: &[u64]) -> bool {
    let end = request.offset + u64::from(request.len);
    let conflicts = |slot: usize| {
        let Slot { file, len, .. } = slots[slot];
        file == request.file
            && offsets[slot] < end
            && request.offset < offsets[slot] + u64::from(len)
    };
    let busy = |slot: &usize| !idle.contains(&(*slot as u32));
    // The comparison is cheaper than the search, and rarely true.
    (0..slots.len()).any(|slot| conflicts(slot) && busy(&slot))
}

/// The next I/O due under the schedule, or the time before which none is.
fn next_due(pace: &Pace, draw: &mut impl Draw, now_ns: u64) -> Result<(Dir, u64), u64> {
    match pace.due(now_ns) {
        Due::At(dir, due) => Ok((dir, due)),
        Due::NotBefore(instant) => Err(instant),
        Due::Free => {
            let dir = draw.next_dir();
            Ok((if pace.is_free(dir) { dir } else { pace.free().unwrap_or(dir) }, 0))
        }
    }
}

/// The result that means success.
#[inline]
fn expected(dir: Dir, len: u32) -> u32 {
    if dir == Dir::Trim { 0 } else { len }
}
