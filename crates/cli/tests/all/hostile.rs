//! Untrusted records: whatever the directory contains, reading it ends, in bounded memory.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{FATHOM, Place, Running, assert_one_error, tool};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const START: u64 = 1_795_289_760_000_000_000;
const SECOND: u64 = 1_000_000_000;
/// Address space of a reader, in bytes: more than a record may take, less than a machine has.
const MEMORY: u64 = 2 << 30;

/// A directory with a record of some samples, as `fathom watch` leaves it.
fn record(place: &Place, name: &str) -> PathBuf {
    let dir = place.path(name);
    fs::create_dir_all(&dir).unwrap();
    let host = r#"{"kernel":"","cpu_model":"","cpus_online":1}"#;
    let watch = r#"{"interval_ns":1000000000,"cost":[],"missing":[]}"#;
    let json = format!(
        r#"{{"record_version":1,"fathom_version":"","command":[],"started_unix_ns":{START},"elapsed_ns":0,"facts":{{"host":{host},"targets":[]}},"plan":{{}},"jobs":[],"disks":[],"watch":{watch},"interrupted":null,"findings":[]}}"#
    );
    fs::write(dir.join("record.json"), json).unwrap();
    let samples: String = (0..3).map(|n| sample(n, "")).collect();
    fs::write(dir.join("samples.ndjson"), samples).unwrap();
    dir
}

/// A line of samples with a CPU and `more` of the machine.
fn sample(second: u64, more: &str) -> String {
    let at = second * SECOND;
    let unix = START + at;
    let disk = r#""disks":[]"#;
    let cost = r#""cost":[{"sampler":"system","samples":1,"cpu_ns":1,"missed":0}]"#;
    format!(
        "{{\"elapsed_ns\":{at},\"unix_ns\":{unix},\"jobs\":[],\"machine\":{{{cost},{disk}{more}}}}}\n"
    )
}

/// The reader's output, in an address space of [`MEMORY`].
fn replay(place: &Place, dir: &Path) -> crate::common::Answer {
    let limit = format!("--as={MEMORY}");
    let args = [&limit, FATHOM, "top", "--format=csv", "--replay", dir.to_str().unwrap()];
    Running::start(&mut place.command("prlimit", &args)).wait()
}

#[track_caller]
fn refused(place: &Place, dir: &Path, parts: &[&str]) {
    let answer = replay(place, dir);
    assert_eq!((answer.code, answer.signal), (Some(1), None), "{parts:?}: {}", answer.stderr);
    let last = answer.stderr.lines().last().unwrap_or_default();
    assert_one_error(last, parts);
}

fn sparse(path: &Path, len: u64) {
    File::options().create(true).append(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn a_sound_record_is_read_in_the_same_bounds() {
    let place = Place::new();
    let dir = record(&place, "sound");
    let answer = replay(&place, &dir).done();
    assert_eq!(answer.stdout.lines().count(), 3, "{}", answer.stdout);
}

#[test]
fn files_of_a_record_are_regular_files() {
    let place = Place::new();
    for name in ["record.json", "samples.ndjson", "stacks.ndjson"] {
        let dir = record(&place, name);
        let file = dir.join(name);
        let _ = fs::remove_file(&file);
        tool("mkfifo", &[file.to_str().unwrap()]);
        refused(&place, &dir, &[name, "FIFO", "not a regular file"]);
        fs::remove_file(&file).unwrap();
        symlink("/dev/zero", &file).unwrap();
        refused(&place, &dir, &[name, "symbolic link"]);
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        refused(&place, &dir, &[name, "directory"]);
    }
    tool("mkfifo", &[place.path("pipe").to_str().unwrap()]);
    refused(&place, &place.path("pipe"), &["pipe"]);
}

#[test]
fn a_record_without_end_is_refused() {
    let place = Place::new();
    let dir = record(&place, "large");
    sparse(&dir.join("record.json"), 10 << 40);
    refused(&place, &dir, &["record.json", "10995116277760 bytes", "1073741824"]);
    // A hole, alone and behind samples.
    let dir = record(&place, "hole");
    fs::write(dir.join("samples.ndjson"), "").unwrap();
    sparse(&dir.join("samples.ndjson"), 10 << 40);
    refused(&place, &dir, &["samples.ndjson", "longer than 16777216 bytes"]);
    let dir = record(&place, "tail");
    sparse(&dir.join("samples.ndjson"), 10 << 40);
    refused(&place, &dir, &["samples.ndjson", "longer than 16777216 bytes"]);
    let dir = record(&place, "stacks");
    sparse(&dir.join("stacks.ndjson"), 10 << 40);
    refused(&place, &dir, &["stacks.ndjson", "longer than 16777216 bytes"]);
}

#[test]
fn lines_that_hold_no_sample_are_not_passed_over_for_ever() {
    let place = Place::new();
    let dir = record(&place, "empty-lines");
    let mut file = File::options().append(true).open(dir.join("samples.ndjson")).unwrap();
    file.write_all(&vec![b'\n'; 256 << 20]).unwrap();
    file.write_all(sample(9, "").as_bytes()).unwrap();
    refused(&place, &dir, &["samples.ndjson", "no sample"]);
}

#[test]
fn memory_and_time_are_bounded_whatever_the_json_holds() {
    let place = Place::new();
    // Each of these takes some hundred times its length in memory.
    let histogram = r#"{"count":1,"sum_ns":1,"min_ns":1,"max_ns":1,"buckets":[[1,1]]}"#;
    let device = format!(
        r#"{{"name":"a","issued":0,"completed":0,"requeued":0,"merged":0,"split":0,"errors":0,"sizes":[],"queue":{histogram},"driver":{histogram}}}"#
    );
    let devices = vec![device; 60_000].join(",");
    let more = format!(r#","blocks":{{"unplugs":[],"one_in":1,"devices":[{devices}]}}"#);
    let dir = record(&place, "histograms");
    fs::write(dir.join("samples.ndjson"), sample(0, &more) + &sample(1, &more)).unwrap();
    refused(&place, &dir, &["samples.ndjson", "histograms", "4096"]);
    // Comparing two of these would take hours.
    let counts = (0..1_000_000).map(|cpu| format!("[{cpu},1]")).collect::<Vec<_>>().join(",");
    let more = format!(r#","submits":[{{"device":"a","by_cpu":[{counts}]}}]"#);
    let dir = record(&place, "steps");
    fs::write(dir.join("samples.ndjson"), sample(0, &more) + &sample(1, &more)).unwrap();
    refused(&place, &dir, &["samples.ndjson", "steps", "2147483648"]);
    // A job of a run's samples has three; replays do not need them.
    let dirs = r#"{"read":{"ios":0,"bytes":0,"short_ios":0,"errors":0},"write":{"ios":0,"bytes":0,"short_ios":0,"errors":0},"trim":{"ios":0,"bytes":0,"short_ios":0,"errors":0}}"#;
    let clat = format!(r#"{{"read":{histogram},"write":{histogram},"trim":{histogram}}}"#);
    let job = format!(r#"{{"phase":"running","dirs":{dirs},"in_flight":0,"clat":{clat}}}"#);
    let jobs = format!("\"jobs\":[{}]", vec![job; 25_000].join(","));
    let dir = record(&place, "jobs");
    let samples: String = (0..2).map(|n| sample(n, "").replace("\"jobs\":[]", &jobs)).collect();
    fs::write(dir.join("samples.ndjson"), samples).unwrap();
    replay(&place, &dir).done();
    let dir = record(&place, "stacks");
    let stack = format!("{{\"kernel\":[{}]}}\n", vec!["\"a\""; 3_000_000].join(","));
    fs::write(dir.join("stacks.ndjson"), stack.repeat(12)).unwrap();
    refused(&place, &dir, &["stacks.ndjson", "memory"]);
    // Depth.
    let dir = record(&place, "deep");
    fs::write(dir.join("record.json"), "[".repeat(10 << 20)).unwrap();
    refused(&place, &dir, &["record.json"]);
    fs::write(dir.join("record.json"), "{\"a\":".repeat(10 << 20)).unwrap();
    refused(&place, &dir, &["record.json"]);
}

#[test]
fn numbers_at_their_limits_are_numbers() {
    let place = Place::new();
    let dir = record(&place, "numbers");
    let max = u64::MAX;
    let line = |elapsed: u64, unix: u64| {
        format!(
            "{{\"elapsed_ns\":{elapsed},\"unix_ns\":{unix},\"jobs\":[],\"machine\":{{\"intervals_merged\":{max},\"cost\":[{{\"sampler\":\"a\",\"samples\":{max},\"cpu_ns\":{max},\"missed\":{max}}}]}}}}\n"
        )
    };
    let samples = [line(0, max), line(max, 0), line(max, max)].concat();
    fs::write(dir.join("samples.ndjson"), samples).unwrap();
    let answer = replay(&place, &dir);
    assert_eq!(answer.signal, None);
    assert!(!answer.stderr.contains("panicked"), "{}", answer.stderr);
}

#[test]
fn only_segments_of_a_ring_are_read() {
    let place = Place::new();
    record(&place, "elsewhere");
    fs::create_dir(place.path("ring")).unwrap();
    symlink("../elsewhere", place.path("ring/00000001-20261121-193600")).unwrap();
    record(&place, "ring/holiday");
    refused(&place, &place.path("ring"), &["ring", "contains no record"]);
    record(&place, "ring/00000002-20261121-193600");
    replay(&place, &place.path("ring")).done();
}
