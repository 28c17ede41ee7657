//! The search for what a target can do on this machine. What limits it is for [`crate::rules`] to say.
//!
//! [`Search`] is a state machine that does no I/O: it returns the next window to measure
//! ([`Search::next_probe`]), takes the result ([`Search::observe`], [`Search::refuse`]) and makes a
//! report of what it knows at any time ([`Search::finish`]). The same windows always give
//! the same report, so that a stored search can be repeated ([`replay`]).
//!
//! Stages read the state and return events; the search applies them. Modules use only those before
//! them in this order: `thresholds`; `curve`, `peak`; `state`; `request`;
//! the stages (`climb`, `confirm`, `counter`, `saturation`, `ladder`, `knee`, `rated`, `combined`, and `stage` over them); `protocol`, `report`;
//! `search`.
//!
//! `docs/limit.md` describes the method, the terms and the sources.

mod climb;
mod combined;
mod confirm;
mod counter;
mod curve;
mod knee;
mod ladder;
mod peak;
mod protocol;
mod rated;
mod report;
mod request;
mod saturation;
mod search;
mod stage;
mod state;
pub(crate) mod thresholds;

#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;

use fathom_model::window::Ratio;
pub use search::{Search, replay};
pub use thresholds::KNEE_SHARE;

/// A share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// A ratio with its interval.
pub(crate) fn times(ratio: &Ratio) -> String {
    format!("{:.2}× (95% CI {:.2}–{:.2})", ratio.value, ratio.low, ratio.high)
}
