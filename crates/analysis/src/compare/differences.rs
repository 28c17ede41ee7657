//! What differs between results: plans and facts as flat lists of named values.

use super::named::unit;
use super::{ComparedFigure, Comparison, Difference, FigureVerdict, Measured};
use crate::metrics::FigureUnit;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Values by name. Those of an array are together, one after the other.
pub type Values = BTreeMap<String, Vec<String>>;

/// Maximum number of values printed.
const SHOWN: usize = 8;

/// What a setting affects: IOPS, bandwidth, latency, CPU time.
const I: u8 = 1;
const B: u8 = 2;
const L: u8 = 4;
const C: u8 = 8;
const ALL: u8 = I | B | L | C;
/// Their names.
const AFFECTED: [(u8, &str); 4] = [(I, "IOPS"), (B, "bandwidth"), (L, "latency"), (C, "CPU time")];

/// Facts known to matter for figures, first ones first: the end of their path, their name, which figures they affect, and how.
const KNOWN: &[(&str, &str, u8, &str)] = &[
    ("host.kernel", "kernel", ALL, "another I/O path"),
    ("targets.device.model", "disk model", I | B | L, "another disk"),
    ("targets.device.serial", "disk serial number", I | B | L, "another disk"),
    ("targets.device.firmware", "disk firmware", I | B | L, "how the disk works"),
    ("targets.device.driver", "disk driver", ALL, "the path to the disk"),
    ("targets.device.scheduler", "I/O scheduler", I | L | C, "its lock, and the order of requests"),
    ("targets.device.nr_requests", "nr_requests", I | B | L, "requests in the queue"),
    ("targets.device.driver_tags", "driver tags", I | B | L, "requests at the device"),
    (
        "targets.device.queue_depth",
        "queue depth of the SCSI device",
        I | B | L,
        "requests at the device",
    ),
    ("targets.device.hardware_queues", "hardware queues", I | L | C, "CPUs that share a queue"),
    ("targets.device.write_cache", "write cache", I | B | L, "when a write is complete"),
    ("targets.device.wbt_lat_usec", "wbt_lat_usec", B | L, "throttles writeback"),
    ("targets.device.io_poll", "poll queues", I | L | C, "polling in place of interrupts"),
    ("targets.device.max_sectors_kb", "max_sectors_kb", B | C, "splits large requests"),
    ("pci/current_link_speed", "PCIe link speed", B, "most that the link carries"),
    ("pci/current_link_width", "PCIe link width", B, "most that the link carries"),
    ("targets.file_system", "file system", ALL, "another path to the disk"),
    ("mounts.options", "mount options", I | B | L, "journal, barriers, discards"),
    ("queue/read_ahead_kb", "read_ahead_kb", I | B, "how far buffered reads are ahead"),
    ("queue/nomerges", "nomerges", I | B | C, "merging of requests"),
    ("queue/rq_affinity", "rq_affinity", L | C, "the CPU that completes requests"),
    ("queue/iostats", "iostats", C, "accounting of each request"),
    ("scaling_governor", "cpufreq governor", I | L | C, "clock of the CPUs"),
    ("cpufreq/boost", "CPU boost", I | L | C, "clock of the CPUs"),
    ("intel_pstate/no_turbo", "no_turbo", I | L | C, "clock of the CPUs"),
    ("host.cpu_model", "CPU model", I | L | C, "another CPU"),
    ("host.cpus_allowed", "CPUs", I | B, "CPUs to submit and complete on"),
    ("host.cpus_online", "CPUs online", I | B, "CPUs to submit and complete on"),
    ("host.virtualization", "virtualization", ALL, "exits to the hypervisor"),
    ("host.memory_bytes", "memory in bytes", I | B | L, "what the page cache holds"),
    (
        "host.cgroup_memory_max_bytes",
        "memory limit of the cgroup, in bytes",
        I | B | L,
        "what the page cache holds",
    ),
    ("host.clocksource", "clock source", C, "cost of each clock read"),
    ("targets.size_bytes", "size of the target in bytes", I | B | L, "what caches hold of it"),
    ("sparse targets", "sparse targets", I | B | L, "holes are not read from the disk"),
    ("interrupts.cpus", "interrupt CPUs", I | L, "the CPU that completes requests"),
    ("fathom version", "fathom version", I | L | C, "another load generator"),
    ("sampling", "sampling level", I | L | C, "cost of sampling"),
    ("host.hostname", "host name", 0, ""),
    ("boot", "boot", 0, ""),
];
/// That of keys of jobs as given.
const OPTIONS_RANK: usize = KNOWN.len() + 2;
/// Between the ones above that matter most and the others.
const MITIGATIONS: &str = "/sys/devices/system/cpu/vulnerabilities/";
const MITIGATION: &str = "mitigation of ";
const MITIGATION_AFFECTS: (u8, &str) = (I | L | C, "cost of system calls and interrupts");
/// What changes by itself, what another entry states, and what has a place of its own. Ends of paths, or with a trailing
/// dot, parts of paths.
const IGNORED: &[&str] = &[
    "missing.",
    "inspection.disks.device.",
    "inspection.host.texts./proc/swaps",
    "nvme.smart.",
    ".inflight",
    "power/runtime_status",
    "interrupts.counts.",
    "interrupts.number",
    "free_bytes",
    "memory_available_bytes",
    "address_space_available_bytes",
    "load_1min",
    "device_number.",
    "inode",
    "targets.resolved",
    "host.host_id",
    "host.boot_id",
    "allocated_bytes",
    "queue/scheduler",
    "queue/nr_requests",
    "queue/wbt_lat_usec",
    "queue/write_cache",
    "queue/max_sectors_kb",
    "queue/io_poll",
    "nr_tags",
    "device/queue_depth",
    // Of plans: notes for people, what differs in every run, and what depends on files of earlier runs.
    "notes",
    ".seed",
    "create_size",
    "targets.fill",
    "buffers_bytes_max",
];

/// All values in `data` by their paths.
pub fn flat<T: Serialize>(data: &T) -> Values {
    let mut values = Values::new();
    flatten(&mut values, "", &serde_json::to_value(data).unwrap_or_default());
    values.retain(|path, _| {
        !IGNORED.iter().any(|part| match part.ends_with('.') {
            true => format!("{path}.").contains(part),
            false => path.ends_with(part),
        })
    });
    values
}

fn flatten(values: &mut Values, path: &str, value: &Value) {
    let mut add = |text: String| values.entry(path.to_string()).or_default().push(text);
    match value {
        Value::Null => {}
        Value::Bool(is_set) => add(is_set.to_string()),
        Value::Number(number) => add(number.to_string()),
        Value::String(text) => add(text.clone()),
        Value::Array(all) => all.iter().for_each(|one| flatten(values, path, one)),
        Value::Object(all) => {
            for (name, one) in all {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(values, &path, one);
            }
        }
    }
}

/// What of the values that `of` selects differs, what often matters first; only what both sides have if they
/// are `mixed`: of different programs.
pub(super) fn differences(
    before: &[Measured],
    after: &[Measured],
    of: fn(&Measured) -> &Values,
    is_mixed: bool,
) -> Vec<Difference> {
    let paths: BTreeSet<&String> =
        before.iter().chain(after).flat_map(|run| of(run).keys()).collect();
    let side = |runs: &[Measured], path: &str| -> BTreeSet<Vec<String>> {
        runs.iter().map(|run| of(run).get(path).cloned().unwrap_or_default()).collect()
    };
    let is_empty = |values: &BTreeSet<Vec<String>>| values.iter().all(Vec::is_empty);
    let mut found: Vec<(usize, Difference)> = Vec::new();
    let mut repeated: Vec<String> = Vec::new();
    for path in paths {
        let (was, is) = (side(before, path), side(after, path));
        if was == is || (is_mixed && (is_empty(&was) || is_empty(&is))) {
            continue;
        }
        let (rank, name) = known(path);
        let name =
            if found.iter().any(|(_, other)| other.name == name) { path.clone() } else { name };
        if distinct(&was) == distinct(&is) {
            repeated.push(name.clone());
        }
        let difference =
            Difference { name, before: shown(&was), after: shown(&is), ..Difference::default() };
        found.push((rank, difference));
    }
    // What follows from a job's keys repeats them.
    if found.iter().any(|(rank, _)| *rank == OPTIONS_RANK) {
        found.retain(|(rank, _)| *rank == OPTIONS_RANK);
    }
    // Values that all jobs have in common differ only in how often they are there.
    let is_repeated = |(_, one): &(usize, Difference)| repeated.contains(&one.name);
    if !found.iter().all(is_repeated) {
        found.retain(|one| !is_repeated(one));
    }
    // Those of equal rank stay in the order of their paths.
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, difference)| difference).collect()
}

/// Puts first which settings are known to affect the figures that changed, or else the main one, and says how.
pub(super) fn matters(comparison: &mut Comparison) {
    let figures = || comparison.parts.iter().flat_map(|part| &part.figures);
    let is_changed = |figure: &&ComparedFigure| {
        matches!(figure.verdict, FigureVerdict::Changed | FigureVerdict::NotComparable)
    };
    let changed = figures().filter(is_changed).fold(0, |all, figure| all | affected(&figure.id));
    let main = figures().next().map_or(0, |figure| affected(&figure.id));
    let wanted = if changed == 0 { main } else { changed };
    for setting in &mut comparison.settings {
        let known = KNOWN.iter().find(|(_, name, ..)| *name == setting.name);
        let (affects, how) = match known {
            Some((.., affects, how)) => (*affects, *how),
            None if setting.name.starts_with(MITIGATION) => MITIGATION_AFFECTS,
            None => continue,
        };
        let names = AFFECTED.iter().filter(|(bit, _)| affects & wanted & bit != 0);
        let names: Vec<&str> = names.map(|(_, name)| *name).collect();
        if !names.is_empty() {
            setting.matters = format!("{}: {how}", names.join(", "));
        }
    }
    comparison.settings.sort_by_key(|setting| setting.matters.is_empty());
}

/// What a figure is, in the terms of [`KNOWN`].
fn affected(id: &str) -> u8 {
    let is_cpu = id.contains("cpu") || id.contains("cycles") || id.contains("instructions");
    match (unit(id).0, id) {
        (_, "runtime_ms") => ALL,
        _ if is_cpu => C,
        (FigureUnit::Rate, _) => I,
        (FigureUnit::BytesPerSecond, _) => B,
        (FigureUnit::Milliseconds, _) => L,
        _ => I | L,
    }
}

/// The values of each run, those that several jobs have in common once.
fn distinct(side: &BTreeSet<Vec<String>>) -> BTreeSet<Vec<String>> {
    let one = |values: &Vec<String>| {
        let mut values = values.clone();
        values.dedup();
        values
    };
    side.iter().map(one).collect()
}

/// The rank of a path, and its name.
fn known(path: &str) -> (usize, String) {
    if let Some(rank) = KNOWN.iter().position(|(end, ..)| path.ends_with(end)) {
        return (rank, KNOWN[rank].1.to_string());
    }
    if let Some((_, name)) = path.split_once(MITIGATIONS) {
        return (KNOWN.len(), format!("{MITIGATION}{name}"));
    }
    if let Some((_, key)) = path.split_once("options.") {
        return (OPTIONS_RANK, key.to_string());
    }
    let prefixes = [
        "inspection.host.texts.",
        "inspection.disks.files.texts.",
        "inspection.disks.",
        "inspection.",
        "targets.device.",
        "host.",
    ];
    let short = prefixes.iter().find_map(|prefix| path.strip_prefix(prefix)).unwrap_or(path);
    let is_file = short.contains('/');
    let name = if is_file { short.to_string() } else { short.replace(['_', '.'], " ") };
    (KNOWN.len() + 1, name)
}

/// The values of all runs of a side: one where they are alike.
fn shown(side: &BTreeSet<Vec<String>>) -> String {
    let one = |values: &Vec<String>| {
        let is_one = values.windows(2).all(|pair| pair[0] == pair[1]);
        let shown = if is_one { &values[..values.len().min(1)] } else { &values[..] };
        fathom_model::list::few(shown, SHOWN)
    };
    side.iter().map(one).collect::<Vec<_>>().join(" or ")
}
