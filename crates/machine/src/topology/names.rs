//! Names of PCI devices, from the PCI ID database (pci.ids(5), <https://pci-ids.ucw.cz>).

use std::collections::HashMap;

/// Parts of vendors' names that distinguish nothing.
const IDLE: [&str; 12] = [
    "Corporation",
    "Corp.",
    "Corp",
    "Inc.",
    "Inc",
    "Co.,",
    "Co.",
    "Co",
    "Ltd.",
    "Ltd",
    "Limited",
    "Technology",
];

/// The database, unparsed but for the places of its vendors: a lookup reads the lines of one vendor.
pub(super) struct PciNames<'a> {
    vendors: HashMap<u16, (&'a str, &'a str)>,
}

impl<'a> PciNames<'a> {
    pub fn new(database: &'a [u8]) -> Self {
        let text = std::str::from_utf8(database).unwrap_or_default();
        let mut vendors = HashMap::new();
        let mut rest = text;
        while let Some((line, after)) = rest.split_once('\n') {
            rest = after;
            // Classes come last: `C 01  Mass storage controller`.
            if line.starts_with("C ") {
                break;
            }
            if let Some((id, name)) = entry(line) {
                vendors.insert(id, (name, after));
            }
        }
        Self { vendors }
    }

    pub fn device(&self, vendor: u16, device: u16, class: u32) -> String {
        let Some((name, lines)) = self.vendors.get(&vendor) else {
            return format!("{} [{vendor:04x}:{device:04x}]", class_name(class));
        };
        let own = lines.lines().take_while(|line| line.starts_with(['\t', '#']) || line.is_empty());
        let mut devices = own.filter_map(|line| line.strip_prefix('\t').and_then(entry));
        match devices.find(|(id, _)| *id == device) {
            Some((_, device)) => format!("{} {device}", short(name)),
            None => {
                format!("{} {} [{vendor:04x}:{device:04x}]", short(name), class_name(class))
            }
        }
    }
}

/// `144d  Samsung Electronics Co Ltd`; lines of subsystems begin with another tab.
fn entry(line: &str) -> Option<(u16, &str)> {
    let (id, name) = line.split_once("  ")?;
    (id.len() == 4).then_some(())?;
    Some((u16::from_str_radix(id, 16).ok()?, name.trim()))
}

/// A vendor's name without its legal form: the part in brackets if there is one.
fn short(vendor: &str) -> String {
    let bracketed = vendor.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let name = bracketed.map_or(vendor, |(name, _)| name);
    let words = name.split_whitespace().filter(|word| !IDLE.contains(&word.trim_end_matches(',')));
    words.map(|word| word.trim_end_matches(',')).collect::<Vec<_>>().join(" ")
}

/// Class names (PCI Code and ID Assignment Specification), of what has a part in storage.
fn class_name(class: u32) -> &'static str {
    match (class >> 16, class >> 8) {
        (_, 0x0101) => "IDE controller",
        (_, 0x0104) => "RAID controller",
        (_, 0x0106) => "SATA controller",
        (_, 0x0107) => "SAS controller",
        (_, 0x0108) => "NVMe controller",
        (0x01, _) => "storage controller",
        (0x02, _) => "network adapter",
        (0x03, _) => "display adapter",
        (_, 0x0604) => "PCI bridge",
        (0x06, _) => "bridge",
        (_, 0x0c03) => "USB controller",
        (_, 0x0c04) => "Fibre Channel controller",
        (_, 0x0c06) => "InfiniBand adapter",
        (0x12, _) => "accelerator",
        _ => "device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# comment\n\
0e11  Compaq Computer Corporation\n\t0001  PCI to EISA Bridge\n\
1022  Advanced Micro Devices, Inc. [AMD]\n\t1483  Starship/Matisse GPP Bridge\n\t\t1022 1483  Subsystem\n\
144d  Samsung Electronics Co Ltd\n\ta80a  NVMe SSD Controller PM9A1/PM9A3/980PRO\n\
C 01  Mass storage controller\n\t08  Non-Volatile memory controller\n";

    #[test]
    fn devices_have_short_names() {
        let names = PciNames::new(TEXT.as_bytes());
        let name = |vendor, device| names.device(vendor, device, 0x01_0802);
        assert_eq!(name(0x1022, 0x1483), "AMD Starship/Matisse GPP Bridge");
        assert_eq!(
            name(0x144d, 0xa80a),
            "Samsung Electronics NVMe SSD Controller PM9A1/PM9A3/980PRO"
        );
        assert_eq!(name(0x144d, 0xffff), "Samsung Electronics NVMe controller [144d:ffff]");
        assert_eq!(name(0x1234, 1), "NVMe controller [1234:0001]");
        // A device of the vendor that follows is not taken for this one's.
        assert_eq!(name(0x0e11, 0x1483), "Compaq Computer NVMe controller [0e11:1483]");
    }

    #[test]
    fn any_bytes_are_a_database() {
        for bytes in [&b""[..], b"\xff\xfe", b"144d  \n\t\n", b"144d  X", b"\n\n\t\t\n"] {
            assert_eq!(PciNames::new(bytes).device(1, 2, 0x02_0000), "network adapter [0001:0002]");
        }
    }
}
