//! `fathom run`, `limit`, `doctor` and `topo` under MPICH's mpiexec. Where that is not installed, nothing is tested.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{Answer, FATHOM, Loop, MIB, Place, Running, as_root, is_root, says, until};
use fathom_model::experiment::ExperimentRecord;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn mpiexec(place: &Place, launcher: &[&str], args: &[&str]) -> Option<Running> {
    let found = std::env::var("PATH").unwrap_or_default();
    if !found.split(':').any(|dir| fs::exists(format!("{dir}/mpiexec.hydra")).unwrap_or(false)) {
        println!("skipped: no mpiexec.hydra (Debian package mpich)");
        return None;
    }
    // The host's own name may not be known to its resolver.
    let args = [&["-iface", "lo"], launcher, &[FATHOM], args].concat();
    Some(Running::start(&mut place.command("mpiexec.hydra", &args)))
}

fn ranks(place: &Place, count: &str, args: &[&str]) -> Option<Answer> {
    let args = [&["run", "--eta=never", "--sampling=off"], args].concat();
    mpiexec(place, &["-n", count], &args).map(Running::wait)
}

/// Records of all runs, that of rank 0 last.
pub fn records(place: &Place) -> Vec<Value> {
    let runs = fs::read_dir(place.home().join(".local/state/fathom/runs")).unwrap();
    let read = |dir: fs::DirEntry| fs::read(dir.path().join("record.json")).unwrap();
    let mut all: Vec<Value> =
        runs.map(|dir| serde_json::from_slice(&read(dir.unwrap())).unwrap()).collect();
    all.sort_by_key(|record| record["ranks"].is_array());
    all
}

/// Buckets of the read latencies of all jobs.
fn buckets(record: &Value) -> Vec<(u64, u64)> {
    let mut sums = std::collections::BTreeMap::new();
    for job in record["jobs"].as_array().unwrap() {
        let latency: fathom_model::Histogram =
            serde_json::from_value(job["dirs"]["read"]["clat"].clone()).unwrap();
        for (value, count) in latency.buckets() {
            *sums.entry(value).or_insert(0) += count;
        }
    }
    sums.into_iter().collect()
}

const JOBS: &str = "[a]\nfilename=data\nrw=randread\nbs=4k\nnumber_ios=64\ntime_based=0\n[b]\nfilename=data\nrw=read\nbs=8k\nnumber_ios=16\n";

#[test]
fn two_ranks_have_one_result_from_the_job_file_of_rank_0() {
    let place = Place::new();
    place.data("data", MIB);
    place.write("jobs.fio", JOBS);
    let Some(answer) = ranks(&place, "2", &["--output-format=json", "jobs.fio"]) else { return };
    let json = answer.done().json();
    let names: Vec<&str> = json["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["jobname"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(json["jobs"][0]["read"]["total_ios"], 128);
    assert_eq!(json["jobs"][1]["read"]["io_bytes"], 2 * 16 * 8192);
    let all = records(&place);
    assert_eq!(all.len(), 2);
    let merged = &all[1];
    assert_eq!(merged["ranks"].as_array().unwrap().len(), 2);
    assert_eq!(merged["ranks"][1]["run_id"], all[0]["run_id"]);
    // The percentiles are those of all I/Os.
    let of_rank = |rank: usize| {
        let mut record = merged.clone();
        let indices = merged["ranks"][rank]["jobs"].as_array().unwrap();
        let jobs = indices.iter().map(|at| merged["jobs"][at.as_u64().unwrap() as usize].clone());
        record["jobs"] = jobs.collect();
        buckets(&record)
    };
    assert_eq!(of_rank(1), buckets(&all[0]));
    let mut sums = std::collections::BTreeMap::new();
    for (value, count) in [of_rank(0), of_rank(1)].concat() {
        *sums.entry(value).or_insert(0) += count;
    }
    assert_eq!(sums.into_iter().collect::<Vec<_>>(), buckets(merged));
    // It is shown again as it was.
    let page =
        place.ask(&["show", place.home().join(".local/state/fathom/runs").to_str().unwrap()]);
    assert_ne!(page.code, Some(101));
}

#[test]
fn sixteen_ranks_have_names_of_their_own() {
    let place = Place::new();
    let write =
        ["--name=w", "--filename=out.$rank-$ranks", "--rw=write", "--bs=64k", "--size=256k"];
    let Some(answer) = ranks(&place, "16", &write) else { return };
    let page = answer.done().stdout;
    says(&page, &["ranks", "16 started within", "median", "ended first"]);
    for rank in 0..16 {
        assert_eq!(fs::metadata(place.path(&format!("out.{rank}-16"))).unwrap().len(), 256 << 10);
    }
}

/// In place of ssh: options, host, command. Each host has its own name; what is `second` begins the command of the second.
fn ssh(second: &str) -> String {
    format!(
        "#!/bin/sh\nwhile [ \"${{1#-}}\" != \"$1\" ]; do shift; done\nhost=$1; shift\n\
         case $host in node2) set -- {second} \"$@\" ;; esac\nexec unshare --uts sh -c \"hostname $host; $*\"\n"
    )
}

/// On three hosts.
fn on_nodes(place: &Place, args: &[&str]) -> Option<Answer> {
    on_unequal_nodes(place, "", args)
}

fn on_unequal_nodes(place: &Place, second: &str, args: &[&str]) -> Option<Answer> {
    started_on_nodes(place, second, args).map(Running::wait)
}

fn started_on_nodes(place: &Place, second: &str, args: &[&str]) -> Option<Running> {
    place.write("ssh", ssh(second));
    fs::set_permissions(place.path("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    let ssh = place.path("ssh");
    let launcher = ["-launcher", "ssh", "-launcher-exec", ssh.to_str().unwrap()];
    let launcher = [&launcher[..], &["-hosts", "node1,node2,node3", "-n", "3"]].concat();
    mpiexec(place, &launcher, args)
}

#[test]
fn clocks_that_differ_do_not_matter() {
    if !is_root("time namespaces") {
        return;
    }
    let place = Place::new();
    place.data("data", MIB);
    // Eleven days.
    let second = "unshare --time --monotonic 1000000 --fork";
    let args = ["run", "--eta=never", "--rw=randread", "--bs=4k", "--time_based", "--runtime=3"];
    let Some(answer) = on_unequal_nodes(&place, second, &[&args[..], &["data"]].concat()) else {
        return;
    };
    says(&answer.done().stdout, &["3 started within", "node2"]);
    let merged = records(&place).pop().unwrap();
    let hours = 3_600_000_000_000_u64;
    for rank in merged["ranks"].as_array().unwrap() {
        assert!(rank["started_ns"].as_u64().unwrap() < hours, "{rank}");
        assert!(rank["ended_ns"].as_u64().unwrap() < hours, "{rank}");
        for span in rank["over_time"].as_array().unwrap() {
            assert!(span["to_ns"].as_u64().unwrap() < hours, "{rank}");
        }
    }
}

#[test]
fn a_rank_without_permission_is_named() {
    if !is_root("other users") {
        return;
    }
    let place = Place::new();
    place.data("data", MIB);
    let mode = |name: &str, mode: u32| {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("data", 0o600);
    mode(".", 0o755);
    let read = ["run", "--eta=never", "--rw=randread", "--number_ios=9", "--no-record", "data"];
    let second = "setpriv --reuid=65534 --clear-groups";
    let Some(answer) = on_unequal_nodes(&place, second, &read) else { return };
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""), "{}", answer.stderr);
    says(&answer.stderr, &["node2 (rank 1): ", "data", "ermission"]);
    assert!(!answer.stderr.contains("(rank 0): "), "{}", answer.stderr);
}

#[test]
fn hosts_are_named_in_files_and_in_the_result() {
    if !is_root("host names") {
        return;
    }
    let place = Place::new();
    let args = ["run", "--eta=never", "--sampling=off", "--rw=write", "--bs=64k", "--size=256k"];
    let args = [&args[..], &["--share=same", "--filename=out.$hostname", "--json"]].concat();
    let Some(answer) = on_nodes(&place, &args) else { return };
    let json = answer.done().json();
    assert_eq!(json["jobs"][0]["write"]["io_bytes"], 3 * (256 << 10));
    let merged = records(&place).pop().unwrap();
    let mut hosts: Vec<&str> = merged["ranks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rank| rank["hostname"].as_str().unwrap())
        .collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["node1", "node2", "node3"]);
    for host in hosts {
        assert_eq!(fs::metadata(place.path(&format!("out.{host}"))).unwrap().len(), 256 << 10);
    }
}

#[test]
fn ranks_that_split_a_file_read_all_of_it_once() {
    let place = Place::new();
    place.data("data", MIB);
    let read = ["--share=split", "--rw=read", "--bs=64k", "--output-format=json", "data"];
    let Some(answer) = ranks(&place, "4", &read) else { return };
    let json = answer.done().json();
    assert_eq!(json["jobs"][0]["read"]["io_bytes"], MIB);
    let record = records(&place).pop().unwrap();
    let mut starts: Vec<u64> = record["plan"]["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["regions"][0]["start"].as_u64().unwrap())
        .collect();
    starts.sort_unstable();
    assert_eq!(starts, [0, 256 << 10, 512 << 10, 768 << 10]);
    let Some(answer) = ranks(&place, "32", &read) else { return };
    assert_eq!(answer.code, Some(1));
    says(&answer.stderr, &["--share=split", "no block of 65536 bytes for each of 32 ranks"]);
}

#[test]
fn refusals_of_all_ranks_come_before_anything_is_changed() {
    let place = Place::new();
    place.data("data.0", MIB);
    let read =
        ["--name=r", "--filename=data.$rank", "--rw=randread", "--readonly", "--record=kept.$rank"];
    let Some(answer) = ranks(&place, "3", &read) else { return };
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""), "{}", answer.stderr);
    says(&answer.stderr, &["(rank 1): ", "data.1", "(rank 2): ", "data.2"]);
    assert!(!answer.stderr.contains("(rank 0): "), "{}", answer.stderr);
    assert!(
        !place.path("kept.0").exists()
            || fs::read_dir(place.path("kept.0")).unwrap().next().is_none()
    );
    // A command that nobody understands is refused once.
    let Some(answer) = ranks(&place, "3", &["--rw=raed", "data.0"]) else { return };
    assert_eq!(answer.code, Some(1));
    assert_eq!(answer.stderr.matches("raed").count(), 1, "{}", answer.stderr);
}

#[test]
fn ranks_that_are_ignored_run_alone() {
    let place = Place::new();
    place.data("data", MIB);
    let read = ["--no-ranks", "--rw=read", "--bs=64k", "--output-format=terse", "data"];
    let Some(answer) = ranks(&place, "2", &read) else { return };
    assert_eq!(answer.done().stdout.lines().count(), 2);
    assert!(records(&place).iter().all(|record| record["ranks"].is_null()));
}

/// The processes of the ranks, by rank.
fn pids(running: &Running) -> Vec<u32> {
    let children = |of: u32| -> Vec<u32> {
        let list = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
        list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    };
    let (mut above, mut found) = (vec![running.id()], std::collections::BTreeMap::new());
    while let Some(pid) = above.pop() {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let environ = String::from_utf8_lossy(&environ).into_owned();
        match environ.split('\0').find_map(|one| one.strip_prefix("PMI_RANK=")) {
            // It may have children.
            Some(rank) => drop(found.insert(rank.parse::<u32>().unwrap(), pid)),
            None => above.extend(children(pid)),
        }
    }
    found.into_values().collect()
}

fn is_lost(record: &Value) -> bool {
    let by = record["outcome"]["interrupted"]["by"].as_str();
    by.is_some_and(|by| by.starts_with("the loss of "))
}

#[test]
fn the_others_keep_their_results_when_one_stops() {
    let place = Place::new();
    place.data("data", MIB);
    let args = ["run", "--eta=never", "--sampling=off", "--rw=randread", "--bs=4k", "--runtime=60"];
    let args = [&args[..], &["--time_based", "data"]].concat();
    let launcher = ["-n", "3"];
    let Some(running) = mpiexec(&place, &launcher, &args) else { return };
    let started = || {
        let all = pids(&running);
        // All have begun their jobs.
        let runs = fs::read_dir(place.home().join(".local/state/fathom/runs"));
        let begun = runs.map_or(0, |runs| {
            let has_samples = |dir: &fs::DirEntry| {
                fs::metadata(dir.path().join("samples.ndjson")).is_ok_and(|file| file.len() > 0)
            };
            runs.flatten().filter(has_samples).count()
        });
        (begun == 3).then_some(all)
    };
    let mut all = None;
    until("the jobs of all ranks", || {
        all = started();
        all.is_some()
    });
    let victim = Pid::from_raw(all.unwrap()[2] as i32).unwrap();
    kill_process(victim, Signal::STOP).unwrap();
    // Once it goes on, it finds that the others have gone.
    let others = || records(&place).iter().filter(|record| is_lost(record)).count() >= 2;
    until("the others", others);
    kill_process(victim, Signal::CONT).unwrap();
    let answer = running.wait();
    assert_ne!(answer.code, Some(0));
    says(&answer.stderr, &["has its own result only", "(rank 0 of 3)", "when last heard of"]);
    says(&answer.stderr, &["no answer from ", " (rank 2); "]);
    says(&answer.stdout, &["IOPS", "the loss of ", " (rank 2)"]);
}

#[test]
fn a_search_measures_from_all_hosts() {
    if !is_root("host names") {
        return;
    }
    let place = Place::new();
    place.data("data", MIB);
    let args = ["limit", "-t", "6", "--bs=4k", "--sampling=off", "--format=json", "data"];
    let Some(answer) = on_nodes(&place, &args) else { return };
    let json = answer.done().json();
    let ranks = json["ranks"].as_array().unwrap();
    let hosts: Vec<&str> = ranks.iter().map(|rank| rank["hostname"].as_str().unwrap()).collect();
    assert_eq!(hosts, ["node1", "node2", "node3"]);
    let cores: u64 = ranks.iter().map(|rank| rank["cores"].as_u64().unwrap()).sum();
    assert_eq!(json["config"]["cores"], cores);
    let peak = &json["report"]["targets"][0]["blocks"][0]["peak"];
    let of_peak = |name: &str| {
        ranks.iter().map(|rank| rank["at_peaks"][0][name].as_f64().unwrap_or(0.0)).sum::<f64>()
    };
    assert_eq!(peak["workers"].as_f64(), Some(of_peak("workers")));
    // Means of several windows, of the same I/Os.
    let share = of_peak("iops") / peak["iops"]["mean"].as_f64().unwrap();
    assert!((0.5..2.0).contains(&share), "{share}");
    // Each host has the result, which is shown again.
    let all = records(&place);
    let mut hosts: Vec<_> =
        all.iter().map(|one| one["facts"]["host"]["hostname"].as_str()).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["node1", "node2", "node3"].map(Some));
    let windows = &json["report"]["windows"];
    assert!(all.iter().all(|one| one["report"]["windows"] == *windows));
    let page = place.ask(&["show"]).done().stdout;
    says(&page, &["3 ranks measured together", "node1", "node3", "workers"]);
}

#[test]
fn a_search_is_refused_by_all_or_none() {
    let place = Place::new();
    place.data("data.0", MIB);
    let args = ["limit", "-t", "5", "--no-record", "data.$rank"];
    let Some(answer) = mpiexec(&place, &["-n", "2"], &args).map(Running::wait) else { return };
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""), "{}", answer.stderr);
    says(&answer.stderr, &["(rank 1): ", "data.1 does not exist"]);
    assert!(!answer.stderr.contains("(rank 0): "), "{}", answer.stderr);
}

/// Whether a search or an experiment has measured something.
fn has_windows(place: &Place) -> bool {
    let runs = fs::read_dir(place.home().join(".local/state/fathom/runs"));
    let windows = |dir: fs::DirEntry| fs::metadata(dir.path().join("windows.ndjson"));
    runs.is_ok_and(|mut runs| {
        runs.any(|dir| windows(dir.unwrap()).is_ok_and(|file| file.len() > 0))
    })
}

/// A search or an experiment on three hosts, of which the last stops: its place, once all have ended. If one is killed, Hydra
/// may kill the others, whatever its options.
fn without_the_last(args: &[&str]) -> Option<Place> {
    if !is_root("host names") {
        return None;
    }
    let place = Place::new();
    place.data("data", MIB);
    let running = started_on_nodes(&place, "", args)?;
    until("the first windows", || has_windows(&place));
    let victim = Pid::from_raw(pids(&running)[2] as i32).unwrap();
    kill_process(victim, Signal::STOP).unwrap();
    let lost = || records(&place).into_iter().filter(is_lost).collect::<Vec<_>>();
    until("the end of the others", || lost().len() >= 2);
    let lost = lost();
    kill_process(victim, Signal::CONT).unwrap();
    let answer = running.wait();
    assert_ne!(answer.code, Some(0));
    says(&answer.stdout, &["INCOMPLETE", "the loss of node3 (rank 2)"]);
    says(&answer.stderr, &["no answer from node3 (rank 2)"]);
    let mut hosts: Vec<_> =
        lost.iter().map(|one| one["facts"]["host"]["hostname"].as_str().unwrap()).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["node1", "node2"]);
    assert!(
        lost.iter().any(|one| one["outcome"]["interrupted"]["by"] == "the loss of node3 (rank 2)")
    );
    Some(place)
}

#[test]
fn an_experiment_ends_in_order_when_a_rank_stops() {
    let args = [&["try", "-t", "60", "--sampling=off"], &SLOWER[..]].concat();
    let Some(place) = without_the_last(&args) else { return };
    for record in records(&place).iter().filter(|one| is_lost(one)) {
        // Its own windows.
        assert!(record["report"]["windows"].as_u64().unwrap() > 0, "{record}");
    }
    let runs = fs::read_dir(place.home().join(".local/state/fathom/runs")).unwrap();
    for dir in runs.flatten() {
        let resumed = place.ask(&["try", "--resume", dir.path().to_str().unwrap()]);
        says(&resumed.stderr, &["was measured by several ranks"]);
    }
}

#[test]
fn a_search_ends_in_order_when_a_rank_stops() {
    let args = ["limit", "-t", "60", "--bs=4k", "--sampling=off", "data"];
    without_the_last(&args);
}

#[test]
fn the_others_are_told_when_a_search_ends() {
    let place = Place::new();
    place.data("data", MIB);
    let args = ["limit", "-t", "60", "--bs=4k", "--sampling=off", "data"];
    let Some(running) = mpiexec(&place, &["-n", "2"], &args) else { return };
    until("the first windows", || has_windows(&place));
    kill_process(Pid::from_raw(running.id() as i32).unwrap(), Signal::INT).unwrap();
    // The exit status is mpiexec's.
    let answer = running.wait();
    says(&answer.stdout, &["INCOMPLETE", "2 ranks measured together"]);
    let record = records(&place).pop().unwrap();
    assert!(record["outcome"]["interrupted"].is_object(), "{}", record["outcome"]);
}

/// Two jobs without a device, the second of which does less.
pub const SLOWER: [&str; 2] = [
    "rw=read bs=4k ioengine=null size=1m thinktime=200",
    "rw=read bs=4k ioengine=null size=1m thinktime=1000",
];

#[test]
fn variants_are_compared_on_all_hosts_at_once() {
    if !is_root("host names") {
        return;
    }
    let place = Place::new();
    let args = [&["try", "-t", "6", "--sampling=off", "--json"], &SLOWER[..]].concat();
    let Some(answer) = on_nodes(&place, &args) else { return };
    let record: ExperimentRecord = serde_json::from_str(&answer.stdout).expect(&answer.stderr);
    let hosts: Vec<&str> = record.ranks.iter().map(|rank| rank.hostname.as_str()).collect();
    assert_eq!(hosts, ["node1", "node2", "node3"]);
    for (index, found) in record.report.conditions.iter().enumerate() {
        let sum: f64 = record.ranks.iter().map(|rank| rank.metrics[index].unwrap()).sum();
        // The sum also has the warm-up rounds.
        assert!((0.5..2.0).contains(&(sum / found.metric.mean)), "{sum} {found:?}");
    }
    // A fifth of the I/Os, whatever the machine does.
    let effect = record.report.conditions[2].effect.as_ref().unwrap();
    assert!(effect.ratio.unwrap().value < 0.7, "{effect:?}");
    // Each host has the result, and its own windows.
    let all = records(&place);
    let mut hosts: Vec<_> =
        all.iter().map(|one| one["facts"]["host"]["hostname"].as_str()).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["node1", "node2", "node3"].map(Some));
    assert!(all.iter().all(|one| one["report"] == all[0]["report"]));
    for dir in fs::read_dir(place.home().join(".local/state/fathom/runs")).unwrap() {
        let windows = fs::read_to_string(dir.unwrap().path().join("windows.ndjson")).unwrap();
        assert_eq!(windows.lines().count() as u32, record.report.windows);
    }
    says(&place.ask(&["show"]).done().stdout, &["3 ranks measured each window", "node1", "node3"]);
    let Some(answer) = on_nodes(&place, &["try", "no-such-experiment"]) else { return };
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""), "{}", answer.stderr);
    assert_eq!(answer.stderr.matches("unknown experiment").count(), 1, "{}", answer.stderr);
}

#[test]
fn a_sweep_measures_with_more_and_more_ranks() {
    if !is_root("host names") {
        return;
    }
    let place = Place::new();
    let load = ["--key=ioengine=null", "--key=thinktime=500", "--key=size=1m"];
    let args =
        [&["sweep", "-t", "6", "--sampling=off", "--json", "--ranks=1..3"], &load[..]].concat();
    let Some(answer) = on_nodes(&place, &args) else { return };
    let record: ExperimentRecord = serde_json::from_str(&answer.stdout).expect(&answer.stderr);
    let conditions = &record.request.experiment.conditions;
    assert_eq!(conditions.iter().map(|c| c.ranks).collect::<Vec<_>>(), [1, 2, 3].map(Some));
    let took_part =
        |index: usize| record.ranks.iter().filter(|r| r.metrics[index].is_some()).count();
    assert_eq!([0, 1, 2].map(took_part), [1, 2, 3]);
    let iops = |index: usize| record.report.conditions[index].iops;
    assert!(iops(2) > 1.5 * iops(0), "{} {}", iops(0), iops(2));
    let Some(answer) = on_nodes(&place, &["sweep", "--ranks=2,5"]) else { return };
    assert_eq!(answer.code, Some(1));
    says(&answer.stderr, &["--ranks: 5 of 3 ranks cannot take part"]);
    let alone = place.ask(&["sweep", "--ranks=1..3"]);
    assert_eq!(alone.code, Some(2));
    says(&alone.stderr, &["--ranks is for several ranks"]);
}

#[test]
fn settings_are_restored_if_a_rank_is_killed() {
    let Some(_alone) = as_root("settings of a loop device") else { return };
    let place = Place::new();
    place.data("image", 16 * MIB);
    let device = Loop::on(&place.path("image"));
    let setting = || fs::read_to_string(device.queue().join("read_ahead_kb")).unwrap();
    let variant = |kb: u32| {
        format!("[[variant]]\nname = \"{kb}\"\nsettings = {{ read_ahead_kb = \"{kb}\" }}\n")
    };
    let job = "[job]\nrw = \"read\"\nbs = \"4k\"\ndirect = 1\n";
    let head = "name = \"ahead\"\nquestion = \"Which?\"\n";
    place.write("ahead.toml", format!("{head}{job}{}{}", variant(1020), variant(1012)));
    let before = setting();
    let args = ["try", "./ahead.toml", "-t", "60", "--window=1s", "--sampling=off", &device.0];
    let Some(running) = mpiexec(&place, &["-n", "2"], &args) else { return };
    until("a changed setting", || setting() != before);
    let victim = Pid::from_raw(pids(&running)[1] as i32).unwrap();
    kill_process(victim, Signal::KILL).unwrap();
    assert_ne!(running.wait().code, Some(0));
    until("the old setting", || setting() == before);
    // In order, too.
    let args = ["try", "./ahead.toml", "-t", "5", "--sampling=off", "--json", &device.0];
    let Some(answer) = mpiexec(&place, &["-n", "2"], &args).map(Running::wait) else { return };
    let record: ExperimentRecord = serde_json::from_str(&answer.stdout).expect(&answer.stderr);
    assert!(record.report.conditions.iter().all(|c| c.windows > 0 && c.rejected.is_none()));
    assert_eq!(setting(), before);
}

#[test]
fn all_ranks_start_each_round_together() {
    let place = Place::new();
    place.data("data", MIB);
    let read = ["--rw=randread", "--bs=4k", "--number_ios=64", "--time_based=0", "data"];
    let Some(answer) = ranks(&place, "2", &[&["--record=base.$rank"], &read[..]].concat()) else {
        return;
    };
    answer.done();
    let rounds = ["--repeat=2", "--compare=base.0", "--tag=both"];
    let Some(answer) = ranks(&place, "2", &[&rounds[..], &read].concat()) else { return };
    let page = answer.done().stdout;
    says(&page, &["2 rounds", "base.0"]);
    assert_eq!(page.matches("2 rounds").count(), 1, "{page}");
    let all = records(&place);
    assert_eq!(all.len(), 4);
    assert_eq!(all.iter().filter(|record| record["ranks"].is_array()).count(), 2);
    let merged = &all[3];
    let ios = |job: &Value| job["dirs"]["read"]["counts"]["ios"].as_u64().unwrap();
    assert_eq!(merged["jobs"].as_array().unwrap().iter().map(ios).sum::<u64>(), 128);
    // Each has offsets of its own.
    let seeds: Vec<&Value> = merged["plan"]["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| &job["access"]["seed"])
        .collect();
    assert_ne!(seeds[0], seeds[1]);
}

#[test]
fn a_verdict_is_tested_on_all_ranks() {
    let place = Place::new();
    place.data("data", 16 * MIB);
    let args = ["--confirm", "--sampling=default", "--rw=randread", "--bs=4k", "--direct=1"];
    let args = [&args[..], &["--ioengine=psync", "--time_based", "--runtime=2", "data"]].concat();
    let Some(answer) = ranks(&place, "2", &args) else { return };
    let merged = records(&place).pop().unwrap();
    let findings = merged["findings"].as_array().unwrap();
    let confirmed: Vec<&Value> =
        findings.iter().filter(|f| !f["confirmed"].is_null()).map(|f| &f["confirmed"]).collect();
    // Something else may have kept the machine busy.
    if confirmed.is_empty() {
        says(&answer.stderr, &["not confirmed: "]);
        return;
    }
    let page = answer.done().stdout;
    assert!((1..=3).contains(&confirmed.len()), "{page}");
    let label = confirmed[0]["verdict"].as_str().unwrap().replace('_', " ");
    says(&page, &[&format!("{label}: ")]);
}

#[test]
fn ranks_have_files_of_their_own() {
    let place = Place::new();
    let write = ["--share=own", "--name=w", "--rw=write", "--bs=64k", "--size=128k"];
    let Some(answer) = ranks(&place, "3", &[&write[..], &["--filename=out"]].concat()) else {
        return;
    };
    answer.done();
    let Some(answer) = ranks(&place, "3", &write) else { return };
    answer.done();
    let Some(answer) = ranks(&place, "3", &[&write[..], &["--filename=r$rank"]].concat()) else {
        return;
    };
    answer.done();
    for name in ["out.0", "out.2", "w.0.0.1", "r0", "r2"] {
        assert_eq!(fs::metadata(place.path(name)).expect(name).len(), 128 << 10);
    }
    assert!(!place.path("out").exists() && !place.path("r0.0").exists());
    let Some(answer) = ranks(&place, "2", &[&write[..], &["--filename=/dev/null"]].concat()) else {
        return;
    };
    assert_eq!(answer.code, Some(1));
    says(&answer.stderr, &["--share=own gives each rank files of its own, and /dev/null is none"]);
}

#[test]
fn each_rank_keeps_a_journal() {
    let place = Place::new();
    let write = ["--name=w", "--filename=out.$rank", "--rw=randwrite", "--bs=4k", "--size=64k"];
    let write = [&write[..], &["--fsync=4", "--verify=crc32c"]].concat();
    let with = |more: &[&str]| ranks(&place, "2", &[&write[..], more].concat());
    let Some(answer) = with(&["--journal=kept"]) else { return };
    assert_eq!(answer.code, Some(1));
    says(&answer.stderr, &["2 ranks", "over each other in --journal=kept: use $rank in its name"]);
    let Some(answer) = with(&["--journal=kept.$rank", "--share=same"]) else { return };
    assert_eq!(answer.code, Some(1));
    says(&answer.stderr, &["--journal does not know what other ranks write"]);
    let Some(answer) = with(&["--journal=kept.$rank"]) else { return };
    answer.done();
    for rank in 0..2 {
        let page = place.ask(&["verify", &format!("kept.{rank}")]).done().stdout;
        says(&page, &["Nothing that was acknowledged as durable was lost: 16 blocks judged."]);
    }
}

#[test]
fn hosts_that_differ_are_named() {
    // Devices that other tests make meanwhile would be differences.
    let Some(_alone) = as_root("host names") else { return };
    let place = Place::new();
    let Some(answer) = on_nodes(&place, &["topo"]) else { return };
    says(&answer.done().stdout, &["All 3 hosts agree."]);
    // A copy of another machine's sysfs stands for one that differs.
    for host in ["node1", "node2", "node3"] {
        let size = if host == "node2" { "4096" } else { "8192" };
        fs::create_dir_all(place.path(&format!("{host}/sys/block"))).unwrap();
        fs::create_dir_all(place.path(&format!("{host}/sys/devices/virtual/block/zram9"))).unwrap();
        place.write(&format!("{host}/sys/devices/virtual/block/zram9/size"), size);
        place.write(&format!("{host}/sys/devices/virtual/block/zram9/dev"), "252:9");
        let link = place.path(&format!("{host}/sys/block/zram9"));
        std::os::unix::fs::symlink("../devices/virtual/block/zram9", link).unwrap();
    }
    let Some(answer) = on_nodes(&place, &["topo", "--root=$hostname"]) else { return };
    says(&answer.done().stdout, &["2 of 3 hosts agree; node2 differs in 1 property.", "on node2"]);
    let Some(answer) = on_nodes(&place, &["doctor", "--json"]) else { return };
    let json = answer.done().json();
    assert_eq!(json["hosts"].as_array().unwrap().len(), 3);
    assert_eq!(json["differences"].as_array().unwrap().len(), 0, "{json}");
    let Some(answer) = on_nodes(&place, &["doctor", "--fix", "--yes"]) else { return };
    assert_eq!(answer.code, Some(1));
    says(&answer.stdout, &["Not inspected: node1, node2, node3: with several ranks, nothing is"]);
    let Some(answer) = on_nodes(&place, &["topo", "lacks.$hostname"]) else { return };
    assert_eq!(answer.code, Some(1));
    says(&answer.stdout, &["No host was inspected.", "Not inspected: node2: lacks.node2 is not"]);
}
