//! Recorded runs, printed again: the same text, for every kind of record and every released version.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::{MIB, Place, fetched, is_root, says};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn fixture(name: &str) -> String {
    format!("{}/../store/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_run_is_printed_again_as_it_was() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    for (sampling, runtime) in [("default", "2500ms"), ("full", "2500ms"), ("off", "200ms")] {
        let sampling = format!("--sampling={sampling}");
        let runtime = format!("--runtime={runtime}");
        let run =
            ["run", "--eta=never", "--rw=randread", "--time_based", &sampling, &runtime, "data"];
        let printed = place.ask(&run).done().stdout;
        assert_eq!(place.ask(&["show"]).done().stdout, printed, "{sampling}");
    }
    let json = place.ask(&["show", "--json"]).done().json();
    assert_eq!(json["jobs"][0]["error"], 0, "{json}");
    let markdown = place.ask(&["show", "--format=markdown"]).done().stdout;
    assert!(markdown.contains("| --- |") || markdown.contains("|---|"), "{markdown}");
}

#[test]
fn an_observation_and_a_search_are_printed_again_as_they_were() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let printed = place.ask(&["watch", "-t", "1200ms", "-i", "300ms", "--record=seen"]).done();
    assert_eq!(place.ask(&["show", "seen"]).done().stdout, printed.stdout);
    // That is for programs; of the machine, it would be fathom's own threads.
    assert!(!printed.stdout.contains("where the time went"), "{}", printed.stdout);
    let printed = place.ask(&["limit", "-t", "5", "--record=found", "data"]).done();
    let again = place.ask(&["show", "found"]).done();
    assert_eq!(again.stdout, printed.stdout);
}

#[test]
fn views_of_one_source_are_printed_again_as_they_were() {
    let place = Place::new();
    let mut views: Vec<Vec<&str>> = vec![
        vec!["threads", "-t", "700ms", "-i", "200ms", "-a", "-g", "pid,comm,state", "-n", "3"],
        vec!["threads", "-t", "500ms", "-G", "user"],
    ];
    if is_root("stacks and blocks") {
        views.push(vec!["stacks", "-t", "500ms", "-n", "5"]);
        views.push(vec!["blocks", "-t", "500ms", "-i", "100ms"]);
    }
    for args in views {
        for format in ["--format=text", "--format=json", "--format=markdown"] {
            let args = [&args[..], &[format]].concat();
            let printed = place.ask(&args).done().stdout;
            let shown = place.ask(&["show", format]).done().stdout;
            assert_eq!(shown, printed, "{args:?}");
        }
    }
    let listed = place.ask(&["runs"]).done().stdout;
    says(&listed, &["sampled for", "threads -t 700ms"]);
    let before = place.ask(&["runs", "--json"]).done().json();
    place.ask(&["threads", "-t", "100ms", "--no-record"]).done();
    place.ask(&["threads", "-t", "100ms", "--record=here"]).done();
    assert_eq!(place.ask(&["runs", "--json"]).done().json(), before);
    assert!(place.read("here/record.json").contains("group_by"));
    says(&place.ask(&["show", "here"]).done().stdout, &["fathom threads · "]);
}

/// The record in the run directory `dir`, changed.
fn change(dir: &Path, change: impl FnOnce(&mut Value)) {
    let file = dir.join("record.json");
    let mut record = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut record);
    fs::write(file, record.to_string()).unwrap();
}

#[test]
fn the_verdict_is_part_of_the_record() {
    let place = Place::new();
    let found = place.ask(&["watch", "-t", "1200ms", "-i", "200ms", "--record=seen", "--json"]);
    let found = found.done().json();
    let findings = found["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["class"] == "limiter"), "{found}");
    assert_eq!(findings[0]["rank"], 1, "{found}");
    assert!(found["figures"]["machine"]["idle_pct"].is_number(), "{found}");
    assert_eq!(place.ask(&["show", "seen", "--json"]).done().json(), found);
    let unchanged = place.ask(&["show", "--judge", "seen"]).done().stdout;
    says(&unchanged, &["Limited by:", "Judged anew:", "the findings are those of the record"]);
    // What is stored is printed, also where the rules of today say something else.
    change(&place.path("seen"), |record| {
        record["findings"][0]["summary"] = "Sunspots limited it.".into();
    });
    let stored = place.ask(&["show", "seen"]).done().stdout;
    says(&stored, &["Limited by:", "Sunspots limited it."]);
    let anew = place.ask(&["show", "--judge", "seen"]).done().stdout;
    says(&anew, &["Judged anew:", "no longer", "Sunspots limited it.", "new"]);
    // Records that hold no verdict are judged when they are shown.
    let before = unchanged.split("Judged anew:").next().unwrap();
    change(&place.path("seen"), |record| record["findings"] = Value::Array(Vec::new()));
    assert!(before.starts_with(place.ask(&["show", "seen"]).done().stdout.trim_end()));
}

#[test]
fn runs_are_listed_with_headline_and_verdict() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let run = ["run", "--eta=never", "--rw=randread", "--time_based", "--runtime=2500ms", "data"];
    place.ask(&run).done();
    place.ask(&["limit", "-t", "5", "--sampling=off", "data"]).done();
    let rows = place.ask(&["runs", "--json"]).done().json();
    let [run, limit] = rows.as_array().unwrap().as_slice() else { panic!("{rows}") };
    assert_eq!((run["kind"].as_str(), limit["kind"].as_str()), (Some("run"), Some("limit")));
    for row in [run, limit] {
        assert!(row["headline"].as_str().unwrap().contains("IOPS"), "{row}");
        assert!(row["verdict"].as_str().is_some_and(|verdict| !verdict.is_empty()), "{row}");
        assert!(row["limited_by"][0].is_string(), "{row}");
    }
    // No command prints the layout of its page as JSON.
    for command in [&["restore", "--list"][..], &["clean"], &["try", "--list"]] {
        let json = place.ask(&[command, &["--json"]].concat()).done().json();
        assert!(json.is_array(), "{command:?}: {json}");
    }
    let listed = place.ask(&["runs"]).done().stdout;
    let record = place.ask(&["show", run["name"].as_str().unwrap(), "--json"]).done().json();
    let findings = record["fathom"]["findings"].as_array().unwrap();
    let first = findings.iter().find(|found| found["rank"] == 1).unwrap();
    // An inconclusive verdict has no name but that of its rule.
    let limiter = first["limited_by"].as_str().or(first["rule"].as_str()).unwrap();
    says(&listed, &["limited by", limiter]);
}

#[test]
fn version_1_can_be_shown() {
    let place = Place::new();
    let run = place.ask(&["show", &fixture("v1/run")]).done();
    says(&run.stdout, &["41.5k", "data · 2 s", "io_uring"]);
    let watch = place.ask(&["show", &fixture("v1/watch")]).done();
    says(&watch.stdout, &["exit status 0", "CPU", "memory"]);
    let limit = place.ask(&["show", &fixture("v1/limit")]).done();
    says(&limit.stdout, &["4 KiB", "1 MiB", "knee", "peak"]);
    let missing = place.ask(&["show", "nosuch"]);
    assert_eq!(missing.code, Some(1));
    says(&missing.stderr, &["no such run or tag: nosuch", "fathom runs"]);
}

#[test]
fn version_2_can_be_shown() {
    let place = Place::new();
    let run = place.ask(&["show", &fixture("v2/run")]).done();
    says(&run.stdout, &["647k", "data · 1.2 s", "io_uring", "At least 99.7% of the bytes"]);
    let watch = place.ask(&["show", &fixture("v2/watch")]).done();
    says(&watch.stdout, &["exit status 3", "CPU", "memory", "Limited by:"]);
    let limit = place.ask(&["show", &fixture("v2/limit")]).done();
    says(&limit.stdout, &["4 KiB randread", "1 MiB randread", "92.1k", "knee, peak"]);
    let compared = place.ask(&["show", &fixture("v2/experiment")]).done();
    says(&compared.stdout, &["8.32k (3.76k–12.9k)", "bs=8k: inconclusive: −7.2%"]);
    place.ask(&["top", "--replay", &fixture("v2/run"), "--format=csv"]).done();
}

#[test]
fn the_first_screen_has_the_answer_and_the_main_figures() {
    let place = Place::new();
    let inconclusive = "what limits it is inconclusive";
    let run = ["647k", "2.47 GiB/s", "p99", "Limited by: 1. 90%"];
    let watch = ["exit status 3", "from disks", "Limited by: inconclusive"];
    let limit = ["4 KiB random reads: 92.1k IOPS", "1 MiB random reads: 3.02 GiB/s", inconclusive];
    let experiment = ["bs=8k: inconclusive: −7.2%", "8.32k", "7.34k"];
    for (kind, parts) in
        [("run", &run[..]), ("watch", &watch), ("limit", &limit), ("experiment", &experiment)]
    {
        place.first_screen(&["show", &fixture(&format!("v2/{kind}"))], parts);
    }
}

#[test]
fn runs_are_listed_removed_and_pruned() {
    let place = Place::new();
    place.data("data", MIB);
    says(&place.ask(&["runs"]).done().stdout, &["no runs are recorded"]);
    for _ in 0..3 {
        place.ask(&["run", "--rw=read", "--sampling=off", "data"]).done();
    }
    let listed = place.ask(&["runs"]).done().stdout;
    says(&listed, &["fathom runs", "IOPS", "run --rw=read --sampling=off data", "3 runs"]);
    let rows = place.ask(&["runs", "--json"]).done().json();
    let name = rows[0]["name"].as_str().unwrap();
    place.ask(&["show", name]).done();
    place.ask(&["runs", "remove", name]).done();
    says(&place.ask(&["runs"]).done().stdout, &["2 runs"]);
    let pruned = place.ask(&["runs", "prune", "--max-size=0"]).done();
    says(&pruned.stderr, &["removed 2 runs"]);
    says(&place.ask(&["runs"]).done().stdout, &["no runs are recorded"]);
    assert_eq!(place.ask(&["runs", "remove", name]).code, Some(1));
    // What fathom did not create stays, and is not reported as removed.
    let strange = "20261125-150000-4";
    let runs = place.home().join(".local/state/fathom/runs");
    fs::create_dir_all(runs.join(strange).join("record.json")).unwrap();
    let pruned = place.ask(&["runs", "prune", "--keep=0"]).done().stderr;
    says(&pruned, &[&format!("{strange} was not removed"), "removed 0 runs of 0 B"]);
    let removed = place.ask(&["runs", "remove", strange]);
    assert_eq!(removed.code, Some(1));
    says(&removed.stderr, &[&format!("{strange} was not removed")]);
    assert!(runs.join(strange).join("record.json").exists());
}

#[test]
fn a_report_holds_the_pages_of_its_runs() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    place.ask(&["limit", "-t", "5", "data"]).done();
    for seed in ["1", "2"] {
        let seed = format!("--randseed={seed}");
        let run = ["run", "--eta=never", "--rw=randread", "--runtime=200ms", "--time_based"];
        place.ask(&[&run[..], &[&seed, "data"]].concat()).done();
    }
    place.ask(&["watch", "-t", "300ms", "-i", "100ms"]).done();
    let listed = place.ask(&["runs", "--json"]).done().json();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect();
    // One run is its own page.
    place.ask(&["report", names[0], "-o", "one.html"]).done();
    let shown = place.ask(&["show", names[0], "--format=html"]).done().stdout;
    assert_eq!(place.read("one.html"), shown);
    let args = [&["report", "-o", "all.html"], &names[..], &[names[0]]].concat();
    place.ask(&args).done();
    let page = place.read("all.html");
    for name in &names {
        assert_eq!(
            page.matches(&format!(">{name}<")).count(),
            2,
            "{name}: in the table, and its own part"
        );
    }
    says(&page, &["latency vs. throughput", "randread", "fathom watch"]);
    assert_eq!(fetched(&page), None);
    let unknown = place.ask(&["report", "nothing"]);
    assert_eq!(unknown.code, Some(1));
    says(&unknown.stderr, &["no such run or tag: nothing"]);
}
