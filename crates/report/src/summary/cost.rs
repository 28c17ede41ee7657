//! What an I/O cost, how deep the queues were, and what the kernel granted.

use super::{Style, wrap};
use crate::counters;
use fathom_analysis::derive::{self, Group};
use fathom_analysis::run;
use fathom_model::plan::Engine;
use fathom_model::record::{Cost, DiskRecord, Granted, JobRecord, RunRecord};
use fathom_model::units;

/// Columns before a line's text.
const INDENT: usize = 11;

/// The lines below a group's table.
///
/// `disks` are those whose counters cover this group and no other.
pub(super) fn cost(
    out: &mut String,
    record: &RunRecord,
    group: &Group,
    disks: &[DiskRecord],
    style: Style,
) {
    let done = &group.record;
    line(out, "depth", depth(group, disks), style);
    line(out, "CPU", processor(done), style);
    line(out, "counted", counted(done), style);
    line(out, "", workers(record, group), style);
    line(out, "granted", granted(record, group), style);
}

fn line(out: &mut String, title: &str, text: Option<String>, style: Style) {
    let text = text.unwrap_or_default();
    for (index, part) in wrap(&text, style.width.saturating_sub(INDENT)).iter().enumerate() {
        let title = if index == 0 { title } else { "" };
        out.push_str(&format!("  {title:<8} {part}\n"));
    }
}

/// Depth asked, depth in flight, and depth that the disks saw.
fn depth(group: &Group, disks: &[DiskRecord]) -> Option<String> {
    if group.plan.engine.is_synchronous() && group.plan.depth == 1 {
        return None;
    }
    let mean = derive::depth_mean(&group.record)?;
    let jobs = group.jobs.len();
    let asked = match jobs {
        1 => format!("asked {}", group.plan.depth),
        _ => format!("asked {} in each of {jobs} jobs", group.plan.depth),
    };
    let most = group.record.depth.in_flight_max;
    let saw: String =
        disks.iter().map(|disk| format!("; {} saw {:.1}", disk.name, disk.queue_mean())).collect();
    Some(format!("{asked}, in flight {mean:.1} on average, {most} at most{saw}"))
}

/// Processor time per I/O and what follows from it.
fn processor(done: &JobRecord) -> Option<String> {
    let per_io = derive::cpu_per_io_ns(done)?;
    let ios = derive::ios(done) as f64;
    let usage = &done.usage;
    let mut parts = vec![
        format!("{} user", units::time((usage.user_ns as f64 / ios).round())),
        format!("{} kernel", units::time((usage.system_ns as f64 / ios).round())),
    ];
    if usage.helper_ns > 0 {
        parts.push(format!(
            "{} kernel's helper threads",
            units::time((usage.helper_ns as f64 / ios).round())
        ));
    }
    let stop = units::count(derive::one_core_iops(done).unwrap_or(0.0));
    let total = units::time(per_io.round());
    Some(format!("{total} per I/O ({}); one core would stop at {stop} IOPS", parts.join(" + ")))
}

/// Instructions, cycles and cache misses per I/O, or why there are none.
fn counted(done: &JobRecord) -> Option<String> {
    let Some(cost) = &done.cost else {
        return done.cost_missing.as_ref().map(|why| format!("no instructions: {why}"));
    };
    Some(counters::per_io_of_worker(cost, &done.cost_lacks))
}

/// How workers differ.
fn workers(record: &RunRecord, group: &Group) -> Option<String> {
    let jobs = group.jobs.iter().filter_map(|index| record.jobs.get(*index)?.cost);
    let costs: Vec<Cost> = jobs.collect();
    let range = |of: &dyn Fn(&Cost) -> Option<f64>| {
        let values: Option<Vec<f64>> = costs.iter().map(of).collect();
        let values = values.filter(|values| values.len() > 1)?;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        Some((least, values.into_iter().fold(0.0, f64::max)))
    };
    let instructions = |cost: &Cost| Some(cost.user_instructions + cost.kernel_instructions?);
    let (least, most) = range(&instructions)?;
    let (low, high) = range(&|cost| derive::ipc(cost).all)?;
    Some(format!(
        "a worker's: {least:.0} to {most:.0} instructions per I/O, IPC {low:.2} to {high:.2}"
    ))
}

/// What is in force, and what of the usual is not.
fn granted(record: &RunRecord, group: &Group) -> Option<String> {
    let granted = &group.record.granted;
    let ring = group.plan.engine.uring()?;
    let takes_target = !matches!(group.plan.engine, Engine::Nop(_));
    let mut words: Vec<String> = granted.setup_flags.clone();
    let mut registered: Vec<&str> = Vec::new();
    for (on, name) in registered_parts(granted) {
        if on {
            registered.push(name);
        }
    }
    if !registered.is_empty() {
        words.push(format!("registered {}", registered.join(", ")));
    }
    if granted.huge_pages {
        words.push("huge pages".to_string());
    }
    let polls = granted.polled && run::unpolled(record, group.plan).is_empty();
    if polls {
        words.push("polled".to_string());
    }
    if takes_target && ring.iopoll && !polls {
        words.push("NOT polled, though asked".to_string());
    }
    if takes_target && ring.fixed_buffers && !granted.fixed_buffers {
        words.push("NOT registered buffers".to_string());
    }
    if takes_target && ring.registered_files && !granted.registered_files {
        words.push("NOT registered files".to_string());
    }
    words.extend(granted.refused_flags.iter().map(|flag| format!("NOT {flag}")));
    (!words.is_empty()).then(|| words.join(" · "))
}

fn registered_parts(granted: &Granted) -> [(bool, &'static str); 3] {
    [
        (granted.fixed_buffers, "buffers"),
        (granted.registered_files, "files"),
        (granted.registered_ring, "ring"),
    ]
}

/// What the disks below the targets saw.
pub(super) fn disks(out: &mut String, record: &RunRecord, style: Style) {
    for disk in &record.disks {
        let ios: u64 = disk.ios.iter().map(|(_, n)| n).sum();
        let sectors: u64 = disk.sectors.iter().map(|(_, n)| n).sum();
        let busy = disk.busy_ms as f64 * 100.0 / disk.elapsed_ms.max(1) as f64;
        let text = format!(
            "{} saw {} I/Os and {}, {:.1} in flight on average, busy {:.0}% of the time",
            disk.name,
            units::count(ios as f64),
            units::bytes(sectors.saturating_mul(512)),
            disk.queue_mean(),
            busy.min(100.0),
        );
        line(out, "disk", Some(text), style);
    }
}
