//! Block devices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A block device's counters since its creation, as in /proc/diskstats.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskCounters {
    /// Kernel name, such as `nvme0n1`.
    pub name: String,
    /// Kind of device.
    pub kind: DiskKind,
    /// Devices directly below it, by kernel name: a partition's disk, the members of a stacked
    /// device, the disk with a loop device's file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<String>,
    /// Device mapper name, or file of a loop device.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub alias: String,
    /// Reads.
    pub read: IoCounters,
    /// Writes.
    pub write: IoCounters,
    /// Discards.
    pub discard: IoCounters,
    /// Flushes: only `ios` and `ticks_ms` are counted.
    pub flush: IoCounters,
    /// I/Os in flight at this instant.
    pub in_flight: u64,
    /// Time with at least one I/O in flight, in milliseconds, modulo 2^32.
    pub busy_ms: u32,
    /// Time weighted by I/Os in flight, in milliseconds, modulo 2^32.
    pub weighted_ms: u32,
}

/// Kind of block device. Machine totals include disks only, since the others are built on them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiskKind {
    /// A whole device that is not built on others.
    #[default]
    Disk,
    /// A partition.
    Partition,
    /// Built on other devices or a file: device mapper, md, loop, bcache, NVMe multipath head.
    Stacked,
    /// Memory-backed: zram, ram, null_blk.
    Memory,
}

/// I/Os in one direction since the device's creation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IoCounters {
    /// I/Os completed.
    pub ios: u64,
    /// I/Os merged into others.
    pub merges: u64,
    /// 512-byte sectors.
    pub sectors: u64,
    /// Total time of I/Os, in milliseconds, modulo 2^32.
    pub ticks_ms: u32,
}
