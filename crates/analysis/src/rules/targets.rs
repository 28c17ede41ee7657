//! Whether targets are what one would take them for.

use super::jobs::{facts_of, jobs_where, named, targets_of};
#[cfg(test)]
use super::testing::Case;
use super::{Check, Claim, Rule, Target, cache, depth};
use fathom_model::experiment::ExperimentRecord;
use fathom_model::facts::{TargetFacts, TargetKind};
use fathom_model::finding::{Confidence, Evidence, Severity, Unit};
use fathom_model::limit::LimitRecord;
use fathom_model::record::RunRecord;
use fathom_model::{Dir, JobPlan, list, units};
use std::collections::BTreeSet;

/// A file with less than this share allocated is sparse. Compression and rounding explain more.
const ALLOCATED_MIN: f64 = 0.9;
/// Requests of the disks per I/O of an experiment below which another layer served some.
const DISK_IOS_MIN: f64 = 0.5;
/// Targets below this size may fit into a device's own cache.
const SMALL_BYTES: u64 = 1 << 30;
/// Models of virtual disks contain one of these.
const HYPERVISORS: [&str; 7] = ["QEMU", "VMware", "Virtual", "VBOX", "Amazon", "Google", "Msft"];

pub(super) static TARGET_CHANGED: Rule = Rule {
    id: "target-changed",
    meaning: "A target was deleted or truncated during the run.",
    threshold: || "Any such change.".into(),
    remedy: "Find out what else uses the target, then rerun",
    checks: &[Check::Run(target_changed)],
    #[cfg(test)]
    cases: &[Case::Run {
        holds: |r| r.jobs[0].target_changes = vec!["/data/file was deleted".into()],
        near_miss: |r| r.header.facts.targets[0].size_bytes += 1,
    }],
    ..Rule::DEFAULT
};

fn target_changed(record: &RunRecord) -> Option<Claim> {
    let with = jobs_where(record, |job| !job.done.target_changes.is_empty());
    let changes = with.iter().flat_map(|job| &job.done.target_changes);
    let changes = list::distinct(changes.map(String::as_str));
    let first = changes.first()?.trim_end_matches('.');
    let summary = format!("The target of {} changed during the run: {first}.", named(&with));
    let evidence = changes.iter().map(|change| Evidence::text("", *change)).collect();
    Some(Claim::new(summary, evidence))
}

/// Files with holes: reads of them never reach a disk.
pub(super) static SPARSE_TARGET: Rule = Rule {
    id: "sparse-target",
    meaning: "A file that was read has holes; reads of the holes never reach a disk.",
    threshold: || {
        format!(
            "Less than {:.0}% of the file is allocated (st_blocks), and neither this run nor its preparation \
             filled it; compression and rounding explain smaller differences. try, sweep: and the disks completed fewer than \
             {DISK_IOS_MIN} requests per I/O.",
            ALLOCATED_MIN * 100.0
        )
    },
    remedy: "Write the whole file before reading it, or use a block device",
    supersedes: &[&cache::CACHED_READS, &cache::DIRECT_READS_MISSING, &depth::DEVICE_DEPTH],
    checks: &[
        Check::Run(sparse_target),
        Check::Target(sparse_limit_target),
        Check::Experiment(sparse_experiment_target),
    ],
    #[cfg(test)]
    cases: &[
        Case::Run {
            holds: |r| r.header.facts.targets[0].allocated_bytes = 3 << 30,
            near_miss: |r| r.header.facts.targets[0].allocated_bytes = (4 << 30) / 100 * 91,
        },
        Case::Experiment {
            holds: |r| {
                r.header.facts.targets[0].allocated_bytes = 3 << 30;
                r.report.conditions[1].disk_requests_per_io = Some(0.4);
            },
            near_miss: |r| {
                r.header.facts.targets[0].allocated_bytes = 3 << 30;
                r.report.conditions[1].disk_requests_per_io = Some(0.6);
            },
        },
        Case::Limit {
            holds: |r| r.header.facts.targets[0].allocated_bytes = 3 << 30,
            near_miss: |r| r.header.facts.targets[0].allocated_bytes = (4 << 30) / 100 * 91,
        },
    ],
    ..Rule::DEFAULT
};

fn sparse_target(record: &RunRecord) -> Option<Claim> {
    let readers = jobs_where(record, |job| job.is_real() && job.bytes_read() > 0);
    let read: BTreeSet<usize> = readers.iter().flat_map(|job| targets_of(job.plan)).collect();
    let sparse: Vec<&TargetFacts> = read
        .into_iter()
        .filter(|target| !written_before(record, *target) && !filled_anew(record, *target))
        .filter_map(|target| facts_of(record, target))
        .filter(|facts| is_sparse(facts))
        .collect();
    sparse_claim(&sparse)
}

fn sparse_limit_target(target: &Target) -> Option<Claim> {
    is_sparse(target.facts).then(|| sparse_claim(&[target.facts]))?
}

/// Its variants may write: only where the disks did little.
fn sparse_experiment_target(record: &ExperimentRecord) -> Option<Claim> {
    let at_disks = record.report.conditions.iter().filter_map(|found| found.disk_requests_per_io);
    let is_served_elsewhere = at_disks.reduce(f64::min).is_some_and(|least| least < DISK_IOS_MIN);
    let sparse = record.header.facts.targets.iter().filter(|facts| is_sparse(facts));
    sparse_claim(&sparse.collect::<Vec<_>>()).filter(|_| is_served_elsewhere)
}

fn sparse_claim(sparse: &[&TargetFacts]) -> Option<Claim> {
    let first = sparse.first()?;
    let summary = format!(
        "{} is sparse: only {} of its {} are allocated, and reads of the holes never reach a disk.",
        first.path,
        units::bytes(first.allocated_bytes),
        units::bytes(first.size_bytes),
    );
    let allocation = |facts: &&TargetFacts| {
        let share = facts.allocated_bytes as f64 / facts.size_bytes as f64;
        Evidence::number(format!("{} allocated", facts.path), share, Unit::Share)
            .with_source("stat")
    };
    Some(Claim::new(summary, sparse.iter().take(4).map(allocation).collect()))
}

fn is_sparse(facts: &TargetFacts) -> bool {
    facts.kind == TargetKind::File
        && (facts.allocated_bytes as f64) < facts.size_bytes as f64 * ALLOCATED_MIN
}

/// Whether a job of an earlier wave than some reader's wrote to the target.
fn written_before(record: &RunRecord, target: usize) -> bool {
    let uses = |dir: Dir| {
        move |job: &&JobPlan| {
            job.access.mix.has(dir) && job.regions.iter().any(|region| region.target == target)
        }
    };
    let first_write = record.plan.jobs.iter().filter(uses(Dir::Write)).map(|job| job.wave).min();
    let last_read = record.plan.jobs.iter().filter(uses(Dir::Read)).map(|job| job.wave).max();
    first_write.is_some_and(|write| last_read.is_some_and(|read| write < read))
}

/// Whether the run itself extended the target and filled the extension, after the facts were taken.
fn filled_anew(record: &RunRecord, index: usize) -> bool {
    let (Some(target), Some(facts)) = (record.plan.targets.get(index), facts_of(record, index))
    else {
        return false;
    };
    target.fill && target.create_size.is_some_and(|size| size > facts.size_bytes)
}

pub(super) static IN_MEMORY: Rule = Rule {
    id: "in-memory",
    meaning: "A target is on a file system that keeps files in memory: no disk is measured.",
    threshold: || "The file system is tmpfs, ramfs or hugetlbfs.".into(),
    remedy: "Use a file on the disk to be measured",
    supersedes: &[&cache::DIRECT_READS_MISSING, &cache::BUFFERED, &cache::SMALLER_THAN_MEMORY],
    checks: &[Check::Run(in_memory)],
    #[cfg(test)]
    cases: &[Case::Run {
        holds: |r| r.header.facts.targets[0].file_system = Some("tmpfs".into()),
        near_miss: |r| r.header.facts.targets[0].file_system = Some("xfs".into()),
    }],
    ..Rule::DEFAULT
};

fn in_memory(record: &RunRecord) -> Option<Claim> {
    let used = jobs_where(record, |job| job.is_real());
    let targets: BTreeSet<usize> = used.iter().flat_map(|job| targets_of(job.plan)).collect();
    let facts = targets.into_iter().filter_map(|target| facts_of(record, target));
    let is_memory = |name: &str| matches!(name, "tmpfs" | "ramfs" | "hugetlbfs");
    let inside: Vec<(&TargetFacts, &str)> = facts
        .filter_map(|f| Some((f, f.file_system.as_deref().filter(|name| is_memory(name))?)))
        .collect();
    let (first, system) = inside.first()?;
    let summary =
        format!("{} is on {system}, which keeps files in memory: no disk is measured.", first.path);
    let evidence = inside.iter().take(4).map(|(facts, system)| {
        let name = format!("file system of {}", facts.path);
        Evidence::text(name, *system).with_source("/proc/self/mountinfo")
    });
    Some(Claim::new(summary, evidence.collect()))
}

pub(super) static SMALL_TARGET: Rule = Rule {
    id: "small-target",
    severity: Severity::Info,
    meaning: "A target is so small that the device's own cache may hold all of it.",
    threshold: || format!("Smaller than {}.", units::bytes(SMALL_BYTES)),
    remedy: "Use a larger target (--size for a scratch file)",
    checks: &[Check::Target(small_target)],
    #[cfg(test)]
    cases: &[Case::Limit {
        holds: |r| resize(r, SMALL_BYTES - 1),
        near_miss: |r| resize(r, SMALL_BYTES),
    }],
    ..Rule::DEFAULT
};

fn small_target(target: &Target) -> Option<Claim> {
    let size = target.facts.size_bytes;
    (size < SMALL_BYTES).then(|| {
        let name = &target.limit.name;
        let summary = format!("{name} is so small that the device's own cache may hold all of it.");
        let evidence = Evidence::number("size", size as f64, Unit::Bytes).with_source("stat");
        Claim::new(summary, vec![evidence])
    })
}

pub(super) static VIRTUAL_DISK: Rule = Rule {
    id: "virtual-disk",
    severity: Severity::Info,
    meaning: "The target is on a virtual disk: its limit may be a quota, and other guests may share its backing storage.",
    threshold: || {
        format!(
            "The device is named vd* or xvd*, or its model contains one of {}.",
            HYPERVISORS.join(", ")
        )
    },
    checks: &[Check::Target(virtual_disk)],
    #[cfg(test)]
    cases: &[Case::Limit {
        holds: |r| rename_disk(r, "vda"),
        near_miss: |r| rename_disk(r, "sda"),
    }],
    ..Rule::DEFAULT
};

fn virtual_disk(target: &Target) -> Option<Claim> {
    let device = target.facts.device.as_ref()?;
    let model = device.model.as_deref().unwrap_or_default();
    let by_name = device.name.starts_with("vd") || device.name.starts_with("xvd");
    if !by_name && !HYPERVISORS.iter().any(|name| model.contains(name)) {
        return None;
    }
    let summary = format!(
        "{} is on {}, a virtual disk: its limit may be a quota, and other guests may share its backing storage.",
        target.limit.name, device.name
    );
    let mut evidence = vec![Evidence::text("device", &device.name)];
    if !model.is_empty() {
        evidence.push(Evidence::text("model", model).with_source("/sys/block"));
    }
    Some(Claim::new(summary, evidence).confidence(Confidence::Medium))
}

pub(super) static SHARED_DISK: Rule = Rule {
    id: "shared-disk",
    meaning: "Two targets are on the same block device and share its limit.",
    threshold: || "The same kernel name.".into(),
    remedy: "Use one target per disk",
    checks: &[Check::Limit(shared_disk)],
    #[cfg(test)]
    cases: &[Case::Limit {
        holds: |r| second_target(r, "nvme0n1"),
        near_miss: |r| second_target(r, "nvme1n1"),
    }],
    ..Rule::DEFAULT
};

fn shared_disk(record: &LimitRecord) -> Option<Claim> {
    let targets = &record.header.facts.targets;
    let disk = |target: &TargetFacts| target.device.as_ref().map(|device| device.name.clone());
    let pairs: Vec<(&str, &str, String)> = targets
        .iter()
        .enumerate()
        .filter_map(|(n, second)| {
            let name = disk(second)?;
            let first = targets[..n].iter().find(|first| disk(first).as_ref() == Some(&name))?;
            Some((first.path.as_str(), second.path.as_str(), name))
        })
        .collect();
    let (first, second, name) = pairs.first()?;
    let summary =
        format!("{first} and {second} are on the same disk, {name}, and share its limit.");
    let evidence = pairs
        .iter()
        .map(|(first, second, name)| Evidence::text(name, format!("{first}, {second}")));
    Some(Claim::new(summary, evidence.collect()))
}

#[cfg(test)]
fn resize(record: &mut LimitRecord, bytes: u64) {
    let facts = &mut record.header.facts.targets[0];
    (facts.size_bytes, facts.allocated_bytes) = (bytes, bytes);
}

#[cfg(test)]
fn rename_disk(record: &mut LimitRecord, name: &str) {
    record.header.facts.targets[0].device.get_or_insert_default().name = name.into();
}

#[cfg(test)]
fn second_target(record: &mut LimitRecord, disk: &str) {
    let mut second = record.header.facts.targets[0].clone();
    second.path = "disk1".into();
    second.device.get_or_insert_default().name = disk.into();
    record.header.facts.targets.push(second);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{GIB, fires, limit_rules, phrases, silent};
    use super::*;
    use fathom_model::plan::Mix;

    #[test]
    fn changes_are_reported_once() {
        let f = fires(&TARGET_CHANGED, |r| {
            r.jobs.push(r.jobs[0].clone());
            r.plan.jobs.push(r.plan.jobs[0].clone());
            r.jobs
                .iter_mut()
                .for_each(|j| j.target_changes = vec!["/data/file was deleted".into()]);
        });
        assert_eq!(phrases(&f), ["/data/file was deleted"]);
    }

    #[test]
    fn sparse_files_that_were_filled_are_not_reported() {
        let hollow = |r: &mut RunRecord| r.header.facts.targets[0].allocated_bytes = 0;
        let f = fires(&SPARSE_TARGET, hollow);
        assert!(f.summary.contains("only 0 B of its 4 GiB"), "{}", f.summary);
        assert_eq!(phrases(&f), ["/data/file allocated: 0%"]);
        silent(&SPARSE_TARGET, |r| {
            hollow(r);
            let mut writer = r.plan.jobs[0].clone();
            writer.access.mix = Mix::Only(Dir::Write);
            r.plan.jobs[0].wave = 1;
            r.plan.jobs.push(writer);
            r.jobs.push(Default::default());
        });
        silent(&SPARSE_TARGET, |r| {
            hollow(r);
            r.plan.targets[0].fill = true;
            r.plan.targets[0].create_size = Some(8 * GIB);
        });
        silent(&SPARSE_TARGET, |r| r.header.facts.targets[0].kind = TargetKind::BlockDevice);
    }

    #[test]
    fn file_systems_in_memory() {
        let f = fires(&IN_MEMORY, |r| r.header.facts.targets[0].file_system = Some("tmpfs".into()));
        assert_eq!(
            f.summary,
            "/data/file is on tmpfs, which keeps files in memory: no disk is measured."
        );
    }

    #[test]
    fn small_and_virtual_disks_are_named() {
        let found = limit_rules(|r| {
            resize(r, 1 << 20);
            rename_disk(r, "vda");
        });
        assert_eq!(found, ["small-target", "virtual-disk"]);
    }
}
