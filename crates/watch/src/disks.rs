//! Counters of block devices, from /proc/diskstats (Documentation/admin-guide/iostats.rst of the
//! kernel), and their kinds, from sysfs.

mod kinds;

use crate::Sampler;
use crate::proc_file::{PinnedProcFile, read_text, unexpected_line};
use fathom_model::watch::{DiskCounters, IoCounters, MachineSample};
use fathom_sys::roots::number;
use kinds::DiskKinds;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Reads the counters of all block devices that have done any I/O.
#[derive(Debug)]
pub struct DiskSampler {
    stats: PinnedProcFile,
    kinds: DiskKinds,
    buffer: Vec<u8>,
}

impl DiskSampler {
    pub fn open(proc: &Path, sys: &Path) -> io::Result<Self> {
        let stats = PinnedProcFile::open(proc.join("diskstats"))?;
        Ok(Self { stats, kinds: DiskKinds::new(proc, sys), buffer: Vec::new() })
    }

    pub fn read(&mut self) -> io::Result<Vec<DiskCounters>> {
        let text = self.stats.read(&mut self.buffer)?;
        let mut disks = parse(&text, self.stats.path())?;
        self.kinds.put_into(&mut disks);
        disks.retain(did_any);
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

fn parse(text: &str, path: &Path) -> io::Result<Vec<DiskCounters>> {
    let unexpected = |text: &str| unexpected_line(path, "11 or more counters after the name", text);
    text.lines().map(|text| line(text).ok_or_else(|| unexpected(text))).collect()
}

/// Major, minor, name; four counters each for reads and writes; in flight, busy, weighted; since
/// Linux 4.18 four for discards, since 5.5 two for flushes.
fn line(line: &str) -> Option<DiskCounters> {
    let mut words = line.split_ascii_whitespace();
    let name = words.nth(2)?;
    let mut n = [0_u64; 17];
    let mut known = 0;
    for (field, word) in n.iter_mut().zip(words) {
        *field = word.parse().ok()?;
        known += 1;
    }
    // Times are 32-bit milliseconds, which wrap after 49 days.
    let io = |at: usize| IoCounters {
        ios: n[at],
        merges: n[at + 1],
        sectors: n[at + 2],
        ticks_ms: n[at + 3] as u32,
    };
    (known >= 11).then(|| DiskCounters {
        name: name.to_string(),
        read: io(0),
        write: io(4),
        in_flight: n[8],
        busy_ms: n[9] as u32,
        weighted_ms: n[10] as u32,
        discard: io(11),
        flush: IoCounters { ios: n[15], ticks_ms: n[16] as u32, ..IoCounters::default() },
        ..DiskCounters::default()
    })
}

fn did_any(disk: &DiskCounters) -> bool {
    let ios = [&disk.read, &disk.write, &disk.discard, &disk.flush].map(|io| io.ios);
    disk.in_flight > 0 || ios.iter().any(|ios| *ios > 0)
}

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
    pub fn new(proc: &Path, names: &[String]) -> Self {
        // sysfs writes `cciss!c0d0` for what diskstats calls `cciss/c0d0`.
        let names = names.iter().map(|name| name.replace('!', "/")).collect();
        Self { path: proc.join("diskstats"), names }
    }

    pub fn snapshot(&self) -> io::Result<DiskSnapshot> {
        let text = read_text(&self.path)?;
        let at = Instant::now();
        let mut disks = parse(&text, &self.path)?;
        disks.retain(|disk| self.names.contains(&disk.name));
        Ok(DiskSnapshot { at, disks })
    }
}

/// The requests in flight at a block device's driver. Those that an I/O scheduler holds are not among them
/// (Documentation/ABI/stable/sysfs-block of the kernel, `inflight`).
#[derive(Debug)]
pub struct DriverQueue {
    file: PinnedProcFile,
    buffer: Vec<u8>,
}

impl DriverQueue {
    /// The driver of the whole device `name`.
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
/// device takes (device/queue_depth) if fewer; `None` if unknown.
pub fn driver_tags(sys: &Path, name: &str) -> Option<u32> {
    let dir = sys.join("block").join(name);
    let tags = number(dir.join("mq/0/nr_tags"))?;
    Some(number(dir.join("device/queue_depth")).map_or(tags, |depth: u32| depth.min(tags)))
}

#[cfg(test)]
mod driver_tests {
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

#[cfg(test)]
mod named_tests {
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

#[cfg(test)]
mod stats_tests {
    use super::*;

    fn first(text: &str) -> DiskCounters {
        parse(text, Path::new("/proc/diskstats")).unwrap().remove(0)
    }

    #[test]
    fn a_line_of_a_current_kernel() {
        let disk = first(" 254       0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n");
        let io = |ios, merges, sectors, ticks_ms| IoCounters { ios, merges, sectors, ticks_ms };
        assert_eq!((disk.read, disk.write), (io(1, 2, 3, 4), io(5, 6, 7, 8)));
        assert_eq!((disk.discard, disk.flush), (io(12, 13, 14, 15), io(16, 0, 0, 17)));
        assert_eq!((disk.in_flight, disk.busy_ms, disk.weighted_ms), (9, 10, 11));
    }

    #[test]
    fn lines_of_old_kernels() {
        let disk = first("8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n");
        assert_eq!((disk.write.ios, disk.weighted_ms, disk.discard.ios), (5, 11, 0));
        let disk = first("8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n");
        assert_eq!((disk.discard.ticks_ms, disk.flush.ios), (15, 0));
    }

    #[test]
    fn times_are_kept_modulo_two_to_the_32() {
        let disk = first("8 0 sda 1 2 3 4294967295 5 6 7 8 9 4294967297 11\n");
        assert_eq!((disk.read.ticks_ms, disk.busy_ms), (u32::MAX, 1));
    }

    #[test]
    fn unexpected_lines_are_errors_that_name_the_file() {
        for text in ["8 0 sda 1 2 3\n", "8 0 sda 1 2 x 4 5 6 7 8 9 10 11\n", "8 0\n", "\n"] {
            let error = parse(text, Path::new("/proc/diskstats")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains("/proc/diskstats"), "{error}");
        }
    }

    #[test]
    fn idle_devices() {
        assert!(!did_any(&first("7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n")));
        assert!(did_any(&first("7 0 loop0 0 0 0 0 0 0 0 0 1 0 0\n")));
        assert!(did_any(&first("7 0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 3 0\n")));
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
