//! What differs between results: plans and facts as flat lists of named values.

use super::{Difference, Measured};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Values by name. Those of an array are together, one after the other.
pub type Values = BTreeMap<String, Vec<String>>;

/// Maximum number of values printed.
const SHOWN: usize = 8;

/// Facts known to matter for figures, first ones first, by the end of their path, and their names.
const KNOWN: &[(&str, &str)] = &[
    ("host.kernel", "kernel"),
    ("targets.device.model", "disk model"),
    ("targets.device.serial", "disk serial number"),
    ("targets.device.firmware", "disk firmware"),
    ("targets.device.driver", "disk driver"),
    ("targets.device.scheduler", "I/O scheduler"),
    ("targets.device.nr_requests", "nr_requests"),
    ("targets.device.driver_tags", "driver tags"),
    ("targets.device.queue_depth", "queue depth of the SCSI device"),
    ("targets.device.hardware_queues", "hardware queues"),
    ("targets.device.write_cache", "write cache"),
    ("targets.device.wbt_lat_usec", "wbt_lat_usec"),
    ("targets.device.io_poll", "poll queues"),
    ("targets.device.max_sectors_kb", "max_sectors_kb"),
    ("pci/current_link_speed", "PCIe link speed"),
    ("pci/current_link_width", "PCIe link width"),
    ("targets.file_system", "file system"),
    ("mounts.options", "mount options"),
    ("queue/read_ahead_kb", "read_ahead_kb"),
    ("queue/nomerges", "nomerges"),
    ("queue/rq_affinity", "rq_affinity"),
    ("queue/iostats", "iostats"),
    ("scaling_governor", "cpufreq governor"),
    ("cpufreq/boost", "CPU boost"),
    ("intel_pstate/no_turbo", "no_turbo"),
    ("host.cpu_model", "CPU model"),
    ("host.cpus_allowed", "CPUs"),
    ("host.cpus_online", "CPUs online"),
    ("host.virtualization", "virtualization"),
    ("host.memory_bytes", "memory in bytes"),
    ("host.cgroup_memory_max_bytes", "memory limit of the cgroup, in bytes"),
    ("host.clocksource", "clock source"),
    ("targets.size_bytes", "size of the target in bytes"),
    ("sparse targets", "sparse targets"),
    ("interrupts.cpus", "interrupt CPUs"),
    ("fathom version", "fathom version"),
    ("sampling", "sampling level"),
    ("host.hostname", "host name"),
    ("boot", "boot"),
];
/// That of keys of jobs as given.
const OPTIONS_RANK: usize = KNOWN.len() + 2;
/// Between the ones above that matter most and the others.
const MITIGATIONS: &str = "/sys/devices/system/cpu/vulnerabilities/";
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

/// What of the values that `of` selects differs, what is known to matter first; only what both sides have if they
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
        found.push((rank, Difference { name, before: shown(&was), after: shown(&is) }));
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
    if let Some(rank) = KNOWN.iter().position(|(end, _)| path.ends_with(end)) {
        return (rank, KNOWN[rank].1.to_string());
    }
    if let Some((_, name)) = path.split_once(MITIGATIONS) {
        return (KNOWN.len(), format!("mitigation of {name}"));
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
