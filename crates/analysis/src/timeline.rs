//! What happened over time, in a limited number of spans: as many as a chart shows, however long a record is.

use crate::account::KINDS;
use crate::machine::{DiskRates, IoRates, MachineRates};
use fathom_model::histogram::{Histogram, bucket_of};
use fathom_model::progress::{Counts, JOBS_SAMPLED_MAX, JobSample, Phase};
use fathom_model::watch::{DiskKind, MachineSample, ThreadsSample};
use fathom_model::{Dir, PerDir};
use std::collections::BTreeMap;

/// Spans that are kept. When there are more, neighbors are joined, so each is the mean of 2, 4, 8… intervals.
const SPANS_MAX: usize = 300;

/// What can be added up over neighboring spans.
pub trait Additive {
    fn add(&mut self, later: Self);
}

#[derive(Debug, Clone, PartialEq)]
pub struct TimeSpan<T> {
    /// Its ends, in nanoseconds since the start.
    pub from_ns: u64,
    pub to_ns: u64,
    /// The part of it that was observed, in nanoseconds.
    pub observed_ns: u64,
    pub sum: T,
}

impl<T: Additive> TimeSpan<T> {
    fn join(&mut self, later: Self) {
        self.to_ns = later.to_ns;
        self.observed_ns += later.observed_ns;
        self.sum.add(later.sum);
    }
}

#[derive(Debug, Clone, Default)]
pub struct Timeline<T> {
    spans: Vec<TimeSpan<T>>,
    /// How often neighbors were joined: a span has 2 to this power intervals.
    joined: u32,
    /// Intervals in the last span.
    in_last: usize,
}

impl<T: Additive> Timeline<T> {
    /// Adds an interval that follows the last one.
    pub fn push(&mut self, from_ns: u64, to_ns: u64, sum: T) {
        let observed_ns = to_ns.saturating_sub(from_ns);
        if observed_ns == 0 {
            return;
        }
        let span = TimeSpan { from_ns, to_ns, observed_ns, sum };
        match self.spans.last_mut() {
            Some(last) if self.in_last < 1 << self.joined => {
                last.join(span);
                self.in_last += 1;
            }
            _ => {
                self.spans.push(span);
                self.in_last = 1;
            }
        }
        if self.spans.len() > SPANS_MAX {
            self.joined += 1;
            let mut pairs: Vec<TimeSpan<T>> = Vec::with_capacity(SPANS_MAX);
            for (index, span) in std::mem::take(&mut self.spans).into_iter().enumerate() {
                match pairs.last_mut() {
                    Some(first) if index % 2 == 1 => first.join(span),
                    _ => pairs.push(span),
                }
            }
            self.spans = pairs;
        }
    }
}

impl<T: Additive + Clone> Timeline<T> {
    /// The spans in their order. A last one of less than half the length of its predecessor is part of that: the rates of
    /// some milliseconds are not comparable.
    pub fn spans(&self) -> Vec<TimeSpan<T>> {
        let mut spans = self.spans.clone();
        if let [.., before, last] = &*spans
            && last.observed_ns < before.observed_ns / 2
            && let Some(last) = spans.pop()
            && let Some(before) = spans.last_mut()
        {
            before.join(last);
        }
        spans
    }
}

impl Additive for f64 {
    fn add(&mut self, later: Self) {
        *self += later;
    }
}

impl<T: Additive> Additive for PerDir<T> {
    fn add(&mut self, later: Self) {
        self.read.add(later.read);
        self.write.add(later.write);
        self.trim.add(later.trim);
    }
}

impl<T: Additive + Default> Additive for BTreeMap<String, T> {
    fn add(&mut self, later: Self) {
        later.into_iter().for_each(|(name, sum)| self.entry(name).or_default().add(sum));
    }
}

/// I/Os of a span in one direction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IoSum {
    pub ios: f64,
    pub bytes: f64,
    /// Their latencies added up, in nanoseconds, if they were measured.
    pub latency_ns: Option<f64>,
    /// Failed I/Os; only of a run's jobs.
    pub errors: f64,
    clat: Latencies,
}

impl IoSum {
    /// Bytes of an unknown number of I/Os.
    pub(crate) fn of_bytes(bytes: f64) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// Completion latencies of the I/Os; only of a run's jobs.
    pub fn clat(&self) -> Histogram {
        self.clat.histogram()
    }
}

impl Additive for IoSum {
    fn add(&mut self, later: Self) {
        self.ios += later.ios;
        self.bytes += later.bytes;
        self.errors += later.errors;
        let sums = [self.latency_ns, later.latency_ns];
        self.latency_ns = sums.into_iter().flatten().reduce(|a, b| a + b);
        if !later.clat.buckets.is_empty() {
            let mut all = self.clat.histogram();
            all.merge(&later.clat.histogram());
            self.clat = Latencies::of(&all);
        }
    }
}

/// A histogram's buckets that are not empty, as there are hundreds of histograms.
#[derive(Debug, Clone, Default, PartialEq)]
struct Latencies {
    buckets: Vec<(u64, u64)>,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Latencies {
    fn of(all: &Histogram) -> Self {
        let (sum_ns, min_ns, max_ns) = (all.sum_ns(), all.min_ns(), all.max_ns());
        Self { buckets: all.buckets().collect(), sum_ns, min_ns, max_ns }
    }

    fn histogram(&self) -> Histogram {
        let counts = self.buckets.iter().map(|(middle_ns, count)| (bucket_of(*middle_ns), *count));
        Histogram::from_parts(counts, self.sum_ns, self.min_ns, self.max_ns)
    }
}

/// The I/Os of a run over time, added up over its jobs.
#[derive(Debug, Clone, Default)]
pub struct JobTimeline {
    timeline: Timeline<PerDir<IoSum>>,
    before: Vec<PerDir<Counts>>,
    before_ns: u64,
}

impl JobTimeline {
    /// Adds the jobs of the next sample, taken `elapsed_ns` after the start; none where they are too many to be read
    /// from a record. Time in which no job is measured is left out.
    pub fn add(&mut self, elapsed_ns: u64, jobs: &[JobSample]) {
        if jobs.len() > JOBS_SAMPLED_MAX {
            return;
        }
        self.before.resize(self.before.len().max(jobs.len()), PerDir::default());
        let sum = PerDir::from_fn(|dir| self.grown(dir, jobs));
        let runs = |job: &JobSample| job.phase == Phase::Running;
        let is_measured = jobs.iter().any(runs) || sum.iter().any(|(_, sum)| sum.ios > 0.0);
        if is_measured {
            self.timeline.push(self.before_ns, elapsed_ns, sum);
        }
        self.before.iter_mut().zip(jobs).for_each(|(before, job)| *before = job.dirs);
        self.before_ns = elapsed_ns;
    }

    fn grown(&self, dir: Dir, jobs: &[JobSample]) -> IoSum {
        let (mut sum, mut clat) = (IoSum::default(), Histogram::default());
        for (job, before) in jobs.iter().zip(&self.before) {
            let (now, before) = (job.dirs[dir], before[dir]);
            sum.ios += now.ios.saturating_sub(before.ios) as f64;
            sum.bytes += now.bytes.saturating_sub(before.bytes) as f64;
            sum.errors += now.errors.saturating_sub(before.errors) as f64;
            clat.merge(&job.clat[dir]);
        }
        let latency_ns = (!clat.is_empty()).then(|| clat.sum_ns() as f64);
        IoSum { latency_ns, clat: Latencies::of(&clat), ..sum }
    }

    pub fn spans(&self) -> Vec<TimeSpan<PerDir<IoSum>>> {
        self.timeline.spans()
    }
}

/// The I/Os of disks over time, by name; without those that had none.
pub type DiskTimeline = Timeline<BTreeMap<String, PerDir<IoSum>>>;

/// What else the machine did in a span: gauges and rates times the seconds for which they held.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MachineSum {
    /// Free memory, in bytes × s.
    pub free: f64,
    /// Memory that was dirty or being written back, in bytes × s.
    pub dirty: f64,
    /// Pages of files that were scanned to reclaim them.
    pub scanned: f64,
    /// Bytes that the watched program passed to read(2), write(2) and the like.
    pub requested: f64,
    /// Bytes that other programs read from and wrote to disks.
    pub other_bytes: f64,
    /// CPU time of other programs, in seconds.
    pub other_cpu: f64,
    /// Time for which CPUs were withheld, by the hypervisor or by the cgroup's quota, in seconds.
    pub withheld: f64,
}

impl MachineSum {
    /// The interval before `now`, with these rates.
    pub(crate) fn of(now: &MachineSample, rates: &MachineRates) -> Self {
        let mut sum = Self::default();
        let seconds = rates.elapsed_ns as f64 / 1e9;
        if let Some(all) = &now.processes {
            sum.requested = (all.watched.requested_read + all.watched.requested_write) as f64;
        }
        for other in now.processes.iter().flat_map(|all| &all.others).filter(|other| !other.peer) {
            sum.other_bytes += other.disk_bytes() as f64;
            sum.other_cpu += other.cpu_ns as f64 / 1e9;
        }
        let Some(system) = &rates.system else { return sum };
        let throttled = system.cgroup.and_then(|cgroup| cgroup.throttled).unwrap_or(0.0);
        let stolen: f64 = system.cpus.iter().map(|cpu| cpu.shares.steal).sum();
        let paging = &system.paging;
        sum.free = system.memory.free as f64 * seconds;
        sum.dirty = (system.memory.dirty + system.memory.writeback) as f64 * seconds;
        sum.scanned = paging.scan_file.max(paging.scan_kswapd + paging.scan_direct) * seconds;
        sum.withheld = (throttled + stolen) / 100.0 * seconds;
        sum
    }

    /// Means of `seconds`: gauges, and rates per second.
    pub(crate) fn per(self, seconds: f64) -> Self {
        Self {
            free: self.free / seconds,
            dirty: self.dirty / seconds,
            scanned: self.scanned / seconds,
            requested: self.requested / seconds,
            other_bytes: self.other_bytes / seconds,
            other_cpu: self.other_cpu / seconds,
            withheld: self.withheld / seconds,
        }
    }
}

impl Additive for MachineSum {
    fn add(&mut self, later: Self) {
        self.free += later.free;
        self.dirty += later.dirty;
        self.scanned += later.scanned;
        self.requested += later.requested;
        self.other_bytes += later.other_bytes;
        self.other_cpu += later.other_cpu;
        self.withheld += later.withheld;
    }
}

/// The time of threads over time, in nanoseconds, by what they did: see [`KINDS`].
pub type ThreadTimeline = Timeline<BTreeMap<String, f64>>;

pub(crate) fn thread_sums(threads: &ThreadsSample) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::<String, f64>::new();
    for time in &threads.times {
        let kind = KINDS.iter().find(|(_, states)| states.contains(&time.state));
        kind.into_iter()
            .for_each(|(name, _)| *sums.entry((*name).into()).or_default() += time.ns as f64);
    }
    sums
}

/// The I/Os of an interval with these rates. A partition's are left out: they are its disk's as well.
pub(crate) fn disk_sums(disks: &[DiskRates], elapsed_ns: u64) -> BTreeMap<String, PerDir<IoSum>> {
    let seconds = elapsed_ns as f64 / 1e9;
    let sum = |rates: &IoRates| {
        let ios = rates.ios * seconds;
        let latency_ns = rates.wait_ms.map(|ms| ms * 1e6 * ios);
        IoSum { ios, bytes: rates.bytes * seconds, latency_ns, ..IoSum::default() }
    };
    let sums = |disk: &DiskRates| PerDir {
        read: sum(&disk.read),
        write: sum(&disk.write),
        trim: sum(&disk.discard),
    };
    let whole = disks.iter().filter(|disk| disk.kind != DiskKind::Partition);
    let all = whole.map(|disk| (disk.name.clone(), sums(disk)));
    all.filter(|(_, sums)| sums.iter().any(|(_, sum)| sum.ios > 0.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn ios(n: f64) -> IoSum {
        IoSum { ios: n, ..IoSum::default() }
    }

    fn job(phase: Phase, ios: u64, latency_ns: u64, new: u64) -> JobSample {
        let read = Counts { ios, bytes: ios * 4096, ..Counts::default() };
        let mut clat = PerDir::<Histogram>::default();
        clat.read.record_n(latency_ns, new);
        let dirs = PerDir { read, ..PerDir::default() };
        JobSample { phase, dirs, clat, ..JobSample::default() }
    }

    #[test]
    fn long_records_have_few_spans_that_add_up() {
        for seconds in [1_u64, 299, 300, 301, 600, 601, 86_400] {
            let mut timeline = Timeline::default();
            (0..seconds).for_each(|s| timeline.push(s * SECOND, (s + 1) * SECOND, ios(s as f64)));
            let spans = timeline.spans();
            assert!(spans.len() <= SPANS_MAX, "{seconds}: {}", spans.len());
            assert!(spans.len() as u64 >= seconds.min(SPANS_MAX as u64 / 2 - 1), "{seconds}");
            let sum: f64 = spans.iter().map(|span| span.sum.ios).sum();
            assert_eq!(sum, (seconds * (seconds - 1) / 2) as f64);
            assert!(spans.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
            let observed: u64 = spans.iter().map(|span| span.observed_ns).sum();
            assert_eq!(observed, seconds * SECOND);
            let each = spans[0].observed_ns;
            let rest = &spans[..spans.len() - 1];
            assert!(rest.iter().all(|span| span.observed_ns == each), "{seconds}");
        }
    }

    #[test]
    fn a_short_last_interval_belongs_to_the_one_before() {
        let mut timeline = Timeline::default();
        timeline.push(0, SECOND, ios(100.0));
        timeline.push(SECOND, SECOND + 1000, ios(7.0));
        timeline.push(SECOND + 1000, SECOND + 1000, ios(9.0));
        let spans = timeline.spans();
        assert_eq!((spans.len(), spans[0].sum.ios, spans[0].to_ns), (1, 107.0, SECOND + 1000));
    }

    #[test]
    fn jobs_add_up_and_unmeasured_time_is_left_out() {
        let mut timeline = JobTimeline::default();
        let waiting = || job(Phase::Waiting, 0, 1, 0);
        timeline.add(SECOND, &[job(Phase::Ramp, 0, 1, 0), waiting()]);
        timeline.add(2 * SECOND, &[job(Phase::Running, 10, 1000, 10), waiting()]);
        timeline.add(3 * SECOND, &[job(Phase::Done, 30, 3000, 20), waiting()]);
        timeline.add(4 * SECOND, &[job(Phase::Done, 30, 1, 0), job(Phase::Running, 5, 2000, 5)]);
        timeline.add(5 * SECOND, &[job(Phase::Done, 30, 1, 0), job(Phase::Running, 5, 1, 0)]);
        let spans = timeline.spans();
        let found: Vec<(u64, f64, f64)> =
            spans.iter().map(|s| (s.from_ns, s.sum.read.ios, s.sum.read.bytes)).collect();
        let second = |n: u64| n * SECOND;
        let wanted = [
            (second(1), 10.0, 40_960.0),
            (second(2), 20.0, 81_920.0),
            (second(3), 5.0, 20_480.0),
            // A stall.
            (second(4), 0.0, 0.0),
        ];
        assert_eq!(found, wanted);
        assert_eq!(spans[1].sum.read.latency_ns, Some(60_000.0));
        assert_eq!(spans[1].sum.read.clat().percentile(50.0), Some(3000));
        assert_eq!((spans[3].sum.read.latency_ns, spans[0].sum.write.ios), (None, 0.0));
    }

    #[test]
    fn latencies_of_joined_spans_are_those_of_all_their_ios() {
        let mut timeline = JobTimeline::default();
        for second in 1..=602_u64 {
            let latency_ns = if second % 2 == 0 { 9_000 } else { 1_000 };
            timeline.add(second * SECOND, &[job(Phase::Running, 10 * second, latency_ns, 10)]);
        }
        let first = &timeline.spans()[0];
        let clat = first.sum.read.clat();
        assert_eq!((first.observed_ns, clat.count()), (4 * SECOND, 40));
        assert_eq!((clat.percentile(50.0), clat.percentile(100.0)), (Some(1002), Some(9000)));
        assert_eq!(first.sum.read.latency_ns, Some(200_000.0));
    }

    #[test]
    fn jobs_beyond_what_records_are_read_for_are_left_out() {
        let mut timeline = JobTimeline::default();
        timeline.add(SECOND, &vec![job(Phase::Running, 1, 1, 1); JOBS_SAMPLED_MAX + 1]);
        assert!(timeline.spans().is_empty());
    }

    #[test]
    fn disks_are_counted_without_their_partitions() {
        let read =
            IoRates { ios: 100.0, bytes: 409_600.0, wait_ms: Some(2.0), ..IoRates::default() };
        let disk = |name: &str, kind, read| DiskRates {
            name: name.into(),
            kind,
            read,
            ..DiskRates::default()
        };
        let all = [
            disk("sda", DiskKind::Disk, read),
            disk("sda1", DiskKind::Partition, read),
            disk("sdb", DiskKind::Disk, IoRates::default()),
        ];
        let sums = disk_sums(&all, SECOND / 2);
        assert_eq!(sums.keys().collect::<Vec<_>>(), ["sda"]);
        let read = &sums["sda"].read;
        assert_eq!((read.ios, read.bytes, read.latency_ns), (50.0, 204_800.0, Some(1e8)));
    }
}
