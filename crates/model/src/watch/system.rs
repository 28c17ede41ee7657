//! CPUs, memory, interrupts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The whole machine, from /proc/stat, /proc/interrupts, /proc/meminfo, /proc/vmstat,
/// /proc/pressure and cpufreq.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemSample {
    /// CPUs that are online, ascending.
    pub cpus: Vec<CpuSample>,
    /// Tasks running or runnable, including the sampling thread.
    pub running: u32,
    /// Tasks waiting for I/O, including those that sleep in io_uring.
    pub blocked: u32,
    /// Context switches since boot.
    pub context_switches: u64,
    /// Interrupts since boot.
    pub interrupts: u64,
    /// Processes and threads created since boot.
    pub forks: u64,
    /// Interrupts by source; sources without any are omitted.
    pub interrupts_by: Vec<InterruptSample>,
    /// Softirqs by kind, such as `BLOCK` for completions finished on another CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub soft_interrupts_by: Vec<InterruptSample>,
    /// Memory.
    pub memory: MemorySample,
    /// Paging and reclaim.
    pub paging: PagingSample,
    /// Pressure stall information, if enabled.
    pub pressure: Option<PressureSample>,
    /// cgroup limits that apply to the process covered.
    pub cgroup: Option<CgroupSample>,
}

impl SystemSample {
    pub(super) fn memory_bytes(&self) -> usize {
        let sources = self.interrupts_by.iter().chain(&self.soft_interrupts_by);
        let sources = sources.map(|source| size_of_val(source) + size_of_val(&*source.counts));
        size_of_val(&*self.cpus) + sources.sum::<usize>()
    }
}

/// CPU time since boot, in ticks of USER_HZ (10 ms). Guest time is part of user time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuSample {
    /// CPU number.
    pub cpu: u32,
    /// User mode.
    pub user: u64,
    /// User mode, niced.
    pub nice: u64,
    /// Kernel mode.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle, while a task that last ran on this CPU waits for I/O.
    pub iowait: u64,
    /// Hard interrupts.
    pub irq: u64,
    /// Softirqs.
    pub softirq: u64,
    /// Runnable while the hypervisor ran something else.
    pub steal: u64,
    /// Current frequency, in kHz; absent if it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub khz: Option<u32>,
}

/// An interrupt source: a line of /proc/interrupts or /proc/softirqs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptSample {
    /// Number, or short name such as `LOC`.
    pub irq: String,
    /// Description, such as `nvme0q1`; empty for softirqs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// (CPU, count since boot modulo 2^32), for CPUs with any.
    pub counts: Vec<(u32, u32)>,
}

/// Memory usage, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemorySample {
    /// MemTotal.
    pub total: u64,
    /// MemFree.
    pub free: u64,
    /// MemAvailable.
    pub available: u64,
    /// Buffers.
    pub buffers: u64,
    /// Cached.
    pub cached: u64,
    /// SReclaimable.
    pub slab_reclaimable: u64,
    /// Shmem.
    pub shared: u64,
    /// Dirty.
    pub dirty: u64,
    /// Writeback.
    pub writeback: u64,
    /// SwapTotal.
    pub swap_total: u64,
    /// SwapFree.
    pub swap_free: u64,
}

/// Paging and reclaim since boot (/proc/vmstat), in pages unless stated otherwise. Counters that
/// the kernel lacks stay 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PagingSample {
    /// KiB read from block devices (pgpgin).
    pub in_kib: u64,
    /// KiB written to block devices (pgpgout).
    pub out_kib: u64,
    /// Pages swapped in (pswpin).
    pub swap_in: u64,
    /// Pages swapped out (pswpout).
    pub swap_out: u64,
    /// Page faults (pgfault).
    pub faults: u64,
    /// Major page faults, which require I/O (pgmajfault).
    pub major_faults: u64,
    /// Pages scanned by kswapd (pgscan_kswapd).
    pub scan_kswapd: u64,
    /// Pages scanned by direct reclaim (pgscan_direct).
    pub scan_direct: u64,
    /// Pages reclaimed by kswapd (pgsteal_kswapd).
    pub steal_kswapd: u64,
    /// Pages reclaimed by direct reclaim (pgsteal_direct).
    pub steal_direct: u64,
    /// File pages scanned, including cgroup reclaim, which the four above exclude (pgscan_file;
    /// Linux 5.8).
    pub scan_file: u64,
    /// File pages reclaimed (pgsteal_file; Linux 5.8).
    pub steal_file: u64,
    /// File pages refaulted shortly after reclaim (workingset_refault_file).
    pub refault_file: u64,
    /// Direct reclaim stalls (allocstall_*).
    pub direct_stalls: u64,
    /// Pages dirtied (nr_dirtied).
    pub dirtied: u64,
    /// Pages written back (nr_written).
    pub written: u64,
    /// Processes killed by the OOM killer (oom_kill).
    pub oom_kills: u64,
}

/// Pressure stall information (PSI) by resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PressureSample {
    /// CPU.
    pub cpu: Pressure,
    /// Memory.
    pub memory: Pressure,
    /// I/O.
    pub io: Pressure,
    /// Interrupts, since Linux 6.1 if enabled; only `full_us` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irq: Option<Pressure>,
}

/// Total stall time since boot, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pressure {
    /// Time with at least one task stalled.
    pub some_us: u64,
    /// Time with all non-idle tasks stalled.
    pub full_us: u64,
}

/// Limits of a cgroup and its ancestors in all hierarchies of the process, and how often they were
/// hit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CgroupSample {
    /// Path of the cgroup that limits CPU time, as in /proc/PID/cgroup.
    pub path: String,
    /// CPU limit, in CPUs: the lowest of the cgroup and its ancestors (cpu.max; in cgroup v1
    /// cpu.cfs_quota_us over cpu.cfs_period_us).
    pub cpu_limit: Option<f64>,
    /// Throttled periods of the cgroup and its ancestors (nr_throttled of cpu.stat).
    pub throttled_periods: Option<u64>,
    /// Throttled time of the cgroup and its ancestors, summed over CPUs, in microseconds.
    pub throttled_us: Option<u64>,
    /// Memory limit in bytes: the lowest of the cgroup and its ancestors (memory.max, memory.high;
    /// in cgroup v1 memory.limit_in_bytes).
    pub memory_limit: Option<u64>,
    /// Memory used by the cgroup with the lowest limit, in bytes.
    pub memory_used: Option<u64>,
    /// Number of times that the memory limit of the cgroup or an ancestor was hit (`max` and `high`
    /// of memory.events.local; in cgroup v1 memory.failcnt).
    pub memory_hits: Option<u64>,
    /// Pages of the cgroup with the lowest limit that were read again soon after being reclaimed (workingset_refault_anon and
    /// workingset_refault_file of memory.stat).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_refaults: Option<u64>,
    /// Time for which tasks of that cgroup were stalled for memory (memory.pressure, some), in microseconds; cgroup v2 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_stalled_us: Option<u64>,
    /// I/O limits of the cgroup and its ancestors: cgroup, device, and limits as in io.max.
    pub io_limits: Vec<String>,
    /// Whether these are limits of cgroup v1 (`blkio.throttle.*`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub io_limits_v1: bool,
    /// I/O of these cgroups on the devices for which they have limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub io_done: Vec<CgroupIo>,
    /// I/O settings other than limits: cgroup, device or `default`, and the settings: `weight` (io.weight),
    /// `bfq_weight` (io.bfq.weight; in cgroup v1 blkio.bfq.weight), `target` (io.latency), those of io.cost.qos.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub io_control: Vec<String>,
}

/// I/O of a cgroup and its descendants on one device so far (io.stat; in cgroup v1
/// blkio.throttle.io_serviced_recursive and io_service_bytes_recursive).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CgroupIo {
    /// The cgroup.
    pub cgroup: String,
    /// The device.
    pub device: String,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
}

impl CgroupSample {
    /// Whether both are of one cgroup, judging by its path and limits: counters of different ones are not comparable.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.path, self.cpu_limit, self.memory_limit)
            == (&other.path, other.cpu_limit, other.memory_limit)
    }
}
