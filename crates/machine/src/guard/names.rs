//! The names that jobs create, read the status of, and remove (fio's `filecreate` and its siblings).
//!
//! What exists is never removed: a name may be removed only if this run created what it refers to.

use super::check_stop;
use super::claim::locked_with;
use super::error::GuardError;
use super::make;
use super::remove::{Identity, remove};
use super::subject::{self, Spot};
use crate::mark::{self, Mark, descriptor_path};
use crate::scratch;
use crate::target::{self, Lookup};
use fathom_model::plan::{Engine, Fallocate, NameOp, Names, Plan};
use fathom_sys::roots::Roots;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, mkdirat, openat, statat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The names of one job, which passed all checks. What was created for it is removed on drop, unless kept.
pub struct NamedTargets {
    pub dirs: Vec<OwnedFd>,
    pub names: Vec<NamedTarget>,
    op: NameOp,
    unlink: bool,
    size_bytes: u64,
    kept: AtomicBool,
    /// Held open for their locks: by these, others know that the files are in use.
    _locks: Vec<OwnedFd>,
}

pub struct NamedTarget {
    /// Its path: of a job that removes names, a temporary one in the same directory, so that no other program can give it to
    /// a file of its own between a check and the removal that is measured.
    pub path: String,
    /// Index of its directory in [`NamedTargets::dirs`].
    pub dir: usize,
    /// What was created under it for the job: device and inode.
    pub made: Option<Identity>,
}

impl NamedTarget {
    pub fn name_at(&self) -> usize {
        self.path.rfind('/').map_or(0, |slash| slash + 1)
    }

    fn name(&self) -> &str {
        &self.path[self.name_at()..]
    }
}

/// Checks the names of all jobs of `plan` that operate on names, without changing anything. Returns one entry for each
/// job; [`NamedTargets::lay_out`] creates what the jobs need.
pub fn check_names(
    roots: &Roots,
    plan: &Plan,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Option<NamedTargets>>, GuardError> {
    let plans = || {
        plan.jobs.iter().map(|job| match &job.engine {
            Engine::Names(names) => Some(names),
            _ => None,
        })
    };
    if plans().all(|names| names.is_none()) {
        return Ok(plans().map(|_| None).collect());
    }
    GuardError::needs_proc()?;
    let lookup = Lookup::new(roots);
    let mut taken = Taken::default();
    let checked = plans().map(|names| names.map(|names| check(&lookup, names, &mut taken, stop)));
    checked.map(Option::transpose).collect()
}

/// Names that one job changes, which no other may use.
#[derive(Default)]
struct Taken {
    changed: HashSet<(Identity, String)>,
    read: HashSet<(Identity, String)>,
}

impl Taken {
    /// Notes a use of a name; returns false if another job changes it.
    fn note(&mut self, dir: Identity, name: &str, changes: bool) -> bool {
        let key = (dir, name.to_string());
        match changes {
            true => !self.read.contains(&key) && self.changed.insert(key),
            false => {
                let free = !self.changed.contains(&key);
                self.read.insert(key);
                free
            }
        }
    }
}

fn check(
    lookup: &Lookup,
    plan: &Names,
    taken: &mut Taken,
    stop: &dyn Fn() -> bool,
) -> Result<NamedTargets, GuardError> {
    let mut targets = NamedTargets {
        dirs: Vec::new(),
        names: Vec::with_capacity(plan.paths.count()),
        op: plan.op,
        unlink: plan.unlink,
        size_bytes: plan.size_bytes,
        kept: AtomicBool::new(false),
        _locks: Vec::new(),
    };
    let mut known: HashMap<String, (usize, Identity)> = HashMap::new();
    for path in plan.paths.iter() {
        check_stop(&path, stop)?;
        let Some((dir_path, name)) = target::split(&path) else {
            return Err(GuardError::IsDirectory { path });
        };
        let (dir, identity) = match known.get(dir_path) {
            Some(known) => *known,
            None => {
                let Spot { dir, .. } = subject::spot(lookup, &path, dir_path, name)?;
                subject::stay_within(&path, plan.within.as_deref(), &target::resolved(&dir))?;
                let stat = subject::stat(&path, &dir)?;
                let found = (targets.dirs.len(), (stat.st_dev, stat.st_ino));
                targets._locks.extend(shared_lock(&path, &dir)?);
                targets.dirs.push(dir);
                known.insert(dir_path.to_string(), found);
                found
            }
        };
        if !taken.note(identity, name, !plan.op.is_stat()) {
            return Err(GuardError::SharedName { path, engine: plan.op.name() });
        }
        may_use(plan, &path, &targets.dirs[dir], name)?;
        let path = match plan.op.deletes() {
            true => Path::new(dir_path).join(scratch::name()).to_string_lossy().into_owned(),
            false => path,
        };
        targets.names.push(NamedTarget { path, dir, made: None });
    }
    Ok(targets)
}

/// Locks a directory together with other runs, so that none of their files there counts as left over. `None` without
/// permission to read it.
fn shared_lock(path: &str, dir: &OwnedFd) -> Result<Option<OwnedFd>, GuardError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(dir) = rustix::fs::open(descriptor_path(dir), flags, Mode::empty()) else {
        return Ok(None);
    };
    locked_with(path, dir, FlockOperation::NonBlockingLockShared).map(Some)
}

/// Checks that what a name refers to, or that it refers to nothing, suits the operation.
fn may_use(plan: &Names, path: &str, dir: &OwnedFd, name: &str) -> Result<(), GuardError> {
    let path = path.to_string();
    let found = match status(dir, name, AtFlags::empty()) {
        // A link that leads nowhere exists, too.
        Ok(None) => status(dir, name, AtFlags::SYMLINK_NOFOLLOW),
        other => other,
    };
    let found = found.map_err(|error| GuardError::io(&path, "read the status of", error))?;
    match found {
        None if plan.create || !plan.op.is_stat() && !plan.op.deletes() => Ok(()),
        None => Err(GuardError::NotCreated { path }),
        Some(_) if !plan.op.is_stat() => {
            Err(GuardError::Exists { path, engine: plan.op.name(), unlink: !plan.op.deletes() })
        }
        Some(stat) => match (FileType::from_raw_mode(stat.st_mode), plan.op) {
            (FileType::RegularFile, NameOp::StatFile) => Ok(()),
            (FileType::Directory, NameOp::StatDir) => Ok(()),
            (FileType::Directory, _) => Err(GuardError::IsDirectory { path }),
            (_, NameOp::StatDir) => Err(GuardError::NotDirectory { path }),
            _ => Err(GuardError::NotUsable { path }),
        },
    }
}

fn status(dir: &OwnedFd, name: &str, flags: AtFlags) -> Result<Option<Stat>, Errno> {
    match statat(dir, name, flags) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

impl NamedTargets {
    /// Creates what the job needs and does not create itself.
    pub fn lay_out(&mut self, stop: &dyn Fn() -> bool) -> Result<(), GuardError> {
        if !self.op.is_stat() && !self.op.deletes() {
            return Ok(());
        }
        for index in 0..self.names.len() {
            let target = &self.names[index];
            check_stop(&target.path, stop)?;
            let dir = &self.dirs[target.dir];
            let made = match self.op.is_on_dirs() {
                true => self.make_dir(target, dir)?,
                false => self.make_file(target, dir, stop)?,
            };
            self.names[index].made = made;
        }
        Ok(())
    }

    /// Keeps files created for the job, unless the plan removes them, and those that the job was to remove.
    pub fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.remove()
    }

    fn remove(&mut self) -> io::Result<()> {
        let stays = *self.kept.get_mut() && !self.is_temporary() && self.op.is_stat();
        let mut first = Ok(());
        for target in self.names.iter_mut().filter(|_| !stays) {
            let Some(made) = target.made.take() else { continue };
            let (dir, name) = (&self.dirs[target.dir], target.name().as_bytes());
            let removed = remove(dir, name, made, self.op.is_on_dirs());
            first = first.and(removed.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot remove {}: {error}", target.path))
            }));
        }
        first
    }

    fn make_dir(
        &self,
        target: &NamedTarget,
        dir: &OwnedFd,
    ) -> Result<Option<Identity>, GuardError> {
        let path = &target.path;
        match mkdirat(dir, target.name(), Mode::from_raw_mode(0o700)) {
            Ok(()) => {}
            Err(Errno::EXIST) if self.op.is_stat() => return Ok(None),
            Err(Errno::EXIST) => return Err(GuardError::Changed { path: path.clone() }),
            Err(error) => return Err(GuardError::io(path, "create", error)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(dir, target.name(), flags, Mode::empty())
            .map_err(|error| GuardError::io(path, "open", error))?;
        let stat = subject::stat(path, &made)?;
        if self.is_temporary() {
            mark::write(&made, Mark::Unused)
                .map_err(|error| GuardError::io(path, "mark", error))?;
        }
        Ok(Some((stat.st_dev, stat.st_ino)))
    }

    /// Creates a file of the plan's size; `None` if it exists and may do so.
    fn make_file(
        &self,
        target: &NamedTarget,
        dir: &OwnedFd,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Identity>, GuardError> {
        let path = &target.path;
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(dir, target.name(), flags, Mode::from_raw_mode(0o644)) {
            Ok(fd) => fd,
            Err(Errno::EXIST) if self.op.is_stat() => return Ok(None),
            Err(Errno::EXIST) => return Err(GuardError::Changed { path: path.clone() }),
            Err(error) => return Err(GuardError::io(path, "create", error)),
        };
        let stat = subject::stat(path, &fd)?;
        let made = (stat.st_dev, stat.st_ino);
        let mark = if self.is_temporary() { Mark::Unused } else { Mark::Target };
        let filled = make::reserve(path, &fd, 0, self.size_bytes, Fallocate::Native, stop)
            .and_then(|()| mark::write(&fd, mark).map_err(|e| GuardError::io(path, "mark", e)));
        if filled.is_err() {
            let _ = remove(dir, target.name().as_bytes(), made, false);
        }
        filled.map(|()| Some(made))
    }

    fn is_temporary(&self) -> bool {
        self.unlink || self.op.deletes()
    }
}

impl Drop for NamedTargets {
    fn drop(&mut self) {
        // Errors cannot be reported on drop.
        let _ = self.remove();
    }
}
