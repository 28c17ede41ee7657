//! Current state of a run, for the live view.

use crate::histogram::Histogram;
use crate::per_dir::PerDir;
use crate::watch::MachineSample;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Snapshot of all workers. Counters are monotonic; rates are differences of two snapshots.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// Time since the start of the run, in nanoseconds.
    pub elapsed_ns: u64,
    /// One entry per job of the plan, in its order.
    pub jobs: Vec<JobProgress>,
}

/// State of one worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobProgress {
    /// Current phase.
    pub phase: Phase,
    /// Counters since the start of its measured time.
    pub dirs: PerDir<Counts>,
    /// I/Os in flight.
    pub in_flight: u32,
    /// Completion latencies since the start of its measured time.
    pub clat: PerDir<Histogram>,
    /// Fraction of the job that is done, from 0 to 1, by its own termination condition.
    pub done: f64,
}

/// Totals of one worker since the start of its measured time, with all latencies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobTotals {
    /// Current phase.
    pub phase: Phase,
    /// Time measured so far, in nanoseconds.
    pub measured_ns: u64,
    /// I/Os.
    pub counts: PerDir<Counts>,
    /// Submission latencies.
    pub slat: PerDir<Histogram>,
    /// Completion latencies.
    pub clat: PerDir<Histogram>,
    /// Total latencies.
    pub lat: PerDir<Histogram>,
}

/// Phase of a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Not started: waiting for `stonewall`, its start delay or other jobs.
    #[default]
    Waiting,
    /// Running, not yet measured.
    Ramp,
    /// Running and measured.
    Running,
    /// Reading back what was written.
    Verifying,
    /// I/O done: flushing and collecting results.
    Finishing,
    /// Finished.
    Done,
}

/// I/O totals of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// I/Os that transferred all their bytes.
    pub ios: u64,
    /// Bytes of those I/Os.
    pub bytes: u64,
    /// Short I/Os, which transferred only a part of their bytes; not in `ios`.
    pub short_ios: u64,
    /// Failed I/Os; not in `ios`.
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

/// Jobs of a sample whose latencies are read from a record: three histograms each.
pub const JOBS_SAMPLED_MAX: usize = 1024;

/// A line of `samples.ndjson`: the interval since the previous line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Time since the start of the run, in nanoseconds.
    pub elapsed_ns: u64,
    /// Wall-clock time, in nanoseconds since 1970 (UTC).
    pub unix_ns: u64,
    /// One entry per job of the plan, in its order.
    pub jobs: Vec<JobSample>,
    /// The machine, if it was sampled.
    #[serde(default)]
    pub machine: MachineSample,
}

/// One job's part of a [`Sample`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobSample {
    /// Current phase.
    pub phase: Phase,
    /// Counters since the start of the job's measured time: raw and monotonic.
    pub dirs: PerDir<Counts>,
    /// I/Os in flight.
    pub in_flight: u32,
    /// Completion latencies of this interval; mergeable.
    pub clat: PerDir<Histogram>,
}
