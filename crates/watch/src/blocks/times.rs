//! Latencies from queueing to issue and from issue to completion. Events carry no request ID;
//! requests are matched by device and first sector.

use super::device::BlockDevice;
use super::events::{BlockEvent, EventKind};
use fathom_model::Histogram;
use fathom_model::watch::{BlockOp, BlocksSample, OpTimes};
use std::collections::{BTreeMap, HashMap};

/// A bio merged into another request is never issued under its own sector: it is dropped after this
/// time.
const FORGET_NS: u64 = 60_000_000_000;

/// Maximum number of requests in flight that are timed.
const UNDER_WAY_MAX: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct RequestTimes {
    devices: Vec<DeviceTimes>,
    next_forget_ns: u64,
}

#[derive(Debug, Default)]
struct DeviceTimes {
    bio_based: bool,
    /// By sector, and whether it is a flush, which has none of its own.
    in_flight: HashMap<(u64, bool), InFlight>,
    queue: Histogram,
    driver: Histogram,
    ops: BTreeMap<BlockOp, Histogram>,
}

#[derive(Debug, Clone, Copy, Default)]
struct InFlight {
    entered_ns: Option<u64>,
    issued_ns: Option<u64>,
    /// Several requests were in flight at this sector, so events cannot be attributed.
    several: bool,
}

impl RequestTimes {
    pub fn new(devices: &[BlockDevice]) -> Self {
        let of = |d: &BlockDevice| DeviceTimes { bio_based: d.bio_based, ..DeviceTimes::default() };
        Self { devices: devices.iter().map(of).collect(), next_forget_ns: 0 }
    }

    /// Adds an event of the device with this index, in chronological order.
    pub fn add(&mut self, index: usize, event: &BlockEvent) {
        let Some(of) = self.devices.get_mut(index) else { return };
        match event.what {
            Some(EventKind::TimedEnter) => of.enter(event),
            Some(EventKind::TimedIssue) => of.issue(event),
            Some(EventKind::TimedDone | EventKind::TimedBioDone) => of.done(event),
            _ => {}
        }
    }

    /// Drops requests that have been in flight for too long to complete.
    pub fn forget(&mut self, now_ns: u64) {
        if now_ns < self.next_forget_ns {
            return;
        }
        self.next_forget_ns = now_ns + FORGET_NS / 4;
        let oldest = now_ns.saturating_sub(FORGET_NS);
        for of in &mut self.devices {
            of.in_flight.retain(|_, one| one.issued_ns.max(one.entered_ns) > Some(oldest));
        }
    }

    pub fn is_in_flight(&self) -> bool {
        self.devices.iter().any(|of| !of.in_flight.is_empty())
    }

    pub fn forget_all(&mut self) {
        self.devices.iter_mut().for_each(|of| of.in_flight.clear());
    }

    pub fn put(&self, blocks: &mut BlocksSample) {
        for (device, of) in blocks.devices.iter_mut().zip(&self.devices) {
            device.queue = of.queue.clone();
            device.driver = of.driver.clone();
            let times = of.ops.iter();
            device.ops =
                times.map(|(op, driver)| OpTimes { op: *op, driver: driver.clone() }).collect();
        }
    }
}

impl DeviceTimes {
    fn enter(&mut self, event: &BlockEvent) {
        let bio_based = self.bio_based;
        let Some(one) = self.one(key(event)) else { return };
        let at = Some(event.time_ns);
        // A bio-based device serves a bio as soon as it is queued.
        if one.issued_ns.is_some() {
            one.several = true;
        } else {
            one.entered_ns = at;
            one.issued_ns = at.filter(|_| bio_based);
        }
    }

    fn issue(&mut self, event: &BlockEvent) {
        let Some(one) = self.one(key(event)) else { return };
        if !one.several
            && one.issued_ns.is_none()
            && let Some(entered) = one.entered_ns
        {
            let waited = event.time_ns - entered;
            one.issued_ns = Some(event.time_ns);
            if event.op != BlockOp::Flush {
                self.queue.record(waited);
            }
            return;
        }
        // Requeued and issued again, or queued before tracing began.
        one.issued_ns = Some(event.time_ns);
    }

    fn done(&mut self, event: &BlockEvent) {
        let Some(one) = self.in_flight.remove(&key(event)) else { return };
        if let Some(issued) = one.issued_ns.filter(|_| !one.several) {
            let took = event.time_ns - issued;
            if event.op != BlockOp::Flush {
                self.driver.record(took);
            }
            self.ops.entry(event.op).or_default().record(took);
        }
    }

    fn one(&mut self, key: (u64, bool)) -> Option<&mut InFlight> {
        let room = self.in_flight.len() < UNDER_WAY_MAX || self.in_flight.contains_key(&key);
        room.then(|| self.in_flight.entry(key).or_default())
    }
}

fn key(event: &BlockEvent) -> (u64, bool) {
    (event.sector, event.op == BlockOp::Flush)
}
