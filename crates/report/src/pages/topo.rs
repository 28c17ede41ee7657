//! `fathom topo`: where storage is attached, and the bandwidth of the links.

mod hops;
mod wiring;

use crate::doc::{
    Block, DataColumn, Document, Quantity, QuantityUnit, Text, TreeNode, bytes, percent, text,
    whole,
};
use crate::topo_svg;
use fathom_analysis::topology::{TopologyReport, free_ports, root_complexes};
use fathom_model::topology::{Hop, LinkStandard, NumaNode, Topology};

/// Findings, root complexes, the tree, and interrupts. With `verbose`, every device has a row of its own, also those
/// without disks, and every interrupt and hardware queue.
pub fn topo(report: &TopologyReport, verbose: bool) -> Document {
    let mut page = Document::default();
    page.findings(&report.findings);
    let mut complexes = Document::default();
    complexes.table(complex_columns(), complex_rows(report));
    let about = "combined bandwidth of their disks' links; bars show shares of the total";
    page.section_if_any("root complexes", about, complexes);
    let mut tree = Document::default();
    if !report.topology.volumes.is_empty() {
        tree.blocks.push(Block::Svg(topo_svg::lists(report)));
    }
    tree.tree(hops::columns(), roots(report, verbose));
    page.section_if_any("storage topology", about_links(report), tree);
    let mut interrupts = Document::default();
    wiring::tables(&mut interrupts, &report.topology, verbose);
    page.section_if_any("interrupts and hardware queues", Text::default(), interrupts);
    if report.topology.volumes.is_empty() {
        page.paragraph("No disks found.");
    }
    page
}

pub(crate) fn topo_tree(report: &TopologyReport) -> Vec<TreeNode> {
    roots(report, false)
}

fn about_links(report: &TopologyReport) -> Text {
    let (mut links, mut without) = (0, 0);
    report.topology.each(&mut |hop| {
        let is_pcie = hop.link.is_some_and(|link| link.standard == LinkStandard::Pcie);
        if is_pcie && report.load(&hop.name).disks > 0 {
            links += 1;
            without += u32::from(hop.payload_max_bytes.is_none());
        }
    });
    match (links, without) {
        (0, _) => Text::default(),
        (_, 0) => "bandwidth per direction: of each link, and of the links below it combined".into(),
        _ => "bandwidth per direction: of each link, and of the links below it combined; excludes packet overhead \
              (about 10%), as the payload size is unknown without root"
            .into(),
    }
}

fn rate(bytes_per_s: Option<f64>) -> Text {
    let rate = |rate| Quantity::new(rate, QuantityUnit::DecimalBytesPerSecond);
    bytes_per_s.map(rate).into()
}

fn complex_columns() -> Vec<DataColumn> {
    vec![
        DataColumn::text("name"),
        DataColumn::number("NUMA node").ranked(3),
        DataColumn::number("disks"),
        DataColumn::number("disk links"),
        DataColumn::text("share").ranked(1),
        DataColumn::number("free ports").ranked(2),
    ]
}

/// The root complexes with ports or disks, where there is more than one.
fn complex_rows(report: &TopologyReport) -> Vec<Vec<Text>> {
    let shown: Vec<_> = root_complexes(report).collect();
    let total: f64 = shown.iter().filter_map(|(_, load)| load.below_bytes_per_s).sum();
    if shown.len() < 2 || total == 0.0 {
        return Vec::new();
    }
    let row = |(hop, load): &(&Hop, fathom_analysis::topology::HopLoad)| {
        let share = load.below_bytes_per_s.map(|below| below * 100.0 / total);
        let bar = share.map(|share| Quantity { unit: QuantityUnit::PercentBar, ..percent(share) });
        vec![
            hop.name.as_str().into(),
            hop.numa_node.map(whole).into(),
            whole(load.disks).into(),
            rate(load.below_bytes_per_s),
            bar.into(),
            whole(free_ports(hop).count() as u64).into(),
        ]
    };
    shown.iter().map(row).collect()
}

/// The rows without a parent: packages, or NUMA nodes where packages do not contain them; then what is attached to no PCI
/// bus, and volumes on several disks or on none.
fn roots(report: &TopologyReport, verbose: bool) -> Vec<TreeNode> {
    let topology = &report.topology;
    let hops = hops::Hops { report, verbose };
    let only = match topology.numa_nodes.as_slice() {
        [node] => Some(node.id),
        _ => None,
    };
    let node_of = |hop: &Hop| hop.numa_node.filter(|id| has_node(topology, *id)).or(only);
    let on_node = |id: Option<u32>| {
        let here = topology.roots.iter().filter(|hop| node_of(hop) == id);
        here.filter_map(|hop| hops.row(hop)).collect::<Vec<TreeNode>>()
    };
    let node_row = |node: &NumaNode| TreeNode {
        cells: vec![text!(
            format!("NUMA node {}: ", node.id),
            (!node.cpus.is_empty()).then(|| format!("CPUs {}; ", wiring::cpus(&node.cpus))),
            bytes(node.memory_bytes)
        )],
        children: on_node(Some(node.id)),
        ..TreeNode::default()
    };
    let is_shown = |row: &TreeNode| verbose || !row.children.is_empty();
    let mut rows = Vec::new();
    let mut placed: Vec<u32> = Vec::new();
    for package in &topology.packages {
        let own = topology.numa_nodes.iter().filter(|node| {
            let inside = |cpu: &u32| package.cpus.contains(cpu);
            !node.cpus.is_empty() && node.cpus.iter().all(inside)
        });
        let own: Vec<&NumaNode> = own.collect();
        placed.extend(own.iter().map(|node| node.id));
        let model = if package.model.is_empty() { "" } else { ": " };
        let children = own.into_iter().map(node_row).filter(is_shown).collect();
        let name = format!("package {}{model}{}", package.id, package.model);
        rows.push(TreeNode { cells: vec![name.into()], children, ..TreeNode::default() });
    }
    rows.extend(topology.numa_nodes.iter().filter(|node| !placed.contains(&node.id)).map(node_row));
    rows.retain(is_shown);
    rows.extend(on_node(None));
    rows.extend(hops.other_volumes());
    rows
}

fn has_node(topology: &Topology, id: u32) -> bool {
    topology.numa_nodes.iter().any(|node| node.id == id)
}
