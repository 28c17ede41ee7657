//! Detects workers that sleep in io_uring_enter(2) although their completions are available, and interrupts them.
//!
//! The suspected cause is a race in kernels with `IORING_SETUP_DEFER_TASKRUN`: `io_req_local_work_add` reads the
//! number of queued completions from the head of a lock-free list before it exchanges the head. If that request
//! is reaped, reused and queued again in between, the number is stale and too high, and the kernel takes
//! the thread for already woken. No later completion, not even that of [`crate::wake::Wake`], wakes it; a signal does.
//! Stalls on zram under Linux 6.18 match this; the cause is not proven.
//!
//! A timeout for each wait (`IORING_ENTER_EXT_ARG`) would do without signals, but the kernel copies it in for every
//! call: at depth 1, 62 ns (13% fewer NOPs per second, Linux 6.18). A signal costs nothing until it is sent.

use crate::stats::Shared;
use fathom_model::progress::Phase;
use fathom_model::record::LostWakeups;
use std::io;
use std::sync::Once;
use std::sync::atomic::Ordering::Relaxed;

/// A wait of this length is interrupted and checked.
const WAIT_LIMIT_NS: u64 = 1_000_000_000;
/// Interrupts the wait. Its default action is to be ignored, debuggers pass it on, and no C library uses it.
const SIGNAL: i32 = libc::SIGURG;

/// Follows one worker's current wait for completions.
#[derive(Default)]
pub(crate) struct StallDetector {
    /// The turn that the worker is in, and when it was first observed there.
    turn: u64,
    since_ns: u64,
    interrupted: bool,
    lost: LostWakeups,
}

impl StallDetector {
    /// Checks the worker; returns whether to interrupt its wait now.
    pub fn check(&mut self, shared: &Shared, now_ns: u64) -> bool {
        let turn = shared.turns.get();
        if turn != self.turn {
            if self.interrupted && shared.wait_check.was_ready() {
                self.lost.count += 1;
                self.lost.longest_ns = self.lost.longest_ns.max(now_ns - self.since_ns);
            }
            (self.turn, self.since_ns, self.interrupted) = (turn, now_ns, false);
        }
        let is_waiting = matches!(shared.phase(), Phase::Ramp | Phase::Running)
            && shared.in_flight.load(Relaxed) > 0;
        let interrupt = is_waiting && !self.interrupted && now_ns - self.since_ns >= WAIT_LIMIT_NS;
        if interrupt {
            self.interrupted = true;
            shared.wait_check.request();
        }
        interrupt
    }

    /// Lost wake-ups so far.
    pub fn lost(&self) -> LostWakeups {
        self.lost
    }
}

/// Installs the empty handler that [`interrupt`] needs, once per process.
pub(crate) fn install_handler() -> io::Result<()> {
    extern "C" fn nothing(_: i32) {}
    static INSTALLED: Once = Once::new();
    let mut result = Ok(());
    INSTALLED.call_once(|| {
        // SAFETY: all-zero bytes are a valid sigaction with an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        // Restarts other system calls; io_uring_enter returns in any case.
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: a complete action with an empty handler; the old action is not requested.
        if unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) } != 0 {
            result = Err(io::Error::last_os_error());
        }
    });
    result
}

/// Interrupts the system call that thread `tid` of this process sleeps in; no effect on a thread that has ended.
pub(crate) fn interrupt(tid: i32) {
    // SAFETY: takes no pointers; the signal's handler is empty.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, SIGNAL) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// A worker in its first turn since `S`, interrupted one second later.
    fn interrupted() -> (Shared, StallDetector) {
        let (shared, mut detector) = (Shared::default(), StallDetector::default());
        shared.set_phase(Phase::Running);
        shared.in_flight.store(32, Relaxed);
        shared.turns.add(1);
        assert!(!detector.check(&shared, S) && !detector.check(&shared, 2 * S - 1));
        assert!(detector.check(&shared, 2 * S), "waiting for a second");
        assert!(!detector.check(&shared, 3 * S), "once per turn");
        (shared, detector)
    }

    #[test]
    fn completions_ready_at_the_interrupt_are_a_lost_wakeup() {
        let (shared, mut detector) = interrupted();
        assert!(shared.wait_check.is_requested());
        shared.wait_check.answer(4, 4);
        assert!(!shared.wait_check.is_requested(), "answered");
        // However many turns follow.
        shared.turns.add(50_000);
        assert!(!detector.check(&shared, 4 * S));
        assert_eq!(detector.lost(), LostWakeups { count: 1, longest_ns: 3 * S });
        shared.turns.add(1);
        detector.check(&shared, 5 * S);
        assert_eq!(detector.lost().count, 1, "counted once");
    }

    #[test]
    fn a_stalled_device_loses_no_wakeup() {
        // None of the completions, and fewer than the wait was for.
        for reaped in [0, 3] {
            let (shared, mut detector) = interrupted();
            shared.wait_check.answer(4, reaped);
            shared.turns.add(1);
            assert!(!detector.check(&shared, 4 * S));
            assert!(detector.check(&shared, 5 * S), "still waiting");
            assert_eq!(detector.lost(), LostWakeups::default());
        }
    }

    #[test]
    fn a_worker_without_ios_in_flight_is_not_interrupted() {
        let (shared, mut detector) = (Shared::default(), StallDetector::default());
        shared.set_phase(Phase::Running);
        assert!(!detector.check(&shared, 100 * S), "think time");
        shared.in_flight.store(1, Relaxed);
        shared.set_phase(Phase::Finishing);
        assert!(!detector.check(&shared, 200 * S), "draining has timeouts of its own");
    }
}
