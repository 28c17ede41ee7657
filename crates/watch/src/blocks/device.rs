//! Block devices: their numbers, their partitions, and the filters that select their events
//! (Documentation/trace/events.rst, "Event filtering").

use super::limits::QueueLimits;
use fathom_model::list;
use fathom_model::watch::Unavailable;
use fathom_sys::device::{Node, Number, disks_of, whole};
use fathom_sys::roots::{Roots, text};
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
    /// Its own `dev_t`.
    pub number: u32,
    /// `dev_t` of the whole device, as tracepoints report it.
    pub disk: u32,
    /// Further `dev_t`s that its bios may carry: those of its partitions, or its own if it is one.
    pub parts: Vec<u32>,
    /// First sector, and the sector after the last, of a partition.
    pub range: Option<(u64, u64)>,
    pub bio_based: bool,
    pub limits: QueueLimits,
    pub is_empty: bool,
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
    let mut disks = all(sys_root)?;
    let roots = Roots { sys: sys_root.into(), ..Roots::default() };
    let named = disks_of(&roots, names.iter().map(String::as_str));
    let named: Vec<u32> = named.iter().map(|node| number(node.number)).collect();
    disks.retain(|disk| disk.range.is_none() && !disk.is_empty);
    disks.sort_by_key(|disk| (!named.contains(&disk.disk), Reverse(disk.ios)));
    let first = disks.iter().filter(|disk| named.contains(&disk.disk)).count();
    Ok((disks, first))
}

/// The first names, as people count them: disks before the many loop devices.
fn known(all: &[BlockDevice]) -> String {
    let mut names: Vec<&str> = all.iter().map(|device| device.name.as_str()).collect();
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
        let device = all.iter().find(|device| is_it(device));
        let device = device
            .ok_or_else(|| BlocksError::NoDevice { name: name.clone(), known: known(&all) })?;
        if !found.contains(device) {
            found.push(device.clone());
        }
    }
    Ok(found)
}

type Matcher = Box<dyn Fn(&BlockDevice) -> bool>;

/// A path selects by device number, a name by itself.
fn matcher(name: &str) -> Result<Matcher, BlocksError> {
    if !name.contains('/') {
        // sysfs has `cciss!c0d0` for `cciss/c0d0`.
        let name = name.replace('!', "/");
        return Ok(Box::new(move |device| device.name == name));
    }
    let fail = |why: String| BlocksError::NotADevice { path: name.into(), why };
    let meta = std::fs::metadata(name).map_err(|error| fail(error.to_string()))?;
    if !meta.file_type().is_block_device() {
        return Err(fail("not a block device".into()));
    }
    let number = number((rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev())));
    Ok(Box::new(move |device| device.number == number))
}

/// The kernel-internal `dev_t` (include/linux/kdev_t.h): 12 bits of major, 20 bits of minor number.
pub(super) fn number((major, minor): Number) -> u32 {
    major << 20 | minor
}

fn all(sys_root: &Path) -> Result<Vec<BlockDevice>, BlocksError> {
    let path = sys_root.join("block");
    std::fs::read_dir(&path).map_err(|source| BlocksError::Unreadable { path, source })?;
    let roots = Roots { sys: sys_root.into(), ..Roots::default() };
    Ok(whole(&roots).iter().flat_map(with_partitions).collect())
}

/// A whole device, and its partitions.
fn with_partitions(node: &Node) -> Vec<BlockDevice> {
    let parts = node.partitions().unwrap_or_default();
    let disk = BlockDevice {
        parts: parts.iter().map(|part| number(part.number)).collect(),
        bio_based: !node.attribute("mq").is_dir(),
        limits: QueueLimits::read(&node.attribute("queue")),
        ..named(node)
    };
    let part = |part: &Node| {
        let own = named(part);
        let range = Some(part.sectors().ok()?);
        let (name, path, number) = (own.name, own.path, own.number);
        Some(BlockDevice {
            name,
            path,
            number,
            parts: vec![number],
            range,
            ios: own.ios,
            ..disk.clone()
        })
    };
    let parts: Vec<BlockDevice> = parts.iter().filter_map(part).collect();
    std::iter::once(disk).chain(parts).collect()
}

fn named(node: &Node) -> BlockDevice {
    BlockDevice {
        name: node.name(),
        path: node.dir().into(),
        number: number(node.number),
        disk: number(node.number),
        ios: ios(node.dir()),
        is_empty: node.size_bytes() == 0,
        ..BlockDevice::default()
    }
}

/// Reads and writes completed (Documentation/block/stat.rst).
fn ios(path: &Path) -> u64 {
    let text = text(path.join("stat")).unwrap_or_default();
    let word = |index: usize| text.split_whitespace().nth(index)?.parse::<u64>().ok();
    word(0).unwrap_or(0).saturating_add(word(4).unwrap_or(0))
}
