//! `fathom run` as a user sees it: every form of request and every form of result.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{FATHOM, MIB, Place, Running, assert_one_error, says};
use fathom_model::progress::Sample;
use fathom_model::{Dir, Histogram, RunRecord};
use serde_json::Value;
use std::fs::File;
use std::process::Stdio;

const JOBS: &str = "\
; two groups, one after the other
[global]
filename=data
bs=4k
[first]
rw=read
number_ios=10
[global]
bs=8k
[second]
stonewall
rw=randread
number_ios=20
";

fn names(json: &Value) -> Vec<&str> {
    let jobs = json["jobs"].as_array().unwrap();
    jobs.iter().map(|job| job["jobname"].as_str().unwrap()).collect()
}

#[test]
fn a_job_file_runs_section_by_section() {
    let place = Place::new();
    place.data("data", MIB);
    place.write("jobs.fio", JOBS);
    let json = place.run(&["--output-format=json", "jobs.fio"]).done().json();
    assert_eq!(names(&json), ["first", "second"]);
    let read = |n: usize| &json["jobs"][n]["read"];
    assert_eq!(
        (read(0)["total_ios"].as_u64(), read(0)["io_bytes"].as_u64()),
        (Some(10), Some(40960))
    );
    assert_eq!(
        (read(1)["total_ios"].as_u64(), read(1)["io_bytes"].as_u64()),
        (Some(20), Some(163_840))
    );
    assert_eq!(json["fathom"]["complete"], true);
    let only = place.run(&["--output-format=json", "--section=second", "jobs.fio"]).done().json();
    assert_eq!(names(&only), ["second"]);
    let piped = place.run_stdin(JOBS, &["--output-format=json", "-"]).done().json();
    assert_eq!(names(&piped), ["first", "second"]);
}

#[test]
fn what_every_part_could_sustain_is_printed() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let options =
        ["run", "--eta=never", "--record=kept", "--rw=randread", "--bs=4k", "--iodepth=4"];
    let rate = ["--ioengine=io_uring", "--time_based", "--runtime=1", "--rate_iops=500", "data"];
    let answer = place.ask(&[&options[..], &rate].concat()).done();
    let parts = ["Ceilings:", "could sustain", "requested rate", "read"];
    says(&answer.stdout, &parts);
    let json = place.ask(&["show", "kept", "--json"]).done().json();
    let all = json["fathom"]["ceilings"].as_array().unwrap();
    let of = |kind: &str| all.iter().find(|ceiling| ceiling["kind"] == kind).unwrap();
    let most = of("rate")["most"].as_f64().map(f64::round);
    assert_eq!((most, &of("rate")["unit"]), (Some(500.0), &"iops".into()));
    // Of these, little may be used, which the page leaves out.
    assert_eq!(of("queue_depth")["part"], "queue depth 4");
    assert!(of("core")["most"].as_f64() > of("core")["used"].as_f64());
    // A few I/Os are not enough to tell.
    let brief = place.run(&["--rw=read", "--bs=4k", "--number_ios=10", "data"]).done();
    assert!(!brief.stdout.contains("Ceilings"), "{}", brief.stdout);
}

#[test]
fn command_lines_in_fios_form_and_in_short_form() {
    let place = Place::new();
    place.data("data", MIB);
    let fio = ["--filename=data", "--name=a", "--rw=read", "--name=b", "--rw=randread", "--bs=16k"];
    let json = place.run(&[&fio[..], &["--output-format=json"]].concat()).done().json();
    assert_eq!(names(&json), ["a", "b"]);
    assert_eq!(json["jobs"][1]["read"]["total_ios"], 64);
    let short = ["--rw=randread", "--bs=4k", "--iodepth=8", "--numjobs=3", "--output-format=json"];
    let json = place.run(&[&short[..], &["data"]].concat()).done().json();
    assert_eq!(names(&json).len(), 3);
    assert!(json["jobs"].as_array().unwrap().iter().all(|job| job["read"]["total_ios"] == 256));
}

#[test]
fn questions_are_answered_without_any_io() {
    let place = Place::new();
    place.data("data", MIB);
    place.write("jobs.fio", JOBS);
    let before = place.look();
    let parsed = place.run(&["--parse-only", "jobs.fio"]).done();
    assert_eq!((parsed.stdout.as_str(), parsed.stderr.as_str()), ("", ""));
    let shown = place.run(&["--showcmd", "jobs.fio"]).done().stdout;
    assert_eq!(place.look(), before);
    assert_eq!(shown.lines().count(), 1);
    let line = format!("{} --no-record --output-format=json", shown.trim_end());
    let line = line.replacen("fathom", FATHOM, 1);
    let again = Running::start(&mut place.command("sh", &["-c", &line])).wait().done().json();
    assert_eq!(names(&again), ["first", "second"], "{shown}");
    says(&place.run(&["--help"]).done().stdout, &["iodepth", "--erase=", "--overwrite="]);
    says(&place.run(&["--cmdhelp=bs"]).done().stdout, &["blocksize"]);
    let unknown = place.run(&["--cmdhelp=iodepht"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""));
    says(&unknown.stderr, &["iodepht", "did you mean 'iodepth'"]);
}

#[test]
fn a_file_is_checked_on_a_machine_without_its_targets() {
    let place = Place::new();
    let text = "[a]\nrw=randwrite\nnrfiles=65536\nsize=64t\ndirectory=/none\n";
    place.write("many.fio", text);
    let before = place.look();
    place.run(&["--parse-only", "many.fio"]).done();
    // As in fio, having nothing to check is not an error.
    place.run(&["--parse-only"]).done();
    place.write("bad.fio", "[a]\niodeth=4\nrw=raed\n[b]\nverify=md6\n");
    let bad = place.run(&["--parse-only", "bad.fio"]);
    let lines: Vec<&str> = bad.stderr.lines().collect();
    assert_eq!((bad.code, lines.len()), (Some(1), 3), "{}", bad.stderr);
    for (line, place) in lines.iter().zip(["bad.fio:2:", "bad.fio:3:", "bad.fio:5:"]) {
        assert!(line.starts_with(&format!("fathom: {place}")), "{line}");
    }
    std::fs::remove_file(place.path("bad.fio")).unwrap();
    assert_eq!(place.look(), before);
}

#[test]
fn a_refusal_goes_where_the_result_would() {
    let place = Place::new();
    place.write("old.json", "{\"stale\": true}");
    place.write("bad.fio", "[a]\nrw=raed\n[b]\nbs=4q\n");
    let ask =
        |file: &str| place.run(&[&format!("--output={file}"), "--output-format=json", "bad.fio"]);
    for file in ["old.json", "new.json"] {
        let refused = ask(file);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{}", refused.stderr);
        let json: Value = serde_json::from_str(&place.read(file)).unwrap();
        says(&json["fathom"]["outcome"].to_string(), &["refused", "raed", "4q"]);
    }
    // What holds data may be a target whose line could not be understood.
    place.data("data", 4096);
    let before = std::fs::read(place.path("data")).unwrap();
    assert!(ask("data").stdout.starts_with('{'));
    assert_eq!(std::fs::read(place.path("data")).unwrap(), before);
}

#[test]
fn every_form_of_result_is_all_that_standard_output_holds() {
    let place = Place::new();
    place.data("data", MIB);
    let run = |format: &str| {
        let answer = place.run(&["--rw=read", "data", &format!("--output-format={format}")]).done();
        assert_eq!(answer.stderr, "", "{format}");
        answer
    };
    says(&run("normal").stdout, &["IOPS", "p99", "read"]);
    assert!(run("json").json()["jobs"][0]["read"]["clat_ns"]["bins"].is_null());
    assert!(run("json+").json()["jobs"][0]["read"]["clat_ns"]["bins"].is_object());
    let terse = run("terse").stdout;
    assert!(terse.starts_with("3;fathom-") && terse.lines().count() == 1, "{terse}");
    says(&run("normal,terse").stdout, &["p99.9", "\n3;fathom-"]);
}

#[test]
fn results_go_into_the_file_that_output_names() {
    let place = Place::new();
    place.data("data", MIB);
    place.write("real", "old");
    let json = ["--rw=read", "data", "--output-format=json"];
    for name in ["new", "real"] {
        let answer = place.run(&[&json[..], &[&format!("--output={name}")]].concat()).done();
        assert_eq!(answer.stdout, "");
        assert!(serde_json::from_str::<Value>(&place.read(name)).is_ok(), "{name}");
    }
    // What the shell appends to is appended to.
    place.write("log", "before\n");
    let log = File::options().append(true).open(place.path("log")).unwrap();
    let args = ["run", "--no-record", "--eta=never", "--rw=read", "data", "--output=/dev/stdout"];
    let status = place.command(FATHOM, &args).stdout(log).status().unwrap();
    assert!(status.success());
    says(&place.read("log"), &["before\n", "IOPS"]);
}

#[test]
fn progress_is_plain_lines_on_standard_error() {
    let place = Place::new();
    place.data("data", MIB);
    let long = ["run", "--no-record", "--rw=randread", "data", "--time_based", "--runtime=1"];
    let shown = place.ask(&[&long[..], &["--status-interval=200ms"]].concat()).done();
    let lines: Vec<&str> = shown.stderr.lines().collect();
    assert!(lines.len() >= 2 && lines.iter().all(|line| line.contains('%')), "{}", shown.stderr);
    assert!(!shown.stderr.contains(['\r', '\x1b']) && !shown.stdout.contains('\x1b'));
    // Also while a file is laid out.
    let made = place.run(&["--rw=read", "--size=1m", "new"]).done();
    assert_eq!(made.stderr, "");
}

#[test]
fn progress_is_one_line_on_a_terminal_and_gone_at_the_end() {
    let place = Place::new();
    place.data("data", MIB);
    let work = "run --no-record --rw=randread --time_based --runtime=1200ms --output=result data";
    let line = format!("'{FATHOM}' {work}");
    let shown = Running::start(&mut place.command("script", &["-qec", &line, "/dev/null"])).wait();
    let shown = shown.done().stdout;
    says(&shown, &["\r", "% ", "IOPS", "p99", "left"]);
    assert!(!shown.contains('\n') && shown.ends_with("\r\x1b[K"), "{shown:?}");
}

#[test]
fn the_run_folder_holds_the_record_and_samples_that_add_up() {
    let place = Place::new();
    place.data("data", MIB);
    let args =
        ["run", "--eta=never", "--rw=randread", "--numjobs=2", "--time_based", "--runtime=1200ms"];
    let args = [&args[..], &["--record=out/kept", "data"]].concat();
    place.ask(&args).done();
    let record: RunRecord = serde_json::from_str(&place.read("out/kept/record.json")).unwrap();
    assert!(record.is_complete());
    let samples = place.read("out/kept/samples.ndjson");
    let samples: Vec<Sample> = samples.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(samples.len() >= 2);
    for (index, job) in record.jobs.iter().enumerate() {
        let mut merged = Histogram::default();
        samples.iter().for_each(|sample| merged.merge(&sample.jobs[index].clat[Dir::Read]));
        let last = samples.last().unwrap().jobs[index].dirs[Dir::Read];
        assert_eq!(merged.count(), last.ios);
        assert_eq!((last.ios, last.bytes), (job.dirs.read.counts.ios, job.dirs.read.counts.bytes));
        assert_eq!(merged.count(), job.dirs.read.clat.count());
    }
    let kept = place.look();
    let second = place.ask(&args);
    assert_eq!(second.code, Some(1));
    assert_one_error(&second.stderr, &["out/kept", "already exists", "another"]);
    assert_eq!(place.look(), kept);
}

#[test]
fn a_record_is_kept_among_the_users_runs_where_that_can_be() {
    let place = Place::new();
    place.data("data", MIB);
    let args = ["run", "--eta=never", "--rw=read", "data"];
    place.ask(&args).done();
    let runs = place.home().join(".local/state/fathom/runs");
    let kept: Vec<_> = std::fs::read_dir(&runs).unwrap().collect();
    assert_eq!(kept.len(), 1);
    // Without a home, or with one that is not a path, the run continues and reports that nothing is recorded.
    let before = place.look();
    let watch = ["watch", "-t", "300ms", "-i", "100ms"];
    for home in ["", "relative", "/proc/none"] {
        for args in [&args[..], &watch, &["threads", "-t", "200ms"]] {
            let answer = Running::start(place.command(FATHOM, args).env("HOME", home)).wait();
            let answer = answer.done();
            says(&answer.stdout, &["fathom "]);
            assert_one_error(&answer.stderr, &["no record is written", "--record=DIR"]);
        }
    }
    assert_eq!(place.look(), before);
}

#[test]
fn a_result_that_cannot_be_delivered_is_a_failure() {
    let place = Place::new();
    place.data("data", MIB);
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for args in [&["run", "--no-record", "--rw=read", "data"][..], &["run", "--help"]] {
        let mut command = place.command(FATHOM, args);
        let output = command.stdout(full()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        says(&String::from_utf8_lossy(&output.stderr), &["standard output", "No space left"]);
    }
}

#[test]
fn odd_names_are_names() {
    let place = Place::new();
    for name in ["a b", "c:d", "é\u{1f4be}", "-dash"] {
        place.data(name, MIB);
        let path = place.path(name);
        let json = place.run(&["--rw=read", "--output-format=json", path.to_str().unwrap()]).done();
        assert_eq!(json.json()["jobs"][0]["read"]["total_ios"], 256, "{name}");
    }
}

#[test]
fn memory_stays_small_however_large_the_target_and_the_depth() {
    let place = Place::new();
    let file = File::create(place.path("huge")).unwrap();
    if let Err(error) = file.set_len(15 << 40) {
        println!("skipped: this file system has no files of 15 TiB: {error}");
        return;
    }
    let work = ["--rw=randread", "--bs=4k", "--direct=1", "--time_based", "--runtime=20"];
    let much = ["--numjobs=64", "--iodepth=128", "--group_reporting", "--output-format=json"];
    let args = [&["run", "--no-record", "--eta=never"], &work[..], &much[..], &["huge"]].concat();
    let running = place.start(&args);
    let status = || std::fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
    let field = |name: &str| {
        let text = status();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0 kB");
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    crate::common::until("all workers", || field("Threads:") / 1024 > 64);
    // Long enough that every buffer has been read into.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let peak = field("VmHWM:");
    running.signal(rustix::process::Signal::INT);
    let json = running.wait().json();
    let ios = json["jobs"][0]["read"]["total_ios"].as_u64().unwrap();
    assert!(ios > 64 * 128, "{ios} reads do not use every buffer");
    let buffers = 64 * 128 * 4096;
    assert!(peak > buffers, "{peak} bytes are less than the buffers");
    let beyond = peak - buffers;
    println!("{:.1} MiB beyond the buffers", beyond as f64 / MIB as f64);
    // A debug build needs 60 to 68 MiB, with the kernel's symbols; fio takes 8 times as much for each job.
    assert!(beyond <= 96 * MIB as u64, "{beyond} bytes beyond the buffers");
}

#[test]
fn a_job_ends_at_steady_state() {
    let place = Place::new();
    let job = |limit: &str, more: &[&str]| {
        let common = ["--name=a", "--ioengine=null", "--size=1g", "--rw=randread", "--time_based"];
        let steady = [limit, "--ss_dur=2", "--output-format=json,normal"];
        let args = [&common[..], &steady, more].concat();
        let answer = place.run(&args).done();
        let (json, text) = answer.stdout.split_once("\n}\n").unwrap();
        let json: serde_json::Value = serde_json::from_str(&format!("{json}}}")).unwrap();
        (json["jobs"][0].clone(), text.to_string())
    };
    // Any three figures are as steady as that.
    let (steady, text) = job("--ss=iops:1000%", &["--runtime=600"]);
    assert!(text.contains("Steady after") && text.contains("below 1000%"), "{text}");
    let found = &steady["steadystate"];
    assert_eq!((found["attained"].as_u64(), found["duration"].as_u64()), (Some(1), Some(2)));
    assert_eq!(found["ss"], "iops:1000.000000%");
    assert_eq!(found["data"]["iops"].as_array().unwrap().len(), 2);
    assert!(steady["read"]["runtime"].as_u64().unwrap() < 600_000);
    // None is.
    let clones = ["--runtime=4", "--numjobs=2", "--group_reporting"];
    let (never, text) = job("--ss=bw_slope:0", &clones);
    assert_eq!(never["steadystate"]["attained"], 0);
    assert!(text.contains("Not steady: bw slope"), "{text}");
    let (early, text) = job("--ss=lat:1us", &["--runtime=500ms"]);
    assert_eq!(early["steadystate"]["data"]["lat_ns"], serde_json::json!([0, 0]));
    assert!(text.contains("Not steady: the job ended before"), "{text}");
}
