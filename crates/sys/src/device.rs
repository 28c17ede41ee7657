//! Block devices in sysfs.

use crate::roots::{self, Roots, Unread, entries, number, text};
use fathom_model::facts::{DeviceFacts, ZoneFacts};
use std::path::{Path, PathBuf};

/// Maximum number of devices below a device: stacks are not that deep.
const BELOW_MAX: usize = 256;

pub type Number = (u32, u32);

/// Facts about the block device with this number; a partition has its disk's model, serial
/// number and queue. `None` if it is not in sysfs.
pub fn device(roots: &Roots, number: Number) -> Option<DeviceFacts> {
    Node::by_number(roots, number).map(|node| node.facts())
}

/// Facts about the whole block devices of the machine that are not empty.
pub fn disks(roots: &Roots) -> Vec<DeviceFacts> {
    let nodes = whole(roots).into_iter().filter(|node| node.size_bytes() > 0);
    nodes.map(|node| node.facts()).collect()
}

/// The whole block devices of the machine, by name, for facts.
pub fn whole(roots: &Roots) -> Vec<Node> {
    let dir = roots.sys.join("block");
    entries(&dir).into_iter().filter_map(|name| Node::by_dir(&dir.join(name))).collect()
}

pub fn parse_number(text: &str) -> Option<Number> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The whole disks that hold the devices with these kernel names, for facts: themselves, the disks of partitions, and
/// after each what it is built on.
pub fn disks_of<'a>(roots: &Roots, devices: impl IntoIterator<Item = &'a str>) -> Vec<Node> {
    let mut found: Vec<Node> = Vec::new();
    for device in devices {
        let mut open = vec![device.to_string()];
        while let Some(name) = open.pop() {
            let Some(disk) = Node::named(roots, &name).map(|node| node.disk()) else { continue };
            if !found.contains(&disk) && found.len() < BELOW_MAX {
                open.extend(member_names(&disk.dir));
                found.push(disk);
            }
        }
    }
    found
}

/// Names of the devices that the one in this directory of sysfs is stacked on, for facts.
pub fn member_names(dir: &Path) -> Vec<String> {
    entries(dir.join("slaves")).iter().map(|name| name.replace('!', "/")).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generic {
    /// NVMe commands, for a namespace; `None` if unknown.
    Nvme(Option<u32>),
    Scsi,
    /// The same, also on a ring.
    Bsg,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    dir: PathBuf,
    pub number: Number,
}

impl Node {
    pub fn by_number(roots: &Roots, number: Number) -> Option<Self> {
        let link = roots.sys.join(format!("dev/block/{}:{}", number.0, number.1));
        Some(Self { dir: link.canonicalize().ok()?, number })
    }

    /// The device with this directory in sysfs; `None` if it is gone.
    /// A directory without a device that can be read is an error.
    pub fn read(dir: &Path) -> Result<Option<Self>, Unread> {
        let file = dir.join("dev");
        let Some(text) = roots::value::<String>(&file)? else {
            // A device that is being removed takes its directory with it.
            return if roots::exists(dir)? { Err(Unread::missing(&file)) } else { Ok(None) };
        };
        let number = parse_number(&text).ok_or_else(|| Unread::malformed(&file))?;
        let dir = dir.canonicalize().map_err(|error| Unread::failed(dir, error))?;
        Ok(Some(Self { dir, number }))
    }

    /// The same for facts: `None` also if it cannot be read.
    pub fn by_dir(dir: &Path) -> Option<Self> {
        Self::read(dir).ok().flatten()
    }

    /// The device with this kernel name, for facts. sysfs has `cciss!c0d0` for `cciss/c0d0`.
    pub fn named(roots: &Roots, name: &str) -> Option<Self> {
        let name = name.replace('/', "!");
        let mut classes = ["class/block", "block"].into_iter();
        classes.find_map(|class| Self::by_dir(&roots.sys.join(class).join(&name)))
    }

    /// The devices listed in a directory of sysfs whose names have this prefix.
    /// The directory, which every kernel has, and all devices must be readable.
    pub fn listed(dir: &Path, prefix: &str) -> Result<Vec<Self>, Unread> {
        let names = roots::list(dir)?.ok_or_else(|| Unread::missing(dir))?;
        let names = names.into_iter().filter(|name| name.starts_with(prefix));
        names.filter_map(|name| Self::read(&dir.join(name)).transpose()).collect()
    }

    /// Verifies that its directory is sysfs's own, which makes its partitions and its disk known.
    pub fn verify(&self) -> Result<(), Unread> {
        match Self::read(&self.dir)? {
            Some(node) if node.number == self.number => Ok(()),
            _ => Err(Unread::missing(&self.dir)),
        }
    }

    /// The block device of the same disk as the generic character device with this number, and how it takes commands.
    pub fn of_generic(roots: &Roots, number: Number) -> Option<(Self, Generic)> {
        let link = roots.sys.join(format!("dev/char/{}:{}", number.0, number.1));
        let dir = link.canonicalize().ok()?;
        let nvme = || Self::of_nvme_generic(&dir).map(|(node, nsid)| (node, Generic::Nvme(nsid)));
        let scsi = |class, generic| Some((Self::of_scsi_generic(&dir, class)?, generic));
        nvme().or_else(|| scsi("scsi_generic", Generic::Scsi)).or_else(|| scsi("bsg", Generic::Bsg))
    }

    /// The disk of a SCSI generic device: `block/sdX`, next to `scsi_generic/sgN` or `bsg/H:C:T:L`.
    fn of_scsi_generic(dir: &Path, class: &str) -> Option<Self> {
        let class = dir.parent().filter(|parent| parent.ends_with(class))?;
        let disks = class.parent()?.join("block");
        let name = entries(&disks).into_iter().next()?;
        Self::by_dir(&disks.join(name)).filter(Self::is_scsi_disk)
    }

    fn is_scsi_disk(&self) -> bool {
        let bus = self.dir.join("device/subsystem").canonicalize();
        self.name().starts_with("sd")
            && !self.is_partition()
            && bus.is_ok_and(|bus| bus.ends_with("scsi"))
    }

    /// The block device of the same namespace, and its namespace ID. Both are below the same controller or subsystem.
    fn of_nvme_generic(dir: &Path) -> Option<(Self, Option<u32>)> {
        let rest = dir.file_name()?.to_str()?.strip_prefix("ng")?;
        let node = Self::by_dir(&dir.parent()?.join(format!("nvme{rest}")))
            .or_else(|| Self::by_dir(&dir.parent()?.join(format!("block/nvme{rest}"))))?;
        // Passthrough also needs the logical block size, and must not guess it.
        let shows_block = node.dir.join("queue/logical_block_size").exists();
        let nsid = node.nsid().filter(|_| shows_block);
        Some((node, nsid))
    }

    /// The kernel's name of the format of its integrity data (integrity/format), such as `T10-DIF-TYPE1-CRC`; empty without.
    pub fn integrity(&self) -> String {
        text(self.dir.join("integrity/format")).unwrap_or_default()
    }

    pub fn name(&self) -> String {
        let name = self.dir.file_name().unwrap_or_default().to_string_lossy();
        name.replace('!', "/")
    }

    pub fn path(&self) -> String {
        format!("/dev/{}", self.name())
    }

    /// Whether it is part of a disk.
    pub fn is_partition(&self) -> bool {
        self.dir.join("partition").exists()
    }

    /// The whole disk of a partition, or the device itself.
    pub fn disk(&self) -> Self {
        let parent = self.dir.parent().filter(|_| self.is_partition());
        parent.and_then(Self::by_dir).unwrap_or_else(|| self.clone())
    }

    pub fn partitions(&self) -> Result<Vec<Self>, Unread> {
        let names = roots::list(&self.dir)?.unwrap_or_default();
        let dirs = names.into_iter().map(|name| self.dir.join(name));
        let is_partition = |dir: &PathBuf| roots::exists(&dir.join("partition"));
        let mut found = Vec::new();
        // Of a disk's attributes, only directories can be partitions.
        for dir in dirs.filter(|dir| dir.is_dir()) {
            if is_partition(&dir)? {
                found.extend(Self::read(&dir)?);
            }
        }
        Ok(found)
    }

    /// The first sector of a partition, and the one after the last.
    pub fn sectors(&self) -> Result<(u64, u64), Unread> {
        let of = |name: &str| {
            let file = self.dir.join(name);
            roots::value::<u64>(&file)?.ok_or_else(|| Unread::missing(&file))
        };
        let start = of("start")?;
        Ok((start, start.saturating_add(of("size")?)))
    }

    /// Whether two partitions of a disk share sectors, which the kernel does not prevent.
    pub fn overlaps(&self, other: &Self) -> Result<bool, Unread> {
        let ((start, end), (other_start, other_end)) = (self.sectors()?, other.sectors()?);
        Ok(start < other_end && other_start < end)
    }

    /// Devices stacked on it, such as device mapper and md.
    /// What cannot be read about one of them only makes it count as a user of more.
    pub fn holders(&self) -> Result<Vec<Holder>, Unread> {
        let holders = self.dir.join("holders");
        let of = |name: String| {
            let dir = holders.join(&name);
            Holder {
                number: text(dir.join("dev")).and_then(|number| parse_number(&number)),
                mapper_uuid: text(dir.join("dm/uuid")),
                name: match text(dir.join("dm/name")) {
                    Some(own) => format!("{name} ({own})"),
                    None => name,
                },
            }
        };
        Ok(roots::list(&holders)?.unwrap_or_default().into_iter().map(of).collect())
    }

    /// The devices it is stacked on.
    pub fn members(&self) -> Result<Vec<Self>, Unread> {
        let members = self.dir.join("slaves");
        let names = roots::list(&members)?.unwrap_or_default();
        names.iter().filter_map(|name| Self::read(&members.join(name)).transpose()).collect()
    }

    /// The device-mapper UUID, which begins with the name of the subsystem that created it.
    pub fn mapper_uuid(&self) -> Option<String> {
        text(self.dir.join("dm/uuid"))
    }

    /// What names the same device on each machine that has it, as over NVMe-oF, iSCSI or Fibre Channel: none where it may be
    /// made up of a model and a serial number, which virtual disks have in common.
    pub fn world_wide_name(&self) -> Option<String> {
        let disk = self.disk().dir;
        let names = ["dm/uuid", "wwid", "device/wwid"].map(|name| text(disk.join(name)));
        let is_unique = |name: &String| {
            ["mpath-", "uuid.", "eui.", "naa."].iter().any(|kind| name.starts_with(kind))
        };
        let name = names.into_iter().flatten().find(is_unique)?;
        Some(match text(self.dir.join("partition")) {
            Some(partition) => format!("{name}, partition {partition}"),
            None => name,
        })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn attribute(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn is_read_only(&self) -> bool {
        number::<u32>(self.dir.join("ro")) == Some(1)
    }

    pub fn size_bytes(&self) -> u64 {
        // sysfs reports 512-byte sectors on all devices.
        number::<u64>(self.dir.join("size")).unwrap_or(0).saturating_mul(512)
    }

    fn nsid(&self) -> Option<u32> {
        number(self.disk().dir.join("nsid"))
    }

    pub fn facts(&self) -> DeviceFacts {
        let disk = self.disk().dir;
        let queue = disk.join("queue");
        let of_queue = |name: &str| text(queue.join(name));
        let flag = |name: &str| number::<u32>(queue.join(name)).map(|value| value != 0);
        let hardware_queues = entries(disk.join("mq")).len();
        DeviceFacts {
            name: self.name(),
            members: member_names(&disk),
            model: text(disk.join("device/model")),
            serial: serial(&disk),
            firmware: text(disk.join("device/firmware_rev"))
                .or_else(|| text(disk.join("device/rev"))),
            driver: driver(&disk),
            size_bytes: self.size_bytes(),
            logical_block: number(queue.join("logical_block_size")).unwrap_or(512),
            physical_block: number(queue.join("physical_block_size")).unwrap_or(512),
            scheduler: of_queue("scheduler").map(|line| active(&line).to_string()),
            nr_requests: number(queue.join("nr_requests")),
            hardware_queues: u32::try_from(hardware_queues).ok().filter(|count| *count > 0),
            driver_tags: number(disk.join("mq/0/nr_tags")),
            queue_depth: number(disk.join("device/queue_depth")),
            max_sectors_kb: number(queue.join("max_sectors_kb")),
            max_hw_sectors_kb: number(queue.join("max_hw_sectors_kb")),
            max_segments: number(queue.join("max_segments")),
            rotational: flag("rotational"),
            io_poll: flag("io_poll"),
            wbt_lat_usec: number(queue.join("wbt_lat_usec")),
            write_cache: of_queue("write_cache"),
            discard_max_bytes: number(queue.join("discard_max_bytes")),
            nvme_nsid: self.nsid(),
            metadata: None,
            zones: zones(&queue),
            scsi_disk: self.is_scsi_disk(),
        }
    }
}

pub struct Holder {
    pub name: String,
    pub number: Option<Number>,
    pub mapper_uuid: Option<String>,
}

/// The entry in brackets of `none [mq-deadline] kyber`.
pub fn active(line: &str) -> &str {
    let chosen = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(line, |(name, _)| name)
}

/// The zones that the attributes in this directory tell of.
fn zones(queue: &Path) -> Option<ZoneFacts> {
    let model = text(queue.join("zoned"))?;
    let limit = |name: &str| number(queue.join(name)).unwrap_or(0);
    let sectors = number::<u64>(queue.join("chunk_sectors")).unwrap_or(0);
    let zones = ZoneFacts {
        managed: model == "host-managed",
        zone_bytes: sectors.saturating_mul(512),
        open_max: limit("max_open_zones"),
        active_max: limit("max_active_zones"),
    };
    (model != "none" && zones.zone_bytes > 0).then_some(zones)
}

fn driver(disk: &Path) -> Option<String> {
    let link = |link: &str| std::fs::read_link(disk.join(link)).ok();
    let driver = link("device/driver").or_else(|| link("device/device/driver"))?;
    Some(driver.file_name()?.to_string_lossy().into_owned())
}

fn serial(disk: &Path) -> Option<String> {
    let plain = || text(disk.join("device/serial")).or_else(|| text(disk.join("serial")));
    // SCSI: VPD page 0x80, after its 4-byte header.
    let page = || {
        let bytes = std::fs::read(disk.join("device/vpd_pg80")).ok()?;
        let serial = String::from_utf8_lossy(bytes.get(4..)?).into_owned();
        let serial = serial.trim_matches(|c: char| c.is_whitespace() || c.is_control());
        (!serial.is_empty()).then(|| serial.to_string())
    };
    plain().or_else(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_disks_below_a_stack() {
        let root = tempfile::tempdir().unwrap();
        let roots = Roots { proc: root.path().join("proc"), sys: root.path().into() };
        let block = root.path().join("block");
        for (dir, number) in
            [("sda", "8:0"), ("sda/sda1", "8:1"), ("sdb", "8:16"), ("dm-0", "253:0")]
        {
            std::fs::create_dir_all(block.join(dir)).unwrap();
            std::fs::write(block.join(dir).join("dev"), number).unwrap();
        }
        std::fs::write(block.join("sda/sda1/partition"), "1").unwrap();
        std::fs::create_dir_all(block.join("sda/device")).unwrap();
        std::fs::write(block.join("sda/device/wwid"), "naa.5000c500a1b2c3d4\n").unwrap();
        std::fs::write(block.join("sdb/wwid"), "nvme.1b36-4c414230-51454d55-00000001").unwrap();
        std::fs::create_dir_all(root.path().join("class/block")).unwrap();
        symlink("../../block/sda/sda1", root.path().join("class/block/sda1")).unwrap();
        for member in ["sda1", "sdb", "gone"] {
            std::fs::create_dir_all(block.join("dm-0/slaves").join(member)).unwrap();
        }
        let of = |names: &[&str]| {
            let disks = disks_of(&roots, names.iter().copied());
            disks.iter().map(Node::name).collect::<Vec<_>>()
        };
        assert_eq!(of(&["sda1", "sda", "gone"]), ["sda"]);
        assert_eq!(of(&["dm-0"]), ["dm-0", "sdb", "sda"]);
        let name = |name: &str| Node::named(&roots, name).unwrap().world_wide_name();
        assert_eq!(name("sda1").as_deref(), Some("naa.5000c500a1b2c3d4, partition 1"));
        assert_eq!(name("sda").as_deref(), Some("naa.5000c500a1b2c3d4"));
        assert_eq!((name("sdb"), name("dm-0")), (None, None));
    }
}
