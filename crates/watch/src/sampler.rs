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

    /// Looks once.
    fn look(&mut self) {}

    /// Puts what it saw since the interval began, or its counters as they stand, into its part of
    /// `sample`. What cannot be read is left out: an interval without a figure harms less than no
    /// record.
    fn take(&mut self, sample: &mut MachineSample);
}
