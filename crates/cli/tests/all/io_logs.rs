//! fio's logs with an entry for each I/O, and latencies by priority.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{Place, says, until};
use crate::fio::script;
use rustix::process::Signal;
use serde_json::Value;

/// All logs, with all columns.
pub const LOGS: [&str; 5] = [
    "--write_lat_log=x",
    "--write_bw_log=x",
    "--write_iops_log=x",
    "--log_offset=1",
    "--log_prio=1",
];

/// An entry: time, value, direction, block size, offset and priority.
pub type Entry = [u64; 6];

pub fn entries(place: &Place, kind: &str) -> Vec<Entry> {
    let text = place.read(&format!("x_{kind}.1.log"));
    assert!(text.is_empty() || text.ends_with('\n'), "{kind}: part of a line");
    let number = |field: &str| match field.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
        None => field.parse().unwrap(),
    };
    let entry = |line: &str| line.split(", ").map(number).collect::<Vec<_>>().try_into().unwrap();
    text.lines().map(entry).collect()
}

/// The offsets of the entries of one direction, ascending.
fn offsets(entries: &[Entry], dir: u64) -> Vec<u64> {
    let of_dir = entries.iter().filter(|entry| entry[2] == dir);
    let mut offsets: Vec<u64> = of_dir.map(|entry| entry[4]).collect();
    offsets.sort_unstable();
    offsets
}

/// Checks that the latency log `kind` has the I/Os of `result`, one entry each.
#[track_caller]
pub fn agrees(result: &Value, kind: &str, entries: &[Entry]) {
    for (dir, name) in [(0, "read"), (1, "write")] {
        let latency = &result["jobs"][0][name][format!("{kind}_ns")];
        let values: Vec<u64> = entries.iter().filter(|e| e[2] == dir).map(|e| e[1]).collect();
        assert_eq!(latency["N"], values.len(), "{kind} of {name}");
        let sum = latency["mean"].as_f64().unwrap() * values.len() as f64;
        let logged = values.iter().sum::<u64>() as f64;
        // The mean has six decimals.
        assert!((sum - logged).abs() <= values.len() as f64, "{kind} of {name}: {sum}, {logged}");
    }
}

#[test]
fn each_io_has_an_entry_in_each_log() {
    let place = Place::new();
    place.data("data", 4 << 20);
    let job =
        ["--name=a", "--filename=data", "--overwrite=data", "--rw=randrw", "--size=4m", "--bs=4k"];
    for engine in ["--ioengine=io_uring", "--ioengine=libaio", "--ioengine=psync"] {
        let more = ["--iodepth=8", "--output-format=json", engine];
        let result = place.run(&[&job[..], &LOGS, &more].concat()).done().json();
        let clat = entries(&place, "clat");
        assert_eq!(clat.len(), 1024);
        for kind in ["slat", "clat", "lat"] {
            let latencies = entries(&place, kind);
            // In the JSON, synchronous engines have no submission latency.
            if (kind, engine) != ("slat", "--ioengine=psync") {
                agrees(&result, kind, &latencies);
            }
            for dir in [0, 1] {
                assert_eq!(offsets(&latencies, dir), offsets(&clat, dir), "{kind}");
            }
            assert!(latencies.iter().all(|e| (e[3], e[5]) == (4096, 0)), "{latencies:?}");
            assert!(latencies.windows(2).all(|pair| pair[0][0] <= pair[1][0]), "{latencies:?}");
        }
        let blocks = [offsets(&clat, 0), offsets(&clat, 1)].concat();
        assert_eq!(blocks.iter().sum::<u64>(), (0..1024).map(|n| n * 4096).sum::<u64>());
        assert!(entries(&place, "iops").iter().all(|entry| entry[1] == 1));
        assert_eq!(entries(&place, "iops").len(), 1024);
        let rates = entries(&place, "bw");
        assert_eq!(rates.len(), 1024);
        for (bw, clat) in rates.iter().zip(&clat) {
            assert_eq!((bw[1], bw[4]), (4_096_000_000 / clat[1].max(1), clat[4]));
        }
    }
}

#[test]
fn a_stopped_run_logs_all_its_ios_and_a_killed_one_those_before() {
    let place = Place::new();
    let job = ["run", "--no-record", "--eta=never", "--name=a", "--rw=read", "--ioengine=null"];
    let more = ["--size=1g", "--time_based", "--runtime=60", "--rate_iops=20000", "--numjobs=2"];
    let start = |format: &[&str]| {
        let running = place.start(&[&job[..], &LOGS, &more, format].concat());
        // Each run empties the logs first.
        until("entries", || {
            std::fs::metadata(place.path("x_clat.2.log")).is_ok_and(|m| m.len() > 100_000)
        });
        running
    };
    let running = start(&["--output-format=json"]);
    running.signal(Signal::INT);
    let result = running.wait().json();
    for kind in ["slat", "clat", "lat", "bw", "iops"] {
        assert_eq!(result["jobs"][0]["read"]["total_ios"], entries(&place, kind).len(), "{kind}");
    }
    std::fs::remove_file(place.path("x_clat.2.log")).unwrap();
    let running = start(&[]);
    running.signal(Signal::KILL);
    running.wait();
    // Up to a tenth of a second is lost, and at the end a part of what was just being written.
    let text = place.read("x_clat.1.log");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() > 1000, "{}", lines.len());
    assert!(lines[..lines.len() - 1].iter().all(|line| line.split(", ").count() == 6));
}

#[test]
fn latencies_are_reported_by_priority() {
    let place = Place::new();
    place.data("data", 1 << 20);
    let job =
        ["--name=a", "--filename=data", "--rw=randread", "--ioengine=io_uring", "--iodepth=4"];
    let priorities = ["--cmdprio_percentage=50", "--cmdprio_class=2", "--cmdprio=7"];
    let run = |more: &[&str]| {
        let json = ["--output-format=json"];
        place.run(&[&job[..], &priorities, &LOGS, &json, more].concat()).done().json()
    };
    let read = &run(&[])["jobs"][0]["read"];
    let [plain, own] = read["prios"].as_array().unwrap().as_slice() else { panic!("{read}") };
    let of = |one: &Value| ["prioclass", "prio", "priohint"].map(|key| one[key].as_u64().unwrap());
    assert_eq!((of(plain), of(own)), ([0, 0, 0], [2, 7, 0]));
    let logged = |priority| entries(&place, "clat").iter().filter(|e| e[5] == priority).count();
    assert_eq!(plain["clat_ns"]["N"], logged(0));
    assert_eq!(own["clat_ns"]["N"], logged(0x4007));
    assert_eq!(logged(0) + logged(0x4007), 256);
    assert!(own["clat_ns"]["percentile"]["99.000000"].is_u64());
    let text = place.run(&[&job[..], &priorities].concat()).done().stdout;
    says(&text, &["read prio 0/0/0", "read prio 2/7/0"]);
    let options = [&job[..], &priorities].concat().join(" ");
    let text = script(&place, &format!("fio --eta=never {options}")).done().stdout;
    says(&text, &["    clat prio 2/7/0 (", "    clat prio 0/0/0 (", "% of IOs) percentiles ("]);
    let total = &run(&["--lat_percentiles=1"])["jobs"][0]["read"]["prios"][1];
    assert!(total["lat_ns"]["N"].is_u64() && total["clat_ns"].is_null(), "{total}");
    let one = &run(&["--cmdprio_percentage=100"])["jobs"][0]["read"];
    assert!(one["prios"].is_null(), "a single priority is not listed: {one}");
}
