//! Deallocations of several ranges (`num_range`): a source that joins its I/Os, and the table through which the queue
//! learns their ranges.

use super::{AnySource, IoGenerator, Source};
use crate::queue::Request;
use fathom_model::Dir;
use std::cell::RefCell;
use std::rc::Rc;

/// The ranges of requests that were generated, and not yet pushed.
pub(crate) struct RangeTable(RefCell<RangeEntries>);

struct RangeEntries {
    ranges: Vec<Vec<(u64, u32)>>,
    next: usize,
}

impl RangeTable {
    pub fn new(requests: u32, most: u32) -> Self {
        let ranges = (0..requests.max(1)).map(|_| Vec::with_capacity(most as usize)).collect();
        Self(RefCell::new(RangeEntries { ranges, next: 0 }))
    }

    /// Puts the ranges of a request; returns their number in the table, from 1.
    pub fn put(&self, ranges: &[(u64, u32)]) -> u32 {
        let mut entries = self.0.borrow_mut();
        let at = entries.next;
        entries.next = (at + 1) % entries.ranges.len();
        entries.ranges[at].clear();
        entries.ranges[at].extend_from_slice(ranges);
        at as u32 + 1
    }

    pub fn of(&self, number: u32) -> impl Iterator<Item = (u64, u32)> + '_ {
        let at = (number as usize).saturating_sub(1);
        let range = move |index| self.0.borrow().ranges.get(at)?.get(index).copied();
        (0..).map_while(range)
    }
}

/// Joins as many trims of another source into one as a command has ranges.
pub(crate) struct Ranges {
    inner: AnySource,
    table: Rc<RangeTable>,
    most: usize,
    drawn: Vec<(u64, u32)>,
}

impl Ranges {
    pub fn new(inner: AnySource, table: Rc<RangeTable>, most: u32) -> Self {
        let most = most as usize;
        Self { inner, table, most, drawn: Vec::with_capacity(most) }
    }
}

impl Source for Ranges {
    const FIXED: bool = false;
    const FULL: bool = true;
    type Batch<'a> = &'a mut Self;

    fn len(&self) -> u32 {
        self.inner.len().saturating_mul(self.most as u32)
    }

    fn batch(&mut self) -> &mut Self {
        self
    }
}

impl IoGenerator for Ranges {
    fn next_direction(&mut self) -> Dir {
        self.inner.next_direction()
    }

    /// The offset is that of the first range, and the length that of all of them.
    fn next_io(&mut self, dir: Dir, max: u64) -> Request {
        let first = self.inner.next_io(dir, max);
        self.drawn.clear();
        self.drawn.push((first.offset, first.len));
        let mut len = first.len;
        while self.drawn.len() < self.most && u64::from(len) < max {
            let more = self.inner.next_io(dir, max - u64::from(len));
            self.drawn.push((more.offset, more.len));
            len += more.len;
        }
        Request { len, buffer_offset: self.table.put(&self.drawn), ..first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::PerDir;
    use fathom_model::plan::{BlockSizes, Distribution, Engine, JobPlan, Mix, Order, Region};

    #[test]
    fn all_ranges_together_cover_the_region_once() {
        let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
        let mut job = JobPlan::new("t", Engine::Null, Mix::Only(Dir::Trim), order);
        job.access.align = PerDir::splat(4096);
        job.access.block_sizes = PerDir::splat(BlockSizes::Fixed(4096));
        job.regions = vec![Region { target: 0, start: 0, len: 100 * 4096 }];
        let table = Rc::new(RangeTable::new(4, 8));
        let mut source = Ranges::new(AnySource::new(&job), Rc::clone(&table), 8);
        let (mut left, mut seen, mut requests) = (100 * 4096, Vec::new(), 0);
        while left > 0 {
            let request = source.next_io(Dir::Trim, left);
            let ranges: Vec<(u64, u32)> = table.of(request.buffer_offset).collect();
            assert_eq!(ranges.iter().map(|range| range.1).sum::<u32>(), request.len);
            seen.extend(ranges.iter().map(|range| range.0 / 4096));
            (left, requests) = (left - u64::from(request.len), requests + 1);
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..100));
        assert_eq!(requests, 13, "the last one has only four ranges");
    }
}
