//! Random offsets of which some continue the previous I/O (`percentage_random`), and block sizes that vary while
//! each block is accessed once.

use super::distribution::{Draw, below};
use fathom_model::plan::{BlockSizes, Distribution, JobPlan, Order};
use fathom_model::{Dir, PerDir};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The state of one region.
pub(super) struct Mixed {
    start: u64,
    draw: Draw,
    random: Xoshiro256PlusPlus,
    /// Draws are in units of this.
    step: u64,
    align: PerDir<u64>,
    percent: PerDir<u32>,
    /// Consecutive I/Os per decision.
    run: u32,
    left: u32,
    /// Where the previous I/O of each direction ended.
    next: PerDir<u64>,
    map: Option<BlockMap>,
}

impl Mixed {
    /// Whether `job` needs it.
    pub fn applies(job: &JobPlan) -> bool {
        maps_blocks(job) || job.used_dirs().any(|dir| job.access.random_percent[dir] < 100)
    }

    /// For a region at `start` with `places` positions, in the order of `draw`.
    pub fn new(
        job: &JobPlan,
        start: u64,
        places: u64,
        draw: Draw,
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
            next: PerDir::splat(start),
            map: maps_blocks(job).then(|| BlockMap::new(places)),
        }
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
        self.next[dir] = offset + u64::from(size).min(room);
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
        let mut block = self.draw.next();
        while map.is_taken(block) {
            block = self.draw.next();
        }
        let blocks = map.take(block, u64::from(size).div_ceil(self.step));
        let offset = self.start + block * self.step;
        (offset, (blocks * self.step).min(end - offset))
    }
}

/// Whether I/Os of different sizes share blocks that are each accessed once: as in fio, an I/O is then shortened to
/// the blocks that are still free.
fn maps_blocks(job: &JobPlan) -> bool {
    let access = &job.access;
    let each_once =
        matches!(access.order, Order::Random { distribution: Distribution::EachOnce, run: 1 });
    let varies = |dir| !matches!(access.block_sizes[dir], BlockSizes::Fixed(_));
    let least = job.used_dirs().map(|dir| access.block_sizes[dir].min()).min().unwrap_or(0);
    let is_least =
        |dir| access.align[dir] == least && access.block_sizes[dir].min() == least && least > 0;
    each_once && job.used_dirs().any(varies) && job.used_dirs().all(is_least)
}

/// The blocks that were accessed in the current pass.
struct BlockMap {
    taken: Vec<u64>,
    blocks: u64,
    free: u64,
}

impl BlockMap {
    fn new(blocks: u64) -> Self {
        Self { taken: vec![0; blocks.div_ceil(64) as usize], blocks, free: blocks }
    }

    fn is_taken(&self, block: u64) -> bool {
        self.taken[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// Takes free blocks from `first` on, at most `count`; returns how many. Begins a new pass with the last.
    fn take(&mut self, first: u64, count: u64) -> u64 {
        let last = first.saturating_add(count).min(self.blocks);
        let mut block = first;
        while block < last && !self.is_taken(block) {
            self.taken[(block / 64) as usize] |= 1 << (block % 64);
            block += 1;
        }
        self.free -= block - first;
        if self.free == 0 {
            self.taken.fill(0);
            self.free = self.blocks;
        }
        block - first
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Draw as _, General, Source as _};
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
        let mut source = General::new(&job(sizes, 4 << 20));
        let mut seen = vec![0; 1024];
        for pass in 1..=3 {
            let mut left: u64 = 4 << 20;
            while left > 0 {
                let io = source.batch().next(Dir::Read, left);
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
    fn a_percentage_of_the_ios_is_random() {
        let mut job = job(BlockSizes::Fixed(4096), 1 << 30);
        job.access.random_percent.read = 30;
        let mut source = General::new(&job);
        let mut end = 0;
        let mut random = 0;
        for _ in 0..20_000 {
            let io = source.batch().next(Dir::Read, u64::MAX);
            random += u32::from(io.offset != end);
            end = io.offset + u64::from(io.len);
        }
        assert!(random.abs_diff(6000) < 300, "{random}");
    }
}
