//! The record of a search.

use super::config::Config;
use super::outcome::LimitReport;
use crate::experiment::Rw;
use crate::processes::ProcessTotals;
use fathom_model::record::{Cost, Header};
use fathom_model::watch::{ProcessUse, Unavailable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `record.json` of `fathom limit`. `windows.ndjson` in the same directory holds the windows, one
/// [`super::Window`] per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitRecord {
    /// What all records have; the targets are in the order of [`Config::targets`].
    #[serde(flatten)]
    pub header: Header,
    /// What the search measured and could use.
    pub config: Config,
    /// How each target was accessed, in the order of [`Config::targets`].
    pub conditions: Vec<Conditions>,
    /// Other programs that ran during the search, the one with the most CPU time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub competitors: Vec<Competitor>,
    /// What was found.
    pub report: LimitReport,
    /// Hardware counters per I/O at each peak, measured in a separate window after the search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<PeakCost>,
    /// Why `costs` lacks some or all peaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs_missing: Option<String>,
}

/// Instructions, cycles and cache misses of an I/O at a peak.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeakCost {
    /// Index into [`Config::targets`].
    pub target: usize,
    /// Bytes of each I/O.
    pub block_bytes: u64,
    /// Kind of access.
    #[serde(default)]
    pub rw: Rw,
    /// The counters; their speed is relative to the peak.
    pub cost: Cost,
    /// Counters that are not available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<Unavailable>,
}

/// Another program that ran during a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Competitor {
    /// What it used.
    pub uses: ProcessUse,
    /// CPUs that it kept busy on average.
    pub cpus: f64,
    /// Bytes per second that it read from and wrote to block devices.
    pub disk_bytes_per_second: f64,
}

impl Competitor {
    /// Programs named at most.
    const MAX: usize = 3;
    /// Programs that kept fewer CPUs busy and moved fewer bytes per second are left out.
    const CPUS_MIN: f64 = 0.05;
    const BYTES_MIN: f64 = 1e6;

    /// The programs in `processes` that may have disturbed a search.
    pub fn of(processes: &ProcessTotals) -> Vec<Self> {
        let competitor = |uses: &ProcessUse| Self {
            cpus: processes.cpus(uses),
            disk_bytes_per_second: processes.per_second(uses.disk_bytes()),
            uses: uses.clone(),
        };
        let disturbs =
            |one: &Self| one.cpus >= Self::CPUS_MIN || one.disk_bytes_per_second >= Self::BYTES_MIN;
        let all = processes.by_cpu().into_iter().map(competitor);
        all.filter(disturbs).take(Self::MAX).collect()
    }
}

/// How a target was accessed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// With O_DIRECT; otherwise through the page cache.
    pub direct: bool,
    /// It is a scratch file created for this search.
    pub scratch: bool,
}

impl LimitRecord {
    /// Whether the whole request was carried out, without errors on any target.
    pub fn is_complete(&self) -> bool {
        let blocks = || self.report.targets.iter().flat_map(|t| &t.blocks);
        self.header.outcome.is_finished()
            && blocks().all(|b| b.problems.iter().all(|p| p.errors == 0 && p.short_ios == 0))
            && blocks().all(|b| b.peak.is_some())
    }
}
