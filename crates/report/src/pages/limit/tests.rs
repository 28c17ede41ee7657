use super::*;
use crate::json;
use crate::live::search_line;
use crate::render::{self, assert_fits, unwrapped};
use fathom_analysis::experiment::Design;
use fathom_analysis::limit::Search;
use fathom_analysis::rules::judge_limit;
use fathom_model::experiment::WindowResult;
use fathom_model::facts::{DeviceFacts, Host, TargetKind};
use fathom_model::limit::{BlockSpec, Config, PeakCost};
use fathom_model::outcome::Outcome;
use fathom_model::record::{Cost, Header};
use fathom_model::watch::Unavailable;
use fathom_model::window::{Conditions, CpuTime, Measurement, Probe, Rw, Window, WorkerCpu};
use fathom_model::{Facts, Histogram};

/// A device that does 100k I/Os per second, or 2 GB/s, at 100 µs, and costs 2 µs of CPU time.
fn window(probe: &Probe) -> Measurement {
    let load = |load: &fathom_model::window::Load| {
        let in_flight = load.setting.in_flight() as f64;
        let (device, cpu_ns) = match load.target {
            Some(_) => ((2e9 / probe.block_bytes as f64).min(100_000.0), 2_000.0),
            None => (1e12, 100.0),
        };
        let workers = f64::from(load.setting.workers) * 1e9 / cpu_ns;
        let latency = if load.target.is_some() { in_flight * 10_000.0 } else { f64::INFINITY };
        let rate = device.min(latency).min(workers);
        let ios = (rate * probe.window_ns as f64 / 1e9) as u64;
        let mut clat = Histogram::default();
        clat.record_n((in_flight * 1e9 / rate) as u64, ios);
        let cpu = (ios as f64 * cpu_ns) as u64 / u64::from(load.setting.workers);
        WindowResult {
            ios,
            bytes: ios * probe.block_bytes,
            clat,
            workers: vec![
                WorkerCpu { user_ns: cpu / 4, system_ns: cpu - cpu / 4 };
                load.setting.workers as usize
            ],
            ..WindowResult::default()
        }
    };
    Measurement {
        elapsed_ns: probe.window_ns,
        took_ns: probe.window_ns + probe.ramp_ns,
        loads: probe.loads.iter().map(load).collect(),
        cpu: Some(CpuTime { busy_ns: 5, steal_ns: 0, idle_ns: 95, throttled_ns: 0 }),
    }
}

fn render(record: &LimitRecord) -> String {
    unwrapped(&limit(record, true))
}

fn record(targets: usize, windows: usize) -> LimitRecord {
    let names: Vec<String> = (0..targets).map(|n| format!("/dev/nvme{n}n1")).collect();
    let config = Config {
        targets: names.clone(),
        seconds: 30.0,
        cores: 4,
        buffers_bytes_max: 1 << 30,
        blocks: BlockSpec::defaults(),
        target: None,
        suite: Vec::new(),
        queues: Vec::new(),
        cpu_limit: None,
        spec: None,
    };
    let mut search = Search::new(config.clone());
    for _ in 0..windows {
        let Some(probe) = search.next() else { break };
        search.take(&Window { outcome: Ok(window(&probe)), probe });
    }
    let facts = |name: &String| TargetFacts {
        path: name.clone(),
        kind: TargetKind::BlockDevice,
        size_bytes: 1 << 40,
        device: Some(DeviceFacts {
            name: name.trim_start_matches("/dev/").into(),
            model: Some("Example 9000".into()),
            serial: Some("S123".into()),
            ..DeviceFacts::default()
        }),
        ..TargetFacts::default()
    };
    let record = LimitRecord {
        header: Header {
            fathom_version: "0.1.0".into(),
            facts: Facts {
                host: Host { kernel: "6.18.0".into(), ..Host::default() },
                targets: names.iter().map(facts).collect(),
                ..Facts::default()
            },
            ..Header::default()
        },
        config,
        conditions: vec![Conditions { direct: true, scratch: false }; targets],
        competitors: Vec::new(),
        report: search.finish(),
        costs: Vec::new(),
        costs_missing: None,
        ranks: Vec::new(),
    };
    judged(record)
}

fn judged(mut record: LimitRecord) -> LimitRecord {
    record.header.findings = judge_limit(&record);
    record
}

#[test]
fn the_text_names_the_device_the_figures_and_the_cause() {
    let text = render(&record(1, usize::MAX));
    for part in [
        "/dev/nvme0n1  1 TiB, nvme0n1 (Example 9000, S123), O_DIRECT",
        "load-generator overhead  up to 40M no-ops/s (400× the highest peak)",
        "4 KiB randread, workers × QD  ",
        "1 MiB randread, workers × QD  ",
        "2 µs  knee, peak",
        "2 µs  tested",
        "4 KiB random reads: 100k IOPS (391 MiB/s), p99 100 µs at QD10; limited by the device.",
        "1 MiB random reads: 1.86 GiB/s (1.91k IOPS), ",
        "4 KiB randread, 1 worker at QD16: Doubling the queue depth doubles latency (2.00×)",
        "twice the queue depth (1 worker, QD32)",
        "1.00× (1.00–1.00)    2.00×",
        "1 × 2               20k  ████ ",
        "4 KiB randread peak  391 MiB/s, CPU per I/O 2 µs (max 500k IOPS per core)",
        "next  Compare with the device's data sheet",
    ] {
        let joined = text.replace('\n', " ");
        assert!(joined.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

#[test]
fn what_an_io_costs_at_a_peak() {
    let mut record = record(1, usize::MAX);
    let cost = Cost {
        user_instructions: 98.2,
        user_cycles: 49.1,
        window_ns: 200_000_000,
        speed_ratio: 0.98,
        ..Cost::default()
    };
    let lacks = vec![Unavailable {
        source: "cache misses".into(),
        reason: "none".into(),
        remedy: "".into(),
    }];
    record.costs = vec![PeakCost { target: 0, block_bytes: 4096, rw: Rw::Randread, cost, lacks }];
    record.costs_missing = Some("no counter was free".into());
    let text = render(&record).replace('\n', " ");
    let wanted = "4 KiB randread peak counters  98 user instructions per I/O · 49 user cycles per I/O · IPC 2.00 (user) · \
                  separate window of 200 ms at 98.0% of the measured IOPS";
    assert!(text.contains(wanted), "{text}");
    assert!(
        text.contains("hardware counters: no counter was free")
            && text.contains(" cache misses: none")
    );
    let brief = unwrapped(&limit(&record, false));
    let line = "hardware counters, cache misses; see --verbose\n";
    assert_eq!(brief.matches(line).count(), 1, "{brief}");
}

#[test]
fn each_thing_is_said_once() {
    let record = record(1, usize::MAX);
    let text = unwrapped(&limit(&record, false));
    for (what, times) in [("limited by the device", 2), ("workers × QD", 2), ("O_DIRECT", 1)] {
        assert_eq!(text.matches(what).count(), times, "{what:?} in\n{text}");
    }
    assert!(!text.contains("Next:") && !text.contains("pairs"), "{text}");
}

#[test]
fn an_interval_wider_than_the_figure_ends_at_zero() {
    let mut record = record(1, usize::MAX);
    let point = record.report.targets[0].blocks[0].points.first_mut().unwrap();
    point.iops = Estimate { mean: 100.0, low: Some(-1000.0), high: Some(1200.0), windows: 2 };
    let text = unwrapped(&limit(&record, false));
    assert!(text.contains(" 100 (0–1.2k) ") && !text.contains('±'), "{text}");
}

#[test]
fn markdown_holds_the_same_figures() {
    let page = limit(&record(1, usize::MAX), false);
    let markdown = render::markdown(&page);
    let row = "| 1 × 10 | 100k (100k–100k) | ████████████████████ | 100 µs | 100 µs | 2 µs | knee, peak |\n";
    assert!(markdown.contains("## /dev/nvme0n1\n") && markdown.contains(row), "{markdown}");
}

#[test]
fn lines_fit_the_terminal() {
    for targets in [1, 2] {
        assert_fits(&limit(&record(targets, usize::MAX), true));
    }
}

#[test]
fn an_interrupted_search_says_so_and_makes_nothing_up() {
    let mut cut = record(1, 9);
    cut.header.outcome = Outcome::interrupted("SIGINT");
    let text = render(&cut);
    assert!(text.contains("INCOMPLETE: interrupted by SIGINT"), "{text}");
    assert!(text.contains("no verdict"), "{text}");
    assert!(text.contains("1 MiB random reads: no result"), "{text}");
}

#[test]
fn a_search_without_any_window_is_still_text() {
    for targets in 0..3 {
        let text = render(&record(targets, 0));
        assert!(text.contains("0 windows"), "{text}");
    }
    let mut killed = record(1, 0);
    killed.header.outcome = Outcome::unfinished();
    let text = render(&killed);
    assert!(text.contains("INCOMPLETE") && !text.contains("0 windows"), "{text}");
}

#[test]
fn several_targets_are_compared() {
    let record = record(2, usize::MAX);
    let text = render(&record);
    assert!(
        text.contains("all targets, 4 KiB randread  the targets do not slow each other down"),
        "{text}"
    );
    assert!(text.contains("sum"), "{text}");
}

#[test]
fn json_is_the_record() {
    let record = record(1, 30);
    let text = json::text(&record).unwrap();
    let again: LimitRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(again.report.windows, 30);
    assert_eq!(render(&again), render(&record));
}

#[test]
fn the_answer_comes_first_and_a_result_fits_a_screen() {
    let record = record(1, usize::MAX);
    let text = unwrapped(&limit(&record, false));
    let answer = text.find("4 KiB random reads: ").unwrap();
    assert!(text.find('\n').unwrap() < answer && answer < text.find("/dev/nvme0n1").unwrap());
    let style = render::Style { color: false, width: 80 };
    let page = render::text(&limit(&record, false), style);
    assert!(page.lines().count() <= 40, "{page}");
    assert!(text.contains(" settings; all with --verbose"), "{text}");
}

#[test]
fn a_target_that_was_met_is_not_reported_as_not_met() {
    use fathom_model::limit::RatedPoint;
    let rated = |iops, latency_ns, meets| RatedPoint {
        iops,
        completed_iops: iops,
        latency_ns,
        p50_ns: latency_ns,
        windows: 1,
        meets,
    };
    let mut record = record(1, usize::MAX);
    let tried = vec![rated(200.0, 9_000_000, false), rated(329.0, 1_810_000, true)];
    let target = "p99<2ms".parse().unwrap();
    record.report.targets[0].blocks[0].target = Some(TargetResult { target, best: None, tried });
    let text = unwrapped(&limit(&record, false));
    assert!(text.contains("p99 < 2 ms  met only at 329 IOPS (unconfirmed)"), "{text}");
    assert!(!text.contains("not met"), "{text}");
}

#[test]
fn figures_that_cannot_be_relied_on_are_marked() {
    let mut record = record(1, usize::MAX);
    let block = &mut record.report.targets[0].blocks[0];
    let stalled = block.points.iter_mut().find(|point| point.depth == 8).unwrap();
    (stalled.iops.mean, stalled.clat_p99_ns, stalled.noisy) = (15.0, 200_000_000, true);
    block.peak.as_mut().unwrap().iops.windows = 1;
    let text = unwrapped(&limit(&record, false));
    let row = text.lines().find(|line| line.contains("1 × 8")).unwrap();
    assert!(row.ends_with("noisy"), "{row}");
    assert!(text.contains("p99 100 µs at QD10 (unconfirmed)"), "{text}");
}

#[test]
fn the_knee_has_its_share_of_the_peak_with_what_is_known_of_it() {
    let mut record = record(1, usize::MAX);
    let block = &mut record.report.targets[0].blocks[0];
    let mut point = block.points.iter().find(|point| point.depth == 8).unwrap().clone();
    point.iops.mean = 96_000.0;
    let of_peak = Some(Ratio { value: 0.96, low: 0.93, high: 0.99 });
    block.knee = Some(KneePoint { point, of_peak, ..KneePoint::default() });
    let text = render(&record);
    assert!(
        text.contains("knee at 96k IOPS, 96.0% (95% CI 93.0%–99.0%) of the peak, p99 "),
        "{text}"
    );
    record.report.targets[0].blocks[0].knee.as_mut().unwrap().of_peak = None;
    let text = render(&record);
    assert!(text.contains("knee at 96k IOPS, 96.0% of the peak, p99 "), "{text}");
}

#[test]
fn one_worker_without_a_verdict_is_inconclusive() {
    let mut record = record(1, usize::MAX);
    let block = &mut record.report.targets[0].blocks[0];
    block.one_worker = block.confirmation.clone();
    let tests = block.one_worker.as_mut().unwrap();
    tests.experiments.iter_mut().for_each(|experiment| experiment.gain = None);
    let text = render(&judged(record));
    let named = "what limits it is inconclusive. Not tested: doubling the queue depth and a second worker, as ";
    assert!(text.contains(named), "{text}");
}

#[test]
fn problems_and_findings_are_shown_worst_first() {
    let mut r = record(1, 40);
    r.report.targets[0].blocks[0].problems.push(fathom_model::limit::Problem {
        setting: fathom_model::window::Setting::ONE,
        errors: 5,
        short_ios: 1,
        message: "read: EIO".into(),
    });
    r.conditions[0].direct = false;
    let text = render(&judged(r));
    let error = text.find("ERROR   /dev/nvme0n1: 5 I/Os failed").unwrap();
    assert!(error < text.find("WARNING /dev/nvme0n1 was read through the page cache").unwrap());
    assert!(text.contains("1 worker, QD1: read: EIO"), "{text}");
}

#[test]
fn progress_fits_a_line() {
    let mut search = Search::new(record(1, 0).config);
    let probe = search.next().unwrap();
    let text = search_line(&probe, &["/dev/sda".into()], 0.5, 60.0);
    assert_eq!(text, "[############------------]  30 s left · measuring the idle machine");
    let end = search_line(&probe, &[], f64::NAN, 60.0);
    assert!(end.chars().count() < 100, "{end}");
}
