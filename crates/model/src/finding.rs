//! What a record means, in words and with the figures that show it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One statement about a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable name of the rule that made it, such as `sparse-target`.
    pub rule: String,
    /// How much it matters.
    pub severity: Severity,
    /// One sentence for a person.
    pub summary: String,
    /// The figures that show it, each a short phrase.
    pub evidence: Vec<String>,
    /// What to do next, where something can be done.
    pub next_step: Option<String>,
}

/// How much a finding matters; ordered, worst last.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// The figures do not mean what one would take them for.
    Warning,
    /// Something asked was not done.
    Error,
}
