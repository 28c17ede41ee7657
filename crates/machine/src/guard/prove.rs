//! Proving that a target may be used as the plan wants, changing nothing.

use super::claim::{Claims, locked};
use super::error::GuardError;
use super::permission::{self, Erase, Permissions};
use super::subject::{self, Place, Subject};
use crate::device::Node;
use crate::mark::{self, descriptor_path};
use crate::roots::Roots;
use crate::{signature, users};
use fathom_model::facts::TargetKind;
use rustix::fs::{Mode, OFlags, SeekFrom};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// That a target may be used, and what is held for that.
#[derive(Default)]
pub(crate) struct Proof {
    /// Descriptors whose being open holds the target.
    pub claims: Vec<Arc<OwnedFd>>,
    /// A file that is written to or made longer, open for both.
    pub file: Option<Arc<OwnedFd>>,
    /// Workers may write.
    pub may_write: bool,
    /// The size that an existing file is to have, where that is more than it has.
    pub grow_to: Option<u64>,
    /// The first byte of an existing file that has to be filled.
    pub fill_from: Option<u64>,
    /// The file carries fathom's mark.
    pub marked: bool,
}

/// Proves it for one file or device, and holds it where it is written to.
pub(crate) fn prove(
    roots: &Roots,
    subject: &mut Subject,
    claims: &mut Claims,
    permissions: &Permissions,
) -> Result<Proof, GuardError> {
    match (&subject.place, subject.facts.kind) {
        (Place::New(_), _) => Ok(Proof { may_write: subject.want.written, ..Proof::default() }),
        (Place::There(_), TargetKind::File) => file(roots, subject, permissions),
        (Place::There(_), _) if subject.want.written => {
            written_device(roots, subject, claims, permissions)
        }
        (Place::There(_), _) => read_device(subject),
    }
}

fn read_device(subject: &mut Subject) -> Result<Proof, GuardError> {
    let Place::There(named) = &subject.place else { return Ok(Proof::default()) };
    let fd = reopen(subject.path(), named, OFlags::RDONLY, "read")?;
    if subject.facts.kind == TargetKind::BlockDevice {
        subject.facts.size_bytes = size(subject.path(), &fd)?;
    }
    not_empty(subject).map(|()| Proof::default())
}

fn written_device(
    roots: &Roots,
    subject: &mut Subject,
    claims: &mut Claims,
    permissions: &Permissions,
) -> Result<Proof, GuardError> {
    let path = subject.path().to_string();
    let Place::There(named) = &subject.place else { return Ok(Proof::default()) };
    let number = subject.facts.device_number;
    let is_block = subject.facts.kind == TargetKind::BlockDevice;
    let node = if is_block {
        Node::by_number(roots, number)
    } else {
        Node::of_generic(roots, number).map(|(node, _)| node)
    };
    let node = node.ok_or_else(|| GuardError::Unknown { path: path.clone() })?;
    unused(roots, &path, &node)?;
    if node.is_read_only() {
        return Err(GuardError::ReadOnly { path });
    }
    let claim = claims.device(roots, &path, &node, is_block.then_some(named))?;
    // Once more, now that nobody can begin to use it.
    unused(roots, &path, &node)?;
    subject.facts.size_bytes = size(&path, &claim.device)?;
    not_empty(subject)?;
    let permitted = permission::erase(permissions, subject, &node)?;
    if permitted != Erase::Confirmed {
        blank(subject, &node, &claim.device)?;
    }
    let Place::There(named) = &subject.place else { return Ok(Proof::default()) };
    drop(reopen(&path, named, OFlags::RDWR, "write to")?);
    let claims = vec![claim.device, claim.disk];
    Ok(Proof { claims, may_write: true, ..Proof::default() })
}

fn unused(roots: &Roots, path: &str, node: &Node) -> Result<(), GuardError> {
    let users = users::of_device(roots, node);
    if users.is_empty() {
        return Ok(());
    }
    Err(GuardError::InUse { path: path.to_string(), users })
}

/// Nothing is on the device, as far as signatures and partitions show.
fn blank(subject: &Subject, node: &Node, device: &OwnedFd) -> Result<(), GuardError> {
    let block = subject.facts.device.as_ref().map_or(512, |device| device.logical_block);
    let mut found = signature::find(device, subject.facts.size_bytes, block);
    let partitions = node.partitions();
    if !partitions.is_empty() {
        let names: Vec<String> = partitions.iter().map(Node::name).collect();
        found.push(format!("partitions ({})", names.join(" ")));
    }
    if found.is_empty() {
        return Ok(());
    }
    let flag = permission::full_flag(subject, node);
    Err(GuardError::NeedsConfirmation { path: subject.path().to_string(), found, flag })
}

fn file(roots: &Roots, subject: &Subject, permissions: &Permissions) -> Result<Proof, GuardError> {
    let path = subject.path();
    let Place::There(named) = &subject.place else { return Ok(Proof::default()) };
    let stat = subject::stat(path, named)?;
    let size = subject.facts.size_bytes;
    let grow_to = subject.want.create_size.filter(|wanted| *wanted > size);
    if grow_to.is_none() {
        not_empty(subject)?;
    }
    let unfinished = |fd: &OwnedFd| {
        let from = mark::read(fd).and_then(|mark| mark.unfinished_from);
        from.filter(|from| subject.want.fill && *from < grow_to.unwrap_or(size))
    };
    let readable = reopen(path, named, OFlags::RDONLY, "read")?;
    if !subject.want.written && grow_to.is_none() && unfinished(&readable).is_none() {
        return Ok(Proof::default());
    }
    let users = users::of_file(roots, &stat, &subject.facts.resolved);
    if !users.is_empty() {
        return Err(GuardError::InUse { path: path.to_string(), users });
    }
    let marked = mark::read(&readable).is_some();
    // A second name may be how someone else keeps the contents.
    let own = marked && stat.st_nlink <= 1;
    if !own && !permission::may_overwrite(permissions, subject, &stat) {
        let flag = permission::overwrite_flag(subject);
        let links = stat.st_nlink;
        return Err(GuardError::NeedsOverwrite { path: path.to_string(), links, flag });
    }
    if grow_to.is_some() && subject.facts.resolved.starts_with("/dev/") {
        return Err(GuardError::UnderDev { path: path.to_string() });
    }
    let file = locked(path, Arc::new(reopen(path, named, OFlags::RDWR, "write to")?))?;
    let grown_from = grow_to.filter(|_| subject.want.fill).map(|_| size);
    let fill_from = unfinished(&file).into_iter().chain(grown_from).min();
    Ok(Proof {
        claims: vec![Arc::clone(&file)],
        file: Some(file),
        may_write: subject.want.written,
        grow_to,
        fill_from,
        marked,
    })
}

fn not_empty(subject: &Subject) -> Result<(), GuardError> {
    if subject.facts.size_bytes > 0 {
        return Ok(());
    }
    let hint = match subject.facts.kind {
        TargetKind::File => "give a size, so that it is made longer",
        _ => "set the device up first, or put a medium in",
    };
    Err(GuardError::Empty { path: subject.path().to_string(), hint })
}

fn size(path: &str, fd: &OwnedFd) -> Result<u64, GuardError> {
    rustix::fs::seek(fd, SeekFrom::End(0))
        .map_err(|error| GuardError::io(path, "find the size of", error))
}

/// Opens for real what a descriptor names, and proves that it is the same.
fn reopen(
    path: &str,
    named: &OwnedFd,
    flags: OFlags,
    doing: &'static str,
) -> Result<OwnedFd, GuardError> {
    let fd = rustix::fs::open(descriptor_path(named), flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| GuardError::io(path, doing, error))?;
    let (before, after) = (subject::stat(path, named)?, subject::stat(path, &fd)?);
    let same = (before.st_dev, before.st_ino, before.st_rdev)
        == (after.st_dev, after.st_ino, after.st_rdev);
    same.then_some(fd).ok_or_else(|| GuardError::Changed { path: path.to_string() })
}
