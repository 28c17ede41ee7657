//! Results as JSON: a record with its findings, and the figures that follow from its samples.

use crate::stacks::{ProcessStacks, Sampled};
use crate::threads::GroupActivity;
use fathom_analysis::account::Account;
use fathom_analysis::ceilings::{PeakCeilings, of_limit};
use fathom_analysis::layers::LayerTimes;
use fathom_analysis::machine::DiskRates;
use fathom_analysis::metrics::{DISK, Interval};
use fathom_analysis::watch::Observed;
use fathom_model::RunRecord;
use fathom_model::limit::LimitRecord;
use fathom_model::record::Header;
use fathom_model::watch::{BlocksSample, ProcessUse};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// `data` as JSON, with a line end.
pub fn text<T: Serialize + ?Sized>(data: &T) -> Result<String, String> {
    serde_json::to_string_pretty(data).map(|text| text + "\n").map_err(|error| error.to_string())
}

/// The same in one line.
pub fn line<T: Serialize + ?Sized>(data: &T) -> Result<String, String> {
    serde_json::to_string(data).map(|text| text + "\n").map_err(|error| error.to_string())
}

/// The result of `fathom watch`.
#[derive(Serialize, JsonSchema)]
pub struct WatchResult<'a> {
    #[serde(flatten)]
    record: &'a RunRecord,
    figures: WatchFigures<'a>,
}

/// Figures by their ids in the table of metrics, without unavailable ones.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Figures {
    machine: BTreeMap<&'static str, f64>,
    devices: BTreeMap<String, BTreeMap<&'static str, f64>>,
}

impl Figures {
    pub(crate) fn of(interval: &Interval<'_>) -> Self {
        let machine = interval.figures().filter_map(|(id, _, value)| Some((id, value?)));
        let device = |disk: &DiskRates| {
            let figures = DISK.iter().filter_map(|of| Some((of.id, (of.value)(disk)?)));
            (disk.name.clone(), figures.collect())
        };
        let devices = interval.rates.disks.iter().map(device).collect();
        Self { machine: machine.collect(), devices }
    }
}

/// Means over all samples.
#[derive(Serialize, JsonSchema)]
struct WatchFigures<'a> {
    samples: u64,
    elapsed_ns: u64,
    #[serde(flatten)]
    figures: Figures,
    /// Highest CPU usage in any interval.
    busy_max_pct: f64,
    /// Highest mean number of I/Os in flight in any interval, by device.
    in_flight_max: &'a BTreeMap<String, f64>,
    /// The watched processes together; none for the whole machine.
    watched: Option<&'a ProcessUse>,
    /// Other programs, by CPU time.
    programs: Vec<&'a ProcessUse>,
    threads: Vec<GroupActivity>,
    /// Where the time of the watched program's threads went.
    account: Option<Account>,
    layers: Option<LayerTimes>,
}

impl<'a> WatchResult<'a> {
    pub fn of(record: &'a RunRecord, observed: &'a Observed) -> Self {
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
            threads: GroupActivity::of(&observed.threads),
            account: observed.account.account(),
            layers: observed.stacks().map(layers),
        };
        Self { record, figures }
    }
}

/// The result of `fathom limit`.
#[derive(Serialize, JsonSchema)]
pub struct LimitResult<'a> {
    #[serde(flatten)]
    record: &'a LimitRecord,
    /// What every part could sustain at each peak. Derived from the record when it is printed: not in `record.json`.
    #[schemars(default)]
    ceilings: Vec<PeakCeilings>,
}

impl<'a> LimitResult<'a> {
    pub fn of(record: &'a LimitRecord) -> Self {
        Self { record, ceilings: of_limit(record) }
    }
}

/// The result of `fathom stacks`.
#[derive(Serialize, JsonSchema)]
pub struct StacksResult<'a> {
    #[serde(flatten)]
    header: &'a Header,
    /// The event by which CPUs were sampled, and its rate.
    event: String,
    hz: u32,
    /// Samples on busy CPUs, on idle ones, and of fathom's own threads.
    samples: u64,
    idle_samples: u64,
    own_samples: u64,
    /// Records lost because buffers were full.
    lost: u64,
    /// Functions that ran, by samples.
    functions: Vec<FunctionSamples>,
    /// Processes, by samples.
    processes: Vec<ProcessSamples>,
    layers: LayerTimes,
}

/// Samples of one function.
#[derive(Serialize, JsonSchema)]
struct FunctionSamples {
    /// Its name; in user mode after that of the thread.
    function: String,
    kernel: bool,
    samples: u64,
}

/// Samples of one process.
#[derive(Serialize, JsonSchema)]
struct ProcessSamples {
    comm: String,
    pid: i32,
    user_samples: u64,
    kernel_samples: u64,
}

impl<'a> StacksResult<'a> {
    pub fn of(header: &'a Header, sampled: &Sampled) -> Self {
        let last = sampled.intervals.last();
        let function = |((name, kernel), samples): ((String, bool), u64)| FunctionSamples {
            function: name,
            kernel,
            samples,
        };
        let process = |(pid, process): (i32, ProcessStacks<'_>)| ProcessSamples {
            comm: process.comm.to_string(),
            pid,
            user_samples: process.user,
            kernel_samples: process.kernel,
        };
        Self {
            header,
            event: last.map_or_else(String::new, |(_, sample)| sample.event.clone()),
            hz: last.map_or(0, |(_, sample)| sample.hz),
            samples: sampled.counts().map(|count| u64::from(count.count)).sum(),
            idle_samples: sampled.sum(|sample| sample.idle),
            own_samples: sampled.sum(|sample| sample.own),
            lost: sampled.sum(|sample| sample.lost),
            functions: sampled.functions().into_iter().map(function).collect(),
            processes: sampled.processes().into_iter().map(process).collect(),
            layers: sampled.layers(),
        }
    }
}

/// The result of `fathom blocks`, a line. That of an interval is not `total`, and has no header.
#[derive(Serialize, JsonSchema)]
pub struct BlocksResult<'a> {
    #[serde(flatten)]
    header: Option<&'a Header>,
    total: bool,
    /// Time of the last sample, in nanoseconds since 1970 (UTC).
    unix_ns: u64,
    /// Time between the first and the last sample.
    sampled_ns: u64,
    #[serde(flatten)]
    growth: &'a BlocksSample,
}

impl<'a> BlocksResult<'a> {
    /// What happened in `sampled_ns` until `unix_ns`: over all, with the header of the record, or in an interval.
    pub fn of(
        header: Option<&'a Header>,
        growth: &'a BlocksSample,
        (unix_ns, sampled_ns): (u64, u64),
    ) -> Self {
        Self { header, total: header.is_some(), unix_ns, sampled_ns, growth }
    }
}
