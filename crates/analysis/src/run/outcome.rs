//! Whether what was asked was done, and steadily.

use super::{Job, finding, jobs_where, named, sentence};
use crate::derive::{self, Spread, percent};
use fathom_model::finding::{Finding, Severity};
use fathom_model::plan::Rate;
use fathom_model::record::RunRecord;
use fathom_model::{Dir, units};
use std::collections::BTreeMap;

/// Late or missing I/Os above this share mean that the rate was not kept.
const LATE_SHARE: f64 = 0.01;
/// But not so few as these: a wake-up that comes late now and then is no shortfall.
const LATE_FEW: f64 = 10.0;
/// IOPS that vary more than this (standard deviation over mean) are too noisy for a claim.
const NOISE_VARIATION: f64 = 0.15;
/// Fewer intervals than this say nothing about noise.
const NOISE_INTERVALS: u64 = 5;

/// Jobs that ended with an error.
pub(super) fn job_failed(record: &RunRecord) -> Option<Finding> {
    let failed = jobs_where(record, |job| job.done.error.is_some());
    let first = failed.first()?.done.error.as_ref()?;
    let mut evidence: Vec<String> = Vec::new();
    if first.errno != 0 {
        evidence.push(errno_text(first.errno));
    }
    for job in &failed {
        let other = job.done.error.as_ref().filter(|error| error.message != first.message);
        let told = other.map(|error| format!("{}: {}", job.plan.name, error.message));
        evidence.extend(told.filter(|text| evidence.len() < 4 && !evidence.contains(text)));
    }
    let summary = format!("{} failed: {}", sentence(&named(&failed)), ended(&first.message));
    finding("job-failed", Severity::Error, summary, evidence, "")
}

/// A message as the end of a sentence.
fn ended(message: &str) -> String {
    format!("{}.", message.trim_end_matches('.'))
}

/// A signal ended the run early.
pub(super) fn interrupted(record: &RunRecord) -> Option<Finding> {
    let signal = record.interrupted.as_ref()?;
    let asked = record.plan.jobs.iter().filter_map(|job| job.until.runtime_ns).max();
    let mut evidence = vec![format!("ended after {}", units::time(record.elapsed_ns as f64))];
    evidence.extend(asked.map(|ns| format!("asked for {}", units::time(ns as f64))));
    let summary =
        format!("{signal} ended the run early: the figures cover what was done until then.");
    finding("interrupted", Severity::Error, summary, evidence, "")
}

/// A job that did no I/O at all and does not say why.
pub(super) fn nothing_done(record: &RunRecord) -> Option<Finding> {
    let idle = jobs_where(record, |job| {
        // With create_only no I/O is what was asked.
        if job.plan.until.ios == Some(0) {
            return false;
        }
        let counts = job.done.dirs.iter().map(|(_, dir)| dir.counts);
        job.done.error.is_none() && counts.map(|c| c.ios + c.short_ios + c.errors).sum::<u64>() == 0
    });
    if idle.is_empty() {
        return None;
    }
    let summary = format!("{} did no I/O at all.", sentence(&named(&idle)));
    let ran = idle.iter().map(|job| job.done.runtime_ns).max().unwrap_or(0);
    let evidence = vec![format!("0 I/Os in {}", units::time(ran as f64))];
    finding(
        "nothing-done",
        Severity::Warning,
        summary,
        evidence,
        "check size, offset, runtime and ramp_time",
    )
}

/// I/Os that failed; they are no part of any rate.
pub(super) fn io_errors(record: &RunRecord) -> Option<Finding> {
    let with = jobs_where(record, |job| count(job, |c| c.errors) > 0);
    if with.is_empty() {
        return None;
    }
    let errors: u64 = with.iter().map(|job| count(job, |c| c.errors)).sum();
    let done: u64 = with.iter().map(|job| derive::ios(job.done)).sum();
    let mut errnos: BTreeMap<i32, u64> = BTreeMap::new();
    for (errno, n) in with.iter().flat_map(|j| j.done.dirs.iter()).flat_map(|(_, d)| &d.errnos) {
        *errnos.entry(*errno).or_insert(0) += n;
    }
    let mut evidence = vec![format!("{errors} failed, {done} done")];
    evidence.extend(errnos.iter().map(|(errno, n)| format!("{n} × {}", errno_text(*errno))));
    let summary = format!(
        "{} I/Os of {} failed ({} of all); they count in no rate and no latency.",
        units::count(errors as f64),
        named(&with),
        percent(errors as f64, (errors + done) as f64),
    );
    finding("io-errors", Severity::Warning, summary, evidence, "look into the kernel's log (dmesg)")
}

/// I/Os that moved less than asked; they are no part of any rate.
pub(super) fn short_ios(record: &RunRecord) -> Option<Finding> {
    let with = jobs_where(record, |job| count(job, |c| c.short_ios) > 0);
    if with.is_empty() {
        return None;
    }
    let short: u64 = with.iter().map(|job| count(job, |c| c.short_ios)).sum();
    let done: u64 = with.iter().map(|job| derive::ios(job.done)).sum();
    let summary = format!(
        "{} I/Os of {} moved fewer bytes than asked; they count in no rate and no latency.",
        units::count(short as f64),
        named(&with),
    );
    let next = "check that the target is as long as the job takes it to be and that it is not full";
    finding(
        "short-ios",
        Severity::Warning,
        summary,
        vec![format!("{short} short, {done} whole")],
        next,
    )
}

/// Workers that the kernel left asleep.
pub(super) fn lost_wakeups(record: &RunRecord) -> Option<Finding> {
    let with = jobs_where(record, |job| !job.done.lost_wakeups.is_none());
    let count: u64 = with.iter().map(|job| job.done.lost_wakeups.count).sum();
    let longest = with.iter().map(|job| job.done.lost_wakeups.longest_ns).max()?;
    let times = if count == 1 { "once".to_string() } else { format!("{count} times") };
    let summary = format!(
        "The kernel left {} asleep {times} though I/Os were complete; the highest latencies are its, not \
         the device's.",
        named(&with)
    );
    let evidence = vec![format!(
        "kernel {}: a wait of about {} that only a signal ended, with completions there",
        record.facts.host.kernel,
        units::time(longest as f64)
    )];
    let next = "other programs that use io_uring would hang there; take a newer kernel, or tell its makers";
    finding("lost-wakeups", Severity::Warning, summary, evidence, next)
}

fn count(job: &Job, field: fn(&fathom_model::progress::Counts) -> u64) -> u64 {
    job.done.dirs.iter().map(|(_, dir)| field(&dir.counts)).sum()
}

/// A rate that was not kept.
pub(super) fn could_not_keep_up(record: &RunRecord) -> Option<Finding> {
    let paced = jobs_where(record, |job| job.plan.is_paced());
    let dirs = || paced.iter().flat_map(|job| job.done.dirs.iter().map(|(_, dir)| dir));
    let late: u64 = dirs().map(|dir| dir.late_ios).sum();
    let unstarted: u64 = dirs().map(|dir| dir.unstarted_ios).sum();
    let done: u64 = dirs().map(|dir| dir.counts.ios).sum();
    let due = (done + unstarted) as f64;
    let (behind_ios, share) = ((late + unstarted) as f64, due * LATE_SHARE);
    // One last I/O may be due just when the time is up.
    let last = 2.0 * paced.len() as f64;
    if behind_ios <= share.min(last) {
        return None;
    }
    let behind = jobs_where(record, |job| {
        job.plan.is_paced() && job.done.dirs.iter().any(|(_, d)| d.late_ios + d.unstarted_ios > 0)
    });
    let much = unstarted as f64 > share.max(last) || behind_ios > share.max(LATE_FEW);
    let severity = if much { Severity::Warning } else { Severity::Info };
    let verb = if much { "could not keep up with its rate" } else { "was late now and then" };
    let summary = format!(
        "{} {verb}: of {} I/Os that were due, {} started late and {} never started.",
        sentence(&named(&behind)),
        units::count(due),
        units::count(late as f64),
        units::count(unstarted as f64),
    );
    let evidence = behind.iter().flat_map(pace_evidence).take(6).collect();
    let next = "take the response latency, which counts the waiting, for what a user would see";
    finding("could-not-keep-up", severity, summary, evidence, next)
}

fn pace_evidence(job: &Job) -> Vec<String> {
    let p99 = |h: &fathom_model::Histogram| units::time(h.percentile(99.0).unwrap_or(0) as f64);
    let of = |dir: Dir| {
        let done = &job.done.dirs[dir];
        let (asked, got) = match job.plan.rate[dir]? {
            Rate::Iops(n) => {
                let got = derive::per_second(done.counts.ios, job.done.runtime_ns);
                (format!("{} IOPS", units::count(n as f64)), format!("{} IOPS", units::count(got)))
            }
            Rate::BytesPerSecond(n) => {
                let got = derive::per_second(done.counts.bytes, job.done.runtime_ns);
                (units::bandwidth(n as f64), units::bandwidth(got))
            }
        };
        Some(format!(
            "{} {dir}: asked {asked}, got {got}; p99 {} in service, {} with the waiting",
            job.plan.name,
            p99(&done.lat),
            p99(&done.response),
        ))
    };
    job.plan.used_dirs().filter_map(of).collect()
}

/// IOPS that went up and down too much.
pub(super) fn noisy(record: &RunRecord) -> Option<Finding> {
    let mut worst: Option<(Job, Spread)> = None;
    for job in jobs_where(record, |job| !job.plan.is_paced() && job.plan.think.is_none()) {
        let parts: Vec<_> = job.done.dirs.iter().map(|(_, dir)| (0, dir)).collect();
        let rates = derive::interval_rates(&derive::merge_dirs(&parts));
        let spread = Spread::of(&rates.iter().map(|rate| rate.iops).collect::<Vec<_>>());
        let noisier = worst.is_none_or(|(_, known)| spread.variation() > known.variation());
        if spread.samples >= NOISE_INTERVALS && spread.variation() > NOISE_VARIATION && noisier {
            worst = Some((job, spread));
        }
    }
    let (job, spread) = worst?;
    let summary = format!(
        "The IOPS of {} varied too much for a claim: {} ± {} between intervals.",
        named(&[job]),
        units::count(spread.mean),
        percent(spread.stddev, spread.mean),
    );
    let evidence = vec![format!(
        "{} intervals, from {} to {} IOPS",
        spread.samples,
        units::count(spread.min),
        units::count(spread.max)
    )];
    let next = "run longer, give it a ramp_time, or find out what else uses the machine";
    finding("noisy", Severity::Warning, summary, evidence, next)
}

/// An errno by name, where it is one that I/O is known to give.
fn errno_text(errno: i32) -> String {
    let name = match errno {
        1 => "EPERM, not permitted",
        4 => "EINTR, interrupted",
        5 => "EIO, I/O error",
        6 => "ENXIO, no such device",
        9 => "EBADF, bad descriptor",
        11 => "EAGAIN, try again",
        12 => "ENOMEM, out of memory",
        13 => "EACCES, permission denied",
        16 => "EBUSY, busy",
        19 => "ENODEV, no such device",
        22 => "EINVAL, invalid argument",
        27 => "EFBIG, file too large",
        28 => "ENOSPC, no space left",
        30 => "EROFS, read-only file system",
        61 => "ENODATA, critical medium error",
        84 => "EILSEQ, checksum mismatch",
        95 => "EOPNOTSUPP, not supported",
        110 => "ETIMEDOUT, timed out",
        116 => "ESTALE, stale file",
        121 => "EREMOTEIO, device error",
        122 => "EDQUOT, quota exceeded",
        125 => "ECANCELED, cancelled",
        _ => return format!("errno {errno}"),
    };
    name.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SECOND, fires, silent};
    use super::*;
    use fathom_model::record::{JobError, LostWakeups};

    #[test]
    fn failure_names_the_job() {
        let f = fires(job_failed, |r| {
            r.jobs[0].error = Some(JobError { errno: 5, message: "read of /x failed: EIO".into() });
        });
        assert_eq!(f.summary, "Job a failed: read of /x failed: EIO.");
        assert_eq!((f.severity, f.evidence), (Severity::Error, vec!["EIO, I/O error".to_string()]));
        let f = fires(job_failed, |r| {
            r.plan.jobs.push(r.plan.jobs[0].clone());
            r.plan.jobs[1].name = "b".into();
            r.jobs.push(r.jobs[0].clone());
            for (job, message) in r.jobs.iter_mut().zip(["first", "second"]) {
                job.error = Some(JobError { errno: 0, message: message.into() });
            }
        });
        assert_eq!(
            (f.summary.as_str(), f.evidence),
            ("Jobs a, b failed: first.", vec!["b: second".to_string()])
        );
    }

    #[test]
    fn interruption_tells_how_much_was_done() {
        let f = fires(interrupted, |r| {
            r.interrupted = Some("SIGINT".into());
            r.elapsed_ns = 3 * SECOND;
        });
        assert_eq!(f.evidence, ["ended after 3 s", "asked for 10 s"]);
    }

    #[test]
    fn a_job_without_io_is_told() {
        let f = fires(nothing_done, |r| r.jobs[0].dirs.read = Default::default());
        assert_eq!(f.summary, "Job a did no I/O at all.");
        silent(nothing_done, |r| {
            r.jobs[0].dirs.read = Default::default();
            r.plan.jobs[0].until.ios = Some(0);
        });
        silent(nothing_done, |r| {
            r.jobs[0].dirs.read = Default::default();
            r.jobs[0].dirs.read.counts.errors = 1;
        });
    }

    #[test]
    fn errors_are_named_and_short_ios_counted() {
        let f = fires(io_errors, |r| {
            r.jobs[0].dirs.read.counts.errors = 1000;
            r.jobs[0].dirs.read.errnos = vec![(5, 990), (999, 10)];
        });
        assert_eq!(f.evidence[1..], ["990 × EIO, I/O error", "10 × errno 999"]);
        assert!(f.summary.starts_with("1k I/Os of job a failed (0.1% of all)"), "{}", f.summary);
        let f = fires(short_ios, |r| r.jobs[0].dirs.read.counts.short_ios = 7);
        assert_eq!(f.evidence, ["7 short, 1000000 whole"]);
    }

    #[test]
    fn a_worker_left_asleep_is_told() {
        silent(lost_wakeups, |_| {});
        let f = fires(lost_wakeups, |r| {
            r.jobs[0].lost_wakeups = LostWakeups { count: 2, longest_ns: 1_500_000_000 };
        });
        assert!(
            f.summary.starts_with("The kernel left job a asleep 2 times though"),
            "{}",
            f.summary
        );
        assert!(f.evidence[0].contains("a wait of about 1.5 s"), "{}", f.evidence[0]);
    }

    fn paced(late: u64, unstarted: u64) -> impl FnOnce(&mut RunRecord) {
        move |r| {
            // As a plain rate_iops is understood: for each direction, used or not.
            r.plan.jobs[0].rate = fathom_model::PerDir::splat(Some(Rate::Iops(120_000)));
            r.jobs[0].dirs.read.late_ios = late;
            r.jobs[0].dirs.read.unstarted_ios = unstarted;
            r.jobs[0].dirs.read.lat.record(1_000_000);
            r.jobs[0].dirs.read.response.record(2 * SECOND);
        }
    }

    #[test]
    fn rates_that_were_not_kept() {
        let f = fires(could_not_keep_up, paced(150_000, 200_000));
        assert_eq!(f.severity, Severity::Warning);
        assert!(
            f.summary.contains("of 1.2M I/Os that were due, 150k started late and 200k never"),
            "{}",
            f.summary
        );
        assert_eq!(
            f.evidence,
            ["a read: asked 120k IOPS, got 100k IOPS; p99 1 ms in service, 2 s with the waiting"]
        );
        assert_eq!(fires(could_not_keep_up, paced(500, 0)).severity, Severity::Info);
        silent(could_not_keep_up, paced(1, 1));
        let few = |late, unstarted| {
            fires(could_not_keep_up, move |r| {
                paced(late, unstarted)(r);
                r.jobs[0].dirs.read.counts.ios = 100 - unstarted;
            })
        };
        assert_eq!(few(2, 0).severity, Severity::Info, "the full rate was reached");
        assert!(few(2, 0).summary.contains("was late now and then"));
        assert_eq!(few(0, 5).severity, Severity::Warning, "5 of 100 never started");
        assert_eq!(few(11, 0).severity, Severity::Warning);
        silent(could_not_keep_up, |r| r.jobs[0].dirs.read.late_ios = 10);
    }

    #[test]
    fn noise_needs_enough_intervals() {
        let jump = |r: &mut RunRecord, n: u64| {
            let rate = |i: u64| if i.is_multiple_of(2) { 100 } else { 50 };
            let total = |i: u64| (1..=i).map(rate).sum::<u64>();
            r.jobs[0].dirs.read.intervals =
                (1..=n).map(|i| (i * SECOND, total(i), total(i) * 4096)).collect();
        };
        let f = fires(noisy, |r| jump(r, 10));
        assert_eq!(f.evidence, ["10 intervals, from 50 to 100 IOPS"]);
        assert!(f.summary.contains("75 ± 35.1%"), "{}", f.summary);
        silent(noisy, |r| jump(r, 4));
        silent(noisy, |r| {
            jump(r, 10);
            r.plan.jobs[0].rate.read = Some(Rate::Iops(100));
        });
    }
}
