//! Resolves paths reported by the kernel, which may be valid in any mount namespace.

use super::{FileIdentity, Object};
use fathom_sys::device::{Node, Number};
use fathom_sys::mounts::{Namespace, unescape};
use fathom_sys::roots::{self, Roots, Unread};
use rustix::fs::{FileType, Stat, StatFs, major, minor};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// OVERLAYFS_SUPER_MAGIC (linux/magic.h).
const OVERLAY: i64 = 0x794c_7630;

/// All of /proc/swaps. A swap file whose path cannot be resolved is still protected: the kernel
/// refuses writes to it and truncation (ETXTBSY) under any name, and holds a device exclusively.
pub(super) fn swaps(roots: &Roots, namespaces: &[Namespace]) -> Result<Vec<Object>, Unread> {
    let file = roots.proc.join("swaps");
    // In a container of LXC, the file is of fuse.
    let listing = match std::fs::read(&file) {
        Ok(listing) => listing,
        Err(_) if !roots::exists(&file)? => {
            // A kernel without swap has no such file; mounted with subset=pid, /proc has no files of this kind.
            let is_whole = roots::exists(&roots.proc.join("filesystems"))?;
            return if is_whole { Ok(Vec::new()) } else { Err(Unread::missing(&file)) };
        }
        Err(error) => return Err(Unread::failed(&file, error)),
    };
    if !listing.starts_with(b"Filename") {
        return Err(Unread::malformed(&file));
    }
    let lines = listing.split(|byte| *byte == b'\n').skip(1);
    let paths = lines.filter_map(|line| line.split(|byte| *byte == b' ').next());
    let paths = paths.filter(|path| !path.is_empty()).map(|path| bytes_path(unescape(path)));
    Ok(paths.flat_map(|path| objects(roots, namespaces, &path)).collect())
}

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

fn device_named(roots: &Roots, path: &Path) -> Option<Number> {
    let name = path.strip_prefix("/dev").ok()?.to_str()?.replace('/', "!");
    Node::by_dir(&roots.sys.join("class/block").join(name)).map(|node| node.number)
}

/// Status of a path in each namespace, this process's own first, and whether it is on an overlay. Where it cannot be
/// resolved, it is no evidence, and callers must not take it for the only one.
pub(super) fn everywhere<'a>(
    namespaces: &'a [Namespace],
    path: &Path,
) -> impl Iterator<Item = (Stat, bool)> + 'a {
    let relative: PathBuf = path.strip_prefix("/").unwrap_or(path).into();
    let own = Path::new("/").join(&relative);
    let others = namespaces.iter().map(move |other| other.process.join("root").join(&relative));
    std::iter::once(own).chain(others).filter_map(|path| {
        let stat = rustix::fs::stat(&path).ok()?;
        // In doubt, it is: then files of the same size may be the same.
        let is_overlay = rustix::fs::statfs(&path).map_or(true, |fs| is_overlay(&fs));
        Some((stat, is_overlay))
    })
}

pub(super) fn is_overlay(fs: &StatFs) -> bool {
    fs.f_type == OVERLAY
}

pub(crate) fn identity(stat: &Stat, overlaid: bool) -> FileIdentity {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let device = (major(stat.st_dev), minor(stat.st_dev));
    FileIdentity { device, inode: stat.st_ino, sizes: size..=size, overlaid }
}

pub(crate) fn block_number(stat: &Stat) -> Option<Number> {
    let is_block = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    is_block.then(|| (major(stat.st_rdev), minor(stat.st_rdev)))
}

/// The path in a sysfs file, without the trailing newline; `None` if there is no file.
pub(super) fn path_in(file: &Path) -> Result<Option<PathBuf>, Unread> {
    let Some(bytes) = roots::bytes(file)? else { return Ok(None) };
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    Ok((!bytes.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(bytes))))
}
