//! The search for what a target can do on this machine, and the verdict on what limits it.
//!
//! [`Search`] is a state machine that does no I/O: it returns the next window to measure
//! ([`Search::next_probe`]), takes the result ([`Search::observe`], [`Search::refuse`]) and makes a
//! [`LimitReport`] of what it knows at any time ([`Search::finish`]). The same windows always give
//! the same report, so that a stored search can be repeated ([`replay`]).
//!
//! Stages read the state and return events; the search applies them. Modules use only those before
//! them in this order: `thresholds`; `curve`, `peak`, `held`, `verdict`; `state`; `request`;
//! the stages (`climb`, `confirm`, `counter`, `saturation`, `ladder`, `knee`, `rated`, `combined`, and `stage` over them); `protocol`, `report`;
//! `search`.
//!
//! `docs/limit.md` describes the method, the terms and the sources.

mod climb;
mod combined;
mod confirm;
mod counter;
mod curve;
mod held;
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
mod thresholds;
mod verdict;

#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;

pub use search::{Search, replay};
pub use thresholds::KNEE_SHARE;
pub use verdict::{percent, times};
