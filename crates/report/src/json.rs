//! Results as JSON: a record with its findings, and the figures that follow from its samples.

use crate::threads::Activity;
use fathom_analysis::layers::LayerTimes;
use fathom_analysis::machine::DiskRates;
use fathom_analysis::metrics::{DISK, Interval};
use fathom_analysis::watch::Observed;
use fathom_model::RunRecord;
use fathom_model::watch::ProcessUse;
use serde::Serialize;
use std::collections::BTreeMap;

/// The result of `fathom watch`.
#[derive(Serialize)]
struct WatchResult<'a> {
    #[serde(flatten)]
    record: &'a RunRecord,
    figures: WatchFigures<'a>,
}

/// Figures by their ids in the table of metrics; what is not available is left out.
#[derive(Serialize)]
pub(crate) struct Figures<'a> {
    machine: BTreeMap<&'static str, f64>,
    devices: BTreeMap<&'a str, BTreeMap<&'static str, f64>>,
}

impl<'a> Figures<'a> {
    pub(crate) fn of(interval: &Interval<'a>) -> Self {
        let machine = interval.figures().filter_map(|(id, _, value)| Some((id, value?)));
        let device = |disk: &'a DiskRates| {
            let figures = DISK.iter().filter_map(|of| Some((of.id, (of.value)(disk)?)));
            (disk.name.as_str(), figures.collect())
        };
        let devices = interval.rates.disks.iter().map(device).collect();
        Self { machine: machine.collect(), devices }
    }
}

/// Means over all samples.
#[derive(Serialize)]
struct WatchFigures<'a> {
    samples: u64,
    elapsed_ns: u64,
    #[serde(flatten)]
    figures: Figures<'a>,
    /// Highest CPU usage in any interval.
    busy_max_pct: f64,
    /// Highest mean number of I/Os in flight in any interval, by device.
    in_flight_max: &'a BTreeMap<String, f64>,
    /// The watched processes together; none for the whole machine.
    watched: Option<&'a ProcessUse>,
    /// Other programs, by CPU time.
    programs: Vec<&'a ProcessUse>,
    threads: Vec<Activity>,
    layers: Option<LayerTimes>,
}

/// The record of an observation, and what was observed.
///
/// # Errors
/// When a value cannot be written as JSON, which the types rule out.
pub fn watch(record: &RunRecord, observed: &Observed) -> serde_json::Result<String> {
    let layers = |stacks| LayerTimes::of([&stacks], &observed.known_stacks, |_| true);
    let processes = &observed.processes;
    let rates = observed.rates();
    let interval = Interval { before: observed.first(), now: observed.last(), rates: &rates };
    let figures = WatchFigures {
        samples: observed.samples,
        elapsed_ns: observed.elapsed_ns,
        figures: Figures::of(&interval),
        busy_max_pct: observed.busy_max,
        in_flight_max: &observed.queue_max,
        watched: Some(&processes.watched).filter(|watched| !watched.comm.is_empty()),
        programs: processes.by_cpu(),
        threads: Activity::of(&observed.threads),
        layers: observed.stacks().map(layers),
    };
    serde_json::to_string_pretty(&WatchResult { record, figures }).map(|text| text + "\n")
}
