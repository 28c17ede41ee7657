//! A real ring, through the kernel's own interface.

use linux_raw_sys::io_uring as sys;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// A ring that only executes NOPs.
pub(crate) struct TestRing {
    pub fd: OwnedFd,
    params: sys::io_uring_params,
    queues: *mut u8,
    entries: *mut u8,
}

impl TestRing {
    /// A ring with `entries` SQ entries and twice as many CQ entries; an error if the kernel
    /// forbids io_uring.
    pub fn new(entries: u32, flags: u32) -> Result<Self, io::Error> {
        let mut params = sys::io_uring_params {
            flags,
            sq_thread_idle: 10_000,
            // SAFETY: the structure holds integers only, for which zero is valid.
            ..unsafe { std::mem::zeroed() }
        };
        // SAFETY: the call reads and writes `params`, which outlives it.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, entries, &raw mut params) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            let errno = error.raw_os_error();
            assert!(matches!(errno, Some(libc::EPERM | libc::ENOSYS | libc::ENOMEM)), "{error}");
            return Err(error);
        }
        // SAFETY: the call above returned this descriptor, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let completions = params.cq_off.cqes as usize
            + params.cq_entries as usize * size_of::<sys::io_uring_cqe>();
        let array = params.sq_off.array as usize + params.sq_entries as usize * 4;
        let queues = map(&fd, completions.max(array), sys::IORING_OFF_SQ_RING);
        let bytes = params.sq_entries as usize * size_of::<sys::io_uring_sqe>();
        let entries = map(&fd, bytes, sys::IORING_OFF_SQES);
        Ok(Self { fd, params, queues, entries })
    }

    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Queues `count` NOPs with these flags, at most as many as fit.
    pub fn push(&self, count: u32, flags: u8) {
        assert!(count <= self.params.sq_entries);
        let tail = self.word(self.params.sq_off.tail);
        let at = tail.load(Ordering::Relaxed);
        for index in 0..count {
            let place = at.wrapping_add(index) & (self.params.sq_entries - 1);
            // SAFETY: `place` is below the number of mapped entries of 64 bytes each; the kernel
            // does not read the entry before the tail is updated.
            unsafe {
                let entry = self.entries.add(place as usize * size_of::<sys::io_uring_sqe>());
                entry.write_bytes(0, size_of::<sys::io_uring_sqe>());
                entry.add(1).write(flags);
            }
            self.word(self.params.sq_off.array + place * 4).store(place, Ordering::Relaxed);
        }
        tail.store(at.wrapping_add(count), Ordering::Release);
    }

    /// Submits and waits for completions.
    pub fn enter(&self, submit: u32, wait_for: u32) {
        self.call(submit, wait_for, sys::IORING_ENTER_GETEVENTS);
    }

    /// Wakes the SQPOLL thread, which takes `submit` entries.
    pub fn wake(&self, submit: u32) {
        self.call(submit, 0, sys::IORING_ENTER_SQ_WAKEUP);
    }

    /// io_uring_enter(2).
    fn call(&self, submit: u32, wait_for: u32, flags: u32) {
        let none = std::ptr::null::<libc::c_void>();
        // SAFETY: the descriptor is a ring, and there are no pointer arguments.
        let done = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.number(),
                submit,
                wait_for,
                flags,
                none,
                0_usize,
            )
        };
        assert_eq!(done, i64::from(submit), "{}", io::Error::last_os_error());
    }

    /// Consumes the available completions.
    pub fn reap(&self) -> u32 {
        let tail = self.word(self.params.cq_off.tail).load(Ordering::Acquire);
        tail.wrapping_sub(self.word(self.params.cq_off.head).swap(tail, Ordering::Release))
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: the kernel returns aligned offsets of shared words within the mapping.
        unsafe { AtomicU32::from_ptr(self.queues.add(offset as usize).cast()) }
    }
}

fn map(fd: &OwnedFd, bytes: usize, offset: u32) -> *mut u8 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let raw = fd.as_raw_fd();
    let none = std::ptr::null_mut();
    // SAFETY: the descriptor is a ring, and the kernel chooses the address. The mapping lives until
    // the test process exits.
    let at =
        unsafe { libc::mmap(none, bytes, protection, libc::MAP_SHARED, raw, i64::from(offset)) };
    assert_ne!(at, libc::MAP_FAILED, "{}", io::Error::last_os_error());
    at.cast()
}
