//! Where storage is attached, and what that limits.

use super::{Check, Claim, Rule};
use crate::topology::{HopLoad, TopologyReport, data_rate, free_ports, root_complexes};
use fathom_model::finding::{Class, Confidence, Evidence, Severity, Unit};
use fathom_model::list;
use fathom_model::topology::{Hop, HopKind, LinkMode, LinkStandard};

/// A root complex is crowded if it has this many times the mean of all.
const CROWDED: f64 = 2.0;
/// Lanes of the widest slots.
const LANES_MAX: u32 = 16;
/// More devices are counted, not listed.
const LISTED_MAX: usize = 6;

pub(super) static UPLINK: Rule = Rule {
    id: "oversubscribed-uplink",
    class: Class::Limiter,
    meaning: "The disks behind a port or switch can deliver more than its link to the CPU, so they cannot all reach full \
              speed at the same time.",
    threshold: || {
        "The sum of the disks' links exceeds the uplink by more than 5%, both after encoding and packet overhead.".into()
    },
    remedy: "Expect at most the uplink's rate from these disks combined, or attach some of them elsewhere",
    checks: &[Check::Topology(uplink)],
    #[cfg(test)]
    cases: &[tests::UPLINK],
    ..Rule::DEFAULT
};

pub(super) static CROWDED_COMPLEX: Rule = Rule {
    id: "crowded-root-complex",
    class: Class::Limiter,
    meaning: "Most of the disks' bandwidth is on one root complex while others have spare capacity. A root complex \
              does not report its capacity, which may be lower than the sum of its ports' links.",
    threshold: || {
        format!(
            "The disks on a root complex can deliver more than one slot of {LANES_MAX} lanes, at least {CROWDED}× the \
             mean of all root complexes, through more than one slot."
        )
    },
    remedy: "Move an adapter to a slot of another root complex",
    checks: &[Check::Topology(crowded)],
    #[cfg(test)]
    cases: &[tests::CROWDED],
    ..Rule::DEFAULT
};

pub(super) static DEGRADED_LINK: Rule = Rule {
    id: "degraded-link",
    class: Class::Limiter,
    meaning: "A link on the path to a disk runs slower or narrower than both of its ends support.",
    threshold: || "The current speed or width is below the lesser of the two ends' maximum.".into(),
    remedy: "Reseat the disk or adapter; check the cable, the riser and the slot's speed in the firmware setup; \
             `dmesg` may report link errors",
    checks: &[Check::Topology(degraded)],
    #[cfg(test)]
    cases: &[tests::DEGRADED],
    ..Rule::DEFAULT
};

pub(super) static SLOW_PORT: Rule = Rule {
    id: "slow-port",
    limits: "",
    class: Class::Advice,
    severity: Severity::Info,
    meaning: "A disk supports a faster or wider link than its port.",
    threshold: || {
        "The maximum speed or width of the port is below that of the device below it.".into()
    },
    remedy: "Use a faster slot, if available",
    supersedes: &[],
    confirmation: None,
    checks: &[Check::Topology(slow_port)],
    #[cfg(test)]
    cases: &[tests::SLOW_PORT],
};

pub(super) static ONE_INTERRUPT_CPU: Rule = Rule {
    id: "one-interrupt-cpu",
    class: Class::Limiter,
    meaning: "One CPU handles all disk interrupts, which limits IOPS once it is busy.",
    threshold: || {
        "Two or more interrupts in use by disks, not counting NVMe admin queues, all on one of several CPUs.".into()
    },
    remedy: "Stop irqbalance, or spread them with /proc/irq/N/smp_affinity_list",
    checks: &[Check::Topology(one_interrupt_cpu)],
    #[cfg(test)]
    cases: &[tests::ONE_CPU],
    ..Rule::DEFAULT
};

pub(super) static REMOTE_DISK: Rule = Rule {
    id: "remote-disk",
    limits: "",
    class: Class::Advice,
    severity: Severity::Info,
    meaning: "fathom is not allowed to run on the CPUs of a disk's NUMA node, so its data crosses the interconnect between packages.",
    threshold: || {
        "None of fathom's allowed CPUs is on the disk's node; nodes without CPUs count, too.".into()
    },
    remedy: "Run on the disk's node: taskset, numactl, cpus_allowed=, or the cpuset of the cgroup",
    supersedes: &[],
    confirmation: None,
    checks: &[Check::Topology(remote_disk)],
    #[cfg(test)]
    cases: &[tests::REMOTE],
};

/// `16 GT/s ×4`.
pub(crate) fn mode(mode: LinkMode) -> String {
    format!("{} GT/s ×{}", f64::from(mode.speed_mts) / 1000.0, mode.lanes)
}

fn gigabytes(rate: f64) -> String {
    format!("{:.1} GB/s", rate / 1e9)
}

/// The name by which a hop is known: its disks' where it has few.
fn named(hop: &Hop) -> String {
    match hop.disks_below().as_slice() {
        [disk] => format!("{disk} ({})", hop.name),
        _ => hop.name.clone(),
    }
}

/// Every hop with the one above it.
fn each<'a>(report: &'a TopologyReport, visit: &mut impl FnMut(&'a Hop, Option<&'a Hop>, HopLoad)) {
    fn below<'a>(
        report: &'a TopologyReport,
        (hop, above): (&'a Hop, Option<&'a Hop>),
        visit: &mut impl FnMut(&'a Hop, Option<&'a Hop>, HopLoad),
    ) {
        visit(hop, above, report.load(&hop.name));
        hop.children.iter().for_each(|child| below(report, (child, Some(hop)), visit));
    }
    report.topology.roots.iter().for_each(|root| below(report, (root, None), visit));
}

/// The first of `items`, and how many more there are.
fn few(mut items: Vec<Evidence>) -> Vec<Evidence> {
    let more = items.len().saturating_sub(LISTED_MAX);
    items.truncate(LISTED_MAX);
    if more > 0 {
        items.push(Evidence::text("", format!("and {more} more")));
    }
    items
}

/// The first of `items` in words: notes are shown without their evidence.
fn listed(items: &[Evidence]) -> String {
    let few = few(items.to_vec());
    few.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// `one` where there is one, else the number and `many`.
fn counted(count: usize, one: &str, many: &str) -> String {
    if count == 1 { one.to_string() } else { format!("{count} {many}") }
}

fn uplink(report: &TopologyReport) -> Option<Claim> {
    let mut found = Vec::new();
    each(report, &mut |hop, _, load| {
        let ratio = load.oversubscribed().filter(|_| load.disks > 1);
        if let (Some(ratio), Some(carries), Some(below)) =
            (ratio, load.carries_bytes_per_s, load.below_bytes_per_s)
        {
            found.push((hop, load.disks, ratio, carries, below));
        }
    });
    let (hop, disks, ratio, carries, below) = *found.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
    let summary = format!(
        "{disks} disks that can deliver {} share one uplink of {} ({}).",
        gigabytes(below),
        gigabytes(carries),
        hop.name
    );
    let first = Evidence::number("oversubscribed", ratio, Unit::Ratio);
    let others =
        found.iter().filter(|other| other.0.name != hop.name).map(|(other, _, ratio, ..)| {
            Evidence::number(format!("also {}", other.name), *ratio, Unit::Ratio)
        });
    let link = hop.link.map(|link| Evidence::text("uplink", mode(link.current)));
    Some(Claim::new(summary, few(std::iter::once(first).chain(link).chain(others).collect())))
}

/// What a slot of the most lanes carries at the best speed of a root complex's ports, and through how many slots its disks
/// are attached: adapters without a switch are one slot of several ports.
fn widest(complex: &Hop, report: &TopologyReport) -> (f64, usize) {
    let ports = || complex.children.iter().filter(|port| report.load(&port.name).disks > 0);
    let best = ports().filter_map(|port| Some((port.link?.best.speed_mts, port.payload_max_bytes)));
    let (speed_mts, payload) = best.max_by_key(|(speed, _)| *speed).unwrap_or_default();
    let slots = list::ascending(ports().map(|port| port.slot.as_deref().unwrap_or(&port.name)));
    let lanes = LANES_MAX;
    (data_rate(LinkStandard::Pcie, LinkMode { speed_mts, lanes }, payload), slots.len())
}

fn crowded(report: &TopologyReport) -> Option<Claim> {
    let below = |load: &HopLoad| load.below_bytes_per_s.unwrap_or(0.0);
    let complexes: Vec<(&Hop, HopLoad)> = root_complexes(report).collect();
    // Without a port nothing can be attached.
    let open = |hop: &Hop| hop.children.iter().any(|child| child.kind == HopKind::RootPort);
    let usable: Vec<_> = complexes.into_iter().filter(|(hop, _)| open(hop)).collect();
    let total: f64 = usable.iter().map(|(_, load)| below(load)).sum();
    let mean = total / usable.len() as f64;
    let (hop, load) = usable.iter().max_by(|a, b| below(&a.1).total_cmp(&below(&b.1)))?;
    let (slot, slots) = widest(hop, report);
    let ratio = below(load) / mean;
    if usable.len() < 2 || slots < 2 || below(load) <= slot * 1.05 || ratio < CROWDED {
        return None;
    }
    let disks: u32 = usable.iter().map(|(_, load)| load.disks).sum();
    let summary = format!(
        "{} of {disks} disks ({} of {}) are on one of {} root complexes, {}, whose capacity may be lower.",
        load.disks,
        gigabytes(below(load)),
        gigabytes(total),
        usable.len(),
        hop.name
    );
    let others = usable.iter().filter(|(other, _)| other.name != hop.name);
    let evidence = others.clone().map(|(other, load)| {
        let text = match load.disks {
            0 => "no disks".to_string(),
            n => format!("{}, {}", counted(n as usize, "1 disk", "disks"), gigabytes(below(load))),
        };
        Evidence::text(other.name.clone(), text)
    });
    let free = others.filter_map(|(other, load)| {
        let port = free_ports(other).max_by_key(|port| {
            (port.slot.is_some(), port.link.map_or(0, |link| link.best.lanes))
        })?;
        Some((below(load), other, port))
    });
    let free = free.min_by(|a, b| a.0.total_cmp(&b.0));
    let claim = Claim::new(summary, few(evidence.collect())).confidence(Confidence::Medium);
    Some(match free {
        Some((_, other, port)) => {
            let slot = port.slot.as_deref().map_or(String::new(), |slot| format!(" ({slot})"));
            claim.remedy(format!(
                "Move an adapter to a slot of another root complex; {} has a free port, {}{slot}",
                other.name, port.name
            ))
        }
        None => claim,
    })
}

fn degraded(report: &TopologyReport) -> Option<Claim> {
    let mut found = Vec::new();
    each(report, &mut |hop, _, load| {
        let (Some(link), Some(best)) = (hop.link, load.best) else { return };
        let lower = link.current.speed_mts < best.speed_mts || link.current.lanes < best.lanes;
        // A port has the same link as what is below it.
        let is_again =
            hop.kind.faces_down() && hop.children.iter().any(|child| child.link.is_some());
        if lower && load.disks > 0 && !is_again {
            let lost =
                load.best_bytes_per_s.unwrap_or(0.0) - load.carries_bytes_per_s.unwrap_or(0.0);
            let text = format!(
                "{} instead of {}, {} lost",
                mode(link.current),
                mode(best),
                gigabytes(lost)
            );
            found.push(Evidence::text(named(hop), text));
        }
    });
    let what = counted(found.len(), "A link to a disk runs", "links to disks run");
    (!found.is_empty())
        .then(|| Claim::new(format!("{what} below what both ends support."), few(found)))
}

fn slow_port(report: &TopologyReport) -> Option<Claim> {
    let mut found = Vec::new();
    each(report, &mut |hop, above, load| {
        let above = above.filter(|above| above.kind.faces_down()).and_then(|above| above.link);
        let (Some(own), Some(port)) = (hop.link, above) else { return };
        let faster = own.best.speed_mts > port.best.speed_mts || own.best.lanes > port.best.lanes;
        // An uplink of a switch is as wide as the slot that it was made for.
        if faster && load.disks > 0 && hop.kind == HopKind::Function {
            let text = format!("{}, its port {}", mode(own.best), mode(port.best));
            found.push(Evidence::text(named(hop), text));
        }
    });
    let what = counted(found.len(), "A disk supports", "disks support");
    let summary = format!("{what} a faster link than the port provides: {}.", listed(&found));
    (!found.is_empty()).then(|| Claim::new(summary, few(found)))
}

fn one_interrupt_cpu(report: &TopologyReport) -> Option<Claim> {
    let mut on: Vec<(u32, u32)> = Vec::new();
    each(report, &mut |hop, _, load| {
        let used = hop.irqs.iter().filter(|irq| !is_admin(&irq.name) && !irq.cpus.is_empty());
        if load.disks > 0 && matches!(hop.kind, HopKind::Function | HopKind::Controller) {
            on.extend(used.flat_map(|irq| irq.cpus.iter().map(|cpu| (*cpu, irq.number))));
        }
    });
    let irqs = list::ascending(on.iter().map(|(_, irq)| *irq)).len();
    let cpus: usize = report.topology.packages.iter().map(|package| package.cpus.len()).sum();
    let (cpu, _) = *on.first()?;
    let all_here = on.iter().all(|(other, _)| *other == cpu);
    (irqs >= 2 && cpus >= 2 && all_here).then(|| {
        let summary = format!("All {irqs} disk interrupts go to CPU {cpu} of {cpus}.");
        let number = Evidence::number("interrupts", irqs as f64, Unit::Count);
        Claim::new(summary, vec![number.with_source("/proc/irq/*/effective_affinity_list")])
    })
}

/// Interrupts that no I/O arrives with: of the NVMe admin queue, and of configuration changes of virtio.
fn is_admin(name: &str) -> bool {
    (name.starts_with("nvme") && name.ends_with("q0")) || name.ends_with("-config")
}

fn remote_disk(report: &TopologyReport) -> Option<Claim> {
    let topology = &report.topology;
    let allowed = &topology.cpus_allowed;
    let remote = |node: u32| {
        let node = topology.numa_nodes.iter().find(|own| own.id == node);
        node.is_some_and(|node| !node.cpus.iter().any(|cpu| allowed.contains(cpu)))
    };
    let mut found = Vec::new();
    each(report, &mut |hop, _, load| {
        if let Some(node) = hop.numa_node.filter(|node| remote(*node))
            && hop.kind == HopKind::Function
            && load.disks > 0
        {
            found.push(Evidence::text(named(hop), format!("node {node}")));
        }
    });
    let what = counted(found.len(), "A disk is", "disks are");
    let summary = format!(
        "{what} attached to a NUMA node on whose CPUs fathom is not allowed to run: {}.",
        listed(&found)
    );
    let applies = !found.is_empty() && !allowed.is_empty() && topology.numa_nodes.len() > 1;
    applies.then(|| Claim::new(summary, few(found)))
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
