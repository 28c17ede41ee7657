//! Hints to the kernel about a job's I/Os, and flags of these.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
