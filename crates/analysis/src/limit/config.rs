//! What a search may use, and what it measures.

use crate::experiment::reads;
use fathom_model::Dir;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a search measures and what it may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Config {
    /// Names of the targets, as reported.
    pub targets: Vec<String>,
    /// Time for everything, in seconds.
    pub seconds: f64,
    /// CPUs that the workers may run on; at least 1.
    pub cores: u32,
    /// Upper bound of the memory of all I/Os in flight, in bytes.
    pub buffers_bytes_max: u64,
    /// The kinds of I/O to search, in order.
    #[serde(default = "BlockSpec::defaults")]
    pub blocks: Vec<BlockSpec>,
    /// What may hold I/Os back above the devices; by target, where known.
    #[serde(default)]
    pub queues: Vec<QueueFacts>,
}

/// What may hold I/Os back above a target's device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueFacts {
    /// Kernel name of the device.
    pub device: String,
    /// queue/nr_requests.
    pub nr_requests: Option<u32>,
    /// Number of hardware queues.
    pub hardware_queues: Option<u32>,
    /// Limits of the cgroup on this device: as in [`fathom_model::watch::CgroupSample::io_limits`].
    pub io_limits: Vec<String>,
}

/// A kind of I/O to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockSpec {
    /// Bytes of each I/O; at least 1.
    pub block_bytes: u64,
    /// Direction.
    #[serde(default = "reads")]
    pub dir: Dir,
    /// Maximum queue depth of a worker. A counter-experiment doubles it.
    pub depth_max: u32,
}

impl BlockSpec {
    /// Small reads for I/Os per second, large ones for bandwidth.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        let reads = |block_bytes, depth_max| Self { block_bytes, dir: Dir::Read, depth_max };
        vec![reads(4096, 1024), reads(1 << 20, 64)]
    }
}

impl Config {
    /// The default time of a search, in seconds: a minute, or 15 s for a quick one; more for many targets.
    #[must_use]
    pub fn default_seconds(targets: usize, quick: bool) -> f64 {
        let (base, free, each) = if quick { (15.0, 1, 8.0) } else { (60.0, 4, 12.0) };
        base + each * targets.saturating_sub(free) as f64
    }
}
