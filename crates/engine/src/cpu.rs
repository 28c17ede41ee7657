//! Load on a CPU, without I/O (fio's `cpuio`).

use crate::clock;
use crate::queue::Request;
use crate::stats::Shared;
use crate::sync_queue::SyncEngine;
use fathom_model::plan::CpuLoad;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Numbers that are sorted at a time: 256 KiB of them, as in fio.
const NUMBERS: usize = (256 << 10) / size_of::<u32>();

/// Uses the CPU for a while per request; think time between them makes up the rest of the load.
pub(crate) struct Burn<'a> {
    chunk_ns: u64,
    shared: &'a Shared,
    random: Xoshiro256PlusPlus,
    /// To be sorted; empty to loop.
    numbers: Vec<u32>,
}

impl<'a> Burn<'a> {
    pub fn new(load: &CpuLoad, shared: &'a Shared) -> Self {
        let numbers = if load.sorts { vec![0; NUMBERS] } else { Vec::new() };
        let random = Xoshiro256PlusPlus::seed_from_u64(0);
        Self { chunk_ns: load.chunk_ns, shared, random, numbers }
    }
}

impl SyncEngine for Burn<'_> {
    fn execute(&mut self, _buffer: *mut libc::c_void, _request: &Request) -> i32 {
        let end_ns = clock::now_ns() + self.chunk_ns;
        while clock::now_ns() < end_ns && !self.shared.is_stopping() {
            if self.numbers.is_empty() {
                std::hint::spin_loop();
                continue;
            }
            self.numbers.fill_with(|| self.random.next_u32());
            std::hint::black_box(&mut self.numbers).sort_unstable();
        }
        0
    }

    fn system_calls(&self) -> u64 {
        0
    }
}
