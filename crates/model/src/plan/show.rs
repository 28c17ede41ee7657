//! What is reported.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is reported of a job. Everything is always recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Show {
    /// Report the job at all, and count it in its group (`stats`).
    #[serde(default = "yes")]
    pub stats: bool,
    /// Percentiles to report (`percentile_list`).
    pub percentiles: Vec<f64>,
    /// Report percentiles of submission latency.
    pub slat_percentiles: bool,
    /// Report percentiles of completion latency.
    pub clat_percentiles: bool,
    /// Report percentiles of total latency.
    pub lat_percentiles: bool,
    /// Report submission latency.
    pub slat: bool,
    /// Report completion latency.
    pub clat: bool,
    /// Report total latency.
    pub lat: bool,
    /// How to combine directions (`unified_rw_reporting`).
    pub unified: Unified,
    /// Bytes per kilobyte in text output, 1000 or 1024 (`kb_base`).
    pub kb_base: u32,
    /// Report bandwidth in bits (8) or bytes (0 or 1) per second (`unit_base`).
    pub unit_base: u32,
}

impl Default for Show {
    fn default() -> Self {
        Self {
            stats: true,
            percentiles: DEFAULT_PERCENTILES.to_vec(),
            slat_percentiles: false,
            clat_percentiles: true,
            lat_percentiles: false,
            slat: true,
            clat: true,
            lat: true,
            unified: Unified::Separate,
            kb_base: 1024,
            unit_base: 0,
        }
    }
}

fn yes() -> bool {
    true
}

/// How to combine directions (`unified_rw_reporting`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unified {
    /// Separately.
    #[default]
    Separate,
    /// Combined as "mixed".
    Mixed,
    /// Both.
    Both,
}

/// fio's default `percentile_list`.
pub const DEFAULT_PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];
