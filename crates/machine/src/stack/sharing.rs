//! Users of a device or file, and of everything above and below it that shares its bytes.

use super::backing::Layer;
use super::{FileIdentity, Likeness, Object, StorageStack, paths};
use crate::device::{Holder, Node, Number};
use crate::mounts::{Mount, Namespace};
use rustix::fs::Stat;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// How a device was reached while walking down the stack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The device itself.
    Target,
    /// As the disk of a partition; other partitions share nothing unless they overlap.
    Partition,
    /// As a member of a device-mapper, md or bcache device, which holds it.
    Member,
    /// As the backing store of a loop device or similar.
    Layer,
}

/// Users of the bytes of a device.
#[derive(Default)]
pub(crate) struct Sharing {
    /// Descriptions of the users; must be empty to write.
    pub uses: Vec<String>,
    /// Devices below that no one holds exclusively, so the writer must.
    pub unheld: Vec<Node>,
    /// Backing files, with the paths known to the kernel.
    pub files: Vec<(FileIdentity, PathBuf)>,
}

impl StorageStack {
    /// Users of the bytes of a device. Anything stacked on it, or on devices below it, counts as a user,
    /// mounted or not, unless it is on other bytes.
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
        let mut seen: HashSet<String> = HashSet::new();
        found.uses.retain(|line| seen.insert(line.clone()));
        found
    }

    /// Devices below a loop device or similar. Backing files are checked here.
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

    /// Users of an open file: swap, loop devices and similar.
    pub fn uses_of_file(&self, fd: impl AsFd, stat: &Stat) -> Vec<String> {
        let mut found = Vec::new();
        let file = paths::identity(stat, paths::is_overlaid(fd));
        self.file_uses("the file", &file, None, &mut found);
        found
    }

    /// Users of the device itself, except the device `above` from which it was reached.
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
                uses.push(format!("{} is backed by {path}", layer.device.path()));
            }
        }
    }

    /// Users of a file, called `name` in messages, except the device `above`.
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
                uses.push(format!("{name} is the backing file of {device}"));
                self.mounted(&layer.device, uses);
                let partitions = layer.device.partitions();
                partitions.iter().for_each(|part| self.mounted(part, uses));
            } else if likeness.contains(&Likeness::Possible)
                || layer.guess.as_ref().is_some_and(fits)
            {
                let path = layer.path.display();
                uses.push(format!(
                    "{name} may be the backing file of {device}, which the kernel reports as {path}"
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

    /// Whether a mount is of a file system on this device. btrfs and bcachefs use their own device
    /// numbers, and list (one of) their devices only by path.
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
    format!(" in another mount namespace (of PID {pid})")
}

fn unknown(node: &Node, name: &str) -> String {
    format!(
        "{} is stacked on {name}, which is missing from /sys, so its users are unknown",
        node.path()
    )
}

/// Whether two device-mapper devices on one member are known not to overlap: LVM logical volumes, and
/// kpartx partitions.
fn apart(above: &Node, holder: &Holder) -> bool {
    let (Some(one), Some(other)) = (above.mapper_uuid(), &holder.mapper_uuid) else { return false };
    let both_lvm = one.starts_with("LVM-") && other.starts_with("LVM-");
    both_lvm || matches!((partition(&one), partition(other)), (Some(a), Some(b)) if a != b)
}

/// The number in kpartx's `part<number>-<uuid of the whole>`.
fn partition(uuid: &str) -> Option<u32> {
    uuid.strip_prefix("part")?.split_once('-')?.0.parse().ok()
}
