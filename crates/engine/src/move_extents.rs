//! Exchanges blocks of files on ext4 with those of another, without changing what the files hold (fio's `e4defrag`).

use crate::error::{EngineError, Operation};
use crate::files::{FileKind, OpenFile};
use crate::queue::{Op, Request};
use crate::sync_queue::{SyncEngine, last_error, outcome, without_data};
use fathom_model::Dir;
use fathom_model::plan::{Engine, JobPlan};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Of fs/ext4/ext4.h: `_IOWR('f', 15, struct move_extent)`.
const EXT4_IOC_MOVE_EXT: libc::c_ulong = 0xc028_660f;

/// `struct move_extent`; places and lengths are in blocks.
#[repr(C)]
struct RawMove {
    reserved: u32,
    donor: u32,
    from: u64,
    donor_from: u64,
    len: u64,
    moved: u64,
}

pub(crate) struct MoveExtents {
    files: Vec<(i32, FileKind)>,
    donor: RawFd,
    /// Bytes of a block of the file system.
    block: u64,
    in_place: bool,
    calls: u64,
}

impl MoveExtents {
    pub fn new(
        job: &JobPlan,
        files: &[OpenFile],
        donor: Option<&OwnedFd>,
    ) -> Result<Self, EngineError> {
        let (Engine::MoveExtents(plan), Some(fd)) = (&job.engine, donor) else {
            return Err(EngineError::new(Operation::AllocateDonor));
        };
        let failed =
            |error| EngineError::by(Operation::AllocateDonor)(error).on(plan.path.as_str());
        let block = rustix::fs::fstat(fd).map_err(failed)?.st_blksize as u64;
        if !plan.in_place {
            let start = job.regions.iter().map(|region| region.start).min().unwrap_or(0);
            let end = job.regions.iter().map(|region| region.start + region.len).max();
            let len = end.unwrap_or(start) - start;
            let flags = rustix::fs::FallocateFlags::empty();
            rustix::fs::fallocate(fd, flags, start, len).map_err(failed)?;
        }
        Ok(Self {
            files: files.iter().map(|file| (file.raw(), file.kind)).collect(),
            donor: fd.as_raw_fd(),
            block: block.max(1),
            in_place: plan.in_place,
            calls: 0,
        })
    }

    fn exchange(&mut self, fd: RawFd, request: &Request) -> i32 {
        let from = request.offset / self.block;
        let len = (request.offset + u64::from(request.len)).div_ceil(self.block) - from;
        if self.in_place && !self.allocate(0, from, len) {
            return last_error();
        }
        let mut range = RawMove {
            reserved: 0,
            donor: self.donor as u32,
            from,
            donor_from: from,
            len,
            moved: 0,
        };
        self.calls += 1;
        // SAFETY: the kernel reads and writes the structure.
        let result = unsafe { libc::ioctl(fd, EXT4_IOC_MOVE_EXT, &raw mut range) };
        let moved = range.moved.saturating_mul(self.block).min(u64::from(request.len)) as i32;
        let mut result = match (result, moved) {
            (0, 1..) => moved,
            // As in fio: the range has no blocks.
            (0, _) => -libc::EINVAL,
            _ => last_error(),
        };
        let free = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        if self.in_place && !self.allocate(free, from, len) && result >= 0 {
            result = last_error();
        }
        result
    }

    /// fallocate(2) of blocks of the donor; whether it succeeded.
    fn allocate(&mut self, mode: i32, from: u64, len: u64) -> bool {
        let (offset, bytes) = ((from * self.block) as i64, (len * self.block) as i64);
        self.calls += 1;
        // SAFETY: takes no pointers.
        unsafe { libc::fallocate(self.donor, mode, offset, bytes) == 0 }
    }
}

impl SyncEngine for MoveExtents {
    fn execute(&mut self, _buffer: *mut libc::c_void, request: &Request) -> i32 {
        let (fd, kind) = self.files[request.file as usize];
        match request.op {
            Op::Io(Dir::Write) => self.exchange(fd, request),
            Op::Io(_) => -libc::EINVAL,
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
