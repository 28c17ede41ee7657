//! Detects workers that sleep in io_uring_enter(2) although their completions are available, and interrupts them.
//!
//! The suspected cause is a race in kernels with `IORING_SETUP_DEFER_TASKRUN`: `io_req_local_work_add` reads the
//! number of queued completions from the head of a lock-free list before it exchanges the head. If that request
//! is reaped, reused and queued again in between, the number is stale and too high, and the kernel takes
//! the thread for already woken. No later completion, not even that of [`crate::queue::Wake`], wakes it; a signal does.
//! Stalls on zram under Linux 6.18 match this; the cause is not proven.
//!
//! A timeout for each wait (`IORING_ENTER_EXT_ARG`) would do without signals, but the kernel copies it in for every
//! call: at depth 1, 62 ns (13% fewer NOPs per second, Linux 6.18). A signal costs nothing until it is sent.

use crate::stats::Shared;
use fathom_model::Dir;
use fathom_model::progress::Phase;
use fathom_model::record::LostWakeups;
use std::io;
use std::sync::Once;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

const WAIT_LIMIT_NS: u64 = 1_000_000_000;
/// Interrupts the wait. Ignored by default, passed on by debuggers, used by no C library.
const SIGNAL: i32 = libc::SIGURG;

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
        let is_waiting = matches!(shared.phase(), Phase::Ramp | Phase::Running | Phase::Verifying)
            && shared.in_flight.load(Relaxed) > 0;
        let interrupt = is_waiting && !self.interrupted && now_ns - self.since_ns >= WAIT_LIMIT_NS;
        if interrupt {
            self.interrupted = true;
            shared.wait_check.request();
        }
        interrupt
    }

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

/// A worker notices its deadline by itself within this time.
const GRACE_NS: u64 = 500_000_000;
/// An overdue worker without progress for this long is stuck. Longer than a worker waits for its I/Os in
/// flight.
const STUCK_NS: u64 = 9_000_000_000;

#[derive(Default)]
pub(crate) struct Overdue {
    /// While it is overdue: its amount of work, and the time since which that has not grown.
    idle: Option<(u64, u64)>,
}

impl Overdue {
    /// Checks the worker; returns whether it should have ended by now.
    pub fn is_over(&mut self, shared: &Shared, now_ns: u64) -> bool {
        let deadline = shared.deadline_ns.load(Acquire);
        let late = deadline > 0 && now_ns > deadline.saturating_add(GRACE_NS);
        // A final flush may take as long as the device needs, unless a stop is requested.
        let over = shared.is_stopping()
            || (late && !matches!(shared.phase(), Phase::Verifying | Phase::Finishing));
        let done = work_done(shared);
        self.idle = match self.idle {
            Some((before, since)) if over && before == done => Some((before, since)),
            _ => over.then_some((done, now_ns)),
        };
        over
    }

    /// Whether it is overdue and has made no progress for [`STUCK_NS`].
    pub fn is_stuck(&self, now_ns: u64) -> bool {
        self.idle.is_some_and(|(_, since)| now_ns.saturating_sub(since) > STUCK_NS)
    }
}

/// Grows with every completion of the worker.
fn work_done(shared: &Shared) -> u64 {
    let of = |dir: &Dir| {
        let counts = shared.stats.dirs[*dir].counts();
        counts.ios + counts.errors + counts.short_ios
    };
    Dir::ALL.iter().map(of).sum::<u64>() + shared.stats.flushes.get()
}

/// Whether a worker's interrupted wait had found its completions: requested by the supervisor, answered once by the worker.
#[derive(Default)]
pub(crate) struct WaitCheck(AtomicU8);

impl WaitCheck {
    const REQUESTED: u8 = 1;
    const DEVICE_SLOW: u8 = 2;
    const COMPLETIONS_READY: u8 = 3;

    pub fn request(&self) {
        self.0.store(Self::REQUESTED, Relaxed);
    }

    #[inline]
    pub fn is_requested(&self) -> bool {
        self.0.load(Relaxed) == Self::REQUESTED
    }

    /// Answers for a wait for `wait_for` completions that returned `reaped`. Fewer than requested are a slow
    /// device, not a lost wake-up.
    #[cold]
    pub fn answer(&self, wait_for: u32, reaped: u32) {
        let ready = wait_for > 0 && reaped >= wait_for;
        self.0.store(if ready { Self::COMPLETIONS_READY } else { Self::DEVICE_SLOW }, Relaxed);
    }

    /// Whether enough completions were available while the worker slept.
    pub fn was_ready(&self) -> bool {
        self.0.load(Relaxed) == Self::COMPLETIONS_READY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Release;

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

    #[test]
    fn a_silent_worker_is_stuck_and_a_busy_one_is_not() {
        let (shared, mut overdue) = (Shared::default(), Overdue::default());
        shared.deadline_ns.store(10 * S, Release);
        assert!(!overdue.is_over(&shared, 10 * S) && !overdue.is_stuck(100 * S));
        assert!(overdue.is_over(&shared, 11 * S) && !overdue.is_stuck(19 * S));
        shared.stats.dirs.read.ios.add(1);
        assert!(
            overdue.is_over(&shared, 19 * S) && !overdue.is_stuck(21 * S),
            "it has done something"
        );
        assert!(overdue.is_over(&shared, 29 * S) && overdue.is_stuck(29 * S));
    }

    #[test]
    fn a_flush_at_the_end_may_last_until_a_stop() {
        let (shared, mut overdue) = (Shared::default(), Overdue::default());
        shared.deadline_ns.store(S, Release);
        shared.set_phase(Phase::Finishing);
        assert!(!overdue.is_over(&shared, 100 * S));
        shared.ask_stop();
        assert!(overdue.is_over(&shared, 100 * S) && !overdue.is_stuck(108 * S));
        assert!(overdue.is_over(&shared, 110 * S) && overdue.is_stuck(110 * S));
    }
}
