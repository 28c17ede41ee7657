//! Figures that agree with each other and with their documentation.

use super::*;
use fathom_model::limit::{BlockLimit, BlockSpec, LimitRecord};
use fathom_model::window::{Point, Setting, Window};

/// The row that `docs/limit.md` calls the peak.
pub(super) fn documented_peak(block: &BlockLimit, cores: u32) -> Option<&Point> {
    let spec = BlockSpec::new(block.block_bytes, block.rw);
    let in_range = |p: &&Point| p.depth <= spec.depth_max && p.workers <= cores.max(1);
    let any = || block.points.iter().filter(in_range).filter(|p| p.iops.mean > 0.0);
    let has_clear = any().any(|p| !p.noisy);
    let rows = || any().filter(|p| !p.noisy || !has_clear);
    let best = rows().map(|p| p.iops.mean).fold(0.0, f64::max);
    let near = rows().filter(|p| p.iops.mean >= 0.97 * best);
    near.min_by_key(|p| (p.setting().in_flight(), p.workers))
}

#[test]
fn stored_windows_have_one_rate_and_stored_results_the_documented_peak() {
    let windows = include_str!("../../../../store/fixtures/v2/limit/windows.ndjson");
    let mut count = 0;
    for line in windows.lines() {
        let window: Window = serde_json::from_str(line).unwrap();
        let (bs, Ok(measured)) = (window.probe.block_bytes, &window.outcome) else { continue };
        for load in measured.results().filter(|load| load.bytes > 0) {
            let mut totals = crate::experiment::Totals::default();
            // A window after a stall is as long as the stall.
            totals.add(&WindowResult { elapsed_ns: 7 * load.elapsed_ns, ..load.clone() });
            totals.add(&load);
            let point = totals.point(window.probe.rw, Setting::ONE, 1);
            let share = point.iops.mean * bs as f64 / point.bytes_per_second;
            assert!((share - 1.0).abs() < 1e-9, "{point:?}");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
    let record = include_str!("../../../../store/fixtures/v2/limit/record.json");
    let record: LimitRecord = serde_json::from_str(record).unwrap();
    for block in &record.report.targets[0].blocks {
        assert_eq!(block.peak.as_ref(), documented_peak(block, record.report.cores), "{block:?}");
    }
}

#[test]
fn a_window_that_stalled_is_measured_again() {
    // The first window at each of two settings stalls; the rest are as on any device.
    let mut sim = Sim::default();
    let mut search = Search::new(sim.config(1, 60.0));
    let mut stalled = std::collections::BTreeSet::new();
    while let Some(probe) = search.next() {
        let mut window = sim.window(&probe).unwrap();
        let setting = probe.loads.first().filter(|l| l.target.is_some()).map(|l| l.setting);
        let first = setting
            .filter(|s| [8, 64].contains(&s.depth) && stalled.insert((probe.block_bytes, *s)));
        if first.is_some() {
            let load = &mut window.loads[0];
            (load.ios, load.bytes) = (3, 3 * probe.block_bytes);
            load.clat = fathom_model::Histogram::default();
            load.clat.record_n(200_000_000, 3);
        }
        search.observe(&window);
    }
    let report = search.finish();
    let found = small(&report);
    for point in found.points.iter().filter(|p| [8, 64].contains(&p.depth)) {
        assert!(point.noisy || point.iops.windows >= 3, "{point:?}");
        assert!(point.noisy || point.iops.relative().unwrap() <= 0.5, "{point:?}");
    }
    assert!((found.peak.as_ref().unwrap().iops.mean / 100_000.0 - 1.0).abs() < 0.04);
}
