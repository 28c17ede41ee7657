//! CPU affinity and priorities of worker threads.

use crate::error::{EngineError, Operation};
use fathom_model::plan::{MemoryPolicy, Placement};

/// IOPRIO_WHO_PROCESS of linux/ioprio.h.
const IOPRIO_WHO_PROCESS: libc::c_int = 1;
const IOPRIO_CLASS_SHIFT: i32 = 13;

/// Applies `plan` to the calling thread.
///
/// # Errors
///
/// The setting that the kernel refused, and the privilege it needs.
pub(crate) fn apply(plan: &Placement) -> Result<(), EngineError> {
    // Minimal timer slack, so that sleeps of rate-limited workers end on time.
    // SAFETY: takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    if !plan.cpus.is_empty() {
        pin(&plan.cpus)?;
    }
    set_memory_policy(&plan.memory)?;
    if plan.nice != 0 {
        // SAFETY: takes no pointers; 0 is the calling thread.
        let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, plan.nice) };
        if result < 0 {
            return Err(EngineError::last(Operation::SetNice(plan.nice)));
        }
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

/// Memory that is locked while it lives (`lockmem`).
pub(crate) struct Locked {
    address: *mut libc::c_void,
    bytes: usize,
}

impl Locked {
    /// Locks `bytes` of new memory.
    ///
    /// # Errors
    ///
    /// What the kernel refused, and which limit to raise.
    pub fn new(bytes: u64) -> Result<Self, EngineError> {
        let mut this = Self { address: std::ptr::null_mut(), bytes: 0 };
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        if len == 0 {
            return Ok(this);
        }
        // SAFETY: new anonymous memory, which no one else uses; only what was mapped is locked.
        let locked = unsafe {
            let address = libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0);
            if address != libc::MAP_FAILED {
                (this.address, this.bytes) = (address, len);
            }
            address != libc::MAP_FAILED && libc::mlock(address, len) == 0
        };
        match locked {
            true => Ok(this),
            false => Err(EngineError::last(Operation::LockMemory(bytes))),
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the mapping of `new`, which nothing refers to; unmapping unlocks it.
            unsafe { libc::munmap(self.address, self.bytes) };
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

fn pin(cpus: &[u32]) -> Result<(), EngineError> {
    // SAFETY: cpu_set_t is a bit mask, for which all-zero bytes are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus {
        if *cpu >= libc::CPU_SETSIZE as u32 {
            let max = libc::CPU_SETSIZE as u32 - 1;
            return Err(EngineError::new(Operation::UseCpu { cpu: *cpu, max }));
        }
        // SAFETY: `cpu` is below CPU_SETSIZE, checked above.
        unsafe { libc::CPU_SET(*cpu as usize, &mut set) };
    }
    // SAFETY: `set` is a valid cpu_set_t; 0 is the calling thread.
    let result =
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    if result < 0 {
        return Err(EngineError::last(Operation::SetAffinity(cpus.to_vec())));
    }
    Ok(())
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
