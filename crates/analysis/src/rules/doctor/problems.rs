//! Checks whose findings come first: most are warnings and errors.

#[cfg(test)]
use super::testing::*;
use super::*;
use crate::derive::percent;
use crate::rules::host::FAST_CLOCKS;
use fathom_model::inspection::MountedFileSystem;
use fathom_model::units;
use std::collections::{BTreeMap, BTreeSet};

/// Degrees below the warning temperature from which a load is likely to reach it.
const NEAR_CELSIUS: i32 = 5;
/// Endurance used from which a drive is near its end.
const WORN_PERCENT: u8 = 80;
/// Bits of the critical warning.
const WARNINGS: [&str; 6] = [
    "spare capacity is low",
    "temperature is out of range",
    "reliability is degraded",
    "media are read-only",
    "backup of the volatile memory failed",
    "persistent memory region is unreliable",
];
/// Requests per hardware queue that a driver without tags of its own should have.
const REQUESTS: u64 = 128;
/// Files of control groups that limit I/O.
const IO_FILES: [&str; 5] = [
    "cgroup/io.max",
    "cgroup/blkio.throttle.read_bps_device",
    "cgroup/blkio.throttle.write_bps_device",
    "cgroup/blkio.throttle.read_iops_device",
    "cgroup/blkio.throttle.write_iops_device",
];
/// Minimum number of interrupts since boot for their distribution to be meaningful.
const INTERRUPTS_MIN: u64 = 10_000;
/// A CPU that handled this share of all interrupts handled practically all.
const ALL_SHARE: f64 = 0.9;
/// Load average per CPU from which other programs disturb.
const LOAD_SHARE: f64 = 0.5;
/// Partitions start at multiples of this in all current tools; erase blocks are multiples of it.
const PARTITION_BYTES: u64 = 1 << 20;
/// A file system with less free space than this part slows down.
const FREE_PART: u64 = 10;
/// Less used than this part of a namespace: most reads meet blocks that were never written.
const USED_PART: u64 = 2;

pub(super) static PROBLEMS: &[Rule] = checks! {
    Disk Error "nvme-critical-warning", "critical warnings", "SMART / health log, byte 0" {
        says: "the drive reports: FOUND",
        good: "none",
        cost: "The drive reports that it is failing or being throttled.",
        why: "NVM Express Base Specification, SMART / Health Information",
        change: "save the data and replace the drive; if only the temperature is named, improve its cooling instead",
        judge: |disk| {
            let bits = disk.smart()?.critical_warning;
            let set = WARNINGS.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
            let names: Vec<&str> = set.map(|(_, name)| *name).collect();
            if bits == 0 { good("none") } else { bad(names.join(", "), "none") }
        },
        case: |i| smart(i).critical_warning = 4, near_miss: |i| smart(i).critical_warning = 0,
    }
    Disk Error "nvme-spare", "spare capacity", "SMART / health log, bytes 3 and 4" {
        says: "spare capacity is FOUND; the drive's threshold is WANTED",
        good: "above the drive's threshold",
        cost: "The drive has almost no spare blocks left to replace failing ones.",
        why: "NVM Express Base Specification, Available Spare",
        change: "save the data and replace the drive",
        judge: |disk| {
            let (spare, least) = (disk.smart()?.spare_percent, disk.smart()?.spare_threshold_percent);
            verdict(spare < least, format!("{spare}%"), format!("{least}% or more"))
        },
        case: |i| smart(i).spare_percent = 9, near_miss: |i| smart(i).spare_percent = 10,
    }
    Disk Warning "nvme-media-errors", "unrecovered media errors", "SMART / health log, bytes 160 to 175" {
        says: "FOUND unrecovered media errors since the drive was made",
        good: "0",
        cost: "Data was lost, and retries on failing media make some I/Os slow.",
        why: "NVM Express Base Specification, Media and Data Integrity Errors",
        change: "check the data, and replace the drive if the number grows",
        judge: |disk| above(disk.smart()?.media_errors, 0, "0"),
        case: |i| smart(i).media_errors = 1, near_miss: |i| smart(i).media_errors = 0,
    }
    Disk Warning "nvme-wear", "endurance used", "SMART / health log, byte 5" {
        says: "FOUND of the drive's rated endurance is used",
        good: "below 80%",
        cost: "Worn flash needs more retries and refreshes; above 100%, the drive is beyond its rated endurance.",
        why: "NVM Express Base Specification, Percentage Used",
        change: "plan to replace the drive",
        judge: |disk| {
            let percent = disk.smart()?.used_percent;
            let used = format!("{percent}%");
            match percent {
                0..WORN_PERCENT => good(used),
                WORN_PERCENT..100 => bad_as(Severity::Info, used, "below 80%"),
                _ => bad(used, "below 100%"),
            }
        },
        case: |i| smart(i).used_percent = 100, near_miss: |i| smart(i).used_percent = 79,
    }
    Disk Warning "nvme-temperature", "temperature", "SMART / health log, bytes 1 and 2" {
        says: "the drive is at FOUND; before a load it should be WANTED",
        good: "more than 5 °C below the drive's warning temperature before a load",
        cost: "The drive is about to throttle itself, and throughput drops during the measurement.",
        why: "NVM Express Base Specification, Composite Temperature and WCTEMP",
        change: "improve the cooling, or wait until the drive has cooled down",
        judge: |disk| {
            let celsius = disk.smart()?.celsius;
            let now = format!("{celsius} °C");
            match disk.nvme()?.warning_celsius {
                Some(most) if celsius >= most => bad(now, format!("below {most} °C")),
                Some(most) if celsius >= most - NEAR_CELSIUS => {
                    bad_as(Severity::Info, now, format!("below {} °C", most - NEAR_CELSIUS))
                }
                _ => good(now),
            }
        },
        case: |i| smart(i).celsius = 80, near_miss: |i| smart(i).celsius = 74,
    }
    Disk Info "nvme-throttling", "thermal throttling so far", "SMART / health log, bytes 192 to 231" {
        says: "the drive was FOUND",
        good: "never",
        cost: "The drive has overheated under load before; long measurements are likely to be throttled again.",
        why: "NVM Express Base Specification, Warning Composite Temperature Time and Thermal Management",
        change: "improve the cooling",
        judge: |disk| {
            let log = disk.smart()?;
            let times = log.throttle_counts.0.saturating_add(log.throttle_counts.1);
            let minutes = log.warning_minutes.saturating_add(log.critical_minutes);
            let found = format!("throttled {times} times and {minutes} min above its warning temperature");
            if times > 0 || minutes > 0 { bad(found, "never") } else { good("never") }
        },
        case: |i| smart(i).throttle_counts = (1, 0), near_miss: |i| nvme(i).warning_celsius = None,
    }
    Disk Error "write-cache-mismatch", "flushes to a volatile cache", "queue/write_cache" {
        says: "the kernel assumes FOUND, but the drive's volatile cache is enabled",
        good: "write back if the drive's volatile cache is enabled, for all workloads whose data must survive a power loss",
        cost: "The kernel sends no flushes although the drive caches writes: a power loss destroys data that programs \
           consider durable, and flushes appear to be free.",
        why: "queue/write_cache sets only what the kernel assumes (kernel Documentation/ABI/stable/sysfs-block, write_cache; \
          NVM Express Base Specification, Volatile Write Cache)",
        change: "echo 'write back' >/sys/block/DISK/queue/write_cache, after checking why it was changed",
        judge: |disk| {
            let report = disk.seen.nvme.as_ref().ok_or(Skip::NotApplicable)?;
            let now = disk.files.text("queue/write_cache")?;
            verdict(report.volatile_cache_enabled == Some(true) && now == "write through", now, "write back")
        },
        case: |i| nvme(i).volatile_cache_enabled = Some(true),
        near_miss: |i| { nvme(i).volatile_cache_enabled = Some(true); set(i, "queue/write_cache", "write back"); },
    }
    Disk Error "device-state", "state of the device", "device/state" {
        says: "the device is FOUND, not WANTED",
        good: "live (NVMe) or running (SCSI)",
        cost: "The device is resetting, blocked or offline: I/O waits or fails.",
        why: "kernel drivers/nvme/host/core.c, nvme_ctrl_state; drivers/scsi/scsi_sysfs.c, sdev_states",
        change: "check dmesg for the cause",
        judge: |disk| {
            let state = maybe(disk.files, "nvme/state").or_else(|_| maybe(disk.files, "device/state"))?;
            verdict(!["live", "running"].contains(&state), state, "live or running")
        },
        case: |i| set(i, "nvme/state", "resetting"), near_miss: |i| set(i, "nvme/state", "live"),
    }
    Disk Warning "scheduler", "I/O scheduler", "queue/scheduler" {
        says: "the I/O scheduler is FOUND; WANTED has less overhead",
        good: "none, on NVMe and other solid-state disks, unless I/O priorities or cgroup weights are used; hard disks and \
           zoned devices keep mq-deadline or bfq",
        cost: "A scheduler adds a lock and a merge lookup to each I/O and bypasses the driver's batched submission, which \
           can halve the IOPS of a fast disk.",
        why: "With a scheduler, a plug list is inserted one request at a time instead of going to the driver's queue_rqs \
          (kernel block/blk-mq.c, blk_mq_flush_plug_list; Documentation/block/switching-sched.rst)",
        change: "echo WANTED >/sys/block/DISK/queue/scheduler", fix: Scheduler,
        judge: |disk| {
            let now = chosen(disk.queue()?.text("queue/scheduler")?);
            if !disk.is_solid() || disk.is_zoned() || now == "none" {
                return good(now);
            }
            // Only fast disks lose IOPS.
            let severity = if disk.is_nvme() { Severity::Warning } else { Severity::Info };
            bad_as(severity, now, "none")
        },
        case: |i| set(i, "queue/scheduler", "none [mq-deadline] kyber"),
        near_miss: |i| {
            set(i, "queue/scheduler", "none [mq-deadline] kyber");
            set(i, "queue/zoned", "host-managed");
        },
    }
    Disk Warning "nr-requests", "requests per hardware queue", "queue/nr_requests" {
        says: "only FOUND requests fit into a hardware queue; the driver takes WANTED",
        good: "as many as the driver has tags (mq/0/nr_tags), and at least 128 with a scheduler, for workloads with a high queue depth",
        cost: "I/Os beyond this number wait in the kernel for a free request, which only adds latency.",
        why: "blk_mq_get_tag() sleeps when all tags are taken (kernel Documentation/ABI/stable/sysfs-block, nr_requests)",
        change: "echo WANTED >/sys/block/DISK/queue/nr_requests", fix: NrRequests,
        judge: |disk| {
            let now = disk.queue()?.number("queue/nr_requests")?;
            let wanted = disk.files.number("mq/0/nr_tags")?.min(REQUESTS);
            below(now, wanted, wanted)
        },
        case: |i| set(i, "queue/nr_requests", "127"), near_miss: |i| set(i, "queue/nr_requests", "128"),
    }
    Disk Warning "iostats", "I/O statistics", "queue/iostats" {
        says: "I/O statistics are disabled",
        good: "1, to monitor the disk; 0 saves at most a few percent of CPU time",
        cost: "With 0, /proc/diskstats counts nothing: neither fathom nor iostat sees the disk's I/O.",
        why: "blk_account_io_start() and _done() are skipped (kernel Documentation/ABI/stable/sysfs-block, iostats)",
        change: "echo WANTED >/sys/block/DISK/queue/iostats", fix: Iostats,
        judge: |disk| text(disk.queue()?, "queue/iostats", |now| now == "0", "1"),
        case: |i| set(i, "queue/iostats", "0"), near_miss: |i| { set(i, "queue/iostats", "0"); without_requests(i); },
    }
    Disk Warning "rq-affinity", "CPU of completions", "queue/rq_affinity" {
        says: "completions run on the CPU that the interrupt arrives at",
        good: "1, or 2 to complete on exactly the submitting CPU, for all workloads",
        cost: "With 0, a completion runs wherever the interrupt arrives, with the request's data in another CPU's cache.",
        why: "blk_mq_complete_need_ipi() (kernel Documentation/ABI/stable/sysfs-block, rq_affinity)",
        change: "echo WANTED >/sys/block/DISK/queue/rq_affinity", fix: RqAffinity,
        judge: |disk| text(disk.queue()?, "queue/rq_affinity", |now| now == "0", "1"),
        case: |i| set(i, "queue/rq_affinity", "0"), near_miss: |i| set(i, "queue/rq_affinity", "2"),
    }
    Disk Info "max-sectors", "largest request, KiB", "queue/max_sectors_kb" {
        says: "I/Os above FOUND KiB are split; the hardware takes WANTED KiB",
        good: "at least 1024, or the hardware limit (max_hw_sectors_kb), for workloads with large I/Os",
        cost: "Larger I/Os are split, which costs CPU time, and complete only when their slowest part does.",
        why: "bio_split_rw() splits at max_sectors (kernel Documentation/ABI/stable/sysfs-block, max_sectors_kb)",
        change: "echo WANTED >/sys/block/DISK/queue/max_sectors_kb",
        judge: |disk| {
            let now = disk.queue()?.number("queue/max_sectors_kb")?;
            let wanted = disk.files.number("queue/max_hw_sectors_kb")?.min(LARGE_KB);
            below(now, wanted, wanted)
        },
        case: |i| set(i, "queue/max_sectors_kb", "512"),
        near_miss: |i| { set(i, "queue/max_sectors_kb", "512"); set(i, "queue/max_hw_sectors_kb", "512"); },
    }
    Disk Warning "read-ahead", "read-ahead, KiB", "queue/read_ahead_kb" {
        says: "read-ahead is disabled",
        good: "128 to 4096, for sequential buffered reads; no effect on direct I/O, and little on random reads",
        cost: "With 0, sequential buffered reads wait for one page at a time.",
        why: "page_cache_sync_readahead() (kernel Documentation/ABI/stable/sysfs-block, read_ahead_kb)",
        change: "echo WANTED >/sys/block/DISK/queue/read_ahead_kb", fix: ReadAheadKb,
        judge: |disk| below(disk.files.number("queue/read_ahead_kb")?, 1, "128"),
        case: |i| set(i, "queue/read_ahead_kb", "0"), near_miss: |i| set(i, "queue/read_ahead_kb", "64"),
    }
    Machine Warning "cgroup-io", "cgroup I/O limits", "io.max, io.cost.qos, blkio.throttle.*" {
        says: "the cgroup limits I/O: FOUND",
        good: "none",
        cost: "The kernel throttles I/O: figures show the limit, not the disk.",
        why: "kernel Documentation/admin-guide/cgroup-v2.rst, IO Interface Files",
        change: "run fathom in a cgroup without limits: systemd-run --scope --slice=system.slice fathom …",
        judge: |machine| {
            let cost = machine.files.text("/sys/fs/cgroup/io.cost.qos").unwrap_or("");
            match machine.limits(&IO_FILES) {
                Ok(CheckResult { wanted: None, .. }) if cost.contains("enable=1") => bad("io.cost is enabled", "none"),
                answer => answer,
            }
        },
        case: |i| set(i, "cgroup/io.max", "259:0 rbps=1048576 wbps=max riops=max wiops=max"),
        near_miss: |i| set(i, "/sys/fs/cgroup/io.cost.qos", "259:0 enable=0 ctrl=auto"),
    }
    Machine Warning "cgroup-cpu", "cgroup CPU limit", "cpu.max, cpu.cfs_quota_us" {
        says: "the cgroup limits CPU time: FOUND",
        good: "none",
        cost: "Workers are throttled for the rest of each period, which shows up as disk latency.",
        why: "kernel Documentation/admin-guide/cgroup-v2.rst, cpu.max",
        change: "run fathom in a cgroup without limits, or a container without --cpus",
        judge: |machine| machine.limits(&["cgroup/cpu.max", "cgroup/cpu.cfs_quota_us"]),
        case: |i| set(i, "cgroup/cpu.max", "50000 100000"), near_miss: |i| set(i, "cgroup/memory.max", "1"),
    }
    Machine Warning "governor", "cpufreq governor", "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor" {
        says: "the cpufreq governor is FOUND; for measurements, use WANTED",
        good: "performance, for all measurements",
        cost: "CPUs start at a low clock and change it during the measurement: IOPS are lower and vary.",
        why: "kernel Documentation/admin-guide/pm/cpufreq.rst",
        change: "cpupower frequency-set -g WANTED", fix: Governor,
        judge: |machine| optional(machine.files, "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor", |now| now != "performance", "performance"),
        case: |i| set(i, "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor", "performance, powersave"),
        near_miss: |i| set(i, "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor", "performance"),
    }
    Machine Warning "frequency-cap", "maximum allowed clock, kHz", "/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq" {
        says: "CPU clocks are capped at FOUND kHz of WANTED kHz",
        good: "the CPU's maximum (cpuinfo_max_freq)",
        cost: "CPU-bound workloads lose IOPS in proportion.",
        why: "kernel Documentation/admin-guide/pm/cpufreq.rst, scaling_max_freq",
        change: "cpupower frequency-set -u WANTED",
        judge: |machine| {
            let now = maybe(machine.files, "/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq")?;
            let most = machine.files.text("/sys/devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq")?;
            verdict(now != most, now, most)
        },
        case: |i| set(i, "/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq", "2000000"),
        near_miss: |i| set(i, "/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq", "4000000"),
    }
    Machine Warning "turbo", "boost clocks", "/sys/devices/system/cpu/intel_pstate/no_turbo, cpufreq/boost" {
        says: "boost clocks are disabled",
        good: "enabled, for the highest IOPS; disabled, for the most repeatable",
        cost: "Busy CPUs stay at the base clock, often a third below their boost clock.",
        why: "kernel Documentation/admin-guide/pm/intel_pstate.rst, no_turbo",
        change: "echo 0 >/sys/devices/system/cpu/intel_pstate/no_turbo, or echo 1 >/sys/devices/system/cpu/cpufreq/boost",
        judge: |machine| {
            let off = maybe(machine.files, "/sys/devices/system/cpu/intel_pstate/no_turbo").map(|text| text == "1");
            let boost = || maybe(machine.files, "/sys/devices/system/cpu/cpufreq/boost").map(|text| text == "0");
            either(off.or_else(|_| boost())?, ["disabled", "enabled"], "enabled")
        },
        case: |i| set(i, "/sys/devices/system/cpu/intel_pstate/no_turbo", "1"),
        near_miss: |i| set(i, "/sys/devices/system/cpu/cpufreq/boost", "1"),
    }
    Disk Info "interrupt-spread", "CPUs that handle the interrupts", "/proc/irq/N/effective_affinity_list, /proc/interrupts" {
        says: "FOUND",
        good: "spread over all CPUs that submit I/O, for workloads with more than about 200k IOPS",
        cost: "The CPU that handles all completions can become the bottleneck above about 200k IOPS.",
        why: "kernel Documentation/core-api/irq/irq-affinity.rst; current drivers spread one interrupt per queue themselves",
        change: "echo CPUS >/proc/irq/N/smp_affinity_list for each interrupt, where the driver permits it",
        judge: |disk| {
            // The interrupt of a single queue cannot be spread.
            let queues = disk.seen.device.hardware_queues.unwrap_or(1);
            if disk.machine.host.cpus_online < 2 || queues < 2 || disk.seen.interrupts.len() < 2 {
                return Err(Skip::NotApplicable);
            }
            let mut by_cpu = BTreeMap::<u32, u64>::new();
            for (cpu, count) in disk.seen.interrupts.iter().flat_map(|one| &one.counts) {
                *by_cpu.entry(*cpu).or_default() += count;
            }
            let all: u64 = by_cpu.values().sum();
            let most = by_cpu.iter().max_by_key(|(_, count)| **count);
            let serving: BTreeSet<u32> = disk.seen.interrupts.iter().flat_map(|one| cpus(&one.cpus)).collect();
            match most {
                Some((cpu, count)) if all >= INTERRUPTS_MIN && *count as f64 >= ALL_SHARE * all as f64 => {
                    let share = if *count == all { "all".into() } else { percent(*count as f64, all as f64) + " of" };
                    let all = units::count(all as f64);
                    bad(format!("CPU {cpu} handled {share} {all} interrupts"), "spread over several CPUs")
                }
                _ if serving.len() == 1 => bad("one CPU handles all interrupts", "spread over several CPUs"),
                _ => good(format!("{} CPUs", serving.len())),
            }
        },
        case: |i| first_disk(i).interrupts[0].counts = vec![(0, 9_000), (1, 1_000)],
        near_miss: |i| first_disk(i).interrupts[0].counts = vec![(0, 8_000), (1, 1_999)],
    }
    Disk Warning "numa-node", "NUMA node", "pci/numa_node" {
        says: "the firmware does not tell the disk's NUMA node",
        good: "known, on machines with several nodes",
        cost: "The kernel and fathom cannot place interrupts and buffers near the disk.",
        why: "The firmware's ACPI tables lack _PXM for the slot (kernel Documentation/ABI/testing/sysfs-bus-pci, numa_node)",
        change: "update the firmware, or enable NUMA (SRAT) in its setup",
        judge: |disk| optional(disk.in_node()?, "pci/numa_node", |now| now == "-1", "the disk's node"),
        case: |i| { set(i, NODES, "0-1"); set(i, "pci/numa_node", "-1"); },
        near_miss: |i| set(i, "pci/numa_node", "-1"),
    }
    Disk Warning "numa-local", "CPUs local to the disk", "pci/local_cpulist, fathom's allowed CPUs" {
        says: "fathom may run on no CPU of the disk's NUMA node",
        good: "workers can run on all CPUs of the disk's node",
        cost: "Completions and buffers cross the interconnect between packages.",
        why: "kernel Documentation/admin-guide/mm/numaperf.rst",
        change: "run fathom without taskset or numactl, or bind it to the disk's node: numactl -N NODE",
        judge: |disk| {
            let list = maybe(disk.in_node()?, "pci/local_cpulist")?;
            let local = cpus(list);
            let is_local = disk.machine.host.cpus_allowed.iter().any(|cpu| local.contains(cpu));
            either(!is_local, ["no allowed CPU is local", list], "CPUs of its node")
        },
        case: |i| { set(i, NODES, "0-1"); set(i, "pci/local_cpulist", "8-15"); },
        near_miss: |i| { set(i, NODES, "0-1"); set(i, "pci/local_cpulist", "7-15"); },
    }
    Machine Warning "io-uring", "io_uring", "/proc/sys/kernel/io_uring_disabled" {
        says: "kernel.io_uring_disabled is FOUND",
        good: "0",
        cost: "1 restricts io_uring to a privileged group, 2 disables it for everyone: only slower engines remain.",
        why: "kernel Documentation/admin-guide/sysctl/kernel.rst, io_uring_disabled (commit 76d3ccecfa18)",
        change: "sysctl kernel.io_uring_disabled=0",
        judge: |machine| {
            let now = machine.host.io_uring_disabled.ok_or(Skip::NotApplicable)?;
            verdict(now == 2 || now == 1 && !machine.is_privileged()?, now, "0")
        },
        case: |i| i.facts.io_uring_disabled = Some(2), near_miss: |i| i.facts.io_uring_disabled = Some(1),
    }
    Machine Warning "clock-source", "clock source", "/sys/devices/system/clocksource/clocksource0/current_clocksource" {
        says: "the clock source is FOUND, which the vDSO cannot read",
        good: "one that the vDSO can read, such as tsc",
        cost: "Every clock read is a system call, which adds to every latency.",
        why: "vdso(7); kernel Documentation/timers/timekeeping.rst",
        change: "see dmesg for why tsc was rejected; if the TSC is stable after all, boot with tsc=reliable",
        judge: |machine| match machine.host.clocksource.as_str() {
            "" => Err("the kernel does not report its clock source".into()),
            now => verdict(!FAST_CLOCKS.contains(&now), now, "tsc"),
        },
        case: |i| i.facts.clocksource = "hpet".into(), near_miss: |i| i.facts.clocksource = "kvm-clock".into(),
    }
    Machine Warning "debug-kernel", "kernel debugging features", "/proc/lockdep_stats" {
        says: "the kernel checks locks (FOUND)",
        good: "a kernel without lockdep, as distributions ship it",
        cost: "Every lock operation is checked, which multiplies CPU time per I/O.",
        why: "kernel Documentation/locking/lockdep-design.rst",
        change: "boot a kernel without CONFIG_PROVE_LOCKING",
        judge: |machine| match machine.files.text("/proc/lockdep_stats") {
            Ok(_) => bad("lockdep", "none"),
            Err(_) => machine.read("/proc").and_then(|()| good("none")),
        },
        case: |i| set(i, "/proc/lockdep_stats", "present"), near_miss: |i| set(i, "/proc/swaps", ""),
    }
    Machine Warning "load", "other programs", "/proc/loadavg" {
        says: "FOUND: other programs are running",
        good: "a load average below 0.5 per CPU before a measurement",
        cost: "Other programs share CPUs and caches; figures vary.",
        why: "proc_loadavg(5)",
        change: "fathom top shows what is running",
        judge: |machine| {
            let (load, cpus) = (machine.host.load_1min, machine.host.cpus_online);
            machine.read("/proc/loadavg")?;
            if cpus == 0 {
                return Err("the number of CPUs is not known".into());
            }
            let them = if cpus == 1 { "CPU" } else { "CPUs" };
            let found = format!("load average {load:.1} on {cpus} {them}");
            match load / f64::from(cpus) {
                share if share >= 1.0 => bad(found, "below 0.5 per CPU"),
                share if share >= LOAD_SHARE => bad_as(Severity::Info, found, "below 0.5 per CPU"),
                _ => good(found),
            }
        },
        case: |i| i.facts.load_1min = 4.0, near_miss: |i| i.facts.load_1min = 3.9,
    }
    Disk Warning "disk-in-use", "I/O of other programs", "inflight" {
        says: "FOUND I/Os of other programs are in flight",
        good: "0 reads and writes in flight before a measurement",
        cost: "Other programs share the disk; their I/O is part of every figure.",
        why: "requests in the driver at this moment (kernel Documentation/ABI/stable/sysfs-block, inflight)",
        change: "find them with fathom top, and stop them",
        judge: |disk| {
            let counts = disk.files.text("inflight")?.split_whitespace();
            above(counts.filter_map(|count| count.parse::<u64>().ok()).sum(), 0, "0")
        },
        case: |i| set(i, "inflight", "       3        1"), near_miss: |i| set(i, "inflight", "       0        0"),
    }
    Disk Warning "md-sync", "RAID synchronization", "md/sync_action" {
        says: "RAID synchronization is running: FOUND",
        good: "idle before a measurement",
        cost: "A resync, check or rebuild uses bandwidth of all members.",
        why: "kernel Documentation/admin-guide/md.rst, sync_action",
        change: "wait until /proc/mdstat shows none in progress; to stop a check: echo idle >/sys/block/DISK/md/sync_action",
        judge: |disk| optional(disk.files, "md/sync_action", |now| !["idle", "frozen"].contains(&now), "idle"),
        case: |i| set(i, "md/sync_action", "resync"), near_miss: |i| set(i, "md/sync_action", "idle"),
    }
    Disk Warning "swap", "swap space on the disk", "/proc/swaps" {
        says: "the disk holds swap space: FOUND",
        good: "no swap on the measured disk",
        cost: "Under memory pressure, the kernel swaps to and from the measured disk.",
        why: "swapon(8)",
        change: "swapoff, if there is enough memory",
        judge: |disk| {
            let swaps = disk.machine.files.text("/proc/swaps")?;
            let parts = disk.seen.partitions.iter().map(|part| part.name.as_str());
            let mut names = parts.chain([disk.seen.device.name.as_str()]);
            let is_swap = |name: &str| swaps.split(", ").any(|swap| swap.strip_prefix("/dev/") == Some(name));
            names.find(|name| is_swap(name)).map_or_else(|| good("none"), |name| bad(name, "none"))
        },
        case: |i| set(i, "/proc/swaps", "/dev/nvme0n1p1"),
        near_miss: |i| set(i, "/proc/swaps", "/dev/nvme1n1p1, /swapfile"),
    }
    Disk Warning "alignment", "alignment of the device", "alignment_offset" {
        says: "the device is not aligned to its physical blocks (offset FOUND)",
        good: "0, for all workloads",
        cost: "File system blocks straddle physical blocks: each small write becomes a read-modify-write.",
        why: "kernel Documentation/ABI/stable/sysfs-block, alignment_offset",
        change: "create partitions or volumes at multiples of 1 MiB",
        judge: |disk| text(disk.files, "alignment_offset", |now| now != "0", "0"),
        case: |i| set(i, "alignment_offset", "3584"), near_miss: |i| set(i, "alignment_offset", "0"),
    }
    Disk Warning "partition-alignment", "alignment of partitions", "start of each partition" {
        says: "FOUND, which is not WANTED",
        good: "multiples of 1 MiB, for all workloads",
        cost: "File system blocks straddle physical blocks or optimal I/O boundaries: small writes cost more, and large ones are split.",
        why: "physical_block_size and optimal_io_size divide 1 MiB on practically all devices (libblkid's topology, fdisk(8))",
        change: "recreate the partition at a multiple of 1 MiB, which requires moving its data",
        judge: |disk| {
            let parts = &disk.seen.partitions;
            match parts.iter().find(|part| part.start_bytes % PARTITION_BYTES != 0) {
                _ if parts.is_empty() => Err(Skip::NotApplicable),
                Some(part) => bad(format!("{} starts at byte {}", part.name, part.start_bytes), "a multiple of 1 MiB"),
                None => good("multiples of 1 MiB"),
            }
        },
        case: |i| partition(i, 63 * 512), near_miss: |i| partition(i, 7 << 20),
    }
    Disk Warning "loop-buffered", "direct I/O of the loop device", "loop/dio" {
        says: "the loop device reads and writes its file through the page cache",
        good: "1, for all measurements of the storage below the file",
        cost: "The page cache serves reads and delays writes, even with O_DIRECT on the loop device.",
        why: "losetup(8), --direct-io",
        change: "losetup --direct-io=on /dev/DISK",
        judge: |disk| optional(disk.files, "loop/dio", |now| now == "0", "1"),
        case: |i| set(i, "loop/dio", "0"), near_miss: |i| set(i, "loop/dio", "1"),
    }
    Disk Warning "mount-sync", "synchronous mount", "/proc/self/mountinfo" {
        says: "FOUND is mounted with sync",
        good: "without sync, for all workloads",
        cost: "Each write and each metadata change waits for the disk.",
        why: "mount(8), option sync",
        change: "mount -o remount,async MOUNTPOINT",
        judge: |disk| disk.machine.read(MOUNTS).and_then(|()| mounted(disk, |mount| has(mount, "sync"), "async")),
        case: |i| mount(i, "rw,sync,rw", 50), near_miss: |i| mount(i, "rw,dirsync,rw", 50),
    }
    Disk Warning "file-system-full", "free space", "statvfs(3) of each mount point" {
        says: "FOUND is free",
        good: "at least 10% free, for workloads that write",
        cost: "Allocation takes longer and fragments files; the drive has less spare space for garbage collection.",
        why: "ext4 and XFS search more allocation groups; btrfs also needs free chunks (their manual pages)",
        change: "free some space, or measure elsewhere",
        judge: |disk| {
            let mounts = disk.seen.mounts.iter().filter(|mount| mount.size_bytes > 0);
            let percent = |mount: &MountedFileSystem| mount.free_bytes * 100 / mount.size_bytes;
            let mount = mounts.min_by_key(|mount| percent(mount)).ok_or(Skip::NotApplicable)?;
            let is_full = mount.free_bytes < mount.size_bytes / FREE_PART;
            verdict(is_full, format!("{}% of {}", percent(mount), mount.point), "10% or more")
        },
        case: |i| mount(i, "rw", 9), near_miss: |i| mount(i, "rw", 10),
    }
    Disk Warning "nvme-power-state", "NVMe power state", "feature 02h (power management)" {
        says: "the drive is limited to power state FOUND",
        good: "0, for all measurements, unless a power limit is intended",
        cost: "The drive limits its power and therefore its throughput.",
        why: "NVM Express Base Specification, Power Management",
        change: "nvme set-feature /dev/DISK -f 2 -v 0",
        judge: |disk| {
            let report = disk.nvme()?;
            let state = report.power_state.ok_or("the controller did not report its power state")?;
            // An idle drive may have gone to a state without I/O, which it leaves by itself.
            let limits = report.power_states.get(state as usize).is_some_and(|at| at.is_operational);
            verdict(state > 0 && limits, state, "0")
        },
        case: |i| nvme(i).power_state = Some(1), near_miss: |i| nvme(i).power_state = Some(2),
    }
    Disk Warning "nvme-write-protected", "write protection of the namespace", "Identify Namespace, NSATTR" {
        says: "the namespace is write-protected",
        good: "none, for workloads that write",
        cost: "The drive rejects writes.",
        why: "NVM Command Set Specification, Namespace Attributes",
        change: "nvme set-feature /dev/DISK -f 0x84 -v 0, unless the protection is permanent",
        judge: |disk| either(disk.namespace()?.is_write_protected, ["protected", "none"], "none"),
        case: |i| namespace(i).is_write_protected = true, near_miss: |i| namespace(i).is_write_protected = false,
    }
    Disk Warning "nvme-unwritten", "written part of the namespace", "Identify Namespace, NUSE of NSZE" {
        says: "only FOUND of the namespace is written",
        good: "all of it, before measuring reads",
        cost: "Reads of blocks never written do not access the flash, so they are faster than reads of data.",
        why: "Reads of deallocated blocks are served from the mapping table (NVM Command Set Specification, Namespace Utilization); \
          drives without thin provisioning report all blocks as used",
        change: "write the whole disk once, which destroys its data: fathom run --name=fill --rw=write --bs=1m --filename=/dev/DISK --erase=/dev/DISK@SERIAL",
        judge: |disk| {
            let space = disk.namespace()?;
            let percent = space.used_blocks.saturating_mul(100) / space.size_blocks.max(1);
            verdict(space.used_blocks < space.size_blocks / USED_PART, format!("{percent}%"), "100%")
        },
        case: |i| namespace(i).used_blocks = 499, near_miss: |i| namespace(i).used_blocks = 500,
    }
};
