//! Events that are on for a part of the time only, as they cost something with each I/O.

use super::{Event, Of, OnCpus, bindings};
use rustix::io::Errno;
use rustix::time::ClockId;
use std::io;
use std::time::Duration;

/// When events are seen that come with each I/O. Each costs tens of nanoseconds, and much more where
/// several count it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EachIo {
    /// Never.
    Never,
    /// For 50 ms of each 800: what is told by their shares, their times, and rates.
    #[default]
    Partly,
    /// Always, so that their numbers are exact.
    Always,
}

/// Events that begin disabled and lead groups, one on each processor. Their members count while they
/// are on.
#[derive(Debug)]
pub(crate) struct Gate {
    leaders: OnCpus,
    is_on: bool,
}

impl Gate {
    /// A gate that is off.
    ///
    /// # Errors
    /// Where the kernel refuses to open an event.
    pub fn open(cpus: &[u32]) -> io::Result<Self> {
        let mut attr = bindings::perf_event_attr {
            type_: bindings::PERF_TYPE_SOFTWARE,
            config: bindings::PERF_COUNT_SW_DUMMY.into(),
            ..Default::default()
        };
        attr.set_disabled(1);
        by_clock(&mut attr);
        let leader = |cpu: &u32| Event::open(attr, Of::Cpu(*cpu), None);
        let leaders: Result<Vec<Event>, Errno> = cpus.iter().map(leader).collect();
        Ok(Self { leaders: OnCpus::new(leaders?), is_on: false })
    }

    /// Makes a description one of a member.
    pub fn admit(attr: &mut bindings::perf_event_attr) {
        attr.set_disabled(0);
        by_clock(attr);
    }

    /// The events to be led by, in the order of the processors.
    pub fn leaders(&self) -> &[Event] {
        self.leaders.events()
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Switches it.
    pub fn switch(&mut self, on: bool) {
        if on != self.is_on {
            // A processor that went has no events.
            self.leaders().iter().for_each(|event| drop(event.switch(on)));
            self.is_on = on;
        }
    }

    /// For how long it was on so far.
    pub fn on_ns(&self) -> u64 {
        let of = |event: &Event| Some(event.read().ok()?.enabled_ns);
        self.leaders().iter().filter_map(of).max().unwrap_or(0)
    }
}

/// The events of a group have one clock.
fn by_clock(attr: &mut bindings::perf_event_attr) {
    attr.set_use_clockid(1);
    attr.clockid = ClockId::Monotonic as i32;
}

/// Which looks of a sampler begin a time in which its gate is on: one in 16, each round another, so that
/// it keeps step with nothing.
#[derive(Debug, Default)]
pub(crate) struct Turns(u64);

impl Turns {
    /// Between two looks.
    pub const PERIOD: Duration = Duration::from_millis(50);
    const ROUND: u64 = 16;
    /// Has no factor in common with [`Self::ROUND`].
    const STEP: u64 = 7;

    /// Whether the look that is next begins such a time.
    pub fn next(&mut self) -> bool {
        let (round, place) = (self.0 / Self::ROUND, self.0 % Self::ROUND);
        self.0 += 1;
        place == round * Self::STEP % Self::ROUND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_look_of_each_round_has_its_turn_and_all_places_do() {
        let mut turns = Turns::default();
        let rounds: Vec<Vec<bool>> =
            (0..16).map(|_| (0..16).map(|_| turns.next()).collect()).collect();
        let mut places: Vec<usize> = Vec::new();
        for round in &rounds {
            assert_eq!(round.iter().filter(|on| **on).count(), 1);
            places.extend(round.iter().position(|on| *on));
        }
        assert!(rounds[0][0]);
        places.sort_unstable();
        assert!(places.into_iter().eq(0..16));
    }
}
