//! Sampled latencies beside the kernel's own `await`, which covers every request.

use crate::machine::{DiskRates, IoRates};
use fathom_model::watch::{BlockOp, DeviceBlocks};

/// A sampled median this many times as long or as short as await is explained.
const FACTOR: f64 = 2.0;

/// A sampled median that is far from await.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AwaitGap {
    pub op: BlockOp,
    /// Sampled median from issue to completion, in nanoseconds; from queueing if the device is bio-based.
    pub p50_ns: f64,
    /// Sampled mean of the same, in nanoseconds.
    pub mean_ns: f64,
    /// Mean time from queueing to issue of sampled requests, in nanoseconds; 0 for flushes, which are not queued.
    pub queue_ns: f64,
    pub samples: u64,
    /// Mean of all requests from queueing to completion (/proc/diskstats), in nanoseconds.
    pub await_ns: f64,
    pub reason: GapReason,
}

/// Why a sampled median is far from await.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// The sampled mean agrees with await: some requests take far longer, or shorter, than most.
    Spread,
    /// With the time before issue, which await includes, the sampled mean agrees with it.
    Queue,
    /// Nothing explains it: the samples do not represent all requests.
    Samples,
}

/// The operations of `device` whose sampled median and await, both over `elapsed_ns`, differ by a factor of two or more.
pub fn await_gaps(device: &DeviceBlocks, disk: &DiskRates, elapsed_ns: u64) -> Vec<AwaitGap> {
    let samples = device.queue.count();
    let queue_ns = if samples == 0 { 0.0 } else { device.queue.mean_ns() };
    let of = device.ops.iter().filter_map(|of| {
        let (io, queue_ns) = match of.op {
            BlockOp::Read => (&disk.read, queue_ns),
            BlockOp::Write => (&disk.write, queue_ns),
            BlockOp::Discard => (&disk.discard, queue_ns),
            BlockOp::Flush => (&disk.flush, 0.0),
            BlockOp::Other => return None,
        };
        let all = Await::of(io, elapsed_ns)?;
        // The median of a single sample is not printed.
        let p50_ns = of.driver.percentile(50.0).filter(|_| of.driver.count() > 1)? as f64;
        let mean_ns = of.driver.mean_ns();
        let reason = match () {
            () if all.agrees(p50_ns) => return None,
            () if all.agrees(mean_ns) => GapReason::Spread,
            () if all.agrees(mean_ns + queue_ns) => GapReason::Queue,
            () => GapReason::Samples,
        };
        let (op, samples, await_ns) = (of.op, of.driver.count(), all.ns);
        Some(AwaitGap { op, p50_ns, mean_ns, queue_ns, samples, await_ns, reason })
    });
    of.collect()
}

/// A mean with its rounding: the kernel reports the sum of all requests in whole milliseconds.
struct Await {
    ns: f64,
    least_ns: f64,
    most_ns: f64,
}

impl Await {
    fn of(io: &IoRates, elapsed_ns: u64) -> Option<Self> {
        let ns = io.wait_ms? * 1e6;
        let rounding_ns = 1e6 / (io.ios * elapsed_ns as f64 / 1e9).max(1.0);
        Some(Self { ns, least_ns: ns - rounding_ns, most_ns: ns + rounding_ns })
    }

    fn agrees(&self, ns: f64) -> bool {
        ns < self.most_ns * FACTOR && ns * FACTOR > self.least_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::OpTimes;

    const SECOND_NS: u64 = 1_000_000_000;

    /// A device whose reads were sampled as `(latency in µs, number)`, each 10 µs in the queue, and await in
    /// milliseconds of 1000 reads.
    fn gaps(op: BlockOp, sampled: &[(u64, u64)], queue_us: u64, wait_ms: f64) -> Vec<GapReason> {
        let mut device = DeviceBlocks::default();
        let mut times = OpTimes { op, ..OpTimes::default() };
        for (us, n) in sampled {
            times.driver.record_n(us * 1000, *n);
            device.queue.record_n(queue_us * 1000, *n);
        }
        device.ops = vec![times];
        let io = IoRates { ios: 1000.0, wait_ms: Some(wait_ms), ..IoRates::default() };
        let disk = match op {
            BlockOp::Flush => DiskRates { flush: io, ..DiskRates::default() },
            _ => DiskRates { read: io, ..DiskRates::default() },
        };
        await_gaps(&device, &disk, SECOND_NS).iter().map(|gap| gap.reason).collect()
    }

    #[test]
    fn medians_within_a_factor_of_two_need_no_explanation() {
        assert_eq!(gaps(BlockOp::Read, &[(100, 50)], 10, 0.11), []);
        assert_eq!(gaps(BlockOp::Read, &[(100, 50)], 10, 0.19), []);
    }

    #[test]
    fn what_await_includes_explains_a_gap() {
        // One in ten takes 2 ms: the mean is 290 µs.
        assert_eq!(gaps(BlockOp::Read, &[(100, 90), (2000, 10)], 10, 0.3), [GapReason::Spread]);
        assert_eq!(gaps(BlockOp::Read, &[(100, 90)], 900, 1.0), [GapReason::Queue]);
    }

    #[test]
    fn samples_that_do_not_represent_all_requests_are_exposed() {
        assert_eq!(gaps(BlockOp::Read, &[(100, 90)], 10, 1.0), [GapReason::Samples]);
        assert_eq!(gaps(BlockOp::Read, &[(1000, 90)], 10, 0.1), [GapReason::Samples]);
        // The queue's time is not that of flushes.
        assert_eq!(gaps(BlockOp::Flush, &[(100, 90)], 900, 1.0), [GapReason::Samples]);
    }

    #[test]
    fn the_rounding_of_await_is_no_gap() {
        let mut device = DeviceBlocks::default();
        let mut times = OpTimes { op: BlockOp::Read, ..OpTimes::default() };
        times.driver.record_n(400_000, 2);
        device.ops = vec![times];
        // Two reads, whose 0.8 ms are reported as 0.
        let read = IoRates { ios: 2.0, wait_ms: Some(0.0), ..IoRates::default() };
        let disk = DiskRates { read, ..DiskRates::default() };
        assert_eq!(await_gaps(&device, &disk, SECOND_NS), []);
        assert_eq!(await_gaps(&device, &DiskRates::default(), SECOND_NS), []);
        assert_eq!(gaps(BlockOp::Read, &[(100, 1)], 10, 1.0), []);
    }
}
