//! The ring buffer of an event, shared with the kernel (include/uapi/linux/perf_event.h, `struct
//! perf_event_mmap_page`).

use super::event::PerfEvent;
use perf_event_open_sys::bindings;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct PerfRing {
    page: NonNull<bindings::perf_event_mmap_page>,
    mapped: usize,
    /// Size of the data area, a power of two.
    size: usize,
    lost: u64,
    was_full: bool,
}

// SAFETY: this value owns the mapping, which is valid in any thread.
unsafe impl Send for PerfRing {}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PerfRecord<'a> {
    pub kind: u32,
    pub misc: u16,
    pub body: &'a [u8],
}

const HEADER: usize = size_of::<bindings::perf_event_header>();
/// More than any record takes, in bytes.
const RECORD_MAX: usize = 2048;

impl PerfRing {
    /// Maps the ring buffer of `event`, with at least `data` bytes for records.
    /// Fails with `EPERM` if the size exceeds kernel.perf_event_mlock_kb and RLIMIT_MEMLOCK.
    pub fn map(event: &PerfEvent, data: usize) -> io::Result<Self> {
        Self::of(event.as_fd(), data)
    }

    pub(super) fn of(fd: BorrowedFd<'_>, data: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let size = data.max(page).next_power_of_two();
        let mapped = page + size;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a free address range.
        let base = unsafe { mmap(ptr::null_mut(), mapped, prot, MapFlags::SHARED, fd, 0) }?;
        let page = NonNull::new(base.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { page, mapped, size, lost: 0, was_full: false })
    }

    /// Passes all available records to `each`, oldest first, and frees their space.
    pub fn drain(&mut self, mut each: impl FnMut(PerfRecord<'_>)) {
        self.drain_all(|record| {
            if !record.is_lost() {
                each(record)
            }
        });
    }

    /// The same, with those that say that others were lost in their place.
    pub fn drain_all(&mut self, mut each: impl FnMut(PerfRecord<'_>)) {
        // Acquire: pairs with the kernel's store of the head after writing the records.
        let head = self.head().load(Ordering::Acquire);
        let mut at = self.tail().load(Ordering::Relaxed);
        self.was_full = (head - at) as usize + RECORD_MAX > self.size;
        while at < head {
            let left = usize::try_from(head - at).unwrap_or(usize::MAX).min(self.size);
            let Some((kind, misc, size)) = self.header(at, left) else {
                // Invalid length: the following records cannot be located.
                self.lost += 1;
                at = head;
                break;
            };
            let bytes = self.bytes(at, size);
            let record = PerfRecord { kind, misc, body: &bytes[HEADER..] };
            let lost = match kind {
                bindings::PERF_RECORD_LOST => record.u64_at(8).unwrap_or(1),
                bindings::PERF_RECORD_LOST_SAMPLES => record.u64_at(0).unwrap_or(1),
                _ => 0,
            };
            each(record);
            drop(bytes);
            self.lost += lost;
            at += size as u64;
        }
        // Release: the records are read before the kernel may overwrite them.
        self.tail().store(at, Ordering::Release);
    }

    /// Whether there was hardly room for a record when it was last drained: some may have been lost, which the kernel only
    /// says before the next one.
    pub fn was_full(&self) -> bool {
        self.was_full
    }

    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    fn header(&self, at: u64, left: usize) -> Option<(u32, u16, usize)> {
        if left < HEADER {
            return None;
        }
        let record = self.bytes(at, HEADER);
        let word = PerfRecord { kind: 0, misc: 0, body: &record }.u64_at(0)?.to_ne_bytes();
        let kind = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        let misc = u16::from_ne_bytes([word[4], word[5]]);
        let size = usize::from(u16::from_ne_bytes([word[6], word[7]]));
        (HEADER..=left).contains(&size).then_some((kind, misc, size))
    }

    /// `length` bytes, at most the ring's size, between tail and head; copied if they wrap around.
    fn bytes(&self, at: u64, length: usize) -> Cow<'_, [u8]> {
        let start = at as usize & (self.size - 1);
        let first = length.min(self.size - start);
        // SAFETY: both parts lie in the mapping, and the kernel does not write between tail and
        // head.
        let (one, two) = unsafe {
            let data = self.page.as_ptr().cast::<u8>().add(self.mapped - self.size);
            (
                slice::from_raw_parts(data.add(start), first),
                slice::from_raw_parts(data, length - first),
            )
        };
        if two.is_empty() { Cow::Borrowed(one) } else { Cow::Owned([one, two].concat()) }
    }

    fn head(&self) -> &AtomicU64 {
        // SAFETY: aligned, mapped as long as `self` lives, and only read here.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.page.as_ptr()).data_head) }
    }

    fn tail(&self) -> &AtomicU64 {
        // SAFETY: as for the head; only this side writes it.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.page.as_ptr()).data_tail) }
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length; no slice of it outlives `self`. Unmapping a
        // valid mapping does not fail.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), self.mapped) };
    }
}

impl<'a> PerfRecord<'a> {
    /// Whether records were lost in its place.
    pub fn is_lost(&self) -> bool {
        matches!(self.kind, bindings::PERF_RECORD_LOST | bindings::PERF_RECORD_LOST_SAMPLES)
    }

    pub fn u64_at(&self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.body.get(at..)?.first_chunk()?))
    }

    pub fn u32_at(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.body.get(at..)?.first_chunk()?))
    }

    /// The NUL-terminated text at offset `at` of the body.
    pub fn text_at(&self, at: usize) -> Option<Cow<'a, str>> {
        let text = self.body.get(at..)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text))
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
