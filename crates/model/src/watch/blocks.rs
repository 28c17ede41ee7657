//! The block layer's events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Events of the block layer since the sampler was opened. Counts are exact unless they say
/// `samples`: of those, one in [`BlocksSample::one_in`] was looked at.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlocksSample {
    /// Unplugs by how many requests they let go: (requests at least, unplugs), ascending, each up to
    /// the next. The kernel does not say of which device.
    pub unplugs: Vec<(u32, u64)>,
    /// One event in so many was sampled; 0 where none was.
    pub one_in: u32,
    /// Whether events that come with each I/O were counted; otherwise `queued`, `issued` and
    /// `completed` stay 0.
    #[serde(default)]
    pub each_io: bool,
    /// Nanoseconds in which events that come with each I/O were sampled; absent where they always or
    /// never were. Sizes, times and what tasks queued are of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_ns: Option<u64>,
    /// Sampled events that came faster than they were read.
    #[serde(default)]
    pub lost: u64,
    /// By device.
    pub devices: Vec<DeviceBlocks>,
    /// By task, where the event has it: the busiest, by name.
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

/// Events of one device or partition. In a device with requests, `queued` + `split` - `merged` is
/// `issued` - `requeued`, but for flushes and commands of the driver's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceBlocks {
    /// Kernel name.
    pub name: String,
    /// Whether it serves I/Os (bios) itself, without requests, as zram, dm and md do. Then only
    /// `queued`, `completed`, `split` and `errors` are counted, and no I/O waits for its driver.
    #[serde(default)]
    pub bio_based: bool,
    /// Whether it is there no more. Its counts stay as they were.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// I/Os (bios) that entered, before they were split or merged.
    #[serde(default)]
    pub queued: u64,
    /// Requests handed to the driver; one that was put back is counted again.
    pub issued: u64,
    /// Requests completed; I/Os where there are no requests.
    pub completed: u64,
    /// Requests that the driver put back.
    pub requeued: u64,
    /// I/Os merged into requests, and requests into others.
    pub merged: u64,
    /// Times that an I/O was split.
    pub split: u64,
    /// Requests completed with an error; I/Os where there are no requests.
    pub errors: u64,
    /// Errors by number, as errno(3) has them: (number, errors), as many as could be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_codes: Vec<(i32, u64)>,
    /// Requests at the driver, sampled, by what they do and their size; I/Os where there are no requests.
    pub sizes: Vec<SizeSamples>,
    /// Splits, sampled, by the limit that made them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<SplitSamples>,
    /// From entering the queue to the driver, of sampled requests.
    pub queue: crate::Histogram,
    /// From the driver to completion, of sampled requests; from entering where there are no requests.
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
    }

    /// How many of the sampled requests that were handed to the driver were not seen to end, where that is a quarter
    /// or more of several. Those that were are no fair sample then: some kernels show no ends on idle processors.
    #[must_use]
    pub fn ends_unseen(&self) -> Option<u64> {
        let (begun, ended) = (self.queue.count(), self.driver.count());
        let few = begun >= 8 && ended.saturating_mul(4) <= begun.saturating_mul(3);
        (few && !self.bio_based).then(|| begun - ended)
    }
}

/// What a request does.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum BlockOp {
    /// Reads.
    Read,
    /// Writes, appends to a zone, writes zeroes.
    Write,
    /// Discards or erases.
    Discard,
    /// Flushes a cache, without data.
    Flush,
    /// Anything else.
    #[default]
    Other,
}

/// Sampled requests of one kind and size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SizeSamples {
    /// What they do.
    pub op: BlockOp,
    /// At least so many bytes, a power of two, and less than twice as many.
    pub bytes_min: u64,
    /// How many were sampled.
    pub samples: u64,
}

/// Sampled splits with one outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SplitSamples {
    /// The limit that made them, by its name in /sys/block/DEVICE/queue; empty where none explains it.
    pub limit: String,
    /// Bytes of the part in front, which is as large as the limit allowed.
    pub bytes: u64,
    /// How many were sampled.
    pub samples: u64,
}

/// Sampled events of tasks with one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskBlocks {
    /// The task's name.
    pub comm: String,
    /// Sampled I/Os that it let enter, on the devices watched.
    #[serde(default)]
    pub queued: u64,
    /// Sampled unplugs by how many requests they let go: (requests at least, unplugs), ascending.
    pub unplugs: Vec<(u32, u64)>,
}
