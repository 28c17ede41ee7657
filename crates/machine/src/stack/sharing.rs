//! Users of a device or file, and of everything above and below it that shares its bytes.

use super::backing::BackedDevice;
use super::{FileIdentity, Likeness, Object, StorageStack, paths, sources};
use fathom_sys::device::{Holder, Node, Number};
use fathom_sys::mounts::{Mount, Namespace};
use fathom_sys::roots::Unread;
use rustix::fs::{Mode, OFlags, Stat};
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Target,
    /// As the disk of a partition; other partitions share nothing unless they overlap.
    Partition,
    /// As a member of a device-mapper, md or bcache device, which holds it.
    Member,
    /// As the backing store of a loop device or similar.
    Layer,
}

/// A device below, the device from which it was reached, and how.
type Step = (Node, Option<Node>, Way);

#[derive(Default)]
pub(crate) struct Sharing {
    /// Descriptions of the users; must be empty to write.
    pub uses: Vec<String>,
    /// Devices below that no one holds exclusively, so the writer must.
    pub unheld: Vec<Node>,
    pub files: Vec<(FileIdentity, PathBuf)>,
}

impl StorageStack {
    /// Users of the bytes of a device. Anything stacked on it, or on devices below it, counts as a user,
    /// mounted or not, unless it is on other bytes.
    pub fn sharing(&self, node: &Node) -> Result<Sharing, Unread> {
        let mut found = Sharing::default();
        let mut seen: Vec<(Number, bool)> = Vec::new();
        let mut next = vec![(node.clone(), None::<Node>, Way::Target)];
        while let Some((node, above, way)) = next.pop() {
            let visit = (node.number, way == Way::Partition);
            if seen.contains(&visit) {
                continue;
            }
            seen.push(visit);
            node.verify()?;
            self.device_uses(&node, above.as_ref(), &mut found.uses)?;
            if way != Way::Partition {
                for part in node.partitions()? {
                    self.device_uses(&part, None, &mut found.uses)?;
                }
            }
            if way == Way::Layer {
                found.unheld.push(node.clone());
            }
            let disk = node.disk();
            if disk != node {
                disk.verify()?;
                for part in disk.partitions()?.iter().filter(|part| **part != node) {
                    if part.overlaps(&node)? {
                        self.device_uses(part, None, &mut found.uses)?;
                    }
                }
                next.push((disk, Some(node.clone()), Way::Partition));
            }
            let members = node.members()?.into_iter();
            next.extend(members.map(|member| (member, Some(node.clone()), Way::Member)));
            for layer in self.layers.iter().filter(|layer| layer.device.number == node.number) {
                next.extend(self.below(layer, &mut found)?);
            }
        }
        let mut seen: HashSet<String> = HashSet::new();
        found.uses.retain(|line| seen.insert(line.clone()));
        Ok(found)
    }

    fn below(&self, layer: &BackedDevice, found: &mut Sharing) -> Result<Vec<Step>, Unread> {
        let mut next = Vec::new();
        for object in &layer.objects {
            match object {
                Object::File(file) => {
                    let name = layer.path.display().to_string();
                    let contents = opened(&layer.path, file);
                    let above = Some(&layer.device);
                    self.file_uses(&name, file, contents.as_ref(), above, &mut found.uses)?;
                    found.files.push((file.clone(), layer.path.clone()));
                }
                Object::Device(number) => match Node::by_number(&self.roots, *number) {
                    Some(node) => next.push((node, Some(layer.device.clone()), Way::Layer)),
                    None => found.uses.push(format!(
                        "{} is stacked on device {}:{}, which is missing from /sys, so its users are unknown",
                        layer.device.path(), number.0, number.1
                    )),
                },
            }
        }
        Ok(next)
    }

    /// Users of a file that is open for reading: swap, loop devices and similar, mounts of it.
    pub fn uses_of_file(&self, fd: &OwnedFd, stat: &Stat) -> Result<Vec<String>, Unread> {
        let mut found = Vec::new();
        // In doubt, on an overlay, where a file is known by its size.
        let overlaid = rustix::fs::fstatfs(fd).map_or(true, |fs| paths::is_overlay(&fs));
        let file = paths::identity(stat, overlaid);
        self.file_uses("the file", &file, Some(fd), None, &mut found)?;
        Ok(found)
    }

    /// Users of the device itself, except the device `above` from which it was reached.
    fn device_uses(
        &self,
        node: &Node,
        above: Option<&Node>,
        uses: &mut Vec<String>,
    ) -> Result<(), Unread> {
        let path = node.path();
        self.mounted(node, uses);
        let members = self.members.iter().filter(|(number, _)| *number == node.number);
        uses.extend(members.map(|(_, system)| format!("{path} is a member of a mounted {system}")));
        if self.swaps.contains(&Object::Device(node.number)) {
            uses.push(format!("{path} is swap space"));
        }
        let other = |holder: &Holder| {
            above.is_none_or(|above| holder.number != Some(above.number) && !apart(above, holder))
        };
        let holders = node.holders()?.into_iter().filter(other);
        uses.extend(holders.map(|holder| format!("{} is stacked on {path}", holder.name)));
        for layer in self.layers_but(above) {
            if layer.objects.contains(&Object::Device(node.number)) {
                uses.push(format!("{} is backed by {path}", layer.device.path()));
            }
        }
        Ok(())
    }

    /// Users of a file, called `name` in messages, except the device `above`. `contents` is the file, if it can be read.
    fn file_uses(
        &self,
        name: &str,
        file: &FileIdentity,
        contents: Option<&OwnedFd>,
        above: Option<&Node>,
        uses: &mut Vec<String>,
    ) -> Result<(), Unread> {
        let is_it = |object: &Object| match object {
            Object::File(other) => file.likeness(other),
            Object::Device(_) => Likeness::Different,
        };
        if self.swaps.iter().any(|o| is_it(o) == Likeness::Same) {
            uses.push(format!("{name} is swap space"));
        }
        self.add_mounts(uses, |mount| {
            let by_path = self.sources.of(mount).iter().map(is_it);
            let by_contents = || sources::image_likeness(&self.namespaces, mount, contents);
            match by_path.chain(std::iter::once_with(by_contents)).max() {
                Some(Likeness::Same) => Some(format!("{name} is mounted")),
                Some(Likeness::Possible) => Some(format!(
                    "{name} may be {}, which is mounted as {}",
                    mount.source, mount.file_system
                )),
                _ => None,
            }
        });
        for layer in self.layers_but(above) {
            let device = layer.device.path();
            let fits = |sizes: &RangeInclusive<u64>| sizes.contains(file.sizes.start());
            let likeness: Vec<Likeness> = layer.objects.iter().map(is_it).collect();
            if likeness.contains(&Likeness::Same) {
                uses.push(format!("{name} is the backing file of {device}"));
                self.mounted(&layer.device, uses);
                for part in layer.device.partitions()? {
                    self.mounted(&part, uses);
                }
            } else if likeness.contains(&Likeness::Possible)
                || layer.guess.as_ref().is_some_and(fits)
            {
                let path = layer.path.display();
                uses.push(format!(
                    "{name} may be the backing file of {device}, which the kernel reports as {path}"
                ));
            }
        }
        Ok(())
    }

    fn layers_but(&self, above: Option<&Node>) -> impl Iterator<Item = &BackedDevice> {
        let above = above.map(|node| node.number);
        self.layers.iter().filter(move |layer| Some(layer.device.number) != above)
    }

    /// Mounts of file systems on this device. btrfs and bcachefs use their own device numbers, and list (one of) their
    /// devices only by path.
    fn mounted(&self, node: &Node, uses: &mut Vec<String>) {
        let device = Object::Device(node.number);
        self.add_mounts(uses, |mount| {
            let is_on = mount.device == node.number || self.sources.of(mount).contains(&device);
            is_on.then(|| format!("{} is mounted", node.path()))
        });
    }

    /// Adds the mounts for which `of` returns what is mounted, with the mount point: once each, although most namespaces
    /// have copies of the same mounts.
    fn add_mounts(&self, uses: &mut Vec<String>, of: impl Fn(&Mount) -> Option<String>) {
        for (index, namespace) in self.namespaces.iter().enumerate() {
            for mount in &namespace.mounts {
                let Some(what) = of(mount) else { continue };
                let line = format!("{what} at {}", mount.point);
                let elsewhere = if index == 0 { String::new() } else { elsewhere(namespace) };
                let is_known = |known: &String| {
                    known
                        .strip_prefix(&line)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with(ELSEWHERE))
                };
                if !uses.iter().any(is_known) {
                    uses.push(line + &elsewhere);
                }
            }
        }
    }
}

fn opened(path: &Path, file: &FileIdentity) -> Option<OwnedFd> {
    let is_it = |stat: &Stat| file.likeness(&paths::identity(stat, false)) == Likeness::Same;
    // Opening something else could have side effects.
    rustix::fs::stat(path).ok().filter(is_it)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    rustix::fs::fstat(&fd).ok().filter(is_it).map(|_| fd)
}

const ELSEWHERE: &str = " in another mount namespace";

fn elsewhere(namespace: &Namespace) -> String {
    let pid = namespace.process.file_name().unwrap_or_default().to_string_lossy();
    format!("{ELSEWHERE} (of PID {pid})")
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
