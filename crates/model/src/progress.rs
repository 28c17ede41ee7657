//! How a run stands: what the live view reads while workers work.

use crate::histogram::Histogram;
use crate::per_dir::PerDir;
use crate::watch::MachineSample;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A look at all workers at one instant. Counters only grow; the reader makes differences.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// Time since the run began, in nanoseconds.
    pub elapsed_ns: u64,
    /// One entry for each job of the plan, in its order.
    pub jobs: Vec<JobProgress>,
}

/// How one worker stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobProgress {
    /// What it is doing.
    pub phase: Phase,
    /// Counters since its measured time began.
    pub dirs: PerDir<Counts>,
    /// I/Os in flight now.
    pub in_flight: u32,
    /// Completion latencies since its measured time began.
    pub clat: PerDir<Histogram>,
    /// Share of the job that is done, from 0 to 1, by its own measure of when it ends.
    pub done: f64,
}

/// What a worker is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Not started: waits for its wave, its delay or the others.
    #[default]
    Waiting,
    /// Works, not yet measured.
    Ramp,
    /// Works and is measured.
    Running,
    /// Done: flushes and collects.
    Finishing,
    /// Ended.
    Done,
}

/// What was done in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// I/Os that moved all their bytes.
    pub ios: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// I/Os that moved only a part of their bytes; not in `ios`.
    pub short_ios: u64,
    /// I/Os that failed; not in `ios`.
    pub errors: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.short_ios += other.short_ios;
        self.errors += other.errors;
    }
}

/// One line of `samples.ndjson`: what happened since the line before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Time since the run began, in nanoseconds.
    pub elapsed_ns: u64,
    /// Wall-clock time, in nanoseconds since 1970 (UTC).
    pub unix_ns: u64,
    /// One entry for each job of the plan, in its order.
    pub jobs: Vec<JobSample>,
    /// The machine, where it was watched.
    #[serde(default)]
    pub machine: MachineSample,
}

/// One job's part of a [`Sample`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobSample {
    /// What it is doing.
    pub phase: Phase,
    /// Counters since the job's measured time began: raw and growing; rates are derived.
    pub dirs: PerDir<Counts>,
    /// I/Os in flight at this instant.
    pub in_flight: u32,
    /// Completion latencies of this interval only; mergeable.
    pub clat: PerDir<Histogram>,
}
