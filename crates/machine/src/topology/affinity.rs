//! Interrupts and hardware queues of block devices (Documentation/ABI/stable/sysfs-block,
//! Documentation/ABI/testing/sysfs-bus-pci, Documentation/core-api/irq/irq-affinity.rst).

use super::{is_numbered, name_of};
use crate::host::cpu_list;
use fathom_model::list;
use fathom_model::topology::Irq;
use fathom_model::watch::DeviceWiring;
use fathom_sys::device::{self, Node};
use fathom_sys::roots::{Roots, entries, number, text};
use std::path::{Path, PathBuf};

/// Interrupts and hardware queues of each of `devices` (whole devices, by kernel name), or of all
/// devices that have any if empty.
pub fn wiring(roots: &Roots, devices: &[String]) -> Vec<DeviceWiring> {
    let mut names = devices.to_vec();
    if names.is_empty() {
        names = entries(roots.sys.join("block"));
    }
    let of = |name: String| {
        let name = name.replace('!', "/");
        let node = Node::named(roots, &name);
        DeviceWiring {
            irqs: irqs_below(roots, &name).iter().map(u32::to_string).collect(),
            queues: node.map(|node| queues(node.dir())).unwrap_or_default(),
            name,
        }
    };
    let wired = |device: &DeviceWiring| !device.irqs.is_empty() || !device.queues.is_empty();
    names.into_iter().map(of).filter(|device| !devices.is_empty() || wired(device)).collect()
}

/// The interrupts of the device in `dir` itself, in the order of their numbers.
pub(super) fn irqs_of(roots: &Roots, dir: &Path) -> Vec<Irq> {
    let irq = |number: u32| Irq {
        number,
        name: text(roots.sys.join(format!("kernel/irq/{number}/actions"))).unwrap_or_default(),
        cpus: text(roots.proc.join(format!("irq/{number}/effective_affinity_list")))
            .map(|list| cpu_list(&list))
            .unwrap_or_default(),
    };
    let mut numbers = numbers(dir);
    numbers.sort_unstable();
    numbers.into_iter().map(irq).collect()
}

pub(super) fn queues(dir: &Path) -> Vec<Vec<u32>> {
    let mq = dir.join("mq");
    let mut numbers: Vec<u32> = entries(&mq).iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    let cpus =
        |queue: &u32| cpu_list(&text(mq.join(format!("{queue}/cpu_list"))).unwrap_or_default());
    numbers.iter().map(cpus).collect()
}

/// The controllers of an NVMe multipath disk, which is a child of its subsystem.
pub(crate) fn multipath(disk: &Path) -> Option<Vec<PathBuf>> {
    let subsystem = disk.parent()?;
    is_numbered(&name_of(subsystem), "nvme-subsys").then_some(())?;
    let controllers = entries(subsystem).into_iter().filter(|name| is_numbered(name, "nvme"));
    Some(controllers.filter_map(|name| subsystem.join(name).canonicalize().ok()).collect())
}

fn irqs_below(roots: &Roots, device: &str) -> Vec<u32> {
    let disks = device::disks_of(roots, [device]).into_iter();
    let disks = disks.filter(|disk| device::member_names(disk.dir()).is_empty());
    let controllers = disks.flat_map(|disk| {
        let of_paths = multipath(disk.dir());
        of_paths.unwrap_or_else(|| vec![disk.dir().to_path_buf()])
    });
    list::ascending(controllers.flat_map(|device| irqs_above(roots, &device)))
}

/// Interrupts of the nearest parent device that has any: the controller.
pub(crate) fn irqs_above(roots: &Roots, device: &Path) -> Vec<u32> {
    let root = roots.sys.canonicalize().unwrap_or_default();
    let above = device.ancestors().take_while(|folder| **folder != root);
    above.map(numbers).find(|numbers| !numbers.is_empty()).unwrap_or_default()
}

/// Message-signalled interrupts of a device, or the one on its wire.
fn numbers(dir: &Path) -> Vec<u32> {
    let messages = entries(dir.join("msi_irqs"));
    let messages: Vec<u32> = messages.iter().filter_map(|irq| irq.parse().ok()).collect();
    if !messages.is_empty() {
        return messages;
    }
    // 0 means none.
    number::<u32>(dir.join("irq")).filter(|irq| *irq > 0).into_iter().collect()
}

#[cfg(test)]
#[path = "affinity_tests.rs"]
mod tests;
