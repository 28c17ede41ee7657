//! Devices built on others: device mapper, md, loop.

use super::View;
use super::device::DEVICE;
use super::queue::time_in_scheduler;
use super::view::{UTIL_MIN, WAIT_MIN, share_text};
use crate::machine::DiskRates;
#[cfg(test)]
use crate::rules::testing::Case;
use crate::rules::{Check, Claim, Rule};
use fathom_model::finding::{Confidence, Evidence, Subject, Unit};
use fathom_model::shell;
use fathom_model::watch::DiskKind;

/// Share of the I/Os in flight at the stacked device that must have been in flight nowhere below it.
const IN_LAYER_MIN: f64 = 0.5;

pub(in crate::rules) static STACKED_DEVICE: Rule = Rule {
    id: "stacked-device",
    limits: "the stacked device itself",
    meaning: "I/Os spent their time in the layer of a stacked device (device mapper, md, loop), not below it.",
    threshold: || {
        format!(
            "A stacked device was busy {UTIL_MIN:.0}% of the time or more, {:.0}% or more of the I/Os in flight there were \
             in flight neither at the devices below it, where merged ones count one by one, nor in its I/O scheduler \
             (`io-scheduler`), and threads waited for I/O {} of the time or more.",
            IN_LAYER_MIN * 100.0,
            share_text(WAIT_MIN)
        )
    },
    remedy: "Compare with I/O on the device below; dmsetup table and /proc/mdstat show what the layer does",
    supersedes: &[&DEVICE],
    checks: &[Check::View(stacked_device)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.stacked("dm-0", 16.0, 4.0),
            near_miss: |s| s.stacked("dm-0", 16.0, 12.0),
            summary: "dm-0 (vg-data) itself took 75% of the time: on average 16.0 I/Os were in flight on it, 4.0 of them \
                      at vda below it.",
        },
        // Four I/Os are merged into each request below.
        Case::NearMiss(|s| {
            s.stacked("dm-0", 16.0, 4.0);
            s.merges("vda", 3);
        }),
        Case::View {
            holds: |s| s.stacked("loop0", 16.0, 0.0),
            // Its scheduler holds them back.
            near_miss: |s| {
                s.stacked("loop0", 16.0, 4.0);
                s.scheduled("loop0", "bfq");
                s.held_requests("loop0", 750);
            },
            summary: "loop0 (vg-data) itself took 100% of the time: on average 16.0 I/Os were in flight on it, 0.0 of them \
                      at vda below it.",
        },
    ],
    ..Rule::LIMITER
};

fn stacked_device(view: &View) -> Option<Claim> {
    let waits = view.held_by_io()?;
    let is_stacked = |disk: &&&DiskRates| {
        disk.kind == DiskKind::Stacked && !disk.below.is_empty() && disk.util >= UTIL_MIN
    };
    let disks = view.disks();
    let disk = disks.iter().find(is_stacked)?;
    let below = view.queue_below(disk);
    let scheduler = view.device(&disk.name).and_then(|device| device.scheduler.as_deref());
    let held = match scheduler {
        None | Some("none") => 0.0,
        Some(_) => time_in_scheduler(view, disk)?,
    };
    let in_layer = 1.0 - below / disk.queue - held;
    if in_layer < IN_LAYER_MIN {
        return None;
    }
    let name = match disk.alias.as_str() {
        "" => disk.name.clone(),
        alias => format!("{} ({alias})", disk.name),
    };
    let summary = format!(
        "{name} itself took {:.0}% of the time: on average {:.1} I/Os were in flight on it, {below:.1} of them at {} below \
         it.",
        in_layer * 100.0,
        disk.queue,
        disk.below.join(", ")
    );
    let queue = |name: String, queue: f64| {
        Evidence::number(name, queue, Unit::Count).with_source("/proc/diskstats")
    };
    let evidence = vec![
        queue(format!("{} aqu-sz", disk.name), disk.queue),
        queue(format!("{} aqu-sz × I/Os per request", disk.below.join(" + ")), below),
    ];
    let claim = Claim::new(summary, evidence).weight(in_layer * waits);
    let claim = claim.about(Subject::device(&disk.name)).confidence(Confidence::Medium);
    let claim = match disk.name.as_bytes() {
        [b'd', b'm', b'-', ..] if !disk.alias.is_empty() => {
            claim.command(format!("dmsetup table {}", shell::quoted(&disk.alias)))
        }
        [b'm', b'd', ..] => claim.command("cat /proc/mdstat"),
        _ => claim,
    };
    Some(match disk.name.starts_with("loop") {
        true => claim.remedy(
            "Compare with I/O on the file itself, or with losetup --direct-io=on, which bypasses the page cache",
        ),
        false => claim,
    })
}
