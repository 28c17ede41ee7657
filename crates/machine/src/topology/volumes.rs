//! Block devices, what they are on, and where they are mounted.

use super::affinity;
use fathom_model::list;
use fathom_model::topology::{Volume, VolumeKind};
use fathom_sys::device::{self, Node};
use fathom_sys::mounts::{self, Mount};
use fathom_sys::roots::{Roots, entries, number, text};
use std::path::Path;

/// All block devices that are not empty, with their partitions after them.
pub(super) fn read(roots: &Roots) -> Vec<Volume> {
    let uses = Uses::read(roots);
    let mut volumes = Vec::new();
    let mut disks = device::whole(roots);
    disks.sort_by(|a, b| list::natural(&a.name(), &b.name()));
    for node in disks {
        if node.size_bytes() == 0 || number::<u32>(node.attribute("hidden")) == Some(1) {
            continue;
        }
        let disk = volume(&node, &uses);
        let parts = node.partitions().unwrap_or_default().into_iter().map(|part| Volume {
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

fn volume(node: &Node, uses: &Uses) -> Volume {
    let dir = node.dir();
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
        mounts: uses.of(node, &label),
        size_bytes: node.size_bytes(),
        queues: affinity::queues(dir),
        name: node.name(),
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
    fn of(&self, node: &Node, label: &str) -> Vec<String> {
        let name = node.name();
        let mut nodes = vec![node.path()];
        if !label.is_empty() {
            nodes.push(format!("/dev/mapper/{label}"));
        }
        // A btrfs is mounted by one of its devices.
        for members in self.members.iter().filter(|members| members.contains(&name)) {
            nodes.extend(members.iter().map(|member| format!("/dev/{member}")));
        }
        let mut found: Vec<String> = Vec::new();
        for mount in &self.mounts {
            let by_source = mount.device.0 == 0 && nodes.contains(&mount.source);
            // A bind mount of a part of the file system is not another mount point of the device.
            let is_whole = mount.root == "/" || mount.device.0 == 0;
            if is_whole
                && (mount.device == node.number || by_source)
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
