//! Resolves paths reported by the kernel, which may be valid in any mount namespace.

use super::{FileIdentity, Object};
use crate::device::{Node, Number};
use crate::mounts::{Namespace, unescape};
use crate::roots::Roots;
use rustix::fs::{FileType, Stat, major, minor};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// OVERLAYFS_SUPER_MAGIC (linux/magic.h).
const OVERLAY: i64 = 0x794c_7630;

/// Swap space in use.
pub(super) struct Swap {
    pub objects: Vec<Object>,
}

/// All of /proc/swaps. A swap file whose path cannot be resolved is still protected: the kernel
/// refuses writes to it and truncation (ETXTBSY) under any name.
pub(super) fn swaps(roots: &Roots, namespaces: &[Namespace]) -> Vec<Swap> {
    let listing = std::fs::read(roots.proc.join("swaps")).unwrap_or_default();
    let lines = listing.split(|byte| *byte == b'\n').skip(1);
    let paths = lines.filter_map(|line| line.split(|byte| *byte == b' ').next());
    let paths = paths.filter(|path| !path.is_empty()).map(|path| bytes_path(unescape(path)));
    paths.map(|path| Swap { objects: objects(roots, namespaces, &path) }).collect()
}

/// A path from raw bytes.
pub(super) fn bytes_path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// All files and block devices that a path refers to in any namespace; a device also by name.
pub(super) fn objects(roots: &Roots, namespaces: &[Namespace], path: &Path) -> Vec<Object> {
    let mut found: Vec<Object> = Vec::new();
    for (stat, overlaid) in everywhere(namespaces, path) {
        let object = match block_number(&stat) {
            Some(number) => Object::Device(number),
            None => Object::File(identity(&stat, overlaid)),
        };
        if !found.contains(&object) {
            found.push(object);
        }
    }
    if found.is_empty() {
        found.extend(device_named(roots, path).map(Object::Device));
    }
    found
}

/// The device with this kernel path below /dev.
fn device_named(roots: &Roots, path: &Path) -> Option<Number> {
    let name = path.strip_prefix("/dev").ok()?.to_str()?.replace('/', "!");
    Node::by_dir(&roots.sys.join("class/block").join(name)).map(|node| node.number)
}

/// Status of a path in each namespace, this process's own first, and whether it is on an overlay.
pub(super) fn everywhere<'a>(
    namespaces: &'a [Namespace],
    path: &Path,
) -> impl Iterator<Item = (Stat, bool)> + 'a {
    let relative: PathBuf = path.strip_prefix("/").unwrap_or(path).into();
    let own = Path::new("/").join(&relative);
    let others = namespaces.iter().map(move |other| other.process.join("root").join(&relative));
    std::iter::once(own).chain(others).filter_map(|path| {
        let stat = rustix::fs::stat(&path).ok()?;
        let is_overlay = rustix::fs::statfs(&path).is_ok_and(|fs| fs.f_type == OVERLAY);
        Some((stat, is_overlay))
    })
}

/// Whether an open file is on an overlay.
pub(crate) fn is_overlaid(fd: impl std::os::fd::AsFd) -> bool {
    rustix::fs::fstatfs(fd).is_ok_and(|fs| fs.f_type == OVERLAY)
}

/// The identity of the file with this status.
pub(crate) fn identity(stat: &Stat, overlaid: bool) -> FileIdentity {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let device = (major(stat.st_dev), minor(stat.st_dev));
    FileIdentity { device, inode: stat.st_ino, sizes: size..=size, overlaid }
}

/// The device number of a block device node.
pub(crate) fn block_number(stat: &Stat) -> Option<Number> {
    let is_block = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    is_block.then(|| (major(stat.st_rdev), minor(stat.st_rdev)))
}

/// The path in a sysfs file, without the trailing newline.
pub(super) fn path_in(file: impl AsRef<Path>) -> Option<PathBuf> {
    let bytes = std::fs::read(file).ok()?;
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    (!bytes.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(bytes)))
}
