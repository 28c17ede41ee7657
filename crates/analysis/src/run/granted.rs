//! What was asked of the kernel and what it granted.

use super::{Job, facts_of, finding, jobs_where, named, sentence, targets_of};
use fathom_model::facts::DeviceFacts;
use fathom_model::finding::{Finding, Severity};
use fathom_model::plan::{Engine, JobPlan, Memory, Psync};
use fathom_model::record::{Granted, RunRecord};
use fathom_model::units;
use std::collections::BTreeSet;

/// Whether the job ran, so that something could be granted.
fn ran(job: &Job) -> bool {
    job.done.runtime_ns > 0
}

/// The devices of a job that have no polled queues: where they grant polling, nothing polls.
#[must_use]
pub fn unpolled<'a>(record: &'a RunRecord, job: &JobPlan) -> Vec<&'a DeviceFacts> {
    let targets = targets_of(job).into_iter();
    targets
        .filter_map(|target| facts_of(record, target)?.device.as_ref())
        .filter(|device| device.io_poll == Some(false))
        .collect()
}

/// Polling that was asked and did not happen: refused, or granted on a device without polled queues,
/// where some kernels quietly wait for interrupts.
pub(super) fn not_polled(record: &RunRecord) -> Option<Finding> {
    let unpolled = |job: &Job| unpolled(record, job.plan);
    let jobs = jobs_where(record, |job| {
        ran(job) && asks_polling(job) && (!job.done.granted.polled || !unpolled(job).is_empty())
    });
    if jobs.is_empty() {
        return None;
    }
    let names: BTreeSet<&str> =
        jobs.iter().flat_map(unpolled).map(|device| device.name.as_str()).collect();
    let mut evidence: Vec<String> =
        names.into_iter().map(|name| format!("{name} has no polled queues")).collect();
    let in_vain =
        jobs.iter().any(|job| job.plan.engine.is_synchronous() && !job.done.granted.polled);
    if in_vain {
        let kernel = &record.facts.host.kernel;
        evidence.push(format!("kernel {kernel}: since Linux 5.19 synchronous calls do not poll"));
    } else if evidence.is_empty() {
        evidence.push("polling was asked (hipri) and is not in force".to_string());
    }
    let summary =
        format!("{} asked to poll for completions, but nothing polled.", sentence(&named(&jobs)));
    let next = if in_vain {
        "use ioengine=io_uring on a device with polled queues, or leave hipri out"
    } else {
        "give the driver polled queues (nvme.poll_queues=N), or leave hipri out"
    };
    finding("not-polled", Severity::Warning, summary, evidence, next)
}

fn asks_polling(job: &Job) -> bool {
    let ring = job.plan.engine.uring().is_some_and(|ring| ring.iopoll);
    let call = Engine::Psync(Psync::VectoredFlags { hipri: true, nowait: false });
    let call_nowait = Engine::Psync(Psync::VectoredFlags { hipri: true, nowait: true });
    job.is_real() && (ring || job.plan.engine == call || job.plan.engine == call_nowait)
}

/// O_DIRECT that was asked and is not in force.
pub(super) fn direct_refused(record: &RunRecord) -> Option<Finding> {
    let jobs = jobs_where(record, |job| {
        let passthrough = matches!(job.plan.engine, Engine::IoUringCmd(_));
        ran(job) && job.is_real() && !passthrough && job.plan.direct && !job.done.granted.direct
    });
    if jobs.is_empty() {
        return None;
    }
    let summary = format!(
        "{} asked for direct I/O, but went through the page cache.",
        sentence(&named(&jobs))
    );
    let evidence = vec!["O_DIRECT is not in force".to_string()];
    finding(
        "direct-refused",
        Severity::Warning,
        summary,
        evidence,
        "use a file system that has direct I/O",
    )
}

/// Buffers that could not be registered because too little memory may be locked.
pub(super) fn memory_lock(record: &RunRecord) -> Option<Finding> {
    let limit = record.facts.host.memlock_limit_bytes?;
    let needed = |job: &Job| u64::from(job.plan.depth).saturating_mul(job.plan.block_max());
    let all: u64 =
        jobs_where(record, asks_registered).iter().map(needed).fold(0, u64::saturating_add);
    let jobs = jobs_where(record, |job| {
        ran(job) && asks_registered(job) && !job.done.granted.fixed_buffers
    });
    if jobs.is_empty() || all <= limit {
        return None;
    }
    let summary = format!(
        "{} ran without registered buffers, which cost more per I/O: RLIMIT_MEMLOCK is too small.",
        sentence(&named(&jobs))
    );
    let evidence = vec![format!(
        "buffers of {} in all, {} may be locked",
        units::bytes(all),
        units::bytes(limit)
    )];
    finding(
        "memory-lock",
        Severity::Warning,
        summary,
        evidence,
        "raise it: ulimit -l unlimited, or run as root",
    )
}

fn asks_registered(job: &Job) -> bool {
    job.is_real() && job.plan.engine.uring().is_some_and(|ring| ring.fixed_buffers)
}

/// Huge pages that were asked and not had.
pub(super) fn huge_pages(record: &RunRecord) -> Option<Finding> {
    let jobs = jobs_where(record, |job| {
        ran(job) && job.plan.buffers.memory == Memory::Huge && !job.done.granted.huge_pages
    });
    if jobs.is_empty() {
        return None;
    }
    let summary = format!("{} asked for huge pages and had none.", sentence(&named(&jobs)));
    let evidence = vec!["its buffers are in normal pages".to_string()];
    finding(
        "huge-pages",
        Severity::Warning,
        summary,
        evidence,
        "reserve some: sysctl vm.nr_hugepages=N",
    )
}

/// What was asked and could not be had.
pub(super) fn fallbacks(record: &RunRecord) -> Option<Finding> {
    let (jobs, words) = words(record, |granted| &granted.fallbacks)?;
    let summary = format!(
        "{} did not get all that was asked: {}.",
        sentence(&named(&jobs)),
        words[0].trim_end_matches('.')
    );
    finding("fallbacks", Severity::Warning, summary, words, "")
}

/// Setup flags that the kernel refused.
pub(super) fn refused_flags(record: &RunRecord) -> Option<Finding> {
    let (jobs, words) = words(record, |granted| &granted.refused_flags)?;
    let summary = format!(
        "The kernel refused the ring of {} the setup flags {}.",
        named(&jobs),
        words.join(", ")
    );
    // These change how I/O is done, not only what it costs.
    let meaningful = words.iter().any(|flag| flag == "SQPOLL" || flag == "IOPOLL");
    let severity = if meaningful { Severity::Warning } else { Severity::Info };
    let evidence = vec![format!("kernel {}", record.facts.host.kernel)];
    finding("refused-flags", severity, summary, evidence, "a newer kernel has them")
}

/// The jobs that have some of these words, and all words, each once.
fn words(
    record: &RunRecord,
    list: fn(&Granted) -> &Vec<String>,
) -> Option<(Vec<Job<'_>>, Vec<String>)> {
    let jobs = jobs_where(record, |job| !list(&job.done.granted).is_empty());
    let mut all: Vec<String> = Vec::new();
    for word in jobs.iter().flat_map(|job| list(&job.done.granted)) {
        if !all.contains(word) {
            all.push(word.clone());
        }
    }
    (!all.is_empty()).then_some((jobs, all))
}

/// Completions that the ring had no room for.
pub(super) fn overflow(record: &RunRecord) -> Option<Finding> {
    let jobs = jobs_where(record, |job| job.done.granted.overflows > 0);
    let total: u64 = jobs.iter().map(|job| job.done.granted.overflows).sum();
    if total == 0 {
        return None;
    }
    let summary = format!(
        "{} completions of {} overflowed the ring: their latencies contain the kernel's detour.",
        units::count(total as f64),
        named(&jobs)
    );
    finding("overflow", Severity::Warning, summary, vec![format!("{total} overflows")], "")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, silent};
    use super::*;
    use fathom_model::plan::Uring;

    #[test]
    fn polling_without_polled_queues() {
        let poll = |r: &mut RunRecord| {
            r.plan.jobs[0].engine = Engine::IoUring(Uring { iopoll: true, ..Uring::default() });
        };
        let f = fires(not_polled, |r| {
            poll(r);
            r.facts.targets[0].device.as_mut().unwrap().io_poll = Some(false);
        });
        assert_eq!(f.evidence, ["vda has no polled queues"]);
        let f = fires(not_polled, |r| {
            r.plan.jobs[0].engine =
                Engine::Psync(Psync::VectoredFlags { hipri: true, nowait: false });
        });
        assert!(f.evidence[0].contains("synchronous calls do not poll"), "{:?}", f.evidence);
        silent(not_polled, |r| {
            poll(r);
            r.jobs[0].granted.polled = true;
        });
        // Granted by the kernel, but there is nothing to poll.
        let f = fires(not_polled, |r| {
            poll(r);
            r.jobs[0].granted.polled = true;
            r.facts.targets[0].device.as_mut().unwrap().io_poll = Some(false);
        });
        assert_eq!(f.evidence, ["vda has no polled queues"]);
        silent(not_polled, |r| {
            poll(r);
            r.jobs[0].granted.polled = true;
            r.facts.targets[0].device.as_mut().unwrap().io_poll = Some(true);
        });
    }

    #[test]
    fn direct_that_is_not_in_force() {
        fires(direct_refused, |r| r.jobs[0].granted.direct = false);
        silent(direct_refused, |r| {
            r.jobs[0].granted.direct = false;
            r.plan.jobs[0].engine = Engine::Null;
        });
    }

    #[test]
    fn too_little_memory_may_be_locked() {
        let refuse = |limit: u64| {
            move |r: &mut RunRecord| {
                r.jobs[0].granted.fixed_buffers = false;
                r.facts.host.memlock_limit_bytes = Some(limit);
            }
        };
        let f = fires(memory_lock, refuse(64 << 10));
        assert_eq!(f.evidence, ["buffers of 128 KiB in all, 64 KiB may be locked"]);
        silent(memory_lock, refuse(8 << 20));
    }

    #[test]
    fn huge_pages_that_were_not_had() {
        fires(huge_pages, |r| r.plan.jobs[0].buffers.memory = Memory::Huge);
        silent(huge_pages, |r| {
            r.plan.jobs[0].buffers.memory = Memory::Huge;
            r.jobs[0].granted.huge_pages = true;
        });
    }

    #[test]
    fn words_are_told_once_and_flags_by_weight() {
        let f = fires(fallbacks, |r| {
            r.jobs[0].granted.fallbacks = vec!["no fsync. ".into(), "x".into()]
        });
        assert_eq!(f.evidence.len(), 2);
        let flags = |flag: &'static str| {
            move |r: &mut RunRecord| r.jobs[0].granted.refused_flags = vec![flag.into()]
        };
        assert_eq!(fires(refused_flags, flags("NO_SQARRAY")).severity, Severity::Info);
        assert_eq!(fires(refused_flags, flags("SQPOLL")).severity, Severity::Warning);
    }

    #[test]
    fn overflows_are_counted() {
        let f = fires(overflow, |r| r.jobs[0].granted.overflows = 3);
        assert!(f.summary.starts_with("3 completions of job a"));
    }
}
