//! What lies on what: block devices, loop devices, mounts, swap and files, by identity.
//!
//! Paths do not identify anything: files have several names or none, directories are covered by
//! mounts, and names differ between mount namespaces. Devices are compared by their numbers, files
//! by the number of their file system's device and their inode. Where the kernel tells no identity,
//! what a path may lead to is taken instead, and in doubt two files are the same.

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

/// A file as far as it can be told from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    /// Number of its file system's device (st_dev).
    pub device: Number,
    /// Its inode number (st_ino).
    pub inode: u64,
    /// The sizes in bytes that it may have.
    pub sizes: RangeInclusive<u64>,
    /// It is, or may be, seen through an overlay, which gives files numbers of its own.
    pub overlaid: bool,
}

/// What two identities say of two files.
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

/// What bytes are kept in.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Object {
    Device(Number),
    File(FileIdentity),
}

/// A snapshot of all block devices and of what uses them and the files behind them.
pub(crate) struct StorageStack {
    roots: Roots,
    namespaces: Vec<Namespace>,
    /// Devices whose bytes are another device's or a file's: loop, zram, nbd and ublk devices.
    layers: Vec<Layer>,
    swaps: Vec<Swap>,
    /// Members of mounted file systems of several devices, with the name of the file system.
    members: Vec<(Number, String)>,
}

impl StorageStack {
    /// Reads all of it.
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

/// Devices of mounted btrfs and bcachefs file systems, whose mounts name one device at most.
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
