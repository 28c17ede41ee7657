//! The files and devices of a plan, without duplicates even if several paths refer to one.

use super::error::GuardError;
use crate::target::{self, Lookup};
use fathom_model::facts::{TargetFacts, TargetKind};
use fathom_model::plan::{Plan, Target};
use fathom_sys::device::Number;
use rustix::fs::{AtFlags, FileType, Stat, statat};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum TargetIdentity {
    File(u64, u64),
    /// The node of a block device, or a generic character device: each kind has numbers of its own.
    Device {
        is_generic: bool,
        number: Number,
    },
    /// A name that does not exist yet, by its directory's device and inode.
    New(u64, u64, String),
}

pub(crate) enum Location {
    Existing(OwnedFd),
    New(Spot),
}

pub(crate) struct Spot {
    pub dir: OwnedFd,
    /// Directories to be created in it, each within the one before; see [`super::dirs`].
    pub missing: Vec<String>,
    pub name: String,
}

pub(crate) struct GuardSubject {
    pub paths: Vec<String>,
    /// Indexes of its targets in the plan, parallel to `paths`.
    pub members: Vec<usize>,
    /// What all of these require; `written` if it is trimmed, too.
    pub want: Target,
    pub place: Location,
    pub facts: TargetFacts,
}

impl GuardSubject {
    pub fn path(&self) -> &str {
        &self.facts.path
    }
}

/// Resolves all targets of a plan, without opening any for reading or writing.
pub(crate) fn gather(lookup: &Lookup, plan: &Plan) -> Result<Vec<GuardSubject>, GuardError> {
    let mut all: Vec<GuardSubject> = Vec::new();
    let mut known: HashMap<TargetIdentity, usize> = HashMap::new();
    for (index, target) in plan.targets.iter().enumerate() {
        let (place, facts, identity) = find(lookup, target)?;
        match known.entry(identity) {
            Entry::Occupied(at) => {
                let subject = &mut all[*at.get()];
                subject.paths.push(target.path.clone());
                subject.members.push(index);
                subject.want.join(&wanted(target));
            }
            Entry::Vacant(at) => {
                at.insert(all.len());
                let (paths, members) = (vec![target.path.clone()], vec![index]);
                let want = wanted(target);
                all.push(GuardSubject { paths, members, want, place, facts });
            }
        }
    }
    Ok(all)
}

fn wanted(target: &Target) -> Target {
    Target {
        written: target.written || target.trimmed,
        // A file to be filled must exist before the run.
        create_on_open: target.create_on_open && !target.fill,
        ..target.clone()
    }
}

fn find(
    lookup: &Lookup,
    target: &Target,
) -> Result<(Location, TargetFacts, TargetIdentity), GuardError> {
    let path = &target.path;
    match target::open_path(path) {
        Ok(fd) => existing(lookup, target, fd),
        Err(error) if error.kind() == io::ErrorKind::NotFound => new(lookup, target),
        Err(error) => Err(GuardError::io(path, "open", error)),
    }
}

fn existing(
    lookup: &Lookup,
    target: &Target,
    fd: OwnedFd,
) -> Result<(Location, TargetFacts, TargetIdentity), GuardError> {
    let path = target.path.clone();
    let facts = lookup
        .open_target(&path, &fd)
        .map_err(|error| GuardError::io(&path, "read the status of", error))?;
    stay_within(&path, target.within.as_deref(), &facts.resolved)?;
    let identity = match facts.kind {
        TargetKind::File => file_identity(&stat(&path, &fd)?),
        TargetKind::Directory => return Err(GuardError::IsDirectory { path }),
        TargetKind::Missing | TargetKind::Other => return Err(GuardError::NotUsable { path }),
        kind => {
            TargetIdentity::Device { is_generic: kind.is_generic(), number: facts.device_number }
        }
    };
    Ok((Location::Existing(fd), facts, identity))
}

pub(crate) fn file_identity(stat: &Stat) -> TargetIdentity {
    TargetIdentity::File(stat.st_dev, stat.st_ino)
}

pub(crate) fn stat(path: &str, fd: &OwnedFd) -> Result<Stat, GuardError> {
    rustix::fs::fstat(fd).map_err(|error| GuardError::io(path, "read the status of", error))
}

fn new(
    lookup: &Lookup,
    target: &Target,
) -> Result<(Location, TargetFacts, TargetIdentity), GuardError> {
    let path = target.path.clone();
    let Some((dir_path, name)) = target::split(&path) else {
        return Err(GuardError::IsDirectory { path });
    };
    if Path::new(&path).starts_with("/dev") {
        return Err(GuardError::UnderDev { path });
    }
    let (dir, missing) = target::nearest(dir_path).map_err(|error| no_directory(&path, error))?;
    let spot = Spot { dir, missing, name: name.to_string() };
    may_create(lookup, &path, &spot)?;
    if target.create_size.is_none() {
        return Err(GuardError::Missing { path });
    }
    let name = target::joined(&spot.missing, name);
    let facts = lookup
        .missing_in(&path, &spot.dir, &name)
        .map_err(|error| GuardError::io(&path, "read the status of", error))?;
    // Of the directory that is used: its path may lead elsewhere by now.
    stay_within(&path, target.within.as_deref(), &facts.resolved)?;
    if !spot.missing.is_empty() && target.within.is_none() {
        // A missing directory elsewhere is rather one of a file system that is not mounted.
        stay_within(&path, Some("."), &facts.resolved)
            .map_err(|_| GuardError::NoDirectory { path: path.clone() })?;
    }
    let dir = stat(&path, &spot.dir)?;
    let identity = TargetIdentity::New(dir.st_dev, dir.st_ino, name);
    Ok((Location::New(spot), facts, identity))
}

/// Opens the directory of a file to be created, once, and verifies that creation is allowed there.
pub(crate) fn spot(
    lookup: &Lookup,
    path: &str,
    dir_path: &str,
    name: &str,
) -> Result<Spot, GuardError> {
    let dir = target::open_path(dir_path).map_err(|error| no_directory(path, error))?;
    let spot = Spot { dir, missing: Vec::new(), name: name.to_string() };
    may_create(lookup, path, &spot)?;
    Ok(spot)
}

fn no_directory(path: &str, error: io::Error) -> GuardError {
    match error.kind() {
        io::ErrorKind::NotFound => GuardError::NoDirectory { path: path.to_string() },
        _ => GuardError::io(path, "open the directory of", error),
    }
}

fn may_create(lookup: &Lookup, path: &str, spot: &Spot) -> Result<(), GuardError> {
    let Spot { dir, missing, name } = spot;
    let stat =
        target::stat(dir).map_err(|error| GuardError::io(path, "read the status of", error))?;
    let on_devtmpfs = lookup.mount_of(&stat).is_some_and(|m| m.file_system == "devtmpfs");
    if on_devtmpfs || Path::new(&target::resolved(dir)).starts_with("/dev") {
        return Err(GuardError::UnderDev { path: path.to_string() });
    }
    let link = statat(dir, missing.first().unwrap_or(name), AtFlags::SYMLINK_NOFOLLOW);
    if link.is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::Symlink) {
        return Err(GuardError::DanglingLink { path: path.to_string() });
    }
    Ok(())
}

/// Verifies that `resolved`, the current path of a descriptor that will be used, is within the job's directory.
pub(crate) fn stay_within(
    path: &str,
    within: Option<&str>,
    resolved: &str,
) -> Result<(), GuardError> {
    let Some(directory) = within else { return Ok(()) };
    let dir = target::open_path(directory).map_err(|error| no_directory(path, error))?;
    if Path::new(resolved).starts_with(target::resolved(&dir)) {
        return Ok(());
    }
    let (path, resolved) = (path.to_string(), resolved.to_string());
    Err(GuardError::Outside { path, resolved, directory: directory.to_string() })
}
