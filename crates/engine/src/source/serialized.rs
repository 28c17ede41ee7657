//! A source whose I/Os wait for those in flight that overlap them (`serialize_overlap`, `trimwrite`). The worker does
//! the waiting.

use super::{AnySource, IoGenerator, Source, TrimWrite};
use crate::queue::Request;
use fathom_model::Dir;
use fathom_model::plan::{JobPlan, Mix};

/// Marks the jobs of which the worker compares I/Os with those in flight.
pub(crate) struct Serialized {
    blocks: Blocks,
    /// Whether the job has such I/Os.
    on: bool,
}

/// What generates the I/Os of one batch.
pub(crate) enum Blocks {
    Any(AnySource),
    TrimWrite(TrimWrite),
}

impl Serialized {
    pub fn new(job: &JobPlan) -> Self {
        let general = AnySource::new(job);
        match job.access.mix {
            Mix::TrimThenWrite => {
                Self { blocks: Blocks::TrimWrite(TrimWrite::new(general)), on: true }
            }
            _ => Self { blocks: Blocks::Any(general), on: job.serialize_overlap },
        }
    }
}

impl Source for Serialized {
    const FIXED: bool = false;
    const FULL: bool = true;
    type Batch<'a> = &'a mut Blocks;

    fn serializes(&self) -> bool {
        self.on
    }

    fn len(&self) -> u32 {
        match &self.blocks {
            Blocks::Any(general) => general.len(),
            Blocks::TrimWrite(pairs) => pairs.len(),
        }
    }

    fn batch(&mut self) -> &mut Blocks {
        &mut self.blocks
    }
}

impl IoGenerator for Blocks {
    fn next_direction(&mut self) -> Dir {
        match self {
            Self::Any(general) => general.next_direction(),
            Self::TrimWrite(pairs) => pairs.next_direction(),
        }
    }

    fn next_io(&mut self, dir: Dir, max: u64) -> Request {
        match self {
            Self::Any(general) => general.next_io(dir, max),
            Self::TrimWrite(pairs) => pairs.next_io(dir, max),
        }
    }
}
