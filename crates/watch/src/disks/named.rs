//! Differences of some devices, as the record of a run holds them.

use super::stats;
use crate::kept::named;
use fathom_model::PerDir;
use fathom_model::record::DiskRecord;
use fathom_model::watch::{DiskCounters, IoCounters};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Reads the counters of a fixed set of block devices.
#[derive(Debug, Clone)]
pub struct NamedDisks {
    path: PathBuf,
    names: Vec<String>,
}

/// The counters of the devices at one instant.
#[derive(Debug, Clone)]
pub struct DiskSnapshot {
    at: Instant,
    disks: Vec<DiskCounters>,
}

impl NamedDisks {
    /// The devices or partitions with these kernel names, such as `nvme0n1`.
    ///
    /// `proc` is where the proc file system is mounted: `/proc`.
    #[must_use]
    pub fn new(proc: &Path, names: &[String]) -> Self {
        // sysfs writes `cciss!c0d0` for what diskstats calls `cciss/c0d0`.
        let names = names.iter().map(|name| name.replace('!', "/")).collect();
        Self { path: proc.join("diskstats"), names }
    }

    /// Reads all counters. A device that is not there is left out.
    ///
    /// # Errors
    /// Where the file cannot be read, or has a line that is not as the kernel writes it; both
    /// name the file.
    pub fn snapshot(&self) -> io::Result<DiskSnapshot> {
        let text = std::fs::read_to_string(&self.path).map_err(|e| named(&self.path, &e))?;
        let at = Instant::now();
        let mut disks = stats::parse(&text, &self.path)?;
        disks.retain(|disk| self.names.contains(&disk.name));
        Ok(DiskSnapshot { at, disks })
    }
}

impl DiskSnapshot {
    /// What the devices did since `earlier`, for each device that is in both, in the order of
    /// /proc/diskstats.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Vec<DiskRecord> {
        let elapsed_ms = self.at.saturating_duration_since(earlier.at).as_millis() as u64;
        let before = |name: &str| earlier.disks.iter().find(|disk| disk.name == name);
        self.disks
            .iter()
            .filter_map(|now| Some(since(now, before(&now.name)?, elapsed_ms)))
            .collect()
    }
}

fn since(now: &DiskCounters, then: &DiskCounters, elapsed_ms: u64) -> DiskRecord {
    let directions =
        |disk: &DiskCounters| PerDir { read: disk.read, write: disk.write, trim: disk.discard };
    // A device that was replaced under its name starts again at 0: there is no difference then.
    let then = if has_restarted(now, then) { now } else { then };
    let (ios, before) = (directions(now), directions(then));
    let counts =
        |of: fn(&IoCounters) -> u64| ios.map(|dir, now| of(now).saturating_sub(of(&before[dir])));
    // The kernel keeps these modulo 2^32.
    let times = |now: u32, then: u32| u64::from(now.wrapping_sub(then));
    DiskRecord {
        name: now.name.clone(),
        ios: counts(|io| io.ios),
        merges: counts(|io| io.merges),
        sectors: counts(|io| io.sectors),
        ticks_ms: ios.map(|dir, now| times(now.ticks_ms, before[dir].ticks_ms)),
        busy_ms: times(now.busy_ms, then.busy_ms),
        weighted_ms: times(now.weighted_ms, then.weighted_ms),
        elapsed_ms,
    }
}

/// Whether a counter that never wraps in practice has gone back.
fn has_restarted(now: &DiskCounters, then: &DiskCounters) -> bool {
    let counts = |disk: &DiskCounters| {
        [disk.read, disk.write, disk.discard].map(|io| [io.ios, io.merges, io.sectors])
    };
    let pairs = counts(now).into_iter().flatten().zip(counts(then).into_iter().flatten());
    pairs.into_iter().any(|(now, then)| now < then)
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

    const BEFORE: &str = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n \
        254       0 vda 100 10 800 50 20 2 160 30 0 70 80 5 1 40 3 9 9\n \
        259       0 nvme0n1 1 0 8 4294967290 0 0 0 0 0 4294967295 7 0 0 0 0 0 0\n";
    const AFTER: &str = "   7       0 loop0 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n \
        254       0 vda 350 15 2800 150 21 2 168 31 4 170 381 7 1 56 4 9 9\n \
        259       0 nvme0n1 2 0 16 4 0 0 0 0 0 1 17 0 0 0 0 0 0\n";

    #[test]
    fn differences_by_direction_for_the_named_devices_only() {
        let names = ["nvme0n1", "vda"];
        let earlier = snapshot(BEFORE, &names).unwrap();
        let mut later = snapshot(AFTER, &names).unwrap();
        later.at = earlier.at + std::time::Duration::from_millis(250);
        let records = later.since(&earlier);
        assert_eq!(
            records[0],
            DiskRecord {
                name: "vda".into(),
                ios: PerDir { read: 250, write: 1, trim: 2 },
                merges: PerDir { read: 5, write: 0, trim: 0 },
                sectors: PerDir { read: 2000, write: 8, trim: 16 },
                ticks_ms: PerDir { read: 100, write: 1, trim: 1 },
                busy_ms: 100,
                weighted_ms: 301,
                elapsed_ms: 250,
            }
        );
        assert_eq!(records.len(), 2);
    }

    #[test]
    fn times_wrap_at_32_bits() {
        let records =
            snapshot(AFTER, &["nvme0n1"]).unwrap().since(&snapshot(BEFORE, &["nvme0n1"]).unwrap());
        assert_eq!(records[0].ticks_ms.read, 10);
        assert_eq!(records[0].busy_ms, 2);
    }

    #[test]
    fn a_device_whose_counters_restarted_did_nothing() {
        let records =
            snapshot(BEFORE, &["vda"]).unwrap().since(&snapshot(AFTER, &["vda"]).unwrap());
        let nothing = DiskRecord {
            name: "vda".into(),
            elapsed_ms: records[0].elapsed_ms,
            ..DiskRecord::default()
        };
        assert_eq!(records, [nothing]);
    }

    #[test]
    fn a_device_that_came_or_went_is_left_out() {
        let none = snapshot("", &["vda"]).unwrap();
        let one = snapshot(BEFORE, &["vda"]).unwrap();
        assert_eq!(none.since(&one), []);
        assert_eq!(one.since(&none), []);
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
    fn the_kernel_at_hand() {
        let text = std::fs::read_to_string("/proc/diskstats").unwrap();
        let names: Vec<String> =
            text.lines().filter_map(|l| l.split_whitespace().nth(2)).map(String::from).collect();
        let sampler = NamedDisks::new(Path::new("/proc"), &names);
        let first = sampler.snapshot().unwrap();
        assert_eq!(first.disks.len(), names.len());
        assert_eq!(sampler.snapshot().unwrap().since(&first).len(), names.len());
    }
}
