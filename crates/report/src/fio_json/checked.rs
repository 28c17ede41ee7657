//! Steady state, as fio has it, and what was verified, which fio does not have.

use super::rounded;
use fathom_model::plan::{SteadyFigure, UntilSteady};
use fathom_model::record::{SteadyRecord, VerifyRecord, WrongBlock};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Steady {
    ss: String,
    duration: u64,
    attained: u32,
    criterion: String,
    max_deviation: f64,
    slope: f64,
    data: SteadyData,
}

#[derive(Serialize)]
struct SteadyData {
    bw_mean: u64,
    iops_mean: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lat_mean: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lat_ns: Option<Vec<u64>>,
    iops: Vec<u64>,
    bw: Vec<u64>,
}

impl Steady {
    pub fn of(until: &UntilSteady, found: Option<&SteadyRecord>) -> Self {
        let none = SteadyRecord::default();
        let found = found.unwrap_or(&none);
        let percent = if until.percent { "%" } else { "" };
        // As in fio, what is missing is 0.
        let all = |figures: &[u64]| {
            let missing = until.count().saturating_sub(figures.len());
            [figures, &vec![0; missing]].concat()
        };
        let mean = |figures: &[u64]| figures.iter().sum::<u64>() / until.count() as u64;
        let with_lat = until.figure == SteadyFigure::Latency;
        Self {
            ss: format!("{}:{:.6}{percent}", until.name(), until.limit),
            duration: until.duration_ns / 1_000_000_000,
            attained: u32::from(found.attained),
            criterion: format!("{:.6}{percent}", found.criterion),
            max_deviation: rounded(found.deviation),
            slope: rounded(found.slope),
            data: SteadyData {
                bw_mean: mean(&found.bytes_per_second),
                iops_mean: mean(&found.iops),
                lat_mean: with_lat.then(|| mean(&found.lat_ns)),
                lat_ns: with_lat.then(|| all(&found.lat_ns)),
                iops: all(&found.iops),
                bw: all(&found.bytes_per_second),
            },
        }
    }
}

/// The reads themselves are among those of the job.
#[derive(Serialize)]
pub(super) struct Verified {
    blocks: u64,
    bytes: u64,
    unread_bytes: u64,
    wrong: u64,
    first: Vec<WrongBlock>,
    runtime_ns: u64,
}

impl Verified {
    pub fn of(found: &VerifyRecord) -> Self {
        let VerifyRecord { blocks, bytes, unread_bytes, wrong, runtime_ns, .. } = *found;
        Self { blocks, bytes, unread_bytes, wrong, first: found.first.clone(), runtime_ns }
    }
}
