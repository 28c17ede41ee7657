//! What another program changes between two steps of the guard.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{
    Loop, MIB, Mounted, Target, WRITE, checksum, devices, error, made, meanwhile, none, open,
    overwrite, prepare, refused, run, says, target, text, work, written,
};
use fathom_machine::guard::OpenTarget;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::path::Path;
use std::time::Duration;

fn exchange(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).expect("exchanged");
}

#[test]
fn a_directory_swapped_for_a_link_does_not_lead_out_of_the_job() {
    let dir = crate::support::dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["job", "job/sub", "outside"] {
        std::fs::create_dir(at(name)).expect("directory");
    }
    std::os::unix::fs::symlink(at("outside"), at("job/link")).expect("link");
    let within = Some(at("job").display().to_string());
    meanwhile(
        || exchange(&at("job/sub"), &at("job/link")),
        || {
            for number in 0..500 {
                let path = at(&format!("job/sub/file{number}"));
                let new = Target { within: within.clone(), written: true, ..made(path, MIB) };
                // Kept, if the run goes on to begin.
                prepare(vec![new], &none()).iter().flatten().for_each(|target| target.keep());
            }
        },
    );
    assert_eq!(std::fs::read_dir(at("outside")).expect("directory").count(), 0);
}

/// A file that a run of fathom created and closed.
fn own(path: &Path) {
    drop(open(vec![Target { written: true, ..made(path, MIB) }], &none()).expect("made"));
}

/// Changes a file without changing its size or mtime, as restoring a backup does.
fn change_secretly(path: &Path) {
    // Longer than the kernel's ticks, and than what a mark allows for the setting of its own attribute.
    std::thread::sleep(Duration::from_millis(25));
    let before = path.metadata().expect("status").modified().expect("mtime");
    let file = std::fs::File::options().write(true).open(path).expect("file");
    rustix::io::pwrite(&file, b"PRECIOUS", 0).expect("written");
    file.set_modified(before).expect("mtime set back");
}

#[test]
fn a_mark_is_void_if_mtime_was_set_back() {
    let dir = crate::support::dir();
    let path = dir.path().join("own");
    own(&path);
    drop(open(vec![written(&path)], &none()).expect("its own"));
    change_secretly(&path);
    says(&refused(&path, &none(), &path), &["was changed since"]);
}

#[test]
fn changes_between_two_steps_of_a_run_void_the_mark() {
    type Step = fn(&OpenTarget, &Path);
    let unchanged: Step = |target, _| work(target);
    let steps: [Step; 5] = [
        // Before the file's first job begins, between two of its jobs, after the last, and during one.
        |target, path| {
            change_secretly(path);
            work(target);
        },
        |target, path| {
            work(target);
            change_secretly(path);
            work(target);
        },
        |target, path| {
            work(target);
            change_secretly(path);
        },
        |target, path| {
            work(target);
            std::fs::write(path, vec![9; 1 << 20]).expect("replaced");
        },
        // A worker that did not return may still write.
        |target, _| target.writing().begin(),
    ];
    let dir = crate::support::dir();
    for (number, step) in steps.into_iter().enumerate() {
        for exists in [false, true] {
            let path = dir.path().join(format!("{number}{exists}"));
            if exists {
                own(&path);
            }
            for (step, is_own) in [(unchanged, true), (step, false)] {
                let plan = vec![Target { written: true, ..made(&path, MIB) }];
                let targets = open(plan, &none()).expect("its own");
                step(&targets[0], &path);
                drop(targets);
                let again = open(vec![written(&path)], &none());
                assert_eq!(again.is_ok(), is_own, "step {number}, {exists}");
            }
        }
    }
}

#[test]
fn a_file_being_created_is_not_marked_over_changes_by_others() {
    let dir = crate::support::dir();
    for late in [false, true] {
        let path = dir.path().join(format!("{late}"));
        let new = Target { create_on_open: late, written: true, ..made(&path, MIB) };
        let targets = open(vec![new], &none()).expect("made");
        work(&targets[0]);
        std::fs::write(&path, vec![9; 1 << 20]).expect("replaced");
        drop(targets);
        says(&refused(&path, &none(), &path), &["was changed since"]);
    }
}

#[test]
fn there_is_no_mark_where_times_are_coarse() {
    let Some(_alone) = devices("file system with times in seconds") else { return };
    let disk = Loop::new(16 * MIB);
    run("mkfs.ext4", &["-q", "-F", "-I", "128", &disk.path]);
    let mounted = Mounted::new(&[&disk.path]);
    let path = mounted.path("own");
    for _ in 0..4 {
        own(Path::new(&path));
        says(&refused(&path, &none(), &path), &["not created by fathom, or was changed since"]);
        std::fs::remove_file(&path).expect("removed");
    }
    // The same file system with times in nanoseconds.
    drop(mounted);
    run("mkfs.ext4", &["-q", "-F", "-I", "256", &disk.path]);
    let mounted = Mounted::new(&[&disk.path]);
    let path = mounted.path("own");
    own(Path::new(&path));
    drop(open(vec![written(&path)], &none()).expect("its own"));
}

#[test]
fn a_file_that_took_a_name_about_to_be_removed_is_kept() {
    const FILES: usize = 200;
    let dir = crate::support::dir();
    let at = |kind: &str, number: usize| dir.path().join(format!("{kind}{number}"));
    for number in 0..FILES {
        std::fs::write(at("theirs", number), "theirs").expect("file");
    }
    let new = |number| Target { unlink: true, ..made(at("own", number), 4096) };
    let targets = open((0..FILES).map(new).collect(), &none()).expect("made");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // In the order of removal, onto names that still exist or have just gone.
            for number in 0..FILES {
                std::fs::rename(at("theirs", number), at("own", number)).expect("renamed");
            }
        });
        for target in targets {
            let _ = target.finish();
        }
    });
    for number in 0..FILES {
        let text = std::fs::read_to_string(at("own", number));
        assert_eq!(text.ok().as_deref(), Some("theirs"), "file {number}");
    }
    let others = std::fs::read_dir(dir.path()).expect("directory").count();
    assert_eq!(others, FILES, "nothing is left under a temporary name");
}

#[test]
fn a_refused_plan_copies_nothing_up() {
    let Some(_alone) = devices("overlay") else { return };
    let dir = crate::support::dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["lower", "upper", "work", "shown"] {
        std::fs::create_dir(at(name)).expect("directory");
    }
    for name in ["permitted", "refused"] {
        std::fs::write(at("lower").join(name), vec![7; 1 << 20]).expect("file");
    }
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}",
        text(&at("lower")),
        text(&at("upper")),
        text(&at("work"))
    );
    let _overlay = Mounted::over(&["-t", "overlay", "overlay", "-o", &layers], &at("shown"));
    let permitted = at("shown").join("permitted");
    let all = overwrite(&[text(&permitted)]);
    let missing = Target { written: true, ..target(at("shown").join("missing")) };
    let huge = made(at("shown").join("huge"), u64::MAX >> 1);
    for other in [written(at("shown").join("refused")), missing, huge] {
        for plan in [vec![written(&permitted), other.clone()], vec![other, written(&permitted)]] {
            open(plan, &all).err().expect("refused");
            assert_eq!(std::fs::read_dir(at("upper")).expect("directory").count(), 0);
        }
    }
    let before = checksum(at("lower").join("permitted"));
    let targets = open(vec![written(&permitted)], &all).expect("permitted");
    let fd = targets[0].open_worker(WRITE).expect("to write");
    rustix::io::pwrite(&fd, &[1; 4096], 0).expect("written");
    assert!(at("upper").join("permitted").exists());
    assert_eq!(checksum(at("lower").join("permitted")), before);
    says(&error(vec![written(at("shown").join("refused"))]), &["--overwrite="]);
}
