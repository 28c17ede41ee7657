//! Instructions, cycles and cache misses from the CPU's performance counters (perf_event_open(2)).
//!
//! Counting is not free everywhere: on some virtual machines it makes I/O several times slower.
//! [`Counters`] of a thread therefore run in a window of their own, never one whose throughput is
//! reported; [`CounterSampler`] measures the overhead first.

mod events;
mod overhead;
mod sampler;

pub use sampler::CounterSampler;

use crate::perf::EventTarget;
use events::{EventPairs, EventScope, HardwareEvents};
use fathom_model::watch::{Counted, Unavailable};
use std::io;

/// Counters of one thread. Dropping them closes them.
#[derive(Debug)]
pub struct Counters {
    hardware: HardwareEvents,
    lacks: Vec<Unavailable>,
}

impl Counters {
    /// Counters of thread `tid` of any process, or of the calling thread for 0; initially disabled.
    /// Counts user mode only if counting the kernel is not permitted.
    pub fn open(tid: i32) -> Result<Self, Unavailable> {
        Self::open_with(EventScope { of: EventTarget::Thread(tid), inherit: false })
    }

    /// Counters of the calling thread and of all threads and processes that it creates from now on;
    /// otherwise like [`Counters::open`]. A child's counts are added when it exits.
    pub fn open_with_children() -> Result<Self, Unavailable> {
        Self::open_with(EventScope { of: EventTarget::Thread(0), inherit: true })
    }

    fn open_with(whose: EventScope) -> Result<Self, Unavailable> {
        let (hardware, lacks) = HardwareEvents::open(whose, &EventPairs::HARDWARE)?;
        Ok(Self { hardware, lacks })
    }

    pub fn lacks(&self) -> &[Unavailable] {
        &self.lacks
    }

    pub fn enable(&self) -> Result<(), Unavailable> {
        self.hardware.enable().map_err(failed("enabled"))
    }

    pub fn disable(&self) -> Result<(), Unavailable> {
        self.hardware.disable().map_err(failed("disabled"))
    }

    /// The values so far. For a window, read once, after [`Counters::disable`].
    pub fn read(&self) -> Result<Counted, Unavailable> {
        let mut counted = Counted::default();
        self.hardware.read(&mut counted).map_err(failed("read"))?;
        Ok(counted)
    }
}

fn failed(action: &'static str) -> impl Fn(io::Error) -> Unavailable {
    move |error| {
        let what = "instructions and cycles";
        let why = format!("the CPU's counters cannot be {action}: {error}");
        Unavailable { source: what.into(), reason: why, remedy: String::new() }
    }
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
