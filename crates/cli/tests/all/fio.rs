//! What programs made for fio find: a program of that name, and its logs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{FATHOM, Place, Running, says};
use rustix::process::Signal;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn started_as_fio_it_prints_what_fio_prints() {
    let place = Place::new();
    symlink(FATHOM, place.path("fio")).unwrap();
    let fio = |args: &[&str]| {
        Running::start(&mut place.command("./fio", &[&["--eta=never"], args].concat())).wait()
    };
    let answer =
        fio(&["--name=a", "--rw=randrw", "--size=1m", "--bs=4k", "--gtod_reduce=1"]).done();
    says(&answer.stdout, &["a: (groupid=0, jobs=1): err= 0", "  read: IOPS=", "  write: IOPS="]);
    says(&answer.stdout, &["issued rwts: total=", "Run status group 0 (all jobs):"]);
    assert_eq!(answer.stderr, "");
    let json = fio(&["--name=a", "--rw=read", "--size=1m", "--output-format=json"]).done().json();
    assert_eq!(json["jobs"][0]["read"]["total_ios"], 256);
    assert_eq!(fio(&["--version"]).done().stdout, "fio-3.42\n");
    assert_eq!(fio(&["--parse-only"]).done().stdout, "");
    assert_eq!(fio(&["--parse-only", "--name=a", "--nosuchkey=1"]).code, Some(1));
    says(&fio(&["--enghelp"]).done().stdout, &["io_uring", "libaio", "psync"]);
    says(&fio(&["--enghelp=io_uring"]).done().stdout, &["hipri", "sqthread_poll"]);
    says(&fio(&["--cmdhelp=bs"]).done().stdout, &["blocksize"]);
    assert!(place.home().read_dir().unwrap().next().is_none(), "no record is kept");
}

const LOGS: [&str; 9] = [
    "--name=a",
    "--rw=read",
    "--ioengine=null",
    "--size=1g",
    "--time_based",
    "--log_avg_msec=100",
    "--write_bw_log=x",
    "--write_lat_log",
    "--write_iops_log=x",
];

/// Times, values and directions of a log.
fn entries(text: &str) -> Vec<(u64, u64, u64)> {
    let entry = |line: &str| {
        let fields: Vec<u64> = line.split(", ").map(|field| field.parse().unwrap()).collect();
        assert_eq!(fields.len(), 5, "{line}");
        (fields[0], fields[1], fields[2])
    };
    text.lines().map(entry).collect()
}

#[test]
fn logs_have_an_entry_for_each_interval() {
    let place = Place::new();
    place.write("x_bw.1.log", "an older log\n");
    let more = ["--runtime=1", "--write_hist_log=x", "--log_hist_msec=300", "--numjobs=2"];
    place.run(&[&LOGS[..], &more].concat()).done();
    for name in ["x_bw.1", "x_bw.2", "x_iops.1", "a_slat.1", "a_clat.2", "a_lat.1"] {
        let entries = entries(&place.read(&format!("{name}.log")));
        assert!((3..=12).contains(&entries.len()), "{name}: {entries:?}");
        assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0), "{name}: {entries:?}");
        assert!(entries.iter().all(|entry| entry.2 == 0), "{name}: {entries:?}");
    }
    let iops = entries(&place.read("x_iops.1.log"));
    let bw = entries(&place.read("x_bw.1.log"));
    assert!(iops.iter().zip(&bw).all(|(iops, bw)| bw.1.abs_diff(iops.1 * 4) <= 4), "4 KiB each");
    let histogram = place.read("x_clat_hist.1.log");
    assert_eq!(histogram.lines().next().unwrap().split(", ").count(), 3 + 1856);
}

#[test]
fn a_killed_run_keeps_its_log_and_a_target_is_no_log() {
    let place = Place::new();
    let run = ["run", "--no-record", "--eta=never", "--runtime=60"];
    let running = place.start(&[&run[..], &LOGS].concat());
    let until = Instant::now() + Duration::from_secs(20);
    while std::fs::read_to_string(place.path("x_bw.1.log")).unwrap_or_default().lines().count() < 3
    {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(20));
    }
    running.signal(Signal::KILL);
    running.wait();
    assert!(entries(&place.read("x_bw.1.log")).len() >= 3);
    place.data("x_bw.1.log", 4096);
    let used = ["--name=a", "--rw=read", "--filename=x_bw.1.log", "--write_bw_log=x"];
    place.refuses(&used, &["x_bw.1.log", "which the run uses"]);
}
