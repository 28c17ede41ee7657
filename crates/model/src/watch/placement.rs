//! Submitting CPUs, interrupts and hardware queues of block devices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// I/Os submitted to the block layer, by CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubmitSample {
    /// Whole device, by kernel name; empty for all devices together.
    pub device: String,
    /// (CPU, I/Os since the sampler was opened), ascending. Counted in windows if
    /// [`MachineSample::blocks`](super::MachineSample::blocks) states that not every I/O is counted.
    pub by_cpu: Vec<(u32, u64)>,
}

/// Interrupts and hardware queues of a block device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceWiring {
    /// Kernel name of the whole device.
    pub name: String,
    /// Its interrupts, named as in [`InterruptSample::irq`](super::InterruptSample::irq); for a
    /// stacked device those of its members. Disks of one controller share its interrupts.
    pub irqs: Vec<String>,
    /// CPUs mapped to each hardware queue (/sys/block/NAME/mq).
    pub queues: Vec<Vec<u32>>,
}
