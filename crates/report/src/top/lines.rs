//! The same figures as lines: in the columns of `dstat -tpcrmd`, as CSV, as NDJSON.

use super::View;
use crate::calendar;
use fathom_analysis::layers::LayerTimes;
use fathom_analysis::machine::{CpuShares, MachineRates, RingsRates, SystemRates, Work};
use fathom_model::watch::SamplerCost;
use serde::Serialize;
use std::collections::BTreeMap;

const TITLE: &str = "--time-- ---procs--- ------total-cpu-usage------ --io/total- \
    ------memory-usage----- -dsk/total- --flushes--\n\
    HH:MM:SS|run blk new|usr sys idl wai hiq siq stl| read  writ| used  free  buff  cach| read  writ|  f/s await\n";

/// Additional columns where hardware counters are available.
const COUNTED: [&str; 2] = ["|------pmu-----", "| ipc  GHz mpki"];

/// The header lines of [`plain`].
#[must_use]
pub fn plain_header(view: &View<'_>) -> String {
    let more = if counted(view).is_some() { COUNTED } else { [""; 2] };
    TITLE.lines().zip(more).map(|(title, more)| format!("{title}{more}\n")).collect()
}

/// One interval, with local time. CPU shares sum to 100; disk totals include each whole disk once.
#[must_use]
pub fn plain(view: &View<'_>) -> String {
    format!("{}{}\n", dstat(view), counted(view).unwrap_or_default())
}

/// IPC, clock frequency while busy, cache misses per 1000 instructions (MPKI).
fn counted(view: &View<'_>) -> Option<String> {
    // The columns stay in an interval in which nothing was counted.
    view.now.counters.as_ref()?.of.iter().find_map(|counted| counted.user)?;
    let work = view.rates.counters.as_ref().map(|counters| counters.all).unwrap_or_default();
    let ratio = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
    let mpki =
        work.cache_mpki.map_or("-".into(), |value| short((value * 10.0).round() / 10.0, 1000.0));
    Some(format!("|{:>4} {:>4} {mpki:>4}", ratio(work.ipc.all), ratio(work.ghz)))
}

fn dstat(view: &View<'_>) -> String {
    let none = SystemRates::default();
    let system = view.rates.system.as_ref().unwrap_or(&none);
    let [user, kernel, idle, wait, irq, softirq, steal] = whole(dstat_shares(&system.cpu));
    let disks = &view.rates.disks_total;
    let memory = &system.memory;
    let count = |value: f64| short(value, 1000.0);
    let bytes = |value: f64| short(value, 1024.0);
    let time = calendar::formatted_in(view.unix_ns, view.zone, "%H:%M:%S");
    format!(
        "{time}|{:>3} {:>3} {:>3}|{user:>3} {kernel:>3} {idle:>3} {wait:>3} {irq:>3} {softirq:>3} \
         {steal:>3}|{:>5} {:>5}|{:>5} {:>5} {:>5} {:>5}|{:>5} {:>5}|{:>5} {:>5}",
        count(system.ready.into()),
        count(system.blocked.into()),
        short(system.forks.round(), 1000.0),
        count(disks.read.ios),
        count(disks.write.ios),
        bytes(memory.used as f64),
        bytes(memory.free as f64),
        bytes(memory.buffers as f64),
        bytes(memory.cache as f64),
        bytes(disks.read.bytes),
        bytes(disks.write.bytes),
        count(disks.flush.ios),
        disks.flush.wait_ms.map_or("-".into(), milliseconds),
    )
}

/// Milliseconds in at most five characters up to 99999: `0.314`, `12.3`.
fn milliseconds(ms: f64) -> String {
    match ms {
        100.0.. => format!("{ms:.0}"),
        10.0.. => format!("{ms:.1}"),
        _ => format!("{ms:.3}"),
    }
}

/// In dstat's order, with nice time in user time; irq, softirq and steal time have columns of their own.
fn dstat_shares(cpu: &CpuShares) -> [f64; 7] {
    [cpu.user + cpu.nice, cpu.system, cpu.idle, cpu.iowait, cpu.irq, cpu.softirq, cpu.steal]
}

/// IntervalLine percentages with the same sum as the shares, rounded by the largest remainder method.
fn whole<const N: usize>(shares: [f64; N]) -> [u64; N] {
    let mut whole = shares.map(|share| share as u64);
    let missing = (shares.iter().sum::<f64>().round() as u64).saturating_sub(whole.iter().sum());
    let mut order: Vec<usize> = (0..N).collect();
    order.sort_by(|a, b| shares[*b].fract().total_cmp(&shares[*a].fract()));
    order.into_iter().take(missing as usize).for_each(|index| whole[index] += 1);
    whole
}

/// A number in at most five characters: `0`, `0.4`, `812`, `12k`, `3.1M`.
fn short(value: f64, base: f64) -> String {
    let mut value = value;
    let mut suffixes = ["", "k", "M", "G", "T", "P", "E"].iter();
    let mut suffix = suffixes.next().copied().unwrap_or_default();
    while value >= base.min(999.5) {
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

/// A CSV column: its name and its value, `None` where not available.
type Field = (&'static str, fn(&MachineRates) -> Option<f64>);

/// The columns after the time.
const FIELDS: &[Field] = &[
    ("run", |r| system(r, |s| s.ready.into())),
    ("blocked", |r| system(r, |s| s.blocked.into())),
    ("new_per_s", |r| system(r, |s| s.forks)),
    ("user_pct", |r| system(r, |s| s.cpu.user)),
    ("nice_pct", |r| system(r, |s| s.cpu.nice)),
    ("system_pct", |r| system(r, |s| s.cpu.system)),
    ("idle_pct", |r| system(r, |s| s.cpu.idle)),
    ("iowait_pct", |r| system(r, |s| s.cpu.iowait)),
    ("irq_pct", |r| system(r, |s| s.cpu.irq)),
    ("softirq_pct", |r| system(r, |s| s.cpu.softirq)),
    ("steal_pct", |r| system(r, |s| s.cpu.steal)),
    ("context_switches_per_s", |r| system(r, |s| s.context_switches)),
    ("interrupts_per_s", |r| system(r, |s| s.interrupts)),
    ("memory_used_bytes", |r| system(r, |s| s.memory.used as f64)),
    ("memory_free_bytes", |r| system(r, |s| s.memory.free as f64)),
    ("memory_buffers_bytes", |r| system(r, |s| s.memory.buffers as f64)),
    ("memory_cache_bytes", |r| system(r, |s| s.memory.cache as f64)),
    ("dirty_bytes", |r| system(r, |s| s.memory.dirty as f64)),
    ("writeback_bytes", |r| system(r, |s| s.memory.writeback as f64)),
    ("stalled_cpu_pct", |r| r.system.as_ref()?.pressure.map(|p| p.cpu.some)),
    ("stalled_memory_pct", |r| r.system.as_ref()?.pressure.map(|p| p.memory.some)),
    ("stalled_io_pct", |r| r.system.as_ref()?.pressure.map(|p| p.io.some)),
    ("reads_per_s", |r| Some(r.disks_total.read.ios)),
    ("writes_per_s", |r| Some(r.disks_total.write.ios)),
    ("read_bytes_per_s", |r| Some(r.disks_total.read.bytes)),
    ("write_bytes_per_s", |r| Some(r.disks_total.write.bytes)),
    ("read_await_ms", |r| r.disks_total.read.wait_ms),
    ("write_await_ms", |r| r.disks_total.write.wait_ms),
    ("flushes_per_s", |r| Some(r.disks_total.flush.ios)),
    ("flush_await_ms", |r| r.disks_total.flush.wait_ms),
    ("queue", |r| Some(r.disks_total.queue)),
    ("in_flight", |r| Some(r.disks_total.in_flight as f64)),
    ("instructions_per_s", |r| work(r)?.instructions),
    ("cycles_per_s", |r| work(r)?.cycles),
    ("ipc", |r| work(r)?.ipc.all),
    ("ipc_user", |r| work(r)?.ipc.user),
    ("ipc_kernel", |r| work(r)?.ipc.kernel),
    ("busy_ghz", |r| work(r)?.ghz),
    ("cache_references_per_s", |r| work(r)?.cache_references),
    ("cache_misses_per_s", |r| work(r)?.cache_misses),
    ("cache_misses_per_1000_instructions", |r| work(r)?.cache_mpki),
    ("counted_pct", |r| work(r)?.counted),
    ("instructions_per_io", |r| work(r)?.per_io?.instructions),
    ("cycles_per_io", |r| work(r)?.per_io?.cycles),
];

fn work(rates: &MachineRates) -> Option<&Work> {
    rates.counters.as_ref().map(|counters| &counters.all)
}

fn system(rates: &MachineRates, of: impl Fn(&SystemRates) -> f64) -> Option<f64> {
    rates.system.as_ref().map(of)
}

/// The header line of [`csv`].
#[must_use]
pub fn csv_header() -> String {
    let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
    format!("time,unix_s,{}\n", names.join(","))
}

/// One interval of the whole machine; a value that is not available is empty.
#[must_use]
pub fn csv(view: &View<'_>) -> String {
    let number = |value: f64| {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    };
    let values = FIELDS.iter().map(|(_, of)| of(view.rates).map(number).unwrap_or_default());
    let values: Vec<String> = values.collect();
    let unix_s = view.unix_ns as f64 / 1e9;
    format!("{},{unix_s:.3},{}\n", iso(view.unix_ns), values.join(","))
}

/// An instant in RFC 3339 format, in UTC: `2026-11-21T19:53:12Z`.
fn iso(unix_ns: u64) -> String {
    calendar::formatted(unix_ns, "%Y-%m-%dT%H:%M:%SZ")
}

/// One line of NDJSON.
#[derive(Serialize)]
struct IntervalLine<'a> {
    time: String,
    unix_ns: u64,
    #[serde(flatten)]
    rates: &'a MachineRates,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    threads: Vec<ThreadActivity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layers: Option<LayerTimes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rings: Option<RingsRates>,
    cost: &'a [SamplerCost],
}

/// Activity shared by a number of threads.
#[derive(Serialize)]
struct ThreadActivity {
    /// Mean number of active threads.
    active: f64,
    /// Number of distinct threads.
    threads: usize,
    /// Their common values, by column name.
    #[serde(flatten)]
    by: BTreeMap<&'static str, String>,
}

/// One interval as an object on one line.
///
/// # Errors
/// Passed on from the serializer; none are expected.
pub fn ndjson(view: &View<'_>) -> serde_json::Result<String> {
    let groups = super::threads::groups(view, super::Grouping::Activity).unwrap_or_default();
    let names = || groups.columns().iter().map(|column| column.name());
    let threads = groups.largest_first().into_iter().map(|group| ThreadActivity {
        active: group.average,
        threads: group.threads,
        by: names().zip(group.values).collect(),
    });
    let whole = IntervalLine {
        time: iso(view.unix_ns),
        unix_ns: view.unix_ns,
        rates: view.rates,
        threads: threads.collect(),
        layers: view.now.stacks.as_ref().map(|_| super::layers::times(view, |_| true)),
        rings: super::rings::rates(view),
        cost: &view.now.cost,
    };
    serde_json::to_string(&whole).map(|text| text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_percentages_sum_to_100() {
        assert_eq!(whole([33.4, 33.3, 33.3]), [34, 33, 33]);
        assert_eq!(whole([0.5, 0.5, 99.0]), [1, 0, 99]);
        assert_eq!(whole([0.0; 7]), [0; 7]);
        assert_eq!(whole([100.0, 0.0]), [100, 0]);
    }

    #[test]
    fn numbers_fit_five_characters() {
        let of = |value| short(value, 1024.0);
        assert_eq!(
            ["0", "0.4", "812", "1.0k"],
            [of(0.0), of(0.4), of(812.0), of(1024.0)].map(|s| s)
        );
        assert_eq!(["9.9k", "12k", "977k"], [of(10_137.0), of(12_288.0), of(1_000_448.0)]);
        assert_eq!(short(999.6, 1000.0), "1.0k");
        assert_eq!(short(1e21, 1000.0), "1000E");
    }
}
