//! Records of earlier versions stay readable; a search by another version is not taken for one by this version.
//!
//! `fixtures/limit-v1` is a search by 0.1.0 on two simulated disks behind one link.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use fathom_analysis::limit::replay;
use fathom_model::limit::LimitRecord;
use fathom_model::window::Window;

#[test]
fn a_record_of_version_1_is_read_but_not_repeated() {
    let record: LimitRecord =
        serde_json::from_str(include_str!("fixtures/limit-v1/record.json")).unwrap();
    let windows = include_str!("fixtures/limit-v1/samples.ndjson");
    let windows: Vec<Window> =
        windows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(windows.len(), record.report.windows as usize);
    assert!(record.report.targets[0].blocks[0].knee.as_ref().unwrap().depths.is_none());
    let error = replay(record.config, &windows).unwrap_err();
    assert!(error.contains("is not what this version requests"), "{error}");
}
