//! A fast source for common jobs: one region, one direction, one block size.

use super::permutation::Permutation;
use super::{ANYWHERE, IoGenerator, Source, distribution};
use crate::queue::{Op, Request};
use fathom_model::Dir;
use fathom_model::plan::{BlockSizes, Distribution, JobPlan, Mix, Order};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

pub(crate) trait OffsetSequence: Clone {
    /// Numbers below `blocks` in the order of `job`, if this type implements it.
    fn new(job: &JobPlan, blocks: u64) -> Option<Self>
    where
        Self: Sized;
    /// How many can be drawn at once, at most `want`.
    #[inline]
    fn ready(&mut self, want: usize) -> usize {
        want
    }
    /// The next number, after [`OffsetSequence::ready`].
    fn draw(&mut self) -> u64;
    #[inline]
    fn made(&mut self, _count: usize) {}
}

/// One region, one direction (writes or reads), one block size.
pub(crate) struct FixedSource<P, const WRITES: bool> {
    len: u32,
    start: u64,
    places: P,
}

impl<P: OffsetSequence, const WRITES: bool> FixedSource<P, WRITES> {
    const DIR: Dir = if WRITES { Dir::Write } else { Dir::Read };

    /// A source for `job` if it qualifies; generates the same I/Os as [`super::AnySource`].
    pub fn new(job: &JobPlan) -> Option<Self> {
        let BlockSizes::Fixed(size) = job.access.block_sizes[Self::DIR] else { return None };
        let region = match job.offset_regions() {
            [] => ANYWHERE,
            [region] => *region,
            _ => return None,
        };
        // Whole blocks only: no I/O is shortened, and a remainder at the end of the region is skipped.
        let is_simple = job.access.mix == Mix::Only(Self::DIR)
            && job.access.align[Self::DIR] == size
            && job.access.random_percent[Self::DIR] == 100
            && !job.serialize_overlap
            && job.access.zoning.is_none()
            && region.len >= size
            // No I/O within a batch may wait for a flush.
            && job.sync.fsync_every == 0
            && job.sync.fdatasync_every == 0
            && job.sync.range.is_none()
            && job.until.bytes.is_none_or(|bytes| bytes.is_multiple_of(size));
        let places = P::new(job, region.len / size.max(1)).filter(|_| is_simple)?;
        Some(Self { len: u32::try_from(size).ok()?, start: region.start, places })
    }
}

impl<P: OffsetSequence, const WRITES: bool> Source for FixedSource<P, WRITES> {
    const FIXED: bool = true;
    const FULL: bool = false;
    type Batch<'a>
        = FixedBatch<'a, P, WRITES>
    where
        P: 'a;

    #[inline]
    fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    fn ready(&mut self, want: usize) -> usize {
        self.places.ready(want)
    }

    #[inline]
    fn batch(&mut self) -> FixedBatch<'_, P, WRITES> {
        let (len, start, places) = (self.len, self.start, self.places.clone());
        FixedBatch { len, start, places, home: &mut self.places }
    }
}

/// A copy of the source that stores to memory cannot alias.
pub(crate) struct FixedBatch<'a, P, const WRITES: bool> {
    len: u32,
    start: u64,
    places: P,
    home: &'a mut P,
}

impl<P: OffsetSequence, const WRITES: bool> IoGenerator for FixedBatch<'_, P, WRITES> {
    #[inline]
    fn next_direction(&mut self) -> Dir {
        FixedSource::<P, WRITES>::DIR
    }

    #[inline]
    fn next_io(&mut self, dir: Dir, _max: u64) -> Request {
        let offset = self.start + self.places.draw() * u64::from(self.len);
        Request { op: Op::Io(dir), file: 0, offset, len: self.len, buffer_offset: 0 }
    }

    #[inline]
    fn end(mut self, count: usize) {
        self.places.made(count);
        *self.home = self.places;
    }
}

fn region_seed(job: &JobPlan) -> u64 {
    Xoshiro256PlusPlus::seed_from_u64(job.access.seed).next_u64()
}

fn draws(job: &JobPlan, wanted: &Distribution) -> bool {
    matches!(&job.access.order, Order::Random { distribution, run: 1 } if distribution == wanted)
}

impl OffsetSequence for Permutation {
    fn new(job: &JobPlan, blocks: u64) -> Option<Self> {
        draws(job, &Distribution::EachOnce).then(|| Permutation::new(blocks, region_seed(job)))
    }

    #[inline]
    fn ready(&mut self, want: usize) -> usize {
        Permutation::ready(self, want)
    }

    #[inline]
    fn draw(&mut self) -> u64 {
        Permutation::draw(self)
    }

    #[inline]
    fn made(&mut self, count: usize) {
        Permutation::made(self, count);
    }
}

#[derive(Clone)]
pub(crate) struct Uniform {
    blocks: u64,
    random: distribution::UniformNumbers,
}

impl OffsetSequence for Uniform {
    fn new(job: &JobPlan, blocks: u64) -> Option<Self> {
        let random = distribution::UniformNumbers::new(region_seed(job));
        draws(job, &Distribution::Uniform).then_some(Self { blocks, random })
    }

    #[inline]
    fn draw(&mut self) -> u64 {
        self.random.below(self.blocks)
    }
}

#[derive(Clone)]
pub(crate) struct Sequential {
    blocks: u64,
    next: u64,
}

impl OffsetSequence for Sequential {
    fn new(job: &JobPlan, blocks: u64) -> Option<Self> {
        matches!(job.access.order, Order::Sequential { skip: 0 })
            .then_some(Self { blocks, next: 0 })
    }

    #[inline]
    fn draw(&mut self) -> u64 {
        let block = self.next;
        self.next = if block + 1 == self.blocks { 0 } else { block + 1 };
        block
    }
}
