//! Several machines that ran the same jobs together: one record of all.

use crate::derive;
use fathom_model::escape;
use fathom_model::facts::TargetFacts;
use fathom_model::finding::Finding;
use fathom_model::record::{DiskRecord, JobRecord, RankRecord, RunRecord};
use serde::{Deserialize, Serialize};

/// Up to this many hosts are named.
const NAMED: usize = 3;

/// What one of several machines did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfRank {
    /// Its own record, with findings.
    pub record: RunRecord,
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
}

/// The record of all, by rank: the jobs of a section are reported as one, and targets, disks and findings are those of all.
/// The header is rank 0's; `None` without ranks.
pub fn merge(all: &[OfRank]) -> Option<RunRecord> {
    let first = all.first()?;
    let began = all.iter().flat_map(|one| one.jobs().map(|job| one.started(job))).min();
    let began = began.unwrap_or(first.record.header.started_unix_ns);
    let mut merged = RunRecord {
        jobs: Vec::new(),
        disks: disks(all),
        device_limits: Vec::new(),
        ..first.record.clone()
    };
    merged.plan.jobs.clear();
    let (targets, places) = targets(all);
    merged.header.facts.targets = targets;
    let mut indices = vec![Vec::new(); all.len()];
    let most = all.iter().map(|one| one.record.plan.jobs.len()).max().unwrap_or(0);
    // The jobs that are reported as one have to be neighbors.
    for (at, rank) in (0..most).flat_map(|at| (0..all.len()).map(move |rank| (at, rank))) {
        let one = &all[rank];
        let Some((plan, job)) = derive::jobs(&one.record).nth(at) else { continue };
        indices[rank].push(merged.jobs.len());
        let mut plan = plan.clone();
        if !plan.group_reporting {
            let same = one.record.plan.jobs.iter().position(|other| other.name == plan.name);
            plan.group = same.unwrap_or(at) as u32;
            plan.group_reporting = true;
        }
        plan.regions.iter_mut().for_each(|region| region.target = places[rank][region.target]);
        let started_ns = one.started(job).saturating_sub(began);
        merged.plan.jobs.push(plan);
        merged.jobs.push(JobRecord { started_ns, ..job.clone() });
    }
    let rank = |(one, jobs): (&OfRank, Vec<usize>)| {
        let header = &one.record.header;
        let started = one.jobs().map(|job| one.started(job)).min();
        let ended = one.jobs().map(|job| one.started(job) + job.runtime_ns).max();
        let after = |at: Option<u64>| at.unwrap_or(began).saturating_sub(began);
        RankRecord {
            hostname: header.facts.host.hostname.clone(),
            kernel: header.facts.host.kernel.clone(),
            run_id: header.run_id.clone(),
            jobs,
            started_ns: after(started),
            clock_error_ns: one.clock_error_ns,
            ended_ns: after(ended),
            outcome: header.outcome.clone(),
            limited_by: header.findings.iter().find(|found| found.rank == Some(1)).cloned(),
        }
    };
    merged.ranks = all.iter().zip(indices).map(rank).collect();
    merged.header.elapsed_ns = merged.ranks.iter().map(|rank| rank.ended_ns).max().unwrap_or(0);
    let outcomes = merged.ranks.iter().map(|rank| &rank.outcome);
    let unfinished = outcomes.clone().find(|outcome| !outcome.is_finished()).cloned();
    merged.header.outcome = unfinished.unwrap_or_default();
    merged.header.findings = findings(all);
    Some(merged)
}

/// The targets of all, each path once, and where those of each rank are among them.
fn targets(all: &[OfRank]) -> (Vec<TargetFacts>, Vec<Vec<usize>>) {
    let mut known: Vec<TargetFacts> = Vec::new();
    let mut place = |target: &TargetFacts| {
        let found = known.iter().position(|other| other.path == target.path);
        found.unwrap_or_else(|| {
            known.push(target.clone());
            known.len() - 1
        })
    };
    let of = |one: &OfRank| one.record.header.facts.targets.iter().map(&mut place).collect();
    let places = all.iter().map(of).collect();
    (known, places)
}

/// The disks of all, named with their hosts. Those of one host were counted by each of its ranks.
fn disks(all: &[OfRank]) -> Vec<DiskRecord> {
    let mut known: Vec<DiskRecord> = Vec::new();
    for one in all {
        let host = &one.record.header.facts.host.hostname;
        for disk in &one.record.disks {
            let name = format!("{} of {host}", disk.name);
            if !known.iter().any(|other| other.name == name) {
                known.push(DiskRecord { name, ..disk.clone() });
            }
        }
    }
    known
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
        OfRank { record, clock_offset_ns: ahead, clock_error_ns: 7 }
    }

    #[test]
    fn sections_of_all_ranks_are_one() {
        let mut late = rank("node2", -500, "device");
        late.record.jobs.iter_mut().for_each(|job| job.started_unix_ns += 30);
        let merged =
            merge(&[rank("node0", 0, "device"), rank("node1", 700, "busy-cpus"), late]).unwrap();
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
    }

    #[test]
    fn the_verdict_counts_ranks() {
        let all =
            [rank("node0", 0, "device"), rank("node1", 0, "busy-cpus"), rank("node2", 0, "device")];
        let verdict: Vec<_> =
            merge(&all).unwrap().header.findings.into_iter().map(|f| (f.rank, f.summary)).collect();
        let expected = [
            (Some(1), "2 of 3 ranks (node0, node2): device did it.".to_string()),
            (Some(2), "1 of 3 ranks (node1): busy-cpus did it.".to_string()),
        ];
        assert_eq!(verdict, expected);
        let same = merge(&[rank("node0", 0, "device"), rank("node0", 0, "device")]).unwrap();
        assert_eq!(same.header.findings[0].summary, "All 2 ranks, such as node0: device did it.");
        assert_eq!(merge(&[]), None);
    }
}
