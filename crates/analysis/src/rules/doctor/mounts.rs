//! File systems on disks.

#[cfg(test)]
use super::testing::{first_disk, mounted};
use super::{Answer, Disk, bad, check, good};
use fathom_model::inspection::MountedFileSystem;

/// Where mounts are read.
const MOUNTS: &str = "/proc/self/mountinfo";
/// A file system with less free space than this part slows down.
const FREE_PART: u64 = 10;

/// Judges the options of all mounts of a disk.
fn options(disk: &Disk, option: &str, wanted: &str) -> Answer {
    let mounts = &disk.seen.mounts;
    disk.machine.read(MOUNTS)?;
    if mounts.is_empty() {
        return Ok(None);
    }
    let has = |mount: &&MountedFileSystem| mount.options.split(',').any(|have| have == option);
    match mounts.iter().find(has) {
        Some(mount) => bad(&*mount.point, wanted),
        None => good(wanted),
    }
}

check! { SYNC: Disk, Warning {
    id: "mount-sync",
    title: "synchronous mount",
    reads: "/proc/self/mountinfo",
    says: "FOUND is mounted with sync",
    good: "without sync, for all workloads",
    cost: "Each write and each metadata change waits for the disk.",
    why: "mount(8), option sync",
    change: "mount -o remount,async MOUNTPOINT",
    fix: None,
    judge: |disk| options(disk, "sync", "async"),
    case: |i| mounted(i, "rw,sync,rw"),
    near_miss: |i| mounted(i, "rw,dirsync,rw"),
} }

check! { FULL: Disk, Warning {
    id: "file-system-full",
    title: "free space",
    reads: "statvfs(3) of each mount point",
    says: "FOUND is free",
    good: "at least 10% free, for workloads that write",
    cost: "Allocation takes longer and fragments files; the drive has less spare space for garbage collection.",
    why: "ext4 and XFS search more allocation groups; btrfs also needs free chunks (their manual pages)",
    change: "free some space, or measure elsewhere",
    fix: None,
    judge: |disk| {
        let mounts = disk.seen.mounts.iter().filter(|mount| mount.size_bytes > 0);
        let percent = |mount: &MountedFileSystem| mount.free_bytes * 100 / mount.size_bytes;
        let is_full = |mount: &MountedFileSystem| mount.free_bytes < mount.size_bytes / FREE_PART;
        match mounts.clone().min_by_key(|mount| percent(mount)) {
            None => Ok(None),
            Some(mount) if is_full(mount) => {
                bad(format!("{}% of {}", percent(mount), mount.point), "10% or more")
            }
            Some(mount) => good(format!("{}% of {}", percent(mount), mount.point)),
        }
    },
    case: |i| {
        mounted(i, "rw");
        first_disk(i).mounts[0].free_bytes = 9;
    },
    near_miss: |i| {
        mounted(i, "rw");
        first_disk(i).mounts[0].free_bytes = 10;
    },
} }

check! { DISCARD: Disk, Info {
    id: "mount-discard",
    title: "online discard",
    reads: "/proc/self/mountinfo",
    says: "FOUND is mounted with discard; prefer fstrim.timer",
    good: "periodic fstrim instead, for workloads that delete files; discard=async on btrfs is fine",
    cost: "Deletions send discards, which many drives execute slowly and ahead of other I/O.",
    why: "mount(8), option discard; fstrim(8)",
    change: "mount -o remount,nodiscard MOUNTPOINT, and systemctl enable --now fstrim.timer",
    fix: None,
    judge: |disk| options(disk, "discard", "no discard"),
    case: |i| mounted(i, "rw,discard"),
    near_miss: |i| mounted(i, "rw,discard=async"),
} }

check! { ATIME: Disk, Info {
    id: "mount-atime",
    title: "access times",
    reads: "/proc/self/mountinfo",
    says: "FOUND is mounted with strictatime",
    good: "relatime (the default) or noatime, for workloads that read",
    cost: "With strictatime, each read of a file writes its inode.",
    why: "mount(8), options strictatime and relatime",
    change: "mount -o remount,noatime MOUNTPOINT",
    fix: None,
    judge: |disk| {
        let relaxed = |mount: &MountedFileSystem| {
            let known = ["relatime", "noatime", "ro", "lazytime"];
            mount.options.split(',').any(|option| known.contains(&option))
        };
        match disk.seen.mounts.iter().find(|mount| !relaxed(mount)) {
            _ if disk.seen.mounts.is_empty() => Ok(None),
            Some(mount) => bad(&*mount.point, "relatime or noatime"),
            None => good("relatime or noatime"),
        }
    },
    case: |i| mounted(i, "rw,nodev"),
    near_miss: |i| mounted(i, "rw,relatime"),
} }
