//! Events of each I/O that are seen for a part of the time.

use super::times::Times;
use super::trace::What;
use crate::perf::{Gate, Turns};
use std::io;

/// How many looks after its window a request's end is waited for: a second.
const WAITS: u32 = 20;

/// Switches events on for a while and off again. Those that end a request stay on until each that was
/// seen to begin has ended, so that slow ones are timed as well as fast ones.
#[derive(Debug)]
pub(super) struct Windows {
    begins: Gate,
    ends: Gate,
    turns: Turns,
    /// Looks since the last window.
    waited: u32,
}

impl Windows {
    /// Windows of which none has begun.
    ///
    /// # Errors
    /// Where the kernel refuses to open an event.
    pub fn open(cpus: &[u32]) -> io::Result<Self> {
        let (begins, ends) = (Gate::open(cpus)?, Gate::open(cpus)?);
        Ok(Self { begins, ends, turns: Turns::default(), waited: 0 })
    }

    /// What switches an event; nothing where it is always on.
    pub fn gate(&self, what: What) -> Option<&Gate> {
        match what {
            What::Unplug | What::Split => None,
            What::Enter | What::Issue | What::TimedEnter => Some(&self.begins),
            What::TimedIssue | What::TimedDone | What::TimedBioDone => Some(&self.ends),
        }
    }

    /// Goes on by a look, at which all that was recorded has been read.
    pub fn turn(&mut self, times: &mut Times) {
        if self.turns.next() {
            self.waited = 0;
            self.ends.switch(true);
            self.begins.switch(true);
            return;
        }
        self.begins.switch(false);
        self.waited += 1;
        // What is under way at the first look after a window may have begun since it was read.
        if self.ends.is_on() && self.waited > 1 && (self.waited > WAITS || !times.is_under_way()) {
            self.ends.switch(false);
            times.forget_all();
        }
    }

    /// Nanoseconds for which I/Os were seen to begin.
    pub fn on_ns(&self) -> u64 {
        self.begins.on_ns()
    }
}
