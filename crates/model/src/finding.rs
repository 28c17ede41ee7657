//! Findings: what a record means, with the evidence.

use crate::experiment::Metric;
use crate::units;
use crate::window::Ratio;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One statement about a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable id of the rule, such as `sparse-target`; docs/rules.md lists them.
    pub rule: String,
    /// What kind of statement it is; records of version 1 do not hold it.
    #[serde(default)]
    pub class: Class,
    /// How much it matters.
    pub severity: Severity,
    /// How strongly the evidence supports it, where the rule is a heuristic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// Its place in the verdict, from 1: the answer to what limited the workload. Other findings have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The part of the workload's time that a limiter of the verdict explains, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_explained: Option<f64>,
    /// The part of a search or of an experiment that it is about, if not the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// What limits the workload or that part, in a few words, such as `the I/O scheduler`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// One or two sentences.
    pub summary: String,
    /// The figures that support it.
    pub evidence: Vec<Evidence>,
    /// Figures that speak against it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counter_evidence: Vec<Evidence>,
    /// What to do about it, where something can be done.
    pub next_step: Option<String>,
    /// A command line for a shell that takes the next step, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_command: Option<String>,
    /// What the remedy gains at most, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_gain: Option<ExpectedGain>,
    /// What an experiment showed about it, if it was tested (`--confirm`, `fathom confirm`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<Confirmed>,
}

impl Finding {
    /// Whether it is part of the verdict: what limited the workload, or that nothing is known to have.
    pub fn is_verdict(&self) -> bool {
        self.rank.is_some()
    }

    /// Whether it is a cause in the verdict of a run or an observation, not only the statement that none was found.
    pub fn is_cause(&self) -> bool {
        self.is_verdict() && self.share_explained.is_some()
    }

    /// Whether an experiment showed that it did not limit the workload.
    pub fn is_refuted(&self) -> bool {
        self.confirmed.as_ref().is_some_and(|found| found.verdict == ConfirmedVerdict::Refuted)
    }

    /// What limits, in a few words; of records before this was stored, the rule's id.
    pub fn limiter(&self) -> &str {
        self.limited_by.as_deref().unwrap_or(&self.rule)
    }
}

/// A part of a search or of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Part {
    /// A kind of I/O at its peak.
    Peak {
        /// Index of the target.
        target: usize,
        /// Index of the kind of I/O.
        block: usize,
    },
    /// A kind of I/O with a single worker.
    OneWorker {
        /// Index of the target.
        target: usize,
        /// Index of the kind of I/O.
        block: usize,
    },
    /// A variant.
    Condition {
        /// Its index.
        index: usize,
    },
}

/// What a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// The whole machine.
    Machine,
    /// A block device.
    Device {
        /// Its kernel name.
        name: String,
    },
    /// CPUs.
    Cpus {
        /// Their numbers.
        cpus: Vec<u32>,
    },
    /// A cgroup.
    Cgroup {
        /// Its path below the root of cgroups.
        path: String,
    },
    /// A process, or a program of several.
    Process {
        /// Its name, as the kernel cuts it off.
        comm: String,
        /// Its PID, where it is one process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<i32>,
    },
    /// Threads of a program that do the same.
    ThreadGroup {
        /// Their name, with `*` for digits.
        comm: String,
        /// The function of the kernel in which they wait; empty where they do not.
        wchan: String,
    },
    /// A job of a run.
    Job {
        /// Its name.
        name: String,
    },
}

impl Subject {
    /// The block device `name`.
    pub fn device(name: &str) -> Self {
        Self::Device { name: name.to_string() }
    }
}

/// What a remedy gains at most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectedGain {
    /// Throughput without what limits it, relative to that with it, if nothing else limits it then.
    pub throughput_ratio_max: f64,
}

/// What an experiment showed about a limiter: the jobs with one thing changed, compared with the same jobs unchanged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confirmed {
    /// What it showed.
    pub verdict: ConfirmedVerdict,
    /// The metric that was compared.
    pub metric: Metric,
    /// The metric with the change relative to that without, and its 95% interval; absent if nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Ratio>,
    /// What was changed, such as `doubling the queue depth`; empty if nothing was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub experiment: String,
    /// Why it is inconclusive, or was not tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Confirmed {
    /// A limiter that cannot be tested, and why.
    pub fn not_tested(reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..Self::default() }
    }
}

/// What an experiment showed about a limiter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmedVerdict {
    /// What the limiter predicts happened.
    Confirmed,
    /// The opposite did.
    Refuted,
    /// Neither can be claimed.
    Inconclusive,
    /// Nothing was measured.
    #[default]
    NotTested,
}

/// What kind of statement a finding is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Whether the figures can be trusted, and mean what they appear to mean.
    #[default]
    Validity,
    /// Something that limited throughput or latency.
    Limiter,
    /// Something that could be set up better.
    Advice,
}

/// How much a finding matters; ordered, worst last.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Background information.
    #[default]
    Info,
    /// The figures may be misleading.
    Warning,
    /// Something requested was not done.
    Error,
}

/// How strongly the evidence supports a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Plausible; other explanations are just as likely.
    Low,
    /// Likely; another explanation is possible.
    Medium,
    /// No other explanation is known.
    High,
}

/// One figure or fact that supports a finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "StoredEvidence")]
pub struct Evidence {
    /// What the value is of, such as `load average`; empty where the text speaks for itself.
    pub name: String,
    /// The value.
    pub value: Value,
    /// 95% confidence interval of a number, or its range if `name` states it, in the number's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// Where the value comes from, such as `/proc/loadavg`; empty for the job's own counters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
}

/// The value of an [`Evidence`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// A finite number.
    Number {
        /// The number.
        number: f64,
        /// Its unit.
        unit: Unit,
    },
    /// Anything else.
    Text(String),
}

/// Unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A number of things, or a mean of such numbers.
    Count,
    /// A share of a whole, from 0 to 1.
    Share,
    /// A factor; 1 is no change.
    Ratio,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// I/Os per second.
    Iops,
    /// Bytes per second.
    BytesPerSecond,
}

impl Evidence {
    /// A number; one that is not finite becomes the text `not available`, as JSON cannot hold it.
    pub fn number(name: impl Into<String>, number: f64, unit: Unit) -> Self {
        if !number.is_finite() {
            return Self::text(name, "not available");
        }
        Self { value: Value::Number { number, unit }, ..Self::text(name, "") }
    }

    /// A fact in words.
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: Value::Text(text.into()),
            interval: None,
            source: String::new(),
        }
    }

    /// The same with an interval, which is left out where it is not finite.
    pub fn with_interval(mut self, low: f64, high: f64) -> Self {
        self.interval = (low.is_finite() && high.is_finite()).then_some((low, high));
        self
    }

    /// The same with its source.
    pub fn with_source(mut self, source: &str) -> Self {
        self.source = source.to_string();
        self
    }
}

/// A short phrase: `load average: 5.4`, `IOPS: 75 (50–100)`.
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "{}: ", self.name)?;
        }
        match &self.value {
            Value::Text(text) => f.write_str(text),
            Value::Number { number, unit } => {
                f.write_str(&unit.show(*number))?;
                let Some((low, high)) = self.interval else { return Ok(()) };
                write!(f, " ({}–{})", unit.show(low), unit.show(high))
            }
        }
    }
}

impl Unit {
    fn show(self, number: f64) -> String {
        match self {
            Self::Count => units::count((number * 100.0).round() / 100.0),
            Self::Share => format!("{}%", units::count((number * 10_000.0).round() / 100.0)),
            Self::Ratio => format!("{number:.3}×"),
            Self::Bytes => units::bytes(number.max(0.0) as u64),
            Self::Nanoseconds => units::time(number),
            Self::Iops => units::count(number),
            Self::BytesPerSecond => units::bandwidth(number),
        }
    }
}

/// Evidence in the formats that records hold: text only in version 1.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum StoredEvidence {
    /// Version 1: a short phrase.
    Text(String),
    /// From version 2 on.
    Typed {
        /// What the value is of, such as `load average`; empty where the text speaks for itself.
        name: String,
        /// The value.
        value: Value,
        /// 95% confidence interval of a number, or its range if `name` states it, in the number's unit.
        #[serde(default)]
        interval: Option<(f64, f64)>,
        /// Where the value comes from, such as `/proc/loadavg`; empty for the job's own counters.
        #[serde(default)]
        source: String,
    },
}

impl From<StoredEvidence> for Evidence {
    fn from(stored: StoredEvidence) -> Self {
        match stored {
            StoredEvidence::Text(text) => Self::text("", text),
            StoredEvidence::Typed { name, value, interval, source } => {
                Self { name, value, interval, source }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_findings_remain_readable() {
        let stored = r#"{"rule":"busy-machine","severity":"info","summary":"The machine was not idle.",
            "evidence":["load 5.4 on 2 processors"],"next_step":null}"#;
        let finding: Finding = serde_json::from_str(stored).unwrap();
        assert_eq!(finding.evidence, [Evidence::text("", "load 5.4 on 2 processors")]);
        assert_eq!(finding.evidence[0].to_string(), "load 5.4 on 2 processors");
        assert_eq!((finding.class, finding.confidence), (Class::Validity, None));
    }

    #[test]
    fn typed_evidence_survives_storage() {
        let all = [
            Evidence::number("load average", 5.4, Unit::Count).with_source("/proc/loadavg"),
            Evidence::number("IOPS", 75.0, Unit::Iops).with_interval(50.0, 100.0),
            Evidence::number("steal", f64::NAN, Unit::Share).with_interval(0.0, f64::INFINITY),
        ];
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Evidence>>(&text).unwrap(), all);
        assert!(text.contains(r#""value":{"number":5.4,"unit":"count"}"#), "{text}");
        let phrases: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(phrases, ["load average: 5.4", "IOPS: 75 (50–100)", "steal: not available"]);
    }

    #[test]
    fn each_unit_has_its_notation() {
        let show = |unit, number| Evidence::number("", number, unit).to_string();
        assert_eq!(show(Unit::Share, 0.0004), "0.04%");
        assert_eq!(show(Unit::Ratio, 0.9704), "0.970×");
        assert_eq!(show(Unit::Bytes, 4096.0), "4 KiB");
        assert_eq!(show(Unit::Nanoseconds, 1.5e9), "1.5 s");
        assert_eq!(show(Unit::BytesPerSecond, 1024.0), "1 KiB/s");
    }
}
