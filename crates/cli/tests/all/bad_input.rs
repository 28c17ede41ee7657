//! Each bad request gives one clear error, changes nothing, and fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{FATHOM, MIB, Place, Running, Tmpfs, assert_one_error, is_root, says};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

/// A place with a file of 1 MiB.
fn place() -> Place {
    let place = Place::new();
    place.data("data", MIB);
    place
}

#[test]
fn keys_and_values() {
    let place = place();
    place.refuses(&["--rw=read", "--iodeth=4", "data"], &["iodeth", "did you mean 'iodepth'"]);
    place.refuses(&["--rw=read", "--frobnicate=4", "data"], &["frobnicate", "--help"]);
    place.refuses(&["--rw=read", "--iodepth=2000000000", "data"], &["iodepth", "32768"]);
    place.refuses(&["--rw=read", "--bs=0", "data"], &["bs", "0"]);
    place.refuses(&["--rw=read", "--size=99999999999999999999", "data"], &["size", "2^64"]);
    place.refuses(&["--rw=read", "--exec_prerun=touch x", "data"], &["exec_prerun", "never runs"]);
    place.refuses(&[], &["no jobs", "fathom run --rw="]);
    place.write("bad.fio", "[a]\nrw=read\nfilename=data\niodeth=4\n");
    place.refuses(&["bad.fio"], &["bad.fio:4", "iodeth"]);
}

#[test]
fn targets() {
    let place = place();
    place.write("empty", "");
    fs::create_dir(place.path("dir")).unwrap();
    place.refuses(&["--rw=read", "nosuch"], &["nosuch does not exist", "size"]);
    place.refuses(&["--rw=read", "dir"], &["dir is a directory", "directory=dir"]);
    place.refuses(&["--rw=read", "empty"], &["empty is empty", "size="]);
    place.refuses(&["--rw=read", "--size=1m", "/nodir/file"], &["nodir"]);
    place.refuses(&["--rw=read", "/dev/null"], &["/dev/null", "neither"]);
    place.refuses(&["--rw=read", "--bs=2m", "data"], &["bs=2 MiB", "1 MiB"]);
    place.refuses(
        &["--rw=read", "--direct=1", "--bs=1000", "data"],
        &["1000", "multiples of", "bs="],
    );
    place
        .refuses(&["--rw=read", "--direct=1", "--offset=100", "data"], &["offset", "multiples of"]);
    place.refuses(&["--rw=read", "--offset=1g", "data"], &["offset", "beyond the end"]);
}

#[test]
fn more_than_there_is() {
    let place = place();
    let jobs = ["--rw=read", "--iodepth=16384", "--bs=1m", "--numjobs=4096", "data"];
    place.refuses(&jobs, &["memory", "iodepth", "numjobs"]);
    place.refuses(&["--rw=write", "--size=999t", "new"], &["new", "free", "smaller"]);
    let before = place.look();
    let run = ["--nofile=20:20", FATHOM, "run", "--no-record", "--eta=never", "--rw=read"];
    let args = [&run[..], &["--numjobs=50", "data"]].concat();
    let answer = Running::start(&mut place.command("prlimit", &args)).wait();
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""));
    assert_one_error(&answer.stderr, &["open files", "RLIMIT_NOFILE is 20", "numjobs"]);
    for engine in ["--ioengine=io_uring", "--ioengine=psync"] {
        let run = ["--as=300000000", FATHOM, "run", "--no-record", "--eta=never", "--rw=read"];
        let more = ["--numjobs=200", "--iodepth=64", "--bs=64k", engine, "data"];
        let answer =
            Running::start(&mut place.command("prlimit", &[&run[..], &more].concat())).wait();
        assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""), "{}", answer.stderr);
        assert!(answer.stderr.contains("200 workers need"), "{}", answer.stderr);
        assert!(answer.stderr.contains("RLIMIT_AS"), "{}", answer.stderr);
    }
    assert_eq!(place.look(), before);
}

#[test]
fn job_files() {
    let place = place();
    place.write("binary.fio", [0_u8, 159, 146, 150]);
    place.write("latin.fio", b"[a]\n; caf\xe9\n");
    File::create(place.path("large.fio")).unwrap().set_len(100 << 20).unwrap();
    let mut text = File::create(place.path("text.fio")).unwrap();
    (0..100).for_each(|_| text.write_all(&vec![b'#'; MIB]).unwrap());
    place.write("a.fio", "[a]\nrw=read\ninclude b.fio\n");
    place.write("b.fio", "include a.fio\n");
    place.write("self.fio", "[a]\ninclude self.fio\n");
    place.refuses(&["binary.fio"], &["binary.fio", "not a job file"]);
    place.refuses(&["latin.fio"], &["latin.fio", "not UTF-8"]);
    place.refuses(&["large.fio"], &["large.fio", "16 MiB"]);
    place.refuses(&["text.fio"], &["text.fio", "16 MiB"]);
    place.refuses(&["a.fio"], &["a.fio", "includes itself"]);
    place.refuses(&["self.fio"], &["self.fio", "includes itself"]);
    place.refuses(&["nosuch.fio"], &["nosuch.fio", "No such file"]);
    place.refuses(&["/dev/zero"], &["/dev/zero is a device, not a job file"]);
}

#[test]
fn no_output_takes_the_place_of_what_is_used() {
    let place = place();
    place.write("jobs.fio", "[a]\nrw=read\nfilename=data\ninclude more.fio\n");
    place.write("more.fio", "bs=4k\n");
    std::os::unix::fs::symlink("data", place.path("link")).unwrap();
    fs::hard_link(place.path("data"), place.path("second-name")).unwrap();
    let absolute = place.path("data");
    let absolute = absolute.to_str().unwrap();
    for name in ["data", "./data", "link", "second-name", absolute] {
        place.refuses(&["--rw=read", &format!("--output={name}"), "data"], &[name]);
    }
    place.refuses(&["--output=./jobs.fio", "jobs.fio"], &["jobs.fio, which the run uses"]);
    place.refuses(&["--output=more.fio", "jobs.fio"], &["more.fio, which the run uses"]);
    place.refuses(
        &["--rw=write", "--size=1m", "--output=./new", "new"],
        &["new, which the run uses"],
    );
    place.refuses(&["--rw=read", "--output=a", "--output=b", "data"], &["given as both"]);
    fs::create_dir(place.path("kept")).unwrap();
    let both = ["--rw=read", "--output=kept/record.json", "data"];
    let answer = place.ask(&[&["run", "--eta=never", "--record=kept"], &both[..]].concat());
    assert_eq!(answer.code, Some(1));
    assert_one_error(&answer.stderr, &["kept/record.json", "which the run uses"]);
    // A target that is called as a file of the record is.
    place.data("record.json", MIB);
    let before = place.look();
    let answer = place.ask(&["run", "--eta=never", "--record=.", "--rw=read", "record.json"]);
    assert_eq!(answer.code, Some(1));
    assert_one_error(&answer.stderr, &["record.json already exists"]);
    assert_eq!(place.look(), before);
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_run() {
    let place = place();
    fs::create_dir(place.path("dir")).unwrap();
    let write = |output: &str, parts: &[&str]| {
        let output = format!("--output={output}");
        place.refuses(&["--rw=write", "--size=1m", &output, "new"], parts);
    };
    write("dir", &["--output=dir", "is a directory"]);
    write("none/file", &["--output=none/file", "directory does not exist"]);
    write("/dev/fathom-none", &["creates no files under /dev"]);
    let record = ["run", "--rw=write", "--size=1m", "--record=data/x", "new"];
    assert_eq!(place.ask(&record).code, Some(1));
    // What is no file stays what it is.
    place.run(&["--rw=read", "--output=/dev/null", "data"]).done();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn refusals_are_json_for_those_who_read_json() {
    let place = place();
    for args in [&["--rw=read", "nosuch"][..], &["--iodeth=1", "data"], &["--rw=write", "data"]] {
        let answer = place.run(&[&["--output-format=json"], args].concat());
        assert_eq!(answer.code, Some(1));
        let json = answer.json();
        assert_eq!(json["fathom"]["complete"], false);
        let said = json["fathom"]["outcome"]["refused"]["because"].as_str().unwrap();
        let lines: Vec<_> =
            answer.stderr.lines().filter_map(|line| line.strip_prefix("fathom: ")).collect();
        assert!(!said.is_empty() && lines.join("; ") == said, "{said}\n{}", answer.stderr);
    }
}

#[test]
fn no_permission() {
    if !is_root("no_permission") {
        return;
    }
    // In /tmp, as user nobody may lack access to the tests' directory.
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (program, data) = (path("fathom"), path("data"));
    fs::copy(FATHOM, &program).unwrap();
    fs::write(&data, vec![7; MIB]).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o600)).unwrap();
    let place = Place::new();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", &program];
    let run = |args: &[&str]| {
        let fixed = ["run", "--no-record", "--eta=never"];
        let all = [&nobody[..], &fixed, args].concat();
        Running::start(place.command("setpriv", &all).current_dir("/")).wait()
    };
    let overwrite = format!("--overwrite={data}");
    let new = path("new");
    for (args, doing) in [
        (&["--rw=read", &data][..], "to read"),
        (&["--rw=write", &overwrite, &data], "to "),
        (&["--rw=write", "--size=1m", &new], "to create"),
    ] {
        let answer = run(args);
        assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""), "{args:?}");
        assert_one_error(&answer.stderr, &["no permission", doing, args[args.len() - 1]]);
    }
    assert!(
        fs::read(&data).unwrap().iter().all(|byte| *byte == 7) && !dir.path().join("new").exists()
    );
}

#[test]
fn a_full_disk() {
    if !is_root("a_full_disk") {
        return;
    }
    let place = Place::new();
    let _small = Tmpfs::new(&place, "small", 8);
    let write = ["--rw=write", "--bs=64k", "--fallocate=none", "--output-format=json"];
    for args in [&["--size=32m", "small/new"][..], &["--size=32m", "--rw=read", "small/new"]] {
        let answer = place.run(&[&write[..], args].concat());
        assert_eq!(answer.code, Some(1));
        says(&answer.stderr, &["small/new", "free"]);
        answer.json();
        assert!(!place.path("small/new").exists());
    }
    // Space runs out while the job writes.
    let args = ["--size=4m", "--rate=2m", "small/slow"];
    let running =
        place.start(&[&["run", "--no-record", "--eta=never"], &write[..], &args].concat());
    crate::common::until("the file", || place.path("small/slow").exists());
    let mut filler = File::create(place.path("small/filler")).unwrap();
    let block = vec![1_u8; 4096];
    while filler.write_all(&block).is_ok() {}
    let answer = running.wait();
    let json = answer.json();
    assert_eq!((answer.code, json["jobs"][0]["error"].as_i64()), (Some(1), Some(28)), "{json}");
    assert_eq!(json["fathom"]["complete"], false);
    // Also for who does not read the JSON.
    says(&answer.stderr, &["Job", "failed", "No space left"]);
}

/// The output of a command if io_uring_setup fails with `errno`.
fn without_io_uring(errno: i32, mut command: std::process::Command) -> crate::common::Answer {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    const IO_URING_SETUP: i64 = 425;
    let filter = SeccompFilter::new(
        [(IO_URING_SETUP, Vec::new())].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    // A thread of its own: what it starts inherits the filter, and the other tests do not.
    let thread = std::thread::spawn(move || {
        seccompiler::apply_filter(&program).unwrap();
        Running::start(&mut command).wait()
    });
    thread.join().unwrap()
}

#[test]
fn io_uring_is_forbidden_or_not_there() {
    let place = place();
    let (not_permitted, no_such_call) = (1, 38);
    let why = "a seccomp filter";
    for errno in [not_permitted, no_such_call] {
        let args =
            ["run", "--no-record", "--eta=never", "--output-format=json", "--rw=read", "data"];
        let run = without_io_uring(errno, place.command(FATHOM, &args));
        assert_eq!(run.code, Some(1));
        let json = run.json();
        assert_eq!(json["jobs"][0]["error"], errno);
        says(json["fathom"]["jobs"][0]["error"].as_str().unwrap(), &[why, "--ioengine=libaio"]);
        let before = place.look();
        for target in [&["data"][..], &["--size=1m"]] {
            let args = [&["limit", "--quick", "--no-record"], target].concat();
            let limit = without_io_uring(errno, place.command(FATHOM, &args));
            assert_eq!((limit.code, limit.stdout.as_str()), (Some(1), ""));
            let error = limit.stderr.lines().last().unwrap();
            assert_one_error(error, &[why, "`fathom limit` supports only io_uring"]);
        }
        assert_eq!(place.look(), before);
        let libaio = place.command(FATHOM, &[&args[..], &["--ioengine=libaio"]].concat());
        without_io_uring(errno, libaio).done();
    }
}
