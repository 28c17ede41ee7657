//! The interface of all samplers.

use fathom_model::watch::MachineSample;
use std::time::Duration;

/// Samples once or several times per interval and reports at its end.
pub trait Sampler: Send {
    /// Name under which its overhead is reported, such as `threads`.
    fn name(&self) -> &'static str;

    /// Sampling period within an interval; `None` if [`Sampler::take`] alone suffices.
    fn period(&self) -> Option<Duration> {
        None
    }

    /// Whether late samples are biased. The sampling thread then runs at real-time priority if
    /// permitted (`SCHED_RR`, priority 1): otherwise samples would be missing precisely while all
    /// CPUs are busy.
    fn is_urgent(&self) -> bool {
        false
    }

    fn sample(&mut self) {}

    /// Called before the final [`Sampler::take`]; finishes any deferred work.
    fn finish(&mut self) {}

    /// CPU time of helper threads since the last call, in nanoseconds.
    fn helper_cpu_ns(&mut self) -> u64 {
        0
    }

    /// Stores the interval's data, or the current counters, in its part of `sample`. Unreadable
    /// data is omitted: a missing figure is better than no record.
    fn take(&mut self, sample: &mut MachineSample);
}
