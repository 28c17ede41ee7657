//! What `fathom run` and `fathom blocks` see of the machine.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{MIB, Place};
use serde_json::Value;

/// The summary, the record and the samples of a run of more than a second that is watched as `level` says.
fn watched(level: &str) -> (String, Value, Vec<Value>) {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let level = format!("--watch={level}");
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
        assert_eq!(record["watch"]["level"], level);
        assert!(
            summary.contains("\nprocessors  ") && summary.contains("\nwatching  "),
            "{summary}"
        );
        assert_eq!(summary.contains("\nthreads  "), level == "full", "{summary}");
        let seen = |part: &str| samples.iter().filter(|s| !s["machine"][part].is_null()).count();
        for part in ["system", "disks", "threads"] {
            assert!(seen(part) >= 2, "{part} in {} of {} samples", seen(part), samples.len());
        }
        // What cannot be looked at here is told.
        let missing = record["watch"]["missing"].to_string();
        assert!(seen("stacks") >= 2 || missing.contains("perf"), "{missing}");
        // The work goes on being recorded beside it.
        assert!(samples.last().unwrap()["jobs"][0]["dirs"]["read"]["ios"].as_u64() > Some(0));
    }
    let (summary, record, samples) = watched("off");
    assert_eq!(record["watch"], Value::Null);
    assert!(!summary.contains("\nprocessors  "), "{summary}");
    assert!(samples.iter().all(|s| s["machine"].as_object().is_some_and(|m| m.is_empty())));
}

#[test]
fn a_level_that_is_none_and_a_device_that_is_none() {
    let place = Place::new();
    place.data("data", MIB);
    let answer = place.ask(&["run", "--watch=all", "--rw=read", "data"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("watch") && answer.stderr.contains("full"), "{}", answer.stderr);
    let answer = place.ask(&["blocks", "--for=1s", "nosuchdisk"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("nosuchdisk"), "{}", answer.stderr);
}

#[test]
fn a_run_that_was_not_watched_has_no_machine_to_replay() {
    let place = Place::new();
    place.data("data", MIB);
    place.ask(&["run", "--watch=off", "--rw=read", "--record=kept", "data"]).done();
    let answer = place.ask(&["top", "--replay=kept", "--plain"]);
    assert_eq!((answer.code, &*answer.stdout), (Some(1), ""), "{}", answer.stderr);
    assert!(answer.stderr.contains("kept holds no samples of the machine"), "{}", answer.stderr);
}

#[test]
fn watching_in_turns_tells_what_it_costs_or_fails() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let args = ["run", "--eta=never", "--record=kept", "--rw=randread", "--time_based"];
    let more = ["--bs=4k", "--runtime=16s", "--watch-turns=1s", "data"];
    let answer = place.ask(&[&args[..], &more[..]].concat()).done();
    assert!(answer.stdout.contains("Watching (`default`) changed the I/Os"), "{}", answer.stdout);
    let record: Value = serde_json::from_str(&place.read("kept/record.json")).unwrap();
    let turns = record["watch"]["turns"].as_array().unwrap();
    assert!((12..=15).contains(&turns.len()), "{turns:?}");
    let watched: Vec<bool> = turns.iter().map(|turn| turn["watched"] == true).collect();
    assert_eq!(watched[..4], [false, true, true, false]);
    assert!(turns.iter().all(|turn| turn["ios"].as_u64() > Some(0)), "{turns:?}");
    assert!(record["watch"]["cost"].as_array().is_some_and(|cost| !cost.is_empty()), "{record}");

    // Turns that cannot tell anything are refused before, or named afterwards.
    let long = ["run", "--watch-turns=2s", "--runtime=20s", "--rw=read", "--time_based", "data"];
    let answer = place.ask(&long);
    assert_eq!(answer.code, Some(1));
    assert!(
        answer.stderr.contains("12 turns of 2 s need a runtime of 26 s, and this is 20 s"),
        "{}",
        answer.stderr
    );
    let json = "--output-format=json";
    let answer = place.ask(&["run", "--watch-turns=1s", "--rw=read", json, "data"]);
    assert_eq!(answer.code, Some(1));
    let result: Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!(result["fathom"]["complete"], false, "{result}");
    assert!(answer.stderr.contains("is not told: only 0 turns"), "{}", answer.stderr);
    let answer = place.ask(&["run", "--watch-turns=1ms", "--rw=read", "data"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("at least 1 s"), "{}", answer.stderr);
}
