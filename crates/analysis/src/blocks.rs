//! Activity of the block layer between two samples of one sampler.

mod await_gap;

pub use await_gap::{AwaitGap, GapReason, await_gaps};

use fathom_model::watch::{
    BlocksSample, DeviceBlocks, OpTimes, SizeSamples, SplitSamples, TaskBlocks,
};

/// The growth from `earlier` to `now`, both of one sampler. A device or task that is not in `earlier`
/// counts from 0.
pub fn since(now: &BlocksSample, earlier: &BlocksSample) -> BlocksSample {
    let device = |now: &DeviceBlocks| {
        let earlier = earlier.devices.iter().find(|device| device.name == now.name);
        earlier.map_or_else(|| now.clone(), |earlier| device_since(now, earlier))
    };
    let task = |now: &TaskBlocks| {
        let earlier = earlier.tasks.iter().find(|task| task.comm == now.comm);
        earlier.map_or_else(|| now.clone(), |earlier| task_since(now, earlier))
    };
    let tasks = now.tasks.iter().map(task);
    let windows = |now: Option<u64>, earlier: Option<u64>| {
        now.map(|ns| ns.saturating_sub(earlier.unwrap_or(0)))
    };
    BlocksSample {
        unplugs: counts_since(&now.unplugs, &earlier.unplugs),
        one_in: now.one_in,
        each_io: now.each_io,
        unplugs_seen_ns: windows(now.unplugs_seen_ns, earlier.unplugs_seen_ns),
        seen_ns: windows(now.seen_ns, earlier.seen_ns),
        lost: now.lost.saturating_sub(earlier.lost),
        devices: now.devices.iter().map(device).collect(),
        tasks: tasks.filter(|task| task.queued > 0 || !task.unplugs.is_empty()).collect(),
    }
}

fn device_since(now: &DeviceBlocks, earlier: &DeviceBlocks) -> DeviceBlocks {
    // CPUs are read one after another, so a sum may appear to decrease.
    let less = |now: u64, earlier: u64| now.saturating_sub(earlier);
    let sizes = now.sizes.iter().map(|size| {
        let same = |s: &&SizeSamples| (s.op, s.bytes_min) == (size.op, size.bytes_min);
        let before = earlier.sizes.iter().find(same).map_or(0, |s| s.samples);
        SizeSamples { samples: less(size.samples, before), ..size.clone() }
    });
    let splits = now.splits.iter().map(|split| {
        let same = |s: &&SplitSamples| (&s.limit, s.bytes) == (&split.limit, split.bytes);
        let before = earlier.splits.iter().find(same).map_or(0, |s| s.samples);
        SplitSamples { samples: less(split.samples, before), ..split.clone() }
    });
    DeviceBlocks {
        name: now.name.clone(),
        bio_based: now.bio_based,
        removed: now.removed,
        queued: less(now.queued, earlier.queued),
        issued: less(now.issued, earlier.issued),
        completed: less(now.completed, earlier.completed),
        requeued: less(now.requeued, earlier.requeued),
        merged: less(now.merged, earlier.merged),
        split: less(now.split, earlier.split),
        errors: less(now.errors, earlier.errors),
        error_codes: counts_since(&now.error_codes, &earlier.error_codes),
        sizes: sizes.filter(|size| size.samples > 0).collect(),
        splits: splits.filter(|split| split.samples > 0).collect(),
        queue: now.queue.since(&earlier.queue),
        driver: now.driver.since(&earlier.driver),
        ops: now.ops.iter().map(|of| op_since(of, &earlier.ops)).collect(),
    }
}

fn op_since(now: &OpTimes, earlier: &[OpTimes]) -> OpTimes {
    let before = earlier.iter().find(|of| of.op == now.op);
    let driver = before.map_or_else(|| now.driver.clone(), |of| now.driver.since(&of.driver));
    OpTimes { op: now.op, driver }
}

fn task_since(now: &TaskBlocks, earlier: &TaskBlocks) -> TaskBlocks {
    let unplugs = counts_since(&now.unplugs, &earlier.unplugs);
    TaskBlocks {
        comm: now.comm.clone(),
        queued: now.queued.saturating_sub(earlier.queued),
        unplugs: unplugs.into_iter().filter(|(_, n)| *n > 0).collect(),
    }
}

/// Counts by key without those of `earlier`.
fn counts_since<K: Copy + PartialEq>(now: &[(K, u64)], earlier: &[(K, u64)]) -> Vec<(K, u64)> {
    let before = |key: &K| earlier.iter().find(|(k, _)| k == key).map_or(0, |(_, n)| *n);
    now.iter().map(|(key, n)| (*key, n.saturating_sub(before(key)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::BlockOp;

    fn sample(n: u64) -> BlocksSample {
        let size = |bytes_min, samples| SizeSamples { op: BlockOp::Read, bytes_min, samples };
        let mut device = DeviceBlocks { name: "vda".into(), queued: 10 * n, ..Default::default() };
        device.completed = 9 * n;
        device.sizes = vec![size(4096, n), size(8192, 1)];
        device.splits =
            vec![SplitSamples { limit: "max_segments".into(), bytes: 1_040_384, samples: 2 * n }];
        device.driver.record_n(1000, n);
        let task = |comm: &str, queued| TaskBlocks {
            comm: comm.into(),
            queued,
            unplugs: vec![(32, queued)],
        };
        BlocksSample {
            unplugs: vec![(1, 1), (32, n)],
            one_in: 61,
            each_io: true,
            unplugs_seen_ns: Some(20 * n),
            seen_ns: Some(10 * n),
            lost: n,
            devices: vec![device],
            tasks: vec![task("fio", n), task("idle", 1)],
        }
    }

    #[test]
    fn only_growth_remains() {
        let growth = since(&sample(5), &sample(2));
        assert_eq!(growth.unplugs, [(1, 0), (32, 3)]);
        assert_eq!((growth.one_in, growth.lost), (61, 3));
        assert_eq!((growth.seen_ns, growth.unplugs_seen_ns), (Some(30), Some(60)));
        let device = &growth.devices[0];
        assert_eq!((device.queued, device.completed, device.driver.count()), (30, 27, 3));
        assert_eq!(device.sizes.len(), 1);
        assert_eq!((device.sizes[0].samples, device.splits[0].samples), (3, 6));
        assert_eq!(growth.tasks.len(), 1);
        assert_eq!((growth.tasks[0].queued, &growth.tasks[0].unplugs[..]), (3, &[(32, 3)][..]));
    }

    #[test]
    fn new_devices_count_from_zero_and_nothing_decreases() {
        assert_eq!(since(&sample(5), &BlocksSample::default()), sample(5));
        let back = since(&sample(2), &sample(5));
        assert_eq!((back.devices[0].queued, back.lost), (0, 0));
    }
}
