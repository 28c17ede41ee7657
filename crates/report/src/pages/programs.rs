//! What the watched program and others used, and the limits of its cgroup.

use super::parts;
use crate::doc::{Document, Text, bandwidth, named, number, of, percent, text, whole};
use crate::figures;
use fathom_analysis::machine::MachineRates;
use fathom_analysis::metrics::{FigureUnit, Interval, PROCESS, ProcessMetric};
use fathom_analysis::processes::ProcessTotals;
use fathom_model::watch::ProcessUse;

const PROGRAMS_MAX: usize = 3;
/// Programs that used fewer CPUs and fewer bytes per second are left out.
const CPUS_MIN: f64 = 0.01;
const BYTES_MIN: f64 = 1e5;

/// The watched program's CPU time, its reads and writes and what of them came from a disk; then other programs.
pub(super) fn programs(
    page: &mut Document,
    processes: &ProcessTotals,
    rates: &MachineRates,
    is_own: bool,
) {
    if processes.elapsed_ns == 0 {
        return;
    }
    if is_own {
        let uses = &processes.watched;
        let cpus = of(number(processes.cpus(uses)), "CPUs");
        page.entry("program", parts([cpus, reads(processes), writes(processes, rates.written())]));
    }
    let is_shown = |uses: &&&ProcessUse| {
        processes.cpus(uses) >= CPUS_MIN || processes.per_second(uses.disk_bytes()) >= BYTES_MIN
    };
    let by_cpu = processes.by_cpu();
    let figure = |metric: &'static ProcessMetric, uses: &ProcessUse| {
        let value = (metric.value)(processes, uses)?;
        let is_shown = metric.unit != FigureUnit::BytesPerSecond || value >= BYTES_MIN;
        is_shown.then(|| figures::phrase(metric, figures::quantity(metric, value)))
    };
    let shown = by_cpu.iter().filter(is_shown).take(PROGRAMS_MAX).map(|uses| {
        let main = PROCESS.iter().filter(|metric| metric.is_main());
        text!(name(uses), " ", Text::join(main.filter_map(|metric| figure(metric, uses)), ", "))
    });
    page.entry(if is_own { "others" } else { "programs" }, parts(shown));
}

fn name(uses: &ProcessUse) -> Text {
    match uses.processes {
        0 | 1 => text!(uses.comm.as_str(), format!("\u{a0}(pid\u{a0}{})", uses.pid)),
        n => text!(uses.comm.as_str(), "\u{a0}(", of(whole(n), "processes"), ")"),
    }
}

/// Bytes requested, bytes that came from a disk, and the share of the first that did not.
fn reads(processes: &ProcessTotals) -> Text {
    let ProcessUse { requested_read, disk_read, .. } = processes.watched;
    let rate = |bytes| bandwidth(processes.per_second(bytes));
    if requested_read.max(disk_read) == 0 {
        return Text::default();
    }
    let hits = (disk_read < requested_read)
        .then(|| 100.0 - disk_read as f64 * 100.0 / requested_read as f64)
        .map(|hits| text!(" (", percent(hits), " from memory)"));
    let from_disks = of(rate(disk_read), "from disks");
    text!(named("read", rate(requested_read)), ", ", from_disks, Text::from(hits))
}

/// Bytes requested, and bytes that were written to a disk or made dirty in the page cache; where these are more than all
/// disks wrote, that, too: the same page may be made dirty many times before it is written.
fn writes(processes: &ProcessTotals, disks_written: f64) -> Text {
    let ProcessUse { requested_write, disk_write, .. } = processes.watched;
    if requested_write.max(disk_write) == 0 {
        return Text::default();
    }
    let rate = |bytes| processes.per_second(bytes);
    let dirtied = rate(disk_write);
    let disks = (dirtied > disks_written)
        .then(|| text!(" (write_bytes; all disks wrote ", bandwidth(disks_written), ")"));
    let disks = disks.unwrap_or_else(|| " (write_bytes)".into());
    let requested = named("wrote", bandwidth(rate(requested_write)));
    text!(requested, ", ", named("dirtied or written", bandwidth(dirtied)), disks)
}

/// The limits of the cgroup, how much was used, and how often they were hit.
pub(super) fn cgroup(page: &mut Document, interval: &Interval<'_>) {
    let last = interval.now.system.as_ref().and_then(|system| system.cgroup.as_ref());
    let Some(cgroup) = last else { return };
    let figure = |id| figures::number(interval, id);
    let throttled = figure("cgroup_throttled_pct").map(|share| text!(", throttled ", share));
    let cpu = figure("cgroup_cpus").map(|limit| text!(of(limit, "CPUs"), Text::from(throttled)));
    let memory = figure("cgroup_memory_limit_bytes").map(|limit| {
        let used = figure("cgroup_memory_used_bytes").map(|used| text!(used, " of "));
        let hits = figure("cgroup_memory_hits_per_s").filter(|hits| hits.value > 0.0);
        let hits = hits.map(|hits| text!(", limit hit ", of(hits, "times/s")));
        named("memory", text!(Text::from(used), limit, Text::from(hits)))
    });
    let io = (!cgroup.io_limits.is_empty()).then(|| named("I/O", cgroup.io_limits.join(", ")));
    page.entry("cgroup", parts([cpu.into(), memory.into(), io.into()]));
}
