//! The thread that lets samplers look, each at its time.

use crate::Sampler;
use fathom_model::watch::{MachineSample, SamplerCost};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

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
#[derive(Debug, Clone)]
pub struct Watched {
    /// The instant at which the samplers began to be asked.
    pub at: Instant,
    /// What they saw.
    pub machine: MachineSample,
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
        let body = move || Round::new(samplers, interval).turn(&stop, &sink);
        let thread = thread::Builder::new().name("fathom-watch".into()).spawn(body)?;
        Ok(Self { samples, go_on, thread })
    }

    /// Ends watching; gives the samples that were not taken yet, the last of them of this instant.
    #[must_use]
    pub fn stop(self) -> Vec<Watched> {
        drop(self.go_on);
        // A sampler that panicked has ended its samples.
        let _ = self.thread.join();
        self.samples.try_iter().collect()
    }
}

/// The samplers with their next times.
struct Round {
    seats: Vec<Seat>,
    interval: Duration,
    next_take: Instant,
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
        Self { seats: samplers.into_iter().map(seat).collect(), interval, next_take: now }
    }

    fn turn(mut self, stop: &Receiver<()>, sink: &Sender<Watched>) {
        loop {
            let now = Instant::now();
            self.seats.iter_mut().for_each(|seat| seat.look(now));
            if now >= self.next_take {
                while self.next_take <= now {
                    self.next_take += self.interval;
                }
                if sink.send(self.take()).is_err() {
                    return;
                }
            }
            let looks = self.seats.iter().filter_map(|seat| seat.next_look);
            let next = looks.fold(self.next_take, Instant::min);
            let pause = next.saturating_duration_since(Instant::now());
            if stop.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                // Nobody may be left to see it.
                let _ = sink.send(self.take());
                return;
            }
        }
    }

    fn take(&mut self) -> Watched {
        let at = Instant::now();
        let mut machine = MachineSample::default();
        for seat in &mut self.seats {
            let began = thread_time();
            seat.sampler.take(&mut machine);
            seat.cost.cpu_ns += thread_time() - began;
            seat.cost.looks += u64::from(seat.next_look.is_none());
        }
        machine.cost = self.seats.iter().map(|seat| seat.cost.clone()).collect();
        Watched { at, machine }
    }
}

impl Seat {
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
    use fathom_model::watch::ThreadsSample;

    struct Counting {
        looks: u32,
        period: Option<Duration>,
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
        vec![Box::new(Counting { looks: 0, period: period_ms.map(Duration::from_millis) })]
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
