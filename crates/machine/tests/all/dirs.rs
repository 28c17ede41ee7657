//! Directories that runs create for their files.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{MIB, Target, dir, error, made, none, open, prepare, says, text};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// A file below a job's directory.
fn below(within: &Path, name: &str) -> Target {
    let within_path = Some(text(within).to_string());
    Target { within: within_path, ..made(within.join(name), MIB) }
}

/// All that is below a directory.
fn below_it(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut rest = vec![top.to_path_buf()];
    while let Some(at) = rest.pop() {
        for entry in std::fs::read_dir(at).expect("directory") {
            let entry = entry.expect("entry");
            if entry.file_type().expect("type").is_dir() {
                rest.push(entry.path());
            }
            found.push(entry.path().strip_prefix(top).expect("below").to_path_buf());
        }
    }
    found.sort();
    found
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[test]
fn missing_directories_are_created_below_that_of_the_job() {
    for (fill, late, written) in
        [(true, false, false), (false, false, true), (false, true, true), (true, true, true)]
    {
        let top = dir();
        let kind = |name| Target {
            fill,
            create_on_open: late,
            written,
            unlink: name == "c/0",
            ..below(top.path(), name)
        };
        let names = ["a/b/0", "a/b/1", "a/0", "c/0", "./d//e/./0"];
        let targets = open(names.map(kind).into(), &none()).expect("created");
        for target in &targets {
            let how = fathom_machine::guard::WorkerOpen { write: true, ..crate::support::READ };
            target.open_worker(how).expect("a worker's descriptor");
            target.filled().expect("named");
        }
        for target in targets {
            target.finish().expect("finished");
        }
        let wanted = ["a", "a/0", "a/b", "a/b/0", "a/b/1", "c", "d", "d/e", "d/e/0"];
        assert_eq!(below_it(top.path()), paths(&wanted), "unlink=1 leaves directories, as in fio");
        assert!(fathom_machine::leftover::find(top.path()).expect("read").is_empty());
    }
}

#[test]
fn a_refused_run_leaves_no_directory() {
    let top = dir();
    let plans = |last: Target| vec![below(top.path(), "a/b/0"), below(top.path(), "c/0"), last];
    let huge = Target { create_size: Some(u64::MAX >> 1), ..below(top.path(), "d/0") };
    says(&error(plans(huge)), &["not enough space"]);
    // Refused only once directories were created: what is one file's directory is another file.
    let both = vec![below(top.path(), "a/b/0"), below(top.path(), "a/b")];
    says(&error(both), &["was replaced while"]);
    assert!(below_it(top.path()).is_empty());
    // A run that does not begin.
    let prepared = prepare(plans(below(top.path(), "d/0")), &none()).expect("prepared");
    assert!(top.path().join("a/b").is_dir());
    std::fs::write(top.path().join("c/mine"), "mine").expect("file");
    drop(prepared);
    assert_eq!(below_it(top.path()), paths(&["c", "c/mine"]), "what is in use stays");
}

#[test]
fn directories_are_created_nowhere_else() {
    let (top, outside) = (dir(), dir());
    let at = |name: &str| top.path().join(name);
    std::os::unix::fs::symlink(outside.path(), at("link")).expect("link");
    std::os::unix::fs::symlink(at("nowhere"), at("dangling")).expect("link");
    std::os::unix::fs::symlink("/dev/shm", at("shm")).expect("link");
    std::fs::write(at("file"), "x").expect("file");
    let before = below_it(top.path());
    let cases = [
        (below(top.path(), "link/new/0"), "outside the job's directory"),
        (below(top.path(), "dangling/new/0"), "dangling symbolic link"),
        (below(top.path(), "shm/fathom-new/0"), "under /dev"),
        (below(top.path(), "file/new/0"), "Not a directory"),
        (below(&at("gone"), "new/0"), "its directory does not exist"),
        // Without directory=, below the working directory only.
        (made(at("new/0"), MIB), "its directory does not exist"),
        (made("/dev/shm/fathom-new/0", MIB), "under /dev"),
        (made("../fathom-new/0", MIB), "its directory does not exist"),
    ];
    for (target, why) in cases {
        says(&error(vec![target]), &[why]);
    }
    assert_eq!(below_it(top.path()), before);
    assert!(below_it(outside.path()).is_empty() && !Path::new("/dev/shm/fathom-new").exists());
}

#[test]
fn a_directory_swapped_for_a_link_while_it_is_created_leads_nowhere() {
    let (top, outside) = (dir(), dir());
    let at = |name: &str| top.path().join(name);
    std::fs::create_dir(at("sub")).expect("directory");
    std::os::unix::fs::symlink(outside.path(), at("link")).expect("link");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let swapped = (at("sub"), at("link"));
                renameat_with(CWD, &swapped.0, CWD, &swapped.1, RenameFlags::EXCHANGE)
                    .expect("swap");
            }
        });
        for number in 0..300 {
            let target = Target { written: true, ..below(top.path(), &format!("sub/{number}/0")) };
            prepare(vec![target], &none()).iter().flatten().for_each(|target| target.keep());
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(below_it(outside.path()).is_empty());
}
