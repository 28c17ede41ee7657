//! How long requests waited for the driver, and the driver for the device. An event does not say
//! which request it is of: device and first sector tell.

use super::device::Device;
use super::trace::{Seen, What};
use fathom_model::Histogram;
use fathom_model::watch::BlocksSample;
use std::collections::HashMap;

/// An I/O that was merged into another is never issued by its own sector: it is forgotten after this.
const FORGET_NS: u64 = 60_000_000_000;

/// How many requests under way are followed; more are not timed.
const UNDER_WAY_MAX: usize = 1 << 16;

/// Times of requests on some devices.
#[derive(Debug)]
pub(super) struct Times {
    devices: Vec<OfDevice>,
    next_forget_ns: u64,
}

#[derive(Debug, Default)]
struct OfDevice {
    bio_based: bool,
    under_way: HashMap<u64, UnderWay>,
    queue: Histogram,
    driver: Histogram,
}

/// What has come of the requests at one sector.
#[derive(Debug, Clone, Copy, Default)]
struct UnderWay {
    entered_ns: Option<u64>,
    issued_ns: Option<u64>,
    /// Several were under way at once: which of them is done cannot be told.
    several: bool,
}

impl Times {
    pub fn new(devices: &[Device]) -> Self {
        let of = |d: &Device| OfDevice { bio_based: d.bio_based, ..OfDevice::default() };
        Self { devices: devices.iter().map(of).collect(), next_forget_ns: 0 }
    }

    /// Adds an event of the device with this index; they come in the order of their times.
    pub fn add(&mut self, index: usize, seen: &Seen) {
        let Some(of) = self.devices.get_mut(index) else { return };
        match seen.what {
            Some(What::TimedEnter) => of.enter(seen),
            Some(What::TimedIssue) => of.issue(seen),
            Some(What::TimedDone | What::TimedBioDone) => of.done(seen),
            _ => {}
        }
    }

    /// Forgets what has been under way for too long to come to an end.
    pub fn forget(&mut self, now_ns: u64) {
        if now_ns < self.next_forget_ns {
            return;
        }
        self.next_forget_ns = now_ns + FORGET_NS / 4;
        let oldest = now_ns.saturating_sub(FORGET_NS);
        for of in &mut self.devices {
            of.under_way.retain(|_, one| one.issued_ns.max(one.entered_ns) > Some(oldest));
        }
    }

    /// Whether a request is followed whose end was not seen.
    pub fn is_under_way(&self) -> bool {
        self.devices.iter().any(|of| !of.under_way.is_empty())
    }

    /// Forgets all that is under way.
    pub fn forget_all(&mut self) {
        self.devices.iter_mut().for_each(|of| of.under_way.clear());
    }

    pub fn put(&self, blocks: &mut BlocksSample) {
        for (device, of) in blocks.devices.iter_mut().zip(&self.devices) {
            device.queue = of.queue.clone();
            device.driver = of.driver.clone();
        }
    }
}

impl OfDevice {
    fn enter(&mut self, seen: &Seen) {
        let bio_based = self.bio_based;
        let Some(one) = self.one(seen.sector) else { return };
        let at = Some(seen.time_ns);
        // Without requests, entering is being at the driver.
        if one.issued_ns.is_some() {
            one.several = true;
        } else {
            one.entered_ns = at;
            one.issued_ns = at.filter(|_| bio_based);
        }
    }

    fn issue(&mut self, seen: &Seen) {
        let Some(one) = self.one(seen.sector) else { return };
        if !one.several
            && one.issued_ns.is_none()
            && let Some(entered) = one.entered_ns
        {
            let waited = seen.time_ns - entered;
            one.issued_ns = Some(seen.time_ns);
            self.queue.record(waited);
            return;
        }
        // Put back by the driver and issued again, or entered before this was opened.
        one.issued_ns = Some(seen.time_ns);
    }

    fn done(&mut self, seen: &Seen) {
        let Some(one) = self.under_way.remove(&seen.sector) else { return };
        if let Some(issued) = one.issued_ns.filter(|_| !one.several) {
            self.driver.record(seen.time_ns - issued);
        }
    }

    fn one(&mut self, sector: u64) -> Option<&mut UnderWay> {
        let room = self.under_way.len() < UNDER_WAY_MAX || self.under_way.contains_key(&sector);
        room.then(|| self.under_way.entry(sector).or_default())
    }
}
