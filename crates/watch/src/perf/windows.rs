//! Sampling windows for events that cost something with every I/O.

use super::event::{EventTarget, PerfEvent};
use super::per_cpu::PerCpuEvents;
use perf_event_open_sys::bindings;
use rustix::io::Errno;
use rustix::time::ClockId;
use std::io;
use std::time::Duration;

/// When to enable events that occur with every I/O. Each costs tens of nanoseconds per I/O, more if
/// several events count the same tracepoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TraceCoverage {
    Off,
    /// In windows of 50 ms, one every 800 ms on average: suffices for shares, latencies and rates.
    #[default]
    DutyCycle,
    Full,
}

/// Group leaders, one per CPU, initially disabled. Members of their groups count only while these
/// are enabled.
#[derive(Debug)]
pub(crate) struct GroupLeaders {
    leaders: PerCpuEvents,
    is_enabled: bool,
}

impl GroupLeaders {
    pub fn open(cpus: &[u32]) -> io::Result<Self> {
        let mut attr = bindings::perf_event_attr {
            type_: bindings::PERF_TYPE_SOFTWARE,
            config: bindings::PERF_COUNT_SW_DUMMY.into(),
            ..Default::default()
        };
        attr.set_disabled(1);
        use_monotonic(&mut attr);
        let leader = |cpu: &u32| PerfEvent::open(attr, EventTarget::Cpu(*cpu), None);
        let leaders: Result<Vec<PerfEvent>, Errno> = cpus.iter().map(leader).collect();
        Ok(Self { leaders: PerCpuEvents::new(leaders?), is_enabled: false })
    }

    /// Changes `attr` into that of a group member.
    pub fn make_member(attr: &mut bindings::perf_event_attr) {
        attr.set_disabled(0);
        use_monotonic(attr);
    }

    pub fn events(&self) -> &[PerfEvent] {
        self.leaders.events()
    }

    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    pub fn set_enabled(&mut self, on: bool) {
        if on != self.is_enabled {
            // A CPU that went offline has no events.
            self.events().iter().for_each(|event| drop(event.switch(on)));
            self.is_enabled = on;
        }
    }

    pub fn enabled_ns(&self) -> u64 {
        let of = |event: &PerfEvent| Some(event.read().ok()?.enabled_ns);
        self.events().iter().filter_map(of).max().unwrap_or(0)
    }
}

/// All events of a group must use the same clock.
fn use_monotonic(attr: &mut bindings::perf_event_attr) {
    attr.set_use_clockid(1);
    attr.clockid = ClockId::Monotonic as i32;
}

/// Selects the periods that are sampling windows: one of every 16, at a different position in each
/// round, so that it does not synchronize with periodic activity.
#[derive(Debug, Default)]
pub(crate) struct WindowSchedule(u64);

impl WindowSchedule {
    pub const PERIOD: Duration = Duration::from_millis(50);
    const ROUND: u64 = 16;
    /// Coprime to [`Self::ROUND`].
    const STEP: u64 = 7;

    pub fn next(&mut self) -> bool {
        let (round, position) = (self.0 / Self::ROUND, self.0 % Self::ROUND);
        self.0 += 1;
        position == round * Self::STEP % Self::ROUND
    }
}

/// Records events all of the time while there are few, and otherwise in windows.
#[derive(Debug)]
pub(crate) struct TraceBudget {
    cpus: u64,
    /// Events per second and CPU up to which all of them are recorded.
    rate_max: u64,
    schedule: WindowSchedule,
    is_continuous: bool,
    recorded: bool,
    /// How long nothing is recorded because reading what was took long.
    pause: Duration,
}

impl TraceBudget {
    /// For a machine with `cpus` CPUs; starts with a window.
    pub fn new(cpus: usize, rate_max: u64) -> Self {
        let (cpus, schedule) = (cpus as u64, WindowSchedule::default());
        let pause = Duration::ZERO;
        Self { cpus, rate_max, schedule, is_continuous: false, recorded: false, pause }
    }

    /// `records` were read, of at most `total_max` per second over all CPUs: beyond that, recording pauses.
    pub fn read(&mut self, records: u64, total_max: u64) {
        self.pause += Duration::from_secs_f64(records as f64 / total_max.max(1) as f64);
    }

    /// Whether to record in the next period, after one with this many events in `elapsed`.
    pub fn next(&mut self, events: u64, elapsed: Duration) -> bool {
        if self.recorded {
            let rate = events as f64 / elapsed.as_secs_f64().max(1e-3) / self.cpus.max(1) as f64;
            // Half the limit, so that it does not alternate.
            let most = if self.is_continuous { self.rate_max } else { self.rate_max / 2 };
            self.is_continuous = rate <= most as f64;
        }
        self.pause = self.pause.saturating_sub(elapsed);
        let is_due = self.is_continuous || self.schedule.next();
        self.recorded = is_due && self.pause.is_zero();
        self.recorded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_one_window_and_positions_vary() {
        let mut schedule = WindowSchedule::default();
        let rounds: Vec<Vec<bool>> =
            (0..16).map(|_| (0..16).map(|_| schedule.next()).collect()).collect();
        let mut places: Vec<usize> = Vec::new();
        for round in &rounds {
            assert_eq!(round.iter().filter(|on| **on).count(), 1);
            places.extend(round.iter().position(|on| *on));
        }
        assert!(rounds[0][0]);
        places.sort_unstable();
        assert!(places.into_iter().eq(0..16));
    }

    #[test]
    fn what_is_read_is_bounded_over_all_cpus() {
        // Each of 128 CPUs is below its own limit.
        let recorded = |per_cpu: u64| {
            let mut budget = TraceBudget::new(128, 3_500);
            let (mut periods, mut records) = (0, 0);
            let mut on = budget.next(0, WindowSchedule::PERIOD);
            for _ in 0..2000 {
                let events = if on { per_cpu * 128 / 20 } else { 0 };
                (periods, records) = (periods + u64::from(on), records + events);
                budget.read(events, 40_000);
                on = budget.next(events, WindowSchedule::PERIOD);
            }
            (periods, records / 100)
        };
        assert_eq!(recorded(300).0, 2000);
        let (periods, per_second) = recorded(1250);
        assert!((450..=550).contains(&periods), "{periods}");
        assert!((35_000..=41_000).contains(&per_second), "{per_second}");
        // Windows on busy CPUs, too.
        let (periods, per_second) = recorded(100_000);
        assert!(periods >= 2 && per_second <= 41_000 + 6_400, "{periods} {per_second}");
    }
}
