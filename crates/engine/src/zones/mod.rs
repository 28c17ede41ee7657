//! Zones with write pointers (`zonemode=zbd`): their state, which the workers of a target share, and in `user` where the
//! I/Os of one worker go.
//!
//! A zone belongs to a worker while it has writes in flight there; another one that needs it waits without blocking, as
//! its own I/Os complete. So only one worker stores a zone's write pointer, and writes reach the zone in order. Readers
//! are counted, so that a zone is not reset under them. All of it are atomics: nobody sleeps in a lock that a worker holds.

mod device;
mod user;

pub(crate) use user::{Placed, ZoneUser};

use crate::error::EngineError;
use crate::run::JobInput;
use device::{Reported, report};
use fathom_model::plan::{JobPlan, ZoneRules, Zoning};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZoneKind {
    Sequential,
    /// Without a write pointer.
    Conventional,
    /// Readable below its write pointer.
    ReadOnly,
    Offline,
}

struct Zone {
    start: u64,
    /// The end of what can be written.
    end: u64,
    kind: ZoneKind,
    /// Number of the worker with writes in flight, plus one; 0 for none.
    owner: AtomicU32,
    /// Whether another worker waits for it.
    wanted: AtomicBool,
    /// Writes in flight, which only the owner changes.
    writes: AtomicU32,
    /// Where the next write goes, which only the owner changes.
    pointer: AtomicU64,
    /// The end of the data that can be read: all writes below have completed.
    readable: AtomicU64,
    readers: AtomicU32,
    /// Its place among the open zones, plus one; 0 if it is not counted as open.
    place: AtomicU32,
    /// A write failed, so that the device's pointer is elsewhere.
    is_off: AtomicBool,
}

impl Zone {
    fn new(reported: &Reported) -> Self {
        Self {
            start: reported.start,
            end: reported.start + reported.capacity,
            kind: reported.kind,
            owner: AtomicU32::new(0),
            wanted: AtomicBool::new(false),
            writes: AtomicU32::new(0),
            pointer: AtomicU64::new(reported.pointer),
            readable: AtomicU64::new(reported.pointer),
            readers: AtomicU32::new(0),
            place: AtomicU32::new(0),
            is_off: AtomicBool::new(false),
        }
    }

    fn room(&self) -> u64 {
        self.end.saturating_sub(self.pointer.load(Relaxed))
    }

    /// Whether it belongs to `worker` now; it is released with the last write in flight.
    fn take(&self, worker: u32) -> bool {
        match self.owner.compare_exchange(0, worker + 1, AcqRel, Acquire) {
            Ok(_) => {
                self.wanted.store(false, Relaxed);
                true
            }
            // A worker that keeps writes in flight gives way at times.
            Err(owner) if owner == worker + 1 => !self.wanted.load(Relaxed),
            Err(_) => {
                self.wanted.store(true, Relaxed);
                false
            }
        }
    }

    fn release(&self) {
        if self.writes.load(Relaxed) == 0 {
            self.owner.store(0, Release);
        }
    }

    /// Moves the write pointer to `at`, with no write in flight.
    fn set_pointer(&self, at: u64) {
        self.pointer.store(at, Relaxed);
        self.readable.store(at, SeqCst);
    }
}

pub(crate) struct ZonedTarget {
    zone_bytes: u64,
    /// Whether the device has zones, not fathom alone.
    has_device: bool,
    zones: Vec<Zone>,
    /// Open zones, with the worker that opened each: both plus one, in 32 bits each; 0 for a free place. Empty if their
    /// number is not limited.
    open: Vec<AtomicU64>,
    /// Bytes of data in zones that can be written, and writes until the next early reset (`zone_reset_threshold`).
    data: AtomicU64,
    until_reset: AtomicU32,
}

impl ZonedTarget {
    fn new(rules: &ZoneRules, has_device: bool, reported: &[Reported]) -> Self {
        let zones: Vec<Zone> = reported.iter().map(Zone::new).collect();
        let written = zones.iter().filter(|zone| zone.kind == ZoneKind::Sequential);
        let data = written.map(|zone| zone.pointer.load(Relaxed) - zone.start).sum();
        let target = Self {
            zone_bytes: rules.zone_bytes,
            has_device,
            zones,
            open: (0..rules.open_max).map(|_| AtomicU64::new(0)).collect(),
            data: AtomicU64::new(data),
            until_reset: AtomicU32::new(user::writes_between_resets(rules)),
        };
        // Those that exceed the limit are for the device to close.
        for (index, _) in reported.iter().enumerate().filter(|(_, zone)| zone.is_open) {
            target.open(index, u32::MAX - 1, 0);
        }
        target
    }

    /// Counts zone number `index`, which belongs to `worker`, as open; false if that exceeds a limit.
    fn open(&self, index: usize, worker: u32, own_max: u32) -> bool {
        let zone = &self.zones[index];
        if self.open.is_empty() || zone.place.load(Relaxed) != 0 {
            return true;
        }
        let of = |place: &&AtomicU64| place.load(Relaxed) >> 32 == u64::from(worker) + 1;
        if own_max > 0 && self.open.iter().filter(of).count() >= own_max as usize {
            return false;
        }
        let value = (u64::from(worker) + 1) << 32 | (index as u64 + 1);
        for (number, place) in self.open.iter().enumerate() {
            if place.compare_exchange(0, value, AcqRel, Relaxed).is_ok() {
                zone.place.store(number as u32 + 1, Relaxed);
                return true;
            }
        }
        false
    }

    /// No longer counts a zone, which belongs to the caller, as open.
    fn close(&self, zone: &Zone) {
        let place = zone.place.swap(0, Relaxed);
        if place > 0 {
            self.open[place as usize - 1].store(0, Release);
        }
    }

    fn index(&self, offset: u64) -> usize {
        ((offset / self.zone_bytes) as usize).min(self.zones.len() - 1)
    }
}

/// The zones of each target that any job uses by their write pointers, by the target's number.
pub(crate) fn targets(
    jobs: &[JobPlan],
    inputs: &[JobInput],
) -> Result<BTreeMap<usize, Arc<ZonedTarget>>, EngineError> {
    let mut ends: BTreeMap<usize, (u64, ZoneRules, usize, usize)> = BTreeMap::new();
    for (number, job) in jobs.iter().enumerate() {
        let Some(Zoning::WritePointers(rules)) = job.access.zoning else { continue };
        for (file, region) in job.offset_regions().iter().enumerate() {
            let end = region.start + region.len;
            let known = ends.entry(region.target).or_insert((0, rules, number, file));
            known.0 = known.0.max(end);
        }
    }
    let target = |(target, (end, rules, job, file)): (usize, (u64, ZoneRules, usize, usize))| {
        let file = inputs[job].files.get(file);
        let (has_device, zones) = report(file, &rules, end)?;
        Ok((target, Arc::new(ZonedTarget::new(&rules, has_device, &zones))))
    };
    ends.into_iter().map(target).collect()
}

#[cfg(test)]
mod tests;
