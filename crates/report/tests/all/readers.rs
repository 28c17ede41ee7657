//! fio itself and the programs that read its output, against what fathom renders.
//!
//! `fio-3.33/` holds what that version printed for [`JOB`]. The tests that run other programs
//! are ignored by default, so that `cargo test` needs nothing but Rust. To run them:
//!
//! ```sh
//! apt-get install fio python3-venv
//! cargo test -p fathom-report --test all -- --ignored
//! ```

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::support::json::Json;
use crate::support::{troubled, two_groups};
use fathom_report::{fio_json, terse};
use std::path::Path;
use std::process::Command;

/// A run of fio that needs no disk.
const JOB: [&str; 6] =
    ["--name=a", "--ioengine=null", "--rw=randrw", "--bs=4k", "--size=4m", "--fsync=64"];
/// The version that was tried.
const FIO_PLOT: &str = "fio-plot==1.1.21";

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap_or_else(|e| {
        panic!("cannot run {program}: {e}. Install it: apt-get install fio python3-venv")
    });
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{program} {args:?} failed:\n{}{}", said[0], said[1]);
    said[0].clone()
}

fn fio(format: &[&str]) -> String {
    run("fio", &[format, &JOB].concat())
}

fn stored(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fio-3.33").join(file);
    std::fs::read_to_string(path).unwrap()
}

/// Checks that `ours` has all that `fios` has, by the same names, of the same kinds, in the same
/// order.
fn covers(path: &str, fios: &Json, ours: &Json) {
    assert_eq!(fios.kind(), ours.kind(), "{path}");
    // Percentiles and bins are data, options are what the user gave.
    let is_data = ["percentile", "bins", "job options", "global options"]
        .iter()
        .any(|name| path.ends_with(name));
    if let (Json::Object(fios), Json::Object(ours), false) = (fios, ours, is_data) {
        let mut place = 0;
        for (key, value) in fios {
            let found = ours.iter().position(|entry| entry.0 == *key);
            let found = found.unwrap_or_else(|| panic!("{path} has no {key}"));
            assert!(found >= place, "{path}: {key} is not where fio has it");
            place = found;
            covers(&format!("{path}/{key}"), value, &ours[found].1);
        }
    }
    if let (Json::List(fios), Json::List(ours)) = (fios, ours) {
        for (fio, our) in fios.iter().zip(ours) {
            covers(&format!("{path}[]"), fio, our);
        }
    }
}

#[test]
fn json_has_the_fields_of_fio() {
    let ours = Json::parse(&fio_json::render(&two_groups(), None, false));
    covers("", &Json::parse(&stored("run.json")), &ours);
}

#[test]
#[ignore = "needs fio: apt-get install fio"]
fn json_has_the_fields_of_the_installed_fio() {
    for (format, plus) in [("json", false), ("json+", true)] {
        let fios = Json::parse(&fio(&[&format!("--output-format={format}")]));
        covers("", &fios, &Json::parse(&fio_json::render(&two_groups(), None, plus)));
    }
}

/// What a terse column holds.
fn column_kind(column: &str) -> &'static str {
    let is_number = |text: &str| text.parse::<f64>().is_ok();
    match column.split_once("%=") {
        Some((p, value)) if is_number(p) && value.parse::<u64>().is_ok() => "percentile",
        _ if column.parse::<u64>().is_ok() => "whole number",
        _ if is_number(column) => "number with fraction",
        _ if column.strip_suffix('%').is_some_and(is_number) => "percent",
        _ => "text",
    }
}

fn same_columns(number: u32, fios: &str) {
    let kinds = |text: &str| -> Vec<_> {
        let line = text.lines().next().unwrap();
        line.split(';').map(column_kind).collect()
    };
    let mut record = two_groups();
    // fio's run had none.
    record.disks.clear();
    let ours = terse::render(&record, terse::TerseVersion::from_number(number).unwrap());
    assert_eq!(kinds(&ours), kinds(fios), "terse version {number}");
}

#[test]
fn terse_has_the_columns_of_fio() {
    for number in [2, 3, 4, 5] {
        same_columns(number, &stored(&format!("run.terse{number}")));
    }
}

#[test]
#[ignore = "needs fio: apt-get install fio"]
fn terse_has_the_columns_of_the_installed_fio() {
    for number in [2, 3, 4, 5] {
        let version = format!("--terse-version={number}");
        same_columns(number, &fio(&["--output-format=terse", &version]));
    }
}

#[test]
fn columns_that_scripts_cut_out_of_terse_3() {
    let line = terse::render(&two_groups(), terse::TerseVersion::V3);
    let columns: Vec<&str> = line.lines().next().unwrap().split(';').collect();
    // As cut -d; -f7,8,48,49 counts: bandwidth in KiB/s and IOPS of reads, then of writes.
    assert_eq!([columns[6], columns[7]], ["600000", "150000"]);
    assert_eq!([columns[47], columns[48]], ["240000", "60000"]);
}

#[test]
#[ignore = "needs fio_jsonplus_clat2csv: apt-get install fio"]
fn clat2csv_reads_every_bin() {
    let dir = tempfile::tempdir().unwrap();
    for (name, mut record) in [("good", two_groups()), ("bad", troubled())] {
        // Beyond the largest bin of fio: the program would never end if this had a bin of its own.
        record.jobs[0].dirs.read.clat.record(3_600 * crate::support::SECOND);
        let json = dir.path().join(name).with_extension("json");
        let csv = dir.path().join(name).with_extension("csv");
        std::fs::write(&json, fio_json::render(&record, None, true)).unwrap();
        let args = [json.to_str().unwrap(), csv.to_str().unwrap()];
        run("fio_jsonplus_clat2csv", &args);
        let said = run("fio_jsonplus_clat2csv", &[args[0], args[1], "--validate"]);
        assert!(said.contains("job0.csv validated"), "{said}");
        let first = std::fs::read_to_string(dir.path().join(format!("{name}_job0.csv"))).unwrap();
        assert!(first.lines().count() > 3, "{first}");
    }
}

#[test]
#[ignore = "fetches fio-plot from PyPI: apt-get install python3-venv"]
fn fio_plot_draws_it() {
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join(FIO_PLOT);
    let program = |name: &str| venv.join("bin").join(name).to_str().unwrap().to_string();
    if !venv.join("bin/fio-plot").exists() {
        run("python3", &["-m", "venv", venv.to_str().unwrap()]);
        run(&program("pip"), &["--quiet", "install", FIO_PLOT]);
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("run.json"), fio_json::render(&two_groups(), None, true))
        .unwrap();
    // Bars of IOPS and latency by depth, and the distribution of latencies.
    for kind in ["-l", "-H"] {
        let picture = dir.path().join(format!("{kind}.png"));
        let (from, to) = (dir.path().to_str().unwrap(), picture.to_str().unwrap());
        let what = ["-r", "randrw", "-f", "read", "-d", "16", "-n", "2", "-T", "fathom"];
        run(&program("fio-plot"), &[&["-i", from, "-o", to, kind], &what[..]].concat());
        assert!(std::fs::metadata(&picture).unwrap().len() > 10_000, "{kind} drew nothing");
    }
}
