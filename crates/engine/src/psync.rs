//! One synchronous system call per I/O.

use crate::buffers::Slab;
use crate::files::{FileKind, OpenFile};
use crate::queue::{Op, Push, Queue, Request};
use crate::token::Token;
use crate::usage::kernel_version;
use fathom_model::Dir;
use fathom_model::plan::{IoFlags, Psync as Call};
use fathom_model::record::Granted;
use std::io;

/// BLKDISCARD of linux/fs.h: `_IO(0x12, 119)`.
const BLKDISCARD: libc::c_ulong = 0x1277;
/// First kernel that ignores RWF_HIPRI on synchronous calls.
const IGNORES_HIPRI: (u32, u32) = (5, 19);

/// RWF_ATOMIC and RWF_DONTCACHE of linux/fs.h.
pub(crate) const RWF_ATOMIC: i32 = 0x40;
pub(crate) const RWF_DONTCACHE: i32 = 0x80;

/// A queue that executes its requests one by one, in [`Queue::turn`].
pub(crate) struct SyncQueue {
    call: Call,
    /// RWF_* flags of reads and of writes, for pvsync2.
    flags: (i32, i32),
    files: Vec<(i32, FileKind)>,
    base: u64,
    slot_bytes: u64,
    pushed: Vec<(Token, Request)>,
    done: Vec<(Token, i32)>,
    calls: u64,
}

impl SyncQueue {
    pub fn new(call: Call, flags: IoFlags, files: &[OpenFile], slab: &Slab) -> Self {
        let call_flags = match call {
            Call::VectoredFlags { hipri, nowait } => {
                (if hipri { libc::RWF_HIPRI } else { 0 })
                    | if nowait { libc::RWF_NOWAIT } else { 0 }
            }
            _ => 0,
        };
        let (reads, writes) = rw_flags(flags);
        Self {
            call,
            flags: (call_flags | reads, call_flags | writes),
            files: files.iter().map(|f| (f.raw(), f.kind)).collect(),
            base: slab.address(0),
            slot_bytes: slab.slot_bytes() as u64,
            pushed: Vec::with_capacity(slab.slots() as usize),
            done: Vec::with_capacity(slab.slots() as usize),
            calls: 0,
        }
    }

    fn perform(&mut self, slot: u32, request: &Request) -> i32 {
        let (fd, kind) = self.files[request.file as usize];
        self.calls += 1;
        let buffer = (self.base
            + u64::from(slot) * self.slot_bytes
            + u64::from(request.buffer_offset)) as *mut libc::c_void;
        // SAFETY (all calls below): `buffer` names `len` bytes of the slot's own memory.
        let result = match request.op {
            Op::Io(Dir::Trim) => discard(fd, kind, request),
            Op::Io(dir) => {
                if self.call == Call::Seek {
                    self.calls += 1;
                }
                transfer(self.call, self.flags, dir, fd, buffer, request)
            }
            // SAFETY: takes no pointers.
            Op::Fsync => unsafe { libc::fsync(fd) as isize },
            // SAFETY: takes no pointers.
            Op::Fdatasync => unsafe { libc::fdatasync(fd) as isize },
        };
        if result >= 0 {
            result as i32
        } else {
            -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
        }
    }
}

/// RWF_* flags of reads and of writes.
pub(crate) fn rw_flags(flags: IoFlags) -> (i32, i32) {
    let both = if flags.uncached { RWF_DONTCACHE } else { 0 };
    (both, both | if flags.atomic { RWF_ATOMIC } else { 0 })
}

fn transfer(
    call: Call,
    flags: (i32, i32),
    dir: Dir,
    fd: i32,
    buffer: *mut libc::c_void,
    request: &Request,
) -> isize {
    let (len, offset) = (request.len as usize, request.offset as i64);
    let vector = libc::iovec { iov_base: buffer, iov_len: len };
    let reads = dir == Dir::Read;
    // SAFETY: `buffer` names `len` bytes of the slot's own memory; `vector` names the same; the others take no pointers.
    unsafe {
        match call {
            // As if they had transferred the block.
            Call::Allocate | Call::Truncate if reads => {
                *libc::__errno_location() = libc::EINVAL;
                -1
            }
            Call::Allocate if libc::fallocate(fd, 0, offset, len as i64) == 0 => len as isize,
            Call::Truncate if libc::ftruncate(fd, offset) == 0 => len as isize,
            Call::Allocate | Call::Truncate => -1,
            Call::Plain if reads => libc::pread(fd, buffer, len, offset),
            Call::Plain => libc::pwrite(fd, buffer, len, offset),
            Call::Seek if libc::lseek(fd, offset, libc::SEEK_SET) < 0 => -1,
            Call::Seek if reads => libc::read(fd, buffer, len),
            Call::Seek => libc::write(fd, buffer, len),
            Call::Vectored if reads => libc::preadv(fd, &raw const vector, 1, offset),
            Call::Vectored => libc::pwritev(fd, &raw const vector, 1, offset),
            Call::VectoredFlags { .. } if reads => {
                libc::preadv2(fd, &raw const vector, 1, offset, flags.0)
            }
            Call::VectoredFlags { .. } => libc::pwritev2(fd, &raw const vector, 1, offset, flags.1),
        }
    }
}

fn discard(fd: i32, kind: FileKind, request: &Request) -> isize {
    let range = [request.offset, u64::from(request.len)];
    // SAFETY: BLKDISCARD reads two numbers; fallocate takes no pointers.
    unsafe {
        if kind == FileKind::Block {
            libc::ioctl(fd, BLKDISCARD, range.as_ptr()) as isize
        } else {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            libc::fallocate(fd, mode, request.offset as i64, i64::from(request.len)) as isize
        }
    }
}

impl Push for SyncQueue {
    fn push(&mut self, token: Token, request: &Request) {
        self.pushed.push((token, *request));
    }
}

impl Queue for SyncQueue {
    type Batch<'a> = &'a mut Self;

    fn room(&self) -> u32 {
        (self.pushed.capacity() - self.pushed.len()) as u32
    }

    fn batch(&mut self) -> &mut Self {
        self
    }

    fn turn(&mut self, _wait_for: u32, _deadline_ns: Option<u64>) -> io::Result<()> {
        for index in 0..self.pushed.len() {
            let (token, request) = self.pushed[index];
            let result = self.perform(token.slot(), &request);
            self.done.push((token, result));
        }
        self.pushed.clear();
        Ok(())
    }

    fn reap(&mut self, max: u32, mut each: impl FnMut(Token, i32)) {
        let count = self.done.len().min(max as usize);
        self.done.drain(..count).for_each(|(token, result)| each(token, result));
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }

    fn granted(&self) -> Granted {
        let asks = matches!(self.call, Call::VectoredFlags { hipri: true, .. });
        let polled = asks && kernel_version() < IGNORES_HIPRI;
        Granted { polled, ..Granted::default() }
    }
}
