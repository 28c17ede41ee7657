//! The windows of one target at one block size, gathered by setting.

use super::outcome::Point;
use super::probe::{CpuShares, CpuTime, LoadMeasure, Measurement, Setting};
use crate::stats::Estimate;
use fathom_model::Histogram;
use fathom_model::record::DiskRecord;
use std::collections::BTreeMap;

/// A point within this share of the best is as good as the best.
pub(super) const AS_GOOD: f64 = 0.99;

/// Windows at one setting. Only clean ones come here.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    /// I/Os per second of each window.
    pub iops: Vec<f64>,
    clat: Histogram,
    ios: u64,
    bytes: u64,
    elapsed_ns: u64,
    user_ns: u64,
    system_ns: u64,
    /// The busiest worker's share of a processor, added up over the windows.
    worker_share: f64,
    cpu: CpuTime,
    disk: Option<DiskRecord>,
}

/// Bytes of a sector in /proc/diskstats, on every device.
const SECTOR_BYTES: f64 = 512.0;

/// I/Os per second of one load in one window; 0 for a window without length.
pub(super) fn iops(load: &LoadMeasure, elapsed_ns: u64) -> f64 {
    if elapsed_ns == 0 { 0.0 } else { load.ios as f64 * 1e9 / elapsed_ns as f64 }
}

impl Cell {
    pub fn add(&mut self, window: &Measurement, load: &LoadMeasure) {
        self.iops.push(iops(load, window.elapsed_ns));
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
        // Processor time is accounted in ticks and may run ahead of a short window.
        self.worker_share += (busiest as f64 / window.elapsed_ns.max(1) as f64).min(1.0);
        if let Some(cpu) = window.cpu {
            self.cpu.busy_ns = self.cpu.busy_ns.saturating_add(cpu.busy_ns);
            self.cpu.steal_ns = self.cpu.steal_ns.saturating_add(cpu.steal_ns);
            self.cpu.idle_ns = self.cpu.idle_ns.saturating_add(cpu.idle_ns);
        }
        if let Some(seen) = &load.disk {
            let disk = self.disk.get_or_insert_default();
            disk.sectors.read = disk.sectors.read.saturating_add(seen.sectors.read);
            disk.weighted_ms = disk.weighted_ms.saturating_add(seen.weighted_ms);
            disk.elapsed_ms = disk.elapsed_ms.saturating_add(seen.elapsed_ms);
        }
    }

    pub fn windows(&self) -> usize {
        self.iops.len()
    }

    pub fn mean(&self) -> f64 {
        self.iops.iter().sum::<f64>() / self.windows().max(1) as f64
    }

    pub fn clat_mean_ns(&self) -> f64 {
        self.clat.mean_ns()
    }

    pub fn worker_share(&self) -> f64 {
        self.worker_share / self.windows().max(1) as f64
    }

    pub fn cpu(&self) -> Option<CpuShares> {
        self.cpu.shares()
    }

    /// What was measured here, on a machine with `cores` processors.
    pub fn point(&self, setting: Setting, cores: u32) -> Point {
        let per_io = |ns: f64| if self.ios == 0 { 0.0 } else { ns / self.ios as f64 };
        let seconds = self.elapsed_ns as f64 / 1e9;
        let rate = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        Point {
            workers: setting.workers,
            depth: setting.depth,
            iops: Estimate::of(&self.iops),
            bytes_per_second: rate(self.bytes),
            clat_mean_ns: self.clat.mean_ns(),
            clat_p50_ns: self.clat.percentile(50.0).unwrap_or(0),
            clat_p99_ns: self.clat.percentile(99.0).unwrap_or(0),
            in_flight: rate(self.ios) * self.clat.mean_ns() / 1e9,
            device_queue: self.disk.as_ref().map(DiskRecord::queue_mean),
            from_disk: self
                .disk
                .as_ref()
                .filter(|_| self.bytes > 0)
                .map(|d| d.sectors.read as f64 * SECTOR_BYTES / self.bytes as f64),
            user_ns_per_io: per_io(self.user_ns as f64),
            system_ns_per_io: per_io(self.system_ns as f64),
            machine_ns_per_io: self
                .cpu()
                .filter(|_| self.ios > 0)
                .map(|c| per_io(c.busy * f64::from(cores) * self.elapsed_ns as f64)),
            worker_share: self.worker_share(),
            cpu: self.cpu(),
        }
    }
}

/// All settings measured.
#[derive(Debug, Clone, Default)]
pub(super) struct Curve {
    cells: BTreeMap<Setting, Cell>,
}

impl Curve {
    pub fn add(&mut self, setting: Setting, window: &Measurement, load: &LoadMeasure) {
        self.cells.entry(setting).or_default().add(window, load);
    }

    pub fn get(&self, setting: Setting) -> Option<&Cell> {
        self.cells.get(&setting)
    }

    /// Mean I/Os per second there; 0 where nothing was measured.
    pub fn mean(&self, setting: Setting) -> f64 {
        self.get(setting).map_or(0.0, Cell::mean)
    }

    pub fn windows(&self, setting: Setting) -> usize {
        self.get(setting).map_or(0, Cell::windows)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Setting, &Cell)> {
        self.cells.iter().map(|(s, c)| (*s, c))
    }

    /// Of the settings that `wanted` accepts and that did any I/O: the fewest in flight that are as good as the best,
    /// and of those the fewest workers.
    pub fn cheapest_best(&self, wanted: impl Fn(Setting, &Cell) -> bool) -> Option<Setting> {
        let eligible = || self.iter().filter(|(s, c)| c.mean() > 0.0 && wanted(*s, c));
        let best = eligible().map(|(_, c)| c.mean()).fold(0.0, f64::max);
        eligible()
            .filter(|(_, c)| c.mean() >= AS_GOOD * best)
            .map(|(s, _)| s)
            .min_by_key(|s| (s.in_flight(), s.workers))
    }
}
