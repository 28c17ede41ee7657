//! Names with directories: what fio creates, fathom creates, and nothing else.
#![allow(clippy::unwrap_used)]

use crate::common::{MIB, Place, Running, says, until};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::symlink;

/// What is below a place, with the sizes of files.
fn tree(place: &Place) -> Vec<(String, u64)> {
    let entry = |(path, (size, _)): (&std::path::PathBuf, &(u64, u64))| {
        let name = path.strip_prefix(place.path("")).ok()?.to_str().unwrap().to_string();
        (!name.is_empty()).then_some((name, *size))
    };
    place.look().iter().filter_map(entry).collect()
}

const NAMES: [&[&str]; 7] = [
    &["--name=x", "--filename_format=wekawithin/$jobnum", "--numjobs=3"],
    &["--name=x", "--filename_format=$filenum/$jobnum", "--nrfiles=2", "--numjobs=2"],
    &["--name=x", "--filename_format=$jobname.$jobnum/$filenum", "--nrfiles=2", "--numjobs=2"],
    &["--name=x", "--filename=sub/deep/f"],
    &["--name=x", "--filename=sub/f:sub/g:h"],
    &["--name=a/b"],
    &["--name=x", "--directory=in", "--filename=sub/f"],
];

#[test]
fn directories_in_names_are_created_as_in_fio() {
    let modes: [&[&str]; 5] = [
        &["--rw=write"],
        &["--rw=randread"],
        &["--rw=write", "--unlink=1"],
        &["--create_only=1"],
        &["--rw=write", "--create_on_open=1"],
    ];
    let has_fio = std::process::Command::new("fio").arg("--version").output().is_ok();
    let mut compared = 0;
    for names in NAMES {
        for mode in modes {
            let args = [names, mode, &["--size=24k", "--bs=4k"]].concat();
            let (ours, fio) = (Place::new(), Place::new());
            for place in [&ours, &fio] {
                fs::create_dir(place.path("in")).unwrap();
            }
            ours.run(&args).done();
            let files = tree(&ours).iter().filter(|(_, size)| *size > 0).count();
            assert_eq!(files == 0, mode.contains(&"--unlink=1"), "{args:?}");
            // fio 3.33 creates only the first of several directories, and fails then.
            if has_fio && Running::start(&mut fio.command("fio", &args)).wait().code == Some(0) {
                assert_eq!(tree(&ours), tree(&fio), "{args:?}");
                compared += 1;
            }
            let left = ours.ask(&["clean"]).done();
            says(&left.stdout, &["no files left"]);
        }
    }
    assert_eq!(compared > 0, has_fio);
}

#[test]
fn a_job_may_have_an_absolute_name() {
    let place = Place::new();
    let name = format!("--name={}", place.path("abs/j1").display());
    place.run(&[&name, "--size=64k", "--rw=write"]).done();
    assert_eq!(fs::metadata(place.path("abs/j1.0.0")).unwrap().len(), 64 << 10);
    place.refuses(&["--name=../j1", "--size=64k", "--rw=write"], &["leads out of its directory"]);
}

#[test]
fn a_refused_run_leaves_no_directories() {
    let place = Place::new();
    place.data("data", MIB);
    fs::create_dir(place.path("in")).unwrap();
    symlink(place.home(), place.path("in/out")).unwrap();
    let write = ["--name=x", "--rw=write", "--size=1m"];
    let refuses = |more: &[&str], why: &str| place.refuses(&[&write[..], more].concat(), &[why]);
    refuses(&["--filename=new/f:data", "--size=2m"], "--overwrite=data");
    refuses(&["--directory=in", "--filename=out/new/f"], "outside the job's directory");
    refuses(&["--directory=none", "--filename=new/f"], "its directory does not exist");
    refuses(&["--filename=in/out/new/f"], "its directory does not exist");
    refuses(&["--filename=/none/new/f"], "its directory does not exist");
    refuses(&["--filename=/dev/shm/new/f"], "under /dev");
    place.data("j_bw.1.log", 10);
    place.write("job.fio", "[j]\nrw=write\nsize=1m\nfilename=new/f\nwrite_bw_log\n");
    place.refuses(&["job.fio"], &["j_bw.1.log"]);
}

/// Whether a file holds data; its space alone is there before.
fn is_written(place: &Place, name: &str) -> bool {
    fs::read(place.path(name)).is_ok_and(|bytes| bytes.iter().any(|byte| *byte != 0))
}

#[test]
fn directories_of_a_killed_run_are_listed_and_removed_once_empty() {
    let place = Place::new();
    let long = ["run", "--no-record", "--eta=never", "--name=x", "--rw=write", "--size=1m"];
    let run = [&long[..], &["--filename=sub/deep/f", "--time_based", "--runtime=60"]].concat();
    let running = place.start(&run);
    until("the run to write", || is_written(&place, "sub/deep/f"));
    says(&place.ask(&["clean"]).done().stdout, &["no files left"]);
    running.signal(Signal::KILL);
    running.wait();
    let listed = place.ask(&["clean"]).done().stdout;
    says(
        &listed,
        &["sub/deep/f", "target created by a killed run", "directory created by a killed run"],
    );
    // What was written may be of use, so it stays, and the directories with it.
    let kept = place.ask(&["clean", "--remove"]);
    assert_eq!(kept.code, Some(1));
    says(&kept.stderr, &["rm -- ", "sub/deep"]);
    fs::remove_file(place.path("sub/deep/f")).unwrap();
    place.ask(&["clean", "--remove"]).done();
    assert_eq!(tree(&place), []);
}

#[test]
fn a_run_that_is_interrupted_keeps_its_directories_without_a_mark() {
    let place = Place::new();
    let long = ["run", "--no-record", "--eta=never", "--name=x", "--rw=write", "--size=1m"];
    let run = [&long[..], &["--filename=sub/f", "--time_based", "--runtime=60"]].concat();
    let running = place.start(&run);
    until("the run to write", || is_written(&place, "sub/f"));
    running.signal(Signal::INT);
    assert_eq!(running.wait().code, Some(1));
    says(&place.ask(&["clean"]).done().stdout, &["no files left"]);
    assert!(place.path("sub/f").exists());
}
