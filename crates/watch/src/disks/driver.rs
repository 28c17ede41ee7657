//! Requests at a device's driver, below its I/O scheduler.

use crate::proc_file::PinnedProcFile;
use fathom_sys::roots::number;
use std::io;
use std::path::Path;

/// The requests in flight at a block device's driver. Those that an I/O scheduler holds are not among them
/// (Documentation/ABI/stable/sysfs-block of the kernel, `inflight`).
#[derive(Debug)]
pub struct DriverQueue {
    file: PinnedProcFile,
    buffer: Vec<u8>,
}

impl DriverQueue {
    /// The driver of the whole device `name`. `sys` is where sysfs is mounted: `/sys`.
    pub fn open(sys: &Path, name: &str) -> io::Result<Self> {
        let file = PinnedProcFile::open(sys.join("block").join(name).join("inflight"))?;
        Ok(Self { file, buffer: Vec::new() })
    }

    /// The number of requests in flight now; `None` if the file cannot be read, as that of a device removed meanwhile.
    pub fn in_flight(&mut self) -> Option<u64> {
        let text = self.file.read(&mut self.buffer).ok()?;
        let mut counts = text.split_whitespace().map(str::parse::<u64>);
        // Reads, then writes.
        let (reads, writes) = (counts.next()?.ok()?, counts.next()?.ok()?);
        Some(reads.saturating_add(writes))
    }
}

/// The number of requests that one hardware queue of a device's driver takes (mq/0/nr_tags), and for SCSI that the
/// device takes (device/queue_depth) if fewer; `None` if unknown. `sys` is where sysfs is mounted: `/sys`.
pub fn driver_tags(sys: &Path, name: &str) -> Option<u32> {
    let dir = sys.join("block").join(name);
    let tags = number(dir.join("mq/0/nr_tags"))?;
    Some(number(dir.join("device/queue_depth")).map_or(tags, |depth: u32| depth.min(tags)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_in_flight_and_what_the_driver_takes() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("block/sda");
        std::fs::create_dir_all(dir.join("mq/0")).unwrap();
        std::fs::create_dir_all(dir.join("device")).unwrap();
        std::fs::write(dir.join("inflight"), "       3       29\n").unwrap();
        let mut queue = DriverQueue::open(root.path(), "sda").unwrap();
        assert_eq!(queue.in_flight(), Some(32));
        std::fs::write(dir.join("inflight"), "3\n").unwrap();
        assert_eq!(queue.in_flight(), None);
        assert_eq!(driver_tags(root.path(), "sda"), None);
        std::fs::write(dir.join("mq/0/nr_tags"), "256\n").unwrap();
        assert_eq!(driver_tags(root.path(), "sda"), Some(256));
        std::fs::write(dir.join("device/queue_depth"), "32\n").unwrap();
        assert_eq!(driver_tags(root.path(), "sda"), Some(32));
        let error = DriverQueue::open(root.path(), "sdb").unwrap_err();
        assert!(error.to_string().contains("sdb/inflight"), "{error}");
    }
}
