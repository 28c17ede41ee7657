//! Counters of some devices, as the record of a run needs them.

use super::stats;
use crate::proc_file::read_text;
use fathom_model::watch::DiskCounters;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Debug, Clone)]
pub struct NamedDisks {
    path: PathBuf,
    names: Vec<String>,
}

/// The counters of the devices at one instant; `fathom_analysis::derive` makes the difference of two.
#[derive(Debug, Clone)]
pub struct DiskSnapshot {
    pub at: Instant,
    /// Each device that exists, in the order of /proc/diskstats.
    pub disks: Vec<DiskCounters>,
}

impl NamedDisks {
    /// The devices or partitions with these kernel names, such as `nvme0n1`.
    ///
    /// `proc` is where the proc file system is mounted: `/proc`.
    pub fn new(proc: &Path, names: &[String]) -> Self {
        // sysfs writes `cciss!c0d0` for what diskstats calls `cciss/c0d0`.
        let names = names.iter().map(|name| name.replace('!', "/")).collect();
        Self { path: proc.join("diskstats"), names }
    }

    pub fn snapshot(&self) -> io::Result<DiskSnapshot> {
        let text = read_text(&self.path)?;
        let at = Instant::now();
        let mut disks = stats::parse(&text, &self.path)?;
        disks.retain(|disk| self.names.contains(&disk.name));
        Ok(DiskSnapshot { at, disks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str, names: &[&str]) -> io::Result<DiskSnapshot> {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("diskstats"), text).unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        NamedDisks::new(root.path(), &names).snapshot()
    }

    #[test]
    fn only_existing_named_devices_are_read() {
        let text = "   7       0 loop0 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n \
            254       0 vda 350 15 2800 150 21 2 168 31 4 170 381 7 1 56 4 9 9\n";
        let disks = snapshot(text, &["nvme0n1", "vda"]).unwrap().disks;
        assert_eq!(disks.len(), 1);
        let vda = &disks[0];
        assert_eq!((vda.name.as_str(), vda.read.sectors, vda.discard.ios), ("vda", 2800, 7));
        assert_eq!((vda.busy_ms, vda.weighted_ms), (170, 381));
    }

    #[test]
    fn names_as_sysfs_writes_them() {
        let text = "104 0 cciss/c0d0 1 2 3 4 5 6 7 8 9 10 11\n";
        assert_eq!(snapshot(text, &["cciss!c0d0"]).unwrap().disks.len(), 1);
    }

    #[test]
    fn errors_name_the_file() {
        for text in ["8 0 sda 1 2 3\n", "8 0 sda 1 2 x 4 5 6 7 8 9 10 11\n"] {
            let error = snapshot(text, &["sda"]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains("diskstats"), "{error}");
        }
        let error = NamedDisks::new(Path::new("/nonexistent"), &[]).snapshot().unwrap_err();
        assert!(error.to_string().contains("/nonexistent/diskstats"), "{error}");
    }

    #[test]
    fn the_running_kernel() {
        let text = std::fs::read_to_string("/proc/diskstats").unwrap();
        let names: Vec<String> =
            text.lines().filter_map(|l| l.split_whitespace().nth(2)).map(String::from).collect();
        let sampler = NamedDisks::new(Path::new("/proc"), &names);
        assert_eq!(sampler.snapshot().unwrap().disks.len(), names.len());
    }
}
