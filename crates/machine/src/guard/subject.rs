//! What a plan's targets lead to: each file or device once, however many paths lead to it.

use super::error::GuardError;
use crate::device::Number;
use crate::target::{self, Lookup};
use fathom_model::facts::{TargetFacts, TargetKind};
use fathom_model::plan::{Fallocate, Plan, Target};
use rustix::fs::{AtFlags, FileType, Stat, statat};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// What makes two targets the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// A file, by device and inode.
    File(u64, u64),
    /// A block or character device node, by kind and number.
    Device(TargetKindKey, Number),
    /// A name that does not exist yet, by its directory's device and inode.
    New(u64, u64, String),
}

/// The kinds of device nodes, whose numbers are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TargetKindKey {
    /// `/dev/nvme0n1`.
    Block,
    /// `/dev/ng0n1`.
    Generic,
}

/// Where something is.
pub(crate) enum Place {
    /// It exists; the descriptor only names it (O_PATH).
    There(OwnedFd),
    /// It does not exist.
    New(Spot),
}

/// A name in an open directory.
pub(crate) struct Spot {
    /// The directory.
    pub dir: OwnedFd,
    /// The name in it.
    pub name: String,
}

/// What all targets that lead to one thing want of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Want {
    /// Written or trimmed.
    pub written: bool,
    /// The greatest size wanted.
    pub create_size: Option<u64>,
    /// How space is reserved.
    pub fallocate: Fallocate,
    /// Filled with data where it is newly made.
    pub fill: bool,
    /// Made when its job opens it.
    pub late: bool,
    /// Removed afterwards if this run made it.
    pub unlink: bool,
    /// Dropped from the page cache first.
    pub invalidate: bool,
}

/// A file or device that a plan works on.
pub(crate) struct Subject {
    /// The paths that the plan calls it, at least one.
    pub paths: Vec<String>,
    /// Indexes of the plan's targets that lead to it, in step with `paths`.
    pub members: Vec<usize>,
    /// What is wanted of it.
    pub want: Want,
    /// Where it is.
    pub place: Place,
    /// What it is.
    pub facts: TargetFacts,
}

impl Subject {
    /// The first path that the plan calls it.
    pub fn path(&self) -> &str {
        &self.facts.path
    }
}

/// Looks at all targets of a plan. Nothing is opened for reading or writing.
pub(crate) fn gather(lookup: &Lookup, plan: &Plan) -> Result<Vec<Subject>, GuardError> {
    let mut all: Vec<Subject> = Vec::new();
    let mut known: HashMap<Identity, usize> = HashMap::new();
    for (index, target) in plan.targets.iter().enumerate() {
        let (place, facts, identity) = find(lookup, target)?;
        match known.entry(identity) {
            Entry::Occupied(at) => {
                let subject = &mut all[*at.get()];
                subject.paths.push(target.path.clone());
                subject.members.push(index);
                join(&mut subject.want, target);
            }
            Entry::Vacant(at) => {
                at.insert(all.len());
                let paths = vec![target.path.clone()];
                all.push(Subject { paths, members: vec![index], want: want(target), place, facts });
            }
        }
    }
    Ok(all)
}

fn want(target: &Target) -> Want {
    Want {
        written: target.written || target.trimmed,
        create_size: target.create_size,
        fallocate: target.fallocate,
        fill: target.fill,
        // What is to be filled must be there before the run.
        late: target.create_on_open && !target.fill,
        unlink: target.unlink,
        invalidate: target.invalidate,
    }
}

fn join(want: &mut Want, target: &Target) {
    want.written |= target.written || target.trimmed;
    want.create_size = want.create_size.max(target.create_size);
    want.fill |= target.fill;
    want.late &= target.create_on_open && !target.fill;
    want.unlink |= target.unlink;
    want.invalidate |= target.invalidate;
}

fn find(lookup: &Lookup, target: &Target) -> Result<(Place, TargetFacts, Identity), GuardError> {
    let path = &target.path;
    match target::look(path) {
        Ok(fd) => there(lookup, target, fd),
        Err(error) if error.kind() == io::ErrorKind::NotFound => new(lookup, target),
        Err(error) => Err(GuardError::io(path, "open", error)),
    }
}

fn there(
    lookup: &Lookup,
    target: &Target,
    fd: OwnedFd,
) -> Result<(Place, TargetFacts, Identity), GuardError> {
    let path = target.path.clone();
    let facts =
        lookup.open_target(&path, &fd).map_err(|error| GuardError::io(&path, "look at", error))?;
    stay_within(target, &facts.resolved)?;
    let identity = match facts.kind {
        TargetKind::File => file_identity(&stat(&path, &fd)?),
        TargetKind::BlockDevice => Identity::Device(TargetKindKey::Block, facts.device_number),
        TargetKind::NvmeGeneric => Identity::Device(TargetKindKey::Generic, facts.device_number),
        TargetKind::Directory => return Err(GuardError::IsDirectory { path }),
        TargetKind::Missing | TargetKind::Other => return Err(GuardError::NotUsable { path }),
    };
    Ok((Place::There(fd), facts, identity))
}

/// The identity of the file that this is the status of.
pub(crate) fn file_identity(stat: &Stat) -> Identity {
    Identity::File(stat.st_dev, stat.st_ino)
}

pub(crate) fn stat(path: &str, fd: &OwnedFd) -> Result<Stat, GuardError> {
    rustix::fs::fstat(fd).map_err(|error| GuardError::io(path, "look at", error))
}

fn new(lookup: &Lookup, target: &Target) -> Result<(Place, TargetFacts, Identity), GuardError> {
    let path = target.path.clone();
    let Some((dir_path, name)) = target::split(&path) else {
        return Err(GuardError::IsDirectory { path });
    };
    let facts = lookup.target(&path).map_err(|error| GuardError::io(&path, "look at", error))?;
    if Path::new(&path).starts_with("/dev") {
        return Err(GuardError::UnderDev { path });
    }
    let spot = spot(lookup, &path, dir_path, name)?;
    if target.create_size.is_none() {
        return Err(GuardError::Missing { path });
    }
    stay_within(target, &facts.resolved)?;
    let dir = stat(&path, &spot.dir)?;
    let identity = Identity::New(dir.st_dev, dir.st_ino, name.to_string());
    Ok((Place::New(spot), facts, identity))
}

/// Opens the directory that a file is to be made in, once, and proves that it may be made there.
pub(crate) fn spot(
    lookup: &Lookup,
    path: &str,
    dir_path: &str,
    name: &str,
) -> Result<Spot, GuardError> {
    let dir = target::look(dir_path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => GuardError::NoDirectory { path: path.to_string() },
        _ => GuardError::io(path, "open the directory of", error),
    })?;
    let stat = target::stat(&dir).map_err(|error| GuardError::io(path, "look at", error))?;
    let on_devtmpfs = lookup.mount_of(&stat).is_some_and(|m| m.file_system == "devtmpfs");
    if on_devtmpfs || Path::new(&target::resolved(&dir)).starts_with("/dev") {
        return Err(GuardError::UnderDev { path: path.to_string() });
    }
    let link = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW);
    if link.is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::Symlink) {
        return Err(GuardError::DanglingLink { path: path.to_string() });
    }
    Ok(Spot { dir, name: name.to_string() })
}

/// A job that names a directory stays in it, also where symbolic links lead out.
fn stay_within(target: &Target, resolved: &str) -> Result<(), GuardError> {
    let Some(directory) = &target.within else { return Ok(()) };
    let path = target.path.clone();
    let dir = target::look(directory).map_err(|error| GuardError::io(directory, "open", error))?;
    if Path::new(resolved).starts_with(target::resolved(&dir)) {
        return Ok(());
    }
    let (resolved, directory) = (resolved.to_string(), directory.clone());
    Err(GuardError::Outside { path, resolved, directory })
}
