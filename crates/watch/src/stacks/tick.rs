//! Sampling at the scheduler tick: busy CPUs have it anyway, so samples cost no additional
//! interrupt, which on some virtual machines is most of the sampling overhead.

use super::kallsyms::Kallsyms;
use crate::perf::Tracefs;
use rustix::time::{ClockId, clock_getres};
use std::ffi::CString;
use std::path::Path;

/// The tick timer's function, since Linux 6.8 and before (kernel/time/tick-sched.c).
const FUNCTIONS: [&str; 2] = ["tick_nohz_handler", "tick_sched_timer"];

/// The tracepoint `timer:hrtimer_expire_entry`, filtered for the tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tick {
    /// Tracepoint ID.
    pub tracepoint: u64,
    /// Address of the tick's timer function.
    function: u64,
    /// Tick period, in nanoseconds.
    pub ns: u64,
}

impl Tick {
    /// This kernel's tick; `None` if it is unknown or not accessible to this user.
    pub fn find(proc_root: &Path) -> Option<Self> {
        // On other architectures the interrupt's part of a call chain cannot be identified.
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return None;
        }
        let tracefs = Tracefs::find(proc_root, "ticks").ok()?;
        let tracepoint = tracefs.tracepoint("timer", "hrtimer_expire_entry").ok()?;
        tracepoint.field("function")?;
        let function = Kallsyms::address(proc_root, &FUNCTIONS)?;
        // The coarse clocks advance at each tick (clock_getres(2)).
        let ns = clock_getres(ClockId::MonotonicCoarse);
        let ns = ns.tv_sec as u64 * 1_000_000_000 + ns.tv_nsec as u64;
        Some(Self { tracepoint: tracepoint.attr().config, function, ns })
    }

    /// Matches the tick's events only.
    pub fn filter(self) -> CString {
        CString::new(format!("function == {:#x}", self.function)).unwrap_or_default()
    }
}
