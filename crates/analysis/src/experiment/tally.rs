//! The measurement of one window of a condition, and windows added up.

use fathom_model::experiment::WindowResult;
use fathom_model::record::DiskRecord;
use fathom_model::window::{CpuShares, CpuTime};

/// Bytes of a sector in /proc/diskstats, on every device.
pub(super) const SECTOR_BYTES: f64 = 512.0;

/// An amount over what it is per; `None` unless above 0.
pub(super) fn quotient((amount, per): (f64, f64)) -> Option<f64> {
    Some(amount / per).filter(|value| *value > 0.0 && value.is_finite())
}

/// Windows of one condition, added up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// Sums over all windows.
    pub sum: WindowResult,
    /// Windows.
    pub windows: u32,
}

impl Tally {
    /// Adds a window.
    pub fn add(&mut self, window: &WindowResult) {
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
    use fathom_model::experiment::Metric;

    fn window(ios: u64) -> WindowResult {
        WindowResult {
            elapsed_ns: 1_000_000_000,
            ios,
            bytes: ios * 4096,
            user_ns: 300_000_000,
            system_ns: 200_000_000,
            switches: ios / 2,
            ..WindowResult::default()
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
        let half = WindowResult { undelayed_ns: Some(500_000_000), ..window(1000) };
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
