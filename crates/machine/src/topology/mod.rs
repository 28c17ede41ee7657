//! Where storage is attached: root complexes, ports, switches, controllers, disks and what is on them.
//!
//! Everything is read from sysfs and procfs below [`Roots`], so that a stored tree reads like the machine itself.

mod affinity;
mod cpus;
mod names;
mod pci;
mod slots;
mod tree;
mod volumes;

pub(crate) use affinity::irqs_above;
pub use affinity::wiring;

use fathom_model::topology::Topology;
use fathom_sys::roots::Roots;
use names::PciNames;
use std::path::{Path, PathBuf};

/// Where distributions install the PCI ID database, below the root directory.
pub const PCI_IDS: [&str; 3] =
    ["usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids", "usr/share/pci.ids"];

/// Reads the topology. Names of PCI devices are looked up in the first of `databases` that can be read (pci.ids(5));
/// without one, class and IDs take their place. What cannot be read is left out.
#[must_use]
pub fn topology(roots: &Roots, databases: &[PathBuf]) -> Topology {
    let names = databases.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
    let names = PciNames::new(&names);
    let mut roots_of_disks = tree::read(roots, &names);
    slots::name(roots, &mut roots_of_disks);
    Topology {
        packages: cpus::packages(roots),
        numa_nodes: cpus::numa_nodes(roots),
        cpus_allowed: cpus::allowed(roots),
        roots: roots_of_disks,
        volumes: volumes::read(roots),
    }
}

/// The whole disk or stacked device that holds what is at `path`, by kernel name: of a device node, a file or a
/// directory.
#[must_use]
pub fn volume_of(roots: &Roots, path: &str) -> Option<String> {
    volumes::by_path(roots, Path::new(path))
}
