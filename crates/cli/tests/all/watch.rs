//! `fathom watch` and `fathom record`, as a user sees them.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{FATHOM, Place, Running, until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Watches into the folder `record` of `place`.
fn watch(place: &Place, args: &[&str]) -> Command {
    place.command(FATHOM, &[&["watch", "--interval", "50ms", "--record", "record"], args].concat())
}

fn record(place: &Place, args: &[&str]) -> Command {
    place.command(FATHOM, &[&["record", "--interval", "50ms", "--record", "ring"], args].concat())
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The whole lines of a file.
fn samples(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("samples.ndjson")).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_command_keeps_its_status_its_output_and_its_input() {
    let place = Place::new();
    let mut command = watch(&place, &["--", "sh", "-c", "cat; echo err >&2; exit 3"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"a\nb\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(3), &b"a\nb\n"[..]), "{stderr}");
    assert!(stderr.starts_with("err\n") && stderr.contains("exit status 3"), "{stderr}");
    let record = json(&place.path("record/record.json"));
    assert_eq!(record["sampling"]["command"]["status"], 3);
    assert_eq!(record["sampling"]["command"]["argv"][0], "sh");
    assert_eq!(record["sampling"]["pids"].as_array().unwrap().len(), 1);
    assert_eq!(record["outcome"], "finished");
    let samples = samples(&place.path("record"));
    assert!(samples.len() >= 2);
    assert!(samples.is_sorted_by_key(|sample| sample["elapsed_ns"].as_u64()));
}

#[test]
fn a_command_that_is_not_there_and_one_that_a_signal_ends() {
    let place = Place::new();
    let none = Running::start(&mut watch(&place, &["--", "no-such-program"])).wait();
    assert_eq!(none.code, Some(127));
    assert!(none.stderr.contains("command not found: no-such-program"), "{}", none.stderr);
    let place = Place::new();
    let killed = Running::start(&mut watch(&place, &["--", "sh", "-c", "kill -KILL $$"])).wait();
    assert_eq!(killed.code, Some(137));
    assert!(killed.stderr.contains("ended by signal 9"), "{}", killed.stderr);
}

#[test]
fn a_command_gets_the_signals_and_decides() {
    let place = Place::new();
    let script = "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let running = Running::start(&mut watch(&place, &["--", "sh", "-c", script]));
    until("the command", || running.so_far("stdout").contains("ready"));
    running.signal(Signal::TERM);
    let answer = running.wait();
    assert_eq!((answer.code, &*answer.stdout), (Some(5), "ready\ngot it\n"), "{}", answer.stderr);
}

#[test]
fn a_command_finds_the_limits_that_it_would_find_without() {
    let script = "ulimit -n; ulimit -l; trap";
    let without = Command::new("sh").args(["-c", script]).output().unwrap();
    let place = Place::new();
    let within = Running::start(&mut watch(&place, &["--", "sh", "-c", script])).wait().done();
    assert_eq!(within.stdout, String::from_utf8(without.stdout).unwrap());
}

#[test]
fn a_process_is_watched_to_its_end() {
    let place = Place::new();
    let mut sleep = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleep.id().to_string();
    let running = Running::start(&mut watch(&place, &["--pid", &pid]));
    until("a sample", || samples(&place.path("record")).len() >= 3);
    sleep.kill().unwrap();
    // It counts as ended even while its parent does not wait for it.
    let answer = running.wait().done();
    sleep.wait().unwrap();
    assert!(answer.stdout.contains(&format!("process {pid}")), "{}", answer.stdout);
    let place = Place::new();
    for (pid, why) in [("2147483646", "no such process"), ("no-such-*-name", "no running process")]
    {
        let gone = Running::start(&mut watch(&place, &["-p", pid])).wait();
        assert_eq!(gone.code, Some(1));
        assert!(gone.stderr.contains(why), "{}", gone.stderr);
        assert!(!place.path("record").exists());
    }
}

#[test]
fn an_interrupt_ends_with_a_whole_record() {
    let place = Place::new();
    let running = Running::start(&mut watch(&place, &[]));
    until("a sample", || samples(&place.path("record")).len() >= 3);
    running.signal(Signal::INT);
    let answer = running.wait().done();
    assert!(answer.stdout.contains("watched") && answer.stderr.contains("record: "));
    let record = json(&place.path("record/record.json"));
    assert_eq!(record["outcome"], "finished");
    // Samplers that run a few times a second may not have run yet.
    let costs = record["sampling"]["cost"].as_array().unwrap();
    let looked = |name| costs.iter().any(|c| c["sampler"] == name && c["samples"] != 0);
    assert!(looked("system") && looked("disks"), "{costs:?}");
    assert!(record["facts"]["host"]["kernel"].as_str().is_some_and(|k| !k.is_empty()));
}

#[test]
fn a_time_ends_it() {
    let place = Place::new();
    Running::start(&mut watch(&place, &["--duration", "300ms"])).wait().done();
    let samples = samples(&place.path("record"));
    let last = samples.last().unwrap()["elapsed_ns"].as_u64().unwrap();
    assert!(last >= 300_000_000, "{last}");
}

#[test]
fn a_kill_leaves_a_valid_record_with_all_but_its_last_interval() {
    let place = Place::new();
    let running = Running::start(&mut watch(&place, &[]));
    until("a sample", || samples(&place.path("record")).len() >= 5);
    running.signal(Signal::KILL);
    assert_eq!(running.wait().signal, Some(9));
    let record = json(&place.path("record/record.json"));
    assert!(
        record["outcome"]["failed"]["because"]
            .as_str()
            .unwrap()
            .contains("still running when fathom was killed")
    );
    assert_eq!(record["sampling"]["interval_ns"], 50_000_000);
    assert!(samples(&place.path("record")).len() >= 5);
    // The same folder is not used again.
    let again = Running::start(&mut watch(&place, &["--duration", "1s"])).wait();
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("already exists"), "{}", again.stderr);
}

/// Samples in all folders of a ring.
fn ring_samples(place: &Place) -> usize {
    folders(&place.path("ring")).iter().map(|folder| samples(folder).len()).sum()
}

fn folders(ring: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(ring).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

#[test]
fn a_ring_survives_kills_and_has_one_writer() {
    let place = Place::new();
    let running = Running::start(&mut record(&place, &["--max-size", "4m"]));
    until("a sample", || ring_samples(&place) >= 3);
    let second = Running::start(&mut record(&place, &[])).wait();
    assert_eq!(second.code, Some(1));
    assert!(second.stderr.contains("another fathom record"), "{}", second.stderr);
    running.signal(Signal::KILL);
    running.wait();
    let before = ring_samples(&place);
    let running = Running::start(&mut record(&place, &["--max-size", "4m"]));
    until("more samples", || ring_samples(&place) >= before + 3);
    running.signal(Signal::TERM);
    let answer = running.wait().done();
    assert_eq!(answer.stdout, "");
    let folders = folders(&place.path("ring"));
    assert_eq!(folders.len(), 2);
    let interrupted = |n: usize| json(&folders[n].join("record.json"))["outcome"].clone();
    assert!(
        interrupted(0)["failed"]["because"]
            .as_str()
            .unwrap()
            .contains("still running when fathom was killed")
    );
    assert_eq!(interrupted(1), "finished");
}

#[test]
fn what_cannot_be_is_refused() {
    let place = Place::new();
    for (args, part) in [
        (vec!["record", "--keep", "soon"], "such as 500ms"),
        (vec!["record", "--max-size", "1k"], "expected at least 4m"),
        (vec!["watch", "--interval", "1ms"], "50ms to 1h"),
        (vec!["watch", "--duration", "0"], "expected a time above 0"),
        (vec!["watch", "--frequency", "1000000000"], "from 1 to 100"),
        (vec!["watch", "--duration", "1s", "--record", ""], "empty name"),
        (
            vec!["watch", "--duration", "1s", "--record", "/proc/x"],
            "cannot create the run directory /proc/x",
        ),
        (vec!["watch", "--duration", "1s", "--", "true"], "cannot be used with"),
        (vec!["watch", "--pid", "1", "--", "true"], "cannot be used with"),
    ] {
        let answer = place.ask(&args);
        assert_ne!(answer.code, Some(0), "{args:?}");
        assert!(answer.stderr.contains(part), "{args:?}: {}", answer.stderr);
    }
}

#[test]
fn a_command_is_not_stopped_before_it_begins() {
    let answer = Place::new().ask(&["watch", "--no-record", "-i", "500ms", "--", "sleep", "1"]);
    // It is, until it has been executed, which a busy machine may show.
    let mut words = answer.stderr.split(" stopped");
    let before = words.next().and_then(|text| text.rsplit(' ').next());
    let stopped = before.and_then(|number| number.parse::<f64>().ok()).unwrap_or(0.0);
    assert!(stopped < 0.5, "{}", answer.stderr);
}
