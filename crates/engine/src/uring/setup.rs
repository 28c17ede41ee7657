//! Ring set-up: probes which flags the kernel accepts. Cold; `ring.rs` is the hot part.

use super::ring::Ring;
use crate::error::{EngineError, Hint, Operation};
use crate::thread::kernel_version;
use linux_raw_sys::io_uring as sys;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

#[derive(Debug, Clone, Copy)]
pub(crate) struct RingSetup {
    /// Requests that can be pushed before a turn.
    pub entries: u32,
    pub required: u32,
    pub optional: u32,
    pub sq_cpu: u32,
    pub sq_idle_ms: u32,
}

/// The first kernel that has io_uring at all.
const FIRST: (u32, u32) = (5, 1);

/// Flags that only lower the cost, with their names and the flags that they need.
const OPTIONAL: [(u32, &str, u32); 5] = [
    (sys::IORING_SETUP_SUBMIT_ALL, "SUBMIT_ALL", 0),
    (sys::IORING_SETUP_COOP_TASKRUN, "COOP_TASKRUN", 0),
    (sys::IORING_SETUP_SINGLE_ISSUER, "SINGLE_ISSUER", 0),
    (sys::IORING_SETUP_DEFER_TASKRUN, "DEFER_TASKRUN", sys::IORING_SETUP_SINGLE_ISSUER),
    (sys::IORING_SETUP_NO_SQARRAY, "NO_SQARRAY", 0),
];

const REQUIRED: [(u32, &str); 6] = [
    (sys::IORING_SETUP_IOPOLL, "IOPOLL"),
    (sys::IORING_SETUP_HYBRID_IOPOLL, "HYBRID_IOPOLL"),
    (sys::IORING_SETUP_SQPOLL, "SQPOLL"),
    (sys::IORING_SETUP_SQ_AFF, "SQ_AFF"),
    (sys::IORING_SETUP_SQE128, "SQE128"),
    (sys::IORING_SETUP_CQE32, "CQE32"),
];

pub(crate) const FEATURES: [(u32, &str); 8] = [
    (sys::IORING_FEAT_SINGLE_MMAP, "SINGLE_MMAP"),
    (sys::IORING_FEAT_NODROP, "NODROP"),
    (sys::IORING_FEAT_SUBMIT_STABLE, "SUBMIT_STABLE"),
    (sys::IORING_FEAT_EXT_ARG, "EXT_ARG"),
    (sys::IORING_FEAT_NATIVE_WORKERS, "NATIVE_WORKERS"),
    (sys::IORING_FEAT_RSRC_TAGS, "RSRC_TAGS"),
    (sys::IORING_FEAT_MIN_TIMEOUT, "MIN_TIMEOUT"),
    (sys::IORING_FEAT_NO_IOWAIT, "NO_IOWAIT"),
];

/// All flags that only lower the cost of a ring whose owner alone submits to it.
pub(crate) const CHEAPER: u32 = sys::IORING_SETUP_SUBMIT_ALL
    | sys::IORING_SETUP_COOP_TASKRUN
    | sys::IORING_SETUP_SINGLE_ISSUER
    | sys::IORING_SETUP_DEFER_TASKRUN
    | sys::IORING_SETUP_NO_SQARRAY;

pub(crate) fn flag_names(flags: u32) -> Vec<String> {
    let optional = OPTIONAL.iter().map(|(flag, name, _)| (*flag, *name));
    named(REQUIRED.into_iter().chain(optional), flags)
}

pub(crate) fn named(table: impl Iterator<Item = (u32, &'static str)>, bits: u32) -> Vec<String> {
    table.filter(|(bit, _)| bits & bit != 0).map(|(_, name)| name.to_string()).collect()
}

/// Creates a ring with all required flags and as many optional ones as the kernel accepts.
///
/// If the kernel rejects all optional flags together, each is probed alone, so that a kernel that lacks
/// one still uses the others.
pub(crate) fn ring(wanted: &RingSetup) -> io::Result<Ring> {
    match attempt(wanted, wanted.optional) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => attempt(wanted, granted_alone(wanted)),
        other => other,
    }
}

fn granted_alone(wanted: &RingSetup) -> u32 {
    let probe = RingSetup { entries: 1, ..*wanted };
    OPTIONAL
        .iter()
        .filter(|(flag, ..)| wanted.optional & flag != 0)
        .filter(|(flag, _, needs)| attempt(&probe, flag | needs).is_ok())
        .fold(0, |flags, (flag, ..)| flags | flag)
}

fn attempt(wanted: &RingSetup, optional: u32) -> io::Result<Ring> {
    // SAFETY: the structure is plain numbers, for which zeroes are valid.
    let mut params: sys::io_uring_params = unsafe { std::mem::zeroed() };
    params.flags = wanted.required | optional;
    params.sq_thread_cpu = wanted.sq_cpu;
    params.sq_thread_idle = wanted.sq_idle_ms;
    // SAFETY: `params` is a valid io_uring_params that the kernel reads and fills.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, wanted.entries, &raw mut params) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    Ring::map(fd, &params)
}

pub(crate) fn register(
    ring: &OwnedFd,
    opcode: u32,
    argument: *const libc::c_void,
    count: u32,
) -> io::Result<i64> {
    // SAFETY: callers pass an argument of the shape that `opcode` asks for.
    let result = unsafe {
        libc::syscall(libc::SYS_io_uring_register, ring.as_raw_fd(), opcode, argument, count)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

pub(crate) fn explain(error: &io::Error, wanted: &RingSetup) -> EngineError {
    let failed = EngineError::by_kernel(Operation::SetUpRing(wanted.entries), error);
    let sysctl = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok();
    let sysctl = sysctl.as_deref().map_or("", str::trim);
    let hint = match failed.errno {
        // Some containers return ENOSYS for a filtered system call.
        libc::ENOSYS if kernel_version() >= FIRST && seccomp_filtered() => Hint::SeccompOrNoRing,
        libc::ENOSYS => Hint::NoRing,
        libc::EPERM if sysctl == "2" => Hint::RingDisabled,
        libc::EPERM if sysctl == "1" => Hint::RingDisabledForUsers,
        libc::EPERM | libc::EACCES if seccomp_filtered() => Hint::Seccomp,
        libc::EPERM => Hint::NoPermission,
        libc::ENOMEM => Hint::LockedMemory,
        libc::EAGAIN => Hint::NoSqThread,
        libc::EINVAL => Hint::RingFlags(flag_names(wanted.required)),
        _ => Hint::None,
    };
    failed.hint(hint)
}

/// Whether a seccomp filter applies to this thread, per /proc/thread-self/status.
fn seccomp_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explaining_an_error_keeps_its_errno() {
        let wanted = RingSetup { entries: 1, required: 0, optional: 0, sq_cpu: 0, sq_idle_ms: 0 };
        for errno in [libc::EPERM, libc::ENOSYS, libc::ENOMEM] {
            let error = io::Error::from_raw_os_error(errno);
            std::fs::read("/missing").unwrap_err();
            let refusal = explain(&error, &wanted);
            assert_eq!(refusal.errno, errno);
        }
    }
}
