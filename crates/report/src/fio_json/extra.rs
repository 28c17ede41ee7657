//! Figures without a place in fio's format.

use super::direction::Latency;
use super::{Ordered, rounded};
use crate::fio::Entry;
use fathom_analysis::derive;
use fathom_model::Outcome;
use fathom_model::finding::Finding;
use fathom_model::record::{Cost, DirRecord, InEffect, RunRecord, Usage};
use fathom_model::watch::Unavailable;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Extra<'a> {
    version: &'a str,
    record_version: u32,
    command: &'a [String],
    complete: bool,
    outcome: &'a Outcome,
    findings: &'a [Finding],
    notes: &'a [String],
    jobs: Vec<ExtraJob<'a>>,
}

/// One for each entry of `jobs`, in the same order.
#[derive(Serialize)]
struct ExtraJob<'a> {
    jobname: &'a str,
    workers: usize,
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

pub(super) fn extra<'a>(record: &'a RunRecord, entries: &[Entry<'a>], plus: bool) -> Extra<'a> {
    Extra {
        version: &record.header.fathom_version,
        record_version: record.header.record_version,
        command: &record.header.command,
        complete: record.is_complete(),
        outcome: &record.header.outcome,
        findings: &record.header.findings,
        notes: &record.plan.notes,
        jobs: entries.iter().map(|entry| job(entry, plus)).collect(),
    }
}

fn job<'a>(entry: &Entry<'a>, plus: bool) -> ExtraJob<'a> {
    let done = &entry.group.record;
    let both = entry.both.as_ref().map(|dir| ("mixed", dir));
    let dirs = entry.dirs.iter().map(|(name, dir)| (*name, dir)).chain(both);
    let percentiles = &entry.group.plan.show.percentiles;
    ExtraJob {
        jobname: &entry.group.plan.name,
        workers: entry.group.jobs.len(),
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
