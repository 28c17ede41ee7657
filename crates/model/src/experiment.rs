//! An experiment as plain data: conditions that are measured alternately, and which of them are compared.

use crate::watch::Level;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of conditions of an experiment.
pub const CONDITIONS_MAX: usize = 1024;

/// What is measured, and what is compared with what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// Name, such as `scheduler`.
    pub name: String,
    /// The question that it answers.
    pub question: String,
    /// The metric of effects.
    pub metric: Metric,
    /// The conditions, in the order of the report. Those of one cell follow each other, its baseline first.
    pub conditions: Vec<Condition>,
    /// Who published the results that it is compared with, and on which machine; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Names of the keys that make up its grid, the one along which curves are drawn last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<String>,
}

/// The metric of effects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// I/Os per second.
    #[default]
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Mean completion latency.
    Latency,
    /// CPU time per I/O.
    Cpu,
    /// Time until the work is done.
    Time,
}

impl Metric {
    /// All metrics with their names.
    pub const NAMES: [(&str, Self); 5] = [
        ("iops", Self::Iops),
        ("bandwidth", Self::Bandwidth),
        ("latency", Self::Latency),
        ("cpu", Self::Cpu),
        ("time", Self::Time),
    ];

    /// Its name in reports.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::Bandwidth => "bandwidth",
            Self::Latency => "mean latency",
            Self::Cpu => "CPU per I/O",
            Self::Time => "time",
        }
    }
}

/// One way to do the work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// Name of the variant, such as `mq-deadline`.
    pub name: String,
    /// Its place in the grid: a value for each of [`Experiment::axes`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cell: Vec<String>,
    /// What does the work.
    pub load: Load,
    /// The targets that it uses.
    #[serde(default)]
    pub targets: TargetUse,
    /// Settings of the machine, as `NAME=VALUE`, in effect while it is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// How much of the machine is sampled while it is measured.
    pub sampling: Level,
    /// Arrival rate in I/Os per second, as a share of its cell's peak without a rate limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_share: Option<f64>,
    /// Indices of the conditions to whose sum it is compared; empty for a baseline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<usize>,
    /// Index of the condition of which it is a repetition (A/A).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<usize>,
    /// A published result, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
}

impl Condition {
    /// Its name with its place in the grid.
    pub fn label(&self, axes: &[String]) -> String {
        let cell = axes.iter().zip(&self.cell).map(|(axis, value)| format!("{axis}={value}"));
        let name = Some(self.name.clone()).filter(|name| !name.is_empty());
        let parts: Vec<String> = name.into_iter().chain(cell).collect();
        parts.join(" ")
    }
}

/// What does the work of a condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// fathom's own workers, by fio's keys: `rw=randread`, `bs=4k`.
    Job(Vec<String>),
    /// A command line for the shell; the environment variable TARGET names the targets.
    Command(String),
}

impl Default for Load {
    fn default() -> Self {
        Self::Job(Vec::new())
    }
}

/// Which of the targets a condition uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetUse {
    /// All, each with workers of its own.
    #[default]
    Each,
    /// All, every worker on all of them.
    Shared,
    /// One, by its place on the command line.
    Only(usize),
}

/// A published result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// As published.
    pub text: String,
    /// The metric relative to the baseline's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
}

/// Change of a metric relative to the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// It rose.
    Higher,
    /// It fell.
    Lower,
    /// It did not change noticeably.
    Same,
}

/// How an experiment is measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Protocol {
    /// Time for all rounds, in seconds.
    pub seconds: f64,
    /// Measured time of a window, in nanoseconds.
    pub window_ns: u64,
    /// Time under load before it, in nanoseconds.
    pub ramp_ns: u64,
    /// Half-width of a sufficiently narrow interval, as a share: 0.01 is ±1%.
    pub precision: f64,
    /// Minimum number of rounds, if time permits.
    pub rounds_min: u32,
    /// Rounds at the start that do not count.
    pub rounds_warm: u32,
    /// Seed of the order of the conditions within each round.
    pub seed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_variant_and_cell() {
        let condition = Condition {
            name: "none".into(),
            cell: vec!["4k".into(), "16".into()],
            ..Condition::default()
        };
        assert_eq!(condition.label(&["bs".into(), "iodepth".into()]), "none bs=4k iodepth=16");
        assert_eq!(Condition::default().label(&[]), "");
    }
}
