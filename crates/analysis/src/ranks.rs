//! Several machines that ran the same jobs together: one record of all.

use crate::derive;
use crate::timeline::{IoSum, TimeSpan};
use fathom_model::facts::TargetFacts;
use fathom_model::finding::Finding;
use fathom_model::plan::JobPlan;
use fathom_model::record::{DiskRecord, JobRecord, RankRecord, RankSpan, RunRecord};
use fathom_model::{Histogram, PerDir, escape};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Up to this many hosts are named.
const NAMED: usize = 3;

/// Of up to so many machines, each keeps what it did over time.
const CHARTED: usize = 64;
/// Spans of time that each sends.
const SPANS_MAX: usize = 120;

/// What one of several machines did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfRank {
    /// Its own record, with findings.
    pub record: RunRecord,
    /// What its jobs did over time, after the first started.
    pub over_time: Vec<RankSpan>,
    /// Its clock minus that of rank 0, in nanoseconds.
    pub clock_offset_ns: i64,
    /// By how much that may be wrong, in nanoseconds.
    pub clock_error_ns: u64,
}

impl OfRank {
    /// Start of a job on rank 0's clock, in nanoseconds since the Unix epoch.
    fn started(&self, job: &JobRecord) -> u64 {
        job.started_unix_ns.saturating_add_signed(-self.clock_offset_ns)
    }

    fn jobs(&self) -> impl Iterator<Item = &JobRecord> {
        self.record.jobs.iter().filter(|job| job.runtime_ns > 0)
    }

    /// What is stored of it, where the earliest of all `began` at that time.
    fn rank(&self, began: u64) -> RankRecord {
        let header = &self.record.header;
        let started = self.jobs().map(|job| self.started(job)).min();
        let ended = self.jobs().map(|job| self.started(job) + job.runtime_ns).max();
        let after = |at: Option<u64>| at.unwrap_or(began).saturating_sub(began);
        let started_ns = after(started);
        let later = |span: &RankSpan| RankSpan {
            from_ns: span.from_ns + started_ns,
            to_ns: span.to_ns + started_ns,
            ..*span
        };
        RankRecord {
            hostname: header.facts.host.hostname.clone(),
            kernel: header.facts.host.kernel.clone(),
            run_id: header.run_id.clone(),
            jobs: Vec::new(),
            started_ns,
            clock_error_ns: self.clock_error_ns,
            ended_ns: after(ended),
            outcome: header.outcome.clone(),
            limited_by: header.findings.iter().find(|found| found.rank == Some(1)).cloned(),
            over_time: self.over_time.iter().map(later).collect(),
        }
    }
}

/// What the jobs of one machine did over time.
pub fn over_time(spans: &[TimeSpan<PerDir<IoSum>>]) -> Vec<RankSpan> {
    let each = spans.len().div_ceil(SPANS_MAX).max(1);
    let span = |some: &[TimeSpan<PerDir<IoSum>>]| {
        let (mut ios, mut bytes, mut clat) = (0.0, 0.0, Histogram::default());
        for (_, sum) in some.iter().flat_map(|span| span.sum.iter()) {
            (ios, bytes) = (ios + sum.ios, bytes + sum.bytes);
            clat.merge(&sum.clat());
        }
        let seconds = some.iter().map(|span| span.observed_ns).sum::<u64>() as f64 / 1e9;
        RankSpan {
            from_ns: some.first().map_or(0, |first| first.from_ns),
            to_ns: some.last().map_or(0, |last| last.to_ns),
            // As many digits as anybody reads: there are many spans.
            iops: (ios / seconds * 100.0).round() / 100.0,
            bytes_per_second: (bytes / seconds).round(),
            clat_p99_ns: clat.percentile(99.0),
        }
    };
    spans.chunks(each).map(span).collect()
}

/// What all machines did together over time, in spans as long as their longest.
fn all_over_time(ranks: &[RankRecord]) -> Vec<RankSpan> {
    let spans = || ranks.iter().flat_map(|rank| &rank.over_time);
    let width = spans().map(|span| span.to_ns - span.from_ns).max().unwrap_or(0);
    let end = spans().map(|span| span.to_ns).max().unwrap_or(0);
    if width == 0 {
        return Vec::new();
    }
    // Not all are measured in a short rest, which is part of the span before.
    let count = ((end + width / 2) / width).max(1);
    let bin = |at: u64| RankSpan {
        from_ns: at * width,
        to_ns: if at + 1 == count { end } else { (at + 1) * width },
        ..RankSpan::default()
    };
    let mut bins: Vec<RankSpan> = (0..count).map(bin).collect();
    for span in spans() {
        let touched = [span.from_ns, span.to_ns].map(|at| (at / width).min(count - 1) as usize);
        for bin in &mut bins[touched[0]..=touched[1]] {
            let common = span.to_ns.min(bin.to_ns).saturating_sub(span.from_ns.max(bin.from_ns));
            let share = common as f64 / (bin.to_ns - bin.from_ns).max(1) as f64;
            bin.iops += span.iops * share;
            bin.bytes_per_second += span.bytes_per_second * share;
        }
    }
    bins
}

/// The record of all, by rank: the jobs of a section are reported as one, and targets, disks and findings are those of all.
/// The header is rank 0's; `None` without ranks.
pub fn merge(mut all: Vec<OfRank>) -> Option<RunRecord> {
    let began = all.iter().flat_map(|one| one.jobs().map(|job| one.started(job))).min();
    let began = began.or(all.first().map(|first| first.record.header.started_unix_ns))?;
    let (targets, places) = targets(&all);
    let (disks, findings) = (disks(&all), findings(&all));
    let mut ranks: Vec<RankRecord> = all.iter().map(|one| one.rank(began)).collect();
    let (mut plans, mut jobs) = (Vec::new(), Vec::new());
    let most = all.iter().map(|one| one.record.plan.jobs.len()).max().unwrap_or(0);
    let offsets: Vec<i64> = all.iter().map(|one| one.clock_offset_ns).collect();
    let groups: Vec<Vec<u32>> = all.iter().map(|one| groups(&one.record)).collect();
    let mut taken: Vec<_> = all
        .iter_mut()
        .map(|one| {
            let plans = std::mem::take(&mut one.record.plan.jobs).into_iter();
            plans.zip(std::mem::take(&mut one.record.jobs))
        })
        .collect();
    // The jobs that are reported as one have to be neighbors.
    let count = ranks.len();
    for (at, rank) in (0..most).flat_map(|at| (0..count).map(move |rank| (at, rank))) {
        let Some((mut plan, mut job)) = taken[rank].next() else { continue };
        ranks[rank].jobs.push(jobs.len());
        if !plan.group_reporting {
            (plan.group, plan.group_reporting) = (groups[rank][at], true);
        }
        plan.regions.iter_mut().for_each(|region| region.target = places[rank][region.target]);
        let started = job.started_unix_ns.saturating_add_signed(-offsets[rank]);
        job.started_ns = started.saturating_sub(began);
        plans.push(plan);
        jobs.push(job);
    }
    let ranks_over_time = all_over_time(&ranks);
    if ranks.len() > CHARTED {
        ranks.iter_mut().for_each(|rank| rank.over_time = Vec::new());
    }
    let mut merged = all.into_iter().next()?.record;
    (merged.plan.jobs, merged.jobs, merged.disks) = (plans, jobs, disks);
    merged.device_limits = Vec::new();
    let header = &mut merged.header;
    (header.facts.targets, header.findings) = (targets, findings);
    header.elapsed_ns = ranks.iter().map(|rank| rank.ended_ns).max().unwrap_or(0);
    let outcomes = ranks.iter().map(|rank| &rank.outcome);
    let unfinished = outcomes.clone().find(|outcome| !outcome.is_finished()).cloned();
    header.outcome = unfinished.unwrap_or_default();
    Some(RunRecord { ranks, ranks_over_time, ..merged })
}

/// The group of each job: the place of the first one with its name.
fn groups(record: &RunRecord) -> Vec<u32> {
    let jobs = &record.plan.jobs;
    let first = |plan: &JobPlan| jobs.iter().position(|other| other.name == plan.name);
    jobs.iter().map(|plan| first(plan).unwrap_or(0) as u32).collect()
}

/// The targets of all, each path once, and where those of each rank are among them.
fn targets(all: &[OfRank]) -> (Vec<TargetFacts>, Vec<Vec<usize>>) {
    let mut known: Vec<TargetFacts> = Vec::new();
    let mut at: HashMap<&str, usize> = HashMap::new();
    let mut places = Vec::new();
    for one in all {
        let mut of_rank = Vec::new();
        for target in &one.record.header.facts.targets {
            let place = *at.entry(&target.path).or_insert(known.len());
            if place == known.len() {
                known.push(target.clone());
            }
            of_rank.push(place);
        }
        places.push(of_rank);
    }
    (known, places)
}

/// The disks of all, named with their hosts. Those of one host were counted by each of its ranks.
fn disks(all: &[OfRank]) -> Vec<DiskRecord> {
    let mut known: HashSet<String> = HashSet::new();
    let mut disks = Vec::new();
    for one in all {
        let host = &one.record.header.facts.host.hostname;
        for disk in &one.record.disks {
            let name = format!("{} of {host}", disk.name);
            if known.insert(name.clone()) {
                disks.push(DiskRecord { name, ..disk.clone() });
            }
        }
    }
    disks
}

/// Jobs of one rank as one.
pub fn of_rank(record: &RunRecord, rank: &RankRecord) -> JobRecord {
    let jobs: Vec<&JobRecord> = rank.jobs.iter().filter_map(|at| record.jobs.get(*at)).collect();
    derive::merge_jobs(&jobs)
}

/// Findings of all ranks: each once, with the number of ranks that have it. The verdict begins with what limited most of them.
fn findings(all: &[OfRank]) -> Vec<Finding> {
    let mut grouped: Vec<(Finding, Vec<&str>)> = Vec::new();
    for one in all {
        let header = &one.record.header;
        // What limited a machine less than something else is in its own record.
        for found in header.findings.iter().filter(|found| found.rank.is_none_or(|rank| rank == 1))
        {
            let is_same = |(other, _): &&mut (Finding, Vec<&str>)| {
                other.rule == found.rule && other.rank == found.rank
            };
            let host = header.facts.host.hostname.as_str();
            match grouped.iter_mut().find(is_same) {
                Some((_, hosts)) => hosts.push(host),
                None => grouped.push((found.clone(), vec![host])),
            }
        }
    }
    grouped.sort_by_key(|(found, hosts)| {
        (found.rank, std::cmp::Reverse((found.severity, hosts.len())))
    });
    let mut place = 0;
    let named = |(found, hosts): (Finding, Vec<&str>)| {
        place += u32::from(found.rank.is_some());
        Finding {
            summary: format!("{}: {}", who(&hosts, all.len()), found.summary),
            rank: found.rank.map(|_| place),
            ..found
        }
    };
    grouped.into_iter().map(named).collect()
}

/// `37 of 40 ranks (such as node3)`, `node17` or `All 4 ranks`.
fn who(hosts: &[&str], all: usize) -> String {
    let mut names: Vec<String> = hosts.iter().map(|host| escape::text(host).to_string()).collect();
    names.dedup();
    match names.as_slice() {
        _ if hosts.len() == all => format!("All {all} ranks, such as {}", names[0]),
        few if !few.is_empty() && few.len() <= NAMED => {
            format!("{} of {all} ranks ({})", hosts.len(), few.join(", "))
        }
        [first, ..] => format!("{} of {all} ranks, such as {first}", hosts.len()),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::Dir;
    use fathom_model::plan::{Engine, JobPlan, Mix, Order, Region};

    /// Two jobs on a file of its own and a shared one, on a clock that is `ahead` of rank 0's.
    fn rank(host: &str, ahead: i64, rule: &str) -> OfRank {
        let mut record = RunRecord::default();
        let header = &mut record.header;
        header.facts.host.hostname = host.into();
        header.facts.targets = ["shared", host]
            .map(|path| TargetFacts { path: path.into(), ..TargetFacts::default() })
            .to_vec();
        let limiter = Finding {
            rule: rule.into(),
            rank: Some(1),
            summary: format!("{rule} did it."),
            ..Finding::default()
        };
        header.findings = vec![limiter];
        for (name, target) in [("a", 0), ("b", 1)] {
            let mut plan = JobPlan::new(
                name,
                Engine::Null,
                Mix::Only(Dir::Read),
                Order::Sequential { skip: 0 },
            );
            plan.regions = vec![Region { target, start: 0, len: 4096 }];
            let mut job = JobRecord { runtime_ns: 1_000, ..JobRecord::default() };
            job.started_unix_ns = 1_000_000_u64.saturating_add_signed(ahead);
            job.dirs.read.counts.ios = 10;
            job.dirs.read.clat.record_n(100, 10);
            record.plan.jobs.push(plan);
            record.jobs.push(job);
        }
        record.disks = vec![DiskRecord { name: "vda".into(), ..DiskRecord::default() }];
        let over_time = vec![
            RankSpan { to_ns: 400, iops: 10.0, clat_p99_ns: Some(100), ..RankSpan::default() },
            RankSpan { from_ns: 400, to_ns: 800, iops: 20.0, ..RankSpan::default() },
        ];
        OfRank { record, over_time, clock_offset_ns: ahead, clock_error_ns: 7 }
    }

    #[test]
    fn sections_of_all_ranks_are_one() {
        let mut late = rank("node2", -500, "device");
        late.record.jobs.iter_mut().for_each(|job| job.started_unix_ns += 30);
        let merged =
            merge(vec![rank("node0", 0, "device"), rank("node1", 700, "busy-cpus"), late]).unwrap();
        let groups = derive::sections(&merged);
        let figures: Vec<_> = groups
            .iter()
            .map(|g| (g.plan.name.as_str(), g.record.dirs.read.clat.count()))
            .collect();
        assert_eq!(figures, [("a", 30), ("b", 30)]);
        let paths: Vec<&str> =
            merged.header.facts.targets.iter().map(|t| t.path.as_str()).collect();
        assert_eq!(paths, ["shared", "node0", "node1", "node2"]);
        let targets: Vec<usize> =
            merged.plan.jobs.iter().map(|job| job.regions[0].target).collect();
        assert_eq!(targets, [0, 0, 0, 1, 2, 3]);
        let starts: Vec<u64> = merged.ranks.iter().map(|rank| rank.started_ns).collect();
        assert_eq!((starts, merged.header.elapsed_ns), (vec![0, 0, 30], 1_030));
        assert_eq!(merged.ranks[1].jobs, [1, 4]);
        let names: Vec<&str> = merged.disks.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["vda of node0", "vda of node1", "vda of node2"]);
        assert_eq!(of_rank(&merged, &merged.ranks[2]).dirs.read.counts.ios, 20);
        // The third is 30 ns later, so a bit of what it does is in the next span of all, which is as much longer.
        let all: Vec<_> = merged.ranks_over_time.iter().map(|s| (s.to_ns, s.iops)).collect();
        assert_eq!(all.iter().map(|span| span.0).collect::<Vec<_>>(), [400, 830]);
        let (first, second) = (20.0 + 9.25, (3.0 * 20.0 * 400.0 + 10.0 * 30.0) / 430.0);
        assert!((all[0].1 - first).abs() < 1e-9 && (all[1].1 - second).abs() < 1e-9, "{all:?}");
        let own = &merged.ranks[2].over_time[1];
        assert_eq!((own.from_ns, own.to_ns, own.iops), (430, 830, 20.0));
    }

    #[test]
    fn the_verdict_counts_ranks() {
        let all = vec![
            rank("node0", 0, "device"),
            rank("node1", 0, "busy-cpus"),
            rank("node2", 0, "device"),
        ];
        let verdict: Vec<_> =
            merge(all).unwrap().header.findings.into_iter().map(|f| (f.rank, f.summary)).collect();
        let expected = [
            (Some(1), "2 of 3 ranks (node0, node2): device did it.".to_string()),
            (Some(2), "1 of 3 ranks (node1): busy-cpus did it.".to_string()),
        ];
        assert_eq!(verdict, expected);
        let same = merge(vec![rank("node0", 0, "device"), rank("node0", 0, "device")]).unwrap();
        assert_eq!(same.header.findings[0].summary, "All 2 ranks, such as node0: device did it.");
        assert_eq!(merge(Vec::new()), None);
    }
}
