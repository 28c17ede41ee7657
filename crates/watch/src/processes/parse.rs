//! /proc/PID/stat and /proc/PID/io (proc_pid_stat(5), proc_pid_io(5)).

use fathom_model::watch::ProcessUse;

/// `PF_KTHREAD` in the flags of a process (include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProcessStat {
    pub comm: String,
    pub parent: i32,
    pub is_kernel: bool,
    /// CPU time in ticks, with that of children waited for.
    pub ticks: u64,
    /// Page faults that needed I/O, with those of children waited for.
    pub major_faults: u64,
    /// When it started, in ticks since boot: an ID with another start is another process.
    pub start: u64,
}

impl ProcessStat {
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(text);
        // The name, in parentheses, may contain anything.
        let (head, rest) = text.rsplit_once(')')?;
        let comm = head.split_once('(')?.1.to_string();
        // The first of these is field 3.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            comm,
            parent: i32::try_from(field(4)?).ok()?,
            is_kernel: field(9)? & KERNEL_THREAD != 0,
            major_faults: field(12)? + field(13)?,
            ticks: field(14)? + field(15)? + field(16)? + field(17)?,
            start: field(22)?,
        })
    }
}

/// /proc/PID/status (proc_pid_status(5)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ProcessStatus {
    /// CPUs on which it may run; none if that is not known.
    pub cpus_allowed: Vec<u32>,
    /// Bytes of its memory that are swapped out.
    pub swapped: Option<u64>,
}

impl ProcessStatus {
    pub fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line.map(str::trim)
        };
        let kib = |value: &str| value.strip_suffix(" kB")?.trim().parse::<u64>().ok();
        Self {
            cpus_allowed: value("Cpus_allowed_list")
                .and_then(|list| fathom_model::cpus::parse(list).ok())
                .unwrap_or_default(),
            swapped: value("VmSwap").and_then(kib).map(|kib| kib.saturating_mul(1024)),
        }
    }
}

/// What process `pid` used so far, by its status, with the length of a tick, and /proc/PID/io, which may be empty.
pub(super) fn used(pid: i32, stat: &ProcessStat, tick_ns: u64, io: &[u8]) -> ProcessUse {
    let io = String::from_utf8_lossy(io);
    let value = |key: &str| {
        let line = io.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    ProcessUse {
        comm: stat.comm.clone(),
        pid,
        processes: 1,
        cpu_ns: stat.ticks * tick_ns,
        major_faults: stat.major_faults,
        requested_read: value("rchar"),
        requested_write: value("wchar"),
        disk_read: value("read_bytes"),
        disk_write: value("write_bytes"),
        peer: false,
    }
}

/// What of `all` is not `part`.
pub(super) fn less(all: &ProcessUse, part: &ProcessUse) -> ProcessUse {
    ProcessUse {
        cpu_ns: all.cpu_ns.saturating_sub(part.cpu_ns),
        requested_read: all.requested_read.saturating_sub(part.requested_read),
        requested_write: all.requested_write.saturating_sub(part.requested_write),
        disk_read: all.disk_read.saturating_sub(part.disk_read),
        disk_write: all.disk_write.saturating_sub(part.disk_write),
        major_faults: all.major_faults.saturating_sub(part.major_faults),
        ..all.clone()
    }
}
