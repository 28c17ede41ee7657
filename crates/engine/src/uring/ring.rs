//! The mapped queues of a ring, and io_uring_enter(2). Hot: runs per batch or per I/O.

use linux_raw_sys::io_uring as sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, fence};

/// An SQ entry as 64-bit words; SQE128 takes two of them.
pub(crate) type Entry = [u64; 8];

pub(crate) struct Sqe<'a> {
    words: *mut Entry,
    has_extension: bool,
    ring: std::marker::PhantomData<&'a mut Ring>,
}

impl Sqe<'_> {
    #[inline]
    pub fn words(&mut self) -> &mut Entry {
        // SAFETY: an element of the mapped array, which the kernel does not read before the tail moves.
        unsafe { &mut *self.words }
    }

    /// The second half of the entry, with SQE128.
    pub fn extension(&mut self) -> &mut Entry {
        assert!(self.has_extension, "only rings with SQE128 have an extension");
        // SAFETY: with SQE128 each request has two elements of the array.
        unsafe { &mut *self.words.add(1) }
    }
}

/// Free entries, one after the other, by values of its own: stores to entries might alias the
/// ring's, which would then be read again for each.
pub(crate) struct Entries<'a> {
    first: *mut u8,
    /// The tail and the mask of the array, in bytes.
    at: u64,
    mask: u64,
    shift: u32,
    tail: &'a mut u64,
}

impl Entries<'_> {
    /// The next one, which belongs to the next turn. Callers keep to [`Ring::sq_space_left`].
    #[inline]
    pub fn next(&mut self) -> Sqe<'_> {
        // SAFETY: masked to the mapped array.
        let words = unsafe { self.first.add((self.at & self.mask) as usize).cast() };
        self.at += 1 << self.shift;
        Sqe { words, has_extension: self.shift > SHIFT, ring: std::marker::PhantomData }
    }
}

impl Drop for Entries<'_> {
    #[inline]
    fn drop(&mut self) {
        *self.tail = self.at;
    }
}

/// The second result of a completion, read only by those who need it.
pub(crate) struct Second<'a> {
    completion: *const [u64; 2],
    wide: bool,
    ring: std::marker::PhantomData<&'a Ring>,
}

impl Second<'_> {
    pub fn get(&self) -> u64 {
        assert!(self.wide, "only completions of rings with CQE32 have a second result");
        // SAFETY: with CQE32 each completion has two elements of the array, both filled in before the tail moved.
        unsafe { (*self.completion.add(1))[0] }
    }
}

/// Binary logarithm of an entry's 64 bytes.
const SHIFT: u32 = 6;

struct RingMemory {
    address: *mut u8,
    length: usize,
}

impl RingMemory {
    fn new(fd: &OwnedFd, length: usize, offset: u32) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: maps the ring's own memory at an address the kernel picks.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                flags,
                fd.as_raw_fd(),
                i64::from(offset),
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { address: address.cast(), length })
    }

    /// The address of what lies `offset` bytes into the mapping.
    fn at<T>(&self, offset: u32) -> *mut T {
        debug_assert!((offset as usize) < self.length);
        // SAFETY: the kernel's offsets lie within the mapping that it sized.
        unsafe { self.address.add(offset as usize).cast() }
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped.
        unsafe { libc::munmap(self.address.cast(), self.length) };
    }
}

/// A ring whose owner alone submits to it and reaps from it.
pub(crate) struct Ring {
    sq_head: *const AtomicU32,
    sq_tail: *const AtomicU32,
    sq_flags: *const AtomicU32,
    sq_mask: u32,
    sq_entries: u32,
    entries: *mut Entry,
    /// Binary logarithm of the bytes that a request takes.
    shift: u32,
    /// Our tail, in bytes, which saves the loop over requests a second count; the kernel sees it with
    /// [`Ring::publish`].
    tail: u64,
    cq_head: *const AtomicU32,
    cq_tail: *const AtomicU32,
    cq_mask: u32,
    completions: *const [u64; 2],
    enter_fd: i32,
    enter_flags: u32,
    pub flags: u32,
    pub features: u32,
    pub enters: u64,
    pub wakeups: u64,
    pub fd: OwnedFd,
    _queues: RingMemory,
    _completions: Option<RingMemory>,
    _entries: RingMemory,
}

impl Ring {
    pub fn map(fd: OwnedFd, params: &sys::io_uring_params) -> io::Result<Self> {
        let (sq, cq) = (&params.sq_off, &params.cq_off);
        let entry_shift = u32::from(params.flags & sys::IORING_SETUP_SQE128 != 0);
        let completion_shift = u32::from(params.flags & sys::IORING_SETUP_CQE32 != 0);
        let has_array = params.flags & sys::IORING_SETUP_NO_SQARRAY == 0;
        let sq_bytes =
            if has_array { sq.array as usize + params.sq_entries as usize * 4 } else { 0 };
        let cq_bytes = cq.cqes as usize + ((params.cq_entries as usize * 16) << completion_shift);
        let single = params.features & sys::IORING_FEAT_SINGLE_MMAP != 0;
        let first = if single { sq_bytes.max(cq_bytes) } else { sq_bytes };
        let queues = RingMemory::new(&fd, first, sys::IORING_OFF_SQ_RING)?;
        let separate = if single {
            None
        } else {
            Some(RingMemory::new(&fd, cq_bytes, sys::IORING_OFF_CQ_RING)?)
        };
        let entries = RingMemory::new(
            &fd,
            (params.sq_entries as usize * 64) << entry_shift,
            sys::IORING_OFF_SQES,
        )?;
        let completions = separate.as_ref().unwrap_or(&queues);
        if has_array {
            for index in 0..params.sq_entries {
                // Entry n of the queue is always request n: set once, never touched again.
                // SAFETY: the array of `sq_entries` numbers lies within the mapping.
                unsafe { queues.at::<u32>(sq.array).add(index as usize).write(index) };
            }
        }
        let enter_fd = fd.as_raw_fd();
        let defers = params.flags & sys::IORING_SETUP_DEFER_TASKRUN != 0;
        Ok(Self {
            sq_head: queues.at(sq.head),
            sq_tail: queues.at(sq.tail),
            sq_flags: queues.at(sq.flags),
            sq_mask: params.sq_entries - 1,
            sq_entries: params.sq_entries,
            entries: entries.at(0),
            shift: SHIFT + entry_shift,
            tail: 0,
            cq_head: completions.at(cq.head),
            cq_tail: completions.at(cq.tail),
            cq_mask: params.cq_entries - 1,
            completions: completions.at(cq.cqes),
            enter_fd,
            // Deferred work runs only in a call that requests events.
            enter_flags: if defers { sys::IORING_ENTER_GETEVENTS } else { 0 },
            flags: params.flags,
            features: params.features,
            enters: 0,
            wakeups: 0,
            fd,
            _queues: queues,
            _completions: separate,
            _entries: entries,
        })
    }

    /// Uses the registered index of the ring, which saves a descriptor lookup per call.
    pub fn use_registered(&mut self, index: i32) {
        self.enter_fd = index;
        self.enter_flags |= sys::IORING_ENTER_REGISTERED_RING;
    }

    #[inline]
    pub fn pending(&self) -> u32 {
        // SAFETY: points into the mapped ring, which lives as long as `self`.
        self.tail().wrapping_sub(unsafe { &*self.sq_head }.load(Acquire))
    }

    #[inline]
    pub fn sq_space_left(&self) -> u32 {
        self.sq_entries - self.pending()
    }

    /// The free entries (`wide` with SQE128).
    #[inline]
    pub fn entries(&mut self, wide: bool) -> Entries<'_> {
        debug_assert_eq!(wide, self.flags & sys::IORING_SETUP_SQE128 != 0);
        let shift = SHIFT + u32::from(wide);
        Entries {
            first: self.entries.cast(),
            at: self.tail,
            mask: u64::from(self.sq_mask) << shift,
            shift,
            tail: &mut self.tail,
        }
    }

    /// Our tail as the kernel counts it, modulo 2^32.
    #[inline]
    fn tail(&self) -> u32 {
        (self.tail >> self.shift) as u32
    }

    #[inline]
    pub fn size(&self) -> u32 {
        self.sq_entries
    }

    /// Shows the kernel all requests pushed so far.
    #[inline]
    fn publish(&self) {
        // SAFETY: points into the mapped ring.
        unsafe { &*self.sq_tail }.store(self.tail(), Release);
    }

    #[inline]
    pub fn ready(&self) -> u32 {
        // SAFETY: both point into the mapped ring; the head is ours alone.
        unsafe { (*self.cq_tail).load(Acquire).wrapping_sub((*self.cq_head).load(Relaxed)) }
    }

    /// Submits what was pushed and waits for `wait_for` completions; see [`crate::queue::Queue::submit_and_wait`].
    pub fn submit_and_wait(
        &mut self,
        wait_for: u32,
        timeout: Option<&libc::timespec>,
    ) -> io::Result<()> {
        self.publish();
        let mut flags = self.enter_flags;
        let mut submit = self.tail().wrapping_sub(self.head_relaxed());
        if self.flags & sys::IORING_SETUP_SQPOLL != 0 {
            submit = 0;
            // The SQPOLL thread sets the flag, then rereads the tail: both sides need a full fence.
            fence(SeqCst);
            // SAFETY: points into the mapped ring.
            if unsafe { &*self.sq_flags }.load(Relaxed) & sys::IORING_SQ_NEED_WAKEUP != 0 {
                flags |= sys::IORING_ENTER_SQ_WAKEUP;
                self.wakeups += 1;
            } else if self.ready() >= wait_for {
                return Ok(());
            }
        }
        if wait_for > 0 || self.flags & sys::IORING_SETUP_IOPOLL != 0 {
            flags |= sys::IORING_ENTER_GETEVENTS;
        }
        if submit == 0 && flags & (sys::IORING_ENTER_GETEVENTS | sys::IORING_ENTER_SQ_WAKEUP) == 0 {
            return Ok(());
        }
        match timeout {
            Some(limit) if self.features & sys::IORING_FEAT_EXT_ARG == 0 => {
                self.enter_then_poll(submit, wait_for, flags, limit)
            }
            _ => self.enter(submit, wait_for, flags, timeout),
        }
    }

    #[inline]
    fn head_relaxed(&self) -> u32 {
        // SAFETY: points into the mapped ring.
        unsafe { &*self.sq_head }.load(Relaxed)
    }

    fn enter(
        &mut self,
        submit: u32,
        wait_for: u32,
        flags: u32,
        timeout: Option<&libc::timespec>,
    ) -> io::Result<()> {
        self.enters += 1;
        let argument = timeout.map(|ts| sys::io_uring_getevents_arg {
            sigmask: 0,
            sigmask_sz: 0,
            min_wait_usec: 0,
            ts: std::ptr::from_ref(ts) as u64,
        });
        let (pointer, size, flags) = match &argument {
            Some(arg) => {
                (std::ptr::from_ref(arg), size_of_val(arg), flags | sys::IORING_ENTER_EXT_ARG)
            }
            None => (std::ptr::null(), 0, flags),
        };
        // SAFETY: the entries up to the published tail are filled in; `pointer` is null or a valid argument.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.enter_fd,
                submit,
                wait_for,
                flags,
                pointer,
                size,
            )
        };
        if result >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // Timeout, or the kernel needs completions to be reaped first: the caller reaps and retries.
            Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
            _ => Err(error),
        }
    }

    /// [`Ring::enter`] for kernels before 5.11, whose io_uring_enter(2) takes no timeout.
    #[cold]
    fn enter_then_poll(
        &mut self,
        submit: u32,
        wait_for: u32,
        flags: u32,
        limit: &libc::timespec,
    ) -> io::Result<()> {
        self.enter(submit, 0, flags, None)?;
        // A polled ring completes nothing outside io_uring_enter: the caller retries.
        if self.ready() >= wait_for || self.flags & sys::IORING_SETUP_IOPOLL != 0 {
            return Ok(());
        }
        self.enters += 1;
        let mut ring = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd and a timespec, both valid during the call; no signal mask.
        if unsafe { libc::ppoll(&raw mut ring, 1, limit, std::ptr::null()) } >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::EINTR) { Ok(()) } else { Err(error) }
    }

    pub fn outstanding(&self) -> u32 {
        // SAFETY: points into the mapped ring.
        self.tail().wrapping_sub(unsafe { &*self.cq_tail }.load(Acquire))
    }

    /// Reaps at most `max` completions (`wide` with CQE32); `each` gets user data and both results.
    #[inline]
    pub fn reap(&mut self, wide: bool, max: u32, mut each: impl FnMut(u64, i32, Second<'_>)) {
        let count = self.ready().min(max);
        // SAFETY: points into the mapped ring; the head is ours alone.
        let head_cell = unsafe { &*self.cq_head };
        let head = head_cell.load(Relaxed);
        let shift = 4 + u32::from(wide);
        let (first, mask) = (self.completions.cast::<u8>(), u64::from(self.cq_mask) << shift);
        let mut at = u64::from(head) << shift;
        let end = at + (u64::from(count) << shift);
        while at != end {
            // SAFETY: masked to the mapped array, and below the tail that `ready` acquired.
            let completion: *const [u64; 2] = unsafe { first.add((at & mask) as usize).cast() };
            // SAFETY: as above.
            let [user_data, result] = unsafe { *completion };
            let second = Second { completion, wide, ring: std::marker::PhantomData };
            each(user_data, result as u32 as i32, second);
            at += 1 << shift;
        }
        head_cell.store(head.wrapping_add(count), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::setup::{RingSetup, ring};
    use super::*;
    use std::time::{Duration, Instant};
    use sys::io_uring_op as Opcode;

    fn push(ring: &mut Ring, opcode: Opcode, words: [(usize, u64); 2]) {
        let mut entries = ring.entries(false);
        let mut sqe = entries.next();
        let entry = sqe.words();
        *entry = [0; 8];
        entry[0] = opcode as u64;
        words.into_iter().for_each(|(at, word)| entry[at] = word);
    }

    /// A ring as before Linux 5.11: without any later flag.
    fn old_ring() -> Ring {
        let wanted = RingSetup { entries: 4, required: 0, optional: 0, sq_cpu: 0, sq_idle_ms: 0 };
        let mut ring = ring(&wanted).unwrap();
        ring.features &= !sys::IORING_FEAT_EXT_ARG;
        ring
    }

    #[test]
    fn a_wait_ends_in_time_without_ext_arg() {
        let mut ring = old_ring();
        let short = libc::timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let began = Instant::now();
        ring.submit_and_wait(1, Some(&short)).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(20));
        assert_eq!((ring.ready(), ring.enters), (0, 2));
    }

    #[test]
    fn a_completion_ends_a_wait_without_ext_arg() {
        let mut ring = old_ring();
        let after = libc::timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let limit = libc::timespec { tv_sec: 20, tv_nsec: 0 };
        let words = [(2, std::ptr::from_ref(&after) as u64), (3, 1)];
        push(&mut ring, Opcode::IORING_OP_TIMEOUT, words);
        assert_eq!(ring.outstanding(), 1);
        let began = Instant::now();
        while ring.ready() == 0 {
            ring.submit_and_wait(1, Some(&limit)).unwrap();
        }
        let mut results = Vec::new();
        ring.reap(false, 4, |_, result, _| results.push(result));
        assert_eq!(results, [-libc::ETIME]);
        // Returns at once for available completions.
        push(&mut ring, Opcode::IORING_OP_NOP, [(4, 1), (5, 0)]);
        while ring.ready() == 0 {
            ring.submit_and_wait(1, Some(&limit)).unwrap();
        }
        assert!(began.elapsed() < Duration::from_secs(10));
        assert_eq!((ring.outstanding(), ring.ready()), (0, 1));
    }
}
