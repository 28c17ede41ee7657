//! Reads the data that `fathom doctor` checks: kernel files of the machine and of disks, and reports of NVMe
//! controllers. Interprets nothing.

pub(crate) mod nvme;

use crate::topology::{irqs_above, is_numbered, multipath, name_of};
use fathom_model::facts::DeviceFacts;
use fathom_model::inspection::{
    DiskInspection, Inspection, Interrupt, MountedFileSystem, NvmeReport, Partition, Readings,
};
use fathom_model::list;
use fathom_model::record::DriveHeat;
use fathom_sys::cgroup::{self, Hierarchy};
use fathom_sys::device::{self, Node};
use fathom_sys::interrupts;
use fathom_sys::mounts::{self, Mount};
use fathom_sys::roots::{self, Roots, entries, number, text};
use std::io;
use std::path::{Path, PathBuf};

const TEXT_MAX: usize = 512;
/// Directories above a disk's that may be that of its PCI device.
const PARENTS_MAX: usize = 8;
/// Programs that change settings on which measurements depend.
const DAEMONS: [&str; 4] = ["irqbalance", "tuned", "power-profiles-", "thermald"];

pub fn inspect(roots: &Roots, disks: &[DeviceFacts]) -> Inspection {
    let mounts = mounts::own(roots);
    let node = |disk: &DeviceFacts| Node::named(roots, &disk.name);
    let nodes = disks.iter().filter_map(|disk| Some((disk, node(disk)?)));
    Inspection {
        host: host(roots),
        daemons: daemons(roots),
        disks: nodes.map(|(device, node)| disk(roots, &mounts, device, &node)).collect(),
    }
}

/// How hot disks are now, as far as hwmon shows it, and for how long they have throttled themselves since `before`.
pub fn heat(roots: &Roots, before: &Inspection) -> Vec<DriveHeat> {
    let of = |disk: &DiskInspection| {
        let node = Node::named(roots, &disk.device.name)?;
        let (celsius, warning_celsius) = temperatures(node.dir())?;
        let throttled = |then: &NvmeReport| {
            let began = then.smart?.throttled_seconds();
            Some(nvme::throttled_seconds(&then.controller)?.saturating_sub(began))
        };
        Some(DriveHeat {
            device: disk.device.name.clone(),
            celsius,
            warning_celsius,
            throttled_seconds: disk.nvme.as_ref().and_then(throttled),
        })
    };
    before.disks.iter().filter_map(of).collect()
}

/// The temperature of a disk, and the one from which it warns, in °C. Of NVMe, hwmonN is in the controller's directory, of
/// SATA in one called hwmon.
fn temperatures(disk: &Path) -> Option<(f64, f64)> {
    let above = controller(disk).unwrap_or_else(|| disk.join("device"));
    let dirs = [above.clone(), above.join("hwmon")].into_iter();
    let mut sensors = dirs.flat_map(|dir| {
        let numbered = |name: &String| name.len() > "hwmon".len() && name.starts_with("hwmon");
        entries(&dir).into_iter().filter(numbered).map(move |name| dir.join(name))
    });
    let celsius = |sensor: &Path, file: &str| {
        number::<f64>(sensor.join(file)).map(|thousandths| thousandths / 1000.0)
    };
    sensors.find_map(|sensor| {
        let warning = celsius(&sensor, "temp1_max").filter(|warning| *warning > 0.0)?;
        Some((celsius(&sensor, "temp1_input")?, warning))
    })
}

/// The whole disks that hold the devices with these kernel names: themselves, the disks of partitions, and what stacked
/// devices are built on.
pub fn disks_of<'a>(roots: &Roots, devices: impl IntoIterator<Item = &'a str>) -> Vec<DeviceFacts> {
    device::disks_of(roots, devices).iter().map(Node::facts).collect()
}

/// All disks of the machine, without memory devices and those not set up.
pub fn all_disks(roots: &Roots) -> Vec<DeviceFacts> {
    let in_memory = ["ram", "zram", "loop", "fd", "sr"];
    let is_real = |disk: &DeviceFacts| {
        let kind = disk.name.trim_end_matches(|c: char| c.is_ascii_digit());
        !in_memory.contains(&kind)
    };
    device::disks(roots).into_iter().filter(is_real).collect()
}

fn listed_in(section: &str) -> impl Iterator<Item = &'static str> + Clone {
    let heading = format!("[{section}]");
    let lines = include_str!("files.txt").lines();
    let lines = lines.skip_while(move |line| !line.starts_with(&heading)).skip(1);
    lines.take_while(|line| !line.starts_with('['))
}

fn host(roots: &Roots) -> Readings {
    let mut host = Readings::default();
    for path in listed_in("host") {
        let read = super::settings::below(roots, path.trim_start_matches('/'));
        read.into_iter().for_each(|file| record(&mut host, path, &file));
    }
    for pattern in listed_in("host_each") {
        for (path, file) in expand(roots, pattern) {
            record(&mut host, &path, &file);
        }
    }
    for pattern in listed_in("host_distinct") {
        let files = expand(roots, pattern).into_iter();
        let texts = list::ascending(files.filter_map(|(_, file)| text(file)));
        if !texts.is_empty() {
            host.set(pattern, &texts.join(", "));
        }
    }
    // Large, and only its presence matters.
    if roots.proc.join("lockdep_stats").exists() {
        host.set("/proc/lockdep_stats", "present");
    }
    if let Some(swaps) = text(roots.proc.join("swaps")) {
        let swaps = swaps.lines().skip(1).filter_map(|line| line.split(' ').next());
        host.set("/proc/swaps", &swaps.collect::<Vec<_>>().join(", "));
    }
    let known = text(roots.proc.join("filesystems"));
    if known.is_some_and(|known| known.lines().any(|line| line.ends_with("tracefs"))) {
        host.set("/proc/filesystems", "tracefs");
    }
    match std::fs::read_dir(roots.sys.join("kernel/tracing/events")) {
        Ok(_) => host.set("/sys/kernel/tracing/events", "readable"),
        Err(error) => lacks(&mut host, "/sys/kernel/tracing/events", &reason(&error)),
    }
    // Hidden or unmounted, these look as if there were no disks, programs, mounts and limits.
    for (path, file) in [
        ("/sys/block", roots.sys.join("block")),
        ("/proc", roots.proc.join("self")),
        ("/proc/loadavg", roots.proc.join("loadavg")),
        ("/proc/self/mountinfo", roots.proc.join("self/mountinfo")),
        ("/proc/self/status", roots.proc.join("self/status")),
    ] {
        match roots::exists(&file) {
            Ok(true) => {}
            Ok(false) => lacks(&mut host, path, "missing"),
            Err(error) => lacks(&mut host, path, &error.to_string()),
        }
    }
    let hierarchies = cgroup::own(roots).unwrap_or_else(|error| {
        lacks(&mut host, "cgroup", &error.to_string());
        Vec::new()
    });
    if hierarchies.is_empty() && !host.missing.contains_key("cgroup") {
        lacks(&mut host, "cgroup", "no hierarchy is mounted");
    }
    hierarchies.iter().for_each(|hierarchy| limits(&mut host, hierarchy));
    host
}

fn lacks(host: &mut Readings, path: &str, why: &str) {
    host.missing.insert(path.into(), why.into());
}

fn limits(host: &mut Readings, hierarchy: &Hierarchy) {
    for file in listed_in("cgroup") {
        let all: Vec<String> = hierarchy
            .groups()
            .filter_map(|dir| text(dir.join(file)))
            .filter(|text| !text.starts_with("max") && text != "-1")
            .collect();
        if !all.is_empty() {
            host.set(&format!("cgroup/{file}"), &cut(&all.join(", ").replace('\n', ", ")));
        }
    }
}

/// The files that match a path with one `*`, with their paths.
fn expand(roots: &Roots, pattern: &str) -> Vec<(String, PathBuf)> {
    let Some((front, back)) = pattern.split_once('*') else { return Vec::new() };
    let Some((dir, prefix)) = front.rsplit_once('/') else { return Vec::new() };
    let Some(real) = super::settings::below(roots, dir.trim_start_matches('/')) else {
        return Vec::new();
    };
    let names = entries(&real).into_iter().filter(|name| name.starts_with(prefix));
    names
        .map(|name| (format!("{dir}/{name}{back}"), real.join(format!("{name}{back}"))))
        .filter(|(_, file)| file.is_file())
        .collect()
}

fn daemons(roots: &Roots) -> Vec<String> {
    let pids = entries(&roots.proc).into_iter().filter(|name| name.parse::<u32>().is_ok());
    let names = pids.filter_map(|pid| text(roots.proc.join(pid).join("comm")));
    list::ascending(names.filter(|name| DAEMONS.contains(&name.as_str())))
}

fn disk(roots: &Roots, mounts: &[Mount], device: &DeviceFacts, node: &Node) -> DiskInspection {
    let dir = node.dir();
    let mut files = Readings::default();
    for file in listed_in("disk") {
        record(&mut files, file, &dir.join(file));
    }
    let pci = pci_above(dir);
    let controller = controller(dir);
    let of = [("pci", &pci, listed_in("pci")), ("nvme", &controller, listed_in("nvme"))];
    for (name, dir, names) in of {
        for (dir, file) in dir.iter().flat_map(|dir| names.clone().map(move |file| (dir, file))) {
            record(&mut files, &format!("{name}/{file}"), &dir.join(file));
        }
    }
    let report = controller.map(|dir| nvme::report(&name_of(&dir), device.nvme_nsid));
    let (nvme, nvme_missing) = match report {
        Some(Ok(report)) => (Some(report), None),
        Some(Err(reason)) => (None, Some(reason)),
        None => (None, None),
    };
    DiskInspection {
        device: device.clone(),
        files,
        partitions: partitions(node),
        mounts: mounted(mounts, node),
        interrupts: interrupts(roots, dir),
        nvme,
        nvme_missing,
    }
}

fn pci_above(disk: &Path) -> Option<PathBuf> {
    let is_pci = |dir: &&Path| dir.join("vendor").exists() && dir.join("class").exists();
    disk.ancestors().skip(1).take(PARENTS_MAX).find(is_pci).map(Path::to_path_buf)
}

/// The directory of a disk's NVMe controller; with multipath, of the first.
fn controller(disk: &Path) -> Option<PathBuf> {
    let is_controller = |dir: &PathBuf| is_numbered(&name_of(dir), "nvme");
    let own = || disk.join("device").canonicalize().ok().filter(is_controller);
    multipath(disk).map_or_else(own, |all| all.into_iter().next())
}

fn partitions(node: &Node) -> Vec<Partition> {
    // sysfs reports 512-byte sectors on all devices.
    let of = |part: &Node| Partition {
        name: part.name(),
        start_bytes: number::<u64>(part.attribute("start")).unwrap_or(0).saturating_mul(512),
    };
    node.partitions().unwrap_or_default().iter().map(of).collect()
}

/// File systems on a disk, its partitions and what is stacked on them.
fn mounted(mounts: &[Mount], node: &Node) -> Vec<MountedFileSystem> {
    let mut devices = vec![node.clone()];
    devices.extend(node.partitions().unwrap_or_default());
    let mut numbers: Vec<device::Number> = devices.iter().map(|node| node.number).collect();
    let holders = devices.iter().filter_map(|node| node.holders().ok()).flatten();
    let holders = holders.filter_map(|holder| holder.number);
    numbers.extend(holders);
    let paths: Vec<String> = devices.iter().map(Node::path).collect();
    let mut found: Vec<MountedFileSystem> = Vec::new();
    // Some file systems, such as btrfs, have numbers of their own.
    let is_on = |mount: &&Mount| numbers.contains(&mount.device) || paths.contains(&mount.source);
    let mut sources: Vec<&str> = Vec::new();
    for mount in mounts.iter().filter(is_on) {
        // Further mounts of the same file system are mostly those of containers.
        if sources.contains(&mount.source.as_str()) {
            continue;
        }
        sources.push(&mount.source);
        let size = rustix::fs::statvfs(mount.point.as_str()).ok();
        let bytes = |blocks: fn(&rustix::fs::StatVfs) -> u64| {
            size.as_ref().map_or(0, |size| blocks(size).saturating_mul(size.f_frsize))
        };
        found.push(MountedFileSystem {
            point: mount.point.clone(),
            file_system: mount.file_system.clone(),
            options: format!("{},{}", mount.options, mount.super_options),
            size_bytes: bytes(|size| size.f_blocks),
            free_bytes: bytes(|size| size.f_bavail),
        });
    }
    found
}

fn interrupts(roots: &Roots, disk: &Path) -> Vec<Interrupt> {
    let table = std::fs::read_to_string(roots.proc.join("interrupts")).unwrap_or_default();
    let counted = interrupts::parse(&table);
    let of = |number: u32| {
        let own = counted.iter().find(|source| source.irq == number.to_string());
        let counts = own.into_iter().flat_map(|source| &source.counts);
        let dir = roots.proc.join("irq").join(number.to_string());
        let cpus = text(dir.join("effective_affinity_list"));
        Interrupt {
            number,
            cpus: cpus.or_else(|| text(dir.join("smp_affinity_list"))).unwrap_or_default(),
            counts: counts.map(|(cpu, count)| (*cpu, u64::from(*count))).collect(),
        }
    };
    // Those never set up, such as of queues beyond the CPUs, are not in the table.
    irqs_above(roots, disk).into_iter().map(of).filter(|one| !one.cpus.is_empty()).collect()
}

fn record(readings: &mut Readings, path: &str, file: &Path) {
    match std::fs::read(file) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            readings.set(path, &cut(text.trim_matches(|c: char| c.is_whitespace() || c == '\0')));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            readings.missing.insert(path.to_string(), reason(&error));
        }
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "needs root".into(),
        _ => error.to_string(),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn temperatures_are_those_of_the_disks_sensor() {
        let dir = tempfile::tempdir().unwrap();
        let make = |path: &str, text: &str| {
            let file = dir.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let of = |disk: &str| temperatures(&dir.path().join(disk));
        make("sda/device/hwmon/hwmon3/temp1_input", "41000\n");
        assert_eq!(of("sda"), None, "it does not warn");
        make("sda/device/hwmon/hwmon3/temp1_max", "60000\n");
        assert_eq!(of("sda"), Some((41.0, 60.0)));
        make("nvme0/hwmon1/temp1_input", "51850\n");
        make("nvme0/hwmon1/temp1_max", "81850\n");
        fs::create_dir(dir.path().join("nvme0n1")).unwrap();
        std::os::unix::fs::symlink("../nvme0", dir.path().join("nvme0n1/device")).unwrap();
        assert_eq!(of("nvme0n1"), Some((51.85, 81.85)));
        assert_eq!(of("vda"), None);
    }
}
