//! `fathom try` and `fathom sweep` as a user sees them. None of these asserts a speed.

use crate::common::{
    FATHOM, Loop, MIB, Mounted, Place, Running, as_root, assert_one_error, checksum, fetched, says,
    tool, until,
};
use fathom_model::experiment::{ExperimentRecord, RoundWindow};
use rustix::process::Signal;
use std::fs;

const SHORT: [&str; 3] = ["--duration=2", "--window=50ms", "--sampling=off"];
const ONE: &str = "rw=randread bs=4k iodepth=1 direct=1";
const EIGHT: &str = "--rw=randread --bs=4k --iodepth=8 --direct=1";

fn record(place: &Place, dir: &str) -> ExperimentRecord {
    serde_json::from_str(&place.read(&format!("{dir}/record.json"))).unwrap()
}

#[test]
fn two_jobs_are_compared_and_reprinted_byte_for_byte() {
    let place = Place::new();
    place.data("data", 16 * MIB);
    let before = checksum(place.path("data"));
    let args = [&["try", ONE, EIGHT, "data", "--record=kept"], &SHORT[..2]].concat();
    let answer = place.ask(&args).done();
    says(&answer.stdout, &["iodepth=1", "iodepth=8", "again (A/A)", "IOPS", "█"]);
    assert_eq!(checksum(place.path("data")), before);
    let record = record(&place, "kept");
    assert_eq!(record.report.conditions.len(), 3);
    assert!(record.report.conditions[2].effect.is_some());
    assert!(record.report.conditions[1].control.is_some());
    let windows = place.read("kept/windows.ndjson");
    let windows: Vec<RoundWindow> =
        windows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(windows.len(), record.report.windows as usize);
    assert_eq!(place.ask(&["show", "kept"]).done().stdout, answer.stdout);
    let json = place.ask(&["show", "kept", "--json"]).done().stdout;
    assert_eq!(json, place.read("kept/record.json"));
}

#[test]
fn shipped_experiments_run_in_short_form() {
    let place = Place::new();
    place.data("data", 32 * MIB);
    place.data("other", 32 * MIB);
    let listed = place.ask(&["try", "--list"]).done().stdout;
    says(&listed, &["async-buffered", "What does each I/O scheduler cost?"]);
    // Those without settings of a device.
    for name in
        ["one-disk", "all-disks", "clock", "async-buffered", "sqpoll", "block-size", "sampling"]
    {
        let args = [&["try", name, "data", "other", "--no-record", "--json"], &SHORT[..]].concat();
        let answer = place.ask(&args);
        assert!(matches!(answer.code, Some(0 | 1)), "{name}: {}", answer.stderr);
        let record: ExperimentRecord = serde_json::from_str(&answer.stdout).unwrap();
        assert!(record.header.outcome.is_finished() && record.report.windows > 0, "{name}");
        for (condition, found) in
            record.request.experiment.conditions.iter().zip(&record.report.conditions)
        {
            // On a slow machine, time may run out before every condition was measured.
            let is_known =
                found.rejected.is_some() || found.windows > 0 || record.report.rounds == 0;
            assert!(is_known && found.errors == 0, "{name}, {}: {found:?}", condition.name);
        }
    }
}

#[test]
fn a_sweep_is_a_page_with_curves() {
    let place = Place::new();
    place.data("data", 16 * MIB);
    let grid = [
        "sweep",
        "--bs=4k,16k",
        "--iodepth=1..4",
        "data",
        "--record=kept",
        "--format=html",
        "-o",
        "page.html",
    ];
    place.ask(&[&grid, &SHORT[..]].concat()).done();
    let page = place.read("page.html");
    says(&page, &["<svg viewBox", "latency vs. throughput", "bs=16k", "</html>"]);
    assert_eq!(fetched(&page), None);
    let shown = place.ask(&["show", "kept", "--format=html"]).done().stdout;
    assert_eq!(shown, page);
    place.first_screen(&["show", "kept"], &["Best: bs=", "IOPS ", ", p99 "]);
    let load = ["sweep", "--rate=40%..60%", "--iodepth=16", "data", "--no-record", "--json"];
    let answer = place.ask(&[&load, &SHORT[..]].concat()).done();
    let record: ExperimentRecord = serde_json::from_str(&answer.stdout).unwrap();
    let peak = *record.request.peaks.values().next().unwrap();
    assert_eq!(record.report.conditions.len(), 3);
    // The load is the requested one, not the device's maximum; a machine that became busy does less.
    let rate = record.report.conditions[0].iops / peak;
    assert!((0.0..0.6).contains(&rate), "{rate}");
}

#[test]
fn an_interrupted_experiment_is_resumed() {
    let place = Place::new();
    place.data("data", 4 * MIB);
    let args = [
        "try",
        ONE,
        EIGHT,
        "data",
        "--record=kept",
        "--duration=60",
        "--window=50ms",
        "--precision=0.1",
        "--sampling=off",
    ];
    let running = place.start(&args);
    let windows = || fs::read_to_string(place.path("kept/windows.ndjson")).unwrap_or_default();
    until("windows", || windows().lines().count() > 5);
    running.signal(Signal::INT);
    let answer = running.wait();
    assert_eq!(answer.code, Some(1));
    says(&answer.stdout, &["INCOMPLETE: interrupted by SIGINT"]);
    says(&answer.stderr, &["try --resume kept"]);
    let first = windows();
    let other = place.ask(&["sweep", "--resume=kept"]);
    assert_one_error(&other.stderr, &["is an experiment of `try`", "`fathom try --resume kept`"]);
    place.ask(&["try", "--resume=kept", "--duration=3", "--sampling=off"]).done();
    let record = record(&place, "kept");
    assert!(record.header.outcome.is_finished() && windows().starts_with(&first));
    assert_eq!(windows().lines().count(), record.report.windows as usize);
    let again = place.ask(&["try", "--resume=kept"]);
    assert_one_error(&again.stderr, &["is complete"]);
}

#[test]
fn an_interrupted_sweep_is_resumed_by_the_command_that_is_printed() {
    let place = Place::new();
    place.data("data", 4 * MIB);
    let args = ["sweep", "--iodepth=1,2", "data", "--record=kept", "--duration=60"];
    let running =
        place.start(&[&args[..], &["--window=50ms", "--precision=0.1", "--sampling=off"]].concat());
    let windows = || fs::read_to_string(place.path("kept/windows.ndjson")).unwrap_or_default();
    until("windows", || windows().lines().count() > 5);
    running.signal(Signal::INT);
    says(&running.wait().stderr, &["continue with `fathom sweep --resume kept`"]);
    let other = place.ask(&["try", "--resume=kept"]);
    assert_one_error(&other.stderr, &["kept is a sweep", "`fathom sweep --resume kept`"]);
    place.ask(&["sweep", "--resume=kept", "--duration=3", "--sampling=off"]).done();
    assert!(record(&place, "kept").header.outcome.is_finished());
    let again = place.ask(&["sweep", "--resume=kept", "--bs=8k"]);
    assert_eq!(again.code, Some(2));
}

#[test]
fn a_killed_experiment_keeps_its_rounds() {
    let place = Place::new();
    place.data("data", 4 * MIB);
    let args = ["try", ONE, EIGHT, "data", "--record=kept", "--duration=60", "--window=50ms"];
    let running = place.start(&[&args[..], &["--precision=0.1", "--sampling=off"]].concat());
    let windows = || fs::read_to_string(place.path("kept/windows.ndjson")).unwrap_or_default();
    until("windows", || windows().lines().count() > 5);
    says(&place.ask(&["show", "kept"]).done().stdout, &["INCOMPLETE: still running, "]);
    running.signal(Signal::KILL);
    assert_eq!(running.wait().signal, Some(9));
    let page = place.ask(&["show", "kept"]).done().stdout;
    says(&page, &["INCOMPLETE: killed after ", "results so far", "iodepth=8"]);
    let record = place.ask(&["show", "kept", "--json"]).done().json();
    let count = windows().matches('\n').count();
    assert_eq!(record["report"]["windows"], count, "{page}");
    assert!(record["report"]["conditions"][2]["effect"].is_object(), "{record}");
}

#[test]
fn nothing_is_written_without_permission() {
    let place = Place::new();
    place.data("data", MIB);
    let before = place.look();
    let answer = place.ask(&["try", "rw=randwrite bs=4k", "rw=randwrite bs=8k", "data"]);
    assert_eq!(answer.code, Some(1));
    assert_one_error(&answer.stderr, &["data", "--overwrite"]);
    let answer = place.ask(&["sweep", "--rw=write", "--iodepth=1,2", "data"]);
    assert_one_error(&answer.stderr, &["data", "--overwrite"]);
    let answer = place.ask(&["sweep", "--iodepth=1,2", "--size=100t"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""));
    assert_one_error(&answer.stderr, &["100 TiB in .", "a tenth of the free space"]);
    assert_eq!(place.look(), before);
    let words = [
        "try",
        "rw=randwrite bs=4k",
        "rw=randwrite bs=8k",
        "data",
        "--overwrite=data",
        "--no-record",
    ];
    place.ask(&[&words, &SHORT[..]].concat()).done();
}

#[test]
fn bad_experiments_are_refused_with_all_their_problems() {
    let place = Place::new();
    place.data("data", MIB);
    place.write("bad.toml", "[job]\nrw = \"sideways\"\n[[variant]]\nname = \"a\"\nsettings = { schedular = \"none\" }\n");
    let refused = |args: &[&str], parts: &[&str]| {
        let answer = place.ask(args);
        let is_usage = !args.contains(&"missing");
        assert_eq!(answer.code, Some(if is_usage { 2 } else { 1 }), "{args:?}");
        assert_eq!(answer.stdout, "");
        says(&answer.stderr, parts);
    };
    refused(
        &["try", "bad.toml", "data"],
        &["bad.toml:2: ", "sideways", "bad.toml:5: unknown setting `schedular`"],
    );
    refused(&["try", "schedulr", "data"], &["unknown experiment 'schedulr'", "scheduler"]);
    refused(&["try", ONE, "data"], &["is one job"]);
    refused(&["try", ONE, ONE, "data"], &["are identical"]);
    refused(&["try", ONE, EIGHT, "--no-such"], &["--no-such"]);
    refused(&["try"], &["--list"]);
    refused(&["sweep", "--iodepth=4", "data"], &["nothing varies"]);
    refused(&["sweep", "--iodepth=8..1", "data"], &["is not a range"]);
    refused(&["try", ONE, EIGHT, "missing"], &["missing"]);
}

#[test]
fn commands_that_generate_the_load_are_compared() {
    let place = Place::new();
    place.write(
        "sleep.toml",
        "question = \"Which one is longer?\"\nmetric = \"time\"\n[[variant]]\nname = \"short\"\ncommand = \"sleep 0.01\"\n\
         [[variant]]\nname = \"long\"\ncommand = \"sleep 0.2\"\n",
    );
    let answer = place.ask(&["try", "./sleep.toml", "--no-record", "--duration=6", "--json"]);
    let record: ExperimentRecord = serde_json::from_str(&answer.stdout).unwrap();
    let ratio = record.report.conditions[2].effect.as_ref().unwrap().ratio.unwrap();
    assert!(ratio.value > 1.5, "{ratio:?}");
}

#[test]
fn commands_start_with_the_limits_of_fathom() {
    let place = Place::new();
    place.write(
        "limits.toml",
        "question = \"Which limits?\"\nmetric = \"time\"\n[[variant]]\nname = \"a\"\ncommand = \"ulimit -n >a; ulimit -l >>a\"\n\
         [[variant]]\nname = \"b\"\ncommand = \"ulimit -Hn >b\"\n",
    );
    let run = ["--nofile=300:4000", "--memlock=65536:131072", FATHOM, "try", "./limits.toml"];
    let args = [&run[..], &["--no-record", "--duration=1"]].concat();
    Running::start(&mut place.command("prlimit", &args)).wait();
    assert_eq!((place.read("a"), place.read("b")), ("300\n64\n".into(), "4000\n".into()));
}

/// A file system on a loop device.
struct Disk {
    _mounted: Mounted,
    _device: Loop,
}

impl Disk {
    fn new(place: &Place, kind: &str) -> Self {
        let image = place.path(&format!("{kind}.image"));
        // XFS needs 300 MiB; the file is sparse.
        fs::File::create(&image).unwrap().set_len(320 << 20).unwrap();
        let device = Loop::on(&image);
        tool(&format!("mkfs.{kind}"), &["-q", &device.0]);
        fs::create_dir(place.path(kind)).unwrap();
        let at = place.path(kind);
        tool("mount", &["-t", kind, &device.0, at.to_str().unwrap()]);
        Self { _mounted: Mounted(at), _device: device }
    }
}

/// Runs a shipped experiment in short form.
fn short(place: &Place, name: &str, targets: &[&str]) -> ExperimentRecord {
    let args = ["try", name, "--no-record", "--json", "--duration=3"];
    let answer = place.ask(&[&args[..], &SHORT[1..], targets].concat());
    assert!(matches!(answer.code, Some(0 | 1)), "{name}: {}", answer.stderr);
    serde_json::from_str(&answer.stdout).unwrap()
}

#[test]
fn experiments_on_devices_run_or_say_what_the_device_lacks() {
    let Some(_guard) = as_root("experiments on a loop device") else { return };
    let place = Place::new();
    place.data("image", 16 * MIB);
    let device = Loop::on(&place.path("image"));
    let schedulers = || fs::read_to_string(device.queue().join("scheduler")).unwrap();
    let before = schedulers();
    for name in ["one-core-peak", "polled", "scheduler"] {
        let record = short(&place, name, &[&device.0]);
        let conditions = &record.request.experiment.conditions;
        for (condition, found) in conditions.iter().zip(&record.report.conditions) {
            let what = format!("{name}, {}: {found:?}", condition.name);
            let is_polled = ["polled", "hybrid"].iter().any(|end| condition.name.ends_with(end));
            let scheduler = condition.settings.iter().find_map(|s| s.strip_prefix("scheduler="));
            let lacks = scheduler.is_some_and(|scheduler| !before.contains(scheduler));
            match &found.rejected {
                Some(why) if is_polled => {
                    says(why, &["no polled queues", "nvme.poll_queues"]);
                }
                Some(why) => assert!(lacks && why.contains("scheduler"), "{what}"),
                // On a slow machine, time may run out before.
                None if record.report.rounds == 0 => {}
                None => assert!(!is_polled && !lacks && found.windows > 0, "{what}"),
            }
        }
    }
    assert_eq!(schedulers(), before);
}

#[test]
fn file_systems_are_measured_alone_and_together() {
    let Some(_guard) = as_root("file systems on loop devices") else { return };
    let place = Place::new();
    let _mounted = ["ext4", "xfs"].map(|kind| Disk::new(&place, kind));
    place.data("ext4/file", 8 * MIB);
    place.data("xfs/file", 8 * MIB);
    let targets = ["ext4/file", "xfs/file"];
    let record = short(&place, "filesystems", &targets);
    let kinds = record.header.facts.targets.iter().map(|target| target.file_system.as_deref());
    assert_eq!(kinds.collect::<Vec<_>>(), [Some("ext4"), Some("xfs")]);
    let conditions = &record.request.experiment.conditions;
    let names = conditions.iter().map(|c| (c.name.as_str(), c.against.as_slice()));
    let expected: [(&str, &[usize]); 3] =
        [("target 1 alone", &[]), ("target 2 alone", &[]), ("together", &[0, 1])];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    for (condition, found) in conditions.iter().zip(&record.report.conditions) {
        let is_known = found.windows > 0 || record.report.rounds == 0;
        assert!(is_known && found.rejected.is_none() && found.errors == 0, "{}", condition.name);
    }
    assert!(record.report.conditions[2].effect.is_some());
    let alone = place.ask(&["try", "filesystems", "ext4/file"]);
    assert_one_error(&alone.stderr, &["needs two targets"]);
}
