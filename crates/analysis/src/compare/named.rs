//! Figures that a condition may name: those of the tables, any percentile, and every number of a result's JSON.

use super::MeasuredPart;
use super::measured::percentile_id;
use crate::metrics::{self, DISK, FigureUnit, JOB, MetricRow, PROCESS};
use fathom_model::list;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Names of the elements of arrays, the first that is there.
const NAMES: [&str; 4] = ["jobname", "name", "comm", "hostname"];
/// Shares of the I/Os in fio's JSON, in percent, by names that look like times.
const SHARES: [&str; 6] = [
    "latency_ns",
    "latency_us",
    "latency_ms",
    "iodepth_level",
    "iodepth_submit",
    "iodepth_complete",
];
/// Ends of the names of numbers, with their unit and what they are multiplied with.
const UNITS: &[(&str, FigureUnit, f64)] = &[
    ("bytes_per_second", FigureUnit::BytesPerSecond, 1.0),
    ("bytes_per_s", FigureUnit::BytesPerSecond, 1.0),
    ("bw_bytes", FigureUnit::BytesPerSecond, 1.0),
    ("per_second", FigureUnit::Rate, 1.0),
    ("per_s", FigureUnit::Rate, 1.0),
    ("_kbytes", FigureUnit::Bytes, 1024.0),
    ("bytes", FigureUnit::Bytes, 1.0),
    ("_ns", FigureUnit::Milliseconds, 1e-6),
    ("_ns_per_io", FigureUnit::Milliseconds, 1e-6),
    ("_us", FigureUnit::Milliseconds, 1e-3),
    ("_ms", FigureUnit::Milliseconds, 1.0),
    ("_ms_per_io", FigureUnit::Milliseconds, 1.0),
    ("runtime", FigureUnit::Milliseconds, 1.0),
    ("_ticks", FigureUnit::Milliseconds, 1.0),
    ("_cpu", FigureUnit::Percent, 1.0),
    ("_pct", FigureUnit::Percent, 1.0),
    ("util", FigureUnit::Percent, 1.0),
    ("iops", FigureUnit::Rate, 1.0),
    ("N", FigureUnit::Count, 1.0),
    ("_samples", FigureUnit::Count, 1.0),
];
/// The part of numbers that are in no array.
const WHOLE: &str = "result";
/// KiB per second in fio's JSON.
const KIB_PER_SECOND: [&str; 5] = ["bw", "bw_min", "bw_max", "bw_mean", "bw_dev"];

/// The numbers of a result's JSON.
#[derive(Debug, Clone, Default)]
pub struct Published(Vec<PublishedNumber>);

#[derive(Debug, Clone)]
struct PublishedNumber {
    /// The names, or else the places, of the elements of arrays that it is in.
    part: String,
    /// Its keys, with dots between them.
    path: String,
    value: f64,
}

/// What a condition names.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Named {
    /// Figures of the tables, or a percentile, by their ids.
    Ids(Vec<String>),
    /// The end of the path of numbers in the JSON.
    Path(String),
}

impl Published {
    pub fn of(json: &Value) -> Self {
        let mut all = Self::default();
        all.add("", "", json);
        all
    }

    fn add(&mut self, part: &str, path: &str, value: &Value) {
        match value {
            Value::Number(number) => {
                let usable = number.as_f64().filter(|value| value.is_finite() && *value >= 0.0);
                let (part, path) = (part.to_string(), path.to_string());
                self.0.extend(usable.map(|value| PublishedNumber { part, path, value }));
            }
            Value::Array(all) => {
                for (place, one) in all.iter().enumerate() {
                    let name = NAMES.iter().find_map(|key| one.get(key)?.as_str());
                    let place = (place + 1).to_string();
                    let name = name.unwrap_or(&place);
                    let part = if part.is_empty() { name.into() } else { format!("{part} {name}") };
                    self.add(&part, path, one);
                }
            }
            Value::Object(all) if !is_unused(all) => {
                for (key, one) in all {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    self.add(part, &path, one);
                }
            }
            _ => {}
        }
    }

    /// The numbers that `named` names: part, path, and the value in the unit of its figure.
    pub(super) fn matching(&self, named: &Named) -> impl Iterator<Item = (&str, &str, f64)> {
        let all = self.0.iter().filter(|one| named.is(&one.path));
        all.map(|one| (one.part.as_str(), one.path.as_str(), one.value * unit(&one.path).1))
    }

    /// The parts that its numbers are of.
    pub(super) fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|one| if one.part.is_empty() { WHOLE } else { one.part.as_str() })
    }

    /// All paths, and each without what it begins with.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|one| {
            let starts = one.path.match_indices('.').map(|(at, _)| at + 1);
            std::iter::once(0).chain(starts).filter_map(move |at| one.path.get(at..))
        })
    }
}

/// What fio prints of a direction without I/Os: its zeros are no results.
fn is_unused(object: &Map<String, Value>) -> bool {
    ["total_ios", "N"].iter().any(|key| object.get(*key).is_some_and(|n| n.as_f64() == Some(0.0)))
}

impl Named {
    /// `p99`, `await`, `clat.p99.9`, `read.clat_ns.max`.
    pub fn parse(name: &str) -> Self {
        if let Some(percent) = percent(name) {
            return Self::Ids(vec![percentile_id(percent)]);
        }
        let known = table_ids(name);
        if !known.is_empty() {
            return Self::Ids(known);
        }
        let lower = name.to_ascii_lowercase();
        let (of, percent) = match lower.rfind(".p").map(|at| (at, percent(&lower[at + 1..]))) {
            Some((at, Some(percent))) => (&name[..at], Some(percent)),
            _ => (name, None),
        };
        let latency = |key: &str| ["slat", "clat", "lat"].contains(&key);
        let long = |key: &str| if latency(key) { format!("{key}_ns") } else { key.to_string() };
        let keys: Vec<String> = of.split('.').map(long).collect();
        let is_short = of.rsplit('.').next().is_some_and(latency);
        let more = match percent {
            Some(percent) => format!(".percentile.{percent:.6}"),
            None if is_short => ".mean".to_string(),
            None => String::new(),
        };
        Self::Path(keys.join(".") + &more)
    }

    /// Whether it is the figure `id`, or one of these.
    pub fn is(&self, id: &str) -> bool {
        match self {
            Self::Ids(ids) => ids.iter().any(|one| one == id),
            Self::Path(path) => {
                let before = id.strip_suffix(path.as_str());
                before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
            }
        }
    }

    pub fn unit(&self) -> FigureUnit {
        match self {
            Self::Ids(ids) => ids.first().map_or(FigureUnit::Number, |id| unit(id).0),
            Self::Path(path) => unit(path).0,
        }
    }

    /// The percentile that it names.
    pub fn percent(&self) -> Option<f64> {
        match self {
            Self::Ids(ids) => ids.first().and_then(|id| percent_of(id)),
            Self::Path(path) => path.split_once("percentile.")?.1.parse().ok(),
        }
    }
}

/// `p95`, `p99.9`
fn percent(name: &str) -> Option<f64> {
    let digits = name.strip_prefix(['p', 'P'])?;
    let is_plain = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    digits.parse().ok().filter(|percent| is_plain && *percent > 0.0 && *percent <= 100.0)
}

/// The percentile that a figure is, if it is one.
pub(super) fn percent_of(id: &str) -> Option<f64> {
    match id {
        "p999_ms" => Some(99.9),
        _ => percent(id.strip_suffix("_ms")?),
    }
}

/// The figures of the tables by a name: the one in JSON, in text, or on the screen. A device has those of reads and of writes
/// by one name.
fn table_ids(name: &str) -> Vec<String> {
    let is = |one: &str| one.eq_ignore_ascii_case(name);
    let ids = |rows: Vec<MetricRow<()>>| -> Vec<String> {
        let named = |row: &&MetricRow<()>| is(row.id) || is(row.title) || is(row.label);
        rows.iter().filter(named).map(|row| row.id.to_string()).collect()
    };
    let tables: [Vec<MetricRow<()>>; 3] = [
        JOB.iter().map(MetricRow::nameplate).collect(),
        PROCESS.iter().map(MetricRow::nameplate).collect(),
        DISK.iter().map(MetricRow::nameplate).collect(),
    ];
    let found = tables.into_iter().map(ids).find(|ids: &Vec<String>| !ids.is_empty());
    found.unwrap_or_default()
}

/// The short names of a job's figures.
pub(super) fn job_names() -> impl Iterator<Item = String> {
    JOB.iter().map(|row| match row.title.contains(' ') {
        true => row.id.to_string(),
        false => row.title.to_lowercase(),
    })
}

/// These, and all names of programs' and devices' figures.
pub(super) fn table_names() -> Vec<String> {
    let others = PROCESS.iter().map(|row| [row.id, row.title, row.label]);
    let others = others.chain(DISK.iter().map(|row| [row.id, row.title, row.label]));
    list::distinct(job_names().chain(others.flatten().map(str::to_string)))
}

/// The unit of a figure, and what a number of the JSON is multiplied with to be in it: by the last of its keys that says so.
pub(super) fn unit(id: &str) -> (FigureUnit, f64) {
    let of = |key: &str| {
        if let Some(row) = metrics::named(key) {
            return Some((row.unit, 1.0));
        }
        if SHARES.contains(&key) {
            return Some((FigureUnit::Percent, 1.0));
        }
        if KIB_PER_SECOND.contains(&key) {
            return Some((FigureUnit::BytesPerSecond, 1024.0));
        }
        let found = UNITS.iter().find(|(end, ..)| match end.len() {
            1 => key == *end,
            _ => key.ends_with(end),
        });
        found.map(|(_, unit, factor)| (*unit, *factor))
    };
    id.rsplit('.').find_map(of).unwrap_or((FigureUnit::Number, 1.0))
}

/// The parts of a result with the figures that are asked for besides those that all have.
pub(super) fn asked(
    parts: &[MeasuredPart],
    published: &Published,
    wanted: &[&Named],
) -> Vec<MeasuredPart> {
    let mut parts = parts.to_vec();
    for named in wanted {
        if let Named::Ids(ids) = named {
            for part in parts.iter_mut().filter(|part| !part.latency.is_empty()) {
                let percent = named.percent();
                let value = percent.and_then(|percent| part.latency.percentile(percent));
                let value = ids.first().zip(value).map(|(id, ns)| (id.clone(), ns as f64 / 1e6));
                part.figures.extend(value);
            }
            continue;
        }
        let mut seen: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for (name, path, value) in published.matching(named) {
            let count = seen.entry((name, path)).or_default();
            *count += 1;
            let name = match (name, *count) {
                ("", _) => WHOLE.to_string(),
                (name, 1) => name.to_string(),
                (name, count) => format!("{name} ({count})"),
            };
            let place = parts.iter().position(|part| part.name == name).unwrap_or_else(|| {
                parts.push(MeasuredPart { name: name.clone(), ..MeasuredPart::default() });
                parts.len() - 1
            });
            parts[place].figures.insert(path.to_string(), value);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_figures() {
        let ids = |name: &str| match Named::parse(name) {
            Named::Ids(ids) => ids.join(" "),
            Named::Path(path) => format!("path {path}"),
        };
        for (name, expected) in [
            ("p99", "p99_ms"),
            ("p99.9", "p999_ms"),
            ("P95", "p95_ms"),
            ("p99.95", "p99.95_ms"),
            ("IOPS", "iops"),
            ("max", "max_ms"),
            ("await", "read_await_ms write_await_ms flush_await_ms discard_await_ms"),
            ("aqu-sz", "queue"),
            ("r_await", "read_await_ms"),
            ("util", "util_pct"),
            ("p101", "path p101"),
            ("usr_cpu", "path usr_cpu"),
            ("slat", "path slat_ns.mean"),
            ("read.clat.p99.9", "path read.clat_ns.percentile.99.900000"),
            ("read.clat_ns.max", "path read.clat_ns.max"),
        ] {
            assert_eq!(ids(name), expected, "{name}");
        }
    }

    #[test]
    fn units_follow_from_names() {
        use FigureUnit::{Bytes, BytesPerSecond, Count, Milliseconds, Number, Percent, Rate};
        for (path, expected) in [
            ("jobs.read.clat_ns.max", (Milliseconds, 1e-6)),
            ("jobs.read.clat_ns.percentile.99.900000", (Milliseconds, 1e-6)),
            ("jobs.read.clat_ns.N", (Count, 1.0)),
            ("jobs.read.bw_bytes", (BytesPerSecond, 1.0)),
            ("jobs.read.bw_mean", (BytesPerSecond, 1024.0)),
            ("jobs.read.io_bytes", (Bytes, 1.0)),
            ("jobs.usr_cpu", (Percent, 1.0)),
            ("jobs.latency_us.10", (Percent, 1.0)),
            ("jobs.ctx", (Number, 1.0)),
            ("jobs.read.iops_mean", (Number, 1.0)),
            ("report.targets.blocks.peak.iops.mean", (Rate, 1.0)),
            ("figures.machine.context_switches_per_s", (Rate, 1.0)),
            ("figures.devices.vda.read_await_ms", (Milliseconds, 1.0)),
            ("p99.95_ms", (Milliseconds, 1.0)),
        ] {
            assert_eq!(unit(path), expected, "{path}");
        }
    }

    #[test]
    fn numbers_of_json_have_parts_and_paths() {
        let json = json!({"jobs": [
            {"jobname": "a", "usr_cpu": 5.5, "read": {"total_ios": 9, "clat_ns": {"N": 9, "max": 2_000_000}},
             "write": {"total_ios": 0, "clat_ns": {"N": 0, "max": 0}}},
            {"jobname": "b", "usr_cpu": 7, "read": {"total_ios": 1, "clat_ns": {"N": 1, "max": 1}}},
        ], "list": [[1, -2]]});
        let published = Published::of(&json);
        let found = |name: &str| -> Vec<String> {
            let named = Named::parse(name);
            let all = published.matching(&named);
            all.map(|(part, path, value)| format!("{part}: {path} {value}")).collect()
        };
        assert_eq!(found("clat_ns.max")[0], "a: jobs.read.clat_ns.max 2");
        assert_eq!(found("clat_ns.max").len(), 2, "unused directions have no figures");
        assert_eq!(found("usr_cpu"), ["a: jobs.usr_cpu 5.5", "b: jobs.usr_cpu 7"]);
        assert_eq!(found("cpu"), Vec::<String>::new(), "only whole keys");
        assert_eq!(found("list"), ["1 1: list 1"]);
        assert!(published.names().any(|name| name == "clat_ns.max"));
    }
}
