//! Block devices, what they are on, and where they are mounted.

use super::affinity;
use crate::target::block_of;
use fathom_model::list;
use fathom_model::topology::{Volume, VolumeKind};
use fathom_sys::device::{self, Node};
use fathom_sys::mounts::{self, Mount};
use fathom_sys::roots::{Roots, entries, number, text};
use std::path::Path;

/// All block devices that are not empty, with their partitions after them.
pub(super) fn read(roots: &Roots) -> Vec<Volume> {
    let block = roots.sys.join("block");
    let uses = Uses::read(roots);
    let mut volumes = Vec::new();
    let mut names = entries(&block);
    names.sort_by(|a, b| list::natural(a, b));
    for name in names {
        let dir = block.join(&name);
        if size_bytes(&dir) == 0 || number::<u32>(dir.join("hidden")) == Some(1) {
            continue;
        }
        let disk = volume(&dir, &uses);
        let parts = entries(&dir).into_iter().filter(|part| part.starts_with(&name));
        let parts = parts.map(|part| dir.join(part));
        let parts = parts.filter(|part| part.join("partition").exists()).map(|part| Volume {
            kind: VolumeKind::Partition,
            members: vec![disk.name.clone()],
            queues: Vec::new(),
            ..volume(&part, &uses)
        });
        let mut parts: Vec<Volume> = parts.collect();
        parts.sort_by_key(|part| (part.name.len(), part.name.clone()));
        volumes.push(disk);
        volumes.append(&mut parts);
    }
    volumes
}

/// The block device that holds what is at `path`, by kernel name.
pub(super) fn by_path(roots: &Roots, path: &Path) -> Option<String> {
    let number = block_of(roots, path)?;
    Node::by_number(roots, number).map(|node| node.name())
}

fn volume(dir: &Path, uses: &Uses) -> Volume {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().replace('!', "/");
    let (kind, label) = if let Some(mapped) = text(dir.join("dm/name")) {
        (VolumeKind::Mapped, mapped)
    } else if let Some(level) = text(dir.join("md/level")) {
        (VolumeKind::Raid, level)
    } else if let Some(file) = text(dir.join("loop/backing_file")) {
        (VolumeKind::Loop, file)
    } else {
        (VolumeKind::Disk, model(dir))
    };
    let mut members = device::member_names(dir);
    if kind == VolumeKind::Loop {
        members.extend(uses.holder_of(&label));
    }
    Volume {
        members,
        mounts: uses.of(dir, &name, &label),
        size_bytes: size_bytes(dir),
        queues: affinity::queues(dir),
        name,
        kind,
        label,
    }
}

/// Vendor and model as SCSI has them, or the model alone; ATA disks have no vendor of their own.
fn model(dir: &Path) -> String {
    let vendor = text(dir.join("device/vendor"))
        .filter(|vendor| vendor != "ATA" && !vendor.starts_with("0x"));
    let model = text(dir.join("device/model"));
    let parts: Vec<String> = vendor.into_iter().chain(model).collect();
    parts.join(" ")
}

fn size_bytes(dir: &Path) -> u64 {
    // sysfs reports 512-byte sectors on all devices.
    number::<u64>(dir.join("size")).unwrap_or(0).saturating_mul(512)
}

struct Uses<'a> {
    roots: &'a Roots,
    mounts: Vec<Mount>,
    swaps: Vec<String>,
    /// The block devices of each mounted btrfs, of which mountinfo names only one.
    members: Vec<Vec<String>>,
}

impl<'a> Uses<'a> {
    fn read(roots: &'a Roots) -> Self {
        let swaps = text(roots.proc.join("swaps")).unwrap_or_default();
        let path = |line: &str| Some(mounts::unescaped(line.split_whitespace().next()?));
        let btrfs = roots.sys.join("fs/btrfs");
        let members = entries(&btrfs).into_iter().map(|uuid| {
            let names = entries(btrfs.join(uuid).join("devices"));
            names.into_iter().map(|name| name.replace('!', "/")).collect()
        });
        Self {
            roots,
            mounts: mounts::own(roots),
            swaps: swaps.lines().skip(1).filter_map(path).collect(),
            members: members.collect(),
        }
    }

    /// Where the device is mounted, each place once, and whether it is swap space.
    fn of(&self, dir: &Path, name: &str, label: &str) -> Vec<String> {
        let number = text(dir.join("dev")).and_then(|text| device::parse_number(&text));
        let mut nodes = vec![format!("/dev/{name}")];
        if !label.is_empty() {
            nodes.push(format!("/dev/mapper/{label}"));
        }
        // A btrfs is mounted by one of its devices.
        for members in self.members.iter().filter(|members| members.iter().any(|own| own == name)) {
            nodes.extend(members.iter().map(|member| format!("/dev/{member}")));
        }
        let mut found: Vec<String> = Vec::new();
        for mount in &self.mounts {
            let by_source = mount.device.0 == 0 && nodes.contains(&mount.source);
            // A bind mount of a part of the file system is not another mount point of the device.
            let is_whole = mount.root == "/" || mount.device.0 == 0;
            if is_whole
                && (Some(mount.device) == number || by_source)
                && !found.contains(&mount.point)
            {
                found.push(mount.point.clone());
            }
        }
        if self.swaps.iter().any(|swap| nodes.contains(swap)) {
            found.push("[SWAP]".into());
        }
        found
    }

    fn holder_of(&self, file: &str) -> Option<String> {
        let mount = mounts::above(&self.mounts, Path::new(file))?;
        let by_number = Node::by_number(self.roots, mount.device).map(|node| node.name());
        by_number.or_else(|| Some(mount.source.strip_prefix("/dev/")?.to_string()))
    }
}
