//! The mechanism that all experiments share: conditions measured window by window, alternately, within
//! a time budget. It does no I/O and does not depend on the purpose of an experiment.
//!
//! A [`Probe`](fathom_model::window::Probe) is a window to measure; [`Totals`] are the windows of one condition, added up. A `Series` interleaves conditions, so that drift affects all of them
//! alike and ratios are paired. A [`Schedule`] divides a [`Budget`] of time over the stages of an experiment.
//! The first client is [`crate::limit`]. A [`Trial`] compares conditions, for `fathom try` and `fathom sweep`: it measures
//! them in random order, round after round, and decides what each comparison allows to claim.

mod record;
mod schedule;
mod series;
mod totals;
mod trial;
mod verdict;

pub use record::{curves, report};
pub use schedule::{Budget, Planned, Schedule};
pub use series::{Condition, Rate, Series, per_second};
pub use totals::Totals;
pub use trial::{RUN_DELAY_MIN, Trial, Turn, higher_is_better};
