//! Which processors a device keeps busy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// I/Os handed to the block layer, by the processor on which that happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubmitSample {
    /// Whole device, by kernel name; empty for all devices together.
    pub device: String,
    /// (Processor, I/Os since the sampler was opened), ascending. Those of a part of the time only where
    /// [`MachineSample::blocks`](super::MachineSample::blocks) says that I/Os are not counted each.
    pub by_cpu: Vec<(u32, u64)>,
}

/// How a block device is connected: what does not change while it is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceWiring {
    /// Kernel name of the whole device.
    pub name: String,
    /// Its interrupts, as [`InterruptSample::irq`](super::InterruptSample::irq) names them; of a device
    /// made of others, theirs. Disks behind one controller share its interrupts.
    pub irqs: Vec<String>,
    /// Processors that each hardware queue serves (/sys/block/NAME/mq).
    pub queues: Vec<Vec<u32>>,
}
