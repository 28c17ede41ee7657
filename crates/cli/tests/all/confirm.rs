//! `run --confirm` and `fathom confirm` as a user sees them. None of these asserts which verdict is right.

use crate::common::{
    Answer, Cgroup, FATHOM, Loop, MIB, Place, Running, as_root, assert_one_error, block, checksum,
    says, until,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

const READS: [&str; 4] = ["--rw=randread", "--bs=4k", "--direct=1", "--time_based"];
const VERDICTS: [&str; 4] = ["confirmed", "refuted", "inconclusive", "not_tested"];

/// A run that is recorded.
fn run(place: &Place, args: &[&str]) -> Answer {
    place.ask(&[&["run", "--eta=never", "--record=kept"], args].concat())
}

fn record(place: &Place) -> Value {
    serde_json::from_str(&place.read("kept/record.json")).unwrap()
}

/// Causes in the verdict of a record.
fn causes(record: &Value) -> Vec<Value> {
    let findings = record["findings"].as_array().unwrap().iter();
    findings.filter(|finding| !finding["share_explained"].is_null()).cloned().collect()
}

/// Makes a cause of this rule the verdict of the recorded run.
fn blame(place: &Place, rule: &str, device: &str) {
    let mut record = record(place);
    record["findings"] = json!([{
        "rule": rule, "class": "limiter", "severity": "info", "rank": 1, "share_explained": 0.9,
        "subject": { "kind": "device", "name": device }, "summary": "It waited.", "evidence": [], "next_step": null,
    }]);
    place.write("kept/record.json", record.to_string());
}

/// The verdict on the first cause of the record, which the page has below it, and that part of the page.
#[track_caller]
fn verdict(place: &Place, page: &str) -> (String, String) {
    let cause = causes(&record(place)).remove(0);
    let confirmed = &cause["confirmed"];
    let verdict = confirmed["verdict"].as_str().unwrap().to_string();
    assert!(VERDICTS.contains(&verdict.as_str()), "{cause}");
    let label = format!("{}: ", verdict.replace('_', " "));
    let below = block(page);
    says(&below, &[&label]);
    // On a busy machine, no I/O may complete in a window.
    if !confirmed["ratio"].is_null() {
        let experiment = confirmed["experiment"].as_str().unwrap();
        let metric = if confirmed["metric"] == "bandwidth" { "bandwidth" } else { "IOPS" };
        let yields = format!("{experiment} yields ");
        says(&below, &[&yields, &format!("× the {metric} (95% CI ")]);
    }
    (verdict, below)
}

#[test]
fn a_run_tests_its_verdict() {
    let place = Place::new();
    place.data("data", 64 * MIB);
    let before = checksum(place.path("data"));
    let args = ["--ioengine=psync", "--runtime=2", "--confirm", "data"];
    let answer = run(&place, &[&READS[..], &args].concat());
    let causes = causes(&record(&place));
    match causes.first() {
        Some(_) => {
            assert_eq!(answer.code, Some(0), "{}", answer.stderr);
            verdict(&place, &answer.stdout);
            let tested = causes.iter().filter(|cause| !cause["confirmed"].is_null());
            assert!((1..=3).contains(&tested.count()));
        }
        // Something else kept the machine busy.
        None => {
            assert_eq!(answer.code, Some(1));
            says(&answer.stderr, &["not confirmed: no limiter was found"]);
        }
    }
    assert_eq!(place.ask(&["show", "kept"]).done().stdout, answer.stdout);
    assert_eq!(checksum(place.path("data")), before);
}

#[test]
fn a_recorded_run_is_tested_and_its_record_keeps_the_result() {
    let place = Place::new();
    place.data("data", 64 * MIB);
    let args = ["--iodepth=4", "--runtime=200ms", "data"];
    run(&place, &[&READS[..], &args].concat()).done();
    blame(&place, "device", "vda");
    let page = place.ask(&["confirm", "-t3", "kept"]).done().stdout;
    verdict(&place, &page);
    assert_eq!(place.ask(&["show", "kept"]).done().stdout, page);
    let json = place.ask(&["show", "kept", "--json"]).json();
    assert_eq!(json["fathom"]["findings"], record(&place)["findings"]);

    blame(&place, "swapping", "vda");
    let page = place.ask(&["confirm", "-t3", "kept"]).done().stdout;
    let (found, below) = verdict(&place, &page);
    assert_eq!(found, "not_tested");
    says(&below, &["not tested: there is no confirmation test for this cause"]);

    let refused = |parts: &[&str]| {
        let before = place.read("kept/record.json");
        let answer = place.ask(&["confirm", "-t3", "kept"]);
        assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""));
        assert_one_error(&answer.stderr, parts);
        assert_eq!(place.read("kept/record.json"), before);
    };
    place.data("data", MIB);
    refused(&["not confirmed: data is not what it was in the run"]);
    let mut elsewhere = record(&place);
    elsewhere["facts"]["host"]["host_id"] = "another".into();
    place.write("kept/record.json", elsewhere.to_string());
    refused(&["not confirmed: it was recorded on another machine"]);
}

#[test]
fn windows_write_only_what_is_permitted_again() {
    let place = Place::new();
    place.data("data", 16 * MIB);
    let args = ["--rw=randwrite", "--bs=4k", "--direct=1", "--time_based", "--runtime=200ms"];
    let more = ["--fsync=1", "--overwrite=data", "data"];
    run(&place, &[&args[..], &more].concat()).done();
    blame(&place, "fsync", "vda");
    place.data("data", 16 * MIB);
    let before = checksum(place.path("data"));
    let answer = place.ask(&["confirm", "-t3", "kept"]);
    assert_eq!(answer.code, Some(1));
    assert_one_error(&answer.stderr, &["--overwrite"]);
    assert_eq!(checksum(place.path("data")), before);
    let page = place.ask(&["confirm", "-t3", "kept", "--overwrite=data"]).done().stdout;
    verdict(&place, &page);
    assert_ne!(checksum(place.path("data")), before);

    let mut whole = record(&place);
    whole["plan"]["jobs"][0]["until"]["ios"] = 10.into();
    place.write("kept/record.json", whole.to_string());
    let answer = place.ask(&["confirm", "-t3", "kept", "--overwrite=data"]);
    assert_one_error(&answer.stderr, &["not confirmed: job", "would write more than the run did"]);
}

#[test]
fn options_that_contradict_it_are_refused() {
    let place = Place::new();
    place.data("data", MIB);
    let refuses = |option: &str, part: &str| {
        place.refuses(&["--rw=read", "--confirm", option, "data"], &[part]);
    };
    refuses("--repeat=2", "--confirm and --repeat conflict");
    refuses("--sampling=off", "remove --sampling=off");
    let answer = place.ask(&["watch", "--confirm", "-t", "1s"]);
    assert_eq!(answer.code, Some(2));
    says(&answer.stderr, &["--pid"]);
}

#[test]
fn a_file_that_a_run_created_for_its_reads_is_read_again() {
    let place = Place::new();
    let args = ["--ioengine=psync", "--runtime=200ms", "--size=8m", "--filename=made"];
    run(&place, &[&READS[..], &args].concat()).done();
    blame(&place, "one-at-a-time", "vda");
    let before = checksum(place.path("made"));
    let page = place.ask(&["confirm", "-t3", "kept"]).done().stdout;
    verdict(&place, &page);
    assert_eq!(checksum(place.path("made")), before);
}

/// What a shell does in a cgroup with a CPU quota.
fn in_cgroup(place: &Place, cgroup: &Cgroup, script: &str) -> Running {
    let script = format!("{}{script}", cgroup.enter());
    Running::start(Command::new("sh").args(["-c", &script]).current_dir(place.path(".")))
}

/// Watches a program that runs `script` in the cgroup with --confirm: its first cause, and whether that was tested.
fn tested_in(place: &Place, cgroup: &Cgroup, script: &str) -> Option<(String, bool)> {
    let program = in_cgroup(place, cgroup, script);
    let pid = program.id().to_string();
    let answer =
        place.ask(&["watch", "--confirm", "--record=kept", "-t", "3s", "-i", "500ms", "-p", &pid]);
    program.signal(Signal::KILL);
    program.wait();
    assert_eq!(place.ask(&["show", "kept"]).done().stdout, answer.stdout);
    let causes = causes(&record(place));
    let Some(cause) = causes.first() else {
        // Something else kept the machine busy.
        assert_eq!(answer.code, Some(1));
        says(&answer.stderr, &["not confirmed: no limiter was found"]);
        return None;
    };
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    let (found, below) = verdict(place, &answer.stdout);
    println!("{cause}: {found}: {below}");
    // On a busy machine, no I/O may complete in a window.
    let is_tested = found != "not_tested" || below.contains("no I/O completed");
    Some((cause["rule"].as_str().unwrap().to_string(), is_tested))
}

#[test]
fn another_program_is_tested_from_outside() {
    let Some(_guard) = as_root("settings of cgroups") else { return };
    let Some(cgroup) = Cgroup::new("cpu", "cpu.cfs_quota_us", "10000") else { return };
    let place = Place::new();
    place.data("data", 16 * MIB);
    let reads = "while :; do dd if=data of=/dev/null bs=4k iflag=direct status=none; done";
    if let Some((rule, is_tested)) = tested_in(&place, &cgroup, reads) {
        assert!(rule != "cgroup-cpu-quota" || is_tested);
    }
    assert_eq!(fs::read_to_string(cgroup.path().join("cpu.cfs_quota_us")).unwrap(), "10000\n");
}

#[test]
fn an_io_limit_of_another_program_is_lifted_and_restored() {
    let Some(_guard) = as_root("cgroups and loop devices") else { return };
    let place = Place::new();
    place.data("image", 64 * MIB);
    let device = Loop::on(&place.path("image"));
    let number = fs::read_to_string(device.queue().join("../dev")).unwrap();
    let limit = format!("{} 200", number.trim());
    let file = "blkio.throttle.read_iops_device";
    let Some(cgroup) = Cgroup::new("blkio", file, &limit) else { return };
    // One process, which does not outlive the test.
    let reads = format!(
        "exec {FATHOM} run --no-record --sampling=off --eta=never --rw=randread --bs=4k --direct=1 \
         --runtime=100 --time_based {}",
        device.0
    );
    if let Some((rule, is_tested)) = tested_in(&place, &cgroup, &reads) {
        assert!(rule != "cgroup-io-limit" || is_tested);
    }
    assert_eq!(fs::read_to_string(cgroup.path().join(file)).unwrap().trim(), limit);
}

#[test]
fn lists_and_comparisons_know_what_was_tested() {
    let place = Place::new();
    place.data("data", 4 * MIB);
    let args = ["run", "--eta=never", "--sampling=off", "--runtime=50ms", "data"];
    let runs = ["confirmed", "refuted"].map(|verdict| {
        place.ask(&[&args[..], &READS].concat()).done();
        let list = place.ask(&["runs", "--json"]).done().json();
        let name = list.as_array().unwrap().last().unwrap()["name"].as_str().unwrap().to_string();
        let file = place.home().join(format!(".local/state/fathom/runs/{name}/record.json"));
        let mut record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        record["findings"] = json!([{
            "rule": "device", "class": "limiter", "severity": "info", "rank": 1, "share_explained": 0.9,
            "limited_by": "vda", "summary": "It waited.", "evidence": [], "next_step": null,
            "confirmed": {
                "verdict": verdict, "metric": "iops", "experiment": "doubling the queue depth",
                "ratio": { "value": 1.0, "low": 0.98, "high": 1.02 },
            },
        }]);
        fs::write(file, record.to_string()).unwrap();
        name
    });
    says(&place.ask(&["runs"]).done().stdout, &["vda: confirmed", "vda: refuted"]);
    let list = place.ask(&["runs", "--json"]).done().json();
    assert_eq!((&list[0]["limited_by"], &list[1]["limited_by"]), (&json!(["device"]), &json!([])));
    assert_eq!((&list[0]["verdict"], &list[1]["verdict"]), (&json!("It waited."), &Value::Null));
    let compared = place.ask(&["compare", &runs[0], &runs[1], "--json"]).done().json();
    let limits = [&compared["before"]["limited_by"], &compared["after"]["limited_by"]];
    assert_eq!(limits, [&json!(["vda"]), &json!([])]);
}

/// A loop device with an I/O scheduler, which the recorded run on it blames; `None` where the kernel has none.
fn scheduled(place: &Place) -> Option<Loop> {
    place.data("image", 16 * MIB);
    let device = Loop::on(&place.path("image"));
    let all = schedulers(&device);
    let Some(other) = ["mq-deadline", "bfq", "kyber"].into_iter().find(|name| all.contains(name))
    else {
        println!("skipped: this kernel has no I/O scheduler");
        return None;
    };
    fs::write(device.queue().join("scheduler"), other).unwrap();
    let args = ["--iodepth=4", "--runtime=200ms", &device.0];
    run(place, &[&READS[..], &args].concat()).done();
    blame(place, "io-scheduler", device.0.trim_start_matches("/dev/"));
    Some(device)
}

/// The I/O schedulers of a device, with that in use in brackets.
fn schedulers(device: &Loop) -> String {
    fs::read_to_string(device.queue().join("scheduler")).unwrap()
}

#[test]
fn settings_are_restored() {
    let Some(_guard) = as_root("the scheduler of a loop device") else { return };
    let place = Place::new();
    let Some(device) = scheduled(&place) else { return };
    let before = schedulers(&device);
    let page = place.ask(&["confirm", "-t3", "kept"]).done().stdout;
    verdict(&place, &page);
    assert_eq!(schedulers(&device), before);
}

#[test]
fn settings_of_a_killed_test_can_be_restored() {
    let Some(_guard) = as_root("the scheduler of a loop device") else { return };
    let place = Place::new();
    let Some(device) = scheduled(&place) else { return };
    let (before, record) = (schedulers(&device), place.read("kept/record.json"));
    let running = place.start(&["confirm", "-t3", "kept"]);
    until("a changed scheduler", || schedulers(&device) != before);
    running.signal(Signal::KILL);
    assert_eq!(running.wait().signal, Some(9));
    // On a busy machine, the window may be over before the signal arrives.
    let is_changed = schedulers(&device) != before;
    let restored = place.ask(&["restore"]).done();
    assert_eq!(schedulers(&device), before, "{}{}", restored.stdout, restored.stderr);
    let name = device.0.trim_start_matches("/dev/");
    // Another fathom that starts meanwhile restores it too.
    let said = format!("scheduler of {name} restored: none → ");
    let is_said = [said.as_str(), "no settings are changed"]
        .iter()
        .any(|said| restored.stdout.contains(said));
    assert!(!is_changed || is_said, "{}", restored.stdout);
    assert_eq!(place.read("kept/record.json"), record);
}

#[test]
fn a_quota_that_a_killed_test_lifted_is_restored() {
    let Some(_guard) = as_root("settings of cgroups") else { return };
    let Some(cgroup) = Cgroup::new("cpu", "cpu.cfs_quota_us", "50000") else { return };
    let place = Place::new();
    place.data("data", 16 * MIB);
    run(&place, &[&READS[..], &["--runtime=200ms", "data"]].concat()).done();
    blame(&place, "cgroup-cpu-quota", "vda");
    let quota = || fs::read_to_string(cgroup.path().join("cpu.cfs_quota_us")).unwrap();
    let reads = ["run", "--eta=never", "--no-record", "--sampling=off", "--rw=read", "data"];
    // The command for that, and any other that measures.
    for next in [&["restore"][..], &reads] {
        let running = in_cgroup(&place, &cgroup, &format!("exec {FATHOM} confirm kept"));
        until("a lifted quota", || quota() == "-1\n");
        running.signal(Signal::KILL);
        assert_eq!(running.wait().signal, Some(9));
        // On a busy machine, the window may be over before the signal arrives.
        let is_lifted = quota() == "-1\n";
        let answer = place.ask(next).done();
        assert_eq!(quota(), "50000\n", "{next:?}: {}{}", answer.stdout, answer.stderr);
        let said = format!("{}{}", answer.stdout, answer.stderr);
        // Another fathom that starts meanwhile restores it too.
        let is_said = ["restored: -1 → 50000", "no settings are changed"];
        let is_said = is_said.iter().any(|text| said.contains(text)) || next == reads;
        assert!(!is_lifted || is_said, "{said}");
    }
}
