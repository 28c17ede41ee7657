//! Whether as many I/Os were in flight as asked, at the worker and at the device.

use super::{Job, finding, is_on, jobs_where, named, sentence, targets_of};
use crate::derive;
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::{DiskRecord, RunRecord};

/// A depth below this share of the one asked was not reached.
const REACHED_SHARE: f64 = 0.8;
/// A device that sees less than this share of the depth asked does not see the depth asked.
const DEVICE_SHARE: f64 = 0.5;

/// A depth asked of an engine that does one I/O at a time.
pub(super) fn synchronous_engine(record: &RunRecord) -> Option<Finding> {
    let jobs = jobs_where(record, |job| job.plan.engine.is_synchronous() && job.plan.depth > 1);
    let first = jobs.first()?.plan;
    let summary = format!(
        "iodepth={} has no effect with ioengine={}: {} did one I/O at a time.",
        first.depth,
        first.engine.name(),
        named(&jobs)
    );
    let evidence = vec![format!("{} waits for each I/O in its system call", first.engine.name())];
    let next = format!("use ioengine=io_uring, or numjobs={}", first.depth);
    finding("synchronous-engine", Severity::Warning, summary, evidence, &next)
}

/// Workers that had fewer I/Os in flight than asked, with nothing in the plan that explains it.
pub(super) fn not_reached(record: &RunRecord) -> Option<Finding> {
    let mean = |job: &Job| derive::depth_mean(job.done).unwrap_or(f64::from(job.plan.depth));
    let jobs = jobs_where(record, |job| {
        let plan = job.plan;
        let held_back = plan.is_paced() || plan.think.is_some() || plan.batch.low.is_some();
        let long_enough = derive::ios(job.done) > u64::from(plan.depth) * 10;
        job.is_real()
            && !plan.engine.is_synchronous()
            && !held_back
            && long_enough
            && mean(job) < f64::from(plan.depth) * REACHED_SHARE
    });
    let first = jobs.first()?;
    let summary = format!(
        "{} did not reach its depth: {} asked, {:.1} in flight on average.",
        sentence(&named(&jobs)),
        first.plan.depth,
        mean(first)
    );
    let evidence = jobs.iter().take(4).map(|job| {
        let (name, asked, most) = (&job.plan.name, job.plan.depth, job.done.depth.in_flight_max);
        format!("{name}: asked {asked}, mean {:.1}, most {most}", mean(job))
    });
    let next = if jobs.iter().any(|job| !job.plan.direct) {
        "buffered I/O completes at once or waits in submission: set direct=1"
    } else {
        "look at iodepth_batch*, fsync and the number of targets"
    };
    finding("depth-not-reached", Severity::Warning, summary, evidence.collect(), next)
}

/// A disk on which reads were asked at a depth that it did not see.
pub(super) fn device_depth(record: &RunRecord) -> Option<Finding> {
    let seen = |disk: &DiskRecord| (asked_of(record, disk), disk.queue_mean());
    let disk = record.disks.iter().find(|disk| {
        let (asked, got) = seen(disk);
        asked > 1.5 && got < asked * DEVICE_SHARE
    })?;
    let (asked, got) = seen(disk);
    let readers = readers_of(record, disk);
    let buffered = readers.iter().any(|job| !job.done.granted.direct);
    let severity = if buffered { Severity::Warning } else { Severity::Info };
    let summary = format!(
        "{} asked for {asked:.0} I/Os in flight, but {} saw {got:.1} on average.",
        sentence(&named(&readers)),
        disk.name
    );
    let evidence = vec![
        format!("{} ms of I/O in {} ms", disk.weighted_ms, disk.elapsed_ms),
        format!(
            "{:.0}% of the time with an I/O in flight",
            disk.busy_ms as f64 * 100.0 / disk.elapsed_ms.max(1) as f64
        ),
    ];
    let next = if buffered {
        "buffered reads wait in the page cache one by one: set direct=1"
    } else {
        "the disk answers faster than the worker asks: try more workers (numjobs)"
    };
    finding("device-depth", severity, summary, evidence, next)
}

/// Jobs that read from `disk`, as fast as they can, by more than one I/O at a time.
fn readers_of<'a>(record: &'a RunRecord, disk: &DiskRecord) -> Vec<Job<'a>> {
    jobs_where(record, |job| {
        job.is_real()
            && job.bytes_read() > 0
            && !job.plan.is_paced()
            && job.plan.think.is_none()
            && !job.plan.engine.is_synchronous()
            && targets_of(job.plan).into_iter().any(|target| is_on(record, target, disk))
    })
}

/// I/Os that the readers of `disk` would keep in flight on average over the time it was watched.
fn asked_of(record: &RunRecord, disk: &DiskRecord) -> f64 {
    let watched_ns = disk.elapsed_ms.max(1) as f64 * 1e6;
    let share = |job: &Job| (job.done.runtime_ns as f64 / watched_ns).min(1.0);
    let targets = |job: &Job| {
        let all = targets_of(job.plan);
        let here = all.iter().filter(|target| is_on(record, **target, disk)).count();
        here as f64 / all.len().max(1) as f64
    };
    let readers = readers_of(record, disk);
    readers.iter().map(|job| f64::from(job.plan.depth) * share(job) * targets(job)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{IOS, fires, make_buffered, silent};
    use super::*;
    use fathom_model::plan::{Engine, Psync, Rate};

    #[test]
    fn a_depth_for_a_synchronous_engine() {
        let f = fires(synchronous_engine, |r| r.plan.jobs[0].engine = Engine::Psync(Psync::Plain));
        assert_eq!(
            f.summary,
            "iodepth=32 has no effect with ioengine=psync: job a did one I/O at a time."
        );
        silent(synchronous_engine, |r| {
            r.plan.jobs[0].engine = Engine::Psync(Psync::Plain);
            r.plan.jobs[0].depth = 1;
        });
    }

    #[test]
    fn a_depth_that_was_not_reached() {
        let shallow = |r: &mut RunRecord| r.jobs[0].depth.level = vec![(1, IOS / 2), (2, IOS / 2)];
        let f = fires(not_reached, shallow);
        assert_eq!(f.summary, "Job a did not reach its depth: 32 asked, 1.5 in flight on average.");
        silent(not_reached, |r| {
            shallow(r);
            r.plan.jobs[0].rate.read = Some(Rate::Iops(1000));
        });
        silent(not_reached, |r| {
            shallow(r);
            r.jobs[0].dirs.read.counts.ios = 40;
        });
    }

    #[test]
    fn buffered_reads_that_run_one_at_a_time() {
        let f = fires(device_depth, |r| {
            make_buffered(r);
            r.disks[0].weighted_ms = 9_900;
        });
        assert_eq!(f.severity, Severity::Warning);
        assert_eq!(f.summary, "Job a asked for 32 I/Os in flight, but vda saw 1.0 on average.");
        let f = fires(device_depth, |r| r.disks[0].weighted_ms = 99_000);
        assert_eq!(f.severity, Severity::Info);
    }

    #[test]
    fn depth_is_expected_only_while_a_job_ran_and_where() {
        silent(device_depth, |r| {
            r.jobs[0].runtime_ns /= 2;
            r.disks[0].weighted_ms = 100_000;
        });
        silent(device_depth, |r| {
            r.disks[0].name = "vdb".into();
            r.disks[0].weighted_ms = 0;
        });
    }
}
