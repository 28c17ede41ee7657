//! Sampling overhead on a machine.

use serde::{Deserialize, Serialize};

/// Costs that differ between machines, measured once per boot; absent where not measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineProbes {
    /// The boot in which they were measured (/proc/sys/kernel/random/boot_id).
    pub boot_id: String,
    /// Hardware counters of CPUs.
    pub cpu_counting: Option<CountingCost>,
    /// Hardware counters of processes.
    pub process_counting: Option<CountingCost>,
    /// CPU time of a sample taken by a timer interrupt, in nanoseconds.
    pub timer_interrupt_ns: Option<f64>,
}

/// Overhead of counting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CountingCost {
    /// CPU time of a context switch, including the surrounding system calls, in nanoseconds,
    /// without counting.
    pub without_ns: f64,
    /// CPU time that counting adds to it, in nanoseconds; noise can make it negative.
    pub added_ns: f64,
}

impl std::fmt::Display for CountingCost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (added, without) = (self.added_ns / 1e3, self.without_ns / 1e3);
        write!(f, "counting adds {added:.1} µs to a context switch of {without:.1} µs")
    }
}
