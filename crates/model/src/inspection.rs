//! What `fathom doctor` reads from a machine and its disks. Texts are the kernel's; the analysis interprets them.

use crate::facts::DeviceFacts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Data read from a machine and its disks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Inspection {
    /// Files of the machine, by path, such as `/proc/sys/kernel/kptr_restrict`. A path with `*` stands for several
    /// files; its texts are the distinct ones, separated by commas.
    pub host: Readings,
    /// Names of running programs that move interrupts or change settings.
    #[serde(default)]
    pub daemons: Vec<String>,
    /// The disks.
    pub disks: Vec<DiskInspection>,
}

/// Texts of files, and why others could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Readings {
    /// By path.
    pub texts: BTreeMap<String, String>,
    /// Reasons, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
}

impl Readings {
    /// The text of a file.
    pub fn text(&self, path: &str) -> Result<&str, String> {
        let reason = || match self.missing.get(path) {
            Some(reason) => format!("{path}: {reason}"),
            None => format!("{path} does not exist"),
        };
        self.texts.get(path).map(String::as_str).ok_or_else(reason)
    }

    /// The number in a file.
    pub fn number(&self, path: &str) -> Result<u64, String> {
        let text = self.text(path)?;
        text.parse().map_err(|_| format!("{path}: `{text}` is not a number"))
    }

    /// Replaces a text.
    pub fn set(&mut self, path: &str, text: &str) {
        self.texts.insert(path.to_string(), text.to_string());
    }
}

/// Data read from a disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiskInspection {
    /// The disk.
    pub device: DeviceFacts,
    /// Files by path below its directory in sysfs, such as `queue/nomerges`; below that of the PCI device that it is
    /// attached to, such as `pci/numa_node`; and below that of its NVMe controller, such as `nvme/state`.
    pub files: Readings,
    /// Its partitions.
    #[serde(default)]
    pub partitions: Vec<Partition>,
    /// File systems on it, or on a part of it.
    #[serde(default)]
    pub mounts: Vec<MountedFileSystem>,
    /// Its interrupts.
    #[serde(default)]
    pub interrupts: Vec<Interrupt>,
    /// What its NVMe controller reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvme: Option<NvmeReport>,
    /// Why an NVMe controller could not be queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvme_missing: Option<String>,
}

/// A partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Partition {
    /// Kernel name.
    pub name: String,
    /// First byte.
    pub start_bytes: u64,
}

/// A mounted file system.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MountedFileSystem {
    /// Mount point.
    pub point: String,
    /// Type, such as `ext4`.
    pub file_system: String,
    /// Options of the mount and of the file system, separated by commas.
    pub options: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Free bytes for unprivileged users.
    pub free_bytes: u64,
}

/// An interrupt of a disk's controller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// The CPUs that handle it, as in /proc/irq/N/effective_affinity_list.
    pub cpus: String,
    /// Interrupts handled since boot: (CPU, count), for CPUs with any.
    pub counts: Vec<(u32, u64)>,
}

/// What an NVMe controller reports about itself and a namespace (NVM Express Base Specification).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NvmeReport {
    /// Kernel name of the controller, such as `nvme0`.
    pub controller: String,
    /// Model number.
    pub model: String,
    /// Serial number.
    pub serial: String,
    /// Firmware revision.
    pub firmware: String,
    /// Version of the specification, such as 1.4.0.
    pub version: String,
    /// The maximum transfer size in bytes, with pages of 4 KiB; `None` is unlimited.
    pub transfer_max_bytes: Option<u64>,
    /// Whether there is a volatile write cache.
    pub has_volatile_cache: bool,
    /// Whether that cache is enabled.
    pub volatile_cache_enabled: Option<bool>,
    /// Warning threshold of the composite temperature, in °C.
    pub warning_celsius: Option<i32>,
    /// Critical threshold of the composite temperature, in °C.
    pub critical_celsius: Option<i32>,
    /// Power states, highest power first.
    pub power_states: Vec<PowerState>,
    /// The current power state.
    pub power_state: Option<u32>,
    /// Whether the drive changes its power state autonomously (APST).
    pub autonomous_power: Option<bool>,
    /// The health log.
    pub smart: Option<NvmeSmart>,
    /// The firmware slots.
    pub firmware_slots: Option<FirmwareSlots>,
    /// The namespace.
    pub namespace: Option<NvmeNamespace>,
}

/// An NVMe power state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PowerState {
    /// Maximum power in milliwatts.
    pub milliwatts: u32,
    /// Whether it is operational: I/O is possible.
    pub is_operational: bool,
    /// Entry latency in µs.
    pub entry_us: u32,
    /// Exit latency in µs.
    pub exit_us: u32,
}

/// The SMART / health information log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NvmeSmart {
    /// Bits: spare low, temperature, reliability, read-only, volatile backup failed, persistent memory.
    pub critical_warning: u8,
    /// Composite temperature in °C.
    pub celsius: i32,
    /// Spare capacity left in percent.
    pub spare_percent: u8,
    /// Threshold of the spare capacity, in percent.
    pub spare_threshold_percent: u8,
    /// Estimate of the endurance used, in percent; may exceed 100.
    pub used_percent: u8,
    /// Bytes read by hosts.
    pub read_bytes: u64,
    /// Bytes written by hosts.
    pub written_bytes: u64,
    /// Hours powered on.
    pub power_on_hours: u64,
    /// Unsafe shutdowns.
    pub unsafe_shutdowns: u64,
    /// Unrecovered media and integrity errors.
    pub media_errors: u64,
    /// Entries of the error log, over the drive's life.
    pub error_log_entries: u64,
    /// Minutes at or above the warning temperature.
    pub warning_minutes: u32,
    /// Minutes at or above the critical temperature.
    pub critical_minutes: u32,
    /// Number of times the drive throttled itself, lightly and heavily (thermal management 1 and 2).
    pub throttle_counts: (u32, u32),
    /// Seconds in these states.
    pub throttle_seconds: (u32, u32),
}

impl NvmeSmart {
    /// Seconds in both of these states.
    pub fn throttled_seconds(&self) -> u64 {
        u64::from(self.throttle_seconds.0) + u64::from(self.throttle_seconds.1)
    }
}

/// The firmware slots of an NVMe controller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FirmwareSlots {
    /// The slot in use, from 1.
    pub active: u8,
    /// The slot activated by the next reset, if different.
    pub next: Option<u8>,
    /// Revisions by slot; empty for empty slots.
    pub revisions: Vec<String>,
}

/// An NVMe namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NvmeNamespace {
    /// Size in blocks.
    pub size_blocks: u64,
    /// Allocated blocks: written and not deallocated, if the drive keeps count.
    pub used_blocks: u64,
    /// The format in use, as an index into `formats`.
    pub format: u8,
    /// Supported formats.
    pub formats: Vec<LbaFormat>,
    /// Whether each block carries end-to-end protection.
    pub is_protected: bool,
    /// Whether it is write-protected.
    pub is_write_protected: bool,
    /// Distance in blocks between boundaries that I/O should not cross; 0 is none.
    pub optimal_boundary_blocks: u16,
}

/// A format of an NVMe namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LbaFormat {
    /// Data bytes of a block.
    pub block_bytes: u32,
    /// Metadata bytes of a block.
    pub metadata_bytes: u16,
    /// Relative performance: 0 is best, 3 worst.
    pub relative_performance: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_say_why_they_are_missing() {
        let mut files = Readings::default();
        files.set("queue/nomerges", "2");
        files.missing.insert("queue/wbt_lat_usec".into(), "not supported".into());
        assert_eq!(files.number("queue/nomerges"), Ok(2));
        assert_eq!(
            files.text("queue/wbt_lat_usec"),
            Err("queue/wbt_lat_usec: not supported".into())
        );
        assert_eq!(files.text("x"), Err("x does not exist".into()));
        files.set("a", "b");
        assert_eq!(files.number("a"), Err("a: `b` is not a number".into()));
    }
}
