//! `fathom limit`: what a disk can do on this machine, and what stops it there.

mod bench;
mod costs;
mod plan;
mod size;
mod targets;
mod view;

use crate::level;
use crate::output::Destination;
use crate::page::PageArgs;
use crate::signals::Signals;
use crate::stdio::note;
use bench::{Bench, EngineBench};
use fathom_analysis::limit::{
    BlockSpec, Competitor, Conditions, Config, LatencyTarget, LimitRecord, QueueFacts, Rw, Search,
    SuiteTest, Window,
};
use fathom_analysis::watch::{IoLimit, ObservedTotals};
use fathom_model::facts::TargetFacts;
use fathom_model::outcome::{Outcome, RecordKind};
use fathom_model::record::RECORD_VERSION;
use fathom_model::watch::Level;
use fathom_report::pages::LimitOptions;
use fathom_runner::observe::new_run_id;
use fathom_runner::{BackgroundSampling, NewRecording, OpenTargets, RecordTo, Recording};
use fathom_watch::system::CgroupSampler;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use view::View;

/// The I/Os in flight take at most this part of the memory that is available, and this much.
const MEMORY_PART: u64 = 8;
const MEMORY_MAX: u64 = 1 << 30;

/// What `fathom limit` takes.
#[derive(clap::Args)]
pub struct Args {
    /// Files or block devices, which are only read unless --rw says otherwise; by default a scratch file, which is
    /// removed afterwards.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Take a quarter of the time.
    #[arg(long, conflicts_with = "duration")]
    quick: bool,
    /// How long to search, such as 30 (seconds) or 5m; by default a minute for two kinds of I/O.
    #[arg(short = 't', long, value_name = "TIME", value_parser = size::duration)]
    duration: Option<Duration>,
    /// Kinds of access by fio's names, such as randread,randrw (70% reads) or read; by default randread, on a scratch
    /// file randwrite too.
    #[arg(long, value_name = "RW", value_delimiter = ',')]
    rw: Vec<Rw>,
    /// Block sizes, such as 4k,64k; by default 4k and 1m.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size::block)]
    bs: Vec<u64>,
    /// Also search for the highest load at which a percentile of latency stays below this, such as 'p99<2ms'.
    #[arg(long, value_name = "LATENCY", conflicts_with = "suite")]
    target: Option<LatencyTarget>,
    /// Measure the rows of CrystalDiskMark's default profile instead of searching.
    #[arg(long, conflicts_with_all = ["rw", "bs"])]
    suite: bool,
    /// Files that writes may overwrite.
    #[arg(long, value_name = "FILE")]
    overwrite: Vec<String>,
    /// Block devices that writes may erase: DEVICE or DEVICE@SERIAL.
    #[arg(long, value_name = "DEVICE")]
    erase: Vec<String>,
    /// Size of the scratch file, such as 4g; at most a tenth of the free space is used.
    #[arg(long, value_parser = size::bytes, conflicts_with = "targets")]
    size: Option<u64>,
    /// Directory of the scratch file.
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "targets")]
    scratch_dir: String,
    /// Also print a paragraph that can be forwarded by itself.
    #[arg(long)]
    paragraph: bool,
    #[command(flatten)]
    page: PageArgs,
    /// Run directory for the record, instead of a new one among your runs.
    #[arg(long, value_name = "DIR", conflicts_with = "no_record")]
    record: Option<String>,
    /// Keep no record.
    #[arg(long)]
    no_record: bool,
    /// How much of the machine to sample during the run.
    #[arg(long, value_parser = level::parser(), default_value = "default")]
    sampling: Level,
}

/// Searches and prints what was found. The exit status is 0 only if all of it was done.
///
/// # Errors
/// Why nothing was found out.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let signals = Signals::take().map_err(|e| format!("cannot install signal handlers: {e}"))?;
    let to = check_outputs(args)?;
    // Before a scratch file is made, and gone again where a target is refused.
    let recording = NewRecording::create(&record_to(args), &mut notice)?;
    let (targets, conditions) = targets::open(args, &signals)?;
    let record = perform(args, &targets, conditions, &signals, recording, to.as_ref());
    let closed = targets.close();
    let record = match (record, closed) {
        (Err(error), Err(other)) => return Err(format!("{error}; {other}")),
        (record, closed) => closed.and(record)?,
    };
    Ok(if record.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn notice(text: &str) {
    note!("{text}");
}

fn record_to(args: &Args) -> RecordTo {
    RecordTo::from_options(args.record.as_deref(), args.no_record)
}

/// Whether the record has a place, and where the result goes, which is no target.
fn check_outputs(args: &Args) -> Result<Option<Destination>, String> {
    let record = record_to(args).check()?;
    args.page.destination(args.targets.iter().chain(&record).map(String::as_str))
}

fn perform(
    args: &Args,
    targets: &OpenTargets,
    conditions: Vec<Conditions>,
    signals: &Signals,
    recording: NewRecording,
    to: Option<&Destination>,
) -> Result<LimitRecord, String> {
    let config = config(args, targets, &conditions);
    let mut record = new_record(targets, config, conditions);
    let unfinished = LimitRecord { outcome: Outcome::unfinished(), ..record.clone() };
    let mut recording = recording.begin(&unfinished, &mut notice)?;
    let mut bench = EngineBench::new(targets, record.conditions.clone());
    // Without a record too: it tells which other programs ran.
    let mut sampling = BackgroundSampling::new(args.sampling, targets.devices());
    let mut seen = ObservedTotals::default();
    drive(&mut record, &mut bench, &mut recording, |recording| {
        keep_samples(&mut sampling, recording, &mut seen);
        signals.caught()
    });
    let (rest, watch) = sampling.stop();
    for sample in &rest {
        seen.add(sample);
        recording.sample(sample);
    }
    record.watch = watch;
    record.competitors = Competitor::of(&seen.processes);
    costs::measure(targets, signals.cancel_token(), &mut record);
    let record = record.judged();
    let shown = show(args, &record, to);
    // After the result is printed: the record's disk may be full, or stall.
    let lost = recording.flush(&mut notice).error;
    let kept = recording.end(&record, &mut notice);
    let required = args.record.is_some();
    shown.and(kept).and(lost.filter(|_| required).map_or(Ok(()), Err)).map(|()| record)
}

/// Records the samples taken since the last window.
fn keep_samples(
    sampling: &mut BackgroundSampling,
    recording: &Recording,
    seen: &mut ObservedTotals,
) {
    while recording.has_room()
        && let Some(sample) = sampling.poll()
    {
        seen.add(&sample);
        recording.sample(&sample);
    }
    if let Some(error) = sampling.failure() {
        note!("the machine is not sampled: {error}");
    }
}

fn show(args: &Args, record: &LimitRecord, to: Option<&Destination>) -> Result<(), String> {
    let options = LimitOptions { paragraph: args.paragraph, verbose: args.page.verbose };
    let json = fathom_report::limit::json(record).map_err(|e| e.to_string())?;
    args.page.print(&fathom_report::pages::limit(record, options), Some(json), to)
}

impl Args {
    /// The kinds of I/O to measure, and the settings of the suite.
    fn kinds(&self) -> (Vec<BlockSpec>, Vec<SuiteTest>) {
        // Named targets are only read, unless the command line says otherwise.
        let may_write =
            self.targets.is_empty() || !self.overwrite.is_empty() || !self.erase.is_empty();
        if self.suite {
            return SuiteTest::all(may_write);
        }
        let default = match (self.targets.is_empty(), self.rw.is_empty() && self.bs.is_empty()) {
            (true, true) => return (BlockSpec::with_writes(), Vec::new()),
            (_, true) => return (BlockSpec::defaults(), Vec::new()),
            (true, _) => vec![Rw::Randread, Rw::Randwrite],
            (false, _) => vec![Rw::Randread],
        };
        let rw = if self.rw.is_empty() { default } else { self.rw.clone() };
        let bs = if self.bs.is_empty() { vec![4096, 1 << 20] } else { self.bs.clone() };
        let specs = rw.iter().flat_map(|rw| bs.iter().map(|bs| BlockSpec::new(*bs, *rw)));
        (specs.collect(), Vec::new())
    }

    /// Whether any kind of I/O changes the targets.
    fn writes(&self) -> bool {
        self.kinds().0.iter().any(|spec| spec.rw.modifies())
    }
}

fn config(args: &Args, targets: &OpenTargets, conditions: &[Conditions]) -> Config {
    let host = &targets.facts.host;
    let available =
        host.memory_available_bytes.min(host.cgroup_memory_max_bytes.unwrap_or(u64::MAX));
    let name = |(path, c): (&String, &Conditions)| {
        if c.scratch { "scratch file".to_string() } else { path.clone() }
    };
    let paths: Vec<String> = targets.facts.targets.iter().map(|t| t.path.clone()).collect();
    let names: Vec<String> = paths.iter().zip(conditions).map(name).collect();
    let (blocks, suite) = args.kinds();
    let searches =
        if suite.is_empty() { blocks.len() } else { 0 } + usize::from(args.target.is_some());
    Config {
        seconds: args.duration.map_or_else(
            || Config::default_seconds(names.len(), searches, args.quick),
            |time| time.as_secs_f64(),
        ),
        targets: names,
        cores: host.cpus_allowed.len().max(1) as u32,
        buffers_bytes_max: (available / MEMORY_PART).min(MEMORY_MAX),
        blocks,
        target: args.target,
        suite,
        queues: queues(targets),
    }
}

/// What may hold I/Os back above the device of each target.
fn queues(targets: &OpenTargets) -> Vec<QueueFacts> {
    let cgroup = CgroupSampler::open(Path::new("/proc"), Path::new("/sys")).ok();
    let limits =
        cgroup.and_then(|mut cgroup| cgroup.snapshot()).map_or_else(Vec::new, |now| now.io_limits);
    let of = |target: &TargetFacts| {
        let Some(device) = &target.device else { return QueueFacts::default() };
        let is_of = |entry: &&String| IoLimit::parse(entry).iter().any(|l| l.device == device.name);
        QueueFacts {
            device: device.name.clone(),
            nr_requests: device.nr_requests,
            hardware_queues: device.hardware_queues,
            io_limits: limits.iter().filter(is_of).cloned().collect(),
        }
    };
    targets.facts.targets.iter().map(of).collect()
}

fn new_record(targets: &OpenTargets, config: Config, conditions: Vec<Conditions>) -> LimitRecord {
    LimitRecord {
        record_version: RECORD_VERSION,
        fathom_version: env!("CARGO_PKG_VERSION").to_string(),
        command: std::env::args().collect(),
        started_unix_ns: fathom_engine::clock::unix_ns(),
        facts: targets.facts.clone(),
        report: Search::new(config.clone()).finish(),
        config,
        conditions,
        kind: RecordKind::Limit,
        run_id: new_run_id(),
        outcome: Outcome::Finished,
        watch: None,
        competitors: Vec::new(),
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
    recording: &mut Recording,
    mut signal: impl FnMut(&Recording) -> Option<&'static str>,
) {
    let mut search = Search::new(record.config.clone());
    let mut view = View::new(&record.config);
    // A signal may have come while a scratch file was filled.
    let mut interrupted = signal(recording);
    while interrupted.is_none() {
        let Some(probe) = search.next_probe() else { break };
        view.show(&probe, search.done());
        let outcome = bench.window(&probe);
        // A window that a signal has cut short is not what was asked for.
        interrupted = signal(recording);
        if interrupted.is_some() {
            break;
        }
        match &outcome {
            Ok(measured) => search.observe(measured),
            Err(message) => search.refuse(message),
        }
        recording.window(&Window { probe, outcome });
        if let Some(error) = recording.complaint() {
            note!("windows and samples are no longer recorded: {error}");
        }
    }
    view.clear();
    record.outcome = interrupted.map_or(Outcome::Finished, Outcome::interrupted);
    record.report = search.finish();
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
            blocks: BlockSpec::defaults(),
            target: None,
            suite: Vec::new(),
            queues: Vec::new(),
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
            kind: RecordKind::Limit,
            run_id: String::new(),
            outcome: Outcome::Finished,
            watch: None,
            competitors: Vec::new(),
            costs: Vec::new(),
            costs_missing: None,
            findings: Vec::new(),
        }
    }

    #[test]
    fn a_search_is_driven_to_its_end_and_every_window_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (mut record, mut bench) = (record(), Fake { windows: 0 });
        let to = RecordTo::Required(dir.path().join("r").to_str().map(String::from));
        let new = NewRecording::create(&to, &mut notice).unwrap();
        let mut recording = new.begin(&record, &mut notice).unwrap();
        drive(&mut record, &mut bench, &mut recording, |_| None);
        drop(recording);
        assert!(record.report.finished && record.report.windows == bench.windows);
        assert!(record.report.targets[0].blocks[0].peak.is_some());
        let lines = std::fs::read_to_string(dir.path().join("r/windows.ndjson")).unwrap();
        let windows: Vec<Window> =
            lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let again = fathom_analysis::limit::replay(record.config, &windows).unwrap();
        assert_eq!(again, record.report);
    }

    #[test]
    fn a_signal_ends_it_with_what_is_known() {
        let (mut record, mut bench) = (record(), Fake { windows: 0 });
        let calls = std::cell::Cell::new(0);
        let signal = |_: &Recording| {
            calls.set(calls.get() + 1);
            (calls.get() > 20).then_some("SIGINT")
        };
        let nowhere = NewRecording::create(&RecordTo::Nowhere, &mut notice).unwrap();
        let mut nowhere = nowhere.begin(&record, &mut notice).unwrap();
        drive(&mut record, &mut bench, &mut nowhere, signal);
        assert_eq!(record.outcome, Outcome::interrupted("SIGINT"));
        assert_eq!((record.report.windows, bench.windows), (19, 20));
        assert!(!record.report.finished && !record.is_complete());
    }
}
