//! The tables. A row: name in CSV and NDJSON, name in text, name where space is short, unit, rank; value; definition and
//! source.

use super::{
    DiskMetric, FigureGroup, FigureUnit, Interval, JobFigures, JobMetric, LayerMetric, MetricRow,
    ProcessMetric, RingMetric, ThreadMetric,
};
use crate::derive::per_second;
use crate::layers::LayerTimes;
use crate::machine::{CgroupRates, CpuWork, PressureRates, RingRates, StallShares, SystemRates};
use fathom_model::watch::{CgroupSample, RingEvents, RingQueues, RingsSample};

/// The group of figures of all io_uring instances together.
pub const ALL_RINGS: FigureGroup = FigureGroup::Other("all rings");

macro_rules! metrics {
    ($(#[$doc:meta])* $name:ident: $of:ty;
     $($group:expr => { $($id:literal $title:literal $label:literal $unit:ident $(@$rank:literal)?, $value:expr, $source:literal;)* })*) => {
        $(#[$doc])*
        pub static $name: &[$of] = &[$($(MetricRow {
            id: $id, title: $title, label: $label, unit: FigureUnit::$unit, group: $group, rank: 0 $(+ $rank)?,
            value: $value, source: $source,
        },)*)*];
    };
}

metrics! {
    /// Figures of the whole machine, in the order in which a line of the screen shows those of its group.
    METRICS: MetricRow;
    FigureGroup::Cpu => {
        "user_pct" "user" "usr" Percent, |i| system(i, |s| s.cpu.user), "in user mode; KVM guests included, which mpstat shows separately";
        "nice_pct" "nice" "nice" Percent @1, |i| system(i, |s| s.cpu.nice), "in user mode at lowered priority";
        "system_pct" "system" "sys" Percent, |i| system(i, |s| s.cpu.system),
            "in the kernel; includes interrupts on kernels without `CONFIG_IRQ_TIME_ACCOUNTING`";
        "iowait_pct" "iowait" "iow" Percent, |i| system(i, |s| s.cpu.iowait),
            "idle while a task that last ran on this CPU waits for I/O. This is idle time: it does not show how busy disks are, and shrinks when another task uses the CPU";
        "irq_pct" "irq" "irq" Percent @1, |i| system(i, |s| s.cpu.irq), "in hard interrupts";
        "softirq_pct" "softirq" "soft" Percent, |i| system(i, |s| s.cpu.softirq), "in softirqs; includes I/O completions";
        "steal_pct" "steal" "st" Percent @1, |i| system(i, |s| s.cpu.steal), "runnable while the hypervisor ran something else";
        "idle_pct" "idle" "idle" Percent, |i| system(i, |s| s.cpu.idle), "idle";
    }
    FigureGroup::Tasks => {
        "run" "runnable" "run" Count, |i| system(i, |s| s.ready.into()),
            "`procs_running` of `/proc/stat`, without the sampling thread";
        "blocked" "blocked" "blocked" Count, |i| system(i, |s| s.blocked.into()),
            "`procs_blocked`: tasks waiting for I/O, including those that sleep in io_uring while requests are in flight, although their state is S";
        "context_switches_per_s" "context switches/s" "cs/s" Rate, |i| system(i, |s| s.context_switches), "`ctxt`";
        "interrupts_per_s" "interrupts/s" "intr/s" Rate, |i| system(i, |s| s.interrupts), "`intr`";
    }
    FigureGroup::Pressure => {
        "stalled_cpu_pct" "CPU" "PSI cpu" Percent @1, |i| Some(stalls(i, |p| Some(p.cpu))?.some), "*some* of `/proc/pressure/cpu`";
        "stalled_memory_pct" "memory" "mem" Percent @1, |i| Some(stalls(i, |p| Some(p.memory))?.some), "*some* of `memory`";
        "stalled_io_pct" "I/O" "io" Percent @1, |i| Some(stalls(i, |p| Some(p.io))?.some), "*some* of `io`";
        "stalled_full_memory_pct" "memory (full)" "" Percent @4, |i| Some(stalls(i, |p| Some(p.memory))?.full), "*full* of `memory`";
        "stalled_full_io_pct" "I/O (full)" "" Percent @4, |i| Some(stalls(i, |p| Some(p.io))?.full), "*full* of `io`";
        "stalled_irq_pct" "interrupts" "" Percent @4, |i| Some(stalls(i, |p| p.irq)?.full), "*full* of `irq`, where the kernel counts it";
    }
    FigureGroup::Tasks => {
        "new_per_s" "new tasks/s" "new/s" Rate, |i| system(i, |s| s.forks), "`processes`: processes and threads created";
    }
    FigureGroup::Memory => {
        "memory_total_bytes" "total" "total" Bytes, |i| system(i, |s| s.memory.total as f64), "`MemTotal` of `/proc/meminfo`";
        "memory_used_bytes" "used" "used" Bytes, |i| system(i, |s| s.memory.used as f64), "`MemTotal` − `MemFree` − `Buffers` − cache";
        "memory_free_bytes" "free" "free" Bytes, |i| system(i, |s| s.memory.free as f64), "`MemFree`";
        "memory_buffers_bytes" "buffers" "buff" Bytes, |i| system(i, |s| s.memory.buffers as f64), "`Buffers`";
        "memory_cache_bytes" "page cache" "cache" Bytes, |i| system(i, |s| s.memory.cache as f64), "`Cached` + `SReclaimable`";
        "memory_available_bytes" "available" "" Bytes, |i| system(i, |s| s.memory.available as f64),
            "`MemAvailable`: what programs can get without swapping, by the kernel's estimate";
        "dirty_bytes" "dirty" "dirty" Bytes, |i| system(i, |s| s.memory.dirty as f64), "`Dirty`: part of the cache, not yet written back";
        "writeback_bytes" "writeback" "writeback" Bytes, |i| system(i, |s| s.memory.writeback as f64), "`Writeback`: part of the cache, being written back";
        "swap_used_bytes" "swap used" "swap" Bytes @2, |i| system(i, |s| s.memory.swap_used as f64), "`SwapTotal` − `SwapFree`";
    }
    FigureGroup::Paging => {
        "page_in_bytes_per_s" "in" "in" BytesPerSecond, |i| system(i, |s| s.paging.in_bytes),
            "`pgpgin` of `/proc/vmstat`: bytes read from block devices, counted at each layer of a stack";
        "page_out_bytes_per_s" "out" "out" BytesPerSecond, |i| system(i, |s| s.paging.out_bytes), "`pgpgout`: bytes written to them";
        "page_faults_per_s" "page faults/s" "faults/s" Rate, |i| system(i, |s| s.paging.faults), "`pgfault`";
        "major_faults_per_s" "major faults/s" "major/s" Rate, |i| system(i, |s| s.paging.major_faults), "`pgmajfault`: faults that waited for I/O";
        "pages_scanned_per_s" "pages scanned/s" "scan/s" Rate, |i| system(i, |s| s.paging.scan_kswapd + s.paging.scan_direct),
            "`pgscan_kswapd` + `pgscan_direct`: pages scanned ahead of demand and by tasks that had to reclaim before they could allocate";
        "pages_scanned_direct_per_s" "pages scanned directly/s" "direct/s" Rate, |i| system(i, |s| s.paging.scan_direct), "`pgscan_direct`";
        "pages_reclaimed_per_s" "pages reclaimed/s" "steal/s" Rate, |i| system(i, |s| s.paging.steal_kswapd + s.paging.steal_direct),
            "`pgsteal_kswapd` + `pgsteal_direct`: pages freed";
        "refaults_per_s" "refaults/s" "refault/s" Rate, |i| system(i, |s| s.paging.refault_file),
            "`workingset_refault_file`: pages read again shortly after they were freed; the cache is too small for the workload";
        "swap_in_per_s" "pages swapped in/s" "swap in/s" Rate, |i| system(i, |s| s.paging.swap_in), "`pswpin`";
        "swap_out_per_s" "pages swapped out/s" "swap out/s" Rate, |i| system(i, |s| s.paging.swap_out), "`pswpout`";
        "file_pages_scanned_per_s" "file pages scanned/s" "" Rate, |i| system(i, |s| s.paging.scan_file),
            "`pgscan_file`: by anyone, including reclaim for cgroup limits, which the figures above exclude";
        "file_pages_reclaimed_per_s" "file pages reclaimed/s" "" Rate, |i| system(i, |s| s.paging.steal_file), "`pgsteal_file`: likewise";
        "direct_stalls_per_s" "direct reclaims/s" "" Rate, |i| system(i, |s| s.paging.direct_stalls), "`allocstall_*`: how often tasks had to reclaim";
        "pages_dirtied_per_s" "pages dirtied/s" "" Rate, |i| system(i, |s| s.paging.dirtied),
            "`nr_dirtied`: if it stays above the next, writers will be throttled";
        "pages_written_per_s" "pages written back/s" "" Rate, |i| system(i, |s| s.paging.written), "`nr_written`";
        "oom_kills_per_s" "OOM kills/s" "" Rate, |i| system(i, |s| s.paging.oom_kills), "`oom_kill`";
    }
    FigureGroup::Counters => {
        "counted_cpus" "CPUs used" "CPUs" Number, |i| work(i)?.cpus, "task clock of the watched processes ÷ t";
        "ipc" "IPC" "IPC" Number, |i| work(i)?.ipc.all, "instructions ÷ cycles";
        "ipc_user" "IPC (user)" "IPC:u" Number, |i| work(i)?.ipc.user, "the same in user mode";
        "ipc_kernel" "IPC (kernel)" "IPC:k" Number, |i| work(i)?.ipc.kernel, "the same in the kernel";
        "busy_ghz" "GHz while busy" "GHz" Number, |i| work(i)?.ghz, "cycles ÷ busy time";
        "cache_misses_per_1000_instructions" "cache misses per 1000 instructions" "MPKI" Number, |i| work(i)?.cache_mpki, "cache misses ÷ instructions × 1000";
        "cycles_per_io" "cycles per I/O" "cycles/IO" Count, |i| work(i)?.per_io?.cycles, "cycles ÷ I/Os of whole disks; machine only";
        "counted_pct" "counted" "counted" Percent @2, |i| work(i)?.counted,
            "time in which instructions were counted; what is per second is an estimate where it is below 100";
        "counted_context_switches_per_s" "context switches/s" "cs/s" Rate, |i| counted(i, |w| w.context_switches), "of the watched processes";
        "counted_page_faults_per_s" "page faults/s" "faults/s" Rate, |i| counted(i, |w| w.page_faults), "of the watched processes";
        "instructions_per_s" "instructions/s" "" Rate, |i| work(i)?.instructions, "instructions ÷ t";
        "cycles_per_s" "cycles/s" "" Rate, |i| work(i)?.cycles, "cycles ÷ t";
        "cache_references_per_s" "cache references/s" "" Rate, |i| work(i)?.cache_references, "cache accesses ÷ t";
        "cache_misses_per_s" "cache misses/s" "" Rate, |i| work(i)?.cache_misses, "cache misses ÷ t";
        "instructions_per_io" "instructions per I/O" "" Count, |i| work(i)?.per_io?.instructions, "instructions ÷ I/Os of whole disks; machine only";
    }
    FigureGroup::Cgroup => {
        "cgroup_cpus" "CPUs" "CPUs" Number, |i| cgroup(i)?.cpu_limit, "`cpu.max`; v1: `cpu.cfs_quota_us` ÷ `cpu.cfs_period_us`";
        "cgroup_throttled_pct" "throttled" "throttled" Percent @1, |i| hits(i, |c| c.cpu_limit.is_some(), |r| r.throttled),
            "Δ `throttled_usec` of `cpu.stat` ÷ t, summed over CPUs: 100% is one CPU's worth; v1: `throttled_time`";
        "cgroup_memory_used_bytes" "memory" "memory" Bytes, |i| cgroup(i)?.memory_limit.and(Some(cgroup(i)?.memory_used? as f64)),
            "`memory.current`; v1: `memory.usage_in_bytes`; of the cgroup with the lowest limit";
        "cgroup_memory_limit_bytes" "of" "of" Bytes, |i| Some(cgroup(i)?.memory_limit? as f64),
            "`memory.max`, `memory.high`; v1: `memory.limit_in_bytes`";
        "cgroup_memory_hits_per_s" "limit hits/s" "max events/s" Rate, |i| hits(i, |c| c.memory_used.and(c.memory_limit).is_some(), |r| r.memory_hits),
            "Δ (`max` + `high` of `memory.events.local`) ÷ t; v1: `memory.failcnt`";
    }
    ALL_RINGS => {
        "ring_io_workers" "io-wq workers" "" Count, |i| rings(i).map(|all| all.workers.iter().map(|of| f64::from(of.threads)).sum()),
            "io-wq worker threads of all processes that have rings";
        "ring_punted_per_s" "punted to io-wq/s" "" Rate, |i| ring_events(i, |all| all.punted),
            "`io_uring_queue_async_work`: requests handed to io-wq; an estimate above [10,000/s](watch.md#sampling-levels)";
        "ring_overflows_per_s" "CQ overflows/s" "" Rate, |i| ring_events(i, |all| all.overflows),
            "`io_uring_cqe_overflow`: completions that found the CQ full";
    }
}

metrics! {
    /// Figures of a block device, in the order of the screen's columns.
    DISK: DiskMetric;
    FigureGroup::Read => {
        "reads_per_s" "IOPS" "r/s" Rate @1, |d| Some(d.read.ios), "Δ reads completed ÷ t, after merging";
        "read_bytes_per_s" "bandwidth" "rMiB/s" BytesPerSecond @1, |d| Some(d.read.bytes),
            "Δ sectors × 512 ÷ t; what `iostat -m` prints as rMB/s";
        "read_await_ms" "await" "r_await" Milliseconds @2, |d| d.read.wait_ms,
            "Δ time of reads ÷ Δ reads completed: from entering the queue to completion";
    }
    FigureGroup::Write => {
        "writes_per_s" "IOPS" "w/s" Rate @1, |d| Some(d.write.ios), "likewise, for writes";
        "write_bytes_per_s" "bandwidth" "wMiB/s" BytesPerSecond @1, |d| Some(d.write.bytes), "likewise";
        "write_await_ms" "await" "w_await" Milliseconds @2, |d| d.write.wait_ms, "likewise";
    }
    FigureGroup::Flush => {
        "flushes_per_s" "IOPS" "f/s" Rate @2, |d| Some(d.flush.ios), "flush requests that the kernel issues; not part of w/s";
        "flush_await_ms" "await" "f_await" Milliseconds @2, |d| d.flush.wait_ms, "likewise";
    }
    FigureGroup::Device => {
        "queue" "aqu-sz" "aqu-sz" Number @2, |d| Some(d.queue), "Δ weighted time ÷ t: mean I/Os in flight";
        "util_pct" "util" "%util" Percent @1, |d| Some(d.util),
            "Δ time with at least one I/O in flight ÷ t, at most 100; see below. The two times are not read at the same instant, so their ratio can exceed 100%";
        "in_flight" "in flight" "inflt" Count @4, |d| Some(d.in_flight as f64), "at the instant of the sample";
    }
    FigureGroup::Read => { "read_size_bytes" "areq-sz" "rareq-KiB" Bytes @5, |d| d.read.size, "Δ sectors × 512 ÷ Δ reads completed"; }
    FigureGroup::Write => { "write_size_bytes" "areq-sz" "wareq-KiB" Bytes @5, |d| d.write.size, "likewise"; }
    FigureGroup::Read => { "read_merges_per_s" "rqm/s" "rrqm/s" Rate @6, |d| Some(d.read.merges), "Δ reads merged ÷ t: merged before they reached the driver"; }
    FigureGroup::Write => { "write_merges_per_s" "rqm/s" "wrqm/s" Rate @6, |d| Some(d.write.merges), "likewise"; }
    FigureGroup::Discard => {
        "discards_per_s" "IOPS" "d/s" Rate @3, |d| Some(d.discard.ios), "likewise, for discards";
        "discard_bytes_per_s" "bandwidth" "" BytesPerSecond @3, |d| Some(d.discard.bytes), "likewise";
        "discard_await_ms" "await" "" Milliseconds @3, |d| d.discard.wait_ms, "likewise";
    }
    FigureGroup::Read => { "read_merged_pct" "%rqm" "" Percent @6, |d| Some(d.read.merged), "%rrqm: Δ merged ÷ (Δ merged + Δ completed)"; }
    FigureGroup::Write => { "write_merged_pct" "%rqm" "" Percent @6, |d| Some(d.write.merged), "%wrqm: likewise"; }
}

metrics! {
    /// Figures of an io_uring instance.
    RING: RingMetric;
    FigureGroup::Ring => {
        "submitted_per_s" "submitted/s" "sub/s" Rate, |r| r.submitted, "requests taken by the kernel";
        "completed_per_s" "completed/s" "compl/s" Rate @1, |r| r.completed, "completions posted";
        "in_kernel" "in the kernel" "inflt" Count @1, |r| r.in_kernel.map(f64::from), "submitted − completed, at the end";
        "sq_ready" "in SQ" "sq" Count @2, |r| queue(r, |q| q.sq_ready), "SQ entries not yet taken by the kernel";
        "cq_ready" "in CQ" "cq" Count @2, |r| queue(r, |q| q.cq_ready), "CQ entries not yet reaped";
        "io_workers" "io-wq workers" "iowq" Count @2, |r| Some(r.io_workers.into()), "io-wq worker threads of the process";
        "sqpoll_busy_pct" "SQPOLL busy" "sqpoll%" Percent @2, |r| r.sq_busy.map(|share| share * 100.0),
            "share of the SQPOLL thread's CPU time in which it had work";
        "overflowed" "overflowed" "overfl" Count @3, |r| queue(r, |q| q.overflowed), "completions that wait for room in the CQ";
        "sq_entries" "SQ size" "size" Count @4, |r| queue(r, |q| q.sq_entries), "size of the SQ";
    }
}

metrics! {
    /// Figures of a kernel layer.
    LAYER: LayerMetric;
    FigureGroup::Layer => {
        "cpu_pct" "CPU time" "CPU%" Percent, |all, layer| Some(share(layer.time, all)), "share of sampled CPU time ([layers.md](layers.md))";
        "locks_pct" "locks" "locks%" Percent @1, |all, layer| Some(share(layer.lock_time, all)), "the part spent on the layer's locks";
    }
}

metrics! {
    /// Figures of a group of threads.
    THREADS: ThreadMetric;
    FigureGroup::Threads => {
        "active" "active" "ACTIVE" Number, |g| Some(g.average), "mean number of threads doing this ([threads.md](threads.md))";
        "share_pct" "share" "" Percent @4, |g| Some(g.share * 100.0), "share of all active threads";
        "threads" "threads" "threads" Count @4, |g| Some(g.threads as f64), "number of distinct threads";
    }
}

metrics! {
    /// Figures of programs: processes of one name.
    PROCESS: ProcessMetric;
    FigureGroup::Process => {
        "cpus" "CPUs" "CPUs" Number, |all, p| Some(all.cpus(p)), "utime + stime of `/proc/PID/stat` ÷ t";
        "disk_bytes_per_s" "of I/O" "I/O" BytesPerSecond, |all, p| Some(all.per_second(p.disk_bytes())),
            "Δ (`read_bytes` + `write_bytes`) of `/proc/PID/io` ÷ t";
    }
}

metrics! {
    /// Figures of a job, of a group of jobs, and of each direction of its I/O.
    JOB: JobMetric;
    FigureGroup::Job => {
        "iops" "IOPS" "" Rate, |j| Some(per_second(j.ios, j.runtime_ns)), "I/Os completed ÷ runtime; `ops/s` for operations on names";
        "bandwidth_bytes_per_s" "bandwidth" "" BytesPerSecond @1, |j| Some(per_second(j.bytes?, j.runtime_ns)),
            "bytes transferred ÷ runtime, in the units of `kb_base` and `unit_base`";
        "p50_ms" "p50" "" Milliseconds, |j| percentile(j, 50.0), "total latency from submission to completion, or completion latency where only that is measured; median";
        "p99_ms" "p99" "" Milliseconds, |j| percentile(j, 99.0), "likewise: 99% of I/Os took at most this long";
        "p999_ms" "p99.9" "" Milliseconds @2, |j| percentile(j, 99.9), "likewise";
        "max_ms" "max" "" Milliseconds, |j| (!j.latency.is_empty()).then(|| j.latency.max_ns() as f64 / 1e6), "likewise: the longest";
        "mean_ms" "mean" "" Milliseconds @4, |j| (!j.latency.is_empty()).then(|| j.latency.mean_ns() / 1e6), "likewise: the mean";
        "cpu_ms_per_io" "CPU per I/O" "" Milliseconds @4, |j| j.cpu_per_io_ns.map(|ns| ns / 1e6),
            "CPU time of the workers, and of kernel threads that work for them, ÷ I/Os";
        "ios_in_flight" "in flight" "" Number @4, |j| j.in_flight, "sum of latencies ÷ runtime (Little's law), or the mean queue depth where no latency is measured";
        "runtime_ms" "time" "" Milliseconds @4, |j| Some(j.runtime_ns as f64 / 1e6), "from the first start to the last end; of a command, from its start to its exit";
    }
}

fn percentile(job: &JobFigures<'_>, percent: f64) -> Option<f64> {
    job.latency.percentile(percent).map(|ns| ns as f64 / 1e6)
}

fn system(interval: &Interval<'_>, of: fn(&SystemRates) -> f64) -> Option<f64> {
    interval.rates.system.as_ref().map(of)
}

fn stalls(
    interval: &Interval<'_>,
    of: fn(PressureRates) -> Option<StallShares>,
) -> Option<StallShares> {
    of(interval.rates.system.as_ref()?.pressure?)
}

fn work<'a>(interval: &Interval<'a>) -> Option<&'a CpuWork> {
    interval.rates.counters.as_ref().map(|counters| &counters.all)
}

/// Software events of counted processes; the machine's are figures of their own.
fn counted(interval: &Interval<'_>, of: fn(&CpuWork) -> Option<f64>) -> Option<f64> {
    work(interval).filter(|work| work.cpus.is_some()).and_then(of)
}

fn cgroup<'a>(interval: &Interval<'a>) -> Option<&'a CgroupSample> {
    interval.now.system.as_ref()?.cgroup.as_ref()
}

/// How a limit of the cgroup was felt, where there is one.
fn hits(
    interval: &Interval<'_>,
    is_limited: fn(&CgroupSample) -> bool,
    of: fn(&CgroupRates) -> Option<f64>,
) -> Option<f64> {
    cgroup(interval).filter(|group| is_limited(group))?;
    of(interval.rates.system.as_ref()?.cgroup.as_ref()?)
}

/// io_uring, where there are rings.
fn rings<'a>(interval: &Interval<'a>) -> Option<&'a RingsSample> {
    interval.now.rings.as_ref().filter(|all| !all.rings.is_empty())
}

/// Events of all programs: without rings, only those that occurred.
fn ring_events(interval: &Interval<'_>, of: fn(&RingEvents) -> Option<u64>) -> Option<f64> {
    let rate = interval.per_second(|sample| of(sample.rings.as_ref()?.events.as_ref()?))?;
    (rate > 0.0 || rings(interval).is_some()).then_some(rate)
}

fn queue(ring: &RingRates, of: fn(&RingQueues) -> u32) -> Option<f64> {
    ring.ring.queues.as_ref().map(|queues| of(queues).into())
}

fn share(time: u64, all: &LayerTimes) -> f64 {
    time as f64 * 100.0 / all.time().max(1) as f64
}
