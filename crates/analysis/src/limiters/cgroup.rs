//! Limits of the cgroup that the workload runs in.

use super::{Cause, View};
use crate::watch::RatesMax;
use fathom_model::finding::{Confidence, Evidence, Unit};
use fathom_model::units;

/// A rate between these parts of its limit has reached it: merged I/Os and bursts make it differ.
const REACHED: std::ops::RangeInclusive<f64> = 0.9..=1.15;
/// The mean rate over all of the time must be at least this part of the limit.
const MEAN_MIN: f64 = 0.5;
/// Percent of the time for which CPU time must have been refused.
const THROTTLED_MIN: f64 = 5.0;
/// Times per second that the memory limit must have been hit.
const HITS_MIN: f64 = 1.0;
/// Pages per second that must have been reclaimed or stalled for.
const RECLAIMED_MIN: f64 = 10.0;

/// An I/O limit, as `riops=2000` of `vda`.
struct IoLimit<'a> {
    cgroup: &'a str,
    device: &'a str,
    key: &'a str,
    limit: f64,
}

impl<'a> IoLimit<'a> {
    /// From an entry of [`fathom_model::watch::CgroupSample::io_limits`].
    fn parse(entry: &'a str) -> Vec<Self> {
        let mut words = entry.rsplitn(8, ' ').collect::<Vec<_>>();
        words.reverse();
        let (settings, names): (Vec<&str>, Vec<&str>) = words.iter().partition(|w| w.contains('='));
        let Some((device, cgroup)) = names.split_last().filter(|(_, rest)| !rest.is_empty()) else {
            return Vec::new();
        };
        let cgroup = cgroup[0];
        let limit = |word: &&'a str| {
            let (key, limit) = word.split_once('=')?;
            Some(Self { cgroup, device, key, limit: limit.parse().ok()? })
        };
        settings.iter().filter_map(limit).filter(|limit| limit.limit > 0.0).collect()
    }

    /// What it limits, and the rate in bytes or I/Os per second.
    fn rate(&self, rates: &RatesMax) -> Option<(&'static str, f64)> {
        match self.key {
            "riops" => Some(("reads/s", rates.reads)),
            "wiops" => Some(("writes/s", rates.writes)),
            "rbps" => Some(("of reads", rates.read_bytes)),
            "wbps" => Some(("of writes", rates.write_bytes)),
            _ => None,
        }
    }

    fn is_bytes(&self) -> bool {
        self.key.ends_with("bps")
    }

    fn show(&self, rate: f64) -> String {
        if self.is_bytes() { units::bandwidth(rate) } else { units::count(rate) }
    }
}

pub(super) fn io_limit(view: &View) -> Option<Cause> {
    let cgroup = view.seen.last().system.as_ref()?.cgroup.as_ref()?;
    let reached = |limit: &IoLimit| {
        let most = view.seen.rates_max.get(limit.device)?;
        let mean = view.rates.disks.iter().find(|disk| disk.name == limit.device)?;
        let mean = RatesMax {
            reads: mean.read.ios + mean.read.merges,
            writes: mean.write.ios + mean.write.merges,
            read_bytes: mean.read.bytes,
            write_bytes: mean.write.bytes,
        };
        let (_, mean) = limit.rate(&mean)?;
        let (what, most) = limit.rate(most)?;
        let holds = REACHED.contains(&(most / limit.limit)) && mean / limit.limit >= MEAN_MIN;
        holds.then_some((what, most, mean))
    };
    let limits = cgroup.io_limits.iter().flat_map(|entry| IoLimit::parse(entry));
    let (limit, (what, most, mean)) =
        limits.filter_map(|limit| Some(reached(&limit)).flatten().map(|r| (limit, r))).next()?;
    let shown = |rate| limit.show(rate);
    let unit = if limit.is_bytes() { Unit::BytesPerSecond } else { Unit::Iops };
    Some(Cause {
        id: "cgroup-io-limit",
        weight: 0.95,
        confidence: Confidence::High,
        summary: format!(
            "The cgroup {} allows {} {what} on {} ({}); it reached {}.",
            limit.cgroup,
            shown(limit.limit),
            limit.device,
            limit.key,
            shown(most)
        ),
        evidence: vec![
            Evidence::number("limit", limit.limit, unit).with_source("io.max, blkio.throttle.*"),
            Evidence::number("mean", mean, unit).with_source("/proc/diskstats"),
        ],
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
