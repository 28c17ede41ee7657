//! Memory: swapping, and I/O that never reaches a disk.

use super::View;
use super::view::{AGAINST_MIN, CPU_SAMPLES_MIN, NAMED_MIN};
use crate::layers::Layer;
use crate::machine::DiskRates;
#[cfg(test)]
use crate::rules::testing::Case;
use crate::rules::{Check, Claim, Rule};
use fathom_model::finding::{Confidence, Evidence, Finding, Subject, Unit};
use fathom_model::units;
use fathom_model::watch::{ProcessFile, ProcessUse, ThreadState};

/// Pages per second that must have been swapped in.
const SWAPPED_MIN: f64 = 100.0;
/// Major page faults per second that the program itself must have had; each reads up to 8 pages (vm.page-cluster).
const OWN_FAULTS_MIN: f64 = SWAPPED_MIN / 8.0;
/// Share of the time for which tasks must have been stalled for memory, where that is known.
const STALLED_MIN: f64 = 0.05;
/// The part of the time that swapping takes where that is not known.
const STALLED_UNKNOWN: f64 = 0.5;
/// Bytes per second that must have been requested without reaching a disk.
const REQUESTED_MIN: f64 = 10.0 * 1048576.0;
/// Bytes per second that a CPU copies to or from the page cache at least, in small pieces.
const COPIED_MIN: f64 = 200.0 * 1048576.0;
/// Part of them that may have come from a disk.
const FROM_DISK_MAX: f64 = 0.1;
/// Bytes per second on disks below which a program on a CPU does its I/O elsewhere, if it does any.
const SILENT_MAX: f64 = 1e6;
/// Mean number of its threads on a CPU.
const ON_CPU_MIN: f64 = 0.5;
/// Share of the CPU time in user mode above which a program computes rather than does I/O.
const PROGRAM_MAX: f64 = 0.7;
/// A file with less than this part of its size allocated is sparse.
const ALLOCATED_MIN: f64 = 0.5;
/// Where CPU time is spent on swapping to memory.
const SWAP_LAYERS: [Layer; 7] = [
    Layer::PageCache,
    Layer::Reclaim,
    Layer::Block,
    Layer::Driver,
    Layer::Copy,
    Layer::Allocation,
    Layer::Mappings,
];
/// The function in which page faults wait for pages from swap.
const SWAP_IN: &str = "do_swap_page";
/// Rules about a run whose findings say the same, better: they know the job's own I/Os.
const RULES: [&str; 3] = ["sparse-target", "cached-reads", "in-memory"];

pub(in crate::rules) static SWAPPING: Rule = Rule {
    id: "swapping",
    limits: "swapping",
    meaning: "Memory ran short: programs waited for pages that had been swapped out.",
    threshold: || {
        format!(
            "{SWAPPED_MIN:.0} pages/s or more were swapped in and, where pressure stall information is available, tasks \
             were stalled for memory {:.0}% of the time or more. For a program: it had {OWN_FAULTS_MIN:.0} major page faults \
             per second or more, and memory in swap; where its time is known, these faults count, with its CPU time for swap in memory (zram), or its part of the stalls. Its page faults that waited for pages of files do not count, where context \
             switches were recorded.",
            STALLED_MIN * 100.0
        )
    },
    remedy: "Use less memory, or add more",
    supersedes: &[&super::device::DEVICE, &super::waits::PAGE_FAULTS, &super::cpu::OWN_TIME],
    checks: &[Check::View(swapping)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.swaps(5000),
            near_miss: |s| s.swaps(50),
            summary: "Memory ran short: 5k major page faults/s of fio waited for pages from swap on zram0.",
        },
        Case::View {
            holds: |s| {
                s.swaps(5000);
                s.stalled_for_memory(0.4);
            },
            // Nobody waits for the pages.
            near_miss: |s| {
                s.swaps(5000);
                s.stalled_for_memory(0.01);
            },
            summary: "Memory ran short: 5k major page faults/s of fio waited for pages from swap on zram0.",
        },
        Case::View {
            holds: |s| {
                s.whole_machine();
                s.swaps(5000);
            },
            near_miss: |s| {
                s.whole_machine();
                s.swaps(50);
            },
            summary: "Memory ran short: 19.5 MiB/s were read from swap on zram0 and 0 B/s written to it.",
        },
        Case::View {
            // Hardly anybody else is stalled.
            holds: |s| {
                s.faults("do_swap_page");
                s.stalled_for_memory(0.01);
                s.last.processes.as_mut().unwrap().swapped = Some(64 << 20);
            },
            // It computes, while others are.
            near_miss: |s| {
                s.swaps(5000);
                s.own().major_faults = 1000;
                s.stalled_for_memory(0.9);
                s.spends(&[(ThreadState::PageFault, 0.05), (ThreadState::OnCpu, 0.95)]);
            },
            summary: "Memory ran short: 5k major page faults/s of fio, 64 MiB of whose memory were swapped out, waited for pages \
                      from swap on zram0.",
        },
        Case::View {
            // It compresses and reads again, on a CPU.
            holds: |s| {
                s.swaps(5000);
                s.spends(&[(ThreadState::OnCpu, 1.0)]);
                s.cpu_samples(&["exc_page_fault", "do_swap_page", "swap_read_folio"], 200);
            },
            near_miss: |s| {
                s.swaps(5000);
                s.spends(&[(ThreadState::OnCpu, 1.0)]);
                s.cpu_samples(&[], 200);
            },
            summary: "Memory ran short: 5k major page faults/s of fio waited for pages from swap on zram0.",
        },
        // Another program's pages.
        Case::NearMiss(|s| {
            s.swaps(5000);
            s.own().major_faults = 10;
        }),
        // Nothing of its memory is in swap: its faults are those of files.
        Case::NearMiss(|s| {
            s.swaps(5000);
            s.last.processes.as_mut().unwrap().swapped = Some(0);
        }),
        Case::View {
            holds: |s| s.faults("do_swap_page"),
            // It waits for pages of a file, while others swap.
            near_miss: |s| s.faults("folio_wait_bit_common"),
            summary: "Memory ran short: 5k major page faults/s of fio waited for pages from swap on zram0.",
        },
    ],
    ..Rule::LIMITER
};

fn swapping(view: &View) -> Option<Claim> {
    let system = view.rates.system.as_ref()?;
    let stalled = system.pressure.as_ref().map(|pressure| pressure.memory.some / 100.0);
    let is_known = view.account.is_some();
    let is_stalled = is_known || stalled.is_none_or(|share| share >= STALLED_MIN);
    if system.paging.swap_in < SWAPPED_MIN || !is_stalled {
        return None;
    }
    let processes = &view.seen.processes;
    let peer = view.peer_in(ThreadState::PageFault);
    // Without pages in swap, its faults are those of files.
    let from_swap = view.part_in(ThreadState::PageFault, SWAP_IN).unwrap_or(1.0);
    let is_of_files = peer.is_none() && processes.swapped == Some(0) || from_swap < AGAINST_MIN;
    let used = view.uses_in(ThreadState::PageFault);
    let own = used.map_or(0.0, |used| processes.per_second(used.major_faults)) * from_swap;
    let in_use = |disk: &&DiskRates| disk.name.starts_with("zram") && disk.queue > 0.0;
    let zram = view.rates.disks.iter().find(in_use);
    // Swap in memory takes CPU time, and of the machine's stalls those that are its own.
    let requested = used.map_or(0, |used| used.requested_read + used.requested_write);
    let is_most = processes.per_second(requested) < own * 4096.0;
    let cpu = match view.layers.samples >= CPU_SAMPLES_MIN && zram.is_some() && is_most {
        true => SWAP_LAYERS.into_iter().map(|layer| view.layers.share(layer)).sum(),
        false => 0.0,
    };
    let own_stalls = stalled.unwrap_or(0.0) * (own / system.paging.swap_in).min(1.0);
    let waiting = view.state(ThreadState::PageFault) * from_swap;
    let swapping = view.share(waiting + cpu * view.state(ThreadState::OnCpu)).max(own_stalls);
    let faults = is_known.then_some(swapping);
    let is_brief = faults.is_some_and(|share| share < NAMED_MIN);
    if view.is_own && (own < OWN_FAULTS_MIN || is_of_files || is_brief) {
        return None;
    }
    let on = zram.map_or(String::new(), |disk| format!(" on {}", disk.name));
    let pages = |rate: f64| units::bandwidth(rate * 4096.0);
    let (read, written) = (pages(system.paging.swap_in), pages(system.paging.swap_out));
    let swapped = processes.swapped.filter(|bytes| *bytes > 0 && peer.is_none());
    let swapped = swapped.map_or_else(String::new, |bytes| {
        format!(", {} of whose memory were swapped out,", units::bytes(bytes))
    });
    let summary = match view.is_own {
        true => format!(
            "Memory ran short: {} major page faults/s of {}{swapped} waited for pages from swap{on}.",
            units::count(own),
            peer.map_or(&view.who, |peer| &peer.process)
        ),
        false => {
            format!("Memory ran short: {read} were read from swap{on} and {written} written to it.")
        }
    };
    let of_all =
        Evidence::number("pages swapped in per second", system.paging.swap_in, Unit::Count);
    let of_all = of_all.with_source("pswpin of /proc/vmstat, the whole machine");
    let stall = stalled.map(|share| {
        Evidence::number("time stalled for memory", share, Unit::Share)
            .with_source("/proc/pressure/memory, some, the whole machine")
    });
    let waited = faults.map(|share| {
        Evidence::number("time for swapped pages", share, Unit::Share)
            .with_source("page faults, CPU samples, memory pressure")
    });
    let evidence = waited.into_iter().chain([of_all]).chain(stall).collect();
    let whose =
        if view.is_own { view.program_in(ThreadState::PageFault) } else { Subject::Machine };
    let claim = Claim::new(summary, evidence).about(whose);
    let weight = faults.or(stalled).unwrap_or(STALLED_UNKNOWN);
    Some(claim.weight(weight).confidence(Confidence::High))
}

pub(in crate::rules) static NOT_ON_DISK: Rule = Rule {
    id: "not-on-disk",
    limits: "memory (I/O that does not reach a disk)",
    meaning: "I/O did not reach a disk: the file is sparse, on a file system in memory, or in the page cache.",
    threshold: || {
        format!(
            "run: {} holds. watch: at least {} were requested, {:.0}% or less of them reached a disk, and a regular file \
             is open; or threads ran, hardly any I/O reached a disk, and an open file is sparse or in memory. Not where \
             {:.0}% of the CPU time is spent in user mode.",
            RULES.map(|id| format!("`{id}`")).join(", "),
            units::bandwidth(REQUESTED_MIN),
            FROM_DISK_MAX * 100.0,
            PROGRAM_MAX * 100.0
        )
    },
    remedy: "To measure the disk, use O_DIRECT (direct=1) on a file that is fully written",
    supersedes: &[&super::device::DEVICE, &super::threads::ONE_AT_A_TIME, &super::cpu::OWN_TIME],
    checks: &[Check::View(not_on_disk)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| {
                s.cached_reads(0);
                s.file(1 << 30, 4096, false);
            },
            near_miss: |s| {
                s.cached_reads(10 << 29);
                s.file(1 << 30, 4096, false);
            },
            summary: "/data/file is sparse, 4 KiB of 1 GiB allocated: holes are read without I/O.",
        },
        Case::View {
            holds: |s| {
                s.cached_reads(10 << 24);
                s.file(1 << 30, 1 << 30, false);
            },
            near_miss: |s| s.cached_reads(10 << 28),
            summary: "fio read 1 GiB/s, 1.6% of it from a disk and the rest from the page cache.",
        },
        Case::View {
            holds: |s| {
                s.cached_writes(10 << 24);
                s.file(1 << 30, 1 << 30, false);
            },
            near_miss: |s| s.cached_writes(10 << 28),
            summary: "fio wrote 1 GiB/s; 1.6% of it reached a disk, the rest only the page cache.",
        },
        Case::View {
            holds: |s| {
                s.cached_reads(0);
                s.file(1 << 30, 1 << 30, true);
            },
            near_miss: |s| s.file(1 << 30, 1 << 30, true),
            summary: "/data/file is on a file system in memory (tmpfs): no disk is involved.",
        },
        Case::View {
            // I/O through io_uring and aio does not count as requested.
            holds: |s| {
                s.computes(0.95);
                s.own().disk_read = 0;
                s.file(1 << 30, 4096, false);
                s.last.processes.iter_mut().for_each(|all| all.files[0].direct = true);
            },
            near_miss: |s| {
                s.computes(0.95);
                s.own().disk_read = 0;
                s.file(1 << 30, 4096, false);
            },
            summary: "/data/file is sparse, 4 KiB of 1 GiB allocated: holes are read without I/O.",
        },
        Case::View {
            holds: |s| {
                s.computes(0.95);
                s.cached_reads(0);
                s.file(1 << 30, 1 << 30, false);
                s.cpu_samples(&["do_syscall_64", "filemap_read"], 200);
            },
            // A compressor reads its input from the page cache, and computes.
            near_miss: |s| {
                s.computes(0.95);
                s.cached_reads(0);
                s.file(1 << 30, 1 << 30, false);
                s.cpu_samples(&[], 200);
            },
            summary: "fio read 1 GiB/s, 0.0% of it from a disk and the rest from the page cache.",
        },
    ],
    ..Rule::LIMITER
};

fn not_on_disk(view: &View) -> Option<Claim> {
    // What it copies from and to memory is time on a CPU.
    let copies = view.account.as_ref().map_or(0.9, |_| view.share(view.state(ThreadState::OnCpu)));
    let in_user_mode = match view.layers.samples {
        CPU_SAMPLES_MIN.. => view.layers.share(Layer::Program),
        _ => 0.0,
    };
    let copies = copies * (1.0 - in_user_mode);
    let known = |finding: &&Finding| RULES.contains(&finding.rule.as_str());
    if let Some(finding) = view.findings.iter().find(known) {
        let claim = Claim::new(finding.summary.clone(), Vec::new()).remedy("").weight(copies);
        let claim = claim.about(view.workload());
        return Some(claim.confidence(finding.confidence.unwrap_or(Confidence::High)));
    }
    if view.is_run() || !view.is_own {
        return None;
    }
    let claim = from_memory(view).filter(|_| in_user_mode < PROGRAM_MAX)?;
    let most = claim.weight;
    Some(claim.about(view.workload()).weight(copies.min(most)))
}

/// The watched program's reads and writes came from memory; the weight is the most time that this can have taken.
fn from_memory(view: &View) -> Option<Claim> {
    let processes = &view.seen.processes;
    let used: &ProcessUse = &processes.watched;
    let reads = used.requested_read >= used.requested_write;
    // Bytes made dirty in the page cache count as written to a disk before they are.
    let written = used.disk_write.min(processes.bytes_in(view.rates.written()));
    let (requested, disk) = match reads {
        true => (used.requested_read, used.disk_read),
        false => (used.requested_write, written),
    };
    let rate = processes.per_second(requested);
    let on_disk = disk as f64 / requested.max(1) as f64;
    // A program that copies /dev/zero to a disk reads from memory, but its writes do reach the disk.
    let reached = (used.disk_read + written) as f64 / requested.max(1) as f64;
    let is_requested = rate >= REQUESTED_MIN && reached <= FROM_DISK_MAX;
    // I/O through io_uring and aio does not count as requested: only the files show it.
    let is_busy = processes.per_second(used.disk_read + written) < SILENT_MAX
        && view.state(ThreadState::OnCpu) >= ON_CPU_MIN;
    let tells = |file: &&ProcessFile| is_requested || is_busy && (file.direct || file.in_memory);
    let file = processes.files.values().filter(tells).max_by_key(|file| file.size).and_then(about);
    // Pipes and devices count as requested too.
    let is_of_files = is_requested && !processes.files.is_empty();
    let summary = file.or_else(|| {
        is_of_files.then(|| {
            let (who, rate, share) = (view.subject(), units::bandwidth(rate), on_disk * 100.0);
            match reads {
                true => format!(
                    "{who} read {rate}, {share:.1}% of it from a disk and the rest from the page cache."
                ),
                false => format!(
                    "{who} wrote {rate}; {share:.1}% of it reached a disk, the rest only the page cache."
                ),
            }
        })
    })?;
    let requested = is_requested.then(|| {
        Evidence::number("requested", rate, Unit::BytesPerSecond)
            .with_source("rchar, wchar of /proc/PID/io")
    });
    let reached =
        Evidence::number("reached a disk", processes.per_second(disk), Unit::BytesPerSecond);
    let reached = reached.with_source("read_bytes, write_bytes of /proc/PID/io");
    let claim = Claim::new(summary, requested.into_iter().chain([reached]).collect());
    Some(match is_requested {
        true => claim.weight(view.share(rate / COPIED_MIN)).confidence(Confidence::High),
        false => claim.weight(1.0).confidence(Confidence::Medium),
    })
}

/// Why I/O on a file does not reach a disk.
fn about(file: &ProcessFile) -> Option<String> {
    let ProcessFile { path, size, allocated, in_memory, .. } = file;
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
