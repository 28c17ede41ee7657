//! Submission times, kept per batch instead of per I/O.

/// A batch with I/Os in flight.
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

    /// Index of the batch being filled.
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

    /// The times of the batch that last had `index`.
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
