//! Counters of a worker: written by the worker alone, read by others while it runs.
//!
//! Only the worker writes, so a relaxed load and store replace a locked addition.

use crate::clock;
use crate::stall::WaitCheck;
use fathom_model::histogram::{BUCKETS, bucket_of};
use fathom_model::progress::{Counts, JobProgress, JobTotals, Phase};
use fathom_model::record::DepthRecord;
use fathom_model::{Dir, Histogram, PerDir};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64};

#[derive(Debug, Default)]
pub(crate) struct OwnedCounter(AtomicU64);

impl OwnedCounter {
    /// Adds; only the owning worker may call it.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A histogram with one writer, in the buckets of [`fathom_model::histogram`].
pub(crate) struct LiveHistogram {
    /// Zeroed lazily by the kernel: buckets never touched cost no memory.
    buckets: Box<[AtomicU64]>,
    sum_ns: OwnedCounter,
    min_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for LiveHistogram {
    fn default() -> Self {
        let buckets = Box::<[AtomicU64]>::new_zeroed_slice(BUCKETS);
        // SAFETY: all-zero bytes are a valid AtomicU64.
        let buckets = unsafe { buckets.assume_init() };
        Self {
            buckets,
            sum_ns: OwnedCounter::default(),
            min_ns: AtomicU64::new(u64::MAX),
            max_ns: AtomicU64::new(0),
        }
    }
}

impl LiveHistogram {
    #[inline]
    pub fn record_n(&self, value_ns: u64, n: u64) {
        // SAFETY: `bucket_of` gives numbers below BUCKETS, and there are as many.
        let bucket = unsafe { self.buckets.get_unchecked(bucket_of(value_ns)) };
        bucket.store(bucket.load(Relaxed) + n, Relaxed);
        self.sum_ns.add(value_ns.wrapping_mul(n));
        if value_ns < self.min_ns.load(Relaxed) {
            self.min_ns.store(value_ns, Relaxed);
        }
        if value_ns > self.max_ns.load(Relaxed) {
            self.max_ns.store(value_ns, Relaxed);
        }
    }

    pub fn sum_ns(&self) -> u64 {
        self.sum_ns.get()
    }

    pub fn max_ns(&self) -> u64 {
        self.max_ns.load(Relaxed)
    }

    pub fn snapshot(&self) -> Histogram {
        let (min_ns, max_ns) = (self.min_ns.load(Relaxed), self.max_ns.load(Relaxed));
        if min_ns > max_ns {
            return Histogram::default();
        }
        // Buckets outside this range are untouched; reading them would map their pages.
        let (first, last) = (bucket_of(min_ns), bucket_of(max_ns));
        let counts = (first..=last).map(|index| (index, self.buckets[index].load(Relaxed)));
        Histogram::from_parts(counts, self.sum_ns.get(), min_ns, max_ns)
    }
}

#[derive(Default)]
pub(crate) struct DirStats {
    pub ios: OwnedCounter,
    pub bytes: OwnedCounter,
    pub short_ios: OwnedCounter,
    pub errors: OwnedCounter,
    pub slat: LiveHistogram,
    pub clat: LiveHistogram,
    pub lat: LiveHistogram,
    pub response: LiveHistogram,
    pub late_ios: OwnedCounter,
}

impl DirStats {
    pub fn counts(&self) -> Counts {
        Counts {
            ios: self.ios.get(),
            bytes: self.bytes.get(),
            short_ios: self.short_ios.get(),
            errors: self.errors.get(),
        }
    }
}

/// Counters of one worker over one span of its time (ramp or measured).
#[derive(Default)]
pub(crate) struct Stats {
    pub dirs: PerDir<DirStats>,
    pub flushes: OwnedCounter,
    pub flush_lat: LiveHistogram,
}

/// State shared by a worker and its observers. Aligned so that no two workers share a cache line.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Shared {
    pub stats: Stats,
    pub in_flight: AtomicU32,
    pub turns: OwnedCounter,
    pub wait_check: WaitCheck,
    stop: AtomicBool,
    /// A [`Phase`]; 0 is [`Phase::Waiting`].
    phase: AtomicU8,
    /// The worker's thread id; 0 before it runs.
    pub tid: AtomicI32,
    /// End of the current span, on [`clock::now_ns`]; 0 for none.
    pub deadline_ns: AtomicU64,
    /// Start and end of the measured time on [`clock::now_ns`]; 0 before.
    pub measured_from_ns: AtomicU64,
    pub measured_to_ns: AtomicU64,
}

impl Shared {
    /// Requests the worker to stop; it does so with its next batch.
    pub fn ask_stop(&self) {
        self.stop.store(true, Release);
    }

    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Acquire)
    }

    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Release);
    }

    pub fn phase(&self) -> Phase {
        const PHASES: [Phase; 6] = [
            Phase::Waiting,
            Phase::Ramp,
            Phase::Running,
            Phase::Verifying,
            Phase::Finishing,
            Phase::Done,
        ];
        PHASES[usize::from(self.phase.load(Acquire)).min(5)]
    }

    pub fn measured_ns(&self) -> u64 {
        let from = self.measured_from_ns.load(Acquire);
        let to = self.measured_to_ns.load(Acquire);
        match (from, to) {
            (0, _) => 0,
            (from, 0) => clock::now_ns().saturating_sub(from),
            (from, to) => to.saturating_sub(from),
        }
    }

    pub fn progress(&self) -> JobProgress {
        JobProgress {
            phase: self.phase(),
            dirs: self.stats.dirs.map(|_, d| d.counts()),
            in_flight: self.in_flight.load(Relaxed),
            clat: self.stats.dirs.map(|_, d| d.clat.snapshot()),
            done: 0.0,
        }
    }

    pub fn job_totals(&self) -> JobTotals {
        let dirs = &self.stats.dirs;
        JobTotals {
            phase: self.phase(),
            measured_ns: self.measured_ns(),
            counts: dirs.map(|_, d| d.counts()),
            slat: dirs.map(|_, d| d.slat.snapshot()),
            clat: dirs.map(|_, d| d.clat.snapshot()),
            lat: dirs.map(|_, d| d.lat.snapshot()),
        }
    }

    /// Completed (I/Os, bytes) over all directions.
    pub fn totals(&self) -> (u64, u64) {
        Dir::ALL
            .iter()
            .map(|d| &self.stats.dirs[*d])
            .fold((0, 0), |t, d| (t.0 + d.ios.get(), t.1 + d.bytes.get()))
    }
}

/// Counts by depth and by batch size; allocated once.
pub(crate) struct DepthCounts {
    level: Box<[u64]>,
    submit: Box<[u64]>,
    complete: Box<[u64]>,
}

impl DepthCounts {
    pub fn new(depth: u32) -> Self {
        let zeroes = || vec![0; depth as usize + 1].into_boxed_slice();
        Self { level: zeroes(), submit: zeroes(), complete: zeroes() }
    }

    pub fn clear(&mut self) {
        [&mut self.level, &mut self.submit, &mut self.complete]
            .into_iter()
            .for_each(|counts| counts.fill(0));
    }

    /// Counts a batch of `count` I/Os, after which `in_flight` are in flight.
    #[inline]
    pub fn submitted(&mut self, count: u32, in_flight: u32) {
        self.level[in_flight as usize] += u64::from(count);
        self.submit[count as usize] += 1;
    }

    /// Counts a reap of `count` completions.
    #[inline]
    pub fn completed(&mut self, count: u32) {
        self.complete[count as usize] += 1;
    }

    pub fn record(&self, system_calls: u64) -> DepthRecord {
        let sparse = |counts: &[u64]| {
            counts
                .iter()
                .enumerate()
                .filter(|(_, n)| **n > 0)
                .map(|(size, n)| (size as u32, *n))
                .collect()
        };
        DepthRecord {
            level: sparse(&self.level),
            submit: sparse(&self.submit),
            complete: sparse(&self.complete),
            system_calls,
            in_flight_max: self.level.iter().rposition(|n| *n > 0).unwrap_or(0) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_histogram_reads_as_what_was_recorded() {
        let (live, mut plain) = (LiveHistogram::default(), Histogram::default());
        for (value, n) in [(0, 1), (127, 2), (4096, 3), (u64::MAX / 4, 1)] {
            live.record_n(value, n);
            plain.record_n(value, n);
        }
        assert_eq!(live.snapshot(), plain);
    }
}
