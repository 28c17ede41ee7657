//! Ceilings between the block layer and a disk.

use super::{Basis, CeilingKind, Ceilings};
use crate::topology::analyze;
use crate::watch::IoLimit;
use fathom_model::topology::{Hop, Link, LinkStandard, Topology};
use fathom_model::{Dir, PerDir, units};

/// What a block device did, per second.
#[derive(Debug, Clone, Default)]
pub(super) struct DeviceLoad {
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

impl DeviceLoad {
    /// The workload's I/Os that it served per second, by their mean size.
    fn iops(&self, io_bytes: f64) -> f64 {
        let bytes: f64 = self.bytes.iter().map(|(_, bytes)| bytes).sum();
        if io_bytes > 0.0 { bytes / io_bytes } else { 0.0 }
    }
}

/// Little's law: what is in flight is to what may be as the rate is to the highest one at the same time per request.
pub(super) fn queues(all: &mut Ceilings, load: &DeviceLoad, sizes: QueueSizes) {
    let iops = load.iops(all.io_bytes);
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
        let source = format!("{source}, {in_flight:.1} in use");
        all.add(part, (iops, in_flight / capacity), (Basis::Measured, source));
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

/// The links on the way to the disks. A root complex does not report its capacity, so it has none.
pub(super) fn links(all: &mut Ceilings, topology: &Topology, loads: &[DeviceLoad]) {
    // How a stacked device divides its I/Os among several disks is not known.
    let on_one_disk = |load: &DeviceLoad| match topology.disks_under(&load.name).as_slice() {
        [disk] => Some((disk.clone(), load.clone())),
        _ => None,
    };
    let disks: Vec<(String, DeviceLoad)> = loads.iter().filter_map(on_one_disk).collect();
    let report = analyze(topology.clone());
    topology.each(&mut |hop| {
        // The link below a port is that above its child.
        let is_shown = hop.children.iter().all(|child| child.link.is_none());
        let is_shown = is_shown || !hop.kind.faces_down();
        let carries = report.load(&hop.name).carries_bytes_per_s;
        let Some((link, carries)) = hop.link.zip(carries).filter(|_| is_shown) else { return };
        let below = hop.disks_below();
        let mut sum = PerDir::splat(0.0);
        let mut iops = 0.0;
        for (_, load) in disks.iter().filter(|(disk, _)| below.contains(&disk.as_str())) {
            iops += load.iops(all.io_bytes);
            sum = sum.map(|dir, bytes| bytes + load.bytes[dir]);
        }
        // SATA carries data in one direction at a time.
        let busiest = match link.standard {
            LinkStandard::Pcie => sum.read.max(sum.write),
            LinkStandard::Sata => sum.read + sum.write,
        };
        let source = (Basis::Read, format!("{} usable", units::bandwidth(carries)));
        all.add((CeilingKind::Link, name(hop, link, &below)), (iops, busiest / carries), source);
    });
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
