//! Processors, memory, interrupts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The whole machine, from /proc/stat, /proc/interrupts, /proc/meminfo, /proc/vmstat,
/// /proc/pressure and cpufreq.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemSample {
    /// Processors that are online, ascending.
    pub cpus: Vec<CpuSample>,
    /// Tasks that run or are ready to, at this instant.
    pub running: u32,
    /// Tasks in uninterruptible sleep for I/O, at this instant.
    pub blocked: u32,
    /// Context switches since boot.
    pub context_switches: u64,
    /// Interrupts of all kinds since boot.
    pub interrupts: u64,
    /// Processes and threads made since boot.
    pub forks: u64,
    /// Interrupts by source; sources that never fired are left out.
    pub interrupts_by: Vec<InterruptSample>,
    /// Memory.
    pub memory: MemorySample,
    /// Paging and reclaim.
    pub paging: PagingSample,
    /// Stalls (PSI), where the kernel keeps them.
    pub pressure: Option<PressureSample>,
    /// The limits of the control group that is watched.
    pub cgroup: Option<CgroupSample>,
}

/// One processor's time since boot, in ticks of USER_HZ (10 ms). Guest time is part of user time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuSample {
    /// Number of the processor.
    pub cpu: u32,
    /// In user mode.
    pub user: u64,
    /// In user mode, niced.
    pub nice: u64,
    /// In the kernel.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while a task that last ran here waits for I/O.
    pub iowait: u64,
    /// In interrupts.
    pub irq: u64,
    /// In soft interrupts.
    pub softirq: u64,
    /// Ready to run while the hypervisor ran something else.
    pub steal: u64,
    /// Frequency at this instant, in kHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub khz: Option<u32>,
}

/// One source of interrupts, as a line of /proc/interrupts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptSample {
    /// Number, or short name such as `LOC`.
    pub irq: String,
    /// What it is, such as `nvme0q1`.
    pub source: String,
    /// Counts since boot on each processor of [`SystemSample::cpus`].
    pub counts: Vec<u64>,
}

/// Memory at this instant, in bytes.
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

/// Paging and reclaim, in pages since boot (/proc/vmstat).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PagingSample {
    /// KiB read from block devices (pgpgin).
    pub in_kib: u64,
    /// KiB written to block devices (pgpgout).
    pub out_kib: u64,
    /// Pages swapped in.
    pub swap_in: u64,
    /// Pages swapped out.
    pub swap_out: u64,
    /// Page faults.
    pub faults: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Pages looked at by kswapd.
    pub scan_kswapd: u64,
    /// Pages looked at by tasks that needed memory themselves.
    pub scan_direct: u64,
    /// Pages freed by kswapd.
    pub steal_kswapd: u64,
    /// Pages freed by tasks that needed memory themselves.
    pub steal_direct: u64,
}

/// Stalls for each resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PressureSample {
    /// For a processor.
    pub cpu: Pressure,
    /// For memory.
    pub memory: Pressure,
    /// For I/O.
    pub io: Pressure,
}

/// Time of stalls since boot, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pressure {
    /// With at least one task stalled.
    pub some_us: u64,
    /// With all tasks that are not idle stalled.
    pub full_us: u64,
}

/// The limits of a control group and how often they were hit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CgroupSample {
    /// Path of the group, as in /proc/PID/cgroup.
    pub path: String,
    /// Processors' worth of time it may use (cpu.max), the lowest of it and its parents.
    pub cpu_limit: Option<f64>,
    /// Periods in which it was throttled, since it was made.
    pub throttled_periods: Option<u64>,
    /// Time it was throttled since it was made, in microseconds.
    pub throttled_us: Option<u64>,
    /// Bytes of memory it may use, the lowest of it and its parents.
    pub memory_limit: Option<u64>,
    /// Bytes of memory it uses.
    pub memory_used: Option<u64>,
    /// Limits of I/O on it or its parents (io.max), in words.
    pub io_limits: Vec<String>,
}
