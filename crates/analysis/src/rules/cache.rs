//! Whether the disks or a cache served the I/O.
//!
//! Counters of disks include the I/O of all programs. What follows from them is therefore a bound: at
//! most so much came from the disk.

use super::jobs::{Job, is_on, jobs_where, listed, named, sentence, targets_of};
#[cfg(test)]
use super::testing::{Case, IOS, make_buffered, make_writing, peak};
use super::{Check, Claim, Rule, Target, depth};
use crate::derive::percent;
use fathom_model::finding::{Evidence, Unit};
use fathom_model::plan::Engine;
use fathom_model::record::{DiskRecord, RunRecord};
use fathom_model::{Dir, units};
use std::collections::BTreeSet;

/// /proc/diskstats counts in sectors of this many bytes.
const SECTOR: u64 = 512;
/// Disks that transferred less than this share of the bytes of the jobs did not serve them.
const DISK_SHARE_MIN: f64 = 0.5;
/// Minimum bytes transferred for a rule to apply.
const BYTES_MIN: u64 = 1 << 20;
const DISKSTATS: &str = "/proc/diskstats";

/// Bytes that the disks below the targets moved in one direction, for all programs.
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
        jobs_where(record, |job| job.is_of_blocks() && job.done.granted.direct == direct)
            .iter()
            .map(|job| job.done.dirs[dir].counts.bytes)
            .sum()
    };
    (sum(true), sum(false))
}

/// Bytes that disks read, for all programs, per byte that jobs read, at most 1; `None` where that is not known.
pub(crate) fn from_disk(record: &RunRecord) -> Option<f64> {
    let (direct, buffered) = job_bytes(record, Dir::Read);
    let read = direct.saturating_add(buffered);
    let is_known = !record.disks.is_empty() && read >= BYTES_MIN;
    is_known.then(|| (disk_bytes(record, Dir::Read) as f64 / read as f64).min(1.0))
}

fn moved_evidence(jobs: u64, disks: u64, record: &RunRecord, verb: &str) -> Vec<Evidence> {
    let names: Vec<&str> = record.disks.iter().map(|disk| disk.name.as_str()).collect();
    let bytes = |name: String, bytes: u64| Evidence::number(name, bytes as f64, Unit::Bytes);
    let disks_name = format!("{verb} {} by all programs", listed("disk", &names));
    vec![
        bytes(format!("{} by the jobs", verb.split(' ').next().unwrap_or(verb)), jobs),
        bytes(disks_name, disks).with_source(DISKSTATS),
    ]
}

/// Of the bytes that jobs moved through the page cache: those that no disk can have moved, and all.
fn missing(record: &RunRecord, dir: Dir) -> Option<(u64, u64)> {
    let (direct, buffered) = job_bytes(record, dir);
    let for_buffered = disk_bytes(record, dir).saturating_sub(direct);
    let judged = !record.disks.is_empty()
        && buffered >= BYTES_MIN
        && (for_buffered as f64) < buffered as f64 * DISK_SHARE_MIN;
    judged.then(|| (buffered - for_buffered, buffered))
}

fn from_disk_threshold(what: &str) -> String {
    format!(
        "The disk moved less than {:.0}% of the bytes {what} (at least {}). /proc/diskstats counts all programs, so the \
         true share is lower still.",
        DISK_SHARE_MIN * 100.0,
        units::bytes(BYTES_MIN)
    )
}

pub(super) static CACHED_READS: Rule = Rule {
    id: "cached-reads",
    meaning: "The page cache served most of the buffered reads: the figures are those of memory.",
    threshold: || from_disk_threshold("read through the page cache"),
    remedy: "Set direct=1, or read more than fits into memory",
    supersedes: &[&BUFFERED, &SMALLER_THAN_MEMORY, &depth::DEVICE_DEPTH],
    checks: &[Check::Run(cached_reads), Check::Target(cached_peaks)],
    #[cfg(test)]
    cases: &[
        Case::Run {
            holds: |r| {
                make_buffered(r);
                r.disks[0].sectors.read = IOS * 8 / 100;
            },
            near_miss: |r| {
                make_buffered(r);
                r.disks[0].sectors.read = IOS * 8 / 2;
            },
        },
        Case::Limit {
            holds: |r| {
                r.conditions[0].direct = false;
                peak(r).from_disk = Some(0.49);
            },
            near_miss: |r| {
                r.conditions[0].direct = false;
                peak(r).from_disk = Some(0.5);
            },
        },
    ],
    ..Rule::DEFAULT
};

fn cached_reads(record: &RunRecord) -> Option<Claim> {
    let (cached, buffered) = missing(record, Dir::Read)?;
    let summary = format!(
        "At least {} of the bytes read by buffered jobs came from the page cache, not from the disk.",
        percent(cached as f64, buffered as f64)
    );
    let (direct, _) = job_bytes(record, Dir::Read);
    let disks = disk_bytes(record, Dir::Read);
    let evidence = moved_evidence(direct + buffered, disks, record, "read from");
    Some(without_direct(record, Claim::new(summary, evidence)))
}

/// The claim, with another remedy where an engine has no direct I/O.
fn without_direct(record: &RunRecord, claim: Claim) -> Claim {
    let jobs = jobs_where(record, is_buffered);
    match jobs.iter().any(|job| job.plan.engine == Engine::Mmap) {
        true => {
            claim.remedy("Use ioengine=io_uring with direct=1, or more data than fits into memory")
        }
        false => claim,
    }
}

fn cached_peaks(target: &Target) -> Option<Claim> {
    let (share, evidence) = low_from_disk(target).filter(|_| !target.conditions.direct)?;
    let summary = format!(
        "{}: at least {} of the bytes read came from the page cache, not from the disk.",
        target.limit.name,
        percent(1.0 - share, 1.0)
    );
    Some(Claim::new(summary, evidence).remedy("Use a file system that supports O_DIRECT"))
}

/// Peaks of which the disk delivered too little: the least share, and the evidence.
fn low_from_disk(target: &Target) -> Option<(f64, Vec<Evidence>)> {
    let low: Vec<(String, f64)> = target
        .peaks()
        .filter(|(block, _)| !block.rw.modifies())
        .filter_map(|(block, peak)| {
            Some((block.name(), peak.from_disk.filter(|s| *s < DISK_SHARE_MIN)?))
        })
        .collect();
    let least = low.iter().map(|(_, share)| *share).reduce(f64::min)?;
    let evidence = low.iter().map(|(block, share)| {
        let name = format!("{block}, from the disk at most");
        Evidence::number(name, *share, Unit::Share).with_source(DISKSTATS)
    });
    Some((least, evidence.collect()))
}

pub(super) static DIRECT_READS_MISSING: Rule = Rule {
    id: "direct-reads-missing",
    meaning: "Most direct reads never reached the disk; a layer above it served them.",
    threshold: || from_disk_threshold("read with O_DIRECT"),
    remedy: "Check for holes, compression, or a file system or device that caches",
    supersedes: &[&depth::DEVICE_DEPTH],
    checks: &[Check::Run(direct_reads_missing), Check::Target(direct_peaks_missing)],
    #[cfg(test)]
    cases: &[
        Case::Run {
            holds: |r| r.disks[0].sectors.read = 0,
            near_miss: |r| r.disks[0].sectors.read = IOS * 8 / 2,
        },
        Case::Limit {
            holds: |r| peak(r).from_disk = Some(0.49),
            near_miss: |r| peak(r).from_disk = Some(0.5),
        },
    ],
    ..Rule::DEFAULT
};

fn direct_reads_missing(record: &RunRecord) -> Option<Claim> {
    let (direct, buffered) = job_bytes(record, Dir::Read);
    let disks = disk_bytes(record, Dir::Read);
    if record.disks.is_empty()
        || direct < BYTES_MIN
        || buffered > 0
        || disks as f64 >= direct as f64 * DISK_SHARE_MIN
    {
        return None;
    }
    let summary = format!(
        "At most {} of the bytes read came from the disk, despite O_DIRECT; another layer served the rest.",
        percent(disks as f64, direct as f64)
    );
    Some(Claim::new(summary, moved_evidence(direct, disks, record, "read from")))
}

fn direct_peaks_missing(target: &Target) -> Option<Claim> {
    let (share, evidence) = low_from_disk(target).filter(|_| target.conditions.direct)?;
    let summary = format!(
        "{}: at most {} of the bytes read came from the disk, despite O_DIRECT; another layer served the rest.",
        target.limit.name,
        percent(share, 1.0)
    );
    Some(Claim::new(summary, evidence))
}

pub(super) static UNFLUSHED_WRITES: Rule = Rule {
    id: "unflushed-writes",
    meaning: "Most buffered writes had not reached the disk when the run ended: their rate is that of memory.",
    threshold: || from_disk_threshold("written through the page cache"),
    remedy: "Set direct=1, or end_fsync=1 and include its time",
    checks: &[Check::Run(unflushed_writes)],
    #[cfg(test)]
    cases: &[Case::Run {
        holds: |r| {
            make_buffered(r);
            make_writing(r);
            r.disks[0].sectors.write = 0;
        },
        near_miss: |r| {
            make_buffered(r);
            make_writing(r);
            r.disks[0].sectors.write /= 2;
        },
    }],
    ..Rule::DEFAULT
};

fn unflushed_writes(record: &RunRecord) -> Option<Claim> {
    let (unflushed, buffered) = missing(record, Dir::Write)?;
    let share = match percent(unflushed as f64, buffered as f64) {
        all if all == "100%" => "None of the buffered writes had".to_string(),
        share => format!("At least {share} of the buffered writes had not"),
    };
    let summary = format!(
        "{share} reached the disk when the run ended; the write rate is largely that of memory."
    );
    let (direct, _) = job_bytes(record, Dir::Write);
    let disks = disk_bytes(record, Dir::Write);
    Some(Claim::new(summary, moved_evidence(direct + buffered, disks, record, "written to")))
}

fn is_buffered(job: &Job) -> bool {
    job.is_of_blocks() && !job.plan.direct && job.bytes_read() + job.bytes_written() > 0
}

pub(super) static BUFFERED: Rule = Rule {
    id: "buffered",
    meaning: "I/O went through the page cache without having been requested: the figures combine memory and disk.",
    threshold: || {
        "run: neither direct nor buffered is set. limit: the target does not support O_DIRECT."
            .into()
    },
    remedy: "Set direct=1 to measure the disk, or buffered=1 if the page cache is intended",
    supersedes: &[&SMALLER_THAN_MEMORY],
    checks: &[Check::Run(buffered), Check::Target(buffered_target)],
    #[cfg(test)]
    cases: &[
        Case::Run {
            holds: |r| {
                make_buffered(r);
                r.plan.jobs[0].options.clear();
            },
            near_miss: make_buffered,
        },
        Case::Limit {
            holds: |r| r.conditions[0].direct = false,
            near_miss: |r| r.conditions[0].scratch = true,
        },
    ],
    ..Rule::DEFAULT
};

fn buffered(record: &RunRecord) -> Option<Claim> {
    let is_set = |job: &Job, key: &str| {
        job.plan.options.contains_key(key) || record.plan.global_options.contains_key(key)
    };
    let unaware = jobs_where(record, |job| {
        is_buffered(job) && !is_set(job, "direct") && !is_set(job, "buffered")
    });
    if unaware.is_empty() {
        return None;
    }
    let summary = format!(
        "{} used the page cache: the figures combine memory and disk.",
        sentence(&named(&unaware))
    );
    let evidence =
        Evidence::text("", "neither direct nor buffered is set; the default is buffered");
    Some(Claim::new(summary, vec![evidence]))
}

fn buffered_target(target: &Target) -> Option<Claim> {
    (!target.conditions.direct).then(|| {
        let name = &target.limit.name;
        let summary =
            format!("{name} was read through the page cache: the figures combine memory and disk.");
        Claim::new(summary, vec![Evidence::text("O_DIRECT", "not supported")])
            .remedy("Use a file system that supports O_DIRECT")
    })
}

pub(super) static SMALLER_THAN_MEMORY: Rule = Rule {
    id: "smaller-than-memory",
    meaning: "The page cache can hold all data accessed by buffered I/O.",
    threshold: || {
        "All regions of buffered jobs together are smaller than memory, or than the cgroup's memory limit.".into()
    },
    remedy: "Set direct=1, or a size of at least twice the memory",
    checks: &[Check::Run(smaller_than_memory)],
    #[cfg(test)]
    cases: &[Case::Run {
        holds: make_buffered,
        near_miss: |r| {
            make_buffered(r);
            r.header.facts.host.cgroup_memory_max_bytes = Some(4 << 30);
        },
    }],
    ..Rule::DEFAULT
};

fn smaller_than_memory(record: &RunRecord) -> Option<Claim> {
    let jobs = jobs_where(record, is_buffered);
    let host = &record.header.facts.host;
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
        "{} used {} through the page cache, which can hold all of it.",
        sentence(&named(&jobs)),
        units::bytes(total),
    );
    let memory = Evidence::number("memory", memory as f64, Unit::Bytes);
    Some(without_direct(record, Claim::new(summary, vec![memory])))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, limit_rules, phrases, silent};
    use super::*;
    use fathom_model::plan::ScsiCommands;

    #[test]
    fn reads_from_the_cache() {
        let f = fires(&CACHED_READS, |r| {
            make_buffered(r);
            r.disks[0].sectors.read = IOS * 8 / 100;
        });
        assert!(f.summary.starts_with("At least 99% of the bytes"), "{}", f.summary);
        assert_eq!(
            phrases(&f),
            ["read by the jobs: 3.81 GiB", "read from disk vda by all programs: 39.1 MiB"]
        );
        fires(&CACHED_READS, |r| {
            make_buffered(r);
            // A disk below vda saw the same reads: they must not count twice.
            r.disks[0].sectors.read = IOS * 8 / 3;
            r.disks.push(DiskRecord { name: "sda".into(), ..r.disks[0].clone() });
        });
        silent(&CACHED_READS, |r| {
            make_buffered(r);
            r.disks.clear();
        });
    }

    #[test]
    fn direct_reads_that_no_disk_saw() {
        let f = fires(&DIRECT_READS_MISSING, |r| r.disks[0].sectors.read = 0);
        assert!(f.summary.starts_with("At most 0% of the bytes"), "{}", f.summary);
        silent(&DIRECT_READS_MISSING, |r| r.disks.clear());
    }

    #[test]
    fn commands_pass_neither_page_cache_nor_the_counters_of_disks() {
        let commands = |r: &mut RunRecord| {
            make_buffered(r);
            r.plan.jobs[0].options.clear();
            r.plan.jobs[0].engine = Engine::Sg(ScsiCommands::default());
            r.disks[0].sectors.read = 0;
        };
        for rule in [&BUFFERED, &CACHED_READS, &SMALLER_THAN_MEMORY] {
            silent(rule, commands);
        }
        silent(&DIRECT_READS_MISSING, |r| {
            commands(r);
            r.jobs[0].granted.direct = true;
        });
    }

    #[test]
    fn direct_writes_are_not_unflushed() {
        silent(&UNFLUSHED_WRITES, |r| {
            make_writing(r);
            r.disks[0].sectors.write = 0;
        });
    }

    #[test]
    fn a_search_through_the_cache_is_reported_once() {
        let through_cache = limit_rules(|r| {
            r.conditions[0].direct = false;
            for block in &mut r.report.targets[0].blocks {
                block.peak.as_mut().unwrap().from_disk = Some(0.01);
            }
        });
        assert_eq!(through_cache, ["cached-reads"]);
        assert_eq!(limit_rules(|r| r.conditions[0].direct = false), ["buffered"]);
    }

    #[test]
    fn the_page_cache_on_purpose_is_not_reported() {
        silent(&BUFFERED, |r| {
            make_buffered(r);
            r.plan.jobs[0].options.clear();
            r.plan.global_options.insert("buffered".into(), "1".into());
        });
        let f = fires(&SMALLER_THAN_MEMORY, make_buffered);
        assert_eq!(phrases(&f), ["memory: 16 GiB"]);
    }
}
