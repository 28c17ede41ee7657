//! The block device itself, and other programs' I/O on it.

use super::View;
use super::view::{UTIL_MIN, WAIT_MIN};
#[cfg(test)]
use crate::rules::testing::Case;
use crate::rules::{Check, Claim, Rule};
use fathom_model::finding::{Class, Confidence, Evidence, Severity, Unit};
use fathom_model::units;

/// Share of all bytes that other programs must have read and written.
pub(super) const OTHERS_SHARE_MIN: f64 = 0.3;
/// Bytes per second below which other programs' I/O does not matter.
const OTHERS_BYTES_MIN: f64 = 1e6;
/// A disk with a smaller share of all bytes than this does not count as another busy disk.
const OTHER_DISK_MAX: f64 = 0.2;

/// Other programs' I/O on the device that the workload waits for.
pub(in crate::rules) static OTHER_PROGRAMS: Rule = Rule {
    id: "other-programs-io",
    class: Class::Limiter,
    severity: Severity::Info,
    meaning: "Other programs issued much of the I/O on the disks while the workload waited for its own.",
    threshold: || {
        format!(
            "Other programs moved {:.0}% or more of the bytes, a disk was busy {UTIL_MIN:.0}% of the time or more, and the \
             workload's busy threads waited for I/O {:.0}% of the time or more.",
            OTHERS_SHARE_MIN * 100.0,
            WAIT_MIN * 100.0
        )
    },
    remedy: "Stop the other program, or measure while it is not running",
    supersedes: &[&DEVICE],
    checks: &[Check::View(other_programs)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.other("dd", 0.1, 10 * 40_960_000),
            near_miss: |s| s.other("dd", 0.1, 40_960_000 / 10),
            summary: "fio moved 9% of the bytes on the disks; dd (pid 812) moved 91%.",
        },
        Case::View {
            holds: |s| s.other("dd", 0.1, 10 * 40_960_000),
            // It does not wait for the disk.
            near_miss: |s| {
                s.computes(0.95);
                s.other("dd", 0.1, 10 * 40_960_000);
            },
            summary: "fio moved 9% of the bytes on the disks; dd (pid 812) moved 91%.",
        },
    ],
};

fn other_programs(view: &View) -> Option<Claim> {
    let processes = &view.seen.processes;
    let disk = view.busy_disk().filter(|_| view.is_own)?;
    let waits = view.held_by_io()?;
    let others = view.others_share().filter(|share| *share >= OTHERS_SHARE_MIN)?;
    let by_bytes = processes.by_disk_bytes();
    let most = by_bytes.first()?;
    let bytes: u64 = by_bytes.iter().map(|uses| uses.disk_bytes()).sum();
    if processes.watched.disk_bytes() == 0 || processes.per_second(bytes) < OTHERS_BYTES_MIN {
        return None;
    }
    let part = |of: u64| of as f64 / (bytes + processes.watched.disk_bytes()) as f64 * 100.0;
    let summary = format!(
        "{} moved {:.0}% of the bytes on the disks; {} moved {:.0}%.",
        view.subject(),
        part(processes.watched.disk_bytes()),
        most.named(),
        part(most.disk_bytes())
    );
    let rate = processes.per_second(bytes);
    let rate = Evidence::number("other programs", rate, Unit::BytesPerSecond);
    let util = Evidence::number(format!("{} util", disk.name), disk.util / 100.0, Unit::Share);
    let evidence = vec![rate.with_source("/proc/PID/io"), util.with_source("/proc/diskstats")];
    // Bytes of programs are known for all disks together.
    let moved = |disk: &crate::machine::DiskRates| disk.read.bytes + disk.write.bytes;
    let elsewhere =
        view.rates.disks_total.read.bytes + view.rates.disks_total.write.bytes - moved(disk);
    let confidence = match elsewhere > moved(disk) * OTHER_DISK_MAX {
        true => Confidence::Medium,
        false => Confidence::High,
    };
    Some(Claim::new(summary, evidence).weight(others * waits).confidence(confidence))
}

/// The device, with nothing known above it that holds I/Os back.
pub(in crate::rules) static DEVICE: Rule = Rule {
    id: "device",
    class: Class::Limiter,
    severity: Severity::Info,
    meaning: "The workload waited for a busy device.",
    threshold: || {
        format!(
            "Its busy threads waited for I/O {:.0}% of the time or more, and a device was busy {UTIL_MIN:.0}% of the time \
             or more. Not if something that holds I/Os back explains half of that.",
            WAIT_MIN * 100.0
        )
    },
    remedy: "Compare with twice the queue depth: if IOPS stay the same and latency doubles, the device is saturated",
    supersedes: &[],
    checks: &[Check::View(device)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |_| (),
            near_miss: |s| s.disk("vda", 10_000, 0.4, 40.0),
            summary: "fio waited for vda 90% of the time: 16.0 I/Os were in flight there on average, 10k reads/s, 1.6 \
                      ms each.",
        },
        Case::View {
            holds: |s| s.whole_machine(),
            // Another program keeps the disk busy.
            near_miss: |s| {
                (s.own().disk_read, s.own().requested_read) = (0, 1 << 20);
            },
            summary: "This machine waited for vda 90% of the time: 16.0 I/Os were in flight there on average, 10k \
                      reads/s, 1.6 ms each.",
        },
    ],
};

fn device(view: &View) -> Option<Claim> {
    let disk = view.busy_disk()?;
    let share = view.io_wait().filter(|share| *share >= WAIT_MIN)?;
    // Of another user's processes nothing is known.
    let own = &view.seen.processes.watched;
    if view.is_own && own.disk_bytes() == 0 && own.requested_read + own.requested_write > 0 {
        return None;
    }
    let kinds = [("reads", &disk.read), ("writes", &disk.write)];
    let (what, most) = kinds.into_iter().max_by(|a, b| a.1.ios.total_cmp(&b.1.ios))?;
    let wait = most.wait_ms.map_or(String::new(), |ms| format!(", {} each", units::time(ms * 1e6)));
    let summary = format!(
        "{} waited for {} {:.0}% of the time: {:.1} I/Os were in flight there on average, {} {what}/s{wait}.",
        view.subject(),
        disk.name,
        share * 100.0,
        disk.queue,
        units::count(most.ios)
    );
    let util = Evidence::number("util", disk.util / 100.0, Unit::Share);
    let claim = Claim::new(summary, vec![util.with_source("/proc/diskstats")]);
    Some(claim.weight(share * disk.util / 100.0).confidence(Confidence::Medium))
}
