//! `fathom predict` on published machines, on stored ones, and on wrong files.

use crate::common::Place;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn machines() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/machines");
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn predictions(file: &Path, args: &[&str]) -> Vec<Value> {
    let args = [&["predict", "--json", file.to_str().unwrap()], args].concat();
    Place::new().ask(&args).done().json().as_array().unwrap().clone()
}

fn bounds(range: &Value) -> (f64, f64) {
    (range["low"].as_f64().unwrap(), range["high"].as_f64().unwrap_or(f64::INFINITY))
}

/// What was measured is within the bounds, or within 10% of them.
#[test]
fn published_machines_deliver_what_was_measured() {
    let mut count = 0;
    for file in machines() {
        for found in predictions(&file, &[]) {
            let workload = &found["workload"];
            let (measured, _) = bounds(&workload["measured"]);
            let is_large = workload["bs"].as_u64().unwrap() >= 131_072;
            let figure = if is_large { "bytes_per_second" } else { "iops" };
            let (low, high) = bounds(&found[figure]);
            let is_right = measured >= low * 0.9 && measured <= high * 1.1;
            assert!(is_right, "{}: {measured} is not in {low} to {high}", file.display());
            // Bounds that say nothing are not a prediction.
            assert!(high / low < 1.7, "{}: {low} to {high}", file.display());
            count += 1;
        }
    }
    assert!(count >= 11, "{count}");
}

#[test]
fn moving_an_adapter_is_the_next_step_where_a_root_complex_is_the_limit() {
    let file =
        machines().into_iter().find(|file| file.ends_with("ten-disks-one-root-complex.toml"));
    let page = Place::new().ask(&["predict", file.unwrap().to_str().unwrap()]).done().stdout;
    for text in
        ["root complex 40 or the disks", "move adapter 1 to root complex 20: at most 65.2 GiB/s"]
    {
        assert!(page.contains(text), "{text}:\n{page}");
    }
}

#[test]
fn options_replace_the_files_workloads() {
    let file = machines().into_iter().find(|file| file.ends_with("ten-disks.toml")).unwrap();
    let found = predictions(&file, &["--bs=4k,1m", "--rw=randread,read", "--workers=2"]);
    let loads: Vec<String> = found
        .iter()
        .map(|one| format!("{} {}", one["workload"]["bs"], one["workload"]["rw"].as_str().unwrap()))
        .collect();
    assert_eq!(loads, ["4096 randread", "4096 read", "1048576 randread", "1048576 read"]);
    assert!(found.iter().all(|one| one["workload"]["measured"].is_null()));
}

/// What `topo` writes of this machine can be read, and says what is missing.
#[test]
fn the_file_of_this_machine_is_one() {
    let place = Place::new();
    let file = place.path("machine.toml");
    let file = file.to_str().unwrap();
    place.ask(&["topo", "--as-machine", "-o", file]).done();
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("\n[cpu]") && text.contains("\ncores = "), "{text}");
    if text.contains("[[disk]]") {
        let filled = text.replace("# read_iops", "read_iops");
        fs::write(file, filled).unwrap();
        let page = place.ask(&["predict", file]).done().stdout;
        assert!(page.contains("IOPS") && page.contains("cycles_per_io of the CPUs"), "{page}");
    }
}

#[test]
fn wrong_files_are_usage_errors_that_name_the_line() {
    let place = Place::new();
    let file = place.path("machine.toml");
    fs::write(&file, "[[disk]]\nname = \"d\"\nread_iop = \"1000k\"\n").unwrap();
    let answer = place.ask(&["predict", file.to_str().unwrap()]);
    assert_eq!(answer.code, Some(2));
    assert!(
        answer.stderr.contains("machine.toml:3: unknown field `read_iop`"),
        "{}",
        answer.stderr
    );
    let none = place.ask(&["predict", "/nonexistent"]);
    assert!(none.code == Some(1) && none.stderr.contains("/nonexistent"), "{}", none.stderr);
}
