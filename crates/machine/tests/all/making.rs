//! How files are made, made longer and marked, and how that is undone.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{
    MIB, Mounted, WRITE, checksum, devices, error, made, none, open, overwrite, refused, run, says,
    target, text, theirs, written,
};
use fathom_machine::guard::{self, GuardError};
use fathom_model::Plan;
use fathom_model::facts::TargetKind;
use fathom_model::plan::{Fallocate, Target};
use std::path::Path;

#[test]
fn created_files_are_removed_only_with_unlink() {
    let dir = crate::support::dir();
    let (kept, gone) = (dir.path().join("kept"), dir.path().join("gone"));
    let plan = || vec![made(&kept, MIB), Target { unlink: true, ..made(&gone, MIB) }];
    for target in open(plan(), &none()).expect("made") {
        target.finish().expect("finished");
    }
    assert!(kept.exists() && !gone.exists());
    // The same when a run ends without a word.
    drop(open(plan(), &none()).expect("made"));
    assert!(kept.exists() && !gone.exists());
    // What was there before is not removed, not even fathom's own.
    let again = vec![Target { unlink: true, ..target(&kept) }];
    for target in open(again, &none()).expect("readable") {
        target.finish().expect("finished");
    }
    assert!(kept.exists());
}

#[test]
fn a_replaced_file_is_not_removed() {
    let dir = crate::support::dir();
    let path = dir.path().join("file");
    let new = Target { unlink: true, ..made(&path, MIB) };
    let mut targets = open(vec![new], &none()).expect("made");
    std::fs::rename(&path, dir.path().join("moved")).expect("renamed");
    std::fs::write(&path, "someone else's").expect("file");
    says(&targets[0].changed().expect("reported"), &["another file"]);
    let error = targets.remove(0).finish().expect_err("not removed");
    says(&error.to_string(), &["was replaced by another file"]);
    assert_eq!(std::fs::read_to_string(&path).expect("there"), "someone else's");
}

#[test]
fn a_failed_plan_leaves_no_files() {
    let (dir, theirs) = theirs();
    let own = dir.path().join("own");
    drop(open(vec![made(&own, MIB)], &none()).expect("made"));
    let new = dir.path().join("new");
    let grown = Target { written: true, ..made(&own, 2 * MIB) };
    // The last one cannot be reserved: it is beyond what any file can be.
    let huge =
        Target { fallocate: Fallocate::None, ..made(dir.path().join("huge"), u64::MAX >> 1) };
    let before = checksum(&theirs);
    for last in [written(&theirs), huge] {
        let plan = vec![made(&new, MIB), grown.clone(), last];
        open(plan, &none()).err().expect("refused");
        assert!(!new.exists());
        assert!(!dir.path().join("huge").exists());
        assert_eq!(own.metadata().expect("there").len(), MIB);
        assert_eq!(checksum(&theirs), before);
    }
    assert!(open(vec![written(&own)], &none()).is_ok(), "it is still fathom's own");
}

#[test]
fn only_files_created_by_fathom_are_extended() {
    let (dir, theirs) = theirs();
    let before = checksum(&theirs);
    let fill = |path: &Path, size| Target { fill: true, ..made(path, size) };
    says(&error(vec![fill(&theirs, 2 * MIB)]), &["--overwrite="]);
    assert_eq!(checksum(&theirs), before);
    let targets = open(vec![fill(&theirs, 2 * MIB)], &overwrite(&[text(&theirs)])).expect("longer");
    assert_eq!(targets[0].fill_range(), Some((MIB, MIB)));
    assert!(!targets[0].facts.made_by_fathom, "it does not become fathom's");
    drop(targets);
    assert_eq!(std::fs::read(&theirs).expect("readable")[..1 << 20], vec![7; 1 << 20]);

    let own = dir.path().join("own");
    let targets = open(vec![fill(&own, MIB)], &none()).expect("made");
    targets[0].filled().expect("marked");
    drop(targets);
    let targets = open(vec![fill(&own, 3 * MIB)], &none()).expect("longer");
    assert_eq!(targets[0].fill_range(), Some((MIB, 2 * MIB)));
    assert_eq!(targets[0].facts.size_bytes, 3 * MIB);
    // That run was refused: the file is what it was.
    drop(targets);
    for longer in [fill(&own, 3 * MIB), Target { written: true, ..made(&own, 3 * MIB) }] {
        drop(crate::support::prepare(vec![longer], &none()).expect("longer"));
        assert_eq!(own.metadata().expect("there").len(), MIB);
        assert!(open(vec![written(&own)], &none()).is_ok(), "it is still fathom's own");
    }
}

#[test]
fn a_new_file_gets_its_name_when_filled() {
    let dir = crate::support::dir();
    let path = dir.path().join("file");
    let read = || vec![Target { fill: true, invalidate: true, ..made(&path, MIB) }];
    let twice = [read(), read()].concat();
    let targets = open(twice.clone(), &none()).expect("made");
    for target in &targets {
        assert_eq!(target.fill_range(), Some((0, MIB)));
        assert!(target.facts.made_by_fathom);
        assert_eq!(target.facts.resolved, text(&path));
    }
    let fd = targets[1].open_worker(WRITE).expect("to fill it");
    rustix::io::pwrite(&fd, &vec![1; 1 << 19], 0).expect("written");
    drop((fd, targets));
    // That run ended before it was done, and leaves nothing.
    assert_eq!(std::fs::read_dir(dir.path()).expect("directory").count(), 0);
    let targets = open(twice, &none()).expect("made");
    targets[0].filled().expect("named");
    assert_eq!(path.metadata().expect("there").len(), MIB);
    for target in &targets {
        assert_eq!(target.fill_range(), None);
        assert!(target.open_worker(WRITE).is_err(), "it is only read");
    }
    drop(targets);
    let again = open(read(), &none()).expect("its own");
    assert_eq!((again[0].fill_range(), again[0].facts.made_by_fathom), (None, true));
}

#[test]
fn a_file_that_appears_during_layout_is_not_replaced() {
    let dir = crate::support::dir();
    let path = dir.path().join("file");
    let targets = open(vec![Target { fill: true, ..made(&path, MIB) }], &none()).expect("made");
    std::fs::write(&path, "someone else's").expect("file");
    let error = targets[0].filled().expect_err("not named");
    says(&error.to_string(), &["was created by another program"]);
    drop(targets);
    assert_eq!(std::fs::read_to_string(&path).expect("there"), "someone else's");
}

#[test]
fn a_run_that_does_not_start_leaves_no_files() {
    let (dir, theirs) = theirs();
    let before = checksum(&theirs);
    let permitted = overwrite(&[text(&theirs)]);
    let at = |name: &str| dir.path().join(name);
    drop(open(vec![made(at("own"), MIB)], &none()).expect("made"));
    for fill in [false, true] {
        let plan = || {
            let longer = |path: &Path| Target { fill, ..made(path, 4 * MIB) };
            let new = Target { fill, ..made(at("new"), MIB) };
            vec![new, longer(&theirs), longer(&at("own"))]
        };
        let targets = crate::support::prepare(plan(), &permitted).expect("prepared");
        for target in &targets {
            if let Some((from, len)) = target.fill_range() {
                let fd = target.open_worker(WRITE).expect("to fill it");
                rustix::io::pwrite(&fd, &vec![1; len as usize], from).expect("written");
                target.filled().expect("filled");
            }
        }
        assert_eq!(theirs.metadata().expect("there").len(), 4 * MIB);
        drop(targets);
        assert!(!at("new").exists());
        assert_eq!(at("own").metadata().expect("there").len(), MIB);
        assert_eq!(checksum(&theirs), before);
        drop(open(vec![written(at("own"))], &none()).expect("still fathom's own"));
    }
}

#[test]
fn a_run_interrupted_while_preparing_leaves_no_files() {
    let (dir, theirs) = theirs();
    let before = checksum(&theirs);
    let permitted = overwrite(&[text(&theirs)]);
    let new = dir.path().join("new");
    let reserved = |how| {
        let longer = Target { fallocate: how, ..made(&theirs, 4 * MIB) };
        let new = Target { fallocate: how, ..made(&new, 4 * MIB) };
        Plan { targets: vec![longer, new], ..Plan::default() }
    };
    for how in [Fallocate::Native, Fallocate::Posix, Fallocate::Truncate] {
        // After each number of questions until the run is prepared.
        let mut interrupted = 0;
        loop {
            let asked = std::cell::Cell::new(0);
            let stop = || asked.replace(asked.get() + 1) >= interrupted;
            let roots = fathom_machine::Roots::default();
            let result = guard::open_all(&roots, &reserved(how), &permitted, &stop);
            let Err(error) = result else { break };
            assert!(matches!(error, GuardError::Interrupted { .. }), "{error}");
            assert_eq!(checksum(&theirs), before);
            assert!(!new.exists());
            interrupted += 1;
        }
        assert!(interrupted >= 4, "{interrupted}");
    }
}

#[test]
fn a_mark_is_void_after_another_program_wrote() {
    let dir = crate::support::dir();
    let (path, mine) = (dir.path().join("own"), dir.path().join("mine"));
    let plan = || vec![Target { written: true, ..made(&path, MIB) }];
    drop(open(plan(), &none()).expect("made"));
    // A run that writes renews it.
    let targets = open(plan(), &none()).expect("its own");
    crate::support::work(&targets[0]);
    drop(targets);
    drop(open(plan(), &none()).expect("still its own"));
    // Of the same size, into the same inode, with the attribute still there.
    std::fs::write(&mine, vec![9; 1 << 20]).expect("file");
    run("cp", &[text(&mine), text(&path)]);
    says(&refused(&path, &none(), &path), &["was changed since", "--overwrite="]);
    says(&refused(&path, &none(), &mine), &["--overwrite="]);
    // What is seen to have been changed while a run goes on stays someone else's.
    std::fs::remove_file(&path).expect("removed");
    let targets = open(plan(), &none()).expect("made");
    targets[0].disown();
    std::fs::write(&path, vec![9; 1 << 20]).expect("file");
    drop(targets);
    says(&refused(&path, &none(), &path), &["--overwrite="]);
    // A copy that has the attribute is another file.
    std::fs::remove_file(&path).expect("removed");
    drop(open(plan(), &none()).expect("made"));
    let copy = dir.path().join("copy");
    run("cp", &["--preserve=all", text(&path), text(&copy)]);
    says(&refused(&copy, &none(), &copy), &["--overwrite="]);
}

#[test]
fn mounts_are_read_once_for_sixty_thousand_files() {
    let dir = crate::support::dir();
    let proc = crate::support::dir();
    // A pipe can be read once: a second reading of the mounts would wait for ever.
    std::fs::create_dir(proc.path().join("self")).expect("made-up tree");
    let mounts = proc.path().join("self/mountinfo");
    run("mkfifo", &[text(&mounts)]);
    let writer = std::thread::spawn(move || {
        std::fs::write(mounts, "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n").expect("written");
    });
    let roots = fathom_machine::Roots { proc: proc.path().into(), ..Default::default() };
    let lookup = fathom_machine::Lookup::new(&roots);
    for number in 0..65_536 {
        let facts = lookup.target(&format!("{}/file.{number}", dir.path().display()));
        assert_eq!(facts.expect("facts").kind, TargetKind::Missing);
    }
    writer.join().expect("read once");
}

#[test]
fn create_on_open_creates_the_file_when_opened() {
    let dir = crate::support::dir();
    let path = dir.path().join("late");
    let late =
        |unlink| vec![Target { create_on_open: true, written: true, unlink, ..made(&path, MIB) }];
    let targets = open(late(false), &none()).expect("planned");
    assert!(!path.exists());
    assert_eq!((targets[0].facts.kind, targets[0].facts.size_bytes), (TargetKind::File, MIB));
    assert_eq!(targets[0].changed(), None);
    targets[0].open_worker(WRITE).expect("made");
    targets[0].open_worker(WRITE).expect("made once");
    assert_eq!(path.metadata().expect("there").len(), MIB);
    drop(targets);
    assert!(path.exists());
    std::fs::remove_file(&path).expect("removed");
    let targets = open(late(true), &none()).expect("planned");
    std::fs::write(&path, "someone else's").expect("file");
    says(&targets[0].open_worker(WRITE).expect_err("taken").to_string(), &["was replaced"]);
    drop(targets);
    assert_eq!(std::fs::read_to_string(&path).expect("there"), "someone else's");
}

#[test]
fn space_is_preallocated_as_requested() {
    let dir = crate::support::dir();
    let reserves = |how| !matches!(how, Fallocate::None | Fallocate::Truncate);
    for how in
        [Fallocate::None, Fallocate::Native, Fallocate::Posix, Fallocate::Keep, Fallocate::Truncate]
    {
        let path = dir.path().join(format!("{how:?}"));
        let new = Target { fallocate: how, ..made(&path, 4 * MIB) };
        let targets = open(vec![new], &none()).expect("made");
        assert_eq!(targets[0].facts.size_bytes, 4 * MIB, "{how:?}");
        assert_eq!(targets[0].facts.allocated_bytes >= 4 * MIB, reserves(how), "{how:?}");
    }
}

#[test]
fn posix_preallocates_without_file_system_support() {
    let Some(_alone) = devices("file system without fallocate") else { return };
    let disk = crate::support::Loop::new(32 * MIB);
    let old = "^extents,^64bit,^has_journal,^metadata_csum";
    run("mkfs.ext4", &["-q", "-F", "-O", old, &disk.path]);
    let mounted = Mounted::new(&[&disk.path]);
    for how in [Fallocate::Native, Fallocate::Posix, Fallocate::Keep] {
        let path = mounted.path(&format!("{how:?}"));
        let new = Target { fallocate: how, ..made(&path, 3 * MIB + 5) };
        let targets = open(vec![new], &none()).expect("made");
        assert_eq!(targets[0].facts.size_bytes, 3 * MIB + 5, "{how:?}");
        let is_full = targets[0].facts.allocated_bytes > 3 * MIB;
        assert_eq!(is_full, how == Fallocate::Posix, "{how:?}");
        assert_eq!(targets[0].facts.device.as_ref().map(|d| d.name.as_str()), Some(disk.name()));
    }
}
