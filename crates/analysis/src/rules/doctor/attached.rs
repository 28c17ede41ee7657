//! How a disk is attached: NUMA node, interrupts, IOMMU, power management. Links and what shares them are for the
//! topology.

#[cfg(test)]
use super::testing::{attribute, first_disk};
use super::{Disk, bad, check, cpus, good, judged};
use std::collections::BTreeSet;

/// Interrupts since boot below which their distribution says nothing.
const INTERRUPTS_MIN: u64 = 10_000;
/// A CPU that has served this share of all has served practically all.
const ALL_SHARE: f64 = 0.9;

/// Whether the machine has several NUMA nodes.
fn is_numa(disk: &Disk) -> bool {
    disk.machine
        .files
        .text("/sys/devices/system/node/online")
        .is_ok_and(|nodes| cpus(nodes).len() > 1)
}

check! { IRQ_SPREAD: Disk, Warning {
    id: "interrupt-spread",
    title: "CPUs that serve the interrupts",
    reads: "/proc/irq/N/effective_affinity_list, /proc/interrupts",
    good: "spread over all CPUs that submit I/O, for workloads with more than about 200k IOPS",
    cost: "One CPU handles all completions and becomes the bottleneck.",
    why: "kernel Documentation/core-api/irq/irq-affinity.rst; current drivers spread one interrupt per queue themselves",
    change: "echo CPUS >/proc/irq/N/smp_affinity_list for each interrupt, or give the virtual disk more queues",
    fix: None,
    judge: |disk| {
        if disk.machine.host.cpus_online < 2 || disk.seen.interrupts.is_empty() {
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
                bad(format!("CPU {cpu} has served {count} of {all}"), "spread")
            }
            _ if serving.len() == 1 => bad("one CPU for all", "spread"),
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
    good: "known, on machines with several nodes",
    cost: "Nothing can tell which CPUs and which memory are near the disk: interrupts and buffers end up anywhere.",
    why: "The firmware's ACPI tables lack _PXM for the slot (kernel Documentation/ABI/testing/sysfs-bus-pci, numa_node)",
    change: "update the firmware, or enable NUMA (SRAT) in its setup",
    fix: None,
    judge: |disk| {
        if !is_numa(disk) {
            return Ok(None);
        }
        let Ok(node) = disk.files.text("pci/numa_node") else { return Ok(None) };
        judged(node == "-1", node, "a node")
    },
    case: |i| {
        i.host.set("/sys/devices/system/node/online", "0-1");
        attribute(i, "pci/numa_node", "-1");
    },
    near_miss: |i| attribute(i, "pci/numa_node", "-1"),
} }

check! { NUMA_REMOTE: Disk, Warning {
    id: "numa-local",
    title: "CPUs near the disk",
    reads: "pci/local_cpulist, allowed CPUs of fathom",
    good: "workers can run on all CPUs of the disk's node",
    cost: "Each completion and each buffer crosses the link between the packages.",
    why: "kernel Documentation/admin-guide/mm/numaperf.rst",
    change: "run fathom without taskset or numactl, or bind it to the node of the disk: numactl -N NODE",
    fix: None,
    judge: |disk| {
        if !is_numa(disk) {
            return Ok(None);
        }
        let Ok(list) = disk.files.text("pci/local_cpulist") else { return Ok(None) };
        let local = cpus(list);
        let is_local = disk.machine.host.cpus_allowed.iter().any(|cpu| local.contains(cpu));
        judged(!is_local, if is_local { list } else { "no allowed CPU is near" }, "CPUs of its node")
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
    good: "identity, or DMA-FQ (lazy), for workloads with many I/Os",
    cost: "In strict mode each I/O waits for an invalidation of the IOMMU's cache.",
    why: "kernel Documentation/ABI/testing/sysfs-kernel-iommu_groups, type (commit 8cc633190b52)",
    change: "boot with iommu.strict=0, or iommu.passthrough=1 where devices are trusted",
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
    good: "0, for latency at low load",
    cost: "The first I/O after a pause waits some µs until the link is up.",
    why: "kernel Documentation/ABI/testing/sysfs-bus-pci, link/l1_aspm",
    change: "boot with pcie_aspm.policy=performance, or write 0 to the file link/l1_aspm of the PCI device",
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
    good: "not suspended",
    cost: "The first I/O waits until the device is powered up, which takes milliseconds.",
    why: "kernel Documentation/power/runtime_pm.rst",
    change: "write on to the file power/control of the PCI device",
    fix: None,
    judge: |disk| {
        let Ok(status) = disk.files.text("pci/power/runtime_status") else { return Ok(None) };
        judged(status.starts_with("suspend"), status, "active")
    },
    case: |i| attribute(i, "pci/power/runtime_status", "suspended"),
    near_miss: |i| attribute(i, "pci/power/runtime_status", "active"),
} }
