//! What all samplers have in common.

use fathom_model::watch::MachineSample;
use std::time::Duration;

/// A sampler: looks once or several times in an interval and tells at its end what it saw.
pub trait Sampler: Send {
    /// Its name, as costs are shown under: `threads`.
    fn name(&self) -> &'static str;

    /// How often it looks within an interval; `None` for one that needs to be asked at the end only.
    fn period(&self) -> Option<Duration> {
        None
    }

    /// Whether a look that comes late is worth less than others. The thread that watches then goes before all
    /// ordinary ones where it may (`SCHED_RR`, priority 1): late looks would leave out the very
    /// moments in which all processors are busy.
    fn is_urgent(&self) -> bool {
        false
    }

    /// Looks once.
    fn look(&mut self) {}

    /// Told that the next sample is the last: what was put off is to be done.
    fn finish(&mut self) {}

    /// Processor time in nanoseconds of threads of its own since this was last asked.
    fn elsewhere_ns(&mut self) -> u64 {
        0
    }

    /// Puts what it saw since the interval began, or its counters as they stand, into its part of
    /// `sample`. What cannot be read is left out: an interval without a figure harms less than no
    /// record.
    fn take(&mut self, sample: &mut MachineSample);
}
