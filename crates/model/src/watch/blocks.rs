//! The block layer's events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Events of the block layer since the sampler was opened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlocksSample {
    /// Unplugs by how many requests they let go: (requests at least, unplugs), ascending. The
    /// kernel does not say of which device.
    pub unplugs: Vec<(u32, u64)>,
    /// By device.
    pub devices: Vec<DeviceBlocks>,
    /// By task, where the event has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskBlocks>,
}

/// Events of one device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceBlocks {
    /// Kernel name.
    pub name: String,
    /// Requests handed to the driver; one that was put back is counted again.
    pub issued: u64,
    /// Requests completed.
    pub completed: u64,
    /// Requests that the driver put back.
    pub requeued: u64,
    /// I/Os merged into others.
    pub merged: u64,
    /// I/Os split.
    pub split: u64,
    /// Requests completed with an error.
    pub errors: u64,
    /// Requests at the driver by direction and size: (direction, bytes at least, requests).
    pub sizes: Vec<(String, u64, u64)>,
    /// From entering the queue to the driver, of sampled requests.
    pub queue: crate::Histogram,
    /// From the driver to completion, of sampled requests.
    pub driver: crate::Histogram,
}

/// Events of one task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskBlocks {
    /// The task's name.
    pub comm: String,
    /// Unplugs by how many requests they let go: (requests at least, unplugs), ascending.
    pub unplugs: Vec<(u32, u64)>,
}
