//! Zones of block devices: what the kernel reports, and commands for zones.

use super::{Zone, ZoneKind};
use crate::error::{EngineError, Operation};
use crate::files::{FileKind, OpenFile};
use crate::nvme::Command;
use fathom_model::plan::ZoneRules;
use std::io;
use std::os::fd::RawFd;

// Of linux/blkzoned.h.
const BLKREPORTZONE: libc::c_ulong = 0xc010_1282;
const BLKRESETZONE: libc::c_ulong = 0x4010_1283;
const BLKGETZONESZ: libc::c_ulong = 0x8004_1284;
const BLKFINISHZONE: libc::c_ulong = 0x4010_1288;
const HAS_CAPACITY: u32 = 1;
// Zone Management Send and Receive, and the actions that they send (NVMe Zoned Namespace Command Set Specification).
const ZONE_SEND: u8 = 0x79;
const ZONE_RECEIVE: u8 = 0x7a;
const FINISH: u32 = 2;
const RESET: u32 = 4;
/// Reports as many zones as fit.
const PARTIAL: u32 = 1 << 16;
const SECTOR: u64 = 512;
/// Zones of one report.
const CHUNK: usize = 1024;

/// `struct blk_zone`, in sectors.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct RawZone {
    start: u64,
    len: u64,
    pointer: u64,
    kind: u8,
    condition: u8,
    others: [u8; 6],
    capacity: u64,
    reserved: [u8; 24],
}

/// `struct blk_zone_report`, with room for the zones that follow it.
#[repr(C)]
struct RawReport {
    sector: u64,
    count: u32,
    flags: u32,
    zones: [RawZone; CHUNK],
}

/// Words of 8 bytes of a zone's descriptor, and of the header before the first.
const DESCRIPTOR: usize = 8;
const NVME_CHUNK: usize = 255;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reported {
    pub start: u64,
    pub capacity: u64,
    pub pointer: u64,
    pub kind: ZoneKind,
    pub is_open: bool,
}

impl RawZone {
    fn read(&self, has_capacity: bool) -> Reported {
        let (start, len) = (self.start * SECTOR, self.len * SECTOR);
        let capacity = if has_capacity { self.capacity * SECTOR } else { len };
        // Conditions: 0 no pointer, 1 empty, 2 and 3 open, 4 closed, 13 read-only, 14 full, 15 offline.
        let kind = match (self.kind, self.condition) {
            (_, 15) => ZoneKind::Offline,
            (1, _) => ZoneKind::Conventional,
            (_, 13) => ZoneKind::ReadOnly,
            _ => ZoneKind::Sequential,
        };
        let pointer = match (kind, self.condition) {
            (ZoneKind::Offline, _) | (_, 1) => start,
            // The pointer of a read-only zone is not valid: its data is read where it was written.
            (ZoneKind::Conventional | ZoneKind::ReadOnly, _) | (_, 14) => start + capacity,
            _ => self.pointer.saturating_mul(SECTOR).clamp(start, start + capacity),
        };
        let is_open = kind == ZoneKind::Sequential && matches!(self.condition, 2..=4);
        Reported { start, capacity, pointer, kind, is_open }
    }
}

/// The zones of `file` up to `end`, and whether they are the device's; where it has none, empty ones as `rules` say.
pub(super) fn report(
    file: Option<&OpenFile>,
    rules: &ZoneRules,
    end: u64,
) -> Result<(bool, Vec<Reported>), EngineError> {
    let Some(file) = file.filter(|file| is_zoned(file, rules.zone_bytes)) else {
        let zone = |number: u64| Reported {
            start: number * rules.zone_bytes,
            capacity: rules.capacity,
            pointer: number * rules.zone_bytes,
            kind: ZoneKind::Sequential,
            is_open: false,
        };
        return Ok((false, (0..end.div_ceil(rules.zone_bytes)).map(zone).collect()));
    };
    let failed = |error| EngineError::by_kernel(Operation::ReportZones, &error).on(&file.path);
    let mut zones = Vec::new();
    let mut from = 0;
    while from < end {
        let of = (file.raw(), file.kind);
        let (some, next) = report_from(of, from, rules.zone_bytes).map_err(failed)?;
        if next <= from {
            return Err(EngineError::new(Operation::ReportZones).errno(libc::EIO).on(&file.path));
        }
        zones.extend(some);
        from = next;
    }
    Ok((true, zones))
}

/// Zones from the one at byte `from` on, and where the next one begins.
fn report_from(
    (fd, kind): (RawFd, FileKind),
    from: u64,
    zone_bytes: u64,
) -> io::Result<(Vec<Reported>, u64)> {
    if let FileKind::NvmeGeneric { nsid, lba_bytes, .. } = kind {
        return report_nvme(fd, nsid, u64::from(lba_bytes.max(1)), from, zone_bytes);
    }
    let mut report = Box::new(RawReport {
        sector: from / SECTOR,
        count: CHUNK as u32,
        flags: 0,
        zones: [RawZone::default(); CHUNK],
    });
    // SAFETY: the kernel writes at most `count` zones behind the header, for which there is room.
    if unsafe { libc::ioctl(fd, BLKREPORTZONE, &raw mut *report) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let zones = &report.zones[..(report.count as usize).min(CHUNK)];
    let next = zones.last().map_or(from, |zone| (zone.start + zone.len) * SECTOR);
    Ok((zones.iter().map(|zone| zone.read(report.flags & HAS_CAPACITY != 0)).collect(), next))
}

/// The same of an NVMe namespace.
fn report_nvme(
    fd: RawFd,
    nsid: u32,
    lba_bytes: u64,
    from: u64,
    zone_bytes: u64,
) -> io::Result<(Vec<Reported>, u64)> {
    let mut words = vec![0_u64; DESCRIPTOR * (1 + NVME_CHUNK)];
    let mut command = zone_command(ZONE_RECEIVE, nsid, from / lba_bytes, PARTIAL);
    command.dwords[2] = (words.len() * 2 - 1) as u32;
    command.send(fd, &mut words)?;
    let count = (words[0] as usize).min(NVME_CHUNK);
    let descriptors = words[DESCRIPTOR..].chunks_exact(DESCRIPTOR).take(count);
    let zones = descriptors.map(|words| described(words, lba_bytes, zone_bytes));
    let zones: Vec<Reported> = zones.collect();
    let next = zones.last().map_or(from, |zone| zone.start + zone_bytes);
    Ok((zones, next))
}

/// A zone by its descriptor.
fn described(words: &[u64], lba_bytes: u64, zone_bytes: u64) -> Reported {
    let sectors = |lbas: u64| lbas.saturating_mul(lba_bytes) / SECTOR;
    let raw = RawZone {
        start: sectors(words[2]),
        len: zone_bytes / SECTOR,
        pointer: sectors(words[3]),
        kind: words[0] as u8 & 0xf,
        condition: (words[0] >> 12) as u8 & 0xf,
        capacity: sectors(words[1]),
        ..RawZone::default()
    };
    raw.read(true)
}

fn zone_command(opcode: u8, nsid: u32, lba: u64, action: u32) -> Command {
    Command::new(opcode, nsid, [lba as u32, (lba >> 32) as u32, 0, action, 0, 0])
}

fn is_zoned(file: &OpenFile, zone_bytes: u64) -> bool {
    if let FileKind::NvmeGeneric { .. } = file.kind {
        let first = report_from((file.raw(), file.kind), 0, zone_bytes);
        // Any other error recurs when all zones are read.
        return !first.is_err_and(|error| error.raw_os_error() == Some(libc::EOPNOTSUPP));
    }
    let mut sectors = 0_u32;
    matches!(file.kind, FileKind::Block { .. })
        // SAFETY: the kernel writes one number.
        && unsafe { libc::ioctl(file.raw(), BLKGETZONESZ, &raw mut sectors) } == 0
        && sectors > 0
}

pub(super) fn pointer(of: (RawFd, FileKind), zone: &Zone, zone_bytes: u64) -> Option<u64> {
    let (zones, _) = report_from(of, zone.start, zone_bytes).ok()?;
    zones.first().map(|zone| zone.pointer)
}

pub(super) fn reset(of: (RawFd, FileKind), zone: &Zone, zone_bytes: u64) -> io::Result<()> {
    command(of, (BLKRESETZONE, RESET), zone, zone_bytes)
}

pub(super) fn finish(of: (RawFd, FileKind), zone: &Zone, zone_bytes: u64) -> io::Result<()> {
    command(of, (BLKFINISHZONE, FINISH), zone, zone_bytes)
}

/// What a block device and what an NVMe namespace calls an action on a zone.
fn command(
    (fd, kind): (RawFd, FileKind),
    (ioctl, action): (libc::c_ulong, u32),
    zone: &Zone,
    zone_bytes: u64,
) -> io::Result<()> {
    if let FileKind::NvmeGeneric { nsid, lba_bytes, .. } = kind {
        let lba = zone.start / u64::from(lba_bytes.max(1));
        return zone_command(ZONE_SEND, nsid, lba, action).send(fd, &mut []);
    }
    let range = [zone.start / SECTOR, zone_bytes / SECTOR];
    // SAFETY: the kernel reads two numbers.
    match unsafe { libc::ioctl(fd, ioctl, range.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_zones() {
        let zone = |kind, condition| {
            let raw = RawZone {
                start: 8,
                len: 8,
                pointer: 10,
                kind,
                condition,
                capacity: 6,
                ..RawZone::default()
            };
            raw.read(true)
        };
        let seen = |kind, condition| {
            let Reported { pointer, kind, is_open, .. } = zone(kind, condition);
            (pointer / SECTOR, kind, is_open)
        };
        assert_eq!(seen(2, 1), (8, ZoneKind::Sequential, false));
        assert_eq!(seen(2, 2), (10, ZoneKind::Sequential, true));
        assert_eq!(seen(2, 4), (10, ZoneKind::Sequential, true));
        assert_eq!(seen(2, 14), (14, ZoneKind::Sequential, false));
        assert_eq!(seen(2, 13), (14, ZoneKind::ReadOnly, false));
        assert_eq!(seen(2, 15), (8, ZoneKind::Offline, false));
        assert_eq!(seen(1, 0), (14, ZoneKind::Conventional, false));
        assert_eq!((size_of::<RawZone>(), std::mem::offset_of!(RawReport, zones)), (64, 16));
    }

    #[test]
    fn descriptors_of_nvme_zones() {
        // Sequential, implicitly open; capacity, first block and pointer in blocks of 4 KiB.
        let open = described(&[2 | 2 << 12, 6, 8, 10, 0, 0, 0, 0], 4096, 8 << 12);
        let wanted = Reported {
            start: 8 << 12,
            capacity: 6 << 12,
            pointer: 10 << 12,
            kind: ZoneKind::Sequential,
            is_open: true,
        };
        assert_eq!(open, wanted);
        // The pointer of a full zone is not valid.
        let full = described(&[2 | 14 << 12, 6, 8, u64::MAX, 0, 0, 0, 0], 4096, 8 << 12);
        assert_eq!((full.pointer, full.is_open), (14 << 12, false));
        let reset = zone_command(ZONE_SEND, 3, 5 << 32 | 7, RESET);
        assert_eq!((reset.opcode, reset.nsid, reset.dwords), (0x79, 3, [7, 5, 0, 4, 0, 0]));
    }
}
