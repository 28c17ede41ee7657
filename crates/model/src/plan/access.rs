//! Directions, sizes and places of I/Os.

use crate::per_dir::{Dir, PerDir};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Directions, sizes and places of a job's I/Os.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Access {
    /// Which directions occur.
    pub mix: Mix,
    /// The order of offsets.
    pub order: Order,
    /// Sizes of the I/Os, for each direction.
    pub block_sizes: PerDir<BlockSizes>,
    /// Random offsets are multiples of this, in bytes (`blockalign`; by default the least block size).
    pub align: PerDir<u64>,
    /// Seed of everything random in this job, already different for each clone.
    pub seed: u64,
}

/// Which directions occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mix {
    /// One direction only.
    Only(Dir),
    /// Reads and writes by chance.
    ReadWrite {
        /// Share of reads in percent.
        read_percent: u32,
    },
}

impl Mix {
    /// Whether `dir` occurs.
    #[must_use]
    pub fn has(self, dir: Dir) -> bool {
        match self {
            Mix::Only(only) => only == dir,
            Mix::ReadWrite { .. } => dir != Dir::Trim,
        }
    }
}

/// The order of offsets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Ascending, from the region's start; begins anew at its end.
    Sequential {
        /// Added to the offset after each I/O, in bytes (`rw=read:8k`); may be negative.
        skip: i64,
    },
    /// By chance.
    Random {
        /// How the blocks are drawn.
        distribution: Distribution,
        /// After each random offset go on sequentially for this many I/Os in all
        /// (`rw=randread:8`); 1 draws every time.
        run: u32,
    },
}

/// How random blocks are drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Every block once before any is drawn again: a permutation, in constant memory.
    EachOnce,
    /// Uniform and independent (`norandommap`).
    Uniform,
    /// Zipf: block of rank k with probability proportional to k^-theta, ranks scattered.
    Zipf {
        /// The exponent, above 0 and not 1.
        theta: f64,
    },
    /// Pareto with shape h (0 < h < 1), as fio's `pareto:h`.
    Pareto {
        /// The shape.
        h: f64,
    },
    /// Normal around the middle of the region.
    Normal {
        /// Standard deviation in percent of the region.
        deviation_percent: f64,
    },
    /// Zones with shares of accesses.
    Zoned(Vec<Zone>),
}

/// A zone of [`Distribution::Zoned`]; the zones follow each other from the region's start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Zone {
    /// Share of the accesses in percent; all zones together 100.
    pub access_percent: f64,
    /// Length in percent of the region; all zones together 100.
    pub span_percent: f64,
}

/// Sizes of I/Os.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockSizes {
    /// Always the same, in bytes.
    Fixed(u64),
    /// Uniform between the two, in multiples of the lower, in bytes (`bsrange`).
    Range {
        /// Least size.
        min: u64,
        /// Greatest size.
        max: u64,
    },
    /// Sizes in bytes with their shares in percent, which add up to 100 (`bssplit`).
    Split(Vec<(u64, u32)>),
}

impl BlockSizes {
    /// The least size in bytes.
    #[must_use]
    pub fn min(&self) -> u64 {
        match self {
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { min, .. } => *min,
            BlockSizes::Split(parts) => parts.iter().map(|p| p.0).min().unwrap_or(0),
        }
    }

    /// The greatest number that all sizes are multiples of, in bytes.
    #[must_use]
    pub fn unit(&self) -> u64 {
        match self {
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { min, .. } => *min,
            BlockSizes::Split(parts) => parts.iter().fold(0, |unit, part| common(unit, part.0)),
        }
    }

    /// The greatest size in bytes.
    #[must_use]
    pub fn max(&self) -> u64 {
        match self {
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { max, .. } => *max,
            BlockSizes::Split(parts) => parts.iter().map(|p| p.0).max().unwrap_or(0),
        }
    }
}

/// The greatest common divisor; of 0 and another number, that number.
pub(super) fn common(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
