//! What is reported and logged.

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
    /// Report bandwidth in bits (1) or bytes (0 or 8) per second (`unit_base`).
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

/// Which logs a job writes, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Logs {
    /// Start of the file names of the bandwidth log (`write_bw_log`), if written.
    pub bw: Option<String>,
    /// The same for IOPS (`write_iops_log`).
    pub iops: Option<String>,
    /// The same for latencies (`write_lat_log`).
    pub lat: Option<String>,
    /// The same for histograms (`write_hist_log`).
    pub hist: Option<String>,
    /// File to record the job's I/Os in, as a trace (`write_iolog`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Time in nanoseconds over which entries are averaged (`log_avg_msec`); 0 for an entry per I/O.
    pub average_ns: u64,
    /// Time in nanoseconds between histograms (`log_hist_msec`); 0 for none.
    pub hist_ns: u64,
    /// Bins of histograms that are added up, as a power of two (`log_hist_coarseness`).
    pub coarseness: u32,
    /// Whether latency logs have the average (`log_window_value`).
    pub average: bool,
    /// Whether they have the maximum.
    pub maximum: bool,
    /// Whether each clone has files of its own (`per_job_logs`).
    pub per_job: bool,
    /// Whether times are since 1970, not since the start of the job (`log_unix_epoch`).
    pub unix_epoch: bool,
    /// Whether entries of single I/Os have the time at which they were issued (`log_issue_time`).
    #[serde(default)]
    pub issue_time: bool,
    /// Whether the files are compressed (`log_store_compressed`).
    #[serde(default)]
    pub compressed: bool,
    /// Whether entries have the offset (`log_offset`).
    #[serde(default)]
    pub offset: bool,
    /// Whether they have the priority in full (`log_prio`).
    #[serde(default)]
    pub priority: bool,
    /// Number of the job in the run, from 1, as in file names.
    pub number: u32,
    /// Those of the prefixes that the command line names, so that existing files may be replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<String>,
}

/// A kind of log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogKind {
    /// Bandwidth in KiB/s.
    Bandwidth,
    /// I/Os per second.
    Iops,
    /// Submission latency.
    Slat,
    /// Completion latency.
    Clat,
    /// Total latency.
    Lat,
    /// Histograms of completion latency.
    Histogram,
    /// A trace of the I/Os.
    Trace,
}

impl Logs {
    /// Whether there are any.
    pub fn any(&self) -> bool {
        [&self.bw, &self.iops, &self.lat, &self.hist, &self.trace].into_iter().any(Option::is_some)
    }

    /// Whether the command line names the files of this kind.
    pub fn is_named(&self, kind: LogKind) -> bool {
        let prefix = match kind {
            LogKind::Bandwidth => &self.bw,
            LogKind::Iops => &self.iops,
            LogKind::Slat | LogKind::Clat | LogKind::Lat => &self.lat,
            LogKind::Histogram => &self.hist,
            LogKind::Trace => &self.trace,
        };
        prefix.as_ref().is_some_and(|prefix| self.named.contains(prefix))
    }

    /// Whether there are logs with an entry for each I/O.
    pub fn are_of_single_ios(&self) -> bool {
        let any = [&self.bw, &self.iops, &self.lat].into_iter().any(Option::is_some);
        self.average_ns == 0 && any || self.trace.is_some()
    }

    /// The files to write, as fio names them.
    pub fn files(&self) -> Vec<(LogKind, String)> {
        let end = if self.compressed { ".fz" } else { "" };
        let file = |prefix: &str, what: &str| match self.per_job {
            true => format!("{prefix}_{what}.{}.log{end}", self.number),
            false => format!("{prefix}_{what}.log{end}"),
        };
        let one = |prefix: &Option<String>, kinds: &[(LogKind, &str)]| -> Vec<(LogKind, String)> {
            let of = |prefix: &String| {
                kinds.iter().map(|(kind, what)| (*kind, file(prefix, what))).collect()
            };
            prefix.as_ref().map(of).unwrap_or_default()
        };
        let lat = [(LogKind::Slat, "slat"), (LogKind::Clat, "clat"), (LogKind::Lat, "lat")];
        let trace = self.trace.iter().map(|path| (LogKind::Trace, path.clone()));
        let prefixed = [
            one(&self.bw, &[(LogKind::Bandwidth, "bw")]),
            one(&self.iops, &[(LogKind::Iops, "iops")]),
            one(&self.lat, &lat),
            one(&self.hist, &[(LogKind::Histogram, "clat_hist")]),
        ];
        prefixed.concat().into_iter().chain(trace).collect()
    }
}
