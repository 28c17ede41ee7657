//! The buffer that an event's records come through, shared with the kernel
//! (include/uapi/linux/perf_event.h, `struct perf_event_mmap_page`).

use super::{Event, bindings};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

/// A ring of records. Dropping it unmaps it.
#[derive(Debug)]
pub(crate) struct Ring {
    page: NonNull<bindings::perf_event_mmap_page>,
    mapped: usize,
    /// A power of two.
    size: usize,
    lost: u64,
}

// SAFETY: the mapping belongs to this value alone and is good in any thread.
unsafe impl Send for Ring {}

/// One record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    /// `PERF_RECORD_SAMPLE` and the like.
    pub kind: u32,
    /// `PERF_RECORD_MISC_…`.
    pub misc: u16,
    /// What follows the header.
    pub body: &'a [u8],
}

const HEADER: usize = size_of::<bindings::perf_event_header>();

impl Ring {
    /// Maps the ring of `event`, with at least `data` bytes for records.
    ///
    /// # Errors
    /// `EPERM` where kernel.perf_event_mlock_kb and RLIMIT_MEMLOCK do not allow that much.
    pub fn map(event: &Event, data: usize) -> io::Result<Self> {
        Self::of(event.as_fd(), data)
    }

    fn of(fd: BorrowedFd<'_>, data: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let size = data.max(page).next_power_of_two();
        let mapped = page + size;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a free place; nothing else knows of it.
        let base = unsafe { mmap(ptr::null_mut(), mapped, prot, MapFlags::SHARED, fd, 0) }?;
        let page = NonNull::new(base.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { page, mapped, size, lost: 0 })
    }

    /// Hands all records that are there to `each`, oldest first, and frees their place.
    pub fn drain(&mut self, mut each: impl FnMut(Record<'_>)) {
        // Acquire: what the kernel wrote before it moved the head is seen.
        let head = self.head().load(Ordering::Acquire);
        let mut at = self.tail().load(Ordering::Relaxed);
        while at < head {
            let left = usize::try_from(head - at).unwrap_or(usize::MAX).min(self.size);
            let Some((kind, misc, size)) = self.header(at, left) else {
                // The lengths lead nowhere: no record after this one can be found.
                self.lost += 1;
                at = head;
                break;
            };
            let bytes = self.bytes(at, size);
            let record = Record { kind, misc, body: &bytes[HEADER..] };
            match kind {
                bindings::PERF_RECORD_LOST => self.lost += record.u64_at(8).unwrap_or(1),
                bindings::PERF_RECORD_LOST_SAMPLES => self.lost += record.u64_at(0).unwrap_or(1),
                _ => each(record),
            }
            at += size as u64;
        }
        // Release: the records have been read before the kernel may write over them.
        self.tail().store(at, Ordering::Release);
    }

    /// Records lost since this was last asked, as far as they were told while draining.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    fn header(&self, at: u64, left: usize) -> Option<(u32, u16, usize)> {
        if left < HEADER {
            return None;
        }
        let record = self.bytes(at, HEADER);
        let word = Record { kind: 0, misc: 0, body: &record }.u64_at(0)?.to_ne_bytes();
        let kind = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        let misc = u16::from_ne_bytes([word[4], word[5]]);
        let size = usize::from(u16::from_ne_bytes([word[6], word[7]]));
        (HEADER..=left).contains(&size).then_some((kind, misc, size))
    }

    /// `length` bytes, at most the ring's size, between tail and head; copied where they wrap around.
    fn bytes(&self, at: u64, length: usize) -> Cow<'_, [u8]> {
        let start = at as usize & (self.size - 1);
        let first = length.min(self.size - start);
        // SAFETY: both parts lie in the mapping, and the kernel writes nothing between tail and head.
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

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`, with this length, and no slice of it outlives `self`. Unmapping what is
        // mapped does not fail.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), self.mapped) };
    }
}

impl<'a> Record<'a> {
    /// The 64-bit number `at` bytes into the body.
    pub fn u64_at(&self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.body.get(at..)?.first_chunk()?))
    }

    /// The 32-bit number `at` bytes into the body.
    pub fn u32_at(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.body.get(at..)?.first_chunk()?))
    }

    /// The text `at` bytes into the body, up to a zero.
    pub fn text_at(&self, at: usize) -> Option<Cow<'a, str>> {
        let text = self.body.get(at..)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text))
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
