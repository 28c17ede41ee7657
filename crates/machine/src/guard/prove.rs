//! Verifies that a target may be used as the plan requires, without changing anything.

use super::Permissions;
use super::claim::{TargetLocks, locked};
use super::error::GuardError;
use super::permission::{self, Erase};
use super::subject::{self, GuardSubject, Location};
use crate::mark::{self, descriptor_path};
use crate::signature;
use crate::stack::{FileIdentity, StorageStack};
use fathom_model::facts::TargetKind;
use fathom_sys::device::{Node, Number};
use fathom_sys::roots::{Roots, Unread};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, SeekFrom, accessat};
use std::cell::OnceCell;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) struct Prover<'a> {
    pub roots: &'a Roots,
    pub permissions: &'a Permissions,
    pub claims: TargetLocks,
    pub stack: OnceCell<StorageStack>,
}

impl Prover<'_> {
    fn stack(&self) -> Result<&StorageStack, Unread> {
        if self.stack.get().is_none() {
            let _ = self.stack.set(StorageStack::read(self.roots)?);
        }
        self.stack.get().ok_or_else(|| Unread::missing(&self.roots.sys))
    }

    /// The backing files of the device with this number, with the paths known to the kernel.
    pub fn files_below(&self, number: Number) -> Result<Vec<(FileIdentity, PathBuf)>, Unread> {
        match Node::by_number(self.roots, number) {
            Some(node) => Ok(self.stack()?.sharing(&node)?.files),
            // A file system without a block device of its own.
            None => Ok(Vec::new()),
        }
    }
}

#[derive(Default)]
pub(crate) struct Proof {
    pub claims: Vec<Arc<OwnedFd>>,
    /// Whether it is a file to be written or extended, to be opened by [`open_for_writing`].
    pub opens_for_writing: bool,
    /// What trims of a block device go through.
    pub trims: Option<Arc<OwnedFd>>,
    pub may_write: bool,
    pub grow_to: Option<u64>,
    /// Whether fathom created the file, and no one else has changed it since.
    pub own: bool,
    /// Backing files of a device, with the paths known to the kernel; writing fills their holes.
    pub files_below: Vec<(FileIdentity, PathBuf)>,
}

impl Prover<'_> {
    /// Checks one file or device, and holds it if it is written.
    pub fn prove(&mut self, subject: &mut GuardSubject) -> Result<Proof, GuardError> {
        match (&subject.place, subject.facts.kind) {
            (Location::New(_), _) => {
                Ok(Proof { may_write: subject.want.written, ..Proof::default() })
            }
            (Location::Existing(_), TargetKind::File) => self.file(subject),
            (Location::Existing(_), _) if subject.want.written => self.written_device(subject),
            (Location::Existing(_), _) => read_device(subject),
        }
    }

    fn written_device(&mut self, subject: &mut GuardSubject) -> Result<Proof, GuardError> {
        let path = subject.path().to_string();
        let Location::Existing(named) = &subject.place else { return Ok(Proof::default()) };
        let unread = |source| GuardError::Unread { path: path.clone(), source };
        let stack = self.stack().map_err(unread)?;
        let number = subject.facts.device_number;
        let is_block = subject.facts.kind == TargetKind::BlockDevice;
        let node = if is_block {
            Node::by_number(self.roots, number)
        } else {
            Node::of_generic(self.roots, number).map(|(node, _)| node)
        };
        let node = node.ok_or_else(|| GuardError::Unknown { path: path.clone() })?;
        let sharing = stack.sharing(&node).map_err(unread)?;
        if !sharing.uses.is_empty() {
            return Err(GuardError::InUse { path, users: sharing.uses });
        }
        if node.is_read_only() {
            return Err(GuardError::ReadOnly { path });
        }
        let erase = permission::erase(self.permissions, subject, &node)?;
        let at = is_block.then_some(named);
        let for_trims = is_block && subject.want.trimmed;
        let claim = self.claims.device(self.roots, &path, &node, at, for_trims)?;
        let mut claims = vec![Arc::clone(&claim.device), claim.disk];
        for below in &sharing.unheld {
            // Not all users are listed anywhere: the devices below must be free for O_EXCL, too.
            let claim = self.claims.device(self.roots, &path, below, None, false)?;
            claims.extend([claim.device, claim.disk]);
        }
        may_write(&path, named)?;
        subject.facts.size_bytes = size(&path, &claim.device)?;
        not_empty(subject)?;
        if erase != Erase::Confirmed {
            blank(subject, &node, &claim.device)?;
        }
        let trims = claim.for_trims.then_some(claim.device);
        let files_below = sharing.files;
        Ok(Proof { claims, trims, may_write: true, files_below, ..Proof::default() })
    }

    fn file(&self, subject: &GuardSubject) -> Result<Proof, GuardError> {
        let path = subject.path();
        let Location::Existing(named) = &subject.place else { return Ok(Proof::default()) };
        let stat = subject::stat(path, named)?;
        let size = subject.facts.size_bytes;
        let grow_to = subject.want.create_size.filter(|wanted| *wanted > size);
        if grow_to.is_none() {
            not_empty(subject)?;
        }
        let readable = reopen(path, named, OFlags::RDONLY, "read")?;
        if !subject.want.written && grow_to.is_none() {
            return Ok(Proof::default());
        }
        let users = self.stack().and_then(|stack| stack.uses_of_file(&readable, &stat));
        let users =
            users.map_err(|source| GuardError::Unread { path: path.to_string(), source })?;
        if !users.is_empty() {
            return Err(GuardError::InUse { path: path.to_string(), users });
        }
        // Lock first: the mark is void while another fathom writes the file.
        let readable = locked(path, Arc::new(readable))?;
        // With more links, the contents may belong to someone else.
        let own = mark::is_own(&readable) && stat.st_nlink <= 1;
        if !own && !permission::may_overwrite(self.permissions, subject, &stat) {
            let flag = permission::overwrite_flag(subject);
            #[allow(clippy::useless_conversion, reason = "u32 on aarch64")]
            let links = u64::from(stat.st_nlink);
            return Err(GuardError::NeedsOverwrite { path: path.to_string(), links, flag });
        }
        if grow_to.is_some() && subject.facts.resolved.starts_with("/dev/") {
            return Err(GuardError::UnderDev { path: path.to_string() });
        }
        may_write(path, named)?;
        Ok(Proof {
            claims: vec![readable],
            opens_for_writing: true,
            may_write: subject.want.written,
            grow_to,
            own,
            ..Proof::default()
        })
    }
}

/// Whether this user may write, found out without opening: that copies a file up from a lower layer of an overlay.
fn may_write(path: &str, named: &OwnedFd) -> Result<(), GuardError> {
    accessat(CWD, descriptor_path(named), Access::WRITE_OK, AtFlags::empty())
        .map_err(|error| GuardError::io(path, "write to", error))
}

/// Opens a file that was proven to be writable, once all targets are proven; `own` if because of its mark.
pub(crate) fn open_for_writing(
    path: &str,
    named: &OwnedFd,
    own: bool,
) -> Result<OwnedFd, GuardError> {
    let file = reopen(path, named, OFlags::RDWR, "write to")?;
    if own && !mark::is_own(&file) {
        return Err(GuardError::Changed { path: path.to_string() });
    }
    Ok(file)
}

fn read_device(subject: &mut GuardSubject) -> Result<Proof, GuardError> {
    let Location::Existing(named) = &subject.place else { return Ok(Proof::default()) };
    let fd = reopen(subject.path(), named, OFlags::RDONLY, "read")?;
    if subject.facts.kind == TargetKind::BlockDevice {
        subject.facts.size_bytes = size(subject.path(), &fd)?;
    }
    not_empty(subject).map(|()| Proof::default())
}

/// Checks that the device has no known signatures and no partitions.
fn blank(subject: &GuardSubject, node: &Node, device: &OwnedFd) -> Result<(), GuardError> {
    let block = subject.facts.device.as_ref().map_or(512, |device| device.logical_block);
    let mut found = signature::find(device, subject.facts.size_bytes, block);
    let unread = |source| GuardError::Unread { path: subject.path().to_string(), source };
    let partitions = node.partitions().map_err(unread)?;
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

fn not_empty(subject: &GuardSubject) -> Result<(), GuardError> {
    if subject.facts.size_bytes > 0 {
        return Ok(());
    }
    let hint = match subject.facts.kind {
        TargetKind::File => "set a size to extend it",
        _ => "attach the device first, or insert a medium",
    };
    Err(GuardError::Empty { path: subject.path().to_string(), hint })
}

fn size(path: &str, fd: &OwnedFd) -> Result<u64, GuardError> {
    rustix::fs::seek(fd, SeekFrom::End(0))
        .map_err(|error| GuardError::io(path, "read the size of", error))
}

/// Reopens an O_PATH descriptor, and verifies that it is the same file.
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
