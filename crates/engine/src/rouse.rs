//! Workers that sleep in io_uring although completions are there, and how they are woken.
//!
//! With `IORING_SETUP_DEFER_TASKRUN`, kernels before the list of deferred work became a queue with a
//! count of its own wake a waiting thread only when the number of finished requests crosses what it
//! waits for. `io_req_local_work_add` reads that number from the request at the head of a lock-free list
//! before it exchanges the head. When that request is taken, used anew and put at the head again in
//! between, the number is that of before: too high, and the thread counts as woken for good. Nothing
//! that completes later wakes it, no [`crate::wake::Wake`] either; a signal should. So the source reads; stalls that
//! were seen on zram under Linux 6.18 fit it, and ended when the signal was due; proven it is not.

use crate::stats::Shared;
use fathom_model::progress::Phase;
use fathom_model::record::LostWakeups;
use std::io;
use std::sync::Once;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// A wait for completions that lasts this long is looked into.
const SILENT_NS: u64 = 1_000_000_000;
/// What interrupts a wait. Ignored unless handled, passed on by debuggers, and used by no C library.
const SIGNAL: i32 = libc::SIGURG;

/// What came of interrupting a wait: the conductor asks before it does, and the worker answers once.
#[derive(Default)]
pub(crate) struct Roused(AtomicU8);

impl Roused {
    const ASKED: u8 = 1;
    const EMPTY: u8 = 2;
    const FOUND: u8 = 3;

    fn ask(&self) {
        self.0.store(Self::ASKED, Relaxed);
    }

    /// Whether the worker is to answer.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.0.load(Relaxed) == Self::ASKED
    }

    /// Tells whether the wait that was interrupted ended with completions.
    #[cold]
    pub fn answer(&self, found: bool) {
        self.0.store(if found { Self::FOUND } else { Self::EMPTY }, Relaxed);
    }

    fn has_found(&self) -> bool {
        self.0.load(Relaxed) == Self::FOUND
    }
}

/// One worker's present wait for completions.
#[derive(Default)]
pub(crate) struct Silence {
    /// The turn that it is in, and since when it has been seen there.
    turn: u64,
    since_ns: u64,
    roused: bool,
    lost: LostWakeups,
}

impl Silence {
    /// Looks at the worker; whether it is to be roused now.
    pub fn look(&mut self, shared: &Shared, now_ns: u64) -> bool {
        let turn = shared.turns.get();
        if turn != self.turn {
            if self.roused && shared.roused.has_found() {
                self.lost.count += 1;
                self.lost.longest_ns = self.lost.longest_ns.max(now_ns - self.since_ns);
            }
            (self.turn, self.since_ns, self.roused) = (turn, now_ns, false);
        }
        let waits = matches!(shared.phase(), Phase::Ramp | Phase::Running)
            && shared.in_flight.load(Relaxed) > 0;
        let rouse = waits && !self.roused && now_ns - self.since_ns >= SILENT_NS;
        if rouse {
            self.roused = true;
            shared.roused.ask();
        }
        rouse
    }

    /// What was found.
    pub fn lost(&self) -> LostWakeups {
        self.lost
    }
}

/// Makes it harmless to [`rouse`] a thread of this process.
pub(crate) fn prepare() -> io::Result<()> {
    extern "C" fn nothing(_: i32) {}
    static DONE: Once = Once::new();
    let mut result = Ok(());
    DONE.call_once(|| {
        // SAFETY: all-zero bytes are a valid sigaction with an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        // What can go on after a signal shall; io_uring_enter returns in any case.
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: a filled-in action, whose handler does nothing, and no place for the old one.
        if unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) } != 0 {
            result = Err(io::Error::last_os_error());
        }
    });
    result
}

/// Interrupts the system call that thread `tid` of this process sleeps in. One that ended is none.
pub(crate) fn rouse(tid: i32) {
    // SAFETY: takes no pointers; the signal has a handler that does nothing.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, SIGNAL) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// A worker in its first turn since `S`, seen there and roused one second later.
    fn roused() -> (Shared, Silence) {
        let (shared, mut silence) = (Shared::default(), Silence::default());
        shared.set_phase(Phase::Running);
        shared.in_flight.store(32, Relaxed);
        shared.turns.add(1);
        assert!(!silence.look(&shared, S) && !silence.look(&shared, 2 * S - 1));
        assert!(silence.look(&shared, 2 * S), "silent for a second");
        assert!(!silence.look(&shared, 3 * S), "once is enough for a turn");
        (shared, silence)
    }

    #[test]
    fn completions_that_only_a_signal_brought_were_there_before() {
        let (shared, mut silence) = roused();
        assert!(shared.roused.is_asked());
        shared.roused.answer(true);
        assert!(!shared.roused.is_asked(), "one answer is enough");
        // Whatever the many turns brought that came after it.
        shared.turns.add(50_000);
        assert!(!silence.look(&shared, 4 * S));
        assert_eq!(silence.lost(), LostWakeups { count: 1, longest_ns: 3 * S });
        shared.turns.add(1);
        silence.look(&shared, 5 * S);
        assert_eq!(silence.lost().count, 1, "it is counted once");
    }

    #[test]
    fn a_stalled_device_loses_no_wakeup() {
        let (shared, mut silence) = roused();
        shared.roused.answer(false);
        shared.turns.add(1);
        assert!(!silence.look(&shared, 4 * S));
        assert!(silence.look(&shared, 5 * S), "it is still silent");
        assert_eq!(silence.lost(), LostWakeups::default());
    }

    #[test]
    fn who_has_nothing_in_flight_is_left_alone() {
        let (shared, mut silence) = (Shared::default(), Silence::default());
        shared.set_phase(Phase::Running);
        assert!(!silence.look(&shared, 100 * S), "it thinks");
        shared.in_flight.store(1, Relaxed);
        shared.set_phase(Phase::Finishing);
        assert!(!silence.look(&shared, 200 * S), "it ends by itself");
    }
}
