//! One slab of memory for all buffers of a worker.

use crate::queue::Request;
use crate::source::below;
use fathom_model::plan::{BUFFER_ALIGN, Buffers, Dedupe, Fill, HUGE_PAGE_BYTES, Memory};
use fathom_model::write_pattern::{self, SECTOR_BYTES};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::io;

const ALIGN: usize = BUFFER_ALIGN as usize;
const HUGE_PAGE: usize = HUGE_PAGE_BYTES as usize;
/// Bytes prepared between two checks for a stop.
pub(crate) const STEP: usize = 64 << 20;

/// The buffers of a worker: `slots` of equal size, contiguous.
pub(crate) struct Slab {
    memory: *mut u8,
    mapped: usize,
    slot_bytes: usize,
    slots: u32,
    huge: bool,
}

// SAFETY: the slab owns its mapping and hands out plain addresses only.
unsafe impl Send for Slab {}

/// Where requests of slots have their data, without a borrow of the slab.
#[derive(Clone, Copy)]
pub(crate) struct SlotAddresses {
    base: u64,
    slot_bytes: u64,
}

impl SlotAddresses {
    #[inline]
    pub fn address(self, slot: u32, request: &Request) -> u64 {
        self.base + u64::from(slot) * self.slot_bytes + u64::from(request.buffer_offset)
    }
}

impl Slab {
    pub fn new(slots: u32, bytes: u64, plan: &Buffers) -> io::Result<Self> {
        let huge = plan.memory == Memory::Huge;
        let mapped = plan.slab_bytes(slots, bytes).and_then(|bytes| usize::try_from(bytes).ok());
        let mapped = mapped.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let slot_bytes = (bytes as usize).max(1).next_multiple_of(ALIGN);
        let flags =
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | if huge { libc::MAP_HUGETLB } else { 0 };
        // SAFETY: a new anonymous mapping at an address chosen by the kernel.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if !huge && mapped >= HUGE_PAGE {
            // Fewer segments per I/O; only advice, so failure is harmless.
            // SAFETY: the range is the mapping just made.
            unsafe { libc::madvise(memory, mapped, libc::MADV_HUGEPAGE) };
        }
        Ok(Self { memory: memory.cast(), mapped, slot_bytes, slots, huge })
    }

    /// Faults in all pages, which registering them would do in a single uninterruptible call; ends early once
    /// `stopped`.
    pub fn populate(&mut self, mut stopped: impl FnMut() -> bool) {
        // SAFETY: the mapping, which `self` owns and borrows mutably; initialized to zeroes.
        let all = unsafe { std::slice::from_raw_parts_mut(self.memory, self.mapped) };
        for step in all.chunks_mut(STEP) {
            if stopped() {
                return;
            }
            step.iter_mut().step_by(ALIGN).for_each(|byte| *byte = 0);
        }
    }

    #[inline]
    pub fn address(&self, slot: u32) -> u64 {
        debug_assert!(slot < self.slots);
        self.memory as u64 + u64::from(slot) * self.slot_bytes as u64
    }

    pub fn slot_addresses(&self) -> SlotAddresses {
        SlotAddresses { base: self.address(0), slot_bytes: self.slot_bytes as u64 }
    }

    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    pub fn slots(&self) -> u32 {
        self.slots
    }

    pub fn is_huge(&self) -> bool {
        self.huge
    }

    pub fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        // SAFETY: within the mapping, which `self` owns and borrows mutably; initialized to zeroes.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.memory.add(slot as usize * self.slot_bytes),
                self.slot_bytes,
            )
        }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; pages under I/O stay pinned by the kernel.
        unsafe { libc::munmap(self.memory.cast(), self.mapped) };
    }
}

/// Generates the contents of write buffers, in which fathom recognizes its own writes ([`write_pattern`]).
pub(crate) struct Filler {
    plan: Buffers,
    random: Xoshiro256PlusPlus,
    stamp: u64,
    duplicates: Option<Duplicates>,
}

impl Filler {
    pub fn new(plan: &Buffers, seed: u64) -> Self {
        // Offsets derive from the same seed; contents must not repeat those numbers.
        let random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x6275_6666_6572_7321);
        let duplicates = plan.dedupe.as_ref().map(|dedupe| Duplicates::new(dedupe, seed));
        Self { plan: plan.clone(), random, stamp: 0, duplicates }
    }

    /// Whether each write needs [`Filler::fill`].
    pub fn refills(&self) -> bool {
        self.plan.refill && self.random_percent() > 0
    }

    /// Whether each write needs [`Filler::stamp`].
    pub fn stamps(&self) -> bool {
        !self.plan.refill && !self.plan.repeat && self.plan.fill == Fill::Random
    }

    fn random_percent(&self) -> usize {
        let compress = self.plan.compress_percent.min(100) as usize;
        match &self.plan.fill {
            Fill::Random => 100 - compress,
            // As in fio, the zeroes or the pattern are the compressible part.
            Fill::Pattern(_) | Fill::Zero if compress > 0 => 100 - compress,
            Fill::Pattern(_) | Fill::Zero => 0,
        }
    }

    pub fn fill(&mut self, buffer: &mut [u8]) {
        self.fill_unless(buffer, || false);
    }

    /// Fills a buffer; ends early once `stopped`.
    pub fn fill_unless(&mut self, buffer: &mut [u8], mut stopped: impl FnMut() -> bool) {
        let Some(unit) = self.duplicates.as_ref().map(Duplicates::unit_bytes) else {
            return self.fill_part(buffer, &mut stopped);
        };
        for part in buffer.chunks_mut(unit) {
            if let Some(duplicates) = &mut self.duplicates {
                self.random = duplicates.next();
            }
            self.fill_part(part, &mut stopped);
        }
    }

    fn fill_part(&mut self, buffer: &mut [u8], stopped: &mut impl FnMut() -> bool) {
        let percent = self.random_percent();
        let pattern = match &self.plan.fill {
            Fill::Pattern(pattern) if !pattern.is_empty() => pattern.as_slice(),
            _ => &[0],
        };
        let mut bytes = pattern.iter().cycle();
        let chunk =
            if self.plan.compress_chunk > 0 { self.plan.compress_chunk as usize } else { ALIGN };
        // Spread the compressible parts evenly over the pages.
        for step in buffer.chunks_mut(STEP) {
            if stopped() {
                return;
            }
            for page in step.chunks_mut(chunk) {
                let (random, rest) = page.split_at_mut(page.len() * percent / 100);
                for sector in random.chunks_mut(SECTOR_BYTES) {
                    write_pattern::fill(sector, self.random.next_u64());
                }
                match pattern {
                    [byte] => rest.fill(*byte),
                    _ => rest.iter_mut().zip(&mut bytes).for_each(|(to, from)| *to = *from),
                }
            }
        }
    }

    /// Cheaply makes each page differ from all earlier writes, so that deduplication has no effect (fio's
    /// `scramble_buffers`).
    pub fn stamp(&mut self, buffer: &mut [u8], offset: u64) {
        if self.plan.compress_percent >= 100 {
            return;
        }
        for page in buffer.chunks_exact_mut(ALIGN) {
            self.stamp += 1;
            write_pattern::stamp(page, offset, self.stamp);
        }
    }
}

/// What the contents of the working set of all jobs derive from.
const GLOBAL_SEED: u64 = 0x6465_6475_7065_6721;

pub(crate) struct Duplicates {
    plan: Dedupe,
    random: Xoshiro256PlusPlus,
    set_seed: u64,
    previous: u64,
}

impl Duplicates {
    pub fn new(plan: &Dedupe, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x0064_6564_7570_6521);
        let set_seed = if plan.global { GLOBAL_SEED } else { random.next_u64() };
        let previous = random.next_u64();
        Self { plan: plan.clone(), random, set_seed, previous }
    }

    pub fn unit_bytes(&self) -> usize {
        self.plan.unit_bytes.max(1) as usize
    }

    pub fn next(&mut self) -> Xoshiro256PlusPlus {
        let is_duplicate = below(&mut self.random, 100) < u64::from(self.plan.percent);
        let seed = match (is_duplicate, self.plan.working_set) {
            (true, Some(count)) => {
                self.set_seed.wrapping_add(below(&mut self.random, count.max(1)))
            }
            (true, None) => self.previous,
            (false, _) => {
                self.previous = self.random.next_u64();
                self.previous
            }
        };
        Xoshiro256PlusPlus::seed_from_u64(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::Dedupe;
    use std::collections::HashMap;

    #[test]
    fn slots_are_apart_and_aligned() {
        let mut slab = Slab::new(3, 5000, &Buffers::default()).unwrap();
        assert_eq!(slab.slot_bytes(), 8192);
        slab.slot_mut(0).fill(1);
        slab.slot_mut(2).fill(3);
        assert!(slab.slot_mut(1).iter().all(|b| *b == 0));
        assert_eq!(slab.address(1) % 4096, 0);
    }

    #[test]
    fn compressible_buffers_have_that_share_of_zeroes() {
        let plan = Buffers { compress_percent: 75, ..Buffers::default() };
        let mut buffer = vec![1u8; 64 << 10];
        Filler::new(&plan, 1).fill(&mut buffer);
        let zeroes = buffer.iter().filter(|b| **b == 0).count() as f64 / buffer.len() as f64;
        assert!((0.745..0.765).contains(&zeroes), "{zeroes}");
    }

    #[test]
    fn duplicates_are_whole_units_and_compressible_in_chunks() {
        let dedupe = Dedupe { percent: 100, unit_bytes: 512, working_set: None, global: false };
        let plan = Buffers {
            refill: true,
            dedupe: Some(dedupe),
            compress_percent: 50,
            ..Buffers::default()
        };
        let plan = Buffers { compress_chunk: 128, ..plan };
        let mut buffer = vec![1u8; 4096];
        Filler::new(&plan, 1).fill(&mut buffer);
        assert!(buffer.chunks(512).all(|unit| *unit == buffer[..512]));
        for chunk in buffer.chunks(128) {
            assert!(chunk[64..].iter().all(|b| *b == 0) && chunk[..64].iter().any(|b| *b != 0));
        }
    }

    #[test]
    fn filling_ends_within_a_step_of_the_stop() {
        let plan = Buffers { fill: Fill::Pattern(vec![7, 8, 9]), ..Buffers::default() };
        let mut buffer = vec![0u8; 2 * STEP + ALIGN];
        let mut steps = 0;
        Filler::new(&plan, 1).fill_unless(&mut buffer, || {
            steps += 1;
            steps > 1
        });
        let filled = buffer.iter().filter(|byte| **byte != 0).count();
        assert_eq!((steps, filled), (2, STEP));
        Filler::new(&plan, 1).fill(&mut buffer);
        let is_whole = |(at, byte): (usize, &u8)| *byte == [7, 8, 9][at % 3];
        assert!(buffer.iter().enumerate().all(is_whole), "steps do not show in the pattern");
    }

    #[test]
    fn populating_ends_within_a_step_of_the_stop() {
        let mut slab = Slab::new(3, STEP as u64, &Buffers::default()).unwrap();
        let resident = |slab: &Slab| {
            let mut pages = vec![0u8; slab.mapped / ALIGN];
            // SAFETY: a byte for each page of the mapping.
            let known =
                unsafe { libc::mincore(slab.memory.cast(), slab.mapped, pages.as_mut_ptr()) };
            assert_eq!(known, 0);
            pages.iter().filter(|page| **page & 1 != 0).count() * ALIGN
        };
        assert_eq!(resident(&slab), 0);
        let mut steps = 0;
        slab.populate(|| {
            steps += 1;
            steps > 1
        });
        let first = resident(&slab);
        assert!((STEP..=STEP + HUGE_PAGE).contains(&first), "{first}");
        slab.populate(|| false);
        assert_eq!(resident(&slab), 3 * STEP);
    }

    #[test]
    fn a_pattern_repeats() {
        let plan = Buffers { fill: Fill::Pattern(vec![1, 2, 3]), ..Buffers::default() };
        let mut buffer = [0u8; 7];
        Filler::new(&plan, 1).fill(&mut buffer);
        assert_eq!(buffer, [1, 2, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn a_pattern_is_what_compresses() {
        let fill = Fill::Pattern(vec![0x11, 0x22]);
        let plan = Buffers { fill, compress_percent: 50, refill: true, ..Buffers::default() };
        let mut filler = Filler::new(&plan, 1);
        let mut buffers = [[0u8; 2 * ALIGN]; 2];
        buffers.iter_mut().for_each(|buffer| filler.fill(buffer));
        assert!(filler.refills() && buffers[0][..ALIGN] != buffers[1][..ALIGN]);
        for half in buffers.iter().flat_map(|buffer| buffer.chunks(ALIGN / 2)).skip(1).step_by(2) {
            assert!(half.chunks(2).all(|pair| pair == [0x11, 0x22]));
        }
        let zero = Buffers { fill: Fill::Zero, ..plan };
        Filler::new(&zero, 1).fill(&mut buffers[0]);
        assert!(
            buffers[0][..ALIGN / 2] != [0; ALIGN / 2]
                && buffers[0][ALIGN / 2..ALIGN] == [0; ALIGN / 2]
        );
    }

    #[test]
    fn contents_repeat_only_if_asked() {
        let stamps = |repeat| Filler::new(&Buffers { repeat, ..Buffers::default() }, 1).stamps();
        assert!(stamps(false) && !stamps(true));
    }

    /// How often each of 4000 buffers' contents occurs.
    fn contents(plan: &Dedupe, seed: u64) -> HashMap<u64, u32> {
        let mut duplicates = Duplicates::new(plan, seed);
        let mut counts = HashMap::new();
        (0..4000).for_each(|_| *counts.entry(duplicates.next().next_u64()).or_default() += 1);
        counts
    }

    #[test]
    fn a_percentage_repeats_the_last_unique_buffer_or_one_of_a_set() {
        let dedupe =
            |percent, working_set| Dedupe { percent, unit_bytes: 4096, working_set, global: false };
        assert_eq!(contents(&dedupe(0, None), 1).len(), 4000);
        assert_eq!(contents(&dedupe(100, None), 1).len(), 1);
        let unique = contents(&dedupe(30, None), 1).len();
        assert!(unique.abs_diff(2800) < 120, "{unique}");
        let counts = contents(&dedupe(50, Some(10)), 1);
        assert!(counts.len().abs_diff(2010) < 120, "{}", counts.len());
        assert_eq!(counts.values().filter(|count| **count > 1).count(), 10);
    }

    #[test]
    fn jobs_share_a_global_working_set_only() {
        let shared = |global| {
            let plan = Dedupe { percent: 50, unit_bytes: 512, working_set: Some(10), global };
            let (one, other) = (contents(&plan, 1), contents(&plan, 2));
            one.keys().filter(|key| other.contains_key(key)).count()
        };
        assert_eq!((shared(true), shared(false)), (10, 0));
    }
}
