//! Instructions, cycles and cache misses from the processor's counters, through perf_event_open(2).
//!
//! Counting is not free everywhere: on some virtual machines it makes I/O several times slower.
//! [`Counters`] of a thread are for a window of their own, never one whose speed is reported;
//! [`CounterSampler`] finds out by a trial what counting costs.

mod events;
mod sampler;
mod trial;

pub use sampler::CounterSampler;

use crate::perf::Of;
use events::{Hardware, Kinds, Whose};
use fathom_model::watch::{Counted, Missing};
use std::io;

/// Counters of one thread. Dropping them closes them.
#[derive(Debug)]
pub struct Counters {
    hardware: Hardware,
    lacks: Vec<Missing>,
}

impl Counters {
    /// Counters of the thread `tid` of any process, or of the calling thread for 0; not enabled
    /// yet. Counts in user mode only where counting in the kernel is not permitted.
    ///
    /// # Errors
    /// Why nothing can be counted, and what would allow it.
    pub fn open(tid: i32) -> Result<Self, Missing> {
        Self::open_with(Whose { of: Of::Thread(tid), inherit: false })
    }

    /// Counters of the calling thread together with all threads and processes that it starts
    /// from now on; otherwise as [`Counters::open`]. What a process counted is added when it
    /// has ended.
    ///
    /// # Errors
    /// As [`Counters::open`].
    pub fn open_with_children() -> Result<Self, Missing> {
        Self::open_with(Whose { of: Of::Thread(0), inherit: true })
    }

    fn open_with(whose: Whose) -> Result<Self, Missing> {
        let (hardware, lacks) = Hardware::open(whose, &Kinds::HARDWARE)?;
        Ok(Self { hardware, lacks })
    }

    /// What of it cannot be counted here, and what would allow it.
    #[must_use]
    pub fn lacks(&self) -> &[Missing] {
        &self.lacks
    }

    /// Starts counting, or goes on.
    ///
    /// # Errors
    /// Where the kernel refuses, as when the counters are pinned elsewhere.
    pub fn enable(&self) -> Result<(), Missing> {
        self.hardware.enable().map_err(failed("enabled"))
    }

    /// Stops counting; the values stay.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn disable(&self) -> Result<(), Missing> {
        self.hardware.disable().map_err(failed("disabled"))
    }

    /// What was counted so far. For a window, read once after [`Counters::disable`].
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn read(&self) -> Result<Counted, Missing> {
        let mut counted = Counted::default();
        self.hardware.read(&mut counted).map_err(failed("read"))?;
        Ok(counted)
    }
}

fn failed(action: &'static str) -> impl Fn(io::Error) -> Missing {
    move |error| {
        let what = "instructions and cycles";
        let why = format!("the processor's counters cannot be {action}: {error}");
        Missing { what: what.into(), why, allow: String::new() }
    }
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
