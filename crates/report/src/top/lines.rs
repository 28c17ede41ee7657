//! The same figures as lines: in the columns of `dstat -tpcrmd`, as CSV, as NDJSON.

use super::TopView;
use crate::calendar;
use crate::json::Figures;
use crate::render::{milliseconds, number};
use crate::threads::GroupActivity;
use fathom_analysis::layers::LayerTimes;
use fathom_analysis::machine::{MachineRates, RingsRates};
use fathom_analysis::metrics::{FigureUnit, Interval};
use fathom_model::watch::{MachineSample, SamplerCost};
use serde::Serialize;
use std::collections::BTreeMap;

/// Columns with a title: the name, the width and the figure of each.
type Columns = (&'static str, &'static [(&'static str, usize, &'static str)]);

macro_rules! columns {
    ($title:literal: $($name:literal $width:literal $id:literal),*) => {
        ($title, &[$(($name, $width, $id)),*])
    };
}

const DSTAT: &[Columns] = &[
    columns! { "---procs---": "run" 3 "run", "blk" 3 "blocked", "new" 3 "new_per_s" },
    columns! { "------total-cpu-usage------": "usr" 3 "user_pct", "sys" 3 "system_pct", "idl" 3 "idle_pct",
    "wai" 3 "iowait_pct", "hiq" 3 "irq_pct", "siq" 3 "softirq_pct", "stl" 3 "steal_pct" },
    columns! { "--io/total-": "read" 5 "reads_per_s", "writ" 5 "writes_per_s" },
    columns! { "------memory-usage-----": "used" 5 "memory_used_bytes", "free" 5 "memory_free_bytes",
    "buff" 5 "memory_buffers_bytes", "cach" 5 "memory_cache_bytes" },
    columns! { "-dsk/total-": "read" 5 "read_bytes_per_s", "writ" 5 "write_bytes_per_s" },
    columns! { "--flushes--": "f/s" 5 "flushes_per_s", "await" 5 "flush_await_ms" },
];
/// Where hardware counters are available.
const COUNTED: Columns = columns! { "------pmu-----": "ipc" 4 "ipc", "GHz" 4 "busy_ghz",
"mpki" 4 "cache_misses_per_1000_instructions" };

pub fn plain_header(view: &TopView<'_>) -> String {
    let groups = columns(view);
    let titles = groups.iter().map(|(title, _)| *title).collect::<Vec<_>>();
    let (usual, counted) = titles.split_at(DSTAT.len());
    let counted: String = counted.iter().map(|title| format!("|{title}")).collect();
    let names = groups.iter().map(|(_, columns)| {
        let names = columns.iter().map(|(name, width, _)| format!("{name:>width$}"));
        names.collect::<Vec<_>>().join(" ")
    });
    let names = names.collect::<Vec<_>>().join("|");
    format!("--time-- {}{counted}\nHH:MM:SS|{names}\n", usual.join(" "))
}

/// The columns, which stay in an interval in which nothing was counted.
fn columns(view: &TopView<'_>) -> Vec<Columns> {
    let mut counters = view.now.counters.iter().flat_map(|counters| &counters.of);
    let counted = counters.any(|counted| counted.user.is_some()).then_some(COUNTED);
    DSTAT.iter().copied().chain(counted).collect()
}

/// One interval, with local time. CPU shares sum to 100, with nice time in user time; disk totals include each whole disk
/// once.
pub fn plain(view: &TopView<'_>) -> String {
    let figures: BTreeMap<&str, (FigureUnit, Option<f64>)> =
        view.interval().figures().map(|(id, unit, value)| (id, (unit, value))).collect();
    let value = |id: &str| figures.get(id).and_then(|(_, value)| *value).unwrap_or(0.0);
    let cells = |(_, columns): Columns| {
        let is_share =
            |id: &str| figures.get(id).is_some_and(|(unit, _)| *unit == FigureUnit::Percent);
        let share = |id: &str| value(id) + if id == "user_pct" { value("nice_pct") } else { 0.0 };
        let shares = columns.iter().filter(|(.., id)| is_share(id)).map(|(.., id)| share(id));
        let mut shares = whole(&shares.collect::<Vec<_>>()).into_iter();
        let cells = columns.iter().map(|(_, width, id)| {
            let text = match figures.get(id) {
                Some((FigureUnit::Percent, _)) => shares.next().unwrap_or_default().to_string(),
                Some((unit, Some(value))) => short(*unit, *value),
                _ => "-".into(),
            };
            format!("{text:>width$}")
        });
        cells.collect::<Vec<_>>().join(" ")
    };
    let cells: Vec<String> = columns(view).into_iter().map(cells).collect();
    let time = calendar::formatted_in(view.unix_ns, view.zone, "%H:%M:%S");
    format!("{time}|{}\n", cells.join("|"))
}

/// Integer percentages with the same sum as the shares, rounded by the largest remainder method.
fn whole(shares: &[f64]) -> Vec<u64> {
    let mut whole: Vec<u64> = shares.iter().map(|share| *share as u64).collect();
    let missing = (shares.iter().sum::<f64>().round() as u64).saturating_sub(whole.iter().sum());
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by(|a, b| shares[*b].fract().total_cmp(&shares[*a].fract()));
    order.into_iter().take(missing as usize).for_each(|index| whole[index] += 1);
    whole
}

/// A number in at most five characters: `0`, `0.4`, `812`, `12k`, `3.1M`.
fn short(unit: FigureUnit, value: f64) -> String {
    let base = match unit {
        FigureUnit::Number => return number(value),
        FigureUnit::Milliseconds => return milliseconds(value),
        FigureUnit::Bytes | FigureUnit::BytesPerSecond => 1024.0,
        _ => 1000.0,
    };
    let mut value = value;
    let mut suffixes = ["", "k", "M", "G", "T", "P", "E"].iter();
    let mut suffix = suffixes.next().copied().unwrap_or_default();
    while value >= f64::min(base, 999.5) {
        let Some(next) = suffixes.next() else { break };
        value /= base;
        suffix = next;
    }
    match value {
        0.0 => "0".into(),
        v if v >= 9.95 || (suffix.is_empty() && v.fract() == 0.0) => format!("{v:.0}{suffix}"),
        v => format!("{v:.1}{suffix}"),
    }
}

/// The first columns of CSV after the time, whose order never changes; others follow in the order of the table.
const CSV_FIRST: &str = "run,blocked,new_per_s,user_pct,nice_pct,system_pct,idle_pct,iowait_pct,\
    irq_pct,softirq_pct,steal_pct,context_switches_per_s,interrupts_per_s,memory_used_bytes,\
    memory_free_bytes,memory_buffers_bytes,memory_cache_bytes,dirty_bytes,writeback_bytes,\
    stalled_cpu_pct,stalled_memory_pct,stalled_io_pct,reads_per_s,writes_per_s,read_bytes_per_s,\
    write_bytes_per_s,read_await_ms,write_await_ms,flushes_per_s,flush_await_ms,queue,in_flight,\
    instructions_per_s,cycles_per_s,ipc,ipc_user,ipc_kernel,busy_ghz,cache_references_per_s,\
    cache_misses_per_s,cache_misses_per_1000_instructions,counted_pct,instructions_per_io,\
    cycles_per_io";

fn in_csv_order(interval: &Interval<'_>) -> Vec<(&'static str, Option<f64>)> {
    let mut figures: Vec<_> = interval.figures().map(|(id, _, value)| (id, value)).collect();
    let first: Vec<&str> = CSV_FIRST.split(',').collect();
    figures.sort_by_key(|(id, _)| first.iter().position(|of| of == id).unwrap_or(first.len()));
    figures
}

pub fn csv_header() -> String {
    let (machine, rates) = (MachineSample::default(), MachineRates::default());
    let nothing = Interval { before: &machine, now: &machine, rates: &rates };
    let names: Vec<&str> = in_csv_order(&nothing).into_iter().map(|(id, _)| id).collect();
    format!("time,unix_s,{}\n", names.join(","))
}

/// One interval of the whole machine; a value that is not available is empty.
pub fn csv(view: &TopView<'_>) -> String {
    let number = |value: f64| {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    };
    let values = in_csv_order(&view.interval()).into_iter();
    let values: Vec<String> =
        values.map(|(_, value)| value.map(number).unwrap_or_default()).collect();
    let unix_s = view.unix_ns as f64 / 1e9;
    format!("{},{unix_s:.3},{}\n", iso(view.unix_ns), values.join(","))
}

/// An instant in RFC 3339 format, in UTC: `2026-11-21T19:53:12Z`.
fn iso(unix_ns: u64) -> String {
    calendar::formatted(unix_ns, "%Y-%m-%dT%H:%M:%SZ")
}

#[derive(Serialize)]
struct IntervalLine<'a> {
    time: String,
    unix_ns: u64,
    figures: Figures,
    #[serde(flatten)]
    rates: &'a MachineRates,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    threads: Vec<GroupActivity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layers: Option<LayerTimes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rings: Option<RingsRates>,
    cost: &'a [SamplerCost],
}

pub fn ndjson(view: &TopView<'_>) -> serde_json::Result<String> {
    let groups = super::threads::groups(view, super::Grouping::Activity).unwrap_or_default();
    let whole = IntervalLine {
        time: iso(view.unix_ns),
        unix_ns: view.unix_ns,
        figures: Figures::of(&view.interval()),
        rates: view.rates,
        threads: GroupActivity::of(&groups),
        layers: view.now.stacks.as_ref().map(|_| super::layers::times(view, |_| true)),
        rings: view.interval().rings(),
        cost: &view.now.cost,
    };
    serde_json::to_string(&whole).map(|text| text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_percentages_sum_to_100() {
        assert_eq!(whole(&[33.4, 33.3, 33.3]), [34, 33, 33]);
        assert_eq!(whole(&[0.5, 0.5, 99.0]), [1, 0, 99]);
        assert_eq!(whole(&[0.0; 7]), [0; 7]);
        assert_eq!(whole(&[100.0, 0.0]), [100, 0]);
    }

    #[test]
    fn numbers_fit_five_characters() {
        let of = |value| short(FigureUnit::Bytes, value);
        assert_eq!(
            ["0", "0.4", "812", "1.0k"],
            [of(0.0), of(0.4), of(812.0), of(1024.0)].map(|s| s)
        );
        assert_eq!(["9.9k", "12k", "977k"], [of(10_137.0), of(12_288.0), of(1_000_448.0)]);
        assert_eq!(short(FigureUnit::Rate, 999.6), "1.0k");
        assert_eq!(short(FigureUnit::Rate, 1e21), "1000E");
    }
}
