//! The windows of one condition, accumulated.

use super::tally::SECTOR_BYTES;
use crate::stats;
use fathom_model::Histogram;
use fathom_model::record::DiskRecord;
use fathom_model::window::{
    CpuShares, CpuTime, Estimate, LoadMeasure, Measurement, Point, Rw, Setting,
};

/// Windows without errors under one condition.
#[derive(Debug, Clone)]
pub struct Cell {
    rw: Rw,
    /// I/Os and seconds of each window.
    rates: Vec<(f64, f64)>,
    clat: Histogram,
    ios: u64,
    bytes: u64,
    elapsed_ns: u64,
    user_ns: u64,
    system_ns: u64,
    /// CPU usage of the busiest worker, summed over the windows.
    worker_share: f64,
    cpu: CpuTime,
    disk: Option<DiskRecord>,
    /// Mean number of requests at the driver in each window.
    driver_queues: Vec<f64>,
}

impl Cell {
    /// No windows yet, of this kind of access.
    pub fn new(rw: Rw) -> Self {
        Self {
            rw,
            rates: Vec::new(),
            clat: Histogram::default(),
            ios: 0,
            bytes: 0,
            elapsed_ns: 0,
            user_ns: 0,
            system_ns: 0,
            worker_share: 0.0,
            cpu: CpuTime::default(),
            disk: None,
            driver_queues: Vec::new(),
        }
    }

    /// Adds one load of a window.
    pub fn add(&mut self, window: &Measurement, load: &LoadMeasure) {
        self.rates.push(load.rate(window.elapsed_ns));
        self.clat.merge(&load.clat);
        self.ios = self.ios.saturating_add(load.ios);
        self.bytes = self.bytes.saturating_add(load.bytes);
        self.elapsed_ns = self.elapsed_ns.saturating_add(window.elapsed_ns);
        let mut busiest = 0;
        for worker in &load.workers {
            self.user_ns = self.user_ns.saturating_add(worker.user_ns);
            self.system_ns = self.system_ns.saturating_add(worker.system_ns);
            busiest = busiest.max(worker.user_ns.saturating_add(worker.system_ns));
        }
        // CPU time is accounted in ticks and may exceed the length of a short window.
        self.worker_share += (busiest as f64 / window.elapsed_ns.max(1) as f64).min(1.0);
        if let Some(cpu) = window.cpu {
            self.cpu.busy_ns = self.cpu.busy_ns.saturating_add(cpu.busy_ns);
            self.cpu.steal_ns = self.cpu.steal_ns.saturating_add(cpu.steal_ns);
            self.cpu.idle_ns = self.cpu.idle_ns.saturating_add(cpu.idle_ns);
            self.cpu.throttled_ns = self.cpu.throttled_ns.saturating_add(cpu.throttled_ns);
        }
        self.driver_queues.extend(load.driver_queue);
        if let Some(counters) = &load.disk {
            let disk = self.disk.get_or_insert_default();
            for (dir, _) in self.rw.dirs() {
                let sectors = &mut disk.sectors[*dir];
                *sectors = sectors.saturating_add(counters.sectors[*dir]);
            }
            disk.weighted_ms = disk.weighted_ms.saturating_add(counters.weighted_ms);
            disk.elapsed_ms = disk.elapsed_ms.saturating_add(counters.elapsed_ms);
        }
    }

    /// I/Os per second of each window.
    pub fn iops(&self) -> Vec<f64> {
        let rate = |(ios, seconds): &(f64, f64)| if *seconds > 0.0 { ios / seconds } else { 0.0 };
        self.rates.iter().map(rate).collect()
    }

    /// I/Os per second over all windows, with the interval.
    pub fn estimate(&self) -> Estimate {
        stats::rate(&self.rates)
    }

    /// Number of windows.
    pub fn windows(&self) -> usize {
        self.rates.len()
    }

    /// I/Os per second over all windows; 0 without windows.
    pub fn mean(&self) -> f64 {
        let (ios, seconds) = self.rates.iter().fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
        if seconds > 0.0 { ios / seconds } else { 0.0 }
    }

    /// Mean completion latency in nanoseconds; 0 without I/Os.
    pub fn clat_mean_ns(&self) -> f64 {
        self.clat.mean_ns()
    }

    /// CPU usage of the allowed CPUs.
    pub fn cpu(&self) -> Option<CpuShares> {
        self.cpu.shares()
    }

    /// The results at `setting`, on a machine with `cores` CPUs.
    pub fn point(&self, setting: Setting, cores: u32) -> Point {
        let per_io = |ns: f64| if self.ios == 0 { 0.0 } else { ns / self.ios as f64 };
        let seconds = self.elapsed_ns as f64 / 1e9;
        let rate = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        Point {
            workers: setting.workers,
            depth: setting.depth,
            iops: self.estimate(),
            bytes_per_second: rate(self.bytes),
            clat_mean_ns: self.clat.mean_ns(),
            clat_p50_ns: self.clat.percentile(50.0).unwrap_or(0),
            clat_p99_ns: self.clat.percentile(99.0).unwrap_or(0),
            in_flight: rate(self.ios) * self.clat.mean_ns() / 1e9,
            device_queue: self.disk.as_ref().map(DiskRecord::queue_mean),
            driver_queue: mean(&self.driver_queues),
            from_disk: self.disk.as_ref().filter(|_| self.bytes > 0).map(|disk| {
                let sectors = self.rw.dirs().iter().map(|(dir, _)| disk.sectors[*dir]);
                sectors.sum::<u64>() as f64 * SECTOR_BYTES / self.bytes as f64
            }),
            user_ns_per_io: per_io(self.user_ns as f64),
            system_ns_per_io: per_io(self.system_ns as f64),
            machine_ns_per_io: self
                .cpu()
                .filter(|_| self.ios > 0)
                .map(|c| per_io(c.busy * f64::from(cores) * self.elapsed_ns as f64)),
            worker_share: self.worker_share / self.windows().max(1) as f64,
            cpu: self.cpu(),
            noisy: false,
        }
    }
}

/// `None` without values.
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_compared_in_the_direction_of_the_ios() {
        let mut disk = DiskRecord::default();
        (disk.sectors.read, disk.sectors.write) = (800, 8);
        let load = LoadMeasure { ios: 2, bytes: 8192, disk: Some(disk), ..LoadMeasure::default() };
        let mut cell = Cell::new(Rw::Randwrite);
        for _ in 0..2 {
            cell.add(&Measurement { elapsed_ns: 1_000, ..Measurement::default() }, &load);
        }
        let point = cell.point(Setting::ONE, 1);
        assert_eq!(point.from_disk, Some(0.5));
        assert_eq!((point.iops.mean, point.iops.windows), (2e6, 2));
    }
}
