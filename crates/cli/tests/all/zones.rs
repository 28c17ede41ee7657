//! Zones of files. Those of devices are tested in the lab.
#![allow(clippy::unwrap_used)]

use crate::common::{Place, says};
use crate::io_logs::entries;
use serde_json::Value;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

fn json(place: &Place, args: &[&str]) -> Value {
    let format = ["--name=a", "--filename=data", "--overwrite=data", "--output-format=json"];
    place.run(&[&format[..], args].concat()).done().json()
}

/// Direction, offset and end of each I/O of the log of submissions.
fn ios(place: &Place) -> Vec<(u64, u64, u64)> {
    entries(place, "slat").iter().map(|e| (e[2], e[4], e[4] + e[3])).collect()
}

const LOG: [&str; 3] = ["--write_lat_log=x", "--log_offset=1", "--log_prio=1"];

#[test]
fn writes_of_a_zone_are_in_order_and_reads_below_them() {
    for engine in ["--ioengine=psync", "--ioengine=libaio", "--ioengine=io_uring"] {
        let place = Place::new();
        place.data("data", 8 << 20);
        let job =
            ["--zonemode=zbd", "--zonesize=1m", "--zonecapacity=768k", "--rw=randrw", "--bs=16k"];
        let depth = ["--iodepth=8", "--direct=1", "--io_size=16m", engine];
        let result = json(&place, &[&job[..], &depth, &LOG].concat());
        assert_eq!(result["jobs"][0]["error"], 0);
        let mut pointers = BTreeMap::<u64, u64>::new();
        let (mut reads, mut resets) = (0, 0);
        for (dir, from, to) in ios(&place) {
            let (zone, pointer) =
                (from / MIB, pointers.entry(from / MIB).or_insert(from / MIB * MIB));
            if dir == 0 {
                assert!(to <= *pointer, "{engine}: a read up to {to}, beyond {pointer}");
                reads += 1;
                continue;
            }
            if from == zone * MIB && *pointer > from {
                assert_eq!(*pointer, from + 768 * 1024, "only full zones are reset");
                resets += 1;
            } else {
                assert_eq!(from, *pointer, "{engine}");
            }
            assert!(to <= zone * MIB + 768 * 1024);
            *pointer = to;
        }
        assert!(reads > 50 && pointers.len() == 8, "{reads} reads in {pointers:?}");
        assert!(resets > 0);
    }
}

#[test]
fn jobs_share_the_zones_of_a_file() {
    let place = Place::new();
    place.data("data", 8 << 20);
    let job =
        ["--zonemode=zbd", "--zonesize=1m", "--rw=randwrite", "--bs=64k", "--max_open_zones=2"];
    let jobs =
        ["--numjobs=4", "--io_size=2m", "--ioengine=io_uring", "--iodepth=4", "--per_job_logs=0"];
    let result = json(&place, &[&job[..], &jobs].concat());
    let jobs = result["jobs"].as_array().unwrap();
    let bytes = |job: &Value| job["write"]["io_bytes"].as_u64().unwrap();
    assert_eq!(jobs.iter().map(bytes).sum::<u64>(), 8 * MIB);
    // All of it fits: where two jobs write, they do so one after the other, and nothing is overwritten.
    let read = [
        "--zonemode=zbd",
        "--zonesize=1m",
        "--rw=write",
        "--bs=4k",
        "--verify=crc32c",
        "--iodepth=4",
    ];
    let result = json(&place, &[&read[..], &["--ioengine=libaio"]].concat());
    assert_eq!(result["jobs"][0]["error"], 0);
    assert_eq!(bytes(&result["jobs"][0]), 8 * MIB);
}

#[test]
fn a_trim_resets_what_was_written() {
    let place = Place::new();
    place.data("data", 4 << 20);
    let zones = "zonemode=zbd\nzonesize=1m\nfilename=data\nioengine=psync\n";
    let jobs = format!(
        "[w]\n{zones}rw=write\nbs=64k\n[t]\nstonewall\n{zones}rw=trim\nbs=1m\n[r]\nstonewall\n{zones}rw=read\nbs=64k\n"
    );
    let answer = place.run_stdin(&jobs, &["-", "--overwrite=data", "--output-format=json"]).done();
    let jobs = &answer.json()["jobs"];
    assert_eq!(jobs[1]["trim"]["total_ios"], 4);
    assert_eq!(
        (&jobs[0]["write"]["io_bytes"], &jobs[2]["read"]["io_bytes"]),
        (&(4 * MIB).into(), &0.into())
    );
}

#[test]
fn parts_of_a_file_one_after_the_other() {
    let place = Place::new();
    place.data("data", 4 << 20);
    let job =
        ["--zonesize=256k", "--zonerange=512k", "--zoneskip=512k", "--rw=randread", "--bs=4k"];
    json(&place, &[&job[..], &["--size=1m", "--direct=0"], &LOG].concat());
    let ios = ios(&place);
    assert_eq!(ios.len(), 256);
    for (part, ios) in (0..).zip(ios.chunks(64)) {
        let start = part * MIB;
        assert!(
            ios.iter().all(|(_, from, to)| *from >= start && *to <= start + 512 * 1024),
            "{part}"
        );
    }
}

#[test]
fn what_zones_lack_is_said() {
    let place = Place::new();
    place.data("data", 1 << 20);
    let zbd = ["--name=a", "--filename=data", "--rw=read", "--zonemode=zbd"];
    place.refuses(&zbd, &["the target has no zones; set zonesize"]);
    place.refuses(&[&zbd[..], &["--zonesize=2m"]].concat(), &["there is no whole zone of 2 MiB"]);
    let nothing = place.run(&[&zbd[..], &["--zonesize=256k", "--bs=4k"]].concat()).done();
    says(&nothing.stdout, &["0"]);
}
