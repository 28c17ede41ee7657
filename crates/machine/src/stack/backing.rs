//! Loop and zram devices, and what their bytes are kept in.

use super::paths::{self, path_in};
use super::{FileIdentity, Object};
use crate::device::{Node, Number};
use crate::ioctl::{LoopBacking, loop_backing};
use crate::mounts::Namespace;
use crate::roots::{Roots, entries, number};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// A device whose bytes are those of something else.
pub(super) struct Layer {
    pub device: Node,
    /// What it is on. Of a path that is all that is known, each thing that it leads to; nothing
    /// where it leads nowhere.
    pub objects: Vec<Object>,
    /// What the kernel calls that.
    pub path: PathBuf,
    /// The sizes in bytes that a file behind it may have.
    pub sizes: std::ops::RangeInclusive<u64>,
}

/// All loop devices that are set up.
pub(super) fn loops(roots: &Roots, namespaces: &[Namespace]) -> Vec<Layer> {
    let block = roots.sys.join("block");
    let names = entries(&block).into_iter().filter(|name| name.starts_with("loop"));
    let nodes = names.filter_map(|name| Node::by_dir(&block.join(name)));
    nodes.filter_map(|node| loop_layer(roots, namespaces, node)).collect()
}

fn loop_layer(roots: &Roots, namespaces: &[Namespace], device: Node) -> Option<Layer> {
    let path = path_in(device.attribute("loop/backing_file"))?;
    let sizes = file_sizes(&device);
    let objects = match ask(&device) {
        Ok(LoopBacking::Device(number)) => vec![Object::Device(number)],
        Ok(LoopBacking::File(on, inode)) => {
            vec![Object::File(file(namespaces, &path, (on, inode), sizes.clone()))]
        }
        // It was released meanwhile.
        Err(Errno::NXIO) => return None,
        Err(_) => by_path(roots, namespaces, &path, *sizes.start()),
    };
    Some(Layer { device, objects, path, sizes })
}

/// Asks the kernel what is behind a loop device. Its node must be there and may be opened.
fn ask(device: &Node) -> rustix::io::Result<LoopBacking> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(device.path(), flags, Mode::empty())?;
    match paths::block_number(&rustix::fs::fstat(&fd)?) {
        Some(number) if number == device.number => loop_backing(&fd),
        _ => Err(Errno::NODEV),
    }
}

/// The sizes that the file behind a loop device may have: what its last sector leaves over is lost.
fn file_sizes(device: &Node) -> std::ops::RangeInclusive<u64> {
    let of = |name: &str| number::<u64>(device.attribute(name)).unwrap_or(0);
    let end = of("loop/offset").saturating_add(device.size_bytes());
    end..=if of("loop/sizelimit") == 0 { end.saturating_add(511) } else { u64::MAX }
}

/// A file of known identity; its path may tell its exact size and whether it is on an overlay.
fn file(
    namespaces: &[Namespace],
    path: &Path,
    (device, inode): (Number, u64),
    sizes: std::ops::RangeInclusive<u64>,
) -> FileIdentity {
    let mut seen = paths::everywhere(namespaces, path)
        .map(|(stat, overlaid)| paths::identity(&stat, overlaid));
    let is_it = |file: &FileIdentity| (file.device, file.inode) == (device, inode);
    seen.find(is_it).unwrap_or_else(|| {
        let mut mounts = namespaces.iter().flat_map(|namespace| &namespace.mounts);
        let overlaid = match mounts.find(|mount| mount.device == device) {
            Some(mount) => mount.file_system == "overlay",
            // Overlays of several file systems give their files device numbers that no mount has.
            None => device.0 == 0,
        };
        FileIdentity { device, inode, sizes, overlaid }
    })
}

/// What a path leads to, without the files that are too short to be it.
fn by_path(roots: &Roots, namespaces: &[Namespace], path: &Path, end: u64) -> Vec<Object> {
    let mut found = paths::objects(roots, namespaces, path);
    found.retain(|object| match object {
        Object::File(file) => *file.sizes.end() >= end,
        Object::Device(_) => true,
    });
    found
}

/// zram devices that write to a device what they have no memory for.
pub(super) fn zrams(roots: &Roots, namespaces: &[Namespace]) -> Vec<Layer> {
    let block = roots.sys.join("block");
    let names = entries(&block).into_iter().filter(|name| name.starts_with("zram"));
    let nodes = names.filter_map(|name| Node::by_dir(&block.join(name)));
    let layer = |device: Node| {
        let path = path_in(device.attribute("backing_dev")).filter(|p| p != Path::new("none"))?;
        let objects = paths::objects(roots, namespaces, &path);
        Some(Layer { device, objects, path, sizes: 0..=u64::MAX })
    };
    nodes.filter_map(layer).collect()
}
