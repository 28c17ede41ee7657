//! How a disk is attached: NUMA node, interrupts, IOMMU, power management. Links and what shares them are for the
//! topology.

#[cfg(test)]
use super::testing::{attribute, first_disk};
use super::{Disk, bad, check, cpus, good, judged};
use crate::derive::percent;
use fathom_model::units;
use std::collections::BTreeSet;

/// Minimum number of interrupts since boot for their distribution to be meaningful.
const INTERRUPTS_MIN: u64 = 10_000;
/// A CPU that handled this share of all interrupts handled practically all.
const ALL_SHARE: f64 = 0.9;

/// Whether the machine has several NUMA nodes.
fn is_numa(disk: &Disk) -> bool {
    disk.machine
        .files
        .text("/sys/devices/system/node/online")
        .is_ok_and(|nodes| cpus(nodes).len() > 1)
}

check! { IRQ_SPREAD: Disk, Info {
    id: "interrupt-spread",
    title: "CPUs that handle the interrupts",
    reads: "/proc/irq/N/effective_affinity_list, /proc/interrupts",
    says: "FOUND",
    good: "spread over all CPUs that submit I/O, for workloads with more than about 200k IOPS",
    cost: "The CPU that handles all completions can become the bottleneck above about 200k IOPS.",
    why: "kernel Documentation/core-api/irq/irq-affinity.rst; current drivers spread one interrupt per queue themselves",
    change: "echo CPUS >/proc/irq/N/smp_affinity_list for each interrupt, where the driver permits it",
    fix: None,
    judge: |disk| {
        // The interrupt of a single queue cannot be spread.
        let queues = disk.seen.device.hardware_queues.unwrap_or(1);
        if disk.machine.host.cpus_online < 2 || queues < 2 || disk.seen.interrupts.len() < 2 {
            return Ok(None);
        }
        let mut by_cpu = std::collections::BTreeMap::<u32, u64>::new();
        for (cpu, count) in disk.seen.interrupts.iter().flat_map(|one| &one.counts) {
            *by_cpu.entry(*cpu).or_default() += count;
        }
        let all: u64 = by_cpu.values().sum();
        let most = by_cpu.iter().max_by_key(|(_, count)| **count);
        let serving: BTreeSet<u32> = disk.seen.interrupts.iter().flat_map(|one| cpus(&one.cpus)).collect();
        match most {
            Some((cpu, count)) if all >= INTERRUPTS_MIN && *count as f64 >= ALL_SHARE * all as f64 => {
                let share = if *count == all { "all".into() } else { percent(*count as f64, all as f64) + " of" };
                let all = units::count(all as f64);
                bad(format!("CPU {cpu} handled {share} {all} interrupts"), "spread over several CPUs")
            }
            _ if serving.len() == 1 => bad("one CPU handles all interrupts", "spread over several CPUs"),
            _ => good(format!("{} CPUs", serving.len())),
        }
    },
    case: |i| first_disk(i).interrupts[0].counts = vec![(0, 9_000), (1, 1_000)],
    near_miss: |i| first_disk(i).interrupts[0].counts = vec![(0, 8_000), (1, 1_999)],
} }

check! { NUMA_UNKNOWN: Disk, Warning {
    id: "numa-node",
    title: "NUMA node",
    reads: "pci/numa_node",
    says: "the firmware does not tell the disk's NUMA node",
    good: "known, on machines with several nodes",
    cost: "The kernel and fathom cannot place interrupts and buffers near the disk.",
    why: "The firmware's ACPI tables lack _PXM for the slot (kernel Documentation/ABI/testing/sysfs-bus-pci, numa_node)",
    change: "update the firmware, or enable NUMA (SRAT) in its setup",
    fix: None,
    judge: |disk| {
        if !is_numa(disk) {
            return Ok(None);
        }
        let Ok(node) = disk.files.text("pci/numa_node") else { return Ok(None) };
        judged(node == "-1", node, "the disk's node")
    },
    case: |i| {
        i.host.set("/sys/devices/system/node/online", "0-1");
        attribute(i, "pci/numa_node", "-1");
    },
    near_miss: |i| attribute(i, "pci/numa_node", "-1"),
} }

check! { NUMA_REMOTE: Disk, Warning {
    id: "numa-local",
    title: "CPUs local to the disk",
    reads: "pci/local_cpulist, fathom's allowed CPUs",
    says: "fathom may run on no CPU of the disk's NUMA node",
    good: "workers can run on all CPUs of the disk's node",
    cost: "Completions and buffers cross the interconnect between packages.",
    why: "kernel Documentation/admin-guide/mm/numaperf.rst",
    change: "run fathom without taskset or numactl, or bind it to the disk's node: numactl -N NODE",
    fix: None,
    judge: |disk| {
        if !is_numa(disk) {
            return Ok(None);
        }
        let Ok(list) = disk.files.text("pci/local_cpulist") else { return Ok(None) };
        let local = cpus(list);
        let is_local = disk.machine.host.cpus_allowed.iter().any(|cpu| local.contains(cpu));
        judged(!is_local, if is_local { list } else { "no allowed CPU is local" }, "CPUs of its node")
    },
    case: |i| {
        i.host.set("/sys/devices/system/node/online", "0-1");
        attribute(i, "pci/local_cpulist", "8-15");
    },
    near_miss: |i| {
        i.host.set("/sys/devices/system/node/online", "0-1");
        attribute(i, "pci/local_cpulist", "7-15");
    },
} }

check! { IOMMU: Disk, Info {
    id: "iommu",
    title: "IOMMU mode",
    reads: "pci/iommu_group/type",
    says: "the IOMMU is in strict mode (FOUND); lazy mode is WANTED",
    good: "identity, or DMA-FQ (lazy), for workloads with many I/Os",
    cost: "In strict mode, each I/O waits for an IOTLB invalidation.",
    why: "kernel Documentation/ABI/testing/sysfs-kernel-iommu_groups, type (commit 8cc633190b52)",
    change: "boot with iommu.strict=0, or iommu.passthrough=1 if devices are trusted",
    fix: None,
    judge: |disk| {
        let Ok(mode) = disk.files.text("pci/iommu_group/type") else { return Ok(None) };
        judged(mode == "DMA", mode, "DMA-FQ or identity")
    },
    case: |i| attribute(i, "pci/iommu_group/type", "DMA"),
    near_miss: |i| attribute(i, "pci/iommu_group/type", "DMA-FQ"),
} }

check! { ASPM: Disk, Info {
    id: "link-power",
    title: "power saving of the PCIe link (ASPM L1)",
    reads: "pci/link/l1_aspm",
    says: "power saving of the PCIe link (ASPM L1) is enabled",
    good: "0, for latency at low load",
    cost: "The first I/O after an idle period waits some µs for the link to wake up.",
    why: "kernel Documentation/ABI/testing/sysfs-bus-pci, link/l1_aspm",
    change: "boot with pcie_aspm.policy=performance, or write 0 to link/l1_aspm of the PCI device",
    fix: None,
    judge: |disk| {
        let Ok(now) = disk.files.text("pci/link/l1_aspm") else { return Ok(None) };
        judged(now == "1", now, "0, for latency at low load")
    },
    case: |i| attribute(i, "pci/link/l1_aspm", "1"),
    near_miss: |i| attribute(i, "pci/link/l1_aspm", "0"),
} }

check! { RUNTIME_POWER: Disk, Info {
    id: "runtime-power",
    title: "runtime power management",
    reads: "pci/power/control, pci/power/runtime_status",
    says: "the PCI device is FOUND",
    good: "not suspended",
    cost: "The first I/O waits for the device to power up, which takes milliseconds.",
    why: "kernel Documentation/power/runtime_pm.rst",
    change: "write `on` to power/control of the PCI device",
    fix: None,
    judge: |disk| {
        let Ok(status) = disk.files.text("pci/power/runtime_status") else { return Ok(None) };
        judged(status.starts_with("suspend"), status, "active")
    },
    case: |i| attribute(i, "pci/power/runtime_status", "suspended"),
    near_miss: |i| attribute(i, "pci/power/runtime_status", "active"),
} }
