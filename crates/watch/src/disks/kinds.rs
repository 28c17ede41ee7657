//! Kinds of block devices and the devices below them, from sysfs.

use fathom_model::watch::{DiskCounters, DiskKind};
use fathom_sys::roots::text;
use fathom_sys::{Mount, Node, Roots, device, mounts};
use std::path::Path;
use std::time::{Duration, Instant};

/// Kinds of all devices. Refreshed when devices appear or disappear, and every few seconds, because
/// loop devices and device mapper tables change while their names stay.
#[derive(Debug)]
pub(super) struct DiskKinds {
    roots: Roots,
    known: Vec<KnownDisk>,
    read_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct KnownDisk {
    name: String,
    kind: DiskKind,
    below: Vec<String>,
    alias: String,
}

const REFRESH: Duration = Duration::from_secs(5);

/// Name prefixes of stacked devices; sysfs does not show the members of all of them.
const STACKED: [&str; 6] = ["bcache", "dm-", "drbd", "loop", "md", "zd"];
/// Name prefixes of memory-backed devices.
const MEMORY: [&str; 3] = ["nullb", "ram", "zram"];

impl DiskKinds {
    pub fn new(proc: &Path, sys: &Path) -> Self {
        let roots = Roots { proc: proc.into(), sys: sys.into() };
        Self { roots, known: Vec::new(), read_at: None }
    }

    /// Sets kind, members and alias of each device. Requires all devices.
    pub fn put_into(&mut self, disks: &mut [DiskCounters]) {
        let same = self.known.iter().map(|known| &known.name).eq(disks.iter().map(|d| &d.name));
        if !same || self.read_at.is_none_or(|read_at| read_at.elapsed() >= REFRESH) {
            let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
            let mounts = mounts::own(&self.roots);
            self.known = names.iter().map(|name| self.read(name, &names, &mounts)).collect();
            self.read_at = Some(Instant::now());
        }
        for (disk, known) in disks.iter_mut().zip(&self.known) {
            disk.kind = known.kind;
            disk.below.clone_from(&known.below);
            disk.alias.clone_from(&known.alias);
        }
    }

    fn read(&self, name: &str, all: &[&str], mounts: &[Mount]) -> KnownDisk {
        // sysfs has no slashes in names.
        let dir = self.roots.sys.join("class/block").join(name.replace('/', "!"));
        let known =
            |kind, below| KnownDisk { name: name.into(), kind, below, alias: String::new() };
        if let Some(part) = Node::by_dir(&dir).filter(Node::is_partition) {
            return known(DiskKind::Partition, vec![part.disk().name()]);
        }
        if MEMORY.iter().any(|prefix| is_numbered(name, prefix)) {
            return known(DiskKind::Memory, Vec::new());
        }
        if let Some(file) = text(dir.join("loop/backing_file")) {
            let mount = mounts::above(mounts, Path::new(&file));
            let holder = mount.and_then(|mount| Node::by_number(&self.roots, mount.device));
            let below = holder.iter().map(Node::name).collect();
            return KnownDisk { alias: file, ..known(DiskKind::Stacked, below) };
        }
        let mut below = device::member_names(&dir);
        below.extend(paths_of(name, all));
        let is_stacked =
            !below.is_empty() || STACKED.iter().any(|prefix| is_numbered(name, prefix));
        let kind = if is_stacked { DiskKind::Stacked } else { DiskKind::Disk };
        KnownDisk { alias: text(dir.join("dm/name")).unwrap_or_default(), ..known(kind, below) }
    }
}

/// `ram0`, not `ramdisk`.
fn is_numbered(name: &str, prefix: &str) -> bool {
    let rest = name.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '_'))
}

/// A path of an NVMe multipath head: `nvme0c1n2` belongs to `nvme0n2`.
fn paths_of<'a>(name: &'a str, all: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    let head = name.strip_prefix("nvme").and_then(|rest| rest.split_once('n'));
    let is_path = move |other: &str| {
        let parts = other.strip_prefix("nvme").and_then(|rest| rest.split_once('c'));
        let Some((subsystem, rest)) = parts else { return false };
        let namespace = rest.split_once('n').map(|(_, namespace)| namespace);
        head.is_some_and(|head| (subsystem, namespace) == (head.0, Some(head.1)))
    };
    all.iter().filter(move |other| is_path(other)).map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A synthetic machine with an LVM volume on a RAID of a partition and a multipath namespace.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("sys/devices/sda/dev", "8:0\n");
        write("sys/devices/sda/sda1/dev", "8:1\n");
        write("sys/devices/sda/sda1/partition", "1\n");
        write("sys/devices/dm-3/dev", "253:3\n");
        write("sys/class/block/md127/slaves/nvme0n1", "");
        write("sys/class/block/md127/slaves/sda1", "");
        write("sys/class/block/dm-3/slaves/md127", "");
        write("sys/class/block/dm-3/dm/name", "vg-data\n");
        write("sys/class/block/loop1/loop/backing_file", "/srv/images/a b.img\n");
        let (devices, class) =
            (root.path().join("sys/devices"), root.path().join("sys/class/block"));
        symlink(devices.join("sda"), class.join("sda")).unwrap();
        symlink(devices.join("sda/sda1"), class.join("sda1")).unwrap();
        fs::create_dir_all(root.path().join("sys/dev/block")).unwrap();
        symlink("../../devices/dm-3", root.path().join("sys/dev/block/253:3")).unwrap();
        write(
            "proc/self/mountinfo",
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 253:3 / /srv rw - xfs /dev/dm-3 rw\n\
             24 22 0:30 / /srv/im rw - tmpfs tmpfs rw\n",
        );
        root
    }

    fn kinds_of(root: &Path, names: &[&str]) -> Vec<DiskCounters> {
        let disk = |name: &&str| DiskCounters { name: name.to_string(), ..DiskCounters::default() };
        let mut disks: Vec<DiskCounters> = names.iter().map(disk).collect();
        DiskKinds::new(&root.join("proc"), &root.join("sys")).put_into(&mut disks);
        disks
    }

    #[test]
    fn each_device_with_its_stack() {
        let root = machine();
        let names =
            ["sda", "sda1", "nvme0n1", "nvme0c0n1", "nvme0c1n1", "nvme0c1n10", "md127", "dm-3"];
        let disks = kinds_of(root.path(), &names);
        let kinds: Vec<DiskKind> = disks.iter().map(|disk| disk.kind).collect();
        use DiskKind::{Disk, Partition, Stacked};
        assert_eq!(kinds, [Disk, Partition, Stacked, Disk, Disk, Disk, Stacked, Stacked]);
        assert_eq!(disks[1].below, ["sda"]);
        assert_eq!(disks[2].below, ["nvme0c0n1", "nvme0c1n1"]);
        assert_eq!(disks[6].below, ["nvme0n1", "sda1"]);
        assert_eq!((disks[7].below[0].as_str(), disks[7].alias.as_str()), ("md127", "vg-data"));
    }

    #[test]
    fn loop_and_memory_backed_devices() {
        let root = machine();
        let disks = kinds_of(
            root.path(),
            &["loop0", "loop1", "zram0", "ram3", "nullb1", "rambler", "nvme3n1"],
        );
        let kinds: Vec<DiskKind> = disks.iter().map(|disk| disk.kind).collect();
        use DiskKind::{Disk, Memory, Stacked};
        assert_eq!(kinds, [Stacked, Stacked, Memory, Memory, Memory, Disk, Disk]);
        assert_eq!(
            (disks[1].alias.as_str(), disks[1].below[0].as_str()),
            ("/srv/images/a b.img", "dm-3")
        );
        assert!(disks[0].below.is_empty() && disks[0].alias.is_empty());
    }

    #[test]
    fn new_devices_are_found() {
        let root = machine();
        let mut kinds = DiskKinds::new(&root.path().join("proc"), &root.path().join("sys"));
        let mut disks = kinds_of(root.path(), &["sda"]);
        kinds.put_into(&mut disks);
        let mut disks = vec![DiskCounters { name: "sda1".into(), ..disks.remove(0) }];
        kinds.put_into(&mut disks);
        assert_eq!(disks[0].kind, DiskKind::Partition);
    }
}
