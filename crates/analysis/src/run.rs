//! What the record of `fathom run` means: every way known in which its figures could be taken
//! for something that they are not.
//!
//! One rule is one function: it looks at a record and says something, or nothing. A rule speaks
//! once for all jobs that it concerns.

mod depth;
mod granted;
mod host;
mod outcome;
mod targets;
#[cfg(test)]
mod testing;
mod watching;

pub use granted::unpolled;
pub use watching::TURNS_MIN;

use crate::derive;
use fathom_model::facts::TargetFacts;
use fathom_model::finding::{Finding, Severity};
use fathom_model::plan::{Engine, JobPlan};
use fathom_model::record::{DiskRecord, JobRecord, RunRecord};

/// A rule: what it has to say about a record, if anything.
type Rule = fn(&RunRecord) -> Option<Finding>;

/// All rules; those of equal severity are told in this order.
const RULES: &[Rule] = &[
    outcome::job_failed,
    outcome::interrupted,
    outcome::nothing_done,
    outcome::io_errors,
    outcome::short_ios,
    outcome::lost_wakeups,
    targets::target_changed,
    outcome::could_not_keep_up,
    targets::sparse_target,
    targets::cached_reads,
    targets::direct_reads_missing,
    targets::in_memory,
    granted::direct_refused,
    targets::unflushed_writes,
    targets::buffered,
    targets::smaller_than_memory,
    depth::synchronous_engine,
    depth::not_reached,
    depth::device_depth,
    granted::not_polled,
    granted::memory_lock,
    granted::huge_pages,
    granted::fallbacks,
    granted::overflow,
    outcome::noisy,
    host::busy_machine,
    host::slow_clock,
    granted::refused_flags,
    host::counting_slows,
    watching::watching_cost,
];

/// Findings that say all that another one would, and more: (the one that stays, the one that goes).
const SUPERSEDES: &[(&str, &str)] = &[
    ("sparse-target", "cached-reads"),
    ("sparse-target", "direct-reads-missing"),
    ("in-memory", "direct-reads-missing"),
    ("in-memory", "buffered"),
    ("in-memory", "smaller-than-memory"),
    ("cached-reads", "buffered"),
    ("cached-reads", "smaller-than-memory"),
    ("buffered", "smaller-than-memory"),
    ("cached-reads", "device-depth"),
    ("sparse-target", "device-depth"),
    ("direct-reads-missing", "device-depth"),
    ("job-failed", "nothing-done"),
    ("interrupted", "nothing-done"),
    ("memory-lock", "fallbacks"),
];

/// What `record` means, worst first.
#[must_use]
pub fn findings(record: &RunRecord) -> Vec<Finding> {
    let all: Vec<Finding> = RULES.iter().filter_map(|rule| rule(record)).collect();
    let told = |rule: &str| all.iter().any(|finding| finding.rule == rule);
    let superseded = |finding: &Finding| {
        SUPERSEDES.iter().any(|(stays, goes)| finding.rule == *goes && told(stays))
    };
    let mut kept: Vec<Finding> = all.iter().filter(|f| !superseded(f)).cloned().collect();
    kept.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    kept
}

/// Makes a finding; an empty `next_step` is none.
fn finding(
    rule: &str,
    severity: Severity,
    summary: String,
    evidence: Vec<String>,
    next_step: &str,
) -> Option<Finding> {
    let next_step = (!next_step.is_empty()).then(|| next_step.to_string());
    Some(Finding { rule: rule.to_string(), severity, summary, evidence, next_step })
}

/// A job's plan and what it did.
#[derive(Clone, Copy)]
struct Job<'a> {
    plan: &'a JobPlan,
    done: &'a JobRecord,
}

impl Job<'_> {
    /// Whether it works on files or devices at all.
    fn is_real(&self) -> bool {
        !matches!(self.plan.engine, Engine::Nop(_) | Engine::Null)
    }

    fn bytes_read(&self) -> u64 {
        self.done.dirs.read.counts.bytes
    }

    fn bytes_written(&self) -> u64 {
        self.done.dirs.write.counts.bytes
    }
}

/// The jobs for which `holds`.
fn jobs_where<'a>(record: &'a RunRecord, holds: impl Fn(&Job) -> bool) -> Vec<Job<'a>> {
    derive::jobs(record).map(|(plan, done)| Job { plan, done }).filter(|job| holds(job)).collect()
}

/// Names of jobs, each once: `job a`, `jobs a, b and 3 more`.
fn named(jobs: &[Job]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for job in jobs {
        if !names.contains(&job.plan.name.as_str()) {
            names.push(&job.plan.name);
        }
    }
    listed("job", &names)
}

/// A few of `items` after the noun, in the plural where there are several.
fn listed(noun: &str, items: &[&str]) -> String {
    const SHOWN: usize = 3;
    match items {
        [only] => format!("{noun} {only}"),
        _ if items.len() > SHOWN => {
            format!("{noun}s {} and {} more", items[..SHOWN].join(", "), items.len() - SHOWN)
        }
        _ => format!("{noun}s {}", items.join(", ")),
    }
}

/// What was known of target `index` when the run began.
fn facts_of(record: &RunRecord, index: usize) -> Option<&TargetFacts> {
    let path = &record.plan.targets.get(index)?.path;
    record.facts.targets.iter().find(|facts| facts.path == *path || facts.resolved == *path)
}

/// Whether a target is on `disk`, or on a partition of it.
fn is_on(record: &RunRecord, target: usize, disk: &DiskRecord) -> bool {
    let device = facts_of(record, target).and_then(|facts| facts.device.as_ref());
    device.is_some_and(|device| is_same_or_partition(&device.name, &disk.name))
}

/// Whether `name` is `disk` or a partition of it: `sda1` of `sda`, `nvme0n1p2` of `nvme0n1`.
fn is_same_or_partition(name: &str, disk: &str) -> bool {
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let number = match disk.ends_with(|last: char| last.is_ascii_digit()) {
        true => rest.strip_prefix('p'),
        false => Some(rest),
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    rest.is_empty() || number.is_some_and(is_number)
}

/// Indices of the targets that a job works on, each once.
fn targets_of(job: &JobPlan) -> Vec<usize> {
    let mut targets: Vec<usize> = job.regions.iter().map(|region| region.target).collect();
    targets.sort_unstable();
    targets.dedup();
    targets
}

/// A sentence's first letter as a capital.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::testing::{rule_names, run};
    use super::*;
    use fathom_model::record::JobError;

    #[test]
    fn a_plain_good_run_says_nothing() {
        assert_eq!(findings(&run()), []);
        assert_eq!(findings(&RunRecord::default()), []);
    }

    #[test]
    fn the_worst_comes_first_and_repetition_goes() {
        let mut record = run();
        record.facts.host.load_1min = 64.0;
        record.jobs[0].granted.refused_flags = vec!["NO_SQARRAY".into()];
        record.jobs[0].error = Some(JobError { errno: 5, message: "read failed".into() });
        record.facts.targets[0].allocated_bytes = 0;
        record.disks[0].sectors.read = 0;
        assert_eq!(
            rule_names(&record),
            ["job-failed", "sparse-target", "busy-machine", "refused-flags"]
        );
    }

    #[test]
    fn rules_that_supersede_exist() {
        let source = concat!(
            include_str!("run/depth.rs"),
            include_str!("run/granted.rs"),
            include_str!("run/outcome.rs"),
            include_str!("run/targets.rs")
        );
        for name in SUPERSEDES.iter().flat_map(|pair| [pair.0, pair.1]) {
            assert!(source.contains(&format!("\"{name}\"")), "no rule is named {name}");
        }
    }

    #[test]
    fn partitions_are_told_from_other_disks() {
        let of = |disk: &str, names: [&str; 4]| names.map(|name| is_same_or_partition(name, disk));
        assert_eq!(of("sda", ["sda", "sda12", "sdaa", "sdb"]), [true, true, false, false]);
        let nvme = ["nvme0n1", "nvme0n1p2", "nvme0n10", "nvme0n1p"];
        assert_eq!(of("nvme0n1", nvme), [true, true, false, false]);
    }

    #[test]
    fn names_are_few() {
        assert_eq!(listed("job", &["a"]), "job a");
        assert_eq!(listed("job", &["a", "b"]), "jobs a, b");
        assert_eq!(listed("job", &["a", "b", "c", "d", "e"]), "jobs a, b, c and 2 more");
        assert_eq!(sentence("job a"), "Job a");
    }
}
