//! Hints to the kernel about a job's files, given before its first I/O.

use crate::files::{FileKind, OpenFile};
use crate::queue::Mapping;
use crate::refusal::Refusal;
use fathom_model::Dir;
use fathom_model::plan::{Advice, JobPlan, WriteLife};
use std::io;

/// F_SET_RW_HINT of linux/fcntl.h.
const F_SET_RW_HINT: libc::c_int = 1024 + 12;
/// BLKFLSBUF of linux/fs.h: `_IO(0x12, 97)`.
const BLKFLSBUF: libc::c_ulong = 0x1261;

/// Applies `fadvise_hint`, `write_hint` and `invalidate` of `job` to its files.
///
/// # Errors
///
/// The hint that the kernel refused.
pub(crate) fn apply(job: &JobPlan, files: &[OpenFile]) -> Result<(), Refusal> {
    let cached = files.iter().filter(|file| !job.direct && !is_passthrough(file));
    for file in cached {
        if job.invalidate {
            invalidate(file);
        }
        advise(file, job.advice)?;
    }
    let hinted = files.iter().filter(|file| !is_passthrough(file));
    match job.write_life.filter(|_| job.access.mix.has(Dir::Write)) {
        Some(life) => hinted.into_iter().try_for_each(|file| set_life(file, life)),
        None => Ok(()),
    }
}

fn is_passthrough(file: &OpenFile) -> bool {
    matches!(file.kind, FileKind::NvmeGeneric { .. })
}

/// Drops a file's pages from the page cache; as in fio, dirty pages of regular files stay.
pub(crate) fn invalidate(file: &OpenFile) {
    if file.kind == FileKind::Block {
        // SAFETY: BLKFLSBUF takes no argument. Without privilege it fails, and the advice below remains.
        unsafe { libc::ioctl(file.raw(), BLKFLSBUF, 0) };
    }
    drop_pages(file.raw());
}

/// Drops the clean pages of a file from the page cache.
pub(crate) fn drop_pages(fd: i32) {
    // SAFETY: takes no pointers. Only an invalid descriptor makes it fail.
    unsafe { libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED) };
}

/// Unmaps the pages of a mapping; the next access maps them again.
pub(crate) fn unmap_pages(mapping: Mapping) {
    // SAFETY: the queue keeps the mapping, whose pages hold nothing that the file does not.
    unsafe { libc::madvise(mapping.address as *mut _, mapping.bytes, libc::MADV_DONTNEED) };
}

fn advise(file: &OpenFile, advice: Advice) -> Result<(), Refusal> {
    let value = match advice {
        Advice::None => return Ok(()),
        Advice::Sequential => libc::POSIX_FADV_SEQUENTIAL,
        Advice::Random => libc::POSIX_FADV_RANDOM,
        Advice::NoReuse => libc::POSIX_FADV_NOREUSE,
    };
    // SAFETY: takes no pointers.
    match unsafe { libc::posix_fadvise(file.raw(), 0, 0, value) } {
        0 => Ok(()),
        errno => {
            let error = io::Error::from_raw_os_error(errno);
            let message =
                format!("cannot set fadvise_hint on {}: {error}; use fadvise_hint=0", file.path);
            Err(Refusal::by_kernel(&error, message))
        }
    }
}

fn set_life(file: &OpenFile, life: WriteLife) -> Result<(), Refusal> {
    // RWH_WRITE_LIFE_* of linux/fcntl.h.
    let value: u64 = match life {
        WriteLife::None => 1,
        WriteLife::Short => 2,
        WriteLife::Medium => 3,
        WriteLife::Long => 4,
        WriteLife::Extreme => 5,
    };
    // SAFETY: F_SET_RW_HINT reads one number.
    if unsafe { libc::fcntl(file.raw(), F_SET_RW_HINT, &raw const value) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    let message = format!("cannot set write_hint on {}: {error}; remove it", file.path);
    Err(Refusal::by_kernel(&error, message))
}
