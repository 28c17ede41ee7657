//! Block devices' rates by the formulas of `iostat -x` (sysstat, rd_stats.c and iostat.c).

use crate::derive::per_second;
use fathom_model::watch::{DiskCounters, DiskKind, IoCounters};
use serde::Serialize;

/// What a block device did, per second of the time between two samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DiskRates {
    /// Kernel name; empty for a total.
    pub name: String,
    /// What it is.
    pub kind: DiskKind,
    /// Devices right below it.
    pub below: Vec<String>,
    /// What people call it.
    pub alias: String,
    /// Reads.
    pub read: IoRates,
    /// Writes.
    pub write: IoRates,
    /// Discards.
    pub discard: IoRates,
    /// Flushes: rate and wait only.
    pub flush: IoRates,
    /// Mean I/Os in flight (`aqu-sz`).
    pub queue: f64,
    /// Share of the time with at least one I/O in flight (`%util`), in percent; the mean of the disks
    /// for a total. 100 means that a device that does one I/O at a time can do no more. One that works
    /// in parallel (SSDs, RAID, clouds' disks) may then have done a small part of what it can: look at
    /// `queue` and at the waits.
    pub util: f64,
    /// I/Os in flight at the end.
    pub in_flight: u64,
}

/// I/Os in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct IoRates {
    /// I/Os completed per second (`r/s`).
    pub ios: f64,
    /// Bytes per second (`rMB/s`).
    pub bytes: f64,
    /// I/Os merged into others before the driver saw them, per second (`rrqm/s`).
    pub merges: f64,
    /// Merged I/Os of all that were asked for (`%rrqm`), in percent.
    pub merged: f64,
    /// Mean time from entering the queue to completion (`r_await`), in milliseconds; absent where
    /// nothing was completed.
    pub wait_ms: Option<f64>,
    /// Mean size (`rareq-sz`), in bytes; absent where nothing was completed.
    pub size: Option<f64>,
}

/// Differences of a device's counters, or of several together.
#[derive(Debug, Clone, Copy, Default)]
struct Growth {
    /// Read, write, discard, flush.
    io: [IoGrowth; 4],
    busy_ms: u64,
    weighted_ms: u64,
    in_flight: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct IoGrowth {
    ios: u64,
    merges: u64,
    sectors: u64,
    ticks_ms: u64,
}

/// Each device, and whole disks added up.
pub(super) fn rates(
    earlier: &[DiskCounters],
    later: &[DiskCounters],
    elapsed_ns: u64,
) -> (Vec<DiskRates>, DiskRates) {
    let mut each = Vec::with_capacity(later.len());
    let mut sum = Growth::default();
    let mut disks = 0;
    // One that was not there before, or had done nothing, began at 0.
    let new = DiskCounters::default();
    let later = if earlier.is_empty() { &[] } else { later };
    for now in later {
        let then = earlier.iter().find(|then| then.name == now.name).unwrap_or(&new);
        let Some(growth) = Growth::between(then, now) else { continue };
        if now.kind == DiskKind::Disk {
            sum.add(&growth);
            disks += 1;
        }
        each.push(DiskRates {
            name: now.name.clone(),
            kind: now.kind,
            below: now.below.clone(),
            alias: now.alias.clone(),
            ..growth.rates(elapsed_ns)
        });
    }
    let mut total = sum.rates(elapsed_ns);
    total.util /= f64::from(disks.max(1));
    (each, total)
}

impl Growth {
    /// `None` for a device that was replaced under its name, whose counters began anew.
    fn between(then: &DiskCounters, now: &DiskCounters) -> Option<Self> {
        let io = |of: fn(&DiskCounters) -> &IoCounters| IoGrowth::between(of(then), of(now));
        Some(Self {
            io: [io(|d| &d.read)?, io(|d| &d.write)?, io(|d| &d.discard)?, io(|d| &d.flush)?],
            busy_ms: wrapped(then.busy_ms, now.busy_ms),
            weighted_ms: wrapped(then.weighted_ms, now.weighted_ms),
            in_flight: now.in_flight,
        })
    }

    fn add(&mut self, other: &Self) {
        for (mine, other) in self.io.iter_mut().zip(&other.io) {
            mine.ios += other.ios;
            mine.merges += other.merges;
            mine.sectors += other.sectors;
            mine.ticks_ms += other.ticks_ms;
        }
        self.busy_ms += other.busy_ms;
        self.weighted_ms += other.weighted_ms;
        self.in_flight += other.in_flight;
    }

    fn rates(&self, elapsed_ns: u64) -> DiskRates {
        let [read, write, discard, flush] = self.io.map(|io| io.rates(elapsed_ns));
        DiskRates {
            read,
            write,
            discard,
            flush,
            // Milliseconds per second are thousandths, or tenths of a percent.
            queue: per_second(self.weighted_ms, elapsed_ns) / 1e3,
            util: per_second(self.busy_ms, elapsed_ns) / 10.0,
            in_flight: self.in_flight,
            ..DiskRates::default()
        }
    }
}

impl IoGrowth {
    fn between(then: &IoCounters, now: &IoCounters) -> Option<Self> {
        Some(Self {
            ios: now.ios.checked_sub(then.ios)?,
            merges: now.merges.checked_sub(then.merges)?,
            sectors: now.sectors.checked_sub(then.sectors)?,
            ticks_ms: wrapped(then.ticks_ms, now.ticks_ms),
        })
    }

    fn rates(&self, elapsed_ns: u64) -> IoRates {
        let bytes = self.sectors * 512;
        let per_io = |n: u64| (self.ios > 0).then(|| n as f64 / self.ios as f64);
        let asked = self.ios + self.merges;
        IoRates {
            ios: per_second(self.ios, elapsed_ns),
            bytes: per_second(bytes, elapsed_ns),
            merges: per_second(self.merges, elapsed_ns),
            merged: if asked == 0 { 0.0 } else { self.merges as f64 * 100.0 / asked as f64 },
            wait_ms: per_io(self.ticks_ms),
            size: per_io(bytes),
        }
    }
}

/// The kernel prints times modulo 2^32 milliseconds.
fn wrapped(then: u32, now: u32) -> u64 {
    now.wrapping_sub(then).into()
}
