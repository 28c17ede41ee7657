//! Limits of the cgroup that the workload runs in.

use super::{Cause, View};
use crate::watch::IoLimit;
use fathom_model::finding::{Confidence, Evidence, Unit};
use fathom_model::units;

/// Percent of the time for which CPU time must have been refused.
const THROTTLED_MIN: f64 = 5.0;
/// Times per second that the memory limit must have been hit.
const HITS_MIN: f64 = 1.0;
/// Pages per second that must have been reclaimed or stalled for.
const RECLAIMED_MIN: f64 = 10.0;

/// Share of the intervals with I/O in which a limit must have been reached.
const REACHED_MIN: f64 = 0.5;

pub(super) fn io_limit(view: &View) -> Option<Cause> {
    let limits = view.seen.io_limits.values();
    let limit =
        limits.filter(|limit| limit.reached_share() >= REACHED_MIN).max_by_key(|l| l.reached)?;
    let IoLimit { cgroup, device, key, .. } = limit;
    let (what, unit) = match key.as_str() {
        "riops" => ("reads/s", Unit::Iops),
        "wiops" => ("writes/s", Unit::Iops),
        "rbps" => ("of reads", Unit::BytesPerSecond),
        _ => ("of writes", Unit::BytesPerSecond),
    };
    let shown = |rate| match unit {
        Unit::Iops => units::count(rate),
        _ => units::bandwidth(rate),
    };
    let reached = Evidence::number("intervals at the limit", limit.reached_share(), Unit::Share);
    Some(Cause {
        id: "cgroup-io-limit",
        weight: limit.reached_share(),
        confidence: Confidence::High,
        summary: format!(
            "The cgroup {cgroup} allows {} {what} on {device} ({key}); it reached {}.",
            shown(limit.limit),
            shown(limit.mean())
        ),
        evidence: vec![reached.with_source("io.max or blkio.throttle.*, /proc/diskstats")],
        next_step: "Raise the limit, or run it in another cgroup".into(),
    })
}

pub(super) fn cpu_quota(view: &View) -> Option<Cause> {
    let system = view.rates.system.as_ref()?;
    let throttled = system.cgroup.as_ref()?.throttled.filter(|share| *share >= THROTTLED_MIN)?;
    let cgroup = view.seen.last().system.as_ref()?.cgroup.as_ref()?;
    let limit = cgroup.cpu_limit?;
    let periods = system.cgroup.as_ref()?.throttled_periods.unwrap_or(0.0);
    Some(Cause {
        id: "cgroup-cpu-quota",
        weight: (throttled / 100.0).min(1.0),
        confidence: Confidence::High,
        summary: format!(
            "The cgroup {} may use {limit:.2} CPUs; it was throttled for {:.0}% of the time.",
            cgroup.path,
            throttled.min(100.0)
        ),
        evidence: vec![
            Evidence::number("periods throttled per second", periods, Unit::Count)
                .with_source("cpu.stat"),
        ],
        next_step: "Raise cpu.max (cgroup v1: cpu.cfs_quota_us)".into(),
    })
}

pub(super) fn memory_limit(view: &View) -> Option<Cause> {
    let system = view.rates.system.as_ref()?;
    let hits = system.cgroup.as_ref()?.memory_hits.filter(|hits| *hits >= HITS_MIN)?;
    let cgroup = view.seen.last().system.as_ref()?.cgroup.as_ref()?;
    let limit = cgroup.memory_limit?;
    let paging = &system.paging;
    let reclaimed = paging.steal_file + paging.swap_out;
    if reclaimed < RECLAIMED_MIN {
        return None;
    }
    let stalled = system.pressure.as_ref().map_or(0.0, |pressure| pressure.memory.some / 100.0);
    let again = paging.refault_file + paging.swap_in;
    let pages = |rate: f64| rate * 4096.0;
    Some(Cause {
        id: "cgroup-memory-limit",
        weight: stalled.max(0.6),
        confidence: if again >= RECLAIMED_MIN { Confidence::High } else { Confidence::Medium },
        summary: format!(
            "The cgroup may use {} of memory; the limit was hit {} times/s, and pages had to be reclaimed.",
            units::bytes(limit),
            units::count(hits)
        ),
        evidence: vec![
            Evidence::number("reclaimed", pages(reclaimed), Unit::BytesPerSecond)
                .with_source("/proc/vmstat, the whole machine"),
            Evidence::number("read again soon after", pages(again), Unit::BytesPerSecond)
                .with_source("workingset_refault_file, pswpin"),
        ],
        next_step: "Raise memory.max (cgroup v1: memory.limit_in_bytes), or use less page cache"
            .into(),
    })
}
