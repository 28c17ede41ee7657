//! Backing stores of loop and zram devices.

use super::paths;
use super::{FileIdentity, Object};
use crate::ioctl::{LoopBacking, loop_backing};
use fathom_sys::device::{Node, Number};
use fathom_sys::mounts::Namespace;
use fathom_sys::roots::{self, Roots, Unread, number, text};
use rustix::fs::{MemfdFlags, Mode, OFlags, major, minor};
use rustix::io::Errno;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

pub(super) struct BackedDevice {
    pub device: Node,
    /// Its backing store. If only a path is known, everything that the path may refer to; empty if it
    /// refers to nothing.
    pub objects: Vec<Object>,
    pub path: PathBuf,
    /// If only a path is known: possible sizes of the backing file in bytes, since the path may now
    /// refer to another file.
    pub guess: Option<RangeInclusive<u64>>,
}

pub(super) fn loops(roots: &Roots, namespaces: &[Namespace]) -> Result<Vec<BackedDevice>, Unread> {
    let nodes = Node::listed(&roots.sys.join("block"), "loop")?.into_iter();
    nodes.filter_map(|node| loop_layer(roots, namespaces, node).transpose()).collect()
}

fn loop_layer(
    roots: &Roots,
    namespaces: &[Namespace],
    device: Node,
) -> Result<Option<BackedDevice>, Unread> {
    let backing = ask(&device);
    if backing == Err(Errno::NXIO) {
        return Ok(None);
    }
    let path = match paths::path_in(&device.attribute("loop/backing_file")) {
        Ok(Some(path)) => path,
        Ok(None) => return Ok(None),
        // The kernel shows no path longer than a page, and needs none to say which file it is.
        Err(_) if backing.is_ok() => PathBuf::from("a path that cannot be read"),
        Err(error) => return Err(error),
    };
    let Some(sizes) = file_sizes(&device)? else { return Ok(None) };
    let (objects, guess) = match backing {
        Ok(LoopBacking::Device(number)) => (vec![Object::Device(number)], None),
        Ok(LoopBacking::File(on, inode)) => {
            (vec![Object::File(file(roots, namespaces, &path, (on, inode), sizes))], None)
        }
        // Without permission to open the device, or without its node.
        Err(_) => (paths::objects(roots, namespaces, &path), Some(sizes)),
    };
    Ok(Some(BackedDevice { device, objects, path, guess }))
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

/// Possible sizes of the backing file of a loop device, which omits a partial last sector; `None` if it is not set up.
fn file_sizes(device: &Node) -> Result<Option<RangeInclusive<u64>>, Unread> {
    let of = |name: &str| roots::value::<u64>(&device.attribute(name));
    let (Some(offset), Some(limit), Some(sectors)) =
        (of("loop/offset")?, of("loop/sizelimit")?, of("size")?)
    else {
        return Ok(None);
    };
    // sysfs reports 512-byte sectors on all devices.
    let end = offset.saturating_add(sectors.saturating_mul(512));
    Ok(Some(end..=if limit == 0 { end.saturating_add(511) } else { u64::MAX }))
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

/// Whether the kernel has any overlay, in whatever namespace; in doubt, and if this cannot be read, it has. A mounted overlay, or one with
/// an open file, counts as a user of its module.
pub(super) fn overlays_exist(roots: &Roots) -> bool {
    let known = text(roots.proc.join("filesystems"));
    let supported = known.is_none_or(|known| known.lines().any(|line| line.ends_with("\toverlay")));
    supported && number::<u64>(roots.sys.join("module/overlay/refcnt")) != Some(0)
}

/// zram devices with a backing device. zram holds that exclusively, even where its path cannot be resolved.
pub(super) fn zrams(roots: &Roots, namespaces: &[Namespace]) -> Result<Vec<BackedDevice>, Unread> {
    let mut layers = Vec::new();
    for device in Node::listed(&roots.sys.join("block"), "zram")? {
        // Without a backing device it says so, and a kernel that supports none has no such file.
        let path = paths::path_in(&device.attribute("backing_dev"))?;
        if let Some(path) = path.filter(|path| path != Path::new("none")) {
            let objects = paths::objects(roots, namespaces, &path);
            layers.push(BackedDevice { device, objects, path, guess: None });
        }
    }
    Ok(layers)
}
