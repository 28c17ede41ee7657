//! What fio's logs have of a single I/O.

use crate::Dir;

/// An I/O that was submitted or completed, or a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoEntry {
    /// When, in nanoseconds since the start of measurement, or since 1970 (`log_unix_epoch`).
    pub time_ns: u64,
    /// What happened, and how long it took.
    pub event: IoEvent,
    /// Index into the regions of its job.
    pub file: u32,
    /// First byte on the target.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
    /// Its priority, as in ioprio_set(2).
    pub priority: u16,
    /// Direction.
    pub dir: Dir,
}

/// What happened to an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoEvent {
    /// It was submitted.
    Submitted {
        /// Submission latency.
        slat_ns: u64,
    },
    /// It is a flush, of data only or also of metadata.
    Flush {
        /// Whether it is fdatasync(2).
        data_only: bool,
    },
    /// It succeeded.
    Completed {
        /// Completion latency.
        clat_ns: u64,
        /// Total latency.
        lat_ns: u64,
    },
}
