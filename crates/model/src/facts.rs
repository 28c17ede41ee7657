//! What the machine is, as far as a plan or a verdict depends on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine and the targets at the start of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// The machine.
    pub host: Host,
    /// The targets that were asked about, in that order.
    pub targets: Vec<TargetFacts>,
}

/// The machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Its name.
    pub hostname: String,
    /// uname -r.
    pub kernel: String,
    /// uname -m.
    pub arch: String,
    /// Model name of the processors.
    pub cpu_model: String,
    /// Processors that this process may run on.
    pub cpus_allowed: Vec<u32>,
    /// Processors online.
    pub cpus_online: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Memory available without swapping, in bytes.
    pub memory_available_bytes: u64,
    /// The least memory limit of the cgroups that this process is in, in bytes.
    pub cgroup_memory_max_bytes: Option<u64>,
    /// RLIMIT_MEMLOCK in bytes; `None` is unlimited.
    pub memlock_limit_bytes: Option<u64>,
    /// RLIMIT_NOFILE.
    pub open_files_limit: u64,
    /// kernel.io_uring_disabled, where the kernel has it.
    pub io_uring_disabled: Option<u32>,
    /// kernel.perf_event_paranoid, where the kernel has it.
    pub perf_event_paranoid: Option<i32>,
    /// Whether this process has CAP_SYS_ADMIN.
    pub privileged: bool,
    /// Load average over one minute when the run began.
    pub load_1min: f64,
    /// Clock source of the kernel.
    pub clocksource: String,
}

/// A file or device that is, or would be, worked on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetFacts {
    /// The path as asked.
    pub path: String,
    /// The path with all symbolic links resolved.
    pub resolved: String,
    /// What is there.
    pub kind: TargetKind,
    /// Size in bytes; 0 when missing.
    pub size_bytes: u64,
    /// Bytes that are really allocated, for files; less than `size_bytes` when sparse.
    pub allocated_bytes: u64,
    /// Direct I/O must be aligned to this, in bytes (statx's `stx_dio_offset_align`, or the
    /// logical block size); 0 where direct I/O is not possible; `None` when unknown.
    pub direct_align: Option<u32>,
    /// Memory alignment for direct I/O, in bytes.
    pub memory_align: Option<u32>,
    /// st_dev of a file's file system, or st_rdev of a device, as (major, minor).
    pub device_number: (u32, u32),
    /// Inode number.
    pub inode: u64,
    /// Name of the file system that a file is on, as in /proc/self/mountinfo.
    pub file_system: Option<String>,
    /// Free bytes on that file system for unprivileged users.
    pub free_bytes: Option<u64>,
    /// fathom made this file (it carries fathom's mark).
    pub made_by_fathom: bool,
    /// The block device that it is, or that its file system is on, where that is one.
    pub device: Option<DeviceFacts>,
}

/// What a target is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// Nothing there.
    #[default]
    Missing,
    /// A regular file.
    File,
    /// A block device.
    BlockDevice,
    /// An NVMe generic character device (`/dev/ngXnY`).
    NvmeGeneric,
    /// A directory.
    Directory,
    /// Something else: a pipe, a socket, another character device.
    Other,
}

/// A block device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceFacts {
    /// Kernel name, such as `nvme0n1`.
    pub name: String,
    /// Devices that it is made of (device mapper, md), by kernel name; none for a disk.
    #[serde(default)]
    pub members: Vec<String>,
    /// Model, where it has one.
    pub model: Option<String>,
    /// Serial number, where it has one.
    pub serial: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Logical block size in bytes.
    pub logical_block: u32,
    /// Physical block size in bytes.
    pub physical_block: u32,
    /// queue/scheduler, the active one.
    pub scheduler: Option<String>,
    /// queue/nr_requests.
    pub nr_requests: Option<u32>,
    /// Hardware queues (entries of mq/).
    pub hardware_queues: Option<u32>,
    /// queue/max_sectors_kb.
    pub max_sectors_kb: Option<u32>,
    /// queue/max_segments.
    pub max_segments: Option<u32>,
    /// queue/rotational.
    pub rotational: Option<bool>,
    /// queue/io_poll: polled queues exist.
    pub io_poll: Option<bool>,
    /// queue/wbt_lat_usec.
    pub wbt_lat_usec: Option<u64>,
    /// queue/write_cache.
    pub write_cache: Option<String>,
    /// queue/discard_max_bytes; 0 when it cannot discard.
    pub discard_max_bytes: Option<u64>,
    /// NVMe namespace id, for passthrough.
    pub nvme_nsid: Option<u32>,
}
