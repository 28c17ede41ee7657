//! Rows of the tree: devices on the way to disks, disks, and the volumes on them.

use super::rate;
use crate::doc::{DataColumn, Text, TreeNode, bytes, plural, text};
use fathom_analysis::topology::{HopLoad, TopologyReport};
use fathom_model::finding::Severity;
use fathom_model::topology::{Hop, HopKind, LinkMode, LinkStandard, Volume, VolumeKind};

/// Volumes stacked deeper are left out: the kernel has no loops, but a stored tree may.
const DEPTH_MAX: usize = 16;

pub(super) fn columns() -> Vec<DataColumn> {
    vec![
        DataColumn::text(""),
        DataColumn::text("link"),
        DataColumn::number("usable"),
        DataColumn::number("total below"),
        DataColumn::text("PCI path").ranked(1),
    ]
}

pub(super) struct Hops<'a> {
    pub report: &'a TopologyReport,
    pub verbose: bool,
}

impl<'a> Hops<'a> {
    /// The row of a hop with what is below it; `None` if no disk is, unless all rows are shown. Hops with a single one below
    /// share its row.
    pub fn row(&self, hop: &'a Hop) -> Option<TreeNode> {
        if !self.is_shown(hop) {
            return None;
        }
        let mut chain = vec![hop];
        let mut last = hop;
        while let Some(next) = self.joined(last) {
            chain.push(next);
            last = next;
        }
        let mut children: Vec<TreeNode> =
            last.children.iter().filter_map(|hop| self.row(hop)).collect();
        // A controller and its only disk are one row, too.
        let own = last.disks.as_slice();
        let disk = if let ([disk], [], false) = (own, last.children.as_slice(), self.verbose) {
            children.extend(self.users(disk, 0));
            self.report.topology.volume(disk)
        } else {
            children.extend(own.iter().filter_map(|name| self.disk(name)));
            None
        };
        let load = self.report.load(&last.name);
        let label = disk.map_or_else(|| named(last), volume);
        let shared = load.disks > 1 || last.kind == HopKind::RootComplex;
        let below = if shared { rate(load.below_bytes_per_s) } else { Text::default() };
        let carried = self.report.carried(hop);
        Some(TreeNode {
            cells: [
                label,
                self.link(&chain),
                rate(chain.iter().find_map(|hop| self.report.load(&hop.name).carries_bytes_per_s)),
                below,
                path(&chain, disk).into(),
            ]
            .into_iter()
            .chain(carried.map(|carried| rate(Some(carried))))
            .collect(),
            severity: self.is_limited(&chain).then_some(Severity::Warning),
            children,
        })
    }

    fn is_shown(&self, hop: &Hop) -> bool {
        self.verbose || self.report.load(&hop.name).disks > 0
    }

    /// The only hop below `hop`, if both fit in one row: they have one link.
    fn joined(&self, hop: &'a Hop) -> Option<&'a Hop> {
        let mut below = hop.children.iter().filter(|child| self.is_shown(child));
        let (next, None) = (below.next()?, below.next()) else { return None };
        let is_complex = |hop: &Hop| hop.kind == HopKind::RootComplex;
        let one_link = hop.kind.faces_down() || hop.link.is_none() || next.link.is_none();
        let joins = !self.verbose && hop.disks.is_empty() && !is_complex(hop) && !is_complex(next);
        (joins && one_link).then_some(next)
    }

    /// The link of a row, with the best mode of both ends where that is better.
    fn link(&self, chain: &[&Hop]) -> Text {
        let Some((hop, link)) = chain.iter().find_map(|hop| Some((hop, hop.link?))) else {
            return Text::default();
        };
        let best = self.report.load(&hop.name).best.unwrap_or(link.current);
        match (link.standard, best == link.current) {
            (LinkStandard::Sata, _) => sata(link.current).into(),
            (_, true) => mode(link.current).into(),
            (_, false) => format!("{}, not {}", mode(link.current), mode(best)).into(),
        }
    }

    /// Whether a link of the row is slower than its ends allow, or than what is below it, or the row is a root complex that a
    /// warning names.
    fn is_limited(&self, chain: &[&Hop]) -> bool {
        let mut findings = self.report.findings.iter();
        let is_warned = |hop: &Hop| {
            hop.kind == HopKind::RootComplex
                && findings.any(|finding| {
                    finding.severity >= Severity::Warning && finding.summary.contains(&hop.name)
                })
        };
        if chain.first().copied().is_some_and(is_warned) {
            return true;
        }
        chain.iter().any(|hop| {
            let load: HopLoad = self.report.load(&hop.name);
            let lower = load.best.is_some() && hop.link.map(|link| link.current) != load.best;
            load.disks > 0 && (lower || load.oversubscribed().is_some())
        })
    }

    fn disk(&self, name: &str) -> Option<TreeNode> {
        let disk = self.report.topology.volume(name)?;
        let children = self.users(name, 0);
        Some(TreeNode { cells: vec![volume(disk)], children, ..TreeNode::default() })
    }

    /// Rows of what is on a volume. One that is on several has its own row elsewhere, and no rows below it here.
    fn users(&self, name: &str, depth: usize) -> Vec<TreeNode> {
        if depth >= DEPTH_MAX {
            return Vec::new();
        }
        let row = |user: &Volume| match user.members.len() {
            0 | 1 => TreeNode {
                cells: vec![volume(user)],
                children: self.users(&user.name, depth + 1),
                ..TreeNode::default()
            },
            _ => TreeNode {
                cells: vec![text!("part of ", user.name.as_str())],
                ..TreeNode::default()
            },
        };
        self.report.topology.users(name).map(row).collect()
    }

    /// Rows of volumes on several others, and of those on none that have no controller, such as zram.
    pub fn other_volumes(&self) -> Vec<TreeNode> {
        let mut attached: Vec<&str> = Vec::new();
        self.report.topology.each(&mut |hop| attached.extend(hop.disks.iter().map(String::as_str)));
        let others =
            self.report.topology.volumes.iter().filter(|volume| match volume.members.len() {
                0 => !attached.contains(&volume.name.as_str()),
                members => members > 1,
            });
        let row = |own: &Volume| TreeNode {
            cells: vec![match own.members.len() {
                0 => volume(own),
                n => text!(volume(own), ", on ", plural(n as u64, "device")),
            }],
            children: self.users(&own.name, 0),
            ..TreeNode::default()
        };
        others.map(row).collect()
    }
}

fn mode(mode: LinkMode) -> String {
    format!("{}\u{a0}GT/s\u{a0}×{}", f64::from(mode.speed_mts) / 1000.0, mode.lanes)
}

fn sata(mode: LinkMode) -> String {
    format!("SATA {}\u{a0}Gb/s", f64::from(mode.speed_mts) / 1000.0)
}

fn named(hop: &Hop) -> Text {
    let kind = match hop.kind {
        HopKind::RootComplex => "root complex ",
        HopKind::RootPort => "root port ",
        HopKind::SwitchUpstream => "switch ",
        HopKind::SwitchDownstream => "switch port ",
        HopKind::Bridge => "PCI bridge ",
        HopKind::Function | HopKind::Controller | HopKind::Bus => "",
    };
    let label = (!hop.label.is_empty()).then(|| format!(", {}", hop.label));
    text!(kind, short(&hop.name), label)
}

/// A PCI address without its domain where that is 0, as lspci prints it.
fn short(name: &str) -> &str {
    name.strip_prefix("0000:").unwrap_or(name)
}

/// The hops that share a row, with their slots and addresses of fabrics; the last one is left out where the row has its name,
/// and an NVMe controller where its disk has.
fn path(chain: &[&Hop], disk: Option<&Volume>) -> String {
    let is_named = |hop: &Hop| match disk {
        Some(disk) => disk.name.starts_with(&format!("{}n", hop.name)) && chain.len() > 1,
        None => chain.last().is_some_and(|last| last.name == hop.name),
    };
    let part = |hop: &&Hop| {
        let name = if is_named(hop) { "" } else { short(&hop.name) };
        let has_address = hop.kind == HopKind::Controller && hop.label.contains("addr=");
        let note = hop.slot.as_deref().or(has_address.then_some(hop.label.as_str()));
        let note = note.map(|note| format!("({note})")).unwrap_or_default();
        let parts = [name.to_string(), note];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let parts = chain.iter().map(part).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" › ")
}

fn volume(volume: &Volume) -> Text {
    let label = match volume.kind {
        VolumeKind::Partition => String::new(),
        VolumeKind::Mapped => format!(" ({})", volume.label),
        _ if volume.label.is_empty() => String::new(),
        _ => format!(" {}", volume.label),
    };
    let mounts = (!volume.mounts.is_empty()).then(|| format!(" {}", volume.mounts.join(", ")));
    text!(volume.name.as_str(), label, ", ", bytes(volume.size_bytes), mounts)
}
