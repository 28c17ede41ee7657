//! Records on a full or stalling disk.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{
    FATHOM, Loop, MIB, Mounted, Place, Running, Tmpfs, as_root, checksum, is_root, says, tool,
    until,
};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Fills the remaining space.
fn fill(folder: &Path) {
    let zeros = vec![0; 1 << 20];
    let mut file = fs::File::create(folder.join("fill")).unwrap();
    let mut bytes = zeros.len();
    while bytes > 0 {
        match std::io::Write::write(&mut file, &zeros[..bytes]) {
            Ok(_) => {}
            Err(_) => bytes /= 2,
        }
    }
}

/// Lines of the record's samples; all are complete, except for the last one while it is being written.
fn samples(folder: &Path) -> usize {
    let text = fs::read_to_string(folder.join("samples.ndjson")).unwrap_or_default();
    let written = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines: Vec<Value> = written.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    lines.len()
}

#[test]
fn watch_says_that_the_disk_is_full_and_keeps_what_was_recorded() {
    if !is_root("a record on a full disk") {
        return;
    }
    let place = Place::new();
    let disk = Tmpfs::new(&place, "disk", 1);
    let folder = place.path("disk/record");
    let args = ["watch", "-i", "50ms", "--duration", "1h", "--record", "disk/record"];
    let running = place.start(&args);
    until("samples", || samples(&folder) >= 3);
    fill(&place.path("disk"));
    // It ends by itself: there is nothing more that it could record.
    let answer = running.wait();
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    // Samples or their stacks, whichever needed space first.
    let parts = [
        "cannot write disk/record/s",
        "No space left on device",
        "earlier samples were recorded",
        "free some space",
    ];
    says(&answer.stderr, &parts);
    assert!(!answer.stderr.contains("panicked"), "{}", answer.stderr);
    assert_eq!(answer.stderr.matches("free some space").count(), 1, "{}", answer.stderr);
    says(&answer.stdout, &["watched", "CPU"]);
    assert!(!answer.stdout.contains("for 0 ns"), "{}", answer.stdout);
    assert!(json(&folder.join("record.json"))["outcome"]["failed"].is_object());
    assert!(samples(&folder) >= 3);
    place.ask(&["top", "--replay=disk/record", "--format=csv"]).done();
    drop(disk);
}

#[test]
fn every_result_is_printed_though_its_record_cannot_be_completed() {
    if !is_root("records on a full disk") {
        return;
    }
    let place = Place::new();
    place.data("data", 4 * MIB);
    let experiment = ["--duration=2", "--window=50ms", "--sampling=off"];
    let jobs = ["rw=read bs=4k direct=1", "rw=read bs=8k direct=1"];
    let commands = [
        (vec!["run", "--eta=never", "--rw=read", "data"], "IOPS"),
        (vec!["limit", "-t", "5", "--rw=randread", "--bs=4k", "data"], "4 KiB random reads"),
        ([&["try"], &jobs[..], &["data"], &experiment].concat(), "A/A"),
        ([&["sweep", "--iodepth=1,2", "data"], &experiment[..]].concat(), "latency vs. throughput"),
        (vec!["watch", "-t", "1", "-i", "200ms"], "watched"),
        (vec!["watch", "-i", "200ms", "--", "true"], "exit status 0"),
        (vec!["threads", "-t", "500ms"], "fathom threads"),
        (vec!["stacks", "-t", "500ms"], "fathom stacks"),
        (vec!["blocks", "-t", "500ms"], "fathom blocks"),
    ];
    for (args, said) in &commands {
        let name = format!("state{}", fs::read_dir(place.path(".")).unwrap().count());
        let runs = place.path(&name).join("fathom/runs");
        fs::create_dir_all(&runs).unwrap();
        let at = runs.to_str().unwrap();
        // One inode for each of: the file system, a run directory, its samples, and its record, whose last version needs
        // another one.
        tool("mount", &["-t", "tmpfs", "-o", "size=8m,nr_inodes=4", "tmpfs", at]);
        let _mounted = Mounted(runs.clone());
        let mut command = place.command(FATHOM, args);
        let answer = Running::start(command.env("XDG_STATE_HOME", place.path(&name))).wait();
        let (out, err) = (&answer.stdout, &answer.stderr);
        assert_eq!(answer.code, Some(1), "{args:?}: {out}{err}");
        // The result of a command that is watched goes to standard error.
        says(&format!("{out}{err}"), &[said]);
        says(err, &["the record is incomplete: ", "No space left on device"]);
        let dir = fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
        json(&dir.join("record.json"));
    }
}

#[test]
fn a_run_prints_its_result_though_its_record_has_no_room() {
    if !is_root("a run recorded on a full disk") {
        return;
    }
    let place = Place::new();
    let _disk = Tmpfs::new(&place, "disk", 1);
    place.data("data", MIB);
    let run = ["run", "--rw=randread", "--time_based", "--runtime=5", "--output-format=json"];
    let running = place.start(&[&run[..], &["--record=disk/run", "data"]].concat());
    until("samples", || samples(&place.path("disk/run")) >= 1);
    fill(&place.path("disk"));
    let answer = running.wait();
    // A requested directory is part of the request; the result is complete all the same.
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    let result: Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!(
        (&result["jobs"][0]["error"], &result["fathom"]["outcome"]),
        (&0.into(), &"finished".into())
    );
    says(&answer.stderr, &["cannot write disk/run/", "No space left on device"]);

    // A record that cannot begin leaves nothing behind, so it can be tried again.
    fs::remove_dir_all(place.path("disk/run")).unwrap();
    fill(&place.path("disk"));
    let answer = place.ask(&[&run[..], &["--record=disk/run", "data"]].concat());
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    assert!(!place.path("disk/run").exists());
}

#[test]
fn a_command_ends_as_it_would_though_the_disk_is_full() {
    if !is_root("a record on a full disk") {
        return;
    }
    let place = Place::new();
    let _disk = Tmpfs::new(&place, "disk", 1);
    for (ends, code) in [("exit 0", 1), ("exit 7", 7)] {
        let script =
            format!("cat /dev/zero > disk/fill; sleep 0.3; echo whole; rm disk/fill; {ends}");
        let record = format!("disk/{code}");
        let args = ["watch", "-i", "50ms", "--record", &record, "--", "sh", "-c", &script];
        let answer = place.ask(&args);
        assert_eq!((answer.code, &*answer.stdout), (Some(code), "whole\n"), "{}", answer.stderr);
        says(
            &answer.stderr,
            &[".ndjson: No space left on device", "sh -c 'cat /dev/zero > disk/fill"],
        );
        // There was space again for the record's end.
        let record = json(&place.path(&record).join("record.json"));
        says(
            record["outcome"]["failed"]["because"].as_str().unwrap(),
            &["No space left on device"],
        );
        assert!(record["sampling"]["command"]["status"].is_i64());
    }
}

#[test]
fn top_goes_on_without_its_record_and_says_so() {
    if !is_root("a record on a full disk") {
        return;
    }
    let place = Place::new();
    let _disk = Tmpfs::new(&place, "disk", 1);
    let args = ["top", "--format=csv", "-i", "100ms", "-n", "20", "--record=disk/record"];
    let running = place.start(&args);
    until("samples", || samples(&place.path("disk/record")) >= 2);
    fill(&place.path("disk"));
    let answer = running.wait();
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    assert_eq!(answer.stdout.lines().count(), 21);
    // Samples or their stacks, whichever needed space first.
    says(
        &answer.stderr,
        &["cannot write disk/record/s", "No space left on device", "free some space"],
    );
    assert_eq!(answer.stderr.matches("free some space").count(), 1, "{}", answer.stderr);
    place.ask(&["top", "--replay=disk/record", "--format=csv"]).done();
}

#[test]
fn a_ring_makes_room_of_its_own_and_goes_on() {
    if !is_root("a ring on a full disk") {
        return;
    }
    let place = Place::new();
    let _disk = Tmpfs::new(&place, "disk", 2);
    let args = ["record", "-i", "50ms", "--record", "disk/ring"];
    let of_ring = || {
        let entries = fs::read_dir(place.path("disk/ring")).into_iter().flatten().flatten();
        let mut folders: Vec<_> = entries.map(|e| e.path()).filter(|p| p.is_dir()).collect();
        folders.sort();
        folders
    };
    let last = || of_ring().last().map_or(0, |folder| samples(folder));
    // An old folder, which may go.
    let first = place.start(&args);
    until("samples", || last() >= 3);
    first.signal(Signal::TERM);
    first.wait().done();
    let running = place.start(&args);
    until("a second folder", || of_ring().len() == 2 && last() >= 3);
    fill(&place.path("disk"));
    until("the oldest to give way", || of_ring().len() == 1);
    // Then no segment is left to delete, which is reported, and so is the recovery.
    until("a word of it", || running.so_far("stderr").contains("retrying"));
    let before = last();
    fs::remove_file(place.path("disk/fill")).unwrap();
    until("more samples", || last() > before);
    until("a word of it", || running.so_far("stderr").contains("recorded again"));
    running.signal(Signal::TERM);
    let answer = running.wait().done();
    says(&answer.stderr, &["cannot write disk/ring/", "No space left on device"]);
    assert_eq!(answer.stderr.matches("retrying").count(), 1, "{}", answer.stderr);
    place.ask(&["top", "--replay=disk/ring", "--format=csv"]).done();
}

/// A file system whose writes can be made to wait.
struct Freezer {
    at: String,
    _mounted: Mounted,
    _device: Loop,
}

impl Freezer {
    fn new(place: &Place) -> Self {
        tool("truncate", &["-s", "512M", place.path("image").to_str().unwrap()]);
        let device = Loop::on(&place.path("image"));
        tool("mkfs.ext4", &["-q", &device.0]);
        fs::create_dir(place.path("disk")).unwrap();
        let at = place.path("disk").to_str().unwrap().to_string();
        tool("mount", &[&device.0, &at]);
        Self { _mounted: Mounted(place.path("disk")), at, _device: device }
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").args(["-u", &self.at]).output();
    }
}

#[test]
fn a_disk_that_stalls_does_not_stop_sampling() {
    let Some(_guard) = as_root("a record on a disk that stalls") else { return };
    let place = Place::new();
    let disk = Freezer::new(&place);
    let folder = place.path("disk/record");
    let args = ["watch", "-i", "100ms", "--record", "disk/record"];
    let running = place.start(&args);
    until("samples", || samples(&folder) >= 3);
    tool("fsfreeze", &["-f", &disk.at]);
    std::thread::sleep(std::time::Duration::from_secs(4));
    let frozen = samples(&folder);
    tool("fsfreeze", &["-u", &disk.at]);
    // Samples taken during the stall are printed right after it.
    until("samples of the stall", || samples(&folder) >= frozen + 15);
    running.signal(Signal::INT);
    running.wait().done();
    let record = json(&folder.join("record.json"));
    assert_eq!(record["outcome"], "finished");
    let text = fs::read_to_string(folder.join("samples.ndjson")).unwrap();
    let seen: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = seen.last().unwrap();
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    // Every interval has a sample or is counted among the joined ones.
    let of_time = number(&last["elapsed_ns"]) / 100_000_000;
    let joined = number(&last["machine"]["intervals_merged"]);
    let counted = seen.len() as u64 + joined;
    assert!(counted.abs_diff(of_time) <= 3, "{counted} of {of_time}");
    // The stall was most of the time.
    assert!(joined * 2 < of_time, "{joined} of {of_time}");
}

#[test]
fn a_record_on_a_disk_that_stalls_holds_up_neither_a_run_nor_a_view() {
    let Some(_guard) = as_root("a run and a view recorded on a disk that stalls") else { return };
    let place = Place::new();
    let disk = Freezer::new(&place);
    place.data("data", MIB);
    let top = place.start(&["top", "-i", "200ms", "--format=csv", "--record=disk/top"]);
    let lines = || top.so_far("stdout").lines().count();
    until("lines", || lines() >= 3);
    let run = ["run", "--rw=randread", "--time_based", "--runtime=8", "--eta=never"];
    let run = place.start(&[&run[..], &["--record=disk/run", "data"]].concat());
    until("samples", || samples(&place.path("disk/run")) >= 1);
    let before = lines();
    tool("fsfreeze", &["-f", &disk.at]);
    let from = now_ns();
    until("lines during the stall", || lines() >= before + 15);
    let to = now_ns();
    tool("fsfreeze", &["-u", &disk.at]);
    run.wait().done();
    top.signal(Signal::INT);
    top.wait().done();
    let seen = |folder: &str| {
        let text = place.read(&format!("{folder}/samples.ndjson"));
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let times = lines.map(|sample| sample["unix_ns"].as_u64().unwrap());
        times.filter(|at| (from..to).contains(at)).count()
    };
    let (of_run, of_top) = (seen("disk/run"), seen("disk/top"));
    assert!(of_run >= 1 && of_top >= 8, "in the stall {of_run} samples and {of_top}");
    for folder in ["disk/run", "disk/top"] {
        let record = json(&place.path(folder).join("record.json"));
        assert_eq!(record["outcome"], "finished", "{folder}");
    }
}

fn now_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_nanos() as u64
}

#[test]
fn each_block_is_trimmed_then_written() {
    let place = Place::new();
    let jobs = ["trimwrite", "randtrimwrite"].into_iter();
    for (rw, engine) in jobs.flat_map(|rw| [(rw, "io_uring"), (rw, "libaio")]) {
        let (rw, engine) = (format!("--rw={rw}"), format!("--ioengine={engine}"));
        let args =
            [&*rw, "--bs=4k", "--iodepth=16", "--buffer_pattern=0xa5", "--output-format=json"];
        let more = ["--name=t", "--filename=new", "--size=1m", &*engine];
        let json = place.run(&[&args[..], &more].concat()).done().json();
        let job = &json["jobs"][0];
        assert_eq!(
            (&job["trim"]["total_ios"], &job["write"]["total_ios"]),
            (&256.into(), &256.into())
        );
        let data = fs::read(place.path("new")).unwrap();
        assert!(data.len() == MIB && data.iter().all(|byte| *byte == 0xa5), "{rw} {engine}");
    }
    place.data("data", MIB);
    let before = checksum(place.path("data"));
    place.refuses(&["--rw=randtrimwrite", "data"], &["--overwrite=data"]);
    assert_eq!(checksum(place.path("data")), before);
}

#[test]
fn keys_about_memory_and_latency_take_effect() {
    let place = Place::new();
    place.data("data", MIB);
    let read = ["--rw=read", "--bs=1m", "--ioengine=psync"];
    place
        .run(
            &[&read[..], &["--pre_read=1", "--lockmem=64k", "--max_latency=1000s", "data"]]
                .concat(),
        )
        .done();
    let answer = place.run(&[&read[..], &["--max_latency=1us", "data"]].concat());
    assert_eq!(answer.code, Some(1));
    says(&(answer.stdout + &answer.stderr), &["max_latency=1us exceeded: a read took"]);
    let answer = place.run(&[&read[..], &["--lockmem=1p", "data"]].concat());
    assert_eq!(answer.code, Some(1), "{}", answer.stdout);
    says(&answer.stderr, &["1 PiB", "memory"]);
}

#[test]
fn a_job_that_waited_for_its_logs_says_so() {
    let Some(_guard) = as_root("logs on a disk that stalls") else { return };
    let place = Place::new();
    let disk = Freezer::new(&place);
    let job = ["run", "--rw=read", "--ioengine=nop", "--size=1g", "--time_based", "--runtime=60"];
    let logs = ["--name=logged", "--write_iops_log=disk/x", "--output-format=json", "--no-record"];
    let run = place.start(&[&job[..], &logs].concat());
    let log = place.path("disk/x_iops.1.log");
    until("entries", || log.metadata().is_ok_and(|log| log.len() > 0));
    tool("fsfreeze", &["-f", &disk.at]);
    // No-ops never sleep: a worker that does not run, again and again, waits for the writer.
    let mut asleep = 0;
    until("a worker that waits", || {
        asleep = if is_asleep(run.id(), "worker") { asleep + 1 } else { 0 };
        asleep > 20
    });
    tool("fsfreeze", &["-u", &disk.at]);
    run.signal(Signal::INT);
    let json = run.wait().json();
    let findings = json["fathom"]["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["rule"] == "log-too-slow");
    says(&found.unwrap()["summary"].to_string(), &["logged waited for the writer of the logs"]);
}

/// Whether the thread of process `pid` whose name begins so sleeps.
fn is_asleep(pid: u32, name: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    stats.any(|stat| stat.contains(&format!("({name}")) && stat.contains(") S "))
}
