//! The names that jobs create, read the status of, and remove (fio's `filecreate` and its siblings).
//!
//! What exists is never removed: a name may be removed only if this run created what it refers to.

use super::check_stop;
use super::error::GuardError;
use super::make;
use super::subject::{self, Spot};
use crate::mark::{self, Mark};
use crate::roots::Roots;
use crate::target::{self, Lookup};
use fathom_model::plan::{Engine, Fallocate, NameOp, Names, Plan};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Device and inode.
type Identity = (u64, u64);

/// The names of one job, which passed all checks. What was created for it is removed on drop, unless kept.
pub struct NamedTargets {
    /// The open directories that hold the names.
    pub dirs: Vec<OwnedFd>,
    /// The names, in the order of the plan.
    pub names: Vec<NamedTarget>,
    op: NameOp,
    unlink: bool,
    kept: AtomicBool,
}

/// A name in a directory.
pub struct NamedTarget {
    /// Its path in the plan.
    pub path: String,
    /// Index of its directory in [`NamedTargets::dirs`].
    pub dir: usize,
    /// What was created under it for the job: device and inode.
    pub made: Option<(u64, u64)>,
}

impl NamedTarget {
    /// Where the name begins in the path.
    #[must_use]
    pub fn name_at(&self) -> usize {
        self.path.rfind('/').map_or(0, |slash| slash + 1)
    }

    fn name(&self) -> &str {
        &self.path[self.name_at()..]
    }
}

/// Checks the names of all jobs of `plan` that operate on names, then creates what those jobs need. Returns one entry for
/// each job.
///
/// # Errors
/// A name may not be used, or `stop` returned true. Everything created is removed again.
pub fn open_names(
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
    let mut targets: Vec<Option<NamedTargets>> =
        checked.map(Option::transpose).collect::<Result<_, _>>()?;
    for (targets, names) in targets.iter_mut().zip(plans()) {
        if let (Some(targets), Some(names)) = (targets, names) {
            targets.lay_out(names, stop)?;
        }
    }
    Ok(targets)
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

/// Checks all names of a job, without changing anything.
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
        kept: AtomicBool::new(false),
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
                let dir = directory(lookup, plan, &path, dir_path, name)?;
                let stat = subject::stat(&path, &dir)?;
                let found = (targets.dirs.len(), (stat.st_dev, stat.st_ino));
                targets.dirs.push(dir);
                known.insert(dir_path.to_string(), found);
                found
            }
        };
        if !taken.note(identity, name, !plan.op.is_stat()) {
            return Err(GuardError::SharedName { path, engine: plan.op.name() });
        }
        may_use(plan, &path, &targets.dirs[dir], name)?;
        targets.names.push(NamedTarget { path, dir, made: None });
    }
    Ok(targets)
}

/// Opens a directory in which names may be created.
fn directory(
    lookup: &Lookup,
    plan: &Names,
    path: &str,
    dir_path: &str,
    name: &str,
) -> Result<OwnedFd, GuardError> {
    let Spot { dir, .. } = subject::spot(lookup, path, dir_path, name)?;
    subject::stay_within(path, plan.within.as_deref(), &target::resolved(&dir))?;
    Ok(dir)
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
    fn lay_out(&mut self, plan: &Names, stop: &dyn Fn() -> bool) -> Result<(), GuardError> {
        if !plan.op.is_stat() && !plan.op.deletes() {
            return Ok(());
        }
        for index in 0..self.names.len() {
            let target = &self.names[index];
            check_stop(&target.path, stop)?;
            let dir = &self.dirs[target.dir];
            let made = match plan.op.is_on_dirs() {
                true => make_dir(target, dir, plan.op.is_stat())?,
                false => make_file(target, dir, plan, stop)?,
            };
            self.names[index].made = made;
        }
        Ok(())
    }

    /// Keeps what was created for the job, unless the plan removes it, and what the job itself was to remove.
    pub fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    /// Removes what is not to be kept.
    ///
    /// # Errors
    /// What could not be removed, or was replaced.
    pub fn finish(mut self) -> io::Result<()> {
        self.remove()
    }

    fn remove(&mut self) -> io::Result<()> {
        let stays = *self.kept.get_mut() && !self.unlink && self.op.is_stat();
        let mut first = Ok(());
        for target in self.names.iter_mut().filter(|_| !stays) {
            let Some(made) = target.made.take() else { continue };
            let removed = remove(&self.dirs[target.dir], target.name(), made, self.op.is_on_dirs());
            first = first.and(removed.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot remove {}: {error}", target.path))
            }));
        }
        first
    }
}

impl Drop for NamedTargets {
    fn drop(&mut self) {
        // Errors cannot be reported on drop.
        let _ = self.remove();
    }
}

/// Creates a directory; `None` if it exists and `may_exist`.
fn make_dir(
    target: &NamedTarget,
    dir: &OwnedFd,
    may_exist: bool,
) -> Result<Option<Identity>, GuardError> {
    let path = &target.path;
    match mkdirat(dir, target.name(), Mode::from_raw_mode(0o700)) {
        Ok(()) => {
            let stat = statat(dir, target.name(), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|error| GuardError::io(path, "read the status of", error))?;
            Ok(Some((stat.st_dev, stat.st_ino)))
        }
        Err(Errno::EXIST) if may_exist => Ok(None),
        Err(Errno::EXIST) => Err(GuardError::Changed { path: path.clone() }),
        Err(error) => Err(GuardError::io(path, "create", error)),
    }
}

/// Creates a file of the plan's size; `None` if it exists and may do so.
fn make_file(
    target: &NamedTarget,
    dir: &OwnedFd,
    plan: &Names,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Identity>, GuardError> {
    let path = &target.path;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = match openat(dir, target.name(), flags, Mode::from_raw_mode(0o644)) {
        Ok(fd) => fd,
        Err(Errno::EXIST) if plan.op.is_stat() => return Ok(None),
        Err(Errno::EXIST) => return Err(GuardError::Changed { path: path.clone() }),
        Err(error) => return Err(GuardError::io(path, "create", error)),
    };
    let stat = subject::stat(path, &fd)?;
    let made = (stat.st_dev, stat.st_ino);
    let filled = make::reserve(path, &fd, 0, plan.size_bytes, Fallocate::Native, stop)
        .and_then(|()| mark::write(&fd, Mark::Target).map_err(|e| GuardError::io(path, "mark", e)));
    if filled.is_err() {
        let _ = remove(dir, target.name(), made, false);
    }
    filled.map(|()| Some(made))
}

/// Removes a name if it still refers to `made`; a name that is gone is no error.
fn remove(dir: &OwnedFd, name: &str, made: Identity, is_dir: bool) -> io::Result<()> {
    let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    match status(dir, name, AtFlags::SYMLINK_NOFOLLOW)? {
        None => Ok(()),
        Some(stat) if (stat.st_dev, stat.st_ino) == made => Ok(unlinkat(dir, name, flags)?),
        Some(_) => Err(io::Error::other("it was replaced by another file")),
    }
}
