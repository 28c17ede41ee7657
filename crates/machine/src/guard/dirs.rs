//! Directories that a run creates for its new files, as fio does.

use super::error::GuardError;
use super::remove::{Identity, remove};
use super::subject::Spot;
use crate::mark::{self, Mark};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, openat, statat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The directories created by a run. On drop, removed unless kept or in use, from the innermost.
#[derive(Default)]
pub(crate) struct NewDirs {
    made: Mutex<Vec<NewDir>>,
    keep: AtomicBool,
}

struct NewDir {
    parent: OwnedFd,
    name: String,
    identity: Identity,
    /// Locked with others, so that it does not count as left over; marked until the run ends.
    dir: OwnedFd,
}

impl NewDirs {
    /// Creates the missing directories of a file; nothing is followed on the way.
    pub fn make(&self, path: &str, spot: Spot) -> Result<Spot, GuardError> {
        let Spot { mut dir, missing, name } = spot;
        for part in missing {
            dir = self.make_one(path, dir, part)?;
        }
        Ok(Spot { dir, missing: Vec::new(), name })
    }

    /// Opens the directory `name` in `parent`, creating it if it does not exist by now.
    fn make_one(&self, path: &str, parent: OwnedFd, name: String) -> Result<OwnedFd, GuardError> {
        let fail = |error: Errno| match error {
            Errno::LOOP | Errno::NOTDIR => GuardError::Changed { path: path.to_string() },
            error => GuardError::io(path, "create the directory of", error),
        };
        let way = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |flags| openat(&parent, &name, way | flags, Mode::empty()).map_err(fail);
        match mkdirat(&parent, &name, Mode::RWXU) {
            Ok(()) => {}
            // Created for another file, or by another program.
            Err(Errno::EXIST) => return open(OFlags::PATH),
            Err(error) => return Err(fail(error)),
        }
        let stat = statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
        let identity = (stat.st_dev, stat.st_ino);
        let dir = open(OFlags::RDONLY)?;
        let now = fstat(&dir).map_err(fail)?;
        if (now.st_dev, now.st_ino) != identity {
            return Err(GuardError::Changed { path: path.to_string() });
        }
        // Some network file systems have no locks.
        let _ = flock(&dir, FlockOperation::NonBlockingLockShared);
        let inner = dir.try_clone().map_err(|e| GuardError::io(path, "open the directory of", e));
        let marked = mark::write(&dir, Mark::Unfinished).map_err(fail);
        self.list().push(NewDir { parent, name, identity, dir });
        marked.and(inner)
    }

    pub fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Vec<NewDir>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NewDirs {
    fn drop(&mut self) {
        let is_kept = *self.keep.get_mut();
        for NewDir { parent, name, identity, dir } in self.list().drain(..).rev() {
            match is_kept {
                true => mark::clear(&dir),
                // Fails if it is in use, which is right; other errors cannot be reported on drop.
                false => drop(remove(&parent, name.as_bytes(), identity, true)),
            }
        }
    }
}
