//! The priority of a thread that has to look at its times also while all processors are busy.

use fathom_model::watch::Missing;
use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

/// The least of the real-time priorities: before all that is scheduled by shares, whatever their groups
/// and niceness, and after all that was given a real-time priority on purpose.
const LEAST: libc::c_int = 1;

/// Schedules the calling thread before all ordinary ones; threads that it starts are ordinary.
///
/// # Errors
/// Where this process may not, or its control group has no real-time share.
pub(crate) fn raise() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: LEAST };
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread; `param` lives during the call, which only reads it.
    let ret = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const param) };
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets the calling thread's sleeps last up to `late` longer, so that they end with an interrupt that comes
/// anyway, as the tick of a busy processor does (PR_SET_TIMERSLACK(2const)). An interrupt of its own costs a
/// processor that works more than the look that it is for.
pub(crate) fn defer(late: Duration) {
    let late = NonZeroU64::new(late.as_nanos() as u64);
    // Kernels without it wake the thread at its times.
    let _ = rustix::thread::set_current_timer_slack(late);
}

/// What is not seen where [`raise`] is refused. Tried on a thread of its own.
pub(crate) fn refused() -> Option<Missing> {
    let tried = std::thread::Builder::new().name("fathom-trial".into()).spawn(raise);
    let error = tried.map_or_else(Err, |thread| thread.join().unwrap_or(Ok(()))).err()?;
    Some(Missing {
        what: "looks at their times while all processors are busy".into(),
        why: format!("SCHED_RR: {error}"),
        allow: "run as root or with CAP_SYS_NICE".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> i64 {
        // SAFETY: no pointer is handed over; 0 is the calling thread.
        unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) }
    }

    #[test]
    fn raised_where_permitted() {
        let raised = || (raise(), policy(), std::thread::spawn(policy).join().unwrap());
        match (std::thread::spawn(raised).join().unwrap(), refused()) {
            ((Ok(()), own, started), None) => {
                assert_eq!(own, i64::from(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK));
                assert_eq!(started, i64::from(libc::SCHED_OTHER));
            }
            ((Err(error), ..), Some(missing)) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                assert!(missing.to_string().contains("CAP_SYS_NICE"), "{missing}");
            }
            (raised, missing) => panic!("{raised:?} and {missing:?}"),
        }
    }
}
