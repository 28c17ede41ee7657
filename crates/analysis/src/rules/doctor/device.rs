//! Properties and states of disks.

#[cfg(test)]
use super::testing::{attribute, first_disk, nvme, queue};
use super::{bad, check, good, judged};
#[cfg(test)]
use fathom_model::inspection::Partition;
use fathom_model::units;

/// Commands in flight that an SSD behind SCSI or SATA needs.
const DEPTH_MIN: u64 = 31;
/// Partitions start at multiples of this in all current tools; erase blocks are multiples of it.
const PARTITION_BYTES: u64 = 1 << 20;

check! { CACHE_MISMATCH: Disk, Error {
    id: "write-cache-mismatch",
    title: "flushes to a volatile cache",
    reads: "queue/write_cache",
    says: "the kernel assumes FOUND, but the drive's volatile cache is enabled",
    good: "write back if the drive's volatile cache is enabled, for all workloads whose data must survive a power loss",
    cost: "The kernel sends no flushes although the drive caches writes: a power loss destroys data that programs \
           consider durable, and flushes appear to be free.",
    why: "queue/write_cache sets only what the kernel assumes (kernel Documentation/ABI/stable/sysfs-block, write_cache; \
          NVM Express Base Specification, Volatile Write Cache)",
    change: "echo 'write back' >/sys/block/DISK/queue/write_cache, after checking why it was changed",
    fix: None,
    judge: |disk| {
        let Some(report) = &disk.seen.nvme else { return Ok(None) };
        let now = disk.files.text("queue/write_cache")?;
        judged(report.volatile_cache_enabled == Some(true) && now == "write through", now, "write back")
    },
    case: |i| nvme(i).volatile_cache_enabled = Some(true),
    near_miss: |i| {
        nvme(i).volatile_cache_enabled = Some(true);
        queue(i, "write_cache", "write back");
    },
} }

check! { STATE: Disk, Error {
    id: "device-state",
    title: "state of the device",
    reads: "device/state",
    says: "the device is FOUND, not WANTED",
    good: "live (NVMe) or running (SCSI)",
    cost: "The device is resetting, blocked or offline: I/O waits or fails.",
    why: "kernel drivers/nvme/host/core.c, nvme_ctrl_state; drivers/scsi/scsi_sysfs.c, sdev_states",
    change: "check dmesg for the cause",
    fix: None,
    judge: |disk| {
        let state = disk.files.text("nvme/state").or_else(|_| disk.files.text("device/state"));
        let Ok(state) = state else { return Ok(None) };
        judged(!["live", "running"].contains(&state), state, "live or running")
    },
    case: |i| attribute(i, "nvme/state", "resetting"),
    near_miss: |i| attribute(i, "nvme/state", "live"),
} }

check! { IN_FLIGHT: Disk, Warning {
    id: "disk-in-use",
    title: "I/O of other programs",
    reads: "inflight",
    says: "FOUND I/Os of other programs are in flight",
    good: "0 reads and writes in flight before a measurement",
    cost: "Other programs share the disk; their I/O is part of every figure.",
    why: "requests in the driver at this moment (kernel Documentation/ABI/stable/sysfs-block, inflight)",
    change: "find them with fathom top, and stop them",
    fix: None,
    judge: |disk| {
        let text = disk.files.text("inflight")?;
        let count: u64 = text.split_whitespace().filter_map(|n| n.parse::<u64>().ok()).sum();
        judged(count > 0, count.to_string(), "0")
    },
    case: |i| attribute(i, "inflight", "       3        1"),
    near_miss: |i| attribute(i, "inflight", "       0        0"),
} }

check! { RESYNC: Disk, Warning {
    id: "md-sync",
    title: "RAID synchronization",
    reads: "md/sync_action",
    says: "RAID synchronization is running: FOUND",
    good: "idle before a measurement",
    cost: "A resync, check or rebuild uses bandwidth of all members.",
    why: "kernel Documentation/admin-guide/md.rst, sync_action",
    change: "wait until /proc/mdstat shows none in progress; to stop a check: echo idle >/sys/block/DISK/md/sync_action",
    fix: None,
    judge: |disk| {
        let Ok(action) = disk.files.text("md/sync_action") else { return Ok(None) };
        judged(!["idle", "frozen"].contains(&action), action, "idle")
    },
    case: |i| attribute(i, "md/sync_action", "resync"),
    near_miss: |i| attribute(i, "md/sync_action", "idle"),
} }

check! { SWAP: Disk, Warning {
    id: "swap",
    title: "swap space on the disk",
    reads: "/proc/swaps",
    says: "the disk holds swap space: FOUND",
    good: "no swap on the measured disk",
    cost: "Under memory pressure, the kernel swaps to and from the measured disk.",
    why: "swapon(8)",
    change: "swapoff, if there is enough memory",
    fix: None,
    judge: |disk| {
        let swaps = disk.machine.files.text("/proc/swaps")?;
        let parts = disk.seen.partitions.iter().map(|part| part.name.as_str());
        let mut names = parts.chain([disk.seen.device.name.as_str()]);
        let is_swap = |name: &str| swaps.split(", ").any(|swap| swap.strip_prefix("/dev/") == Some(name));
        match names.find(|name| is_swap(name)) {
            Some(name) => bad(name, "none"),
            None => good("none"),
        }
    },
    case: |i| i.host.set("/proc/swaps", "/dev/nvme0n1p1"),
    near_miss: |i| i.host.set("/proc/swaps", "/dev/nvme1n1p1, /swapfile"),
} }

check! { ALIGNMENT: Disk, Warning {
    id: "alignment",
    title: "alignment of the device",
    reads: "alignment_offset",
    says: "the device is not aligned to its physical blocks (offset FOUND)",
    good: "0, for all workloads",
    cost: "File system blocks straddle physical blocks: each small write becomes a read-modify-write.",
    why: "kernel Documentation/ABI/stable/sysfs-block, alignment_offset",
    change: "create partitions or volumes at multiples of 1 MiB",
    fix: None,
    judge: |disk| {
        let offset = disk.files.text("alignment_offset")?;
        judged(offset != "0", offset, "0")
    },
    case: |i| attribute(i, "alignment_offset", "3584"),
    near_miss: |i| attribute(i, "alignment_offset", "0"),
} }

check! { PARTITIONS: Disk, Warning {
    id: "partition-alignment",
    title: "alignment of partitions",
    reads: "start of each partition",
    says: "FOUND, which is not WANTED",
    good: "multiples of 1 MiB, for all workloads",
    cost: "File system blocks straddle physical blocks or optimal I/O boundaries: small writes cost more, and large ones are split.",
    why: "physical_block_size and optimal_io_size divide 1 MiB on practically all devices (libblkid's topology, fdisk(8))",
    change: "recreate the partition at a multiple of 1 MiB, which requires moving its data",
    fix: None,
    judge: |disk| {
        let parts = &disk.seen.partitions;
        if parts.is_empty() {
            return Ok(None);
        }
        match parts.iter().find(|part| part.start_bytes % PARTITION_BYTES != 0) {
            Some(part) => bad(format!("{} starts at byte {}", part.name, part.start_bytes), "a multiple of 1 MiB"),
            None => good("multiples of 1 MiB"),
        }
    },
    case: |i| first_disk(i).partitions.push(Partition { name: "nvme0n1p2".into(), start_bytes: 63 * 512 }),
    near_miss: |i| first_disk(i).partitions.push(Partition { name: "nvme0n1p2".into(), start_bytes: 7 << 20 }),
} }

check! { LOOP_BUFFERED: Disk, Warning {
    id: "loop-buffered",
    title: "direct I/O of the loop device",
    reads: "loop/dio",
    says: "the loop device reads and writes its file through the page cache",
    good: "1, for all measurements of the storage below the file",
    cost: "The page cache serves reads and delays writes, even with O_DIRECT on the loop device.",
    why: "losetup(8), --direct-io",
    change: "losetup --direct-io=on /dev/DISK",
    fix: None,
    judge: |disk| {
        let Ok(direct) = disk.files.text("loop/dio") else { return Ok(None) };
        judged(direct == "0", direct, "1")
    },
    case: |i| attribute(i, "loop/dio", "0"),
    near_miss: |i| attribute(i, "loop/dio", "1"),
} }

check! { DISCARD: Disk, Info {
    id: "discard",
    title: "discard (TRIM)",
    reads: "queue/discard_max_bytes",
    says: "the device does not support discard (TRIM)",
    good: "above 0 on solid-state disks, for repeatable write measurements",
    cost: "Free space cannot be discarded, so the disk cannot be returned to a known state before write tests.",
    why: "kernel Documentation/ABI/stable/sysfs-block, discard_max_bytes",
    change: "pass discards through each layer: virtual disks with discard=unmap, dm-crypt with --allow-discards",
    fix: None,
    judge: |disk| {
        let most = disk.files.number("queue/discard_max_bytes")?;
        judged(disk.is_solid() && most == 0, units::bytes(most), "supported")
    },
    case: |i| queue(i, "discard_max_bytes", "0"),
    near_miss: |i| queue(i, "discard_max_bytes", "4096"),
} }

check! { READ_ONLY: Disk, Info {
    id: "read-only",
    title: "write access",
    reads: "ro",
    says: "the disk is read-only",
    good: "0, for workloads that write",
    cost: "Writes are refused.",
    why: "blockdev(8), --setro",
    change: "blockdev --setrw /dev/DISK, unless something else makes it read-only",
    fix: None,
    judge: |disk| {
        let read_only = disk.files.text("ro")? == "1";
        judged(read_only, if read_only { "read-only" } else { "writable" }, "writable, for writes")
    },
    case: |i| attribute(i, "ro", "1"),
    near_miss: |i| attribute(i, "ro", "0"),
} }

check! { QUEUE_DEPTH: Disk, Info {
    id: "device-queue-depth",
    title: "queue depth of the SCSI device",
    reads: "device/queue_depth",
    says: "the SCSI queue depth is FOUND; random I/O needs WANTED",
    good: "31 or more (SATA allows 32), for random I/O",
    cost: "The device cannot reorder or overlap more commands than this.",
    why: "kernel Documentation/scsi/scsi_mid_low_api.rst, scsi_change_queue_depth",
    change: "echo 31 >/sys/block/DISK/device/queue_depth",
    fix: None,
    judge: |disk| {
        let Ok(depth) = disk.files.number("device/queue_depth") else { return Ok(None) };
        judged(depth < DEPTH_MIN, depth.to_string(), "31 or more")
    },
    case: |i| attribute(i, "device/queue_depth", "1"),
    near_miss: |i| attribute(i, "device/queue_depth", "32"),
} }

check! { CHUNKS: Disk, Info {
    id: "boundaries",
    title: "boundaries that split I/Os",
    reads: "queue/chunk_sectors",
    says: "I/Os across multiples of FOUND are split",
    good: "0, or I/Os aligned to the boundary",
    cost: "An I/O across a boundary is split in two.",
    why: "the stripe unit of RAID 0, or NVMe's optimal I/O boundary (kernel Documentation/ABI/stable/sysfs-block, chunk_sectors)",
    change: "align I/Os, partitions and stripes to FOUND",
    fix: None,
    judge: |disk| {
        // Zones are none: no I/O may cross them anyway.
        let sectors = disk.files.number("queue/chunk_sectors")?;
        let sectors = if disk.is_zoned() { 0 } else { sectors };
        judged(sectors > 0, units::bytes(sectors * 512), "I/Os that do not cross it")
    },
    case: |i| queue(i, "chunk_sectors", "256"),
    near_miss: |i| queue(i, "chunk_sectors", "0"),
} }
