//! What file systems without a block device of their own are mounted from: devices of btrfs and bcachefs, images that
//! are mounted without a loop device.

use super::{Likeness, Object, paths};
use crate::mounts::{Mount, Namespace};
use crate::roots::Roots;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// Where the superblock of erofs is in an image, and the bytes that it begins with (fs/erofs/erofs_fs.h).
const EROFS_AT: u64 = 1024;
const EROFS_MAGIC: [u8; 4] = 0xe0f5_e1e2_u32.to_le_bytes();

/// The files and devices that the sources of mounts refer to in any mount namespace, by source.
pub(super) struct Sources(HashMap<String, Vec<Object>>);

impl Sources {
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

    /// The objects that a mount's source may refer to.
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
/// systems hold theirs open. An image begins like one; without its contents, it may be one.
pub(super) fn image_likeness(mount: &Mount, contents: Option<&OwnedFd>) -> Likeness {
    if mount.file_system != "erofs" || mount.device.0 != 0 {
        return Likeness::Different;
    }
    let Some(file) = contents else { return Likeness::Possible };
    let offset = mount.super_options.split(',').find_map(|option| option.strip_prefix("fsoffset="));
    // An offset that cannot be read is not in the file.
    let offset = offset.map_or(Some(0), |digits| digits.parse::<u64>().ok());
    let mut magic = [0; 4];
    let read = offset.map(|offset| rustix::io::pread(file, &mut magic, offset + EROFS_AT));
    match read {
        Some(Ok(_)) if magic != EROFS_MAGIC => Likeness::Different,
        _ => Likeness::Possible,
    }
}
