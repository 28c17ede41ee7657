//! Which devices are watched: their numbers, what is a part of them, and the filters that match
//! their events (Documentation/trace/events.rst, "Event filtering").

use super::BlocksError;
use super::limits::Limits;
use std::cmp::Reverse;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A device or partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Device {
    pub name: String,
    /// Its folder in sysfs, which goes with it.
    pub path: PathBuf,
    /// Number of the whole device, as tracepoints have it.
    pub disk: u32,
    /// Numbers that I/Os to it may carry beside the disk's: of its partitions, or its own.
    pub parts: Vec<u32>,
    /// First sector and the one after the last, of a partition.
    pub range: Option<(u64, u64)>,
    pub bio_based: bool,
    pub limits: Limits,
    /// I/Os since it was made.
    pub ios: u64,
}

impl Device {
    /// The filter of events of requests, which carry the disk's number.
    pub fn request_filter(&self) -> String {
        let disk = self.disk;
        match self.range {
            None => format!("dev == {disk}"),
            Some((first, end)) => format!("dev == {disk} && sector >= {first} && sector < {end}"),
        }
    }

    /// The filter of events of I/Os (bios), which carry the number of the partition they came through,
    /// but the disk's sectors.
    pub fn bio_filter(&self) -> String {
        let parts = self.parts.iter().map(|part| format!(" || dev == {part}"));
        format!("({}{})", self.within(), parts.collect::<String>())
    }

    fn within(&self) -> String {
        match self.range {
            None => self.request_filter(),
            Some(_) => format!("({})", self.request_filter()),
        }
    }

    /// Whether an event that carries this number and sector is of this device.
    pub fn owns(&self, dev: u32, sector: u64) -> bool {
        let inside = self.range.is_none_or(|(first, end)| (first..end).contains(&sector));
        (dev == self.disk && inside) || self.parts.contains(&dev)
    }
}

/// The whole devices that can hold something: those named, with a partition of theirs, or as what
/// they are made of, and how many these are; then those with the most I/Os.
pub(super) fn with_first(
    sys_root: &Path,
    names: &[String],
) -> Result<(Vec<Device>, usize), BlocksError> {
    let all = all(sys_root)?;
    let mut names = names.to_vec();
    let mut next = 0;
    while let Some(name) = names.get(next) {
        let below = std::fs::read_dir(sys_root.join("block").join(name).join("slaves"));
        let below = below.into_iter().flatten().filter_map(|entry| file_name(&entry.ok()?.path()));
        let new: Vec<String> = below.filter(|name| !names.contains(name)).collect();
        names.extend(new);
        next += 1;
    }
    let named = all.iter().filter(|d| names.contains(&d.device.name)).map(|d| d.device.disk);
    let named: Vec<u32> = named.collect();
    let whole = all.into_iter().filter(|d| d.whole && d.sectors > 0);
    let mut disks: Vec<Device> = whole.map(|d| d.device).collect();
    disks.sort_by_key(|disk| (!named.contains(&disk.disk), Reverse(disk.ios)));
    let first = disks.iter().filter(|disk| named.contains(&disk.disk)).count();
    Ok((disks, first))
}

/// The devices with these names or paths, each once.
pub(super) fn find(sys_root: &Path, wanted: &[String]) -> Result<Vec<Device>, BlocksError> {
    let all = all(sys_root)?;
    let mut found: Vec<Device> = Vec::new();
    for name in wanted {
        let is_it = matcher(name)?;
        let device = all.iter().find(|d| is_it(d)).map(|d| d.device.clone());
        let device = device.ok_or_else(|| BlocksError::NoDevice {
            name: name.clone(),
            known: all.iter().map(|d| d.device.name.clone()).collect::<Vec<_>>().join(", "),
        })?;
        if !found.contains(&device) {
            found.push(device);
        }
    }
    Ok(found)
}

/// A device with what is asked of it only while it is looked for.
struct Candidate {
    device: Device,
    number: u32,
    whole: bool,
    sectors: u64,
}

type Matcher = Box<dyn Fn(&Candidate) -> bool>;

/// A path is told by the number of the device that it leads to, a name by itself.
fn matcher(name: &str) -> Result<Matcher, BlocksError> {
    if !name.contains('/') {
        // sysfs writes `cciss!c0d0` for `cciss/c0d0`.
        let name = name.to_string();
        return Ok(Box::new(move |d| d.device.name == name));
    }
    let fail = |why: String| BlocksError::NotADevice { path: name.into(), why };
    let meta = std::fs::metadata(name).map_err(|error| fail(error.to_string()))?;
    if !meta.file_type().is_block_device() {
        return Err(fail("it is no block device".into()));
    }
    let (major, minor) = (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
    let number = number(major, minor);
    Ok(Box::new(move |d| d.number == number))
}

/// A device's number as the kernel has it within: 12 bits of major, 20 of minor.
fn number(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}

fn all(sys_root: &Path) -> Result<Vec<Candidate>, BlocksError> {
    let block = sys_root.join("block");
    let fail = |error: io::Error| BlocksError::Unreadable { path: block.clone(), source: error };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&block)
        .and_then(|dir| dir.map(|entry| entry.map(|e| e.path())).collect())
        .map_err(fail)?;
    paths.sort();
    // A device that vanished meanwhile is left out.
    Ok(paths.iter().filter_map(|path| disk(path)).flatten().collect())
}

/// A whole device and its partitions.
fn disk(path: &Path) -> Option<Vec<Candidate>> {
    let disk = dev_number(path)?;
    let device = Device {
        name: file_name(path)?,
        path: path.to_path_buf(),
        disk,
        parts: Vec::new(),
        range: None,
        bio_based: !path.join("mq").is_dir(),
        limits: Limits::read(&path.join("queue")),
        ios: ios(path),
    };
    let entries = std::fs::read_dir(path).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let mut parts: Vec<Candidate> = entries.filter_map(|part| partition(&part, &device)).collect();
    parts.sort_by(|a, b| a.device.name.cmp(&b.device.name));
    let numbers = parts.iter().map(|part| part.number).collect();
    let sectors = read_number(&path.join("size")).unwrap_or(0);
    let whole = Candidate {
        device: Device { parts: numbers, ..device },
        number: disk,
        whole: true,
        sectors,
    };
    Some(std::iter::once(whole).chain(parts).collect())
}

fn partition(path: &Path, disk: &Device) -> Option<Candidate> {
    if !path.join("partition").exists() {
        return None;
    }
    let number = dev_number(path)?;
    let (start, sectors) = (read_number(&path.join("start"))?, read_number(&path.join("size"))?);
    let device = Device {
        name: file_name(path)?,
        path: path.to_path_buf(),
        parts: vec![number],
        range: Some((start, start.saturating_add(sectors))),
        ios: ios(path),
        ..disk.clone()
    };
    Some(Candidate { device, number, whole: false, sectors })
}

fn dev_number(path: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(path.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(number(major.parse().ok()?, minor.parse().ok()?))
}

fn file_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_string())
}

/// Reads and writes that the device completed (Documentation/block/stat.rst).
fn ios(path: &Path) -> u64 {
    let text = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
    let word = |index: usize| text.split_whitespace().nth(index)?.parse::<u64>().ok();
    word(0).unwrap_or(0).saturating_add(word(4).unwrap_or(0))
}

fn read_number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
