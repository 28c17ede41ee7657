//! Block devices: their numbers, their partitions, and the filters that select their events
//! (Documentation/trace/events.rst, "Event filtering").

use super::limits::QueueLimits;
use fathom_model::list;
use fathom_model::watch::Unavailable;
use fathom_sys::device::{Number, disks_of, parse_number};
use fathom_sys::roots::{self, Roots, text};
use std::cmp::Reverse;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Devices that an error names.
const NAMED_MAX: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum BlocksError {
    #[error("unknown block device {name}; known devices: {known}")]
    NoDevice { name: String, known: String },
    #[error("{path}: {why}; give a device such as nvme0n1 or /dev/nvme0n1")]
    NotADevice { path: String, why: String },
    #[error("{path}: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Unavailable(Unavailable),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BlockDevice {
    pub name: String,
    pub path: PathBuf,
    /// `dev_t` of the whole device, as tracepoints report it.
    pub disk: u32,
    /// Further `dev_t`s that its bios may carry: those of its partitions, or its own if it is one.
    pub parts: Vec<u32>,
    /// First sector, and the sector after the last, of a partition.
    pub range: Option<(u64, u64)>,
    pub bio_based: bool,
    pub limits: QueueLimits,
    /// I/Os completed since the device was created.
    pub ios: u64,
}

impl BlockDevice {
    /// Filter for request events, which carry the number of the whole device.
    pub fn request_filter(&self) -> String {
        let disk = self.disk;
        match self.range {
            None => format!("dev == {disk}"),
            Some((first, end)) => format!("dev == {disk} && sector >= {first} && sector < {end}"),
        }
    }

    /// Filter for bio events, which carry the number of the partition that they were submitted to
    /// but sectors of the whole device.
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

    pub fn owns(&self, dev: u32, sector: u64) -> bool {
        let inside = self.range.is_none_or(|(first, end)| (first..end).contains(&sector));
        (dev == self.disk && inside) || self.parts.contains(&dev)
    }
}

/// All non-empty whole devices: first the disks of `names` (devices or partitions) and the devices
/// they are built on, and how many these are; then the others by number of I/Os.
pub(super) fn with_first(
    sys_root: &Path,
    names: &[String],
) -> Result<(Vec<BlockDevice>, usize), BlocksError> {
    let all = all(sys_root)?;
    let roots = Roots { sys: sys_root.into(), ..Roots::default() };
    let named = disks_of(&roots, names.iter().map(String::as_str));
    let named: Vec<u32> = named.iter().map(|node| number(node.number)).collect();
    let whole = all.into_iter().filter(|d| d.whole && d.sectors > 0);
    let mut disks: Vec<BlockDevice> = whole.map(|d| d.device).collect();
    disks.sort_by_key(|disk| (!named.contains(&disk.disk), Reverse(disk.ios)));
    let first = disks.iter().filter(|disk| named.contains(&disk.disk)).count();
    Ok((disks, first))
}

/// The first names, as people count them: disks before the many loop devices.
fn known(all: &[BlockDeviceNode]) -> String {
    let mut names: Vec<&str> = all.iter().map(|d| d.device.name.as_str()).collect();
    names.sort_by(|a, b| {
        a.starts_with("loop").cmp(&b.starts_with("loop")).then_with(|| list::natural(a, b))
    });
    list::few(&names, NAMED_MAX)
}

pub(super) fn find(sys_root: &Path, wanted: &[String]) -> Result<Vec<BlockDevice>, BlocksError> {
    let all = all(sys_root)?;
    let mut found: Vec<BlockDevice> = Vec::new();
    for name in wanted {
        let is_it = matcher(name)?;
        let device = all.iter().find(|d| is_it(d)).map(|d| d.device.clone());
        let device = device
            .ok_or_else(|| BlocksError::NoDevice { name: name.clone(), known: known(&all) })?;
        if !found.contains(&device) {
            found.push(device);
        }
    }
    Ok(found)
}

struct BlockDeviceNode {
    device: BlockDevice,
    number: u32,
    whole: bool,
    sectors: u64,
}

type Matcher = Box<dyn Fn(&BlockDeviceNode) -> bool>;

/// A path selects by device number, a name by itself.
fn matcher(name: &str) -> Result<Matcher, BlocksError> {
    if !name.contains('/') {
        // sysfs has `cciss!c0d0` for `cciss/c0d0`.
        let name = name.replace('!', "/");
        return Ok(Box::new(move |d| d.device.name == name));
    }
    let fail = |why: String| BlocksError::NotADevice { path: name.into(), why };
    let meta = std::fs::metadata(name).map_err(|error| fail(error.to_string()))?;
    if !meta.file_type().is_block_device() {
        return Err(fail("not a block device".into()));
    }
    let number = number((rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev())));
    Ok(Box::new(move |d| d.number == number))
}

/// The kernel-internal `dev_t` (include/linux/kdev_t.h): 12 bits of major, 20 bits of minor number.
pub(super) fn number((major, minor): Number) -> u32 {
    major << 20 | minor
}

fn all(sys_root: &Path) -> Result<Vec<BlockDeviceNode>, BlocksError> {
    let block = sys_root.join("block");
    let fail = |error: io::Error| BlocksError::Unreadable { path: block.clone(), source: error };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&block)
        .and_then(|dir| dir.map(|entry| entry.map(|e| e.path())).collect())
        .map_err(fail)?;
    paths.sort();
    // Skips devices removed since the directory was read.
    Ok(paths.iter().filter_map(|path| disk(path)).flatten().collect())
}

fn disk(path: &Path) -> Option<Vec<BlockDeviceNode>> {
    let disk = dev_number(path)?;
    let device = BlockDevice {
        name: file_name(path)?,
        path: path.to_path_buf(),
        disk,
        parts: Vec::new(),
        range: None,
        bio_based: !path.join("mq").is_dir(),
        limits: QueueLimits::read(&path.join("queue")),
        ios: ios(path),
    };
    let entries = std::fs::read_dir(path).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let mut parts: Vec<BlockDeviceNode> =
        entries.filter_map(|part| partition(&part, &device)).collect();
    parts.sort_by(|a, b| a.device.name.cmp(&b.device.name));
    let numbers = parts.iter().map(|part| part.number).collect();
    let sectors = roots::number(path.join("size")).unwrap_or(0);
    let whole = BlockDeviceNode {
        device: BlockDevice { parts: numbers, ..device },
        number: disk,
        whole: true,
        sectors,
    };
    Some(std::iter::once(whole).chain(parts).collect())
}

fn partition(path: &Path, disk: &BlockDevice) -> Option<BlockDeviceNode> {
    if !path.join("partition").exists() {
        return None;
    }
    let number = dev_number(path)?;
    let (start, sectors) = (roots::number(path.join("start"))?, roots::number(path.join("size"))?);
    let device = BlockDevice {
        name: file_name(path)?,
        path: path.to_path_buf(),
        parts: vec![number],
        range: Some((start, start.saturating_add(sectors))),
        ios: ios(path),
        ..disk.clone()
    };
    Some(BlockDeviceNode { device, number, whole: false, sectors })
}

fn dev_number(path: &Path) -> Option<u32> {
    Some(number(parse_number(&text(path.join("dev"))?)?))
}

fn file_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.replace('!', "/"))
}

/// Reads and writes completed (Documentation/block/stat.rst).
fn ios(path: &Path) -> u64 {
    let text = text(path.join("stat")).unwrap_or_default();
    let word = |index: usize| text.split_whitespace().nth(index)?.parse::<u64>().ok();
    word(0).unwrap_or(0).saturating_add(word(4).unwrap_or(0))
}
