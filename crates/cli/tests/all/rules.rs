//! Each finding of `run` that does not depend on the machine, from a run of the program that deserves it.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{Loop, MIB, Place, Tmpfs, as_root, is_root, says, tool, until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::OpenOptions;
use std::time::Duration;

/// The findings of a run, by their rules.
#[track_caller]
fn findings(place: &Place, args: &[&str]) -> Vec<Value> {
    let json = place.run(&[&["--output-format=json"], args].concat()).json();
    json["fathom"]["findings"].as_array().unwrap().clone()
}

/// Asserts that the run has findings of these rules; returns the first of them.
#[track_caller]
fn fires(place: &Place, rules: &[&str], args: &[&str]) -> Value {
    let all = findings(place, args);
    let of = |rule: &str| all.iter().find(|finding| finding["rule"] == rule).cloned();
    for rule in rules {
        assert!(of(rule).is_some(), "{rule} is not among {all:#?} of {args:?}");
    }
    of(rules[0]).unwrap()
}

#[track_caller]
fn silent(place: &Place, rule: &str, args: &[&str]) {
    let all = findings(place, args);
    assert!(all.iter().all(|finding| finding["rule"] != rule), "{rule}: {all:#?}");
}

#[test]
fn a_queue_depth_that_the_engine_does_not_have() {
    let place = Place::new();
    place.data("data", MIB);
    for engine in ["psync", "sync", "mmap", "pvsync2", "splice"] {
        let args = ["--rw=randread", "--iodepth=32", &format!("--ioengine={engine}"), "data"];
        let finding = fires(&place, &["synchronous-engine"], &args);
        says(&finding["summary"].to_string(), &["iodepth=32 has no effect", engine]);
        says(&finding["next_step"].to_string(), &["numjobs=32"]);
    }
    let page = place.run(&["--rw=randread", "--iodepth=32", "--ioengine=psync", "data"]).done();
    says(&page.stdout, &["iodepth=32 requested", "iodepth=32 has no effect"]);
    silent(&place, "synchronous-engine", &["--rw=randread", "--ioengine=psync", "data"]);
    let names = ["--ioengine=filecreate", "--nrfiles=4", "--size=16k", "--iodepth=2", "--rw=write"];
    let finding = fires(&place, &["synchronous-engine"], &names);
    assert_eq!(finding["next_step"], "Use numjobs=2", "there is no other engine that does it");
}

#[test]
fn a_queue_depth_that_flushes_keep_down() {
    let place = Place::new();
    let args = ["--rw=write", "--size=2m", "--iodepth=32", "--fsync=1", "--direct=1"];
    let finding = fires(&place, &["depth-not-reached"], &args);
    says(&finding["next_step"].to_string(), &["fsync"]);
    silent(&place, "depth-not-reached", &["--rw=write", "--size=2m", "--fsync=1"]);
}

#[test]
fn the_page_cache() {
    let place = Place::new();
    let new = ["--rw=write", "--bs=64k", "--size=64m"];
    fires(&place, &["buffered", "unflushed-writes"], &new);
    silent(&place, "unflushed-writes", &[&new[..], &["--end_fsync=1"]].concat());
    let buffered = [&new[..], &["--buffered=1"]].concat();
    fires(&place, &["smaller-than-memory"], &buffered);
    silent(&place, "buffered", &buffered);
    place.data("data", MIB);
    let direct = ["--rw=read", "--ioengine=mmap", "--direct=1", "data"];
    fires(&place, &["direct-refused"], &direct);
    let mapped = ["--rw=read", "--ioengine=mmap", "--buffered=1", "data"];
    let finding = fires(&place, &["smaller-than-memory"], &mapped);
    says(&finding["next_step"].to_string(), &["ioengine=io_uring"]);
}

#[test]
fn files_that_no_disk_serves() {
    let place = Place::new();
    tool("truncate", &["-s", "64M", place.path("holes").to_str().unwrap()]);
    let read = ["--rw=randread", "--bs=64k", "--direct=1"];
    fires(&place, &["sparse-target"], &[&read[..], &["holes"]].concat());
    tool("fallocate", &["-l", "64M", place.path("unwritten").to_str().unwrap()]);
    fires(&place, &["direct-reads-missing"], &[&read[..], &["unwritten"]].concat());
    if !is_root("files_that_no_disk_serves") {
        return;
    }
    let _memory = Tmpfs::new(&place, "memory", 8);
    fires(&place, &["in-memory"], &["--rw=write", "--size=1m", "--filename=memory/new"]);
}

#[test]
fn a_device_with_less_in_flight_than_requested_and_a_cache_before_it() {
    let Some(_alone) = as_root("a_device_with_less_in_flight_than_requested") else { return };
    let place = Place::new();
    place.data("image", 64 * MIB);
    let device = Loop::on(&place.path("image"));
    // Buffered, libaio reads one block at a time.
    let one = ["--rw=randread", "--bs=4k", "--iodepth=32", "--ioengine=libaio", "--buffered=1"];
    fires(&place, &["device-depth"], &[&one[..], &[&device.0]].concat());
    let again = ["--rw=randread", "--norandommap", "--bs=64k", "--io_size=512m", "--buffered=1"];
    fires(&place, &["cached-reads"], &[&again[..], &["--invalidate=0", &device.0]].concat());
    let polled = ["--rw=read", "--size=1m", "--ioengine=pvsync2", "--hipri", "--direct=1"];
    fires(&place, &["not-polled"], &[&polled[..], &[&device.0]].concat());
}

#[test]
fn jobs_that_get_in_each_other_s_way_or_do_nothing() {
    let place = Place::new();
    place.data("data", MIB);
    fires(&place, &["same-blocks"], &["--rw=read", "--numjobs=2", "data"]);
    let paced = ["--rw=randread", "--rate_iops=50m", "--time_based", "--runtime=300ms", "data"];
    fires(&place, &["could-not-keep-up"], &paced);
    let jobs = "--filename=data --rw=read --name=first --exitall --name=late --startdelay=30";
    let jobs: Vec<&str> = jobs.split(' ').collect();
    fires(&place, &["nothing-done"], &jobs);
}

#[test]
fn rates_that_change_while_a_job_runs() {
    let place = Place::new();
    place.data("data", MIB);
    let read = ["run", "--name=a", "--rw=randread", "--ioengine=psync", "--direct=1"];
    let more = ["--time_based", "--runtime=11", "--eta=never", "--record=kept", "--filename=data"];
    let run = place.start(&[&read[..], &more].concat());
    until("a sample", || place.path("kept/samples.ndjson").metadata().is_ok_and(|m| m.len() > 0));
    // Nothing else is sure to halve what every disk does.
    for _ in 0..2 {
        run.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(2500));
        run.signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(700));
    }
    run.wait().done();
    let record: Value = serde_json::from_str(&place.read("kept/record.json")).unwrap();
    says(&record["findings"].to_string(), &["\"noisy\"", "IOPS of job a are not stable"]);
}

#[test]
fn a_file_that_is_truncated_while_it_is_read() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let read = ["run", "--eta=never", "--record=kept", "--rw=randread", "--bs=64k", "--time_based"];
    let more = ["--runtime=3", "--norandommap", "--buffered=1", "--continue_on_error=all", "data"];
    let run = place.start(&[&read[..], &more[..]].concat());
    until("a sample", || place.path("kept/samples.ndjson").metadata().is_ok_and(|m| m.len() > 0));
    let file = OpenOptions::new().write(true).open(place.path("data")).unwrap();
    file.set_len(4 * MIB as u64 + 4096).unwrap();
    run.wait().done();
    let record: Value = serde_json::from_str(&place.read("kept/record.json")).unwrap();
    let rules = record["findings"].to_string();
    says(&rules, &["target-changed", "io-errors", "short-ios", "continued as requested"]);
}
