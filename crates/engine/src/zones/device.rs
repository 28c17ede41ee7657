//! Zones of block devices: what the kernel reports, and commands for zones.

use super::{Zone, ZoneKind};
use crate::error::{EngineError, Operation};
use crate::files::{FileKind, OpenFile};
use fathom_model::plan::ZoneRules;
use std::io;
use std::os::fd::RawFd;

// Of linux/blkzoned.h.
const BLKREPORTZONE: libc::c_ulong = 0xc010_1282;
const BLKRESETZONE: libc::c_ulong = 0x4010_1283;
const BLKGETZONESZ: libc::c_ulong = 0x8004_1284;
const BLKFINISHZONE: libc::c_ulong = 0x4010_1288;
const HAS_CAPACITY: u32 = 1;
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
            _ => (self.pointer * SECTOR).clamp(start, start + capacity),
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
    let Some(file) = file.filter(|file| is_zoned(file)) else {
        let zone = |number: u64| Reported {
            start: number * rules.zone_bytes,
            capacity: rules.capacity,
            pointer: number * rules.zone_bytes,
            kind: ZoneKind::Sequential,
            is_open: false,
        };
        return Ok((false, (0..end.div_ceil(rules.zone_bytes)).map(zone).collect()));
    };
    let failed = |_| EngineError::last(Operation::ReportZones).on(&file.path);
    let mut zones = Vec::new();
    let mut from = 0;
    while from < end {
        let (some, next) = report_from(file.raw(), from).map_err(failed)?;
        if next <= from {
            return Err(EngineError::new(Operation::ReportZones).errno(libc::EIO).on(&file.path));
        }
        zones.extend(some);
        from = next;
    }
    Ok((true, zones))
}

/// Zones from the one at byte `from` on, and where the next one begins.
fn report_from(fd: RawFd, from: u64) -> io::Result<(Vec<Reported>, u64)> {
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

fn is_zoned(file: &OpenFile) -> bool {
    let mut sectors = 0_u32;
    matches!(file.kind, FileKind::Block { .. })
        // SAFETY: the kernel writes one number.
        && unsafe { libc::ioctl(file.raw(), BLKGETZONESZ, &raw mut sectors) } == 0
        && sectors > 0
}

pub(super) fn pointer(fd: RawFd, zone: &Zone) -> Option<u64> {
    let (zones, _) = report_from(fd, zone.start).ok()?;
    zones.first().map(|zone| zone.pointer)
}

pub(super) fn reset(fd: RawFd, zone: &Zone, zone_bytes: u64) -> io::Result<()> {
    command(fd, BLKRESETZONE, zone, zone_bytes)
}

pub(super) fn finish(fd: RawFd, zone: &Zone, zone_bytes: u64) -> io::Result<()> {
    command(fd, BLKFINISHZONE, zone, zone_bytes)
}

fn command(fd: RawFd, command: libc::c_ulong, zone: &Zone, zone_bytes: u64) -> io::Result<()> {
    let range = [zone.start / SECTOR, zone_bytes / SECTOR];
    // SAFETY: the kernel reads two numbers.
    match unsafe { libc::ioctl(fd, command, range.as_ptr()) } {
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
}
