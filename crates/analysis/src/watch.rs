//! What was seen in a whole record, gathered sample by sample, so that a long record needs no more
//! memory than a short one.

use crate::machine::{self, MachineRates};
use crate::threads::fold_digits;
use fathom_model::progress::Sample;
use fathom_model::watch::{MachineSample, StackCount, StacksSample, ThreadsSample};
use std::collections::BTreeMap;

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Samples.
    pub samples: u64,
    /// From the first sample to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// Highest mean number of I/Os in flight in any interval, by device.
    pub queue_max: BTreeMap<String, f64>,
    /// Highest share of time in which all processors were busy in any interval, in percent.
    pub busy_max: f64,
    /// The shortest interval, but for those less than half as long as the others. Some are joined, and longer.
    shortest_ns: Option<u64>,
    first: Option<Sample>,
    last: Sample,
    looks: u64,
    threads: BTreeMap<Doing, u64>,
    stacks: Option<StacksSample>,
    places: BTreeMap<u32, (u32, u64)>,
}

/// What threads of one name were doing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Doing {
    /// Their name, each run of digits folded to one `*`.
    pub comm: String,
    /// Their state, as in [`fathom_model::watch::ThreadCount`].
    pub state: char,
    /// The system call in which they slept.
    pub syscall: String,
    /// The kernel function in which they slept.
    pub wchan: String,
}

impl Seen {
    /// Adds the next sample of the record.
    pub fn add(&mut self, sample: &Sample) {
        let first = self.first.get_or_insert_with(|| sample.clone());
        self.elapsed_ns = sample.elapsed_ns.saturating_sub(first.elapsed_ns);
        if self.samples > 0 {
            self.peaks(sample);
        }
        self.samples += 1;
        sample.machine.threads.iter().for_each(|threads| self.add_threads(threads));
        sample.machine.stacks.iter().for_each(|stacks| self.add_stacks(stacks));
        self.last.clone_from(sample);
    }

    fn peaks(&mut self, sample: &Sample) {
        let elapsed_ns = sample.elapsed_ns.saturating_sub(self.last.elapsed_ns);
        // The end seldom comes when a sample is due: what is busy for the last 20 ms is no peak.
        if elapsed_ns < self.shortest_ns.unwrap_or(0) / 2 {
            return;
        }
        self.shortest_ns = Some(self.shortest_ns.map_or(elapsed_ns, |ns| ns.min(elapsed_ns)));
        let rates = machine::rates(&self.last.machine, &sample.machine, elapsed_ns);
        let busy = rates.system.map_or(0.0, |system| system.cpu.busy());
        self.busy_max = self.busy_max.max(busy);
        for disk in rates.disks {
            let max = self.queue_max.entry(disk.name).or_default();
            *max = max.max(disk.queue);
        }
    }

    fn add_threads(&mut self, threads: &ThreadsSample) {
        self.looks += u64::from(threads.looks);
        for count in &threads.active {
            let doing = Doing {
                comm: fold_digits(&count.comm).into_owned(),
                state: count.state,
                syscall: count.syscall.clone(),
                wchan: count.wchan.clone(),
            };
            *self.threads.entry(doing).or_default() += u64::from(count.count);
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
            let place = self.places.entry(count.stack).or_default();
            place.0 += count.count;
            place.1 += count.period;
        }
    }

    /// Means over all of it.
    #[must_use]
    pub fn rates(&self) -> MachineRates {
        let none = MachineSample::default();
        let first = self.first.as_ref().map_or(&none, |first| &first.machine);
        machine::rates(first, &self.last.machine, self.elapsed_ns)
    }

    /// The last sample; its counters that begin when a sampler is opened are those of the whole record.
    #[must_use]
    pub fn last(&self) -> &MachineSample {
        &self.last.machine
    }

    /// Average number of threads that did each thing, the most frequent first; none where threads
    /// were not looked at.
    #[must_use]
    pub fn threads(&self) -> Vec<(&Doing, f64)> {
        let mean = |count: &u64| *count as f64 / self.looks.max(1) as f64;
        let mut all: Vec<(&Doing, f64)> =
            self.threads.iter().map(|(doing, count)| (doing, mean(count))).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        all
    }

    /// All samples of processors as one, without telling processes and threads apart.
    #[must_use]
    pub fn stacks(&self) -> Option<StacksSample> {
        let place = |(stack, (count, period)): (&u32, &(u32, u64))| StackCount {
            stack: *stack,
            count: *count,
            period: *period,
            ..StackCount::default()
        };
        let counts = self.places.iter().map(place).collect();
        self.stacks.as_ref().map(|sum| StacksSample { counts, ..sum.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::{CpuSample, DiskCounters, SystemSample, ThreadCount};

    /// A sample at a second, with the first processor busy for `busy` of its ticks so far, and `weighted_ms` of
    /// the disk's I/Os.
    fn sample(second: u64, busy: u64, weighted_ms: u32) -> Sample {
        let cpu = CpuSample { user: busy, idle: second * 100 - busy, ..CpuSample::default() };
        let system = SystemSample { cpus: vec![cpu], ..SystemSample::default() };
        let disk = DiskCounters { name: "sda".into(), weighted_ms, ..DiskCounters::default() };
        let doing = |comm: &str, count| ThreadCount {
            comm: comm.into(),
            state: 'D',
            count,
            ..ThreadCount::default()
        };
        let threads = ThreadsSample {
            looks: 10,
            seen: 100,
            active: vec![doing("io-1", 5), doing("io-23", 10)],
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
    fn a_record_is_the_sum_of_its_samples() {
        let mut seen = Seen::default();
        for sample in [sample(1, 0, 0), sample(2, 90, 500), sample(5, 90, 500)] {
            seen.add(&sample);
        }
        assert_eq!((seen.samples, seen.elapsed_ns), (3, 4_000_000_000));
        assert!((seen.busy_max - 90.0).abs() < 1e-9, "{}", seen.busy_max);
        let rates = seen.rates();
        assert!((rates.system.unwrap().cpu.busy() - 22.5).abs() < 1e-9);
        assert!((seen.queue_max["sda"] - 0.5).abs() < 1e-9);
        let threads = seen.threads();
        assert_eq!((threads.len(), threads[0].0.comm.as_str(), threads[0].1), (1, "io-*", 1.5));
        let stacks = seen.stacks().unwrap();
        assert_eq!((stacks.idle, stacks.counts[0].count, stacks.counts[0].period), (3, 9, 90));
    }

    #[test]
    fn a_short_rest_at_the_end_is_no_peak() {
        let mut seen = Seen::default();
        (0..4).for_each(|second| seen.add(&sample(second, 10 * second, 0)));
        let rest = Sample { elapsed_ns: 3_020_000_000, ..sample(4, 130, 0) };
        seen.add(&rest);
        assert!((seen.busy_max - 10.0).abs() < 1e-9, "{}", seen.busy_max);
        assert_eq!(seen.elapsed_ns, 3_020_000_000);

        // After intervals that were joined it goes on as before.
        let mut seen = Seen::default();
        [(0, 0), (1, 10), (9, 90), (10, 190)]
            .iter()
            .for_each(|(s, b)| seen.add(&sample(*s, *b, 0)));
        assert!(seen.busy_max > 90.0, "{}", seen.busy_max);
    }

    #[test]
    fn nothing_seen_is_no_error() {
        let seen = Seen::default();
        assert_eq!(seen.rates().system, None);
        assert!(seen.threads().is_empty() && seen.stacks().is_none());
    }
}
