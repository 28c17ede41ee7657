//! Ceilings between the block layer and a disk.

use super::{Basis, CeilingKind, Ceilings};
use crate::machine::DiskRates;
use crate::topology::analyze;
use crate::watch::IoLimit;
use fathom_model::record::DeviceLimit;
use fathom_model::topology::{Hop, Link, LinkStandard, Topology};
use fathom_model::{Dir, PerDir, units};

/// What a block device did, per second.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceLoad {
    /// Kernel name.
    pub name: String,
    /// Requests, before they are merged.
    pub requests: PerDir<f64>,
    pub bytes: PerDir<f64>,
    /// Mean number of requests in flight there.
    pub in_flight: Option<f64>,
    /// Mean number of them at its driver.
    pub at_driver: Option<f64>,
}

/// Numbers of requests that a device's queues and its driver hold.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct QueueSizes {
    pub requests: Option<u32>,
    pub tags: Option<u32>,
    pub hardware_queues: Option<u32>,
    /// Over all hardware queues.
    pub commands: Option<u32>,
}

impl From<&DiskRates> for DeviceLoad {
    fn from(disk: &DiskRates) -> Self {
        Self {
            name: disk.name.clone(),
            requests: PerDir { read: disk.read.ios, write: disk.write.ios, trim: disk.discard.ios },
            bytes: PerDir { read: disk.read.bytes, write: disk.write.bytes, trim: 0.0 },
            in_flight: Some(disk.queue),
            at_driver: None,
        }
    }
}

impl DeviceLoad {
    /// The workload's I/Os that it served per second, by their mean size.
    pub(super) fn iops(&self, io_bytes: f64) -> f64 {
        let bytes: f64 = self.bytes.iter().map(|(_, bytes)| bytes).sum();
        if io_bytes > 0.0 { bytes / io_bytes } else { 0.0 }
    }
}

/// Requests per I/O from which splits are mentioned.
const PIECES_MIN: f64 = 1.5;

/// Little's law: what is in flight is to what may be as the rate is to the highest one at the same time per request.
pub(super) fn queues(all: &mut Ceilings, load: &DeviceLoad, sizes: QueueSizes) {
    let iops = load.iops(all.io_bytes);
    let requests: f64 = load.requests.iter().map(|(_, requests)| requests).sum();
    let split = match requests / iops {
        pieces if pieces.is_finite() && pieces >= PIECES_MIN => {
            format!(", {pieces:.1} requests per I/O")
        }
        _ => String::new(),
    };
    let rows = [
        (CeilingKind::Requests, "requests of", sizes.requests, "nr_requests", load.in_flight),
        (CeilingKind::Tags, "driver tags of", sizes.tags, "nr_tags", load.at_driver),
    ];
    for (kind, noun, each, name, in_flight) in rows {
        let Some(((each, queues), in_flight)) = each.zip(sizes.hardware_queues).zip(in_flight)
        else {
            continue;
        };
        let sum = f64::from(each) * f64::from(queues);
        let (capacity, source) = match sizes.commands.map(f64::from) {
            Some(commands) if commands < sum => (commands, format!("{commands} (queue_depth)")),
            _ => (sum, format!("{each} × {queues} ({name} × hardware queues)")),
        };
        let part = (kind, format!("{noun} {}", load.name));
        let source = format!("{source}, {in_flight:.1} in use{split}");
        all.add(part, (iops, in_flight / capacity), (Basis::Measured, source));
    }
}

/// What a search found for the device by itself.
pub(super) fn device(all: &mut Ceilings, load: &DeviceLoad, limits: &[DeviceLimit]) {
    let bytes: f64 = load.bytes.iter().map(|(_, bytes)| bytes).sum();
    for limit in limits.iter().filter(|limit| limit.device == load.name) {
        let part = (CeilingKind::Device, format!("{} by itself", load.name));
        let used = (load.iops(all.io_bytes), bytes / limit.bytes_per_second);
        all.add(part, used, (Basis::Measured, format!("`fathom limit`, {}", limit.run_name)));
    }
}

/// What the disks below the stacked `load` could sustain, as it divides its I/Os among them: the fullest one decides. Only
/// where searches found what each of them can do.
pub(super) fn members(
    all: &mut Ceilings,
    load: &DeviceLoad,
    below: &[DeviceLoad],
    limits: &[DeviceLimit],
) {
    let limit_of = |disk: &DeviceLoad| limits.iter().find(|limit| limit.device == disk.name);
    let shares = below.iter().map(|disk| {
        let limit = limit_of(disk)?;
        let bytes: f64 = disk.bytes.iter().map(|(_, bytes)| bytes).sum();
        Some((bytes / limit.bytes_per_second, &disk.name, &limit.run_name))
    });
    let shares = shares.collect::<Option<Vec<_>>>().unwrap_or_default();
    if let Some((share, name, run)) = shares.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)) {
        let part = (CeilingKind::Members, format!("{} disks of {}", below.len(), load.name));
        let source = format!("`fathom limit` of each; {name} is full first, {run}");
        all.add(part, (load.iops(all.io_bytes), share), (Basis::Measured, source));
    }
}

/// The I/O limits of cgroups, `entries` as in [`fathom_model::watch::CgroupSample::io_limits`], on the device. The
/// workload does no more than `own` I/Os and bytes per second; the rest is other programs'.
pub(super) fn cgroup_limits(
    all: &mut Ceilings,
    load: &DeviceLoad,
    (own_ios, own_bytes): (PerDir<f64>, PerDir<f64>),
    entries: &[String],
) {
    for limit in entries.iter().flat_map(|entry| IoLimit::parse(entry)) {
        let dir = if limit.key.starts_with('r') { Dir::Read } else { Dir::Write };
        let bytes = load.bytes[dir].min(own_bytes[dir]);
        let rate = match limit.key.as_str() {
            "rbps" | "wbps" => bytes,
            "riops" | "wiops" => load.requests[dir].min(own_ios[dir]),
            _ => continue,
        };
        if limit.device == load.name && all.io_bytes > 0.0 {
            let part = format!("I/O limit of cgroup {} on {}", limit.cgroup, limit.device);
            let source = format!("{}={}", limit.key, limit.limit);
            let used = (bytes / all.io_bytes, rate / limit.limit);
            all.add((CeilingKind::CgroupIo, part), used, (Basis::Read, source));
        }
    }
}

/// A link on the way to disks, and what it carried.
pub(crate) struct LinkLoad {
    /// Such as `PCIe link of nvme0n1 (0000:41:00.0), 16 GT/s ×4`.
    pub name: String,
    /// The disks below it.
    pub disks: Vec<String>,
    /// Usable bandwidth in one direction, and in the best mode of both ends, in bytes per second.
    pub carries: f64,
    pub best: f64,
    /// What it carried in the direction that it is full in first, in bytes per second.
    pub carried: f64,
    /// The same in all directions.
    carried_in_all: f64,
}

/// The disks that `loads` were on, and the bytes per second of each. How a stacked device divides its I/Os among several is not
/// known.
fn on_disks(topology: &Topology, loads: &[DeviceLoad]) -> Vec<(String, PerDir<f64>)> {
    let on_one_disk = |load: &DeviceLoad| match topology.disks_under(&load.name).as_slice() {
        [disk] => Some((disk.clone(), load.bytes)),
        _ => None,
    };
    loads.iter().filter_map(on_one_disk).collect()
}

/// Root complexes, which do not report their capacity, by what a search found that their disks do together.
pub(super) fn root_complexes(
    all: &mut Ceilings,
    topology: &Topology,
    loads: &[DeviceLoad],
    limits: &[DeviceLimit],
) {
    let disks = on_disks(topology, loads);
    for root in &topology.roots {
        let Some(limit) = limits.iter().find(|limit| limit.device == root.name) else { continue };
        let below = root.disks_below();
        let own = disks.iter().filter(|(disk, _)| below.contains(&disk.as_str()));
        let carried: f64 =
            own.map(|(_, bytes)| bytes.iter().map(|(_, bytes)| bytes).sum::<f64>()).sum();
        let part = format!("root complex {} ({} disks)", root.name, below.len());
        let source = format!("`fathom limit` of its disks together, {}", limit.run_name);
        let used = (carried / all.io_bytes, carried / limit.bytes_per_second);
        all.add((CeilingKind::RootComplex, part), used, (Basis::Measured, source));
    }
}

/// A link that carried more than it can by this factor is one that a hypervisor reports, and which limits nothing.
pub(crate) const REAL_MAX: f64 = 1.1;

/// The links on the way to the disks.
pub(crate) fn link_loads(topology: &Topology, loads: &[DeviceLoad]) -> Vec<LinkLoad> {
    let disks = on_disks(topology, loads);
    let report = analyze(topology.clone());
    let mut found = Vec::new();
    topology.each(&mut |hop| {
        // The link below a port is that above its child.
        let is_shown = hop.children.iter().all(|child| child.link.is_none());
        let is_shown = is_shown || !hop.kind.faces_down();
        let load = report.load(&hop.name);
        let carries = load.carries_bytes_per_s;
        let Some((link, carries)) = hop.link.zip(carries).filter(|_| is_shown) else { return };
        let below = hop.disks_below();
        let own = disks.iter().filter(|(disk, _)| below.contains(&disk.as_str()));
        let sum = own.fold(PerDir::splat(0.0), |sum: PerDir<f64>, (_, bytes)| {
            sum.map(|dir, sum| sum + bytes[dir])
        });
        // SATA carries data in one direction at a time.
        let carried = match link.standard {
            LinkStandard::Pcie => sum.read.max(sum.write),
            LinkStandard::Sata => sum.read + sum.write,
        };
        if carried > carries * REAL_MAX {
            return;
        }
        found.push(LinkLoad {
            name: name(hop, link, &below),
            disks: below.iter().map(ToString::to_string).collect(),
            carries,
            best: load.best_bytes_per_s.unwrap_or(carries),
            carried,
            carried_in_all: sum.iter().map(|(_, bytes)| bytes).sum(),
        });
    });
    found
}

pub(super) fn links(all: &mut Ceilings, topology: &Topology, loads: &[DeviceLoad]) {
    for link in link_loads(topology, loads) {
        let source = (Basis::Read, format!("{} usable", units::bandwidth(link.carries)));
        let iops = link.carried_in_all / all.io_bytes;
        all.add((CeilingKind::Link, link.name), (iops, link.carried / link.carries), source);
    }
}

/// `PCIe link of nvme0n1 (0000:41:00.0), 16 GT/s ×4`.
fn name(hop: &Hop, link: Link, disks: &[&str]) -> String {
    let standard = match link.standard {
        LinkStandard::Pcie => "PCIe",
        LinkStandard::Sata => "SATA",
    };
    let of = match disks {
        [disk] => format!("{disk} ({})", hop.name),
        disks => format!("{} ({} disks)", hop.name, disks.len()),
    };
    let speed = f64::from(link.current.speed_mts) / 1000.0;
    let mode = match link.standard {
        LinkStandard::Pcie => format!("{speed} GT/s ×{}", link.current.lanes),
        LinkStandard::Sata => format!("{speed} Gbit/s"),
    };
    format!("{standard} link of {of}, {mode}")
}
