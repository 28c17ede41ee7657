//! Counters of block devices, from /proc/diskstats (Documentation/admin-guide/iostats.rst of the
//! kernel), and their kinds, from sysfs.

mod driver;
mod kinds;
mod named;
mod stats;

pub use driver::{DriverQueue, driver_tags};
pub use named::{DiskSnapshot, NamedDisks};

use crate::Sampler;
use crate::proc_file::PinnedProcFile;
use fathom_model::watch::{DiskCounters, MachineSample};
use kinds::DiskKinds;
use std::io;
use std::path::Path;

/// Reads the counters of all block devices that have done any I/O.
#[derive(Debug)]
pub struct DiskSampler {
    stats: PinnedProcFile,
    kinds: DiskKinds,
    buffer: Vec<u8>,
}

impl DiskSampler {
    /// A sampler of the machine whose procfs and sysfs are mounted at `proc` and `sys`: `/proc`,
    /// `/sys`.
    pub fn open(proc: &Path, sys: &Path) -> io::Result<Self> {
        let stats = PinnedProcFile::open(proc.join("diskstats"))?;
        Ok(Self { stats, kinds: DiskKinds::new(proc, sys), buffer: Vec::new() })
    }

    pub fn read(&mut self) -> io::Result<Vec<DiskCounters>> {
        let text = self.stats.read(&mut self.buffer)?;
        let mut disks = stats::parse(&text, self.stats.path())?;
        self.kinds.put_into(&mut disks);
        disks.retain(stats::did_any);
        Ok(disks)
    }
}

impl Sampler for DiskSampler {
    fn name(&self) -> &'static str {
        "disks"
    }

    fn take(&mut self, sample: &mut MachineSample) {
        sample.disks = self.read().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::DiskKind;

    #[test]
    fn active_devices_with_their_kinds() {
        let root = tempfile::tempdir().unwrap();
        let stats = "8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n8 1 sda1 1 0 8 0 0 0 0 0 0 0 0\n\
            7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n";
        std::fs::write(root.path().join("diskstats"), stats).unwrap();
        std::fs::create_dir_all(root.path().join("devices/sda/sda1")).unwrap();
        for (file, text) in [("dev", "8:0"), ("sda1/dev", "8:1"), ("sda1/partition", "1")] {
            std::fs::write(root.path().join("devices/sda").join(file), text).unwrap();
        }
        std::fs::create_dir_all(root.path().join("class/block")).unwrap();
        for (name, dir) in [("sda", "sda"), ("sda1", "sda/sda1")] {
            let link = root.path().join("class/block").join(name);
            std::os::unix::fs::symlink(root.path().join("devices").join(dir), link).unwrap();
        }
        let mut sampler = DiskSampler::open(root.path(), root.path()).unwrap();
        let mut sample = MachineSample::default();
        sampler.take(&mut sample);
        let seen: Vec<_> = sample.disks.iter().map(|d| (d.name.as_str(), d.kind)).collect();
        assert_eq!(seen, [("sda", DiskKind::Disk), ("sda1", DiskKind::Partition)]);
        assert_eq!(sample.disks[1].below, ["sda"]);
        std::fs::write(root.path().join("diskstats"), "8 0 sda 1\n").unwrap();
        sampler.take(&mut sample);
        assert_eq!(sample.disks, []);
    }

    #[test]
    fn a_machine_without_diskstats_is_an_error() {
        let error = DiskSampler::open(Path::new("/nonexistent"), Path::new("/sys")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/diskstats"), "{error}");
    }

    #[test]
    fn the_running_kernel() {
        let mut sampler = DiskSampler::open(Path::new("/proc"), Path::new("/sys")).unwrap();
        let disks = sampler.read().unwrap();
        for disk in &disks {
            let sysfs = Path::new("/sys/class/block").join(disk.name.replace('/', "!"));
            assert_eq!(disk.kind == DiskKind::Partition, sysfs.join("partition").exists());
            assert!(
                disk.below.iter().all(|below| Path::new("/sys/class/block").join(below).exists())
            );
        }
        assert_eq!(sampler.read().unwrap().len(), disks.len());
    }
}
