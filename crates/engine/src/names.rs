//! Operations on the names of files and directories, one system call each (fio's `filecreate` and its siblings).

use crate::error::{EngineError, Hint, Operation};
use crate::queue::{Op, Request};
use crate::source::{IoGenerator, Source};
use crate::sync_queue::{SyncEngine, last_error, outcome};
use fathom_model::Dir;
use fathom_model::plan::{FileService, JobPlan, NameOp, Names, StatCall};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub type Identity = (u64, u64);

pub struct WorkerNames {
    pub dirs: Vec<OwnedFd>,
    pub names: Vec<Name>,
    /// Removes a name of a file or (true) a directory if it refers to what was created, and nothing that took the name.
    pub remove: fn(BorrowedFd<'_>, &CStr, Identity, bool) -> io::Result<()>,
}

#[derive(Debug)]
pub struct Name {
    pub dir: usize,
    pub path: CString,
    pub name_at: usize,
    /// What was created for the job under this name, which is all that may be removed.
    pub made: Option<Identity>,
}

impl Name {
    fn name(&self) -> &CStr {
        // A path is valid from any of its bytes up to the terminating zero.
        CStr::from_bytes_until_nul(&self.path.to_bytes_with_nul()[self.name_at..])
            .unwrap_or_default()
    }
}

pub(crate) struct NameOps<'a> {
    plan: &'a Names,
    table: &'a WorkerNames,
    /// What this worker created and is to remove at the end.
    made: Vec<(u32, Identity)>,
    open: Option<(u32, OwnedFd)>,
    /// The name of the current request, if what it refers to may not be removed, and why.
    refused: Option<i32>,
    calls: u64,
}

impl<'a> NameOps<'a> {
    pub fn new(plan: &'a Names, table: &'a WorkerNames) -> Self {
        let room = if plan.unlink { table.names.len() } else { 0 };
        Self { plan, table, made: Vec::with_capacity(room), open: None, refused: None, calls: 0 }
    }

    fn place(&self, index: u32) -> (i32, &'a CStr) {
        let name = &self.table.names[index as usize];
        (self.table.dirs[name.dir].as_raw_fd(), name.name())
    }

    fn close(&mut self) {
        let Some((index, fd)) = self.open.take() else { return };
        self.calls += 1;
        if self.plan.unlink {
            self.calls += 1;
            self.made.extend(identity(fd.as_raw_fd(), c"").ok().map(|made| (index, made)));
        }
    }

    fn create_file(&mut self, index: u32) -> i32 {
        let (dir, name) = self.place(index);
        let flags =
            libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: `name` ends with a zero byte.
        let fd = unsafe { libc::openat(dir, name.as_ptr(), flags, 0o600) };
        if fd < 0 {
            return last_error();
        }
        // SAFETY: a descriptor just opened, which belongs to no one else.
        self.open = Some((index, unsafe { OwnedFd::from_raw_fd(fd) }));
        0
    }

    fn create_dir(&mut self, index: u32) -> i32 {
        let (dir, name) = self.place(index);
        // SAFETY: `name` ends with a zero byte.
        let result = outcome(unsafe { libc::mkdirat(dir, name.as_ptr(), 0o700) as isize });
        if result == 0 && self.plan.unlink {
            self.made.extend(identity(dir, name).ok().map(|made| (index, made)));
        }
        result
    }

    /// The error for `count` names that could not be removed, of which this is the first.
    fn kept(&self, index: u32, error: &io::Error, count: usize) -> EngineError {
        let path = self.table.names[index as usize].path.to_string_lossy();
        let failed = EngineError::new(Operation::RemoveNames { more: count - 1 }).on(path);
        match error.raw_os_error() {
            None => failed.errno(libc::ESTALE).hint(Hint::Explained(error.to_string())),
            Some(errno) => failed.errno(errno),
        }
    }

    fn stat(&self, index: u32) -> i32 {
        let path = self.table.names[index as usize].path.as_ptr();
        let (at, all) = (libc::AT_FDCWD, libc::STATX_BASIC_STATS | libc::STATX_BTIME);
        // SAFETY: `path` ends with a zero byte; all-zero bytes are a valid status, which the call fills.
        let result = unsafe {
            let mut status: libc::stat = std::mem::zeroed();
            match self.plan.stat {
                StatCall::Stat => libc::stat(path, &raw mut status),
                StatCall::Lstat => libc::lstat(path, &raw mut status),
                StatCall::Statx => {
                    let mut status: libc::statx = std::mem::zeroed();
                    libc::statx(at, path, 0, all, &raw mut status)
                }
            }
        };
        outcome(result as isize)
    }

    /// One system call, as it is measured: no other program uses the name, which is a temporary one.
    fn delete(&mut self, index: u32) -> i32 {
        let (dir, name) = self.place(index);
        let flags = if self.plan.op.is_on_dirs() { libc::AT_REMOVEDIR } else { 0 };
        // SAFETY: `name` ends with a zero byte.
        outcome(unsafe { libc::unlinkat(dir, name.as_ptr(), flags) as isize })
    }
}

/// What a name refers to, without following a link; an empty name is the open file itself.
fn identity(dir: i32, name: &CStr) -> Result<Identity, i32> {
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
    // SAFETY: `name` ends with a zero byte; all-zero bytes are a valid status, which the call fills.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        match libc::fstatat(dir, name.as_ptr(), &raw mut status, flags) {
            0 => Ok((status.st_dev, status.st_ino)),
            _ => Err(last_error()),
        }
    }
}

impl SyncEngine for NameOps<'_> {
    /// Outside the latency: closes the file before, and checks that a name still refers to what may be removed.
    fn prepare(&mut self, request: &Request) {
        self.close();
        if self.plan.op.deletes() {
            let (dir, name) = self.place(request.file);
            self.calls += 1;
            self.refused = match identity(dir, name) {
                Ok(now) if Some(now) == self.table.names[request.file as usize].made => None,
                Ok(_) => Some(-libc::ESTALE),
                Err(error) => Some(error),
            };
        }
    }

    fn execute(&mut self, _buffer: *mut libc::c_void, request: &Request) -> i32 {
        if let Some(refused) = self.refused.take() {
            return refused;
        }
        self.calls += 1;
        match self.plan.op {
            NameOp::CreateFile => self.create_file(request.file),
            NameOp::CreateDir => self.create_dir(request.file),
            NameOp::StatFile | NameOp::StatDir => self.stat(request.file),
            NameOp::DeleteFile | NameOp::DeleteDir => self.delete(request.file),
        }
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }

    /// Removes what the worker created, if requested, and nothing that has taken its name since.
    fn finish(&mut self) -> Result<(), EngineError> {
        self.close();
        let mut failed: Vec<(u32, io::Error)> = Vec::new();
        for (index, made) in std::mem::take(&mut self.made) {
            let name = &self.table.names[index as usize];
            let dir = self.table.dirs[name.dir].as_fd();
            let removed = (self.table.remove)(dir, name.name(), made, self.plan.op.is_on_dirs());
            failed.extend(removed.err().map(|error| (index, error)));
        }
        match failed.first() {
            Some((index, error)) => Err(self.kept(*index, error, failed.len())),
            None => Ok(()),
        }
    }
}

impl Drop for NameOps<'_> {
    fn drop(&mut self) {
        // Of a job that did not start: `finish` reports errors.
        let _ = self.finish();
    }
}

/// Each name once, then all of them again.
pub(crate) struct EachName {
    dir: Dir,
    order: Vec<u32>,
    count: u32,
    next: u32,
}

impl EachName {
    pub fn new(job: &JobPlan, count: usize) -> Self {
        let count = count.max(1) as u32;
        let mut order: Vec<u32> = Vec::new();
        if job.file_service == FileService::Random {
            order.extend(0..count);
            let mut random = Xoshiro256PlusPlus::seed_from_u64(job.access.seed);
            // Fisher and Yates.
            for last in (1..count as usize).rev() {
                order.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
            }
        }
        let dir = if job.access.mix.has(Dir::Write) { Dir::Write } else { Dir::Read };
        Self { dir, order, count, next: 0 }
    }
}

impl Source for EachName {
    /// Operations have no length.
    const FIXED: bool = false;
    const FULL: bool = true;
    type Batch<'a> = &'a mut Self;

    fn len(&self) -> u32 {
        1
    }

    fn batch(&mut self) -> &mut Self {
        self
    }
}

impl IoGenerator for EachName {
    fn next_direction(&mut self) -> Dir {
        self.dir
    }

    fn next_io(&mut self, dir: Dir, _max: u64) -> Request {
        let file = self.order.get(self.next as usize).copied().unwrap_or(self.next);
        self.next = (self.next + 1) % self.count;
        Request { op: Op::Io(dir), file, offset: 0, len: 0, buffer_offset: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::{Engine, Mix, Order};

    #[test]
    fn each_name_occurs_once_per_pass() {
        let order = Order::Sequential { skip: 0 };
        let mut job = JobPlan::new("t", Engine::Null, Mix::Only(Dir::Read), order);
        for service in [FileService::RoundRobin, FileService::Random] {
            job.file_service = service;
            let mut source = EachName::new(&job, 50);
            for _ in 0..2 {
                let mut drawn: Vec<u32> =
                    (0..50).map(|_| source.next_io(Dir::Read, u64::MAX).file).collect();
                assert_eq!(drawn.is_sorted(), service == FileService::RoundRobin);
                drawn.sort_unstable();
                assert!(drawn.into_iter().eq(0..50));
            }
        }
    }
}
