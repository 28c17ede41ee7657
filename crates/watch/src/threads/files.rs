//! Files of /proc/PID/task/TID, kept open while the thread lives: opening one costs more than reading it.

use rustix::fs::{Mode, OFlags, RawDir, openat, readlinkat_raw};
use rustix::io::{Errno, pread};
use rustix::process::{Resource, getrlimit};
use std::fmt::Arguments;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Descriptors that are left for others where the limit is low.
const RESERVE: u64 = 256;
/// Long enough for every path below the root of /proc that is opened here.
const PATH_MAX: usize = 64;

/// A file of a thread.
#[derive(Debug, Default)]
pub(super) enum File {
    /// Not opened yet, or given back.
    #[default]
    Closed,
    Kept(OwnedFd),
    /// This process may not read it.
    Denied,
}

/// Why nothing was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// The thread has ended.
    Gone,
    /// This process may not, or the kernel has no such file.
    Denied,
}

/// Where the proc file system is mounted, and how much of it may be kept open.
#[derive(Debug)]
pub(super) struct Proc {
    root: OwnedFd,
    kept: usize,
    kept_max: usize,
    entries: Box<[MaybeUninit<u8>]>,
}

impl Proc {
    /// # Errors
    /// Where `root` cannot be opened; the error names it.
    pub fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty()).map_err(|error| {
            io::Error::new(io::Error::from(error).kind(), format!("{}: {error}", root.display()))
        })?;
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        // The rest of the program opens files, too.
        let kept_max = limit.saturating_sub(RESERVE).min(limit / 2);
        let entries = vec![MaybeUninit::uninit(); 32 << 10].into();
        Ok(Self {
            root,
            kept: 0,
            kept_max: usize::try_from(kept_max).unwrap_or(usize::MAX),
            entries,
        })
    }

    /// Keeps at most this many files open; all others are opened whenever they are read.
    #[cfg(test)]
    pub fn keep_at_most(&mut self, files: usize) {
        self.kept_max = files;
    }

    /// Reads `file`, which is found at `path`, from its beginning.
    pub fn read<'b>(
        &mut self,
        file: &mut File,
        path: Arguments<'_>,
        buffer: &'b mut [u8],
    ) -> Result<&'b [u8], Unread> {
        if let File::Closed = file {
            match self.open_file(path) {
                Ok(fd) if self.kept < self.kept_max => {
                    self.kept += 1;
                    *file = File::Kept(fd);
                }
                Ok(fd) => return read_fd(&fd, buffer),
                Err(Unread::Denied) => *file = File::Denied,
                Err(Unread::Gone) => return Err(Unread::Gone),
            }
        }
        match file {
            File::Kept(fd) => {
                let result = read_fd(fd, buffer);
                if let Err(Unread::Denied) = result {
                    self.close(file);
                    *file = File::Denied;
                }
                result
            }
            _ => Err(Unread::Denied),
        }
    }

    /// Gives the descriptor back.
    pub fn close(&mut self, file: &mut File) {
        if let File::Kept(_) = file {
            self.kept -= 1;
            *file = File::Closed;
        }
    }

    /// Reads the file at `path` once.
    pub fn read_once<'b>(
        &self,
        path: Arguments<'_>,
        buffer: &'b mut [u8],
    ) -> Result<&'b [u8], Unread> {
        read_fd(&self.open_file(path)?, buffer)
    }

    /// What the symbolic link at `path` holds, cut off where the buffer ends.
    pub fn link<'b>(&self, path: Arguments<'_>, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let mut name = [0; PATH_MAX];
        let path = bytes(path, &mut name)?;
        let len = readlinkat_raw(&self.root, path, &mut *buffer).ok()?;
        buffer.get(..len)
    }

    /// Puts the numbers among the names in the folder `path` into `into`, ascending.
    pub fn numbers(&mut self, path: Arguments<'_>, into: &mut Vec<i32>) -> Result<(), Unread> {
        into.clear();
        let mut name = [0; PATH_MAX];
        let path = bytes(path, &mut name).ok_or(Unread::Denied)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(&self.root, path, flags, Mode::empty()).map_err(why)?;
        let mut entries = RawDir::new(dir, &mut self.entries);
        while let Some(entry) = entries.next() {
            into.extend(super::parse::number::<i32>(entry.map_err(why)?.file_name().to_bytes()));
        }
        into.sort_unstable();
        Ok(())
    }

    fn open_file(&self, path: Arguments<'_>) -> Result<OwnedFd, Unread> {
        let mut name = [0; PATH_MAX];
        let path = bytes(path, &mut name).ok_or(Unread::Denied)?;
        openat(&self.root, path, OFlags::CLOEXEC, Mode::empty()).map_err(why)
    }
}

fn bytes<'n>(path: Arguments<'_>, name: &'n mut [u8; PATH_MAX]) -> Option<&'n [u8]> {
    let mut rest = name.as_mut_slice();
    rest.write_fmt(path).ok()?;
    let free = rest.len();
    name.get(..PATH_MAX - free)
}

fn read_fd<'b>(fd: &OwnedFd, buffer: &'b mut [u8]) -> Result<&'b [u8], Unread> {
    let len = pread(fd, &mut *buffer, 0).map_err(why)?;
    buffer.get(..len).ok_or(Unread::Denied)
}

fn why(error: Errno) -> Unread {
    // A task without files any more is not found, one that ended while it is read not reached.
    if matches!(error, Errno::NOENT | Errno::SRCH) { Unread::Gone } else { Unread::Denied }
}
