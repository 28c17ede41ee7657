//! `fathom doctor` and `fathom restore`, on a loop device.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{Loop, Place, as_root, says};
use serde_json::Value;
use std::fs;

/// The findings of one check.
fn findings(diagnosis: &Value, rule: &str, subject: &str) -> Vec<Value> {
    let all = diagnosis["findings"].as_array().unwrap().iter();
    all.filter(|f| f["finding"]["rule"] == rule && f["subject"] == subject).cloned().collect()
}

#[test]
fn safe_changes_are_made_on_request_and_restored() {
    let Some(_guard) = as_root("changing settings of a loop device") else { return };
    let place = Place::new();
    fs::File::create(place.path("disk")).unwrap().set_len(8 << 20).unwrap();
    let disk = Loop::on(&place.path("disk"));
    let device = disk.0.clone();
    let name = device.trim_start_matches("/dev/").to_string();
    let file = format!("/sys/block/{name}/queue/read_ahead_kb");
    let read_ahead = || fs::read_to_string(&file).unwrap().trim().to_string();
    fs::write(&file, "0").unwrap();

    let diagnosis = place.ask(&["doctor", "--json", &device]).done().json();
    let found = findings(&diagnosis, "read-ahead", &name);
    assert_eq!((&found[0]["found"], &found[0]["wanted"]), (&"0".into(), &"128".into()));
    assert_eq!(place.ask(&["doctor", "--strict", &device]).code, Some(1));
    let text = place.ask(&["doctor", &name]).done().stdout;
    says(&text, &["read-ahead is disabled", &format!("echo 128 >{file}")]);

    let refused = place.ask(&["doctor", "--fix", &device]);
    assert_eq!(refused.code, Some(1));
    says(&refused.stderr, &["confirm the changes with --yes"]);
    assert_eq!(read_ahead(), "0");

    let fixed = place.ask(&["doctor", "--fix", "--yes", &device]);
    says(&fixed.stderr, &[&format!("changed: read_ahead_kb of {name}=128 (was 0)")]);
    assert_eq!(read_ahead(), "128");
    let list = place.ask(&["restore", "--list"]).done().stdout;
    says(&list, &[&format!("read_ahead_kb of {name}=128"), "fathom doctor --fix"]);
    let restored = place.ask(&["restore"]);
    says(&restored.stdout, &[&format!("read_ahead_kb of {name} restored: 128 → 0")]);
    assert_eq!(read_ahead(), "0");

    // Where changing iostats raises the read-ahead, that is undone, too.
    let iostats = format!("/sys/block/{name}/queue/iostats");
    fs::write(&iostats, "0").unwrap();
    fs::write(&file, "64").unwrap();
    place.ask(&["doctor", "--fix", "--yes", &device]).done();
    assert_eq!(fs::read_to_string(&iostats).unwrap().trim(), "1");
    place.ask(&["restore"]).done();
    assert_eq!((read_ahead().as_str(), fs::read_to_string(&iostats).unwrap().trim()), ("64", "0"));
    fs::write(&iostats, "1").unwrap();
}

#[test]
fn a_target_without_a_disk_is_refused() {
    let place = Place::new();
    let answer = place.ask(&["doctor", "/proc/version"]);
    assert_eq!(answer.code, Some(1));
    says(&answer.stderr, &["/proc/version is not on a block device"]);
}
