//! The files that are read.

/// Files of the machine.
pub(super) const HOST: &[&str] = &[
    "/proc/sys/kernel/kptr_restrict",
    "/proc/sys/kernel/nmi_watchdog",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/vm/zone_reclaim_mode",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/security/lockdown",
    "/sys/devices/system/cpu/present",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/cpufreq/boost",
    "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "/sys/devices/system/node/online",
    "/sys/module/pcie_aspm/parameters/policy",
    "/sys/module/nvme/parameters/poll_queues",
    "/sys/module/nvme_core/parameters/default_ps_max_latency_us",
    "/sys/fs/cgroup/io.cost.qos",
];

/// Files that are recorded individually.
pub(super) const HOST_EACH: &[&str] = &[
    "/sys/devices/system/cpu/cpu0/cpuidle/state*/latency",
    "/sys/devices/system/cpu/cpu0/cpuidle/state*/disable",
];

/// Files of which only the distinct texts are recorded, because there are many.
pub(super) const HOST_DISTINCT: &[&str] = &[
    "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    "/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq",
    "/sys/devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq",
    "/sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference",
];

/// Limits of this process's cgroups and their ancestors.
pub(super) const CGROUP: &[&str] = &[
    "io.max",
    "cpu.max",
    "cpu.cfs_quota_us",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
];

pub(super) const DISK: &[&str] = &[
    "alignment_offset",
    "inflight",
    "ro",
    "device/state",
    "device/queue_depth",
    "device/iopolicy",
    "loop/backing_file",
    "loop/dio",
    "md/level",
    "md/sync_action",
    "mq/0/nr_tags",
    "queue/add_random",
    "queue/chunk_sectors",
    "queue/discard_max_bytes",
    "queue/io_poll",
    "queue/iostats",
    "queue/logical_block_size",
    "queue/max_hw_sectors_kb",
    "queue/max_sectors_kb",
    "queue/max_segments",
    "queue/nomerges",
    "queue/nr_requests",
    "queue/optimal_io_size",
    "queue/physical_block_size",
    "queue/read_ahead_kb",
    "queue/rotational",
    "queue/rq_affinity",
    "queue/scheduler",
    "queue/wbt_lat_usec",
    "queue/write_cache",
    "queue/zoned",
];

pub(super) const PCI: &[&str] = &[
    "iommu_group/type",
    "link/l1_aspm",
    "local_cpulist",
    "numa_node",
    "power/control",
    "power/runtime_status",
];

pub(super) const NVME: &[&str] =
    &["cntlid", "firmware_rev", "power/pm_qos_latency_tolerance_us", "state", "transport"];
