//! Whether as many I/Os were in flight as requested, at the worker and at the device.

use super::jobs::{Job, is_on, jobs_where, named, sentence, targets_of};
#[cfg(test)]
use super::testing::{Case, IOS, make_buffered, peak};
use super::{Check, Claim, Rule, Target};
use crate::derive;
use fathom_model::finding::{Class, Confidence, Evidence, Severity, Unit};
use fathom_model::plan::{Engine, JobPlan};
use fathom_model::record::{DiskRecord, RunRecord};

/// A mean below this share of the requested depth did not reach it; submitting and reaping lower the mean.
const REACHED_SHARE: f64 = 0.5;
/// Fewer I/Os than this many queues full do not show a depth.
const QUEUES_MIN: u64 = 10;

pub(super) static SYNCHRONOUS_ENGINE: Rule = Rule {
    id: "synchronous-engine",
    class: Class::Limiter,
    meaning: "`iodepth` has no effect: the engine does one I/O at a time.",
    threshold: || "iodepth above 1 with a synchronous engine.".into(),
    remedy: "Use ioengine=io_uring, or numjobs in place of iodepth",
    checks: &[Check::Run(synchronous_engine)],
    #[cfg(test)]
    cases: &[Case::Run { holds: |r| synchronous(r, 32), near_miss: |r| synchronous(r, 1) }],
    ..Rule::DEFAULT
};

fn synchronous_engine(record: &RunRecord) -> Option<Claim> {
    let requested = |plan: &JobPlan| plan.requested_depth.unwrap_or(plan.depth);
    let jobs =
        jobs_where(record, |job| job.plan.engine.is_synchronous() && requested(job.plan) > 1);
    let first = jobs.first()?.plan;
    let (engine, depth) = (first.engine.name(), requested(first));
    let summary = format!(
        "iodepth={depth} has no effect with ioengine={engine}: {} did one I/O at a time.",
        named(&jobs)
    );
    let evidence = vec![Evidence::text(engine, "each I/O is one blocking system call")];
    let others_do = !matches!(first.engine, Engine::Names(_) | Engine::Sg(_));
    let instead = if others_do { "ioengine=io_uring, or " } else { "" };
    let remedy = format!("Use {instead}numjobs={depth}");
    Some(Claim::new(summary, evidence).remedy(remedy))
}

pub(super) static DEPTH_NOT_REACHED: Rule = Rule {
    id: "depth-not-reached",
    class: Class::Limiter,
    meaning: "Fewer I/Os were in flight than requested.",
    threshold: || {
        format!(
            "IOPS × mean latency is below {:.0}% of the requested depth, to allow for submitting and reaping. run: over \
             {QUEUES_MIN} × iodepth I/Os or more, without rate limits, think time and iodepth_low. limit: at the peak.",
            REACHED_SHARE * 100.0,
        )
    },
    remedy: "Use more jobs, and direct=1; check iodepth_batch* and fsync",
    checks: &[Check::Run(not_reached), Check::Target(peak_not_reached)],
    #[cfg(test)]
    cases: &[
        Case::Run { holds: |r| set_latency(r, 159_000), near_miss: |r| set_latency(r, 160_000) },
        Case::Limit {
            holds: |r| peak(r).in_flight = 15.9,
            near_miss: |r| peak(r).in_flight = 16.0,
        },
    ],
    ..Rule::DEFAULT
};

fn not_reached(record: &RunRecord) -> Option<Claim> {
    let mean = |job: &Job| {
        derive::in_flight(job.done, job.done.runtime_ns).unwrap_or(f64::from(job.plan.depth))
    };
    let jobs = jobs_where(record, |job| {
        let plan = job.plan;
        let held_back = plan.is_held_back() || plan.think.is_some() || plan.batch.low.is_some();
        let long_enough = derive::ios(job.done) > u64::from(plan.depth) * QUEUES_MIN;
        job.is_real()
            && plan.depth > 1
            && !plan.engine.is_synchronous()
            && !held_back
            && long_enough
            && mean(job) < f64::from(plan.depth) * REACHED_SHARE
    });
    let first = jobs.first()?;
    let summary = format!(
        "{} did not reach the requested queue depth of {}: {:.1} I/Os were in flight on average.",
        sentence(&named(&jobs)),
        first.plan.depth,
        mean(first)
    );
    let depth = |name: String, value: f64| Evidence::number(name, value, Unit::Count);
    let evidence = jobs.iter().take(4).flat_map(|job| {
        let name = &job.plan.name;
        [
            depth(format!("{name} in flight"), (mean(job) * 10.0).round() / 10.0),
            depth(format!("{name} max in flight"), f64::from(job.done.depth.in_flight_max)),
        ]
    });
    let (batch, sync) = (&first.plan.batch, &first.plan.sync);
    let remedy = match () {
        () if sync.fsync_every > 0 || sync.fdatasync_every > 0 => {
            "Flush less often, or use more jobs: nothing is in flight during an fsync"
        }
        () if jobs.iter().any(|job| !job.plan.direct) => {
            "Set direct=1: buffered I/O completes immediately or blocks in submission"
        }
        () if batch.submit_max.is_some() || batch.complete_min > 1 => "Check iodepth_batch*",
        () => {
            "Use more jobs, or larger blocks: one worker does not submit I/Os as fast as they complete"
        }
    };
    Some(Claim::new(summary, evidence.collect()).remedy(remedy))
}

fn peak_not_reached(target: &Target) -> Option<Claim> {
    let requested = |peak: &fathom_model::window::Point| peak.setting().in_flight() as f64;
    let low: Vec<_> = target
        .peaks()
        .filter(|(_, peak)| {
            peak.iops.mean > 0.0 && peak.in_flight < REACHED_SHARE * requested(peak)
        })
        .collect();
    let (_, first) = low.first()?;
    let summary = format!(
        "{} did not reach the requested queue depth of {} at its peak: {:.1} I/Os were in flight on average.",
        target.limit.name,
        requested(first),
        first.in_flight
    );
    let evidence = low.iter().map(|(block, peak)| {
        let name = format!("{} mean depth, {} requested", block.name(), requested(peak));
        Evidence::number(name, peak.in_flight, Unit::Count).with_source("IOPS × mean latency")
    });
    Some(Claim::new(summary, evidence.collect()).remedy(""))
}

pub(super) static DEVICE_DEPTH: Rule = Rule {
    id: "device-depth",
    class: Class::Limiter,
    meaning: "The device had fewer I/Os in flight than the jobs that read from it requested.",
    threshold: || {
        format!(
            "The device's mean queue depth, including I/O of other programs, is below {:.0}% of what free-running \
             readers requested; info with direct I/O.",
            REACHED_SHARE * 100.0
        )
    },
    remedy: "Set direct=1: buffered reads wait for the page cache one at a time",
    checks: &[Check::Run(device_depth)],
    #[cfg(test)]
    cases: &[Case::Run {
        holds: |r| {
            make_buffered(r);
            r.disks[0].weighted_ms = 9_900;
        },
        near_miss: |r| r.disks[0].weighted_ms = 160_000,
    }],
    ..Rule::DEFAULT
};

fn device_depth(record: &RunRecord) -> Option<Claim> {
    let depths = |disk: &DiskRecord| (requested_of(record, disk), disk.queue_mean());
    let disk = record.disks.iter().find(|disk| {
        let (requested, mean) = depths(disk);
        requested > 1.5 && mean < requested * REACHED_SHARE
    })?;
    let (_, mean) = depths(disk);
    let readers = readers_of(record, disk);
    let depth: u32 = readers.iter().map(|job| job.plan.depth).sum();
    let summary = format!(
        "{} requested a queue depth of {depth}, but {} had {mean:.1} I/Os in flight on average, including those of \
         other programs.",
        sentence(&named(&readers)),
        disk.name
    );
    let busy = disk.busy_ms as f64 / disk.elapsed_ms.max(1) as f64;
    let evidence = vec![
        Evidence::number("aqu-sz", mean, Unit::Count).with_source("/proc/diskstats, all programs"),
        Evidence::number("%util", busy.min(1.0), Unit::Share)
            .with_source("/proc/diskstats, all programs"),
    ];
    let claim = Claim::new(summary, evidence);
    if readers.iter().any(|job| !job.done.granted.direct) {
        return Some(claim);
    }
    Some(claim.severity(Severity::Info).confidence(Confidence::Medium).remedy(""))
}

/// Jobs that read from `disk`, as fast as they can, with more than one I/O in flight.
fn readers_of<'a>(record: &'a RunRecord, disk: &DiskRecord) -> Vec<Job<'a>> {
    jobs_where(record, |job| {
        job.is_real()
            && job.bytes_read() > 0
            && !job.plan.is_held_back()
            && job.plan.think.is_none()
            && !job.plan.engine.is_synchronous()
            && targets_of(job.plan).into_iter().any(|target| is_on(record, target, disk))
    })
}

/// I/Os that the readers of `disk` requested in flight, on average over the time its counters cover.
fn requested_of(record: &RunRecord, disk: &DiskRecord) -> f64 {
    let covered_ns = disk.elapsed_ms.max(1) as f64 * 1e6;
    let share = |job: &Job| (job.done.runtime_ns as f64 / covered_ns).min(1.0);
    let targets = |job: &Job| {
        let all = targets_of(job.plan);
        let here = all.iter().filter(|target| is_on(record, **target, disk)).count();
        here as f64 / all.len().max(1) as f64
    };
    let readers = readers_of(record, disk);
    readers.iter().map(|job| f64::from(job.plan.depth) * share(job) * targets(job)).sum()
}

#[cfg(test)]
fn synchronous(record: &mut RunRecord, depth: u32) {
    use fathom_model::plan::Psync;
    let plan = &mut record.plan.jobs[0];
    (plan.engine, plan.depth, plan.requested_depth) = (Engine::Psync(Psync::Plain), 1, Some(depth));
}

/// Gives all I/Os of the first job this latency.
#[cfg(test)]
fn set_latency(record: &mut RunRecord, ns: u64) {
    let clat = &mut record.jobs[0].dirs.read.clat;
    *clat = fathom_model::Histogram::default();
    clat.record_n(ns, IOS);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, phrases, silent};
    use super::*;
    use fathom_model::plan::Rate;

    #[test]
    fn a_depth_for_a_synchronous_engine() {
        let f = fires(&SYNCHRONOUS_ENGINE, |r| synchronous(r, 32));
        assert_eq!(
            f.summary,
            "iodepth=32 has no effect with ioengine=psync: job a did one I/O at a time."
        );
    }

    #[test]
    fn a_depth_that_was_not_reached() {
        let shallow = |r: &mut RunRecord| set_latency(r, 15_000);
        let f = fires(&DEPTH_NOT_REACHED, shallow);
        assert_eq!(
            f.summary,
            "Job a did not reach the requested queue depth of 32: 1.5 I/Os were in flight on average."
        );
        assert_eq!(phrases(&f), ["a in flight: 1.5", "a max in flight: 32"]);
        silent(&DEPTH_NOT_REACHED, |r| {
            shallow(r);
            r.plan.jobs[0].rate.read = Some(Rate::Iops(1000));
        });
        silent(&DEPTH_NOT_REACHED, |r| {
            shallow(r);
            r.jobs[0].dirs.read.counts.ios = 40;
        });
    }

    #[test]
    fn the_depth_of_a_device_includes_other_programs() {
        let f = fires(&DEVICE_DEPTH, |r| {
            make_buffered(r);
            r.disks[0].weighted_ms = 9_900;
        });
        assert_eq!(f.severity, Severity::Warning);
        assert_eq!(
            f.summary,
            "Job a requested a queue depth of 32, but vda had 1.0 I/Os in flight on average, including those of other \
             programs."
        );
        let f = fires(&DEVICE_DEPTH, |r| r.disks[0].weighted_ms = 99_000);
        assert_eq!(f.severity, Severity::Info);
    }

    #[test]
    fn depth_is_expected_only_while_a_job_ran_and_where() {
        silent(&DEVICE_DEPTH, |r| {
            r.jobs[0].runtime_ns /= 2;
            r.disks[0].weighted_ms = 100_000;
        });
        silent(&DEVICE_DEPTH, |r| {
            r.disks[0].name = "vdb".into();
            r.disks[0].weighted_ms = 0;
        });
    }
}
