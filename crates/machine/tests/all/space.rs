//! Space that runs may use: what existing files need to be written, and what other runs need.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{
    Loop, MIB, Mounted, Target, devices, made, none, open, overwrite, prepare, run, says, text,
    work, written,
};
use fathom_machine::guard::{OpenTarget, note_allocated};
use fathom_model::plan::Fallocate;
use std::path::Path;

/// A tmpfs of 20 MiB.
fn small() -> Mounted {
    Mounted::new(&["-t", "tmpfs", "-o", "size=20m", "small"])
}

/// A file of 12 MiB to be laid out, of which two do not fit.
fn large(path: impl AsRef<Path>, fallocate: Fallocate) -> Target {
    Target { fallocate, fill: true, ..made(path, 12 * MIB) }
}

/// Waits until there is room: a program that another test starts has files open until it is executed.
fn room(is_there: impl Fn() -> bool) {
    crate::support::wait(is_there, "room");
}

#[test]
fn two_runs_do_not_count_on_the_same_space() {
    let Some(_alone) = devices("tmpfs") else { return };
    for how in [Fallocate::None, Fallocate::Native] {
        let mounted = small();
        let plan = |name| vec![large(mounted.path(name), how)];
        let first = prepare(plan("first"), &none()).expect("room");
        let error = prepare(plan("second"), &none()).err().expect("refused").to_string();
        says(&error, &["not enough space"]);
        let is_promised = error.contains("other runs of fathom are going to use 12 MiB");
        assert_eq!(is_promised, how == Fallocate::None, "{error}");
        drop(first);
        room(|| prepare(plan("second"), &none()).is_ok());
    }
}

#[test]
fn space_that_has_been_allocated_is_not_counted_twice() {
    let Some(_alone) = devices("tmpfs") else { return };
    let mounted = small();
    let first =
        prepare(vec![large(mounted.path("first"), Fallocate::None)], &none()).expect("room");
    let fd = first[0].open_worker(crate::support::WRITE).expect("to fill it");
    rustix::io::pwrite(&fd, &vec![1; 12 << 20], 0).expect("written");
    let small = || prepare(vec![made(mounted.path("second"), 4 * MIB)], &none());
    assert!(small().is_err(), "12 MiB are used, and promised");
    note_allocated(&first);
    drop(small().expect("12 MiB are used"));
    // What a killed run had promised is not counted: no one holds the lock of its file.
    drop((fd, first));
    room(|| prepare(vec![made(mounted.path("third"), 16 * MIB)], &none()).is_ok());
}

#[test]
fn shared_extents_need_space() {
    let Some(_alone) = devices("file system with reflinks") else { return };
    if !std::fs::read_to_string("/proc/filesystems").is_ok_and(|all| all.contains("\txfs\n")) {
        return;
    }
    let disk = Loop::new(320 * MIB);
    run("mkfs.xfs", &["-q", "-f", &disk.path]);
    let mounted = Mounted::new(&[&disk.path]);
    let (whole, copy) = (mounted.path("whole"), mounted.path("copy"));
    std::fs::write(&whole, vec![7; 90 << 20]).expect("file");
    run("cp", &["--reflink=always", &whole, &copy]);
    run("sync", &["-f", &whole]);
    let free = fs_free(Path::new(&whole));
    run("fallocate", &["-l", &(free - 50 * MIB).to_string(), &mounted.path("rest")]);
    for path in [&whole, &copy] {
        let error = open(vec![written(path)], &overwrite(&[path])).err().expect("refused");
        says(&error.to_string(), &["not enough space", "the run writes 90 MiB"]);
    }
    std::fs::remove_file(&whole).expect("removed");
    // XFS frees the blocks of a removed file in the background.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while let Err(error) = open(vec![written(&copy)], &overwrite(&[&copy])) {
        assert!(std::time::Instant::now() < until, "not shared any more: {error}");
        run("sync", &["-f", &copy]);
    }
}

fn fs_free(path: &Path) -> u64 {
    let fs = rustix::fs::statvfs(path).expect("file system");
    fs.f_bavail * fs.f_frsize
}

#[test]
fn a_file_below_an_overlay_needs_space_for_its_copy() {
    let Some(_alone) = devices("overlay") else { return };
    let dir = crate::support::dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["lower", "layers", "shown"] {
        std::fs::create_dir(at(name)).expect("directory");
    }
    let file = at("lower/file");
    std::fs::write(&file, vec![7; 39 << 19]).expect("file");
    let _layers = Mounted::over(&["-t", "tmpfs", "-o", "size=20m", "layers"], &at("layers"));
    for name in ["layers/upper", "layers/work"] {
        std::fs::create_dir(at(name)).expect("directory");
    }
    let (upper, work_dir) = (at("layers/upper"), at("layers/work"));
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        text(&at("lower")),
        text(&upper),
        text(&work_dir)
    );
    let _overlay = Mounted::over(&["-t", "overlay", "overlay", "-o", &options], &at("shown"));
    let shown = at("shown/file");
    let error = open(vec![written(&shown)], &overwrite(&[text(&shown)])).err().expect("refused");
    says(&error.to_string(), &["not enough space"]);
    assert!(!upper.join("file").exists());
    // In the upper layer already, there is nothing to copy.
    std::fs::write(at("shown/large"), vec![7; 15 << 20]).expect("file");
    let large = at("shown/large");
    let targets: Vec<OpenTarget> =
        open(vec![written(&large)], &overwrite(&[text(&large)])).expect("room");
    work(&targets[0]);
}
