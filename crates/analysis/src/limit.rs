//! The search for what a target can do on this machine, and the verdict on what limits it.
//!
//! [`Search`] is a state machine that does no I/O: it returns the next window to measure
//! ([`Search::next_probe`]), takes the result ([`Search::observe`], [`Search::refuse`]) and makes a
//! [`LimitReport`] of what it knows at any time ([`Search::finish`]). The same windows always give
//! the same report, so that a stored search can be repeated ([`replay`]).
//!
//! Stages read the state and return events; the search applies them. Modules use only those before
//! them in this order: `config`, `thresholds`, `outcome`; `curve`, `peak`, `held`, `verdict`; `state`; `request`;
//! the stages (`climb`, `confirm`, `counter`, `saturation`, `ladder`, `knee`, `rated`, `combined`, and `stage` over them); `protocol`, `report`;
//! `search`. `record` uses only `outcome` and `config`.
//!
//! `docs/limit.md` describes the method, the terms and the sources.

mod climb;
mod combined;
mod config;
mod confirm;
mod counter;
mod curve;
mod held;
mod knee;
mod ladder;
mod outcome;
mod peak;
mod protocol;
mod rated;
mod record;
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

pub use crate::experiment::{
    CpuShares, CpuTime, Load, LoadMeasure, Measurement, Point, Rw, Setting, WorkerCpu,
};
pub use config::{BlockSpec, Config, QueueFacts, SuiteTest};
pub use outcome::{
    BlockLimit, Cause, Combined, CombinedCause, CombinedTarget, Experiment, ExperimentKind,
    KneePoint, LimitReport, OwnCeiling, Phase, Probe, Problem, RatedPoint, TargetLimit,
    TargetResult, Verdict, Window,
};
pub use rated::LatencyTarget;
pub use record::{Competitor, Conditions, LimitRecord, PeakCost};
pub use search::{Search, replay};
pub use thresholds::KNEE_SHARE;
pub use verdict::{percent, times};

impl LimitRecord {
    /// The record with its findings derived again from everything else in it.
    pub fn judged(mut self) -> Self {
        self.header.findings = crate::rules::limit_findings(&self);
        self
    }
}
