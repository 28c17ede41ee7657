//! Generates I/Os: direction, file, offset and length.

mod distribution;
mod fixed;
mod full;
mod mixed;
mod permutation;
mod ranges;
mod region;
mod replay;
mod steady_state;

pub(crate) use fixed::{FixedSource, Sequential, Uniform};
pub(crate) use full::{FullSource, makes_passes};
pub(crate) use permutation::Permutation;
pub(crate) use ranges::{RangeTable, Ranges};

use crate::queue::{Op, Request};
pub(crate) use distribution::below;
use distribution::unit;
use fathom_model::plan::{self, JobPlan, Mix};
use fathom_model::{Dir, PerDir};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use region::{Service, Sizes, SourceRegion, Stride};

/// Where an engine without a target takes offsets from if its job has no size.
const ANYWHERE: plan::Region = plan::Region { target: 0, start: 0, len: 1 << 40 };

/// Generates the I/Os of a job. The same seed generates the same I/Os.
pub(crate) trait Source {
    /// Whether all I/Os have the same length, and none is ever shortened.
    const FIXED: bool;
    /// Whether it is for jobs whose I/Os may be scheduled, observed one by one, or wait for those in flight that overlap
    /// them. Such jobs have a loop of their own, so that others have no branches for these.
    const FULL: bool;
    type Batch<'a>: IoGenerator
    where
        Self: 'a;
    /// Whether an I/O waits for those in flight that overlap it, if [`Source::FULL`].
    fn serializes(&self) -> bool {
        false
    }
    /// The length of all I/Os if fixed, else the maximum, in bytes. Never 0.
    fn len(&self) -> u32;
    /// How many I/Os can be generated in one batch now, from 1 to `want`.
    #[inline]
    fn ready(&mut self, want: usize) -> usize {
        want
    }
    fn batch(&mut self) -> Self::Batch<'_>;
    /// What is to be read next, apart from the job's own I/Os, if [`Source::FULL`].
    fn do_first(&mut self, _requests: Vec<Request>) {}
}

pub(crate) trait IoGenerator {
    fn next_direction(&mut self) -> Dir;
    /// When the next I/O or flush is due, in nanoseconds since the start, if it has a time of its own.
    #[inline]
    fn due_ns(&self) -> Option<u64> {
        None
    }
    /// What is next, `elapsed_ns` after the start, if [`Source::FULL`]. A flush is taken.
    #[inline]
    fn upcoming(&mut self, _elapsed_ns: u64) -> Upcoming {
        Upcoming::Io
    }
    /// The next I/O in direction `dir`. At most `max` bytes long, if its direction has several block sizes.
    fn next_io(&mut self, dir: Dir, max: u64) -> Request;
    #[inline]
    fn end(self, _count: usize)
    where
        Self: Sized,
    {
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upcoming {
    /// An I/O, or something that is not due yet.
    Io,
    /// A flush of this file.
    Flush(Op, u32),
    /// Nothing any more.
    End,
}

impl<D: IoGenerator> IoGenerator for &mut D {
    #[inline]
    fn due_ns(&self) -> Option<u64> {
        (**self).due_ns()
    }

    #[inline]
    fn upcoming(&mut self, elapsed_ns: u64) -> Upcoming {
        (**self).upcoming(elapsed_ns)
    }

    #[inline]
    fn next_direction(&mut self) -> Dir {
        (**self).next_direction()
    }

    #[inline]
    fn next_io(&mut self, dir: Dir, max: u64) -> Request {
        (**self).next_io(dir, max)
    }
}

pub(crate) struct AnySource {
    mix: Mix,
    sizes: PerDir<Sizes>,
    regions: Vec<SourceRegion>,
    service: Service,
    /// Of the only region.
    stride: Option<Stride>,
    current: usize,
    random: Xoshiro256PlusPlus,
    len_max: u32,
    unit: u64,
}

impl AnySource {
    /// A source for `job`, whose plan was checked: regions are not empty and fit a block.
    pub fn new(job: &JobPlan) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(job.access.seed);
        let regions = match job.offset_regions() {
            [] => &[ANYWHERE],
            regions => regions,
        };
        let unit = job.block_unit();
        let stride = Stride::new(job, regions[0].start, regions[0].len);
        let whole = |len: u64| len - len % unit;
        let used = |len: u64| stride.as_ref().map_or(len, Stride::range);
        let regions = regions.iter().enumerate().map(|(file, region)| {
            let len = whole(used(region.len));
            SourceRegion::new(job, file as u32, region.start, len, &mut random)
        });
        let regions = regions.collect();
        Self {
            mix: job.access.mix,
            sizes: job.access.block_sizes.map(|_, sizes| Sizes::new(sizes)),
            regions,
            service: Service::new(job),
            stride,
            current: 0,
            random,
            len_max: job.block_max().clamp(1, u64::from(u32::MAX)) as u32,
            unit,
        }
    }

    /// Chooses the region of the I/O after this one.
    fn pick_region(&mut self) {
        let count = self.regions.len();
        let done = {
            let region = &self.regions[self.current];
            region.moved >= region.len
        };
        self.current = match &mut self.service {
            Service::RoundRobin => (self.current + 1) % count,
            Service::Random => below(&mut self.random, count as u64) as usize,
            Service::Sequential if !done => return,
            Service::Sequential => {
                self.regions[self.current].moved = 0;
                (self.current + 1) % count
            }
            Service::Window(window) => {
                if done {
                    self.regions[self.current].moved = 0;
                    window.replace(count);
                }
                window.next(&mut self.random)
            }
        };
    }
}

impl Source for AnySource {
    const FIXED: bool = false;
    const FULL: bool = false;
    type Batch<'a> = &'a mut Self;

    fn len(&self) -> u32 {
        self.len_max
    }

    #[inline]
    fn batch(&mut self) -> &mut Self {
        self
    }
}

impl IoGenerator for AnySource {
    #[inline]
    fn next_direction(&mut self) -> Dir {
        match self.mix {
            Mix::Only(dir) => dir,
            // `TrimWrite` adds the writes.
            Mix::TrimThenWrite => Dir::Trim,
            // `Replayer` has those of a trace.
            Mix::Traced(_) => Dir::Read,
            Mix::ReadWrite { read_percent } => {
                if unit(&mut self.random) * 100.0 <= f64::from(read_percent) {
                    Dir::Read
                } else {
                    Dir::Write
                }
            }
        }
    }

    #[inline]
    fn next_io(&mut self, dir: Dir, max: u64) -> Request {
        let size = self.sizes[dir].next(&mut self.random);
        let region = &mut self.regions[self.current];
        if let Some(stride) = &mut self.stride {
            stride.prepare(region);
        }
        let (offset, room) = region.place(dir, size);
        let mut len = size;
        if u64::from(len) > room.min(max) {
            len = self.sizes[dir].shortened(size, room, max, self.unit);
        }
        region.moved += u64::from(len);
        if let Some(stride) = &mut self.stride {
            stride.advance(len);
        }
        let request = Request { op: Op::Io(dir), file: region.file, offset, len, buffer_offset: 0 };
        if self.regions.len() > 1 {
            self.pick_region();
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::{BlockSizes, Distribution, Engine, FileService, Order};
    use proptest::prelude::*;

    fn job(order: Order, mix: Mix, sizes: BlockSizes, lens: &[u64]) -> JobPlan {
        let mut job = JobPlan::new("t", Engine::Null, mix, order);
        job.access.align = PerDir::splat(sizes.min());
        job.access.block_sizes = PerDir::splat(sizes);
        job.regions = lens
            .iter()
            .enumerate()
            .map(|(i, len)| plan::Region { target: i, start: 8192, len: *len })
            .collect();
        job
    }

    fn once() -> Order {
        Order::Random { distribution: Distribution::EachOnce, run: 1 }
    }

    #[test]
    fn sequential_wraps_at_the_end() {
        let job = job(
            Order::Sequential { skip: 0 },
            Mix::Only(Dir::Read),
            BlockSizes::Fixed(4096),
            &[10_240],
        );
        let mut source = AnySource::new(&job);
        let got: Vec<_> = (0..4)
            .map(|_| source.next_io(Dir::Read, u64::MAX))
            .map(|r| (r.offset, r.len))
            .collect();
        assert_eq!(got, [(8192, 4096), (12288, 4096), (8192, 4096), (12288, 4096)]);
    }

    #[test]
    fn the_last_io_is_shortened_to_whole_units() {
        let sizes = BlockSizes::Split(vec![(6144, 50), (4096, 50)]);
        let order = Order::Sequential { skip: 0 };
        let mut source = AnySource::new(&job(order, Mix::Only(Dir::Read), sizes, &[1 << 20]));
        assert_eq!((0..64).map(|_| source.next_io(Dir::Read, 2048).len).max(), Some(2048));
        assert_eq!(source.next_io(Dir::Read, 4097).len, 4096);
    }

    #[test]
    fn the_last_io_of_a_mix_is_a_whole_block() {
        let order = Order::Sequential { skip: 0 };
        let mix = Mix::ReadWrite { read_percent: 50 };
        let mut job = job(order, mix, BlockSizes::Fixed(4096), &[1 << 20]);
        job.access.block_sizes.write = BlockSizes::Fixed(16384);
        let mut source = AnySource::new(&job);
        assert_eq!(source.next_io(Dir::Write, 4096).len, 16384);
        assert_eq!(source.next_io(Dir::Read, 4096).len, 4096);
    }

    #[test]
    fn each_direction_keeps_its_own_alignment() {
        for run in [1, 4] {
            let order = Order::Random { distribution: Distribution::EachOnce, run };
            let mix = Mix::ReadWrite { read_percent: 50 };
            let len = (1 << 20) + 4096;
            let mut job = job(order, mix, BlockSizes::Fixed(4096), &[len]);
            (job.access.block_sizes.write, job.access.align.write) =
                (BlockSizes::Fixed(65536), 65536);
            let mut source = AnySource::new(&job);
            let mut starts = std::collections::BTreeSet::new();
            for _ in 0..2000 {
                let dir = source.next_direction();
                let io = source.next_io(dir, u64::MAX);
                let size = if dir == Dir::Read { 4096 } else { 65536 };
                assert_eq!((u64::from(io.len), (io.offset - 8192) % size), (size, 0), "{io:?}");
                assert!(io.offset + size <= 8192 + len);
                starts.insert((dir == Dir::Write, io.offset));
            }
            assert_eq!(starts.into_iter().filter(|s| s.0).count(), 16);
        }
    }

    #[test]
    fn sequential_with_positive_and_negative_skip() {
        let offsets = |skip| {
            let job = job(
                Order::Sequential { skip },
                Mix::Only(Dir::Read),
                BlockSizes::Fixed(4096),
                &[16384],
            );
            let mut source = AnySource::new(&job);
            (0..4).map(|_| source.next_io(Dir::Read, u64::MAX).offset - 8192).collect::<Vec<_>>()
        };
        assert_eq!(offsets(4096), [0, 8192, 0, 8192]);
        assert_eq!(offsets(-8192), [0, 12288, 8192, 4096]);
    }

    fn strided(order: Order, bytes: u64, range: u64, skip: u64, len: u64) -> AnySource {
        let mut job = job(order, Mix::Only(Dir::Read), BlockSizes::Fixed(4096), &[len]);
        job.access.zoning = Some(plan::Zoning::Strided { bytes, range, skip });
        AnySource::new(&job)
    }

    fn blocks(source: &mut AnySource, count: usize) -> Vec<u64> {
        let next = || (source.next_io(Dir::Read, u64::MAX).offset - 8192) / 4096;
        std::iter::repeat_with(next).take(count).collect()
    }

    #[test]
    fn parts_of_a_region_follow_each_other() {
        let sequential = || Order::Sequential { skip: 0 };
        let mut source = strided(sequential(), 8192, 16384, 4096, 12 * 4096);
        assert_eq!(blocks(&mut source, 8), [0, 1, 5, 6, 10, 11, 0, 1], "a part of each, and a gap");
        let mut source = strided(sequential(), 4 * 4096, 8192, 0, 4 * 4096);
        assert_eq!(blocks(&mut source, 8), [0, 1, 0, 1, 2, 3, 2, 3], "each twice");
    }

    #[test]
    fn random_parts_have_each_block_once_per_pass() {
        let mut source = strided(once(), 12 * 4096, 8 * 4096, 0, 20 * 4096);
        for start in [0, 8, 0, 8] {
            let mut pass = blocks(&mut source, 8);
            let rest = blocks(&mut source, 4);
            pass.sort_unstable();
            assert!(pass.into_iter().eq(start..start + 8));
            let distinct: std::collections::BTreeSet<u64> = rest.into_iter().collect();
            assert_eq!(distinct.len(), 4);
            assert!(distinct.iter().all(|block| (start..start + 8).contains(block)));
        }
    }

    #[test]
    fn a_run_follows_each_draw() {
        let order = Order::Random { distribution: Distribution::Uniform, run: 4 };
        let job = job(order, Mix::Only(Dir::Read), BlockSizes::Fixed(4096), &[1 << 30]);
        let mut source = AnySource::new(&job);
        let offsets: Vec<u64> =
            (0..8).map(|_| source.next_io(Dir::Read, u64::MAX).offset).collect();
        for run in offsets.chunks(4) {
            assert!(run.windows(2).all(|w| w[1] == w[0] + 4096), "{run:?}");
        }
        assert_ne!(offsets[4], offsets[3] + 4096);
    }

    #[test]
    fn mix_and_bssplit_match_their_percentages() {
        let sizes = BlockSizes::Split(vec![(4096, 80), (65536, 20)]);
        let mut source = AnySource::new(&job(
            Order::Random { distribution: Distribution::Uniform, run: 1 },
            Mix::ReadWrite { read_percent: 70 },
            sizes,
            &[1 << 30],
        ));
        let draws: Vec<_> = (0..50_000)
            .map(|_| {
                let d = source.next_direction();
                source.next_io(d, u64::MAX)
            })
            .collect();
        let reads = draws.iter().filter(|r| r.op == Op::Io(Dir::Read)).count();
        let small = draws.iter().filter(|r| r.len == 4096).count();
        assert!(reads.abs_diff(35_000) < 600 && small.abs_diff(40_000) < 600, "{reads} {small}");
    }

    #[test]
    fn file_service_types_select_files() {
        let files = |service| {
            let mut job = job(
                Order::Sequential { skip: 0 },
                Mix::Only(Dir::Read),
                BlockSizes::Fixed(4096),
                &[8192; 3],
            );
            job.file_service = service;
            let mut source = AnySource::new(&job);
            (0..6).map(|_| source.next_io(Dir::Read, u64::MAX).file).collect::<Vec<_>>()
        };
        assert_eq!(files(FileService::RoundRobin), [0, 1, 2, 0, 1, 2]);
        assert_eq!(files(FileService::Sequential), [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn each_file_is_used_for_several_ios() {
        let order = Order::Sequential { skip: 0 };
        let sizes = BlockSizes::Fixed(4096);
        let mut job = job(order, Mix::Only(Dir::Read), sizes, &[8 * 4096; 4]);
        job.file_service_ios = 3;
        let files = |job: &JobPlan| -> Vec<u32> {
            let mut source = AnySource::new(job);
            (0..300).map(|_| source.next_io(Dir::Read, u64::MAX).file).collect()
        };
        assert_eq!(files(&job)[..9], [0, 0, 0, 1, 1, 1, 2, 2, 2]);
        job.file_service = FileService::Random;
        let random = files(&job);
        assert!(random.chunks(3).all(|run| run[0] == run[1] && run[1] == run[2]), "{random:?}");
        assert!((0..4).all(|file| random.contains(&file)));
    }

    #[test]
    fn a_file_is_used_when_another_is_done_where_few_are_open() {
        let mut job = job(
            Order::Sequential { skip: 0 },
            Mix::Only(Dir::Read),
            BlockSizes::Fixed(4096),
            &[8192; 3],
        );
        job.open_files = Some(2);
        let mut source = AnySource::new(&job);
        let files: Vec<u32> = (0..6).map(|_| source.next_io(Dir::Read, u64::MAX).file).collect();
        assert_eq!(files, [0, 1, 0, 1, 2, 0]);
        job.file_service = FileService::Random;
        let mut source = AnySource::new(&job);
        let mut seen = [0; 3];
        (0..60).for_each(|_| seen[source.next_io(Dir::Read, u64::MAX).file as usize] += 1);
        assert!(seen.iter().all(|count| *count > 10), "{seen:?}");
    }

    fn same<P: super::fixed::OffsetSequence>(job: &JobPlan) {
        let (mut simple, mut general) =
            (FixedSource::<P, false>::new(job).unwrap(), AnySource::new(job));
        for _ in 0..1000 {
            assert_eq!(simple.ready(1), 1);
            let mut batch = simple.batch();
            assert_eq!(batch.next_io(Dir::Read, u64::MAX), general.next_io(Dir::Read, u64::MAX));
            batch.end(1);
        }
    }

    #[test]
    fn the_simple_source_generates_the_same_ios() {
        let job = |order| job(order, Mix::Only(Dir::Read), BlockSizes::Fixed(4096), &[300 * 4096]);
        same::<Permutation>(&job(once()));
        same::<Uniform>(&job(Order::Random { distribution: Distribution::Uniform, run: 1 }));
        same::<Sequential>(&job(Order::Sequential { skip: 0 }));
        assert!(FixedSource::<Sequential, false>::new(&job(once())).is_none());
        let mut odd = job(once());
        odd.regions[0].len += 512;
        // The remainder at the end is skipped.
        same::<Permutation>(&odd);
        odd.regions[0].len = 512;
        assert!(FixedSource::<Permutation, false>::new(&odd).is_none(), "no block fits");
    }

    fn sizes() -> impl Strategy<Value = BlockSizes> {
        let min = prop::sample::select(vec![512u64, 1000, 4096, 6144]);
        (min, 0u64..8, 0..3).prop_map(|(min, more, kind)| match kind {
            0 => BlockSizes::Fixed(min * (1 + more)),
            1 => BlockSizes::Range { min, max: min * (1 + more) + 100 },
            _ => BlockSizes::Split(vec![(min * (1 + more), 30), (min, 30), (4096, 40)]),
        })
    }

    fn orders() -> impl Strategy<Value = Order> {
        let random = |distribution, run| Order::Random { distribution, run };
        prop::sample::select(vec![
            random(Distribution::EachOnce, 1),
            random(Distribution::Uniform, 3),
            random(Distribution::Zipf { theta: 1.2 }, 1),
            random(Distribution::Normal { deviation_percent: 30.0, center_percent: 50.0 }, 1),
            Order::Sequential { skip: 0 },
            Order::Sequential { skip: 12_288 },
            Order::Sequential { skip: 500 },
            Order::Sequential { skip: -12_288 },
        ])
    }

    proptest! {
        #[test]
        fn every_io_is_within_its_region(
            len in 65_536u64..1_000_000, sizes in (sizes(), sizes()), order in orders(),
            budget in 1u64..2000,
        ) {
            let mut job = job(order.clone(), Mix::ReadWrite { read_percent: 50 }, sizes.0.clone(), &[len, len / 2 + 40_000]);
            job.access.align.write = sizes.1.min();
            job.access.block_sizes.write = sizes.1;
            let unit = job.block_unit();
            let mut source = AnySource::new(&job);
            let mut left = budget * unit;
            for _ in 0..500 {
                let dir = source.next_direction();
                let io = source.next_io(dir, left);
                let (at, size) = (io.offset - 8192, u64::from(io.len));
                let region = job.regions[io.file as usize].len;
                prop_assert!(size > 0 && at + size <= region, "{:?}", io);
                prop_assert_eq!(size % unit, 0);
                let sizes = &job.access.block_sizes[dir];
                match sizes {
                    BlockSizes::Fixed(fixed) => prop_assert_eq!(size, *fixed, "{:?}", io),
                    _ => prop_assert!(size <= left && (size >= sizes.min() || size == left), "{:?}", io),
                }
                if matches!(order, Order::Random { run: 1, .. }) {
                    prop_assert_eq!(at % job.access.align[dir], 0);
                }
                left = left.saturating_sub(size);
                if left == 0 {
                    break;
                }
            }
        }

        #[test]
        fn each_block_once(blocks in 1u64..3000) {
            let mut source = AnySource::new(&job(once(), Mix::Only(Dir::Read), BlockSizes::Fixed(4096), &[blocks * 4096]));
            let mut offsets: Vec<u64> = (0..blocks).map(|_| source.next_io(Dir::Read, u64::MAX).offset).collect();
            offsets.sort_unstable();
            prop_assert!(offsets.into_iter().eq((0..blocks).map(|b| 8192 + b * 4096)));
        }
    }
}
