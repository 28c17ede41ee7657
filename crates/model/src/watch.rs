//! What samplers record about the machine: raw, monotonic counters; rates are differences of two
//! samples.

mod blocks;
mod calls;
mod counters;
mod disks;
mod off_cpu;
mod processes;
mod rings;
mod stacks;
mod system;
mod threads;

pub use blocks::{
    BlockOp, BlocksSample, DeviceBlocks, OpTimes, SizeSamples, SplitSamples, TaskBlocks,
};
pub use calls::{CallTimes, CallsSample};
pub use counters::{CacheCounts, CacheEvent, Counted, CountersSample, Executed};
pub use disks::{DiskCounters, DiskKind, IoCounters};
pub use off_cpu::{LockHolder, OffCpuSample, SwitchedThread, WaitSum};
pub use processes::{ProcessFile, ProcessUse, ProcessesSample, RemotePeer};
pub use rings::{RingEvents, RingQueues, RingSample, RingWorkers, RingsSample, SqPollThread};
pub use stacks::{Stack, StackCount, StacksSample};
pub use system::{
    CgroupIo, CgroupSample, CpuSample, InterruptSample, MemorySample, PagingSample, Pressure,
    PressureSample, SystemSample,
};
pub use threads::{
    LOCK_CALLERS, ThreadCount, ThreadState, ThreadTime, ThreadsSample, TimesOfThread,
};

use crate::escape;
use crate::facts::DeviceFacts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine at the end of one interval; parts whose sampler is not running are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineSample {
    /// CPUs, memory, interrupts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemSample>,
    /// Block devices that have done I/O, in the order of /proc/diskstats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskCounters>,
    /// Thread activity in this interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadsSample>,
    /// What processes used; taken less often where there are many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<ProcessesSample>,
    /// CPU profile of this interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks: Option<StacksSample>,
    /// Block layer events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<BlocksSample>,
    /// Reads, writes and flushes by programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallsSample>,
    /// Where the watched threads waited in this interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_cpu: Option<OffCpuSample>,
    /// io_uring instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rings: Option<RingsSample>,
    /// I/Os by submitting CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub submits: Vec<SubmitSample>,
    /// Instructions, cycles and cache misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<CountersSample>,
    /// Sampling overhead, by sampler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost: Vec<SamplerCost>,
    /// Intervals merged into later samples since the start, because sampling or the consumer was
    /// late.
    #[serde(default, alias = "intervals_joined", skip_serializing_if = "is_zero")]
    pub intervals_merged: u64,
}

pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

pub(crate) fn is_no_pid(pid: &i32) -> bool {
    *pid == 0
}

impl MachineSample {
    /// Approximate memory usage in bytes, including the parts whose size depends on the machine.
    pub fn memory_bytes(&self) -> usize {
        let system = self.system.as_ref().map_or(0, SystemSample::memory_bytes);
        let threads = self.threads.as_ref().map_or(0, ThreadsSample::memory_bytes);
        let processes = self.processes.as_ref().map_or(0, ProcessesSample::memory_bytes);
        let stacks = self.stacks.as_ref().map_or(0, StacksSample::memory_bytes);
        let blocks = self.blocks.as_ref().map_or(0, BlocksSample::memory_bytes);
        let calls = self.calls.as_ref().map_or(0, CallsSample::memory_bytes);
        let off_cpu = self.off_cpu.as_ref().map_or(0, OffCpuSample::memory_bytes);
        let rings = self.rings.as_ref().map_or(0, RingsSample::memory_bytes);
        let submits = self.submits.iter().map(|s| size_of_val(s) + size_of_val(&*s.by_cpu));
        let counted = self.counters.as_ref().map_or(0, |counters| size_of_val(&*counters.of));
        size_of::<Self>()
            + size_of_val(&*self.disks)
            + counted
            + system
            + threads
            + processes
            + stacks
            + blocks
            + calls
            + off_cpu
            + rings
            + submits.sum::<usize>()
    }
}

/// How a record was sampled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SamplingRecord {
    /// Time between two samples, in nanoseconds.
    pub interval_ns: u64,
    /// How much was sampled: `default` or `full`.
    #[serde(default)]
    pub level: Level,
    /// Processes sampled, with their descendants; empty for the whole machine.
    #[serde(default)]
    pub pids: Vec<i32>,
    /// The view for which it was sampled, unless that is the one of `fathom watch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<SampledView>,
    /// The command that was run for sampling.
    #[serde(default)]
    pub command: Option<CommandRecord>,
    /// Total sampling overhead, by sampler.
    pub cost: Vec<SamplerCost>,
    /// As in the last sample.
    #[serde(default, alias = "intervals_joined")]
    pub intervals_merged: u64,
    /// Data that was not available, and what would allow it.
    pub missing: Vec<Unavailable>,
    /// Interrupts and hardware queues of block devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wiring: Vec<DeviceWiring>,
    /// Whole block devices, with the settings of their queues when sampling began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceFacts>,
}

/// A view of the samples of one source, with its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SampledView {
    /// `fathom threads`.
    Threads {
        /// Columns by which threads are grouped.
        group_by: Vec<String>,
        /// Requested samples per second.
        hz: u32,
        /// Whether threads in all states were sampled.
        all_states: bool,
        /// Maximum number of groups printed.
        rows: usize,
        /// Time between two tables, in nanoseconds, if there is more than one.
        interval_ns: Option<u64>,
    },
    /// `fathom stacks`.
    Stacks {
        /// Maximum number of functions printed.
        rows: usize,
    },
    /// `fathom blocks`.
    Blocks,
}

/// A command that was run for sampling.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandRecord {
    /// The command and its arguments.
    pub argv: Vec<String>,
    /// Time from its exec to its exit, in nanoseconds.
    pub elapsed_ns: u64,
    /// Its exit status, or 128 plus the number of the signal that killed it; absent if it did not
    /// exit.
    pub status: Option<i32>,
}

/// How much is sampled. `docs/watch.md` describes the overhead.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing.
    Off,
    /// Samplers with negligible overhead.
    #[default]
    Default,
    /// All samplers, in full detail.
    Full,
}

impl Level {
    /// All levels with their names.
    pub const NAMES: [(&str, Self); 3] =
        [("off", Self::Off), ("default", Self::Default), ("full", Self::Full)];
}

/// Data that is not available. As text: `kernel stacks: /proc/1/stack: permission denied; run as
/// root`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unavailable {
    /// The unavailable data.
    #[serde(alias = "what")]
    pub source: String,
    /// What was tried, and the error.
    #[serde(alias = "why")]
    pub reason: String,
    /// What would make it available; empty if nothing would.
    #[serde(alias = "allow")]
    pub remedy: String,
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", escape::text(&self.source), escape::text(&self.reason))?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", escape::text(&self.remedy)) }
    }
}

/// Sampling overhead of one sampler: CPU time of the sampling thread. Excludes the cost of perf
/// events where they occur.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SamplerCost {
    /// Name of the sampler.
    pub sampler: String,
    /// Samples taken since it was opened.
    #[serde(alias = "looks")]
    pub samples: u64,
    /// CPU time since it was opened, in nanoseconds.
    pub cpu_ns: u64,
    /// Samples skipped since it was opened because they would have been too late.
    pub missed: u64,
}

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
    /// What all CPUs together copy in memory, in bytes per second.
    pub memory_copy: Option<f64>,
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

/// I/Os submitted to the block layer, by CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubmitSample {
    /// Whole device, by kernel name; empty for all devices together.
    pub device: String,
    /// (CPU, I/Os since the sampler was opened), ascending. Counted in windows if
    /// [`MachineSample::blocks`] states that not every I/O is counted.
    pub by_cpu: Vec<(u32, u64)>,
}

/// Interrupts and hardware queues of a block device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceWiring {
    /// Kernel name of the whole device.
    pub name: String,
    /// Its interrupts, named as in [`InterruptSample::irq`]; for a
    /// stacked device those of its members. Disks of one controller share its interrupts.
    pub irqs: Vec<String>,
    /// CPUs mapped to each hardware queue (/sys/block/NAME/mq).
    pub queues: Vec<Vec<u32>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_rings_count_towards_memory() {
        let empty = MachineSample::default().memory_bytes();
        let mut device = DeviceBlocks::default();
        device.driver.record_n(1000, 1);
        let blocks = BlocksSample { devices: vec![device; 10], ..BlocksSample::default() };
        let sample = MachineSample { blocks: Some(blocks), ..MachineSample::default() };
        let histogram = sample.blocks.as_ref().map_or(0, |b| b.devices[0].driver.memory_bytes());
        assert!(histogram > 0 && sample.memory_bytes() > empty + 10 * histogram);
        let rings =
            RingsSample { rings: vec![RingSample::default(); 1000], ..RingsSample::default() };
        let sample = MachineSample { rings: Some(rings), ..MachineSample::default() };
        assert!(sample.memory_bytes() >= empty + 1000 * size_of::<RingSample>());
    }
}
