//! Sampling windows for events that occur with every I/O.

use super::events::EventKind;
use super::times::RequestTimes;
use crate::perf::{GroupLeaders, WindowSchedule};
use std::io;

/// Periods for which a window stays open for completions: one second.
const COMPLETION_PERIODS_MAX: u32 = 20;

/// Enables events for a while. Completion events stay enabled until all requests submitted during
/// the window have completed, so that slow requests are timed as well as fast ones.
#[derive(Debug)]
pub(super) struct SamplingWindows {
    begins: GroupLeaders,
    ends: GroupLeaders,
    schedule: WindowSchedule,
    waited: u32,
}

impl SamplingWindows {
    pub fn open(cpus: &[u32]) -> io::Result<Self> {
        let (begins, ends) = (GroupLeaders::open(cpus)?, GroupLeaders::open(cpus)?);
        Ok(Self { begins, ends, schedule: WindowSchedule::default(), waited: 0 })
    }

    pub fn leaders(&self, what: EventKind) -> Option<&GroupLeaders> {
        match what {
            EventKind::Split => None,
            EventKind::Unplug | EventKind::Enter | EventKind::Issue | EventKind::TimedEnter => {
                Some(&self.begins)
            }
            EventKind::TimedIssue | EventKind::TimedDone | EventKind::TimedBioDone => {
                Some(&self.ends)
            }
        }
    }

    /// Called once per period, after all records have been read.
    pub fn advance(&mut self, times: &mut RequestTimes) {
        if self.schedule.next() {
            self.waited = 0;
            self.ends.set_enabled(true);
            self.begins.set_enabled(true);
            return;
        }
        self.begins.set_enabled(false);
        self.waited += 1;
        // At the first call after a window, requests may still have started since the records were
        // read.
        if self.ends.is_enabled()
            && self.waited > 1
            && (self.waited > COMPLETION_PERIODS_MAX || !times.is_in_flight())
        {
            self.ends.set_enabled(false);
            times.forget_all();
        }
    }

    pub fn enabled_ns(&self) -> u64 {
        self.begins.enabled_ns()
    }
}
