//! Exclusive access to targets that are written: O_EXCL on block devices, and flock(2) on files and
//! whole disks.

use super::error::GuardError;
use super::subject::stat;
use crate::mark::descriptor_path;
use crate::stack::{self, StorageStack};
use crate::target;
use fathom_sys::device::{Node, Number};
use fathom_sys::roots::Roots;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Number of attempts, since udev and others hold devices only briefly.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(crate) struct TargetLocks {
    /// Each with whether trims can go through it.
    devices: HashMap<Number, (Arc<OwnedFd>, bool)>,
    disks: HashMap<Number, Arc<OwnedFd>>,
}

pub(crate) struct TargetLock {
    pub device: Arc<OwnedFd>,
    pub for_trims: bool,
    /// The whole disk, locked with flock.
    pub disk: Arc<OwnedFd>,
}

impl TargetLocks {
    /// Opens a device exclusively and locks its disk as systemd specifies ("Locking Block Device
    /// Access"). `at` is an O_PATH descriptor of the device; without it, uses the kernel's node. `for_trims`: open it for
    /// writing, too, unless this run holds it already.
    pub fn device(
        &mut self,
        roots: &Roots,
        path: &str,
        node: &Node,
        at: Option<&OwnedFd>,
        for_trims: bool,
    ) -> Result<TargetLock, GuardError> {
        let (device, for_trims) = match self.devices.get(&node.number) {
            Some((device, for_trims)) => (Arc::clone(device), *for_trims),
            None => (Arc::new(exclusively(roots, path, node, at, for_trims)?), for_trims),
        };
        self.devices.insert(node.number, (Arc::clone(&device), for_trims));
        let disk = node.disk();
        let locked = match self.disks.get(&disk.number) {
            Some(locked) => Arc::clone(locked),
            None if disk == *node => locked(path, Arc::clone(&device))?,
            None => locked(path, Arc::new(open_node(path, &disk, None, OFlags::empty())?))?,
        };
        self.disks.insert(disk.number, Arc::clone(&locked));
        Ok(TargetLock { device, for_trims, disk: locked })
    }
}

fn exclusively(
    roots: &Roots,
    path: &str,
    node: &Node,
    at: Option<&OwnedFd>,
    for_trims: bool,
) -> Result<OwnedFd, GuardError> {
    let access = if for_trims { OFlags::RDWR } else { OFlags::RDONLY };
    for _ in 0..TRIES {
        match open_node(path, node, at, OFlags::EXCL | access) {
            Err(GuardError::Io { source, .. }) if is_busy(&source) => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
    // List current users; there may be new ones since the first check. It is refused in any case.
    let sharing = StorageStack::read(roots).and_then(|stack| stack.sharing(node));
    let mut users = sharing.map_or_else(|error| vec![error.to_string()], |sharing| sharing.uses);
    if users.is_empty() {
        users.push(format!(
            "{}, or a part of it, is open exclusively (O_EXCL): by a multi-device file system, by \
             another program such as a second fathom, or by another target of this run",
            node.path()
        ));
    }
    Err(GuardError::InUse { path: path.to_string(), users })
}

fn is_busy(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::BUSY.raw_os_error())
}

/// Opens a block device, for reading unless `flags` say otherwise, and verifies its number.
fn open_node(
    path: &str,
    node: &Node,
    at: Option<&OwnedFd>,
    flags: OFlags,
) -> Result<OwnedFd, GuardError> {
    let own = match at {
        Some(_) => None,
        None => Some(target::open_path(&node.path()).map_err(|source| GuardError::Io {
            path: format!("{} to hold {path}", node.path()),
            doing: "open",
            source,
        })?),
    };
    let Some(named) = at.or(own.as_ref()) else { return Err(changed(path)) };
    let fd = rustix::fs::open(descriptor_path(named), flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| GuardError::io(path, "open", error))?;
    let stat = stat(path, &fd)?;
    if stack::block_number(&stat) != Some(node.number) {
        return Err(changed(path));
    }
    Ok(fd)
}

fn changed(path: &str) -> GuardError {
    GuardError::Changed { path: path.to_string() }
}

pub(crate) fn locked(path: &str, fd: Arc<OwnedFd>) -> Result<Arc<OwnedFd>, GuardError> {
    locked_with(path, fd, FlockOperation::NonBlockingLockExclusive)
}

/// Locks an open file, device or directory, by an operation that does not block.
pub(crate) fn locked_with<F: AsFd>(
    path: &str,
    fd: F,
    operation: FlockOperation,
) -> Result<F, GuardError> {
    for _ in 0..TRIES {
        match flock(&fd, operation) {
            Ok(()) => return Ok(fd),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            Err(Errno::INTR) => {}
            Err(error) => return Err(GuardError::io(path, "lock", error)),
        }
    }
    Err(GuardError::Locked { path: path.to_string() })
}
