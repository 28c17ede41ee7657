//! Making files and making them longer, and undoing it.

use super::claim::locked;
use super::error::GuardError;
use super::subject::{Spot, Want};
use crate::mark::{self, Mark};
use fathom_model::plan::Fallocate;
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, fallocate, ftruncate, openat, statat};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file that this run made. Unless it is to be kept it is removed when this is dropped.
pub(crate) struct Made {
    spot: Spot,
    identity: (u64, u64),
    keep: AtomicBool,
    removed: AtomicBool,
}

impl Made {
    /// Leaves the file where it is.
    pub fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
    }

    /// Removes the file, once, if its name still leads to it.
    pub fn remove(&self) -> io::Result<()> {
        if self.removed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let Spot { dir, name } = &self.spot;
        match statat(dir, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if (stat.st_dev, stat.st_ino) == self.identity => {
                Ok(rustix::fs::unlinkat(dir, name.as_str(), AtFlags::empty())?)
            }
            Ok(_) => Err(io::Error::other(format!(
                "{name} is not removed: it is no longer the file that this run made"
            ))),
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.keep.load(Ordering::Relaxed) {
            // Nobody is left to tell.
            let _ = self.remove();
        }
    }
}

/// Makes, marks and locks a file, and reserves its space.
pub(crate) fn create(
    path: &str,
    spot: Spot,
    want: &Want,
) -> Result<(Arc<OwnedFd>, Made), GuardError> {
    let size = want.create_size.unwrap_or(0);
    // O_EXCL: what has appeared since, be it a symbolic link, is not fathom's.
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(&spot.dir, spot.name.as_str(), flags, Mode::from_raw_mode(0o644)).map_err(
        |error| match error {
            Errno::EXIST => GuardError::Changed { path: path.to_string() },
            _ => GuardError::io(path, "make", error),
        },
    )?;
    let stat = rustix::fs::fstat(&fd).map_err(|error| GuardError::io(path, "look at", error))?;
    let made = Made {
        spot,
        identity: (stat.st_dev, stat.st_ino),
        keep: AtomicBool::new(false),
        removed: AtomicBool::new(false),
    };
    let fd = locked(path, Arc::new(fd))?;
    mark::write(&fd, Mark { unfinished_from: want.fill.then_some(0) })
        .map_err(|error| GuardError::io(path, "mark", error))?;
    reserve(path, &fd, 0, size, want.fallocate)?;
    Ok((fd, made))
}

/// A file that was made longer. Unless that is to be kept it is cut when this is dropped.
pub(crate) struct Grown {
    file: Arc<OwnedFd>,
    from: u64,
    keep: AtomicBool,
}

impl Grown {
    /// Leaves the file at its new length.
    pub fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
    }
}

impl Drop for Grown {
    fn drop(&mut self) {
        if !self.keep.load(Ordering::Relaxed) {
            // Nobody is left to tell.
            let _ = ftruncate(&self.file, self.from);
        }
    }
}

/// Makes a file longer.
pub(crate) fn grow(
    path: &str,
    file: &Arc<OwnedFd>,
    from: u64,
    to: u64,
    how: Fallocate,
) -> Result<Grown, GuardError> {
    let grown = Grown { file: Arc::clone(file), from, keep: AtomicBool::new(false) };
    reserve(path, file, from, to, how)?;
    Ok(grown)
}

/// Gives a file its length, and reserves the space of the part from `from` on.
pub(crate) fn reserve(
    path: &str,
    fd: &OwnedFd,
    from: u64,
    to: u64,
    how: Fallocate,
) -> Result<(), GuardError> {
    let io = |error: Errno| GuardError::io(path, "reserve the space of", error);
    let flags = match how {
        Fallocate::None | Fallocate::Truncate => None,
        Fallocate::Native | Fallocate::Posix => Some(FallocateFlags::empty()),
        Fallocate::Keep => Some(FallocateFlags::KEEP_SIZE),
    };
    if let Some(flags) = flags.filter(|_| to > from) {
        match retry(|| fallocate(fd, flags, from, to - from)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if how == Fallocate::Posix => {
                zero(fd, from, to).map_err(io)?;
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            other => other.map_err(io)?,
        }
    }
    ftruncate(fd, to).map_err(|error| GuardError::io(path, "set the size of", error))
}

/// Writes zeroes to a part that was just made.
fn zero(fd: &OwnedFd, from: u64, to: u64) -> Result<(), Errno> {
    let zeroes = vec![0_u8; 1 << 20];
    let mut at = from;
    while at < to {
        let len = usize::try_from(to - at).unwrap_or(usize::MAX).min(zeroes.len());
        at += retry(|| rustix::io::pwrite(fd, &zeroes[..len], at))? as u64;
    }
    Ok(())
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
