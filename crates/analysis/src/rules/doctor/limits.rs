//! Limits of this process: control groups and memory.

use super::{Machine, bad, check, good, judged};
use fathom_model::units;

/// Bytes that a process without privileges should be able to lock.
const LOCKED_BYTES: u64 = 64 << 20;
/// Memory that is available below this part is short.
const AVAILABLE_PART: u64 = 10;
/// The control groups of this process.
const CGROUP: &str = "cgroup";
/// Files of control groups that limit I/O.
const IO_FILES: [&str; 5] = [
    "cgroup/io.max",
    "cgroup/blkio.throttle.read_bps_device",
    "cgroup/blkio.throttle.write_bps_device",
    "cgroup/blkio.throttle.read_iops_device",
    "cgroup/blkio.throttle.write_iops_device",
];

/// The texts of those of `files` that were read.
fn texts<'a>(machine: &Machine<'a>, files: &[&str]) -> Vec<&'a str> {
    files.iter().filter_map(|file| machine.files.text(file).ok()).collect()
}

check! { IO_LIMITS: Machine, Warning {
    id: "cgroup-io",
    title: "cgroup I/O limits",
    reads: "io.max, io.cost.qos, blkio.throttle.*",
    says: "the cgroup limits I/O: FOUND",
    good: "none",
    cost: "The kernel throttles I/O: figures show the limit, not the disk.",
    why: "kernel Documentation/admin-guide/cgroup-v2.rst, IO Interface Files",
    change: "run fathom in a cgroup without limits: systemd-run --scope --slice=system.slice fathom …",
    fix: None,
    judge: |machine| {
        let limits = texts(machine, &IO_FILES);
        let cost = machine.files.text("/sys/fs/cgroup/io.cost.qos").unwrap_or("");
        if !limits.is_empty() {
            return bad(limits.join("; "), "none");
        }
        machine.read(CGROUP)?;
        if cost.contains("enable=1") { bad("io.cost is enabled", "none") } else { good("none") }
    },
    case: |i| i.host.set("cgroup/io.max", "259:0 rbps=1048576 wbps=max riops=max wiops=max"),
    near_miss: |i| i.host.set("/sys/fs/cgroup/io.cost.qos", "259:0 enable=0 ctrl=auto"),
} }

check! { CPU_LIMIT: Machine, Warning {
    id: "cgroup-cpu",
    title: "cgroup CPU limit",
    reads: "cpu.max, cpu.cfs_quota_us",
    says: "the cgroup limits CPU time: FOUND",
    good: "none",
    cost: "Workers are throttled for the rest of each period, which shows up as disk latency.",
    why: "kernel Documentation/admin-guide/cgroup-v2.rst, cpu.max",
    change: "run fathom in a cgroup without limits, or a container without --cpus",
    fix: None,
    judge: |machine| {
        let limits = texts(machine, &["cgroup/cpu.max", "cgroup/cpu.cfs_quota_us"]);
        if !limits.is_empty() {
            return bad(limits.join("; "), "none");
        }
        machine.read(CGROUP).and_then(|()| good("none"))
    },
    case: |i| i.host.set("cgroup/cpu.max", "50000 100000"),
    near_miss: |i| i.host.set("cgroup/memory.max", "1"),
} }

check! { MEMORY_LIMIT: Machine, Info {
    id: "cgroup-memory",
    title: "cgroup memory limit",
    reads: "memory.max, memory.limit_in_bytes",
    says: "the cgroup limits memory to FOUND",
    good: "none, for buffered I/O",
    cost: "The page cache counts toward the limit, so it is reclaimed even if the machine has free memory.",
    why: "kernel Documentation/admin-guide/cgroup-v2.rst, memory.max",
    change: "run fathom in a cgroup without limits, or a container without --memory",
    fix: None,
    judge: |machine| match machine.host.cgroup_memory_max_bytes {
        Some(bytes) if bytes < machine.host.memory_bytes => bad(units::bytes(bytes), "none, for buffered I/O"),
        _ => machine.read(CGROUP).and_then(|()| good("none")),
    },
    case: |i| i.facts.cgroup_memory_max_bytes = Some(1 << 30),
    near_miss: |i| i.facts.cgroup_memory_max_bytes = Some(1 << 40),
} }

check! { LOCKED_MEMORY: Machine, Info {
    id: "locked-memory",
    title: "locked memory limit",
    reads: "RLIMIT_MEMLOCK",
    says: "the limit of locked memory is FOUND",
    good: "64 MiB or more, without root, for registered buffers",
    cost: "Larger buffers cannot be registered with io_uring, so each I/O pins its pages again.",
    why: "io_uring_register(2), IORING_REGISTER_BUFFERS; rings themselves do not count since Linux 5.12 (commit 26bfa89e25f4)",
    change: "ulimit -l unlimited, or memlock in /etc/security/limits.conf",
    fix: None,
    judge: |machine| match machine.host.memlock_limit_bytes {
        _ if machine.host.privileged => good("unlimited for root"),
        Some(bytes) if bytes < LOCKED_BYTES => bad(units::bytes(bytes), "64 MiB or more"),
        Some(bytes) => good(units::bytes(bytes)),
        None => good("unlimited"),
    },
    case: |i| (i.facts.privileged, i.facts.memlock_limit_bytes) = (false, Some(8 << 20)),
    near_miss: |i| i.facts.memlock_limit_bytes = Some(8 << 20),
} }

check! { AVAILABLE_MEMORY: Machine, Info {
    id: "available-memory",
    title: "available memory",
    reads: "/proc/meminfo, MemAvailable",
    says: "FOUND of memory are available",
    good: "10% or more of total memory",
    cost: "Reclaim and swapping disturb the measurement; little memory is left for the page cache.",
    why: "proc_meminfo(5)",
    change: "stop programs that need memory",
    fix: None,
    judge: |machine| {
        let (free, all) = (machine.host.memory_available_bytes, machine.host.memory_bytes);
        if all == 0 {
            return Err("the size of memory is not known".into());
        }
        judged(free < all / AVAILABLE_PART, units::bytes(free), "10% of total memory")
    },
    case: |i| i.facts.memory_available_bytes = 1 << 30,
    near_miss: |i| i.facts.memory_available_bytes = 2 << 30,
} }
