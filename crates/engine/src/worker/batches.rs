//! When each batch of submissions was prepared and handed over, kept once for all its I/Os.

/// A batch of which some I/Os are still out.
#[derive(Clone, Copy, Default)]
pub(super) struct Batch {
    pub prepared_ns: u64,
    pub submitted_ns: u64,
    left: u32,
}

/// The batches that are out: at most one for each I/O in flight.
pub(super) struct Batches {
    entries: Box<[Batch]>,
    /// Unused entries: the first `free_len` of these.
    free: Box<[u32]>,
    free_len: usize,
}

impl Batches {
    pub fn new(depth: u32) -> Self {
        // One more than can be out is being filled.
        let count = depth + 1;
        Self {
            entries: vec![Batch::default(); count as usize].into(),
            free: (0..count).rev().collect(),
            free_len: count as usize,
        }
    }

    /// The number of the batch that is being filled.
    #[inline]
    pub fn next(&self) -> u32 {
        self.free[self.free_len - 1]
    }

    /// The batch that was being filled is handed over with `count` I/Os.
    #[inline]
    pub fn hand_over(&mut self, prepared_ns: u64, submitted_ns: u64, count: u32) {
        let index = self.next() as usize;
        self.free_len -= 1;
        self.entries[index] = Batch { prepared_ns, submitted_ns, left: count };
    }

    /// The times of a batch that is out, `count` of whose I/Os are done.
    #[inline]
    pub fn done(&mut self, index: u32, count: u32) -> Batch {
        let batch = &mut self.entries[index as usize];
        batch.left -= count;
        if batch.left == 0 {
            self.free[self.free_len] = index;
            self.free_len += 1;
        }
        *batch
    }
}
