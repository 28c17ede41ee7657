//! What sampled events were: sizes, causes of splits, errors, and whose they were.

use super::device::Device;
use super::trace::{Seen, What};
use super::{UNPLUGS, limits::Limits};
use fathom_model::watch::{BlockOp, BlocksSample, SizeSamples, SplitSamples, TaskBlocks};
use std::collections::{BTreeMap, HashMap};

/// How many tasks are told of.
const TASKS_MAX: usize = 16;

/// How many names of tasks, and sizes of splits of one device, are kept; more are left out.
const KEPT_MAX: usize = 4096;

/// What was sampled so far.
#[derive(Debug)]
pub(super) struct Tally {
    devices: Vec<OfDevice>,
    tasks: HashMap<[u8; 16], OfTask>,
}

#[derive(Debug, Default)]
struct OfDevice {
    bio_based: bool,
    sizes: BTreeMap<(BlockOp, u64), u64>,
    splits: BTreeMap<(&'static str, u64), u64>,
    errors: BTreeMap<i32, u64>,
}

#[derive(Debug, Default)]
struct OfTask {
    queued: u64,
    unplugs: [u64; UNPLUGS.len()],
}

impl Tally {
    pub fn new(devices: &[Device]) -> Self {
        let of = |d: &Device| OfDevice { bio_based: d.bio_based, ..OfDevice::default() };
        Self { devices: devices.iter().map(of).collect(), tasks: HashMap::new() }
    }

    /// Counts an I/O that entered, a request at the driver, or a split, of the device with this index.
    pub fn add(&mut self, index: usize, device: &Device, seen: &Seen) {
        let Some(of) = self.devices.get_mut(index) else { return };
        match seen.what {
            Some(What::Split) => of.split(&device.limits, seen),
            Some(What::Issue) => of.size(seen),
            Some(What::Enter) => {
                if of.bio_based {
                    of.size(seen);
                }
                if let Some(task) = self.task(seen) {
                    task.queued += 1;
                }
            }
            _ => {}
        }
    }

    /// Counts an unplug.
    pub fn unplug(&mut self, seen: &Seen) {
        let bucket = UNPLUGS.partition_point(|first| *first <= seen.requests);
        let Some(bucket) = bucket.checked_sub(1) else { return };
        if let Some(task) = self.task(seen) {
            task.unplugs[bucket] += 1;
        }
    }

    /// Counts it if it is an error.
    pub fn error(&mut self, index: usize, seen: &Seen) {
        if let Some(of) = self.devices.get_mut(index)
            && seen.error != 0
        {
            *of.errors.entry(seen.error.saturating_abs()).or_default() += 1;
        }
    }

    fn task(&mut self, seen: &Seen) -> Option<&mut OfTask> {
        let room = self.tasks.len() < KEPT_MAX || self.tasks.contains_key(&seen.comm);
        room.then(|| self.tasks.entry(seen.comm).or_default())
    }

    pub fn put(&self, blocks: &mut BlocksSample) {
        for (device, of) in blocks.devices.iter_mut().zip(&self.devices) {
            let size = |(&(op, bytes_min), &samples): (&(BlockOp, u64), &u64)| SizeSamples {
                op,
                bytes_min,
                samples,
            };
            let split = |(&(limit, bytes), &samples): (&(&str, u64), &u64)| SplitSamples {
                limit: limit.into(),
                bytes,
                samples,
            };
            device.sizes = of.sizes.iter().map(size).collect();
            device.splits = of.splits.iter().map(split).collect();
            device.error_codes = of.errors.iter().map(|(code, n)| (*code, *n)).collect();
        }
        let mut tasks: Vec<_> = self.tasks.iter().collect();
        let weight = |of: &OfTask| of.queued + of.unplugs.iter().sum::<u64>();
        tasks.sort_by_key(|(comm, of)| (std::cmp::Reverse(weight(of)), **comm));
        tasks.truncate(TASKS_MAX);
        blocks.tasks = tasks.into_iter().map(|(comm, of)| of.named(comm)).collect();
        blocks.tasks.sort_by(|a, b| a.comm.cmp(&b.comm));
    }
}

impl OfDevice {
    fn size(&mut self, seen: &Seen) {
        let bytes = u64::from(seen.sectors) * 512;
        // The greatest power of two within; none for what carries no data.
        let bytes_min = bytes.checked_ilog2().map_or(0, |bits| 1 << bits);
        *self.sizes.entry((seen.op, bytes_min)).or_default() += 1;
    }

    fn split(&mut self, limits: &Limits, seen: &Seen) {
        let limit = limits.explain(seen.op, seen.sector, u64::from(seen.sectors));
        let key = (limit, u64::from(seen.sectors) * 512);
        if self.splits.len() < KEPT_MAX || self.splits.contains_key(&key) {
            *self.splits.entry(key).or_default() += 1;
        }
    }
}

impl OfTask {
    fn named(&self, comm: &[u8; 16]) -> TaskBlocks {
        let name = comm.split(|byte| *byte == 0).next().unwrap_or(&[]);
        let unplugs = UNPLUGS.iter().copied().zip(self.unplugs).filter(|(_, n)| *n > 0).collect();
        TaskBlocks { comm: fathom_model::escape::bytes(name), queued: self.queued, unplugs }
    }
}
