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
use fathom_model::watch::DiskKind;
use fathom_model::{shell, units};

/// Share of the I/Os in flight at the stacked device that must have been in flight nowhere below it.
const IN_LAYER_MIN: f64 = 0.5;
/// I/Os in flight at each of the other members, at most, relative to the busiest.
const OTHERS_MAX: f64 = 0.25;
/// A member that got this many times its part of the I/Os has more to do; below, it is slower.
const MORE_IOS: f64 = 1.5;
/// Members cited as evidence.
const MEMBERS_SHOWN: usize = 8;

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

pub(in crate::rules) static UNEVEN_MEMBERS: Rule = Rule {
    id: "uneven-members",
    limits: "one member of the stacked device",
    meaning: "One disk of a device that is built on several (md, dm) was busy while the others had little to do.",
    threshold: || {
        format!(
            "The member with most I/Os in flight was busy {UTIL_MIN:.0}% of the time or more, the others on average less, \
             with at most {OTHERS_MAX} times as many I/Os in flight each, and threads waited for I/O {} of the time or more. \
             With {MORE_IOS} times its part of the I/Os or more, that member had more to do; otherwise it was slower.",
            share_text(WAIT_MIN)
        )
    },
    remedy: "Spread the data over all members: use all of the device, or smaller stripes (chunk size)",
    supersedes: &[&DEVICE],
    checks: &[Check::View(uneven_members)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.members(&[("vdb", 9_000, 14.0, 99.0), ("vdc", 500, 0.5, 8.0)]),
            near_miss: |s| s.members(&[("vdb", 6_000, 10.0, 99.0), ("vdc", 4_000, 6.0, 90.0)]),
            summary: "Of the 2 disks of md0, vdb was 99% busy with 14.0 I/Os in flight, the others 8% with 0.5 on average: it \
                      got 95% of the I/Os.",
        },
        // Both are idle most of the time.
        Case::NearMiss(|s| s.members(&[("vdb", 900, 0.4, 30.0), ("vdc", 50, 0.0, 1.0)])),
        Case::View {
            holds: |s| {
                let rest = [("vdc", 3_300, 1.0, 40.0), ("vdd", 3_300, 1.0, 40.0)];
                s.members(&[("vdb", 3_400, 14.0, 99.0), rest[0], rest[1]]);
            },
            near_miss: |s| {
                let rest = [("vdc", 3_300, 5.0, 90.0), ("vdd", 3_300, 5.0, 90.0)];
                s.members(&[("vdb", 3_400, 6.0, 99.0), rest[0], rest[1]]);
            },
            summary: "Of the 3 disks of md0, vdb was 99% busy with 14.0 I/Os in flight, the others 40% with 1.0 on average: it \
                      got no more I/Os than they, but took 4.12 ms for each, they 303 µs.",
        },
    ],
    ..Rule::LIMITER
};

fn uneven_members(view: &View) -> Option<Claim> {
    let waits = view.held_by_io()?;
    let above = view.disks().into_iter().find(|disk| disk.below.len() >= 2)?;
    // A disk without any I/O has no rates.
    let idle = |name: &String| DiskRates { name: name.clone(), ..DiskRates::default() };
    let rates = |name: &String| view.rates.disks.iter().find(|disk| disk.name == *name);
    let members = above.below.iter().map(|name| rates(name).cloned().unwrap_or_else(|| idle(name)));
    let mut members: Vec<DiskRates> = members.collect();
    members.sort_by(|a, b| b.queue.total_cmp(&a.queue));
    let (busiest, others) = members.split_first()?;
    let mean = |of: fn(&DiskRates) -> f64| others.iter().map(of).sum::<f64>() / others.len() as f64;
    let (queue, util) = (mean(|disk| disk.queue), mean(|disk| disk.util));
    if busiest.util < UTIL_MIN || util >= UTIL_MIN || queue > busiest.queue * OTHERS_MAX {
        return None;
    }
    let ios = |disk: &DiskRates| disk.read.ios + disk.write.ios;
    let part = ios(busiest) / members.iter().map(ios).sum::<f64>().max(1.0);
    let has_more = part * members.len() as f64 >= MORE_IOS;
    let each = |disk: &DiskRates| disk.queue / ios(disk).max(1e-9) * 1e9;
    let why = match has_more {
        true => format!("it got {:.0}% of the I/Os", part * 100.0),
        false => format!(
            "it got no more I/Os than they, but took {} for each, they {}",
            units::time(each(busiest)),
            units::time(others.iter().map(each).sum::<f64>() / others.len() as f64)
        ),
    };
    let summary = format!(
        "Of the {} disks of {}, {} was {:.0}% busy with {:.1} I/Os in flight, the others {util:.0}% with {queue:.1} on \
         average: {why}.",
        members.len(),
        above.name,
        busiest.name,
        busiest.util,
        busiest.queue
    );
    let in_flight = members.iter().map(|disk| {
        Evidence::number(format!("{} aqu-sz", disk.name), disk.queue, Unit::Count)
            .with_source("/proc/diskstats")
    });
    let claim = Claim::new(summary, in_flight.take(MEMBERS_SHOWN).collect());
    let claim = claim.about(Subject::device(&busiest.name)).confidence(Confidence::High);
    let claim = claim.weight(waits * (1.0 - queue / busiest.queue));
    Some(match has_more {
        true => claim,
        false => claim
            .remedy("Look for what slows this member: its health, its link, and what else uses it")
            .command(format!("fathom doctor /dev/{}", busiest.name)),
    })
}
