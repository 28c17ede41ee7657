//! Creates and extends files, and undoes both.

use super::claim::locked;
use super::error::GuardError;
use super::remove::{Identity, remove};
use super::subject::{Spot, stat};
use crate::mark::{self, Mark, descriptor_path};
use crate::scratch;
use fathom_model::plan::{Fallocate, Target};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags, fallocate, flock,
    fstat, ftruncate, linkat, mkdirat, openat, renameat_with, statat,
};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A file created by this run. Removed on drop unless kept.
pub(crate) struct Made {
    spot: Spot,
    identity: Identity,
    keep: AtomicBool,
    removed: AtomicBool,
}

impl Made {
    fn new(path: &str, spot: Spot, fd: &OwnedFd) -> Result<Self, GuardError> {
        let stat = stat(path, fd)?;
        Ok(Self {
            spot,
            identity: (stat.st_dev, stat.st_ino),
            keep: AtomicBool::new(false),
            removed: AtomicBool::new(false),
        })
    }

    pub fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
    }

    pub fn remove(&self) -> io::Result<()> {
        if self.removed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let Spot { dir, name, .. } = &self.spot;
        remove(dir, name.as_bytes(), self.identity, false)
            .map_err(|error| io::Error::other(format!("did not remove {name}: {error}")))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.keep.load(Ordering::Relaxed) {
            // Errors cannot be reported on drop.
            let _ = self.remove();
        }
    }
}

pub(crate) fn create(
    path: &str,
    spot: Spot,
    want: &Target,
    stop: &dyn Fn() -> bool,
) -> Result<(Arc<OwnedFd>, Made), GuardError> {
    let (fd, made) = named(path, spot, Mark::Unfinished)?;
    reserve(path, &fd, 0, want.create_size.unwrap_or(0), want.fallocate, stop)?;
    let temporary = want.written || want.unlink;
    mark(path, &fd, if temporary { Mark::Unused } else { Mark::Target })?;
    Ok((fd, made))
}

/// Creates, locks and marks an empty file. It gets its name last, so that a killed run leaves no file without a mark,
/// unless the file system does not support O_TMPFILE.
fn named(path: &str, spot: Spot, kind: Mark) -> Result<(Arc<OwnedFd>, Made), GuardError> {
    let exists = || GuardError::Changed { path: path.to_string() };
    if let Some(fd) = unnamed(path, &spot, 0o644)? {
        let fd = locked(path, fd)?;
        mark(path, &fd, kind)?;
        let name = spot.name.as_str();
        linkat(CWD, descriptor_path(&fd), &spot.dir, name, AtFlags::SYMLINK_FOLLOW).map_err(
            |error| match error {
                Errno::EXIST => exists(),
                _ => GuardError::io(path, "create", error),
            },
        )?;
        let made = Made::new(path, spot, &fd)?;
        return Ok((fd, made));
    }
    // O_EXCL: never open a file or symbolic link that appeared since the check.
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(&spot.dir, spot.name.as_str(), flags, Mode::from_raw_mode(0o644)).map_err(
        |error| match error {
            Errno::EXIST => exists(),
            _ => GuardError::io(path, "create", error),
        },
    )?;
    let made = Made::new(path, spot, &fd)?;
    let fd = locked(path, Arc::new(fd))?;
    mark(path, &fd, kind)?;
    Ok((fd, made))
}

/// Creates, marks and locks an empty file under a temporary name.
pub(crate) fn scratch(path: &str, spot: Spot) -> Result<(Arc<OwnedFd>, Made), GuardError> {
    named(path, spot, Mark::Scratch)
}

fn mark(path: &str, fd: &OwnedFd, mark: Mark) -> Result<(), GuardError> {
    mark::write(fd, mark).map_err(|error| GuardError::io(path, "mark", error))
}

/// A file that is being filled. It gets its name when complete, so that a killed run leaves no
/// incomplete file: until then it has no name, or a temporary one on file systems without O_TMPFILE.
pub(crate) struct Draft {
    path: String,
    spot: Spot,
    fd: Arc<OwnedFd>,
    temporary: Option<Made>,
}

impl Draft {
    /// Creates a file that will get the name `spot`, and preallocates its space.
    pub fn new(
        path: &str,
        spot: Spot,
        want: &Target,
        stop: &dyn Fn() -> bool,
    ) -> Result<(Arc<OwnedFd>, Self), GuardError> {
        let (fd, temporary) = match unnamed(path, &spot, 0o644)? {
            Some(fd) => (locked(path, fd)?, None),
            None => {
                let dir = rustix::io::fcntl_dupfd_cloexec(&spot.dir, 0)
                    .map_err(|error| GuardError::io(path, "create", error))?;
                let (fd, made) =
                    scratch(path, Spot { dir, missing: Vec::new(), name: scratch::name() })?;
                (fd, Some(made))
            }
        };
        reserve(path, &fd, 0, want.create_size.unwrap_or(0), want.fallocate, stop)?;
        let draft = Self { path: path.to_string(), spot, fd: Arc::clone(&fd), temporary };
        Ok((fd, draft))
    }

    /// Links the complete file to its name, unless that now exists. `stays`: the run will neither write to it nor remove it.
    pub fn publish(self, stays: bool) -> Result<Made, GuardError> {
        let Self { path, spot, fd, temporary } = self;
        mark(&path, &fd, Mark::Unfinished)?;
        let Spot { dir, name, .. } = &spot;
        let linked = match &temporary {
            None => linkat(CWD, descriptor_path(&fd), dir, name, AtFlags::SYMLINK_FOLLOW),
            Some(made) => {
                match renameat_with(dir, &made.spot.name, dir, name, RenameFlags::NOREPLACE) {
                    // Without RENAME_NOREPLACE, add a link; dropping `made` removes the temporary
                    // name.
                    Err(Errno::INVAL | Errno::NOSYS) => {
                        linkat(dir, &made.spot.name, dir, name, AtFlags::empty())
                    }
                    other => other,
                }
            }
        };
        linked.map_err(|error| match error {
            Errno::EXIST => GuardError::Appeared { path: path.clone() },
            _ => GuardError::io(&path, "name", error),
        })?;
        let made = Made::new(&path, spot, &fd)?;
        // Linking changes ctime.
        drop(temporary);
        mark(&path, &fd, if stays { Mark::Target } else { Mark::Unused })?;
        Ok(made)
    }
}

/// Creates an unnamed file (O_TMPFILE); `None` if the file system does not support it.
pub(crate) fn unnamed(
    path: &str,
    spot: &Spot,
    mode: u32,
) -> Result<Option<Arc<OwnedFd>>, GuardError> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    // By path, since an O_PATH descriptor cannot be reopened otherwise.
    let dir = descriptor_path(&spot.dir);
    match rustix::fs::open(dir, flags, Mode::from_raw_mode(mode)) {
        Ok(fd) => Ok(Some(Arc::new(fd))),
        // EISDIR and EINVAL are from kernels and file systems without O_TMPFILE.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(error) => Err(GuardError::io(path, "create", error)),
    }
}

/// A file that was extended. Truncated to its old size on drop unless kept.
pub(crate) struct Grown {
    file: Arc<OwnedFd>,
    from: u64,
    /// Whether it carries fathom's mark, which includes its size.
    own: bool,
    keep: AtomicBool,
}

impl Grown {
    /// Extends a file from `from` to `to` bytes. If the new part will be filled, only preallocates it,
    /// so that the file grows as it is filled and a killed run leaves no unwritten part.
    pub fn new(
        path: &str,
        file: &Arc<OwnedFd>,
        (from, to): (u64, u64),
        own: bool,
        want: &Target,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, GuardError> {
        let grown = Self { file: Arc::clone(file), from, own, keep: AtomicBool::new(false) };
        match want.fallocate {
            Fallocate::None | Fallocate::Truncate if want.fill => {}
            _ if want.fill => allocate(file, FallocateFlags::KEEP_SIZE, (from, to), stop)
                .or_else(unsupported)
                .map_err(|error| reservation(path, error, stop))?,
            how => reserve(path, file, from, to, how, stop)?,
        }
        Ok(grown)
    }

    /// Leaves the file without a mark on drop.
    pub fn disown(&mut self) {
        self.own = false;
    }

    pub fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
    }
}

impl Drop for Grown {
    fn drop(&mut self) {
        if !self.keep.load(Ordering::Relaxed) {
            // Errors cannot be reported on drop.
            let _ = ftruncate(&self.file, self.from);
            if self.own {
                let _ = mark::write(&self.file, Mark::Target);
            }
        }
    }
}

/// Sets the size of a file, and preallocates the part from `from`.
pub(crate) fn reserve(
    path: &str,
    fd: &OwnedFd,
    from: u64,
    to: u64,
    how: Fallocate,
    stop: &dyn Fn() -> bool,
) -> Result<(), GuardError> {
    let flags = match how {
        Fallocate::None | Fallocate::Truncate => None,
        Fallocate::Native | Fallocate::Posix => Some(FallocateFlags::empty()),
        Fallocate::Keep => Some(FallocateFlags::KEEP_SIZE),
    };
    if let Some(flags) = flags.filter(|_| to > from) {
        let reserved = match allocate(fd, flags, (from, to), stop) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if how == Fallocate::Posix => {
                zero(fd, (from, to), stop)
            }
            other => other.or_else(unsupported),
        };
        reserved.map_err(|error| reservation(path, error, stop))?;
    }
    ftruncate(fd, to).map_err(|error| GuardError::io(path, "set the size of", error))
}

/// Preallocates space in parts, so that the run can be stopped in between.
fn allocate(
    fd: &OwnedFd,
    flags: FallocateFlags,
    (from, to): (u64, u64),
    stop: &dyn Fn() -> bool,
) -> Result<(), Errno> {
    const PART: u64 = 1 << 30;
    let mut at = from;
    while at < to {
        let len = (to - at).min(PART);
        match fallocate(fd, flags, at, len) {
            Err(Errno::INTR) => {}
            other => {
                other?;
                at += len;
            }
        }
        if stop() {
            return Err(Errno::INTR);
        }
    }
    Ok(())
}

/// Ignores lack of support: the file system then allocates on write.
fn unsupported(error: Errno) -> Result<(), Errno> {
    if matches!(error, Errno::OPNOTSUPP | Errno::NOSYS) { Ok(()) } else { Err(error) }
}

fn reservation(path: &str, error: Errno, stop: &dyn Fn() -> bool) -> GuardError {
    match error {
        Errno::INTR if stop() => GuardError::Interrupted { path: path.to_string() },
        _ => GuardError::io(path, "preallocate space for", error),
    }
}

fn zero(fd: &OwnedFd, (from, to): (u64, u64), stop: &dyn Fn() -> bool) -> Result<(), Errno> {
    let zeroes = vec![0_u8; 1 << 20];
    let mut at = from;
    while at < to {
        let len = usize::try_from(to - at).unwrap_or(usize::MAX).min(zeroes.len());
        match rustix::io::pwrite(fd, &zeroes[..len], at) {
            Err(Errno::INTR) => {}
            other => at += other? as u64,
        }
        if stop() {
            return Err(Errno::INTR);
        }
    }
    Ok(())
}

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
