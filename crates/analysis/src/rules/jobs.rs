//! Jobs, targets and disks of a run, as rules select and name them.

use crate::derive;
use fathom_model::facts::{HeldBy, TargetFacts};
use fathom_model::list;
use fathom_model::plan::JobPlan;
use fathom_model::record::{DiskRecord, JobRecord, RunRecord};

#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub plan: &'a JobPlan,
    pub done: &'a JobRecord,
}

impl Job<'_> {
    /// Whether it transfers data to or from files or devices.
    pub fn is_real(&self) -> bool {
        self.plan.engine.uses_files()
    }

    /// Whether the page cache may serve its I/Os, and disks count them; not so for commands to the device.
    pub fn is_of_blocks(&self) -> bool {
        self.is_real() && !self.plan.engine.is_passthrough()
    }

    /// Whether it started; otherwise no setup flag can be in effect.
    pub fn ran(&self) -> bool {
        self.done.runtime_ns > 0
    }

    pub fn bytes_read(&self) -> u64 {
        self.done.dirs.read.counts.bytes
    }

    pub fn bytes_written(&self) -> u64 {
        self.done.dirs.write.counts.bytes
    }
}

pub(super) fn jobs_where<'a>(record: &'a RunRecord, holds: impl Fn(&Job) -> bool) -> Vec<Job<'a>> {
    derive::jobs(record).map(|(plan, done)| Job { plan, done }).filter(|job| holds(job)).collect()
}

/// Names of jobs, each once: `job a`, `jobs a, b and 3 more`.
pub(super) fn named(jobs: &[Job]) -> String {
    listed("job", &list::distinct(jobs.iter().map(|job| job.plan.name.as_str())))
}

/// A few of `items` after the noun, in the plural where there are several.
pub(super) fn listed(noun: &str, items: &[&str]) -> String {
    const SHOWN: usize = 3;
    let plural = if items.len() == 1 { "" } else { "s" };
    format!("{noun}{plural} {}", list::few(items, SHOWN))
}

pub(super) fn facts_of(record: &RunRecord, index: usize) -> Option<&TargetFacts> {
    let path = &record.plan.targets.get(index)?.path;
    record.header.facts.targets.iter().find(|facts| facts.path == *path || facts.resolved == *path)
}

/// Whether a target is on `disk` or on a partition of it, as far as is known.
pub(super) fn is_on(record: &RunRecord, target: usize, disk: &DiskRecord) -> bool {
    facts_of(record, target).is_some_and(|facts| {
        facts.held_by == HeldBy::AnyDisk
            || facts.device_names().any(|name| is_same_or_partition(name, &disk.name))
    })
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
pub(super) fn targets_of(job: &JobPlan) -> Vec<usize> {
    list::ascending(job.regions.iter().map(|region| region.target))
}

/// `text` with its first letter as a capital.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_not_other_disks() {
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
