//! The mechanism that all experiments share: conditions measured window by window, alternately, within
//! a time budget. It does no I/O and does not depend on the purpose of an experiment.
//!
//! A [`Probe`](fathom_model::window::Probe) is a window to measure; [`Totals`] are the windows of one condition, added up. A `Series` interleaves conditions, so that drift affects all of them
//! alike and ratios are paired. A [`Schedule`] divides a [`Budget`] of time over the stages of an experiment.
//! There are two [designs](Design): the [search](crate::limit::Search) of `fathom limit`, and [`Rounds`], which compares conditions, for
//! `fathom try`, `sweep` and `confirm`: it measures them in random order, round after round, and decides what each comparison
//! allows to claim.

mod record;
mod rounds;
mod schedule;
mod series;
mod totals;
mod verdict;

pub use record::{curves, report};
pub use rounds::{RUN_DELAY_MIN, Rounds, Turn, higher_is_better};
pub use schedule::{Budget, Planned, Schedule};
pub use series::{Condition, Rate, Series, per_second};
pub use totals::Totals;

/// Decides which window is measured next, and what the windows so far mean. It does no I/O: `runner` measures the windows, or, in
/// tests, a simulated device whose limits are known. The same windows always lead to the same requests, so that those that
/// were stored can be [replayed](replay).
pub trait Design {
    /// What is to be measured.
    type Asked: PartialEq + for<'a> From<&'a Self::Window>;
    /// That with its result, as it is stored.
    type Window;

    /// The next window; `None` once everything is known or time is up. The same until its result is given.
    fn next(&mut self) -> Option<Self::Asked>;

    /// Takes the result of the window from [`Design::next`].
    fn take(&mut self, window: &Self::Window);

    /// The used part of the time, from 0 to 1.
    fn done(&self) -> f64;
}

/// Takes stored windows as if they were measured now.
///
/// # Errors
/// The index of the first window that `design` does not ask for.
pub fn replay<D: Design>(design: &mut D, windows: &[D::Window]) -> Result<(), usize> {
    for (index, window) in windows.iter().enumerate() {
        if design.next() != Some(window.into()) {
            return Err(index);
        }
        design.take(window);
    }
    Ok(())
}
