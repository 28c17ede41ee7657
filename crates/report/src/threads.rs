//! Thread activity as JSON; [`crate::pages::threads`] renders it as a page.

use fathom_analysis::threads::{ThreadGroup, ThreadGroups};
use fathom_analysis::watch::Observed;
use fathom_model::record::Header;
use fathom_model::watch::{MachineSample, SamplerCost, Unavailable};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Report<'a> {
    /// Of the record, if the report covers all of it instead of one interval.
    pub header: Option<&'a Header>,
    pub observed: &'a Observed,
    pub hz: u32,
    pub rows: usize,
    pub all_states: bool,
    pub missing: &'a [Unavailable],
    pub verbose: bool,
}

impl Report<'_> {
    pub(crate) fn seconds(&self) -> f64 {
        self.observed.elapsed_ns as f64 / 1e9
    }

    pub(crate) fn groups(&self) -> &ThreadGroups {
        &self.observed.threads
    }

    pub(crate) fn cost(&self) -> SamplerCost {
        let cost = |sample: &MachineSample| sample.cost.first().cloned().unwrap_or_default();
        let (from, to) = (cost(self.observed.first()), cost(self.observed.last()));
        SamplerCost {
            samples: to.samples.saturating_sub(from.samples),
            cpu_ns: to.cpu_ns.saturating_sub(from.cpu_ns),
            missed: to.missed.saturating_sub(from.missed),
            ..to
        }
    }

    /// In one line, with a line end.
    pub fn json(&self) -> Result<String, String> {
        crate::json::line(&ThreadsResult::of(self))
    }

    pub(crate) fn us_per_thread_sample(&self) -> f64 {
        self.cost().cpu_ns as f64 / 1000.0 / self.groups().seen.max(1) as f64
    }

    /// CPU time of sampling as a share of one CPU, 0 to 1.
    pub(crate) fn cost_share(&self) -> f64 {
        if self.seconds() > 0.0 { self.cost().cpu_ns as f64 / 1e9 / self.seconds() } else { 0.0 }
    }
}

/// The result of `fathom threads`, a line. That of an interval is not `total`, and has no header.
#[derive(Serialize, JsonSchema)]
pub struct ThreadsResult<'a> {
    #[serde(flatten)]
    header: Option<&'a Header>,
    total: bool,
    /// Time of the last sample, in nanoseconds since 1970 (UTC).
    unix_ns: u64,
    /// Time covered.
    seconds: f64,
    /// Requested samples per second.
    hz: u32,
    samples: u64,
    samples_missed: u64,
    /// Threads sampled, asleep or not, over all samples.
    thread_samples: u64,
    /// Of these, inconsistent ones: the thread ran while it was being sampled.
    thread_samples_torn: u64,
    /// Mean number of threads.
    threads: f64,
    threads_active: f64,
    /// Mean number of threads by state.
    states: BTreeMap<&'static str, f64>,
    groups: Vec<GroupResult>,
    cost: ThreadsCost,
    missing: &'a [Unavailable],
}

/// Threads that have all columns in common.
#[derive(Serialize, JsonSchema)]
struct GroupResult {
    /// What they have in common, by column name.
    #[serde(flatten)]
    by: BTreeMap<&'static str, String>,
    samples: u64,
    /// Mean number of them.
    average: f64,
    /// Their share of all active threads, from 0 to 1.
    share: f64,
    /// Number of distinct threads.
    threads: usize,
}

/// Overhead of sampling.
#[derive(Serialize, JsonSchema)]
struct ThreadsCost {
    cpu_ns: u64,
    us_per_thread_sample: f64,
    /// As a share of one CPU, from 0 to 1.
    cpu_share: f64,
}

impl<'a> ThreadsResult<'a> {
    fn of(report: &Report<'a>) -> Self {
        let (groups, cost) = (report.groups(), report.cost());
        let group = |group: ThreadGroup| GroupResult {
            by: groups.columns().iter().map(|column| column.name()).zip(group.values).collect(),
            samples: group.count,
            average: group.average,
            share: group.share,
            threads: group.threads,
        };
        Self {
            header: report.header,
            total: report.header.is_some(),
            unix_ns: report.observed.ended_unix_ns(),
            seconds: report.seconds(),
            hz: report.hz,
            samples: groups.samples,
            samples_missed: cost.missed,
            thread_samples: groups.seen,
            thread_samples_torn: groups.torn,
            threads: groups.threads(),
            threads_active: groups.active(),
            states: groups.states().into_iter().map(|(state, n)| (state.name(), n)).collect(),
            groups: groups.largest_first().into_iter().map(group).collect(),
            cost: ThreadsCost {
                cpu_ns: cost.cpu_ns,
                us_per_thread_sample: report.us_per_thread_sample(),
                cpu_share: report.cost_share(),
            },
            missing: report.missing,
        }
    }
}

/// Activity that a number of threads have in common.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GroupActivity {
    /// Mean number of active threads.
    active: f64,
    /// Number of distinct threads.
    threads: usize,
    /// Their common values, by column name.
    #[serde(flatten)]
    by: BTreeMap<&'static str, String>,
}

impl GroupActivity {
    /// Each of `groups`, the largest first.
    pub(crate) fn of(groups: &ThreadGroups) -> Vec<Self> {
        let names = || groups.columns().iter().map(|column| column.name());
        let of = |group: ThreadGroup| Self {
            active: group.average,
            threads: group.threads,
            by: names().zip(group.values).collect(),
        };
        groups.largest_first().into_iter().map(of).collect()
    }
}
