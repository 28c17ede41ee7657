//! `fathom record` in a directory that holds other things too: only what is fathom's is removed.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{Place, Running, Tmpfs, assert_one_error, is_root, says, tool, until};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

fn start(place: &Place, dir: &str, more: &[&str]) -> Running {
    place.start(&[&["record", "--interval", "50ms", "--record", dir], more].concat())
}

/// The real directories of the ring that hold samples, oldest first.
fn segments(place: &Place) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.path("ring")).into_iter().flatten().flatten();
    let real = entries.filter(|entry| entry.file_type().unwrap().is_dir()).map(|e| e.path());
    let has_lines = |path: &PathBuf| {
        fs::read_to_string(path.join("samples.ndjson")).is_ok_and(|text| text.contains("machine"))
    };
    let mut found: Vec<PathBuf> = real.filter(has_lines).collect();
    found.sort();
    found
}

/// Records a segment and ends; gives the segment.
fn segment(place: &Place) -> PathBuf {
    let before = segments(place);
    let running = start(place, "ring", &[]);
    until("a segment", || segments(place).len() > before.len());
    running.signal(Signal::TERM);
    running.wait().done();
    segments(place).pop().unwrap()
}

/// Begins the ring anew in a way that removes all segments that have ended.
fn forget(place: &Place, last: &PathBuf) -> crate::common::Answer {
    std::thread::sleep(std::time::Duration::from_millis(1200));
    let running = start(place, "ring", &["--keep=1s"]);
    until("a new segment", || segments(place).last().is_some_and(|newest| newest > last));
    running.signal(Signal::TERM);
    running.wait().done()
}

#[test]
fn what_is_not_a_segment_stays() {
    let place = Place::new();
    let first = segment(&place);
    let own = place.path("ring");
    // Named as a segment in part or in whole, and with files that are called as a segment's are.
    for name in ["20261122-holiday", "00000000-20261122-021500", "00000000-notes", "other"] {
        fs::create_dir(own.join(name)).unwrap();
        fs::write(own.join(name).join("samples.ndjson"), "mine").unwrap();
        fs::write(own.join(name).join("record.json"), "{}").unwrap();
    }
    fs::create_dir(own.join("00000000-empty")).unwrap();
    // A real segment elsewhere, and one that was renamed to be kept.
    tool("cp", &["-a", first.to_str().unwrap(), place.path("elsewhere").to_str().unwrap()]);
    symlink("../elsewhere", own.join("00000000-20261121-193600")).unwrap();
    let copy = own.join("00000000-20261121-193601");
    tool("cp", &["-a", first.to_str().unwrap(), copy.to_str().unwrap()]);
    let second = segment(&place);
    assert!(first.exists() && second > first);
    let mut before = place.look();
    forget(&place, &second);
    assert!(!first.exists() && !second.exists());
    let after = place.look();
    let is_own = |path: &PathBuf| {
        path.starts_with(&first) || path.starts_with(&second) || *path == own.join("ring.lock")
    };
    before.retain(|path, _| !is_own(path));
    for (path, what) in before {
        assert_eq!(after.get(&path), Some(&what), "{}", path.display());
    }
}

#[test]
fn a_segment_with_other_files_keeps_these() {
    let place = Place::new();
    let first = segment(&place);
    fs::write(first.join("notes"), "mine").unwrap();
    fs::create_dir(first.join("more")).unwrap();
    fs::write(first.join("more/record.json"), "mine").unwrap();
    fs::remove_file(first.join("stacks.ndjson")).ok();
    place.write("victim", "mine");
    symlink("../../victim", first.join("stacks.ndjson")).unwrap();
    let answer = forget(&place, &first);
    says(&answer.stderr, &[first.file_name().unwrap().to_str().unwrap(), "not removed"]);
    let mut left: Vec<_> = fs::read_dir(&first).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["more", "notes", "stacks.ndjson"]);
    assert_eq!(fs::read_to_string(first.join("more/record.json")).unwrap(), "mine");
    assert_eq!(place.read("victim"), "mine");
}

#[test]
fn the_directory_may_be_a_link_and_what_is_beside_the_ring_stays() {
    let place = Place::new();
    fs::create_dir(place.path("disk")).unwrap();
    place.write("disk/notes", "mine");
    symlink("disk", place.path("ring")).unwrap();
    let first = segment(&place);
    forget(&place, &first);
    assert!(!first.exists());
    assert_eq!(place.read("disk/notes"), "mine");
    assert!(fs::symlink_metadata(place.path("ring")).unwrap().is_symlink());
}

#[test]
fn a_directory_of_runs_is_no_ring() {
    let place = Place::new();
    place.data("data", crate::common::MIB);
    place.ask(&["run", "--eta=never", "--rw=read", "data"]).done();
    let runs = place.home().join(".local/state/fathom/runs");
    let before = place.look();
    let answer = place.ask(&["record", "--keep=1s", "--record", runs.to_str().unwrap()]);
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    assert_one_error(&answer.stderr, &["runs", "contains the record of a run", "another"]);
    assert_eq!(place.look(), before);
}

#[test]
fn a_lock_that_is_no_file_is_refused() {
    let place = Place::new();
    fs::create_dir(place.path("ring")).unwrap();
    let lock = place.path("ring/ring.lock");
    tool("mkfifo", &[lock.to_str().unwrap()]);
    let refused = |part: &str| {
        let before = place.look();
        let answer = place.ask(&["record", "--record", "ring"]);
        assert_eq!(answer.code, Some(1));
        assert_one_error(&answer.stderr, &["ring/ring.lock", part]);
        assert_eq!(place.look(), before);
    };
    refused("FIFO");
    fs::remove_file(&lock).unwrap();
    symlink("../made", &lock).unwrap();
    refused("symbolic link");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    refused("directory");
}

#[test]
fn a_record_that_stored_nothing_has_failed() {
    if !is_root("a ring on a full disk") {
        return;
    }
    let place = Place::new();
    let _disk = Tmpfs::new(&place, "disk", 1);
    let full = |zeros: &[u8]| fs::write(place.path("disk/fill"), zeros).is_err();
    assert!(full(&vec![0; 2 << 20]));
    let running = start(&place, "disk/ring", &[]);
    until("a word of it", || running.so_far("stderr").contains("retrying"));
    running.signal(Signal::TERM);
    let answer = running.wait();
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    let last = answer.stderr.lines().last().unwrap();
    says(last, &["no samples were recorded", "disk/ring", "No space left on device"]);
}
