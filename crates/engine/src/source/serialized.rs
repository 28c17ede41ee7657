//! A source whose I/Os wait for those in flight that overlap them (`serialize_overlap`). The worker does the waiting.

use super::{General, Source};

/// Marks the jobs of which the worker compares I/Os with those in flight.
pub(crate) struct Serialized(pub General);

impl Source for Serialized {
    const FIXED: bool = false;
    const SERIALIZES: bool = true;
    type Batch<'a> = &'a mut General;

    fn len(&self) -> u32 {
        self.0.len()
    }

    fn batch(&mut self) -> &mut General {
        self.0.batch()
    }
}
