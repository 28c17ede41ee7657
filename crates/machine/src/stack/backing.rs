//! Backing stores of loop and zram devices.

use super::paths::{self, path_in};
use super::{FileIdentity, Object};
use crate::device::{Node, Number};
use crate::ioctl::{LoopBacking, loop_backing};
use crate::mounts::Namespace;
use crate::roots::{Roots, entries, number, text};
use rustix::fs::{MemfdFlags, Mode, OFlags, major, minor};
use rustix::io::Errno;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// A device with a backing store.
pub(super) struct Layer {
    pub device: Node,
    /// Its backing store. If only a path is known, everything that the path may refer to; empty if it
    /// refers to nothing.
    pub objects: Vec<Object>,
    /// The path reported by the kernel.
    pub path: PathBuf,
    /// If only a path is known: possible sizes of the backing file in bytes, since the path may now
    /// refer to another file.
    pub guess: Option<RangeInclusive<u64>>,
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
    let (objects, guess) = match ask(&device) {
        Ok(LoopBacking::Device(number)) => (vec![Object::Device(number)], None),
        Ok(LoopBacking::File(on, inode)) => {
            (vec![Object::File(file(roots, namespaces, &path, (on, inode), sizes))], None)
        }
        // Detached in the meantime.
        Err(Errno::NXIO) => return None,
        Err(_) => (paths::objects(roots, namespaces, &path), Some(sizes)),
    };
    Some(Layer { device, objects, path, guess })
}

/// Reads the backing store of a loop device from the kernel. Needs an accessible device node.
fn ask(device: &Node) -> rustix::io::Result<LoopBacking> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(device.path(), flags, Mode::empty())?;
    match paths::block_number(&rustix::fs::fstat(&fd)?) {
        Some(number) if number == device.number => loop_backing(&fd),
        _ => Err(Errno::NODEV),
    }
}

/// Possible sizes of the backing file of a loop device, which omits a partial last sector.
fn file_sizes(device: &Node) -> RangeInclusive<u64> {
    let of = |name: &str| number::<u64>(device.attribute(name)).unwrap_or(0);
    let end = of("loop/offset").saturating_add(device.size_bytes());
    end..=if of("loop/sizelimit") == 0 { end.saturating_add(511) } else { u64::MAX }
}

/// A file of known identity; its path may give its exact size and whether it is on an overlay.
fn file(
    roots: &Roots,
    namespaces: &[Namespace],
    path: &Path,
    (device, inode): (Number, u64),
    sizes: RangeInclusive<u64>,
) -> FileIdentity {
    let mut seen = paths::everywhere(namespaces, path)
        .map(|(stat, overlaid)| paths::identity(&stat, overlaid));
    let is_it = |file: &FileIdentity| (file.device, file.inode) == (device, inode);
    seen.find(is_it).unwrap_or_else(|| {
        let mut mounts = namespaces.iter().flat_map(|namespace| &namespace.mounts);
        let overlaid = match mounts.find(|mount| mount.device == device) {
            Some(mount) => mount.file_system == "overlay",
            None => may_be_overlay(roots, device),
        };
        // An overlay file that is not visible may have grown.
        let sizes = if overlaid { *sizes.start()..=u64::MAX } else { sizes };
        FileIdentity { device, inode, sizes, overlaid }
    })
}

/// Whether a device number that no visible mount has may be an overlay's: overlays of several file systems
/// use such numbers, and an overlay may be mounted in a namespace that is not visible.
fn may_be_overlay(roots: &Roots, device: Number) -> bool {
    device.0 == 0 && shared_memory() != Some(device) && overlays_exist(roots)
}

/// The device number of memfd_create(2) and System V shared memory: a file system that is mounted nowhere, so
/// no overlay is on it.
fn shared_memory() -> Option<Number> {
    let fd = rustix::fs::memfd_create("fathom", MemfdFlags::CLOEXEC).ok()?;
    let stat = rustix::fs::fstat(fd).ok()?;
    Some((major(stat.st_dev), minor(stat.st_dev)))
}

/// Whether the kernel has any overlay, in whatever namespace; in doubt, it has. A mounted overlay, or one with
/// an open file, counts as a user of its module.
pub(super) fn overlays_exist(roots: &Roots) -> bool {
    let known = text(roots.proc.join("filesystems"));
    let supported = known.is_none_or(|known| known.lines().any(|line| line.ends_with("\toverlay")));
    supported && number::<u64>(roots.sys.join("module/overlay/refcnt")) != Some(0)
}

/// zram devices with a backing device.
pub(super) fn zrams(roots: &Roots, namespaces: &[Namespace]) -> Vec<Layer> {
    let block = roots.sys.join("block");
    let names = entries(&block).into_iter().filter(|name| name.starts_with("zram"));
    let nodes = names.filter_map(|name| Node::by_dir(&block.join(name)));
    let layer = |device: Node| {
        let path = path_in(device.attribute("backing_dev")).filter(|p| p != Path::new("none"))?;
        let objects = paths::objects(roots, namespaces, &path);
        Some(Layer { device, objects, path, guess: None })
    };
    nodes.filter_map(layer).collect()
}
