//! One rule for all that fathom writes beside its targets: nothing below /dev, and what a job file names only creates.
#![allow(clippy::unwrap_used)]

use crate::common::{Answer, FATHOM, MIB, Place, Running, assert_one_error, is_root, tool};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

const JOB: &str = "[j]\nrw=read\nioengine=null\nsize=1m\n";
const KEYS: [(&str, &str); 4] = [
    ("write_bw_log=in", "in_bw.1.log"),
    ("write_iops_log=in", "in_iops.1.log"),
    ("write_lat_log=in", "in_clat.1.log"),
    ("write_hist_log=in\nlog_hist_msec=100", "in_clat_hist.1.log"),
];

#[test]
fn a_job_file_replaces_no_file_through_its_logs() {
    let place = Place::new();
    for (key, name) in KEYS {
        place.write("job.fio", format!("{JOB}{key}\n"));
        place.write(name, "precious");
        let before = place.look();
        place.refuses(&["job.fio"], &[name, "was not written by fathom", "remove it"]);
        assert_eq!(place.look(), before);
        fs::remove_file(place.path(name)).unwrap();
        place.run(&["job.fio"]).done();
    }
    // The default name comes from the job file, too.
    place.write("job.fio", format!("{JOB}write_bw_log\n"));
    place.write("j_bw.1.log", "precious");
    place.refuses(&["job.fio"], &["j_bw.1.log"]);
    place.refuses(&["--write_bw_log", "job.fio"], &["j_bw.1.log"]);
    assert_eq!(place.read("j_bw.1.log"), "precious");
    // The command line may.
    let named = ["--name=j", "--rw=read", "--ioengine=null", "--size=1m", "--write_bw_log"];
    place.run(&named).done();
    assert_ne!(place.read("j_bw.1.log"), "precious");
    place.write("in_bw.1.log", "precious");
    place.write("job.fio", JOB);
    place.run(&["--write_bw_log=in", "job.fio"]).done();
    assert_ne!(place.read("in_bw.1.log"), "precious");
}

#[test]
fn logs_of_fathom_are_replaced_until_somebody_changes_them() {
    let place = Place::new();
    place.write("job.fio", format!("{JOB}write_bw_log=in\nwrite_lat_log=in\n"));
    for _ in 0..2 {
        place.run(&["job.fio"]).done();
        assert_eq!(place.read("in_lat.1.log").lines().count(), 256);
    }
    // They are no targets that fathom made.
    place.refuses(&["--rw=write", "in_lat.1.log"], &["--overwrite=in_lat.1.log"]);
    fs::hard_link(place.path("in_lat.1.log"), place.path("kept")).unwrap();
    place.refuses(&["job.fio"], &["in_lat.1.log", "was not written by fathom"]);
    fs::remove_file(place.path("in_lat.1.log")).unwrap();
    place.run(&["job.fio"]).done();
    assert_eq!(place.read("kept").lines().count(), 256);
    let mut log = OpenOptions::new().append(true).open(place.path("in_lat.1.log")).unwrap();
    log.write_all(b"a note of mine\n").unwrap();
    place.refuses(&["job.fio"], &["in_lat.1.log", "was changed since"]);
    // What one log is refused for changes no other.
    place.write("in_clat.1.log", "mine");
    let before = place.look();
    place.refuses(&["job.fio"], &["in_"]);
    assert_eq!(place.look(), before);
}

#[test]
fn without_attributes_logs_of_a_job_file_are_not_replaced() {
    let name = "without_attributes_logs_of_a_job_file_are_not_replaced";
    if !is_root(name) {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("plain")).unwrap();
    let at = place.path("plain");
    let at = at.to_str().unwrap();
    tool("mount", &["-t", "ramfs", "none", at]);
    place.write("job.fio", format!("{JOB}write_bw_log={at}/in\n"));
    let answers = [(); 2].map(|()| place.run(&["job.fio"]));
    let named = place.run(&[
        &format!("--write_bw_log={at}/in"),
        "--ioengine=null",
        "--rw=read",
        "--size=1m",
    ]);
    tool("umount", &[at]);
    let [first, second] = answers;
    first.done();
    assert_one_error(&second.stderr, &["in_bw.1.log", "remove it"]);
    named.done();
}

#[test]
fn nothing_is_written_below_dev() {
    let place = Place::new();
    place.data("data", MIB);
    symlink("/dev/shm", place.path("link")).unwrap();
    let run = ["run", "--eta=never", "--rw=read", "--sampling=off", "data"];
    let ask = |more: &[&str]| place.ask(&[&run[..], more].concat());
    for dir in
        ["/dev/shm/fathom-r", "/dev/fathom-r/a/b", "link/fathom-r", "/dev/../dev/shm/fathom-r"]
    {
        let [record, output] = ["--record", "--output"].map(|key| format!("{key}={dir}"));
        let log = format!("--write_bw_log={dir}");
        for answer in [
            ask(&[&record]),
            ask(&["--no-record", &output]),
            ask(&["--no-record", &log]),
            place.ask(&["record", &record]),
            place.ask(&["stacks", "--duration=50ms", "-o", dir]),
        ] {
            assert_eq!(answer.code, Some(1), "{dir}: {}", answer.stderr);
            let is_missing = dir.contains("/a/") && answer.stderr.contains("does not exist");
            let why = if is_missing { "does not exist" } else { "no files under /dev" };
            assert_one_error(&answer.stderr, &[why]);
        }
    }
    assert!(!Path::new("/dev/fathom-r").exists());
    let in_memory = fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().file_name());
    let mut ours = in_memory.filter(|name| name.to_string_lossy().starts_with("fathom-r"));
    assert_eq!(ours.next(), None);
}

#[test]
fn a_stream_that_is_not_open_for_writing_is_refused_before_the_run() {
    let place = Place::new();
    place.data("data", MIB);
    place.write("mine", "mine");
    let run = "run --no-record --eta=never --rw=write --size=1m --filename=new --output=/dev/fd/7";
    let shell = |redirect: &str| -> Answer {
        let script = format!("exec \"$0\" {run} {redirect}");
        Running::start(&mut place.command("sh", &["-c", &script, FATHOM])).wait()
    };
    let refused = shell("7<mine");
    assert_eq!(refused.code, Some(1));
    assert_one_error(&refused.stderr, &["/dev/fd/7", "not open for writing"]);
    assert_eq!(place.read("mine"), "mine");
    assert!(!place.path("new").exists());
    shell("7<>mine").done();
    assert_ne!(place.read("mine"), "mine");
    drop(File::create(Path::new(&place.path("other"))).unwrap());
    shell("7>>other").done();
    assert!(place.read("other").contains("IOPS"));
}

#[test]
fn a_name_that_is_not_utf8_is_not_taken_for_another() {
    let place = Place::new();
    let mut command = place.command(FATHOM, &["run", "--rw=read", "--size=1m"]);
    let answer = Running::start(command.arg(OsStr::from_bytes(b"--filename=\xff"))).wait();
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""));
    assert_one_error(&answer.stderr, &["'--filename=\\xff' is not valid UTF-8"]);
}
