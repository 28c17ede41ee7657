//! Files of /proc/PID/task/TID, kept open because opening a file costs more than reading it.

use rustix::fs::{Mode, OFlags, RawDir, openat, readlinkat_raw};
use rustix::io::{Errno, pread};
use rustix::process::{Resource, getrlimit};
use std::fmt::Arguments;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Descriptors left for the rest of the program if the limit is low.
const RESERVE: u64 = 256;
/// Sufficient for every path opened here.
const PATH_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) enum TaskFile {
    #[default]
    Closed,
    Open(OwnedFd),
    Denied,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadError {
    Gone,
    Denied,
}

/// The mount point of procfs, and the number of files that may stay open.
#[derive(Debug)]
pub(super) struct Proc {
    root: OwnedFd,
    open: usize,
    open_max: usize,
    entries: Box<[MaybeUninit<u8>]>,
}

impl Proc {
    /// The calling thread's ID in this procfs's PID namespace.
    pub fn own_thread(&self, buffer: &mut [u8]) -> Option<i32> {
        let target = self.link(format_args!("thread-self"), buffer)?;
        super::parse::number(target.rsplit(|&b| b == b'/').next()?)
    }

    pub fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty()).map_err(|error| {
            io::Error::new(io::Error::from(error).kind(), format!("{}: {error}", root.display()))
        })?;
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        // The rest of the program needs descriptors, too.
        let open_max = limit.saturating_sub(RESERVE).min(limit / 2);
        let entries = vec![MaybeUninit::uninit(); 32 << 10].into();
        Ok(Self {
            root,
            open: 0,
            open_max: usize::try_from(open_max).unwrap_or(usize::MAX),
            entries,
        })
    }

    /// Limits the number of files kept open; all others are opened for each read.
    #[cfg(test)]
    pub fn set_open_max(&mut self, files: usize) {
        self.open_max = files;
    }

    /// Reads `file`, located at `path`, from its beginning.
    pub fn read<'b>(
        &mut self,
        file: &mut TaskFile,
        path: Arguments<'_>,
        buffer: &'b mut [u8],
    ) -> Result<&'b [u8], ReadError> {
        if let TaskFile::Closed = file {
            match self.open_file(path) {
                Ok(fd) if self.open < self.open_max => {
                    self.open += 1;
                    *file = TaskFile::Open(fd);
                }
                Ok(fd) => return read_fd(&fd, buffer),
                Err(ReadError::Denied) => *file = TaskFile::Denied,
                Err(ReadError::Gone) => return Err(ReadError::Gone),
            }
        }
        match file {
            TaskFile::Open(fd) => {
                let result = read_fd(fd, buffer);
                if let Err(ReadError::Denied) = result {
                    self.close(file);
                    *file = TaskFile::Denied;
                }
                result
            }
            _ => Err(ReadError::Denied),
        }
    }

    pub fn close(&mut self, file: &mut TaskFile) {
        if let TaskFile::Open(_) = file {
            self.open -= 1;
            *file = TaskFile::Closed;
        }
    }

    pub fn read_once<'b>(
        &self,
        path: Arguments<'_>,
        buffer: &'b mut [u8],
    ) -> Result<&'b [u8], ReadError> {
        read_fd(&self.open_file(path)?, buffer)
    }

    /// Target of the symbolic link at `path`, truncated to the buffer.
    pub fn link<'b>(&self, path: Arguments<'_>, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let mut name = [0; PATH_MAX];
        let path = bytes(path, &mut name)?;
        let len = readlinkat_raw(&self.root, path, &mut *buffer).ok()?;
        buffer.get(..len)
    }

    /// Stores the numeric names in the directory `path` in `into`, ascending.
    pub fn numbers(&mut self, path: Arguments<'_>, into: &mut Vec<i32>) -> Result<(), ReadError> {
        into.clear();
        let mut name = [0; PATH_MAX];
        let path = bytes(path, &mut name).ok_or(ReadError::Denied)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(&self.root, path, flags, Mode::empty()).map_err(why)?;
        let mut entries = RawDir::new(dir, &mut self.entries);
        while let Some(entry) = entries.next() {
            into.extend(super::parse::number::<i32>(entry.map_err(why)?.file_name().to_bytes()));
        }
        into.sort_unstable();
        Ok(())
    }

    fn open_file(&self, path: Arguments<'_>) -> Result<OwnedFd, ReadError> {
        let mut name = [0; PATH_MAX];
        let path = bytes(path, &mut name).ok_or(ReadError::Denied)?;
        openat(&self.root, path, OFlags::CLOEXEC, Mode::empty()).map_err(why)
    }
}

fn bytes<'n>(path: Arguments<'_>, name: &'n mut [u8; PATH_MAX]) -> Option<&'n [u8]> {
    let mut rest = name.as_mut_slice();
    rest.write_fmt(path).ok()?;
    let free = rest.len();
    name.get(..PATH_MAX - free)
}

fn read_fd<'b>(fd: &OwnedFd, buffer: &'b mut [u8]) -> Result<&'b [u8], ReadError> {
    let len = pread(fd, &mut *buffer, 0).map_err(why)?;
    buffer.get(..len).ok_or(ReadError::Denied)
}

fn why(error: Errno) -> ReadError {
    // ENOENT if the thread has exited, ESRCH if it exits during the read.
    if matches!(error, Errno::NOENT | Errno::SRCH) { ReadError::Gone } else { ReadError::Denied }
}
