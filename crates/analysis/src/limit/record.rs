//! What is stored of a search.

use super::outcome::LimitReport;
use super::{Config, findings};
use fathom_model::record::Cost;
use fathom_model::watch::Missing;
use fathom_model::{Facts, Finding};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A whole `fathom limit`, as its `record.json` holds it. The windows are beside it in
/// `samples.ndjson`, one [`super::Window`] a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitRecord {
    /// [`fathom_model::record::RECORD_VERSION`] of the program that wrote it.
    pub record_version: u32,
    /// Version of the program that wrote it.
    pub fathom_version: String,
    /// The command line.
    pub command: Vec<String>,
    /// Start, in nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
    /// The machine and the targets, in the order of [`Config::targets`].
    pub facts: Facts,
    /// What the search could use.
    pub config: Config,
    /// How each target was read, in the order of [`Config::targets`].
    pub conditions: Vec<Conditions>,
    /// What ended the search early, if something did: `SIGINT`, `SIGTERM`.
    pub interrupted: Option<String>,
    /// What was found.
    pub report: LimitReport,
    /// What an I/O costs at each peak, counted in a window of its own after the search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<PeakCost>,
    /// Why `costs` lacks a peak, or all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs_missing: Option<String>,
    /// What to mind when reading it, worst first.
    pub findings: Vec<Finding>,
}

/// Instructions, cycles and cache misses of an I/O at a peak.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeakCost {
    /// Index into [`Config::targets`].
    pub target: usize,
    /// Bytes of each I/O.
    pub block_bytes: u64,
    /// What was counted; its speed is compared with that of the peak.
    pub cost: Cost,
    /// What could not be counted of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<Missing>,
}

/// How a target was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// With O_DIRECT; otherwise through the page cache.
    pub direct: bool,
    /// It is a scratch file made for this search.
    pub scratch: bool,
}

impl LimitRecord {
    /// The record with its findings made anew from what else it holds.
    #[must_use]
    pub fn judged(mut self) -> Self {
        self.findings = findings(&self);
        self
    }

    /// Whether all that was asked was done: to the end, and without errors on any target.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let blocks = || self.report.targets.iter().flat_map(|t| &t.blocks);
        self.interrupted.is_none()
            && blocks().all(|b| b.problems.iter().all(|p| p.errors == 0 && p.short_ios == 0))
            && blocks().all(|b| b.peak.is_some())
    }
}
