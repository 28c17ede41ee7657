//! The samples of a record as a whole, added up one by one, so that memory use does not grow with its length.

mod io_limits;

pub use io_limits::IoLimit;
pub(crate) use io_limits::REACHED;

use crate::account::{AccountTotals, TakenTime};
use crate::machine::{self, CgroupRates, MachineRates};
use crate::processes::ProcessTotals;
use crate::threads::{Column, DEFAULT, ThreadGroups, is_helper};
use crate::timeline::{
    DiskTimeline, JobTimeline, MachineSum, ThreadTimeline, Timeline, disk_sums, thread_sums,
};
use fathom_model::progress::Sample;
use fathom_model::watch::{
    CgroupSample, CpuSample, MachineSample, SampledView, Stack, StackCount, StacksSample,
};
use std::collections::BTreeMap;

/// All samples of the machine so far.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    pub samples: u64,
    /// From the first sample to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// Highest mean number of I/Os in flight in any interval, by device.
    pub queue_max: BTreeMap<String, f64>,
    /// Highest CPU usage over all CPUs in any interval, in percent.
    pub busy_max: f64,
    /// The shortest interval so far, in nanoseconds, ignoring those less than half as long.
    shortest_ns: Option<u64>,
    first: Option<Sample>,
    last: Sample,
    /// The first sample with the cgroup of the last one: counters of another cgroup cannot be a baseline.
    cgroup_first: Option<(u64, CgroupSample)>,
    /// What threads did, by the default columns or those of the view.
    pub threads: ThreadGroups,
    /// The same, only for the threads that did the I/O of a run; empty where its process is not known.
    pub own_threads: ThreadGroups,
    /// Where the time of the watched program's threads went, or of those that did the I/O of a run.
    pub account: AccountTotals,
    pub processes: ProcessTotals,
    /// How often the I/O limits of the cgroup were reached.
    pub io_limits: BTreeMap<String, IoLimit>,
    /// The I/Os of a run's jobs over time. Its times begin with the run, not with the samples of the machine.
    pub jobs_over_time: JobTimeline,
    /// The I/Os of the disks since the first sample.
    pub disks_over_time: DiskTimeline,
    /// What else the machine did, in the same spans.
    pub machine_over_time: Timeline<MachineSum>,
    /// CPU time of the SQPOLL threads of the rings, and the part of it with work to do, in microseconds.
    pub sq_poll_us: (u64, u64),
    /// What threads did since then.
    pub threads_over_time: ThreadTimeline,
    /// The stacks that samples refer to, by index.
    pub known_stacks: Vec<Stack>,
    stacks: Option<StacksSample>,
    stack_counts: StackCounts,
    own_stack_counts: StackCounts,
}

/// Samples and their periods by stack.
type StackCounts = BTreeMap<u32, (u32, u64)>;

impl Observed {
    /// No samples yet, for `view`, if the record is of one.
    pub fn of(view: Option<&SampledView>) -> Self {
        let columns = match view {
            Some(SampledView::Threads { group_by, .. }) => Column::parse_list(&group_by.join(",")),
            _ => Ok(DEFAULT.to_vec()),
        };
        let threads = columns.map_or_else(|_| ThreadGroups::default(), |by| ThreadGroups::new(&by));
        Self { threads, ..Self::default() }
    }

    pub fn add(&mut self, sample: &Sample) {
        let first = self.first.get_or_insert_with(|| sample.clone());
        self.elapsed_ns = sample.elapsed_ns.saturating_sub(first.elapsed_ns);
        let new = sample.machine.stacks.iter().flat_map(|stacks| &stacks.new);
        self.known_stacks.extend(new.cloned());
        // What the first sample holds of an interval was before the record.
        if self.samples > 0 {
            let elapsed_ns = sample.elapsed_ns.saturating_sub(self.last.elapsed_ns);
            let rates = machine::rates(&self.last.machine, &sample.machine, elapsed_ns);
            let began_ns = self.elapsed_ns.saturating_sub(elapsed_ns);
            let disks = disk_sums(&rates.disks, elapsed_ns);
            self.disks_over_time.push(began_ns, self.elapsed_ns, disks);
            let machine = MachineSum::of(&sample.machine, &rates);
            self.machine_over_time.push(began_ns, self.elapsed_ns, machine);
            let threads = sample.machine.threads.as_ref().map(thread_sums).unwrap_or_default();
            self.threads_over_time.push(began_ns, self.elapsed_ns, threads);
            self.add_interval(&sample.machine, &rates);
            self.peaks(sample, rates);
        }
        self.samples += 1;
        let cgroup = sample.machine.system.as_ref().and_then(|system| system.cgroup.as_ref());
        if let Some(cgroup) = cgroup {
            let same = |(_, first): &(u64, CgroupSample)| first.is_same(cgroup);
            self.cgroup_first = self
                .cgroup_first
                .take()
                .filter(same)
                .or_else(|| Some((sample.elapsed_ns, cgroup.clone())));
        }
        self.last.clone_from(sample);
    }

    /// Idle time of each CPU, in percent, waiting for I/O included.
    pub fn idle_percent(&self) -> BTreeMap<u32, f64> {
        let cpus = |sample: &Sample| {
            sample.machine.system.as_ref().map(|system| system.cpus.clone()).unwrap_or_default()
        };
        let then = self.first.as_ref().map(cpus).unwrap_or_default();
        let times = |cpu: &CpuSample| {
            let idle = cpu.idle + cpu.iowait;
            (idle, idle + cpu.user + cpu.nice + cpu.system + cpu.irq + cpu.softirq + cpu.steal)
        };
        let idle = |now: CpuSample| {
            let then = times(then.iter().find(|then| then.cpu == now.cpu)?);
            let now_times = times(&now);
            let all = now_times.1.checked_sub(then.1).filter(|all| *all > 0)?;
            Some((now.cpu, now_times.0.saturating_sub(then.0) as f64 * 100.0 / all as f64))
        };
        cpus(&self.last).into_iter().filter_map(idle).collect()
    }

    fn add_interval(&mut self, machine: &MachineSample, rates: &MachineRates) {
        machine.processes.iter().for_each(|processes| self.processes.add(processes));
        let own = self.processes.watched.pid;
        if let Some(threads) = &machine.threads {
            self.threads.add(threads);
            let off_cpu = machine.off_cpu.as_ref();
            self.account.add(threads, off_cpu, TakenTime::of(rates), |comm| !is_helper(comm));
            if own > 0 {
                self.own_threads.add_workers(threads, own);
            }
        }
        machine.stacks.iter().for_each(|stacks| self.add_stacks(stacks));
        self.add_rings(machine);
    }

    fn add_rings(&mut self, machine: &MachineSample) {
        let mut threads = Vec::new();
        let before = self.last.machine.rings.iter().flat_map(|all| &all.rings);
        let before: Vec<_> = before.filter_map(|ring| ring.sq_poll).collect();
        let rings = machine.rings.iter().flat_map(|all| &all.rings);
        // Several rings may share a thread.
        for now in rings.filter_map(|ring| ring.sq_poll) {
            let Some((total, work)) = now.total_us.zip(now.work_us) else { continue };
            if threads.contains(&now.thread) {
                continue;
            }
            threads.push(now.thread);
            // The counters of a new one began at 0.
            let then = before.iter().find(|then| then.thread == now.thread);
            let then = then.and_then(|then| then.total_us.zip(then.work_us)).unwrap_or_default();
            self.sq_poll_us.0 += total.saturating_sub(then.0);
            self.sq_poll_us.1 += work.saturating_sub(then.1);
        }
    }

    fn peaks(&mut self, sample: &Sample, rates: MachineRates) {
        let elapsed_ns = rates.elapsed_ns;
        // The last interval is usually partial: 20 busy milliseconds are not a peak.
        if elapsed_ns < self.shortest_ns.unwrap_or(0) / 2 {
            return;
        }
        self.shortest_ns = Some(self.shortest_ns.map_or(elapsed_ns, |ns| ns.min(elapsed_ns)));
        let busy = rates.system.map_or(0.0, |system| system.cpu.busy());
        self.busy_max = self.busy_max.max(busy);
        for disk in rates.disks {
            io_limits::add(&mut self.io_limits, (&self.last, sample), &disk);
            let max = self.queue_max.entry(disk.name).or_default();
            *max = max.max(disk.queue);
        }
    }

    fn add_stacks(&mut self, stacks: &StacksSample) {
        let sum = self.stacks.get_or_insert_with(|| StacksSample {
            event: stacks.event.clone(),
            hz: stacks.hz,
            ..StacksSample::default()
        });
        sum.idle += stacks.idle;
        sum.own += stacks.own;
        sum.lost += stacks.lost;
        sum.throttled += stacks.throttled;
        sum.cut += stacks.cut;
        for count in &stacks.counts {
            let is_own = count.pid == self.processes.watched.pid && count.pid > 0;
            let own = is_own.then_some(&mut self.own_stack_counts);
            for counts in [Some(&mut self.stack_counts), own].into_iter().flatten() {
                let place = counts.entry(count.stack).or_default();
                place.0 += count.count;
                place.1 += count.period;
            }
        }
    }

    /// Means over the whole record.
    pub fn rates(&self) -> MachineRates {
        let none = MachineSample::default();
        let first = self.first.as_ref().map_or(&none, |first| &first.machine);
        let mut rates = machine::rates(first, &self.last.machine, self.elapsed_ns);
        let last = self.last.machine.system.as_ref().and_then(|system| system.cgroup.as_ref());
        if let (Some(system), Some((at, first)), Some(last)) =
            (&mut rates.system, &self.cgroup_first, last)
        {
            let elapsed_ns = self.last.elapsed_ns.saturating_sub(*at);
            system.cgroup = Some(CgroupRates::between(first, last, elapsed_ns));
        }
        rates
    }

    /// When the first sample was taken, in nanoseconds since the start of the run.
    pub fn began_ns(&self) -> u64 {
        self.first.as_ref().map_or(0, |first| first.elapsed_ns)
    }

    /// Time of the last sample, in nanoseconds since 1970.
    pub fn ended_unix_ns(&self) -> u64 {
        self.last.unix_ns
    }

    pub fn first(&self) -> &MachineSample {
        self.first.as_ref().map_or(&self.last.machine, |first| &first.machine)
    }

    /// The last sample; counters that start when a sampler opens cover the whole record.
    pub fn last(&self) -> &MachineSample {
        &self.last.machine
    }

    /// All CPU samples as one, over all processes and threads.
    pub fn stacks(&self) -> Option<StacksSample> {
        self.stacks_by(&self.stack_counts)
    }

    /// The same, only for the process that did the run.
    pub fn own_stacks(&self) -> Option<StacksSample> {
        self.stacks_by(&self.own_stack_counts)
    }

    fn stacks_by(&self, counts: &StackCounts) -> Option<StacksSample> {
        let place = |(stack, (count, period)): (&u32, &(u32, u64))| StackCount {
            stack: *stack,
            count: *count,
            period: *period,
            ..StackCount::default()
        };
        let counts = counts.iter().map(place).collect();
        self.stacks.as_ref().map(|sum| StacksSample { counts, ..sum.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::{CpuSample, DiskCounters, SystemSample, ThreadCount, ThreadsSample};

    /// A sample taken at `second`, with the first CPU busy for `busy` of its ticks so far, and `weighted_ms` of
    /// the disk's I/Os.
    fn sample(second: u64, busy: u64, weighted_ms: u32) -> Sample {
        let cpu = CpuSample { user: busy, idle: second * 100 - busy, ..CpuSample::default() };
        let system = SystemSample { cpus: vec![cpu], ..SystemSample::default() };
        let disk = DiskCounters { name: "sda".into(), weighted_ms, ..DiskCounters::default() };
        let activity = |comm: &str, count| ThreadCount {
            comm: comm.into(),
            state: 'D',
            count,
            ..ThreadCount::default()
        };
        let threads = ThreadsSample {
            samples: 10,
            seen: 100,
            active: vec![activity("io-1", 5), activity("io-23", 10)],
            ..ThreadsSample::default()
        };
        let place = StackCount { stack: 7, count: 3, period: 30, ..StackCount::default() };
        let stacks = StacksSample { idle: 1, counts: vec![place], ..StacksSample::default() };
        let machine = MachineSample {
            system: Some(system),
            disks: vec![disk],
            threads: Some(threads),
            stacks: Some(stacks),
            ..MachineSample::default()
        };
        Sample { elapsed_ns: second * 1_000_000_000, machine, ..Sample::default() }
    }

    #[test]
    fn a_record_is_the_sum_of_its_intervals() {
        let mut totals = Observed::default();
        for sample in [sample(1, 0, 0), sample(2, 90, 500), sample(5, 90, 500)] {
            totals.add(&sample);
        }
        assert_eq!((totals.samples, totals.elapsed_ns), (3, 4_000_000_000));
        assert!((totals.busy_max - 90.0).abs() < 1e-9, "{}", totals.busy_max);
        let rates = totals.rates();
        assert!((rates.system.unwrap().cpu.busy() - 22.5).abs() < 1e-9);
        assert!((totals.queue_max["sda"] - 0.5).abs() < 1e-9);
        let threads = totals.threads.largest_first();
        assert_eq!((threads.len(), threads[0].values[0].as_str()), (1, "io-*"));
        assert_eq!(threads[0].average, 1.5);
        let stacks = totals.stacks().unwrap();
        assert_eq!((stacks.idle, stacks.counts[0].count, stacks.counts[0].period), (2, 6, 60));
    }

    #[test]
    fn a_partial_last_interval_is_no_peak() {
        let mut totals = Observed::default();
        (0..4).for_each(|second| totals.add(&sample(second, 10 * second, 0)));
        let rest = Sample { elapsed_ns: 3_020_000_000, ..sample(4, 130, 0) };
        totals.add(&rest);
        assert!((totals.busy_max - 10.0).abs() < 1e-9, "{}", totals.busy_max);
        assert_eq!(totals.elapsed_ns, 3_020_000_000);

        // After joined intervals, normal ones still count.
        let mut totals = Observed::default();
        [(0, 0), (1, 10), (9, 90), (10, 190)]
            .iter()
            .for_each(|(s, b)| totals.add(&sample(*s, *b, 0)));
        assert!(totals.busy_max > 90.0, "{}", totals.busy_max);
    }

    #[test]
    fn an_empty_record_is_no_error() {
        let totals = Observed::default();
        assert_eq!(totals.rates().system, None);
        assert!(totals.threads.largest_first().is_empty() && totals.stacks().is_none());
    }
}
