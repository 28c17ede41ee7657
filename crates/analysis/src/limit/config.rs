//! What a search may use, and what it measures.

use super::rated::LatencyTarget;
use crate::experiment::{Rw, Setting};
use fathom_model::units;
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
    /// Latency that must be kept: the highest load that meets it is searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<LatencyTarget>,
    /// Fixed settings to measure instead of a search, one for each of `blocks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suite: Vec<SuiteTest>,
    /// What may hold I/Os back above the devices; by target, where known.
    #[serde(default)]
    pub queues: Vec<QueueFacts>,
}

/// A row of the suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuiteTest {
    /// As CrystalDiskMark names it, such as `SEQ1M Q8T1`.
    pub name: String,
    /// Workers and queue depth.
    pub setting: Setting,
}

/// What may hold I/Os back above a target's device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueFacts {
    /// Kernel name of the device.
    pub device: String,
    /// Whether it is not visible which device holds the target.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// queue/nr_requests.
    pub nr_requests: Option<u32>,
    /// queue/scheduler: the active one.
    #[serde(default)]
    pub scheduler: Option<String>,
    /// Requests that the driver takes for each hardware queue (mq/0/nr_tags; device/queue_depth if less).
    #[serde(default)]
    pub driver_tags: Option<u32>,
    /// queue/rotational.
    #[serde(default)]
    pub rotational: Option<bool>,
    /// Number of hardware queues.
    pub hardware_queues: Option<u32>,
    /// Limits of the cgroup on this device: as in [`fathom_model::watch::CgroupSample::io_limits`].
    pub io_limits: Vec<String>,
}

/// The queue depth of a worker is at most what these bytes in flight make, within the bounds below.
const IN_FLIGHT_BYTES: u64 = 64 << 20;
const DEPTH_LEAST: u64 = 32;
const DEPTH_MOST: u64 = 1024;

/// A kind of I/O to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockSpec {
    /// Bytes of each I/O; at least 1.
    pub block_bytes: u64,
    /// Kind of access.
    #[serde(default)]
    pub rw: Rw,
    /// Maximum queue depth of a worker. A confirmation test doubles it.
    pub depth_max: u32,
}

impl BlockSpec {
    /// This kind of access with blocks of `block_bytes`, at least 1.
    pub fn new(block_bytes: u64, rw: Rw) -> Self {
        let block_bytes = block_bytes.max(1);
        let depth_max = (IN_FLIGHT_BYTES / block_bytes).clamp(DEPTH_LEAST, DEPTH_MOST);
        Self { block_bytes, rw, depth_max: depth_max as u32 }
    }

    /// Small random reads for I/Os per second, large ones for bandwidth.
    pub fn defaults() -> Vec<Self> {
        vec![Self::new(4096, Rw::Randread), Self::new(1 << 20, Rw::Randread)]
    }

    /// The same, and writes.
    pub fn with_writes() -> Vec<Self> {
        let writes = Self::defaults().into_iter();
        let writes = writes.map(|spec| Self { rw: Rw::Randwrite, ..spec });
        Self::defaults().into_iter().chain(writes).collect()
    }

    /// Whether the search may end at `setting` on a machine with so many CPUs; confirmation tests exceed that.
    pub fn is_in_range(&self, setting: Setting, cores: u32) -> bool {
        setting.depth <= self.depth_max && setting.workers <= cores.max(1)
    }

    /// Such as `4 KiB randread`.
    pub fn name(&self) -> String {
        format!("{} {}", units::bytes(self.block_bytes), self.rw)
    }
}

/// The rows of CrystalDiskMark's default profile: name, block size, whether offsets are random, queue depth.
const SUITE: [(&str, u64, bool, u32); 4] = [
    ("SEQ1M Q8T1", 1 << 20, false, 8),
    ("SEQ1M Q1T1", 1 << 20, false, 1),
    ("RND4K Q32T1", 4096, true, 32),
    ("RND4K Q1T1", 4096, true, 1),
];

impl SuiteTest {
    /// All rows with their kinds of I/O: reads and, if wanted, writes.
    pub fn all(writes: bool) -> (Vec<BlockSpec>, Vec<Self>) {
        let kinds = |random| match random {
            true => [Rw::Randread, Rw::Randwrite],
            false => [Rw::Read, Rw::Write],
        };
        let row = |(name, block_bytes, random, depth): (&str, u64, bool, u32)| {
            let wanted = kinds(random).into_iter().filter(move |rw| writes || !rw.modifies());
            let test = Self { name: name.into(), setting: Setting { workers: 1, depth } };
            wanted.map(move |rw| (BlockSpec::new(block_bytes, rw), test.clone()))
        };
        SUITE.into_iter().flat_map(row).unzip()
    }
}

impl Config {
    /// The default time of a search, in seconds: a minute, or 15 s for a quick one; more for many targets, or for more
    /// than two kinds of I/O.
    pub fn default_seconds(targets: usize, kinds: usize, quick: bool) -> f64 {
        let (base, free, each) = if quick { (15.0, 1, 8.0) } else { (60.0, 4, 12.0) };
        let for_two = base + each * targets.saturating_sub(free) as f64;
        for_two * (1.0 + kinds.saturating_sub(2) as f64 / 3.0)
    }
}
