//! Memory: swapping, and I/O that never reaches a disk.

use super::{Cause, View};
use fathom_model::finding::{Confidence, Evidence, Finding, Unit};
use fathom_model::units;
use fathom_model::watch::{OpenFile, ProcessUse, ThreadState};

/// Pages per second that must have been swapped in.
const SWAPPED_MIN: f64 = 100.0;
/// Bytes per second that must have been requested without reaching a disk.
const REQUESTED_MIN: f64 = 10e6;
/// Part of them that may have come from a disk.
const FROM_DISK_MAX: f64 = 0.1;
/// Bytes per second on disks below which a program on a CPU does its I/O elsewhere, if it does any.
const SILENT_MAX: f64 = 1e6;
/// Mean number of its threads on a CPU.
const ON_CPU_MIN: f64 = 0.5;
/// A file with less than this part of its size allocated is sparse.
const ALLOCATED_MIN: f64 = 0.5;
/// Rules about a run whose findings say the same, better: they know the job's own I/Os.
const RULES: [&str; 3] = ["sparse-target", "cached-reads", "in-memory"];

pub(super) fn swapping(view: &View) -> Option<Cause> {
    let system = view.rates.system.as_ref()?;
    let paging = &system.paging;
    if paging.swap_in < SWAPPED_MIN {
        return None;
    }
    let stalled = system.pressure.as_ref().map(|pressure| pressure.memory.some / 100.0);
    let zram = view.disks().into_iter().find(|disk| disk.name.starts_with("zram"));
    let to = zram.map_or(String::new(), |disk| format!(" on {}", disk.name));
    let pages = |rate: f64| units::bandwidth(rate * 4096.0);
    let stall = stalled.map(|share| {
        Evidence::number("time stalled for memory", share, Unit::Share)
            .with_source("/proc/pressure/memory, some")
    });
    Some(Cause {
        id: "swapping",
        weight: stalled.unwrap_or(0.0).max(0.7),
        confidence: Confidence::High,
        summary: format!(
            "Memory is short: {} were read from swap{to} and {} written to it.",
            pages(paging.swap_in),
            pages(paging.swap_out)
        ),
        evidence: stall.into_iter().collect(),
        next_step: "Use less memory, or more of it: programs wait for pages that were swapped out"
            .into(),
    })
}

pub(super) fn not_on_disk(view: &View) -> Option<Cause> {
    let known = |finding: &&Finding| RULES.contains(&finding.rule.as_str());
    if let Some(finding) = view.record.findings.iter().find(known) {
        return Some(Cause {
            id: "not-on-disk",
            weight: 0.9,
            confidence: finding.confidence.unwrap_or(Confidence::High),
            summary: finding.summary.clone(),
            evidence: Vec::new(),
            next_step: String::new(),
        });
    }
    if view.is_run() || !view.is_own {
        return None;
    }
    from_memory(view)
}

/// The watched program's reads and writes came from memory.
fn from_memory(view: &View) -> Option<Cause> {
    let processes = &view.seen.processes;
    let used: &ProcessUse = &processes.watched;
    let (requested, disk) = match used.requested_read >= used.requested_write {
        true => (used.requested_read, used.disk_read),
        false => (used.requested_write, used.disk_write),
    };
    let rate = processes.per_second(requested);
    let from_disk = disk as f64 / requested.max(1) as f64;
    let is_requested = rate >= REQUESTED_MIN && from_disk <= FROM_DISK_MAX;
    // I/O through io_uring and aio does not count as requested: only the files tell.
    let is_busy = processes.per_second(used.disk_bytes()) < SILENT_MAX
        && view.state(ThreadState::OnCpu) >= ON_CPU_MIN;
    let tells = |file: &&OpenFile| is_requested || is_busy && (file.direct || file.in_memory);
    let file = processes.files.values().filter(tells).max_by_key(|file| file.size).and_then(about);
    // Pipes and devices count as requested too.
    let is_of_files = is_requested && !processes.files.is_empty();
    let summary = file.or_else(|| {
        is_of_files.then(|| {
            let (rate, from_disk) = (units::bandwidth(rate), from_disk * 100.0);
            format!(
                "{} requested {rate} from the page cache: {from_disk:.1}% came from a disk.",
                view.who
            )
        })
    })?;
    let reached =
        Evidence::number("reached a disk", processes.per_second(disk), Unit::BytesPerSecond);
    let requested = is_requested.then(|| {
        Evidence::number("requested", rate, Unit::BytesPerSecond)
            .with_source("rchar, wchar of /proc/PID/io")
    });
    let reached = reached.with_source("read_bytes, write_bytes of /proc/PID/io");
    Some(Cause {
        id: "not-on-disk",
        weight: 0.9,
        confidence: if is_requested { Confidence::High } else { Confidence::Medium },
        summary,
        evidence: requested.into_iter().chain([reached]).collect(),
        next_step: "To measure the disk, use O_DIRECT (direct=1) on a file that is fully written"
            .into(),
    })
}

/// Why I/O on a file does not reach a disk.
fn about(file: &OpenFile) -> Option<String> {
    let OpenFile { path, size, allocated, in_memory, .. } = file;
    let is_sparse = (*allocated as f64) < *size as f64 * ALLOCATED_MIN;
    match (in_memory, is_sparse) {
        (true, _) => {
            Some(format!("{path} is on a file system in memory (tmpfs): no disk is involved."))
        }
        (false, true) => Some(format!(
            "{path} is sparse, {} of {} allocated: holes are read without I/O.",
            units::bytes(*allocated),
            units::bytes(*size)
        )),
        (false, false) => None,
    }
}
