//! Where storage is attached: from CPU package and root complex to mount point.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine as its storage sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Topology {
    /// CPU packages (sockets), by number.
    pub packages: Vec<CpuPackage>,
    /// NUMA nodes, by number; empty where the kernel has no NUMA support.
    pub numa_nodes: Vec<NumaNode>,
    /// CPUs that fathom may run on.
    pub cpus_allowed: Vec<u32>,
    /// Root complexes, and other devices with disks that are not below a PCI bus.
    pub roots: Vec<Hop>,
    /// All block devices, by name.
    pub volumes: Vec<Volume>,
}

/// A CPU package (socket).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuPackage {
    /// Number (/sys/devices/system/cpu/cpuN/topology/physical_package_id).
    pub id: u32,
    /// CPU model.
    pub model: String,
    /// Its CPUs.
    pub cpus: Vec<u32>,
}

/// A NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NumaNode {
    /// Number.
    pub id: u32,
    /// Its CPUs; empty for a node of memory only.
    pub cpus: Vec<u32>,
    /// Its memory in bytes.
    pub memory_bytes: u64,
}

/// A device on the path to a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// Kernel name, unique: `pci0000:40`, `0000:41:00.0`, `nvme0`.
    pub name: String,
    /// What it is.
    pub kind: HopKind,
    /// Vendor and model, or address of a fabric; empty if unknown.
    pub label: String,
    /// PCI class code: base class, subclass, interface (0x010802 for NVMe).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<u32>,
    /// The NUMA node that it is attached to, if the firmware reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Name of its slot on the board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Of a root port or downstream port, the link below it; of others, the link above them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// PCIe max payload size in effect, in bytes; unknown without root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_max_bytes: Option<u32>,
    /// Its interrupts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub irqs: Vec<Irq>,
    /// Names of disks that it is the controller of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<String>,
    /// What is attached to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Hop>,
}

/// What a [`Hop`] is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HopKind {
    /// PCI host bridge: a root complex, or a root bus of one; below a function, one that its driver emulates (Intel VMD).
    RootComplex,
    /// Root port.
    RootPort,
    /// Upstream port of a switch.
    SwitchUpstream,
    /// Downstream port of a switch.
    SwitchDownstream,
    /// Another PCI bridge.
    Bridge,
    /// Another PCI function.
    Function,
    /// A controller as its driver names it: `nvme0`, `ata1`, `host0`, `virtio0`.
    Controller,
    /// A bus other than PCI.
    #[default]
    Bus,
}

impl HopKind {
    /// Whether its [`Hop::link`] is the one below it.
    pub fn faces_down(self) -> bool {
        matches!(self, Self::RootPort | Self::SwitchDownstream)
    }
}

/// A point-to-point link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// PCIe or SATA.
    pub standard: LinkStandard,
    /// As negotiated.
    pub current: LinkMode,
    /// The best that this end supports.
    pub best: LinkMode,
}

/// Standard of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkStandard {
    /// PCI Express.
    #[default]
    Pcie,
    /// Serial ATA.
    Sata,
}

/// Speed and width of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkMode {
    /// Million transfers (bits on the wire) per second and lane: 16000 for 16 GT/s.
    pub speed_mts: u32,
    /// Lanes.
    pub lanes: u32,
}

/// An interrupt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Irq {
    /// Number.
    pub number: u32,
    /// Its driver's name for it, such as `nvme0q1`.
    pub name: String,
    /// CPUs that it is delivered to (effective affinity); empty if unknown, or while it is not in use.
    pub cpus: Vec<u32>,
}

/// A block device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    /// Kernel name.
    pub name: String,
    /// What it is.
    pub kind: VolumeKind,
    /// Model of a disk, name of a mapped device, level of an array, file of a loop device; may be empty.
    pub label: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Names of the block devices that it is on; empty for a disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Where it is mounted; `[SWAP]` for swap space.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// CPUs mapped to each hardware queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<Vec<u32>>,
}

/// What a [`Volume`] is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VolumeKind {
    /// A whole disk, or another device that is on no block device, such as zram.
    #[default]
    Disk,
    /// A partition.
    Partition,
    /// Device mapper: LVM, dm-crypt, multipath.
    Mapped,
    /// Linux software RAID.
    Raid,
    /// A file as a block device.
    Loop,
}

impl Topology {
    /// Calls `visit` for every hop, parents first.
    pub fn each<'a>(&'a self, visit: &mut impl FnMut(&'a Hop)) {
        self.roots.iter().for_each(|root| root.each(visit));
    }

    /// The block device of this name.
    pub fn volume(&self, name: &str) -> Option<&Volume> {
        self.volumes.iter().find(|volume| volume.name == name)
    }

    /// Block devices on the one of this name: its partitions and stacked devices.
    pub fn users<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Volume> {
        self.volumes.iter().filter(move |volume| volume.members.iter().any(|on| on == name))
    }

    /// Keeps these block devices, everything stacked on or under them, and the devices upstream. Returns the names that
    /// are not block devices.
    pub fn keep(&mut self, names: &[String]) -> Vec<String> {
        let (known, unknown): (Vec<String>, Vec<String>) =
            names.iter().cloned().partition(|name| self.volume(name).is_some());
        let below = self.stack(known.clone());
        let above = closure(known, |name| self.users(name).map(|user| user.name.clone()).collect());
        let kept = [&below, &above];
        self.volumes.retain(|volume| kept.iter().any(|kept| kept.contains(&volume.name)));
        self.roots.retain_mut(|root| root.keep(&below));
        unknown
    }

    /// The whole disks that the block device of this name is on; itself if it is one.
    pub fn disks_under(&self, name: &str) -> Vec<String> {
        let mut all = self.stack(vec![name.to_string()]);
        all.retain(|name| self.volume(name).is_none_or(|volume| volume.members.is_empty()));
        all
    }

    /// These block devices and all that they are on.
    fn stack(&self, names: Vec<String>) -> Vec<String> {
        let members = |name: &str| self.volume(name).map(|v| v.members.clone()).unwrap_or_default();
        closure(names, members)
    }
}

/// `names` and all that can be reached from them.
fn closure(names: Vec<String>, next: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    let mut all = names;
    let mut at = 0;
    while let Some(name) = all.get(at) {
        let new = next(name);
        for name in new {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        at += 1;
    }
    all
}

impl Hop {
    /// Calls `visit` for this hop and every one below it, parents first.
    pub fn each<'a>(&'a self, visit: &mut impl FnMut(&'a Hop)) {
        visit(self);
        self.children.iter().for_each(|child| child.each(visit));
    }

    /// Names of the disks at and below it.
    pub fn disks_below(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.each(&mut |hop| names.extend(hop.disks.iter().map(String::as_str)));
        names
    }

    /// Keeps these disks and what is above them; whether anything is left.
    fn keep(&mut self, disks: &[String]) -> bool {
        self.disks.retain(|disk| disks.contains(disk));
        self.children.retain_mut(|child| child.keep(disks));
        !self.disks.is_empty() || !self.children.is_empty()
    }
}
