//! Sizes, causes of splits, errors and tasks of sampled events.

use super::device::BlockDevice;
use super::events::{BlockEvent, EventKind};
use super::limits::QueueLimits;
use fathom_model::watch::{BlockOp, BlocksSample, SizeSamples, SplitSamples, TaskBlocks};
use std::collections::{BTreeMap, HashMap};

/// Buckets of unplugs by number of requests, each up to the next: 32 is the number at which a plug
/// is flushed automatically, 64 if it holds requests for several queues (block/blk-mq.c,
/// `blk_plug_max_rq_count`).
pub(super) const UNPLUGS: [u32; 9] = [1, 2, 3, 5, 9, 17, 32, 33, 64];

const TASKS_MAX: usize = 16;

const KEPT_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct SizeTally {
    devices: Vec<DeviceTally>,
    tasks: HashMap<[u8; 16], TaskTally>,
    unplugs: [u64; UNPLUGS.len()],
}

#[derive(Debug, Default)]
struct DeviceTally {
    bio_based: bool,
    sizes: BTreeMap<(BlockOp, u64), u64>,
    splits: BTreeMap<(&'static str, u64), u64>,
    errors: BTreeMap<i32, u64>,
}

#[derive(Debug, Default)]
struct TaskTally {
    queued: u64,
    unplugs: [u64; UNPLUGS.len()],
}

impl SizeTally {
    pub fn new(devices: &[BlockDevice]) -> Self {
        let of = |d: &BlockDevice| DeviceTally { bio_based: d.bio_based, ..DeviceTally::default() };
        let devices = devices.iter().map(of).collect();
        Self { devices, tasks: HashMap::new(), unplugs: [0; UNPLUGS.len()] }
    }

    /// Counts a queued bio, an issued request or a split of the device with this index.
    pub fn add(&mut self, index: usize, device: &BlockDevice, event: &BlockEvent) {
        let Some(of) = self.devices.get_mut(index) else { return };
        match event.what {
            Some(EventKind::Split) => of.split(&device.limits, event),
            Some(EventKind::Issue) => of.size(event),
            Some(EventKind::Enter) => {
                if of.bio_based {
                    of.size(event);
                }
                if let Some(task) = self.task(event) {
                    task.queued += 1;
                }
            }
            _ => {}
        }
    }

    pub fn unplug(&mut self, event: &BlockEvent) {
        let bucket = UNPLUGS.partition_point(|first| *first <= event.requests);
        let Some(bucket) = bucket.checked_sub(1) else { return };
        self.unplugs[bucket] += 1;
        if let Some(task) = self.task(event) {
            task.unplugs[bucket] += 1;
        }
    }

    /// The number of unplugs by size, of which one in `one_in` is sampled.
    pub fn unplugs(&self, one_in: u32) -> Vec<(u32, u64)> {
        let all = UNPLUGS.iter().zip(self.unplugs);
        all.map(|(first, samples)| (*first, samples * u64::from(one_in))).collect()
    }

    /// Counts the event if it reports an error.
    pub fn error(&mut self, index: usize, event: &BlockEvent) {
        if let Some(of) = self.devices.get_mut(index)
            && event.error != 0
        {
            *of.errors.entry(event.error.saturating_abs()).or_default() += 1;
        }
    }

    fn task(&mut self, event: &BlockEvent) -> Option<&mut TaskTally> {
        let room = self.tasks.len() < KEPT_MAX || self.tasks.contains_key(&event.comm);
        room.then(|| self.tasks.entry(event.comm).or_default())
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
        let weight = |of: &TaskTally| of.queued + of.unplugs.iter().sum::<u64>();
        tasks.sort_by_key(|(comm, of)| (std::cmp::Reverse(weight(of)), **comm));
        tasks.truncate(TASKS_MAX);
        blocks.tasks = tasks.into_iter().map(|(comm, of)| of.named(comm)).collect();
        blocks.tasks.sort_by(|a, b| a.comm.cmp(&b.comm));
    }
}

impl DeviceTally {
    fn size(&mut self, event: &BlockEvent) {
        let bytes = u64::from(event.sectors) * 512;
        // Rounded down to a power of two; 0 for requests without data.
        let bytes_min = bytes.checked_ilog2().map_or(0, |bits| 1 << bits);
        *self.sizes.entry((event.op, bytes_min)).or_default() += 1;
    }

    fn split(&mut self, limits: &QueueLimits, event: &BlockEvent) {
        let limit = limits.explain(event.op, event.sector, u64::from(event.sectors));
        let key = (limit, u64::from(event.sectors) * 512);
        if self.splits.len() < KEPT_MAX || self.splits.contains_key(&key) {
            *self.splits.entry(key).or_default() += 1;
        }
    }
}

impl TaskTally {
    fn named(&self, comm: &[u8; 16]) -> TaskBlocks {
        let name = comm.split(|byte| *byte == 0).next().unwrap_or(&[]);
        let unplugs = UNPLUGS.iter().copied().zip(self.unplugs).filter(|(_, n)| *n > 0).collect();
        TaskBlocks { comm: fathom_model::escape::bytes(name), queued: self.queued, unplugs }
    }
}
