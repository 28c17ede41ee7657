//! Rates and latencies of a group and of its jobs.

use super::Style;
use super::table::{Style as _, table};
use fathom_analysis::derive::{self, Group};
use fathom_model::histogram::Histogram;
use fathom_model::plan::{JobPlan, Show, Unified};
use fathom_model::record::{DirRecord, JobRecord, RunRecord};
use fathom_model::{Dir, escape, units};

/// Jobs whose IOPS are this far from their mean differ.
const DIFFERENCE: f64 = 0.1;

/// The table of a group: a line for each direction and for each kind of latency that counts.
pub(super) fn figures(out: &mut String, group: &Group, style: Style) {
    let done = &group.record;
    let mut rows = vec![head(done)];
    let show = &group.plan.show;
    if show.unified != Unified::Mixed {
        for dir in derive::shown_dirs(group.plan, done) {
            direction(&mut rows, dir.name(), &done.dirs[dir], done.runtime_ns, show);
        }
    }
    let used = derive::shown_dirs(group.plan, done).count();
    if show.unified == Unified::Mixed || (show.unified == Unified::Both && used > 1) {
        let parts: Vec<_> = done.dirs.iter().map(|(_, dir)| (0, dir)).collect();
        direction(&mut rows, "mixed", &derive::merge_dirs(&parts), done.runtime_ns, show);
    }
    if done.flushes.count > 0 {
        let rate = derive::per_second(done.flushes.count, done.runtime_ns);
        let mut row = vec!["flush".to_string(), units::count(rate), String::new()];
        row.extend(latencies(&done.flushes.lat));
        rows.push(row);
    }
    out.push_str(&table(&rows, style));
    behind(out, group, style);
}

fn head(done: &JobRecord) -> Vec<String> {
    let mut head = row(&["", "IOPS", "bandwidth", "p50", "p99", "p99.9", "max"]);
    if done.dirs.iter().any(|(_, dir)| dir.counts.errors > 0) {
        head.push("errors".to_string());
    }
    if done.dirs.iter().any(|(_, dir)| dir.counts.short_ios > 0) {
        head.push("short".to_string());
    }
    head
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_string()).collect()
}

fn direction(
    rows: &mut Vec<Vec<String>>,
    name: &str,
    dir: &DirRecord,
    runtime_ns: u64,
    show: &Show,
) {
    let counts = &dir.counts;
    let service = if dir.lat.is_empty() { &dir.clat } else { &dir.lat };
    let mut line = vec![
        name.to_string(),
        units::count(derive::per_second(counts.ios, runtime_ns)),
        bandwidth(derive::per_second(counts.bytes, runtime_ns), show),
    ];
    line.extend(latencies(service));
    for (title, n) in [("errors", counts.errors), ("short", counts.short_ios)] {
        if rows[0].iter().any(|cell| cell == title) {
            line.push(units::count(n as f64));
        }
    }
    rows.push(line);
    if !dir.response.is_empty() {
        let mut line = row(&["  response", "", ""]);
        line.extend(latencies(&dir.response));
        rows.push(line);
    }
}

fn latencies(histogram: &Histogram) -> [String; 4] {
    let value = |ns: Option<u64>| match ns {
        Some(ns) => units::time(ns as f64),
        None => "-".to_string(),
    };
    let max = (!histogram.is_empty()).then(|| histogram.max_ns());
    [
        value(histogram.percentile(50.0)),
        value(histogram.percentile(99.0)),
        value(histogram.percentile(99.9)),
        value(max),
    ]
}

/// Bytes per second in the unit that was asked for: `kb_base` and `unit_base`.
pub(super) fn bandwidth(bytes: f64, show: &Show) -> String {
    let bits = show.unit_base == 8;
    let value = if bits { bytes * 8.0 } else { bytes };
    let text = match show.kb_base {
        1000 => {
            let figure = units::count(value);
            let digits = figure.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            format!("{digits} {}B/s", &figure[digits.len()..])
        }
        _ => units::bandwidth(value),
    };
    if bits { text.replace("B/s", "bit/s") } else { text }
}

/// How far a rate was not kept.
fn behind(out: &mut String, group: &Group, style: Style) {
    for (dir, done) in group.record.dirs.iter() {
        let due = done.counts.ios + done.unstarted_ios;
        if done.late_ios + done.unstarted_ios > 0 {
            let text = format!(
                "{dir}: {} of {} I/Os late, {} never started",
                units::count(done.late_ios as f64),
                units::count(due as f64),
                units::count(done.unstarted_ios as f64),
            );
            out.push_str(&format!("  {}\n", style.yellow(&text)));
        }
    }
}

/// Whether the jobs of a group did differently well, so that their sum alone would mislead.
pub(super) fn differ(record: &RunRecord, group: &Group) -> bool {
    let rates: Vec<f64> = members(record, group).map(|(_, done)| rate(done)).collect();
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    rates.len() > 1 && rates.iter().any(|rate| (rate - mean).abs() > mean * DIFFERENCE)
}

fn rate(done: &JobRecord) -> f64 {
    derive::per_second(derive::ios(done), done.runtime_ns)
}

fn members<'a>(
    record: &'a RunRecord,
    group: &'a Group,
) -> impl Iterator<Item = (&'a JobPlan, &'a JobRecord)> {
    let pick = |index: &usize| Some((record.plan.jobs.get(*index)?, record.jobs.get(*index)?));
    group.jobs.iter().filter_map(pick)
}

/// The slowest and the fastest job, where there are too many to show each.
pub(super) fn extremes(out: &mut String, record: &RunRecord, group: &Group) {
    let mut rates: Vec<(f64, String)> = members(record, group)
        .map(|(plan, done)| (rate(done), format!("{}.{}", plan.name, plan.clone)))
        .collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    if let (Some(least), Some(most)) = (rates.first(), rates.last()) {
        let figure = |job: &(f64, String)| {
            format!("{} IOPS ({})", units::count(job.0), escape::text(&job.1))
        };
        out.push_str(&format!("  jobs     from {} to {}\n", figure(least), figure(most)));
    }
}

/// A line for each job of a group.
pub(super) fn each_job(out: &mut String, record: &RunRecord, group: &Group, style: Style) {
    let mut rows = vec![row(&["job", "IOPS", "bandwidth", "p50", "p99", "p99.9", "max"])];
    for (plan, done) in members(record, group) {
        let mut lat = Histogram::default();
        for dir in Dir::ALL {
            lat.merge(&done.dirs[dir].lat);
        }
        let mut line = vec![
            format!("{}.{}", plan.name, plan.clone),
            units::count(rate(done)),
            bandwidth(derive::per_second(derive::bytes(done), done.runtime_ns), &plan.show),
        ];
        line.extend(latencies(&lat));
        if let Some(error) = &done.error {
            line.push(error.message.clone());
        }
        rows.push(line);
    }
    out.push_str(&table(&rows, style));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_in_the_unit_asked_for() {
        let of = |kb_base: u32, unit_base: u32| {
            bandwidth(1_500_000.0, &Show { kb_base, unit_base, ..Show::default() })
        };
        assert_eq!(of(1024, 0), "1.43 MiB/s");
        assert_eq!(of(1000, 1), "1.5 MB/s");
        assert_eq!(of(1000, 8), "12 Mbit/s");
        assert_eq!(of(1024, 8), "11.4 Mibit/s");
    }
}
