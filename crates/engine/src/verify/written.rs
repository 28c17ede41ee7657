//! Which write each block of a job's regions was last written by.

use crate::queue::{Op, Request};
use fathom_model::Dir;
use fathom_model::plan::{JobPlan, Region};
use std::collections::{HashSet, VecDeque};

/// Begins the blocks of a write; the rest of an entry is the write's number + 1.
const FIRST: u64 = 1 << 63;
/// Blocks that were trimmed after the write, and are to be zeroes.
const TRIMMED: u64 = 1 << 62;
/// I/Os that are read back before the next are looked for.
const CHUNK: usize = 1 << 16;

pub(super) struct Written {
    files: Vec<Blocks>,
    unit: u64,
    /// File and block to continue at.
    next: (usize, usize),
    /// Writes in their order, if they are to be verified soon.
    recent: VecDeque<Request>,
    keeps_recent: bool,
}

struct Blocks {
    start: u64,
    /// 0 for blocks that were not written, or that are not whole any more. Grows with a file of unknown size.
    last: Vec<u64>,
}

impl Written {
    pub fn new(job: &JobPlan, keeps_recent: bool) -> Self {
        let unit = job.place_unit();
        let blocks = |region: &Region| {
            let count = if job.until.full { 0 } else { region.len.div_ceil(unit) };
            Blocks { start: region.start, last: vec![0; usize::try_from(count).unwrap_or(0)] }
        };
        let files = job.offset_regions().iter().map(blocks).collect();
        Self { files, unit, next: (0, 0), recent: VecDeque::new(), keeps_recent }
    }

    fn range(&self, request: &Request) -> (usize, usize) {
        let start = self.files[request.file as usize].start;
        let first = ((request.offset - start) / self.unit) as usize;
        let end = (request.offset - start + u64::from(request.len)).div_ceil(self.unit);
        (first, end as usize)
    }

    /// Write `number` is on its way. What it overwrites in part can no longer be verified.
    pub fn write(&mut self, request: &Request, number: u64) {
        let at = request.offset - self.files[request.file as usize].start;
        if !at.is_multiple_of(self.unit) || !u64::from(request.len).is_multiple_of(self.unit) {
            // Its blocks have no entries of their own.
            return self.forget(request);
        }
        let (first, end) = self.range(request);
        self.cut(request.file as usize, first);
        self.cut(request.file as usize, end);
        let last = &mut self.files[request.file as usize].last;
        if end > last.len() {
            last.resize(end, 0);
        }
        last[first..end].fill(number + 1);
        last[first] |= FIRST;
        if self.keeps_recent {
            self.recent.push_back(*request);
        }
    }

    /// The write failed, or what it wrote was trimmed or verified.
    pub fn forget(&mut self, request: &Request) {
        let (first, end) = self.range(request);
        self.cut(request.file as usize, first);
        self.cut(request.file as usize, end);
        let last = &mut self.files[request.file as usize].last;
        let end = end.min(last.len());
        last[first.min(end)..end].fill(0);
    }

    /// What the last write wrote was trimmed, and is to be zeroes.
    pub fn trim(&mut self, request: &Request) {
        let (first, end) = self.range(request);
        self.files[request.file as usize].last[first..end].iter_mut().for_each(|e| *e |= TRIMMED);
    }

    pub fn is_trimmed(&self, file: u32, offset: u64) -> bool {
        self.entry(file, offset).is_some_and(|entry| entry & TRIMMED != 0)
    }

    /// The targets were emptied.
    pub fn forget_all(&mut self) {
        self.files.iter_mut().for_each(|file| file.last.fill(0));
        self.recent.clear();
    }

    /// Bytes that are still to be read back, from where [`Written::next_chunk`] goes on.
    pub fn bytes_left(&self) -> u64 {
        let (file, block) = self.next;
        let left = |(index, blocks): (usize, &Blocks)| {
            let from = if index == file { block.min(blocks.last.len()) } else { 0 };
            blocks.last[from..].iter().filter(|entry| **entry != 0).count() as u64
        };
        self.files.iter().enumerate().skip(file).map(left).sum::<u64>() * self.unit
    }

    /// Forgets the write that has blocks on both sides of `at`.
    fn cut(&mut self, file: usize, at: usize) {
        let last = &mut self.files[file].last;
        let inner = |entry: Option<&u64>| entry.is_some_and(|e| *e != 0 && e & FIRST == 0);
        if !inner(last.get(at)) {
            return;
        }
        let mut end = at;
        while inner(last.get(end)) {
            end += 1;
        }
        let mut first = at - 1;
        while inner(last.get(first)) {
            first -= 1;
        }
        last[first..end].fill(0);
    }

    pub fn number(&self, file: u32, offset: u64) -> Option<u64> {
        let entry = self.entry(file, offset)?;
        (entry & FIRST != 0).then(|| (entry & !FIRST & !TRIMMED) - 1)
    }

    fn entry(&self, file: u32, offset: u64) -> Option<u64> {
        let blocks = self.files.get(file as usize)?;
        blocks.last.get(((offset - blocks.start) / self.unit) as usize).copied()
    }

    fn read(&self, file: usize, first: usize) -> Request {
        let Blocks { start, last } = &self.files[file];
        let number = last[first] & !FIRST;
        let more = last[first + 1..].iter().take_while(|entry| **entry == number).count();
        let (offset, len) = (start + first as u64 * self.unit, (more as u64 + 1) * self.unit);
        Request {
            op: Op::Io(Dir::Read),
            file: file as u32,
            offset,
            len: len as u32,
            buffer_offset: 0,
        }
    }

    /// Of the recent writes, `most` that nothing has overwritten, the oldest first.
    pub fn take_recent(&mut self, most: usize) -> Vec<Request> {
        let (mut taken, mut seen) = (Vec::new(), HashSet::new());
        while taken.len() < most
            && let Some(write) = self.recent.pop_front()
        {
            let (first, _) = self.range(&write);
            if self.number(write.file, write.offset).is_some() {
                let read = self.read(write.file as usize, first);
                // Written twice: once is enough.
                if read.len == write.len && seen.insert((read.file, read.offset)) {
                    taken.push(read);
                }
            }
        }
        taken
    }

    pub fn recent(&self) -> usize {
        self.recent.len()
    }

    /// The next blocks in the order of offsets; none after the last.
    pub fn next_chunk(&mut self) -> Vec<Request> {
        let mut chunk = Vec::new();
        let (mut file, mut block) = self.next;
        while chunk.len() < CHUNK && file < self.files.len() {
            let last = &self.files[file].last;
            match last[block.min(last.len())..].iter().position(|entry| entry & FIRST != 0) {
                Some(more) => {
                    let read = self.read(file, block + more);
                    block += more + u64::from(read.len).div_ceil(self.unit) as usize;
                    chunk.push(read);
                }
                None => (file, block) = (file + 1, 0),
            }
        }
        self.next = (file, block);
        chunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::{Engine, Mix, Order};
    use proptest::prelude::*;

    fn table(blocks: u64, recent: bool) -> Written {
        let order = Order::Sequential { skip: 0 };
        let mut job = JobPlan::new("t", Engine::Null, Mix::Only(Dir::Write), order);
        job.regions = vec![Region { target: 0, start: 8192, len: blocks * 4096 }];
        Written::new(&job, recent)
    }

    fn write(first: u64, blocks: u64) -> Request {
        let (offset, len) = (8192 + first * 4096, (blocks * 4096) as u32);
        Request { op: Op::Io(Dir::Write), file: 0, offset, len, buffer_offset: 0 }
    }

    fn blocks(reads: &[Request]) -> Vec<(u64, u64)> {
        reads.iter().map(|r| ((r.offset - 8192) / 4096, u64::from(r.len) / 4096)).collect()
    }

    proptest! {
        #[test]
        fn only_whole_writes_are_read_back(
            writes in proptest::collection::vec((0u64..32, 1u64..5), 0..40),
        ) {
            let mut table = table(40, false);
            let mut model: Vec<Option<usize>> = vec![None; 40];
            for (number, (first, count)) in writes.iter().enumerate() {
                table.write(&write(*first, *count), number as u64);
                model[*first as usize..(first + count) as usize].fill(Some(number));
            }
            let whole = writes.iter().enumerate().filter(|(number, (first, count))| {
                model[*first as usize..(first + count) as usize].iter().all(|n| *n == Some(*number))
            });
            let mut expected: Vec<(u64, u64)> = whole.map(|(_, write)| *write).collect();
            expected.sort_unstable();
            prop_assert_eq!(blocks(&table.next_chunk()), expected.clone());
            prop_assert!(table.next_chunk().is_empty());
            for (first, count) in expected {
                let number = table.number(0, 8192 + first * 4096).map(|n| n as usize);
                prop_assert_eq!(number, model[first as usize], "{} {}", first, count);
            }
        }
    }

    #[test]
    fn blocks_of_a_file_that_fills_its_file_system_are_kept_as_they_are_written() {
        let order = Order::Sequential { skip: 0 };
        let mut job = JobPlan::new("t", Engine::Null, Mix::Only(Dir::Write), order);
        job.regions = vec![Region { target: 0, start: 8192, len: 1 << 60 }];
        job.until.full = true;
        let mut table = Written::new(&job, false);
        (0..3).for_each(|block| table.write(&write(block, 1), block));
        table.forget(&write(2, 1));
        table.forget(&write(3, 1));
        assert_eq!((table.bytes_left(), blocks(&table.next_chunk())), (8192, vec![(0, 1), (1, 1)]));
    }

    #[test]
    fn recent_writes_come_once_and_in_order() {
        let mut table = table(16, true);
        for (number, (first, count)) in
            [(4, 2), (0, 1), (5, 1), (0, 1), (9, 1)].into_iter().enumerate()
        {
            table.write(&write(first, count), number as u64);
        }
        assert_eq!(table.recent(), 5);
        assert_eq!(blocks(&table.take_recent(2)), [(0, 1), (5, 1)]);
        assert_eq!(blocks(&table.take_recent(9)), [(0, 1), (9, 1)]);
        table.forget(&write(9, 1));
        assert_eq!(table.number(0, 8192 + 9 * 4096), None);
    }
}
