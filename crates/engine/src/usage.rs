//! Resource usage of a thread, and the kernel version.

use fathom_model::record::Usage;

/// Resource usage of the calling thread so far (getrusage(2), RUSAGE_THREAD).
pub(crate) fn thread() -> Usage {
    // SAFETY: a rusage is plain numbers; the call fills it and cannot fail with a valid place.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    Usage {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        helper_ns: 0,
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
        major_faults: usage.ru_majflt as u64,
        minor_faults: usage.ru_minflt as u64,
        run_delay_ns: run_delay_ns(),
    }
}

/// Time for which the calling thread was runnable but waited for a CPU (`sched_info.run_delay`).
fn run_delay_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The usage between `before` and `after`.
pub(crate) fn difference(after: &Usage, before: &Usage) -> Usage {
    Usage {
        user_ns: after.user_ns.saturating_sub(before.user_ns),
        system_ns: after.system_ns.saturating_sub(before.system_ns),
        helper_ns: 0,
        voluntary_switches: after.voluntary_switches - before.voluntary_switches,
        involuntary_switches: after.involuntary_switches - before.involuntary_switches,
        major_faults: after.major_faults - before.major_faults,
        minor_faults: after.minor_faults - before.minor_faults,
        run_delay_ns: after
            .run_delay_ns
            .zip(before.run_delay_ns)
            .map(|(after, before)| after.saturating_sub(before)),
    }
}

/// The running kernel's version as (major, minor); (0, 0) where it cannot be read.
pub(crate) fn kernel_version() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = text.split(['.', '-']).map(|p| p.trim().parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}
