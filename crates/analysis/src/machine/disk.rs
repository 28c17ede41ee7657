//! Block devices' rates by the formulas of `iostat -x` (sysstat, rd_stats.c and iostat.c).

use crate::derive::{DiskDelta, IoDelta, per_second};
use fathom_model::Dir;
use fathom_model::record::DiskRecord;
use fathom_model::watch::{DiskCounters, DiskKind};
use serde::Serialize;

/// Rates of a block device between two samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DiskRates {
    /// Kernel name; empty for a total.
    pub name: String,
    pub kind: DiskKind,
    /// Devices right below it.
    pub below: Vec<String>,
    /// Its device-mapper or md name.
    pub alias: String,
    pub read: IoRates,
    pub write: IoRates,
    pub discard: IoRates,
    pub flush: IoRates,
    pub queue: f64,
    /// Of a total, the mean of the disks.
    pub util: f64,
    pub in_flight: u64,
}

/// I/Os in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct IoRates {
    pub ios: f64,
    pub bytes: f64,
    pub merges: f64,
    /// Share of requested I/Os that were merged (`%rrqm`), in percent.
    pub merged: f64,
    /// Mean time from entering the queue to completion (`r_await`), in milliseconds; absent where
    /// nothing was completed.
    pub wait_ms: Option<f64>,
    /// Mean size (`rareq-sz`), in bytes; absent where nothing was completed.
    pub size: Option<f64>,
}

impl IoRates {
    /// Mean number of them in flight.
    pub fn in_flight(&self) -> f64 {
        self.ios * self.wait_ms.unwrap_or(0.0) / 1e3
    }
}

/// Each device, and whole disks added up.
pub(super) fn rates(
    earlier: &[DiskCounters],
    later: &[DiskCounters],
    elapsed_ns: u64,
) -> (Vec<DiskRates>, DiskRates) {
    let mut each = Vec::with_capacity(later.len());
    let mut sum = DiskDelta::default();
    let (mut in_flight, mut disks) = (0, 0);
    // A device that is not in the first sample is new or had no I/O: its counters start at 0.
    let new = DiskCounters::default();
    let later = if earlier.is_empty() { &[] } else { later };
    for now in later {
        let then = earlier.iter().find(|then| then.name == now.name).unwrap_or(&new);
        let Some(growth) = DiskDelta::between(then, now) else { continue };
        if now.kind == DiskKind::Disk {
            sum.add(&growth);
            in_flight += now.in_flight;
            disks += 1;
        }
        each.push(DiskRates {
            name: now.name.clone(),
            kind: now.kind,
            below: now.below.clone(),
            alias: now.alias.clone(),
            in_flight: now.in_flight,
            ..disk_rates(&growth, elapsed_ns)
        });
    }
    let util = each.iter().filter(|disk| disk.kind == DiskKind::Disk).map(|disk| disk.util);
    let util = util.sum::<f64>() / f64::from(disks.max(1));
    let total = DiskRates { in_flight, util, ..disk_rates(&sum, elapsed_ns) };
    (each, total)
}

/// These devices, and all on which they are built.
pub(crate) fn with_those_below<'a>(
    disks: &'a [DiskRates],
    mut names: Vec<&'a str>,
) -> Vec<&'a str> {
    let mut at = 0;
    while let Some(name) = names.get(at) {
        let below = disks.iter().filter(|disk| disk.name == *name).flat_map(|disk| &disk.below);
        let new: Vec<&str> =
            below.map(String::as_str).filter(|name| !names.contains(name)).collect();
        names.extend(new);
        at += 1;
    }
    names
}

fn disk_rates(growth: &DiskDelta, elapsed_ns: u64) -> DiskRates {
    let rates = |io: &IoDelta| io_rates(io, elapsed_ns);
    DiskRates {
        read: rates(&growth.read),
        write: rates(&growth.write),
        discard: rates(&growth.discard),
        flush: rates(&growth.flush),
        // Milliseconds per second are thousandths, or tenths of a percent.
        queue: per_second(growth.weighted_ms, elapsed_ns) / 1e3,
        // Busy time and elapsed time are not read at the same instant, so their ratio can exceed 100%.
        util: (per_second(growth.busy_ms, elapsed_ns) / 10.0).min(100.0),
        ..DiskRates::default()
    }
}

impl From<&DiskRecord> for DiskRates {
    fn from(record: &DiskRecord) -> Self {
        let io = |dir| IoDelta {
            ios: record.ios[dir],
            merges: record.merges[dir],
            sectors: record.sectors[dir],
            ticks_ms: record.ticks_ms[dir],
        };
        let growth = DiskDelta {
            read: io(Dir::Read),
            write: io(Dir::Write),
            discard: io(Dir::Trim),
            flush: IoDelta::default(),
            busy_ms: record.busy_ms,
            weighted_ms: record.weighted_ms,
        };
        let rates = disk_rates(&growth, record.elapsed_ms.saturating_mul(1_000_000));
        Self { name: record.name.clone(), ..rates }
    }
}

fn io_rates(io: &IoDelta, elapsed_ns: u64) -> IoRates {
    let bytes = io.sectors * 512;
    let per_io = |n: u64| (io.ios > 0).then(|| n as f64 / io.ios as f64);
    let requested = io.ios + io.merges;
    IoRates {
        ios: per_second(io.ios, elapsed_ns),
        bytes: per_second(bytes, elapsed_ns),
        merges: per_second(io.merges, elapsed_ns),
        merged: if requested == 0 { 0.0 } else { io.merges as f64 * 100.0 / requested as f64 },
        wait_ms: per_io(io.ticks_ms),
        size: per_io(bytes),
    }
}
