//! A source whose I/Os wait for those in flight that overlap them (`serialize_overlap`). The worker does the waiting.

use super::{General, Source};
use fathom_model::plan::JobPlan;

/// Marks the jobs of which the worker compares I/Os with those in flight.
pub(crate) struct Serialized {
    source: General,
    /// Whether the job has such I/Os.
    on: bool,
}

impl Serialized {
    pub fn new(job: &JobPlan) -> Self {
        Self { source: General::new(job), on: job.serialize_overlap }
    }
}

impl Source for Serialized {
    const FIXED: bool = false;
    const SERIALIZES: bool = true;
    type Batch<'a> = &'a mut General;

    fn serializes(&self) -> bool {
        self.on
    }

    fn len(&self) -> u32 {
        self.source.len()
    }

    fn batch(&mut self) -> &mut General {
        self.source.batch()
    }
}
