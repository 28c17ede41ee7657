use super::*;
use fathom_model::experiment::WindowResult;
use fathom_model::record::Header;
use fathom_model::window::{Estimate, Measurement, Probe, Setting};

/// Answers a window with as many I/Os as are in flight.
fn answer(probe: &Probe) -> Result<Measurement, String> {
    let load = |l: &fathom_model::window::Load| WindowResult {
        ios: 100 * l.setting.in_flight().min(8),
        ..WindowResult::default()
    };
    Ok(Measurement {
        elapsed_ns: probe.window_ns,
        took_ns: probe.window_ns,
        loads: probe.loads.iter().map(load).collect(),
        cpu: None,
    })
}

fn record() -> LimitRecord {
    let config = Config {
        targets: vec!["x".into()],
        seconds: 15.0,
        cores: 2,
        buffers_bytes_max: 1 << 30,
        blocks: BlockSpec::defaults(),
        target: None,
        suite: Vec::new(),
        queues: Vec::new(),
        cpu_limit: None,
        spec: None,
    };
    LimitRecord {
        header: Header { kind: RecordKind::Limit, ..Header::default() },
        report: Search::new(config.clone()).finish(),
        config,
        conditions: Vec::new(),
        competitors: Vec::new(),
        costs: Vec::new(),
        costs_missing: None,
        ranks: Vec::new(),
    }
}

#[test]
fn a_search_is_driven_to_its_end_and_every_window_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (mut record, mut windows) = (record(), 0);
    let count = |probe: &Probe| {
        windows += 1;
        answer(probe)
    };
    let to = RecordTo::Required(dir.path().join("r").to_str().map(String::from));
    let mut session = Session::open(&to, &mut |_: &str| {}).unwrap();
    session.begin(&record, &mut |_: &str| {}).unwrap();
    search(&mut record, count, &mut session, &mut (), || None);
    drop(session);
    assert!(record.report.finished && record.report.windows == windows);
    assert!(record.report.targets[0].blocks[0].peak.is_some());
    let lines = std::fs::read_to_string(dir.path().join("r/windows.ndjson")).unwrap();
    let windows: Vec<Window> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let again = fathom_analysis::limit::replay(record.config, &windows).unwrap();
    assert_eq!(again, record.report);
}

#[test]
fn a_signal_ends_it_with_what_is_known() {
    let (mut record, mut windows) = (record(), 0);
    let count = |probe: &Probe| {
        windows += 1;
        answer(probe)
    };
    let calls = std::cell::Cell::new(0);
    let stop = || {
        calls.set(calls.get() + 1);
        (calls.get() > 20).then_some("SIGINT")
    };
    search(&mut record, count, &mut Session::default(), &mut (), stop);
    assert_eq!(record.header.outcome, Outcome::interrupted("SIGINT"));
    assert_eq!((record.report.windows, windows), (19, 20));
    assert!(!record.report.finished && !record.is_complete());
}

#[test]
fn workers_are_put_together_and_compared_with_the_peak() {
    let job = |ios, user_instructions| JobRecord {
        cost: Some(Cost { ios, user_instructions, window_ns: 100_000_000, ..Cost::default() }),
        ..JobRecord::default()
    };
    let load = Load::at(1, Setting { workers: 2, depth: 8 });
    let iops = Estimate { mean: 8_000.0, ..Estimate::default() };
    let peak = Point { iops, ..Point::default() };
    let probe = cost_probe(load, &BlockSpec::defaults()[0]);
    let cost = at_peak(&[job(100, 10.0), job(300, 20.0)], &probe, &peak).unwrap();
    assert_eq!((cost.target, cost.block_bytes, cost.cost.ios), (1, 4096, 400));
    assert_eq!((cost.cost.user_instructions, cost.cost.speed_ratio), (17.5, 0.5));
    assert_eq!(at_peak(&[JobRecord::default()], &probe, &peak), None);
}
