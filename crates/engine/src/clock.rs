//! The one clock of the engine: CLOCK_MONOTONIC in nanoseconds.

/// Nanoseconds since an arbitrary instant (boot); never goes back.
#[inline]
pub fn now_ns() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid place for a timespec. The call cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// Wall-clock time in nanoseconds since 1970 (UTC).
pub fn unix_ns() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64)
}

/// Sleeps until `deadline_ns` on [`now_ns`]'s clock, or until a signal arrives.
pub(crate) fn sleep_until(deadline_ns: u64) {
    let ts = timespec(deadline_ns);
    // SAFETY: `ts` is a valid timespec; a null pointer for the remainder is allowed.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const ts,
            std::ptr::null_mut(),
        )
    };
}

pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}
