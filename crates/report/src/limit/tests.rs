use super::*;
use fathom_analysis::limit::{
    Conditions, Config, CpuTime, LoadMeasure, Measurement, PeakCost, Probe, Search, WorkerCpu,
};
use fathom_model::facts::{DeviceFacts, TargetKind};
use fathom_model::record::Cost;
use fathom_model::watch::Missing;
use fathom_model::{Facts, Histogram};

/// A device that does 100k I/Os per second, or 2 GB/s, at 100 µs, and costs 2 µs of processor time.
fn window(probe: &Probe) -> Measurement {
    let load = |load: &fathom_analysis::limit::Load| {
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
        LoadMeasure {
            ios,
            bytes: ios * probe.block_bytes,
            clat,
            workers: vec![
                WorkerCpu { user_ns: cpu / 4, system_ns: cpu - cpu / 4 };
                load.setting.workers as usize
            ],
            ..LoadMeasure::default()
        }
    };
    Measurement {
        elapsed_ns: probe.window_ns,
        took_ns: probe.window_ns + probe.ramp_ns,
        loads: probe.loads.iter().map(load).collect(),
        cpu: Some(CpuTime { busy_ns: 5, steal_ns: 0, idle_ns: 95 }),
    }
}

fn record(targets: usize, windows: usize) -> LimitRecord {
    let names: Vec<String> = (0..targets).map(|n| format!("/dev/nvme{n}n1")).collect();
    let config =
        Config { targets: names.clone(), seconds: 30.0, cores: 4, buffers_bytes_max: 1 << 30 };
    let mut search = Search::new(config.clone());
    for _ in 0..windows {
        let Some(probe) = search.next_probe() else { break };
        search.observe(&window(&probe));
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
    LimitRecord {
        record_version: 1,
        fathom_version: "0.1.0".into(),
        command: Vec::new(),
        started_unix_ns: 0,
        facts: Facts {
            host: Host { kernel: "6.18.0".into(), ..Host::default() },
            targets: names.iter().map(facts).collect(),
        },
        config,
        conditions: vec![Conditions { direct: true, scratch: false }; targets],
        interrupted: None,
        report: search.finish(),
        costs: Vec::new(),
        costs_missing: None,
        findings: Vec::new(),
    }
    .judged()
}

#[test]
fn the_text_names_the_device_the_figures_and_the_cause() {
    let text = render(&record(1, usize::MAX));
    for part in [
        "/dev/nvme0n1: 1 TiB, disk nvme0n1 (Example 9000, S123), read with O_DIRECT",
        "The tool's own ceiling here (operations that do nothing, per second): one worker 10M",
        "4 KiB  depth 1",
        "1 MiB  depth 1",
        "peak (1 × 16) is stopped by: the device, or what is below it",
        "· twice the depth (1 × 32): 100k → 100k I/Os per s in 3 pairs, 1.00 times",
        "latency 2.00 times",
        "so one core would stop at 500k I/Os per second",
        "One worker at depth 10 reaches 95% of that",
        "twice the depth does 1.00 times (1.00 to 1.00) at 2.00 times the latency, 2 workers do 1.00 times",
        "Next: compare with the device's data sheet",
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
    let lacks = vec![Missing { what: "cache misses".into(), why: "none".into(), allow: "".into() }];
    record.costs = vec![PeakCost { target: 0, block_bytes: 4096, cost, lacks }];
    record.costs_missing = Some("no counter was free".into());
    let text = render(&record).replace('\n', " ");
    let wanted = "Counted at the peak of /dev/nvme0n1, 4 KiB: 98 user instructions, 49 user cycles per I/O; \
                  IPC 2.00 user; no cache misses: none (in 200 ms of their own, at 98% of the speed).";
    assert!(text.contains(wanted), "{text}");
    assert!(text.contains("Counted at peaks: no instructions: no counter was free."), "{text}");
}

#[test]
fn columns_line_up_and_lines_stay_narrow() {
    let text = render(&record(1, usize::MAX));
    let ends: Vec<usize> = text
        .lines()
        .filter(|l| {
            l.contains("I/Os per s  ") || l.contains("  depth 1  ") || l.contains("  peak  ")
        })
        .map(|l| l.chars().count())
        .collect();
    assert_eq!(ends.len(), 5, "{text}");
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}\n{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 120), "{text}");
}

#[test]
fn an_interrupted_search_says_so_and_makes_nothing_up() {
    let mut cut = record(1, 9);
    cut.interrupted = Some("SIGINT".into());
    let text = render(&cut);
    assert!(text.starts_with("INTERRUPTED by SIGINT"), "{text}");
    assert!(text.contains("no verdict"), "{text}");
    assert!(text.contains("not measured"), "{text}");
    assert!(paragraph(&cut, 0).contains("until interrupted"));
}

#[test]
fn a_search_without_any_window_is_still_text() {
    for targets in 0..3 {
        let text = render(&record(targets, 0));
        assert!(text.contains("0 windows"), "{text}");
    }
    assert_eq!(paragraph(&record(1, 0), 7), "");
}

#[test]
fn several_targets_are_compared() {
    let record = record(2, usize::MAX);
    let text = render(&record);
    assert!(text.contains("All together, 4 KiB: they do not slow each other down"), "{text}");
    assert!(text.contains("sum"), "{text}");
    assert!(paragraph(&record, 1).contains("the 2 targets do not slow each other down"));
}

#[test]
fn json_is_the_record() {
    let record = record(1, 30);
    let text = json(&record).unwrap();
    let again: LimitRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(again.report.windows, 30);
    assert_eq!(render(&again), render(&record));
}

#[test]
fn problems_and_findings_are_shown_worst_first() {
    let mut r = record(1, 40);
    r.report.targets[0].blocks[0].problems.push(fathom_analysis::limit::Problem {
        setting: fathom_analysis::limit::Setting::ONE,
        errors: 5,
        short_ios: 1,
        message: "read: EIO".into(),
    });
    r.conditions[0].direct = false;
    let text = render(&r.judged());
    let error = text.find("ERROR: /dev/nvme0n1: 5 I/Os of 4 KiB failed").unwrap();
    assert!(error < text.find("WARNING: /dev/nvme0n1 was read through the page cache").unwrap());
    assert!(text.contains("at 1 × 1: read: EIO"));
}

#[test]
fn progress_fits_a_line() {
    let mut search = Search::new(record(1, 0).config);
    let probe = search.next_probe().unwrap();
    let text = line(&probe, &["/dev/sda".into()], 0.5, 60.0);
    assert_eq!(text, "[############------------]  30 s left · looking at the idle machine");
    let end = line(&probe, &[], f64::NAN, 60.0);
    assert!(end.chars().count() < 100, "{end}");
}

#[test]
fn wrapping_keeps_every_word() {
    let text = "word ".repeat(100);
    let wrapped = wrap(&text, "  ");
    assert_eq!(wrapped.split_whitespace().count(), 100);
    assert!(wrapped.lines().all(|l| l.starts_with("  word") && l.chars().count() <= WIDTH));
    assert_eq!(wrap("x".repeat(200).as_str(), ""), "x".repeat(200) + "\n");
}
