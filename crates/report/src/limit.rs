//! The record of `fathom limit` as JSON, and its progress line.

mod progress;

pub use progress::{line, phase};

use fathom_analysis::limit::LimitRecord;

/// The result as JSON: a [`LimitRecord`].
pub fn json(record: &LimitRecord) -> serde_json::Result<String> {
    serde_json::to_string_pretty(record).map(|text| text + "\n")
}
