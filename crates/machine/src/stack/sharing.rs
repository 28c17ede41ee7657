//! Who shares bytes with a device or a file: what lies on it, what it lies on, and who uses those.

use super::backing::Layer;
use super::{FileIdentity, Likeness, Object, StorageStack, paths};
use crate::device::{Holder, Node, Number};
use crate::mounts::{Mount, Namespace};
use rustix::fs::Stat;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// How a device was reached on the way down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It is what was asked about.
    Target,
    /// A partition of it was: other partitions share nothing with that, unless they overlap.
    Partition,
    /// It is a member of a device-mapper, md or bcache device, which holds it.
    Member,
    /// A loop device or its like is set up on it.
    Layer,
}

/// What shares bytes with a device.
#[derive(Default)]
pub(crate) struct Sharing {
    /// Who uses the bytes, in words; nobody may while they are written.
    pub uses: Vec<String>,
    /// Devices below it that nothing holds exclusively, so that the writer must.
    pub unheld: Vec<Node>,
    /// Files below it, with what the kernel calls them.
    pub files: Vec<(FileIdentity, PathBuf)>,
}

impl StorageStack {
    /// Who shares bytes with a device. What is stacked on it, or on what it lies on, counts as use,
    /// mounted or not; what lies beside it on other bytes does not.
    pub fn sharing(&self, node: &Node) -> Sharing {
        let mut found = Sharing::default();
        let mut seen: Vec<(Number, bool)> = Vec::new();
        let mut next = vec![(node.clone(), None::<Node>, Way::Target)];
        while let Some((node, above, way)) = next.pop() {
            let visit = (node.number, way == Way::Partition);
            if seen.contains(&visit) {
                continue;
            }
            seen.push(visit);
            self.device_uses(&node, above.as_ref(), &mut found.uses);
            if way != Way::Partition {
                let partitions = node.partitions();
                partitions.iter().for_each(|part| self.device_uses(part, None, &mut found.uses));
            }
            if way == Way::Layer {
                found.unheld.push(node.clone());
            }
            let disk = node.disk();
            if disk != node {
                let beside = disk.partitions().into_iter().filter(|part| *part != node);
                let overlapping = beside.filter(|part| part.overlaps(&node));
                overlapping.for_each(|part| self.device_uses(&part, None, &mut found.uses));
                next.push((disk, Some(node.clone()), Way::Partition));
            }
            match node.members() {
                Ok(members) => {
                    next.extend(members.into_iter().map(|m| (m, Some(node.clone()), Way::Member)));
                }
                Err(name) => found.uses.push(unknown(&node, &name)),
            }
            for layer in self.layers.iter().filter(|layer| layer.device.number == node.number) {
                next.extend(self.below(layer, &mut found));
            }
        }
        let mut told: HashSet<String> = HashSet::new();
        found.uses.retain(|line| told.insert(line.clone()));
        found
    }

    /// What a loop device or its like lies on. The files are looked at here.
    fn below(&self, layer: &Layer, found: &mut Sharing) -> Vec<(Node, Option<Node>, Way)> {
        let mut next = Vec::new();
        for object in &layer.objects {
            match object {
                Object::File(file) => {
                    let name = layer.path.display().to_string();
                    self.file_uses(&name, file, Some(&layer.device), &mut found.uses);
                    found.files.push((file.clone(), layer.path.clone()));
                }
                Object::Device(number) => match Node::by_number(&self.roots, *number) {
                    Some(node) => next.push((node, Some(layer.device.clone()), Way::Layer)),
                    None => {
                        let name = format!("device {}:{}", number.0, number.1);
                        found.uses.push(unknown(&layer.device, &name));
                    }
                },
            }
        }
        next
    }

    /// Who uses an open file as a whole: swap, loop devices and their like.
    pub fn uses_of_file(&self, fd: impl AsFd, stat: &Stat) -> Vec<String> {
        let mut found = Vec::new();
        let file = paths::identity(stat, paths::is_overlaid(fd));
        self.file_uses("it", &file, None, &mut found);
        found
    }

    /// Who uses a device itself, apart from the device `above` by which it was reached.
    fn device_uses(&self, node: &Node, above: Option<&Node>, uses: &mut Vec<String>) {
        let path = node.path();
        self.mounted(node, uses);
        let members = self.members.iter().filter(|(number, _)| *number == node.number);
        uses.extend(members.map(|(_, system)| format!("{path} is a member of a mounted {system}")));
        if self.swaps.iter().any(|swap| swap.objects.contains(&Object::Device(node.number))) {
            uses.push(format!("{path} is swap space"));
        }
        let other = |holder: &Holder| {
            above.is_none_or(|above| holder.number != Some(above.number) && !apart(above, holder))
        };
        let holders = node.holders().into_iter().filter(other);
        uses.extend(holders.map(|holder| format!("{} is stacked on {path}", holder.name)));
        for layer in self.layers_but(above) {
            if layer.objects.contains(&Object::Device(node.number)) {
                uses.push(format!("{} is set up on {path}", layer.device.path()));
            }
        }
    }

    /// Who uses a file, here called `name`, apart from the device `above` that is set up on it.
    fn file_uses(
        &self,
        name: &str,
        file: &FileIdentity,
        above: Option<&Node>,
        uses: &mut Vec<String>,
    ) {
        let is_it = |object: &Object| match object {
            Object::File(other) => file.likeness(other),
            Object::Device(_) => Likeness::Different,
        };
        if self.swaps.iter().flat_map(|swap| &swap.objects).any(|o| is_it(o) == Likeness::Same) {
            uses.push(format!("{name} is swap space"));
        }
        for layer in self.layers_but(above) {
            let device = layer.device.path();
            let fits = |sizes: &RangeInclusive<u64>| sizes.contains(file.sizes.start());
            let likeness: Vec<Likeness> = layer.objects.iter().map(is_it).collect();
            if likeness.contains(&Likeness::Same) {
                uses.push(format!("{name} is the file behind {device}"));
                self.mounted(&layer.device, uses);
                let partitions = layer.device.partitions();
                partitions.iter().for_each(|part| self.mounted(part, uses));
            } else if likeness.contains(&Likeness::Possible)
                || layer.guess.as_ref().is_some_and(fits)
            {
                let path = layer.path.display();
                uses.push(format!(
                    "{name} may be the file behind {device}, which the kernel calls {path}"
                ));
            }
        }
    }

    fn layers_but(&self, above: Option<&Node>) -> impl Iterator<Item = &Layer> {
        let above = above.map(|node| node.number);
        self.layers.iter().filter(move |layer| Some(layer.device.number) != above)
    }

    fn mounted(&self, node: &Node, uses: &mut Vec<String>) {
        for (index, namespace) in self.namespaces.iter().enumerate() {
            for mount in namespace.mounts.iter().filter(|mount| self.is_on(mount, node)) {
                let mut line = format!("{} is mounted at {}", node.path(), mount.point);
                if index > 0 {
                    line.push_str(&elsewhere(namespace));
                }
                if !uses.contains(&line) {
                    uses.push(line);
                }
            }
        }
    }

    /// Whether a mount is of a file system on this device. btrfs and bcachefs have device numbers
    /// of their own and name (one of) their devices only by its path.
    fn is_on(&self, mount: &Mount, node: &Node) -> bool {
        mount.device == node.number
            || (matches!(mount.file_system.as_str(), "btrfs" | "bcachefs")
                && mount.source.split(':').any(|source| {
                    paths::objects(&self.roots, &self.namespaces, source.as_ref())
                        .contains(&Object::Device(node.number))
                }))
    }
}

fn elsewhere(namespace: &Namespace) -> String {
    let pid = namespace.process.file_name().unwrap_or_default().to_string_lossy();
    format!(" in another mount namespace (that of process {pid})")
}

fn unknown(node: &Node, name: &str) -> String {
    format!("{} lies on {name}, which /sys does not show, so its users are unknown", node.path())
}

/// Whether two device-mapper devices on one member are known to lie on bytes of their own: logical
/// volumes of LVM, and partitions that kpartx made.
fn apart(above: &Node, holder: &Holder) -> bool {
    let (Some(one), Some(other)) = (above.mapper_uuid(), &holder.mapper_uuid) else { return false };
    let both_lvm = one.starts_with("LVM-") && other.starts_with("LVM-");
    both_lvm || matches!((partition(&one), partition(other)), (Some(a), Some(b)) if a != b)
}

/// The number in kpartx's `part<number>-<uuid of the whole>`.
fn partition(uuid: &str) -> Option<u32> {
    uuid.strip_prefix("part")?.split_once('-')?.0.parse().ok()
}
