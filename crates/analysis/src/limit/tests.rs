//! Searches on simulated devices whose limit is known.

mod figures;
mod held;
mod rated;
mod sim;

use super::thresholds::{KNEE_SHARE, helps};
use super::*;
use crate::rules::setting_verdicts;
use fathom_model::experiment::WindowResult;
use fathom_model::finding::{Finding, Part};
use fathom_model::limit::{
    BlockLimit, BlockSpec, CombinedCause, Config, ExperimentKind, LimitReport, Phase,
};
use fathom_model::window::{CpuTime, Load, Measurement, Rw, Window, WorkerCpu};
use figures::documented_peak;
use proptest::prelude::*;
use sim::Sim;

fn small(report: &LimitReport) -> &BlockLimit {
    &report.targets[0].blocks[0]
}

/// The verdicts on kinds of I/O of the first target, as the rule's id and its evidence.
fn verdicts(sim: &Sim, report: &LimitReport) -> Vec<Finding> {
    setting_verdicts(&sim.config(report.targets.len(), report.seconds_planned), report)
}

/// The rule that names what limits small blocks at the peak.
fn cause(sim: &Sim, report: &LimitReport) -> String {
    peak_verdict(sim, report).rule
}

fn peak_verdict(sim: &Sim, report: &LimitReport) -> Finding {
    of_part(&verdicts(sim, report), Part::Peak { target: 0, block: 0 })
}

fn of_part(findings: &[Finding], part: Part) -> Finding {
    let mut found = findings.iter().filter(|finding| finding.part == Some(part));
    found.next().expect("a verdict").clone()
}

#[test]
fn a_device_with_a_fixed_rate_is_found_to_be_the_limit() {
    // 100k I/Os per second at 100 µs: 10 in flight saturate it, 9.5 reach 95%.
    for seconds in [15.0, 60.0] {
        let mut sim = Sim::default();
        let (report, _) = sim.run(1, seconds);
        let found = small(&report);
        let peak = found.peak.as_ref().unwrap();
        assert!((peak.iops.mean / 100_000.0 - 1.0).abs() < 0.02, "{peak:?}");
        let knee = found.knee.as_ref().unwrap();
        assert_eq!(knee.point.workers, 1);
        let (low, high) = knee.depths.unwrap();
        assert!((9..=12).contains(&knee.point.depth), "{seconds} s: {knee:?}");
        assert!(low >= 8 && high <= 12 && low <= high, "{seconds} s: {knee:?}");
        assert!(knee.refined);
        assert_eq!(cause(&sim, &report), "device");
        assert_eq!(found.one_worker, None);
        let large = &report.targets[0].blocks[1];
        assert!((large.peak.as_ref().unwrap().bytes_per_second / 2e9 - 1.0).abs() < 0.02);
        let all = verdicts(&sim, &report);
        assert_eq!(of_part(&all, Part::Peak { target: 0, block: 1 }).rule, "device", "{all:?}");
        assert!(report.finished);
    }
}

#[test]
fn the_knee_is_not_at_a_depth_that_the_device_dislikes() {
    // In flight, 5 reach 95% of the peak, but 5 and 6 get half.
    let mut sim = Sim { latency_ns: 50_000.0, disliked: Some((5, 6)), ..Sim::default() };
    let (report, _) = sim.run(1, 60.0);
    let knee = small(&report).knee.as_ref().unwrap();
    assert_eq!(knee.point.depth, 8, "{knee:?}");
    let (low, high) = knee.depths.unwrap();
    assert!(low >= 4 && high == 8, "{knee:?}");
}

#[test]
fn the_knee_reaches_its_share_of_the_peak_that_is_reported() {
    let mut moved = 0;
    for seed in 0..20 {
        // After the climb the deeper queues are 10% faster: the peak is measured then, too.
        let mut sim = Sim { cores: 2, latency_ns: 600_000.0, noise: 0.05, seed, ..Sim::default() };
        let mut search = Search::new(sim.config(1, 20.0));
        while let Some(probe) = search.next() {
            let tests = [Phase::Counter, Phase::CounterOne, Phase::Confirm].contains(&probe.phase);
            sim.device_iops = if tests { 125_000.0 } else { 100_000.0 };
            search.observe(&sim.window(&probe).unwrap());
        }
        let report = search.finish();
        check(&report);
        let found = small(&report);
        let (Some(knee), Some(peak)) = (&found.knee, &found.peak) else { continue };
        let share = knee.point.iops.mean / peak.iops.mean;
        let is_peak = knee.point.setting() == peak.setting();
        assert!(!is_peak || knee.of_peak.is_none(), "{knee:?}");
        if let Some(ratio) = knee.of_peak {
            assert!((ratio.value / share - 1.0).abs() < 0.02, "{share}: {knee:?}");
        }
        moved += u32::from(knee.depths.is_none());
    }
    assert!(moved > 0, "no knee was checked again");
}

#[test]
fn latency_is_that_of_one_io_in_flight() {
    let (report, _) = Sim::default().run(1, 15.0);
    let latency = small(&report).latency.as_ref().unwrap();
    // 4 KiB at 2 GB/s add 2 µs.
    assert!((latency.clat_mean_ns / 102_000.0 - 1.0).abs() < 0.02, "{latency:?}");
    assert!((latency.in_flight - 1.0).abs() < 0.02);
}

#[test]
fn the_own_ceiling_is_measured_separately() {
    let (report, _) = Sim::default().run(1, 15.0);
    let own = report.own;
    assert!((own.one_worker.unwrap().mean / 1e7 - 1.0).abs() < 0.02);
    assert!((own.all_cores.unwrap().mean / 8e7 - 1.0).abs() < 0.02);
}

#[test]
fn a_cpu_bound_worker_is_named_and_more_workers_reach_the_peak() {
    // One worker is limited to 500k (2 µs each); the device to 1.5M, which 3 of 8 CPUs reach.
    let mut sim = Sim { device_iops: 1.5e6, device_bandwidth: 1e10, ..Sim::default() };
    let (report, _) = sim.run(1, 60.0);
    let found = small(&report);
    let all = verdicts(&sim, &report);
    let one = of_part(&all, Part::OneWorker { target: 0, block: 0 });
    assert_eq!((one.rule.as_str(), one.rank), ("own-cpu-time", Some(2)), "{one:?}");
    assert_eq!(cause(&sim, &report), "device");
    let peak = found.peak.as_ref().unwrap();
    assert!((peak.iops.mean / 1.5e6 - 1.0).abs() < 0.03, "{peak:?}");
    assert_eq!(found.knee.as_ref().unwrap().point.workers, 3, "{:?}", found.knee);
    assert!((peak.one_core_iops().unwrap() / 500_000.0 - 1.0).abs() < 0.02);
}

#[test]
fn all_cores_are_named_when_half_of_them_yield_half() {
    let mut sim = Sim { cores: 2, device_iops: 1e7, device_bandwidth: 1e11, ..Sim::default() };
    let (report, _) = sim.run(1, 60.0);
    let tests = small(&report).confirmation.as_ref().unwrap();
    assert_eq!(cause(&sim, &report), "busy-cpus", "{tests:?}");
    let fewer = tests.experiments.iter().find(|e| e.kind == ExperimentKind::FewerCores).unwrap();
    assert!((fewer.gain.unwrap().value - 0.5).abs() < 0.03, "{fewer:?}");
}

#[test]
fn a_single_cpu_needs_no_confirmation() {
    let mut sim = Sim { cores: 1, device_iops: 1e7, device_bandwidth: 1e11, ..Sim::default() };
    let (report, _) = sim.run(1, 60.0);
    assert_eq!(cause(&sim, &report), "busy-cpus");
}

#[test]
fn depth_is_named_when_the_deepest_queue_still_gains() {
    // 2 ms of latency: 8 × 1024 in flight reach 4M of a hundred.
    let mut sim = Sim {
        latency_ns: 2e6,
        device_iops: 1e8,
        device_bandwidth: 1e12,
        cpu_ns: 100.0,
        ..Sim::default()
    };
    let (report, _) = sim.run(1, 60.0);
    let found = small(&report);
    assert_eq!(cause(&sim, &report), "queue-depth");
    let peak = found.peak.as_ref().unwrap();
    assert_eq!((peak.workers, peak.depth), (8, 1024));
}

#[test]
fn with_noise_no_wrong_cause_is_claimed() {
    let mut inconclusive = 0;
    for seed in 0..40 {
        let mut sim = Sim { noise: 0.2, seed, ..Sim::default() };
        let (report, _) = sim.run(1, 15.0);
        for verdict in verdicts(&sim, &report).iter().filter(|found| found.rank == Some(1)) {
            let allowed = ["device", "inconclusive"].contains(&verdict.rule.as_str());
            assert!(allowed, "seed {seed}: {verdict:?}");
            inconclusive += u32::from(verdict.rule == "inconclusive");
        }
    }
    assert!(inconclusive > 20, "{inconclusive} of 80 inconclusive");
}

#[test]
fn targets_behind_one_link_slow_each_other_down() {
    let mut sim = Sim { link_iops: 120_000.0, ..Sim::default() };
    let (report, _) = sim.run(2, 60.0);
    let combined = &report.combined[0];
    assert_eq!(combined.cause, CombinedCause::SharedBelow, "{combined:?}");
    assert!((combined.ratio.unwrap().value - 0.6).abs() < 0.02);
    assert!((combined.targets[1].ratio.unwrap().value - 0.6).abs() < 0.02);
}

#[test]
fn independent_targets_add_up() {
    let (report, _) = Sim::default().run(3, 60.0);
    assert_eq!(report.combined.len(), 2);
    for combined in &report.combined {
        assert_eq!(combined.cause, CombinedCause::Independent, "{combined:?}");
    }
    assert_eq!(report.targets.len(), 3);
    assert!(report.targets.iter().all(|t| t.blocks.iter().all(|b| b.knee.is_some())));
}

#[test]
fn targets_that_use_all_cpus_are_distinguished_from_a_shared_link() {
    let mut sim = Sim { cores: 2, cpu_ns: 15_000.0, ..Sim::default() };
    let (report, _) = sim.run(2, 60.0);
    assert_eq!(report.combined[0].cause, CombinedCause::Cores, "{:?}", report.combined[0]);
}

#[test]
fn a_disk_with_200_ios_per_second_gets_a_verdict() {
    let mut sim =
        Sim { latency_ns: 8e6, device_iops: 200.0, device_bandwidth: 1.5e8, ..Sim::default() };
    let (report, _) = sim.run(1, 60.0);
    assert!(report.targets[0].blocks.iter().all(|block| block.knee.is_some()));
    let all = verdicts(&sim, &report);
    assert!(all.len() == 2 && all.iter().all(|found| found.rule == "device"), "{all:?}");
    let latency = small(&report).latency.as_ref().unwrap();
    assert!((latency.clat_mean_ns / 8e6 - 1.0).abs() < 0.05, "{latency:?}");
}

#[test]
fn an_overdriven_device_has_its_peak_in_the_middle() {
    let mut sim = Sim { overdriven_at: Some(32.0), ..Sim::default() };
    let (report, _) = sim.run(1, 60.0);
    let found = small(&report);
    let peak = found.peak.as_ref().unwrap();
    assert!((10..=32).contains(&peak.setting().in_flight()), "{peak:?}");
    assert!((peak.iops.mean / 100_000.0 - 1.0).abs() < 0.04);
    assert_eq!(cause(&sim, &report), "device");
}

#[test]
fn windows_with_errors_are_reported_and_do_not_count() {
    let mut sim = Sim { errors_at: Some(8), ..Sim::default() };
    let (report, _) = sim.run(1, 60.0);
    let found = small(&report);
    assert!(found.problems.iter().any(|p| p.message == "read: EIO" && p.errors > 0));
    assert!(found.points.iter().all(|p| p.setting().in_flight() < 8), "{:?}", found.points);
    assert_ne!(cause(&sim, &report), "device");
}

#[test]
fn a_target_that_only_fails_gives_no_figures() {
    let mut sim = Sim { errors_at: Some(0), ..Sim::default() };
    let (report, windows) = sim.run(1, 60.0);
    let found = small(&report);
    assert!(found.points.is_empty() && found.peak.is_none() && found.knee.is_none());
    assert!(!found.problems.is_empty());
    assert!(windows.len() < 20, "{} windows on a broken target", windows.len());
}

#[test]
fn a_target_that_disappears_is_not_measured_further() {
    let mut sim = Sim::default();
    let mut search = Search::new(sim.config(1, 60.0));
    let mut refused = 0;
    while let Some(probe) = search.next() {
        let reads = probe.loads.iter().any(|l| l.target.is_some());
        if reads && search.done() > 0.15 {
            refused += 1;
            search.refuse("it is gone");
        } else {
            search.observe(&sim.window(&probe).unwrap());
        }
    }
    let report = search.finish();
    assert!(refused <= 8, "{refused} attempts at a target that is gone");
    let problems: Vec<_> = report.targets[0].blocks.iter().flat_map(|b| &b.problems).collect();
    let gone = problems.iter().filter(|p| p.message == "it is gone").count();
    assert!(gone >= 2, "{problems:?}");
}

#[test]
fn refused_settings_end_the_climb() {
    let mut sim = Sim { refuses_at: Some(64), latency_ns: 1e7, cpu_ns: 100.0, ..Sim::default() };
    let (report, _) = sim.run(1, 60.0);
    let found = small(&report);
    assert!((32..64).contains(&found.peak.as_ref().unwrap().setting().in_flight()));
    assert_eq!(cause(&sim, &report), "inconclusive");
    let verdict = peak_verdict(&sim, &report);
    assert!(verdict.summary.contains("was not possible"), "{verdict:?}");
}

#[test]
fn memory_bounds_what_is_in_flight() {
    let mut sim = Sim { latency_ns: 1e8, device_bandwidth: 1e12, ..Sim::default() };
    let mut config = sim.config(1, 15.0);
    config.buffers_bytes_max = 16 << 20;
    let mut search = Search::new(config);
    while let Some(probe) = search.next() {
        let bytes: u64 = probe
            .loads
            .iter()
            .filter(|l| l.target.is_some())
            .map(|l| l.setting.in_flight())
            .sum::<u64>()
            * probe.block_bytes;
        assert!(bytes <= 16 << 20, "{probe:?}");
        search.observe(&sim.window(&probe).unwrap());
    }
}

#[test]
fn the_configuration_sets_block_sizes_direction_and_queue_depth() {
    let mut sim = Sim { latency_ns: 1e7, cpu_ns: 100.0, ..Sim::default() };
    let mut config = sim.config(1, 15.0);
    config.blocks = vec![BlockSpec { block_bytes: 65_536, rw: Rw::Write, depth_max: 8 }];
    let mut search = Search::new(config);
    while let Some(probe) = search.next() {
        let rw = if probe.phase == Phase::Own { Rw::Randread } else { Rw::Write };
        assert_eq!((probe.block_bytes, probe.rw), (65_536, rw));
        let deepest = if probe.phase == Phase::Counter { 16 } else { 8 };
        let reaches = |load: &Load| load.target.is_none() || load.setting.depth <= deepest;
        assert!(probe.phase == Phase::CounterOne || probe.loads.iter().all(reaches), "{probe:?}");
        search.observe(&sim.window(&probe).unwrap());
    }
    let report = search.finish();
    let found = small(&report);
    assert_eq!((report.targets[0].blocks.len(), found.block_bytes), (1, 65_536));
    assert_eq!(found.peak.as_ref().unwrap().depth, 8);
    assert_eq!(cause(&sim, &report), "queue-depth");
}

#[test]
fn a_stored_search_can_be_repeated() {
    let mut sim = Sim { noise: 0.05, refuses_at: Some(512), ..Sim::default() };
    let (report, windows) = sim.run(2, 15.0);
    let json = serde_json::to_string(&windows).unwrap();
    let windows: Vec<Window> = serde_json::from_str(&json).unwrap();
    assert_eq!(replay(sim.config(2, 15.0), &windows).unwrap(), report);
    let cut = replay(sim.config(2, 15.0), &windows[..40]).unwrap();
    assert!(!cut.finished && cut.windows <= 40);
    assert!(replay(sim.config(1, 15.0), &windows).is_err());
}

#[test]
fn an_interrupted_search_reports_what_it_has() {
    let mut sim = Sim::default();
    let mut search = Search::new(sim.config(1, 60.0));
    for _ in 0..20 {
        let probe = search.next().unwrap();
        search.observe(&sim.window(&probe).unwrap());
    }
    let report = search.finish();
    assert!(!report.finished);
    assert!(small(&report).peak.is_some() && small(&report).latency.is_some());
    assert_eq!(small(&report).confirmation, None);
}

#[test]
fn what_was_not_tested_is_named() {
    let (mut sim, mut named) = (Sim::default(), 0);
    let (_, windows) = sim.run(1, 60.0);
    for count in 0..windows.len() {
        let mut report = replay(sim.config(1, 60.0), &windows[..count]).unwrap();
        let Some(tests) = &mut report.targets[0].blocks[0].confirmation else { continue };
        if tests.experiments.iter().all(|e| e.gain.is_none()) && tests.higher.is_none() {
            let found = peak_verdict(&sim, &report);
            let both = "Not tested: doubling the queue depth and a second worker, as ";
            assert!(found.summary.starts_with(both), "{found:?}");
            let blocks = &mut report.targets[0].blocks[0];
            blocks.confirmation.as_mut().unwrap().experiments.clear();
            let found = peak_verdict(&sim, &report);
            let neither = "Not tested: doubling the queue depth and more workers, as ";
            assert!(found.summary.starts_with(neither), "{found:?}");
            named += 1;
        }
    }
    assert!(named > 0);
}

#[test]
fn no_question_is_left_for_lack_of_time_while_there_is_time() {
    for seed in 0..24 {
        let mut sim = Sim { cores: 2, latency_ns: 600_000.0, noise: 0.25, seed, ..Sim::default() };
        let (report, _) = sim.run(1, 60.0);
        let left = report.seconds_planned - report.seconds_used;
        for verdict in verdicts(&sim, &report).iter().filter(|found| found.rank == Some(1)) {
            let open = ["Not enough time", "Not tested"];
            let is_open = open.iter().any(|why| verdict.summary.contains(why));
            assert!(!is_open || left < 3.0, "seed {seed}: {left} s left: {verdict:?}");
        }
    }
}

/// A machine on which the climb was unlucky: it measured no gain beyond queue depth 64, although doubling it
/// yields 1.16×. All windows are noisy.
fn unlucky(seconds: f64, seed: u64) -> LimitReport {
    let mut sim = Sim { cores: 2, latency_ns: 600_000.0, noise: 0.12, seed, ..Sim::default() };
    let mut search = Search::new(sim.config(1, seconds));
    while let Some(probe) = search.next() {
        let deep = probe.loads.iter().any(|l| l.setting.depth >= 128);
        sim.device_iops = if deep && probe.phase != Phase::Climb { 116_000.0 } else { 100_000.0 };
        sim.noise = if probe.phase == Phase::Climb { 0.0 } else { 0.12 };
        search.observe(&sim.window(&probe).unwrap());
    }
    search.finish()
}

#[test]
fn a_peak_below_the_best_is_left_while_there_is_time() {
    for seed in 0..10 {
        let report = unlucky(60.0, seed);
        let found = small(&report);
        // Chance may take it further on the same plateau.
        assert!(found.peak.as_ref().unwrap().depth >= 128, "seed {seed}: {:?}", found.confirmation);
        let verdict = peak_verdict(&Sim::default(), &report);
        let is_open = verdict.rule == "inconclusive";
        let left = report.seconds_planned - report.seconds_used;
        assert!(!is_open || left < 3.0, "seed {seed}: {left} s left: {verdict:?}");
    }
}

#[test]
fn a_better_point_is_the_peak_though_the_time_is_up() {
    let mut cut_short = 0;
    for seed in (0..40).step_by(2) {
        let report = unlucky(10.0 + seed as f64 / 2.0, seed);
        let found = small(&report);
        let (peak, tests) = (found.peak.as_ref().unwrap(), found.confirmation.as_ref().unwrap());
        let verdict = peak_verdict(&Sim::default(), &report);
        let deeper = tests.experiments.iter().find(|e| e.kind == ExperimentKind::Deeper);
        let helped = deeper.and_then(|e| e.gain).is_some_and(|g| helps(&g));
        assert!(peak.depth >= 128 || !helped, "seed {seed}: {verdict:?}");
        cut_short += u32::from(
            verdict.summary.contains("Not enough time to test this point; rerun with --duration "),
        );
    }
    assert!(cut_short > 0, "none was cut short just after the peak had moved");
}

#[test]
fn time_is_about_a_minute_and_more_for_many_targets() {
    assert_eq!(Config::default_seconds(1, 2, false), 60.0);
    assert_eq!(Config::default_seconds(1, 2, true), 15.0);
    assert!(Config::default_seconds(24, 2, false) > 240.0);
}

/// Checks what must hold whatever a device returns.
fn check(report: &LimitReport) {
    let json = serde_json::to_string(report).unwrap();
    let again: LimitReport = serde_json::from_str(&json).expect("no NaN in the report");
    assert_eq!(again.targets.len(), report.targets.len());
    for block in report.targets.iter().flat_map(|t| &t.blocks) {
        for point in &block.points {
            let bytes = point.iops.mean * block.block_bytes as f64;
            let off = (bytes - point.bytes_per_second).abs();
            // Counters that overflow are saturated.
            assert!(off <= 1e-9 * bytes || bytes > 1e20, "{} bytes: {point:?}", block.block_bytes);
        }
        assert_eq!(block.peak.as_ref(), documented_peak(block, report.cores), "{block:?}");
        let (Some(peak), Some(knee)) = (&block.peak, &block.knee) else { continue };
        assert!(knee.point.workers > 1 || block.one_worker.is_none(), "{block:?}");
        let share = knee.point.iops.mean / peak.iops.mean;
        assert!(share >= 0.9, "{share}: {knee:?} {peak:?}");
        assert!(
            share >= KNEE_SHARE || knee.of_peak.is_none_or(|r| r.high >= KNEE_SHARE),
            "{knee:?}"
        );
        assert!(knee.depths.is_none_or(|(low, high)| 0 < low && low <= high), "{knee:?}");
        assert!(knee.point.setting().in_flight() <= peak.setting().in_flight(), "{block:?}");
    }
}

/// A device with arbitrary results.
fn wild() -> impl Strategy<Value = Vec<(u64, u64, u64, u8)>> {
    let ios = prop_oneof![Just(0), 0..1_000_000_u64, Just(u64::MAX)];
    let elapsed = prop_oneof![Just(0), 1..1_000_000_000_u64];
    let took = prop_oneof![Just(0), 0..3_000_000_000_u64];
    proptest::collection::vec((ios, elapsed, took, 0..20_u8), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_a_device_returns_the_search_ends_in_time(
        answers in wild(),
        targets in 0..3_usize,
        cores in 0..5_u32,
        seconds in prop_oneof![Just(f64::NAN), Just(-1.0), 0.0..40.0_f64],
    ) {
        let config = Config {
            targets: vec!["x".into(); targets], seconds, cores, buffers_bytes_max: 1 << 26,
            blocks: BlockSpec::defaults(),
            target: None,
            suite: Vec::new(),
            queues: Vec::new(),
            cpu_limit: None,
            spec: None,
        };
        let mut search = Search::new(config);
        let mut longest = 0.0_f64;
        for n in 0.. {
            let Some(probe) = search.next() else { break };
            prop_assert!(n < 60_000, "it does not end");
            let (ios, elapsed_ns, took_ns, kind) = answers[n % answers.len()];
            if kind == 0 {
                search.refuse("no");
                continue;
            }
            let requested_ns = probe.ramp_ns + probe.window_ns;
            longest = longest.max(took_ns.saturating_sub(requested_ns) as f64 / 1e9);
            let load = WindowResult {
                ios,
                bytes: ios.saturating_mul(probe.block_bytes),
                errors: u64::from(kind == 1),
                short_ios: u64::from(kind == 2),
                workers: vec![WorkerCpu { user_ns: ios, system_ns: took_ns }],
                disk: (kind == 3).then(fathom_model::record::DiskRecord::default),
                ..WindowResult::default()
            };
            let cpu = (kind > 5).then_some(CpuTime { busy_ns: ios, steal_ns: elapsed_ns, idle_ns: took_ns, throttled_ns: took_ns / 9 });
            let loads = if kind == 4 { Vec::new() } else { vec![load; probe.loads.len()] };
            search.observe(&Measurement { elapsed_ns, took_ns, loads, cpu });
        }
        let report = search.finish();
        prop_assert!(report.seconds_used <= report.seconds_planned + longest + 0.01, "{} of {}", report.seconds_used, report.seconds_planned);
        prop_assert!(report.finished);
        check(&report);
    }

    #[test]
    fn whatever_a_device_is_the_knee_is_below_the_peak(
        cores in 1..17_u32,
        latency_ns in 1e3..1e8_f64,
        device_iops in 50.0..1e7_f64,
        cpu_ns in 100.0..50_000.0_f64,
        noise in 0.0..0.5_f64,
        seed in any::<u64>(),
    ) {
        let mut sim = Sim { cores, latency_ns, device_iops, cpu_ns, noise, seed, ..Sim::default() };
        let (report, _) = sim.run(1, 15.0);
        check(&report);
        prop_assert!(report.seconds_used <= 15.1, "{}", report.seconds_used);
        let found = small(&report);
        let truth = device_iops.min(f64::from(cores) * 1e9 / cpu_ns);
        if let Some(peak) = &found.peak {
            prop_assert!(peak.iops.mean <= truth * (1.0 + noise) * 1.01 + 20.0, "{peak:?}");
        }
    }
}
