//! The user's data: what fathom writes to, creates and removes, and what it leaves unchanged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{Loop, MIB, Place, as_root, assert_one_error, checksum, tool, until};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

const WRITE: [&str; 2] = ["--rw=write", "--bs=64k"];

fn write<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&WRITE[..], more].concat()
}

#[test]
fn files_of_others_are_not_written_unless_that_is_permitted() {
    let place = Place::new();
    place.data("data", MIB);
    let before = checksum(place.path("data"));
    for rw in ["write", "randwrite", "rw", "randrw", "trim", "randtrim"] {
        let args = [&format!("--rw={rw}"), "data"];
        place.refuses(&args, &["data"]);
    }
    place.refuses(&write(&["data"]), &["not created by fathom", "--overwrite=data"]);
    place.refuses(&write(&["--overwrite=other", "data"]), &["--overwrite=data"]);
    place.write("job.fio", "[a]\nrw=write\nfilename=data\noverwrite=data\n");
    place.refuses(&["job.fio"], &["command line"]);
    place.run(&write(&["--overwrite=data", "data"])).done();
    assert_ne!(checksum(place.path("data")), before);
    assert_eq!(fs::metadata(place.path("data")).unwrap().len(), MIB as u64);
}

#[test]
fn what_fathom_made_it_writes_again_and_removes_if_asked() {
    let place = Place::new();
    for _ in 0..2 {
        place.run(&write(&["--size=1m", "made"])).done();
        assert_eq!(fs::metadata(place.path("made")).unwrap().len(), MIB as u64);
    }
    let before = place.look();
    place.run(&write(&["--size=1m", "--unlink=1", "passing"])).done();
    assert_eq!(place.look(), before);
    // An existing file is not removed.
    place.data("data", MIB);
    place.run(&["--rw=read", "--unlink=1", "data"]).done();
    assert!(place.path("data").exists());
}

#[test]
fn only_files_of_the_run_lose_their_blocks_between_passes() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new();
    // Each pass writes the same half of the blocks; what the layout allocated is gone after the first.
    let job = ["--rw=write:4k", "--bs=4k", "--io_size=512k", "--loops=3", "--unlink_each_loop=1"];
    let result = place.run(&[&job[..], &["--size=1m", "--output-format=json", "new"]].concat());
    assert!(result.stdout.contains("\"total_ios\": 384"), "{}", result.stdout);
    let new = fs::metadata(place.path("new")).unwrap();
    assert_eq!(new.len(), MIB as u64);
    assert!(new.blocks() * 512 < MIB as u64 * 3 / 4, "{} blocks", new.blocks());
    // An existing file keeps its data.
    place.data("data", MIB);
    let before = fs::read(place.path("data")).unwrap();
    place.run(&[&job[..], &["--overwrite=data", "data"]].concat()).done();
    let after = fs::read(place.path("data")).unwrap();
    assert_eq!(before[4096..8192], after[4096..8192]);
}

#[test]
fn what_is_appended_leaves_the_file_before_it_alone() {
    let place = Place::new();
    place.data("data", MIB);
    let before = fs::read(place.path("data")).unwrap();
    for rw in ["write", "randrw"] {
        let append = format!("--rw={rw}");
        let append = [append.as_str(), "--file_append=1", "--size=1m", "data"];
        place.refuses(&append, &["--overwrite=data"]);
        place.run(&[&append[..], &["--overwrite=data"]].concat()).done();
        assert_eq!(fs::read(place.path("data")).unwrap()[..MIB], before);
    }
    assert_eq!(fs::metadata(place.path("data")).unwrap().len(), 3 * MIB as u64);
}

#[test]
fn files_stay_within_their_directory() {
    let place = Place::new();
    place.data("data", MIB);
    fs::create_dir(place.path("inside")).unwrap();
    std::os::unix::fs::symlink("../data", place.path("inside/link")).unwrap();
    std::os::unix::fs::symlink("..", place.path("inside/up")).unwrap();
    let inside = |name: &str, parts: &[&str]| {
        let name = format!("--filename={name}");
        let args = ["--directory=inside", "--size=1m", "--overwrite=data", &name];
        place.refuses(&write(&args), parts);
    };
    inside("../data", &["'../data' is outside inside"]);
    inside("link", &["inside/link resolves to", "outside"]);
    inside("up/new", &["inside/up/new", "outside"]);
    inside("/../data", &["is outside inside"]);
    inside("/link", &["inside/link resolves to", "outside"]);
}

#[test]
fn nothing_is_made_under_dev() {
    let place = Place::new();
    for name in ["/dev/fathom-none", "/dev/shm/fathom-none", "/dev/../dev/fathom-none"] {
        place.refuses(&write(&["--size=1m", name]), &["under /dev"]);
        assert!(!Path::new(name).exists());
    }
    place.refuses(
        &write(&["--size=1m", "--directory=/dev", "--filename=fathom-none"]),
        &["under /dev"],
    );
}

#[test]
fn a_device_is_written_only_when_it_is_given_up_by_name() {
    let Some(_alone) = as_root("a_device_is_written_only_when_it_is_given_up_by_name") else {
        return;
    };
    let place = Place::new();
    place.write("image", vec![0; 4 * MIB]);
    let device = Loop::on(&place.path("image"));
    let device = device.0.as_str();
    std::os::unix::fs::symlink(device, place.path("link")).unwrap();
    place.write("job.fio", format!("[a]\nrw=write\nfilename={device}\nerase={device}\n"));
    let erase = format!("--erase={device}");
    for name in [device, "link"] {
        place.refuses(&write(&[name]), &["is a block device", "--erase="]);
    }
    place.refuses(&["--rw=randtrim", device], &["--erase="]);
    place.refuses(&write(&["--overwrite=x", "--erase=/dev/null", device]), &["--erase="]);
    place.refuses(&["job.fio"], &["--erase="]);
    place.run(&["--rw=read", device]).done();
    let before = checksum(place.path("image"));
    // Two at once: the second is refused.
    let long = ["run", "--no-record", "--eta=never", "--direct=1", "--time_based", "--runtime=50"];
    let first = place.start(&[&long[..], &write(&[&erase, device])].concat());
    until("the first to write", || checksum(place.path("image")) != before);
    let second = place.run(&write(&[&erase, device]));
    assert_eq!((second.code, second.stdout.as_str()), (Some(1), ""));
    assert_one_error(&second.stderr, &[device]);
    first.signal(Signal::INT);
    assert_eq!(first.wait().code, Some(1));
    place.run(&write(&[&erase, device])).done();
}

#[test]
fn a_device_that_only_fathom_wrote_counts_as_blank() {
    let name = "a_device_that_only_fathom_wrote_counts_as_blank";
    let Some(_alone) = as_root(name) else { return };
    let place = Place::new();
    place.write("image", vec![0; 4 * MIB]);
    let device = Loop::on(&place.path("image"));
    let device = device.0.as_str();
    let erase = format!("--erase={device}");
    let own = [
        "--bs=4k",
        "--bs=512",
        "--bs=64k --refill_buffers",
        "--bs=3k --size=1m",
        "--bs=1m --scramble_buffers=0",
        "--bs=16k --buffer_compress_percentage=50 --dedupe_percentage=30",
        "--bs=8k --zero_buffers",
        "--bs=128k --ioengine=psync --end_fsync=1",
    ];
    for keys in own {
        let keys = keys.split(' ').chain(["--rw=randwrite", &erase, device]).collect::<Vec<_>>();
        place.run(&keys).done();
        place.run(&write(&[&erase, device])).done();
    }
    let confirmed = format!("{erase}@{}", 4 * MIB);
    for (at, byte) in [(0, b'i'), (MIB - 1, 1), (3 * MIB, 1), (4 * MIB - 1, 0x53)] {
        tool("blkdiscard", &[device]);
        let file = fs::File::options().write(true).open(device).unwrap();
        file.write_all_at(&[byte], at as u64).unwrap();
        file.sync_all().unwrap();
        let said = [&format!("data that fathom did not write, at byte {at}"), &confirmed[..]];
        place.refuses(&write(&[&erase, device]), &said);
    }
    place.run(&write(&[&confirmed, "--buffer_pattern=0x5a", device])).done();
    place.refuses(&write(&[&erase, device]), &["at byte 0", &confirmed]);
    place.run(&write(&[&confirmed, device])).done();
    place.run(&write(&[&erase, device])).done();
}

#[test]
fn a_mounted_device_is_never_written() {
    let Some(_alone) = as_root("a_mounted_device_is_never_written") else { return };
    let place = Place::new();
    place.write("image", vec![0; 4 * MIB]);
    let device = Loop::on(&place.path("image"));
    let device = device.0.as_str();
    tool("mkfs.ext4", &["-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=0", device]);
    // A device with a file system requires more than its name.
    let erase = format!("--erase={device}");
    place.refuses(&write(&[&erase, device]), &["ext4", &format!("{erase}@")]);
    fs::create_dir(place.path("mounted")).unwrap();
    let at = place.path("mounted");
    let at = at.to_str().unwrap();
    tool("mount", &[device, at]);
    tool("sync", &["-f", at]);
    let before = checksum(place.path("image"));
    let size = format!("{erase}@{}", 4 * MIB);
    let answers = [&erase, &size].map(|erase| place.run(&write(&[erase, device])));
    let image = place.run(&write(&["--overwrite=image", "image"]));
    let after = checksum(place.path("image"));
    tool("umount", &[at]);
    assert_eq!(after, before);
    for answer in answers.iter().chain([&image]) {
        assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""));
        assert_one_error(&answer.stderr, &["in use", "never writes to a target in use"]);
    }
}
