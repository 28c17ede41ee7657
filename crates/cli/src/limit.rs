//! `fathom limit`: what a disk can do on this machine, and what stops it there.

mod bench;
mod costs;
mod plan;
mod size;
mod targets;
mod view;
mod watched;

use crate::output::{self, Destination};
use crate::records::{self, slow_disk};
use crate::session::{Session, watching};
use crate::signals::Signals;
use crate::stdio::{Kind, note};
use bench::{Bench, EngineBench};
use fathom_analysis::limit::{Conditions, Config, LimitRecord, Search, Window};
use fathom_model::record::RECORD_VERSION;
use fathom_model::watch::Level;
use fathom_store::{EncodedSample, RunDir, Writer};
use std::process::ExitCode;
use view::View;
use watched::Watched;

/// The I/Os in flight take at most this part of the memory that is available, and this much.
const MEMORY_PART: u64 = 8;
const MEMORY_MAX: u64 = 1 << 30;
/// What a record says until it is whole.
const UNFINISHED: &str = "the search did not end: it was killed, or the machine stopped";

/// What `fathom limit` takes.
#[derive(clap::Args)]
pub struct Args {
    /// Files or block devices to read; without any, a scratch file is made and removed afterwards.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Take about 15 seconds instead of about a minute.
    #[arg(long, conflicts_with = "time")]
    quick: bool,
    /// Take this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = size::seconds)]
    time: Option<f64>,
    /// Size of the scratch file, such as 4g; at most a tenth of what is free is used.
    #[arg(long, value_parser = size::bytes, conflicts_with = "targets")]
    size: Option<u64>,
    /// Where the scratch file is made.
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "targets")]
    scratch_dir: String,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Write the result to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<String>,
    /// Keep the record of this search in this folder instead of among your runs.
    #[arg(long, value_name = "DIR", conflicts_with = "no_record")]
    record: Option<String>,
    /// Keep no record.
    #[arg(long)]
    no_record: bool,
    /// How much of the machine to watch meanwhile; it is kept in the folder `watch` of the record.
    #[arg(long, value_parser = watching::level(), default_value = "default")]
    watch: Level,
}

/// Searches and prints what was found. The exit status is 0 only if all of it was done.
///
/// # Errors
/// Why nothing was found out.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let signals = Signals::take().map_err(|e| format!("cannot take signals: {e}"))?;
    let to = check_outputs(args)?;
    // Before a scratch file is made, and gone again where a target is refused.
    let folder = if args.no_record { None } else { records::create(args.record.as_deref())? };
    let (session, conditions) = targets::open(args, &signals)?;
    let record = perform(args, &session, conditions, &signals, folder, to.as_ref());
    let finished = session.finish();
    let record = match (record, finished) {
        (Err(error), Err(other)) => return Err(format!("{error}; {other}")),
        (record, finished) => finished.and(record)?,
    };
    Ok(if record.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the record has a place, and where the result goes, which is no target.
fn check_outputs(args: &Args) -> Result<Option<Destination>, String> {
    let record = records::check(args.record.as_deref())?;
    let Some(file) = &args.output else { return Ok(None) };
    Destination::open(file, args.targets.iter().chain(&record).map(String::as_str)).map(Some)
}

fn perform(
    args: &Args,
    session: &Session,
    conditions: Vec<Conditions>,
    signals: &Signals,
    folder: Option<RunDir>,
    to: Option<&Destination>,
) -> Result<LimitRecord, String> {
    let config = config(args, session, &conditions);
    let mut record = new_record(session, config, conditions);
    let unfinished = LimitRecord { interrupted: Some(UNFINISHED.into()), ..record.clone() };
    let named = args.record.as_deref();
    let mut writer = records::begin(folder, named, &unfinished)?.map(Writer::start);
    let mut bench = EngineBench::new(session, record.conditions.clone());
    let mut watched = Watched::start(args.watch, writer.as_ref(), session);
    drive(&mut record, &mut bench, &mut writer, || {
        watched.keep();
        signals.caught()
    });
    let watched = watched.stop();
    costs::measure(session, signals, &mut record);
    let record = record.judged();
    let shown = show(args, &record, to);
    // A record whose disk is full or stalls keeps no result from who waits for it.
    let kept = writer.map_or(Ok(()), |mut writer| {
        let written = writer.finish(slow_disk).error.map_or(Ok(()), Err);
        written.and(writer.run_dir().record(&record))
    });
    let kept = records::finish(kept.and(watched.finish()), named);
    shown.and(kept).map(|()| record)
}

fn show(args: &Args, record: &LimitRecord, to: Option<&Destination>) -> Result<(), String> {
    let text = if args.json {
        fathom_report::limit::json(record).map_err(|e| e.to_string())?
    } else {
        fathom_report::limit::render(record)
    };
    let kind = if args.json { Kind::Json } else { Kind::Lines };
    output::emit(&text, kind, to)
}

fn config(args: &Args, session: &Session, conditions: &[Conditions]) -> Config {
    let host = &session.facts.host;
    let available =
        host.memory_available_bytes.min(host.cgroup_memory_max_bytes.unwrap_or(u64::MAX));
    let name = |(path, c): (&String, &Conditions)| {
        if c.scratch { "scratch file".to_string() } else { path.clone() }
    };
    let paths: Vec<String> = session.facts.targets.iter().map(|t| t.path.clone()).collect();
    let names: Vec<String> = paths.iter().zip(conditions).map(name).collect();
    Config {
        seconds: args.time.unwrap_or_else(|| Config::default_seconds(names.len(), args.quick)),
        targets: names,
        cores: host.cpus_allowed.len().max(1) as u32,
        buffers_bytes_max: (available / MEMORY_PART).min(MEMORY_MAX),
    }
}

fn new_record(session: &Session, config: Config, conditions: Vec<Conditions>) -> LimitRecord {
    LimitRecord {
        record_version: RECORD_VERSION,
        fathom_version: env!("CARGO_PKG_VERSION").to_string(),
        command: std::env::args().collect(),
        started_unix_ns: fathom_engine::clock::unix_ns(),
        facts: session.facts.clone(),
        report: Search::new(config.clone()).finish(),
        config,
        conditions,
        interrupted: None,
        costs: Vec::new(),
        costs_missing: None,
        findings: Vec::new(),
    }
}

/// Measures windows until the search has what it needs, its time is up, or `signal` says to stop;
/// what was found is in `record` then.
fn drive(
    record: &mut LimitRecord,
    bench: &mut impl Bench,
    writer: &mut Option<Writer>,
    mut signal: impl FnMut() -> Option<&'static str>,
) {
    let mut search = Search::new(record.config.clone());
    let mut view = View::new(&record.config);
    // A signal may have come while a scratch file was filled.
    record.interrupted = signal().map(str::to_string);
    while record.interrupted.is_none() {
        let Some(probe) = search.next_probe() else { break };
        view.show(&probe, search.done());
        let outcome = bench.window(&probe);
        // A window that a signal has cut short is not what was asked for.
        record.interrupted = signal().map(str::to_string);
        if record.interrupted.is_some() {
            break;
        }
        match &outcome {
            Ok(measured) => search.observe(measured),
            Err(message) => search.refuse(message),
        }
        append(writer, &Window { probe, outcome });
    }
    view.clear();
    record.report = search.finish();
}

/// Appends a window; a folder that can no longer be written is given up, not the search.
fn append(writer: &mut Option<Writer>, window: &Window) {
    let Some(writer) = writer else { return };
    writer.write(EncodedSample::line(window));
    if let Some(error) = writer.complaint() {
        note!("windows are no longer recorded: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_analysis::limit::{LoadMeasure, Measurement, Probe};
    use fathom_model::Facts;

    /// Answers every window with as many I/Os as are in flight.
    struct Fake {
        windows: u32,
    }

    impl Bench for Fake {
        fn window(&mut self, probe: &Probe) -> Result<Measurement, String> {
            self.windows += 1;
            let load = |l: &fathom_analysis::limit::Load| LoadMeasure {
                ios: 100 * l.setting.in_flight().min(8),
                ..LoadMeasure::default()
            };
            Ok(Measurement {
                elapsed_ns: probe.window_ns,
                took_ns: probe.window_ns,
                loads: probe.loads.iter().map(load).collect(),
                cpu: None,
            })
        }
    }

    fn record() -> LimitRecord {
        let config = Config {
            targets: vec!["x".into()],
            seconds: 15.0,
            cores: 2,
            buffers_bytes_max: 1 << 30,
        };
        LimitRecord {
            record_version: RECORD_VERSION,
            fathom_version: String::new(),
            command: Vec::new(),
            started_unix_ns: 0,
            facts: Facts::default(),
            report: Search::new(config.clone()).finish(),
            config,
            conditions: Vec::new(),
            interrupted: None,
            costs: Vec::new(),
            costs_missing: None,
            findings: Vec::new(),
        }
    }

    #[test]
    fn a_search_is_driven_to_its_end_and_every_window_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (mut record, mut bench) = (record(), Fake { windows: 0 });
        let folder = RunDir::create(dir.path().join("r").to_str(), 0).unwrap();
        let mut writer = Some(Writer::start(folder.begin(&record).unwrap()));
        drive(&mut record, &mut bench, &mut writer, || None);
        drop(writer);
        assert!(record.report.finished && record.report.windows == bench.windows);
        assert!(record.report.targets[0].blocks[0].peak.is_some());
        let lines = std::fs::read_to_string(dir.path().join("r/samples.ndjson")).unwrap();
        let windows: Vec<Window> =
            lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let again = fathom_analysis::limit::replay(record.config, &windows).unwrap();
        assert_eq!(again, record.report);
    }

    #[test]
    fn a_signal_ends_it_with_what_is_known() {
        let (mut record, mut bench) = (record(), Fake { windows: 0 });
        let calls = std::cell::Cell::new(0);
        let signal = || {
            calls.set(calls.get() + 1);
            (calls.get() > 20).then_some("SIGINT")
        };
        drive(&mut record, &mut bench, &mut None, signal);
        assert_eq!(record.interrupted.as_deref(), Some("SIGINT"));
        assert_eq!((record.report.windows, bench.windows), (19, 20));
        assert!(!record.report.finished && !record.is_complete());
    }
}
