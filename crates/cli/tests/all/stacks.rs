//! `fathom stacks` as a user sees it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{Answer, Place};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// A second of work or so.
const WORK: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

/// The output; if the machine permits no sampling, `None` with the reason printed.
fn stacks(place: &Place, arguments: &[&str]) -> Option<Answer> {
    let answer = place.ask(&[&["stacks"], arguments].concat());
    if answer.stderr.contains("fathom: CPU samples: ") {
        eprintln!("skipped: {}", answer.stderr);
        return None;
    }
    Some(answer)
}

#[test]
fn a_command_is_sampled_and_its_status_kept() {
    let place = Place::new();
    let work = format!("{WORK}; exit 3");
    let Some(answer) = stacks(&place, &["-o", "-", "--", "sh", "-c", &work]) else { return };
    assert_eq!(answer.code, Some(3), "{}", answer.stderr);
    let lines: Vec<&str> = answer.stdout.lines().collect();
    assert!(!lines.is_empty());
    for line in lines {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        assert!(stack.starts_with("sh;") || stack.starts_with("fathom;"), "{line}");
        assert!(count.parse::<u64>().unwrap() > 0, "{line}");
    }
    let page = stacks(&place, &["--", "sh", "-c", WORK]).unwrap().done().stdout;
    for part in [" Hz for ", "function (self)", "process", "layer"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let json = place.ask(&["stacks", "--json", "-t", "300ms"]).done().json();
    assert!(json["samples"].is_u64() && json["functions"].is_array(), "{json}");
    assert!(json["layers"]["layers"].is_array() && json.get("blocks").is_none(), "{json}");
}

#[test]
fn files_have_the_form_of_their_name() {
    let place = Place::new();
    for name in ["flame.svg", "page.json", "page.html", "page.md"] {
        let arguments = ["-u", "-o", name, "--", "sh", "-c", WORK];
        let Some(answer) = stacks(&place, &arguments) else { return };
        answer.done();
    }
    let svg = fs::read_to_string(place.path("flame.svg")).unwrap();
    assert!(svg.starts_with("<?xml") && svg.contains("<title>sh "), "{svg}");
    let page: Value = serde_json::from_str(&place.read("page.json")).unwrap();
    assert!(page["functions"].is_array(), "{page}");
    assert!(place.read("page.html").starts_with("<!DOCTYPE html>"));
    assert!(place.read("page.md").starts_with("# fathom stacks · "));
}

#[test]
fn what_cannot_be_done_is_said_before_sampling() {
    let place = Place::new();
    let cases: [(&[&str], &str); 6] = [
        (&["--pid", "2147483647"], "no such process"),
        (&["-o", "."], "this is a directory"),
        (&["-o", "profile.pb.gz"], "unknown kind of profile .gz; use .svg"),
        (&["-o", "nowhere/flame.svg"], "its directory does not exist"),
        (&["--duration", "never"], "expected a time"),
        (&["--", "./no-such-program"], "command not found: ./no-such-program"),
    ];
    for (arguments, message) in cases {
        let answer = place.ask(&[&["stacks"], arguments].concat());
        assert!(answer.code.is_some_and(|code| code != 0), "{arguments:?}");
        assert!(answer.stderr.contains(message), "{arguments:?}: {}", answer.stderr);
    }
}

#[test]
fn a_command_finds_the_limits_that_it_would_find_without() {
    let script = "ulimit -n; ulimit -l";
    let without = Command::new("sh").args(["-c", script]).output().unwrap();
    let without = String::from_utf8(without.stdout).unwrap();
    let place = Place::new();
    let Some(answer) = stacks(&place, &["-o", "file", "--", "sh", "-c", script]) else { return };
    assert_eq!(answer.done().stdout, without);
}
