//! The table of figures: what each is called, its unit, where it comes from, and how it is computed. Screens, pages, CSV,
//! NDJSON and docs/figures.md read figures through it; a row added here appears in all of them.

mod tables;

pub use tables::{ALL_RINGS, DISK, JOB, LAYER, METRICS, PROCESS, RING, THREADS};

use crate::layers::{LayerTime, LayerTimes};
use crate::machine::{DiskRates, MachineRates, RingRates, RingsRates, ring_rates};
use crate::processes::ProcessTotals;
use crate::threads::ThreadGroup;
use fathom_model::Histogram;
use fathom_model::watch::{MachineSample, ProcessUse, RingsSample};

/// Two samples of the machine, with the rates between them.
#[derive(Debug, Clone, Copy)]
pub struct Interval<'a> {
    pub before: &'a MachineSample,
    pub now: &'a MachineSample,
    pub rates: &'a MachineRates,
}

/// A figure of the machine, or with another `F` of a device, ring, process or group of threads.
#[derive(Debug)]
pub struct MetricRow<F = fn(&Interval<'_>) -> Option<f64>> {
    /// Its name in CSV and NDJSON, which never changes.
    pub id: &'static str,
    pub title: &'static str,
    /// Its name where space is short, which in a table's column includes the unit; empty where only pages and lines show it.
    pub label: &'static str,
    pub unit: FigureUnit,
    pub group: FigureGroup,
    /// Where space is short, columns with the highest rank are left out first, those of rank 0 never; pages show
    /// [`MetricRow::is_main`] ones. In a line, figures above rank 1 are left out where they say nothing.
    pub rank: u8,
    /// Its value; `None` where it is not available.
    pub value: F,
    /// Definition and source, in Markdown.
    pub source: &'static str,
}

pub type DiskMetric = MetricRow<fn(&DiskRates) -> Option<f64>>;
pub type RingMetric = MetricRow<fn(&RingRates) -> Option<f64>>;
pub type LayerMetric = MetricRow<fn(&LayerTimes, &LayerTime) -> Option<f64>>;
pub type ThreadMetric = MetricRow<fn(&ThreadGroup) -> Option<f64>>;
pub type JobMetric = MetricRow<fn(&JobFigures<'_>) -> Option<f64>>;
pub type ProcessMetric = MetricRow<fn(&ProcessTotals, &ProcessUse) -> Option<f64>>;

/// What a job, a group of jobs or a direction of its I/O did.
#[derive(Debug, Clone, Copy)]
pub struct JobFigures<'a> {
    pub ios: u64,
    /// `None` where no data is transferred or its amount is not known.
    pub bytes: Option<u64>,
    pub runtime_ns: u64,
    pub latency: &'a Histogram,
    /// CPU time per I/O, that of the kernel's helper threads included.
    pub cpu_per_io_ns: Option<f64>,
    /// Mean number of I/Os in flight.
    pub in_flight: Option<f64>,
}

impl<'a> JobFigures<'a> {
    /// Those of I/Os alone.
    pub fn new(ios: u64, bytes: Option<u64>, runtime_ns: u64, latency: &'a Histogram) -> Self {
        Self { ios, bytes, runtime_ns, latency, cpu_per_io_ns: None, in_flight: None }
    }
}

fathom_model::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FigureUnit {
        Count = "count",
        Rate = "1/s",
        Number = "mean",
        /// Hundredths.
        Percent = "%",
        Bytes = "bytes",
        BytesPerSecond = "bytes/s",
        Milliseconds = "ms",
    }
}

/// What figures belong together: a line of the screen, a section of docs/figures.md, a direction of a disk's I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureGroup {
    Tasks,
    Pressure,
    Cpu,
    Memory,
    Paging,
    Counters,
    Cgroup,
    Read,
    Write,
    Discard,
    Flush,
    Device,
    Ring,
    Layer,
    Threads,
    Process,
    Job,
    /// Anything else, with its title.
    Other(&'static str),
}

impl FigureGroup {
    /// Its name in text, and in docs/figures.md, which has a table for each.
    pub fn title(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Pressure => "pressure",
            Self::Cpu => "CPU",
            Self::Memory => "memory",
            Self::Paging => "paging",
            Self::Counters => "counters",
            Self::Cgroup => "cgroup",
            Self::Read => "read",
            Self::Write => "write",
            Self::Discard => "discard",
            Self::Flush => "flush",
            Self::Device => "device",
            Self::Ring => "ring",
            Self::Layer => "layer",
            Self::Threads => "threads",
            Self::Process => "process",
            Self::Job => "job",
            Self::Other(title) => title,
        }
    }

    /// The label of its line on the screen, in at most five characters but for rare lines. With a percent sign, its shares
    /// are printed without.
    pub fn line(self) -> &'static str {
        match self {
            Self::Cpu => "cpu %",
            Self::Tasks | Self::Pressure => "tasks",
            Self::Memory => "mem",
            Self::Paging => "page",
            Self::Counters => "count",
            other => other.title(),
        }
    }
}

/// A figure of a run or of a machine by its name, of [`METRICS`], [`DISK`], [`PROCESS`] and [`JOB`].
pub fn named(id: &str) -> Option<MetricRow<()>> {
    let machine = METRICS.iter().map(MetricRow::nameplate);
    let others =
        DISK.iter().map(MetricRow::nameplate).chain(PROCESS.iter().map(MetricRow::nameplate));
    machine.chain(others).chain(JOB.iter().map(MetricRow::nameplate)).find(|row| row.id == id)
}

impl<F> MetricRow<F> {
    /// The row without how its value is computed.
    pub fn nameplate(&self) -> MetricRow<()> {
        let Self { id, title, label, unit, group, rank, source, .. } = *self;
        MetricRow { id, title, label, unit, group, rank, value: (), source }
    }

    /// Whether pages show it, rather than only wide screens, details and lines.
    pub fn is_main(&self) -> bool {
        self.rank <= 3
    }
}

impl Interval<'_> {
    /// All figures of the machine by name, as in CSV: those of [`METRICS`], and those of [`DISK`] for whole disks together.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, FigureUnit, Option<f64>)> {
        let disks: &DiskRates = &self.rates.disks_total;
        let machine = METRICS.iter().map(move |of| (of.id, of.unit, (of.value)(self)));
        machine.chain(DISK.iter().map(move |of| (of.id, of.unit, (of.value)(disks))))
    }

    /// Rates of rings; `None` where they are not sampled.
    pub fn rings(&self) -> Option<RingsRates> {
        let none = RingsSample::default();
        let before = self.before.rings.as_ref().unwrap_or(&none);
        Some(ring_rates(before, self.now.rings.as_ref()?, self.rates.elapsed_ns))
    }

    /// Growth per second of a counter that is in both samples.
    pub fn per_second(&self, of: impl Fn(&MachineSample) -> Option<u64>) -> Option<f64> {
        let growth = of(self.now)?.saturating_sub(of(self.before)?);
        Some(crate::derive::per_second(growth, self.rates.elapsed_ns))
    }
}

pub fn machine(id: &str) -> Option<&'static MetricRow> {
    METRICS.iter().find(|metric| metric.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_figure_has_a_name_of_its_own() {
        let mut ids = BTreeSet::new();
        let machine = MachineSample::default();
        let rates = MachineRates::default();
        let interval = Interval { before: &machine, now: &machine, rates: &rates };
        for (id, ..) in interval.figures() {
            assert!(ids.insert(id), "{id} is there twice");
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(id.chars().all(fits), "{id}");
        }
    }

    #[test]
    fn counters_become_rates() {
        let sample = |n| MachineSample { intervals_merged: n, ..MachineSample::default() };
        let (before, now) = (sample(5), sample(25));
        let rates = MachineRates { elapsed_ns: 2_000_000_000, ..MachineRates::default() };
        let interval = Interval { before: &before, now: &now, rates: &rates };
        assert_eq!(interval.per_second(|s| Some(s.intervals_merged)), Some(10.0));
        assert_eq!(interval.per_second(|s| s.rings.as_ref().map(|_| 1)), None);
    }
}
