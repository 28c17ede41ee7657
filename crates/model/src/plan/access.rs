//! I/O pattern: direction, offsets, block size.

use super::SteadyState;
use crate::per_dir::{Dir, PerDir};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// I/O pattern of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Access {
    /// Directions.
    pub mix: Mix,
    /// The order of offsets.
    pub order: Order,
    /// Block sizes per direction.
    pub block_sizes: PerDir<BlockSizes>,
    /// Alignment of random offsets in bytes (`blockalign`; by default the smallest block size).
    pub align: PerDir<u64>,
    /// Percentage of I/Os at random offsets in a random order; the others continue where the previous one
    /// ended (`percentage_random`).
    #[serde(default = "all_random")]
    pub random_percent: PerDir<u32>,
    /// Repeat the offset in a run of I/Os instead of continuing from it (`rw_sequencer=identical`).
    #[serde(default)]
    pub repeat_offset: bool,
    /// Zones, one after the other or with write pointers (`zonemode`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zoning: Option<Zoning>,
    /// Seed of the random generators of this job, different for each clone.
    pub seed: u64,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            mix: Mix::Only(Dir::Read),
            order: Order::Sequential { skip: 0 },
            block_sizes: PerDir::splat(BlockSizes::Fixed(4096)),
            align: PerDir::splat(4096),
            random_percent: all_random(),
            repeat_offset: false,
            zoning: None,
            seed: 1,
        }
    }
}

fn all_random() -> PerDir<u32> {
    PerDir::splat(100)
}

/// How the offsets of a job keep to zones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Zoning {
    /// A part of the region at a time (`zonemode=strided`).
    Strided {
        /// Bytes to transfer before the next part (`zonesize`).
        bytes: u64,
        /// Length of a part (`zonerange`).
        range: u64,
        /// Bytes between two parts (`zoneskip`).
        skip: u64,
    },
    /// Writes at the write pointers of zones, reads below them (`zonemode=zbd`).
    WritePointers(ZoneRules),
}

/// How a job uses zones with write pointers. Its regions begin and end with zones, unless it only reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneRules {
    /// Length of a zone (`zonesize`, or the device's).
    pub zone_bytes: u64,
    /// What can be written of each, where the target has no zones of its own; at most its length (`zonecapacity`).
    pub capacity: u64,
    /// Bytes that sequential I/O leaves out after each zone (`zoneskip`).
    pub skip: u64,
    /// Zones of a target that all jobs together write at a time; 0 for any number (`max_open_zones`, or the device's).
    pub open_max: u32,
    /// Of these, those that this job writes (`job_max_open_zones`).
    pub own_open_max: u32,
    /// Reads may be beyond write pointers (`read_beyond_wp`).
    pub reads_beyond: bool,
    /// The rest of a zone that is too short for a block is written, by a shorter one (`write_zone_remainder`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writes_rest: bool,
    /// Sequential I/O begins again where there is nothing more to read or write, up to `io_size`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begins_again: bool,
    /// Part of the region that must hold data before zones are reset early (`zone_reset_threshold`).
    pub reset_threshold: f64,
    /// Part of the writes before which a zone is reset then; 0 for never (`zone_reset_frequency`).
    pub reset_frequency: f64,
    /// Whether several writes to a zone may be in flight: whether engine and kernel keep their order.
    pub keeps_order: bool,
}

/// The directions in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mix {
    /// One direction only.
    Only(Dir),
    /// A random mix of reads and writes.
    ReadWrite {
        /// Percentage of reads.
        read_percent: u32,
    },
    /// Each block is trimmed, then written (`trimwrite`).
    TrimThenWrite,
    /// Those of a trace, in its order (`read_iolog`).
    Traced(PerDir<bool>),
}

impl Mix {
    /// Whether data is transferred, which is not the case for trims only.
    pub fn moves_data(self) -> bool {
        self.has(Dir::Read) || self.has(Dir::Write)
    }

    /// Whether `dir` is in use.
    pub fn has(self, dir: Dir) -> bool {
        match self {
            Mix::Only(only) => only == dir,
            Mix::ReadWrite { .. } => dir != Dir::Trim,
            Mix::TrimThenWrite => dir != Dir::Read,
            Mix::Traced(used) => used[dir],
        }
    }
}

/// The order of offsets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Ascending from the start of the region; wraps at its end.
    Sequential {
        /// Added to the offset after each I/O, in bytes (`rw=read:8k`); may be negative.
        skip: i64,
    },
    /// Random.
    Random {
        /// Distribution of offsets.
        distribution: Distribution,
        /// Number of consecutive I/Os at each random offset (`rw=randread:8`).
        run: u32,
    },
}

/// Distribution of random offsets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Every block once per pass: a permutation, in constant memory.
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
    /// Normal around a point of the region.
    Normal {
        /// Standard deviation in percent of the region.
        deviation_percent: f64,
        /// That point in percent of the region.
        #[serde(default = "middle")]
        center_percent: f64,
    },
    /// Zones with a percentage of accesses each.
    Zoned(Vec<Zone>),
    /// The same with lengths in bytes; what lies beyond the last is not accessed.
    ZonedAbs(Vec<AbsoluteZone>),
    /// These blocks, again and again (`sequence`).
    Sequence {
        /// Block numbers, in units of the alignment.
        blocks: Vec<u64>,
        /// Whether each repetition begins as many blocks later as the sequence has (`random_sequence_stride`).
        stride: bool,
    },
    /// Every block, and some of them again, as at the steady state of an SSD (`sprandom`).
    SteadyState(SteadyState),
}

fn middle() -> f64 {
    50.0
}

/// A zone of [`Distribution::ZonedAbs`]; zones are consecutive from the start of the region.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AbsoluteZone {
    /// Percentage of accesses; all zones add up to 100.
    pub access_percent: f64,
    /// Length in bytes.
    pub bytes: u64,
}

/// A zone of [`Distribution::Zoned`]; zones are consecutive from the start of the region.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Zone {
    /// Percentage of accesses; all zones add up to 100.
    pub access_percent: f64,
    /// Length in percent of the region; all zones add up to 100.
    pub span_percent: f64,
}

/// Block sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockSizes {
    /// A fixed size in bytes.
    Fixed(u64),
    /// Uniform between two sizes in bytes, in multiples of the lower (`bsrange`).
    Range {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// Any number of bytes between two sizes (`bs_unaligned`).
    Any {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// Sizes in bytes with percentages that add up to 100 (`bssplit`).
    Split(Vec<(u64, u32)>),
}

impl BlockSizes {
    /// The smallest size in bytes.
    pub fn min(&self) -> u64 {
        match self {
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { min, .. } | BlockSizes::Any { min, .. } => *min,
            BlockSizes::Split(parts) => parts.iter().map(|p| p.0).min().unwrap_or(0),
        }
    }

    /// The greatest common divisor of all sizes, in bytes.
    pub fn unit(&self) -> u64 {
        match self {
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { min, .. } => *min,
            BlockSizes::Any { .. } => 1,
            BlockSizes::Split(parts) => parts.iter().fold(0, |unit, part| common(unit, part.0)),
        }
    }

    /// The largest size in bytes.
    pub fn max(&self) -> u64 {
        match self {
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { max, .. } | BlockSizes::Any { max, .. } => *max,
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
