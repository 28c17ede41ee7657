//! What is at a path.

use crate::device::{Node, Number};
use crate::mark;
use crate::mounts::{self, Mount};
use crate::roots::Roots;
use fathom_model::facts::{TargetFacts, TargetKind};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// What is at `path`, opening nothing for reading or writing. A path that leads nowhere is no
/// error: its kind is [`TargetKind::Missing`], and the free space is that of its directory.
///
/// # Errors
/// When the path cannot be followed, such as for lack of permission on a directory.
pub fn target(roots: &Roots, path: &str) -> io::Result<TargetFacts> {
    match look(path) {
        Ok(fd) => of(roots, path, &fd),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(missing(roots, path)),
        Err(error) => Err(error),
    }
}

/// A descriptor that only names what is there. Opening a device or a pipe for real can do things.
pub(crate) fn look(path: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// The present path of what a descriptor is open on.
pub(crate) fn resolved(fd: impl AsFd) -> String {
    let link = std::fs::read_link(mark::descriptor_path(fd));
    link.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
}

/// statx of an open descriptor.
pub(crate) fn stat(fd: impl AsFd) -> io::Result<Statx> {
    let flags = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID | StatxFlags::DIOALIGN;
    Ok(rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, flags)?)
}

/// The facts about what a descriptor is open on; `asked` is the path as the user gave it.
pub(crate) fn of(roots: &Roots, asked: &str, fd: &OwnedFd) -> io::Result<TargetFacts> {
    let stat = stat(fd)?;
    let mut facts = TargetFacts {
        path: asked.to_string(),
        resolved: resolved(fd),
        inode: stat.stx_ino,
        device_number: (stat.stx_dev_major, stat.stx_dev_minor),
        ..TargetFacts::default()
    };
    let rdev = (stat.stx_rdev_major, stat.stx_rdev_minor);
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::RegularFile => file(roots, &mut facts, fd, &stat),
        FileType::Directory => facts.kind = TargetKind::Directory,
        FileType::BlockDevice => {
            let node = Node::by_number(roots, rdev);
            device(&mut facts, TargetKind::BlockDevice, rdev, node.as_ref());
        }
        FileType::CharacterDevice => match Node::of_generic(roots, rdev) {
            Some((node, nsid)) => {
                device(&mut facts, TargetKind::NvmeGeneric, rdev, Some(&node));
                if let Some(below) = &mut facts.device {
                    below.nvme_nsid = nsid;
                }
            }
            None => facts.kind = TargetKind::Other,
        },
        _ => facts.kind = TargetKind::Other,
    }
    align(&mut facts, &stat);
    Ok(facts)
}

fn device(facts: &mut TargetFacts, kind: TargetKind, rdev: Number, node: Option<&Node>) {
    facts.kind = kind;
    facts.device_number = rdev;
    facts.device = node.map(Node::facts);
    facts.size_bytes = node.map_or(0, Node::size_bytes);
    facts.allocated_bytes = facts.size_bytes;
}

fn file(roots: &Roots, facts: &mut TargetFacts, fd: &OwnedFd, stat: &Statx) {
    facts.kind = TargetKind::File;
    facts.size_bytes = stat.stx_size;
    // The unit of stx_blocks is always 512 bytes.
    facts.allocated_bytes = stat.stx_blocks.saturating_mul(512);
    facts.made_by_fathom = mark::read(fd).is_some();
    place(roots, facts, fd, stat);
}

/// The file system that a file or directory is on, and the device below that.
fn place(roots: &Roots, facts: &mut TargetFacts, fd: &OwnedFd, stat: &Statx) {
    facts.free_bytes =
        rustix::fs::fstatvfs(fd).ok().map(|fs| fs.f_bavail.saturating_mul(fs.f_frsize));
    let mount = mount_of(roots, stat);
    let node = Node::by_number(roots, facts.device_number).or_else(|| {
        // btrfs and others give their files a device number of their own.
        let source = rustix::fs::stat(mount.as_ref()?.source.as_str()).ok()?;
        let is_block = FileType::from_raw_mode(source.st_mode) == FileType::BlockDevice;
        let number = (rustix::fs::major(source.st_rdev), rustix::fs::minor(source.st_rdev));
        Node::by_number(roots, number).filter(|_| is_block)
    });
    facts.device = node.map(|node| node.facts());
    facts.file_system = mount.map(|mount| mount.file_system);
}

/// The mount that a file is on.
pub(crate) fn mount_of(roots: &Roots, stat: &Statx) -> Option<Mount> {
    let has_id = stat.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    let number = (stat.stx_dev_major, stat.stx_dev_minor);
    let mut mounts = mounts::own(roots);
    let by_id = mounts.iter().position(|mount| has_id && mount.id == stat.stx_mnt_id);
    let index = by_id.or_else(|| mounts.iter().position(|mount| mount.device == number))?;
    Some(mounts.swap_remove(index))
}

/// Alignment of direct I/O: what the kernel says, or else the logical block size of the device.
fn align(facts: &mut TargetFacts, stat: &Statx) {
    if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 {
        facts.direct_align = Some(stat.stx_dio_offset_align);
        facts.memory_align = Some(stat.stx_dio_mem_align);
    } else if let Some(device) = &facts.device {
        facts.direct_align = Some(device.logical_block);
        facts.memory_align = Some(device.logical_block);
    }
}

fn missing(roots: &Roots, path: &str) -> TargetFacts {
    let mut facts = TargetFacts { path: path.to_string(), ..TargetFacts::default() };
    let Some((dir, name)) = split(path) else { return facts };
    let Ok(fd) = look(dir) else { return facts };
    let Ok(stat) = stat(&fd) else { return facts };
    facts.resolved = Path::new(&resolved(&fd)).join(name).to_string_lossy().into_owned();
    facts.device_number = (stat.stx_dev_major, stat.stx_dev_minor);
    place(roots, &mut facts, &fd, &stat);
    facts
}

/// A path's directory and the name in it; `None` where it can only be a directory.
pub(crate) fn split(path: &str) -> Option<(&str, &str)> {
    let (dir, name) = match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((dir, name)) => (dir, name),
        None => (".", path),
    };
    (!matches!(name, "" | "." | "..")).then_some((dir, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_at_the_last_name() {
        assert_eq!(split("a"), Some((".", "a")));
        assert_eq!(split("/a"), Some(("/", "a")));
        assert_eq!(split("/a/b"), Some(("/a", "b")));
        for dir in ["", "/", "a/", "a/..", "."] {
            assert_eq!(split(dir), None, "{dir:?}");
        }
    }

    #[test]
    fn a_sparse_file_a_directory_and_nothing() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("file");
        let file = std::fs::File::create(&path).expect("file");
        file.set_len(1 << 20).expect("length");
        let roots = Roots::default();
        let facts = target(&roots, path.to_str().expect("UTF-8")).expect("facts");
        assert_eq!((facts.kind, facts.size_bytes), (TargetKind::File, 1 << 20));
        assert!(facts.allocated_bytes < 1 << 20);
        assert!(facts.file_system.is_some() && facts.free_bytes.is_some());
        assert!(!facts.made_by_fathom);
        let facts = target(&roots, dir.path().to_str().expect("UTF-8")).expect("facts");
        assert_eq!(facts.kind, TargetKind::Directory);
        let gone = dir.path().join("gone");
        let facts = target(&roots, gone.to_str().expect("UTF-8")).expect("facts");
        assert_eq!(facts.kind, TargetKind::Missing);
        assert!(facts.free_bytes.is_some());
        assert_eq!(target(&roots, "/dev/null").expect("facts").kind, TargetKind::Other);
    }
}
