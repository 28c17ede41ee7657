//! Scheduling priority of the sampling thread.

use fathom_model::watch::Unavailable;
use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

/// The lowest real-time priority: above all normally scheduled threads regardless of cgroup and
/// nice value, below all other real-time threads.
const PRIORITY_MIN: libc::c_int = 1;

/// Gives the calling thread real-time priority; threads that it creates are scheduled normally.
/// Fails without the privilege, or if its cgroup has no real-time budget.
pub(crate) fn raise() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: PRIORITY_MIN };
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread; `param` outlives the call, which only reads it.
    let ret = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const param) };
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the calling thread's timer slack, so that its wake-ups coalesce with interrupts that occur
/// anyway, such as the tick of a busy CPU (PR_SET_TIMERSLACK(2const)). On a busy CPU a timer
/// interrupt of its own costs more than taking the sample.
pub(crate) fn defer(late: Duration) {
    let late = NonZeroU64::new(late.as_nanos() as u64);
    // On failure the thread wakes up on time.
    let _ = rustix::thread::set_current_timer_slack(late);
}

/// What is lost if [`raise`] is refused. Tried in a separate thread.
pub(crate) fn refused() -> Option<Unavailable> {
    let probe = std::thread::Builder::new().name("fathom-probe".into()).spawn(raise);
    let error = probe.map_or_else(Err, |thread| thread.join().unwrap_or(Ok(()))).err()?;
    Some(Unavailable {
        source: "samples taken on time while all CPUs are busy".into(),
        reason: format!("SCHED_RR: {error}"),
        remedy: "run as root or with CAP_SYS_NICE".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> i64 {
        // SAFETY: no pointers; 0 is the calling thread.
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
