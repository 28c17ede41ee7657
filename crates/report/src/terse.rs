//! fio's terse output: one line of values separated by semicolons for each job.
//!
//! Columns are those of fio's `--minimal`, `--output-format=terse`; the versions differ in what
//! they omit.

use crate::fio::{self, DirFigures, Entry};
use fathom_analysis::derive::Spread;
use fathom_model::escape;
use fathom_model::histogram::Histogram;
use fathom_model::plan::JobPlan;
use fathom_model::record::RunRecord;

const PERCENTILE_COLUMNS: usize = 20;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TerseVersion {
    /// No program version, no disks; the description on a line of its own.
    V2 = 2,
    /// fio's default: no trims.
    #[default]
    V3 = 3,
    V4 = 4,
    V5 = 5,
}

impl TerseVersion {
    pub fn from_number(number: u32) -> Option<Self> {
        [Self::V2, Self::V3, Self::V4, Self::V5]
            .into_iter()
            .find(|version| *version as u32 == number)
    }
}

pub fn render(record: &RunRecord, version: TerseVersion) -> String {
    fio::entries(record).iter().map(|entry| line(record, entry, version)).collect()
}

fn line(record: &RunRecord, entry: &Entry, version: TerseVersion) -> String {
    let plan = entry.group.plan;
    let mut columns = vec![(version as u32).to_string()];
    if version != TerseVersion::V2 {
        columns.push(fio::version(record));
    }
    columns.extend([text(&plan.name), plan.group.to_string(), entry.error().to_string()]);
    for (name, dir) in &entry.dirs {
        if *name != "trim" || version != TerseVersion::V3 {
            direction(&mut columns, dir, plan, version);
        }
    }
    if let Some(both) = &entry.both {
        direction(&mut columns, both, plan, version);
    }
    usage(&mut columns, entry);
    distributions(&mut columns, entry);
    if version != TerseVersion::V2 {
        disks(&mut columns, record);
    }
    if let Some((errors, first)) = entry.counted_errors() {
        columns.extend([errors.to_string(), first.to_string()]);
    }
    let mut line = columns.join(";");
    if let Some(description) = &plan.description {
        line.push_str(if version == TerseVersion::V2 { "\n;" } else { ";" });
        line.push_str(&text(description));
    }
    line.push('\n');
    line
}

/// A name as a column can hold it: a semicolon or line break in it would shift all that follows.
fn text(name: &str) -> String {
    escape::text(&name.replace([';', '\n', '\r'], "_")).into_owned()
}

fn direction(columns: &mut Vec<String>, dir: &DirFigures, plan: &JobPlan, version: TerseVersion) {
    columns.extend([
        (dir.dir.counts.bytes >> 10).to_string(),
        (dir.bytes_per_second() as u64 / 1024).to_string(),
        (dir.ios_per_second() as u64).to_string(),
        (dir.runtime_ns / 1_000_000).to_string(),
    ]);
    latency(columns, &dir.slat());
    latency(columns, &dir.clat());
    percentiles(columns, dir, plan);
    latency(columns, &dir.lat());
    spread(columns, &dir.bw, Some(dir.bw_agg));
    if version == TerseVersion::V5 {
        columns.push(dir.bw.samples.to_string());
        spread(columns, &dir.iops, None);
        columns.push(dir.iops.samples.to_string());
    }
}

fn latency(columns: &mut Vec<String>, histogram: &Histogram) {
    columns.extend([
        (histogram.min_ns() / 1000).to_string(),
        (histogram.max_ns() / 1000).to_string(),
        format!("{:.6}", histogram.mean_ns() / 1000.0),
        format!("{:.6}", histogram.stddev_ns() / 1000.0),
    ]);
}

/// Percentiles in microseconds: of total latency with `lat_percentiles`, else of completion latency.
fn percentiles(columns: &mut Vec<String>, dir: &DirFigures, plan: &JobPlan) {
    let show = &plan.show;
    let histogram = if show.lat_percentiles { dir.lat() } else { dir.clat() };
    let listed = if show.lat_percentiles || show.clat_percentiles {
        show.percentiles.as_slice()
    } else {
        &[]
    };
    for column in 0..PERCENTILE_COLUMNS {
        columns.push(match listed.get(column) {
            Some(p) => format!("{p:.6}%={}", histogram.percentile(*p).unwrap_or(0) / 1000),
            None => "0%=0".to_string(),
        });
    }
}

fn spread(columns: &mut Vec<String>, spread: &Spread, share: Option<f64>) {
    columns.extend([(spread.min as u64).to_string(), (spread.max as u64).to_string()]);
    columns.extend(share.map(|share| format!("{share:.6}%")));
    columns.extend([format!("{:.6}", spread.mean), format!("{:.6}", spread.stddev)]);
}

fn usage(columns: &mut Vec<String>, entry: &Entry) {
    let (user, system) = entry.cpu_percent();
    let usage = &entry.group.record.usage;
    columns.extend([
        format!("{user:.6}%"),
        format!("{system:.6}%"),
        entry.switches().to_string(),
        usage.major_faults.to_string(),
        usage.minor_faults.to_string(),
    ]);
}

fn distributions(columns: &mut Vec<String>, entry: &Entry) {
    let clat = entry.clat_all();
    let depths = fio::in_flight(&entry.group.record.depth.level);
    columns.extend(depths.iter().map(|(_, share)| format!("{share:.1}%")));
    let nanoseconds: f64 = fio::latency(&clat, fio::LatencyUnit::Ns).iter().map(|b| b.1).sum();
    let mut microseconds = fio::latency(&clat, fio::LatencyUnit::Us);
    // There are no columns for less than a microsecond: it counts as the minimum.
    microseconds[0].1 += nanoseconds;
    let milliseconds = fio::latency(&clat, fio::LatencyUnit::Ms);
    let latencies = microseconds.iter().chain(&milliseconds);
    columns.extend(latencies.map(|(_, share)| format!("{share:.2}%")));
}

fn disks(columns: &mut Vec<String>, record: &RunRecord) {
    for disk in &record.disks {
        columns.push(text(&disk.name));
        let counts = [disk.ios, disk.merges, disk.ticks_ms];
        columns.extend(counts.iter().flat_map(|c| [c.read.to_string(), c.write.to_string()]));
        columns.push(disk.weighted_ms.to_string());
        columns.push(format!("{:.2}%", fio::utilisation(disk)));
    }
}
