//! Random offsets of which some continue the previous I/O (`percentage_random`) or repeat it (`rw_sequencer`), and block
//! sizes that vary while each block is accessed once.

use super::distribution::{OffsetDraw, below};
use fathom_model::plan::{JobPlan, Order, block_map_levels};
use fathom_model::{Dir, PerDir};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

pub(super) struct Mixed {
    start: u64,
    draw: OffsetDraw,
    random: Xoshiro256PlusPlus,
    step: u64,
    align: PerDir<u64>,
    percent: PerDir<u32>,
    run: u32,
    left: u32,
    /// Whether the I/Os of a run have the same offset.
    repeats: bool,
    /// Where the next I/O of each direction begins, if it continues the previous one.
    next: PerDir<u64>,
    map: Option<BlockMap>,
}

impl Mixed {
    pub fn applies(job: &JobPlan) -> bool {
        let repeats = |run: u32| job.access.repeat_offset && run > 1;
        matches!(job.access.order, Order::Random { run, .. } if repeats(run))
            || job.maps_blocks()
            || job.used_dirs().any(|dir| job.access.random_percent[dir] < 100)
    }

    /// For a region at `start` with `places` positions, in the order of `draw`.
    pub fn new(
        job: &JobPlan,
        start: u64,
        places: u64,
        draw: OffsetDraw,
        random: &mut Xoshiro256PlusPlus,
    ) -> Self {
        let align = job.access.align.map(|_, align| (*align).max(1));
        let run = match job.access.order {
            Order::Random { run, .. } => run.max(1),
            Order::Sequential { .. } => 1,
        };
        Self {
            start,
            draw,
            random: Xoshiro256PlusPlus::seed_from_u64(random.next_u64()),
            step: job.used_dirs().map(|dir| align[dir]).min().unwrap_or(1),
            align,
            percent: job.access.random_percent,
            run,
            left: 0,
            repeats: job.access.repeat_offset,
            next: PerDir::splat(start),
            map: job.maps_blocks().then(|| BlockMap::new(places)),
        }
    }

    /// Begins a new pass in the region at `start`.
    pub fn restart(&mut self, start: u64) {
        (self.start, self.left, self.next) = (start, 0, PerDir::splat(start));
        self.draw.restart();
        self.map.iter_mut().for_each(BlockMap::clear);
    }

    /// The offset of the next I/O of `size` bytes, and its maximum length. `least` is the smallest block of its
    /// direction, and `end` that of the region.
    pub fn place(&mut self, end: u64, least: u64, dir: Dir, size: u32) -> (u64, u64) {
        let continues = self.left > 0 || self.is_sequential(dir);
        let fits = self.next[dir] + least <= end;
        let (offset, room) = match continues && fits {
            true => (self.next[dir], end - self.next[dir]),
            false => self.drawn(end, least, dir, size),
        };
        self.left = if self.left > 0 { self.left } else { self.run } - 1;
        let moved = if self.repeats && self.left > 0 { 0 } else { u64::from(size).min(room) };
        self.next[dir] = offset + moved;
        (offset, room)
    }

    fn is_sequential(&mut self, dir: Dir) -> bool {
        let percent = self.percent[dir];
        percent < 100 && below(&mut self.random, 100) >= u64::from(percent)
    }

    fn drawn(&mut self, end: u64, least: u64, dir: Dir, size: u32) -> (u64, u64) {
        let last = (end - self.start).saturating_sub(least);
        let Some(map) = &mut self.map else {
            let drawn = (self.draw.next() * self.step).min(last);
            let offset = self.start + drawn - drawn % self.align[dir];
            return (offset, end - offset);
        };
        // As in fio, which determines how often I/Os are shortened: an access to a block that was accessed already moves
        // to the next free one.
        let block = map.next_free(below(&mut self.random, map.blocks));
        let blocks = map.take(block, u64::from(size).div_ceil(self.step));
        let offset = self.start + block * self.step;
        (offset, (blocks * self.step).min(end - offset))
    }
}

/// The blocks that were accessed in the current pass: a bit for each, and above these levels of bits that stand for
/// full words of the level below.
struct BlockMap {
    levels: Vec<Vec<u64>>,
    blocks: u64,
    free: u64,
}

impl BlockMap {
    fn new(blocks: u64) -> Self {
        let levels = block_map_levels(blocks).map(|words| vec![0; words as usize]).collect();
        let mut map = Self { levels, blocks, free: blocks };
        map.clear();
        map
    }

    fn clear(&mut self) {
        self.free = self.blocks;
        let mut bits = self.blocks;
        for level in &mut self.levels {
            level.fill(0);
            // Bits beyond the end are never free.
            if let (Some(last), rest @ 1..) = (level.last_mut(), bits % 64) {
                *last = u64::MAX << rest;
            }
            bits = level.len() as u64;
        }
    }

    /// The first free block from `from` on, continuing at the start, as in fio.
    fn next_free(&self, from: u64) -> u64 {
        self.free_from(from).or_else(|| self.free_from(0)).unwrap_or(0)
    }

    fn free_from(&self, from: u64) -> Option<u64> {
        let mut from = from;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get((from / 64) as usize)?;
            let free = !word & (u64::MAX << (from % 64));
            if free != 0 {
                let found = from / 64 * 64 + u64::from(free.trailing_zeros());
                let below = self.levels[..height].iter().rev();
                return Some(below.fold(found, |at, level| {
                    at * 64 + u64::from((!level[at as usize]).trailing_zeros())
                }));
            }
            from = from / 64 + 1;
        }
        None
    }

    /// Takes free blocks from `first` on, at most `count`; returns how many. Begins a new pass with the last.
    fn take(&mut self, first: u64, count: u64) -> u64 {
        let last = first.saturating_add(count).min(self.blocks);
        let mut block = first;
        while block < last && self.levels[0][(block / 64) as usize] >> (block % 64) & 1 == 0 {
            self.mark(block);
            block += 1;
        }
        self.free -= block - first;
        if self.free == 0 {
            self.clear();
        }
        block - first
    }

    fn mark(&mut self, block: u64) {
        let mut at = block;
        for level in &mut self.levels {
            let word = &mut level[(at / 64) as usize];
            *word |= 1 << (at % 64);
            if *word != u64::MAX {
                return;
            }
            at /= 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AnySource, IoGenerator as _, Source as _};
    use super::BlockMap;
    use fathom_model::plan::{BlockSizes, Distribution, Engine, JobPlan, Mix, Order, Region};
    use fathom_model::{Dir, PerDir};

    fn job(sizes: BlockSizes, len: u64) -> JobPlan {
        let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
        let mut job = JobPlan::new("t", Engine::Null, Mix::Only(Dir::Read), order);
        job.access.align = PerDir::splat(sizes.min());
        job.access.block_sizes = PerDir::splat(sizes);
        job.regions = vec![Region { target: 0, start: 8192, len }];
        job
    }

    #[test]
    fn blocks_of_different_sizes_cover_the_region_once() {
        let sizes = BlockSizes::Split(vec![(4096, 50), (65536, 50)]);
        let mut source = AnySource::new(&job(sizes, 4 << 20));
        let mut seen = vec![0; 1024];
        for pass in 1..=3 {
            let mut left: u64 = 4 << 20;
            while left > 0 {
                let io = source.batch().next_io(Dir::Read, left);
                let first = (io.offset - 8192) / 4096;
                for block in first..first + u64::from(io.len) / 4096 {
                    seen[block as usize] += 1;
                }
                left -= u64::from(io.len);
            }
            assert!(seen.iter().all(|count| *count == pass), "pass {pass}");
        }
    }

    #[test]
    fn an_access_to_a_taken_block_moves_to_the_next_free_one() {
        // Three levels, the last words of which are incomplete.
        let blocks = 64 * 64 + 100;
        let mut map = BlockMap::new(blocks);
        assert_eq!((map.levels.len(), map.next_free(7), map.take(7, 3)), (3, 7, 3));
        assert_eq!((map.next_free(8), map.take(5, 9)), (10, 2));
        assert_eq!((map.next_free(5), map.take(10, blocks)), (10, blocks - 10));
        assert_eq!(map.next_free(blocks - 1), 0, "continues at the start");
        assert_eq!((map.take(0, 4), map.next_free(0), map.take(4, 1)), (4, 4, 1));
        assert_eq!((map.free, map.next_free(blocks - 1)), (blocks, blocks - 1), "a new pass");
    }

    #[test]
    fn collisions_shorten_as_many_ios_as_in_fio() {
        // fio 3.33 with --bssplit=4k/50:64k/50 --size=4m needs 182 to 258 I/Os depending on the seed, 211 on average.
        let sizes = BlockSizes::Split(vec![(4096, 50), (65536, 50)]);
        let counts = (1..=20).map(|seed| {
            let mut job = job(sizes.clone(), 4 << 20);
            job.access.seed = seed;
            let mut source = AnySource::new(&job);
            let (mut left, mut count) = (4 << 20, 0);
            while left > 0 {
                left -= u64::from(source.batch().next_io(Dir::Read, left).len);
                count += 1;
            }
            count
        });
        let mean = counts.sum::<u32>() / 20;
        assert!((190..230).contains(&mean), "{mean}");
    }

    #[test]
    fn a_run_repeats_its_offset() {
        let mut job = job(BlockSizes::Fixed(4096), 1 << 30);
        job.access.order = Order::Random { distribution: Distribution::EachOnce, run: 3 };
        job.access.repeat_offset = true;
        let mut source = AnySource::new(&job);
        let offsets: Vec<u64> =
            (0..300).map(|_| source.batch().next_io(Dir::Read, u64::MAX).offset).collect();
        assert!(offsets.chunks(3).all(|run| run.iter().all(|offset| *offset == run[0])));
        assert!(offsets.chunks(3).map(|run| run[0]).is_sorted_by(|a, b| a != b), "each differs");
    }

    #[test]
    fn a_percentage_of_the_ios_is_random() {
        let mut job = job(BlockSizes::Fixed(4096), 1 << 30);
        job.access.random_percent.read = 30;
        let mut source = AnySource::new(&job);
        let mut end = 0;
        let mut random = 0;
        for _ in 0..20_000 {
            let io = source.batch().next_io(Dir::Read, u64::MAX);
            random += u32::from(io.offset != end);
            end = io.offset + u64::from(io.len);
        }
        assert!(random.abs_diff(6000) < 300, "{random}");
    }
}
