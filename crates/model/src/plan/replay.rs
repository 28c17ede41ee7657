//! I/Os that were recorded, to be issued again (`read_iolog`).

use crate::per_dir::{Dir, PerDir};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The I/Os of a trace, in place of those that a pattern generates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replay {
    /// The file that they were read from.
    pub trace: String,
    /// I/Os of one pass.
    pub ios: PerDir<u64>,
    /// Bytes of one pass.
    pub bytes: PerDir<u64>,
    /// Flushes of one pass.
    pub flushes: u64,
    /// Time from the first to the last event, in nanoseconds, as it is to be replayed.
    pub length_ns: u64,
    /// Whether events are issued at their times, otherwise as soon as the queue has room (`replay_no_stall`).
    pub timed: bool,
    /// How often the trace is replayed (`loops`); `None` until the runtime is over.
    pub passes: Option<u32>,
    /// What is issued, in the order of time. Records do not hold it.
    #[serde(skip)]
    pub events: Arc<Vec<TraceEvent>>,
}

/// An I/O or a flush of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEvent {
    /// Time since the first event, in nanoseconds.
    pub at_ns: u64,
    /// What it does.
    pub op: TraceOp,
    /// Index into the regions of the job.
    pub file: u32,
    /// First byte on the target; 0 for a flush.
    pub offset: u64,
    /// Length in bytes; 0 for a flush.
    pub len: u32,
}

/// What an event of a trace does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceOp {
    /// A read, a write or a trim.
    Io(Dir),
    /// fsync(2), or a flush of the device.
    Fsync,
    /// fdatasync(2).
    Fdatasync,
}
