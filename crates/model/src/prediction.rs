//! A machine as a file describes it, and what it would deliver.

use crate::topology::LinkMode;
use crate::units;
use crate::window::Rw;
use schemars::JsonSchema;
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// A machine: `docs/predict.md` describes the file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name; empty where the file gives none.
    #[serde(default)]
    pub name: String,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// Its CPUs.
    #[serde(default)]
    pub cpu: Cpus,
    /// Bytes per second that its memory takes beside other uses.
    #[serde(default)]
    pub memory: Option<Memory>,
    /// What disks share on the way to the CPUs: root complexes, ports, switches.
    #[serde(default, rename = "part")]
    pub parts: Vec<Part>,
    /// Its disks.
    #[serde(default, rename = "disk")]
    pub disks: Vec<Disks>,
    /// What to predict; the first is the default of options.
    #[serde(default, rename = "workload")]
    pub workloads: Vec<Workload>,
}

impl Machine {
    /// The name of the root complex that leads to a part; its own if it is one.
    pub fn root_of<'a>(&'a self, part: &'a Part) -> &'a str {
        let mut part = part;
        // No way is longer than there are parts.
        for _ in &self.parts {
            let above = self.parts.iter().find(|other| Some(&other.name) == part.on.as_ref());
            part = above.unwrap_or(part);
        }
        &part.name
    }
}

/// CPUs, and what I/Os cost there.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpus {
    /// Number of cores.
    #[serde(default)]
    pub cores: Option<u32>,
    /// Clock in GHz.
    #[serde(default)]
    pub clock_ghz: Option<Range>,
    /// Clock cycles per I/O of up to 16 KiB, on all CPUs together.
    #[serde(default)]
    pub cycles_per_io: Option<Range>,
    /// Where these figures come from.
    #[serde(default)]
    pub source: String,
}

/// Memory.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Bytes per second.
    pub bandwidth: Range,
    /// Where the figure comes from.
    #[serde(default)]
    pub source: String,
}

/// A part that disks share.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its name, unique.
    pub name: String,
    /// The part that it is attached to; none for a root complex.
    #[serde(default)]
    pub on: Option<String>,
    /// Its link.
    #[serde(default)]
    pub pcie: Option<PcieLink>,
    /// Bytes per second and direction that it carries, if that is not up to its link.
    #[serde(default)]
    pub bandwidth: Option<Range>,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
}

/// Disks of the same kind in the same place.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disks {
    /// Their name, unique.
    pub name: String,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// The part that they are attached to.
    #[serde(default)]
    pub on: Option<String>,
    /// The link of each.
    #[serde(default)]
    pub pcie: Option<PcieLink>,
    /// Random I/Os of up to 4 KiB per second of each.
    #[serde(default)]
    pub read_iops: Option<Range>,
    /// The same of writes.
    #[serde(default)]
    pub write_iops: Option<Range>,
    /// Bytes per second of large reads of each.
    #[serde(default)]
    pub read_bw: Option<Range>,
    /// The same of writes.
    #[serde(default)]
    pub write_bw: Option<Range>,
    /// Mean latency of one I/O alone, in microseconds.
    #[serde(default)]
    pub latency_us: Option<Range>,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
}

/// What is done to the disks: jobs enough that no disk waits for another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Kind of access.
    #[serde(default)]
    pub rw: Rw,
    /// Bytes of each I/O.
    #[serde(default = "four_kib", deserialize_with = "block_size")]
    pub bs: u64,
    /// Workers that submit, each on a CPU of its own; as many as cores if not given.
    #[serde(default)]
    pub workers: Option<u32>,
    /// I/Os in flight of each worker; enough if not given.
    #[serde(default)]
    pub iodepth: Option<u32>,
    /// Clock cycles per I/O of this kind, on all CPUs together, if those of the CPUs are for smaller ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles_per_io: Option<Range>,
    /// Clock cycles per I/O for which the I/O scheduler holds its lock, of which each disk has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_cycles: Option<Range>,
    /// What was measured, in I/Os per second or, for large I/Os, bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Range>,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            rw: Rw::default(),
            bs: four_kib(),
            workers: None,
            iodepth: None,
            cycles_per_io: None,
            scheduler_cycles: None,
            measured: None,
        }
    }
}

const fn one() -> u32 {
    1
}

const fn four_kib() -> u64 {
    4096
}

fn block_size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    let bytes = units::size_bytes(&text).filter(|bytes| (1..=1 << 30).contains(bytes));
    bytes.ok_or_else(|| D::Error::custom(format!("'{text}' is not a block size, such as \"4k\"")))
}

/// The largest figure of a machine: more than any has.
const FIGURE_MAX: f64 = 1e15;

/// A figure above 0 that is known to lie between two bounds: `7000M`, `1000k..1200k`, and `1000k..` for at least.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Range {
    /// Lower bound.
    pub low: f64,
    /// Upper bound; absent where there is none.
    #[serde(skip_serializing_if = "is_unbounded")]
    pub high: f64,
}

fn is_unbounded(high: &f64) -> bool {
    high.is_infinite()
}

impl Default for Range {
    fn default() -> Self {
        Self::exactly(f64::INFINITY)
    }
}

impl Range {
    /// A figure that is known.
    pub const fn exactly(value: f64) -> Self {
        Self { low: value, high: value }
    }

    /// Both bounds through a function that grows.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self { low: f(self.low), high: f(self.high) }
    }

    /// Both bounds with those of another, through a function that grows in both.
    pub fn with(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self { low: f(self.low, other.low), high: f(self.high, other.high) }
    }

    /// What lies between is this range's figure divided by the other's.
    pub fn divided_by(self, other: Self) -> Self {
        Self { low: self.low / other.high, high: self.high / other.low }
    }

    /// The lower of both.
    pub fn min(self, other: Self) -> Self {
        self.with(other, f64::min)
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let figure = |text: &str| {
            units::decimal(text.trim()).filter(|value| *value > 0.0 && *value <= FIGURE_MAX)
        };
        let range = match text.split_once("..") {
            Some((low, high)) if high.trim().is_empty() => {
                figure(low).map(|low| Self { low, high: f64::INFINITY })
            }
            Some((low, high)) => {
                figure(low).zip(figure(high)).map(|(low, high)| Self { low, high })
            }
            None => figure(text).map(Self::exactly),
        };
        range.filter(|range| range.low.is_finite() && range.low <= range.high).ok_or_else(|| {
            format!(
                "'{text}' is not a figure above 0 and up to {FIGURE_MAX:e}, such as 1000k, 7GB/s, or the bounds 1000k..1200k"
            )
        })
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Figure;
        impl Visitor<'_> for Figure {
            type Value = Range;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a figure such as 3.9, \"7GB/s\" or \"1000k..1200k\"")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Range, E> {
                self.visit_f64(value as f64)
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Range, E> {
                match value > FIGURE_MAX {
                    true => self.visit_str(&format!("{value:e}")),
                    false => self.visit_str(&value.to_string()),
                }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Range, E> {
                text.parse().map_err(E::custom)
            }
        }
        from.deserialize_any(Figure)
    }
}

/// Transfers per second and lane of PCIe's generations, in millions.
const PCIE_MTS: [u32; 6] = [2_500, 5_000, 8_000, 16_000, 32_000, 64_000];

/// Lanes of a link.
const LANES: [u32; 7] = [1, 2, 4, 8, 12, 16, 32];

/// A PCIe link, such as `4.0 x16`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PcieLink(pub LinkMode);

impl PcieLink {
    /// As in a file; empty for a speed that no generation of PCIe has, and without lanes.
    pub fn name(self) -> String {
        let generation = PCIE_MTS.iter().position(|speed| *speed == self.0.speed_mts);
        let generation = generation.filter(|_| LANES.contains(&self.0.lanes));
        generation.map_or_else(String::new, |at| format!("{}.0 x{}", at + 1, self.0.lanes))
    }
}

impl FromStr for PcieLink {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (generation, lanes) = text.split_once(['x', '×'])?;
            let generation = generation.trim();
            let generation: usize =
                generation.strip_suffix(".0").unwrap_or(generation).parse().ok()?;
            let speed_mts = *PCIE_MTS.get(generation.checked_sub(1)?)?;
            let lanes: u32 = lanes.trim().parse().ok()?;
            LANES.contains(&lanes).then_some(Self(LinkMode { speed_mts, lanes }))
        };
        parse().ok_or_else(|| format!("'{text}' is not a PCIe link, such as \"4.0 x4\""))
    }
}

impl<'de> Deserialize<'de> for PcieLink {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// What a machine would deliver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Prediction {
    /// Of what.
    pub workload: Workload,
    /// I/Os per second of all disks: from 0, without an upper bound, where no part with a known capacity limits them.
    pub iops: Range,
    /// Bytes per second of all disks.
    pub bytes_per_second: Range,
    /// What limits it: more than one where that depends on figures that are not known exactly.
    pub limited_by: Vec<String>,
    /// Every part with a known capacity: CPUs, memory, queue depth, then those on the way to disks, from the root.
    pub parts: Vec<PartLoad>,
    /// Changes that would yield more, the best first.
    pub next_steps: Vec<NextStep>,
    /// What the file does not say, so that no limit of it is known.
    pub unknown: Vec<String>,
}

/// What a part would carry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct PartLoad {
    /// The part.
    pub name: String,
    /// The part that it is attached to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// I/Os per second that it could sustain; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_iops: Option<Range>,
    /// I/Os per second that pass it; absent where the disks below it have no known limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<Range>,
    /// What sets the most.
    pub because: String,
    /// Where that comes from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
}

/// A change and what it would yield.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct NextStep {
    /// What to change.
    pub change: String,
    /// I/Os per second afterwards.
    pub iops: Range,
    /// What limits it then.
    pub limited_by: Vec<String>,
}
