//! Processors, memory, interrupts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The whole machine, from /proc/stat, /proc/interrupts, /proc/meminfo, /proc/vmstat,
/// /proc/pressure and cpufreq.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemSample {
    /// Processors that are online, ascending.
    pub cpus: Vec<CpuSample>,
    /// Tasks that run or are ready to, at this instant; the thread that looks is one of them.
    pub running: u32,
    /// Tasks that wait for I/O at this instant, those that sleep in io_uring included.
    pub blocked: u32,
    /// Context switches since boot.
    pub context_switches: u64,
    /// Interrupts of all kinds since boot.
    pub interrupts: u64,
    /// Processes and threads made since boot.
    pub forks: u64,
    /// Interrupts by source; sources that never fired are left out.
    pub interrupts_by: Vec<InterruptSample>,
    /// Soft interrupts by kind, such as `BLOCK` for completions finished on another processor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub soft_interrupts_by: Vec<InterruptSample>,
    /// Memory.
    pub memory: MemorySample,
    /// Paging and reclaim.
    pub paging: PagingSample,
    /// Stalls (PSI), where the kernel keeps them.
    pub pressure: Option<PressureSample>,
    /// The limits of the control group that is watched.
    pub cgroup: Option<CgroupSample>,
}

impl SystemSample {
    pub(super) fn memory_bytes(&self) -> usize {
        let sources = self.interrupts_by.iter().chain(&self.soft_interrupts_by);
        let sources = sources.map(|source| size_of_val(source) + size_of_val(&*source.counts));
        size_of_val(&*self.cpus) + sources.sum::<usize>()
    }
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
    /// Frequency at this instant, in kHz; absent where it was not read this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub khz: Option<u32>,
}

/// One source of interrupts, as a line of /proc/interrupts or /proc/softirqs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptSample {
    /// Number, or short name such as `LOC`.
    pub irq: String,
    /// What it is, such as `nvme0q1`; empty for soft interrupts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Processors that it fired on, each with its count since boot modulo 2^32.
    pub counts: Vec<(u32, u32)>,
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

/// Paging and reclaim since boot (/proc/vmstat), in pages where not said otherwise. A counter that
/// the kernel does not have stays 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PagingSample {
    /// KiB read from block devices by whomever (pgpgin).
    pub in_kib: u64,
    /// KiB written to block devices by whomever (pgpgout).
    pub out_kib: u64,
    /// Pages swapped in (pswpin).
    pub swap_in: u64,
    /// Pages swapped out (pswpout).
    pub swap_out: u64,
    /// Page faults (pgfault).
    pub faults: u64,
    /// Page faults that needed I/O (pgmajfault).
    pub major_faults: u64,
    /// Pages looked at by kswapd (pgscan_kswapd).
    pub scan_kswapd: u64,
    /// Pages looked at by tasks that needed memory themselves (pgscan_direct).
    pub scan_direct: u64,
    /// Pages freed by kswapd (pgsteal_kswapd).
    pub steal_kswapd: u64,
    /// Pages freed by tasks that needed memory themselves (pgsteal_direct).
    pub steal_direct: u64,
    /// Pages of files looked at by whomever, reclaim for a control group's limit included, which the
    /// four above leave out (pgscan_file; Linux 5.8).
    pub scan_file: u64,
    /// Pages of files freed by whomever (pgsteal_file; Linux 5.8).
    pub steal_file: u64,
    /// Pages of files read again that were freed shortly before (workingset_refault_file).
    pub refault_file: u64,
    /// Times a task had to free memory itself before it got any (allocstall_*).
    pub direct_stalls: u64,
    /// Pages of files made dirty (nr_dirtied).
    pub dirtied: u64,
    /// Pages of files written back (nr_written).
    pub written: u64,
    /// Processes killed for want of memory (oom_kill).
    pub oom_kills: u64,
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
    /// Of tasks by interrupts, where the kernel counts it (Linux 6.1); only `full_us` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irq: Option<Pressure>,
}

/// Time of stalls since boot, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pressure {
    /// With at least one task stalled.
    pub some_us: u64,
    /// With all tasks that are not idle stalled.
    pub full_us: u64,
}

/// The limits of a control group and its parents, of all hierarchies that the process is in, and how
/// often they were hit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CgroupSample {
    /// Path of the group that limits processor time, as in /proc/PID/cgroup.
    pub path: String,
    /// Processors' worth of time it may use: the lowest of it and its parents (cpu.max; in version 1
    /// cpu.cfs_quota_us over cpu.cfs_period_us).
    pub cpu_limit: Option<f64>,
    /// Periods in which it or a parent was throttled, added up (nr_throttled of cpu.stat).
    pub throttled_periods: Option<u64>,
    /// Time that it or a parent was throttled, added up over processors, in microseconds.
    pub throttled_us: Option<u64>,
    /// Bytes of memory it may use: the lowest of it and its parents (memory.max, memory.high; in
    /// version 1 memory.limit_in_bytes).
    pub memory_limit: Option<u64>,
    /// Bytes of memory used by the group whose limit is the lowest.
    pub memory_used: Option<u64>,
    /// Times that memory use hit the limit of it or a parent (`max` and `high` of
    /// memory.events.local; in version 1 memory.failcnt).
    pub memory_hits: Option<u64>,
    /// Limits of I/O on it or its parents: group, device and limits as in io.max.
    pub io_limits: Vec<String>,
}
