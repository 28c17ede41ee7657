//! Who uses a device or a file, in words: mounts in any namespace, swap, loop devices, and what is
//! stacked on a device.

use crate::device::{self, Node, Number};
use crate::mounts::{self, Mount, Namespace, unescape};
use crate::roots::{Roots, text};
use rustix::fs::{FileType, Stat, major, minor};
use std::path::{Path, PathBuf};

/// All that uses the device, a partition of it, or the disk that it is a part of.
pub(crate) fn of_device(roots: &Roots, node: &Node) -> Vec<String> {
    let namespaces = mounts::namespaces(roots);
    let family = node.family();
    let mut found = Vec::new();
    for member in &family {
        found.extend(mounted(&namespaces, member));
        let path = member.path();
        found.extend(member.holders().iter().map(|name| format!("{name} is stacked on {path}")));
        let is_member = |stat: &Stat| block_number(stat) == Some(member.number);
        found.extend(swapped(roots, &namespaces, is_member, &path));
        for (upper, file) in device::loops(roots) {
            if upper.number != member.number && leads_to(&namespaces, &file, is_member) {
                found.push(format!("{} is set up on {path}", upper.path()));
            }
        }
    }
    found.extend(siblings(roots, &namespaces, node));
    found
}

/// All that uses a regular file as a whole: loop devices and swap. `path` is its resolved path.
pub(crate) fn of_file(roots: &Roots, stat: &Stat, path: &str) -> Vec<String> {
    let namespaces = mounts::namespaces(roots);
    let is_it = |other: &Stat| (other.st_dev, other.st_ino) == (stat.st_dev, stat.st_ino);
    let mut found: Vec<String> = swapped(roots, &namespaces, is_it, path).collect();
    for (upper, file) in device::loops(roots) {
        if leads_to(&namespaces, &file, is_it) {
            found.push(format!("it is the file behind {}", upper.path()));
            found.extend(of_device(roots, &upper));
        } else if same_name(&file, path)
            && (is_lost(&namespaces, &file) || may_overlay(&namespaces, &file, stat, path))
        {
            let upper = upper.path();
            found.push(format!("it may be the file behind {upper}, which the kernel calls {file}"));
        }
    }
    found
}

/// Other loop devices on the file behind this loop device: they show the same bytes.
fn siblings(roots: &Roots, namespaces: &[Namespace], node: &Node) -> Vec<String> {
    let Some(backing) = node.backing_file() else { return Vec::new() };
    let disk = node.disk().number;
    let behind =
        |stat: &Stat, other: &Stat| (stat.st_dev, stat.st_ino) == (other.st_dev, other.st_ino);
    let mine: Vec<Stat> = in_all(namespaces, &backing).collect();
    let others = device::loops(roots).into_iter().filter(|(upper, file)| {
        upper.number != disk
            && leads_to(namespaces, file, |stat| mine.iter().any(|own| behind(own, stat)))
    });
    others
        .map(|(upper, _)| format!("{} shares the file behind it, {backing}", upper.path()))
        .collect()
}

fn mounted(namespaces: &[Namespace], node: &Node) -> Vec<String> {
    let mut found = Vec::new();
    for (index, namespace) in namespaces.iter().enumerate() {
        for mount in namespace.mounts.iter().filter(|mount| is_on(mount, namespaces, node)) {
            let mut line = format!("{} is mounted at {}", node.path(), mount.point);
            if index > 0 {
                let pid = namespace.process.file_name().unwrap_or_default().to_string_lossy();
                line.push_str(&format!(" in another mount namespace (that of process {pid})"));
            }
            if !found.contains(&line) {
                found.push(line);
            }
        }
    }
    found
}

/// Whether a mount is of a file system on this device. btrfs and bcachefs have device numbers of
/// their own and tell (one of) their devices only by its path.
fn is_on(mount: &Mount, namespaces: &[Namespace], node: &Node) -> bool {
    let is_member = |stat: &Stat| block_number(stat) == Some(node.number);
    mount.device == node.number
        || (matches!(mount.file_system.as_str(), "btrfs" | "bcachefs")
            && mount.source.split(':').any(|source| leads_to(namespaces, source, is_member)))
}

fn swapped<'a>(
    roots: &Roots,
    namespaces: &'a [Namespace],
    matches: impl Fn(&Stat) -> bool + 'a,
    path: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let swaps = text(roots.proc.join("swaps")).unwrap_or_default();
    let files: Vec<String> = swaps
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next().map(unescape))
        .collect();
    files
        .into_iter()
        .filter(move |file| leads_to(namespaces, file, &matches))
        .map(move |_| format!("{path} is swap space"))
}

/// What a path of the kernel's leads to, in each namespace: it does not say which one it means.
fn in_all<'a>(namespaces: &'a [Namespace], path: &str) -> impl Iterator<Item = Stat> + 'a {
    let relative: PathBuf = Path::new(path).strip_prefix("/").unwrap_or(Path::new(path)).into();
    let absolute = Path::new("/").join(&relative);
    let own = rustix::fs::stat(&absolute).ok();
    let others = namespaces.iter().map(|namespace| namespace.process.join("root"));
    own.into_iter()
        .chain(others.filter_map(move |root| rustix::fs::stat(root.join(&relative)).ok()))
}

fn leads_to(namespaces: &[Namespace], path: &str, matches: impl Fn(&Stat) -> bool) -> bool {
    in_all(namespaces, path).any(|stat| matches(&stat))
}

fn is_lost(namespaces: &[Namespace], path: &str) -> bool {
    in_all(namespaces, path).next().is_none()
}

/// Whether a loop device's file and this one may be one file, of which an overlay shows either under
/// a device and inode number of its own.
fn may_overlay(namespaces: &[Namespace], file: &str, stat: &Stat, path: &str) -> bool {
    let is_like = |other: &Stat| other.st_dev != stat.st_dev && other.st_size == stat.st_size;
    let mut roots = namespaces.iter().map(|namespace| namespace.process.join("root"));
    leads_to(namespaces, file, is_like)
        && (on_overlay(Path::new(path))
            || on_overlay(Path::new(file))
            || roots.any(|root| on_overlay(&root.join(file.trim_start_matches('/')))))
}

fn on_overlay(path: &Path) -> bool {
    // OVERLAYFS_SUPER_MAGIC
    rustix::fs::statfs(path).is_ok_and(|system| system.f_type == 0x794c_7630)
}

fn same_name(backing: &str, path: &str) -> bool {
    let backing = backing.strip_suffix(" (deleted)").unwrap_or(backing);
    Path::new(backing).file_name() == Path::new(path).file_name()
}

/// The number of the block device that a node is for.
pub(crate) fn block_number(stat: &Stat) -> Option<Number> {
    let is_block = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    is_block.then(|| (major(stat.st_rdev), minor(stat.st_rdev)))
}
