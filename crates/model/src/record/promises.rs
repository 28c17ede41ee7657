//! What is left, after a crash or a power cut, of data that was acknowledged (`fathom verify`).

use super::WrongBlock;
use crate::watch::is_zero;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `fathom verify` found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromiseReport {
    /// The directory of the journal.
    pub journal: String,
    /// Whether no block was lost although its durability was acknowledged.
    pub kept: bool,
    /// The jobs of the run that wrote.
    pub jobs: Vec<PromiseRecord>,
}

/// What became of the writes of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromiseRecord {
    /// Name of the job.
    pub name: String,
    /// Its targets.
    pub files: Vec<String>,
    /// Writes that were submitted.
    pub submitted: u64,
    /// Those that completed.
    pub completed: u64,
    /// Those that were acknowledged as durable: by a flush that was submitted after their completion, or, as O_DSYNC or
    /// FUA, by the completion itself.
    pub durable: u64,
    /// Flushes that completed.
    pub flushes: u64,
    /// What the blocks hold.
    pub blocks: BlockOutcomes,
    /// The first lost blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first: Vec<LostBlock>,
    /// Bytes at the end of the journal that its own power cut left incomplete.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub journal_tail_bytes: u64,
}

/// What blocks hold, by their number. A block is what has a header of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockOutcomes {
    /// The last write that was acknowledged as durable.
    pub as_acknowledged: u64,
    /// A later write, which was not, as is allowed.
    pub newer: u64,
    /// Sectors of several such writes, as is allowed, too: of the last acknowledged one, and of later ones.
    pub mixed: u64,
    /// Lost although acknowledged: zeroes.
    pub lost_zero: u64,
    /// Lost although acknowledged: an earlier write.
    pub lost_stale: u64,
    /// Lost although acknowledged: in part.
    pub lost_torn: u64,
    /// Lost although acknowledged: anything else.
    pub lost_other: u64,
    /// No write was acknowledged as durable, so they may hold anything.
    pub not_judged: u64,
}

impl BlockOutcomes {
    /// Blocks that were lost although acknowledged.
    pub fn lost(&self) -> u64 {
        self.lost_zero + self.lost_stale + self.lost_torn + self.lost_other
    }

    /// Blocks of which at least one write was acknowledged as durable.
    pub fn judged(&self) -> u64 {
        self.as_acknowledged + self.newer + self.mixed + self.lost()
    }
}

/// A block that was lost although it was acknowledged as durable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostBlock {
    /// The number of the write that was acknowledged, among those of the job, from 0.
    pub acknowledged_write: u64,
    /// What the block holds.
    #[serde(flatten)]
    pub block: WrongBlock,
}
