//! Block devices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A block device's counters since it was made, as a line of /proc/diskstats.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskCounters {
    /// Kernel name, such as `nvme0n1`.
    pub name: String,
    /// What it is.
    pub kind: DiskKind,
    /// Devices right below it, by kernel name: a partition's disk, the members of a stack, the disk
    /// that a loop device's file is on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<String>,
    /// What people call it: a device mapper's name, a loop device's file.
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

/// What a block device is. Totals over a machine add up disks only: all else is made of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiskKind {
    /// A whole device that is made of no other.
    #[default]
    Disk,
    /// A part of a device.
    Partition,
    /// Made of other devices or of a file: device mapper, md, loop, bcache, NVMe multipath head.
    Stacked,
    /// Without a medium: zram, ram, null_blk.
    Memory,
}

/// I/Os in one direction, since the device was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IoCounters {
    /// I/Os completed.
    pub ios: u64,
    /// I/Os merged into others.
    pub merges: u64,
    /// 512-byte sectors.
    pub sectors: u64,
    /// Time of I/Os added up, in milliseconds, modulo 2^32.
    pub ticks_ms: u32,
}
