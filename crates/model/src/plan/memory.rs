//! Memory that the workers of a plan need: the only formula for it.

use super::{Buffers, Distribution, JobPlan, Memory, Order, Plan, Region};
use crate::Dir;
use crate::histogram::BUCKETS;
use std::collections::BTreeMap;

/// Stack of a worker thread, in bytes.
pub const STACK_BYTES: u64 = 512 << 10;
/// Alignment of I/O buffers: direct I/O needs at most the logical block size; a page suits all devices.
pub const BUFFER_ALIGN: u64 = 4096;
/// Size of a huge page, in bytes.
pub const HUGE_PAGE_BYTES: u64 = 2 << 20;
/// Upper bound for each I/O in flight, besides its buffer: the SQ entry and two CQ entries (384 bytes with SQE128 and
/// CQE32, as the kernel rounds rings up to a power of two), the kernel's request (`struct io_kiocb`), and
/// the worker's tables.
pub const SLOT_BYTES: u64 = 1 << 10;
/// A worker thread besides its stack: guard pages, signal stack, the fixed part of its ring.
const THREAD_BYTES: u64 = 256 << 10;
/// Histograms of a worker: slat, clat, lat and response for each direction, and flushes.
const HISTOGRAMS: u64 = 4 * 3 + 1;
/// The C library reserves an arena of this size for each allocating thread, up to 8 per CPU (mallopt(3)).
const ARENA_BYTES: u64 = 64 << 20;
const ARENAS_PER_CPU: u64 = 8;
/// The rest of the process during a run: samplers, views, the report.
const REST_BYTES: u64 = 64 << 20;

/// Memory that a plan needs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryNeed {
    /// Physical memory: buffers, rings and tables of the jobs that run at the same time.
    pub resident_bytes: u64,
    /// Address space: the same, plus stacks, histograms and malloc arenas, which are mostly untouched.
    pub address_space_bytes: u64,
}

impl Plan {
    /// Memory that the workers need on a machine with `cpus` CPUs.
    pub fn memory_need(&self, cpus: u32) -> MemoryNeed {
        let mut waves: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for job in &self.jobs {
            let (resident, reserved) = waves.entry(job.wave).or_default();
            *resident = resident.saturating_add(job.worker_bytes());
            *reserved += STACK_BYTES + THREAD_BYTES;
        }
        let resident_bytes = waves.values().map(|wave| wave.0).max().unwrap_or(0);
        let mapped = waves.values().map(|wave| wave.0.saturating_add(wave.1)).max().unwrap_or(0);
        let workers = self.jobs.len() as u64;
        let arenas = workers.min(ARENAS_PER_CPU * u64::from(cpus.max(1))) * ARENA_BYTES;
        // Live counters exist for all waves, and each is copied into the record.
        let histograms = workers * 2 * HISTOGRAMS * (BUCKETS * size_of::<u64>()) as u64;
        let address_space_bytes = mapped.saturating_add(arenas + histograms + REST_BYTES);
        MemoryNeed { resident_bytes, address_space_bytes }
    }
}

impl JobPlan {
    /// Bytes of the buffer of one I/O; trims transfer no data.
    pub fn buffer_bytes(&self) -> u64 {
        let moves = self.used_dirs().filter(|dir| *dir != Dir::Trim);
        moves.map(|dir| self.access.block_sizes[dir].max()).max().unwrap_or(1)
    }

    /// Buffers, ring and tables of the job's worker, and `lockmem`, in bytes.
    fn worker_bytes(&self) -> u64 {
        let buffers = self.buffers.slab_bytes(self.depth, self.buffer_bytes()).unwrap_or(u64::MAX);
        let slots = u64::from(self.depth) * SLOT_BYTES;
        let more = self.block_map_bytes().saturating_add(self.placement.locked_bytes);
        let more =
            more.saturating_add(self.remembered_bytes()).saturating_add(self.written_bytes());
        let events = self.replay.as_ref().map_or(0, |replay| size_of_val(replay.events.as_slice()));
        let more = more.saturating_add(events as u64);
        buffers.saturating_add(slots).saturating_add(more)
    }

    /// The number of the last write of each block, if the job is to verify what it wrote, in bytes. How many a file has that
    /// fills its file system is not known.
    fn written_bytes(&self) -> u64 {
        let is_known = !self.until.full || self.until.bytes.is_some();
        let verifies = is_known && self.verify.as_ref().is_some_and(|v| v.remembers());
        let blocks = |region: &Region| region.len.div_ceil(self.place_unit());
        let all: u64 = self.offset_regions().iter().map(blocks).sum();
        if verifies && self.access.mix.has(Dir::Write) { all.saturating_mul(8) } else { 0 }
    }

    /// Blocks that are remembered to be written again (`sprandom`), in bytes.
    fn remembered_bytes(&self) -> u64 {
        let Order::Random { distribution: Distribution::SteadyState(plan), .. } =
            &self.access.order
        else {
            return 0;
        };
        let blocks = |region: &Region| plan.remembered_max(region.len, self.access.align.write);
        let all = self.offset_regions().iter().map(blocks).fold(0, u64::saturating_add);
        all.saturating_mul(size_of::<u64>() as u64)
    }

    /// Maps of the blocks that were accessed, if it has any, in bytes.
    fn block_map_bytes(&self) -> u64 {
        if !self.maps_blocks() {
            return 0;
        }
        let blocks = |region: &Region| region.len / self.block_min();
        let words = |blocks| block_map_levels(blocks).sum::<u64>();
        let bytes = |region| words(blocks(region)).saturating_mul(size_of::<u64>() as u64);
        self.offset_regions().iter().map(bytes).fold(0, u64::saturating_add)
    }
}

/// The 64-bit words of each level of a map of `blocks`, lowest first: each bit of a level stands for a word of the one
/// below. The last level has one word.
pub fn block_map_levels(blocks: u64) -> impl Iterator<Item = u64> {
    let words = |bits: u64| bits.div_ceil(64).max(1);
    std::iter::successors(Some(words(blocks)), move |below| (*below > 1).then(|| words(*below)))
}

impl Buffers {
    /// Bytes mapped for `slots` buffers of at least `bytes` each; `None` on overflow.
    pub fn slab_bytes(&self, slots: u32, bytes: u64) -> Option<u64> {
        let unit = if self.memory == Memory::Huge { HUGE_PAGE_BYTES } else { BUFFER_ALIGN };
        let slot_bytes = bytes.max(1).checked_next_multiple_of(BUFFER_ALIGN)?;
        slot_bytes.checked_mul(u64::from(slots))?.checked_next_multiple_of(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::per_dir::Dir;
    use crate::plan::{Engine, Mix, Uring};

    fn job(wave: u32, dir: Dir) -> JobPlan {
        let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
        let mut job = JobPlan::new("j", Engine::IoUring(Uring::default()), Mix::Only(dir), order);
        (job.depth, job.wave) = (64, wave);
        job
    }

    fn need(jobs: &[JobPlan], cpus: u32) -> MemoryNeed {
        Plan { jobs: jobs.to_vec(), ..Plan::default() }.memory_need(cpus)
    }

    #[test]
    fn only_jobs_of_the_same_wave_add_up() {
        let worker = 64 * (4096 + SLOT_BYTES);
        let one = need(&[job(0, Dir::Read)], 8);
        assert_eq!(one.resident_bytes, worker);
        let in_turn = need(&[job(0, Dir::Read), job(1, Dir::Read)], 8);
        assert_eq!(in_turn.resident_bytes, worker);
        let at_once = need(&[job(0, Dir::Read), job(0, Dir::Read)], 8);
        assert_eq!(at_once.resident_bytes, 2 * worker);
        let more = at_once.address_space_bytes - in_turn.address_space_bytes;
        assert_eq!(more, worker + STACK_BYTES + THREAD_BYTES);
    }

    #[test]
    fn the_c_library_reserves_arenas_by_cpu() {
        let jobs: Vec<JobPlan> = (0..20).map(|_| job(0, Dir::Read)).collect();
        let more = need(&jobs, 2).address_space_bytes - need(&jobs, 1).address_space_bytes;
        assert_eq!(more, 8 * ARENA_BYTES);
    }

    #[test]
    fn trims_need_no_data_buffers() {
        let mut trim = job(0, Dir::Trim);
        trim.access.block_sizes.trim = crate::plan::BlockSizes::Fixed(1 << 30);
        assert_eq!(need(&[trim], 1).resident_bytes, 64 * (4096 + SLOT_BYTES));
    }

    #[test]
    fn jobs_that_map_their_blocks_need_a_bit_for_each() {
        let mut mapped = job(0, Dir::Read);
        mapped.access.block_sizes.read = crate::plan::BlockSizes::Range { min: 4096, max: 8192 };
        mapped.access.align.read = 4096;
        mapped.regions = vec![Region { target: 0, start: 0, len: 4096 * 64 * 64 * 64 }];
        let without = 64 * (8192 + SLOT_BYTES);
        let words = 64 * 64 + 64 + 1;
        assert_eq!(need(&[mapped.clone()], 1).resident_bytes, without + words * 8);
        mapped.access.order = Order::Sequential { skip: 0 };
        assert_eq!(need(&[mapped], 1).resident_bytes, without);
    }

    #[test]
    fn buffers_fill_whole_pages() {
        let buffers = |memory| Buffers { memory, ..Buffers::default() };
        assert_eq!(buffers(Memory::Normal).slab_bytes(3, 5000), Some(3 * 8192));
        assert_eq!(buffers(Memory::Huge).slab_bytes(3, 5000), Some(2 << 20));
        assert_eq!(buffers(Memory::Normal).slab_bytes(2, u64::MAX), None);
    }
}
