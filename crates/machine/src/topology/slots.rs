//! Names of slots: as printed on the board (SMBIOS), from firmware (`label`), or numbers of hot-plug slots.

use super::pci;
use fathom_model::topology::{Hop, HopKind};
use fathom_sys::roots::{Roots, entries, text};
use std::path::PathBuf;

/// Type of a structure that describes a slot (SMBIOS Reference Specification, 7.10 System Slots).
const SYSTEM_SLOT: u8 = 9;
const DESIGNATION: usize = 0x04;
const SEGMENT: usize = 0x0d;
const STRUCTURES_MAX: usize = 4096;

/// Sets the slot of each port, or of a function where its port is not known.
pub(super) fn name(roots: &Roots, hops: &mut [Hop]) {
    let dir = roots.sys.join("bus/pci/slots");
    let hot_plug = entries(&dir).into_iter().filter_map(|name| {
        // `0000:41:00`: the bus behind the slot's port.
        let address = text(dir.join(&name).join("address"))?;
        Some((address, name))
    });
    let table = std::fs::read(roots.sys.join("firmware/dmi/tables/DMI")).unwrap_or_default();
    let names = SlotNames {
        functions: roots.sys.join("bus/pci/devices"),
        hot_plug: hot_plug.collect(),
        board: board_slots(&table),
    };
    hops.iter_mut().for_each(|hop| names.apply(hop, None));
}

struct SlotNames {
    functions: PathBuf,
    /// Address without the function, and name.
    hot_plug: Vec<(String, String)>,
    board: Vec<(String, String)>,
}

impl SlotNames {
    /// Names the slots at and below `hop`; that of a function whose port is `above` it is the port's.
    fn apply(&self, hop: &mut Hop, above: Option<HopKind>) {
        if pci::is_function(&hop.name) {
            let faces_down = hop.kind.faces_down();
            hop.slot = self.board_name(&hop.name).or_else(|| self.hot_plug_name(hop));
            if faces_down && hop.slot.is_none() {
                hop.slot = hop.children.iter().find_map(|child| self.board_name(&child.name));
            }
            if !faces_down && above.is_some_and(HopKind::faces_down) {
                hop.slot = None;
            }
        }
        let kind = hop.kind;
        hop.children.iter_mut().for_each(|child| self.apply(child, Some(kind)));
    }

    fn board_name(&self, address: &str) -> Option<String> {
        let found = self.board.iter().find(|(own, _)| own == address);
        let label = || text(self.functions.join(address).join("label"));
        found.map(|(_, name)| name.clone()).or_else(label)
    }

    fn hot_plug_name(&self, hop: &Hop) -> Option<String> {
        let domain = hop.name.split(':').next()?;
        let behind = pci::secondary_bus(&self.functions.join(&hop.name))
            .map(|bus| format!("{domain}:{bus:02x}:00"));
        let own = hop.name.rsplit_once('.').map(|(own, _)| own.to_string());
        let is_it = |address: &String| match &behind {
            Some(behind) => address == behind,
            None => Some(address) == own.as_ref(),
        };
        let (_, name) = self.hot_plug.iter().find(|(address, _)| is_it(address))?;
        // Most are numbers.
        Some(if name.starts_with(|c: char| c.is_ascii_digit()) {
            format!("slot {name}")
        } else {
            name.clone()
        })
    }
}

fn board_slots(table: &[u8]) -> Vec<(String, String)> {
    let mut slots = Vec::new();
    let mut rest = table;
    for _ in 0..STRUCTURES_MAX {
        let Some(&[kind, length, ..]) = rest.get(..4) else { break };
        let Some(fixed) = rest.get(..usize::from(length)).filter(|fixed| fixed.len() >= 4) else {
            break;
        };
        let strings = &rest[fixed.len()..];
        // Two zero bytes end the strings, also where there are none.
        let Some(end) = strings.windows(2).position(|pair| pair == [0, 0]) else { break };
        if kind == SYSTEM_SLOT {
            slots.extend(slot(fixed, &strings[..end]));
        }
        rest = &strings[end + 2..];
    }
    slots
}

fn slot(fixed: &[u8], strings: &[u8]) -> Option<(String, String)> {
    let number = usize::from(*fixed.get(DESIGNATION)?).checked_sub(1)?;
    let name = strings.split(|byte| *byte == 0).nth(number)?;
    let name = String::from_utf8_lossy(name).trim().to_string();
    let &[low, high, bus, function] = fixed.get(SEGMENT..SEGMENT + 4)? else { return None };
    // All ones where the slot is empty or is none of PCI's.
    let known = !name.is_empty() && (bus, function) != (0xff, 0xff);
    let segment = u16::from_le_bytes([low, high]);
    known.then(|| {
        (format!("{segment:04x}:{bus:02x}:{:02x}.{:x}", function >> 3, function & 7), name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure(kind: u8, address: [u8; 4], strings: &[u8]) -> Vec<u8> {
        let mut fixed = vec![kind, 17, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        fixed.extend(address);
        fixed.extend(strings);
        fixed.extend([0, 0]);
        fixed
    }

    #[test]
    fn slots_of_an_smbios_table() {
        let mut table = structure(1, [0; 4], b"Maker\0Board");
        table.extend(structure(SYSTEM_SLOT, [0, 0, 0x40, 0x0b], b"PCIEX16_1"));
        table.extend(structure(SYSTEM_SLOT, [0, 0, 0xff, 0xff], b"PCIEX16_2"));
        table.extend(structure(SYSTEM_SLOT, [0, 0, 0x20, 0x09], b""));
        table.extend(structure(127, [0; 4], b""));
        let wanted = [("0000:40:01.3".to_string(), "PCIEX16_1".to_string())];
        assert_eq!(board_slots(&table), wanted);
        for length in 0..table.len() {
            assert!(board_slots(&table[..length]).len() <= 1, "{length}");
        }
        assert_eq!(board_slots(&[SYSTEM_SLOT, 0, 0, 0, 0, 0]), []);
    }
}
