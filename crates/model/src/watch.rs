//! What samplers saw of the machine: raw counters, which only grow, so that two samples give rates.

mod blocks;
mod disks;
mod level;
mod missing;
mod placement;
mod rings;
mod stacks;
mod system;
mod threads;

pub use blocks::{BlockOp, BlocksSample, DeviceBlocks, SizeSamples, SplitSamples, TaskBlocks};
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
    /// Processor time that looking itself took, by sampler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost: Vec<SamplerCost>,
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
    /// What could not be seen, and what would allow it.
    pub missing: Vec<Missing>,
    /// Block devices with the processors and interrupts that serve them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wiring: Vec<DeviceWiring>,
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
