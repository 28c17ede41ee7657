//! Interrupts and hardware queues with their CPUs.

use crate::doc::{DataColumn, Document, Text, whole};
use fathom_model::topology::{Hop, Irq, Topology};
use fathom_model::{cpus, list};

/// Disks with their interrupts, which their controller's function has.
struct Wired<'a> {
    disks: Vec<&'a str>,
    irqs: Vec<&'a Irq>,
    numa_node: Option<u32>,
}

/// A row for each controller with interrupts, and with `verbose` one for each interrupt and hardware queue.
pub(super) fn tables(body: &mut Document, topology: &Topology, verbose: bool) {
    let mut wired = Vec::new();
    topology.roots.iter().for_each(|root| collect(root, None, &mut wired));
    wired.retain(|wired| !wired.irqs.is_empty() || !queues(topology, wired).is_empty());
    body.table(
        vec![
            DataColumn::text("disk"),
            DataColumn::number("NUMA node").ranked(2),
            DataColumn::number("queues"),
            DataColumn::number("interrupts"),
            DataColumn::text("CPUs handling interrupts"),
        ],
        wired.iter().map(|wired| summary(topology, wired)).collect(),
    );
    if verbose {
        let columns = ["disk", "what", "CPUs"].map(DataColumn::text).to_vec();
        body.table(columns, wired.iter().flat_map(|wired| details(topology, wired)).collect());
    }
}

fn collect<'a>(hop: &'a Hop, above: Option<&'a Hop>, wired: &mut Vec<Wired<'a>>) {
    let nearest = if hop.irqs.is_empty() { above } else { Some(hop) };
    // Ports have interrupts of their own, for hot plug and errors.
    let nearest = nearest.filter(|nearest| !nearest.kind.faces_down());
    if !hop.disks.is_empty() {
        wired.push(Wired {
            disks: hop.disks.iter().map(String::as_str).collect(),
            irqs: nearest.map(|hop| hop.irqs.iter().collect()).unwrap_or_default(),
            numa_node: nearest.and_then(|hop| hop.numa_node),
        });
    }
    hop.children.iter().for_each(|child| collect(child, nearest, wired));
}

fn queues<'a>(topology: &'a Topology, wired: &Wired<'_>) -> &'a [Vec<u32>] {
    let first = wired.disks.first().and_then(|disk| topology.volume(disk));
    first.map_or(&[], |disk| &disk.queues)
}

fn summary(topology: &Topology, wired: &Wired<'_>) -> Vec<Text> {
    let arrive = list::ascending(wired.irqs.iter().flat_map(|irq| irq.cpus.clone()));
    vec![
        wired.disks.join(", ").into(),
        wired.numa_node.map(whole).into(),
        whole(queues(topology, wired).len() as u64).into(),
        whole(wired.irqs.len() as u64).into(),
        cpus(&arrive).into(),
    ]
}

fn details(topology: &Topology, wired: &Wired<'_>) -> Vec<Vec<Text>> {
    let disks = wired.disks.join(", ");
    let row = |what: String, on: &[u32]| vec![disks.as_str().into(), what.into(), cpus(on).into()];
    let queues = queues(topology, wired).iter().enumerate();
    let queues = queues.map(|(number, on)| row(format!("hardware queue {number}"), on));
    let irqs = wired.irqs.iter();
    let irqs = irqs.map(|irq| row(format!("interrupt {} {}", irq.number, irq.name), &irq.cpus));
    queues.chain(irqs).collect()
}

/// `0–3, 8`: ascending numbers.
pub(super) fn cpus(numbers: &[u32]) -> String {
    cpus::list(numbers).replace('-', "–").replace(',', ", ")
}
