//! fio's JSON: what `--output-format=json` and `json+` print.
//!
//! Names, nesting, units and order are those of fio, so that programs written for fio read it
//! unchanged. Figures without a place in fio's format are under one additional key at the
//! root, `fathom`. `docs/record.md` lists differences in meaning.

mod direction;
mod extra;

use crate::calendar::formatted;
use crate::fio::{self, Buckets, Entry};
use direction::{FioDirection, Flushes};
use extra::Extra;
use fathom_analysis::derive;
use fathom_model::Dir;
use fathom_model::plan::{BlockSizes, JobPlan, Mix, Order};
use fathom_model::record::{DiskRecord, RunRecord};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Renders `record` as fio's JSON; with `plus` as its `json+`, which adds the latency bins.
///
/// Always complete, valid JSON: a job that never started has zeros.
pub fn render(record: &RunRecord, plus: bool) -> String {
    let root = root(record, plus);
    // Writing plain structs into memory cannot fail; all of their keys are strings.
    let mut text = serde_json::to_string_pretty(&root).unwrap_or_default();
    text.push('\n');
    text
}

/// The same without histogram buckets, for fio's other formats.
pub(crate) fn value(record: &RunRecord) -> serde_json::Value {
    serde_json::to_value(root(record, false)).unwrap_or_default()
}

#[derive(Serialize)]
struct Root<'a> {
    #[serde(rename = "fio version")]
    fio_version: String,
    timestamp: u64,
    timestamp_ms: u64,
    time: String,
    #[serde(rename = "global options")]
    global_options: &'a BTreeMap<String, String>,
    jobs: Vec<FioJob<'a>>,
    disk_util: Vec<FioDisk<'a>>,
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
    latency_percentile: f64,
    latency_window: u64,
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

fn root(record: &RunRecord, plus: bool) -> Root<'_> {
    let ended_ns = record.header.started_unix_ns.saturating_add(record.header.elapsed_ns);
    let entries = fio::entries(record);
    Root {
        fio_version: fio::version(record),
        timestamp: ended_ns / 1_000_000_000,
        timestamp_ms: ended_ns / 1_000_000,
        time: calendar(ended_ns / 1_000_000_000),
        global_options: &record.plan.global_options,
        fathom: extra::extra(record, &entries, plus),
        jobs: entries.into_iter().map(|entry| job(record, entry, plus)).collect(),
        disk_util: record.disks.iter().map(disk).collect(),
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
        latency_depth: plan.depth,
        latency_target: 0,
        latency_percentile: 100.0,
        latency_window: 0,
        desc: plan.description.as_deref(),
    }
}

/// The job's options as given, and those required by readers of the format.
fn options(record: &RunRecord, plan: &JobPlan, index: usize) -> BTreeMap<String, String> {
    let mut options = plan.options.clone();
    let mut ensure = |key: &str, value: String| {
        options.entry(key.to_string()).or_insert(value);
    };
    ensure("rw", direction_name(plan).to_string());
    ensure("bs", block_sizes(plan));
    ensure("iodepth", plan.depth.to_string());
    ensure("numjobs", derive::clones(&record.plan.jobs, index).to_string());
    options
}

fn direction_name(plan: &JobPlan) -> &'static str {
    let random = matches!(plan.access.order, Order::Random { .. });
    match (plan.access.mix, random) {
        (Mix::Only(Dir::Read), true) => "randread",
        (Mix::Only(Dir::Write), true) => "randwrite",
        (Mix::Only(Dir::Trim), true) => "randtrim",
        (Mix::Only(dir), false) => dir.name(),
        (Mix::ReadWrite { .. }, true) => "randrw",
        (Mix::ReadWrite { .. }, false) => "rw",
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

/// A JSON object whose keys keep their order.
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
}
