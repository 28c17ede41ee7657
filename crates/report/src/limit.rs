//! The record of `fathom limit` as JSON, and its progress line.

mod progress;

pub use progress::{line, phase};

use fathom_analysis::limit::LimitRecord;

/// The result as JSON: a [`LimitRecord`].
///
/// # Errors
/// When a value cannot be written as JSON, which the types rule out.
pub fn json(record: &LimitRecord) -> serde_json::Result<String> {
    serde_json::to_string_pretty(record).map(|text| text + "\n")
}
