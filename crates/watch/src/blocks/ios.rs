//! Every I/O of some devices, as it is queued: a trace that can be replayed.

use super::device::{self, BlockDevice, BlocksError};
use super::events::{BlockEvent, EventKind, EventStream};
use super::trace;
use crate::perf::{PerCpuEvents, Tracefs, online_cpus, refused};
use fathom_model::watch::BlockOp;
use std::io;
use std::path::Path;

/// For each CPU; half a million I/Os a second fill it in 150 ms.
const RING: usize = 8 << 20;
const SECTOR: u64 = 512;

/// An I/O as a program or a file system submitted it, before it is split or merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedIo {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// Index into [`IoTrace::devices`].
    pub device: usize,
    pub op: BlockOp,
    /// Whether the device flushes its cache first.
    pub flushes_first: bool,
    /// Whether it completes only once it is durable.
    pub fua: bool,
    /// In bytes, from the start of the device or partition.
    pub offset: u64,
    /// In bytes.
    pub len: u64,
}

#[derive(Debug)]
pub struct IoTrace {
    devices: Vec<BlockDevice>,
    events: EventStream,
}

impl IoTrace {
    /// Begins to trace all I/Os of `devices`, by name or path.
    pub fn open(
        proc_root: &Path,
        sys_root: &Path,
        devices: &[String],
    ) -> Result<Self, BlocksError> {
        let what = "a trace of all I/Os";
        let devices = device::find(sys_root, devices)?;
        let tracefs = Tracefs::find(proc_root, what).map_err(BlocksError::Unavailable)?;
        let cpus = online_cpus(sys_root).map_err(|source| BlocksError::Unreadable {
            path: sys_root.join("devices/system/cpu/online"),
            source,
        })?;
        let point = tracefs.tracepoint("block", "block_bio_queue");
        let point = point.map_err(BlocksError::Unavailable)?;
        let filters: Vec<String> = devices.iter().map(filter).collect();
        let fail = |error: io::Error| BlocksError::Unavailable(refused(what, &error));
        let events = point.open(trace::attr(&point, 1), &cpus, Some(&filters.join(" || ")), None);
        let events = events.map_err(fail)?;
        let mut stream = EventStream::default();
        let added = stream.add(EventKind::Enter, &point, events, RING);
        added.and_then(PerCpuEvents::enable).map_err(fail)?;
        Ok(Self { devices, events: stream })
    }

    /// Their names.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().map(|device| device.name.as_str())
    }

    /// Whether a file system or file with this number (major, minor) is on one of the devices.
    pub fn holds(&self, (major, minor): (u32, u32)) -> bool {
        let number = device::number((major, minor));
        self.devices.iter().any(|device| device.disk == number || device.parts.contains(&number))
    }

    /// Passes the I/Os since the last call to `each`, in the order of time.
    pub fn drain(&mut self, mut each: impl FnMut(&QueuedIo)) {
        let Self { devices, events } = self;
        events.drain(|event| {
            for (index, device) in devices.iter().enumerate() {
                let is_flush = event.op == BlockOp::Flush && event.dev == device.disk;
                if is_flush || device.owns(event.dev, event.sector) {
                    each(&queued(event, index, device));
                }
            }
        });
    }

    /// I/Os that are missing because they came faster than they were read.
    pub fn lost(&self) -> u64 {
        self.events.lost
    }
}

/// A flush of a partition is of the whole device, and at its first sector.
fn filter(device: &BlockDevice) -> String {
    format!("({}) || (dev == {} && nr_sector == 0)", device.bio_filter(), device.disk)
}

fn queued(event: &BlockEvent, index: usize, device: &BlockDevice) -> QueuedIo {
    let first = device.range.map_or(0, |(first, _)| first);
    QueuedIo {
        time_ns: event.time_ns,
        device: index,
        op: event.op,
        flushes_first: event.flushes_first,
        fua: event.fua,
        offset: event.sector.saturating_sub(first) * SECTOR,
        len: u64::from(event.sectors) * SECTOR,
    }
}
