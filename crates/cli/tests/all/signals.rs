//! Signals: the first ends the work early with a valid result, a later one at once, and SIGKILL
//! leaves what was sampled.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{FATHOM, MIB, Place, Running, says, until};
use fathom_model::progress::Sample;
use fathom_model::{Outcome, RunRecord};
use rustix::process::Signal;
use std::io::Write;
use std::thread;
use std::time::Duration;

const LONG: [&str; 6] =
    ["run", "--eta=never", "--rw=randread", "--time_based", "--runtime=50", "--output-format=json"];

fn long(place: &Place, more: &[&str]) -> Running {
    works(place.start(&[&LONG[..], more].concat()))
}

fn works(running: Running) -> Running {
    // A worker works once its thread is there beside the main one and the one for signals.
    let tasks = format!("/proc/{}/task", running.id());
    until("a worker", || std::fs::read_dir(&tasks).is_ok_and(|tasks| tasks.count() >= 3));
    running
}

#[test]
fn the_first_signal_ends_the_run_with_a_complete_result() {
    for (signal, name) in [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM")] {
        let place = Place::new();
        place.data("data", MIB);
        let running = long(&place, &["--record=kept", "--numjobs=2", "data"]);
        running.signal(signal);
        // `timeout` sends it twice in a row.
        running.signal(signal);
        let answer = running.wait();
        assert_eq!((answer.code, answer.signal), (Some(1), None));
        let json = answer.json();
        assert_eq!(json["fathom"]["outcome"]["interrupted"]["by"], name);
        assert_eq!(json["fathom"]["complete"], false);
        assert_eq!(json["jobs"].as_array().unwrap().len(), 2);
        let record: RunRecord = serde_json::from_str(&place.read("kept/record.json")).unwrap();
        assert_eq!(record.header.outcome, Outcome::interrupted(name));
    }
}

#[test]
fn a_signal_ends_the_laying_out_of_a_file_too() {
    let place = Place::new();
    let running = place.start(&[
        "run",
        "--no-record",
        "--rw=read",
        "--size=8g",
        "--unlink=1",
        "--output-format=json",
        "new",
    ]);
    until("the laying out", || running.so_far("stderr").contains("laying out new"));
    running.signal(Signal::INT);
    let answer = running.wait();
    assert_eq!((answer.code, answer.signal), (Some(1), None));
    let json = answer.json();
    assert_eq!(json["fathom"]["outcome"]["interrupted"]["by"], "SIGINT");
    assert_eq!(json["jobs"][0]["read"]["total_ios"], 0);
    assert!(!place.path("new").exists());
}

#[test]
fn a_signal_before_the_first_io_undoes_what_was_made() {
    let place = Place::new();
    place.data("data", MIB);
    let length =
        |name: &str| std::fs::metadata(place.path(name)).map_or(0, |found| found.len() as usize);
    let running = place.start(&[
        "run",
        "--no-record",
        "--rw=write",
        "--size=4m",
        "--startdelay=50",
        "--name=grown",
        "--filename=data",
        "--overwrite=data",
        "--name=made",
        "--filename=new",
    ]);
    until("both files", || length("data") == 4 * MIB && length("new") == 4 * MIB);
    running.signal(Signal::INT);
    assert_eq!(running.wait().code, Some(1));
    assert_eq!((length("data"), length("new")), (MIB, 0));
    assert!(!place.path("new").exists());
}

#[test]
fn a_later_signal_ends_at_once() {
    let place = Place::new();
    place.data("data", MIB);
    // Nothing reads the pipe, which is full, so the result is never written.
    let (_reader, mut pipe) = std::io::pipe().unwrap();
    pipe.write_all(&[0; 64 << 10]).unwrap();
    let args = [&LONG[..], &["--no-record", "--output=/dev/fd/0", "data"]].concat();
    let running = works(Running::start(place.command(FATHOM, &args).stdin(pipe)));
    running.signal(Signal::INT);
    // Longer than the time within which two signals count as one.
    thread::sleep(Duration::from_millis(400));
    running.signal(Signal::TERM);
    let answer = running.wait();
    assert_eq!((answer.code, answer.signal, answer.stdout.as_str()), (Some(143), None, ""));
}

#[test]
fn a_killed_run_keeps_its_samples() {
    let place = Place::new();
    place.data("data", MIB);
    let running = long(&place, &["--record=kept", "data"]);
    until("two samples", || place.read("kept/samples.ndjson").lines().count() >= 2);
    let show = |state: &str| {
        let page = place.ask(&["show", "kept"]).done().stdout;
        says(&page, &["INCOMPLETE: ", state, "results so far", "\n  read "]);
        assert!(!page.contains("did not start") && !page.contains("no results"), "{page}");
    };
    show("still running");
    running.signal(Signal::KILL);
    let answer = running.wait();
    assert_eq!((answer.code, answer.signal, answer.stdout.as_str()), (None, Some(9), ""));
    for line in place.read("kept/samples.ndjson").lines() {
        serde_json::from_str::<Sample>(line).unwrap();
    }
    let record: RunRecord = serde_json::from_str(&place.read("kept/record.json")).unwrap();
    assert_eq!(record.header.outcome, Outcome::unfinished());
    assert_eq!(record.plan.jobs.len(), 1);
    show("killed after ");
}

#[test]
fn a_run_that_is_killed_while_it_lays_out_a_file_leaves_none() {
    let place = Place::new();
    let running = place.start(&["run", "--no-record", "--rw=read", "--size=8g", "new"]);
    until("the laying out", || running.so_far("stderr").contains("laying out new"));
    running.signal(Signal::KILL);
    running.wait();
    let listed = place.ask(&["clean"]).done();
    says(&listed.stdout, &["no files left by killed runs"]);
    assert!(!place.path("new").exists());
    let missing = place.ask(&["clean", "missing"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("missing"), "{}", missing.stderr);
}

#[test]
fn clean_lists_what_a_killed_run_was_writing() {
    let place = Place::new();
    let write = ["run", "--no-record", "--eta=never", "--rw=write", "--size=4m"];
    let running =
        works(place.start(&[&write[..], &["--time_based", "--runtime=50", "new"]].concat()));
    let is_written = |data: Vec<u8>| data.iter().any(|byte| *byte != 0);
    until("what it writes", || std::fs::read(place.path("new")).is_ok_and(is_written));
    let active = place.ask(&["clean"]).done();
    assert!(!active.stdout.contains("new "), "a file in use: {}", active.stdout);
    running.signal(Signal::KILL);
    running.wait();
    let listed = place.ask(&["clean"]).done();
    says(&listed.stdout, &["target created by a killed run"]);
    let kept = place.ask(&["clean", "--remove"]);
    assert_eq!(kept.code, Some(1));
    assert!(kept.stderr.contains("rm -- ") && place.path("new").exists(), "{}", kept.stderr);
    std::fs::remove_file(place.path("new")).unwrap();
    place.ask(&[&write[..], &["new"]].concat()).done();
    assert!(!place.ask(&["clean"]).done().stdout.contains("new "), "the run was not killed");
}

#[test]
fn a_failure_stands_on_standard_error_too_when_nobody_reads_the_summary() {
    let place = Place::new();
    place.data("data", 4 * MIB);
    // All but the last, which requests JSON.
    let summary = [&LONG[..5], &["--no-record", "--bs=64k", "data"]].concat();
    let running = works(place.start(&summary));
    std::fs::File::options().write(true).open(place.path("data")).unwrap().set_len(4096).unwrap();
    let answer = running.wait();
    assert_eq!(answer.code, Some(1));
    for text in [&answer.stdout, &answer.stderr] {
        assert!(text.contains("shorter than at the start of the run"), "{text}");
    }
}

#[test]
fn a_target_that_goes_away_fails_its_job() {
    let place = Place::new();
    place.data("data", 4 * MIB);
    let running = long(&place, &["--no-record", "--bs=64k", "data"]);
    std::fs::File::options().write(true).open(place.path("data")).unwrap().set_len(4096).unwrap();
    let answer = running.wait();
    assert_eq!(answer.code, Some(1));
    let json = answer.json();
    assert_ne!(json["jobs"][0]["error"], 0);
    let said = json["fathom"].to_string();
    assert!(said.contains("truncated from 4194304 to 4096"), "{said}");
}

#[test]
fn a_file_that_is_truncated_and_written_again_is_reported() {
    let place = Place::new();
    // Created by fathom, so it may be written.
    let args = [
        "run",
        "--no-record",
        "--eta=never",
        "--rw=randwrite",
        "--size=1m",
        "--time_based",
        "--runtime=50",
        "--rate_iops=500",
        "--unlink=0",
        "--output-format=json",
        "new",
    ];
    let running = works(place.start(&args));
    let length = || std::fs::metadata(place.path("new")).map_or(0, |found| found.len());
    until("the file", || length() == MIB as u64);
    std::fs::File::options().write(true).open(place.path("new")).unwrap().set_len(0).unwrap();
    until("a file as long as before", || length() == MIB as u64);
    running.signal(Signal::INT);
    let answer = running.wait();
    assert_eq!(answer.code, Some(1));
    let said = answer.json()["fathom"].to_string();
    let found = ["was truncated from 1048576 to ", "of its 1048576 allocated bytes"];
    assert!(found.iter().any(|text| said.contains(text)), "{said}");
}
