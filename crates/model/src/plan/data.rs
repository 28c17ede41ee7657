//! Buffer contents, flushes, and handling of errors.

use crate::per_dir::PerDir;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Synchronous writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyncIo {
    /// Neither O_SYNC nor O_DSYNC.
    #[default]
    None,
    /// O_DSYNC.
    Dsync,
    /// O_SYNC.
    Sync,
}

/// When a job flushes its writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlushPlan {
    /// fsync(2) after every N writes; 0 for never (`fsync`).
    pub fsync_every: u32,
    /// fdatasync(2) after every N writes; 0 for never (`fdatasync`).
    pub fdatasync_every: u32,
    /// fsync(2) at the end of the job (`end_fsync`).
    pub at_end: bool,
    /// fsync(2) when a file is closed (`fsync_on_close`).
    pub on_close: bool,
    /// sync_file_range(2) after some writes (`sync_file_range`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<RangeSync>,
}

/// sync_file_range(2) of what was written since the last one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RangeSync {
    /// After how many writes, at least 1.
    pub every: u32,
    /// The call's flags, as in linux/fs.h.
    pub flags: u32,
}

/// Contents and memory of the buffers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Buffers {
    /// Contents.
    pub fill: Fill,
    /// Refill the buffer for every write (`refill_buffers`).
    pub refill: bool,
    /// Write identical contents every time (`scramble_buffers=0`); otherwise each page is changed
    /// slightly, to defeat deduplication.
    #[serde(default)]
    pub repeat: bool,
    /// Percentage by which each buffer can be compressed (`buffer_compress_percentage`); the rest is
    /// random. 0 leaves the contents to `fill`.
    pub compress_percent: u32,
    /// Bytes of which that percentage is compressible (`buffer_compress_chunk`); 0 for a page.
    #[serde(default)]
    pub compress_chunk: u32,
    /// Duplicates among the buffers written (`dedupe_percentage`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe: Option<Dedupe>,
    /// Type of memory (`mem`).
    pub memory: Memory,
}

/// Duplicates among the buffers written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dedupe {
    /// Percentage of buffers that repeat another one.
    pub percent: u32,
    /// Length of the repeated pattern in bytes: the smallest block size of writes.
    pub unit_bytes: u64,
    /// Number of buffers among which repeated ones are chosen (`dedupe_mode=working_set`); otherwise the previous
    /// unique one is repeated.
    pub working_set: Option<u64>,
    /// Whether all jobs have the same working set (`dedupe_global`).
    pub global: bool,
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
    /// A repeating pattern (`buffer_pattern`).
    Pattern(Vec<u8>),
}

/// Type of buffer memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Anonymous memory in normal pages.
    #[default]
    Normal,
    /// hugetlb pages (`mem=mmaphuge`, `shmhuge`); an error if none are reserved.
    Huge,
}

/// Errors that do not end the job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OnError {
    /// Count errors in this direction and continue (`continue_on_error`).
    pub keep_going: PerDir<bool>,
    /// errno values that do not count as failures of the job (`ignore_error`).
    pub ignore: PerDir<Vec<i32>>,
}

impl OnError {
    /// Whether the job continues after any errors.
    pub fn tolerates(&self) -> bool {
        let ignores = self.ignore.iter().any(|(_, errnos)| !errnos.is_empty());
        ignores || self.keep_going.iter().any(|(_, on)| *on)
    }
}

/// Hint to the kernel about the access pattern, by posix_fadvise(2) (`fadvise_hint`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// Nothing, which leaves the read-ahead at its default.
    #[default]
    None,
    /// POSIX_FADV_SEQUENTIAL: doubles the read-ahead.
    Sequential,
    /// POSIX_FADV_RANDOM: no read-ahead.
    Random,
    /// POSIX_FADV_NOREUSE.
    NoReuse,
}

/// Expected lifetime of the data written, for the whole file or device (`write_hint`; F_SET_RW_HINT).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteLife {
    /// No hint, also where one was set before.
    None,
    /// Short.
    Short,
    /// Medium.
    Medium,
    /// Long.
    Long,
    /// Extreme.
    Extreme,
}

/// Flags of each I/O, as in preadv2(2) and pwritev2(2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IoFlags {
    /// RWF_ATOMIC on writes (`atomic`).
    pub atomic: bool,
    /// RWF_DONTCACHE: drop the pages from the page cache afterwards (`uncached`).
    pub uncached: bool,
}

impl IoFlags {
    /// Whether any is set.
    pub fn any(self) -> bool {
        self.atomic || self.uncached
    }
}

/// The priority of a percentage of the I/Os of one direction (`cmdprio_percentage`, `cmdprio_bssplit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandPriority {
    /// Of I/Os of this many bytes; `None` for all.
    pub block: Option<u64>,
    /// Percentage of these I/Os.
    pub percent: u32,
    /// Class, level and hint, as ioprio_set(2) combines them.
    pub value: u16,
}

/// From which NUMA nodes a worker allocates memory (`numa_mem_policy`; set_mempolicy(2)).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryPolicy {
    /// From the node of the CPU that it runs on.
    #[default]
    Default,
    /// The same, whatever policy the process inherited.
    Local,
    /// From this node, while it has memory.
    Prefer(u32),
    /// From these nodes only.
    Bind(Vec<u32>),
    /// From these nodes round-robin, page by page.
    Interleave(Vec<u32>),
}
