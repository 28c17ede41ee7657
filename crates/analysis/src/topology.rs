//! Usable bandwidth of links, and the load attached downstream.

use fathom_model::finding::Finding;
use fathom_model::topology::{Hop, HopKind, Link, LinkMode, LinkStandard, Topology};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes of a packet beside its payload, before PCIe 6: framing and sequence number (4), header with a 64-bit address (16),
/// link CRC (4).
const PACKET_OVERHEAD: f64 = 24.0;
/// In FLIT mode: the header; the rest belongs to the flit.
const FLIT_PACKET_OVERHEAD: f64 = 16.0;
/// Bytes for packets in a flit of 256 bytes.
const FLIT_SHARE: f64 = 236.0 / 256.0;
/// From this speed on, in million transfers per second, lines are encoded 128b/130b.
const LONG_BLOCKS_MTS: u32 = 8_000;
/// From this speed on, links are in FLIT mode.
const FLIT_MTS: u32 = 64_000;

/// A topology with what it means.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct TopologyReport {
    /// What was read.
    pub topology: Topology,
    /// By name of a hop: usable link bandwidth and downstream load.
    pub loads: BTreeMap<String, HopLoad>,
    /// Worst first.
    pub findings: Vec<Finding>,
    /// Bytes per second that disks read and wrote during a run, by name; empty of a machine alone.
    #[serde(skip)]
    pub traffic: BTreeMap<String, f64>,
}

/// Usable bandwidth of a hop's link, and the load downstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct HopLoad {
    /// The best mode that both ends of the link support.
    pub best: Option<LinkMode>,
    /// Bytes of data per second and direction in the current mode.
    pub carries_bytes_per_s: Option<f64>,
    /// The same in the best mode.
    pub best_bytes_per_s: Option<f64>,
    /// Number of disks at and below it.
    pub disks: u32,
    /// Sum of what the links below it can deliver, each limited by those further down; absent where no disk has a link of its own.
    pub below_bytes_per_s: Option<f64>,
}

impl HopLoad {
    /// Oversubscription (downstream / link bandwidth); `None` below 1.05, within differences of payload.
    pub fn oversubscribed(&self) -> Option<f64> {
        let ratio = self.below_bytes_per_s? / self.carries_bytes_per_s?;
        (ratio > 1.05).then_some(ratio)
    }

    /// What it can deliver to the hop above it.
    fn delivers(&self) -> Option<f64> {
        match (self.carries_bytes_per_s, self.below_bytes_per_s) {
            (Some(own), Some(below)) => Some(own.min(below)),
            (own, below) => own.or(below),
        }
    }
}

/// Works out what links carry, without findings.
pub fn analyze(topology: Topology) -> TopologyReport {
    let mut loads = BTreeMap::new();
    for root in &topology.roots {
        load(root, None, &mut loads);
    }
    TopologyReport { topology, loads, findings: Vec::new(), traffic: BTreeMap::new() }
}

impl TopologyReport {
    pub fn load(&self, name: &str) -> HopLoad {
        self.loads.get(name).copied().unwrap_or_default()
    }

    /// Bytes per second of the disks at and below `hop`; `None` without a run.
    pub fn carried(&self, hop: &Hop) -> Option<f64> {
        let disks = hop.disks_below();
        let found = disks.iter().filter_map(|disk| self.traffic.get(*disk));
        found.copied().reduce(|sum, rate| sum + rate)
    }

    /// Keeps these block devices, everything stacked on or under them, and the devices upstream. Loads remain those
    /// of the whole machine. Returns the names that are not block devices.
    pub fn keep(&mut self, names: &[String]) -> Vec<String> {
        self.topology.keep(names)
    }
}

/// Enters the loads of `hop` and its children; returns the hop's own.
fn load(hop: &Hop, above: Option<&Hop>, loads: &mut BTreeMap<String, HopLoad>) -> HopLoad {
    let mut own = HopLoad { disks: hop.disks.len() as u32, ..HopLoad::default() };
    for child in &hop.children {
        let child = load(child, Some(hop), loads);
        own.disks += child.disks;
        if let Some(delivers) = child.delivers().filter(|_| child.disks > 0) {
            own.below_bytes_per_s = Some(own.below_bytes_per_s.unwrap_or(0.0) + delivers);
        }
    }
    if let Some(link) = hop.link {
        let carries = |mode| data_rate(link.standard, mode, hop.payload_max_bytes);
        let best = best_of_both(hop, above, link);
        own.carries_bytes_per_s = Some(carries(link.current));
        own.best = Some(best);
        own.best_bytes_per_s = Some(carries(best));
    }
    loads.insert(hop.name.clone(), own);
    own
}

/// The best mode that both ends of a hop's link support.
fn best_of_both(hop: &Hop, above: Option<&Hop>, link: Link) -> LinkMode {
    let other = match hop.kind.faces_down() {
        true => hop.children.iter().find_map(|child| child.link),
        false => above.filter(|above| above.kind.faces_down()).and_then(|above| above.link),
    };
    let other = other.map_or(link.best, |other| other.best);
    LinkMode {
        speed_mts: link.best.speed_mts.min(other.speed_mts),
        lanes: link.best.lanes.min(other.lanes),
    }
}

/// Bytes per second and direction after encoding: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, flits at 64 GT/s; SATA is
/// encoded 8b/10b at all speeds.
pub fn encoded_rate(standard: LinkStandard, mode: LinkMode) -> f64 {
    let share = match mode.speed_mts {
        _ if standard == LinkStandard::Sata => 0.8,
        FLIT_MTS.. => FLIT_SHARE,
        LONG_BLOCKS_MTS.. => 128.0 / 130.0,
        _ => 0.8,
    };
    f64::from(mode.speed_mts) * 1e6 / 8.0 * f64::from(mode.lanes) * share
}

/// Bytes of data per second and direction: [`encoded_rate`] without the overhead of packets whose payload is
/// `payload_max_bytes`, where that is known. The formula and its sources are in docs/topo.md.
pub fn data_rate(standard: LinkStandard, mode: LinkMode, payload_max_bytes: Option<u32>) -> f64 {
    let encoded = encoded_rate(standard, mode);
    match payload_max_bytes.map(f64::from) {
        Some(payload) if standard == LinkStandard::Pcie => {
            let flits = mode.speed_mts >= FLIT_MTS;
            let overhead = if flits { FLIT_PACKET_OVERHEAD } else { PACKET_OVERHEAD };
            encoded * payload / (payload + overhead)
        }
        _ => encoded,
    }
}

/// The root complexes that the machine has, with the loads of each; those that a driver emulates are part of others.
pub fn root_complexes(report: &TopologyReport) -> impl Iterator<Item = (&Hop, HopLoad)> {
    let complexes = report.topology.roots.iter().filter(|root| root.kind == HopKind::RootComplex);
    complexes.map(|root| (root, report.load(&root.name)))
}

/// Root ports with nothing attached, directly below a root complex.
pub fn free_ports(complex: &Hop) -> impl Iterator<Item = &Hop> {
    let ports = complex.children.iter().filter(|port| port.kind == HopKind::RootPort);
    ports.filter(|port| port.children.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(gigatransfers: f64, lanes: u32) -> LinkMode {
        LinkMode { speed_mts: (gigatransfers * 1000.0) as u32, lanes }
    }

    fn pcie(gigatransfers: f64, lanes: u32) -> Link {
        let mode = mode(gigatransfers, lanes);
        Link { standard: LinkStandard::Pcie, current: mode, best: mode }
    }

    fn hop(name: &str, kind: HopKind, link: Option<Link>, children: Vec<Hop>) -> Hop {
        Hop {
            name: name.into(),
            kind,
            link,
            children,
            payload_max_bytes: Some(256),
            ..Hop::default()
        }
    }

    fn disk(name: &str, link: Link) -> Hop {
        let disks = vec![format!("{name}n1")];
        hop(
            name,
            HopKind::Function,
            Some(link),
            vec![Hop {
                name: format!("{name}c"),
                kind: HopKind::Controller,
                disks,
                ..Hop::default()
            }],
        )
    }

    #[test]
    fn rates_after_encoding_and_packets() {
        let rate = |gigatransfers, lanes, payload| {
            let rate = data_rate(LinkStandard::Pcie, mode(gigatransfers, lanes), payload);
            (rate / 1e7).round() / 100.0
        };
        assert_eq!(rate(2.5, 1, None), 0.25);
        assert_eq!(rate(5.0, 4, None), 2.0);
        assert_eq!(rate(8.0, 4, None), 3.94);
        assert_eq!(rate(16.0, 4, None), 7.88);
        assert_eq!(rate(32.0, 4, None), 15.75);
        assert_eq!(rate(64.0, 4, None), 29.5);
        assert_eq!(rate(16.0, 4, Some(128)), 6.63);
        assert_eq!(rate(16.0, 4, Some(256)), 7.2);
        assert_eq!(rate(16.0, 4, Some(512)), 7.52);
        assert_eq!(rate(64.0, 4, Some(512)), 28.61);
        assert_eq!(data_rate(LinkStandard::Sata, mode(6.0, 1), Some(256)), 6e8);
    }

    #[test]
    fn sums_are_limited_on_the_way_up() {
        let port = |name: &str, child: Hop| {
            hop(name, HopKind::SwitchDownstream, Some(pcie(16.0, 4)), vec![child])
        };
        let below =
            (0..8).map(|n| port(&format!("d{n}"), disk(&format!("nvme{n}"), pcie(16.0, 4))));
        let switch = hop("switch", HopKind::SwitchUpstream, Some(pcie(16.0, 16)), below.collect());
        let root = hop("port", HopKind::RootPort, Some(pcie(16.0, 16)), vec![switch]);
        let complex = hop("complex", HopKind::RootComplex, None, vec![root]);
        let report = analyze(Topology { roots: vec![complex], ..Topology::default() });
        let x16 = data_rate(LinkStandard::Pcie, mode(16.0, 16), Some(256));
        let switch = report.load("switch");
        assert_eq!(switch.disks, 8);
        assert!((switch.oversubscribed().unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(report.load("port").below_bytes_per_s, Some(x16));
        assert_eq!(report.load("port").oversubscribed(), None);
        assert_eq!(report.load("complex").below_bytes_per_s, Some(x16));
        assert_eq!(report.load("none"), HopLoad::default());
    }

    #[test]
    fn both_ends_set_the_best_mode() {
        let mut slow = pcie(16.0, 4);
        slow.current = mode(8.0, 4);
        let mut port = pcie(32.0, 16);
        port.current = mode(8.0, 4);
        let port = hop("port", HopKind::RootPort, Some(port), vec![disk("nvme0", slow)]);
        let report = analyze(Topology { roots: vec![port], ..Topology::default() });
        for name in ["port", "nvme0"] {
            let load = report.load(name);
            assert_eq!(load.best, Some(mode(16.0, 4)), "{name}");
            assert!(load.best_bytes_per_s > load.carries_bytes_per_s, "{name}");
        }
    }

    #[test]
    fn targets_keep_what_leads_to_them() {
        use fathom_model::topology::Volume;
        let volume = |name: &str, members: &[&str]| Volume {
            name: name.into(),
            members: members.iter().map(ToString::to_string).collect(),
            ..Volume::default()
        };
        let roots = vec![disk("nvme0", pcie(16.0, 4)), disk("nvme1", pcie(16.0, 4))];
        let volumes = vec![
            volume("nvme0n1", &[]),
            volume("nvme0n1p1", &["nvme0n1"]),
            volume("nvme0n1p2", &["nvme0n1"]),
            volume("dm-0", &["nvme0n1p1"]),
            volume("nvme1n1", &[]),
        ];
        let mut report = analyze(Topology { roots, volumes, ..Topology::default() });
        let unknown = report.keep(&["nvme0n1p1".into(), "sdz".into()]);
        assert_eq!(unknown, ["sdz"]);
        let left: Vec<&str> =
            report.topology.volumes.iter().map(|volume| volume.name.as_str()).collect();
        assert_eq!(left, ["nvme0n1", "nvme0n1p1", "dm-0"]);
        assert_eq!(report.topology.disks_under("dm-0"), ["nvme0n1"]);
        assert_eq!(report.topology.roots.len(), 1);
    }
}
