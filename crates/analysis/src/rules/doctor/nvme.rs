//! How an NVMe drive is set up.

#[cfg(test)]
use super::testing::{attribute, namespace, nvme};
use super::{Answer, Disk, bad, check, good, judged};
use fathom_model::inspection::{NvmeNamespace, NvmeReport};
use fathom_model::units;

/// Transfers of this size should be possible.
const LARGE_BYTES: u64 = 1 << 20;
/// Less used than this part of a namespace: most reads meet blocks that were never written.
const USED_PART: u64 = 2;

/// What an NVMe drive reports; `None` for other disks.
pub(super) fn report<'a>(disk: &'a Disk) -> Result<Option<&'a NvmeReport>, String> {
    match (&disk.seen.nvme, &disk.seen.nvme_missing) {
        (Some(report), _) => Ok(Some(report)),
        (None, Some(reason)) => Err(reason.clone()),
        (None, None) => Ok(None),
    }
}

fn with_namespace(disk: &Disk, judge: impl Fn(&NvmeNamespace) -> Answer) -> Answer {
    let Some(report) = report(disk)? else { return Ok(None) };
    judge(report.namespace.as_ref().ok_or("the namespace was not identified")?)
}

check! { POWER_STATE: Disk, Warning {
    id: "nvme-power-state",
    title: "NVMe power state",
    reads: "feature 02h (power management)",
    says: "the drive is limited to power state FOUND",
    good: "0, for all measurements, unless a power limit is intended",
    cost: "The drive limits its power and therefore its throughput.",
    why: "NVM Express Base Specification, Power Management",
    change: "nvme set-feature /dev/DISK -f 2 -v 0",
    fix: None,
    judge: |disk| {
        let Some(report) = report(disk)? else { return Ok(None) };
        let state = report.power_state.ok_or("the controller did not report its power state")?;
        // An idle drive may have gone to a state without I/O, which it leaves by itself.
        let limits = report.power_states.get(state as usize).is_some_and(|at| at.is_operational);
        judged(state > 0 && limits, state.to_string(), "0")
    },
    case: |i| nvme(i).power_state = Some(1),
    near_miss: |i| nvme(i).power_state = Some(2),
} }

check! { WRITE_PROTECTED: Disk, Warning {
    id: "nvme-write-protected",
    title: "write protection of the namespace",
    reads: "Identify Namespace, NSATTR",
    says: "the namespace is write-protected",
    good: "none, for workloads that write",
    cost: "The drive rejects writes.",
    why: "NVM Command Set Specification, Namespace Attributes",
    change: "nvme set-feature /dev/DISK -f 0x84 -v 0, unless the protection is permanent",
    fix: None,
    judge: |disk| with_namespace(disk, |space| {
        judged(space.is_write_protected, if space.is_write_protected { "protected" } else { "none" }, "none")
    }),
    case: |i| namespace(i).is_write_protected = true,
    near_miss: |i| namespace(i).is_write_protected = false,
} }

check! { UNWRITTEN: Disk, Warning {
    id: "nvme-unwritten",
    title: "written part of the namespace",
    reads: "Identify Namespace, NUSE of NSZE",
    says: "only FOUND of the namespace is written",
    good: "all of it, before measuring reads",
    cost: "Reads of blocks never written do not access the flash, so they are faster than reads of data.",
    why: "Reads of deallocated blocks are served from the mapping table (NVM Command Set Specification, Namespace Utilization); \
          drives without thin provisioning report all blocks as used",
    change: "write the whole disk once, which destroys its data: fathom run --name=fill --rw=write --bs=1m --filename=/dev/DISK --erase=/dev/DISK@SERIAL",
    fix: None,
    judge: |disk| with_namespace(disk, |space| {
        let percent = space.used_blocks.saturating_mul(100) / space.size_blocks.max(1);
        judged(space.used_blocks < space.size_blocks / USED_PART, format!("{percent}%"), "100%")
    }),
    case: |i| namespace(i).used_blocks = 499,
    near_miss: |i| namespace(i).used_blocks = 500,
} }

check! { FORMAT: Disk, Info {
    id: "nvme-format",
    title: "LBA format",
    reads: "Identify Namespace, FLBAS and LBAF",
    says: "the LBA format has blocks of FOUND; the drive rates WANTED as faster",
    good: "the one with the best relative performance, for all workloads that can use its block size",
    cost: "The drive reports better relative performance with another block size.",
    why: "NVM Command Set Specification, LBA Format, Relative Performance",
    change: "nvme format /dev/DISK --lbaf=N, which destroys all data on it",
    fix: None,
    judge: |disk| with_namespace(disk, |space| {
        let now = space.formats.get(usize::from(space.format)).ok_or("the format is unknown")?;
        let plain = space.formats.iter().filter(|one| one.metadata_bytes == 0 && one.block_bytes >= 512);
        let best = plain.min_by_key(|one| one.relative_performance);
        let best = best.filter(|best| best.relative_performance < now.relative_performance);
        let found = units::bytes(now.block_bytes.into());
        match best {
            Some(best) => bad(found, units::bytes(best.block_bytes.into())),
            None => good(found),
        }
    }),
    case: |i| namespace(i).format = 1,
    near_miss: |i| namespace(i).formats[1].relative_performance = 0,
} }

check! { MULTIPATH: Disk, Info {
    id: "nvme-multipath",
    title: "path selection",
    reads: "device/iopolicy",
    says: "the multipath policy is FOUND",
    good: "round-robin or queue-depth if several paths are equally fast; numa if they are not",
    cost: "With numa, each CPU uses only one path, so others may stay idle.",
    why: "kernel Documentation/admin-guide/nvme-multipath.rst",
    change: "echo round-robin >/sys/block/DISK/device/iopolicy",
    fix: None,
    judge: |disk| {
        let Ok(policy) = disk.files.text("device/iopolicy") else { return Ok(None) };
        let transport = disk.files.text("nvme/transport").unwrap_or("pcie");
        judged(policy == "numa" && transport != "pcie", policy, "round-robin, for several equal paths")
    },
    case: |i| {
        attribute(i, "device/iopolicy", "numa");
        attribute(i, "nvme/transport", "tcp");
    },
    near_miss: |i| attribute(i, "device/iopolicy", "numa"),
} }

check! { FIRMWARE: Disk, Info {
    id: "nvme-firmware",
    title: "firmware",
    reads: "firmware slot log",
    says: "the firmware changes at the next reset: FOUND",
    good: "the active slot is also the one for the next reset",
    cost: "The next reset activates different firmware, so results before and after it may differ.",
    why: "NVM Express Base Specification, Firmware Slot Information",
    change: "reset the controller when the disk is not in use: nvme reset /dev/CONTROLLER",
    fix: None,
    judge: |disk| {
        let Some(report) = report(disk)? else { return Ok(None) };
        let slots = report.firmware_slots.as_ref().ok_or("the controller has no firmware log")?;
        match slots.next {
            Some(slot) => {
                let next = slots.revisions.get(usize::from(slot).saturating_sub(1));
                let next = next.map_or("unknown", String::as_str);
                bad(format!("{}; after the next reset {next}", report.firmware), "the same after a reset")
            }
            None => good(report.firmware.as_str()),
        }
    },
    case: |i| nvme(i).firmware_slots.get_or_insert_default().next = Some(2),
    near_miss: |i| nvme(i).firmware_slots.get_or_insert_default().next = None,
} }

check! { AUTONOMOUS_POWER: Disk, Info {
    id: "nvme-autonomous-power",
    title: "autonomous power saving (APST)",
    reads: "feature 0Ch",
    says: "autonomous power saving is FOUND",
    good: "disabled, for latency at low load; irrelevant under load",
    cost: "The first I/O after an idle period waits for the drive to leave its power-saving state, which can take milliseconds.",
    why: "kernel drivers/nvme/host/core.c, nvme_configure_apst (commit c5552fde102f)",
    change: "boot with nvme_core.default_ps_max_latency_us=0",
    fix: None,
    judge: |disk| {
        let Some(report) = report(disk)? else { return Ok(None) };
        let Some(enabled) = report.autonomous_power else { return Ok(None) };
        let idle = report.power_states.iter().filter(|state| !state.is_operational);
        let wake_us = idle.map(|state| state.exit_us).max().unwrap_or(0);
        if enabled && wake_us > 0 {
            return bad(format!("enabled: waking up takes up to {wake_us} µs"), "disabled, for latency at low load");
        }
        good(if enabled { "enabled, no states with long exit latency" } else { "disabled" })
    },
    case: |i| nvme(i).autonomous_power = Some(true),
    near_miss: |i| nvme(i).autonomous_power = Some(false),
} }

check! { LATENCY_TOLERANCE: Disk, Info {
    id: "nvme-latency-tolerance",
    title: "latency that power saving may add, µs",
    reads: "nvme/power/pm_qos_latency_tolerance_us",
    says: "power saving of the drive may add FOUND µs",
    good: "0, for latency at low load",
    cost: "The kernel lets the drive use power-saving states with exit latencies up to this value.",
    why: "kernel drivers/nvme/host/core.c, default_ps_max_latency_us (commit 9947d6a09cd7)",
    change: "echo 0 >/sys/class/nvme/CONTROLLER/power/pm_qos_latency_tolerance_us",
    fix: None,
    judge: |disk| {
        let Some(report) = report(disk)? else { return Ok(None) };
        let Ok(now) = disk.files.text("nvme/power/pm_qos_latency_tolerance_us") else { return Ok(None) };
        judged(now != "0" && report.autonomous_power == Some(true), now, "0, for latency at low load")
    },
    case: |i| {
        attribute(i, "nvme/power/pm_qos_latency_tolerance_us", "100000");
        nvme(i).autonomous_power = Some(true);
    },
    near_miss: |i| attribute(i, "nvme/power/pm_qos_latency_tolerance_us", "100000"),
} }

check! { TRANSFER_MAX: Disk, Info {
    id: "nvme-transfer-max",
    title: "maximum transfer size",
    reads: "Identify Controller, MDTS",
    says: "one command transfers at most FOUND",
    good: "1 MiB or more, for workloads with large I/Os",
    cost: "Larger I/Os are split into commands of this size.",
    why: "NVM Express Base Specification, Maximum Data Transfer Size",
    change: "use block sizes of up to FOUND",
    fix: None,
    judge: |disk| {
        let Some(report) = report(disk)? else { return Ok(None) };
        let Some(most) = report.transfer_max_bytes else { return good("unlimited") };
        judged(most < LARGE_BYTES, units::bytes(most), "1 MiB or more")
    },
    case: |i| nvme(i).transfer_max_bytes = Some(512 << 10),
    near_miss: |i| nvme(i).transfer_max_bytes = Some(1 << 20),
} }

check! { PROTECTION: Disk, Info {
    id: "nvme-protection",
    title: "end-to-end protection",
    reads: "Identify Namespace, DPS",
    says: "end-to-end protection is enabled",
    good: "none, unless required",
    cost: "Each block carries checksums that the CPU and the drive compute; passthrough I/O without them fails.",
    why: "NVM Command Set Specification, End-to-end Data Protection; kernel Documentation/block/data-integrity.rst",
    change: "nvme format /dev/DISK --pi=0, which destroys all data on it",
    fix: None,
    judge: |disk| with_namespace(disk, |space| {
        judged(space.is_protected, if space.is_protected { "enabled" } else { "none" }, "none, unless required")
    }),
    case: |i| namespace(i).is_protected = true,
    near_miss: |i| namespace(i).is_protected = false,
} }
