//! Links between disks and CPUs, memory behind them, and the CPU to which their interrupts go.

use super::View;
use super::device::DEVICE;
#[cfg(test)]
use super::testing::Scene;
use super::view::{CPUS_BUSY_MIN, WAIT_MIN, share_text};
use crate::ceilings::{DeviceLoad, LinkLoad, REAL_MAX, link_loads};
#[cfg(test)]
use crate::rules::testing::{Case, complex, port, topology};
use crate::rules::{Check, Claim, Rule};
use fathom_model::finding::{Confidence, Evidence, Subject, Unit};
#[cfg(test)]
use fathom_model::topology::HopKind;
use fathom_model::units;
use fathom_model::watch::ThreadState;

/// The part of a link's usable bandwidth from which it is full: acknowledgements and requests take some of it, too.
const FULL_MIN: f64 = 0.85;
/// The best mode of both ends carries this many times as much, at least, where a link is below its capability.
const BELOW_MIN: f64 = 1.05;
/// The part of memory's bandwidth from which it is full: a copy, by which that is measured, is not all that it can do.
const MEMORY_FULL_MIN: f64 = 0.8;
/// Time that a CPU must have spent in interrupts, in percent, and the part of the disk's interrupts that it handled.
const IN_INTERRUPTS_MIN: f64 = 40.0;
const ON_ONE_MIN: f64 = 0.9;
/// The same, in percent, from which it does not matter what the other CPUs do.
const FULL_OF_INTERRUPTS: f64 = 80.0;
/// Idle time of the other CPUs, in percent.
const OTHERS_IDLE_MIN: f64 = 30.0;
/// Interrupts per second of the disk below which the CPU's time in interrupts is not due to them.
const INTERRUPTS_MIN: f64 = 100.0;

pub(in crate::rules) static FULL_LINK: Rule = Rule {
    id: "full-link",
    limits: "the link to the disks",
    meaning: "A link on the way to the disks carried as much as it can: that of the disk, or one that several disks share (root \
              port, switch).",
    threshold: || {
        format!(
            "A PCIe link carried {:.0}% or more of its usable bandwidth in one direction (SATA: in both together), and threads \
             waited for I/O {} of the time or more. Only where the topology is known: in `run`. A root complex does not report \
             its capacity. A link that carried more than {:.0}% is one that only a hypervisor reports.",
            FULL_MIN * 100.0,
            share_text(WAIT_MIN),
            REAL_MAX * 100.0
        )
    },
    remedy: "Expect no more through this link; compare with disks on other root ports",
    supersedes: &[&DEVICE],
    checks: &[Check::View(full_link)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| on_link(s, 1_650_000),
            near_miss: |s| on_link(s, 1_400_000),
            summary: "PCIe link of nvme0n1 (disk0), 16 GT/s ×4 carried 6.29 GiB/s, 94% of the 6.71 GiB/s that it can.",
        },
        Case::View {
            holds: |s| {
                on_link(s, 1_650_000);
                each_link(s, |mode, best| (mode.lanes, best.lanes) = (4, 8));
            },
            near_miss: |s| {
                on_link(s, 1_650_000);
                each_link(s, |mode, best| (mode.lanes, best.lanes) = (8, 8));
            },
            summary: "PCIe link of nvme0n1 (disk0), 16 GT/s ×4 carried 6.29 GiB/s, 94% of the 6.71 GiB/s that it can. Both of its \
                      ends could do 13.4 GiB/s.",
        },
        // A virtual machine's, which is none.
        Case::NearMiss(|s| on_link(s, 2_000_000)),
        Case::View {
            holds: |s| behind_switch(s, 825_000),
            near_miss: |s| behind_switch(s, 700_000),
            summary: "PCIe link of disk0 (2 disks), 16 GT/s ×4 carried 6.29 GiB/s, 94% of the 6.71 GiB/s that it can. 2 disks \
                      share it.",
        },
    ],
    ..Rule::LIMITER
};

/// Reads of nvme0n1, which is attached to a link of 16 GT/s ×4.
#[cfg(test)]
fn on_link(scene: &mut Scene, iops: u64) {
    scene.disk("nvme0n1", iops, 16.0, 99.0);
    scene.record.header.facts.topology = Some(topology());
}

#[cfg(test)]
fn each_link(
    scene: &mut Scene,
    change: fn(&mut fathom_model::topology::LinkMode, &mut fathom_model::topology::LinkMode),
) {
    let topology = scene.record.header.facts.topology.as_mut().unwrap();
    let port = &mut topology.roots[0].children[0];
    for link in [&mut port.link, &mut port.children[0].link] {
        let link = link.as_mut().unwrap();
        change(&mut link.current, &mut link.best);
    }
}

/// The same of two disks behind a switch, whose uplink is no wider than the link of each.
#[cfg(test)]
fn behind_switch(scene: &mut Scene, iops: u64) {
    scene.disk("nvme1n1", iops, 16.0, 99.0);
    scene.disk("nvme2n1", iops, 16.0, 99.0);
    let mut root = port(0);
    let switch = &mut root.children[0];
    (switch.kind, switch.disks) = (HopKind::SwitchUpstream, Vec::new());
    switch.children = vec![port(1), port(2)];
    switch.children.iter_mut().for_each(|port| port.kind = HopKind::SwitchDownstream);
    let mut topology = topology();
    topology.roots = vec![complex(0, vec![root])];
    scene.record.header.facts.topology = Some(topology);
}

fn full_link(view: &View) -> Option<Claim> {
    let waits = view.held_by_io()?;
    let topology = view.record.header.facts.topology.as_ref()?;
    let loads: Vec<DeviceLoad> = view.disks().into_iter().map(DeviceLoad::from).collect();
    let used = |link: &LinkLoad| link.carried / link.carries;
    let all = link_loads(topology, &loads);
    let link = all.iter().max_by(|a, b| used(a).total_cmp(&used(b)))?;
    if used(link) < FULL_MIN {
        return None;
    }
    let below = match link.best > link.carries * BELOW_MIN {
        true => format!(" Both of its ends could do {}.", units::bandwidth(link.best)),
        false => String::new(),
    };
    let shared = match link.disks.len() {
        0 | 1 => String::new(),
        disks => format!(" {disks} disks share it."),
    };
    let summary = format!(
        "{} carried {}, {:.0}% of the {} that it can.{below}{shared}",
        link.name,
        units::bandwidth(link.carried),
        used(link) * 100.0,
        units::bandwidth(link.carries)
    );
    let carried = Evidence::number("carried", link.carried, Unit::BytesPerSecond);
    let usable = Evidence::number("usable", link.carries, Unit::BytesPerSecond);
    let evidence = vec![carried.with_source("/proc/diskstats"), usable.with_source("/sys")];
    let claim = Claim::new(summary, evidence).command("fathom topo").confidence(Confidence::High);
    let claim =
        claim.about(link.disks.first().map_or(Subject::Machine, |disk| Subject::device(disk)));
    let claim = claim.weight(waits * used(link).min(1.0));
    Some(match below.is_empty() {
        true => claim,
        false => claim.remedy(
            "Reseat the disk or adapter; check the cable, the riser and the slot's speed in the firmware setup",
        ),
    })
}

pub(in crate::rules) static MEMORY_BANDWIDTH: Rule = Rule {
    id: "memory-bandwidth",
    limits: "memory bandwidth",
    meaning: "The disks transferred as much to and from memory as the CPUs move when they only copy.",
    threshold: || {
        format!(
            "The disks transferred {:.0}% or more of twice the bytes that all CPUs together copy, and threads waited for I/O {} \
             of the time or more. Only in `run`, and once a search (`fathom limit`) has measured the copy since the last boot.",
            MEMORY_FULL_MIN * 100.0,
            share_text(WAIT_MIN)
        )
    },
    remedy: "Fill all memory channels; keep each disk's jobs and buffers on its NUMA node",
    supersedes: &[&DEVICE],
    checks: &[Check::View(memory_bandwidth)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| copies(s, 4e9),
            near_miss: |s| copies(s, 5e9),
            summary: "The disks moved 6.33 GiB/s through memory, 85% of the 7.45 GiB/s that a copy by all CPUs moves.",
        },
        // Nobody has measured it.
        Case::NearMiss(|s| {
            copies(s, 4e9);
            s.record.header.facts.host.memory_copy_bytes_per_second = None;
        }),
    ],
    ..Rule::LIMITER
};

/// Reads of a disk, where all CPUs copy this many bytes per second.
#[cfg(test)]
fn copies(scene: &mut Scene, bytes_per_second: f64) {
    scene.disk("nvme0n1", 1_650_000, 16.0, 99.0);
    scene.record.header.facts.host.memory_copy_bytes_per_second = Some(bytes_per_second);
}

fn memory_bandwidth(view: &View) -> Option<Claim> {
    let waits = view.held_by_io()?;
    let usable = 2.0 * view.record.header.facts.host.memory_copy_bytes_per_second?;
    let disks = view.disks().into_iter().filter(|disk| disk.below.is_empty()).map(DeviceLoad::from);
    let moved: f64 = disks.map(|disk| disk.bytes.iter().map(|(_, bytes)| bytes).sum::<f64>()).sum();
    let used = moved / usable;
    if used < MEMORY_FULL_MIN {
        return None;
    }
    let summary = format!(
        "The disks moved {} through memory, {:.0}% of the {} that a copy by all CPUs moves.",
        units::bandwidth(moved),
        used * 100.0,
        units::bandwidth(usable)
    );
    let moved =
        Evidence::number("moved", moved, Unit::BytesPerSecond).with_source("/proc/diskstats");
    let usable = Evidence::number("copy", usable, Unit::BytesPerSecond)
        .with_source("twice the bytes copied");
    let claim = Claim::new(summary, vec![moved, usable]).confidence(Confidence::Medium);
    Some(claim.about(Subject::Machine).weight(waits * used.min(1.0)))
}

pub(in crate::rules) static INTERRUPT_CPU: Rule = Rule {
    id: "interrupt-cpu",
    limits: "the CPU that handles the disk's interrupts",
    meaning: "One CPU handled the disk's interrupts and had no time left, while others were idle.",
    threshold: || {
        format!(
            "{:.0}% or more of the disk's interrupts, and {INTERRUPTS_MIN:.0} per second or more, arrived at a CPU that was busy \
             {CPUS_BUSY_MIN:.0}% of the time or more and in interrupts {IN_INTERRUPTS_MIN:.0}% or more, while the others were idle \
             {OTHERS_IDLE_MIN:.0}% of the time or more on average, or in interrupts {FULL_OF_INTERRUPTS:.0}% or more, and threads \
             waited for I/O or a CPU {} of the time or more. Kernels that do not account for the time of interrupts show that of \
             softirqs alone.",
            ON_ONE_MIN * 100.0,
            share_text(WAIT_MIN)
        )
    },
    remedy: "Complete I/Os on the CPUs that submitted them (rq_affinity=2), or spread the interrupts \
             (/proc/irq/N/smp_affinity_list, which irqbalance sets)",
    supersedes: &[&DEVICE],
    checks: &[Check::View(interrupt_cpu)],
    #[cfg(test)]
    cases: &[
        Case::View {
            holds: |s| s.interrupts([98, 20], [70, 2], [50_000, 10]),
            // Both CPUs handle them.
            near_miss: |s| s.interrupts([98, 20], [70, 2], [30_000, 20_000]),
            summary: "CPU 0 handled 100% of the 50k interrupts/s of vda, spent 70% of its time in interrupts and was 98% busy; the \
                      other CPUs were idle 80% of the time.",
        },
        // It has time left.
        Case::NearMiss(|s| s.interrupts([80, 20], [70, 2], [50_000, 10])),
        // It computes.
        Case::NearMiss(|s| s.interrupts([98, 20], [10, 2], [50_000, 10])),
        // Whatever the other one does, as nothing but interrupts fits on this one.
        Case::View {
            holds: |s| s.interrupts([99, 96], [97, 2], [420, 1]),
            // It computes, too.
            near_miss: |s| s.interrupts([99, 96], [70, 2], [420, 1]),
            summary: "CPU 0 handled 100% of the 421 interrupts/s of vda, spent 97% of its time in interrupts and was 99% busy; the \
                      other CPUs were idle 4% of the time.",
        },
        // The interrupts are those of others.
        Case::NearMiss(|s| s.interrupts([98, 20], [70, 2], [80, 0])),
    ],
    ..Rule::LIMITER
};

fn interrupt_cpu(view: &View) -> Option<Claim> {
    let disk = view.disk()?;
    let arrived = view.interrupts_of(&disk.name);
    let total: f64 = arrived.iter().map(|(_, rate)| rate).sum();
    let (cpu, most) = *arrived.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let cpus = &view.rates.system.as_ref()?.cpus;
    let shares = cpus.iter().find(|one| one.cpu == cpu)?.shares;
    let idle: Vec<f64> = cpus
        .iter()
        .filter(|one| one.cpu != cpu)
        .map(|one| one.shares.idle + one.shares.iowait)
        .collect();
    let idle_mean = idle.iter().sum::<f64>() / idle.len().max(1) as f64;
    let in_interrupts = shares.irq + shares.softirq;
    let is_full = shares.busy() >= CPUS_BUSY_MIN && in_interrupts >= IN_INTERRUPTS_MIN;
    let waits = view.io_wait().unwrap_or(1.0) + view.share(view.state(ThreadState::Runnable));
    if most < total * ON_ONE_MIN
        || total < INTERRUPTS_MIN
        || !is_full
        || idle_mean < OTHERS_IDLE_MIN && in_interrupts < FULL_OF_INTERRUPTS
        || waits < view.share_min(WAIT_MIN)
    {
        return None;
    }
    let summary = format!(
        "CPU {cpu} handled {:.0}% of the {} interrupts/s of {}, spent {in_interrupts:.0}% of its time in interrupts and was \
         {:.0}% busy; the other CPUs were idle {idle_mean:.0}% of the time.",
        most / total * 100.0,
        units::count(total),
        disk.name,
        shares.busy()
    );
    let interrupts = Evidence::number(format!("interrupts/s on CPU {cpu}"), most, Unit::Count);
    let time = Evidence::number("time in interrupts", in_interrupts / 100.0, Unit::Share);
    let evidence = vec![interrupts.with_source("/proc/interrupts"), time.with_source("/proc/stat")];
    let claim = Claim::new(summary, evidence).about(Subject::Cpus { cpus: vec![cpu] });
    Some(claim.weight(waits.min(1.0) * in_interrupts / 100.0).confidence(Confidence::Medium))
}
