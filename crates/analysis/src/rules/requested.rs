//! What was requested of the kernel, and what took effect.

use super::jobs::{Job, facts_of, jobs_where, named, sentence, targets_of};
use super::limiters::View;
#[cfg(test)]
use super::testing::Case;
use super::{Check, Claim, Rule};
use crate::derive::{ios as ios_of, per_second};
use crate::machine::DiskRates;
use fathom_model::facts::DeviceFacts;
use fathom_model::finding::{Class, Evidence, Severity, Subject, Unit};
use fathom_model::plan::{Engine, JobPlan, Psync};
use fathom_model::record::{InEffect, RunRecord};
use fathom_model::{list, units};
use std::collections::BTreeSet;

/// The devices of a job that have no polled queues: where they accept polling, nothing polls.
pub fn unpolled<'a>(record: &'a RunRecord, job: &JobPlan) -> Vec<&'a DeviceFacts> {
    let targets = targets_of(job).into_iter();
    targets
        .filter_map(|target| facts_of(record, target)?.device.as_ref())
        .filter(|device| device.io_poll == Some(false))
        .collect()
}

pub(super) static NOT_POLLED: Rule = Rule {
    id: "not-polled",
    meaning: "Polling was requested (hipri), but completions were not polled.",
    threshold: || {
        "The kernel refused polling, or accepted it on a device without polled queues, where some kernels silently wait \
         for interrupts; or the device, which has polled queues, interrupted for every second I/O or more, where those who poll \
         did 80% of its I/Os."
            .into()
    },
    remedy: "Load the driver with polled queues (nvme.poll_queues=N), or omit hipri",
    checks: &[Check::Run(not_polled), Check::View(interrupted)],
    #[cfg(test)]
    cases: &[
        Case::Run { holds: |r| poll(r, false), near_miss: |r| poll(r, true) },
        Case::View {
            holds: |s| s.polls_with_interrupts(9_000),
            near_miss: |s| s.polls_with_interrupts(400),
            summary: "Job a requested polling, but vda completed by interrupts: 9k interrupts/s for 10k I/Os/s.",
        },
        Case::View {
            holds: |s| s.ring_with_interrupts(1, 9_000),
            // It does not poll.
            near_miss: |s| s.ring_with_interrupts(0, 9_000),
            summary: "fio requested polling, but vda completed by interrupts: 9k interrupts/s for 10k I/Os/s.",
        },
    ],
    ..Rule::DEFAULT
};

fn not_polled(record: &RunRecord) -> Option<Claim> {
    let unpolled = |job: &Job| unpolled(record, job.plan);
    let jobs = jobs_where(record, |job| {
        job.ran()
            && requests_polling(job)
            && (!job.done.granted.polled || !unpolled(job).is_empty())
    });
    if jobs.is_empty() {
        return None;
    }
    let names: BTreeSet<&str> =
        jobs.iter().flat_map(unpolled).map(|device| device.name.as_str()).collect();
    let none = |name: &str| {
        Evidence::text(format!("polled queues of {name}"), "none").with_source("queue/io_poll")
    };
    let mut evidence: Vec<Evidence> = names.into_iter().map(none).collect();
    let by_call =
        jobs.iter().any(|job| job.plan.engine.is_synchronous() && !job.done.granted.polled);
    if jobs.iter().all(|job| matches!(job.plan.engine, Engine::Sg(_))) {
        evidence
            .push(Evidence::text("ioengine=sg", "the kernel's SCSI drivers ignore the request"));
    } else if by_call {
        let name = format!("kernel {}", record.header.facts.host.kernel);
        evidence.push(Evidence::text(name, "synchronous calls do not poll since Linux 5.19"));
    } else if evidence.is_empty() {
        evidence.push(Evidence::text("polling (hipri)", "not in effect"));
    }
    let summary =
        format!("{} requested polling, but completions were not polled.", sentence(&named(&jobs)));
    let claim = Claim::new(summary, evidence);
    if by_call {
        let remedy = "Use ioengine=io_uring on a device with polled queues, or omit hipri";
        return Some(claim.remedy(remedy));
    }
    Some(claim)
}

/// I/Os per second below which interrupts may be those of other programs.
const POLLED_MIN: f64 = 1000.0;
/// Interrupts for each I/O of the device, and the part of its I/Os that is the jobs'.
const INTERRUPTS_MIN: f64 = 0.5;
const OWN_MIN: f64 = 0.8;

/// IORING_SETUP_IOPOLL.
const IOPOLL: u32 = 1;

/// The kernel accepted polling, on a device with polled queues, but interrupts arrived.
fn interrupted(view: &View) -> Option<Claim> {
    let disk = view.disk()?;
    let ios = disk.read.ios + disk.write.ios;
    let (who, own) = match view.is_run() {
        true => polling_jobs(view.record, disk)?,
        false => polling_program(view, disk)?,
    };
    let interrupts: f64 = view.interrupts_of(&disk.name).iter().map(|(_, rate)| rate).sum();
    if ios < POLLED_MIN || own < OWN_MIN || interrupts < ios * INTERRUPTS_MIN {
        return None;
    }
    let summary = format!(
        "{who} requested polling, but {} completed by interrupts: {} interrupts/s for {} I/Os/s.",
        disk.name,
        units::count(interrupts),
        units::count(ios)
    );
    let interrupts = Evidence::number("interrupts per second", interrupts, Unit::Count);
    let claim = Claim::new(summary, vec![interrupts.with_source("/proc/interrupts")]);
    Some(claim.about(Subject::device(&disk.name)))
}

/// The jobs that poll this disk, which has polled queues, and the part of its I/Os that is theirs.
fn polling_jobs(record: &RunRecord, disk: &DiskRates) -> Option<(String, f64)> {
    let on_disk = |job: &Job| {
        let facts = targets_of(job.plan).into_iter().filter_map(|t| facts_of(record, t));
        facts.flat_map(|facts| &facts.device).any(|device| device.name == disk.name)
    };
    let jobs = jobs_where(record, |job| {
        job.ran() && requests_polling(job) && job.done.granted.polled && on_disk(job)
    });
    if jobs.is_empty() || jobs.iter().any(|job| !unpolled(record, job.plan).is_empty()) {
        return None;
    }
    let own: f64 = jobs.iter().map(|job| per_second(ios_of(job.done), job.done.runtime_ns)).sum();
    Some((sentence(&named(&jobs)), own / (disk.read.ios + disk.write.ios).max(1.0)))
}

/// The same of a watched program, with the part of the disk's bytes.
fn polling_program(view: &View, disk: &DiskRates) -> Option<(String, f64)> {
    let rings = view.seen.last().rings.iter().flat_map(|all| &all.rings);
    let polls = rings.filter_map(|ring| ring.setup_flags).any(|flags| flags & IOPOLL != 0);
    let processes = &view.seen.processes;
    let own = processes.per_second(processes.watched.disk_bytes());
    let all = (disk.read.bytes + disk.write.bytes).max(1.0);
    (polls && view.is_own).then(|| (view.subject().to_string(), own / all))
}

fn requests_polling(job: &Job) -> bool {
    let ring = job.plan.engine.uring().is_some_and(|ring| ring.iopoll);
    let call = Engine::Psync(Psync::VectoredFlags { hipri: true, nowait: false });
    let call_nowait = Engine::Psync(Psync::VectoredFlags { hipri: true, nowait: true });
    let scsi = matches!(job.plan.engine, Engine::Sg(commands) if commands.hipri);
    job.is_real() && (ring || scsi || job.plan.engine == call || job.plan.engine == call_nowait)
}

pub(super) static DIRECT_REFUSED: Rule = Rule {
    id: "direct-refused",
    meaning: "Direct I/O was requested, but O_DIRECT is not in effect: I/O went through the page cache.",
    threshold: || "The file system refused O_DIRECT, or the engine is mmap.".into(),
    remedy: "Use a file system that supports O_DIRECT",
    checks: &[Check::Run(direct_refused)],
    #[cfg(test)]
    cases: &[Case::Run {
        holds: |r| r.jobs[0].granted.direct = false,
        near_miss: |r| {
            r.jobs[0].granted.direct = false;
            r.plan.jobs[0].engine = Engine::Null;
        },
    }],
    ..Rule::DEFAULT
};

fn direct_refused(record: &RunRecord) -> Option<Claim> {
    let jobs = jobs_where(record, |job| {
        let passthrough = job.plan.engine.is_passthrough();
        job.ran() && job.is_real() && !passthrough && job.plan.direct && !job.done.granted.direct
    });
    if jobs.is_empty() {
        return None;
    }
    let summary =
        format!("{} requested direct I/O, but used the page cache.", sentence(&named(&jobs)));
    if jobs.iter().all(|job| job.plan.engine == Engine::Mmap) {
        let why = "a memory mapping is of the page cache";
        let claim = Claim::new(summary, vec![Evidence::text("ioengine=mmap", why)]);
        return Some(claim.remedy("Use ioengine=io_uring or psync, or remove direct=1"));
    }
    Some(Claim::new(summary, vec![Evidence::text("O_DIRECT", "not in effect")]))
}

pub(super) static MEMORY_LOCK: Rule = Rule {
    id: "memory-lock",
    limits: "",
    class: Class::Advice,
    severity: Severity::Warning,
    meaning: "Buffers were not registered, which raises the CPU time per I/O: RLIMIT_MEMLOCK is too low.",
    threshold: || {
        "Registration failed, and iodepth × block size over all jobs exceeds RLIMIT_MEMLOCK.".into()
    },
    remedy: "Raise the limit (`ulimit -l unlimited`), or run as root",
    supersedes: &[&FALLBACKS],
    confirmation: None,
    checks: &[Check::Run(memory_lock)],
    #[cfg(test)]
    cases: &[Case::Run { holds: |r| lock(r, 64 << 10), near_miss: |r| lock(r, 128 << 10) }],
};

fn memory_lock(record: &RunRecord) -> Option<Claim> {
    let limit = record.header.facts.host.memlock_limit_bytes?;
    let needed = |job: &Job| u64::from(job.plan.depth).saturating_mul(job.plan.block_max());
    let all: u64 =
        jobs_where(record, requests_registered).iter().map(needed).fold(0, u64::saturating_add);
    let jobs = jobs_where(record, |job| {
        job.ran() && requests_registered(job) && !job.done.granted.fixed_buffers
    });
    if jobs.is_empty() || all <= limit {
        return None;
    }
    let summary = format!(
        "{} ran without registered buffers, which raises the CPU time per I/O: RLIMIT_MEMLOCK is too low.",
        sentence(&named(&jobs))
    );
    let evidence = vec![
        Evidence::number("buffers of all jobs", all as f64, Unit::Bytes),
        Evidence::number("RLIMIT_MEMLOCK", limit as f64, Unit::Bytes).with_source("getrlimit"),
    ];
    Some(Claim::new(summary, evidence))
}

fn requests_registered(job: &Job) -> bool {
    job.is_real() && job.plan.engine.uring().is_some_and(|ring| ring.fixed_buffers)
}

pub(super) static FALLBACKS: Rule = Rule {
    id: "fallbacks",
    class: Class::Advice,
    meaning: "A requested option is not in effect; the run continued without it.",
    threshold: || "Any such fallback; the finding quotes it.".into(),
    checks: &[Check::Run(fallbacks)],
    #[cfg(test)]
    cases: &[Case::Run {
        holds: |r| r.jobs[0].granted.fallbacks = vec!["no fsync.".into()],
        near_miss: |r| r.jobs[0].granted.refused_flags = vec!["SQPOLL".into()],
    }],
    ..Rule::DEFAULT
};

fn fallbacks(record: &RunRecord) -> Option<Claim> {
    let (jobs, phrases) = distinct(record, |granted| &granted.fallbacks)?;
    let summary = format!(
        "Not everything that {} requested is in effect: {}.",
        named(&jobs),
        phrases[0].trim().trim_end_matches('.')
    );
    Some(Claim::new(summary, phrases.iter().map(|text| Evidence::text("", *text)).collect()))
}

pub(super) static REFUSED_FLAGS: Rule = Rule {
    id: "refused-flags",
    limits: "",
    class: Class::Advice,
    severity: Severity::Info,
    meaning: "The kernel rejected io_uring setup flags; the ring works without them, at a higher cost per I/O.",
    threshold: || {
        "Any rejected flag; a warning for SQPOLL and IOPOLL, which change how I/O is done, not only its cost.".into()
    },
    remedy: "Use a kernel that supports them",
    supersedes: &[],
    confirmation: None,
    checks: &[Check::Run(refused_flags)],
    #[cfg(test)]
    cases: &[Case::Run {
        holds: |r| r.jobs[0].granted.refused_flags = vec!["NO_SQARRAY".into()],
        near_miss: |r| r.jobs[0].granted.setup_flags = vec!["NO_SQARRAY".into()],
    }],
};

fn refused_flags(record: &RunRecord) -> Option<Claim> {
    let (jobs, flags) = distinct(record, |granted| &granted.refused_flags)?;
    let summary = format!(
        "The kernel rejected io_uring setup flags of {}: {}.",
        named(&jobs),
        flags.join(", ")
    );
    let kernel = Evidence::text("kernel", &record.header.facts.host.kernel).with_source("uname");
    let claim = Claim::new(summary, vec![kernel]);
    let meaningful = flags.iter().any(|flag| *flag == "SQPOLL" || *flag == "IOPOLL");
    Some(if meaningful { claim.severity(Severity::Warning) } else { claim })
}

/// The jobs that have some of these phrases, and all phrases, each once.
fn distinct(
    record: &RunRecord,
    phrases: fn(&InEffect) -> &Vec<String>,
) -> Option<(Vec<Job<'_>>, Vec<&str>)> {
    let jobs = jobs_where(record, |job| !phrases(&job.done.granted).is_empty());
    let phrases = jobs.iter().flat_map(|job| phrases(&job.done.granted));
    let all = list::distinct(phrases.map(String::as_str));
    (!all.is_empty()).then_some((jobs, all))
}

/// Polling that the kernel accepted, on a device with or without polled queues.
#[cfg(test)]
fn poll(record: &mut RunRecord, has_queues: bool) {
    let ring = fathom_model::plan::Uring { iopoll: true, ..Default::default() };
    record.plan.jobs[0].engine = Engine::IoUring(ring);
    record.jobs[0].granted.polled = true;
    record.header.facts.targets[0].device.get_or_insert_default().io_poll = Some(has_queues);
}

/// Registration that failed under a limit.
#[cfg(test)]
fn lock(record: &mut RunRecord, limit: u64) {
    record.jobs[0].granted.fixed_buffers = false;
    record.header.facts.host.memlock_limit_bytes = Some(limit);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, phrases};
    use super::*;
    use fathom_model::plan::ScsiCommands;

    #[test]
    fn polling_without_polled_queues() {
        let f = fires(&NOT_POLLED, |r| poll(r, false));
        assert_eq!(phrases(&f), ["polled queues of vda: none"]);
        let f = fires(&NOT_POLLED, |r| {
            r.header.facts.host.kernel = "6.1".into();
            r.plan.jobs[0].engine =
                Engine::Psync(Psync::VectoredFlags { hipri: true, nowait: false });
        });
        assert_eq!(phrases(&f), ["kernel 6.1: synchronous calls do not poll since Linux 5.19"]);
        let f = fires(&NOT_POLLED, |r| {
            let commands = ScsiCommands { hipri: true, ..ScsiCommands::default() };
            r.plan.jobs[0].engine = Engine::Sg(commands);
        });
        assert_eq!(phrases(&f), ["ioengine=sg: the kernel's SCSI drivers ignore the request"]);
    }

    #[test]
    fn too_little_memory_may_be_locked() {
        let f = fires(&MEMORY_LOCK, |r| lock(r, 64 << 10));
        assert_eq!(phrases(&f), ["buffers of all jobs: 128 KiB", "RLIMIT_MEMLOCK: 64 KiB"]);
    }

    #[test]
    fn phrases_appear_once_and_flags_by_weight() {
        let f = fires(&FALLBACKS, |r| {
            r.jobs[0].granted.fallbacks = vec!["no fsync. ".into(), "x".into(), "x".into()]
        });
        assert_eq!((f.evidence.len(), f.summary.ends_with("no fsync.")), (2, true));
        let f = fires(&REFUSED_FLAGS, |r| r.jobs[0].granted.refused_flags = vec!["SQPOLL".into()]);
        assert_eq!(f.severity, Severity::Warning);
    }
}
