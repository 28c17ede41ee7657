//! `fathom limit` as a user sees it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{
    Cgroup, FATHOM, Loop, MIB, Place, Running, as_root, assert_one_error, checksum, is_root, says,
    until,
};
use fathom_model::limit::LimitRecord;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::fd::AsRawFd;
use std::process::Command;

#[test]
fn a_file_is_searched_and_not_changed() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let before = checksum(place.path("data"));
    let answer = place.ask(&["limit", "--duration=5", "--record=kept", "data"]).done();
    // The machine was sampled meanwhile, and can be replayed.
    let kept: Value = serde_json::from_str(&place.read("kept/record.json")).unwrap();
    assert_eq!(kept["sampling"]["level"], "default");
    assert!(place.read("kept/samples.ndjson").lines().count() >= 3);
    place.ask(&["top", "--replay=kept", "--format=text"]).done();
    says(&answer.stdout, &["4 KiB", "1 MiB", "peak", "IOPS", "data"]);
    let answers = ["4 KiB random reads: ", "1 MiB random reads: ", " IOPS", ", p99 "];
    place.first_screen(&["show", "kept"], &answers);
    says(&answer.stderr, &["latency at QD1"]);
    assert!(!answer.stdout.contains('\x1b') && !answer.stderr.contains(['\r', '\x1b']));
    assert_eq!(checksum(place.path("data")), before);
    let record: LimitRecord = serde_json::from_str(&place.read("kept/record.json")).unwrap();
    assert!(record.is_complete() && record.report.windows > 0);
    assert!(record.costs_missing.is_some() || record.costs.len() == 2, "{:?}", record.costs);
    // Each kind of I/O has a verdict, which `runs` lists.
    let verdict: Vec<_> =
        record.header.findings.iter().filter(|found| found.rank == Some(1)).collect();
    assert!(
        verdict.len() == 2 && verdict.iter().all(|found| !found.evidence.is_empty()),
        "{verdict:?}"
    );
    let windows = place.read("kept/windows.ndjson").lines().count();
    assert_eq!(windows, record.report.windows as usize);
}

#[test]
fn a_device_is_compared_with_its_data_sheet() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let options = ["limit", "-t", "8", "--rw=randread", "--bs=4k", "--record=kept", "data"];
    let answer = place.ask(&[&options[..], &["--spec=read-iops=100k,bw=7000M"]].concat()).done();
    let specified = "% of the 100k IOPS specified for 4 KiB random reads.";
    says(&answer.stdout, &[specified, "4 KiB randread ceilings"]);
    assert!(answer.stdout.find(specified) < answer.stdout.find("4 KiB random reads: "));
    // What is printed again is the same, and so are its data.
    assert_eq!(place.ask(&["show", "kept"]).done().stdout, answer.stdout);
    let json = place.ask(&["show", "kept", "--json"]).done().json();
    let (peak, all) = (&json["report"]["targets"][0]["blocks"][0]["peak"], &json["ceilings"][0]);
    let all = all["ceilings"].as_array().unwrap();
    let specified = all.iter().find(|ceiling| ceiling["kind"] == "specification").unwrap();
    assert!(all.iter().any(|ceiling| ceiling["part"] == "one submitting core"), "{all:?}");
    let most = specified["most"].as_f64().unwrap();
    assert!((most - 100_000.0).abs() < 1e-3, "{most}");
    assert_eq!(specified["basis"], "assumed");
    assert_eq!(specified["used"], peak["iops"]["mean"]);
    let kept: Value = serde_json::from_str(&place.read("kept/record.json")).unwrap();
    assert_eq!(kept["config"]["spec"]["read_iops"], 100_000.0);
    let refused = place.ask(&["limit", "--spec=iosp=1", "data"]);
    assert_eq!(refused.code, Some(2));
    says(&refused.stderr, &["--spec", "data sheet", "read-bw"]);
}

#[test]
fn what_makes_figures_misleading_is_found() {
    let place = Place::new();
    place.data("one", 8 * MIB);
    place.data("two", 8 * MIB);
    let mut spins = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let options = ["limit", "-t5", "--record=kept", "--rw=randread", "--bs=4k", "one", "two"];
    let answer = place.ask(&options);
    spins.kill().and_then(|()| spins.wait()).unwrap();
    answer.done();
    let record: LimitRecord = serde_json::from_str(&place.read("kept/record.json")).unwrap();
    let found: Vec<&str> =
        record.header.findings.iter().map(|finding| finding.rule.as_str()).collect();
    let device = record.header.facts.targets[0].device.as_ref();
    let is_virtual = device.is_some_and(|device| device.name.starts_with("vd"));
    let expected = [
        ("small-target", true),
        ("competing-programs", true),
        ("shared-disk", device.is_some()),
        ("virtual-disk", is_virtual),
    ];
    for (rule, holds) in expected {
        assert_eq!(found.contains(&rule), holds, "{rule} in {found:?}");
    }
}

#[test]
fn a_signal_leaves_a_partial_result_and_no_scratch_file() {
    for (size, mark) in [("--size=1m", "latency at QD1"), ("--", "creating a scratch file")] {
        let place = Place::new();
        let running = place.start(&["limit", "--no-record", "--json", size]);
        until(mark, || running.so_far("stderr").contains(mark));
        running.signal(Signal::INT);
        let answer = running.wait();
        assert_eq!((answer.code, answer.signal), (Some(1), None));
        assert_eq!(answer.json()["outcome"]["interrupted"]["by"], "SIGINT");
        assert_eq!(fs::read_dir(place.path(".")).unwrap().count(), 0, "{}", answer.stderr);
    }
}

#[test]
fn a_latency_that_no_load_meets_has_an_exit_status() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let options = ["--rw=randread", "--bs=4k", "--no-record", "--sampling=off"];
    let latency = ["limit", "-t", "6", "--target", "p99<1us", "data"];
    let answer = place.ask(&[&latency[..], &options].concat());
    // On a slow machine, the search may end before low rates were tried, or before it has a peak.
    let has = |text: &str| answer.stdout.contains(text);
    let is_missed = has("not met at any rate tried: ") && !has("before lower rates were tried");
    let codes = if is_missed { [3, 3] } else { [1, 4] };
    assert!(codes.map(Some).contains(&answer.code), "{:?}: {}", answer.code, answer.stdout);
}

#[test]
fn a_killed_search_keeps_its_windows() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let args = ["limit", "-t", "60", "--rw=randread", "--bs=4k", "--record=kept", "data"];
    let running = place.start(&args);
    let windows = || fs::read_to_string(place.path("kept/windows.ndjson")).unwrap_or_default();
    until("windows", || windows().lines().count() > 3);
    says(&place.ask(&["show", "kept"]).done().stdout, &["INCOMPLETE: still running, "]);
    running.signal(Signal::KILL);
    assert_eq!(running.wait().signal, Some(9));
    let page = place.ask(&["show", "kept"]).done().stdout;
    let count = windows().matches('\n').count();
    says(&page, &["INCOMPLETE: killed after ", "results so far", &format!(" in {count} windows")]);
    let record = place.ask(&["show", "kept", "--json"]).done().json();
    assert_eq!(record["report"]["windows"], count, "{page}");
    // The line that a kill cut short is no window.
    let cut = windows().trim_end().rsplit_once('\n').unwrap().0.to_string() + "\n{\"probe\":";
    place.write("kept/windows.ndjson", cut);
    let fewer = place.ask(&["show", "kept"]).done().stdout;
    says(&fewer, &[&format!(" in {} windows", count - 1)]);
    // Windows that this version would not measure are no results.
    place.write("kept/windows.ndjson", windows().lines().nth(2).unwrap().to_string() + "\n{}\n");
    let other = place.ask(&["show", "kept"]);
    assert_eq!(other.code, Some(1));
    says(&other.stderr, &["kept"]);
}

#[test]
fn bad_targets_and_outputs_are_refused() {
    let place = Place::new();
    place.data("data", MIB);
    place.write("empty", "");
    fs::create_dir(place.path("dir")).unwrap();
    let before = place.look();
    let cases: [(&[&str], &[&str]); 10] = [
        (&["nosuch"], &["nosuch does not exist"]),
        (&["dir"], &["dir is a directory", "--scratch-dir=dir"]),
        (&["empty"], &["empty has 0 bytes"]),
        (&["/dev/null"], &["/dev/null", "neither"]),
        (&["data", "./data"], &["data and ./data are the same"]),
        (&["--output=./data", "data"], &["data, which the run uses"]),
        (&["--output=none/x", "data"], &["directory does not exist"]),
        (&["--record=data", "data"], &["data is not a directory"]),
        (&["--scratch-dir=none"], &["none"]),
        (&["--size=100t"], &["100 TiB in .", "a tenth of the free space", "at most "]),
    ];
    for (args, parts) in cases {
        let answer = place.ask(&[&["limit", "--quick"], args].concat());
        assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""), "{args:?}");
        assert_one_error(&answer.stderr, parts);
    }
    assert_eq!(place.ask(&["limit", "--duration=0", "data"]).code, Some(2));
    assert_eq!(place.look(), before);
}

#[test]
fn a_deleted_directory_is_said_to_be_one() {
    let place = Place::new();
    let there = place.path("gone");
    fs::create_dir(&there).unwrap();
    let open = fs::File::open(&there).unwrap();
    fs::remove_dir(&there).unwrap();
    let answer = place.ask(&[
        "limit",
        &format!("--scratch-dir=/proc/{}/fd/{}", std::process::id(), open.as_raw_fd()),
    ]);
    assert_one_error(&answer.stderr, &["the directory was deleted", "--scratch-dir"]);
}

#[test]
fn a_block_that_the_device_does_not_take_is_refused_before_anything_is_measured() {
    let Some(_alone) = as_root("loop devices") else { return };
    let place = Place::new();
    place.data("image", 64 * MIB);
    let device = Loop::with_blocks(&place.path("image"), 4096);
    for rw in ["randread", "read"] {
        let rw = format!("--rw={rw}");
        let answer = place.ask(&["limit", "--quick", &rw, "--bs=4k,512", &device.0]);
        assert_eq!((answer.code, answer.stdout.as_str()), (Some(2), ""), "{}", answer.stderr);
        assert_one_error(&answer.stderr, &["bs of 512 bytes", "multiples of 4096", "use bs=4096"]);
    }
}

#[test]
fn a_run_is_held_against_what_a_search_found_for_its_device() {
    let Some(_alone) = as_root("loop devices") else { return };
    let place = Place::new();
    place.data("image", 64 * MIB);
    let device = Loop::with_blocks(&place.path("image"), 512);
    let found = place.ask(&["limit", "-t", "5", "--bs=4k", "--rw=randread", "--json", &device.0]);
    let found: LimitRecord = serde_json::from_str(&found.done().stdout).unwrap();
    let peak = found.report.targets[0].blocks[0].peak.as_ref().unwrap();
    // On a busy machine, a window may end before the device's counters have what it did.
    let Some(part) = peak.from_disk.filter(|part| *part > 0.9) else {
        println!("skipped: {:?} of the I/Os were seen at the device", peak.from_disk);
        return;
    };
    let peak = peak.iops.mean;
    // What limited it depends on the machine.
    let runs = fs::read_dir(place.home().join(".local/state/fathom/runs")).unwrap();
    let record = runs.flatten().next().unwrap().path().join("record.json");
    let limited_by = |rule: &str| {
        let mut found: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
        found["findings"] = json!([{
            "rule": rule, "class": "limiter", "severity": "info", "rank": 1, "summary": "It is full.", "evidence": [],
            "next_step": null, "part": { "kind": "peak", "target": 0, "block": 0 },
        }]);
        fs::write(&record, found.to_string()).unwrap();
    };
    let run = |rw: &str, direct: &str| {
        let options = ["run", "--ioengine=io_uring", "--iodepth=4", "--runtime=1", "--time_based"];
        let own = ["--bs=4k", "--json", direct, rw, &device.0];
        let json = place.ask(&[&options[..], &own].concat()).done().json();
        let all = json["fathom"]["ceilings"].as_array().unwrap().clone();
        all.into_iter().find(|ceiling| ceiling["kind"] == "device")
    };
    limited_by("busy-cpus");
    assert_eq!(run("--rw=randread", "--direct=1"), None, "the device may do more");
    limited_by("device");
    let row = run("--rw=randread", "--direct=1");
    let row = row.unwrap_or_else(|| panic!("no row; {part} of the I/Os were seen at the device"));
    assert!((row["most"].as_f64().unwrap() / peak - 1.0).abs() < 0.01, "{row} {peak}");
    assert!(row["used"].as_f64() > Some(0.0) && row["basis"] == "measured", "{row}");
    // The search says nothing about others.
    assert_eq!(run("--rw=read", "--direct=1"), None);
    assert_eq!(run("--rw=randread", "--direct=0"), None);
}

#[test]
fn a_cpu_quota_is_not_taken_for_the_device() {
    if !is_root("cgroups") {
        return;
    }
    let place = Place::new();
    place.data("data", 16 * MIB);
    let Some(cgroup) = Cgroup::new("cpu", "cpu.cfs_quota_us", "5000") else { return };
    let script = format!(
        "{}exec {FATHOM} limit --duration=5 --no-record --json --rw=randread --bs=4k data",
        cgroup.enter()
    );
    let running =
        Running::start(Command::new("sh").args(["-c", &script]).current_dir(place.path(".")));
    let record: LimitRecord = serde_json::from_str(&running.wait().stdout).unwrap();
    let block = &record.report.targets[0].blocks[0];
    let peak = block.peak.as_ref().unwrap();
    let verdict = record.header.findings.iter().find(|finding| finding.rank == Some(1));
    let throttled = peak.cpu.unwrap().throttled * f64::from(record.report.cores);
    println!("throttled for {throttled:.2} of a CPU: {verdict:?}");
    // On a slow disk, the quota may not be in the way.
    let is_device = verdict.is_some_and(|verdict| verdict.rule == "device");
    assert!(throttled < 0.05 || !is_device, "throttled for {throttled} of a CPU: {verdict:?}");
}

#[test]
fn only_the_result_is_printed_with_quiet() {
    let place = Place::new();
    let answer = place.ask(&["limit", "--duration=5", "-q", "--no-record", "--size=4m", "--bs=4k"]);
    assert_eq!(answer.done().stderr, "");
}
