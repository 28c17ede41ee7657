//! Facts about the machine on which plans and findings depend.

use crate::inspection::Inspection;
use crate::topology::Topology;
use crate::watch::Unavailable;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// The machine and the targets at the start of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// The machine.
    pub host: Host,
    /// The targets, in the order of the request.
    pub targets: Vec<TargetFacts>,
    /// What `fathom doctor` judges: of the machine, and of the disks that hold the targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspection: Option<Inspection>,
    /// Where the disks that hold the targets are attached; nothing else is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
}

/// The machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Host name.
    pub hostname: String,
    /// Identifies the installation: 128 bits of a SHA-256 over a prefix and /etc/machine-id, as machine-id(5) requires;
    /// empty where that is missing, and in records of version 1.
    #[serde(default)]
    pub host_id: String,
    /// Identifies the boot (/proc/sys/kernel/random/boot_id); empty in records of version 1.
    #[serde(default)]
    pub boot_id: String,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Architecture (`uname -m`).
    pub arch: String,
    /// CPU model.
    pub cpu_model: String,
    /// CPUs that this process may run on.
    pub cpus_allowed: Vec<u32>,
    /// Number of CPUs online.
    pub cpus_online: u32,
    /// CPUs of each NUMA node, by its number; empty if the kernel does not show them.
    #[serde(default, deserialize_with = "numbered")]
    pub numa_nodes: BTreeMap<u32, Vec<u32>>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Memory available without swapping, in bytes.
    pub memory_available_bytes: u64,
    /// The lowest memory limit of this process's cgroups, in bytes.
    pub cgroup_memory_max_bytes: Option<u64>,
    /// Address space that this process may still map under RLIMIT_AS, in bytes; `None` is unlimited.
    #[serde(default)]
    pub address_space_available_bytes: Option<u64>,
    /// What all CPUs together copy in memory, in bytes per second, as `limit` measures once per boot; absent before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_copy_bytes_per_second: Option<f64>,
    /// RLIMIT_MEMLOCK in bytes; `None` means unlimited.
    pub memlock_limit_bytes: Option<u64>,
    /// RLIMIT_NOFILE.
    pub open_files_limit: u64,
    /// kernel.io_uring_disabled; absent on kernels without it.
    pub io_uring_disabled: Option<u32>,
    /// kernel.perf_event_paranoid; absent on kernels without it.
    pub perf_event_paranoid: Option<i32>,
    /// Whether this process has CAP_SYS_ADMIN.
    pub privileged: bool,
    /// One-minute load average when the run began.
    pub load_1min: f64,
    /// The kernel's clock source.
    pub clocksource: String,
    /// What it runs in, as firmware and CPU report it, such as `KVM`; absent on bare metal, and in records before version 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtualization: Option<String>,
}

/// A map by numbers, which are strings in JSON; the header of a record is read by way of a form that keeps them so.
fn numbered<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<u32, Vec<u32>>, D::Error> {
    let named = BTreeMap::<String, Vec<u32>>::deserialize(from)?;
    let numbered = |(name, cpus): (String, _)| Ok((name.parse().map_err(D::Error::custom)?, cpus));
    named.into_iter().map(numbered).collect()
}

impl Host {
    /// Major and minor version of the kernel; (0, 0) if unknown.
    pub fn kernel_version(&self) -> (u32, u32) {
        let mut parts = self.kernel.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }
}

/// A file or device that is the target of I/O.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetFacts {
    /// The path as given.
    pub path: String,
    /// The path with symbolic links resolved.
    pub resolved: String,
    /// Kind of target.
    pub kind: TargetKind,
    /// Size in bytes; 0 if missing.
    pub size_bytes: u64,
    /// Bytes allocated, for files; less than `size_bytes` if sparse.
    pub allocated_bytes: u64,
    /// Required alignment of direct I/O in bytes (statx's `stx_dio_offset_align`, or the logical
    /// block size); 0 if direct I/O is unsupported; `None` if unknown.
    pub direct_align: Option<u32>,
    /// Required memory alignment of direct I/O, in bytes.
    pub memory_align: Option<u32>,
    /// st_dev of a file's file system, or st_rdev of a device, as (major, minor).
    pub device_number: (u32, u32),
    /// Inode number.
    pub inode: u64,
    /// Type of the file's file system, as in /proc/self/mountinfo.
    pub file_system: Option<String>,
    /// Free bytes on that file system for unprivileged users.
    pub free_bytes: Option<u64>,
    /// Whether fathom created this file (it carries fathom's mark).
    pub made_by_fathom: bool,
    /// The target's block device, or the one that holds its file system, if there is one.
    pub device: Option<DeviceFacts>,
    /// Which devices hold the data, where that is not `device` alone.
    #[serde(default, skip_serializing_if = "HeldBy::is_device")]
    pub held_by: HeldBy,
}

impl TargetFacts {
    /// Kernel names of the devices known to hold its data.
    pub fn device_names(&self) -> impl Iterator<Item = &str> {
        let together: &[String] = match &self.held_by {
            HeldBy::Devices(names) => names,
            _ => &[],
        };
        let device = self.device.iter().map(|device| device.name.as_str());
        device.chain(together.iter().map(String::as_str))
    }

    /// Whether the device with this kernel name may hold some of its data.
    pub fn may_be_on(&self, device: &str) -> bool {
        self.held_by == HeldBy::AnyDisk || self.device_names().any(|name| name == device)
    }

    /// Whether some of its data may be on disks of this machine: not if it is in memory, or on another machine.
    pub fn may_be_on_disks(&self) -> bool {
        self.held_by == HeldBy::AnyDisk || self.device_names().next().is_some()
    }

    /// Why the devices that hold its data are not known, for "not measured".
    pub fn hidden_disk(&self) -> Option<Unavailable> {
        let file_system = self.file_system.as_deref().unwrap_or("unknown file system");
        let (why, allow) = match self.held_by {
            HeldBy::Device | HeldBy::Devices(_) => return None,
            HeldBy::AnyDisk => (
                "the file system does not show which disks hold the file; the I/O of all disks together is taken as \
                 an upper bound",
                "use a path below which the file system of a disk is mounted, or run outside of the container",
            ),
            HeldBy::Hidden => (
                "it is on another machine, or served by a program, so that figures may be those of a cache",
                "run on the machine that has the disk, on a file of the file system below",
            ),
        };
        Some(Unavailable {
            source: format!("disk of {} ({file_system})", self.path),
            reason: why.into(),
            remedy: allow.into(),
        })
    }
}

/// What is known of the devices that hold a file's data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeldBy {
    /// The one in `device`; without one, no device does, as for files in memory.
    #[default]
    Device,
    /// These together, by kernel name: a file system on several devices, or layers on different ones.
    Devices(Vec<String>),
    /// Some disks of this machine; which, is not visible. All together have read at least what it was read from disk.
    AnyDisk,
    /// Not visible: another machine's, or those of a program that serves the file system.
    Hidden,
}

impl HeldBy {
    fn is_device(&self) -> bool {
        *self == Self::Device
    }
}

/// Kind of target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// Does not exist.
    #[default]
    Missing,
    /// Regular file.
    File,
    /// Block device.
    BlockDevice,
    /// NVMe generic character device (`/dev/ngXnY`).
    NvmeGeneric,
    /// SCSI generic character device of a disk (`/dev/sgN`).
    ScsiGeneric,
    /// Its bsg character device (`/dev/bsg/H:C:T:L`).
    ScsiBsg,
    /// Directory.
    Directory,
    /// Anything else: a pipe, a socket, another character device.
    Other,
}

impl TargetKind {
    /// Whether it is a character device that takes commands for a disk.
    pub fn is_generic(self) -> bool {
        matches!(self, Self::NvmeGeneric | Self::ScsiGeneric | Self::ScsiBsg)
    }
}

/// A block device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceFacts {
    /// Kernel name, such as `nvme0n1`.
    pub name: String,
    /// Devices that it is built on (device mapper, md), by kernel name; empty for a disk.
    #[serde(default)]
    pub members: Vec<String>,
    /// Model, if known.
    pub model: Option<String>,
    /// Serial number, if known.
    pub serial: Option<String>,
    /// Version of its firmware, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// The kernel's driver, such as `nvme`, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Logical block size in bytes.
    pub logical_block: u32,
    /// Physical block size in bytes.
    pub physical_block: u32,
    /// queue/scheduler: the active one.
    pub scheduler: Option<String>,
    /// queue/nr_requests.
    pub nr_requests: Option<u32>,
    /// Number of hardware queues (entries of mq/).
    pub hardware_queues: Option<u32>,
    /// Requests that the driver takes per hardware queue (mq/0/nr_tags).
    #[serde(default)]
    pub driver_tags: Option<u32>,
    /// Commands that a SCSI device takes at a time (device/queue_depth).
    #[serde(default)]
    pub queue_depth: Option<u32>,
    /// queue/max_sectors_kb.
    pub max_sectors_kb: Option<u32>,
    /// queue/max_hw_sectors_kb, up to which `max_sectors_kb` can be raised.
    #[serde(default)]
    pub max_hw_sectors_kb: Option<u32>,
    /// queue/max_segments.
    pub max_segments: Option<u32>,
    /// queue/rotational.
    pub rotational: Option<bool>,
    /// queue/io_poll: whether polled queues exist.
    pub io_poll: Option<bool>,
    /// queue/wbt_lat_usec.
    pub wbt_lat_usec: Option<u64>,
    /// queue/write_cache.
    pub write_cache: Option<String>,
    /// queue/discard_max_bytes; 0 if discard is unsupported.
    pub discard_max_bytes: Option<u64>,
    /// NVMe namespace ID, for passthrough.
    pub nvme_nsid: Option<u32>,
    /// What an NVMe namespace stores beside each block, for passthrough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<NvmeMetadata>,
    /// Its zones, if writes must be at write pointers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<ZoneFacts>,
    /// Whether it is a SCSI disk, not a partition of one: its block addresses are those of SCSI commands.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scsi_disk: bool,
}

/// Metadata of an NVMe namespace's blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NvmeMetadata {
    /// Bytes per block.
    pub bytes: u16,
    /// Type of protection information: 1 to 3, or 0 for none.
    pub protection: u8,
    /// The protection information is in the first bytes, not the last.
    pub leads: bool,
    /// It is transferred at the end of each block's data, not apart.
    pub extended: bool,
    /// Its checksums have 64 bits, not 16.
    pub wide_guard: bool,
}

/// Zones of a block device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneFacts {
    /// Whether writes elsewhere than at a write pointer fail (host-managed), or are only slow (host-aware).
    pub managed: bool,
    /// Length of a zone in bytes (queue/chunk_sectors).
    pub zone_bytes: u64,
    /// Zones that may be open at a time; 0 for any number (queue/max_open_zones).
    pub open_max: u32,
    /// Zones that may be open or partly written; 0 for any number (queue/max_active_zones).
    pub active_max: u32,
}
