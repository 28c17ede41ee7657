//! Submission times, kept per batch instead of per I/O.

#[derive(Clone, Copy, Default)]
pub(super) struct BatchTimes {
    pub prepared_ns: u64,
    pub submitted_ns: u64,
    left: u32,
}

/// The batches in flight: at most one per I/O.
pub(super) struct Batches {
    entries: Box<[BatchTimes]>,
    /// Unused entries: the first `free_len` of these.
    free: Box<[u32]>,
    free_len: usize,
}

impl Batches {
    pub fn new(depth: u32) -> Self {
        // One more is being filled.
        let count = depth + 1;
        Self {
            entries: vec![BatchTimes::default(); count as usize].into(),
            free: (0..count).rev().collect(),
            free_len: count as usize,
        }
    }

    #[inline]
    pub fn next(&self) -> u32 {
        self.free[self.free_len - 1]
    }

    /// Records that the batch being filled was submitted with `count` I/Os.
    #[inline]
    pub fn submitted(&mut self, prepared_ns: u64, submitted_ns: u64, count: u32) {
        let index = self.next() as usize;
        self.free_len -= 1;
        self.entries[index] = BatchTimes { prepared_ns, submitted_ns, left: count };
    }

    pub fn last(&self, index: u32) -> BatchTimes {
        self.entries[index as usize]
    }

    /// Completes `count` I/Os of a batch; returns its times.
    #[inline]
    pub fn done(&mut self, index: u32, count: u32) -> BatchTimes {
        let batch = &mut self.entries[index as usize];
        batch.left -= count;
        if batch.left == 0 {
            self.free[self.free_len] = index;
            self.free_len += 1;
        }
        *batch
    }
}

/// Batches below this size save little CPU time; larger ones delay the first I/O noticeably.
const SMALL: usize = 4;

/// How many I/Os one system call may submit, adapted from turn to turn.
///
/// The kernel passes a batch to the device when its last I/O is prepared. On a device that is slower than
/// the CPU, large batches therefore delay their first I/Os and leave the device idle; where the CPU is
/// the bottleneck, they save system calls.
pub(super) struct BatchLimit {
    now: usize,
    min: usize,
    max: usize,
}

impl BatchLimit {
    /// `fixed` where the job sets the size (`iodepth_batch_submit`), otherwise from small batches up to `depth`.
    pub fn new(fixed: Option<u32>, depth: u32) -> Self {
        let depth = depth as usize;
        let (min, max) = match fixed {
            Some(size) => (size as usize, size as usize),
            None => ((depth / SMALL).clamp(1, SMALL), depth),
        };
        Self { now: min, min, max }
    }

    #[inline]
    pub fn get(&self) -> usize {
        self.now
    }

    /// Accounts for the I/Os that a turn submitted and reaped; `held_back` if more could have been submitted.
    ///
    /// Without a wait, as many completions as submissions mean that the CPU is the bottleneck: batches grow.
    /// With a wait, fewer mean that the device is: batches shrink.
    #[inline]
    pub fn adapt(&mut self, submitted: usize, reaped: usize, held_back: bool) {
        if held_back {
            if submitted == self.now && reaped >= submitted {
                self.now = (self.now * 2).min(self.max);
            }
        } else if reaped < submitted {
            self.now = (self.now / 2).max(self.min);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits of a queue depth of 32 after each of these turns: submitted, reaped, held back.
    fn after(turns: &[(usize, usize, bool)]) -> Vec<usize> {
        let mut limit = BatchLimit::new(None, 32);
        let adapt = |&(submitted, reaped, held_back): &(usize, usize, bool)| {
            limit.adapt(submitted, reaped, held_back);
            limit.get()
        };
        turns.iter().map(adapt).collect()
    }

    #[test]
    fn batches_are_small_at_first() {
        let first = |depth| BatchLimit::new(None, depth).get();
        assert_eq!([1, 2, 4, 8, 16, 128].map(first), [1, 1, 1, 2, 4, 4]);
    }

    #[test]
    fn batches_grow_while_completions_keep_up() {
        let turns = [(4, 4, true), (8, 9, true), (16, 16, true), (32, 32, false), (32, 32, true)];
        assert_eq!(after(&turns), [8, 16, 32, 32, 32]);
    }

    #[test]
    fn batches_shrink_when_a_wait_brings_less_than_was_submitted() {
        let turns = [(4, 4, true), (8, 8, true), (16, 1, false), (1, 15, false), (8, 1, false)];
        assert_eq!(after(&turns), [8, 16, 8, 8, 4]);
        assert_eq!(after(&[(4, 1, false), (3, 0, false)]), [4, 4], "never below the smallest");
    }

    #[test]
    fn a_turn_that_submits_less_than_it_may_is_no_reason_to_grow() {
        // A pause of the job or a full ring held back the rest, not the limit.
        assert_eq!(after(&[(0, 0, true), (2, 20, true), (0, 7, false)]), [4, 4, 4]);
    }

    #[test]
    fn a_size_set_by_the_job_stays() {
        let mut limit = BatchLimit::new(Some(7), 32);
        limit.adapt(7, 7, true);
        assert_eq!(limit.get(), 7);
        limit.adapt(7, 1, false);
        assert_eq!(limit.get(), 7);
    }
}
