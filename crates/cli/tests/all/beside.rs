//! What `fathom run` and `fathom blocks` see of the machine.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{MIB, Place};
use serde_json::Value;

/// The summary, the record and the samples of a run of more than a second, sampled at `level`.
fn watched(level: &str) -> (String, Value, Vec<Value>) {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let level = format!("--sampling={level}");
    let args = ["run", "--eta=never", "--record=kept", "--rw=randread", "--time_based"];
    let more = ["--bs=4k", "--runtime=1600ms", &level, "data"];
    let answer = place.ask(&[&args[..], &more[..]].concat()).done();
    let record = serde_json::from_str(&place.read("kept/record.json")).unwrap();
    let samples = place.read("kept/samples.ndjson");
    let samples = samples.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (answer.stdout, record, samples)
}

#[test]
fn a_run_is_watched_unless_it_is_not_to_be() {
    for level in ["default", "full"] {
        let (summary, record, samples) = watched(level);
        assert_eq!(record["sampling"]["level"], level);
        assert!(
            summary.contains("\n  CPU  ") && summary.contains("\n  sampling overhead  "),
            "{summary}"
        );
        assert_eq!(summary.contains("\n  threads  "), level == "full", "{summary}");
        let seen = |part: &str| samples.iter().filter(|s| !s["machine"][part].is_null()).count();
        for part in ["system", "disks", "threads"] {
            assert!(seen(part) >= 2, "{part} in {} of {} samples", seen(part), samples.len());
        }
        // Sources that are not available here are reported.
        let missing = record["sampling"]["missing"].to_string();
        assert!(seen("stacks") >= 2 || missing.contains("perf"), "{missing}");
        // The work goes on being recorded beside it.
        assert!(samples.last().unwrap()["jobs"][0]["dirs"]["read"]["ios"].as_u64() > Some(0));
    }
    let (summary, record, samples) = watched("off");
    assert_eq!(record["sampling"], Value::Null);
    assert!(!summary.contains("sampling overhead"), "{summary}");
    assert!(samples.iter().all(|s| s["machine"].as_object().is_some_and(|m| m.is_empty())));
}

#[test]
fn a_level_that_is_none_and_a_device_that_is_none() {
    let place = Place::new();
    place.data("data", MIB);
    let answer = place.ask(&["run", "--sampling=all", "--rw=read", "data"]);
    assert_eq!(answer.code, Some(1));
    assert!(
        answer.stderr.contains("sampling") && answer.stderr.contains("full"),
        "{}",
        answer.stderr
    );
    let answer = place.ask(&["blocks", "--duration=1s", "nosuchdisk"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("nosuchdisk"), "{}", answer.stderr);
}

#[test]
fn a_run_that_was_not_watched_has_no_machine_to_replay() {
    let place = Place::new();
    place.data("data", MIB);
    place.ask(&["run", "--sampling=off", "--rw=read", "--record=kept", "data"]).done();
    let answer = place.ask(&["top", "--replay=kept", "--format=text"]);
    assert_eq!((answer.code, &*answer.stdout), (Some(1), ""), "{}", answer.stderr);
    assert!(answer.stderr.contains("kept contains no samples of the machine"), "{}", answer.stderr);
}
