//! A region of a file, and the next offset in it.

use super::below;
use super::distribution::OffsetDraw;
use super::mixed::Mixed;
use fathom_model::plan::{BlockSizes, FileService, JobPlan, Order, Zoning};
use fathom_model::{Dir, PerDir};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

pub(super) struct SourceRegion {
    pub file: u32,
    start: u64,
    /// Without the remainder at the end that is too short for a block.
    pub len: u64,
    /// The smallest block of each direction; no I/O starts with less space.
    least: PerDir<u64>,
    /// Bytes transferred in the current pass; determines the switch to the next region (`sequential`).
    pub moved: u64,
    order: RegionOrder,
}

enum RegionOrder {
    Sequential {
        next: PerDir<u64>,
        skip: i64,
    },
    Mixed(Box<Mixed>),
    Random {
        draw: Box<OffsetDraw>,
        /// Draws are in units of this: the minimum of `align`.
        step: u64,
        align: PerDir<u64>,
        run: u32,
        left: u32,
        /// Next offset of a run, per direction, as in fio.
        next: PerDir<u64>,
    },
}

impl SourceRegion {
    /// The `len` bytes from `start` of file number `file`, as `job` uses them.
    pub fn new(
        job: &JobPlan,
        file: u32,
        start: u64,
        len: u64,
        random: &mut Xoshiro256PlusPlus,
    ) -> Self {
        let least = job.access.block_sizes.map(|_, sizes| sizes.min().max(1));
        let order = match &job.access.order {
            Order::Sequential { skip } => {
                RegionOrder::Sequential { next: PerDir::splat(start), skip: *skip }
            }
            Order::Random { distribution, run } => {
                let align = job.access.align.map(|_, align| (*align).max(1));
                let step = job.used_dirs().map(|dir| align[dir]).min().unwrap_or(1);
                let least = job.used_dirs().map(|dir| least[dir]).min().unwrap_or(1);
                // Block sizes that are not a multiple of the alignment must still fit at the last offset.
                let places = len.saturating_sub(least) / step + 1;
                let draw = OffsetDraw::new(distribution, places, step, random.next_u64());
                match Mixed::applies(job) {
                    true => {
                        RegionOrder::Mixed(Box::new(Mixed::new(job, start, places, draw, random)))
                    }
                    false => RegionOrder::Random {
                        draw: Box::new(draw),
                        step,
                        align,
                        run: (*run).max(1),
                        left: 0,
                        next: PerDir::splat(start),
                    },
                }
            }
        };
        Self { file, start, len, least, moved: 0, order }
    }

    /// Moves to `len` bytes from `start`, no more than it was made for, and begins a new pass there.
    #[cold]
    fn restart(&mut self, start: u64, len: u64) {
        (self.start, self.len) = (start, len);
        match &mut self.order {
            RegionOrder::Sequential { next, .. } => *next = PerDir::splat(start),
            RegionOrder::Mixed(mixed) => mixed.restart(start),
            RegionOrder::Random { draw, left, next, .. } => {
                draw.restart();
                (*left, *next) = (0, PerDir::splat(start));
            }
        }
    }

    /// The offset of the next I/O of `size` bytes, and the number of bytes from there to the end.
    #[inline]
    pub fn place(&mut self, dir: Dir, size: u32) -> (u64, u64) {
        let end = self.start + self.len;
        match &mut self.order {
            RegionOrder::Random { draw, step, align, run, left, next } => {
                let cursor = &mut next[dir];
                if *left == 0 || *cursor + u64::from(size) > end {
                    *left = *run;
                    let last = self.len.saturating_sub(self.least[dir]);
                    let drawn = (draw.next() * *step).min(last);
                    *cursor = self.start + drawn - drawn % align[dir];
                }
                *left -= 1;
                let offset = *cursor;
                *cursor = offset + u64::from(size);
                (offset, end - offset)
            }
            RegionOrder::Mixed(mixed) => mixed.place(end, self.least[dir], dir, size),
            RegionOrder::Sequential { next, skip } => {
                let cursor = &mut next[dir];
                if *cursor < self.start || end.saturating_sub(*cursor) < self.least[dir] {
                    // A backward order wraps to the last block.
                    let last = end.saturating_sub(u64::from(size)).max(self.start);
                    *cursor = if *skip < 0 { last } else { self.start };
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

/// Uses a part of the region at a time (`zonemode=strided`).
pub(super) struct Stride {
    bytes: u64,
    range: u64,
    skip: u64,
    start: u64,
    end: u64,
    /// Bytes transferred in the present part.
    moved: u64,
}

impl Stride {
    /// That of `job` on the `len` bytes from `start`, if it has one.
    pub fn new(job: &JobPlan, start: u64, len: u64) -> Option<Self> {
        let Some(Zoning::Strided { bytes, range, skip }) = job.access.zoning else { return None };
        let range = range.min(len).max(1);
        Some(Self { bytes: bytes.max(1), range, skip, start, end: start + len, moved: 0 })
    }

    pub fn range(&self) -> u64 {
        self.range
    }

    /// Moves on to the next part when enough of the present one was transferred. As in fio, that is counted by what
    /// was transferred, also where a part is used again and again.
    #[inline]
    pub fn prepare(&mut self, region: &mut SourceRegion) {
        let mut start = region.start;
        if self.moved >= self.bytes {
            self.moved = 0;
            start = start.saturating_add(self.range).saturating_add(self.skip);
            let least = match region.order {
                RegionOrder::Sequential { .. } => {
                    region.least.iter().map(|(_, least)| *least).min()
                }
                _ => None,
            };
            if start.saturating_add(least.unwrap_or(self.range)) > self.end {
                start = self.start;
            }
        }
        if self.moved.is_multiple_of(self.range) {
            region.restart(start, self.range.min(self.end - start));
        }
    }

    #[inline]
    pub fn advance(&mut self, len: u32) {
        self.moved += u64::from(len);
    }
}

pub(super) enum Sizes {
    Fixed(u32),
    /// `step` times a number from 0 below `steps`, above `min`.
    Range {
        min: u64,
        step: u64,
        steps: u64,
    },
    Split(Vec<(u32, u32)>),
}

impl Sizes {
    pub fn new(plan: &BlockSizes) -> Self {
        match plan {
            BlockSizes::Fixed(size) => Self::Fixed(*size as u32),
            BlockSizes::Range { min, max } => {
                let step = (*min).max(1);
                Self::Range { min: *min, step, steps: (max - min) / step + 1 }
            }
            BlockSizes::Any { min, max } => {
                Self::Range { min: *min, step: 1, steps: max - min + 1 }
            }
            BlockSizes::Split(parts) => {
                Self::Split(parts.iter().map(|p| (p.0 as u32, p.1)).collect())
            }
        }
    }

    /// A length in whole units instead of `size`, that fits in `room`, which is at least one unit, and in the `max`
    /// bytes left. As in fio, a job whose blocks of one direction have one size ends with a whole block.
    #[cold]
    pub fn shortened(&self, size: u32, room: u64, max: u64, unit: u64) -> u32 {
        if matches!(self, Self::Fixed(_)) && u64::from(size) <= room {
            return size;
        }
        let whole = room.min(max) / unit * unit;
        // Plans transfer whole units; otherwise, transfer exactly the rest.
        (if whole > 0 { whole } else { max.min(room) }) as u32
    }

    #[inline]
    pub fn next(&self, random: &mut Xoshiro256PlusPlus) -> u32 {
        match self {
            Self::Fixed(size) => *size,
            Self::Range { min, step, steps } => (min + below(random, *steps) * step) as u32,
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

pub(super) enum Service {
    RoundRobin,
    Random,
    Sequential,
    /// Of a few at once, or each for several I/Os, round-robin or at random.
    Window(Box<OpenRegions>),
}

impl Service {
    pub fn new(job: &JobPlan) -> Self {
        let count = job.regions.len();
        let open = job.open_files.map(|open| (open as usize).max(1)).filter(|open| *open < count);
        let run = job.file_service_ios.max(1);
        match (job.file_service, open, run) {
            (FileService::Sequential, ..) => Self::Sequential,
            (FileService::RoundRobin, None, 1) => Self::RoundRobin,
            (FileService::Random, None, 1) => Self::Random,
            (service, open, run) => Self::Window(Box::new(OpenRegions {
                open: (0..open.unwrap_or(count)).collect(),
                at: 0,
                closed: open.unwrap_or(0),
                random: service == FileService::Random,
                run,
                left: run,
            })),
        }
    }
}

/// The regions in use, all or only some of them (`openfiles`).
pub(super) struct OpenRegions {
    /// Never empty.
    open: Vec<usize>,
    at: usize,
    closed: usize,
    random: bool,
    /// I/Os to a region before the next is chosen (`file_service_type=random:N`).
    run: u32,
    left: u32,
}

impl OpenRegions {
    /// Replaces the current region, which was transferred as a whole, by the next of `count`.
    pub fn replace(&mut self, count: usize) {
        if self.open.len() == count {
            return;
        }
        self.left = 1;
        self.open[self.at] = self.closed;
        // With fewer closed regions than open ones, the next may still be in use.
        self.closed = (1..=count)
            .map(|step| (self.closed + step) % count)
            .find(|region| !self.open.contains(region))
            .unwrap_or(self.closed);
    }

    pub fn next(&mut self, random: &mut Xoshiro256PlusPlus) -> usize {
        self.left -= 1;
        if self.left > 0 {
            return self.open[self.at];
        }
        self.left = self.run;
        self.at = match self.random {
            true => below(random, self.open.len() as u64) as usize,
            false => (self.at + 1) % self.open.len(),
        };
        self.open[self.at]
    }
}
