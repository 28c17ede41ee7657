//! What is in use is known by identity, whatever it is called and however deep it lies. Each test
//! destroyed a mounted file system before the guard knew identities.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::images::{make_image, mount_image, mounts_images};
use crate::support::{
    Loop, MIB, Mounted, Swap, checksum, deep_directory, devices, erase, mkfs, none, open,
    overwrite, refused, run, says, target, text, written,
};
use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A mounted ext4 in an image file with one name, `img`, in a directory of its own.
struct MountedImage {
    _mounted: Mounted,
    _disk: Loop,
    dir: tempfile::TempDir,
}

impl MountedImage {
    fn new(name: &OsStr) -> Self {
        let dir = crate::support::dir();
        let image = dir.path().join(name);
        std::fs::write(&image, vec![0; 8 << 20]).expect("image");
        Self::on(dir, &image)
    }

    fn on(dir: tempfile::TempDir, image: &Path) -> Self {
        let disk = Loop::on(image, &[]);
        mkfs(&disk.path);
        let mounted = Mounted::new(&[&disk.path]);
        Self { _mounted: mounted, _disk: disk, dir }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }
}

#[test]
fn a_hard_link_to_a_deleted_loop_file_is_refused() {
    let Some(_alone) = devices("hard link") else { return };
    let image = MountedImage::new(OsStr::new("img"));
    std::fs::hard_link(image.path("img"), image.path("keep")).expect("link");
    std::fs::remove_file(image.path("img")).expect("removed");
    let keep = image.path("keep");
    says(&refused(&keep, &overwrite(&[text(&keep)]), &keep), &["in use", "is the backing file of"]);
}

#[test]
fn a_file_that_fathom_made_is_refused_behind_a_loop_device() {
    let Some(_alone) = devices("own file behind a loop device") else { return };
    let dir = crate::support::dir();
    let made = dir.path().join("img");
    let plan =
        crate::support::Target { written: true, create_size: Some(8 * MIB), ..target(&made) };
    drop(open(vec![plan], &none()).expect("made"));
    let image = MountedImage::on(dir, &made);
    std::fs::hard_link(&made, image.path("keep")).expect("link");
    std::fs::remove_file(&made).expect("removed");
    let keep = image.path("keep");
    says(&refused(&keep, &none(), &keep), &["in use", "is the backing file of"]);
}

#[test]
fn a_loop_file_with_an_unusual_name_is_refused() {
    let Some(_alone) = devices("odd names") else { return };
    for name in [OsStr::from_bytes(b"img\xff"), OsStr::new("img "), OsStr::new("img\n")] {
        let image = MountedImage::new(name);
        let other = image.path("other");
        std::fs::hard_link(image.dir.path().join(name), &other).expect("link");
        says(&refused(&other, &overwrite(&[text(&other)]), &other), &["is the backing file of"]);
    }
    let image = MountedImage::new(OsStr::new("img "));
    let spaced = image.path("img ");
    says(&refused(&spaced, &overwrite(&[text(&spaced)]), &spaced), &["is the backing file of"]);
}

#[test]
fn a_loop_file_in_a_covered_directory_is_refused_by_its_other_name() {
    let Some(_alone) = devices("covered directory") else { return };
    let dir = crate::support::dir();
    let (sub, keep) = (dir.path().join("sub"), dir.path().join("keep"));
    std::fs::create_dir(&sub).expect("directory");
    let below = sub.join("img");
    std::fs::write(&below, vec![0; 8 << 20]).expect("image");
    std::fs::hard_link(&below, &keep).expect("link");
    let image = MountedImage::on(dir, &below);
    let cover = Mounted::over(&["-t", "tmpfs", "cover"], &sub);
    std::fs::write(&below, vec![1; 8 << 20]).expect("another file of that name");
    says(&refused(&keep, &overwrite(&[text(&keep)]), &keep), &["is the backing file of"]);
    // The file that has the name now is nobody's.
    open(vec![written(&below)], &overwrite(&[text(&below)])).expect("another file");
    drop((cover, image));
}

#[test]
fn a_hard_link_to_an_overlays_upper_file_is_refused() {
    let Some(_alone) = devices("overlay's upper file") else { return };
    let dir = crate::support::dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(at(name)).expect("directory");
    }
    let layers = ["lower", "upper", "work"].map(|name| format!("{name}dir={}", text(&at(name))));
    let options = layers.join(",");
    let merged = at("merged");
    let overlay = Mounted::over(&["-t", "overlay", "overlay", "-o", &options], &merged);
    std::fs::write(merged.join("img"), vec![0; 8 << 20]).expect("image");
    let disk = Loop::on(&merged.join("img"), &[]);
    mkfs(&disk.path);
    let mounted = Mounted::new(&[&disk.path]);
    let (upper, kept) = (at("upper").join("img"), at("kept"));
    std::fs::hard_link(&upper, &kept).expect("link");
    for path in [&upper, &kept] {
        says(&refused(path, &overwrite(&[text(path)]), path), &["may be the backing file of"]);
    }
    std::fs::remove_file(&upper).expect("removed behind the overlay's back");
    says(&refused(&kept, &overwrite(&[text(&kept)]), &kept), &["may be the backing file of"]);
    let longer = std::fs::File::options().write(true).open(&kept).expect("file");
    longer.set_len(9 * MIB).expect("longer");
    says(&refused(&kept, &overwrite(&[text(&kept)]), &kept), &["may be the backing file of"]);
    // A file of another size is another file.
    let other = at("other");
    std::fs::write(&other, vec![0; 1 << 20]).expect("file");
    open(vec![written(&other)], &overwrite(&[text(&other)])).expect("another file");
    drop((mounted, disk, overlay));
}

#[test]
fn backing_files_without_a_name_stand_in_no_other_targets_way() {
    let Some(_alone) = devices("backing files without a name") else { return };
    let disk = Loop::new(4 * MIB);
    let erased = || open(vec![written(&disk.path)], &all(&disk.path));
    let dir = crate::support::dir();
    let (image, kept) = (dir.path().join("img"), dir.path().join("kept"));
    std::fs::write(&image, vec![0; 4 << 20]).expect("image");
    let unnamed = Loop::on(&image, &[]);
    std::fs::remove_file(&image).expect("removed");
    erased().expect("the other file is deleted");
    drop(unnamed);

    let memory = rustix::fs::memfd_create("image", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    rustix::fs::ftruncate(&memory, 4 * MIB).expect("size");
    let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
    let in_memory = Loop::on(Path::new(&path), &[]);
    erased().expect("the other file is in memory");
    says(&refused(&path, &overwrite(&[&path]), &path), &["is the backing file of"]);
    drop(in_memory);

    // A deleted file that has another name is found by it.
    std::fs::write(&image, vec![0; 4 << 20]).expect("image");
    std::fs::hard_link(&image, &kept).expect("link");
    let _unnamed = Loop::on(&image, &[]);
    std::fs::remove_file(&image).expect("removed");
    says(&refused(&kept, &overwrite(&[text(&kept)]), &kept), &["is the backing file of"]);
}

/// Every form of permission there is for a device.
fn all(path: &str) -> fathom_machine::guard::Permissions {
    let size = run("blockdev", &["--getsize64", path]);
    erase(&[path, &format!("{path}@{size}")])
}

#[test]
fn a_loop_device_on_a_mounted_device_is_refused() {
    let Some(_alone) = devices("loop device on a mounted one") else { return };
    let disk = Loop::new(16 * MIB);
    mkfs(&disk.path);
    // Behind the signatures nothing speaks against a plain --erase.
    for offset in ["0", "8388608"] {
        let upper = Loop::on(Path::new(&disk.path), &["-o", offset]);
        let _mounted = Mounted::new(&[&disk.path]);
        let said = refused(&upper.path, &all(&upper.path), &disk.image);
        says(&said, &[&format!("{} is mounted at", disk.path)]);
        let third = Loop::on(Path::new(&upper.path), &[]);
        says(&refused(&third.path, &all(&third.path), &disk.image), &["is mounted at"]);
    }
}

#[test]
fn a_backing_file_whose_path_the_kernel_cannot_show_is_refused() {
    let Some(_alone) = devices("long path") else { return };
    let dir = crate::support::dir();
    let image = dir.path().join("img");
    std::fs::write(&image, vec![0; 8 << 20]).expect("image");
    let below = deep_directory(dir.path());
    let (here, none) = (rustix::fs::CWD, rustix::fs::AtFlags::empty());
    rustix::fs::linkat(here, &image, &below, "img", none).expect("link");
    let disk = Loop::within(&below, "img", &[]);
    let shown = std::fs::read(format!("/sys/block/{}/loop/backing_file", disk.name()));
    assert!(shown.is_err(), "the path is to be too long: {shown:?}");
    mkfs(&disk.path);
    let mounted = Mounted::new(&[&disk.path]);
    let said = refused(&image, &overwrite(&[text(&image)]), &image);
    says(&said, &["the file is the backing file of", &disk.path, "is mounted at"]);
    drop((mounted, disk));

    // A device by a node in such a directory.
    let lower = Loop::on(&image, &[]);
    let number = rustix::fs::stat(&*lower.path).expect("device").st_rdev;
    let kind = rustix::fs::FileType::BlockDevice;
    rustix::fs::mknodat(&below, "node", kind, 0o600.into(), number).expect("node");
    let upper = Loop::within(&below, "node", &["-o", "1048576"]);
    mkfs(&upper.path);
    let _mounted = Mounted::new(&[&upper.path]);
    says(&refused(&lower.path, &all(&lower.path), &image), &["is backed by", &lower.path]);
}

#[test]
fn an_image_that_is_mounted_without_a_loop_device_is_refused() {
    let Some(_alone) = devices("mounted image") else { return };
    if !mounts_images() {
        return;
    }
    let dir = crate::support::dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["image", "other"] {
        let sub = at(&format!("made-{name}"));
        std::fs::create_dir(&sub).expect("directory");
        assert!(make_image(&at(name), &sub), "mkfs.erofs");
    }
    let image = at("image");
    let mounted = mount_image(&image, dir.path()).expect("mounted");
    let by_path = ["the file is mounted at", text(&mounted.0)];
    says(&refused(&image, &overwrite(&[text(&image)]), &image), &by_path);
    let link = at("link");
    std::fs::hard_link(&image, &link).expect("link");
    says(&refused(&link, &overwrite(&[text(&link)]), &link), &by_path);
    // Behind a loop device, too.
    let disk = Loop::on(&image, &[]);
    says(&refused(&disk.path, &all(&disk.path), &image), &["is mounted at", text(&mounted.0)]);
    drop(disk);
    // Its name is another image's now.
    std::fs::rename(at("other"), &image).expect("renamed");
    let by_contents = ["may be", text(&image), "which is mounted as erofs at"];
    says(&refused(&link, &overwrite(&[text(&link)]), &link), &by_contents);
    let other = at("other");
    std::fs::copy(&image, &other).expect("copy");
    open(vec![written(&other)], &overwrite(&[text(&other)])).expect("another image");
    let file = at("file");
    std::fs::write(&file, [0; 8192]).expect("file");
    open(vec![written(&file)], &overwrite(&[text(&file)])).expect("an ordinary file");
    drop(mounted);
    open(vec![written(&link)], &overwrite(&[text(&link)])).expect("no longer mounted");
}

#[test]
fn a_loop_device_on_a_disk_whose_partition_is_mounted_is_refused() {
    let Some(_alone) = devices("loop device on a disk in use") else { return };
    let mut disk = Loop::new(32 * MIB);
    let (first, second) = (disk.partition(), disk.partition());
    mkfs(&first);
    let on_disk = Loop::on(Path::new(&disk.path), &["-o", "4194304"]);
    let on_other = Loop::on(Path::new(&second), &[]);
    let mounted = Mounted::new(&[&first]);
    let said = refused(&on_disk.path, &all(&on_disk.path), &disk.image);
    says(&said, &[&format!("{first} is mounted at")]);
    // Two loop devices on one disk show the same bytes, the partition's and the disk's.
    says(&refused(&on_other.path, &all(&on_other.path), &disk.image), &["is backed by"]);
    drop(on_disk);
    open(vec![written(&on_other.path)], &all(&on_other.path)).expect("a partition of its own");
    drop(mounted);
}

#[test]
fn a_loop_device_on_swap_is_refused() {
    let Some(_alone) = devices("loop device on swap") else { return };
    let disk = Loop::new(16 * MIB);
    let upper = Loop::on(Path::new(&disk.path), &["-o", "1048576"]);
    let _swap = Swap::on(&disk.path);
    says(&refused(&upper.path, &all(&upper.path), &disk.image), &["swap space"]);
}

#[test]
fn a_loop_device_on_the_root_disk_is_refused() {
    let Some(_alone) = devices("loop device on the root disk") else { return };
    // The disk itself is left alone: /sys is made to say that the loop device is set up on it.
    let disk = Loop::new(4 * MIB);
    let sys = crate::support::dir();
    let root = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let root = root.lines().find(|line| line.split(' ').nth(4) == Some("/")).expect("root");
    let number = root.split(' ').nth(2).expect("number").to_string();
    let own = run("lsblk", &["-dno", "MAJ:MIN", &disk.path]);
    let (block, vda) = (sys.path().join("block"), sys.path().join("block/rootdisk"));
    let upper = block.join(disk.name());
    for (dir, number) in [(&vda, number.trim()), (&upper, own.trim())] {
        std::fs::create_dir_all(dir).expect("made-up tree");
        std::fs::write(dir.join("dev"), number).expect("made-up tree");
        std::fs::create_dir_all(sys.path().join("dev/block")).expect("made-up tree");
        let link = sys.path().join("dev/block").join(number);
        std::os::unix::fs::symlink(dir, link).expect("made-up tree");
    }
    std::fs::create_dir_all(upper.join("slaves")).expect("made-up tree");
    std::os::unix::fs::symlink(&vda, upper.join("slaves/rootdisk")).expect("made-up tree");
    let roots = fathom_machine::Roots { sys: sys.path().into(), ..Default::default() };
    let plan = fathom_model::Plan { targets: vec![written(&disk.path)], ..Default::default() };
    let before = checksum(&disk.image);
    let error = fathom_machine::guard::open_all(&roots, &plan, &all(&disk.path), &|| false)
        .err()
        .expect("refused")
        .to_string();
    says(&error, &["rootdisk is mounted at /"]);
    assert_eq!(checksum(&disk.image), before);
}
