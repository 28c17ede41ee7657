//! Whether everything requested was done.

use super::jobs::{Job, jobs_where, named, sentence};
#[cfg(test)]
use super::testing::Case;
use super::{Check, Claim, Rule, Target};
use crate::derive::{self, percent};
#[cfg(test)]
use fathom_model::Outcome;
use fathom_model::finding::{Confidence, Evidence, Severity, Subject, Unit};
use fathom_model::progress::Counts;
use fathom_model::record::RunRecord;
use fathom_model::units;
use std::collections::BTreeMap;

pub(super) static JOB_FAILED: Rule = Rule {
    id: "job-failed",
    severity: Severity::Error,
    meaning: "A job ended with an error.",
    threshold: || "Any error that ended a job or counts as its failure.".into(),
    supersedes: &[&NOTHING_DONE],
    checks: &[Check::Run(job_failed)],
    #[cfg(test)]
    cases: &[Case::Run {
        holds: |r| {
            r.jobs[0].error =
                Some(fathom_model::record::JobError { errno: 5, message: "read failed".into() });
        },
        near_miss: |r| r.jobs[0].dirs.read.counts.errors = 1,
    }],
    ..Rule::DEFAULT
};

fn job_failed(record: &RunRecord) -> Option<Claim> {
    let failed = jobs_where(record, |job| job.done.error.is_some());
    let first = failed.first()?.done.error.as_ref()?;
    let mut evidence: Vec<Evidence> = Vec::new();
    if first.errno != 0 {
        evidence.push(Evidence::text("errno", errno_text(first.errno)));
    }
    for job in &failed {
        let other = job.done.error.as_ref().filter(|error| error.message != first.message);
        let other = other.map(|error| Evidence::text(&job.plan.name, &error.message));
        evidence.extend(other.filter(|text| evidence.len() < 4 && !evidence.contains(text)));
    }
    let message = first.message.trim_end_matches('.');
    let claim = Claim::new(format!("{} failed: {message}.", sentence(&named(&failed))), evidence);
    Some(match failed.as_slice() {
        [job] => claim.about(Subject::Job { name: job.plan.name.clone() }),
        _ => claim,
    })
}

pub(super) static INTERRUPTED: Rule = Rule {
    id: "interrupted",
    severity: Severity::Error,
    meaning: "A signal or an error ended the run early.",
    threshold: || "SIGINT or SIGTERM before all jobs finished.".into(),
    supersedes: &[&NOTHING_DONE],
    checks: &[Check::Run(interrupted)],
    #[cfg(test)]
    cases: &[Case::Run {
        holds: |r| r.header.outcome = Outcome::interrupted("SIGINT"),
        near_miss: |r| r.header.elapsed_ns /= 2,
    }],
    ..Rule::DEFAULT
};

fn interrupted(record: &RunRecord) -> Option<Claim> {
    if record.header.outcome.is_finished() {
        return None;
    }
    let requested = record.plan.jobs.iter().filter_map(|job| job.until.runtime_ns).max();
    let time = |name, ns: u64| Evidence::number(name, ns as f64, Unit::Nanoseconds);
    let mut evidence = vec![time("run time", record.header.elapsed_ns)];
    evidence.extend(requested.map(|ns| time("requested run time", ns)));
    let summary =
        format!("The run was {}; the figures cover the time until then.", record.header.outcome);
    Some(Claim::new(summary, evidence))
}

pub(super) static NOTHING_DONE: Rule = Rule {
    id: "nothing-done",
    meaning: "A job completed no I/O, although it reports no error.",
    threshold: || "No I/O completed, failed or was short, and `create_only` is not set.".into(),
    remedy: "Check size, offset, runtime and ramp_time",
    checks: &[Check::Run(nothing_done)],
    #[cfg(test)]
    cases: &[Case::Run {
        holds: |r| r.jobs[0].dirs.read = Default::default(),
        near_miss: |r| {
            r.jobs[0].dirs.read = Default::default();
            r.jobs[0].dirs.read.counts.errors = 1;
        },
    }],
    ..Rule::DEFAULT
};

fn nothing_done(record: &RunRecord) -> Option<Claim> {
    let idle = jobs_where(record, |job| {
        // With create_only no I/O is requested.
        job.plan.until.ios != Some(0)
            && job.done.error.is_none()
            && count(job, |c| c.ios + c.short_ios + c.errors) == 0
    });
    let ran = idle.iter().map(|job| job.done.runtime_ns).max()?;
    let evidence = vec![Evidence::number("run time", ran as f64, Unit::Nanoseconds)];
    Some(Claim::new(format!("{} completed no I/O.", sentence(&named(&idle))), evidence))
}

pub(super) static IO_ERRORS: Rule = Rule {
    id: "io-errors",
    meaning: "I/Os failed. Rates and latencies exclude them; `limit` discards the windows that contain them.",
    threshold: || "Any failed I/O; an error in `limit`.".into(),
    remedy: "Check the kernel log (`dmesg`)",
    checks: &[Check::Run(io_errors), Check::Target(limit_io_errors)],
    #[cfg(test)]
    cases: &[
        Case::Run {
            holds: |r| r.jobs[0].dirs.read.counts.errors = 1,
            near_miss: |r| r.jobs[0].dirs.read.counts.short_ios = 1,
        },
        Case::Limit { holds: |r| problem(r, 3, 0), near_miss: |r| problem(r, 0, 3) },
    ],
    ..Rule::DEFAULT
};

fn io_errors(record: &RunRecord) -> Option<Claim> {
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
    let mut evidence = vec![number("failed", errors), number("completed", done)];
    evidence.extend(errnos.iter().map(|(errno, n)| number(&errno_text(*errno), *n)));
    let tolerated = with.iter().all(|job| job.done.error.is_none());
    let summary = format!(
        "{} I/Os of {} failed ({}){}; rates and latencies exclude them.",
        units::count(errors as f64),
        named(&with),
        percent(errors as f64, (errors + done) as f64),
        if tolerated { "; continued as requested" } else { "" },
    );
    Some(Claim::new(summary, evidence))
}

fn limit_io_errors(target: &Target) -> Option<Claim> {
    discarded(target, |problem| problem.errors, "failed")
}

/// The claim about a target's windows that were discarded for I/Os of one kind.
fn discarded(
    target: &Target,
    of: fn(&fathom_model::limit::Problem) -> u64,
    verb: &str,
) -> Option<Claim> {
    let blocks = target.limit.blocks.iter();
    let bad: Vec<_> = blocks
        .flat_map(|block| block.problems.iter().map(move |problem| (block.name(), problem)))
        .filter(|(_, problem)| of(problem) > 0)
        .collect();
    let (_, first) = bad.first()?;
    let total = bad.iter().map(|(_, problem)| of(problem)).fold(0, u64::saturating_add);
    let evidence = bad.iter().map(|(block, problem)| {
        let setting = problem.setting;
        let (workers, depth) = (setting.workers, setting.depth);
        let name = format!("{block}, {workers} × QD{depth}, {verb}");
        number(&name, of(problem))
    });
    let summary = format!(
        "{}: {} I/Os {verb} ({}); the windows that contain them are discarded.",
        target.limit.name,
        units::count(total as f64),
        first.message
    );
    Some(Claim::new(summary, evidence.collect()).severity(Severity::Error))
}

pub(super) static SHORT_IOS: Rule = Rule {
    id: "short-ios",
    meaning: "I/Os transferred fewer bytes than requested. Rates and latencies exclude them; `limit` discards \
              the windows that contain them.",
    threshold: || "Any short I/O; an error in `limit`.".into(),
    remedy: "Check that the target is as large as the job assumes and that it is not full",
    checks: &[Check::Run(short_ios), Check::Target(limit_short_ios)],
    #[cfg(test)]
    cases: &[
        Case::Run {
            holds: |r| r.jobs[0].dirs.read.counts.short_ios = 7,
            near_miss: |r| r.jobs[0].dirs.read.counts.errors = 7,
        },
        Case::Limit { holds: |r| problem(r, 0, 3), near_miss: |r| problem(r, 3, 0) },
    ],
    ..Rule::DEFAULT
};

fn short_ios(record: &RunRecord) -> Option<Claim> {
    let with = jobs_where(record, |job| count(job, |c| c.short_ios) > 0);
    if with.is_empty() {
        return None;
    }
    let short: u64 = with.iter().map(|job| count(job, |c| c.short_ios)).sum();
    let done: u64 = with.iter().map(|job| derive::ios(job.done)).sum();
    let summary = format!(
        "{} I/Os of {} transferred fewer bytes than requested; rates and latencies exclude them.",
        units::count(short as f64),
        named(&with),
    );
    Some(Claim::new(summary, vec![number("short", short), number("completed", done)]))
}

fn limit_short_ios(target: &Target) -> Option<Claim> {
    discarded(target, |problem| problem.short_ios, "were short")
}

/// Waits that did not end although completions were available. No test makes the kernel miss a wake-up: it is a race.
pub(super) static LOST_WAKEUPS: Rule = Rule {
    id: "lost-wakeups",
    meaning: "A worker waited for a second or more until fathom interrupted the wait, and then found completions. \
              The kernel may have missed a wake-up; the I/Os may also have completed just then.",
    threshold: || {
        "Any such wait; a wait that ends without completions, as on a stalled device, does not count.".into()
    },
    remedy: "Disregard the maximum latencies; if it recurs, try a newer kernel and report it to io-uring@vger.kernel.org",
    checks: &[Check::Run(lost_wakeups)],
    #[cfg(test)]
    cases: &[Case::Run {
        holds: |r| r.jobs[0].lost_wakeups.count = 1,
        near_miss: |r| r.jobs[0].dirs.read.clat.record(2_000_000_000),
    }],
    ..Rule::DEFAULT
};

fn lost_wakeups(record: &RunRecord) -> Option<Claim> {
    let with = jobs_where(record, |job| !job.done.lost_wakeups.is_none());
    let count: u64 = with.iter().map(|job| job.done.lost_wakeups.count).sum();
    let longest = with.iter().map(|job| job.done.lost_wakeups.longest_ns).max()?;
    let summary = format!(
        "{} slept for a second or more until fathom interrupted the wait, and then found completions; the kernel \
         may have missed a wake-up. The maximum latencies include these waits.",
        sentence(&named(&with)),
    );
    let evidence = vec![
        number("interrupted waits", count),
        Evidence::number("longest wait", longest as f64, Unit::Nanoseconds),
        Evidence::text("kernel", &record.header.facts.host.kernel).with_source("uname"),
    ];
    Some(Claim::new(summary, evidence).confidence(Confidence::Medium))
}

pub(super) static LOG_TOO_SLOW: Rule = Rule {
    id: "log-too-slow",
    meaning: "The writer of a job's logs of single I/Os did not keep up, and the job waited for it instead of doing I/O.",
    threshold: || "Any such wait.".into(),
    remedy: "Set log_avg_msec, log fewer figures, or write the logs to a faster file system",
    checks: &[Check::Run(log_too_slow)],
    #[cfg(test)]
    cases: &[Case::Run { holds: |r| r.jobs[0].log_wait_ns = 1_000_000, near_miss: |_| {} }],
    ..Rule::DEFAULT
};

fn log_too_slow(record: &RunRecord) -> Option<Claim> {
    let waited = jobs_where(record, |job| job.done.log_wait_ns > 0);
    let longest = waited.iter().map(|job| job.done.log_wait_ns).max()?;
    let summary = format!(
        "{} waited for the writer of the logs, which did not keep up; rates and latencies include the waits.",
        sentence(&named(&waited)),
    );
    let evidence = vec![Evidence::number("longest total wait", longest as f64, Unit::Nanoseconds)];
    Some(Claim::new(summary, evidence))
}

fn count(job: &Job, field: fn(&Counts) -> u64) -> u64 {
    job.done.dirs.iter().map(|(_, dir)| field(&dir.counts)).sum()
}

fn number(name: &str, count: u64) -> Evidence {
    Evidence::number(name, count as f64, Unit::Count)
}

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
fn problem(record: &mut fathom_model::limit::LimitRecord, errors: u64, short_ios: u64) {
    let setting = fathom_model::window::Setting::ONE;
    let problem =
        fathom_model::limit::Problem { setting, errors, short_ios, message: "EIO".into() };
    record.report.targets[0].blocks[0].problems.push(problem);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SECOND, fires, limit, limit_rules, phrases, silent};
    use super::*;
    use crate::rules::judge_limit;
    use fathom_model::record::{JobError, LostWakeups};

    #[test]
    fn failure_names_the_job() {
        let f = fires(&JOB_FAILED, |r| {
            r.jobs[0].error = Some(JobError { errno: 5, message: "read of /x failed: EIO".into() });
        });
        assert_eq!(f.summary, "Job a failed: read of /x failed: EIO.");
        assert_eq!(
            (f.severity, phrases(&f)),
            (Severity::Error, vec!["errno: EIO, I/O error".into()])
        );
        let f = fires(&JOB_FAILED, |r| {
            r.plan.jobs.push(r.plan.jobs[0].clone());
            r.plan.jobs[1].name = "b".into();
            r.jobs.push(r.jobs[0].clone());
            for (job, message) in r.jobs.iter_mut().zip(["first", "second"]) {
                job.error = Some(JobError { errno: 0, message: message.into() });
            }
        });
        assert_eq!(
            (f.summary.as_str(), phrases(&f)),
            ("Jobs a, b failed: first.", vec!["b: second".to_string()])
        );
    }

    #[test]
    fn interruption_shows_how_much_was_done() {
        let f = fires(&INTERRUPTED, |r| {
            r.header.outcome = Outcome::interrupted("SIGINT");
            r.header.elapsed_ns = 3 * SECOND;
        });
        assert_eq!(phrases(&f), ["run time: 3 s", "requested run time: 10 s"]);
    }

    #[test]
    fn create_only_requests_no_io() {
        silent(&NOTHING_DONE, |r| {
            r.jobs[0].dirs.read = Default::default();
            r.plan.jobs[0].until.ios = Some(0);
        });
    }

    #[test]
    fn errors_are_named_and_short_ios_counted() {
        let f = fires(&IO_ERRORS, |r| {
            r.jobs[0].dirs.read.counts.errors = 1000;
            r.jobs[0].dirs.read.errnos = vec![(5, 990), (999, 10)];
        });
        assert_eq!(phrases(&f)[2..], ["EIO, I/O error: 990", "errno 999: 10"]);
        assert!(f.summary.starts_with("1k I/Os of job a failed (0.1%)"), "{}", f.summary);
        let f = fires(&SHORT_IOS, |r| r.jobs[0].dirs.read.counts.short_ios = 7);
        assert_eq!(phrases(&f), ["short: 7", "completed: 1M"]);
    }

    #[test]
    fn errors_of_a_search_come_first_and_make_it_incomplete() {
        let mut record = limit();
        problem(&mut record, 3, 0);
        let found = judge_limit(&record);
        assert_eq!((found[0].rule.as_str(), found[0].severity), ("io-errors", Severity::Error));
        assert_eq!(phrases(&found[0]), ["4 KiB randread, 1 × QD1, failed: 3"]);
        assert!(!record.is_complete());
        assert_eq!(limit_rules(|r| problem(r, 0, 1)), ["short-ios"]);
    }

    #[test]
    fn a_missed_wakeup_is_not_stated_as_fact() {
        let f = fires(&LOST_WAKEUPS, |r| {
            r.jobs[0].lost_wakeups = LostWakeups { count: 2, longest_ns: 1_500_000_000 };
        });
        assert!(f.summary.contains("the kernel may have missed a wake-up"), "{}", f.summary);
        assert_eq!(phrases(&f)[..2], ["interrupted waits: 2", "longest wait: 1.5 s"]);
        assert_eq!(f.confidence, Some(Confidence::Medium));
    }
}
