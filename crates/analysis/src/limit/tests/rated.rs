//! Latency targets, and the suite.

use super::*;
use fathom_model::limit::{BlockSpec, Phase, RatedPoint, SuiteTest};
use fathom_model::window::Rw;

#[test]
fn the_highest_load_within_a_latency_target_is_found() {
    // 100 µs over the idle share: 400 µs at 75% of 100k.
    for (below, wanted) in [("p99<400us", Some(75_000.0)), ("p99<90us", None)] {
        let mut sim = Sim { device_bandwidth: 1e12, ..Sim::default() };
        let mut config = sim.config(1, 60.0);
        (config.target, config.blocks) =
            (below.parse().ok(), vec![BlockSpec::new(4096, Rw::Randread)]);
        let report = sim.search(config).0;
        let found = small(&report).target.as_ref().unwrap();
        let best = found.best.as_ref().map(|best| best.iops);
        let is_near = |best: f64| wanted.is_some_and(|wanted| (best / wanted - 1.0).abs() < 0.05);
        assert!(best.map_or(wanted.is_none(), is_near), "{below}: {found:?}");
        let is_sure = |best: &RatedPoint| best.windows >= 5 && best.latency_ns < 400_000;
        assert!(found.best.as_ref().is_none_or(is_sure), "{found:?}");
        assert!(found.tried.len() > 3, "{found:?}");
    }
}

#[test]
fn the_suite_measures_each_row_and_searches_nothing() {
    let mut sim = Sim::default();
    let mut config = sim.config(1, 60.0);
    (config.blocks, config.suite) = SuiteTest::all(true);
    let (report, windows) = sim.search(config);
    let blocks = &report.targets[0].blocks;
    assert_eq!((blocks.len(), report.finished), (8, true));
    for block in blocks {
        assert_eq!(block.peak.as_ref().unwrap().iops.windows, 5, "{block:?}");
        assert!(block.confirmation.is_none() && block.knee.is_none() && block.points.len() == 1);
    }
    assert!((blocks[4].peak.as_ref().unwrap().iops.mean / 100_000.0 - 1.0).abs() < 0.01);
    assert!(windows.iter().all(|window| window.probe.phase != Phase::Climb));
    assert_eq!(SuiteTest::all(false).0.len(), 4);
}
