//! The thread that lets samplers look, each at its time.

use crate::{Sampler, priority};
use fathom_model::watch::{MachineSample, SamplerCost};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Samples that nobody takes, as on a disk that stalls, may take so many bytes of memory. From then on
/// intervals are joined: what is to be told of them is counted by the samplers until there is room.
const QUEUE_BYTES_MAX: usize = 16 << 20;

/// A look may come so much later than its time.
const LATE_MAX: Duration = Duration::from_millis(5);

/// A thread in which samplers look, from its start to [`Watcher::stop`].
#[derive(Debug)]
pub struct Watcher {
    /// The end of each interval as it comes; the last comes with [`Watcher::stop`].
    pub samples: Receiver<Watched>,
    /// Dropped to stop.
    go_on: Sender<()>,
    thread: JoinHandle<()>,
}

/// The machine at the end of one interval.
#[derive(Debug)]
pub struct Watched {
    /// The instant at which the samplers began to be asked.
    pub at: Instant,
    /// What they saw.
    pub machine: MachineSample,
    _queued: Queued,
}

/// Bytes of one sample among those of the queue.
#[derive(Debug)]
struct Queued {
    all: Arc<AtomicUsize>,
    own: usize,
}

impl Queued {
    fn add(all: &Arc<AtomicUsize>, own: usize) -> Self {
        all.fetch_add(own, Ordering::Relaxed);
        Self { all: Arc::clone(all), own }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.all.fetch_sub(self.own, Ordering::Relaxed);
    }
}

impl Watcher {
    /// Starts to watch. The first sample, counters as they stand at the beginning, comes at once, then
    /// one comes every `interval`.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn start(samplers: Vec<Box<dyn Sampler>>, interval: Duration) -> io::Result<Self> {
        let (go_on, stop) = mpsc::channel();
        let (sink, samples) = mpsc::channel();
        let is_urgent = samplers.iter().any(|sampler| sampler.is_urgent());
        let body = move || {
            // Refused, it goes on as others do; the sampler tells so.
            if !is_urgent || priority::raise().is_err() {
                priority::defer(LATE_MAX);
            }
            let mut round = Round::new(samplers, interval);
            // The samples end here, before the samplers are closed.
            round.turn(&stop, sink);
        };
        let thread = thread::Builder::new().name("fathom-watch".into()).spawn(body)?;
        Ok(Self { samples, go_on, thread })
    }

    /// Whether watching has ended by itself: a sampler panicked.
    #[must_use]
    pub fn has_broken(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends watching; gives the samples that were not taken yet, the last of them of this instant. The
    /// samplers are closed meanwhile, for which nobody waits: the kernel takes tens of
    /// milliseconds for each tracepoint (`tracepoint_synchronize_unregister`).
    #[must_use]
    pub fn stop(self) -> Vec<Watched> {
        drop(self.go_on);
        // To the end of the samples; one that panicked has ended them.
        self.samples.iter().collect()
    }
}

/// The samplers with their next times.
struct Round {
    seats: Vec<Seat>,
    interval: Duration,
    next_take: Instant,
    /// Intervals that have no sample of their own.
    joined: u64,
    /// Bytes of samples that were made and not used yet.
    queued: Arc<AtomicUsize>,
}

struct Seat {
    sampler: Box<dyn Sampler>,
    next_look: Option<Instant>,
    cost: SamplerCost,
}

impl Round {
    fn new(samplers: Vec<Box<dyn Sampler>>, interval: Duration) -> Self {
        let now = Instant::now();
        let seat = |sampler: Box<dyn Sampler>| Seat {
            next_look: sampler.period().map(|period| now + period),
            cost: SamplerCost { sampler: sampler.name().into(), ..SamplerCost::default() },
            sampler,
        };
        let seats = samplers.into_iter().map(seat).collect();
        Self { seats, interval, next_take: now, joined: 0, queued: Arc::default() }
    }

    fn turn(&mut self, stop: &Receiver<()>, sink: Sender<Watched>) {
        loop {
            self.look();
            let now = Instant::now();
            if self.is_due(now) && sink.send(self.take()).is_err() {
                return;
            }
            let looks = self.seats.iter().filter_map(|seat| seat.next_look);
            let next = looks.fold(self.next_take, Instant::min);
            let pause = next.saturating_duration_since(Instant::now());
            if stop.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                self.seats.iter_mut().for_each(Seat::finish);
                self.look();
                // Nobody may be left to see it.
                let _ = sink.send(self.take());
                return;
            }
        }
    }

    /// Whether a sample is to be made now; intervals that get none are counted.
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

    /// Lets all look whose time has come.
    fn look(&mut self) {
        let now = Instant::now();
        self.seats.iter_mut().for_each(|seat| seat.look(now));
    }

    fn take(&mut self) -> Watched {
        let at = Instant::now();
        let mut machine = MachineSample::default();
        for seat in &mut self.seats {
            let began = thread_time();
            seat.sampler.take(&mut machine);
            seat.cost.cpu_ns += thread_time() - began + seat.sampler.elsewhere_ns();
            seat.cost.looks += u64::from(seat.next_look.is_none());
        }
        machine.cost = self.seats.iter().map(|seat| seat.cost.clone()).collect();
        machine.intervals_joined = self.joined;
        let queued = Queued::add(&self.queued, machine.memory_bytes());
        Watched { at, machine, _queued: queued }
    }
}

impl Seat {
    fn finish(&mut self) {
        let began = thread_time();
        self.sampler.finish();
        self.cost.cpu_ns += thread_time() - began;
    }

    fn look(&mut self, now: Instant) {
        let (Some(period), Some(next)) = (self.sampler.period(), self.next_look) else { return };
        if now < next {
            return;
        }
        let began = thread_time();
        self.sampler.look();
        self.cost.cpu_ns += thread_time() - began;
        self.cost.looks += 1;
        // Looks that are over are left out, so that those to come keep their distance.
        let late = now.saturating_duration_since(next).as_nanos() / period.as_nanos().max(1);
        let late = u32::try_from(late).unwrap_or(u32::MAX - 1);
        self.cost.missed += u64::from(late);
        self.next_look = Some(next + period * (late + 1));
    }
}

/// Processor time of the calling thread in nanoseconds.
pub(crate) fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::{Stack, StacksSample, ThreadsSample};

    struct Counting {
        looks: u32,
        period: Option<Duration>,
        /// Told by nobody until the test lets it close.
        closes: Option<Receiver<()>>,
    }

    impl Drop for Counting {
        fn drop(&mut self) {
            self.closes.iter().for_each(|closes| closes.recv().unwrap());
        }
    }

    impl Sampler for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }
        fn period(&self) -> Option<Duration> {
            self.period
        }
        fn look(&mut self) {
            self.looks += 1;
        }
        fn take(&mut self, sample: &mut MachineSample) {
            sample.threads = Some(ThreadsSample { looks: self.looks, ..ThreadsSample::default() });
        }
    }

    fn counting(period_ms: Option<u64>) -> Vec<Box<dyn Sampler>> {
        let period = period_ms.map(Duration::from_millis);
        vec![Box::new(Counting { looks: 0, period, closes: None })]
    }

    #[test]
    fn nobody_waits_for_samplers_that_are_slow_to_close() {
        let (close, closes) = mpsc::channel();
        let slow = Counting { looks: 0, period: None, closes: Some(closes) };
        let watcher = Watcher::start(vec![Box::new(slow)], Duration::from_secs(3600)).unwrap();
        assert!(!watcher.stop().is_empty());
        close.send(()).unwrap();
    }

    #[test]
    fn the_first_sample_comes_at_once_and_the_last_at_the_end() {
        let watcher = Watcher::start(counting(None), Duration::from_secs(3600)).unwrap();
        let first = watcher.samples.recv_timeout(Duration::from_secs(30)).unwrap();
        let rest = watcher.stop();
        assert_eq!(rest.len(), 1);
        assert!(rest[0].at > first.at);
        assert_eq!(rest[0].machine.cost[0].looks, 2);
    }

    #[test]
    fn looks_come_between_samples() {
        let watcher = Watcher::start(counting(Some(1)), Duration::from_millis(20)).unwrap();
        let look = || watcher.samples.recv_timeout(Duration::from_secs(30)).unwrap().machine;
        let seen: Vec<MachineSample> = (0..5).map(|_| look()).collect();
        let looks: Vec<u32> = seen.iter().map(|m| m.threads.as_ref().unwrap().looks).collect();
        assert!(looks.is_sorted() && looks[4] > looks[0], "{looks:?}");
        let last = watcher.stop().pop().unwrap().machine;
        assert_eq!(last.cost[0].looks, u64::from(last.threads.unwrap().looks));
    }

    /// Sees a megabyte of stacks at each interval.
    struct Heavy(u32);

    impl Sampler for Heavy {
        fn name(&self) -> &'static str {
            "heavy"
        }
        fn take(&mut self, sample: &mut MachineSample) {
            let stack = Stack { kernel: vec!["f".repeat(1 << 20)], user: Vec::new() };
            sample.stacks = Some(StacksSample { new: vec![stack], ..StacksSample::default() });
            sample.threads = Some(ThreadsSample { looks: self.0, ..ThreadsSample::default() });
            self.0 += 1;
        }
    }

    #[test]
    fn a_stall_of_who_takes_samples_joins_intervals_and_loses_nothing() {
        let mut samplers = counting(Some(1));
        samplers.push(Box::new(Heavy(0)));
        let mut round = Round::new(samplers, Duration::from_millis(2));
        let mut now = round.next_take;
        let mut stalled = Vec::new();
        for _ in 0..100 {
            round.seats[0].look(now);
            if round.is_due(now) {
                stalled.push(round.take());
            }
            now += Duration::from_millis(2);
        }
        assert!(round.queued.load(Ordering::Relaxed) < QUEUE_BYTES_MAX + (2 << 20));
        assert_eq!(stalled.len() as u64 + round.joined, 100);
        assert!(round.joined >= 80, "{}", round.joined);
        drop(stalled);
        assert_eq!(round.queued.load(Ordering::Relaxed), 0);
        assert!(round.is_due(now));
        let next = round.take().machine;
        // The samplers were not asked meanwhile, so each of their samples has come.
        assert_eq!(next.intervals_joined + u64::from(next.threads.unwrap().looks), 100);
        assert_eq!(next.cost[0].looks, 99);
    }

    #[test]
    fn a_stalled_reader_does_not_stop_the_looks() {
        let mut samplers = counting(Some(1));
        samplers.push(Box::new(Heavy(0)));
        let watcher = Watcher::start(samplers, Duration::from_millis(1)).unwrap();
        let first = watcher.samples.recv_timeout(Duration::from_secs(30)).unwrap();
        // Held, as by a write that does not return.
        std::thread::sleep(Duration::from_millis(300));
        drop(first);
        let rest = watcher.stop();
        let last = &rest.last().unwrap().machine;
        assert!(rest.len() <= 20, "{}", rest.len());
        assert!(last.intervals_joined > 0 && last.cost[0].looks > 20, "{:?}", last.cost);
    }

    #[test]
    fn looks_that_are_over_are_counted_and_left_out() {
        let now = Instant::now();
        let mut seat = Round::new(counting(Some(10)), Duration::from_secs(1)).seats.remove(0);
        let first = seat.next_look.unwrap();
        seat.look(now);
        assert_eq!(seat.cost.looks, 0);
        seat.look(first + Duration::from_millis(35));
        assert_eq!((seat.cost.looks, seat.cost.missed), (1, 3));
        assert_eq!(seat.next_look.unwrap(), first + Duration::from_millis(40));
    }
}
