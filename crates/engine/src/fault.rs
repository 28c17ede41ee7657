//! Survives bus errors on mapped files: a page that cannot be read from its device, or is beyond the end of a truncated
//! file.
//!
//! The kernel reports these with SIGBUS at the access. The handler puts an anonymous page in place of the one that is
//! not available, so that the copy ends, and notes that it did; the engine then reports the I/O as failed and maps the
//! file again.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize, compiler_fence};

/// The kernel's page size; 0 before [`install_handler`].
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// First address of what the thread is copying, and the one after the last.
    static FROM: AtomicUsize = const { AtomicUsize::new(0) };
    static TO: AtomicUsize = const { AtomicUsize::new(0) };
    /// Whether a page of it was replaced.
    static REPLACED: AtomicBool = const { AtomicBool::new(false) };
}

/// The action before ours, for bus errors that are not from mapped files.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// The kernel's page size.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: takes no pointers.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Installs the handler, once per process.
pub(crate) fn install_handler() -> io::Result<()> {
    let mut result = Ok(());
    PAGE_BYTES.store(page_bytes(), Relaxed);
    BEFORE.get_or_init(|| {
        // SAFETY: all-zero bytes are a valid sigaction with an empty mask.
        let (mut action, mut before): (libc::sigaction, libc::sigaction) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        action.sa_sigaction = on_bus_error
            as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void)
            as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both are valid places for an action, and the handler calls only what signal-safety(7) allows.
        if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) } != 0 {
            result = Err(io::Error::last_os_error());
        }
        before
    });
    result
}

/// Calls `copy`, which accesses `bytes` from `address` on; returns whether all of it was available.
pub(crate) fn caught(address: usize, bytes: usize, copy: impl FnOnce()) -> bool {
    FROM.with(|from| from.store(address, Relaxed));
    TO.with(|to| to.store(address + bytes, Relaxed));
    // The handler must not run between these stores and what they announce.
    compiler_fence(SeqCst);
    copy();
    compiler_fence(SeqCst);
    TO.with(|to| to.store(0, Relaxed));
    REPLACED.with(|replaced| !replaced.swap(false, Relaxed))
}

extern "C" fn on_bus_error(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes valid information, which for SIGBUS has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let range = FROM.with(|from| from.load(Relaxed))..TO.with(|to| to.load(Relaxed));
    if range.contains(&address) {
        let bytes = PAGE_BYTES.load(Relaxed);
        let page = address & !(bytes - 1);
        // SAFETY: the page is part of a mapping of the engine, whose contents no one refers to.
        let put = unsafe {
            libc::mmap(
                page as *mut libc::c_void,
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if put != libc::MAP_FAILED {
            REPLACED.with(|replaced| replaced.store(true, Relaxed));
            return;
        }
    }
    // The access is repeated, now under the earlier action.
    if let Some(before) = BEFORE.get() {
        // SAFETY: an action that the kernel returned.
        unsafe { libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut()) };
    }
}
