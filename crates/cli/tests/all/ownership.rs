//! What is fathom's own and what is not, while runs go on, end, print, and are killed.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{Loop, MIB, Place, Running, Tmpfs, Zram, as_root, is_root, says, until};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

const FATHOM: &str = env!("CARGO_BIN_EXE_fathom");
const WRITE: [&str; 5] = ["--rw=write", "--bs=4k", "--size=1m", "--name=own", "--filename=own"];

/// Changes the contents of a file, and nothing else that its directory shows.
fn change(path: &Path) {
    fs::File::options().write(true).open(path).unwrap().write_all_at(b"PRECIOUS", 0).unwrap();
}

#[track_caller]
fn is_refused(place: &Place) {
    place.refuses(&WRITE, &["own exists", "was changed since", "--overwrite=own"]);
    assert!(fs::read(place.path("own")).unwrap().starts_with(b"PRECIOUS"));
}

/// A job that writes the file, and another after it.
fn followed(place: &Place) -> Running {
    let next = ["--name=next", "--stonewall", "--filename=next", "--rw=write", "--size=1m"];
    let long = ["--rate_iops=50", "--time_based", "--runtime=1"];
    let args = [&["run", "--no-record", "--eta=never"], &WRITE[..], &next, &long];
    place.start(&args.concat())
}

/// Whether the worker of a job has begun, by the name of its thread.
fn works(running: &Running, job: usize) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", running.id())).into_iter().flatten();
    let names = tasks.flatten().map(|task| fs::read_to_string(task.path().join("comm")));
    names.flatten().any(|name| name.trim_end() == format!("worker-{job}"))
}

#[test]
fn a_change_after_the_files_job_has_ended_makes_the_file_the_users() {
    let place = Place::new();
    for is_changed in [false, true] {
        let running = followed(&place);
        until("the next job", || works(&running, 1));
        if is_changed {
            change(&place.path("own"));
        }
        running.wait().done();
    }
    is_refused(&place);
}

#[test]
fn a_change_while_the_result_waits_for_its_reader_makes_the_file_the_users() {
    let place = Place::new();
    for is_changed in [false, true] {
        let args = [&["run", "--no-record", "--output-format=json"], &WRITE[..]].concat();
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        // Leaves room for a page of the 64 KiB, which is less than the result.
        writer.write_all(&[b' '; 60 << 10]).unwrap();
        let mut command = place.command(FATHOM, &args);
        let mut child = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
        drop(command);
        until("output", || rustix::io::ioctl_fionread(&reader).unwrap() > 60 << 10);
        // It prints, and no longer holds the file: another one writes it.
        if is_changed {
            change(&place.path("own"));
        } else {
            place.run(&WRITE).done();
        }
        reader.read_to_end(&mut Vec::new()).unwrap();
        assert!(child.wait().unwrap().success());
        if !is_changed {
            place.run(&WRITE).done();
        }
    }
    is_refused(&place);
}

#[test]
fn clean_removes_what_killed_runs_had_created_only_to_remove_it() {
    let names = ["--nrfiles=30", "--filesize=4k", "--loops=1000000", "--rate_iops=500"];
    let read = ["--rw=read", "--bs=4k", "--size=1m", "--time_based", "--runtime=50"];
    let jobs: [(&[&str], usize); 4] = [
        (&["--ioengine=filestat", names[0], names[1], names[2], names[3]], 30),
        (&["--ioengine=dirstat", names[0], names[1], names[2], names[3]], 30),
        (&["--ioengine=filedelete", names[0], names[1], "--rate_iops=1"], 20),
        (&read, 1),
    ];
    for (job, count) in jobs {
        let place = Place::new();
        let args = ["run", "--no-record", "--eta=never", "--name=t", "--unlink=1"];
        let running = place.start(&[&args[..], job].concat());
        let found = || fs::read_dir(place.path(".")).unwrap().count();
        until("the layout", || found() >= count);
        let active = place.ask(&["clean", "--remove"]).done();
        says(&active.stdout, &["no files left by killed runs"]);
        running.signal(Signal::KILL);
        running.wait();
        assert!(found() >= count, "{job:?}");
        place.ask(&["clean", "--remove"]).done();
        assert_eq!(found(), 0, "{job:?}");
    }
}

#[test]
fn a_file_that_takes_the_name_of_one_being_removed_is_kept() {
    const FILES: usize = 300;
    for engine in ["filecreate", "filedelete", "filestat"] {
        let place = Place::new();
        fs::create_dir(place.path("dir")).unwrap();
        (0..FILES).for_each(|number| place.write(&format!("theirs{number}"), "theirs"));
        let (engine, count) = (format!("--ioengine={engine}"), format!("--nrfiles={FILES}"));
        let job = ["--name=t", "--directory=dir", "--unlink=1", "--filesize=4k", &count, &engine];
        // The last file is there for a moment only, in which this process may not run.
        let last = place.path(&format!("dir/t.0.{}", FILES - 1));
        let are_there = || match engine.as_str() {
            "--ioengine=filedelete" => fs::read_dir(place.path("dir")).unwrap().count() > 0,
            _ => last.exists(),
        };
        let caught = || {
            let running = place.start(&[&["run", "--no-record", "--eta=never"], &job[..]].concat());
            let program = format!("/proc/{}/exe", running.id());
            while !are_there() {
                fs::read_link(&program).ok()?;
            }
            Some(running)
        };
        let running = (0..100).find_map(|_| caught()).unwrap();
        for number in 0..FILES {
            let to = place.path(&format!("dir/t.0.{number}"));
            fs::rename(place.path(&format!("theirs{number}")), to).unwrap();
        }
        let answer = running.wait();
        for number in 0..FILES {
            let kept = place.read(&format!("dir/t.0.{number}"));
            assert_eq!(kept, "theirs", "{engine} {number}: {}", answer.stderr);
        }
        assert_eq!(fs::read_dir(place.path("dir")).unwrap().count(), FILES, "{engine}");
    }
}

#[test]
fn two_runs_at_once_do_not_fill_a_file_system() {
    if !is_root("two_runs_at_once_do_not_fill_a_file_system") {
        return;
    }
    for how in ["--fallocate=none", "--fallocate=native"] {
        let place = Place::new();
        let _disk = Tmpfs::new(&place, "disk", 40);
        let start = |name: &str| {
            let file = format!("--filename=disk/{name}");
            let job = ["--rw=read", "--bs=64k", "--size=22m", "--name=t", how, &file];
            place.start(&[&["run", "--no-record", "--eta=never"], &job[..]].concat())
        };
        let answers = [start("a"), start("b")].map(Running::wait);
        let refused: Vec<&str> =
            answers.iter().filter(|a| a.code != Some(0)).map(|a| a.stderr.as_str()).collect();
        assert_eq!(refused.len(), 1, "{refused:?}");
        says(refused[0], &["free"]);
        let fs = rustix::fs::statvfs(place.path("disk")).unwrap();
        assert!(fs.f_bavail * 20 >= fs.f_blocks, "{how}: {} blocks are left", fs.f_bavail);
    }
}

/// Two jobs that write and trim, and one that trims beside one that writes.
fn trims(place: &Place, device: &str, engine: &str) {
    // Two jobs that copy into the same page of a mapping leave sectors that neither of them wrote.
    let erase = format!("--erase={device}@{}", 16 * MIB);
    let file = format!("--filename={device}");
    let common = [erase.as_str(), "--bs=4k", "--size=1m", engine, "--output-format=json", &file];
    let both = ["--name=t", "--rw=trimwrite", "--numjobs=2"];
    let beside = ["--name=t", "--rw=randtrim", "--name=w", "--rw=randwrite"];
    for (jobs, trims) in [(&both[..], [256, 256]), (&beside, [256, 0])] {
        for direct in ["--direct=0", "--direct=1"] {
            let json = place.run(&[&common[..], &[direct], jobs].concat()).done().json();
            for (job, trims) in trims.into_iter().enumerate() {
                let found = &json["jobs"][job];
                assert_eq!(found["error"], 0, "{device} {engine} {direct} {jobs:?}");
                assert_eq!(
                    found["trim"]["total_ios"], trims,
                    "{device} {engine} {direct} {jobs:?}"
                );
            }
        }
    }
}

#[test]
fn several_jobs_trim_and_write_one_device_through_the_page_cache() {
    let test = "several_jobs_trim_and_write_one_device_through_the_page_cache";
    let Some(_alone) = as_root(test) else { return };
    let place = Place::new();
    place.data("image", 16 * MIB);
    fs::write(place.path("image"), vec![0; 16 * MIB]).unwrap();
    let device = Loop::on(&place.path("image"));
    let all = ["psync", "pvsync2", "mmap", "libaio", "posixaio", "io_uring"];
    for engine in all {
        trims(&place, &device.0, &format!("--ioengine={engine}"));
    }
    match Zram::new("16M") {
        Ok(zram) => ["psync", "libaio"]
            .iter()
            .for_each(|engine| trims(&place, &zram.device(), &format!("--ioengine={engine}"))),
        Err(why) => std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes()).unwrap(),
    }
}
