//! Storage stacks in synthetic /proc and /sys trees.
#![allow(clippy::expect_used)]

use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn file(device: u32, inode: u64, size: u64, overlaid: bool) -> FileIdentity {
    FileIdentity { device: (device, 1), inode, sizes: size..=size, overlaid }
}

#[test]
fn files_are_compared_by_identity_and_on_overlays_by_size() {
    let plain = file(8, 5, 100, false);
    let cases = [
        (file(8, 5, 7, false), Likeness::Same),
        (file(8, 6, 100, false), Likeness::Different),
        (file(9, 5, 100, false), Likeness::Different),
        (file(9, 5, 100, true), Likeness::Possible),
        (file(9, 5, 101, true), Likeness::Different),
        (file(8, 6, 100, true), Likeness::Different),
    ];
    for (other, expected) in cases {
        assert_eq!(plain.likeness(&other), expected, "{other:?}");
        assert_eq!(other.likeness(&plain), expected, "{other:?}");
    }
}

/// A synthetic machine.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().expect("directory"));
        tree.write("proc/swaps", "Filename Type Size Used Priority\n");
        tree.write("proc/self/mountinfo", "");
        fs::create_dir_all(tree.path("sys/block")).expect("directory");
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("directory")).expect("directory");
        fs::write(path, text).expect("file");
    }

    fn link(&self, name: &str, to: &Path) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("directory")).expect("directory");
        symlink(to, path).expect("link");
    }

    /// A disk or partition, by its path in sys/block.
    fn device(&self, place: &str, number: &str) {
        self.write(&format!("sys/block/{place}/dev"), number);
        let dir = self.path(&format!("sys/block/{place}"));
        self.link(&format!("sys/dev/block/{number}"), &dir);
        let name = place.rsplit('/').next().expect("name");
        self.link(&format!("sys/class/block/{name}"), &dir);
        if place.contains('/') {
            self.write(&format!("sys/block/{place}/partition"), "1");
        }
    }

    /// A device-mapper device on a member.
    fn mapped(&self, name: &str, number: &str, uuid: &str, member: &str) {
        self.device(name, number);
        self.write(&format!("sys/block/{name}/dm/uuid"), uuid);
        let of = |place: &str| self.path(&format!("sys/block/{place}"));
        let member_name = member.rsplit('/').next().expect("name");
        self.link(&format!("sys/block/{name}/slaves/{member_name}"), &of(member));
        self.link(&format!("sys/block/{member}/holders/{name}"), &of(name));
    }

    /// A process with this file open read-write as descriptor 3.
    fn process(&self, pid: u32, open: &Path) {
        self.write(&format!("proc/{pid}/comm"), "server");
        self.write(&format!("proc/{pid}/fdinfo/3"), "pos:\t0\nflags:\t0100002\n");
        self.link(&format!("proc/{pid}/fd/3"), open);
    }

    fn read(&self) -> Result<StorageStack, Unread> {
        StorageStack::read(&Roots { proc: self.path("proc"), sys: self.path("sys") })
    }

    fn stack(&self) -> StorageStack {
        self.read().expect("all sources")
    }

    fn uses(&self, number: Number) -> Vec<String> {
        let stack = self.stack();
        let node = Node::by_number(&stack.roots, number).expect("device");
        stack.sharing(&node).expect("all sources").uses
    }
}

/// Users of a real file, on the synthetic machine.
fn uses_of(tree: &Tree, path: &Path) -> Vec<String> {
    let file = fs::File::open(path).expect("file").into();
    let stat = rustix::fs::fstat(&file).expect("status");
    tree.stack().uses_of_file(&file, &stat).expect("all sources")
}

#[test]
fn the_backing_store_of_a_local_server_is_in_use() {
    let tree = Tree::new();
    tree.write("served", "data");
    tree.write("other", "data");
    let (served, other) = (tree.path("served"), tree.path("other"));
    tree.process(123, &served);
    assert_eq!(uses_of(&tree, &served), [""; 0]);
    tree.device("nbd0", "43:0");
    tree.write("sys/block/nbd0/pid", "123");
    assert_eq!(uses_of(&tree, &served), ["the file is the backing file of /dev/nbd0"]);
    assert_eq!(uses_of(&tree, &other), [""; 0]);

    tree.device("ublkb7", "259:7");
    tree.process(77, &other);
    tree.link("proc/77/fd/4", Path::new("/dev/ublkc7"));
    assert_eq!(uses_of(&tree, &other), ["the file is the backing file of /dev/ublkb7"]);
}

#[test]
fn backing_devices_of_zram_and_members_of_btrfs_are_in_use() {
    let tree = Tree::new();
    tree.device("sdz", "65:144");
    tree.device("sdz/sdz1", "65:145");
    assert_eq!(tree.uses((65, 145)), [""; 0]);
    tree.device("zram0", "252:0");
    tree.write("sys/block/zram0/backing_dev", "none\n");
    assert_eq!(tree.uses((65, 145)), [""; 0]);
    tree.write("sys/block/zram0/backing_dev", "/dev/sdz1\n");
    let expected = ["/dev/zram0 is backed by /dev/sdz1"];
    assert_eq!(tree.uses((65, 145)), expected);
    assert_eq!(tree.uses((65, 144)), expected);

    tree.device("sdb", "8:16");
    tree.link("sys/fs/btrfs/f00d/devices/sdb", &tree.path("sys/block/sdb"));
    assert_eq!(tree.uses((8, 16)), ["/dev/sdb is a member of a mounted btrfs f00d"]);
}

#[test]
fn without_an_identity_path_and_size_are_compared() {
    let tree = Tree::new();
    tree.write("behind", &"x".repeat(1024));
    tree.write("other", &"x".repeat(1535));
    tree.write("larger", &"x".repeat(1536));
    // Without a device node, the ioctl is not available.
    tree.device("loop4095", "7:4095");
    tree.write("sys/block/loop4095/size", "2");
    tree.write("sys/block/loop4095/loop/offset", "0\n");
    tree.write("sys/block/loop4095/loop/sizelimit", "0\n");
    let lead = |to: &str| {
        let path = tree.path(to).display().to_string();
        tree.write("sys/block/loop4095/loop/backing_file", &format!("{path}\n"));
        ["behind", "other", "larger"].map(|name| uses_of(&tree, &tree.path(name)))
    };
    let possible = |to: &str| {
        let path = tree.path(to).display().to_string();
        vec![format!(
            "the file may be the backing file of /dev/loop4095, which the kernel reports as {path}"
        )]
    };
    let known = vec!["the file is the backing file of /dev/loop4095".to_string()];
    assert_eq!(lead("behind"), [known.clone(), possible("behind"), vec![]]);
    assert_eq!(lead("larger"), [possible("larger"), possible("larger"), known]);
    assert_eq!(lead("gone"), [possible("gone"), possible("gone"), vec![]]);
}

#[test]
fn only_a_kernel_without_overlays_is_known_to_have_none() {
    let tree = Tree::new();
    let exist = || {
        let roots = Roots { proc: tree.path("proc"), sys: tree.path("sys") };
        backing::overlays_exist(&roots)
    };
    assert!(exist());
    tree.write("proc/filesystems", "nodev\ttmpfs\n\text4\n");
    assert!(!exist());
    tree.write("proc/filesystems", "nodev\ttmpfs\nnodev\toverlay\n\text4\n");
    assert!(exist());
    tree.write("sys/module/overlay/refcnt", "1\n");
    assert!(exist());
    tree.write("sys/module/overlay/refcnt", "0\n");
    assert!(!exist());
}

#[test]
fn partitions_that_overlap_share_bytes() {
    let tree = Tree::new();
    tree.device("sda", "8:0");
    for (name, number, start) in
        [("sda1", "8:1", "64"), ("sda2", "8:2", "164"), ("sda3", "8:3", "163")]
    {
        tree.device(&format!("sda/{name}"), number);
        tree.write(&format!("sys/block/sda/{name}/start"), start);
        tree.write(&format!("sys/block/sda/{name}/size"), "100");
    }
    tree.write("proc/swaps", "Filename Type Size\n/dev/sda1 partition 1\n");
    assert_eq!(tree.uses((8, 2)), [""; 0]);
    assert_eq!(tree.uses((8, 3)), ["/dev/sda1 is swap space"]);
}

#[test]
fn swap_and_other_devices_on_a_member_are_users() {
    let tree = Tree::new();
    tree.device("sda", "8:0");
    tree.device("sda/sda1", "8:1");
    tree.mapped("dm-0", "253:0", "CRYPT-one", "sda/sda1");
    assert_eq!(tree.uses((253, 0)), [""; 0]);
    assert_eq!(tree.uses((8, 0)), ["dm-0 is stacked on /dev/sda1"]);
    tree.mapped("dm-1", "253:1", "CRYPT-two", "sda/sda1");
    assert_eq!(tree.uses((253, 0)), ["dm-1 is stacked on /dev/sda1"]);
    tree.write("proc/swaps", "Filename Type Size\n/dev/sda partition 1\n");
    assert_eq!(tree.uses((253, 0)).last().map(String::as_str), Some("/dev/sda is swap space"));
}

#[test]
fn lvm_volumes_and_kpartx_partitions_do_not_overlap() {
    let tree = Tree::new();
    tree.device("sda", "8:0");
    tree.mapped("dm-0", "253:0", "LVM-one", "sda");
    tree.mapped("dm-1", "253:1", "LVM-two", "sda");
    assert_eq!(tree.uses((253, 0)), [""; 0]);
    tree.mapped("dm-2", "253:2", "other", "sda");
    assert_eq!(tree.uses((253, 0)), ["dm-2 is stacked on /dev/sda"]);

    tree.device("sdb", "8:16");
    tree.mapped("dm-3", "253:3", "part1-mpath-x", "sdb");
    tree.mapped("dm-4", "253:4", "part2-mpath-x", "sdb");
    assert_eq!(tree.uses((253, 3)), [""; 0]);
    tree.mapped("dm-5", "253:5", "part1-mpath-x", "sdb");
    assert_eq!(tree.uses((253, 3)), ["dm-5 is stacked on /dev/sdb"]);
}

/// Why the users of /dev/sda are unknown.
fn unknown(tree: &Tree) -> String {
    let uses = tree.read().and_then(|stack| {
        let node = Node::by_number(&stack.roots, (8, 0)).expect("device");
        stack.sharing(&node)
    });
    uses.err().expect("refused").to_string()
}

#[test]
fn what_cannot_be_read_is_not_absent() {
    // A directory cannot be read as a file, nor a file as a directory, not even by root.
    for (source, is_dir) in [
        ("proc/swaps", false),
        ("proc/self/mountinfo", false),
        ("sys/block/loop4097/loop/backing_file", false),
        ("sys/block/zram7/backing_dev", false),
        ("sys/block/nbd7/pid", false),
        ("sys/block", true),
        ("sys/fs/btrfs", true),
        ("sys/block/sda/holders", true),
        ("sys/block/sda/slaves", true),
    ] {
        let tree = Tree::new();
        tree.device("sda", "8:0");
        if let Some(device) = source.split('/').nth(2).filter(|name| name.ends_with('7')) {
            tree.device(device, "7:4097");
        }
        let _ = fs::remove_file(tree.path(source));
        if is_dir {
            let _ = fs::rename(tree.path(source), tree.path("moved"));
            tree.write(source, "");
        } else {
            fs::create_dir_all(tree.path(source)).expect("directory");
        }
        let error = unknown(&tree);
        assert!(error.contains(source) && error.contains("cannot be read"), "{source}: {error}");
    }
    let tree = Tree::new();
    tree.device("sda", "8:0");
    assert_eq!(tree.uses((8, 0)), [""; 0]);
    tree.write("proc/swaps", "");
    assert!(unknown(&tree).ends_with("proc/swaps does not have the kernel's format"));
    tree.write("proc/swaps", "Filename\n");
    fs::remove_file(tree.path("sys/block/sda/dev")).expect("removed");
    assert!(unknown(&tree).ends_with("sys/block/sda/dev is missing"));
    fs::remove_dir_all(tree.path("sys/block")).expect("removed");
    assert!(tree.read().is_err());
    // A kernel without swap, and a /proc without files of this kind.
    fs::create_dir_all(tree.path("sys/block")).expect("directory");
    fs::remove_file(tree.path("proc/swaps")).expect("removed");
    assert!(tree.read().is_err());
    tree.write("proc/filesystems", "\text4\n");
    assert!(tree.read().is_ok());
}

#[test]
fn a_member_missing_from_sysfs_is_refused() {
    let tree = Tree::new();
    tree.device("md0", "9:0");
    fs::create_dir_all(tree.path("sys/block/md0/slaves/sdx1")).expect("directory");
    let stack = tree.stack();
    let node = Node::by_number(&stack.roots, (9, 0)).expect("device");
    let error = stack.sharing(&node).err().expect("unknown").to_string();
    assert!(error.ends_with("sys/block/md0/slaves/sdx1/dev is missing"), "{error}");
}
