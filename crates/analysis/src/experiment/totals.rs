//! Windows of one condition, added up.

use super::per_second;
use super::series::Rate;
use crate::stats;
use fathom_model::experiment::{MeasuredCondition, Metric, WindowResult};
use fathom_model::record::DiskRecord;
use fathom_model::window::{CpuShares, CpuTime, Estimate, Point, Rw, Setting};

/// Bytes of a sector in /proc/diskstats, on every device.
const SECTOR_BYTES: f64 = 512.0;

/// An amount over what it is per; `None` unless above 0.
pub(super) fn quotient((amount, per): (f64, f64)) -> Option<f64> {
    Some(amount / per).filter(|value| *value > 0.0 && value.is_finite())
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    pub sum: WindowResult,
    /// I/Os and seconds of each window.
    rates: Vec<Rate>,
    /// CPU usage of the busiest worker, summed over the windows; only of searches.
    worker_share: f64,
    /// Mean number of requests at the driver in each window.
    driver_queues: Vec<f64>,
}

impl Totals {
    pub fn add(&mut self, window: &WindowResult) {
        let sum = &mut self.sum;
        add_all([(&mut sum.elapsed_ns, window.elapsed_ns), (&mut sum.took_ns, window.took_ns)]);
        sum.add(window);
        let mut busiest_ns = 0;
        for worker in &window.workers {
            add_all([(&mut sum.user_ns, worker.user_ns), (&mut sum.system_ns, worker.system_ns)]);
            busiest_ns = busiest_ns.max(worker.user_ns.saturating_add(worker.system_ns));
        }
        // CPU time is accounted in ticks and may exceed the length of a short window.
        self.worker_share += (busiest_ns as f64 / window.elapsed_ns.max(1) as f64).min(1.0);
        self.rates.push(window.rate(Metric::Iops));
        self.driver_queues.extend(window.driver_queue);
        if let Some(disk) = &window.disk {
            // Windows follow each other, while disks that are put together work at the same time.
            let DiskRecord { mut busy_ms, mut elapsed_ms, .. } = *disk;
            let all = sum.disk.take().unwrap_or_default();
            add_all([(&mut busy_ms, all.busy_ms), (&mut elapsed_ms, all.elapsed_ms)]);
            sum.disk = Some(DiskRecord { busy_ms, elapsed_ms, ..all.with(disk) });
        }
    }

    /// CPUs that the workers, their kernel threads, or the command kept busy.
    pub fn cores(&self) -> f64 {
        self.sum.cpu_ns() as f64 / self.sum.elapsed_ns.max(1) as f64
    }

    /// CPU usage of the allowed CPUs.
    pub fn cpu(&self) -> Option<CpuShares> {
        self.sum.cpu.and_then(CpuTime::shares)
    }

    /// Bytes that the disks moved, for all programs, per byte of the load.
    pub fn moved_per_byte(&self) -> Option<f64> {
        let disk = self.sum.disk.as_ref().filter(|_| self.sum.bytes > 0)?;
        let sectors = (disk.sectors.read + disk.sectors.write) as f64;
        Some(sectors * SECTOR_BYTES / self.sum.bytes as f64)
    }

    /// The figures of these windows, without those that rest on comparisons.
    pub fn figures(&self) -> MeasuredCondition {
        let (sum, windows) = (&self.sum, self.windows() as u32);
        let per_second = |n: u64| n as f64 * 1e9 / sum.elapsed_ns.max(1) as f64;
        let ratio = |a: u64, b: u64| (b > 0).then(|| a as f64 / b as f64);
        let per_io = |n: u64| ratio(n, sum.ios);
        let cpu_ns =
            || Some([per_io(sum.user_ns)?, per_io(sum.system_ns)?, per_io(sum.helper_ns)?]);
        MeasuredCondition {
            windows,
            iops: per_second(sum.ios),
            bytes_per_second: per_second(sum.bytes),
            clat_mean_ns: sum.clat.mean_ns(),
            clat_p50_ns: sum.clat.percentile(50.0).unwrap_or(0),
            clat_p99_ns: sum.clat.percentile(99.0).unwrap_or(0),
            flush_p99_ns: sum.flush_lat.percentile(99.0).unwrap_or(0),
            slat_mean_ns: sum.slat.mean_ns(),
            elapsed_mean_ns: sum.elapsed_ns as f64 / f64::from(windows.max(1)),
            cores: self.cores(),
            cpu_ns_per_io: cpu_ns(),
            machine_busy: self.cpu().map(|cpu| cpu.busy),
            run_delay: sum.run_delay_ns.and_then(|delay_ns| ratio(delay_ns, sum.elapsed_ns)),
            switches_per_io: per_io(sum.switches),
            ios_per_call: ratio(sum.ios, sum.system_calls),
            disk_requests_per_io: sum
                .disk
                .as_ref()
                .and_then(|disk| per_io(disk.ios.read + disk.ios.write)),
            started_share: ratio(sum.ios, sum.ios + sum.unstarted).filter(|_| sum.unstarted > 0),
            errors: sum.errors.saturating_add(sum.short_ios),
            first_error: sum.first_error.clone(),
            ..MeasuredCondition::default()
        }
    }

    /// I/Os per second of each window.
    pub fn iops(&self) -> Vec<f64> {
        self.rates.iter().map(|rate| per_second(*rate)).collect()
    }

    /// I/Os per second over all windows, with the interval.
    pub fn estimate(&self) -> Estimate {
        stats::rate(&self.rates)
    }

    pub fn windows(&self) -> usize {
        self.rates.len()
    }

    /// I/Os per second over all windows; 0 without windows.
    pub fn mean(&self) -> f64 {
        per_second(self.rates.iter().fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d)))
    }

    /// The results of `rw` at `setting`, on a machine with `cores` CPUs.
    pub fn point(&self, rw: Rw, setting: Setting, cores: u32) -> Point {
        let sum = &self.sum;
        let per_io = |ns: f64| if sum.ios == 0 { 0.0 } else { ns / sum.ios as f64 };
        let seconds = sum.elapsed_ns as f64 / 1e9;
        let rate = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Point {
            workers: setting.workers,
            depth: setting.depth,
            iops: self.estimate(),
            bytes_per_second: rate(sum.bytes),
            clat_mean_ns: sum.clat.mean_ns(),
            clat_p50_ns: sum.clat.percentile(50.0).unwrap_or(0),
            clat_p99_ns: sum.clat.percentile(99.0).unwrap_or(0),
            in_flight: rate(sum.ios) * sum.clat.mean_ns() / 1e9,
            device_queue: sum.disk.as_ref().map(DiskRecord::queue_mean),
            driver_queue: Some(mean(&self.driver_queues)).filter(|mean| !mean.is_nan()),
            from_disk: sum.disk.as_ref().filter(|_| sum.bytes > 0).map(|disk| {
                let sectors = rw.dirs().iter().map(|(dir, _)| disk.sectors[*dir]);
                sectors.sum::<u64>() as f64 * SECTOR_BYTES / sum.bytes as f64
            }),
            user_ns_per_io: per_io(sum.user_ns as f64),
            system_ns_per_io: per_io(sum.system_ns as f64),
            machine_ns_per_io: self
                .cpu()
                .filter(|_| sum.ios > 0)
                .map(|c| per_io(c.busy * f64::from(cores) * sum.elapsed_ns as f64)),
            worker_share: self.worker_share / self.windows().max(1) as f64,
            cpu: self.cpu(),
            noisy: false,
        }
    }
}

fn add_all<const N: usize>(sums: [(&mut u64, u64); N]) {
    sums.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut totals = Totals::default();
        totals.add(&window(1000));
        totals.add(&WindowResult { errors: 2, short_ios: 3, ..window(3000) });
        let all = totals.figures();
        assert_eq!((all.windows, all.iops, all.cores, all.errors), (2, 2000.0, 0.5, 5));
        assert_eq!(all.cpu_ns_per_io, Some([150_000.0, 100_000.0, 0.0]));
        assert_eq!((all.switches_per_io, all.ios_per_call), (Some(0.5), None));
    }

    #[test]
    fn flushes_have_a_percentile_of_their_own() {
        let mut totals = Totals::default();
        for ns in [1_000, 7_000_000] {
            let mut window = window(1000);
            window.clat.record_n(90_000, 1000);
            window.flush_lat.record_n(ns, 10);
            totals.add(&window);
        }
        let all = totals.figures();
        assert!(all.clat_p99_ns < 100_000 && all.flush_p99_ns > 6_000_000, "{all:?}");
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

    #[test]
    fn the_disk_is_compared_in_the_direction_of_the_ios() {
        let mut disk = DiskRecord::default();
        (disk.sectors.read, disk.sectors.write) = (800, 8);
        (disk.busy_ms, disk.elapsed_ms, disk.weighted_ms) = (7, 10, 20);
        let disk = Some(disk);
        let window = WindowResult {
            elapsed_ns: 1_000,
            ios: 2,
            bytes: 8192,
            disk,
            ..WindowResult::default()
        };
        let mut totals = Totals::default();
        (0..2).for_each(|_| totals.add(&window));
        let point = totals.point(Rw::Randwrite, Setting::ONE, 1);
        let both = totals.sum.disk.unwrap();
        assert_eq!((both.busy_ms, both.elapsed_ms, point.device_queue), (14, 20, Some(2.0)));
        assert_eq!(point.from_disk, Some(0.5));
        assert_eq!((point.iops.mean, point.iops.windows), (2e6, 2));
    }
}
