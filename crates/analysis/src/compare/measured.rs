//! What of a stored result is compared: its figures, what was planned, the machine, and what else happened meanwhile.

use super::differences::{Values, flat};
use super::named::Published;
use super::{ComparedKind, RunConditions};
use crate::derive;
use crate::experiment::Totals;
use crate::layers::{Layer, LayerTimes, SAMPLES_MIN};
use crate::machine::DiskRates;
use crate::metrics::{DISK, JOB, JobFigures, PROCESS};
use crate::rules::from_disk;
use crate::watch::Observed;
use fathom_model::experiment::{Condition, ExperimentRecord, Load, MeasuredCondition, RoundWindow};
use fathom_model::facts::{Facts, TargetFacts};
use fathom_model::limit::{BlockLimit, LimitRecord};
use fathom_model::outcome::{Outcome, RecordKind};
use fathom_model::record::{Header, RunRecord};
use fathom_model::watch::{Level, ProcessUse};
use fathom_model::window::{Point, Window};
use fathom_model::{Dir, Histogram, list};
use std::collections::BTreeMap;

/// The figures that are compared, in the order of the table, by their names in docs/figures.md.
pub const COMPARED: &[&str] = &[
    "runtime_ms",
    "iops",
    "bandwidth_bytes_per_s",
    "mean_ms",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "cpu_ms_per_io",
    "ios_in_flight",
    "cpus",
    "disk_bytes_per_s",
    "reads_per_s",
    "writes_per_s",
    "read_await_ms",
    "write_await_ms",
    "queue",
    "util_pct",
];
/// CPU time per I/O in a layer of the kernel: the id of its figure is this and the layer's name.
pub(super) const LAYER: &str = "cpu_ms_per_io.";
/// The part that has them, of a run.
pub(super) const LAYERS: &str = "CPU per I/O by layer";
/// Those of a device below a run, whose rates are those of the jobs.
const OF_DISK: [&str; 4] = ["read_await_ms", "write_await_ms", "queue", "util_pct"];
/// Reads of a program below this, in bytes, do not show where they came from.
const READ_MIN: u64 = 1 << 20;

/// The id of a percentile.
pub(super) fn percentile_id(percent: f64) -> String {
    if percent == 99.9 { "p999_ms".to_string() } else { format!("p{percent}_ms") }
}

/// A stored result.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    pub name: String,
    pub kind: ComparedKind,
    /// Whether it is fio's JSON, or the same of a run.
    pub is_fio: bool,
    pub started_unix_ns: u64,
    /// Identifies the installation; empty if unknown.
    pub host_id: String,
    /// Why it is not complete, if so.
    pub incomplete: Option<String>,
    /// What limited it, in a few words, or the ids of rules.
    pub limited_by: Vec<String>,
    pub conditions: RunConditions,
    pub parts: Vec<MeasuredPart>,
    /// The numbers of its JSON, where a condition names one.
    pub published: Published,
    pub plan: Values,
    pub settings: Values,
}

/// A job, a kind of I/O, a variant or a device.
#[derive(Debug, Clone, Default)]
pub struct MeasuredPart {
    pub name: String,
    /// By their names in docs/figures.md, or their paths in the JSON.
    pub figures: BTreeMap<String, f64>,
    /// All latencies; empty where only percentiles are known.
    pub latency: Histogram,
}

impl MeasuredPart {
    pub(super) fn new<I: Into<String>>(
        name: &str,
        figures: impl IntoIterator<Item = (I, Option<f64>)>,
    ) -> Self {
        let usable = |value: &f64| value.is_finite() && *value >= 0.0;
        let known = |(id, value): (I, Option<f64>)| Some((id.into(), value.filter(usable)?));
        let figures = figures.into_iter().filter_map(known).collect();
        Self { name: name.to_string(), figures, latency: Histogram::default() }
    }

    /// The same with CPU time by layer, of which `shares` are the parts of `cpu_ns` per I/O: 0 in layers without samples.
    fn with_layers(mut self, cpu_ns: f64, share: impl Fn(Layer) -> f64) -> Self {
        let of = |layer: &Layer| (format!("{LAYER}{}", layer.name()), share(*layer) * cpu_ns / 1e6);
        self.figures.extend(Layer::ALL.iter().map(of));
        self
    }
}

impl Measured {
    fn of(name: &str, kind: ComparedKind, header: &Header, is_complete: bool) -> Self {
        let incomplete = match &header.outcome {
            Outcome::Finished if is_complete => None,
            Outcome::Finished => Some("parts of it failed".to_string()),
            other => Some(other.to_string()),
        };
        let verdicts = header.findings.iter().filter(|f| f.is_verdict() && !f.is_refuted());
        let mut settings = flat(&own_facts(header));
        // Its place is the plan.
        settings.remove("targets.path");
        let mut set = |name: &str, value: &str| {
            settings.insert(name.to_string(), vec![value.to_string()]);
        };
        set("fathom version", &header.fathom_version);
        let boot = &header.facts.host.boot_id;
        set("boot", boot.get(..8).unwrap_or(boot));
        let level = match header.sampling.as_ref().map(|sampling| sampling.level) {
            None | Some(Level::Off) => "off",
            Some(Level::Default) => "default",
            Some(Level::Full) => "full",
        };
        set("sampling", level);
        let is_sparse =
            |target: &TargetFacts| target.allocated_bytes < target.size_bytes / 100 * 99;
        if header.facts.targets.iter().any(is_sparse) {
            set("sparse targets", "yes");
        }
        let host = &header.facts.host;
        Self {
            name: name.to_string(),
            kind,
            started_unix_ns: header.started_unix_ns,
            host_id: host.host_id.clone(),
            incomplete,
            limited_by: verdicts.map(|verdict| verdict.limiter().to_string()).collect(),
            conditions: RunConditions {
                cpus: host.cpus_allowed.len() as u32,
                hot_drives: hot_drives(header),
                ..RunConditions::default()
            },
            settings,
            ..Self::default()
        }
    }

    pub fn of_run(name: &str, record: &RunRecord, observed: &Observed) -> Self {
        match record.header.kind {
            RecordKind::Watch => Self::of_watch(name, record, observed),
            _ => Self::of_jobs(name, record, observed),
        }
    }

    fn of_jobs(name: &str, record: &RunRecord, observed: &Observed) -> Self {
        let mut parts = Vec::new();
        for group in derive::sections(record).iter().filter(|group| group.record.runtime_ns > 0) {
            let (plan, done) = (group.plan, &group.record);
            let dirs: Vec<Dir> = derive::shown_dirs(plan, done).collect();
            let of = |name: String, dirs: &[Dir], is_whole: bool| {
                let each: Vec<_> = dirs.iter().map(|dir| (0, &done.dirs[*dir])).collect();
                let all = derive::merge_dirs(&each);
                // Under a schedule, an I/O that starts late has waited since it was due.
                let latency = match plan.is_paced() {
                    true if !all.response.is_empty() => all.response,
                    _ if all.lat.is_empty() => all.clat,
                    _ => all.lat,
                };
                let bytes = plan.engine.paths().is_none().then_some(all.counts.bytes);
                let figures = JobFigures {
                    cpu_per_io_ns: derive::cpu_per_io_ns(done).filter(|_| is_whole),
                    in_flight: derive::in_flight(done, done.runtime_ns).filter(|_| is_whole),
                    ..JobFigures::new(all.counts.ios, bytes, done.runtime_ns, &latency)
                };
                // A given time is no result.
                let is_timed = plan.until.runtime_ns.is_some() || plan.is_paced() || !is_whole;
                let rows = JOB.iter().filter(|row| row.id != "runtime_ms" || !is_timed);
                let figures = rows.map(|row| (row.id, (row.value)(&figures)));
                MeasuredPart { latency: latency.clone(), ..MeasuredPart::new(&name, figures) }
            };
            parts.push(of(plan.name.clone(), &dirs, true));
            if dirs.len() > 1 {
                let each =
                    dirs.iter().map(|dir| of(format!("{} {dir}", plan.name), &[*dir], false));
                parts.extend(each);
            }
        }
        parts.extend(layers(record, observed));
        parts.extend(disk_parts(record.disks.iter().map(DiskRates::from)));
        let conditions = sampled(observed);
        let mut all = Self::of(name, ComparedKind::Run, &record.header, record.is_complete());
        all.conditions.read_from_disk = from_disk(record);
        all.sampled(conditions);
        all.plan = flat(&record.plan);
        all.plan.insert("number of jobs".into(), vec![record.plan.jobs.len().to_string()]);
        let in_effect: Vec<_> = record.jobs.iter().map(|job| &job.granted).collect();
        let mut in_effect = flat(&in_effect);
        in_effect.remove("sq_wakeups");
        let in_effect =
            in_effect.into_iter().map(|(path, value)| (format!("in effect {path}"), value));
        all.settings.extend(in_effect);
        Self { parts: unique(parts), ..all }
    }

    fn of_watch(name: &str, record: &RunRecord, observed: &Observed) -> Self {
        let mut all = Self::of(name, ComparedKind::Watch, &record.header, record.is_complete());
        let (processes, rates) = (&observed.processes, observed.rates());
        let watched = Some(&processes.watched).filter(|watched| !watched.comm.is_empty());
        let command =
            record.header.sampling.as_ref().and_then(|sampling| sampling.command.as_ref());
        let elapsed =
            command.filter(|command| command.status == Some(0)).map(|c| c.elapsed_ns as f64 / 1e6);
        if let Some(failed) = command.filter(|command| command.status != Some(0)) {
            let status =
                failed.status.map_or("did not exit".into(), |n| format!("exit status {n}"));
            all.incomplete.get_or_insert(format!("the command failed ({status})"));
        }
        let whole_machine = processes.elapsed_ns > 0 && watched.is_none();
        let mut figures = vec![("runtime_ms", elapsed)];
        if let Some(watched) = watched {
            figures.extend(PROCESS.iter().map(|row| (row.id, (row.value)(processes, watched))));
        }
        let program = watched.map_or("", |watched| watched.comm.as_str());
        let subject = match command {
            Some(command) => command.argv.join(" "),
            None if program.is_empty() => "whole machine".to_string(),
            None => program.to_string(),
        };
        let title = if program.is_empty() { "program" } else { program };
        let disks = rates.disks.iter().filter(|disk| disk.read.ios + disk.write.ios > 0.0);
        let mut parts = vec![MeasuredPart::new(title, figures)];
        parts.extend(disks.map(|disk| {
            let shown = DISK.iter().map(|row| (row.id, (row.value)(disk)));
            MeasuredPart::new(&disk.name, shown)
        }));
        parts.retain(|part| !part.figures.is_empty());
        all.sampled(sampled(observed));
        all.conditions.whole_machine = whole_machine;
        all.conditions.read_from_disk = watched
            .filter(|w| w.requested_read >= READ_MIN)
            .map(|w| (w.disk_read as f64 / w.requested_read as f64).min(1.0));
        all.plan.insert("watched".into(), vec![subject]);
        let devices = record.header.sampling.iter().flat_map(|sampling| &sampling.devices);
        // Loop devices come and go with the programs that have them.
        let is_used =
            |name: &str| parts.iter().any(|part| part.name == name) || !name.starts_with("loop");
        let devices: Vec<_> = devices.filter(|device| is_used(&device.name)).collect();
        let devices = flat(&devices).into_iter();
        all.settings.extend(devices.map(|(path, value)| (format!("targets.device.{path}"), value)));
        Self { parts: unique(parts), ..all }
    }

    pub fn of_limit(
        name: &str,
        record: &LimitRecord,
        observed: &Observed,
        windows: &[Window],
    ) -> Self {
        let has_targets = record.report.targets.len() > 1;
        let mut parts = Vec::new();
        for (index, target) in record.report.targets.iter().enumerate() {
            for (at, block) in target.blocks.iter().enumerate() {
                let test =
                    record.config.suite.get(at).map(|test| format!("{} {}", test.name, block.rw));
                let kind = test.unwrap_or_else(|| block.name());
                let kind = if has_targets { format!("{} {kind}", target.name) } else { kind };
                let latency = |point: &Point| latency_at(windows, index, block, point);
                parts.extend(points(&kind, block, latency));
            }
        }
        for all in &record.report.combined {
            let iops = ("iops", Some(all.combined_iops.mean));
            parts.push(MeasuredPart::new(&format!("all targets {}", all.name()), [iops]));
        }
        parts.retain(|part| !part.figures.is_empty());
        let mut all = Self::of(name, ComparedKind::Limit, &record.header, record.is_complete());
        all.sampled(sampled(observed));
        let blocks = || record.report.targets.iter().flat_map(|target| &target.blocks);
        let peaks = blocks().filter(|block| !block.rw.modifies()).filter_map(|b| b.peak.as_ref());
        all.conditions.read_from_disk =
            mean(peaks.filter_map(|peak| peak.from_disk).map(|n| n.min(1.0)));
        let shares = blocks().filter_map(|block| block.peak.as_ref()?.cpu);
        all.conditions.steal = mean(shares.clone().map(|cpu| cpu.steal)).or(all.conditions.steal);
        let cpus = f64::from(record.config.cores);
        let throttled = mean(shares.map(|cpu| cpu.throttled * cpus));
        all.conditions.throttled_cpus = throttled.or(all.conditions.throttled_cpus);
        // What the machine sets, and what is only compared with, are no part of the plan.
        let config = fathom_model::limit::Config {
            queues: Vec::new(),
            cpu_limit: None,
            spec: None,
            ..record.config.clone()
        };
        all.plan = flat(&config);
        Self { parts: unique(parts), ..all }
    }

    pub fn of_experiment(name: &str, record: &ExperimentRecord, windows: &[RoundWindow]) -> Self {
        let experiment = &record.request.experiment;
        let found = experiment.conditions.iter().zip(&record.report.conditions);
        let counted = || {
            let warm = record.request.protocol.rounds_warm;
            let counted = windows.iter().filter(move |window| window.round >= warm);
            counted.filter_map(|one| Some((one.condition, one.outcome.as_ref().ok()?)))
        };
        let measured =
            found.enumerate().filter(|(_, (of, found))| of.repeats.is_none() && found.windows > 0);
        let parts = measured.map(|(index, (of, found))| {
            let name = of.label(&experiment.axes);
            let name = if name.is_empty() { &experiment.name } else { &name };
            let mut latency = Histogram::default();
            counted().filter(|(at, _)| *at == index).for_each(|(_, one)| latency.merge(&one.clat));
            MeasuredPart { latency, ..variant(name, of, found) }
        });
        let kind = if record.request.is_sweep { ComparedKind::Sweep } else { ComparedKind::Try };
        // A variant that this machine cannot measure leaves the others as they are.
        let is_complete = record.report.conditions.iter().all(|found| found.errors == 0);
        let mut all = Self::of(name, kind, &record.header, is_complete);
        // What was found of each variant is not what limited it.
        all.limited_by.clear();
        let mut totals = Totals::default();
        counted().for_each(|(_, one)| totals.add(one));
        let cpus = f64::from(all.conditions.cpus);
        let cpu = totals.cpu();
        all.conditions.unaccounted_cpus =
            cpu.map(|cpu| (cpu.busy * cpus - totals.cores()).max(0.0));
        all.conditions.steal = cpu.map(|cpu| cpu.steal);
        all.conditions.throttled_cpus = cpu.map(|cpu| cpu.throttled * cpus);
        let moved = totals.moved_per_byte();
        all.conditions.other_disk_share = moved.map(|moved| (1.0 - 1.0 / moved).max(0.0));
        all.conditions.read_from_disk = moved.map(|moved| moved.min(1.0));
        let request = fathom_model::experiment::Request {
            scratch_dir: String::new(),
            peaks: BTreeMap::new(),
            ..record.request.clone()
        };
        all.plan = flat(&request);
        Self { parts: unique(parts.collect()), ..all }
    }

    /// The parts of its figures, and of the numbers of its JSON.
    pub(super) fn part_names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|part| part.name.as_str()).chain(self.published.parts())
    }

    fn sampled(&mut self, sampled: RunConditions) {
        let RunConditions { cpus, hot_drives, read_from_disk, .. } =
            std::mem::take(&mut self.conditions);
        self.conditions = RunConditions { cpus, hot_drives, read_from_disk, ..sampled };
    }

    /// Whether `other` did the same on the same machine, as far as is known.
    pub fn is_repetition_of(&self, other: &Self) -> bool {
        let same_machine = !self.host_id.is_empty() && self.host_id == other.host_id;
        same_machine && self.kind == other.kind && self.plan == other.plan
    }
}

/// The facts of a run, without block devices that are none of its targets and below none, such as loop devices of others on
/// the same disk.
fn own_facts(header: &Header) -> Facts {
    let mut facts = header.facts.clone();
    let Some(topology) = &mut facts.topology else { return facts };
    let mut own: Vec<String> =
        facts.targets.iter().flat_map(TargetFacts::device_names).map(str::to_string).collect();
    let mut next = 0;
    while let Some(name) = own.get(next) {
        let below = topology.volume(name).map(|volume| volume.members.clone());
        own.extend(below.into_iter().flatten());
        own = list::distinct(own);
        next += 1;
    }
    topology.volumes.retain(|volume| own.contains(&volume.name));
    facts
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Drives at or above their warning temperature when it began.
fn hot_drives(header: &Header) -> Vec<(String, i32)> {
    let disks = header.facts.inspection.iter().flat_map(|inspection| &inspection.disks);
    let hot = disks.filter_map(|disk| {
        let nvme = disk.nvme.as_ref()?;
        let celsius = nvme.smart?.celsius;
        let limit = nvme.warning_celsius.filter(|limit| *limit > 0)?;
        (celsius >= limit).then(|| (disk.device.name.clone(), celsius))
    });
    hot.collect()
}

/// What else happened while it was sampled.
fn sampled(observed: &Observed) -> RunConditions {
    let (processes, rates) = (&observed.processes, observed.rates());
    let system = rates.system.as_ref();
    let is_other = |one: &&&ProcessUse| !one.peer;
    // Of the whole machine, no program is another one.
    let is_known = processes.elapsed_ns > 0 && !processes.watched.comm.is_empty();
    let by_cpu = processes.by_cpu();
    let cpus: f64 = by_cpu.iter().filter(is_other).map(|one| processes.cpus(one)).sum();
    let bytes: f64 =
        by_cpu.iter().filter(is_other).map(|one| processes.per_second(one.disk_bytes())).sum();
    let all_bytes = rates.disks_total.read.bytes + rates.disks_total.write.bytes;
    let own = processes.per_second(processes.watched.disk_bytes());
    let share = other_disk_share(own, bytes, all_bytes);
    RunConditions {
        // A sum of nothing is -0.
        other_cpus: is_known.then_some(cpus + 0.0),
        other_program: by_cpu.into_iter().find(|one| !one.peer).map(ProcessUse::named),
        other_disk_share: is_known.then_some(share),
        steal: system.map(|system| system.cpu.steal / 100.0),
        throttled_cpus: system
            .and_then(|s| s.cgroup.as_ref()?.throttled)
            .map(|percent| percent / 100.0),
        ..RunConditions::default()
    }
}

/// The part of `all` bytes of the disks that was not the load's `own`. What `others` write to the page cache may reach a disk
/// later, and a load that uses no disk shares none.
pub(super) fn other_disk_share(own: f64, others: f64, all: f64) -> f64 {
    let others = others.min(all - own).max(0.0);
    if own > 0.0 && others > 0.0 { others / all } else { 0.0 }
}

/// Devices with their latencies and queues.
fn disk_parts(disks: impl Iterator<Item = DiskRates>) -> Vec<MeasuredPart> {
    let part = |disk: DiskRates| {
        let is_of_jobs = |id: &str| COMPARED.contains(&id) && !OF_DISK.contains(&id);
        let shown = DISK.iter().filter(|row| !is_of_jobs(row.id));
        MeasuredPart::new(&disk.name, shown.map(|row| (row.id, (row.value)(&disk))))
    };
    disks.map(part).collect()
}

/// CPU time per I/O by layer, if there are enough samples of the run, not of the whole machine.
fn layers(record: &RunRecord, observed: &Observed) -> Option<MeasuredPart> {
    let is_own = !record.header.sampling.as_ref()?.pids.is_empty();
    let samples = if is_own { observed.stacks() } else { observed.own_stacks() }?;
    let times = LayerTimes::of([&samples], &observed.known_stacks, |_| true);
    let jobs = derive::merge_jobs(&record.jobs.iter().collect::<Vec<_>>());
    let cpu_ns = derive::cpu_per_io_ns(&jobs).filter(|_| times.samples >= SAMPLES_MIN)?;
    let none: [(String, Option<f64>); 0] = [];
    Some(MeasuredPart::new(LAYERS, none).with_layers(cpu_ns, |layer| times.share(layer)))
}

/// All latencies at a setting of a search, from the windows that its figures are of.
fn latency_at(windows: &[Window], target: usize, block: &BlockLimit, at: &Point) -> Histogram {
    let mut latency = Histogram::default();
    for window in windows {
        let ([load], None) = (window.probe.loads.as_slice(), window.probe.cores) else { continue };
        let is_alike = (window.probe.block_bytes, window.probe.rw) == (block.block_bytes, block.rw);
        let is_at = load.target == Some(target) && load.setting == at.setting();
        let Ok(measured) = &window.outcome else { continue };
        let is_good = measured.loads.iter().all(|one| one.errors == 0 && one.short_ios == 0);
        if is_alike && is_at && load.iops.is_none() && is_good {
            measured.loads.iter().for_each(|one| latency.merge(&one.clat));
        }
    }
    latency
}

/// The settings of a search that have a name.
fn points(
    kind: &str,
    block: &BlockLimit,
    latency: impl Fn(&Point) -> Histogram,
) -> Vec<MeasuredPart> {
    let point = |name: &str, point: &Point| {
        let ms = |ns: u64| Some(ns as f64 / 1e6);
        let figures = [
            ("iops", Some(point.iops.mean)),
            ("bandwidth_bytes_per_s", Some(point.bytes_per_second)),
            ("mean_ms", Some(point.clat_mean_ns / 1e6)),
            ("p50_ms", ms(point.clat_p50_ns)),
            ("p99_ms", ms(point.clat_p99_ns)),
            ("cpu_ms_per_io", Some(point.cpu_ns_per_io() / 1e6)),
            ("ios_in_flight", Some(point.in_flight)),
            ("queue", point.device_queue),
        ];
        let part = MeasuredPart::new(&format!("{kind} {name}"), figures);
        MeasuredPart { latency: latency(point), ..part }
    };
    let mut parts = Vec::new();
    parts.extend(block.peak.as_ref().map(|peak| point("peak", peak)));
    parts.extend(block.knee.as_ref().map(|knee| point("knee", &knee.point)));
    parts.extend(block.latency.as_ref().map(|one| point("at QD1", one)));
    let rated = block.target.as_ref().and_then(|target| Some((target, target.best.as_ref()?)));
    parts.extend(rated.map(|(target, best)| {
        let name = format!("{kind} within {}", target.target);
        MeasuredPart::new(&name, [("iops", Some(best.iops))])
    }));
    parts
}

fn variant(name: &str, of: &Condition, found: &MeasuredCondition) -> MeasuredPart {
    let ms = |ns: f64| Some(ns / 1e6).filter(|ms| *ms > 0.0);
    let time = ms(found.elapsed_mean_ns).filter(|_| matches!(of.load, Load::Command(_)));
    let figures = [
        ("runtime_ms", time),
        ("iops", Some(found.iops)),
        ("bandwidth_bytes_per_s", Some(found.bytes_per_second)),
        ("mean_ms", ms(found.clat_mean_ns)),
        ("p50_ms", ms(found.clat_p50_ns as f64)),
        ("p99_ms", ms(found.clat_p99_ns as f64)),
        ("cpu_ms_per_io", found.cpu_ns_per_io.map(|ns| ns.iter().sum::<f64>() / 1e6)),
    ];
    let part = MeasuredPart::new(name, figures);
    let detail = found.detail.as_ref().filter(|detail| detail.samples >= SAMPLES_MIN);
    let cpu_ns = found.cpu_ns_per_io.map(|ns| ns.iter().sum::<f64>());
    let Some((detail, cpu_ns)) = detail.zip(cpu_ns) else { return part };
    let share = |layer: Layer| detail.layers.iter().find(|row| row.layer == layer.name());
    part.with_layers(cpu_ns, |layer| share(layer).map_or(0.0, |row| row.share))
}

/// The parts with names of their own: `a`, `a (2)`.
pub(super) fn unique(mut parts: Vec<MeasuredPart>) -> Vec<MeasuredPart> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for part in &mut parts {
        let count = seen.entry(part.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            part.name = format!("{} ({count})", part.name);
        }
    }
    parts
}
