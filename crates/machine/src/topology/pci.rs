//! PCI functions in sysfs (Documentation/ABI/testing/sysfs-bus-pci) and their configuration space.

use super::name_of;
use super::names::PciNames;
use fathom_model::topology::{Hop, HopKind, Link, LinkMode, LinkStandard};
use fathom_sys::roots::{number, text};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Offsets in configuration space and values (PCI Express Base Specification, chapter 7; pci_regs.h).
const STATUS: usize = 0x06;
const HAS_CAPABILITIES: u8 = 0x10;
const FIRST_CAPABILITY: usize = 0x34;
const PCI_EXPRESS: u8 = 0x10;
const CONFIGURATION_BYTES: u64 = 256;
/// No more capabilities fit in 256 bytes.
const CAPABILITIES_MAX: usize = 48;
/// Class of bridges between PCI buses, without the interface.
const PCI_BRIDGE: u32 = 0x0604;

/// Whether a directory of sysfs is a PCI function's: `0000:41:00.0`.
pub(super) fn is_function(name: &str) -> bool {
    let mut parts = name.split([':', '.']);
    let mut hex = |digits: std::ops::RangeInclusive<usize>| {
        parts.next().is_some_and(|part| {
            digits.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    // VMD's domains have more than four digits.
    hex(4..=8) && hex(2..=2) && hex(2..=2) && hex(1..=1) && parts.next().is_none()
}

/// Whether it is that of a root bus: `pci0000:40`.
pub(super) fn is_root_bus(name: &str) -> bool {
    let number = name.strip_prefix("pci").and_then(|number| number.split_once(':'));
    number.is_some_and(|(domain, bus)| {
        domain.len() >= 4 && bus.len() == 2 && [domain, bus].iter().all(|hex| is_hex(hex))
    })
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The function in `dir`, below a hop of kind `parent`, without its children.
pub(super) fn function(dir: &Path, parent: HopKind, names: &PciNames<'_>) -> Hop {
    let hex = |name: &str| {
        let text = text(dir.join(name))?;
        u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let id = |name: &str| hex(name).and_then(|id| u16::try_from(id).ok()).unwrap_or(0);
    let class = hex("class");
    let link = link(dir);
    // What it says matters of links and bridges only, and where a hypervisor emulates it, reading it takes 1 ms.
    let is_bridge = class.is_some_and(|class| class >> 8 == PCI_BRIDGE);
    let express = (link.is_some() || is_bridge).then(|| capability(&configuration(dir))).flatten();
    let kind = match (express.map(|express| express.port), class.map(|class| class >> 8)) {
        (Some(kind), _) if kind != HopKind::Bridge => kind,
        (None, Some(PCI_BRIDGE)) if link.is_some() => port_below(parent),
        (_, Some(PCI_BRIDGE)) => HopKind::Bridge,
        _ => HopKind::Function,
    };
    Hop {
        name: name_of(dir),
        kind,
        label: names.device(id("vendor"), id("device"), class.unwrap_or(0)),
        class,
        numa_node: number::<i64>(dir.join("numa_node")).and_then(|node| u32::try_from(node).ok()),
        slot: None,
        link,
        payload_max_bytes: express.and_then(|express| express.payload_max_bytes),
        ..Hop::default()
    }
}

pub(super) fn secondary_bus(dir: &Path) -> Option<u8> {
    number(dir.join("secondary_bus_number"))
}

/// What a bridge with a link is where its configuration space cannot be read: ports of a switch alternate.
fn port_below(parent: HopKind) -> HopKind {
    match parent {
        HopKind::RootComplex => HopKind::RootPort,
        HopKind::SwitchUpstream => HopKind::SwitchDownstream,
        HopKind::RootPort | HopKind::SwitchDownstream => HopKind::SwitchUpstream,
        _ => HopKind::Bridge,
    }
}

fn link(dir: &Path) -> Option<Link> {
    let mode = |which: &str| {
        let speed_mts = speed(&text(dir.join(format!("{which}_link_speed")))?)?;
        let lanes: u32 = number(dir.join(format!("{which}_link_width")))?;
        // A port that has no link with 0 lanes; 255 is unknown.
        (1..=32).contains(&lanes).then_some(LinkMode { speed_mts, lanes })
    };
    let best = mode("max")?;
    let current = mode("current")?;
    Some(Link { standard: LinkStandard::Pcie, current, best })
}

/// `16.0 GT/s PCIe` in million transfers per second; `None` for `Unknown`.
fn speed(text: &str) -> Option<u32> {
    let gigatransfers: f64 = text.split(' ').next()?.parse().ok()?;
    (0.1..1000.0).contains(&gigatransfers).then_some((gigatransfers * 1000.0).round() as u32)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Express {
    port: HopKind,
    payload_max_bytes: Option<u32>,
}

/// The first 256 bytes of a function's configuration space; PCI Express extends it to 4 KiB.
fn configuration(dir: &Path) -> Vec<u8> {
    let mut config = Vec::new();
    if let Ok(file) = File::open(dir.join("config")) {
        // What was read before an error is as good as what only root can read.
        let _ = file.take(CONFIGURATION_BYTES).read_to_end(&mut config);
    }
    config
}

/// The PCI Express capability of a configuration space, of which only root can read more than 64 bytes.
fn capability(config: &[u8]) -> Option<Express> {
    let has_any = config.get(STATUS)? & HAS_CAPABILITIES != 0;
    let mut at = usize::from(*config.get(FIRST_CAPABILITY).filter(|_| has_any)?);
    for _ in 0..CAPABILITIES_MAX {
        at &= !3;
        let header = config.get(at..at + 12).filter(|_| at >= 0x40)?;
        if header[0] == PCI_EXPRESS {
            let port = match header[2] >> 4 {
                0x4 => HopKind::RootPort,
                0x5 => HopKind::SwitchUpstream,
                0x6 => HopKind::SwitchDownstream,
                0x7 | 0x8 => HopKind::Bridge,
                _ => HopKind::Function,
            };
            // Device Control, bits 7:5; values above 5 are reserved.
            let payload = header[8] >> 5 & 7;
            let payload_max_bytes = (payload <= 5).then(|| 128 << payload);
            return Some(Express { port, payload_max_bytes });
        }
        at = usize::from(header[1]);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(port: u8, control: u8) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        bytes[STATUS] = HAS_CAPABILITIES;
        bytes[FIRST_CAPABILITY] = 0x40;
        // Power management, then PCI Express.
        bytes[0x40..0x42].copy_from_slice(&[0x01, 0x70]);
        bytes[0x70..0x74].copy_from_slice(&[PCI_EXPRESS, 0, port << 4 | 2, 0]);
        bytes[0x78] = control;
        bytes
    }

    #[test]
    fn ports_and_payloads_in_configuration_space() {
        let of = |port, control| capability(&config(port, control));
        let is = |port, payload_max_bytes| Some(Express { port, payload_max_bytes });
        assert_eq!(of(4, 0x20), is(HopKind::RootPort, Some(256)));
        assert_eq!(of(5, 0x5f), is(HopKind::SwitchUpstream, Some(512)));
        assert_eq!(of(6, 0x0f), is(HopKind::SwitchDownstream, Some(128)));
        assert_eq!(of(0, 0xe0), is(HopKind::Function, None));
    }

    #[test]
    fn short_or_circular_configuration_space_has_no_capability() {
        let whole = config(4, 0x20);
        for length in 0..=64 {
            assert_eq!(capability(&whole[..length]), None, "{length}");
        }
        let mut circular = whole;
        circular[0x41] = 0x40;
        assert_eq!(capability(&circular), None);
        assert_eq!(capability(&[0xff; 256]), None);
    }

    #[test]
    fn names_and_speeds() {
        assert!(is_function("0000:41:00.0") && is_function("10000:01:00.0"));
        assert!(!is_function("0:0:0:0") && !is_function("0000:41:00.0.1") && !is_function("nvme0"));
        assert!(is_root_bus("pci0000:40") && is_root_bus("pci10000:00"));
        assert!(!is_root_bus("pci_bus") && !is_root_bus("pci0000:4"));
        assert_eq!(speed("16.0 GT/s PCIe"), Some(16_000));
        assert_eq!(speed("2.5 GT/s PCIe"), Some(2500));
        assert_eq!((speed("Unknown"), speed("nan GT/s")), (None, None));
    }
}
