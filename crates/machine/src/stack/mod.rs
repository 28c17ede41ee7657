//! The storage stack: block devices, loop devices, mounts, swap and files, by identity.
//!
//! Paths do not identify files: a file may have several names or none, mounts cover directories, and
//! names differ between mount namespaces. Devices are compared by number, files by st_dev and inode.
//! Where the kernel reports only a path, everything that it may refer to is considered, and in doubt
//! two files are treated as the same.

mod backing;
mod paths;
mod sharing;
mod sources;

use backing::BackedDevice;
use fathom_sys::device::{Node, Number};
use fathom_sys::mounts::{self, Namespace};
use fathom_sys::roots::{self, Roots, Unread};
pub(crate) use paths::block_number;
use sources::MountSources;
use std::ops::RangeInclusive;
use std::time::Duration;

const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    pub device: Number,
    pub inode: u64,
    pub sizes: RangeInclusive<u64>,
    /// Whether it is or may be seen through an overlay, which assigns its own numbers.
    pub overlaid: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    Different,
    Possible,
    Same,
}

impl FileIdentity {
    fn likeness(&self, other: &Self) -> Likeness {
        if (self.device, self.inode) == (other.device, other.inode) {
            return Likeness::Same;
        }
        let same_size =
            self.sizes.start() <= other.sizes.end() && other.sizes.start() <= self.sizes.end();
        if (self.overlaid || other.overlaid) && self.device != other.device && same_size {
            return Likeness::Possible;
        }
        Likeness::Different
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Object {
    Device(Number),
    File(FileIdentity),
}

/// A snapshot of all block devices, their users, and their backing files.
pub(crate) struct StorageStack {
    roots: Roots,
    namespaces: Vec<Namespace>,
    /// Devices with a backing store: loop, zram, nbd and ublk devices.
    layers: Vec<BackedDevice>,
    swaps: Vec<Object>,
    /// What mounts without a block device's number are mounted from.
    sources: MountSources,
    /// Members of mounted multi-device file systems, with the name of the file system.
    members: Vec<(Number, String)>,
}

impl StorageStack {
    /// Takes a snapshot.
    /// If a part of it cannot be read, any file or device may be in use.
    pub fn read(roots: &Roots) -> Result<Self, Unread> {
        for _ in 1..TRIES {
            match Self::read_once(roots) {
                Err(error) if error.may_pass() => std::thread::sleep(PAUSE),
                other => return other,
            }
        }
        Self::read_once(roots)
    }

    fn read_once(roots: &Roots) -> Result<Self, Unread> {
        let namespaces = mounts::namespaces(roots)?;
        let mut layers = backing::loops(roots, &namespaces)?;
        layers.extend(backing::zrams(roots, &namespaces)?);
        layers.extend(backing::served_layers(roots)?);
        Ok(Self {
            swaps: paths::swaps(roots, &namespaces)?,
            sources: MountSources::read(roots, &namespaces),
            members: members(roots)?,
            roots: roots.clone(),
            namespaces,
            layers,
        })
    }
}

/// Devices of mounted btrfs and bcachefs file systems, of which mountinfo lists at most one.
fn members(roots: &Roots) -> Result<Vec<(Number, String)>, Unread> {
    let mut found = Vec::new();
    for system in ["btrfs", "bcachefs"] {
        let dir = roots.sys.join("fs").join(system);
        // Without that file system in the kernel, there is none.
        for uuid in roots::list(&dir)?.unwrap_or_default() {
            let (dir, name) = (dir.join(&uuid), format!("{system} {uuid}"));
            let (devices, prefix, below) = match system {
                "btrfs" => (dir.join("devices"), "", ""),
                _ => (dir, "dev-", "block"),
            };
            // Other directories, such as `features`, hold no devices.
            let names = roots::list(&devices)?.unwrap_or_default().into_iter();
            for device in names.filter(|name| name.starts_with(prefix)) {
                let node = Node::read(&devices.join(device).join(below))?;
                found.extend(node.map(|node| (node.number, name.clone())));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
