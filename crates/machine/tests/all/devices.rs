//! What protects block devices, on devices that the tests make. Each refusal is followed by a look
//! at the contents.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{
    Elsewhere, Loop, MIB, Mounted, READ, Swap, WRITE, Zram, checksum, devices, erase, mkfs, none,
    open, overwrite, refused, run, says, target, written,
};
use fathom_machine::Roots;
use fathom_machine::guard::{self, GuardError};
use fathom_model::Plan;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::os::unix::fs::symlink;
use std::path::Path;

#[test]
fn a_mounted_device_is_refused_with_any_permission() {
    let Some(_alone) = devices("mounted device") else { return };
    let disk = Loop::new(16 * MIB);
    mkfs(&disk.path);
    let mounted = Mounted::new(&[&disk.path]);
    let all = erase(&[&disk.path, &format!("{}@{}", disk.path, 16 * MIB)]);
    let text = refused(&disk.path, &all, &disk.image);
    says(&text, &["in use", "is mounted at", mounted.dir.path().to_str().expect("UTF-8")]);
    // Reading is allowed, read-only.
    let targets = open(vec![target(&disk.path)], &none()).expect("readable");
    let fd = targets[0].open_worker(READ).expect("a worker's descriptor");
    let flags = rustix::fs::fcntl_getfl(&fd).expect("flags");
    assert_eq!(flags & OFlags::RWMODE, OFlags::RDONLY);
    assert!(targets[0].open_worker(WRITE).is_err());
}

#[test]
fn a_mounted_partition_and_its_disk_are_refused() {
    let Some(_alone) = devices("mounted partition") else { return };
    let mut disk = Loop::new(32 * MIB);
    let first = disk.partition();
    let second = disk.partition();
    mkfs(&first);
    let _mounted = Mounted::new(&[&first]);
    for path in [&first, &disk.path] {
        let token = if path == &first { 8 * MIB } else { 32 * MIB };
        let text = refused(path, &erase(&[path, &format!("{path}@{token}")]), &disk.image);
        says(&text, &[&format!("{first} is mounted at")]);
    }
    // The other partition is nobody's.
    let targets = open(vec![written(&second)], &erase(&[&second])).expect("a free partition");
    assert_eq!(targets[0].facts.size_bytes, 8 * MIB);
}

#[test]
fn a_partition_of_a_disk_that_is_in_use_as_a_whole_is_refused() {
    let Some(_alone) = devices("disk in use as a whole") else { return };
    let mut disk = Loop::new(32 * MIB);
    mkfs(&disk.path);
    let partition = disk.partition();
    let all = erase(&[&partition, &format!("{partition}@{}", 8 * MIB)]);
    let mounted = Mounted::new(&[&disk.path]);
    let text = refused(&partition, &all, &disk.image);
    says(&text, &[&format!("{} is mounted at", disk.path)]);
    drop(mounted);
    let upper = Loop::on(Path::new(&disk.path), &[]);
    let text = refused(&partition, &all, &disk.image);
    says(&text, &[&format!("{} is backed by {}", upper.path, disk.path)]);
}

#[test]
fn a_symbolic_link_neither_hides_nor_permits_a_device() {
    let Some(_alone) = devices("symbolic link") else { return };
    let disk = Loop::new(16 * MIB);
    let dir = crate::support::dir();
    let link = dir.path().join("link");
    symlink(&disk.path, &link).expect("link");
    let link = link.to_str().expect("UTF-8");
    let text = refused(link, &erase(&[link]), &disk.image);
    says(&text, &[&format!("--erase={}", disk.path), link]);
    assert!(open(vec![written(link)], &erase(&[&disk.path])).is_ok());

    // Anyone can put a link there.
    let shared = tempfile::Builder::new().tempdir_in("/dev/shm").expect("directory");
    let shared = shared.path().join("link");
    symlink(&disk.path, &shared).expect("link");
    let shared = shared.to_str().expect("UTF-8");
    says(&refused(shared, &erase(&[shared]), &disk.image), &["--erase="]);

    mkfs(&disk.path);
    let _mounted = Mounted::new(&[&disk.path]);
    let all = erase(&[link, &disk.path, &format!("{}@{}", disk.path, 16 * MIB)]);
    says(&refused(link, &all, &disk.image), &["is mounted at"]);
}

#[test]
fn swap_is_refused() {
    let Some(_alone) = devices("swap") else { return };
    let disk = Loop::new(16 * MIB);
    let swap = Swap::on(&disk.path);
    let all = erase(&[&disk.path, &format!("{}@{}", disk.path, 16 * MIB)]);
    says(&refused(&disk.path, &all, &disk.image), &["swap space"]);
    drop(swap);
    let zram = Zram::new(16 * MIB);
    let _swap = Swap::on(&zram.path);
    let all = erase(&[&zram.path, &format!("{}@{}", zram.path, 16 * MIB)]);
    says(&refused(&zram.path, &all, &zram.path), &["swap space"]);
}

#[test]
fn a_swap_file_is_refused() {
    let Some(_alone) = devices("swap file") else { return };
    let dir = crate::support::dir();
    let path = dir.path().join("swap");
    std::fs::write(&path, vec![0; 4 << 20]).expect("file");
    let path = path.to_str().expect("UTF-8");
    run("chmod", &["600", path]);
    let _swap = Swap::on(path);
    says(&refused(path, &overwrite(&[path]), path), &["in use", "swap space"]);
}

#[test]
fn the_backing_file_of_a_loop_device_is_refused() {
    let Some(_alone) = devices("file behind a loop device") else { return };
    let disk = Loop::new(16 * MIB);
    let image = disk.image.to_str().expect("UTF-8");
    let text = refused(image, &overwrite(&[image]), image);
    says(&text, &["the backing file of", &disk.path]);
    mkfs(&disk.path);
    let _mounted = Mounted::new(&[&disk.path]);
    // A hard link is the same file.
    let other = disk.image.with_file_name("other");
    std::fs::hard_link(&disk.image, &other).expect("link");
    let other = other.to_str().expect("UTF-8");
    let text = refused(other, &overwrite(&[other, image]), image);
    says(&text, &["the backing file of", "is mounted at"]);
}

#[test]
fn a_device_below_a_loop_device_is_refused() {
    let Some(_alone) = devices("device below a loop device") else { return };
    let lower = Loop::new(16 * MIB);
    let upper = Loop::on(Path::new(&lower.path), &[]);
    let text = refused(&lower.path, &erase(&[&lower.path]), &lower.image);
    says(&text, &[&format!("{} is backed by {}", upper.path, lower.path)]);
    drop(upper);
    let twin = Loop::on(&lower.image, &[]);
    let text = refused(&lower.path, &erase(&[&lower.path]), &lower.image);
    says(&text, &[&twin.path, "is the backing file of"]);
}

#[test]
fn a_mount_in_another_namespace_is_found() {
    let Some(_alone) = devices("mount in another namespace") else { return };
    let disk = Loop::new(16 * MIB);
    mkfs(&disk.path);
    let _elsewhere = Elsewhere::mounted(&disk.path);
    let mine = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mine.contains(&disk.path), "the mount is not to be seen from here");
    let all = erase(&[&disk.path, &format!("{}@{}", disk.path, 16 * MIB)]);
    let text = refused(&disk.path, &all, &disk.image);
    says(&text, &["in another mount namespace"]);
}

#[test]
fn erase_must_name_the_device_itself() {
    let Some(_alone) = devices("wrong --erase") else { return };
    let disk = Loop::new(4 * MIB);
    let text = refused(&disk.path, &none(), &disk.image);
    says(&text, &[&format!("add --erase={}", disk.path)]);
    for wrong in ["/dev/loop", "loop0", "", "/dev/loop99", disk.name(), &format!("{}p1", disk.path)]
    {
        let text = refused(&disk.path, &erase(&[wrong]), &disk.image);
        says(&text, &["add --erase=", "does not name it"]);
    }
    let text = refused(&disk.path, &erase(&[&format!("{}@1", disk.path)]), &disk.image);
    says(&text, &["does not match", &format!("--erase={}@{}", disk.path, 4 * MIB)]);
    // An --overwrite is for files.
    refused(&disk.path, &overwrite(&[&disk.path]), &disk.image);
}

#[test]
fn a_device_with_signatures_needs_confirmation() {
    let Some(_alone) = devices("signature") else { return };
    let disk = Loop::new(16 * MIB);
    mkfs(&disk.path);
    let text = refused(&disk.path, &erase(&[&disk.path]), &disk.image);
    let flag = format!("{}@{}", disk.path, 16 * MIB);
    says(&text, &["ext4", &format!("--erase={flag}")]);
    let targets = open(vec![written(&disk.path)], &erase(&[&flag])).expect("the flag as printed");
    let fd = targets[0].open_worker(WRITE).expect("a worker's descriptor");
    rustix::io::pwrite(&fd, &[7; 4096], 0).expect("written");
    rustix::fs::fdatasync(&fd).expect("flushed");
    assert_eq!(&std::fs::read(&disk.image).expect("image")[..2], &[7, 7]);
}

#[test]
fn a_device_with_partitions_needs_confirmation() {
    let Some(_alone) = devices("partitions") else { return };
    let mut disk = Loop::new(32 * MIB);
    let partition = disk.partition();
    let text = refused(&disk.path, &erase(&[&disk.path]), &disk.image);
    says(&text, &["partitions", partition.strip_prefix("/dev/").expect("below /dev")]);
}

#[test]
fn a_device_is_held_for_the_whole_run() {
    let Some(_alone) = devices("held device") else { return };
    let disk = Loop::new(4 * MIB);
    let permitted = erase(&[&disk.path]);
    let first = open(vec![written(&disk.path)], &permitted).expect("free");
    says(&refused(&disk.path, &permitted, &disk.image), &["open exclusively"]);
    let exclusive = OFlags::RDONLY | OFlags::EXCL;
    assert!(rustix::fs::open(&disk.path, exclusive, Mode::empty()).is_err(), "as mount(8) would");
    let other = rustix::fs::open(&disk.path, OFlags::RDONLY, Mode::empty()).expect("reading");
    assert!(flock(&other, FlockOperation::NonBlockingLockShared).is_err(), "as udev would");
    // Those who read are let in.
    assert!(open(vec![target(&disk.path)], &none()).is_ok());
    drop(first);
    assert!(open(vec![written(&disk.path)], &permitted).is_ok());
}

#[test]
fn a_locked_disk_is_refused_and_so_are_its_partitions() {
    let Some(_alone) = devices("locked disk") else { return };
    let mut disk = Loop::new(32 * MIB);
    let partition = disk.partition();
    let other = rustix::fs::open(&disk.path, OFlags::RDONLY, Mode::empty()).expect("open");
    flock(&other, FlockOperation::LockExclusive).expect("lock");
    let text = refused(&partition, &erase(&[&partition]), &disk.image);
    says(&text, &["locked by another program"]);
    drop(other);
    let second = disk.partition();
    let both = erase(&[&partition, &second]);
    let targets = open(vec![written(&partition), written(&second)], &both);
    assert_eq!(targets.expect("two partitions of one disk in one run").len(), 2);
}

#[test]
fn one_run_may_name_a_device_twice() {
    let Some(_alone) = devices("device named twice") else { return };
    let disk = Loop::new(4 * MIB);
    let dir = crate::support::dir();
    let link = dir.path().join("link");
    symlink(&disk.path, &link).expect("link");
    let plan = vec![written(&link), target(&disk.path), written(&disk.path)];
    let targets = open(plan, &erase(&[&disk.path])).expect("one device");
    assert_eq!(targets.len(), 3);
    assert_eq!(targets[0].facts.path, link.to_str().expect("UTF-8"));
    assert_eq!(targets[0].facts.resolved, disk.path);
    for target in &targets {
        target.open_worker(WRITE).expect("a worker's descriptor");
        assert_eq!(target.changed(), None);
    }
}

#[test]
fn a_disk_and_its_partition_are_not_written_in_one_run() {
    let Some(_alone) = devices("disk and partition") else { return };
    let mut disk = Loop::new(32 * MIB);
    let partition = disk.partition();
    let all = erase(&[&partition, &format!("{}@{}", disk.path, 32 * MIB)]);
    let before = checksum(&disk.image);
    let error = open(vec![written(&partition), written(&disk.path)], &all).err().expect("refused");
    says(&error.to_string(), &["another target of this run"]);
    assert_eq!(checksum(&disk.image), before);
}

#[test]
fn a_device_with_holders_is_refused() {
    let Some(_alone) = devices("holders") else { return };
    let disk = Loop::new(4 * MIB);
    let number = run("lsblk", &["-dno", "MAJ:MIN", &disk.path]);
    let sys = crate::support::dir();
    let block = sys.path().join("block").join(disk.name());
    std::fs::create_dir_all(block.join("holders/dm-0/dm")).expect("made-up tree");
    std::fs::write(block.join("holders/dm-0/dm/name"), "vault\n").expect("made-up tree");
    std::fs::write(block.join("dev"), &number).expect("made-up tree");
    std::fs::create_dir_all(sys.path().join("dev/block")).expect("made-up tree");
    symlink(&block, sys.path().join("dev/block").join(&number)).expect("made-up tree");
    let roots = Roots { sys: sys.path().into(), ..Roots::default() };
    let plan = Plan { targets: vec![written(&disk.path)], ..Plan::default() };
    let before = checksum(&disk.image);
    let error =
        guard::open_all(&roots, &plan, &erase(&[&disk.path]), &|| false).err().expect("refused");
    says(&error.to_string(), &["in use", "dm-0 (vault) is stacked on"]);
    assert_eq!(checksum(&disk.image), before);
}

#[test]
fn a_mounted_btrfs_is_found_by_its_device() {
    let Some(_alone) = devices("btrfs") else { return };
    let disk = Loop::new(4 * MIB);
    let proc = crate::support::dir();
    std::fs::create_dir_all(proc.path().join("self/ns")).expect("made-up tree");
    symlink("mnt:[1]", proc.path().join("self/ns/mnt")).expect("made-up tree");
    std::fs::write(proc.path().join("swaps"), "Filename\n").expect("made-up tree");
    let mounts = format!("9 1 0:44 / /pool rw - btrfs {} rw,space_cache\n", disk.path);
    std::fs::write(proc.path().join("self/mountinfo"), mounts).expect("made-up tree");
    let roots = Roots { proc: proc.path().into(), ..Roots::default() };
    let plan = Plan { targets: vec![written(&disk.path)], ..Plan::default() };
    let error =
        guard::open_all(&roots, &plan, &erase(&[&disk.path]), &|| false).err().expect("refused");
    says(&error.to_string(), &["is mounted at /pool"]);
}

#[test]
fn a_backing_file_in_another_namespace_is_found() {
    let Some(_alone) = devices("loop device of another namespace") else { return };
    let (dir, other) = (crate::support::dir(), crate::support::dir());
    let image = dir.path().join("image");
    std::fs::write(&image, vec![0; 1 << 20]).expect("image");
    let shown = other.path().join("image");
    let script = "mount --bind \"$1\" \"$2\" && losetup -f --show \"$2/image\"";
    let paths = [dir.path(), other.path()].map(|path| path.to_str().expect("UTF-8"));
    let elsewhere = Elsewhere::run(&format!("{script} >\"$1/name\""), &paths);
    let name = std::fs::read_to_string(dir.path().join("name")).expect("name of the loop device");
    let _disk = Loop::adopt(name.trim());
    assert!(!shown.exists(), "the path that the kernel names is not to be seen from here");
    let all = overwrite(&[image.to_str().expect("UTF-8")]);
    says(&refused(&image, &all, &image), &["the file is the backing file of", name.trim()]);
    drop(elsewhere);
    // Now its path leads nowhere; the kernel still reports which file it is.
    says(&refused(&image, &all, &image), &["the file is the backing file of", name.trim()]);
}

#[test]
fn devices_that_come_and_go_stand_in_no_other_targets_way() {
    let Some(_alone) = devices("devices that come and go") else { return };
    let (dir, images) = (crate::support::dir(), crate::support::dir());
    let (path, image) = (dir.path().join("own"), images.path().join("image"));
    std::fs::write(&path, [0; 8192]).expect("file");
    std::fs::write(&image, vec![0; 1 << 20]).expect("image");
    let permitted = overwrite(&[path.to_str().expect("UTF-8")]);
    std::thread::scope(|scope| {
        let come_and_go = scope.spawn(|| (0..30).for_each(|_| drop(Loop::on(&image, &[]))));
        while !come_and_go.is_finished() {
            open(vec![written(&path)], &permitted).expect("unused");
        }
    });
}

#[test]
fn a_device_missing_from_sysfs_is_refused() {
    let Some(_alone) = devices("unknown device") else { return };
    let disk = Loop::new(4 * MIB);
    let sys = crate::support::dir();
    let roots = Roots { sys: sys.path().into(), ..Roots::default() };
    let plan = Plan { targets: vec![written(&disk.path)], ..Plan::default() };
    let error =
        guard::open_all(&roots, &plan, &erase(&[&disk.path]), &|| false).err().expect("refused");
    assert!(matches!(error, GuardError::Unread { .. }), "{error}");
    says(&error.to_string(), &["cannot check what uses", "block is missing"]);
}

#[test]
fn a_read_only_device_is_refused() {
    let Some(_alone) = devices("read-only device") else { return };
    let lower = Loop::new(4 * MIB);
    let image = lower.image.clone();
    let dir = crate::support::dir();
    let copy = dir.path().join("copy");
    std::fs::copy(&image, &copy).expect("copy");
    let disk = Loop::on(&copy, &["-r"]);
    says(&refused(&disk.path, &erase(&[&disk.path]), &copy), &["read-only"]);
}

#[test]
fn a_device_without_a_size_is_refused() {
    let Some(_alone) = devices("device without a size") else { return };
    let free = run("losetup", &["-f"]);
    let error = open(vec![target(&free)], &none()).err().expect("refused");
    says(&error.to_string(), &[&free, "empty"]);
}

#[test]
fn a_device_that_disappears_is_reported() {
    let Some(_alone) = devices("device gone") else { return };
    let disk = Loop::new(4 * MIB);
    let targets = open(vec![target(&disk.path)], &none()).expect("readable");
    assert_eq!(targets[0].changed(), None);
    std::fs::OpenOptions::new()
        .write(true)
        .open(&disk.image)
        .and_then(|file| file.set_len(MIB))
        .expect("truncated");
    run("losetup", &["-c", &disk.path]);
    says(&targets[0].changed().expect("reported"), &["shrank"]);
}

#[test]
fn a_blank_zram_device_needs_no_confirmation() {
    let Some(_alone) = devices("zram") else { return };
    let zram = Zram::new(16 * MIB);
    let targets = open(vec![written(&zram.path)], &erase(&[&zram.path])).expect("blank");
    let fd = targets[0].open_worker(WRITE).expect("a worker's descriptor");
    assert_eq!(rustix::io::pwrite(&fd, &[1; 4096], 0).expect("written"), 4096);
    let device = targets[0].facts.device.as_ref().expect("device");
    assert_eq!((device.size_bytes, device.logical_block), (16 * MIB, 4096));
}
