//! The sampling thread.

use crate::{Sampler, priority};
use fathom_model::watch::{MachineSample, SamplerCost};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Limit on the memory of samples that are not consumed, for example because the disk stalls, in
/// bytes. Beyond it intervals are merged: the samplers keep accumulating until there is room.
const QUEUE_BYTES_MAX: usize = 16 << 20;

const LATE_MAX: Duration = Duration::from_millis(5);

/// A thread that runs samplers until [`Watcher::stop`].
#[derive(Debug)]
pub struct Watcher {
    /// One sample per interval; [`Watcher::stop`] returns the rest.
    pub samples: Receiver<TimedSample>,
    stop_sender: Sender<()>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
pub struct TimedSample {
    pub at: Instant,
    pub machine: MachineSample,
    _queued: QueuedBytes,
}

#[derive(Debug)]
struct QueuedBytes {
    all: Arc<AtomicUsize>,
    own: usize,
}

impl QueuedBytes {
    fn add(all: &Arc<AtomicUsize>, own: usize) -> Self {
        all.fetch_add(own, Ordering::Relaxed);
        Self { all: Arc::clone(all), own }
    }
}

impl Drop for QueuedBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.own, Ordering::Relaxed);
    }
}

impl Watcher {
    /// Starts sampling. The first sample, with the initial counters, is taken immediately, then one
    /// every `interval`.
    pub fn start(samplers: Vec<Box<dyn Sampler>>, interval: Duration) -> io::Result<Self> {
        let (stop_sender, stop) = mpsc::channel();
        let (sink, samples) = mpsc::channel();
        let is_urgent = samplers.iter().any(|sampler| sampler.is_urgent());
        let body = move || {
            // If refused, normal priority is used; the sampler reports it.
            if !is_urgent || priority::raise().is_err() {
                priority::defer(LATE_MAX);
            }
            let mut sample_loop = SampleLoop::new(samplers, interval);
            // Closes the channel before the samplers.
            sample_loop.run(&stop, sink);
        };
        let thread = thread::Builder::new().name("fathom-watch".into()).spawn(body)?;
        Ok(Self { samples, stop_sender, thread })
    }

    pub fn has_panicked(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops sampling; returns the samples not consumed yet, the last of which is taken now. Does
    /// not wait until the samplers are closed: the kernel takes tens of milliseconds per tracepoint
    /// (`tracepoint_synchronize_unregister`).
    pub fn stop(self) -> Vec<TimedSample> {
        drop(self.stop_sender);
        // Ends when the thread drops its sender, also by a panic.
        self.samples.iter().collect()
    }
}

struct SampleLoop {
    samplers: Vec<Scheduled>,
    interval: Duration,
    next_take: Instant,
    /// Intervals without a sample of their own.
    joined: u64,
    queued: Arc<AtomicUsize>,
}

struct Scheduled {
    sampler: Box<dyn Sampler>,
    next_sample: Option<Instant>,
    cost: SamplerCost,
}

impl SampleLoop {
    fn new(samplers: Vec<Box<dyn Sampler>>, interval: Duration) -> Self {
        let now = Instant::now();
        let sampler = |sampler: Box<dyn Sampler>| Scheduled {
            // Before the first sample, so that earlier events are not part of the first interval.
            next_sample: sampler.period().map(|_| now),
            cost: SamplerCost { sampler: sampler.name().into(), ..SamplerCost::default() },
            sampler,
        };
        let samplers = samplers.into_iter().map(sampler).collect();
        Self { samplers, interval, next_take: now, joined: 0, queued: Arc::default() }
    }

    fn run(&mut self, stop: &Receiver<()>, sink: Sender<TimedSample>) {
        loop {
            self.sample_due();
            let now = Instant::now();
            if self.is_due(now) && sink.send(self.take()).is_err() {
                return;
            }
            let due = self.samplers.iter().filter_map(|sampler| sampler.next_sample);
            let next = due.fold(self.next_take, Instant::min);
            let pause = next.saturating_duration_since(Instant::now());
            if stop.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                self.samplers.iter_mut().for_each(Scheduled::finish);
                self.sample_due();
                // The receiver may be gone.
                let _ = sink.send(self.take());
                return;
            }
        }
    }

    /// Whether to take a sample now; otherwise the interval is merged with the next one.
    fn is_due(&mut self, now: Instant) -> bool {
        let mut over = 0;
        while self.next_take <= now {
            self.next_take += self.interval;
            over += 1;
        }
        let due = over > 0 && self.queued.load(Ordering::Relaxed) < QUEUE_BYTES_MAX;
        self.joined += over - u64::from(due);
        due
    }

    fn sample_due(&mut self) {
        let now = Instant::now();
        self.samplers.iter_mut().for_each(|sampler| sampler.sample_if_due(now));
    }

    fn take(&mut self) -> TimedSample {
        let at = Instant::now();
        let mut machine = MachineSample::default();
        for sampler in &mut self.samplers {
            let began = thread_time();
            sampler.sampler.take(&mut machine);
            sampler.cost.cpu_ns += thread_time() - began + sampler.sampler.helper_cpu_ns();
            sampler.cost.samples += u64::from(sampler.next_sample.is_none());
        }
        machine.cost = self.samplers.iter().map(|sampler| sampler.cost.clone()).collect();
        machine.intervals_merged = self.joined;
        let queued = QueuedBytes::add(&self.queued, machine.memory_bytes());
        TimedSample { at, machine, _queued: queued }
    }
}

impl Scheduled {
    fn finish(&mut self) {
        let began = thread_time();
        self.sampler.finish();
        self.cost.cpu_ns += thread_time() - began;
    }

    fn sample_if_due(&mut self, now: Instant) {
        let (Some(period), Some(next)) = (self.sampler.period(), self.next_sample) else { return };
        if now < next {
            return;
        }
        let began = thread_time();
        self.sampler.sample();
        self.cost.cpu_ns += thread_time() - began;
        self.cost.samples += 1;
        // Missed samples are skipped, so that the following ones keep their distance.
        let late = now.saturating_duration_since(next).as_nanos() / period.as_nanos().max(1);
        let late = u32::try_from(late).unwrap_or(u32::MAX - 1);
        self.cost.missed += u64::from(late);
        self.next_sample = Some(next + period * (late + 1));
    }
}

pub(crate) fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::{Stack, StacksSample, ThreadsSample};

    struct Counting {
        samples: u32,
        period: Option<Duration>,
        /// Dropping blocks until the test sends a value.
        may_close: Option<Receiver<()>>,
    }

    impl Drop for Counting {
        fn drop(&mut self) {
            self.may_close.iter().for_each(|may_close| may_close.recv().unwrap());
        }
    }

    impl Sampler for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }
        fn period(&self) -> Option<Duration> {
            self.period
        }
        fn sample(&mut self) {
            self.samples += 1;
        }
        fn take(&mut self, sample: &mut MachineSample) {
            sample.threads =
                Some(ThreadsSample { samples: self.samples, ..ThreadsSample::default() });
        }
    }

    fn counting(period_ms: Option<u64>) -> Vec<Box<dyn Sampler>> {
        let period = period_ms.map(Duration::from_millis);
        vec![Box::new(Counting { samples: 0, period, may_close: None })]
    }

    #[test]
    fn stop_does_not_wait_for_samplers_to_close() {
        let (close, may_close) = mpsc::channel();
        let slow = Counting { samples: 0, period: None, may_close: Some(may_close) };
        let watcher = Watcher::start(vec![Box::new(slow)], Duration::from_secs(3600)).unwrap();
        assert!(!watcher.stop().is_empty());
        close.send(()).unwrap();
    }

    #[test]
    fn the_first_sample_is_immediate_and_the_last_is_taken_at_stop() {
        let watcher = Watcher::start(counting(None), Duration::from_secs(3600)).unwrap();
        let first = watcher.samples.recv_timeout(Duration::from_secs(30)).unwrap();
        let rest = watcher.stop();
        assert_eq!(rest.len(), 1);
        assert!(rest[0].at > first.at);
        assert_eq!(rest[0].machine.cost[0].samples, 2);
    }

    #[test]
    fn samplers_run_between_intervals() {
        let watcher = Watcher::start(counting(Some(1)), Duration::from_millis(20)).unwrap();
        let next = || watcher.samples.recv_timeout(Duration::from_secs(30)).unwrap().machine;
        let samples: Vec<MachineSample> = (0..5).map(|_| next()).collect();
        let samples: Vec<u32> =
            samples.iter().map(|m| m.threads.as_ref().unwrap().samples).collect();
        assert!(samples.is_sorted() && samples[4] > samples[0], "{samples:?}");
        let last = watcher.stop().pop().unwrap().machine;
        assert_eq!(last.cost[0].samples, u64::from(last.threads.unwrap().samples));
    }

    /// Reports a megabyte of stacks per interval.
    struct Heavy(u32);

    impl Sampler for Heavy {
        fn name(&self) -> &'static str {
            "heavy"
        }
        fn take(&mut self, sample: &mut MachineSample) {
            let stack = Stack { kernel: vec!["f".repeat(1 << 20)], user: Vec::new() };
            sample.stacks = Some(StacksSample { new: vec![stack], ..StacksSample::default() });
            sample.threads = Some(ThreadsSample { samples: self.0, ..ThreadsSample::default() });
            self.0 += 1;
        }
    }

    #[test]
    fn a_stalled_consumer_merges_intervals_without_loss() {
        let mut samplers = counting(Some(1));
        samplers.push(Box::new(Heavy(0)));
        let mut sample_loop = SampleLoop::new(samplers, Duration::from_millis(2));
        let mut now = sample_loop.next_take;
        let mut stalled = Vec::new();
        for _ in 0..100 {
            sample_loop.samplers[0].sample_if_due(now);
            if sample_loop.is_due(now) {
                stalled.push(sample_loop.take());
            }
            now += Duration::from_millis(2);
        }
        assert!(sample_loop.queued.load(Ordering::Relaxed) < QUEUE_BYTES_MAX + (2 << 20));
        assert_eq!(stalled.len() as u64 + sample_loop.joined, 100);
        assert!(sample_loop.joined >= 80, "{}", sample_loop.joined);
        drop(stalled);
        assert_eq!(sample_loop.queued.load(Ordering::Relaxed), 0);
        assert!(sample_loop.is_due(now));
        let next = sample_loop.take().machine;
        // The samplers were not called meanwhile, so their data is complete.
        assert_eq!(next.intervals_merged + u64::from(next.threads.unwrap().samples), 100);
        assert_eq!(next.cost[0].samples, 100);
    }

    #[test]
    fn a_stalled_consumer_does_not_stop_sampling() {
        let mut samplers = counting(Some(1));
        samplers.push(Box::new(Heavy(0)));
        let watcher = Watcher::start(samplers, Duration::from_millis(1)).unwrap();
        let first = watcher.samples.recv_timeout(Duration::from_secs(30)).unwrap();
        // As if a write stalled until the queue is full.
        let queued = Arc::clone(&first._queued.all);
        while queued.load(Ordering::Relaxed) < QUEUE_BYTES_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(first);
        let rest = watcher.stop();
        let last = &rest.last().unwrap().machine;
        assert!(rest.len() <= 20, "{}", rest.len());
        assert!(last.cost[0].samples >= 16, "{:?}", last.cost);
    }

    #[test]
    fn missed_samples_are_counted_and_skipped() {
        let now = Instant::now();
        let mut sampler =
            SampleLoop::new(counting(Some(10)), Duration::from_secs(1)).samplers.remove(0);
        let first = sampler.next_sample.unwrap();
        sampler.sample_if_due(now);
        assert_eq!(sampler.cost.samples, 0);
        sampler.sample_if_due(first + Duration::from_millis(35));
        assert_eq!((sampler.cost.samples, sampler.cost.missed), (1, 3));
        assert_eq!(sampler.next_sample.unwrap(), first + Duration::from_millis(40));
    }
}
