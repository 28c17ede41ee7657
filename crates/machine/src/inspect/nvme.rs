//! What an NVMe controller reports. Offsets are those of the NVM Express Base and NVM Command Set Specifications.

use crate::ioctl::{NvmeRead, nvme_read};
use fathom_model::facts::NvmeMetadata;
use fathom_model::inspection::{
    FirmwareSlots, LbaFormat, NvmeNamespace, NvmeReport, NvmeSmart, PowerState,
};
use std::fs::File;
use std::io;

const LOG_SMART: u8 = 0x02;
const LOG_FIRMWARE: u8 = 0x03;
const FEATURE_POWER: u8 = 0x02;
const FEATURE_WRITE_CACHE: u8 = 0x06;
const FEATURE_AUTONOMOUS: u8 = 0x0C;
/// Units of data counts in the health log: thousands of 512 bytes.
const DATA_UNIT: u64 = 512_000;
const KELVIN: i32 = 273;

/// Queries a controller, such as `nvme0`, about itself and a namespace. Unsupported fields are left empty.
pub(super) fn report(controller: &str, namespace: Option<u32>) -> Result<NvmeReport, String> {
    let path = format!("/dev/{controller}");
    let fail = |error: io::Error| format!("{path}: {}", super::reason(&error));
    let device = File::open(&path).map_err(fail)?;
    let mut page = [0; 4096];
    nvme_read(&device, NvmeRead::Controller, &mut page).map_err(fail)?;
    let mut report = identified(controller, &page);
    let is_autonomous = page[265] & 1 == 1;
    let mut log = [0; 512];
    let read = |what, buffer: &mut [u8]| nvme_read(&device, what, buffer).ok();
    report.smart = read(NvmeRead::Log(LOG_SMART), &mut log).map(|_| smart(&log));
    report.firmware_slots =
        read(NvmeRead::Log(LOG_FIRMWARE), &mut log).map(|_| firmware_slots(&log));
    report.namespace = namespace
        .and_then(|id| read(NvmeRead::Namespace(id), &mut page))
        .map(|_| self::namespace(&page));
    report.power_state = read(NvmeRead::Feature(FEATURE_POWER), &mut []).map(|word| word & 31);
    let is_set = |word: u32| word & 1 == 1;
    if report.has_volatile_cache {
        let cache = read(NvmeRead::Feature(FEATURE_WRITE_CACHE), &mut []);
        report.volatile_cache_enabled = cache.map(is_set);
    }
    if is_autonomous {
        let autonomous = read(NvmeRead::Feature(FEATURE_AUTONOMOUS), &mut [0; 256]);
        report.autonomous_power = autonomous.map(is_set);
    }
    Ok(report)
}

/// For how many seconds a controller has throttled itself so far; `None` if its health log cannot be read.
pub(super) fn throttled_seconds(controller: &str) -> Option<u64> {
    let device = File::open(format!("/dev/{controller}")).ok()?;
    let mut log = [0; 512];
    nvme_read(&device, NvmeRead::Log(LOG_SMART), &mut log).ok()?;
    Some(smart(&log).throttled_seconds())
}

/// What a namespace stores beside each block, by its generic device; `None` if that is nothing or cannot be read.
pub(crate) fn metadata(path: &str, namespace: u32) -> Option<NvmeMetadata> {
    let device = File::open(path).ok()?;
    let mut page = [0; 4096];
    nvme_read(&device, NvmeRead::Namespace(namespace), &mut page).ok()?;
    metadata_of(&page)
}

fn metadata_of(page: &[u8; 4096]) -> Option<NvmeMetadata> {
    let namespace = namespace(page);
    let format = namespace.formats.get(usize::from(namespace.format))?;
    let metadata = NvmeMetadata {
        bytes: format.metadata_bytes,
        protection: page[29] & 7,
        leads: page[29] & 8 != 0,
        extended: page[26] & 16 != 0,
        wide_guard: false,
    };
    (metadata.bytes > 0).then_some(metadata)
}

fn identified(controller: &str, page: &[u8; 4096]) -> NvmeReport {
    let version = u32_at(page, 80);
    let celsius = |kelvin: u16| (kelvin > 0).then(|| i32::from(kelvin) - KELVIN);
    let states = usize::from(page[263]) + 1;
    NvmeReport {
        controller: controller.to_string(),
        serial: ascii(&page[4..24]),
        model: ascii(&page[24..64]),
        firmware: ascii(&page[64..72]),
        version: format!("{}.{}.{}", version >> 16, version >> 8 & 255, version & 255),
        // In units of the smallest page, which is 4 KiB on all machines that Linux runs on with NVMe drives.
        transfer_max_bytes: (page[77] > 0)
            .then(|| 4096_u64.checked_shl(page[77].into()).unwrap_or(u64::MAX)),
        has_volatile_cache: page[525] & 1 == 1,
        warning_celsius: celsius(u16_at(page, 266)),
        critical_celsius: celsius(u16_at(page, 268)),
        power_states: (0..states.min(32))
            .map(|index| power_state(&page[2048 + index * 32..]))
            .collect(),
        ..NvmeReport::default()
    }
}

fn power_state(descriptor: &[u8]) -> PowerState {
    let power = u32::from(u16_at(descriptor, 0));
    // Units of 0.0001 W or 0.01 W.
    let milliwatts = if descriptor[3] & 1 == 1 { power / 10 } else { power * 10 };
    PowerState {
        milliwatts,
        is_operational: descriptor[3] & 2 == 0,
        entry_us: u32_at(descriptor, 4),
        exit_us: u32_at(descriptor, 8),
    }
}

fn smart(log: &[u8; 512]) -> NvmeSmart {
    // Counters have 128 bits.
    let counter = |at: usize| match log[at + 8..at + 16].iter().all(|byte| *byte == 0) {
        true => u64_at(log, at),
        false => u64::MAX,
    };
    NvmeSmart {
        critical_warning: log[0],
        celsius: i32::from(u16_at(log, 1)) - KELVIN,
        spare_percent: log[3],
        spare_threshold_percent: log[4],
        used_percent: log[5],
        read_bytes: counter(32).saturating_mul(DATA_UNIT),
        written_bytes: counter(48).saturating_mul(DATA_UNIT),
        power_on_hours: counter(128),
        unsafe_shutdowns: counter(144),
        media_errors: counter(160),
        error_log_entries: counter(176),
        warning_minutes: u32_at(log, 192),
        critical_minutes: u32_at(log, 196),
        throttle_counts: (u32_at(log, 216), u32_at(log, 220)),
        throttle_seconds: (u32_at(log, 224), u32_at(log, 228)),
    }
}

fn firmware_slots(log: &[u8; 512]) -> FirmwareSlots {
    let (active, next) = (log[0] & 7, log[0] >> 4 & 7);
    let mut revisions: Vec<String> =
        (1..8).map(|slot| ascii(&log[slot * 8..slot * 8 + 8])).collect();
    while revisions.last().is_some_and(String::is_empty) {
        revisions.pop();
    }
    FirmwareSlots { active, next: (next != 0 && next != active).then_some(next), revisions }
}

fn namespace(page: &[u8; 4096]) -> NvmeNamespace {
    let formats = usize::from(page[25]) + 1;
    let format = |index: usize| {
        let at = 128 + index * 4;
        LbaFormat {
            block_bytes: 1_u32.checked_shl(page[at + 2].into()).unwrap_or(0),
            metadata_bytes: u16_at(page, at),
            relative_performance: page[at + 3] & 3,
        }
    };
    NvmeNamespace {
        size_blocks: u64_at(page, 0),
        used_blocks: u64_at(page, 16),
        format: page[26] & 15 | page[26] >> 1 & 0x30,
        formats: (0..formats.min(64)).map(format).collect(),
        is_protected: page[29] & 7 != 0,
        is_write_protected: page[99] & 1 == 1,
        optimal_boundary_blocks: u16_at(page, 46),
    }
}

fn ascii(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_string()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_decoded() {
        let mut page = [0; 4096];
        page[4..24].copy_from_slice(b"S4EV NX0            ");
        page[24..31].copy_from_slice(b"A drive");
        page[64..68].copy_from_slice(b"2B2Q");
        page[77] = 5;
        page[80..84].copy_from_slice(&[0, 4, 1, 0]);
        page[263] = 1;
        page[266..270].copy_from_slice(&[0x66, 1, 0x67, 1]);
        page[525] = 7;
        page[2048..2050].copy_from_slice(&850_u16.to_le_bytes());
        page[2080..2082].copy_from_slice(&500_u16.to_le_bytes());
        page[2083] = 3;
        page[2084..2088].copy_from_slice(&210_u32.to_le_bytes());
        page[2088..2092].copy_from_slice(&1200_u32.to_le_bytes());
        let report = identified("nvme0", &page);
        assert_eq!((report.serial.as_str(), report.model.as_str()), ("S4EV NX0", "A drive"));
        assert_eq!((report.firmware.as_str(), report.version.as_str()), ("2B2Q", "1.4.0"));
        assert_eq!(report.transfer_max_bytes, Some(128 << 10));
        assert_eq!((report.warning_celsius, report.critical_celsius), (Some(85), Some(86)));
        assert!(report.has_volatile_cache);
        assert_eq!(report.power_states[0].milliwatts, 8500);
        let idle =
            PowerState { milliwatts: 50, is_operational: false, entry_us: 210, exit_us: 1200 };
        assert_eq!(report.power_states[1..], [idle]);
    }

    #[test]
    fn the_metadata_of_the_format_in_use_is_decoded() {
        let mut page = [0; 4096];
        (page[25], page[26], page[29]) = (1, 0x11, 0x0a);
        page[132..136].copy_from_slice(&[16, 0, 12, 0]);
        let metadata = NvmeMetadata {
            bytes: 16,
            protection: 2,
            leads: true,
            extended: true,
            wide_guard: false,
        };
        assert_eq!(metadata_of(&page), Some(metadata));
        page[26] = 0;
        assert_eq!(metadata_of(&page), None);
    }

    #[test]
    fn the_health_log_is_decoded() {
        let mut log = [0; 512];
        (log[0], log[3], log[4], log[5]) = (4, 99, 10, 105);
        log[1..3].copy_from_slice(&318_u16.to_le_bytes());
        log[48] = 2;
        log[160] = 3;
        log[184] = 1;
        log[192] = 7;
        (log[216], log[224]) = (4, 9);
        let smart = smart(&log);
        assert_eq!((smart.critical_warning, smart.celsius), (4, 45));
        assert_eq!(
            (smart.spare_percent, smart.spare_threshold_percent, smart.used_percent),
            (99, 10, 105)
        );
        assert_eq!((smart.written_bytes, smart.media_errors), (1_024_000, 3));
        assert_eq!(smart.error_log_entries, u64::MAX, "beyond 64 bits");
        assert_eq!(
            (smart.warning_minutes, smart.throttle_counts, smart.throttle_seconds),
            (7, (4, 0), (9, 0))
        );
    }

    #[test]
    fn a_namespace_and_firmware_slots_are_decoded() {
        let mut page = [0; 4096];
        page[0] = 200;
        page[16] = 100;
        (page[25], page[26], page[29], page[99]) = (1, 1, 1, 1);
        page[128..136].copy_from_slice(&[0, 0, 9, 2, 8, 0, 12, 0]);
        let space = namespace(&page);
        assert_eq!((space.size_blocks, space.used_blocks, space.format), (200, 100, 1));
        let formats = [(512, 0, 2), (4096, 8, 0)].map(
            |(block_bytes, metadata_bytes, relative_performance)| LbaFormat {
                block_bytes,
                metadata_bytes,
                relative_performance,
            },
        );
        assert_eq!(space.formats, formats);
        assert!(space.is_protected && space.is_write_protected);
        let mut log = [0; 512];
        log[0] = 0x21;
        log[8..12].copy_from_slice(b"1.0 ");
        log[16..20].copy_from_slice(b"1.1 ");
        let slots = firmware_slots(&log);
        assert_eq!((slots.active, slots.next), (1, Some(2)));
        assert_eq!(slots.revisions, ["1.0", "1.1"]);
    }
}
