//! Merging the records of several workers.

use super::ios;
use fathom_model::histogram::Histogram;
use fathom_model::record::{
    CacheCost, Cost, DepthRecord, DirRecord, FlushRecord, InEffect, JobRecord, LostWakeups,
    PriorityRecord, TargetRecord, Usage, VerifyRecord,
};
use fathom_model::{PerDir, list};
use std::collections::BTreeMap;

/// The merged record of several jobs. Its measured time is from the first start to the last end, so that
/// rates hold even if the jobs did not all run at the same time.
///
/// A setting is in effect if it is for all jobs that ran. The first error is reported for all.
pub fn merge_jobs(jobs: &[&JobRecord]) -> JobRecord {
    if let [only] = jobs {
        return (*only).clone();
    }
    let ran: Vec<&JobRecord> = jobs.iter().copied().filter(|job| job.runtime_ns > 0).collect();
    let started_ns = ran.iter().map(|job| job.started_ns).min().unwrap_or(0);
    let ended_ns = ran.iter().map(|job| job.started_ns.saturating_add(job.runtime_ns)).max();
    let cost = merge_cost(&ran);
    JobRecord {
        error: jobs.iter().find_map(|job| job.error.clone()),
        started_ns,
        started_unix_ns: ran.iter().map(|job| job.started_unix_ns).min().unwrap_or(0),
        runtime_ns: ended_ns.unwrap_or(0).saturating_sub(started_ns),
        dirs: PerDir::from_fn(|dir| {
            let parts =
                jobs.iter().map(|j| (j.started_ns.saturating_sub(started_ns), &j.dirs[dir]));
            merge_dirs(&parts.collect::<Vec<_>>())
        }),
        flushes: merge_flushes(jobs),
        usage: merge_usage(jobs),
        depth: merge_depth(jobs),
        granted: merge_granted(if ran.is_empty() { jobs } else { &ran }),
        cost,
        cost_missing: match cost {
            Some(_) => None,
            None => jobs.iter().find_map(|job| job.cost_missing.clone()),
        },
        cost_lacks: union(jobs.iter().map(|job| &job.cost_lacks)),
        target_changes: union(jobs.iter().map(|job| &job.target_changes)),
        lost_wakeups: LostWakeups {
            count: jobs.iter().map(|job| job.lost_wakeups.count).sum(),
            longest_ns: jobs.iter().map(|job| job.lost_wakeups.longest_ns).max().unwrap_or(0),
        },
        log_wait_ns: jobs.iter().map(|job| job.log_wait_ns).sum(),
        zone_resets: jobs.iter().map(|job| job.zone_resets).sum(),
        steady: jobs.iter().find_map(|job| job.steady.clone()),
        // That of the job with the lowest depth; as met as by all.
        target: jobs.iter().filter_map(|job| job.target).reduce(|one, other| TargetRecord {
            depth: one.depth.min(other.depth),
            met: one.met && other.met,
        }),
        verify: merge_verified(
            &jobs.iter().filter_map(|job| job.verify.as_ref()).collect::<Vec<_>>(),
        ),
    }
}

/// Wrong blocks that are described.
const WRONG_DESCRIBED: usize = 16;

fn merge_verified(all: &[&VerifyRecord]) -> Option<VerifyRecord> {
    let longest_ns = all.iter().map(|one| one.runtime_ns).max()?;
    let reads: Vec<_> = all.iter().map(|one| (0, &one.reads)).collect();
    Some(VerifyRecord {
        blocks: all.iter().map(|one| one.blocks).sum(),
        bytes: all.iter().map(|one| one.bytes).sum(),
        counted_ios: all.iter().map(|one| one.counted_ios).sum(),
        counted_bytes: all.iter().map(|one| one.counted_bytes).sum(),
        unread_bytes: all.iter().map(|one| one.unread_bytes).sum(),
        wrong: all.iter().map(|one| one.wrong).sum(),
        first: all.iter().flat_map(|one| one.first.clone()).take(WRONG_DESCRIBED).collect(),
        runtime_ns: longest_ns,
        reads: merge_dirs(&reads),
    })
}

/// What was done in several directions, or by several jobs in one, together.
///
/// Each comes with the time by which its measured time began after that of the whole, in
/// nanoseconds.
pub fn merge_dirs(parts: &[(u64, &DirRecord)]) -> DirRecord {
    let mut all = DirRecord::default();
    let mut errnos = BTreeMap::new();
    for (_, part) in parts {
        all.counts += part.counts;
        all.slat.merge(&part.slat);
        all.clat.merge(&part.clat);
        all.lat.merge(&part.lat);
        all.response.merge(&part.response);
        all.late_ios += part.late_ios;
        all.unstarted_ios += part.unstarted_ios;
        add_counts(&mut errnos, &part.errnos);
        merge_priorities(&mut all.priorities, &part.priorities);
    }
    all.errnos = errnos.into_iter().collect();
    all.intervals = merge_intervals(parts);
    all
}

fn merge_priorities(all: &mut Vec<PriorityRecord>, part: &[PriorityRecord]) {
    for one in part {
        match all.iter_mut().find(|known| known.priority == one.priority) {
            Some(known) => {
                known.clat.merge(&one.clat);
                known.lat.merge(&one.lat);
            }
            None => all.push(one.clone()),
        }
    }
    all.sort_by_key(|one| one.priority);
}

/// The sum of several growing curves, at the instants of any of them, thinned to about as many
/// as the longest has. Between its points a curve is taken as straight.
fn merge_intervals(parts: &[(u64, &DirRecord)]) -> Vec<(u64, u64, u64)> {
    let Some(longest) = parts.iter().max_by_key(|(_, part)| part.intervals.len()) else {
        return Vec::new();
    };
    let points = longest.1.intervals.len().max(1) as u64;
    let gap = longest.1.intervals.last().map_or(0, |last| last.0 / points / 4 * 3);
    let mut instants: Vec<u64> = parts
        .iter()
        .flat_map(|(offset, part)| part.intervals.iter().map(|p| offset.saturating_add(p.0)))
        .collect();
    instants.sort_unstable();
    let mut merged: Vec<(u64, u64, u64)> = Vec::new();
    for instant in instants {
        if merged.last().is_some_and(|last| instant - last.0 <= gap) {
            continue;
        }
        let (mut ios, mut bytes) = (0.0, 0.0);
        for (offset, part) in parts {
            let (i, b) = value_at(&part.intervals, instant.saturating_sub(*offset));
            ios += i;
            bytes += b;
        }
        merged.push((instant, ios.round() as u64, bytes.round() as u64));
    }
    merged
}

/// The value at `instant` of a curve that starts at zero.
fn value_at(curve: &[(u64, u64, u64)], instant: u64) -> (f64, f64) {
    let after = curve.partition_point(|point| point.0 < instant);
    let Some(high) = curve.get(after) else {
        return curve.last().map_or((0.0, 0.0), |last| (last.1 as f64, last.2 as f64));
    };
    let low = if after == 0 { (0, 0, 0) } else { curve[after - 1] };
    let length = high.0.saturating_sub(low.0);
    let share = if length == 0 { 1.0 } else { (instant - low.0) as f64 / length as f64 };
    let between = |low: u64, high: u64| low as f64 + (high as f64 - low as f64) * share;
    (between(low.1, high.1), between(low.2, high.2))
}

fn merge_flushes(jobs: &[&JobRecord]) -> FlushRecord {
    let mut lat = Histogram::default();
    jobs.iter().for_each(|job| lat.merge(&job.flushes.lat));
    FlushRecord { count: jobs.iter().map(|job| job.flushes.count).sum(), lat }
}

fn merge_usage(jobs: &[&JobRecord]) -> Usage {
    let sum = |field: fn(&Usage) -> u64| jobs.iter().map(|job| field(&job.usage)).sum();
    Usage {
        user_ns: sum(|u| u.user_ns),
        system_ns: sum(|u| u.system_ns),
        helper_ns: sum(|u| u.helper_ns),
        voluntary_switches: sum(|u| u.voluntary_switches),
        involuntary_switches: sum(|u| u.involuntary_switches),
        major_faults: sum(|u| u.major_faults),
        minor_faults: sum(|u| u.minor_faults),
        run_delay_ns: jobs
            .iter()
            .map(|job| job.usage.run_delay_ns)
            .sum::<Option<u64>>()
            .filter(|_| !jobs.is_empty()),
    }
}

fn merge_depth(jobs: &[&JobRecord]) -> DepthRecord {
    let sum = |field: fn(&DepthRecord) -> &Vec<(u32, u64)>| {
        let mut all = BTreeMap::new();
        jobs.iter().for_each(|job| add_counts(&mut all, field(&job.depth)));
        all.into_iter().collect()
    };
    DepthRecord {
        level: sum(|d| &d.level),
        submit: sum(|d| &d.submit),
        complete: sum(|d| &d.complete),
        system_calls: jobs.iter().map(|job| job.depth.system_calls).sum(),
        in_flight_max: jobs.iter().map(|job| job.depth.in_flight_max).max().unwrap_or(0),
    }
}

fn merge_granted(jobs: &[&JobRecord]) -> InEffect {
    let all =
        |field: fn(&InEffect) -> bool| !jobs.is_empty() && jobs.iter().all(|j| field(&j.granted));
    InEffect {
        setup_flags: common(jobs, |g| &g.setup_flags),
        refused_flags: union(jobs.iter().map(|job| &job.granted.refused_flags)),
        features: common(jobs, |g| &g.features),
        polled: all(|g| g.polled),
        fixed_buffers: all(|g| g.fixed_buffers),
        registered_files: all(|g| g.registered_files),
        registered_ring: all(|g| g.registered_ring),
        huge_pages: all(|g| g.huge_pages),
        direct: all(|g| g.direct),
        sq_wakeups: jobs.iter().map(|job| job.granted.sq_wakeups).sum(),
        fallbacks: union(jobs.iter().map(|job| &job.granted.fallbacks)),
    }
}

fn merge_cost(jobs: &[&JobRecord]) -> Option<Cost> {
    if jobs.iter().any(|job| job.cost.is_none() && ios(job) > 0) {
        return None;
    }
    merge_costs(&jobs.iter().filter_map(|job| job.cost).collect::<Vec<_>>())
}

/// Mean of the costs, weighted by number of I/Os; `None` without any.
pub fn merge_costs(costs: &[Cost]) -> Option<Cost> {
    let total: u64 = costs.iter().map(|cost| cost.ios).sum();
    if total == 0 {
        return None;
    }
    let mean = |field: fn(&Cost) -> f64| {
        costs.iter().map(|c| field(c) * c.ios as f64).sum::<f64>() / total as f64
    };
    let kernel = costs.iter().all(|c| c.kernel_instructions.is_some() && c.kernel_cycles.is_some());
    Some(Cost {
        ios: total,
        window_ns: costs.iter().map(|cost| cost.window_ns).max().unwrap_or(0),
        user_instructions: mean(|c| c.user_instructions),
        kernel_instructions: kernel.then(|| mean(|c| c.kernel_instructions.unwrap_or(0.0))),
        user_cycles: mean(|c| c.user_cycles),
        kernel_cycles: kernel.then(|| mean(|c| c.kernel_cycles.unwrap_or(0.0))),
        cache: merge_caches(costs, total),
        enabled_ns: costs.iter().map(|cost| cost.enabled_ns).sum(),
        running_ns: costs.iter().map(|cost| cost.running_ns).sum(),
        speed_ratio: mean(|c| c.speed_ratio),
    })
}

/// The cache misses, if all jobs counted the same event.
fn merge_caches(costs: &[Cost], ios: u64) -> Option<CacheCost> {
    let event = costs.first()?.cache?.event;
    let mut sum = CacheCost { event, ..CacheCost::default() };
    for cost in costs {
        let cache = cost.cache.filter(|cache| cache.event == event)?;
        sum.references += cache.references * cost.ios as f64 / ios as f64;
        sum.misses += cache.misses * cost.ios as f64 / ios as f64;
    }
    Some(sum)
}

fn add_counts<K: Ord + Copy>(to: &mut BTreeMap<K, u64>, counts: &[(K, u64)]) {
    for (key, n) in counts {
        *to.entry(*key).or_insert(0) += n;
    }
}

fn union<'a, T: Clone + PartialEq + 'a>(lists: impl Iterator<Item = &'a Vec<T>>) -> Vec<T> {
    list::distinct(lists.flatten().cloned())
}

fn common(jobs: &[&JobRecord], list: fn(&InEffect) -> &Vec<String>) -> Vec<String> {
    let Some((first, rest)) = jobs.split_first() else { return Vec::new() };
    let in_all = |word: &&String| rest.iter().all(|job| list(&job.granted).contains(word));
    list(&first.granted).iter().filter(in_all).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::record::JobError;

    fn job(started_ns: u64, runtime_ns: u64, ios: u64) -> JobRecord {
        let mut job = JobRecord { started_ns, runtime_ns, ..JobRecord::default() };
        job.dirs.read.counts.ios = ios;
        job.dirs.read.clat.record_n(started_ns + 10, ios);
        job.dirs.read.intervals = vec![(runtime_ns / 2, ios / 2, ios), (runtime_ns, ios, ios * 2)];
        job
    }

    #[test]
    fn runtime_is_from_first_start_to_last_end() {
        let (a, b, never) = (job(1000, 1000, 10), job(2000, 3000, 20), JobRecord::default());
        let all = merge_jobs(&[&a, &b, &never]);
        assert_eq!((all.started_ns, all.runtime_ns), (1000, 4000));
        assert_eq!(all.dirs.read.counts.ios, 30);
        assert_eq!(all.dirs.read.clat.count(), 30);
        assert_eq!(all.dirs.read.intervals.last(), Some(&(4000, 30, 60)));
    }

    #[test]
    fn concurrent_intervals_add_up() {
        let (a, b) = (job(0, 1000, 10), job(0, 1002, 20));
        let all = merge_jobs(&[&a, &b]);
        assert_eq!(all.dirs.read.intervals, [(500, 15, 30), (1000, 30, 60)]);
        assert_eq!(merge_jobs(&[&a]), a);
        assert_eq!(merge_jobs(&[]), JobRecord::default());
    }

    #[test]
    fn a_setting_is_in_effect_if_it_is_for_all() {
        let (mut a, mut b) = (job(0, 10, 1), job(0, 10, 1));
        a.granted.setup_flags = vec!["DEFER_TASKRUN".into(), "SQPOLL".into()];
        b.granted.setup_flags = vec!["DEFER_TASKRUN".into()];
        a.granted.polled = true;
        (a.granted.direct, b.granted.direct) = (true, true);
        b.granted.fallbacks = vec!["no huge pages".into()];
        b.error = Some(JobError { errno: 5, message: "read failed".into() });
        let all = merge_jobs(&[&a, &b, &JobRecord::default()]);
        assert_eq!(all.granted.setup_flags, ["DEFER_TASKRUN"]);
        assert!(all.granted.direct && !all.granted.polled);
        assert_eq!(all.granted.fallbacks, ["no huge pages"]);
        assert_eq!(all.error.unwrap().errno, 5);
    }

    #[test]
    fn costs_are_weighted_and_need_every_job() {
        let (mut a, mut b) = (job(0, 10, 1), job(0, 10, 1));
        a.cost = Some(Cost {
            ios: 100,
            user_instructions: 10.0,
            kernel_instructions: Some(5.0),
            kernel_cycles: Some(1.0),
            cache: Some(CacheCost { references: 8.0, misses: 4.0, ..CacheCost::default() }),
            ..Cost::default()
        });
        let cache = Some(CacheCost { references: 4.0, misses: 0.0, ..CacheCost::default() });
        b.cost = Some(Cost { ios: 300, user_instructions: 20.0, cache, ..Cost::default() });
        let cost = merge_jobs(&[&a, &b]).cost.unwrap();
        assert_eq!((cost.user_instructions, cost.kernel_instructions), (17.5, None));
        assert_eq!(cost.cache.map(|cache| (cache.references, cache.misses)), Some((5.0, 1.0)));
        b.cost = b.cost.map(|cost| Cost { cache: None, ..cost });
        assert_eq!(merge_jobs(&[&a, &b]).cost.unwrap().cache, None);
        (b.cost, b.cost_missing) = (None, Some("not permitted".into()));
        let all = merge_jobs(&[&a, &b]);
        assert_eq!((all.cost, all.cost_missing.as_deref()), (None, Some("not permitted")));
    }
}
