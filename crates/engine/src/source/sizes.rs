//! Block sizes.

use super::below;
use fathom_model::plan::BlockSizes;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Block sizes of one direction.
pub(super) enum Sizes {
    Fixed(u32),
    Range { min: u64, steps: u64 },
    Split(Vec<(u32, u32)>),
}

impl Sizes {
    pub fn new(plan: &BlockSizes) -> Self {
        match plan {
            BlockSizes::Fixed(size) => Self::Fixed(*size as u32),
            BlockSizes::Range { min, max } => {
                Self::Range { min: *min, steps: (max - min) / (*min).max(1) + 1 }
            }
            BlockSizes::Split(parts) => {
                Self::Split(parts.iter().map(|p| (p.0 as u32, p.1)).collect())
            }
        }
    }

    /// A length in whole units instead of `size`, that fits in `room`, which is at least one unit, and in the `max`
    /// bytes left. As in fio, a job whose blocks of one direction have one size ends with a whole block.
    #[cold]
    pub fn shortened(&self, size: u32, room: u64, max: u64, unit: u64) -> u32 {
        if matches!(self, Self::Fixed(_)) && u64::from(size) <= room {
            return size;
        }
        let whole = room.min(max) / unit * unit;
        // Plans transfer whole units; otherwise, transfer exactly what is left.
        (if whole > 0 { whole } else { max.min(room) }) as u32
    }

    #[inline]
    pub fn next(&self, random: &mut Xoshiro256PlusPlus) -> u32 {
        match self {
            Self::Fixed(size) => *size,
            Self::Range { min, steps } => (min + below(random, *steps) * min) as u32,
            Self::Split(parts) => {
                let mut pick = below(random, 100) as u32;
                for (size, percent) in parts {
                    if pick < *percent {
                        return *size;
                    }
                    pick -= percent;
                }
                parts.last().map_or(0, |p| p.0)
            }
        }
    }
}
