//! What samplers saw of the machine: raw counters, which only grow, so that two samples give rates.

mod blocks;
mod counters;
mod disks;
mod level;
mod missing;
mod placement;
mod rings;
mod stacks;
mod system;
mod threads;

pub use blocks::{BlockOp, BlocksSample, DeviceBlocks, SizeSamples, SplitSamples, TaskBlocks};
pub use counters::{CacheCounts, CacheEvent, Counted, CountersSample, Executed};
pub use disks::{DiskCounters, DiskKind, IoCounters};
pub use level::Level;
pub use missing::{Missing, SamplerCost};
pub use placement::{DeviceWiring, SubmitSample};
pub use rings::{RingEvents, RingQueues, RingSample, RingWorkers, RingsSample, SqPoll};
pub use stacks::{Stack, StackCount, StacksSample};
pub use system::{
    CgroupSample, CpuSample, InterruptSample, MemorySample, PagingSample, Pressure, PressureSample,
    SystemSample,
};
pub use threads::{ThreadCount, ThreadsSample};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine at the end of one interval; a part is absent where its sampler does not look.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineSample {
    /// Processors, memory, interrupts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemSample>,
    /// Block devices that ever did I/O, in the order of /proc/diskstats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskCounters>,
    /// What threads were doing in this interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadsSample>,
    /// Where processors were in this interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks: Option<StacksSample>,
    /// The block layer's events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<BlocksSample>,
    /// io_uring instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rings: Option<RingsSample>,
    /// Where I/Os are submitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub submits: Vec<SubmitSample>,
    /// Instructions, cycles and cache misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<CountersSample>,
    /// Processor time that looking itself took, by sampler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost: Vec<SamplerCost>,
    /// Intervals since watching began that have no sample of their own, as samples or whoever keeps them
    /// were late: what happened in them is in the sample that follows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub intervals_joined: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl MachineSample {
    /// About how much memory this takes, in bytes: the parts that grow with the machine.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let system = self.system.as_ref().map_or(0, SystemSample::memory_bytes);
        let threads = self.threads.as_ref().map_or(0, ThreadsSample::memory_bytes);
        let stacks = self.stacks.as_ref().map_or(0, StacksSample::memory_bytes);
        let blocks = self.blocks.as_ref().map_or(0, BlocksSample::memory_bytes);
        let rings = self.rings.as_ref().map_or(0, RingsSample::memory_bytes);
        let submits = self.submits.iter().map(|s| size_of_val(s) + size_of_val(&*s.by_cpu));
        let counted = self.counters.as_ref().map_or(0, |counters| size_of_val(&*counters.of));
        size_of::<Self>()
            + size_of_val(&*self.disks)
            + counted
            + system
            + threads
            + stacks
            + blocks
            + rings
            + submits.sum::<usize>()
    }
}

/// How a record was watched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchRecord {
    /// Between two samples, in nanoseconds.
    pub interval_ns: u64,
    /// How much was watched: `default` or `full`.
    #[serde(default)]
    pub level: Level,
    /// Processes that were watched with all that descend from them; none for the whole machine.
    #[serde(default)]
    pub pids: Vec<i32>,
    /// The command that was run to be watched.
    #[serde(default)]
    pub command: Option<CommandRecord>,
    /// Processor time that looking took in all, by sampler.
    pub cost: Vec<SamplerCost>,
    /// As in the last sample.
    #[serde(default)]
    pub intervals_joined: u64,
    /// What could not be seen, and what would allow it.
    pub missing: Vec<Missing>,
    /// Block devices with the processors and interrupts that serve them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wiring: Vec<DeviceWiring>,
    /// How long a turn was to be, in nanoseconds, where watching was to be switched on and off in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_ns: Option<u64>,
    /// Where it was switched on and off in turn, to tell what it costs: the turns, two by two with and without
    /// it. The rest of this record is of the last one that was watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<WatchTurn>,
}

/// What a run did in the part that counts of one of its turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchTurn {
    /// Whether it was watched.
    pub watched: bool,
    /// How long that part lasted, in nanoseconds.
    pub ns: u64,
    /// I/Os that were done meanwhile.
    pub ios: u64,
}

/// A command that was run to be watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandRecord {
    /// The command and its arguments.
    pub argv: Vec<String>,
    /// From its first instruction to its end, in nanoseconds.
    pub elapsed_ns: u64,
    /// Its exit status, or 128 and the number of the signal that ended it; absent where it did not
    /// end.
    pub status: Option<i32>,
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
