//! The scheduler's tick as what makes samples: on a busy processor it comes anyway, so that a sample costs
//! no interrupt of its own. On some virtual machines that is most of what sampling costs.

use super::kallsyms::Kallsyms;
use crate::perf::Tracefs;
use rustix::time::{ClockId, clock_getres};
use std::ffi::CString;
use std::path::Path;

/// What the kernel calls the function of the tick's timer: from Linux 6.8 on, and before
/// (kernel/time/tick-sched.c).
const FUNCTIONS: [&str; 2] = ["tick_nohz_handler", "tick_sched_timer"];

/// The tracepoint `timer:hrtimer_expire_entry`, for the tick alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tick {
    /// The tracepoint's number.
    pub tracepoint: u64,
    /// The address of the function that is called at each tick.
    function: u64,
    /// From one tick to the next, in nanoseconds.
    pub ns: u64,
}

impl Tick {
    /// The tick of this kernel; none where it is not known how it shows, or not to this user.
    pub fn find(proc_root: &Path) -> Option<Self> {
        // Elsewhere it is not known where an interrupt's part of a call chain ends.
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return None;
        }
        let tracefs = Tracefs::find(proc_root, "ticks").ok()?;
        let tracepoint = tracefs.tracepoint("timer", "hrtimer_expire_entry").ok()?;
        tracepoint.field("function")?;
        let function = Kallsyms::address(proc_root, &FUNCTIONS)?;
        // The clocks that advance with the tick (clock_getres(2)).
        let ns = clock_getres(ClockId::MonotonicCoarse);
        let ns = ns.tv_sec as u64 * 1_000_000_000 + ns.tv_nsec as u64;
        Some(Self { tracepoint: tracepoint.attr().config, function, ns })
    }

    /// What is true of the tick's records only.
    pub fn filter(self) -> CString {
        CString::new(format!("function == {:#x}", self.function)).unwrap_or_default()
    }
}
