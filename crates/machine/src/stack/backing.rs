//! Backing stores of loop and zram devices.

use super::{FileIdentity, Object, paths};
use crate::ioctl::{LoopBacking, loop_backing};
use fathom_sys::device::{Node, Number};
use fathom_sys::mounts::Namespace;
use fathom_sys::roots::{self, Roots, Unread, number, text};
use rustix::fs::{FileType, MemfdFlags, Mode, OFlags, Stat, major, minor};
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

/// A process has ended, or closed a descriptor.
const ENDED: [Errno; 2] = [Errno::NOENT, Errno::SRCH];

/// nbd devices, whose process is in sysfs, and ublk devices, whose server has `/dev/ublkcN` open. The
/// backing store of a remote server is unknown.
pub(super) fn served_layers(roots: &Roots) -> Result<Vec<BackedDevice>, Unread> {
    let block = roots.sys.join("block");
    let mut layers = Vec::new();
    for prefix in ["nbd", "ublkb"] {
        for node in Node::listed(&block, prefix)? {
            layers.extend(served(roots, node)?);
        }
    }
    Ok(layers)
}

fn served(roots: &Roots, device: Node) -> Result<Option<BackedDevice>, Unread> {
    let name = device.name();
    let process = match name.strip_prefix("ublkb") {
        Some(number) => server(roots, Path::new(&format!("/dev/ublkc{number}")))?,
        None => {
            let pid = roots::value::<u32>(&device.attribute("pid"))?;
            pid.map(|pid| roots.proc.join(pid.to_string()))
        }
    };
    let Some(process) = process else { return Ok(None) };
    let objects = written(&process)?;
    // Only for messages.
    let path = PathBuf::from(text(process.join("comm")).unwrap_or_default());
    Ok(Some(BackedDevice { device, objects, path, guess: None }))
}

fn server(roots: &Roots, node: &Path) -> Result<Option<PathBuf>, Unread> {
    let names = roots::list(&roots.proc)?.ok_or_else(|| Unread::missing(&roots.proc))?;
    for pid in names.into_iter().filter(|name| name.parse::<u32>().is_ok()) {
        let process = roots.proc.join(pid);
        for link in descriptors(&process)? {
            // A descriptor that has been closed.
            if std::fs::read_link(&link).is_ok_and(|to| to == node) {
                return Ok(Some(process));
            }
        }
    }
    Ok(None)
}

/// The links of a process's descriptors; none if it has ended.
fn descriptors(process: &Path) -> Result<Vec<PathBuf>, Unread> {
    let dir = process.join("fd");
    match roots::list(&dir) {
        Ok(names) => Ok(names.unwrap_or_default().iter().map(|name| dir.join(name)).collect()),
        Err(error) if error.is(&ENDED) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Files and block devices that a process has open for writing.
fn written(process: &Path) -> Result<Vec<Object>, Unread> {
    let links = descriptors(process)?.into_iter().filter(|link| is_writable(process, link));
    links.filter_map(|link| object(&link).transpose()).collect()
}

fn is_writable(process: &Path, link: &Path) -> bool {
    let info = text(process.join("fdinfo").join(link.file_name().unwrap_or_default()));
    let info = info.unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    // O_WRONLY or O_RDWR; in doubt, writable.
    flags.is_none_or(|flags| flags & 3 != 0)
}

fn object(link: &Path) -> Result<Option<Object>, Unread> {
    let stat: Stat = match rustix::fs::stat(link) {
        Ok(stat) => stat,
        Err(error) if ENDED.contains(&error) => return Ok(None),
        Err(error) => return Err(Unread::failed(link, error)),
    };
    if let Some(number) = paths::block_number(&stat) {
        return Ok(Some(Object::Device(number)));
    }
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    // In doubt, on an overlay, where a file is known by its size.
    let overlaid = rustix::fs::statfs(link).map_or(true, |fs| paths::is_overlay(&fs));
    Ok(is_file.then(|| Object::File(paths::identity(&stat, overlaid))))
}
