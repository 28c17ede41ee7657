//! A worker's thread: CPU affinity, memory policy, priorities and resource usage; and the kernel's version.

use crate::error::{EngineError, Operation};
use fathom_model::plan::{MemoryPolicy, Placement};
use fathom_model::record::Usage;
use rustix::mm::{MapFlags, ProtFlags, mlock, mmap_anonymous, munmap};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::num::NonZeroU64;

/// IOPRIO_WHO_PROCESS of linux/ioprio.h.
const IOPRIO_WHO_PROCESS: libc::c_int = 1;
const IOPRIO_CLASS_SHIFT: i32 = 13;

/// Applies `plan` to the calling thread.
pub(crate) fn apply(plan: &Placement) -> Result<(), EngineError> {
    // Minimal timer slack, so that sleeps of rate-limited workers end on time.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    if !plan.cpus.is_empty() {
        pin(&plan.cpus)?;
    }
    set_memory_policy(&plan.memory)?;
    if plan.nice != 0 {
        // None is the calling thread.
        let set = rustix::process::setpriority_process(None, plan.nice);
        set.map_err(EngineError::by(Operation::SetNice(plan.nice)))?;
    }
    if let Some((class, level)) = plan.io_priority {
        let value = i32::from(class) << IOPRIO_CLASS_SHIFT | i32::from(level);
        // SAFETY: takes no pointers; 0 is the calling thread.
        let result = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, value) };
        if result < 0 {
            return Err(EngineError::last(Operation::SetIoPriority { class, level }));
        }
    }
    Ok(())
}

/// Makes the calling thread run as the user and group of `plan`; what it may no longer do then must be done before.
pub(crate) fn become_user(plan: &Placement) -> Result<(), EngineError> {
    if let Some(group) = plan.group {
        // SAFETY: takes no pointers. Unlike the C library's function, the system call changes this thread only.
        if unsafe { libc::syscall(libc::SYS_setresgid, group, group, group) } < 0 {
            return Err(EngineError::last(Operation::SetGroup(group)));
        }
    }
    if let Some(user) = plan.user {
        // SAFETY: as above.
        if unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) } < 0 {
            return Err(EngineError::last(Operation::SetUser(user)));
        }
    }
    Ok(())
}

/// Memory that is locked while it lives (`lockmem`).
pub(crate) struct Locked {
    address: *mut libc::c_void,
    bytes: usize,
}

impl Locked {
    pub fn new(bytes: u64) -> Result<Self, EngineError> {
        let mut this = Self { address: std::ptr::null_mut(), bytes: 0 };
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        if len == 0 {
            return Ok(this);
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new anonymous memory, which no one else uses; only what was mapped is locked.
        let locked = unsafe {
            mmap_anonymous(this.address, len, access, MapFlags::PRIVATE).and_then(|address| {
                (this.address, this.bytes) = (address, len);
                mlock(address, len)
            })
        };
        locked.map_err(EngineError::by(Operation::LockMemory(bytes))).map(|()| this)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the mapping of `new`, which nothing refers to; unmapping unlocks it.
            let _ = unsafe { munmap(self.address, self.bytes) };
        }
    }
}

/// Sets the NUMA nodes of the memory that the thread allocates from now on.
fn set_memory_policy(policy: &MemoryPolicy) -> Result<(), EngineError> {
    // MPOL_* of linux/mempolicy.h.
    let (mode, nodes) = match policy {
        MemoryPolicy::Default => return Ok(()),
        MemoryPolicy::Prefer(node) => (1, std::slice::from_ref(node)),
        MemoryPolicy::Bind(nodes) => (2, nodes.as_slice()),
        MemoryPolicy::Interleave(nodes) => (3, nodes.as_slice()),
        MemoryPolicy::Local => (4, &[][..]),
    };
    let mut mask = vec![0_u64; nodes.iter().max().map_or(0, |node| *node as usize / 64 + 1)];
    for node in nodes {
        mask[*node as usize / 64] |= 1 << (node % 64);
    }
    // The kernel reads one bit less than specified.
    let (pointer, bits) = match mask.is_empty() {
        // Any other pointer is an error with MPOL_LOCAL.
        true => (std::ptr::null(), 0),
        false => (mask.as_ptr(), mask.len() * 64 + 1),
    };
    // SAFETY: `pointer` is null, or `mask` has as many bits as stated.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, pointer, bits) };
    if result == 0 {
        return Ok(());
    }
    Err(EngineError::last(Operation::SetMemoryPolicy))
}

pub(crate) fn pin(cpus: &[u32]) -> Result<(), EngineError> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu >= CpuSet::MAX_CPU as u32 {
            let max = CpuSet::MAX_CPU as u32 - 1;
            return Err(EngineError::new(Operation::UseCpu { cpu: *cpu, max }));
        }
        set.set(*cpu as usize);
    }
    let pinned = sched_setaffinity(None, &set);
    pinned.map_err(EngineError::by(Operation::SetAffinity(cpus.to_vec())))
}

/// Resource usage of the calling thread so far (getrusage(2), RUSAGE_THREAD).
pub(crate) fn usage() -> Usage {
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

pub(crate) fn usage_since(before: &Usage) -> Usage {
    let after = usage();
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

/// CPU time of the calling thread, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The running kernel's version as (major, minor); (0, 0) where it cannot be read.
pub(crate) fn kernel_version() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = text.split(['.', '-']).map(|p| p.trim().parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_policy_is_accepted() {
        // Only in this thread, which ends with the test.
        let result = std::thread::spawn(|| set_memory_policy(&MemoryPolicy::Local)).join();
        if let Err(error) = result.unwrap() {
            // A kernel without NUMA, or a container, has no such call.
            assert!([libc::ENOSYS, libc::EPERM].contains(&error.errno), "{error:?}");
        }
    }
}
