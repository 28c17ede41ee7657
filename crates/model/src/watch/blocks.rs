//! Block layer events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Block layer events since the sampler was opened. Counts are exact, except those called
/// `samples`, which count one event in [`BlocksSample::one_in`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlocksSample {
    /// Unplugs by number of requests flushed: (minimum requests, unplugs), ascending, each bucket
    /// up to the next. Unplug events do not name a device.
    pub unplugs: Vec<(u32, u64)>,
    /// Total length of the sampling windows in which unplugs were counted, in nanoseconds; absent if always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplugs_seen_ns: Option<u64>,
    /// Sampling period in events: one in this many; 0 if sampling was off.
    pub one_in: u32,
    /// Whether per-I/O events were counted; otherwise `queued`, `issued` and `completed` stay 0.
    #[serde(default)]
    pub each_io: bool,
    /// Total length of the sampling windows for per-I/O events, in nanoseconds; absent if these
    /// were always or never enabled. Sizes, latencies and the I/Os of tasks come from the windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_ns: Option<u64>,
    /// Sampled events lost because the ring buffer was full.
    #[serde(default)]
    pub lost: u64,
    /// By device.
    pub devices: Vec<DeviceBlocks>,
    /// By task name, for events that have one: the busiest tasks, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskBlocks>,
}

impl BlocksSample {
    pub(super) fn memory_bytes(&self) -> usize {
        let devices = self.devices.iter().map(DeviceBlocks::memory_bytes);
        let tasks = self
            .tasks
            .iter()
            .map(|task| size_of_val(task) + task.comm.len() + size_of_val(&*task.unplugs));
        size_of_val(&*self.unplugs) + devices.sum::<usize>() + tasks.sum::<usize>()
    }
}

/// Events of one device or partition. For a request-based device, `queued` + `split` - `merged`
/// equals `issued` - `requeued`, except for flushes and driver-internal commands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceBlocks {
    /// Kernel name.
    pub name: String,
    /// Whether it is bio-based, such as zram, dm and md. Then only `queued`, `completed`, `split`
    /// and `errors` are counted, and there is no latency from queueing to issue.
    #[serde(default)]
    pub bio_based: bool,
    /// Whether it has been removed. Its counts are frozen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// Bios queued, before splits and merges.
    #[serde(default)]
    pub queued: u64,
    /// Requests issued to the driver; requeued requests count again.
    pub issued: u64,
    /// Requests completed; bios if bio-based.
    pub completed: u64,
    /// Requests requeued by the driver.
    pub requeued: u64,
    /// Bios merged into requests, and requests merged into others.
    pub merged: u64,
    /// Splits of bios.
    pub split: u64,
    /// Requests completed with an error; bios if bio-based.
    pub errors: u64,
    /// Errors by errno: (errno, errors), as far as the events could be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_codes: Vec<(i32, u64)>,
    /// Sampled requests by operation and size; bios if bio-based.
    pub sizes: Vec<SizeSamples>,
    /// Sampled splits by the limit that caused them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<SplitSamples>,
    /// Latency from queueing to issue, of sampled requests; without flushes, as in `driver`.
    pub queue: crate::Histogram,
    /// Latency from issue to completion, of sampled requests; from queueing if bio-based.
    pub driver: crate::Histogram,
    /// The same by operation, flushes included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ops: Vec<OpTimes>,
}

/// Latency from issue to completion of one operation's sampled requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpTimes {
    /// Operation.
    pub op: BlockOp,
    /// Latency; from queueing if the device is bio-based.
    pub driver: crate::Histogram,
}

impl DeviceBlocks {
    fn memory_bytes(&self) -> usize {
        let splits = self.splits.iter().map(|split| size_of_val(split) + split.limit.len());
        size_of_val(self)
            + self.name.len()
            + size_of_val(&*self.error_codes)
            + size_of_val(&*self.sizes)
            + splits.sum::<usize>()
            + self.queue.memory_bytes()
            + self.driver.memory_bytes()
            + self.ops.iter().map(|of| of.driver.memory_bytes()).sum::<usize>()
    }

    /// Number of sampled requests whose completion was not recorded, if that is at least a quarter
    /// of several. The others are then a biased sample: some kernels do not record completions on
    /// idle CPUs.
    pub fn ends_unseen(&self) -> Option<u64> {
        let (begun, ended) = (self.queue.count(), self.driver.count());
        let few = begun >= 8 && ended.saturating_mul(4) <= begun.saturating_mul(3);
        (few && !self.bio_based).then(|| begun - ended)
    }
}

crate::named! {
    /// Operation of a request.
    #[derive(
        Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
    )]
    #[serde(rename_all = "snake_case")]
    pub enum BlockOp {
        /// Read.
        Read = "read",
        /// Write, zone append or write zeroes.
        Write = "write",
        /// Discard or secure erase.
        Discard = "discard",
        /// Flush without data.
        Flush = "flush",
        /// Anything else.
        #[default]
        Other = "other",
    }
}

/// Sampled requests of one operation and size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SizeSamples {
    /// Operation.
    pub op: BlockOp,
    /// Lower bound of the size in bytes, a power of two; the upper bound is twice that.
    pub bytes_min: u64,
    /// Number of samples.
    pub samples: u64,
}

/// Sampled splits with one cause and size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SplitSamples {
    /// The limit that caused them, by its name in /sys/block/DEVICE/queue; empty if no limit
    /// explains them.
    pub limit: String,
    /// Size of the front part in bytes, as large as the limit allowed.
    pub bytes: u64,
    /// Number of samples.
    pub samples: u64,
}

/// Sampled events of the tasks with one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskBlocks {
    /// The task's name.
    pub comm: String,
    /// Sampled bios that it queued, on the devices covered.
    #[serde(default)]
    pub queued: u64,
    /// Sampled unplugs by number of requests flushed: (minimum requests, unplugs), ascending.
    pub unplugs: Vec<(u32, u64)>,
}
