//! Rates, placement, priorities, duplicates and logs of a job.

use fathom_model::PerDir;
use fathom_model::plan::{MemoryPolicy, RateFloor, RateProcess};

/// Priorities of single I/Os (`cmdprio_*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrioritySpec {
    /// `cmdprio_percentage`.
    pub percent: PerDir<u32>,
    /// `cmdprio_class`.
    pub class: PerDir<u16>,
    /// `cmdprio`.
    pub level: PerDir<u16>,
    /// `cmdprio_hint`.
    pub hint: PerDir<u16>,
    /// `cmdprio_bssplit`.
    pub split: PerDir<Vec<PriorityShare>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityShare {
    pub block: u64,
    pub percent: u32,
    /// Class, level and hint; `None` for those of the job.
    pub own: Option<[u16; 3]>,
}

/// Duplicates among buffers (`dedupe_*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DedupeSpec {
    /// `dedupe_percentage`.
    pub percent: u32,
    /// `dedupe_mode=working_set`.
    pub from_set: bool,
    /// `dedupe_working_set_percentage`.
    pub set_percent: u32,
    /// `dedupe_global`.
    pub global: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct RateSpec {
    /// `rate`, in bytes per second.
    pub bytes: PerDir<Option<u64>>,
    /// `rate_iops`.
    pub iops: PerDir<Option<u64>>,
    /// `rate_process`.
    pub process: RateProcess,
    /// `rate_min`, `rate_iops_min` and `rate_cycle`.
    pub floor: RateFloor,
    /// `flow`, the job's weight; 0 for none.
    pub flow: u32,
    pub flow_id: u32,
    /// `flow_sleep`, in nanoseconds.
    pub flow_sleep_ns: u64,
    /// `thinktime`, in nanoseconds.
    pub think_ns: u64,
    /// `thinktime_spin`, in nanoseconds.
    pub think_spin_ns: u64,
    /// `thinktime_blocks`.
    pub think_blocks: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacementSpec {
    /// `cpus_allowed`; empty means all CPUs.
    pub cpus: Vec<u32>,
    /// `cpus_allowed_policy=split`: one CPU per clone.
    pub split: bool,
    /// `nice`.
    pub nice: i32,
    /// `prioclass`.
    pub io_class: Option<u8>,
    /// `prio`.
    pub io_level: Option<u8>,
    pub nodes: Option<Nodes>,
    pub memory: MemoryPolicy,
    /// `lockmem`, in bytes.
    pub locked_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nodes {
    All,
    Only(Vec<u32>),
    Without(Vec<u32>),
}
