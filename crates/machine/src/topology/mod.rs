//! Where storage is attached: root complexes, ports, switches, controllers, disks and what is on them.
//!
//! Everything is read from sysfs and procfs below [`Roots`], so that a stored tree reads like the machine itself.

mod affinity;
mod names;
mod pci;
mod slots;
mod tree;
mod volumes;

pub use affinity::wiring;
pub(crate) use affinity::{irqs_above, multipath};

use crate::host;
use crate::target::Lookup;
use fathom_model::facts::TargetKind;
use fathom_model::topology::{CpuPackage, NumaNode, Topology};
use fathom_sys::roots::{Roots, entries, number, text};
use names::PciNames;
use std::path::{Path, PathBuf};

/// Where distributions install the PCI ID database, below the root directory.
pub const PCI_IDS: [&str; 3] =
    ["usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids", "usr/share/pci.ids"];

/// Reads the topology. Names of PCI devices are looked up in the first of `databases` that can be read (pci.ids(5));
/// without one, class and IDs take their place. What cannot be read is left out.
pub fn topology(roots: &Roots, databases: &[PathBuf]) -> Topology {
    let names = databases.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
    let names = PciNames::new(&names);
    let mut topology = without_tree(roots);
    topology.roots = tree::read(roots, &names, None);
    slots::name(roots, &mut topology.roots);
    topology
}

/// Where these block devices, by kernel name, are attached, without names of PCI devices: a fraction of the time that
/// [`topology`] takes.
pub fn attachment(roots: &Roots, devices: &[String]) -> Topology {
    let mut topology = without_tree(roots);
    topology.keep(devices);
    topology.roots = tree::read(roots, &PciNames::new(&[]), Some(&topology.volumes));
    slots::name(roots, &mut topology.roots);
    topology
}

fn without_tree(roots: &Roots) -> Topology {
    Topology {
        packages: packages(roots),
        numa_nodes: numa_nodes(roots),
        cpus_allowed: cpus_allowed(roots),
        roots: Vec::new(),
        volumes: volumes::read(roots),
    }
}

/// The block device that is, or holds, what is at `path`, by kernel name.
pub fn volume_of(roots: &Roots, path: &str) -> Option<String> {
    let facts = Lookup::new(roots).target(path).ok()?;
    let is_there = facts.kind != TargetKind::Missing;
    facts.device_names().next().filter(|_| is_there).map(str::to_string)
}

fn packages(roots: &Roots) -> Vec<CpuPackage> {
    let dir = roots.sys.join("devices/system/cpu");
    let model = host::cpu_model(&text(roots.proc.join("cpuinfo")).unwrap_or_default());
    let mut packages: Vec<CpuPackage> = Vec::new();
    for cpu in numbered(&entries(&dir), "cpu") {
        let id = number::<i64>(dir.join(format!("cpu{cpu}/topology/physical_package_id")));
        // -1 if the firmware does not report it; offline CPUs have no topology.
        let Some(id) = id.map(|id| u32::try_from(id).unwrap_or(0)) else { continue };
        match packages.iter_mut().find(|package| package.id == id) {
            Some(package) => package.cpus.push(cpu),
            None => packages.push(CpuPackage { id, model: model.clone(), cpus: vec![cpu] }),
        }
    }
    packages.sort_by_key(|package| package.id);
    packages
}

pub(crate) fn numa_nodes(roots: &Roots) -> Vec<NumaNode> {
    let dir = roots.sys.join("devices/system/node");
    let node = |id: u32| {
        let dir = dir.join(format!("node{id}"));
        // Each line begins with `Node N`.
        let memory = text(dir.join("meminfo")).unwrap_or_default();
        let total = memory.lines().find(|line| line.contains("MemTotal:"));
        let kibibytes = total.and_then(|line| line.split_whitespace().nth_back(1)?.parse().ok());
        NumaNode {
            id,
            cpus: host::cpu_list(&text(dir.join("cpulist")).unwrap_or_default()),
            memory_bytes: kibibytes.unwrap_or(0_u64).saturating_mul(1024),
        }
    };
    numbered(&entries(&dir), "node").into_iter().map(node).collect()
}

pub(crate) fn cpus_allowed(roots: &Roots) -> Vec<u32> {
    let status = text(roots.proc.join("self/status")).unwrap_or_default();
    host::cpu_list(host::field(&status, "Cpus_allowed_list").unwrap_or(""))
}

fn numbered(names: &[String], prefix: &str) -> Vec<u32> {
    let numbers = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// Whether a name is `prefix` and a number.
pub(crate) fn is_numbered(name: &str, prefix: &str) -> bool {
    let number = name.strip_prefix(prefix);
    number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

pub(crate) fn name_of(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
