//! The search for what a target can do on this machine, and the verdict on what stopped it.
//!
//! [`Search`] is a state machine that does no I/O: it says which window to measure next
//! ([`Search::next_probe`]), is told what came of it ([`Search::observe`], [`Search::refuse`]) and
//! makes a [`LimitReport`] of what it knows at any time ([`Search::finish`]). The same windows
//! always give the same report, so that a stored search can be redone ([`replay`]).
//!
//! `docs/limit.md` describes the method, the terms and the sources.

mod book;
mod climb;
mod counter;
mod curve;
mod knee;
mod outcome;
mod probe;
mod record;
mod search;
mod stage;
mod together;
mod verdict;
mod warnings;

#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;

pub use outcome::{
    BlockLimit, Cause, Experiment, ExperimentKind, KneePoint, LimitReport, OwnCeiling, Point,
    Problem, TargetLimit, Together, TogetherCause, TogetherTarget, Verdict,
};
pub use probe::{
    CpuShares, CpuTime, Load, LoadMeasure, Measurement, Phase, Probe, Setting, WorkerCpu,
};
pub use record::{Conditions, LimitRecord, PeakCost};
pub use search::{Search, Window, replay};
pub use verdict::{percent, times};
pub use warnings::findings;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The block sizes that are searched, in bytes: small for I/Os per second, large for bandwidth.
pub const BLOCKS: [u64; 2] = [4096, 1 << 20];
/// The deepest queue of one worker that is searched, for each of [`BLOCKS`]. A counter-experiment
/// goes to twice as much.
pub const DEPTHS_MAX: [u32; 2] = [1024, 64];
/// The knee is where this share of the peak is reached.
pub const KNEE_SHARE: f64 = 0.95;

/// What a search may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Config {
    /// Names of the targets, as the report calls them.
    pub targets: Vec<String>,
    /// Time for everything, in seconds.
    pub seconds: f64,
    /// Processors that the workers may run on; at least 1.
    pub cores: u32,
    /// The most memory that the I/Os in flight may take together, in bytes.
    pub buffers_bytes_max: u64,
}

impl Config {
    /// The time that a search takes unless told otherwise, in seconds: about a minute, or 15 s for a
    /// quick one; more where targets are so many that each would get too little.
    #[must_use]
    pub fn default_seconds(targets: usize, quick: bool) -> f64 {
        let (base, free, each) = if quick { (15.0, 1, 8.0) } else { (60.0, 4, 12.0) };
        base + each * targets.saturating_sub(free) as f64
    }
}
