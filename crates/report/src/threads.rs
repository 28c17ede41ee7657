//! Thread activity as JSON; [`crate::pages::threads`] renders it as a page.

use fathom_analysis::threads::{ThreadGroup, ThreadGroups};
use fathom_model::watch::{SamplerCost, Unavailable};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Report<'a> {
    /// Time of the report, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Whether it covers the whole run instead of one interval.
    pub total: bool,
    pub seconds: f64,
    pub hz: u32,
    pub groups: &'a ThreadGroups,
    pub cost: &'a SamplerCost,
    pub missing: &'a [Unavailable],
    pub rows: usize,
    pub all_states: bool,
    pub verbose: bool,
}

impl Report<'_> {
    pub fn json(&self) -> String {
        let groups = self.groups;
        let names: Vec<&str> = groups.columns().iter().map(|column| column.name()).collect();
        let shown = groups.largest_first();
        let cost = ThreadsCost {
            cpu_ns: self.cost.cpu_ns,
            us_per_thread_sample: self.us_per_thread_sample(),
            cpu_share: self.cost_share(),
        };
        let states: Map<String, Value> = groups
            .states()
            .into_iter()
            .map(|(state, mean)| (state.name().to_string(), Value::from(mean)))
            .collect();
        let value = json!({
            "unix_ns": self.unix_ns,
            "total": self.total,
            "seconds": self.seconds,
            "hz": self.hz,
            "samples": groups.samples,
            "samples_missed": self.cost.missed,
            "thread_samples": groups.seen,
            "thread_samples_torn": groups.torn,
            "threads": groups.threads(),
            "threads_active": groups.active(),
            "states": states,
            "groups": shown.iter().map(|group| object(&names, group)).collect::<Vec<Value>>(),
            "cost": cost,
            "missing": self.missing,
        });
        format!("{value}\n")
    }

    pub(crate) fn us_per_thread_sample(&self) -> f64 {
        self.cost.cpu_ns as f64 / 1000.0 / self.groups.seen.max(1) as f64
    }

    /// CPU time of sampling as a share of one CPU, 0 to 1.
    pub(crate) fn cost_share(&self) -> f64 {
        if self.seconds > 0.0 { self.cost.cpu_ns as f64 / 1e9 / self.seconds } else { 0.0 }
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

#[derive(Serialize)]
struct ThreadsCost {
    cpu_ns: u64,
    us_per_thread_sample: f64,
    cpu_share: f64,
}

fn object(names: &[&str], group: &ThreadGroup) -> Value {
    let mut object = Map::new();
    for (name, value) in names.iter().zip(&group.values) {
        object.insert((*name).to_string(), Value::from(value.as_str()));
    }
    object.insert("samples".into(), Value::from(group.count));
    object.insert("average".into(), Value::from(group.average));
    object.insert("share".into(), Value::from(group.share));
    object.insert("threads".into(), Value::from(group.threads));
    Value::Object(object)
}
