//! The block layer's tracepoints, as far as this kernel has them.

use crate::perf::{TraceCoverage, Tracefs, Tracepoint};
use fathom_model::watch::Missing;

/// What is needed to open events.
pub(super) struct BlockTracepoints {
    pub tracefs: Tracefs,
    pub cpus: Vec<u32>,
    pub each_io: TraceCoverage,
    pub missing: Vec<Missing>,
}

impl BlockTracepoints {
    /// The tracepoint `block:name`; if this kernel lacks it, that is reported once.
    pub fn tracepoint(&mut self, name: &str) -> Option<Tracepoint> {
        let found = self.tracefs.tracepoint("block", name);
        found
            .map_err(|missing| {
                if !self.missing.contains(&missing) {
                    self.missing.push(missing);
                }
            })
            .ok()
    }
}
