//! What of the results is shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What of a job's results is shown. All is always recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Show {
    /// Percentiles listed (`percentile_list`).
    pub percentiles: Vec<f64>,
    /// Percentiles of submission latency.
    pub slat_percentiles: bool,
    /// Percentiles of completion latency.
    pub clat_percentiles: bool,
    /// Percentiles of total latency.
    pub lat_percentiles: bool,
    /// Submission latency at all.
    pub slat: bool,
    /// Completion latency at all.
    pub clat: bool,
    /// Total latency at all.
    pub lat: bool,
    /// Bandwidth statistics over samples.
    pub bw: bool,
    /// All directions as one (`unified_rw_reporting`).
    pub unified: Unified,
    /// A kilobyte is 1000 or 1024 bytes in text output (`kb_base`).
    pub kb_base: u32,
    /// Text output in bits (8) or bytes (1) per second (`unit_base`); 0 picks bytes.
    pub unit_base: u32,
}

impl Default for Show {
    fn default() -> Self {
        Self {
            percentiles: DEFAULT_PERCENTILES.to_vec(),
            slat_percentiles: false,
            clat_percentiles: true,
            lat_percentiles: false,
            slat: true,
            clat: true,
            lat: true,
            bw: true,
            unified: Unified::Separate,
            kb_base: 1024,
            unit_base: 0,
        }
    }
}

/// How directions are put together (`unified_rw_reporting`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unified {
    /// Each for itself.
    #[default]
    Separate,
    /// All as one, called "mixed".
    Mixed,
    /// Both.
    Both,
}

/// fio's default `percentile_list`.
pub const DEFAULT_PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];
