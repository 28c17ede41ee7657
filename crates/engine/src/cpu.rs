//! Load on a CPU, without I/O (fio's `cpuio`).

use crate::clock;
use crate::queue::Request;
use crate::stats::Shared;
use crate::sync_queue::SyncEngine;
use fathom_model::plan::CpuLoad;

/// Busy-loops for a while per request; think time between them makes up the rest of the load.
pub(crate) struct Burn<'a> {
    chunk_ns: u64,
    shared: &'a Shared,
}

impl<'a> Burn<'a> {
    pub fn new(load: &CpuLoad, shared: &'a Shared) -> Self {
        Self { chunk_ns: load.chunk_ns, shared }
    }
}

impl SyncEngine for Burn<'_> {
    fn execute(&mut self, _buffer: *mut libc::c_void, _request: &Request) -> i32 {
        let end_ns = clock::now_ns() + self.chunk_ns;
        while clock::now_ns() < end_ns && !self.shared.is_stopping() {
            std::hint::spin_loop();
        }
        0
    }

    fn system_calls(&self) -> u64 {
        0
    }
}
