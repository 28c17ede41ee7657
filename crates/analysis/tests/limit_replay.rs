//! Records of earlier versions stay readable, and their windows give the report that they hold.
//!
//! `fixtures/limit-v1` is a search by 0.1.0 on two simulated disks behind one link.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use fathom_analysis::limit::{LimitRecord, LimitReport, Verdict, Window, replay};

/// Verdicts may be worded differently; everything else is fixed.
fn without_wording(mut report: LimitReport) -> LimitReport {
    let blocks = report.targets.iter_mut().flat_map(|target| &mut target.blocks);
    for verdict in blocks.flat_map(|block| [&mut block.verdict, &mut block.one_worker]).flatten() {
        let Verdict { reason, experiments, .. } = verdict;
        reason.clear();
        experiments.iter_mut().filter_map(|e| e.refused.as_mut()).for_each(String::clear);
    }
    report.combined.iter_mut().for_each(|combined| combined.reason.clear());
    // A record holds decimal fractions.
    serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap()
}

#[test]
fn a_record_of_version_1_replays_to_its_report() {
    let record: LimitRecord =
        serde_json::from_str(include_str!("fixtures/limit-v1/record.json")).unwrap();
    let windows = include_str!("fixtures/limit-v1/samples.ndjson");
    let windows: Vec<Window> =
        windows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(windows.len(), record.report.windows as usize);
    let report = replay(record.config, &windows).unwrap();
    assert_eq!(without_wording(report), without_wording(record.report));
}
