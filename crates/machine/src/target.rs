//! Facts about targets.

use crate::holders::{Backing, Holders};
use crate::inspect;
use crate::mark;
use fathom_model::facts::{DeviceFacts, HeldBy, NvmeMetadata, TargetFacts, TargetKind};
use fathom_sys::device::{Generic, Node, Number};
use fathom_sys::mounts::{self, Mount};
use fathom_sys::roots::Roots;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

pub struct Lookup {
    roots: Roots,
    mounts: Vec<Mount>,
    devices: RefCell<HashMap<Number, Option<DeviceFacts>>>,
}

impl Lookup {
    pub fn new(roots: &Roots) -> Self {
        let mounts = mounts::own(roots);
        Self { roots: roots.clone(), mounts, devices: RefCell::default() }
    }

    /// Facts about `path`, without opening it for reading or writing. A missing path is not an error:
    /// its kind is [`TargetKind::Missing`], with the free space of its directory.
    pub fn target(&self, path: &str) -> io::Result<TargetFacts> {
        match open_path(path) {
            Ok(fd) => self.open_target(path, &fd),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(self.missing(path)),
            Err(error) => Err(error),
        }
    }

    /// Facts about an open target; `asked` is the path as given.
    pub(crate) fn open_target(&self, asked: &str, fd: &OwnedFd) -> io::Result<TargetFacts> {
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
            FileType::RegularFile => self.file(&mut facts, fd, &stat),
            FileType::Directory => {
                facts.kind = TargetKind::Directory;
                self.place(&mut facts, fd, &stat);
            }
            FileType::BlockDevice => {
                device(&mut facts, TargetKind::BlockDevice, rdev, self.device(rdev));
            }
            FileType::CharacterDevice => match Node::of_generic(&self.roots, rdev) {
                Some((node, Generic::Nvme(nsid))) => {
                    let metadata = nsid.and_then(|id| inspect::nvme::metadata(asked, id));
                    let metadata = metadata.map(|metadata| NvmeMetadata {
                        wide_guard: node.integrity().contains("CRC64"),
                        ..metadata
                    });
                    let below = DeviceFacts { nvme_nsid: nsid, metadata, ..node.facts() };
                    device(&mut facts, TargetKind::NvmeGeneric, rdev, Some(below));
                }
                Some((node, Generic::Scsi)) => {
                    device(&mut facts, TargetKind::ScsiGeneric, rdev, Some(node.facts()));
                }
                Some((node, Generic::Bsg)) => {
                    device(&mut facts, TargetKind::ScsiBsg, rdev, Some(node.facts()));
                }
                None => facts.kind = TargetKind::Other,
            },
            _ => facts.kind = TargetKind::Other,
        }
        align(&mut facts, &stat);
        Ok(facts)
    }

    fn file(&self, facts: &mut TargetFacts, fd: &OwnedFd, stat: &Statx) {
        facts.kind = TargetKind::File;
        facts.size_bytes = stat.stx_size;
        // stx_blocks is in units of 512 bytes.
        facts.allocated_bytes = stat.stx_blocks.saturating_mul(512);
        facts.made_by_fathom = mark::is_own(fd);
        self.place(facts, fd, stat);
    }

    fn place(&self, facts: &mut TargetFacts, fd: &OwnedFd, stat: &Statx) {
        // Without blocks (ramfs), how many are free is not known.
        let system = rustix::fs::fstatvfs(fd).ok().filter(|fs| fs.f_blocks > 0);
        facts.free_bytes = system.map(|fs| fs.f_bavail.saturating_mul(fs.f_frsize));
        let mount = self.mount_of(stat);
        facts.file_system = mount.map(|mount| mount.file_system.clone());
        let holders = Holders { roots: &self.roots, mounts: &self.mounts };
        facts.held_by = match holders.of(stat, Path::new(&resolved(fd))) {
            Backing::By(numbers) => {
                let mut known = numbers.into_iter().filter_map(|number| self.device(number));
                match (known.next(), known.next()) {
                    (Some(first), Some(second)) => {
                        let all = [first, second].into_iter().chain(known);
                        HeldBy::Devices(all.map(|device| device.name).collect())
                    }
                    (only, _) => {
                        facts.device = only;
                        HeldBy::Device
                    }
                }
            }
            Backing::AnyDisk => HeldBy::AnyDisk,
            Backing::Hidden => HeldBy::Hidden,
        };
    }

    pub(crate) fn mount_of(&self, stat: &Statx) -> Option<&Mount> {
        mounts::of(&self.mounts, stat)
    }

    pub(crate) fn mount_point(&self, device: Number) -> Option<&str> {
        let mount = self.mounts.iter().find(|mount| mount.device == device)?;
        Some(&mount.point)
    }

    fn device(&self, number: Number) -> Option<DeviceFacts> {
        let read = || Node::by_number(&self.roots, number).map(|node| node.facts());
        self.devices.borrow_mut().entry(number).or_insert_with(read).clone()
    }

    fn missing(&self, path: &str) -> TargetFacts {
        let in_dir = split(path).and_then(|(dir, name)| {
            let (dir, missing) = nearest(dir).ok()?;
            self.missing_in(path, &dir, &joined(&missing, name)).ok()
        });
        in_dir.unwrap_or_else(|| TargetFacts { path: path.to_string(), ..TargetFacts::default() })
    }

    /// Facts about a name that does not exist in an open directory; `asked` is the path as given.
    pub(crate) fn missing_in(
        &self,
        asked: &str,
        dir: &OwnedFd,
        name: &str,
    ) -> io::Result<TargetFacts> {
        let stat = stat(dir)?;
        let mut facts = TargetFacts {
            path: asked.to_string(),
            resolved: Path::new(&resolved(dir)).join(name).to_string_lossy().into_owned(),
            device_number: (stat.stx_dev_major, stat.stx_dev_minor),
            ..TargetFacts::default()
        };
        self.place(&mut facts, dir, &stat);
        Ok(facts)
    }
}

fn device(facts: &mut TargetFacts, kind: TargetKind, rdev: Number, device: Option<DeviceFacts>) {
    facts.kind = kind;
    facts.device_number = rdev;
    facts.size_bytes = device.as_ref().map_or(0, |device| device.size_bytes);
    facts.allocated_bytes = facts.size_bytes;
    facts.device = device;
}

/// Opens with O_PATH, since opening a device or FIFO otherwise can have side effects.
pub(crate) fn open_path(path: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens the longest part of a directory's path that exists, and returns the names that are missing in it.
pub(crate) fn nearest(path: &str) -> io::Result<(OwnedFd, Vec<String>)> {
    let mut at = Path::new(path);
    let mut missing = Vec::new();
    loop {
        let shown = if at.as_os_str().is_empty() { Path::new(".") } else { at };
        match (open_path(&shown.to_string_lossy()), at.file_name()) {
            (Err(error), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
                missing.insert(0, name.to_string_lossy().into_owned());
                at = at.parent().unwrap_or(Path::new(""));
            }
            (opened, _) => return opened.map(|dir| (dir, missing)),
        }
    }
}

pub(crate) fn joined(dirs: &[String], name: &str) -> String {
    dirs.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("/")
}

pub(crate) fn resolved(fd: impl AsFd) -> String {
    let link = std::fs::read_link(mark::descriptor_path(fd));
    link.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
}

pub(crate) fn stat(fd: impl AsFd) -> io::Result<Statx> {
    let flags = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID | StatxFlags::DIOALIGN;
    Ok(rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, flags)?)
}

/// Alignment of direct I/O from statx, else the logical block size of the device.
fn align(facts: &mut TargetFacts, stat: &Statx) {
    if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 {
        facts.direct_align = Some(stat.stx_dio_offset_align);
        facts.memory_align = Some(stat.stx_dio_mem_align);
    } else if let Some(device) = &facts.device {
        facts.direct_align = Some(device.logical_block);
        facts.memory_align = Some(device.logical_block);
    }
}

/// Directory and name of a path; `None` if the path can only be a directory.
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
    fn paths_are_split_at_the_last_component() {
        assert_eq!(split("a"), Some((".", "a")));
        assert_eq!(split("/a"), Some(("/", "a")));
        assert_eq!(split("/a/b"), Some(("/a", "b")));
        for dir in ["", "/", "a/", "a/..", "."] {
            assert_eq!(split(dir), None, "{dir:?}");
        }
    }

    #[test]
    fn files_directories_and_missing_paths() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("file");
        let file = std::fs::File::create(&path).expect("file");
        file.set_len(1 << 20).expect("length");
        let lookup = Lookup::new(&Roots::default());
        let facts = lookup.target(path.to_str().expect("UTF-8")).expect("facts");
        assert_eq!((facts.kind, facts.size_bytes), (TargetKind::File, 1 << 20));
        assert!(facts.allocated_bytes < 1 << 20);
        assert!(facts.file_system.is_some() && facts.free_bytes.is_some());
        assert!(!facts.made_by_fathom);
        let facts = lookup.target(dir.path().to_str().expect("UTF-8")).expect("facts");
        assert_eq!(facts.kind, TargetKind::Directory);
        let gone = dir.path().join("gone");
        let facts = lookup.target(gone.to_str().expect("UTF-8")).expect("facts");
        assert_eq!(facts.kind, TargetKind::Missing);
        assert!(facts.free_bytes.is_some());
        assert_eq!(lookup.target("/dev/null").expect("facts").kind, TargetKind::Other);
    }
}
