//! One direction of a job, and its latencies.

use super::{Ordered, rounded};
use crate::fio::{DirFigures, priority_parts};
use fathom_model::histogram::Histogram;
use fathom_model::plan::JobPlan;
use fathom_model::record::{FlushRecord, PriorityRecord};
use serde::Serialize;
use std::collections::BTreeMap;

/// The last bin that fio has, in nanoseconds. `fio_jsonplus_clat2csv` never ends on a greater one.
const BIN_MAX_NS: u64 = 17_112_760_320;

#[derive(Serialize)]
pub(super) struct FioDirection {
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
    pub(super) fn of(stats: &DirFigures, plan: &JobPlan, plus: bool) -> Self {
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
pub(super) struct Flushes {
    total_ios: u64,
    lat_ns: Latency,
}

impl Flushes {
    pub(super) fn of(flushes: &FlushRecord, plan: &JobPlan, plus: bool) -> Self {
        let percentiles = plan.show.lat_percentiles || plan.show.clat_percentiles;
        let list = percentiles.then_some(&plan.show.percentiles);
        Self { total_ios: flushes.count, lat_ns: Latency::of(&flushes.lat, list, plus) }
    }
}

#[derive(Serialize)]
pub(super) struct Latency {
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
    pub(super) fn of(histogram: &Histogram, percentiles: Option<&Vec<f64>>, plus: bool) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

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
