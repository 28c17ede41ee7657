//! One synchronous system call per I/O.

use crate::files::{FileKind, OpenFile};
use crate::queue::{Op, Request};
use crate::sync_queue::{SyncEngine, outcome, without_data};
use crate::thread::kernel_version;
use fathom_model::Dir;
use fathom_model::plan::{IoFlags, Psync as Call};
use fathom_model::record::InEffect;

/// First kernel that ignores RWF_HIPRI on synchronous calls.
const IGNORES_HIPRI: (u32, u32) = (5, 19);

/// RWF_ATOMIC and RWF_DONTCACHE of linux/fs.h.
pub(crate) const RWF_ATOMIC: i32 = 0x40;
pub(crate) const RWF_DONTCACHE: i32 = 0x80;

pub(crate) struct Calls {
    call: Call,
    /// RWF_* flags of reads and of writes, for pvsync2.
    flags: (i32, i32),
    files: Vec<(i32, FileKind)>,
    calls: u64,
}

impl Calls {
    pub fn new(call: Call, flags: IoFlags, files: &[OpenFile]) -> Self {
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
            calls: 0,
        }
    }
}

impl SyncEngine for Calls {
    fn execute(&mut self, buffer: *mut libc::c_void, request: &Request) -> i32 {
        let (fd, kind) = self.files[request.file as usize];
        self.calls += 1;
        let result = match request.op {
            Op::Io(dir @ (Dir::Read | Dir::Write)) => {
                if self.call == Call::Seek {
                    self.calls += 1;
                }
                transfer(self.call, self.flags, dir, fd, buffer, request)
            }
            _ => without_data(fd, kind, request),
        };
        outcome(result)
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }

    fn granted(&self) -> InEffect {
        let asks = matches!(self.call, Call::VectoredFlags { hipri: true, .. });
        let polled = asks && kernel_version() < IGNORES_HIPRI;
        InEffect { polled, ..InEffect::default() }
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
