//! The storage stack: block devices, loop devices, mounts, swap and files, by identity.
//!
//! Paths do not identify files: a file may have several names or none, mounts cover directories, and
//! names differ between mount namespaces. Devices are compared by number, files by st_dev and inode.
//! Where the kernel reports only a path, everything that it may refer to is considered, and in doubt
//! two files are treated as the same.

mod backing;
mod paths;
mod servers;
mod sharing;

use crate::device::{Node, Number};
use crate::mounts::{self, Namespace};
use crate::roots::{Roots, entries};
use backing::Layer;
use paths::Swap;
pub(crate) use paths::block_number;
use std::ops::RangeInclusive;

/// Identity of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    /// st_dev.
    pub device: Number,
    /// st_ino.
    pub inode: u64,
    /// Possible sizes in bytes.
    pub sizes: RangeInclusive<u64>,
    /// Whether it is or may be seen through an overlay, which assigns its own numbers.
    pub overlaid: bool,
}

/// Result of comparing two identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    Same,
    Possible,
    Different,
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

/// A backing store.
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
    layers: Vec<Layer>,
    swaps: Vec<Swap>,
    /// Members of mounted multi-device file systems, with the name of the file system.
    members: Vec<(Number, String)>,
}

impl StorageStack {
    /// Takes a snapshot.
    pub fn read(roots: &Roots) -> Self {
        let namespaces = mounts::namespaces(roots);
        let mut layers = backing::loops(roots, &namespaces);
        layers.extend(backing::zrams(roots, &namespaces));
        layers.extend(servers::layers(roots));
        Self {
            swaps: paths::swaps(roots, &namespaces),
            members: members(roots),
            roots: roots.clone(),
            namespaces,
            layers,
        }
    }
}

/// Devices of mounted btrfs and bcachefs file systems, of which mountinfo lists at most one.
fn members(roots: &Roots) -> Vec<(Number, String)> {
    let below = roots.sys.join("fs");
    let mut found = Vec::new();
    for uuid in entries(below.join("btrfs")) {
        let devices = below.join("btrfs").join(&uuid).join("devices");
        let nodes =
            entries(&devices).into_iter().filter_map(|name| Node::by_dir(&devices.join(name)));
        found.extend(nodes.map(|node| (node.number, format!("btrfs {uuid}"))));
    }
    for uuid in entries(below.join("bcachefs")) {
        let dir = below.join("bcachefs").join(&uuid);
        let blocks = entries(&dir).into_iter().map(|name| dir.join(name).join("block"));
        let nodes = blocks.filter_map(|block| Node::by_dir(&block));
        found.extend(nodes.map(|node| (node.number, format!("bcachefs {uuid}"))));
    }
    found
}

#[cfg(test)]
mod tests;
