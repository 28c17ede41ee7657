//! Whether the I/O reached the target, and the target was what one would take it for.

use super::{Job, facts_of, finding, is_on, jobs_where, listed, named, sentence, targets_of};
use crate::derive::percent;
use fathom_model::facts::{TargetFacts, TargetKind};
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::{DiskRecord, RunRecord};
use fathom_model::{Dir, units};
use std::collections::BTreeSet;

/// /proc/diskstats counts in sectors of this many bytes.
const SECTOR: u64 = 512;
/// A file with less than this share allocated is sparse. Compression and rounding explain more.
const ALLOCATED_SHARE: f64 = 0.9;
/// A disk that moved less than this share of what the jobs moved did not do the work.
const DISK_SHARE: f64 = 0.5;
/// Less than this was moved: too little to judge, in bytes.
const JUDGED_BYTES: u64 = 1 << 20;

/// Targets that were deleted or truncated in mid-run.
pub(super) fn target_changed(record: &RunRecord) -> Option<Finding> {
    let with = jobs_where(record, |job| !job.done.target_changes.is_empty());
    let mut changes: Vec<String> = Vec::new();
    for change in with.iter().flat_map(|job| &job.done.target_changes) {
        if !changes.contains(change) {
            changes.push(change.clone());
        }
    }
    if changes.is_empty() {
        return None;
    }
    let summary = format!(
        "The target of {} changed while it ran: {}.",
        named(&with),
        changes[0].trim_end_matches('.')
    );
    finding(
        "target-changed",
        Severity::Warning,
        summary,
        changes,
        "find out who else uses the target, then run again",
    )
}

/// Reads of holes: no disk is asked.
pub(super) fn sparse_target(record: &RunRecord) -> Option<Finding> {
    let readers = jobs_where(record, |job| job.is_real() && job.bytes_read() > 0);
    let read: BTreeSet<usize> = readers.iter().flat_map(|job| targets_of(job.plan)).collect();
    let sparse: Vec<&TargetFacts> = read
        .into_iter()
        .filter(|target| !written_before(record, *target) && !filled_anew(record, *target))
        .filter_map(|target| facts_of(record, target))
        .filter(|facts| facts.kind == TargetKind::File && is_sparse(facts))
        .collect();
    let first = sparse.first()?;
    let summary = format!(
        "Most reads of {} never reached a disk: only {} of its {} are allocated.",
        first.path,
        units::bytes(first.allocated_bytes),
        units::bytes(first.size_bytes),
    );
    let allocation = |facts: &&TargetFacts| {
        let share = percent(facts.allocated_bytes as f64, facts.size_bytes as f64);
        format!("{}: {share} allocated", facts.path)
    };
    let evidence = sparse.iter().take(4).map(allocation).collect();
    finding(
        "sparse-target",
        Severity::Warning,
        summary,
        evidence,
        "write the whole file before reading it",
    )
}

fn is_sparse(facts: &TargetFacts) -> bool {
    (facts.allocated_bytes as f64) < facts.size_bytes as f64 * ALLOCATED_SHARE
}

/// Whether a job of an earlier wave than some reader's wrote to the target.
fn written_before(record: &RunRecord, target: usize) -> bool {
    let uses = |dir: Dir| {
        move |job: &&fathom_model::JobPlan| {
            job.access.mix.has(dir) && job.regions.iter().any(|region| region.target == target)
        }
    };
    let first_write = record.plan.jobs.iter().filter(uses(Dir::Write)).map(|job| job.wave).min();
    let last_read = record.plan.jobs.iter().filter(uses(Dir::Read)).map(|job| job.wave).max();
    first_write.is_some_and(|write| last_read.is_some_and(|read| write < read))
}

/// Whether the run itself lengthened the target and filled what is new, after the facts were taken.
fn filled_anew(record: &RunRecord, index: usize) -> bool {
    let (Some(target), Some(facts)) = (record.plan.targets.get(index), facts_of(record, index))
    else {
        return false;
    };
    target.fill && target.create_size.is_some_and(|size| size > facts.size_bytes)
}

/// Bytes that the disks below the targets moved in one direction.
///
/// Where disks are stacked, the upper ones and those below them are in the record; only those
/// that the targets are on directly count, so that nothing counts twice.
fn disk_bytes(record: &RunRecord, dir: Dir) -> u64 {
    let targets = 0..record.plan.targets.len();
    let is_direct = |disk: &&DiskRecord| targets.clone().any(|target| is_on(record, target, disk));
    let direct: Vec<&DiskRecord> = record.disks.iter().filter(is_direct).collect();
    let counted = if direct.is_empty() { record.disks.iter().collect() } else { direct };
    counted.iter().map(|disk| disk.sectors[dir].saturating_mul(SECTOR)).fold(0, u64::saturating_add)
}

/// Bytes that jobs moved in one direction, with and without O_DIRECT.
fn job_bytes(record: &RunRecord, dir: Dir) -> (u64, u64) {
    let sum = |direct: bool| {
        jobs_where(record, |job| job.is_real() && job.done.granted.direct == direct)
            .iter()
            .map(|job| job.done.dirs[dir].counts.bytes)
            .sum()
    };
    (sum(true), sum(false))
}

fn moved_evidence(jobs: u64, disks: u64, record: &RunRecord, verb: &str) -> Vec<String> {
    let names: Vec<&str> = record.disks.iter().map(|disk| disk.name.as_str()).collect();
    vec![
        format!("the jobs {verb} {}", units::bytes(jobs)),
        format!("{} {verb} {}", listed("disk", &names), units::bytes(disks)),
    ]
}

/// Buffered reads that were answered from the page cache.
pub(super) fn cached_reads(record: &RunRecord) -> Option<Finding> {
    let (direct, buffered) = job_bytes(record, Dir::Read);
    let disks = disk_bytes(record, Dir::Read);
    let for_buffered = disks.saturating_sub(direct);
    if record.disks.is_empty()
        || buffered < JUDGED_BYTES
        || for_buffered as f64 >= buffered as f64 * DISK_SHARE
    {
        return None;
    }
    let cached = (buffered - for_buffered) as f64;
    let summary = format!(
        "{} of the buffered reads came from the page cache, not from the disk.",
        percent(cached, buffered as f64)
    );
    let evidence = moved_evidence(direct + buffered, disks, record, "read");
    let next = "set direct=1, or read more than fits into memory";
    finding("cached-reads", Severity::Warning, summary, evidence, next)
}

/// Reads with O_DIRECT of which the disk saw little.
pub(super) fn direct_reads_missing(record: &RunRecord) -> Option<Finding> {
    let (direct, buffered) = job_bytes(record, Dir::Read);
    let disks = disk_bytes(record, Dir::Read);
    if record.disks.is_empty()
        || direct < JUDGED_BYTES
        || buffered > 0
        || disks as f64 >= direct as f64 * DISK_SHARE
    {
        return None;
    }
    let summary = format!(
        "The disk saw only {} of the bytes read, although O_DIRECT was in force: something before it answers.",
        percent(disks as f64, direct as f64)
    );
    let evidence = moved_evidence(direct, disks, record, "read");
    let next = "check for holes, compression, or a file system or device that caches";
    finding("direct-reads-missing", Severity::Warning, summary, evidence, next)
}

/// Targets on file systems that live in memory.
pub(super) fn in_memory(record: &RunRecord) -> Option<Finding> {
    let used = jobs_where(record, |job| job.is_real());
    let targets: BTreeSet<usize> = used.iter().flat_map(|job| targets_of(job.plan)).collect();
    let facts = targets.into_iter().filter_map(|target| facts_of(record, target));
    let is_memory = |name: &str| matches!(name, "tmpfs" | "ramfs" | "hugetlbfs");
    let inside: Vec<&TargetFacts> =
        facts.filter(|f| f.file_system.as_deref().is_some_and(is_memory)).collect();
    let first = inside.first()?;
    let system = first.file_system.as_deref().unwrap_or_default();
    let summary = format!("{} is in memory ({system}): no disk is measured.", first.path);
    let evidence = inside.iter().take(4).map(|f| format!("{} is on {system}", f.path)).collect();
    finding(
        "in-memory",
        Severity::Warning,
        summary,
        evidence,
        "name a file on the disk that you mean",
    )
}

/// Buffered writes that had not reached the disk at the end.
pub(super) fn unflushed_writes(record: &RunRecord) -> Option<Finding> {
    let (direct, buffered) = job_bytes(record, Dir::Write);
    let disks = disk_bytes(record, Dir::Write);
    let for_buffered = disks.saturating_sub(direct);
    if record.disks.is_empty()
        || buffered < JUDGED_BYTES
        || for_buffered as f64 >= buffered as f64 * DISK_SHARE
    {
        return None;
    }
    let summary = format!(
        "{} of the buffered writes had not reached the disk when the run ended: their rate is that of memory.",
        percent((buffered - for_buffered) as f64, buffered as f64)
    );
    let evidence = moved_evidence(direct + buffered, disks, record, "wrote");
    finding(
        "unflushed-writes",
        Severity::Warning,
        summary,
        evidence,
        "set direct=1, or end_fsync=1 and count its time",
    )
}

fn is_buffered(job: &Job) -> bool {
    job.is_real() && !job.plan.direct && job.bytes_read() + job.bytes_written() > 0
}

/// Jobs that nobody asked to go through the page cache.
pub(super) fn buffered(record: &RunRecord) -> Option<Finding> {
    let told = |job: &Job, key: &str| {
        job.plan.options.contains_key(key) || record.plan.global_options.contains_key(key)
    };
    let unaware = jobs_where(record, |job| {
        is_buffered(job) && !told(job, "direct") && !told(job, "buffered")
    });
    if unaware.is_empty() {
        return None;
    }
    let summary = format!(
        "{} went through the page cache: its figures are those of memory and disk together.",
        sentence(&named(&unaware))
    );
    let evidence = vec!["neither direct nor buffered is set; the default is buffered".to_string()];
    let next = "set direct=1 to measure the disk, or buffered=1 if the cache is meant";
    finding("buffered", Severity::Warning, summary, evidence, next)
}

/// Buffered work on targets that the page cache can hold whole.
pub(super) fn smaller_than_memory(record: &RunRecord) -> Option<Finding> {
    let jobs = jobs_where(record, is_buffered);
    let host = &record.facts.host;
    let memory =
        host.cgroup_memory_max_bytes.map_or(host.memory_bytes, |m| m.min(host.memory_bytes));
    let targets: BTreeSet<usize> = jobs.iter().flat_map(|job| targets_of(job.plan)).collect();
    let size = |target: usize| {
        let regions = jobs.iter().flat_map(|job| &job.plan.regions);
        let ends = regions.filter(|r| r.target == target).map(|r| r.start.saturating_add(r.len));
        ends.max().unwrap_or(0)
    };
    let total = targets.into_iter().map(size).fold(0, u64::saturating_add);
    if total == 0 || total >= memory {
        return None;
    }
    let summary = format!(
        "{} worked on {} through the page cache, which may hold it whole: memory is {}.",
        sentence(&named(&jobs)),
        units::bytes(total),
        units::bytes(memory)
    );
    let evidence = vec![format!("{} of memory", percent(total as f64, memory as f64))];
    let next = "set direct=1, or a size of twice the memory";
    finding("smaller-than-memory", Severity::Warning, summary, evidence, next)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{GIB, IOS, fires, make_buffered, make_writing, silent};
    use super::*;
    use fathom_model::plan::Mix;

    #[test]
    fn changes_are_told_once() {
        let f = fires(target_changed, |r| {
            r.jobs.push(r.jobs[0].clone());
            r.plan.jobs.push(r.plan.jobs[0].clone());
            r.jobs
                .iter_mut()
                .for_each(|j| j.target_changes = vec!["/data/file was deleted".into()]);
        });
        assert_eq!(f.evidence, ["/data/file was deleted"]);
    }

    #[test]
    fn sparse_files_are_told_unless_they_were_filled() {
        let hollow = |r: &mut RunRecord| r.facts.targets[0].allocated_bytes = 0;
        let f = fires(sparse_target, hollow);
        assert!(f.summary.contains("only 0 B of its 4 GiB"), "{}", f.summary);
        assert_eq!(f.evidence, ["/data/file: 0% allocated"]);
        silent(sparse_target, |r| {
            hollow(r);
            let mut writer = r.plan.jobs[0].clone();
            writer.access.mix = Mix::Only(Dir::Write);
            r.plan.jobs[0].wave = 1;
            r.plan.jobs.push(writer);
            r.jobs.push(Default::default());
        });
        silent(sparse_target, |r| {
            hollow(r);
            r.plan.targets[0].fill = true;
            r.plan.targets[0].create_size = Some(8 * GIB);
        });
        silent(sparse_target, |r| r.facts.targets[0].kind = TargetKind::BlockDevice);
    }

    #[test]
    fn reads_from_the_cache() {
        let f = fires(cached_reads, |r| {
            make_buffered(r);
            r.disks[0].sectors.read = IOS * 8 / 100;
        });
        assert!(f.summary.starts_with("99% of the buffered reads"), "{}", f.summary);
        assert_eq!(f.evidence, ["the jobs read 3.81 GiB", "disk vda read 39.1 MiB"]);
        silent(cached_reads, make_buffered);
        fires(cached_reads, |r| {
            make_buffered(r);
            // A disk below vda saw the same reads: they must not count twice.
            r.disks[0].sectors.read = IOS * 8 / 3;
            r.disks.push(DiskRecord { name: "sda".into(), ..r.disks[0].clone() });
        });
        silent(cached_reads, |r| {
            make_buffered(r);
            r.disks.clear();
        });
    }

    #[test]
    fn direct_reads_that_no_disk_saw() {
        let f = fires(direct_reads_missing, |r| r.disks[0].sectors.read = 0);
        assert!(f.summary.contains("only 0% of the bytes"), "{}", f.summary);
        silent(direct_reads_missing, |r| r.disks.clear());
    }

    #[test]
    fn file_systems_in_memory() {
        let f = fires(in_memory, |r| r.facts.targets[0].file_system = Some("tmpfs".into()));
        assert_eq!(f.summary, "/data/file is in memory (tmpfs): no disk is measured.");
    }

    #[test]
    fn writes_still_in_memory() {
        fires(unflushed_writes, |r| {
            make_buffered(r);
            make_writing(r);
            r.disks[0].sectors.write = 0;
        });
        silent(unflushed_writes, |r| {
            make_buffered(r);
            make_writing(r);
        });
        silent(unflushed_writes, |r| {
            make_writing(r);
            r.disks[0].sectors.write = 0;
        });
    }

    #[test]
    fn buffered_by_accident_is_told_and_on_purpose_is_not() {
        fires(buffered, |r| {
            make_buffered(r);
            r.plan.jobs[0].options.clear();
        });
        silent(buffered, make_buffered);
        silent(buffered, |r| {
            make_buffered(r);
            r.plan.jobs[0].options.clear();
            r.plan.global_options.insert("buffered".into(), "1".into());
        });
    }

    #[test]
    fn targets_that_fit_into_memory() {
        let f = fires(smaller_than_memory, make_buffered);
        assert_eq!(f.evidence, ["25% of memory"]);
        silent(smaller_than_memory, |r| {
            make_buffered(r);
            r.facts.host.cgroup_memory_max_bytes = Some(GIB);
        });
    }
}
