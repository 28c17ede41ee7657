//! Interrupts and hardware queues of block devices, from sysfs
//! (Documentation/ABI/stable/sysfs-block, Documentation/ABI/testing/sysfs-bus-pci).

use fathom_model::watch::{DeviceWiring, Missing};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum depth of stacked devices.
const DEPTH_MAX: u32 = 16;

/// Interrupts and hardware queues of each of `devices` (whole devices, by kernel name), or of all
/// devices that have any if empty. `sys_root` is the mount point of sysfs: `/sys`.
#[must_use]
pub fn wiring(sys_root: &Path, devices: &[String]) -> Vec<DeviceWiring> {
    let mut names = devices.to_vec();
    if names.is_empty() {
        names = entries(&sys_root.join("block"));
        names.sort_unstable();
    }
    let of = |name: String| {
        let mut irqs = Vec::new();
        collect_irqs(sys_root, &name, DEPTH_MAX, &mut irqs);
        irqs.sort_unstable();
        irqs.dedup();
        DeviceWiring {
            irqs: irqs.iter().map(u32::to_string).collect(),
            queues: queues(&folder(sys_root, &name)),
            name: name.replace('!', "/"),
        }
    };
    let wired = |device: &DeviceWiring| !device.irqs.is_empty() || !device.queues.is_empty();
    names.into_iter().map(of).filter(|device| !devices.is_empty() || wired(device)).collect()
}

/// The tracepoint filter that matches this device.
pub(super) fn filter(sys_root: &Path, name: &str) -> Result<String, Missing> {
    let path = folder(sys_root, name).join("dev");
    let missing = |why: String| Missing {
        what: format!("CPUs submitting to {name}"),
        why: format!("{}: {why}", path.display()),
        allow: "name a whole block device, as in /sys/block".into(),
    };
    let text = fs::read_to_string(&path).map_err(|error| missing(error.to_string()))?;
    let number = text.trim().split_once(':').and_then(|(major, minor)| {
        // The kernel-internal device number: MKDEV in include/linux/kdev_t.h.
        Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
    });
    let number = number.ok_or_else(|| missing(format!("expected major:minor, found {text:?}")))?;
    Ok(format!("dev == {number}"))
}

/// sysfs has `cciss!c0d0` for `cciss/c0d0`.
fn folder(sys_root: &Path, name: &str) -> PathBuf {
    sys_root.join("block").join(name.replace('/', "!"))
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn collect_irqs(sys_root: &Path, name: &str, depth: u32, irqs: &mut Vec<u32>) {
    let folder = folder(sys_root, name);
    let below = entries(&folder.join("slaves"));
    if !below.is_empty() && depth > 0 {
        below.iter().for_each(|below| collect_irqs(sys_root, below, depth - 1, irqs));
        return;
    }
    let Ok(real) = folder.canonicalize() else { return };
    if let Some(controllers) = multipath(&real) {
        controllers.iter().for_each(|controller| irqs.extend(irqs_above(sys_root, controller)));
        return;
    }
    irqs.extend(irqs_above(sys_root, &real));
}

/// The controllers of an NVMe multipath disk, which is a child of its subsystem.
fn multipath(disk: &Path) -> Option<Vec<PathBuf>> {
    let subsystem = disk.parent()?;
    subsystem.file_name()?.to_str()?.strip_prefix("nvme-subsys")?;
    let names = entries(subsystem).into_iter();
    let controllers = names.filter(|name| {
        name.strip_prefix("nvme").is_some_and(|number| number.parse::<u32>().is_ok())
    });
    Some(controllers.filter_map(|name| subsystem.join(name).canonicalize().ok()).collect())
}

/// Interrupts of the nearest parent device that has any: the controller.
fn irqs_above(sys_root: &Path, device: &Path) -> Vec<u32> {
    let root = sys_root.canonicalize().unwrap_or_default();
    for folder in device.ancestors().take_while(|folder| **folder != root) {
        let numbers: Vec<u32> =
            entries(&folder.join("msi_irqs")).iter().filter_map(|irq| irq.parse().ok()).collect();
        if !numbers.is_empty() {
            return numbers;
        }
        // A legacy interrupt; 0 means none.
        let wire = fs::read_to_string(folder.join("irq")).ok();
        if let Some(irq) = wire.and_then(|irq| irq.trim().parse().ok()).filter(|irq| *irq > 0) {
            return vec![irq];
        }
    }
    Vec::new()
}

fn queues(device: &Path) -> Vec<Vec<u32>> {
    let mq = device.join("mq");
    let mut numbers: Vec<u32> = entries(&mq).iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    let cpus = |queue: &u32| {
        let text = fs::read_to_string(mq.join(format!("{queue}/cpu_list"))).unwrap_or_default();
        text.split(',').filter_map(|cpu| cpu.trim().parse().ok()).collect()
    };
    numbers.iter().map(cpus).collect()
}
