//! What file systems without a block device of their own are mounted from: devices of btrfs and bcachefs, images that
//! are mounted without a loop device.

use super::{Likeness, Object, paths};
use fathom_sys::mounts::{Mount, Namespace};
use fathom_sys::roots::Roots;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// Where the superblock of erofs is in an image, what it begins with, and where in it the UUID is (fs/erofs/erofs_fs.h).
const EROFS_AT: u64 = 1024;
const EROFS_MAGIC: [u8; 4] = 0xe0f5_e1e2_u32.to_le_bytes();
const UUID_AT: usize = 48;

/// The files and devices that the sources of mounts refer to in any mount namespace, by source.
pub(super) struct MountSources(HashMap<String, Vec<Object>>);

impl MountSources {
    /// Of all mounts that have no block device's number.
    pub fn read(roots: &Roots, namespaces: &[Namespace]) -> Self {
        let mut all = HashMap::new();
        let mounts = namespaces.iter().flat_map(|namespace| &namespace.mounts);
        for mount in mounts.filter(|mount| mount.device.0 == 0) {
            if !all.contains_key(&mount.source) {
                let paths = parts(mount).filter(|path| path.starts_with('/'));
                let objects =
                    paths.flat_map(|path| paths::objects(roots, namespaces, path.as_ref()));
                all.insert(mount.source.clone(), objects.collect());
            }
        }
        Self(all)
    }

    pub fn of(&self, mount: &Mount) -> &[Object] {
        let own = (mount.device.0 == 0).then(|| self.0.get(&mount.source)).flatten();
        own.map_or(&[], Vec::as_slice)
    }
}

/// bcachefs lists all of its devices.
fn parts(mount: &Mount) -> impl Iterator<Item = &str> {
    let separator = if mount.file_system == "bcachefs" { ":" } else { "\n" };
    mount.source.split(separator)
}

/// Whether a file may be the image of this mount although no path leads to it: the source is the path at the time of
/// mounting, and may be relative. In the kernel, only erofs mounts files itself, since Linux 6.12; servers of other file
/// systems hold theirs open. An image has the superblock that is mounted; without its contents, it may be any.
pub(super) fn image_likeness(
    namespaces: &[Namespace],
    mount: &Mount,
    contents: Option<&OwnedFd>,
) -> Likeness {
    if mount.file_system != "erofs" || mount.device.0 != 0 {
        return Likeness::Different;
    }
    let Some(superblock) = contents.map(|file| superblock(mount, file)) else {
        return Likeness::Possible;
    };
    match (superblock, identifier(namespaces, mount)) {
        (Ok(None), _) => Likeness::Different,
        // Without a UUID, the identifier is another number.
        (Ok(Some(own)), Some(mounted)) if own != 0 && mounted != 0 && own != mounted => {
            Likeness::Different
        }
        _ => Likeness::Possible,
    }
}

/// The identifier in the superblock of an image: of the UUID, both halves combined, as in statfs(2). `None` if there is
/// no superblock at the mount's offset.
fn superblock(mount: &Mount, image: &OwnedFd) -> rustix::io::Result<Option<u64>> {
    let offset = mount.super_options.split(',').find_map(|option| option.strip_prefix("fsoffset="));
    let offset = offset.map_or(Ok(0), str::parse::<u64>).map_err(|_| Errno::INVAL)?;
    let mut bytes = [0; 64];
    let read = rustix::io::pread(image, &mut bytes, offset.saturating_add(EROFS_AT))?;
    if read < bytes.len() || bytes[..4] != EROFS_MAGIC {
        return Ok(None);
    }
    let half =
        |at: usize| bytes[at..at + 8].iter().rev().fold(0, |sum, b| sum << 8 | u64::from(*b));
    Ok(Some(half(UUID_AT) ^ half(UUID_AT + 8)))
}

/// The identifier of a mounted file system; `None` if it can be reached at none of its mount points.
fn identifier(namespaces: &[Namespace], mount: &Mount) -> Option<u64> {
    let all = namespaces.iter().flat_map(|namespace| {
        let mounts = namespace.mounts.iter().filter(|other| other.device == mount.device);
        mounts.map(move |mount| (namespace, mount))
    });
    all.filter_map(|(namespace, mount)| identifier_at(namespace, mount)).next()
}

/// The same at one mount point; `None` also if that is covered.
fn identifier_at(namespace: &Namespace, mount: &Mount) -> Option<u64> {
    let point = namespace.process.join("root").join(mount.point.trim_start_matches('/'));
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let fd = rustix::fs::open(point, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::statx(&fd, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    let is_it = stat.stx_mask & StatxFlags::MNT_ID.bits() != 0 && stat.stx_mnt_id == mount.id;
    is_it.then(|| rustix::fs::fstatvfs(&fd).ok()).flatten().map(|fs| fs.f_fsid)
}
