//! What is written, how it is made durable, and what becomes of errors.

use crate::per_dir::PerDir;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Synchronous writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyncIo {
    /// Neither.
    #[default]
    None,
    /// O_DSYNC.
    Dsync,
    /// O_SYNC.
    Sync,
}

/// Flushes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sync {
    /// fsync(2) after this many writes; 0 is never (`fsync`).
    pub fsync_every: u32,
    /// fdatasync(2) after this many writes; 0 is never (`fdatasync`).
    pub fdatasync_every: u32,
    /// fsync(2) at the end of the job (`end_fsync`).
    pub at_end: bool,
    /// fsync(2) when a file is closed (`fsync_on_close`).
    pub on_close: bool,
}

/// What is written, and the memory it is in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Buffers {
    /// Contents.
    pub fill: Fill,
    /// Make the contents anew for every write (`refill_buffers`).
    pub refill: bool,
    /// Leave the contents as they are from write to write (`scramble_buffers=0`); otherwise each
    /// page is changed a little, so that a device that deduplicates gains nothing.
    #[serde(default)]
    pub repeat: bool,
    /// Share of each buffer that compresses away, in percent (`buffer_compress_percentage`); the
    /// rest is random. 0 leaves it to `fill`.
    pub compress_percent: u32,
    /// The memory's kind (`mem`).
    pub memory: Memory,
}

/// Contents of write buffers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// Pseudo-random bytes.
    #[default]
    Random,
    /// Zeroes (`zero_buffers`).
    Zero,
    /// These bytes over and over (`buffer_pattern`).
    Pattern(Vec<u8>),
}

/// The kind of memory that buffers are in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Anonymous pages.
    #[default]
    Normal,
    /// Huge pages of hugetlbfs (`mem=mmaphuge`, `shmhuge`); an error where none are reserved.
    Huge,
}

/// Which errors do not end the job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OnError {
    /// Go on after any error in this direction, counting it (`continue_on_error`).
    pub keep_going: PerDir<bool>,
    /// errno values that are not even counted as the job's failure (`ignore_error`).
    pub ignore: PerDir<Vec<i32>>,
}
