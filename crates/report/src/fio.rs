//! A record's figures as fio defines them, for fio's output formats.

use fathom_analysis::derive::{self, JobGroup, Spread};
use fathom_analysis::watch::Observed;
use fathom_model::histogram::Histogram;
use fathom_model::plan::{Engine, JobPlan, Unified};
use fathom_model::progress::Counts;
use fathom_model::record::{DirRecord, DiskRecord, RunRecord};
use fathom_model::{Dir, PerDir};
use std::borrow::Cow;
use std::collections::BTreeMap;

const ERRNO_UNKNOWN: i32 = 5;

pub(crate) fn version(record: &RunRecord) -> String {
    let program = record.header.command.first().and_then(|path| path.rsplit('/').next());
    match program {
        Some("fio") => crate::fio_text::FIO_VERSION.to_string(),
        _ => format!("fathom-{}", record.header.fathom_version),
    }
}

pub(crate) struct Entry<'a> {
    pub group: JobGroup<'a>,
    pub first: usize,
    /// The directions, in fio's order and by fio's names.
    pub dirs: Vec<(&'static str, DirFigures<'a>)>,
    /// All directions combined, in addition to `dirs`, for `unified_rw_reporting=both`.
    pub both: Option<DirFigures<'a>>,
}

impl Entry<'_> {
    /// errno of the job's failure; as in fio, otherwise the first of the errors that it tolerated, or 0.
    pub fn error(&self) -> i32 {
        let failure = self.group.record.error.as_ref().map(|e| match e.errno {
            0 => ERRNO_UNKNOWN,
            errno => errno,
        });
        let mut dirs = self.group.record.dirs.iter();
        let tolerated = || dirs.find_map(|(_, dir)| dir.errnos.first()).map_or(0, |first| first.0);
        failure.unwrap_or_else(tolerated)
    }

    pub fn cpu_percent(&self) -> (f64, f64) {
        let usage = &self.group.record.usage;
        let of = |ns: u64| match self.group.worker_ns {
            0 => 0.0,
            all => ns as f64 * 100.0 / all as f64,
        };
        (of(usage.user_ns), of(usage.system_ns))
    }

    pub fn switches(&self) -> u64 {
        let usage = &self.group.record.usage;
        usage.voluntary_switches + usage.involuntary_switches
    }

    /// Where errors do not end the job: their number and the first errno.
    pub fn counted_errors(&self) -> Option<(u64, i32)> {
        let errors = self.group.record.dirs.iter().map(|(_, dir)| dir.counts.errors).sum();
        self.group.plan.on_error.tolerates().then(|| (errors, self.error()))
    }

    pub fn clat_all(&self) -> Histogram {
        let mut all = Histogram::default();
        if self.group.plan.show.clat {
            self.group.record.dirs.iter().for_each(|(_, dir)| all.merge(&dir.clat));
        }
        all
    }
}

pub(crate) struct DirFigures<'a> {
    pub dir: DirRecord,
    /// The measured time where the direction occurs, or 0, in nanoseconds.
    pub runtime_ns: u64,
    /// Over the intervals, in KiB/s.
    pub bw: Spread,
    /// Mean bandwidth in percent of that of the whole group.
    pub bw_agg: f64,
    /// Over the intervals, per second.
    pub iops: Spread,
    plan: &'a JobPlan,
}

impl DirFigures<'_> {
    /// As in fio, synchronous engines have none: one call submits and completes.
    pub fn slat(&self) -> Cow<'_, Histogram> {
        shown(&self.dir.slat, self.plan.show.slat && !self.plan.engine.is_synchronous())
    }

    pub fn clat(&self) -> Cow<'_, Histogram> {
        shown(&self.dir.clat, self.plan.show.clat)
    }

    pub fn lat(&self) -> Cow<'_, Histogram> {
        shown(&self.dir.lat, self.plan.show.lat)
    }

    pub fn bytes_per_second(&self) -> f64 {
        derive::per_second(self.dir.counts.bytes, self.runtime_ns)
    }

    pub fn ios_per_second(&self) -> f64 {
        derive::per_second(self.dir.counts.ios, self.runtime_ns)
    }
}

fn shown(histogram: &Histogram, show: bool) -> Cow<'_, Histogram> {
    if show { Cow::Borrowed(histogram) } else { Cow::Owned(Histogram::default()) }
}

/// What bandwidths are shares of: a group's bytes and its longest run.
struct Total {
    group: u32,
    bytes: PerDir<u64>,
    runtime_ns: u64,
}

pub(crate) fn entries(record: &RunRecord) -> Vec<Entry<'_>> {
    let mut groups = derive::groups(record);
    groups.iter_mut().for_each(count_blocks);
    groups.iter_mut().for_each(count_verification);
    let total = |group: &JobGroup| Total {
        group: group.plan.group,
        bytes: group.record.dirs.map(|_, dir| dir.counts.bytes),
        runtime_ns: group.record.runtime_ns,
    };
    let totals: Vec<Total> = groups.iter().map(total).collect();
    groups.into_iter().map(|group| entry(group, &totals)).collect()
}

/// As in fio, what a job read back is among its reads.
fn count_verification(group: &mut JobGroup) {
    if let Some(verify) = &group.record.verify {
        let own = &group.record.dirs.read;
        group.record.dirs.read = derive::merge_dirs(&[(0, own), (0, &verify.reads)]);
        // As in fio, also the writes that were only counted.
        group.record.dirs.write.counts.ios += verify.counted_ios;
        group.record.dirs.write.counts.bytes += verify.counted_bytes;
    }
}

/// The time of the reads and writes of `dir`, or of all, in nanoseconds: as in fio, reading back is a part of its own.
fn runtime_ns(group: &JobGroup<'_>, dir: Option<Dir>) -> u64 {
    if dir == Some(Dir::Write) && group.plan.verify.as_ref().is_some_and(|verify| verify.only) {
        return 0;
    }
    let back_ns = group.record.verify.as_ref().map_or(0, |verify| verify.runtime_ns);
    match dir {
        Some(Dir::Read) if back_ns > 0 && !group.plan.access.mix.has(Dir::Read) => back_ns,
        Some(Dir::Read) | None => group.record.runtime_ns + back_ns,
        _ => group.record.runtime_ns,
    }
}

/// As in fio, an operation on a name counts as a block, although it transfers nothing.
fn count_blocks(group: &mut JobGroup) {
    let Engine::Names(_) = group.plan.engine else { return };
    for dir in Dir::ALL {
        let block = group.plan.access.block_sizes[dir].min();
        let counts = |counts: &mut Counts| counts.bytes = counts.ios.saturating_mul(block);
        let done = &mut group.record.dirs[dir];
        counts(&mut done.counts);
        for (_, ios, bytes) in &mut done.intervals {
            *bytes = ios.saturating_mul(block);
        }
    }
}

fn entry<'a>(group: JobGroup<'a>, totals: &[Total]) -> Entry<'a> {
    let all: Vec<(u64, &DirRecord)> = group.record.dirs.iter().map(|(_, dir)| (0, dir)).collect();
    let mixed = || stats(&group, None, derive::merge_dirs(&all), totals);
    let unified = group.plan.show.unified;
    let dirs = match unified {
        Unified::Mixed => vec![("mixed", mixed())],
        _ => Dir::ALL
            .into_iter()
            .map(|dir| {
                (dir.name(), stats(&group, Some(dir), group.record.dirs[dir].clone(), totals))
            })
            .collect(),
    };
    let both = (unified == Unified::Both).then(mixed);
    let first = group.jobs.first().copied().unwrap_or(0);
    Entry { dirs, both, first, group }
}

/// The figures of `counts`: those of `dir`, or of all directions combined.
fn stats<'a>(
    group: &JobGroup<'a>,
    dir: Option<Dir>,
    counts: DirRecord,
    totals: &[Total],
) -> DirFigures<'a> {
    let occurs =
        counts.counts != Counts::default() || dir.is_none_or(|dir| group.plan.access.mix.has(dir));
    let rates = derive::interval_rates(&counts);
    let kib: Vec<f64> = rates.iter().map(|rate| rate.bytes_per_second / 1024.0).collect();
    let iops: Vec<f64> = rates.iter().map(|rate| rate.iops).collect();
    let bw = Spread::of(&kib);
    DirFigures {
        dir: counts,
        runtime_ns: if occurs { runtime_ns(group, dir) } else { 0 },
        bw_agg: share_of_group(bw.mean, dir, group.plan.group, totals),
        bw,
        iops: Spread::of(&iops),
        plan: group.plan,
    }
}

/// A mean of KiB/s in percent of the bandwidth of the whole group, which is its bytes over its
/// longest run; at most 100, as fio has it.
fn share_of_group(kib: f64, dir: Option<Dir>, group: u32, totals: &[Total]) -> f64 {
    let members = || totals.iter().filter(|total| total.group == group);
    let bytes: u64 = members()
        .map(|total| match dir {
            Some(dir) => total.bytes[dir],
            None => total.bytes.iter().map(|(_, bytes)| bytes).sum(),
        })
        .sum();
    let longest_ns = members().map(|total| total.runtime_ns).max().unwrap_or(0);
    match derive::per_second(bytes, longest_ns) / 1024.0 {
        all if all > 0.0 => (kib * 100.0 / all).min(100.0),
        _ => 0.0,
    }
}

pub(crate) fn priority_parts(priority: u16) -> [u16; 3] {
    [priority >> 13, priority & 7, priority >> 3 & 1023]
}

/// Runs in which the kernel's counters, in ticks of 10 ms, say little of the time.
const SHORT_NS: u64 = 100_000_000;

/// Idle time of each CPU in percent; of those whose counters did not advance in a short run, what the jobs left of all.
pub(crate) fn idle_percent(record: &RunRecord, observed: Option<&Observed>) -> BTreeMap<u32, f64> {
    let mut idle = BTreeMap::new();
    let Some(observed) = observed else { return idle };
    let (elapsed_ns, cpus) = (record.header.elapsed_ns, record.header.facts.host.cpus_online);
    if elapsed_ns < SHORT_NS {
        let usage = record.jobs.iter().map(|job| job.usage.user_ns + job.usage.system_ns);
        let all_ns = elapsed_ns as f64 * f64::from(cpus);
        let left = (100.0 - usage.sum::<u64>() as f64 * 100.0 / all_ns.max(1.0)).clamp(0.0, 100.0);
        idle.extend((0..cpus).map(|cpu| (cpu, left)));
    }
    idle.extend(observed.idle_percent());
    idle
}

pub(crate) fn utilisation(disk: &DiskRecord) -> f64 {
    match disk.elapsed_ms {
        0 => 0.0,
        elapsed => (disk.busy_ms as f64 * 100.0 / elapsed as f64).min(100.0),
    }
}

pub(crate) type Buckets = Vec<(&'static str, f64)>;

/// fio's latency classes, and their upper ends, exclusive.
const NAMES: [&str; 12] =
    ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000"];
const ENDS: [u64; 12] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000, u64::MAX];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LatencyUnit {
    Ns = 1,
    Us = 1000,
    Ms = 1_000_000,
}

/// The share of all values in each class of `unit`; its first class begins where the classes of the unit below end.
pub(crate) fn latency(histogram: &Histogram, unit: LatencyUnit) -> Buckets {
    let ns = unit as u64;
    let classes = if unit == LatencyUnit::Ms { 12 } else { 10 };
    let from_ns = if unit == LatencyUnit::Ns { 0 } else { ns };
    let mut counts = vec![0; classes];
    for (value_ns, n) in histogram.buckets().filter(|(value_ns, _)| *value_ns >= from_ns) {
        let is_below = |end: &u64| value_ns < end.saturating_mul(ns);
        if let Some(class) = ENDS[..classes].iter().position(is_below) {
            counts[class] += n;
        }
    }
    NAMES
        .into_iter()
        .zip(counts)
        .map(|(name, n)| (name, share(n, histogram.count(), 0.01)))
        .collect()
}

/// Shares of I/Os by depth: each class extends from its name to the next.
pub(crate) fn in_flight(levels: &[(u32, u64)]) -> Buckets {
    let names = ["1", "2", "4", "8", "16", "32", ">=64"];
    classes(names, levels, |depth| (depth.max(1).ilog2() as usize).min(6))
}

/// Shares of calls by batch size: each class extends from above the previous one to its name.
pub(crate) fn batch(sizes: &[(u32, u64)]) -> Buckets {
    let names = ["0", "4", "8", "16", "32", "64", ">=64"];
    classes(names, sizes, |size| match size {
        0 => 0,
        1..=4 => 1,
        5..=8 => 2,
        9..=16 => 3,
        17..=32 => 4,
        33..=64 => 5,
        _ => 6,
    })
}

fn classes(names: [&'static str; 7], all: &[(u32, u64)], class: fn(u32) -> usize) -> Buckets {
    let mut counts = [0; 7];
    for (value, n) in all {
        counts[class(*value)] += n;
    }
    let total = counts.iter().sum();
    names.into_iter().zip(counts).map(|(name, n)| (name, share(n, total, 0.1))).collect()
}

/// A share in percent; at least `least` unless it is 0.
fn share(part: u64, whole: u64, least: f64) -> f64 {
    match part {
        0 => 0.0,
        _ => (part as f64 * 100.0 / whole as f64).max(least),
    }
}

#[cfg(test)]
mod shape_tests {
    use super::*;

    #[test]
    fn every_latency_is_in_one_class() {
        let mut h = Histogram::default();
        for ns in [1, 999, 1000, 749_000, 999_000, 1_000_000, 1_500_000_000, 5_000_000_000] {
            h.record(ns);
        }
        let all = [LatencyUnit::Ns, LatencyUnit::Us, LatencyUnit::Ms].map(|unit| latency(&h, unit));
        assert_eq!(all.iter().flatten().map(|b| b.1).sum::<f64>(), 100.0);
        assert_eq!((all[0][0], all[0][9]), (("2", 12.5), ("1000", 12.5)));
        assert_eq!((all[1][0], all[1][8], all[1][9]), (("2", 12.5), ("750", 12.5), ("1000", 12.5)));
        assert_eq!(
            (all[2][0], all[2][10], all[2][11]),
            (("2", 12.5), ("2000", 12.5), (">=2000", 12.5))
        );
    }

    #[test]
    fn depths_and_batches_have_different_edges() {
        let level = in_flight(&[(1, 1), (3, 1), (4, 1), (63, 1), (64, 4)]);
        let shares: Vec<f64> = level.iter().map(|b| b.1).collect();
        assert_eq!(shares, [12.5, 12.5, 12.5, 0.0, 0.0, 12.5, 50.0]);
        let sizes = batch(&[(0, 1), (1, 1), (4, 1), (5, 1), (64, 2), (65, 2)]);
        let shares: Vec<f64> = sizes.iter().map(|b| b.1).collect();
        assert_eq!(shares, [12.5, 25.0, 12.5, 0.0, 0.0, 25.0, 25.0]);
    }

    #[test]
    fn rare_is_not_never() {
        assert_eq!(in_flight(&[(1, 1), (8, 100_000)])[0], ("1", 0.1));
        assert!(in_flight(&[]).iter().all(|b| b.1 == 0.0));
    }
}
