//! fio's JSON: what `--output-format=json` and `json+` print.
//!
//! Names, nesting, units and order are those of fio, so that programs written for fio read it
//! unchanged. Figures without a place in fio's format are under one additional key at the
//! root, `fathom`. `docs/record.md` lists differences in meaning.

use crate::calendar::formatted;
use crate::fio::{self, Buckets, DirFigures, Entry, priority_parts};
use fathom_analysis::ceilings::{Ceiling, of_run};
use fathom_analysis::derive;
use fathom_analysis::watch::Observed;
use fathom_model::finding::Finding;
use fathom_model::histogram::Histogram;
use fathom_model::plan::{
    BlockSizes, Idleness, JobPlan, Mix, Order, SteadyFigure, UntilSteady, Zoning,
};
use fathom_model::record::{
    Cost, DirRecord, DiskRecord, FlushRecord, InEffect, JobRecord, PriorityRecord, RunRecord,
    SteadyRecord, Usage, VerifyRecord, WrongBlock,
};
use fathom_model::watch::Unavailable;
use fathom_model::{Dir, Outcome};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Renders `record`, with the samples of the machine, as fio's JSON; with `plus` as its `json+`, which adds the latency
/// bins.
///
/// Always complete, valid JSON: a job that never started has zeros.
pub fn render(record: &RunRecord, observed: Option<&Observed>, plus: bool) -> String {
    let root = root(record, observed, plus);
    // Writing plain structs into memory cannot fail; all of their keys are strings.
    let mut text = serde_json::to_string_pretty(&root).unwrap_or_default();
    text.push('\n');
    text
}

/// The same without histogram buckets, as data.
pub fn value(record: &RunRecord) -> serde_json::Value {
    serde_json::to_value(root(record, None, false)).unwrap_or_default()
}

/// The same with these percentiles of all latencies besides those that the jobs list.
pub fn with_percentiles(
    record: &RunRecord,
    observed: Option<&Observed>,
    percentiles: &[f64],
) -> serde_json::Value {
    let mut record = record.clone();
    for show in record.plan.jobs.iter_mut().map(|job| &mut job.show) {
        show.percentiles.extend(percentiles);
        (show.slat_percentiles, show.clat_percentiles, show.lat_percentiles) = (true, true, true);
    }
    serde_json::to_value(root(&record, observed, false)).unwrap_or_default()
}

/// All keys that a job of any kind has: what the JSON of a run that is still to come will hold, but for what few jobs have
/// (`fathom`, `mixed`, `prios`, `steadystate`, `cpu_idleness`).
pub fn template(percentiles: &[f64]) -> serde_json::Value {
    let mut job = JobRecord { runtime_ns: 1, ..JobRecord::default() };
    let mut one = Histogram::default();
    one.record(1);
    for dir in Dir::ALL {
        let dir = &mut job.dirs[dir];
        dir.counts.ios = 1;
        (dir.slat, dir.clat, dir.lat) = (one.clone(), one.clone(), one.clone());
    }
    (job.flushes.count, job.flushes.lat) = (1, one);
    let mut plan = JobPlan::default();
    plan.on_error.keep_going.read = true;
    let mut record = RunRecord { jobs: vec![job], ..RunRecord::default() };
    record.plan.jobs.push(plan);
    record.disks.push(DiskRecord::default());
    with_percentiles(&record, None, percentiles)
}

#[derive(Serialize)]
struct Root<'a> {
    #[serde(rename = "fio version")]
    fio_version: String,
    timestamp: u64,
    timestamp_ms: u64,
    time: String,
    #[serde(rename = "global options", skip_serializing_if = "BTreeMap::is_empty")]
    global_options: &'a BTreeMap<String, String>,
    jobs: Vec<FioJob<'a>>,
    disk_util: Vec<FioDisk<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_idleness: Option<Ordered<f64>>,
    fathom: Extra<'a>,
}

#[derive(Serialize)]
struct FioJob<'a> {
    jobname: &'a str,
    groupid: u32,
    job_start: u64,
    error: i32,
    eta: u64,
    elapsed: u64,
    #[serde(rename = "job options")]
    job_options: BTreeMap<String, String>,
    #[serde(flatten)]
    dirs: Ordered<FioDirection>,
    sync: Flushes,
    #[serde(skip_serializing_if = "Option::is_none")]
    mixed: Option<FioDirection>,
    job_runtime: u64,
    usr_cpu: f64,
    sys_cpu: f64,
    ctx: u64,
    majf: u64,
    minf: u64,
    iodepth_level: Ordered<f64>,
    iodepth_submit: Ordered<f64>,
    iodepth_complete: Ordered<f64>,
    latency_ns: Ordered<f64>,
    latency_us: Ordered<f64>,
    latency_ms: Ordered<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_err: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_error: Option<i32>,
    latency_depth: u32,
    latency_target: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_target_ns: Option<u64>,
    latency_percentile: f64,
    latency_window: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_window_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steadystate: Option<Steady>,
    #[serde(skip_serializing_if = "Option::is_none")]
    desc: Option<&'a str>,
}

#[derive(Serialize)]
struct FioDisk<'a> {
    name: &'a str,
    read_ios: u64,
    write_ios: u64,
    read_sectors: u64,
    write_sectors: u64,
    read_merges: u64,
    write_merges: u64,
    read_ticks: u64,
    write_ticks: u64,
    in_queue: u64,
    util: f64,
}

fn root<'a>(record: &'a RunRecord, observed: Option<&Observed>, plus: bool) -> Root<'a> {
    let ended_ns = record.header.started_unix_ns.saturating_add(record.header.elapsed_ns);
    let entries = fio::entries(record);
    Root {
        fio_version: fio::version(record),
        timestamp: ended_ns / 1_000_000_000,
        timestamp_ms: ended_ns / 1_000_000,
        time: calendar(ended_ns / 1_000_000_000),
        global_options: &record.plan.global_options,
        fathom: extra(record, observed, &entries, plus),
        jobs: entries.into_iter().map(|entry| job(record, entry, plus)).collect(),
        disk_util: record.disks.iter().map(disk).collect(),
        cpu_idleness: idleness(record, observed),
    }
}

fn job<'a>(record: &'a RunRecord, entry: Entry<'a>, plus: bool) -> FioJob<'a> {
    let plan = entry.group.plan;
    let done = &entry.group.record;
    let (usr_cpu, sys_cpu) = entry.cpu_percent();
    let clat = entry.clat_all();
    let errors = entry.counted_errors();
    let dirs =
        entry.dirs.iter().map(|(name, dir)| ((*name).into(), FioDirection::of(dir, plan, plus)));
    FioJob {
        jobname: &plan.name,
        groupid: plan.group,
        job_start: done.started_unix_ns / 1_000_000,
        error: entry.error(),
        eta: 0,
        elapsed: record.header.elapsed_ns.div_ceil(1_000_000_000),
        job_options: options(record, plan, entry.first),
        dirs: Ordered(dirs.collect()),
        sync: Flushes::of(&done.flushes, plan, plus),
        mixed: entry.both.as_ref().map(|dir| FioDirection::of(dir, plan, plus)),
        job_runtime: entry.group.worker_ns / 1_000_000,
        usr_cpu: rounded(usr_cpu),
        sys_cpu: rounded(sys_cpu),
        ctx: entry.switches(),
        majf: done.usage.major_faults,
        minf: done.usage.minor_faults,
        iodepth_level: shares(fio::in_flight(&done.depth.level)),
        iodepth_submit: shares(fio::batch(&done.depth.submit)),
        iodepth_complete: shares(fio::batch(&done.depth.complete)),
        latency_ns: shares(fio::latency(&clat, fio::LatencyUnit::Ns)),
        latency_us: shares(fio::latency(&clat, fio::LatencyUnit::Us)),
        latency_ms: shares(fio::latency(&clat, fio::LatencyUnit::Ms)),
        total_err: errors.map(|e| e.0),
        first_error: errors.map(|e| e.1),
        latency_depth: done.target.map_or(plan.depth, |found| found.depth),
        latency_target: plan.latency_target.map_or(0, |target| target.target_ns),
        latency_target_ns: plan.latency_target.map(|target| target.target_ns),
        latency_percentile: plan.latency_target.map_or(100.0, |target| target.percentile),
        latency_window: plan.latency_target.map_or(0, |target| target.window_ns / 1000),
        latency_window_us: plan.latency_target.map(|target| target.window_ns / 1000),
        steadystate: plan.until_steady.map(|until| Steady::of(&until, done.steady.as_ref())),
        desc: plan.description.as_deref(),
    }
}

/// `--idle-prof`, without fio's calibration: the kernel counts idle time itself.
fn idleness(record: &RunRecord, observed: Option<&Observed>) -> Option<Ordered<f64>> {
    let wanted = record.plan.idleness?;
    let idle = Some(fio::idle_percent(record, observed)).filter(|idle| !idle.is_empty())?;
    let mean = idle.values().sum::<f64>() / idle.len().max(1) as f64;
    let each = idle.iter().filter(|_| wanted == Idleness::PerCpu);
    let each = each.map(|(cpu, percent)| (format!("cpu-{cpu}"), rounded(*percent)));
    let system = std::iter::once(("system".into(), rounded(mean)));
    let unit = [("unit_mean".into(), 0.0), ("unit_stddev".into(), 0.0)];
    Some(Ordered(system.chain(each).chain(unit).collect()))
}

fn options(record: &RunRecord, plan: &JobPlan, index: usize) -> BTreeMap<String, String> {
    let mut options = plan.options.clone();
    let globals = &record.plan.global_options;
    let mut ensure = |key: &str, value: String| {
        if !globals.contains_key(key) {
            options.entry(key.to_string()).or_insert(value);
        }
    };
    ensure("rw", direction_name(plan).to_string());
    ensure("bs", block_sizes(plan));
    ensure("iodepth", plan.depth.to_string());
    ensure("numjobs", derive::clones(&record.plan.jobs, index).to_string());
    options
}

pub(crate) fn direction_name(plan: &JobPlan) -> &'static str {
    let random = matches!(plan.access.order, Order::Random { .. });
    match (plan.access.mix, random) {
        (Mix::Only(Dir::Read), true) => "randread",
        (Mix::Only(Dir::Write), true) => "randwrite",
        (Mix::Only(Dir::Trim), true) => "randtrim",
        (Mix::Only(dir), false) => dir.name(),
        (Mix::ReadWrite { .. }, true) => "randrw",
        (Mix::ReadWrite { .. }, false) => "rw",
        (Mix::Traced(used), _) => match (used.read, used.write, used.trim) {
            (false, false, true) => "trim",
            (true, false, _) => "read",
            (false, true, _) => "write",
            _ => "rw",
        },
        (Mix::TrimThenWrite, true) => "randtrimwrite",
        (Mix::TrimThenWrite, false) => "trimwrite",
    }
}

/// The value of fio's `bs` for the job: its block size, or the maximum of a range.
fn block_sizes(plan: &JobPlan) -> String {
    let sizes: Vec<String> = plan
        .used_dirs()
        .map(|dir| match &plan.access.block_sizes[dir] {
            BlockSizes::Fixed(size) => short_size(*size),
            other => format!("{}-{}", short_size(other.min()), short_size(other.max())),
        })
        .collect();
    match sizes.as_slice() {
        [first, rest @ ..] if rest.iter().all(|size| size == first) => first.clone(),
        all => all.join(","),
    }
}

/// A size as in job files: `4k`, `1m`, `512`.
fn short_size(bytes: u64) -> String {
    let units = [(1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

fn disk(disk: &DiskRecord) -> FioDisk<'_> {
    FioDisk {
        name: &disk.name,
        read_ios: disk.ios.read,
        write_ios: disk.ios.write,
        read_sectors: disk.sectors.read,
        write_sectors: disk.sectors.write,
        read_merges: disk.merges.read,
        write_merges: disk.merges.write,
        read_ticks: disk.ticks_ms.read,
        write_ticks: disk.ticks_ms.write,
        in_queue: disk.weighted_ms,
        util: rounded(fio::utilisation(disk)),
    }
}

struct Ordered<T>(Vec<(String, T)>);

impl<T: Serialize> Serialize for Ordered<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

fn shares(buckets: Buckets) -> Ordered<f64> {
    Ordered(buckets.into_iter().map(|(name, share)| (name.to_string(), rounded(share))).collect())
}

/// A figure with fio's six decimals; 0 for NaN and infinity, which JSON cannot represent.
fn rounded(value: f64) -> f64 {
    if value.is_finite() { (value * 1e6).round() / 1e6 } else { 0.0 }
}

/// Seconds since 1970 as `Sat Nov 21 19:53:12 2026`, in UTC.
fn calendar(seconds: u64) -> String {
    formatted(seconds * 1_000_000_000, "%a %b %e %H:%M:%S %Y")
}

/// The last bin that fio has, in nanoseconds. `fio_jsonplus_clat2csv` never ends on a greater one.
const BIN_MAX_NS: u64 = 17_112_760_320;

#[derive(Serialize)]
struct FioDirection {
    io_bytes: u64,
    io_kbytes: u64,
    bw_bytes: u64,
    bw: u64,
    iops: f64,
    runtime: u64,
    total_ios: u64,
    short_ios: u64,
    drop_ios: u64,
    slat_ns: Latency,
    clat_ns: Latency,
    lat_ns: Latency,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    prios: Vec<Priority>,
    bw_min: u64,
    bw_max: u64,
    bw_agg: f64,
    bw_mean: f64,
    bw_dev: f64,
    bw_samples: u64,
    iops_min: u64,
    iops_max: u64,
    iops_mean: f64,
    iops_stddev: f64,
    iops_samples: u64,
}

impl FioDirection {
    fn of(stats: &DirFigures, plan: &JobPlan, plus: bool) -> Self {
        let counts = &stats.dir.counts;
        let show = &plan.show;
        let latency = |histogram: &Histogram, percentiles: bool| {
            Latency::of(histogram, percentiles.then_some(&show.percentiles), plus)
        };
        Self {
            io_bytes: counts.bytes,
            io_kbytes: counts.bytes >> 10,
            bw_bytes: stats.bytes_per_second() as u64,
            bw: stats.bytes_per_second() as u64 / 1024,
            iops: rounded(stats.ios_per_second()),
            runtime: stats.runtime_ns / 1_000_000,
            // As in fio, with those that failed.
            total_ios: counts.ios + counts.errors,
            short_ios: counts.short_ios,
            drop_ios: 0,
            slat_ns: latency(&stats.slat(), show.slat_percentiles),
            clat_ns: latency(&stats.clat(), show.clat_percentiles),
            lat_ns: latency(&stats.lat(), show.lat_percentiles),
            prios: priorities(stats, plan, plus),
            bw_min: stats.bw.min as u64,
            bw_max: stats.bw.max as u64,
            bw_agg: rounded(stats.bw_agg),
            bw_mean: rounded(stats.bw.mean),
            bw_dev: rounded(stats.bw.stddev),
            bw_samples: stats.bw.samples,
            iops_min: stats.iops.min as u64,
            iops_max: stats.iops.max as u64,
            iops_mean: rounded(stats.iops.mean),
            iops_stddev: rounded(stats.iops.stddev),
            iops_samples: stats.iops.samples,
        }
    }
}

#[derive(Serialize)]
struct Priority {
    prioclass: u16,
    prio: u16,
    priohint: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    clat_ns: Option<Latency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lat_ns: Option<Latency>,
}

/// As in fio, none unless there are several; total latencies with `lat_percentiles`, else completion latencies.
fn priorities(stats: &DirFigures, plan: &JobPlan, plus: bool) -> Vec<Priority> {
    let (show, all) = (&plan.show, &stats.dir.priorities);
    let total = show.lat_percentiles;
    let is_shown = all.len() > 1 && if total { show.lat } else { show.clat };
    let list = (total || show.clat_percentiles).then_some(&show.percentiles);
    let of = |one: &PriorityRecord| {
        let [prioclass, prio, priohint] = priority_parts(one.priority);
        Priority {
            prioclass,
            prio,
            priohint,
            clat_ns: (!total).then(|| Latency::of(&one.clat, list, plus)),
            lat_ns: total.then(|| Latency::of(&one.lat, list, plus)),
        }
    };
    all.iter().filter(|_| is_shown).map(of).collect()
}

#[derive(Serialize)]
struct Flushes {
    total_ios: u64,
    lat_ns: Latency,
}

impl Flushes {
    fn of(flushes: &FlushRecord, plan: &JobPlan, plus: bool) -> Self {
        let percentiles = plan.show.lat_percentiles || plan.show.clat_percentiles;
        let list = percentiles.then_some(&plan.show.percentiles);
        Self { total_ios: flushes.count, lat_ns: Latency::of(&flushes.lat, list, plus) }
    }
}

#[derive(Serialize)]
struct Latency {
    min: u64,
    max: u64,
    mean: f64,
    stddev: f64,
    #[serde(rename = "N")]
    n: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    percentile: Option<Ordered<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bins: Option<Ordered<u64>>,
}

impl Latency {
    /// `percentiles` are those to list, where they are wanted; bins come only with them.
    fn of(histogram: &Histogram, percentiles: Option<&Vec<f64>>, plus: bool) -> Self {
        let listed = percentiles.filter(|_| !histogram.is_empty());
        Self {
            min: histogram.min_ns(),
            max: histogram.max_ns(),
            mean: rounded(histogram.mean_ns()),
            stddev: rounded(histogram.stddev_ns()),
            n: histogram.count(),
            percentile: listed.map(|list| {
                let value = |p: &f64| histogram.percentile(*p).unwrap_or(0);
                Ordered(list.iter().map(|p| (format!("{p:.6}"), value(p))).collect())
            }),
            bins: listed.filter(|_| plus).map(|_| bins(histogram)),
        }
    }
}

fn bins(histogram: &Histogram) -> Ordered<u64> {
    let mut bins = BTreeMap::new();
    for (ns, n) in histogram.buckets() {
        *bins.entry(ns.min(BIN_MAX_NS)).or_insert(0) += n;
    }
    Ordered(bins.into_iter().map(|(ns, n)| (ns.to_string(), n)).collect())
}

#[derive(Serialize)]
struct Extra<'a> {
    version: &'a str,
    record_version: u32,
    command: &'a [String],
    complete: bool,
    outcome: &'a Outcome,
    findings: &'a [Finding],
    notes: &'a [String],
    ceilings: Vec<Ceiling>,
    jobs: Vec<ExtraJob<'a>>,
}

/// One for each entry of `jobs`, in the same order.
#[derive(Serialize)]
struct ExtraJob<'a> {
    jobname: &'a str,
    workers: usize,
    /// With `zonemode=zbd`, if the job may reset zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone_resets: Option<u64>,
    error: Option<String>,
    target_changes: Vec<String>,
    dirs: Ordered<ExtraDirection>,
    depth_mean: Option<f64>,
    depth_max: u32,
    system_calls: u64,
    cpu_ns_per_io: Option<f64>,
    one_core_iops: Option<f64>,
    usage: Usage,
    cost: Option<Cost>,
    cost_missing: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cost_lacks: Vec<Unavailable>,
    granted: InEffect,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<Verified>,
}

#[derive(Serialize)]
struct ExtraDirection {
    errors: u64,
    errnos: Vec<(i32, u64)>,
    late_ios: u64,
    unstarted_ios: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_ns: Option<Latency>,
}

fn extra<'a>(
    record: &'a RunRecord,
    observed: Option<&Observed>,
    entries: &[Entry<'a>],
    plus: bool,
) -> Extra<'a> {
    Extra {
        version: &record.header.fathom_version,
        record_version: record.header.record_version,
        command: &record.header.command,
        complete: record.is_complete(),
        outcome: &record.header.outcome,
        findings: &record.header.findings,
        notes: &record.plan.notes,
        ceilings: of_run(record, observed),
        jobs: entries.iter().map(|entry| extra_job(entry, plus)).collect(),
    }
}

fn extra_job<'a>(entry: &Entry<'a>, plus: bool) -> ExtraJob<'a> {
    let done = &entry.group.record;
    let both = entry.both.as_ref().map(|dir| ("mixed", dir));
    let dirs = entry.dirs.iter().map(|(name, dir)| (*name, dir)).chain(both);
    let percentiles = &entry.group.plan.show.percentiles;
    ExtraJob {
        jobname: &entry.group.plan.name,
        workers: entry.group.jobs.len(),
        zone_resets: matches!(entry.group.plan.access.zoning, Some(Zoning::WritePointers(_)))
            .then_some(done.zone_resets)
            .filter(|_| [Dir::Write, Dir::Trim].iter().any(|dir| entry.group.plan.modifies(*dir))),
        error: done.error.as_ref().map(|error| error.message.clone()),
        target_changes: done.target_changes.clone(),
        dirs: Ordered(
            dirs.map(|(name, dir)| (name.into(), direction(&dir.dir, percentiles, plus))).collect(),
        ),
        depth_mean: derive::in_flight(done, entry.group.worker_ns).map(rounded),
        depth_max: done.depth.in_flight_max,
        system_calls: done.depth.system_calls,
        cpu_ns_per_io: derive::cpu_per_io_ns(done).map(rounded),
        one_core_iops: derive::one_core_iops(done).map(rounded),
        usage: done.usage,
        cost: done.cost,
        cost_missing: done.cost_missing.clone(),
        cost_lacks: done.cost_lacks.clone(),
        granted: done.granted.clone(),
        verified: done.verify.as_ref().map(Verified::of),
    }
}

fn direction(dir: &DirRecord, percentiles: &Vec<f64>, plus: bool) -> ExtraDirection {
    ExtraDirection {
        errors: dir.counts.errors,
        errnos: dir.errnos.clone(),
        late_ios: dir.late_ios,
        unstarted_ios: dir.unstarted_ios,
        response_ns: (!dir.response.is_empty())
            .then(|| Latency::of(&dir.response, Some(percentiles), plus)),
    }
}

#[derive(Serialize)]
struct Steady {
    ss: String,
    duration: u64,
    attained: u32,
    criterion: String,
    max_deviation: f64,
    slope: f64,
    data: SteadyData,
}

#[derive(Serialize)]
struct SteadyData {
    bw_mean: u64,
    iops_mean: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lat_mean: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lat_ns: Option<Vec<u64>>,
    iops: Vec<u64>,
    bw: Vec<u64>,
}

impl Steady {
    pub fn of(until: &UntilSteady, found: Option<&SteadyRecord>) -> Self {
        let none = SteadyRecord::default();
        let found = found.unwrap_or(&none);
        let percent = if until.percent { "%" } else { "" };
        // As in fio, what is missing is 0.
        let all = |figures: &[u64]| {
            let missing = until.count().saturating_sub(figures.len());
            [figures, &vec![0; missing]].concat()
        };
        let mean = |figures: &[u64]| figures.iter().sum::<u64>() / until.count() as u64;
        let with_lat = until.figure == SteadyFigure::Latency;
        Self {
            ss: format!("{}:{:.6}{percent}", until.name(), until.limit),
            duration: until.duration_ns / 1_000_000_000,
            attained: u32::from(found.attained),
            criterion: format!("{:.6}{percent}", found.criterion),
            max_deviation: rounded(found.deviation),
            slope: rounded(found.slope),
            data: SteadyData {
                bw_mean: mean(&found.bytes_per_second),
                iops_mean: mean(&found.iops),
                lat_mean: with_lat.then(|| mean(&found.lat_ns)),
                lat_ns: with_lat.then(|| all(&found.lat_ns)),
                iops: all(&found.iops),
                bw: all(&found.bytes_per_second),
            },
        }
    }
}

/// The reads themselves are among those of the job.
#[derive(Serialize)]
struct Verified {
    blocks: u64,
    bytes: u64,
    unread_bytes: u64,
    wrong: u64,
    first: Vec<WrongBlock>,
    runtime_ns: u64,
}

impl Verified {
    pub fn of(found: &VerifyRecord) -> Self {
        let VerifyRecord { blocks, bytes, unread_bytes, wrong, runtime_ns, .. } = *found;
        Self { blocks, bytes, unread_bytes, wrong, first: found.first.clone(), runtime_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::PerDir;
    use fathom_model::plan::{Distribution, Engine};

    #[test]
    fn dates() {
        assert_eq!(calendar(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(calendar(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(calendar(1_795_290_792), "Sat Nov 21 19:53:12 2026");
    }

    #[test]
    fn options_that_were_left_out_are_told() {
        let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
        let mut plan = JobPlan::new("a", Engine::Null, Mix::ReadWrite { read_percent: 50 }, order);
        plan.access.block_sizes = PerDir::splat(BlockSizes::Fixed(1 << 20));
        plan.options.insert("iodepth".into(), "16".into());
        let mut record = RunRecord::default();
        record.plan.jobs = vec![plan.clone(), JobPlan { clone: 1, ..plan.clone() }];
        let options = options(&record, &plan, 0);
        let given: Vec<_> = options.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(given, ["bs=1m", "iodepth=16", "numjobs=2", "rw=randrw"]);
        plan.access.block_sizes.write = BlockSizes::Range { min: 512, max: 4096 };
        assert_eq!(block_sizes(&plan), "1m,512-4k");
    }

    #[test]
    fn what_is_not_a_number_is_zero() {
        assert_eq!(
            (rounded(f64::NAN), rounded(f64::INFINITY), rounded(1.0 / 3.0)),
            (0.0, 0.0, 0.333_333)
        );
    }

    #[test]
    fn nothing_measured_lists_no_percentiles() {
        let latency = Latency::of(&Histogram::default(), Some(&vec![50.0]), true);
        assert!(latency.percentile.is_none() && latency.bins.is_none());
    }

    #[test]
    fn bins_end_where_those_of_fio_do() {
        let mut h = Histogram::default();
        h.record_n(100, 2);
        h.record(20_000_000_000);
        h.record(3_600_000_000_000);
        let Ordered(bins) = bins(&h);
        assert_eq!(bins, [("100".to_string(), 2), ("17112760320".to_string(), 2)]);
        assert_eq!(Latency::of(&h, None, true).max, 3_600_000_000_000);
    }
}
