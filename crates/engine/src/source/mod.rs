//! What to do next: direction, file, offset and length of each I/O.

mod distribution;
mod permutation;
mod simple;

pub(crate) use permutation::Permutation;
pub(crate) use simple::{Ascending, Simple, Uniform};

use crate::queue::{Op, Request};
use distribution::{Draw, below, unit};
use fathom_model::plan::{self, BlockSizes, FileService, JobPlan, Mix, Order};
use fathom_model::{Dir, PerDir};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Length of the region that engines without a target pretend to work on.
const NOWHERE_BYTES: u64 = 1 << 40;

/// Makes the I/Os of a job, one after the other. The same seed makes the same ones.
pub(crate) trait Source {
    /// All I/Os have the same length, and never fewer bytes may be left than that.
    const FIXED: bool;
    /// The length of all, where they have the same; the greatest otherwise. Never 0.
    fn len(&self) -> u32;
    /// The direction of the next I/O, by the plan's mix.
    fn next_dir(&mut self) -> Dir;
    /// The next I/O in direction `dir`, at most `max` bytes long.
    fn next(&mut self, dir: Dir, max: u64) -> Request;
}

/// The source of any job.
pub(crate) struct General {
    mix: Mix,
    sizes: PerDir<Sizes>,
    regions: Vec<Region>,
    service: FileService,
    /// The region that the next I/O goes to.
    current: usize,
    random: Xoshiro256PlusPlus,
    len_max: u32,
}

/// A region and where in it the job is.
struct Region {
    file: u32,
    start: u64,
    len: u64,
    /// Bytes moved in the current pass; used to go on to the next region (`sequential`).
    moved: u64,
    order: Places,
}

enum Places {
    Sequential {
        next: PerDir<u64>,
        skip: i64,
    },
    Random {
        draw: Draw,
        /// Offsets are multiples of this.
        align: u64,
        /// I/Os that follow each other after each draw.
        run: u32,
        left: u32,
        next: u64,
    },
}

/// Sizes of one direction.
enum Sizes {
    Fixed(u32),
    Range { min: u64, steps: u64 },
    Split(Vec<(u32, u32)>),
}

impl Sizes {
    fn new(plan: &BlockSizes) -> Self {
        match plan {
            BlockSizes::Fixed(size) => Self::Fixed(*size as u32),
            BlockSizes::Range { min, max } => {
                Self::Range { min: *min, steps: (max - min) / (*min).max(1) + 1 }
            }
            BlockSizes::Split(parts) => {
                Self::Split(parts.iter().map(|p| (p.0 as u32, p.1)).collect())
            }
        }
    }

    #[inline]
    fn next(&self, random: &mut Xoshiro256PlusPlus) -> u32 {
        match self {
            Self::Fixed(size) => *size,
            Self::Range { min, steps } => (min + below(random, *steps) * min) as u32,
            Self::Split(parts) => {
                let mut pick = below(random, 100) as u32;
                for (size, percent) in parts {
                    if pick < *percent {
                        return *size;
                    }
                    pick -= percent;
                }
                parts.last().map_or(0, |p| p.0)
            }
        }
    }
}

impl General {
    /// The I/Os of `job`. Its plan is taken as checked: regions are not empty and hold a block.
    pub fn new(job: &JobPlan) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(job.access.seed);
        let dirs: Vec<Dir> = job.used_dirs().collect();
        let align = dirs.iter().map(|d| job.access.align[*d]).min().unwrap_or(1).max(1);
        let least = dirs.iter().map(|d| job.access.block_sizes[*d].min()).min().unwrap_or(1).max(1);
        // Engines without a target still make offsets, as those with one do.
        let anywhere = [plan::Region { target: 0, start: 0, len: NOWHERE_BYTES }];
        let regions = if job.regions.is_empty() { &anywhere[..] } else { &job.regions };
        let regions = regions.iter().enumerate();
        let regions = regions.map(|(file, region)| {
            let order = match &job.access.order {
                Order::Sequential { skip } => {
                    Places::Sequential { next: PerDir::splat(region.start), skip: *skip }
                }
                Order::Random { distribution, run } => Places::Random {
                    // Block sizes that are no multiple of the alignment must still fit at the last place.
                    draw: Draw::new(
                        distribution,
                        (region.len.saturating_sub(least)) / align + 1,
                        random.next_u64(),
                    ),
                    align,
                    run: (*run).max(1),
                    left: 0,
                    next: region.start,
                },
            };
            Region { file: file as u32, start: region.start, len: region.len, moved: 0, order }
        });
        Self {
            mix: job.access.mix,
            sizes: job.access.block_sizes.map(|_, sizes| Sizes::new(sizes)),
            regions: regions.collect(),
            service: job.file_service,
            current: 0,
            random,
            len_max: job.block_max().clamp(1, u64::from(u32::MAX)) as u32,
        }
    }

    /// Chooses the region of the I/O after this one.
    fn pick_region(&mut self) {
        self.current = match self.service {
            FileService::RoundRobin => (self.current + 1) % self.regions.len(),
            FileService::Random => below(&mut self.random, self.regions.len() as u64) as usize,
            FileService::Sequential => {
                let region = &mut self.regions[self.current];
                if region.moved < region.len {
                    return;
                }
                region.moved = 0;
                (self.current + 1) % self.regions.len()
            }
        };
    }
}

impl Source for General {
    const FIXED: bool = false;

    fn len(&self) -> u32 {
        self.len_max
    }

    #[inline]
    fn next_dir(&mut self) -> Dir {
        match self.mix {
            Mix::Only(dir) => dir,
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
    fn next(&mut self, dir: Dir, max: u64) -> Request {
        let size = self.sizes[dir].next(&mut self.random);
        let region = &mut self.regions[self.current];
        let (offset, room) = region.place(dir, size);
        let mut len = size;
        if u64::from(len) > room.min(max) {
            len = shortened(room.min(max));
        }
        region.moved += u64::from(len);
        let request = Request { op: Op::Io(dir), file: region.file, offset, len, buffer_offset: 0 };
        if self.regions.len() > 1 {
            self.pick_region();
        }
        request
    }
}

/// A length no longer than `room` that direct I/O still accepts where `room` allows it.
fn shortened(room: u64) -> u32 {
    let aligned = room / 512 * 512;
    (if aligned > 0 { aligned } else { room }) as u32
}

impl Region {
    /// The offset of the next I/O of `size` bytes and how many bytes there are from there to the end.
    #[inline]
    fn place(&mut self, dir: Dir, size: u32) -> (u64, u64) {
        let end = self.start + self.len;
        match &mut self.order {
            Places::Random { draw, align, run, left, next } => {
                if *left == 0 || *next + u64::from(size) > end {
                    *left = *run;
                    *next = self.start + draw.next() * *align;
                }
                *left -= 1;
                let offset = *next;
                *next = offset + u64::from(size);
                (offset, end - offset)
            }
            Places::Sequential { next, skip } => {
                let cursor = &mut next[dir];
                if *cursor >= end || *cursor < self.start {
                    *cursor =
                        if *skip < 0 { backwards_start(self.start, end, size) } else { self.start };
                }
                let offset = *cursor;
                let after = (offset + u64::from(size)) as i64 + *skip;
                // Before the region's start: wraps with the next I/O.
                *cursor = u64::try_from(after).unwrap_or(u64::MAX);
                (offset, end - offset)
            }
        }
    }
}

/// Where an order that runs backwards begins anew: with the last block.
fn backwards_start(start: u64, end: u64, size: u32) -> u64 {
    end.saturating_sub(u64::from(size)).max(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::{Distribution, Engine};
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
    fn sequential_goes_through_and_begins_anew() {
        let job = job(
            Order::Sequential { skip: 0 },
            Mix::Only(Dir::Read),
            BlockSizes::Fixed(4096),
            &[10_240],
        );
        let mut source = General::new(&job);
        let got: Vec<_> =
            (0..4).map(|_| source.next(Dir::Read, u64::MAX)).map(|r| (r.offset, r.len)).collect();
        assert_eq!(got, [(8192, 4096), (12288, 4096), (16384, 2048), (8192, 4096)]);
    }

    #[test]
    fn sequential_with_holes_and_backwards() {
        let offsets = |skip| {
            let job = job(
                Order::Sequential { skip },
                Mix::Only(Dir::Read),
                BlockSizes::Fixed(4096),
                &[16384],
            );
            let mut source = General::new(&job);
            (0..4).map(|_| source.next(Dir::Read, u64::MAX).offset - 8192).collect::<Vec<_>>()
        };
        assert_eq!(offsets(4096), [0, 8192, 0, 8192]);
        assert_eq!(offsets(-8192), [0, 12288, 8192, 4096]);
    }

    #[test]
    fn a_run_follows_each_draw() {
        let order = Order::Random { distribution: Distribution::Uniform, run: 4 };
        let job = job(order, Mix::Only(Dir::Read), BlockSizes::Fixed(4096), &[1 << 30]);
        let mut source = General::new(&job);
        let offsets: Vec<u64> = (0..8).map(|_| source.next(Dir::Read, u64::MAX).offset).collect();
        for run in offsets.chunks(4) {
            assert!(run.windows(2).all(|w| w[1] == w[0] + 4096), "{run:?}");
        }
        assert_ne!(offsets[4], offsets[3] + 4096);
    }

    #[test]
    fn the_mix_and_the_split_have_their_shares() {
        let sizes = BlockSizes::Split(vec![(4096, 80), (65536, 20)]);
        let mut source =
            General::new(&job(once(), Mix::ReadWrite { read_percent: 70 }, sizes, &[1 << 30]));
        let draws: Vec<_> = (0..50_000)
            .map(|_| {
                let d = source.next_dir();
                source.next(d, u64::MAX)
            })
            .collect();
        let reads = draws.iter().filter(|r| r.op == Op::Io(Dir::Read)).count();
        let small = draws.iter().filter(|r| r.len == 4096).count();
        assert!(reads.abs_diff(35_000) < 600 && small.abs_diff(40_000) < 600, "{reads} {small}");
    }

    #[test]
    fn files_are_served_as_asked() {
        let files = |service| {
            let mut job = job(
                Order::Sequential { skip: 0 },
                Mix::Only(Dir::Read),
                BlockSizes::Fixed(4096),
                &[8192; 3],
            );
            job.file_service = service;
            let mut source = General::new(&job);
            (0..6).map(|_| source.next(Dir::Read, u64::MAX).file).collect::<Vec<_>>()
        };
        assert_eq!(files(FileService::RoundRobin), [0, 1, 2, 0, 1, 2]);
        assert_eq!(files(FileService::Sequential), [0, 0, 1, 1, 2, 2]);
    }

    fn same<P: super::simple::Places>(job: &JobPlan) {
        let (mut simple, mut general) = (Simple::<P, false>::new(job).unwrap(), General::new(job));
        for _ in 0..1000 {
            assert_eq!(simple.next(Dir::Read, u64::MAX), general.next(Dir::Read, u64::MAX));
        }
    }

    #[test]
    fn the_cheap_way_makes_the_same_ios() {
        let job = |order| job(order, Mix::Only(Dir::Read), BlockSizes::Fixed(4096), &[300 * 4096]);
        same::<Permutation>(&job(once()));
        same::<Uniform>(&job(Order::Random { distribution: Distribution::Uniform, run: 1 }));
        same::<Ascending>(&job(Order::Sequential { skip: 0 }));
        assert!(Simple::<Ascending, false>::new(&job(once())).is_none());
        let mut odd = job(once());
        odd.regions[0].len += 512;
        assert!(
            Simple::<Permutation, false>::new(&odd).is_none(),
            "the last block would be shortened"
        );
    }

    proptest! {
        #[test]
        fn every_io_lies_in_its_region(
            len in 4096u64..1_000_000, min in prop::sample::select(vec![512u64, 4096]), more in 0u64..8,
            order in prop::sample::select(vec![
                once(),
                Order::Random { distribution: Distribution::Uniform, run: 3 },
                Order::Random { distribution: Distribution::Zipf { theta: 1.2 }, run: 1 },
                Order::Random { distribution: Distribution::Normal { deviation_percent: 30.0 }, run: 1 },
                Order::Sequential { skip: 0 },
                Order::Sequential { skip: 12_288 },
                Order::Sequential { skip: -12_288 },
            ]),
        ) {
            let len = len / 512 * 512;
            let sizes = BlockSizes::Range { min, max: (min * (1 + more)).min(len) };
            let mut source = General::new(&job(order, Mix::Only(Dir::Write), sizes, &[len]));
            for _ in 0..500 {
                let io = source.next(Dir::Write, u64::MAX);
                prop_assert!(io.len > 0 && io.offset >= 8192 && io.offset + u64::from(io.len) <= 8192 + len, "{:?}", io);
                prop_assert_eq!(io.len % 512, 0);
            }
        }

        #[test]
        fn each_block_once(blocks in 1u64..3000) {
            let mut source = General::new(&job(once(), Mix::Only(Dir::Read), BlockSizes::Fixed(4096), &[blocks * 4096]));
            let mut offsets: Vec<u64> = (0..blocks).map(|_| source.next(Dir::Read, u64::MAX).offset).collect();
            offsets.sort_unstable();
            prop_assert!(offsets.into_iter().eq((0..blocks).map(|b| 8192 + b * 4096)));
        }
    }
}
