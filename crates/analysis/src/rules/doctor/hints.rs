//! Checks whose findings are hints: what they find matters to some workloads, or to fathom's own sampling.

#[cfg(test)]
use super::testing::*;
use super::*;
use fathom_model::units;

/// Commands in flight that an SSD behind SCSI or SATA needs.
const DEPTH_MIN: u64 = 31;
/// Transfers of this size should be possible.
const LARGE_BYTES: u64 = 1 << 20;
/// Leaving an idle state may take this long in µs before it shows in latencies.
const EXIT_US: u64 = 50;
/// Bytes that a process without privileges should be able to lock.
const LOCKED_BYTES: u64 = 64 << 20;
/// Memory that is available below this part is short.
const AVAILABLE_PART: u64 = 10;
/// Options of a mount that writes few access times.
const RELAXED: [&str; 4] = ["relatime", "noatime", "ro", "lazytime"];

pub(super) static HINTS: &[Rule] = checks! {
    Disk Info "nvme-format", "LBA format", "Identify Namespace, FLBAS and LBAF" {
        says: "the LBA format has blocks of FOUND; the drive rates WANTED as faster",
        good: "the one with the best relative performance, for all workloads that can use its block size",
        cost: "The drive reports better relative performance with another block size.",
        why: "NVM Command Set Specification, LBA Format, Relative Performance",
        change: "nvme format /dev/DISK --lbaf=N, which destroys all data on it",
        judge: |disk| {
            let space = disk.namespace()?;
            let now = space.formats.get(usize::from(space.format)).ok_or("the format is unknown")?;
            let plain = space.formats.iter().filter(|one| one.metadata_bytes == 0 && one.block_bytes >= 512);
            let best = plain.min_by_key(|one| one.relative_performance);
            let best = best.filter(|best| best.relative_performance < now.relative_performance);
            let wanted = best.map_or(String::new(), |best| units::bytes(best.block_bytes.into()));
            verdict(best.is_some(), units::bytes(now.block_bytes.into()), wanted)
        },
        case: |i| namespace(i).format = 1, near_miss: |i| namespace(i).formats[1].relative_performance = 0,
    }
    Disk Info "nvme-multipath", "path selection", "device/iopolicy" {
        says: "the multipath policy is FOUND",
        good: "round-robin or queue-depth if several paths are equally fast; numa if they are not",
        cost: "With numa, each CPU uses only one path, so others may stay idle.",
        why: "kernel Documentation/admin-guide/nvme-multipath.rst",
        change: "echo round-robin >/sys/block/DISK/device/iopolicy",
        judge: |disk| {
            let policy = maybe(disk.files, "device/iopolicy")?;
            let transport = disk.files.text("nvme/transport").unwrap_or("pcie");
            verdict(policy == "numa" && transport != "pcie", policy, "round-robin, for several equal paths")
        },
        case: |i| { set(i, "device/iopolicy", "numa"); set(i, "nvme/transport", "tcp"); },
        near_miss: |i| set(i, "device/iopolicy", "numa"),
    }
    Disk Info "nvme-firmware", "firmware", "firmware slot log" {
        says: "the firmware changes at the next reset: FOUND",
        good: "the active slot is also the one for the next reset",
        cost: "The next reset activates different firmware, so results before and after it may differ.",
        why: "NVM Express Base Specification, Firmware Slot Information",
        change: "reset the controller when the disk is not in use: nvme reset /dev/CONTROLLER",
        judge: |disk| {
            let report = disk.nvme()?;
            let slots = report.firmware_slots.as_ref().ok_or("the controller has no firmware log")?;
            let Some(slot) = slots.next else { return good(&report.firmware) };
            let next = slots.revisions.get(usize::from(slot).saturating_sub(1)).map_or("unknown", String::as_str);
            bad(format!("{}; after the next reset {next}", report.firmware), "the same after a reset")
        },
        case: |i| nvme(i).firmware_slots.get_or_insert_default().next = Some(2),
        near_miss: |i| nvme(i).firmware_slots.get_or_insert_default().next = None,
    }
    Disk Info "poll-queues", "queues for polled I/O", "queue/io_poll" {
        says: "the driver has no queues for polled I/O",
        good: "1, for polled I/O (hipri=1); otherwise irrelevant",
        cost: "Without poll queues, polled I/O fails or silently waits for interrupts.",
        why: "BLK_FEAT_POLL is set only for drivers with queues of type HCTX_TYPE_POLL; writing queue/io_poll has no effect \
          since Linux 5.16 (kernel block/blk-sysfs.c)",
        change: "boot with nvme.poll_queues=N, or reload the driver: modprobe -r nvme && modprobe nvme poll_queues=N",
        judge: |disk| match disk.queue()? {
            files if disk.is_nvme() => text(files, "queue/io_poll", |now| now == "0", "1, to measure polled I/O"),
            _ => Err(Skip::NotApplicable),
        },
        case: |i| set(i, "queue/io_poll", "0"), near_miss: |i| set(i, "queue/io_poll", "1"),
    }
    Disk Info "nomerges", "merging of requests", "queue/nomerges" {
        says: "the kernel tries to merge random I/Os (nomerges is FOUND)",
        good: "2 (none) for random I/O on fast disks; 0 (all) for sequential buffered I/O and hard disks",
        cost: "With 0, the kernel tries to merge each I/O with those queued before it, from which random I/O gains nothing; \
           the CPU time is a few percent at most.",
        why: "blk_attempt_plug_merge() and the scheduler's lookup (kernel Documentation/ABI/stable/sysfs-block, nomerges)",
        change: "echo 2 >/sys/block/DISK/queue/nomerges",
        judge: |disk| {
            let now = disk.files.text("queue/nomerges")?;
            verdict(disk.is_nvme() && disk.has_requests() && now != "2", now, "2, for random I/O only")
        },
        case: |i| set(i, "queue/nomerges", "0"), near_miss: |i| set(i, "queue/nomerges", "2"),
    }
    Disk Info "wbt-latency", "writeback throttling", "queue/wbt_lat_usec" {
        says: "writeback throttling is on, with a target of FOUND",
        good: "0, to measure writes; otherwise the default protects reads from background writes",
        cost: "Buffered writes are held back while reads take longer than this.",
        why: "kernel block/blk-wbt.c; Documentation/ABI/stable/sysfs-block, wbt_lat_usec",
        change: "echo 0 >/sys/block/DISK/queue/wbt_lat_usec",
        judge: |disk| {
            let us = disk.queue()?.number("queue/wbt_lat_usec")?;
            verdict(us > 0, units::time(us as f64 * 1000.0), "0, to measure writes")
        },
        case: |i| set(i, "queue/wbt_lat_usec", "2000"), near_miss: |i| set(i, "queue/wbt_lat_usec", "0"),
    }
    Disk Info "max-segments", "segments per request", "queue/max_segments" {
        says: "a request has at most FOUND segments",
        good: "at least as many as the largest I/O has pages (256 for 1 MiB), or buffers in huge pages",
        cost: "A 1 MiB I/O whose pages are not contiguous is split even if max_sectors_kb allows it.",
        why: "Each page that does not adjoin the previous one is a segment; NVMe long had a limit of 127, hence splits at 512 KiB \
          (kernel drivers/nvme/host/pci.c, NVME_MAX_SEGS)",
        change: "use huge pages for buffers: --mem=mmaphuge, or transparent huge pages",
        judge: |disk| {
            let now = disk.queue()?.number("queue/max_segments")?;
            let pages = disk.files.number("queue/max_sectors_kb")?.min(LARGE_KB) / 4;
            // 65535 and 0 mean unlimited.
            verdict(now > 0 && now < pages, now, "256, or huge pages for 1 MiB I/Os")
        },
        case: |i| set(i, "queue/max_segments", "127"), near_miss: |i| set(i, "queue/max_segments", "256"),
    }
    Disk Info "add-random", "entropy from completions", "queue/add_random" {
        says: "completions feed the random number generator",
        good: "0 on solid-state disks, for all workloads",
        cost: "Each completion feeds the random number generator, to no benefit on disks without moving parts.",
        why: "add_disk_randomness() (kernel Documentation/ABI/stable/sysfs-block, add_random)",
        change: "echo 0 >/sys/block/DISK/queue/add_random",
        judge: |disk| {
            let now = disk.files.text("queue/add_random")?;
            verdict(disk.is_solid() && disk.has_requests() && now == "1", now, "0")
        },
        case: |i| set(i, "queue/add_random", "1"), near_miss: |i| set(i, "queue/add_random", "0"),
    }
    Disk Info "discard", "discard (TRIM)", "queue/discard_max_bytes" {
        says: "the device does not support discard (TRIM)",
        good: "above 0 on solid-state disks, for repeatable write measurements",
        cost: "Free space cannot be discarded, so the disk cannot be returned to a known state before write tests.",
        why: "kernel Documentation/ABI/stable/sysfs-block, discard_max_bytes",
        change: "pass discards through each layer: virtual disks with discard=unmap, dm-crypt with --allow-discards",
        judge: |disk| {
            let most = disk.files.number("queue/discard_max_bytes")?;
            verdict(disk.is_solid() && most == 0, units::bytes(most), "supported")
        },
        case: |i| set(i, "queue/discard_max_bytes", "0"), near_miss: |i| set(i, "queue/discard_max_bytes", "4096"),
    }
    Disk Info "read-only", "write access", "ro" {
        says: "the disk is read-only",
        good: "0, for workloads that write",
        cost: "Writes are refused.",
        why: "blockdev(8), --setro",
        change: "blockdev --setrw /dev/DISK, unless something else makes it read-only",
        judge: |disk| either(disk.files.text("ro")? == "1", ["read-only", "writable"], "writable, for writes"),
        case: |i| set(i, "ro", "1"), near_miss: |i| set(i, "ro", "0"),
    }
    Disk Info "device-queue-depth", "queue depth of the SCSI device", "device/queue_depth" {
        says: "the SCSI queue depth is FOUND; random I/O needs WANTED",
        good: "31 or more (SATA allows 32), for random I/O",
        cost: "The device cannot reorder or overlap more commands than this.",
        why: "kernel Documentation/scsi/scsi_mid_low_api.rst, scsi_change_queue_depth",
        change: "echo 31 >/sys/block/DISK/device/queue_depth",
        judge: |disk| {
            let depth = disk.files.number("device/queue_depth").map_err(|_| Skip::NotApplicable)?;
            below(depth, DEPTH_MIN, "31 or more")
        },
        case: |i| set(i, "device/queue_depth", "1"), near_miss: |i| set(i, "device/queue_depth", "32"),
    }
    Disk Info "boundaries", "boundaries that split I/Os", "queue/chunk_sectors" {
        says: "I/Os across multiples of FOUND are split",
        good: "0, or I/Os aligned to the boundary",
        cost: "An I/O across a boundary is split in two.",
        why: "the stripe unit of RAID 0, or NVMe's optimal I/O boundary (kernel Documentation/ABI/stable/sysfs-block, chunk_sectors)",
        change: "align I/Os, partitions and stripes to FOUND",
        judge: |disk| {
            // Zones are none: no I/O may cross them anyway.
            let sectors = disk.files.number("queue/chunk_sectors")?;
            let sectors = if disk.is_zoned() { 0 } else { sectors };
            verdict(sectors > 0, units::bytes(sectors * 512), "I/Os that do not cross it")
        },
        case: |i| set(i, "queue/chunk_sectors", "256"), near_miss: |i| set(i, "queue/chunk_sectors", "0"),
    }
    Disk Info "mount-discard", "online discard", "/proc/self/mountinfo" {
        says: "FOUND is mounted with discard; prefer fstrim.timer",
        good: "periodic fstrim instead, for workloads that delete files; discard=async on btrfs is fine",
        cost: "Deletions send discards, which many drives execute slowly and ahead of other I/O.",
        why: "mount(8), option discard; fstrim(8)",
        change: "mount -o remount,nodiscard MOUNTPOINT, and systemctl enable --now fstrim.timer",
        judge: |disk| disk.machine.read(MOUNTS).and_then(|()| mounted(disk, |mount| has(mount, "discard"), "no discard")),
        case: |i| mount(i, "rw,discard", 50), near_miss: |i| mount(i, "rw,discard=async", 50),
    }
    Disk Info "mount-atime", "access times", "/proc/self/mountinfo" {
        says: "FOUND is mounted with strictatime",
        good: "relatime (the default) or noatime, for workloads that read",
        cost: "With strictatime, each read of a file writes its inode.",
        why: "mount(8), options strictatime and relatime",
        change: "mount -o remount,noatime MOUNTPOINT",
        judge: |disk| mounted(disk, |mount| !RELAXED.iter().any(|one| has(mount, one)), "relatime or noatime"),
        case: |i| mount(i, "rw,nodev", 50), near_miss: |i| mount(i, "rw,relatime", 50),
    }
    Disk Info "nvme-autonomous-power", "autonomous power saving (APST)", "feature 0Ch" {
        says: "autonomous power saving is FOUND",
        good: "disabled, for latency at low load; irrelevant under load",
        cost: "The first I/O after an idle period waits for the drive to leave its power-saving state, which can take milliseconds.",
        why: "kernel drivers/nvme/host/core.c, nvme_configure_apst (commit c5552fde102f)",
        change: "boot with nvme_core.default_ps_max_latency_us=0",
        judge: |disk| {
            let report = disk.nvme()?;
            let is_enabled = report.autonomous_power.ok_or(Skip::NotApplicable)?;
            let idle = report.power_states.iter().filter(|state| !state.is_operational);
            match idle.map(|state| state.exit_us).max().unwrap_or(0) {
                _ if !is_enabled => good("disabled"),
                0 => good("enabled, no states with long exit latency"),
                us => bad(format!("enabled: waking up takes up to {us} µs"), "disabled, for latency at low load"),
            }
        },
        case: |i| nvme(i).autonomous_power = Some(true), near_miss: |i| nvme(i).autonomous_power = Some(false),
    }
    Disk Info "nvme-latency-tolerance", "latency that power saving may add, µs", "nvme/power/pm_qos_latency_tolerance_us" {
        says: "power saving of the drive may add FOUND µs",
        good: "0, for latency at low load",
        cost: "The kernel lets the drive use power-saving states with exit latencies up to this value.",
        why: "kernel drivers/nvme/host/core.c, default_ps_max_latency_us (commit 9947d6a09cd7)",
        change: "echo 0 >/sys/class/nvme/CONTROLLER/power/pm_qos_latency_tolerance_us",
        judge: |disk| {
            let saves = disk.nvme()?.autonomous_power == Some(true);
            let now = maybe(disk.files, "nvme/power/pm_qos_latency_tolerance_us")?;
            verdict(now != "0" && saves, now, "0, for latency at low load")
        },
        case: |i| {
            set(i, "nvme/power/pm_qos_latency_tolerance_us", "100000");
            nvme(i).autonomous_power = Some(true);
        },
        near_miss: |i| set(i, "nvme/power/pm_qos_latency_tolerance_us", "100000"),
    }
    Disk Info "nvme-transfer-max", "maximum transfer size", "Identify Controller, MDTS" {
        says: "one command transfers at most FOUND",
        good: "1 MiB or more, for workloads with large I/Os",
        cost: "Larger I/Os are split into commands of this size.",
        why: "NVM Express Base Specification, Maximum Data Transfer Size",
        change: "use block sizes of up to FOUND",
        judge: |disk| match disk.nvme()?.transfer_max_bytes {
            Some(most) => verdict(most < LARGE_BYTES, units::bytes(most), "1 MiB or more"),
            None => good("unlimited"),
        },
        case: |i| nvme(i).transfer_max_bytes = Some(512 << 10),
        near_miss: |i| nvme(i).transfer_max_bytes = Some(1 << 20),
    }
    Disk Info "nvme-protection", "end-to-end protection", "Identify Namespace, DPS" {
        says: "end-to-end protection is enabled",
        good: "none, unless required",
        cost: "Each block carries checksums that the CPU and the drive compute; passthrough I/O without them fails.",
        why: "NVM Command Set Specification, End-to-end Data Protection; kernel Documentation/block/data-integrity.rst",
        change: "nvme format /dev/DISK --pi=0, which destroys all data on it",
        judge: |disk| either(disk.namespace()?.is_protected, ["enabled", "none"], "none, unless required"),
        case: |i| namespace(i).is_protected = true, near_miss: |i| namespace(i).is_protected = false,
    }
    Disk Info "iommu", "IOMMU mode", "pci/iommu_group/type" {
        says: "the IOMMU is in strict mode (FOUND); lazy mode is WANTED",
        good: "identity, or DMA-FQ (lazy), for workloads with many I/Os",
        cost: "In strict mode, each I/O waits for an IOTLB invalidation.",
        why: "kernel Documentation/ABI/testing/sysfs-kernel-iommu_groups, type (commit 8cc633190b52)",
        change: "boot with iommu.strict=0, or iommu.passthrough=1 if devices are trusted",
        judge: |disk| optional(disk.files, "pci/iommu_group/type", |now| now == "DMA", "DMA-FQ or identity"),
        case: |i| set(i, "pci/iommu_group/type", "DMA"), near_miss: |i| set(i, "pci/iommu_group/type", "DMA-FQ"),
    }
    Disk Info "link-power", "power saving of the PCIe link (ASPM L1)", "pci/link/l1_aspm" {
        says: "power saving of the PCIe link (ASPM L1) is enabled",
        good: "0, for latency at low load",
        cost: "The first I/O after an idle period waits some µs for the link to wake up.",
        why: "kernel Documentation/ABI/testing/sysfs-bus-pci, link/l1_aspm",
        change: "boot with pcie_aspm.policy=performance, or write 0 to link/l1_aspm of the PCI device",
        judge: |disk| optional(disk.files, "pci/link/l1_aspm", |now| now == "1", "0, for latency at low load"),
        case: |i| set(i, "pci/link/l1_aspm", "1"), near_miss: |i| set(i, "pci/link/l1_aspm", "0"),
    }
    Disk Info "runtime-power", "runtime power management", "pci/power/control, pci/power/runtime_status" {
        says: "the PCI device is FOUND",
        good: "not suspended",
        cost: "The first I/O waits for the device to power up, which takes milliseconds.",
        why: "kernel Documentation/power/runtime_pm.rst",
        change: "write `on` to power/control of the PCI device",
        judge: |disk| optional(disk.files, "pci/power/runtime_status", |now| now.starts_with("suspend"), "active"),
        case: |i| set(i, "pci/power/runtime_status", "suspended"),
        near_miss: |i| set(i, "pci/power/runtime_status", "active"),
    }
    Machine Info "energy-preference", "energy preference", "/sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference" {
        says: "the CPU's energy preference is FOUND; for measurements, use WANTED",
        good: "performance, for measurements",
        cost: "The CPU itself chooses lower clocks under partial load.",
        why: "kernel Documentation/admin-guide/pm/intel_pstate.rst and amd-pstate.rst",
        change: "echo performance | tee /sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference",
        judge: |machine| optional(machine.files, "/sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference", |now| now != "performance", "performance"),
        case: |i| set(i, "/sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference", "balance_power"),
        near_miss: |i| set(i, "/sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference", "performance"),
    }
    Machine Info "idle-states", "deepest idle state of the CPUs", "/sys/devices/system/cpu/cpu0/cpuidle/state*/latency" {
        says: "leaving the deepest idle state takes a CPU FOUND",
        good: "exit latency of at most 50 µs, for latency at low queue depth; deep states leave more boost to busy CPUs",
        cost: "A CPU that idles while it waits for an I/O takes this long to wake up, which adds to latency.",
        why: "kernel Documentation/admin-guide/pm/cpuidle.rst",
        change: "cpupower idle-set -D 50, or hold /dev/cpu_dma_latency open",
        judge: |machine| {
            let state = |path: &str| path.starts_with("/sys/devices/system/cpu/cpu0/cpuidle/");
            let files = machine.files.texts.iter().filter(|(path, _)| state(path) && path.ends_with("/latency"));
            let is_enabled = |path: &str| machine.files.text(&path.replace("/latency", "/disable")) != Ok("1");
            let enabled = files.filter(|(path, _)| is_enabled(path));
            let us = enabled.filter_map(|(_, text)| text.parse::<u64>().ok()).max().ok_or(Skip::NotApplicable)?;
            verdict(us > EXIT_US, format!("{us} µs"), "at most 50 µs")
        },
        case: |i| set(i, "/sys/devices/system/cpu/cpu0/cpuidle/state3/latency", "170"),
        near_miss: |i| {
            set(i, "/sys/devices/system/cpu/cpu0/cpuidle/state3/latency", "170");
            set(i, "/sys/devices/system/cpu/cpu0/cpuidle/state3/disable", "1");
        },
    }
    Machine Info "cpus-offline", "CPUs online", "/sys/devices/system/cpu/online, present" {
        says: "CPUs FOUND are online, of WANTED",
        good: "all CPUs present",
        cost: "Fewer CPUs submit and complete I/O; the queues of offline CPUs are idle.",
        why: "kernel Documentation/core-api/cpu_hotplug.rst",
        change: "echo 1 >/sys/devices/system/cpu/cpuN/online",
        judge: |machine| {
            let online = machine.files.text("/sys/devices/system/cpu/online")?;
            let present = machine.files.text("/sys/devices/system/cpu/present")?;
            verdict(cpus(online) != cpus(present), online, present)
        },
        case: |i| set(i, "/sys/devices/system/cpu/present", "0-15"),
        near_miss: |i| set(i, "/sys/devices/system/cpu/present", "0-3,4-7"),
    }
    Machine Info "cpus-allowed", "CPUs that fathom may use", "/proc/self/status, Cpus_allowed_list" {
        says: "fathom may run on FOUND CPUs",
        good: "all CPUs online",
        cost: "Peaks are those of only part of the machine.",
        why: "sched_setaffinity(2), cpuset(7)",
        change: "run fathom without taskset, outside of a cpuset",
        judge: |machine| {
            let online = cpus(machine.files.text("/sys/devices/system/cpu/online")?).len();
            machine.read(STATUS)?;
            let allowed = machine.host.cpus_allowed.len();
            verdict(allowed < online, format!("{allowed} of {online}"), "all")
        },
        case: |i| set(i, "/sys/devices/system/cpu/online", "0-8"),
        near_miss: |i| set(i, "/sys/devices/system/cpu/online", "0-6"),
    }
    Machine Info "daemons", "programs that change settings", "/proc/PID/comm" {
        says: "programs that change settings are running: FOUND",
        good: "none during a measurement",
        cost: "They move interrupts, or change governors and queues, during a measurement.",
        why: "irqbalance(1), tuned(8), power-profiles-daemon",
        change: "systemctl stop irqbalance tuned power-profiles-daemon thermald",
        judge: |machine| match machine.daemons {
            [] => machine.read("/proc").and_then(|()| good("none")),
            all => bad(all.join(", "), "none"),
        },
        case: |i| i.daemons.push("irqbalance".into()), near_miss: |i| i.daemons.clear(),
    }
    Machine Info "numa-balancing", "automatic NUMA balancing", "/proc/sys/kernel/numa_balancing" {
        says: "automatic NUMA balancing is enabled",
        good: "0, for repeatable measurements on machines with several nodes",
        cost: "The kernel unmaps pages to detect who uses them, and moves threads: latencies vary.",
        why: "kernel Documentation/admin-guide/sysctl/kernel.rst, numa_balancing",
        change: "sysctl kernel.numa_balancing=0",
        judge: |machine| {
            let now = maybe(machine.files, "/proc/sys/kernel/numa_balancing")?;
            verdict(machine.has_nodes() && now != "0", now, "0")
        },
        case: |i| { set(i, "/proc/sys/kernel/numa_balancing", "1"); set(i, NODES, "0-1"); },
        near_miss: |i| set(i, "/proc/sys/kernel/numa_balancing", "1"),
    }
    Machine Info "nmi-watchdog", "NMI watchdog", "/proc/sys/kernel/nmi_watchdog" {
        says: "the NMI watchdog is enabled",
        good: "0, when hardware counters are used",
        cost: "It occupies one hardware counter of each CPU and interrupts the CPU periodically.",
        why: "kernel Documentation/admin-guide/lockup-watchdogs.rst",
        change: "sysctl kernel.nmi_watchdog=0",
        judge: |machine| optional(machine.files, "/proc/sys/kernel/nmi_watchdog", |now| now == "1", "0"),
        case: |i| set(i, "/proc/sys/kernel/nmi_watchdog", "1"),
        near_miss: |i| set(i, "/proc/sys/kernel/nmi_watchdog", "0"),
    }
    Machine Info "cgroup-memory", "cgroup memory limit", "memory.max, memory.limit_in_bytes" {
        says: "the cgroup limits memory to FOUND",
        good: "none, for buffered I/O",
        cost: "The page cache counts toward the limit, so it is reclaimed even if the machine has free memory.",
        why: "kernel Documentation/admin-guide/cgroup-v2.rst, memory.max",
        change: "run fathom in a cgroup without limits, or a container without --memory",
        judge: |machine| match machine.host.cgroup_memory_max_bytes {
            Some(most) if most < machine.host.memory_bytes => bad(units::bytes(most), "none, for buffered I/O"),
            _ => machine.read(CGROUP).and_then(|()| good("none")),
        },
        case: |i| i.facts.cgroup_memory_max_bytes = Some(1 << 30),
        near_miss: |i| i.facts.cgroup_memory_max_bytes = Some(1 << 40),
    }
    Machine Info "locked-memory", "locked memory limit", "RLIMIT_MEMLOCK" {
        says: "the limit of locked memory is FOUND",
        good: "64 MiB or more, without root, for registered buffers",
        cost: "Larger buffers cannot be registered with io_uring, so each I/O pins its pages again.",
        why: "io_uring_register(2), IORING_REGISTER_BUFFERS; rings themselves do not count since Linux 5.12 (commit 26bfa89e25f4)",
        change: "ulimit -l unlimited, or memlock in /etc/security/limits.conf",
        judge: |machine| match machine.host.memlock_limit_bytes {
            _ if machine.is_privileged()? => good("unlimited for root"),
            Some(bytes) => verdict(bytes < LOCKED_BYTES, units::bytes(bytes), "64 MiB or more"),
            None => good("unlimited"),
        },
        case: |i| (i.facts.privileged, i.facts.memlock_limit_bytes) = (false, Some(8 << 20)),
        near_miss: |i| i.facts.memlock_limit_bytes = Some(8 << 20),
    }
    Machine Info "available-memory", "available memory", "/proc/meminfo, MemAvailable" {
        says: "FOUND of memory are available",
        good: "10% or more of total memory",
        cost: "Reclaim and swapping disturb the measurement; little memory is left for the page cache.",
        why: "proc_meminfo(5)",
        change: "stop programs that need memory",
        judge: |machine| match (machine.host.memory_available_bytes, machine.host.memory_bytes) {
            (_, 0) => Err("the size of memory is not known".into()),
            (free, all) => verdict(free < all / AVAILABLE_PART, units::bytes(free), "10% of total memory"),
        },
        case: |i| i.facts.memory_available_bytes = 1 << 30, near_miss: |i| i.facts.memory_available_bytes = 2 << 30,
    }
    Machine Info "transparent-hugepage", "transparent huge pages", "/sys/kernel/mm/transparent_hugepage/enabled" {
        says: "transparent huge pages are disabled (FOUND)",
        good: "madvise, or always, for buffers of large I/Os",
        cost: "Buffers consist of small pages: more segments per request, and more TLB misses.",
        why: "kernel Documentation/admin-guide/mm/transhuge.rst",
        change: "echo WANTED >/sys/kernel/mm/transparent_hugepage/enabled", fix: TransparentHugepage,
        judge: |machine| {
            let now = chosen(maybe(machine.files, "/sys/kernel/mm/transparent_hugepage/enabled")?);
            verdict(now == "never", now, "madvise")
        },
        case: |i| set(i, "/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]"),
        near_miss: |i| set(i, "/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
    }
    Machine Info "perf-events", "perf events", "/proc/sys/kernel/perf_event_paranoid" {
        says: "kernel.perf_event_paranoid is FOUND",
        good: "root, or at most 1, for fathom's stack samples and counters",
        cost: "Without them, fathom cannot attribute CPU time to functions.",
        why: "perf_event_open(2), perf_event_paranoid",
        change: "run fathom as root, or sysctl kernel.perf_event_paranoid=1",
        judge: |machine| {
            let level = machine.host.perf_event_paranoid.ok_or("the kernel does not report perf_event_paranoid")?;
            let is_root = machine.is_privileged()?;
            verdict(level > 1 && !is_root, format!("{level}{}", if is_root { ", as root" } else { "" }), "1 or less")
        },
        case: |i| (i.facts.privileged, i.facts.perf_event_paranoid) = (false, Some(2)),
        near_miss: |i| i.facts.perf_event_paranoid = Some(2),
    }
    Machine Info "kernel-symbols", "kernel symbols", "/proc/sys/kernel/kptr_restrict" {
        says: "kernel.kptr_restrict is FOUND, which hides the names of kernel functions",
        good: "0, or 1 as root, for stack samples with names",
        cost: "Kernel functions in stack samples have no names, and CPU time is not split by layer.",
        why: "kernel Documentation/admin-guide/sysctl/kernel.rst, kptr_restrict",
        change: "sysctl kernel.kptr_restrict=1, and run fathom as root",
        judge: |machine| {
            let now = machine.files.text("/proc/sys/kernel/kptr_restrict")?;
            verdict(now == "2" || now == "1" && !machine.is_privileged()?, now, "0, or 1 as root")
        },
        case: |i| set(i, "/proc/sys/kernel/kptr_restrict", "2"),
        near_miss: |i| set(i, "/proc/sys/kernel/kptr_restrict", "1"),
    }
    Machine Info "tracepoints", "tracepoints", "/sys/kernel/tracing/events" {
        says: "tracepoints are FOUND",
        good: "readable, for fathom's block-layer figures",
        cost: "Without them, fathom does not count merges, splits, batches and driver latencies.",
        why: "kernel Documentation/trace/ftrace.rst",
        change: "run fathom as root",
        judge: |machine| match machine.files.text("/sys/kernel/tracing/events") {
            Ok(text) => good(text),
            // Then fathom mounts tracefs for itself.
            Err(_) if machine.is_privileged()? => {
                let known = machine.files.text("/proc/filesystems")?;
                verdict(!known.contains("tracefs"), "unsupported by the kernel", "readable")
            }
            Err(_) => bad("not readable", "readable"),
        },
        case: |i| { i.facts.privileged = false; i.host.texts.remove("/sys/kernel/tracing/events"); },
        near_miss: |i| { set(i, "/proc/filesystems", "tracefs"); i.host.texts.remove("/sys/kernel/tracing/events"); },
    }
    Machine Info "lockdown", "kernel lockdown", "/sys/kernel/security/lockdown" {
        says: "the kernel is locked down (FOUND)",
        good: "none or integrity",
        cost: "With confidentiality, BPF cannot read kernel memory and perf hides registers: some of fathom's figures are missing.",
        why: "kernel_lockdown(7)",
        change: "boot without lockdown=confidentiality",
        judge: |machine| {
            let is_strict = maybe(machine.files, "/sys/kernel/security/lockdown")?.contains("[confidentiality]");
            either(is_strict, ["confidentiality", "none or integrity"], "none or integrity")
        },
        case: |i| set(i, "/sys/kernel/security/lockdown", "none integrity [confidentiality]"),
        near_miss: |i| set(i, "/sys/kernel/security/lockdown", "none [integrity] confidentiality"),
    }
    Machine Info "zone-reclaim", "reclaim before other NUMA nodes are used", "/proc/sys/vm/zone_reclaim_mode" {
        says: "vm.zone_reclaim_mode is FOUND",
        good: "0, for buffered I/O",
        cost: "The page cache is reclaimed on one node while others have free memory.",
        why: "kernel Documentation/admin-guide/sysctl/vm.rst, zone_reclaim_mode",
        change: "sysctl vm.zone_reclaim_mode=0",
        judge: |machine| optional(machine.files, "/proc/sys/vm/zone_reclaim_mode", |now| now != "0", "0"),
        case: |i| set(i, "/proc/sys/vm/zone_reclaim_mode", "1"),
        near_miss: |i| set(i, "/proc/sys/vm/zone_reclaim_mode", "0"),
    }
};
