//! Engines beside io_uring and the plain calls, as a user sees them: which data they touch, and what is reported.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{FATHOM, MIB, Place, Running, Tmpfs, as_root, checksum, says, tool};
use crate::layers::disk;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;

const OTHERS: [&str; 4] = ["vsync", "mmap", "splice", "posixaio"];

fn engine(name: &str) -> String {
    format!("--ioengine={name}")
}

#[test]
fn no_engine_writes_files_of_others() {
    let place = Place::new();
    place.data("data", MIB);
    let before = checksum(place.path("data"));
    for name in OTHERS {
        for rw in ["write", "randrw", "trim"] {
            place.refuses(&[&engine(name), &format!("--rw={rw}"), "data"], &["--overwrite=data"]);
        }
        place.run(&[&engine(name), "--rw=read", "--bs=64k", "data"]).done();
        assert_eq!(checksum(place.path("data")), before, "{name}");
        let args =
            [&engine(name), "--rw=write", "--bs=64k", "--end_fsync=1", "--overwrite=data", "data"];
        place.run(&args).done();
        assert_eq!(fs::metadata(place.path("data")).unwrap().len(), MIB as u64, "{name}");
        assert_ne!(checksum(place.path("data")), before, "{name}");
        place.data("data", MIB);
    }
}

#[test]
fn blocks_are_exchanged_with_those_of_a_donor() {
    let Some(_root) = as_root("blocks_are_exchanged_with_those_of_a_donor") else { return };
    let place = Place::new();
    let (_device, _mount) = disk(&place, "disk");
    let path = |name: &str| place.path(&format!("disk/{name}")).to_str().unwrap().to_string();
    ["data", "donor", "small"].iter().for_each(|name| place.data(&format!("disk/{name}"), MIB));
    // Where the file begins on the disk.
    let place_of = |name: &str| {
        let listed = tool("filefrag", &["-s", "-v", &path(name)]);
        let first = listed.lines().find(|line| line.trim_start().starts_with("0:")).unwrap();
        first.split_whitespace().nth(3).unwrap().to_string()
    };
    let before = checksum(path("data"));
    let (at, donor_at) = (place_of("data"), place_of("donor"));
    let engine = "--ioengine=e4defrag";
    let file = ["--directory=disk", "--filename=data", "--bs=64k", "--overwrite=disk/data"];
    let args = |keys: &[&'static str]| [&[engine][..], &file, keys].concat();
    place.refuses(&args(&["--rw=write", "--donorname=donor"]), &["--overwrite=disk/donor"]);
    assert_eq!(place_of("data"), at);
    let keys = ["--rw=write", "--donorname=donor", "--overwrite=disk/donor"];
    let write = figures(&place, &args(&keys), "write");
    assert_eq!(write["total_ios"], 16);
    assert_eq!((place_of("data"), place_of("donor")), (donor_at, at));
    assert_eq!(checksum(path("data")), before);
    // New blocks for each I/O, which are freed.
    let at = place_of("data");
    let keys = ["--rw=randwrite", "--donorname=new", "--inplace=1", "--direct=1"];
    assert_eq!(figures(&place, &args(&keys), "write")["io_bytes"], MIB);
    assert_ne!(place_of("data"), at);
    assert_eq!(checksum(path("data")), before);
    let new = fs::metadata(path("new")).unwrap();
    // Beside data, a block of attributes.
    assert!(new.len() == MIB as u64 && std::os::unix::fs::MetadataExt::blocks(&new) <= 8);
    // Fathom made it, and may use it again.
    figures(&place, &args(&keys), "write");
    let _memory = Tmpfs::new(&place, "memory", 8);
    place.data("memory/data", MIB);
    let args = [engine, "--rw=write", "--donorname=disk/new", "--overwrite=memory/data"];
    place.refuses(&[&args[..], &["memory/data"]].concat(), &["memory/data is on tmpfs", "ext4"]);
}

#[test]
fn a_mapping_that_is_to_be_direct_is_reported() {
    let place = Place::new();
    place.data("data", MIB);
    let answer = place.run(&["--ioengine=mmap", "--rw=read", "--direct=1", "data"]);
    says(&answer.done().stdout, &["requested direct I/O, but used the page cache", "mmap"]);
    let answer = place.run(&["--ioengine=posixaio", "--rw=read", "--iodepth=8", "data"]).done();
    says(&(answer.stdout + &answer.stderr), &["one at a time"]);
}

/// The first job's figures of `dir` in fio's JSON.
fn figures(place: &Place, args: &[&str], dir: &str) -> Value {
    let json = place.run(&[args, &["--output-format=json"]].concat()).done().json();
    json["jobs"][0][dir].clone()
}

const NAMES: [&str; 4] = ["--name=t", "--nrfiles=40", "--filesize=4k", "--openfiles=1"];

#[test]
fn names_are_operated_on_once_each() {
    for (name, left) in [
        ("filecreate", 40),
        ("filestat", 40),
        ("filedelete", 0),
        ("dircreate", 40),
        ("dirstat", 40),
        ("dirdelete", 0),
    ] {
        let place = Place::new();
        let found = || fs::read_dir(place.path(".")).unwrap().count();
        let keys = engine(name);
        let args = [&[keys.as_str(), "--rw=write"], &NAMES[..]].concat();
        let write = figures(&place, &args, "write");
        assert_eq!(
            (&write["total_ios"], &write["io_bytes"]),
            (&40.into(), &(40 * 4096).into()),
            "{name}"
        );
        assert_eq!(write["clat_ns"]["N"], 40, "{name}");
        assert!(write["iops"].as_f64().unwrap() > 0.0, "{name}: {write}");
        assert_eq!(found(), left, "{name}");
        // With unlink=1, nothing of a run is left.
        let place = Place::new();
        let found = || fs::read_dir(place.path(".")).unwrap().count();
        let read = figures(&place, &[&[keys.as_str(), "--unlink=1"], &NAMES[..]].concat(), "read");
        assert_eq!((&read["total_ios"], found()), (&40.into(), 0), "{name}");
    }
}

#[test]
fn what_exists_is_not_created_and_never_removed() {
    let place = Place::new();
    place.data("t.0.1", 4096);
    symlink("nowhere", place.path("t.0.3")).unwrap();
    fs::create_dir(place.path("d.0.0")).unwrap();
    for name in ["filecreate", "filedelete", "dircreate", "dirdelete"] {
        let keys = engine(name);
        let args = [&[keys.as_str(), "--unlink=1"], &NAMES[..]].concat();
        place.refuses(&args, &["t.0.1 exists", name]);
        let args = ["--name=t", &keys, "--filename=t.0.3"];
        place.refuses(&args, &["t.0.3", "link"]);
    }
    for name in ["dirdelete", "dircreate"] {
        place.refuses(&["--name=d", &engine(name)], &["d.0.0 exists"]);
    }
    // Statuses may be read of anything; only what was created for the run is removed.
    let args =
        [&["--ioengine=filestat", "--unlink=1", "--filename=t.0.1:new"], &NAMES[..1]].concat();
    assert_eq!(figures(&place, &args, "read")["total_ios"], 2);
    assert!(place.path("t.0.1").exists() && !place.path("new").exists());
    let args = [&["--ioengine=dirstat", "--unlink=1", "--filename=d.0.0"], &NAMES[..1]].concat();
    assert_eq!(figures(&place, &args, "read")["total_ios"], 1);
    assert!(place.path("d.0.0").exists());
}

#[test]
fn statuses_can_be_read_repeatedly() {
    let place = Place::new();
    for call in ["stat", "lstat", "statx"] {
        let call = format!("--stat_type={call}");
        let args = [&["--ioengine=filestat", &call, "--loops=3"], &NAMES[..]].concat();
        assert_eq!(figures(&place, &args, "read")["total_ios"], 120);
        let args = [&["--ioengine=dirstat", &call, "--filename_format=d.$filenum"], &NAMES[..]];
        let more = ["--time_based", "--runtime=1", "--rate_iops=100", "--ramp_time=100ms"];
        let ios =
            figures(&place, &[&args.concat()[..], &more].concat(), "read")["total_ios"].clone();
        assert!((80..=110).contains(&ios.as_u64().unwrap()), "{ios}");
    }
}

#[test]
fn requests_that_names_cannot_honor() {
    let place = Place::new();
    let refuses =
        |keys: &[&str], parts: &[&str]| place.refuses(&[&NAMES[..], keys].concat(), parts);
    refuses(
        &["--ioengine=filecreate", "--loops=2"],
        &["filecreate uses each name once", "nrfiles"],
    );
    refuses(&["--ioengine=dirdelete", "--time_based", "--runtime=1"], &["dirdelete", "time_based"]);
    refuses(&["--ioengine=filecreate", "--readonly"], &["filecreate", "--readonly"]);
    refuses(&["--ioengine=filestat", "--readonly"], &["t.0.0 does not exist", "--readonly"]);
    refuses(&["--ioengine=filestat", "--rw=trim"], &["filestat does not trim"]);
    refuses(&["--ioengine=filestat", "--direct=1"], &["filestat does not support direct"]);
    refuses(&["--ioengine=psync", "--rw=read", "--stat_type=lstat"], &["psync", "stat_type"]);
    refuses(&["--ioengine=filecreate", "--directory=/dev/shm/../"], &["under /dev"]);
    let both = ["--name=a", "--ioengine=filedelete", "--filename=x"];
    let other = ["--name=b", "--ioengine=filestat", "--filename=x"];
    place.refuses(&[both, other].concat(), &["x is used by two jobs", "filestat"]);
}

#[test]
fn fios_example_of_many_files_runs() {
    let place = Place::new();
    let job = "[global]\ncreate_on_open=1\nnrfiles=2000\nioengine=filecreate\nfallocate=none\n\
               filesize=4k\nopenfiles=1\n[t0]\n[t1]\n[t2]\n[t3]\n";
    place.write("job.fio", job);
    let answer = place.run(&["job.fio"]).done();
    says(
        &answer.stdout,
        &["t3  filecreate · 1 job · t3.0.0 and 1999 more", "  ops/s  ", "total  "],
    );
    assert!(!answer.stdout.contains("bandwidth"), "{}", answer.stdout);
    assert_eq!(fs::read_dir(place.path(".")).unwrap().count(), 8001);
}

#[test]
fn what_a_job_cannot_remove_is_reported() {
    let place = Place::new();
    let args =
        ["run", "--eta=never", "--no-record", "--ioengine=dircreate", "--unlink=1", "--rw=write"];
    let more = ["--name=t", "--nrfiles=100", "--rate_iops=100"];
    let running = Running::start(&mut place.command(FATHOM, &[&args[..], &more].concat()));
    while fs::write(place.path("t.0.0/theirs"), "kept").is_err() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let answer = running.wait();
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    says(&(answer.stdout + &answer.stderr), &["cannot remove t.0.0 (unlink=1)", "not empty"]);
    assert_eq!(place.read("t.0.0/theirs"), "kept");
    assert_eq!(fs::read_dir(place.path(".")).unwrap().count(), 1, "the others are removed");
}
