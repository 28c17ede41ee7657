//! The rules' cases.

use super::super::testing::{Case, port, topology};
use super::*;
use crate::rules::topology_findings;
use crate::topology::analyze;
use fathom_model::topology::Topology;

/// Puts this many disks below the first complex, each with its own port.
fn fill(topology: &mut Topology, disks: u32) {
    topology.roots[0].children = (0..disks).map(port).collect();
}

/// Puts this many disks behind a switch with an uplink of eight lanes.
fn behind_switch(topology: &mut Topology, disks: u32) {
    let mut first = port(0);
    let mut switch = port(90);
    switch.kind = HopKind::SwitchUpstream;
    switch.children = (0..disks).map(port).collect();
    for hop in &mut switch.children {
        hop.kind = HopKind::SwitchDownstream;
    }
    for link in [&mut first.link, &mut switch.link] {
        link.as_mut().unwrap().current.lanes = 8;
    }
    first.children = vec![switch];
    topology.roots[0].children = vec![first];
}

fn first_link(topology: &mut Topology, change: impl Fn(&mut LinkMode, &mut LinkMode)) {
    let port = &mut topology.roots[0].children[0];
    let [own, below] =
        [&mut port.link, &mut port.children[0].link].map(|link| link.as_mut().unwrap());
    change(&mut own.current, &mut own.best);
    change(&mut below.current, &mut below.best);
}

fn move_irqs(topology: &mut Topology, except: u32) {
    for root in &mut topology.roots {
        for irq in &mut root.children[0].children[0].irqs {
            irq.cpus = vec![if irq.number == except { 1 } else { 3 }];
        }
    }
}

pub(super) const UPLINK: Case = Case::Topology {
    holds: |topology| behind_switch(topology, 3),
    near_miss: |topology| behind_switch(topology, 2),
};

pub(super) const CROWDED: Case = Case::Topology {
    holds: |topology| {
        fill(topology, 8);
        topology.roots[1].children.clear();
        topology.roots[1].children.push(port(16));
        topology.roots[1].children[0].children.clear();
    },
    // The other one has more than a third of the disks.
    near_miss: |topology| {
        fill(topology, 8);
        topology.roots[1].children = (16..21).map(port).collect();
    },
};

pub(super) const DEGRADED: Case = Case::Topology {
    holds: |topology| first_link(topology, |current, _| current.lanes = 2),
    // The disk supports no more.
    near_miss: |topology| {
        first_link(topology, |current, _| current.speed_mts = 8000);
        topology.roots[0].children[0].children[0].link.as_mut().unwrap().best.speed_mts = 8000;
    },
};

pub(super) const SLOW_PORT: Case = Case::Topology {
    holds: |topology| topology.roots[0].children[0].link.as_mut().unwrap().best.speed_mts = 8000,
    near_miss: |topology| topology.roots[0].children[0].link.as_mut().unwrap().best.lanes = 16,
};

pub(super) const ONE_CPU: Case = Case::Topology {
    holds: |topology| move_irqs(topology, u32::MAX),
    near_miss: |topology| move_irqs(topology, 2),
};

pub(super) const REMOTE: Case = Case::Topology {
    holds: |topology| topology.cpus_allowed = vec![2, 3],
    near_miss: |topology| topology.cpus_allowed = vec![1, 2],
};

#[test]
fn an_adapter_of_several_ports_is_one_slot() {
    let mut one = topology();
    fill(&mut one, 8);
    one.roots[1].children[0].children.clear();
    let held = |topology: &Topology| {
        let findings = topology_findings(&analyze(topology.clone()));
        findings.iter().any(|finding| finding.rule == CROWDED_COMPLEX.id)
    };
    assert!(held(&one));
    for port in &mut one.roots[0].children {
        port.slot = Some("PCIEX16_1".into());
    }
    assert!(!held(&one));
}

#[test]
fn findings_name_devices_and_figures() {
    let mut topology = topology();
    fill(&mut topology, 8);
    topology.roots[1].children[0].children.clear();
    topology.roots[1].children[0].slot = Some("PCIEX16_2".into());
    first_link(&mut topology, |current, _| current.speed_mts = 8000);
    let shown: Vec<String> = topology_findings(&analyze(topology))
        .iter()
        .map(|found| {
            let evidence: Vec<String> = found.evidence.iter().map(ToString::to_string).collect();
            format!("{} ({}) -> {:?}", found.summary, evidence.join("; "), found.next_step)
        })
        .collect();
    assert!(
        shown[0].starts_with(
            "A link to a disk runs below what both ends support. \
             (nvme0n1 (disk0): 8 GT/s ×4 instead of 16 GT/s ×4, 3.6 GB/s lost)"
        ),
        "{shown:?}"
    );
    assert_eq!(
        shown[1],
        "8 of 8 disks (54.0 GB/s of 54.0 GB/s) are on one of 2 root complexes, pci0000:00, whose capacity may be lower. \
         (pci0000:10: no disks) -> Some(\"Move an adapter to a slot of another root complex; pci0000:10 has a \
         free port, port16 (PCIEX16_2)\")"
    );
}
