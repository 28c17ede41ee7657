//! Transfers through a pipe: splice(2) between target and pipe, vmsplice(2) between pipe and buffer.

use crate::error::{EngineError, Operation};
use crate::files::{FileKind, OpenFile};
use crate::queue::{Op, Request};
use crate::sync_queue::{SyncEngine, last_error, outcome, without_data};
use fathom_model::Dir;
use std::io::{PipeReader, PipeWriter};
use std::os::fd::AsRawFd;

/// Bytes moved at a time: the capacity of a pipe by default (pipe(7)).
const PART_BYTES: usize = 64 << 10;

pub(crate) struct Splice {
    files: Vec<(i32, FileKind)>,
    from: PipeReader,
    into: PipeWriter,
    /// Whether the pipe holds bytes of a failed request that could not be removed.
    is_dirty: bool,
    calls: u64,
}

impl Splice {
    pub fn new(files: &[OpenFile]) -> Result<Self, EngineError> {
        let ends = std::io::pipe();
        let (from, into) = ends.map_err(|e| EngineError::by_kernel(Operation::CreatePipe, &e))?;
        let files = files.iter().map(|file| (file.raw(), file.kind)).collect();
        Ok(Self { files, from, into, is_dirty: false, calls: 0 })
    }

    fn read(&mut self, fd: i32, buffer: *mut u8, request: &Request) -> i32 {
        let (len, mut moved) = (request.len as usize, 0);
        while moved < len {
            let mut offset = (request.offset + moved as u64) as i64;
            let part = PART_BYTES.min(len - moved);
            self.calls += 1;
            // SAFETY: `offset` is a valid place for an offset; no other memory is accessed.
            let filled = unsafe {
                let into = self.into.as_raw_fd();
                libc::splice(fd, &raw mut offset, into, std::ptr::null_mut(), part, 0)
            };
            match filled {
                0 => return moved as i32,
                n if n < 0 => return so_far(moved, last_error()),
                n => {
                    // SAFETY: the pipe holds no more than is left of the buffer.
                    let error = self.take(unsafe { buffer.add(moved) }, n as usize);
                    if error != 0 {
                        return so_far(moved, error);
                    }
                    moved += n as usize;
                }
            }
        }
        moved as i32
    }

    /// Moves `len` bytes from the pipe to `buffer`; returns 0, or `-errno`.
    fn take(&mut self, buffer: *mut u8, len: usize) -> i32 {
        let mut taken = 0;
        while taken < len {
            // SAFETY: `taken` is less than the buffer's length.
            let start = unsafe { buffer.add(taken) };
            let vector = libc::iovec { iov_base: start.cast(), iov_len: len - taken };
            self.calls += 1;
            // SAFETY: `vector` names memory of the slot.
            match unsafe { libc::vmsplice(self.from.as_raw_fd(), &raw const vector, 1, 0) } {
                n if n > 0 => taken += n as usize,
                n => {
                    let error = if n < 0 { last_error() } else { -libc::EIO };
                    self.empty(start, len - taken);
                    return error;
                }
            }
        }
        0
    }

    fn write(&mut self, fd: i32, buffer: *mut u8, request: &Request) -> i32 {
        let (len, mut moved) = (request.len as usize, 0);
        while moved < len {
            // SAFETY: `moved` is less than the buffer's length.
            let start = unsafe { buffer.add(moved) };
            let part = PART_BYTES.min(len - moved);
            let vector = libc::iovec { iov_base: start.cast(), iov_len: part };
            self.calls += 1;
            let into = self.into.as_raw_fd();
            // The pipe may hold less than the part, and nothing empties it meanwhile.
            let flags = libc::SPLICE_F_NONBLOCK;
            // SAFETY: `vector` names memory of the slot. The pipe refers to it until it is empty again, which is before
            // this function returns.
            let filled = unsafe { libc::vmsplice(into, &raw const vector, 1, flags) };
            if filled <= 0 {
                return so_far(moved, if filled < 0 { last_error() } else { -libc::EIO });
            }
            let (put, error) = self.put(fd, start, request.offset + moved as u64, filled as usize);
            moved += put;
            if error != 0 {
                return so_far(moved, error);
            }
        }
        moved as i32
    }

    /// Moves the `len` bytes in the pipe, which are those at `start`, to the target; returns how many it wrote, and 0 or
    /// `-errno`.
    fn put(&mut self, fd: i32, start: *mut u8, offset: u64, len: usize) -> (usize, i32) {
        let mut put = 0;
        while put < len {
            let mut at = (offset + put as u64) as i64;
            self.calls += 1;
            // SAFETY: `at` is a valid place for an offset; no other memory is accessed.
            let moved = unsafe {
                let from = self.from.as_raw_fd();
                libc::splice(from, std::ptr::null_mut(), fd, &raw mut at, len - put, 0)
            };
            if moved <= 0 {
                let error = if moved < 0 { last_error() } else { -libc::ENOSPC };
                // SAFETY: `put` is less than `len`.
                self.empty(unsafe { start.add(put) }, len - put);
                return (put, error);
            }
            put += moved as usize;
        }
        (put, 0)
    }

    /// Removes the last `len` bytes from the pipe after a failure; they go to `buffer`, where those of a write came from.
    #[cold]
    fn empty(&mut self, buffer: *mut u8, len: usize) {
        let mut taken = 0;
        while taken < len {
            self.calls += 1;
            // SAFETY: the rest of the slot's memory has room for what is left in the pipe.
            let read =
                unsafe { libc::read(self.from.as_raw_fd(), buffer.add(taken).cast(), len - taken) };
            if read <= 0 {
                self.is_dirty = true;
                return;
            }
            taken += read as usize;
        }
    }
}

/// The result of a request that failed after `moved` bytes.
fn so_far(moved: usize, error: i32) -> i32 {
    if moved > 0 { moved as i32 } else { error }
}

impl SyncEngine for Splice {
    fn execute(&mut self, buffer: *mut libc::c_void, request: &Request) -> i32 {
        let (fd, kind) = self.files[request.file as usize];
        match request.op {
            Op::Io(Dir::Read | Dir::Write) if self.is_dirty => -libc::EPIPE,
            Op::Io(Dir::Read) => self.read(fd, buffer.cast(), request),
            Op::Io(Dir::Write) => self.write(fd, buffer.cast(), request),
            _ => {
                self.calls += 1;
                outcome(without_data(fd, kind, request))
            }
        }
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }
}
