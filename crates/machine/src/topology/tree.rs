//! The devices on the path to each disk, from its directory in sysfs, joined to a tree.

use super::affinity;
use super::names::PciNames;
use super::{is_numbered, name_of, pci};
use fathom_model::topology::{Hop, HopKind, Link, LinkMode, LinkStandard, Volume};
use fathom_sys::roots::{Roots, entries, number, text};
use std::path::{Path, PathBuf};

/// Drivers' names of controllers, each followed by a number.
const CONTROLLERS: [&str; 6] = ["nvme", "ata", "host", "virtio", "mmc", "usb"];
/// Directories between a bus and a disk that are not devices of their own.
const CLASSES: [&str; 8] =
    ["block", "nvme", "mmc_host", "platform", "virtual", "soc", "ctl", "devices"];
/// Base classes of PCI functions that are shown although no disk is below them: network adapters.
const NETWORK: u32 = 0x02;

/// Root complexes with their children, then other buses with disks; or only what `volumes` are attached to.
pub(super) fn read(roots: &Roots, names: &PciNames<'_>, volumes: Option<&[Volume]>) -> Vec<Hop> {
    let Ok(base) = roots.sys.join("devices").canonicalize() else { return Vec::new() };
    let mut builder = TreeBuilder { roots, names, base, top: Vec::new() };
    let functions = roots.sys.join("bus/pci/devices");
    if volumes.is_none() {
        for name in entries(&functions) {
            builder.add(&functions.join(name), None);
        }
    }
    let disks = roots.sys.join("block");
    for entry in entries(&disks) {
        let name = entry.replace('!', "/");
        if volumes.is_none_or(|volumes| volumes.iter().any(|volume| volume.name == name)) {
            builder.add_disk(&disks.join(&entry), &name);
        }
    }
    let mut top = builder.top;
    prune(&mut top);
    top.sort_by_key(|root| (root.kind != HopKind::RootComplex, root.name.clone()));
    top
}

struct TreeBuilder<'a> {
    roots: &'a Roots,
    names: &'a PciNames<'a>,
    base: PathBuf,
    top: Vec<Hop>,
}

impl TreeBuilder<'_> {
    fn add_disk(&mut self, link: &Path, name: &str) {
        // Loop and ram devices, of which there may be many, are attached to nothing.
        let is_virtual = |path: PathBuf| path.to_string_lossy().contains("/virtual/block/");
        // Devices below a multipath disk are hidden; it is attached to the controllers of all of them.
        if link.read_link().is_ok_and(is_virtual) || number::<u32>(link.join("hidden")) == Some(1) {
            return;
        }
        let Ok(dir) = link.canonicalize() else { return };
        if let Some(controllers) = affinity::multipath(&dir) {
            controllers.iter().for_each(|controller| self.add(controller, Some(name)));
        } else {
            self.add(dir.parent().unwrap_or(&dir), Some(name));
        }
    }

    /// Adds the devices on a path in sysfs, the last of which is the controller of `disk`.
    fn add(&mut self, path: &Path, disk: Option<&str>) {
        let Ok(real) = path.canonicalize() else { return };
        let Ok(below) = real.strip_prefix(&self.base) else { return };
        let mut dir = self.base.clone();
        let mut dirs: Vec<PathBuf> = Vec::new();
        for part in below.components() {
            dir.push(part);
            dirs.push(dir.clone());
        }
        // Firmware devices above a root bus are not on the path.
        let first = dirs.iter().position(|dir| pci::is_root_bus(&name_of(dir)));
        let on_pci = dirs.split_off(first.unwrap_or(0));
        let mut parent = HopKind::Bus;
        let mut level = &mut self.top;
        let mut hops: Vec<PathBuf> =
            on_pci.iter().filter(|dir| is_hop(&name_of(dir))).cloned().collect();
        if first.is_none() {
            let bus = on_pci.iter().rfind(|dir| is_bus(&name_of(dir)));
            hops.splice(0..0, bus.cloned());
        }
        // A SCSI host of an ATA port is the same controller.
        let has_ata = hops.iter().any(|dir| is_numbered(&name_of(dir), "ata"));
        hops.retain(|dir| !(has_ata && is_numbered(&name_of(dir), "host")));
        let last = hops.len().saturating_sub(1);
        for (index, dir) in hops.iter().enumerate() {
            let name = name_of(dir);
            let at = level.iter().position(|hop| hop.name == name);
            let at = at.unwrap_or_else(|| {
                level.push(hop(self.roots, dir, parent, self.names));
                level.len() - 1
            });
            let hop = &mut level[at];
            if let (Some(disk), true) = (disk, index == last) {
                hop.disks.push(disk.to_string());
            }
            parent = hop.kind;
            level = &mut hop.children;
        }
    }
}

fn is_hop(name: &str) -> bool {
    pci::is_function(name)
        || pci::is_root_bus(name)
        || CONTROLLERS.iter().any(|prefix| is_numbered(name, prefix))
}

/// Whether a directory can stand for the bus of a disk that is on no PCI bus.
fn is_bus(name: &str) -> bool {
    !is_hop(name) && !CLASSES.contains(&name) && !name.contains(':')
}

fn hop(roots: &Roots, dir: &Path, parent: HopKind, names: &PciNames<'_>) -> Hop {
    let name = name_of(dir);
    let irqs = affinity::irqs_of(roots, dir);
    if pci::is_function(&name) {
        return Hop { irqs, ..pci::function(dir, parent, names) };
    }
    if pci::is_root_bus(&name) {
        return Hop {
            name,
            kind: HopKind::RootComplex,
            numa_node: bus_node(dir),
            ..Hop::default()
        };
    }
    let kind = if is_hop(&name) { HopKind::Controller } else { HopKind::Bus };
    Hop {
        link: sata_link(dir, &name),
        label: label(dir, &name),
        name,
        kind,
        irqs,
        ..Hop::default()
    }
}

/// The NUMA node of a root bus: its functions have it.
fn bus_node(dir: &Path) -> Option<u32> {
    let functions = entries(dir).into_iter().filter(|name| pci::is_function(name));
    let nodes = functions.filter_map(|name| number::<i64>(dir.join(name).join("numa_node")));
    nodes.filter_map(|node| u32::try_from(node).ok()).next()
}

fn label(dir: &Path, name: &str) -> String {
    if name == "nvme-fabrics" {
        return "NVMe over Fabrics".into();
    }
    let model = text(dir.join("model")).unwrap_or_default();
    match (text(dir.join("transport")), text(dir.join("address"))) {
        (Some(transport), Some(address)) if transport != "pcie" => {
            format!("{transport}, {address}")
        }
        _ => model,
    }
}

/// The link of an ATA port (Documentation/ABI/testing/sysfs-ata): `6.0 Gbps`.
fn sata_link(dir: &Path, name: &str) -> Option<Link> {
    let number = name.strip_prefix("ata")?;
    let link = dir.join(format!("link{number}/ata_link/link{number}"));
    let mode = |file: &str| {
        let text = text(link.join(file))?;
        let speed: f64 = text.strip_suffix(" Gbps")?.parse().ok()?;
        Some(LinkMode { speed_mts: (speed * 1000.0).round() as u32, lanes: 1 })
    };
    let current = mode("sata_spd")?;
    let best = mode("hw_sata_spd_limit").unwrap_or(current);
    Some(Link { standard: LinkStandard::Sata, current, best })
}

/// Removes everything that is neither on the path to a disk, nor a port, nor a network adapter with a link.
fn prune(hops: &mut Vec<Hop>) {
    for hop in hops.iter_mut() {
        prune(&mut hop.children);
    }
    hops.retain(|hop| {
        let is_network = hop.class.is_some_and(|class| class >> 16 == NETWORK);
        let is_endpoint = hop.kind == HopKind::Function && hop.link.is_some();
        !hop.children.is_empty()
            || !hop.disks.is_empty()
            || hop.kind == HopKind::RootPort
            || hop.kind == HopKind::SwitchDownstream
            || is_endpoint
            || is_network
            || hop.class.is_some_and(|class| class >> 16 == 0x01)
    });
}
