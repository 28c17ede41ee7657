//! The measurement of one window of a condition, and windows added up.

use super::probe::{CpuShares, CpuTime};
use fathom_model::Histogram;
use fathom_model::experiment::Metric;
use fathom_model::record::DiskRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of a sector in /proc/diskstats, on every device.
pub(super) const SECTOR_BYTES: f64 = 512.0;

/// A window of a condition. Everything except `took_ns` covers the measured time only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// The measured time, in nanoseconds.
    pub elapsed_ns: u64,
    /// Setup, ramp, measured time, and waiting for the last I/Os, in nanoseconds.
    pub took_ns: u64,
    /// I/Os completed: those of the workers, or for a command those of the disks.
    pub ios: u64,
    /// Bytes of these I/Os.
    pub bytes: u64,
    /// I/Os that failed or were short.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub errors: u64,
    /// Message of the first failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// Completion latencies; from the instant at which each I/O was due where a rate is given.
    pub clat: Histogram,
    /// Submission latencies.
    #[serde(default)]
    pub slat: Histogram,
    /// CPU time of the workers, or of the command and its children, in nanoseconds.
    pub user_ns: u64,
    /// See `user_ns`.
    pub system_ns: u64,
    /// CPU time of kernel threads that worked for the rings (SQPOLL, io-wq), and of samplers, in nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub helper_ns: u64,
    /// Context switches of the workers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub switches: u64,
    /// System calls of the workers to submit, wait and reap.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub system_calls: u64,
    /// Mean time for which a worker was runnable but waited for a CPU, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
    /// `elapsed_ns` without `run_delay_ns`, where only other programs can have caused it and no I/O was in flight meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undelayed_ns: Option<u64>,
    /// I/Os that were due but not started, where a rate is given.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unstarted: u64,
    /// CPU time on the allowed CPUs, where /proc/stat is readable.
    pub cpu: Option<CpuTime>,
    /// Counters of the block devices below the targets, added up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskRecord>,
}

/// An amount over what it is per; `None` unless above 0.
pub(super) fn quotient((amount, per): (f64, f64)) -> Option<f64> {
    Some(amount / per).filter(|value| *value > 0.0 && value.is_finite())
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Sample {
    /// The figure of this window; `None` where nothing was done.
    pub fn metric(&self, metric: Metric) -> Option<f64> {
        quotient(self.rate(metric))
    }

    /// The figure of this window as an amount and what it is per: I/Os and seconds, latencies and their number.
    pub fn rate(&self, metric: Metric) -> (f64, f64) {
        let seconds = self.elapsed_ns as f64 / 1e9;
        match metric {
            Metric::Iops => (self.ios as f64, seconds),
            Metric::Bandwidth => (self.bytes as f64, seconds),
            Metric::Latency => {
                let count = self.clat.count() as f64;
                (self.clat.mean_ns() * count, count)
            }
            Metric::Cpu => (self.cpu_ns() as f64, self.ios as f64),
            Metric::Time => (self.elapsed_ns as f64, 1.0),
        }
    }

    /// The same, corrected for waiting for a CPU; `None` where that is not valid.
    pub fn corrected(&self, metric: Metric) -> Option<(f64, f64)> {
        let undelayed = self.undelayed_ns? as f64 / 1e9;
        match metric {
            Metric::Iops | Metric::Bandwidth => Some((self.rate(metric).0, undelayed)),
            Metric::Latency | Metric::Cpu | Metric::Time => None,
        }
    }

    fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns + self.helper_ns
    }
}

/// Windows of one condition, added up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// Sums over all windows.
    pub sum: Sample,
    /// Windows.
    pub windows: u32,
}

impl Tally {
    /// Adds a window.
    pub fn add(&mut self, window: &Sample) {
        let sum = &mut self.sum;
        self.windows += 1;
        sum.elapsed_ns += window.elapsed_ns;
        sum.took_ns += window.took_ns;
        sum.ios += window.ios;
        sum.bytes += window.bytes;
        sum.errors += window.errors;
        sum.first_error = sum.first_error.take().or_else(|| window.first_error.clone());
        sum.clat.merge(&window.clat);
        sum.slat.merge(&window.slat);
        sum.user_ns += window.user_ns;
        sum.system_ns += window.system_ns;
        sum.helper_ns += window.helper_ns;
        sum.switches += window.switches;
        sum.system_calls += window.system_calls;
        sum.unstarted += window.unstarted;
        if let Some(delay_ns) = window.run_delay_ns {
            *sum.run_delay_ns.get_or_insert_default() += delay_ns;
        }
        if let Some(cpu) = window.cpu {
            let all = sum.cpu.get_or_insert_default();
            all.busy_ns += cpu.busy_ns;
            all.steal_ns += cpu.steal_ns;
            all.idle_ns += cpu.idle_ns;
            all.throttled_ns += cpu.throttled_ns;
        }
        if let Some(disk) = &window.disk {
            add_disk(sum.disk.get_or_insert_default(), disk);
        }
    }

    /// I/Os per second.
    pub fn iops(&self) -> f64 {
        self.per_second(self.sum.ios as f64)
    }

    /// Bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.per_second(self.sum.bytes as f64)
    }

    /// CPUs that the workers, their kernel threads, or the command kept busy.
    pub fn cores(&self) -> f64 {
        self.sum.cpu_ns() as f64 / self.sum.elapsed_ns.max(1) as f64
    }

    /// CPU time per I/O, in nanoseconds.
    pub fn cpu_ns_per_io(&self) -> Option<f64> {
        (self.sum.ios > 0).then(|| self.sum.cpu_ns() as f64 / self.sum.ios as f64)
    }

    /// Context switches per I/O.
    pub fn switches_per_io(&self) -> Option<f64> {
        (self.sum.ios > 0).then(|| self.sum.switches as f64 / self.sum.ios as f64)
    }

    /// I/Os per system call.
    pub fn ios_per_call(&self) -> Option<f64> {
        (self.sum.system_calls > 0).then(|| self.sum.ios as f64 / self.sum.system_calls as f64)
    }

    /// Share of the time for which workers were runnable but waited for a CPU.
    pub fn run_delay(&self) -> Option<f64> {
        let delay_ns = self.sum.run_delay_ns? as f64;
        (self.sum.elapsed_ns > 0).then(|| delay_ns / self.sum.elapsed_ns as f64)
    }

    /// CPU usage of the allowed CPUs.
    pub fn cpu(&self) -> Option<CpuShares> {
        self.sum.cpu.and_then(CpuTime::shares)
    }

    /// Requests that the disks completed per I/O of the workers: above 1 where I/Os are split, below where they are merged
    /// or served by a cache.
    pub fn disk_requests_per_io(&self) -> Option<f64> {
        let disk = self.sum.disk.as_ref().filter(|_| self.sum.ios > 0)?;
        Some((disk.ios.read + disk.ios.write) as f64 / self.sum.ios as f64)
    }

    fn per_second(&self, n: f64) -> f64 {
        n * 1e9 / self.sum.elapsed_ns.max(1) as f64
    }
}

/// Adds the counters of `more` to those of `sum`.
pub fn add_disk(sum: &mut DiskRecord, more: &DiskRecord) {
    for dir in fathom_model::Dir::ALL {
        sum.ios[dir] += more.ios[dir];
        sum.merges[dir] += more.merges[dir];
        sum.sectors[dir] += more.sectors[dir];
        sum.ticks_ms[dir] += more.ticks_ms[dir];
    }
    sum.busy_ms += more.busy_ms;
    sum.weighted_ms += more.weighted_ms;
    sum.elapsed_ms += more.elapsed_ms;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(ios: u64) -> Sample {
        Sample {
            elapsed_ns: 1_000_000_000,
            ios,
            bytes: ios * 4096,
            user_ns: 300_000_000,
            system_ns: 200_000_000,
            switches: ios / 2,
            ..Sample::default()
        }
    }

    #[test]
    fn windows_add_up() {
        let mut tally = Tally::default();
        tally.add(&window(1000));
        tally.add(&window(3000));
        assert_eq!((tally.windows, tally.iops(), tally.cores()), (2, 2000.0, 0.5));
        assert_eq!(tally.cpu_ns_per_io(), Some(250_000.0));
        assert_eq!((tally.switches_per_io(), tally.ios_per_call()), (Some(0.5), None));
    }

    #[test]
    fn rates_are_corrected_for_waiting_where_that_is_valid() {
        let half = Sample { undelayed_ns: Some(500_000_000), ..window(1000) };
        assert_eq!(half.metric(Metric::Iops), Some(1000.0));
        assert_eq!(half.corrected(Metric::Iops).and_then(quotient), Some(2000.0));
        assert_eq!(half.corrected(Metric::Bandwidth).and_then(quotient), Some(2000.0 * 4096.0));
        assert_eq!(half.corrected(Metric::Cpu), None);
        assert_eq!(window(1000).corrected(Metric::Iops), None);
    }

    #[test]
    fn a_window_in_which_nothing_was_done_has_no_figure() {
        assert_eq!(window(0).metric(Metric::Iops), None);
        assert_eq!(window(0).metric(Metric::Cpu), None);
        assert_eq!(window(5).metric(Metric::Iops), Some(5.0));
        assert_eq!(window(5).metric(Metric::Cpu), Some(1e8));
        assert_eq!(window(5).metric(Metric::Latency), None);
    }
}
