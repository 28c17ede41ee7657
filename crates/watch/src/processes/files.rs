//! Regular files that the watched processes have open.

use fathom_model::watch::OpenFile;
use rustix::fs::{FileType, OFlags};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Maximum number of descriptors checked per interval, and per process.
const DESCRIPTORS_MAX: usize = 256;
const PER_PROCESS_MAX: usize = 64;
/// Smaller files, such as logs and configuration, are not bottlenecks.
const SIZE_MIN: u64 = 1 << 20;
/// File systems in memory (include/uapi/linux/magic.h): `TMPFS_MAGIC`, `RAMFS_MAGIC`.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// The larger files that `processes` have open now.
pub(super) fn open_files(proc_root: &Path, processes: impl Iterator<Item = i32>) -> Vec<OpenFile> {
    let descriptors = processes.flat_map(|pid| {
        let dir = std::fs::read_dir(proc_root.join(pid.to_string()).join("fd"));
        dir.into_iter().flatten().flatten().take(PER_PROCESS_MAX)
    });
    let mut files: BTreeMap<String, OpenFile> = BTreeMap::new();
    for descriptor in descriptors.take(DESCRIPTORS_MAX) {
        if let Some(file) = open_file(&descriptor.path()) {
            let direct = file.direct;
            files.entry(file.path.clone()).or_insert(file).direct |= direct;
        }
    }
    files.into_values().collect()
}

/// The file of a descriptor, if it is a regular one and not small.
fn open_file(descriptor: &Path) -> Option<OpenFile> {
    let path = std::fs::read_link(descriptor).ok()?;
    let meta = std::fs::metadata(descriptor).ok()?;
    let is_regular = FileType::from_raw_mode(meta.mode()) == FileType::RegularFile;
    if !is_regular || meta.size() < SIZE_MIN {
        return None;
    }
    let name = descriptor.file_name()?;
    let info = descriptor.parent()?.parent()?.join("fdinfo").join(name);
    let info = std::fs::read_to_string(info).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
    let system = rustix::fs::statfs(descriptor).map_or(0, |statfs| statfs.f_type as u64);
    Some(OpenFile {
        path: path.to_string_lossy().into_owned(),
        size: meta.size(),
        allocated: meta.blocks() * 512,
        in_memory: IN_MEMORY.contains(&(system & 0xffff_ffff)),
        direct: flags & OFlags::DIRECT.bits() != 0,
    })
}
