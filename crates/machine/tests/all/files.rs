//! What protects files.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{
    MIB, Mounted, READ, WRITE, devices, error, made, none, open, overwrite, refused, run, says,
    target, text, theirs, written,
};
use fathom_machine::guard::GuardError;
use fathom_model::facts::TargetKind;
use fathom_model::plan::{Fallocate, SyncIo, Target};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

#[test]
fn an_existing_file_needs_overwrite() {
    let (dir, path) = theirs();
    let said = refused(&path, &none(), &path);
    says(&said, &["not created by fathom", &format!("--overwrite={}", path.display())]);
    refused(&path, &overwrite(&["/", "theirs", "", text(dir.path())]), &path);
    refused(&path, &crate::support::erase(&[text(&path)]), &path);
    // A directory within the path may be a link: it is the same file all the same.
    let link = dir.path().join("link");
    symlink(&path, &link).expect("link");
    for name in [&path, &link] {
        for permitted in [&path, &link] {
            let targets = open(vec![written(name)], &overwrite(&[text(permitted)]));
            targets.expect("permitted")[0].open_worker(WRITE).expect("a worker's descriptor");
        }
    }
}

#[test]
fn the_refusal_of_a_file_reports_its_hard_links() {
    let (dir, path) = theirs();
    std::fs::hard_link(&path, dir.path().join("again")).expect("link");
    says(&refused(&path, &none(), &path), &["2 hard links"]);
    let targets =
        open(vec![written(&path), written(dir.path().join("again"))], &overwrite(&[text(&path)]));
    assert_eq!(targets.expect("one file in one run").len(), 2);
}

#[test]
fn fathoms_own_file_is_written_again_but_not_under_a_second_name() {
    let dir = crate::support::dir();
    let path = dir.path().join("own");
    let targets = open(vec![Target { written: true, ..made(&path, MIB) }], &none()).expect("made");
    assert!(targets[0].facts.made_by_fathom);
    assert_eq!(targets[0].facts.size_bytes, MIB);
    assert_eq!(targets[0].facts.kind, TargetKind::File);
    assert_eq!(targets[0].fill_range(), None, "what is only written needs no contents");
    drop(targets);
    drop(open(vec![written(&path)], &none()).expect("its own"));
    std::fs::hard_link(&path, dir.path().join("kept")).expect("link");
    says(&refused(&path, &none(), &path), &["2 hard links"]);
}

#[test]
fn a_second_writer_is_refused_and_a_reader_is_not() {
    let (_dir, path) = theirs();
    let permitted = overwrite(&[text(&path)]);
    let first = open(vec![written(&path)], &permitted).expect("free");
    says(&refused(&path, &permitted, &path), &["locked by another program"]);
    assert!(open(vec![target(&path)], &none()).is_ok());
    drop(first);
    assert!(open(vec![written(&path)], &permitted).is_ok());
}

#[test]
fn readers_get_read_only_descriptors() {
    let (_dir, path) = theirs();
    let targets = open(vec![target(&path)], &none()).expect("readable");
    assert!(targets[0].open_worker(WRITE).is_err());
    let fd = targets[0].open_worker(READ).expect("a worker's descriptor");
    assert!(rustix::io::pwrite(&fd, &[1], 0).is_err());
}

#[test]
fn refusals_name_the_target() {
    let dir = crate::support::dir();
    let at = |name: &str| dir.path().join(name);
    says(&error(vec![target(at("gone"))]), &["gone does not exist"]);
    says(&error(vec![made(at("no/where"), MIB)]), &["its directory does not exist"]);
    says(&error(vec![target(dir.path())]), &["is a directory"]);
    says(&error(vec![made(at("new/"), MIB)]), &["is a directory"]);
    std::fs::write(at("empty"), "").expect("file");
    says(&error(vec![target(at("empty"))]), &["is empty"]);
    run("mkfifo", &[text(&at("pipe"))]);
    says(&error(vec![target(at("pipe"))]), &["neither a regular file nor a block device"]);
    says(&error(vec![target("/dev/zero")]), &["neither a regular file nor a block device"]);
    says(&error(vec![target(at("empty/below"))]), &["empty/below"]);
    says(&error(vec![target("nul\0byte")]), &["cannot open"]);
}

/// A file that not even root may write to.
struct Immutable(PathBuf);

impl Drop for Immutable {
    fn drop(&mut self) {
        let _ = std::process::Command::new("chattr").arg("-i").arg(&self.0).output();
    }
}

#[test]
fn missing_permission_is_reported() {
    let Some(_alone) = devices("immutable file") else { return };
    let (_dir, path) = theirs();
    run("chattr", &["+i", text(&path)]);
    let fixed = Immutable(path);
    let said = refused(&fixed.0, &overwrite(&[text(&fixed.0)]), &fixed.0);
    says(&said, &["no permission to write to", "theirs", "run as a user with permission"]);
    assert!(open(vec![target(&fixed.0)], &none()).is_ok());
}

#[test]
fn no_file_is_created_under_dev() {
    let dir = crate::support::dir();
    symlink("/dev", dir.path().join("devices")).expect("link");
    let name = format!("fathom-test-{}", std::process::id());
    let before = run("ls", &["/dev", "/dev/shm"]);
    let through = dir.path().join("devices").join(&name);
    let paths = [format!("/dev/{name}"), format!("/dev/shm/{name}"), text(&through).to_string()];
    for path in &paths {
        for late in [false, true] {
            let new = Target { create_on_open: late, written: true, ..made(path, MIB) };
            says(&error(vec![new]), &["creates no files under /dev"]);
        }
    }
    says(&error(vec![made("/dev/no/such", MIB)]), &["creates no files under /dev"]);
    assert_eq!(run("ls", &["/dev", "/dev/shm"]), before);
}

#[test]
fn a_file_under_dev_is_not_extended() {
    let file = tempfile::NamedTempFile::new_in("/dev/shm").expect("file");
    file.as_file().set_len(4096).expect("length");
    let path = text(file.path());
    let targets = vec![Target { written: true, ..made(path, MIB) }];
    let error = open(targets, &overwrite(&[path])).err().expect("refused").to_string();
    says(&error, &["creates no files under /dev"]);
    assert_eq!(file.as_file().metadata().expect("there").len(), 4096);
    assert!(open(vec![written(path)], &overwrite(&[path])).is_ok(), "it may be written as it is");
}

#[test]
fn no_file_is_created_on_a_devtmpfs_mounted_elsewhere() {
    let Some(_alone) = devices("devtmpfs elsewhere") else { return };
    let devtmpfs = Mounted::new(&["-t", "devtmpfs", "none"]);
    let path = devtmpfs.path(&format!("fathom-test-{}", std::process::id()));
    says(&error(vec![made(&path, MIB)]), &["creates no files under /dev"]);
    assert!(!Path::new(&path).exists());
}

#[test]
fn no_file_is_created_through_a_dangling_link() {
    let dir = crate::support::dir();
    let (link, gone) = (dir.path().join("link"), dir.path().join("gone"));
    symlink(&gone, &link).expect("link");
    says(&error(vec![made(&link, MIB)]), &["dangling symbolic link"]);
    assert!(!gone.exists());
}

#[test]
fn a_job_stays_in_its_directory() {
    let (outside, path) = theirs();
    let dir = crate::support::dir();
    symlink(&path, dir.path().join("file")).expect("link");
    symlink(outside.path(), dir.path().join("sub")).expect("link");
    let within = Some(text(dir.path()).to_string());
    for name in ["file", "sub/theirs", "sub/new"] {
        let leading = Target { within: within.clone(), ..made(dir.path().join(name), MIB) };
        says(&error(vec![leading]), &["outside the job's directory"]);
    }
    let inside = Target { within, ..made(dir.path().join("inside"), MIB) };
    open(vec![inside], &none()).expect("inside");
}

#[test]
fn a_file_system_is_never_filled() {
    let Some(_alone) = devices("small file system") else { return };
    let small = Mounted::new(&["-t", "tmpfs", "-o", "size=16m", "none"]);
    let fits = |size| Target { written: true, ..made(small.path("new"), size) };
    says(&error(vec![fits(16 * MIB)]), &["not enough space", "the run writes 16 MiB", "819 KiB"]);
    assert!(!Path::new(&small.path("new")).exists());
    // Each would fit, both do not.
    let other = Target { written: true, ..made(small.path("other"), 8 * MIB) };
    says(&error(vec![fits(8 * MIB), other]), &["the run writes 16 MiB"]);
    // The holes of a sparse file are filled when it is written.
    let sparse = small.path("sparse");
    run("truncate", &["-s", "20M", &sparse]);
    let allowed = overwrite(&[&sparse]);
    says(&refused(&sparse, &allowed, &sparse), &["the run writes 20 MiB"]);
    assert!(open(vec![target(&sparse)], &none()).is_ok(), "reading takes no room");
    let unwritten = Target { fallocate: Fallocate::None, ..made(small.path("new"), 64 * MIB) };
    assert!(open(vec![unwritten], &none()).is_ok(), "nor does a sparse file that is only read");
    assert_eq!(
        run("df", &["--output=used", small.dir.path().to_str().expect("UTF-8")])
            .lines()
            .last()
            .map(str::trim),
        Some("0")
    );
}

#[test]
fn a_loop_device_is_not_written_beyond_the_free_space_below_it() {
    let Some(_alone) = devices("sparse loop device") else { return };
    let small = Mounted::new(&["-t", "tmpfs", "-o", "size=16m", "none"]);
    let image = small.path("image");
    run("truncate", &["-s", "64M", &image]);
    let disk = crate::support::Loop::on(Path::new(&image), &[]);
    let said = refused(&disk.path, &crate::support::erase(&[&disk.path]), &image);
    says(&said, &["not enough space", &image, "the run writes 64 MiB"]);
    // Nor are files on a file system on it.
    crate::support::mkfs(&disk.path);
    let upper = Mounted::new(&[&disk.path]);
    let fits = |size| Target { written: true, ..made(upper.path("new"), size) };
    says(&error(vec![fits(32 * MIB)]), &["not enough space", &image, "the run writes 32 MiB"]);
    assert!(open(vec![fits(4 * MIB)], &none()).is_ok());
}

#[test]
fn changes_of_a_file_are_reported() {
    let (dir, path) = theirs();
    let open = || open(vec![target(&path)], &none()).expect("readable");
    let targets = open();
    assert_eq!(targets[0].changed(), None);
    let file = std::fs::OpenOptions::new().append(true).open(&path).expect("open");
    file.set_len(2 * MIB).expect("longer");
    assert_eq!(targets[0].changed(), None);
    file.set_len(5).expect("shorter");
    says(&targets[0].changed().expect("reported"), &["truncated from 1048576 to 5 bytes"]);
    let targets = open();
    std::fs::rename(&path, dir.path().join("moved")).expect("renamed");
    says(&targets[0].changed().expect("reported"), &["no longer refers to the file"]);
    std::fs::remove_file(dir.path().join("moved")).expect("removed");
    says(&targets[0].changed().expect("reported"), &["was deleted"]);
    assert!(targets[0].open_worker(READ).is_ok(), "the file that was proven, not its name");
}

#[test]
fn workers_get_the_requested_open_flags() {
    use rustix::fs::OFlags;
    let (_dir, path) = theirs();
    let targets = open(vec![written(&path)], &overwrite(&[text(&path)])).expect("permitted");
    let direct = targets[0].facts.direct_align.is_some_and(|align| align > 0);
    for (sync_io, flag) in [
        (SyncIo::None, OFlags::empty()),
        (SyncIo::Dsync, OFlags::DSYNC),
        (SyncIo::Sync, OFlags::SYNC),
    ] {
        let how = fathom_machine::guard::WorkerOpen { direct, write: true, sync_io };
        let fd = targets[0].open_worker(how).expect("a worker's descriptor");
        let flags = rustix::fs::fcntl_getfl(&fd).expect("flags");
        assert_eq!(flags & OFlags::SYNC, flag);
        assert_eq!(flags.contains(OFlags::DIRECT), direct);
        let (own, its) = (path.metadata().expect("there"), rustix::fs::fstat(&fd).expect("stat"));
        assert_eq!((own.dev(), own.ino()), (its.st_dev, its.st_ino));
    }
}

#[test]
fn a_file_system_without_marks_or_direct_io() {
    let Some(_alone) = devices("ramfs") else { return };
    let plain = Mounted::new(&["-t", "ramfs", "none"]);
    let path = plain.path("file");
    std::fs::write(&path, [1; 8192]).expect("file");
    let targets = open(vec![target(&path)], &none()).expect("readable");
    let direct = fathom_machine::guard::WorkerOpen { direct: true, ..READ };
    let said = targets[0].open_worker(direct).expect_err("no O_DIRECT").to_string();
    says(&said, &["ramfs", "does not support direct I/O", "direct=0"]);
    // It does not report its free space.
    says(&error(vec![made(plain.path("reserved"), MIB)]), &["not enough space"]);
    let new = plain.path("new");
    drop(
        open(vec![Target { fallocate: Fallocate::None, ..made(&new, MIB) }], &none())
            .expect("made"),
    );
    let error = open(vec![written(&new)], &none()).err().expect("refused");
    assert!(matches!(error, GuardError::NeedsOverwrite { .. }), "{error}");
}
