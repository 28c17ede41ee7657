//! Traces of the block layer, as `blktrace` writes them (linux/blktrace_api.h).

use super::{Builder, DEPTH_MAX};
use crate::sources::Sources;
use fathom_model::Dir;
use fathom_model::plan::TraceOp;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
pub const RECORD: usize = 48;
const SECTOR: u64 = 512;
/// Categories, in the upper half of an action.
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
/// Actions, in its lower half.
const QUEUED: u32 = 1;
const MERGED: std::ops::RangeInclusive<u32> = 2..=3;
const COMPLETED: u32 = 8;

/// The order of the bytes in numbers.
#[derive(Clone, Copy, PartialEq)]
pub enum Endian {
    Little,
    Big,
}

struct Record<'a>(&'a [u8], Endian);

/// Widths of a record's numbers, and where its time and the length of the data after it are.
const WIDTHS: [usize; 11] = [4, 4, 8, 8, 4, 4, 4, 4, 4, 2, 2];
const TIME: std::ops::Range<usize> = 8..16;
const DATA: std::ops::Range<usize> = 46..48;

impl Record<'_> {
    /// In this machine's order of bytes.
    fn native(&self) -> [u8; RECORD] {
        let mut record = [0; RECORD];
        record.copy_from_slice(self.0);
        let mut rest = record.as_mut_slice();
        for width in
            WIDTHS.iter().filter(|_| (self.1 == Endian::Little) != cfg!(target_endian = "little"))
        {
            let (number, after) = rest.split_at_mut(*width);
            number.reverse();
            rest = after;
        }
        record
    }

    fn u32(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.0[at..at + 4]);
        match self.1 {
            Endian::Little => u32::from_le_bytes(bytes),
            Endian::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u64(&self, at: usize) -> u64 {
        let (first, second) = (u64::from(self.u32(at)), u64::from(self.u32(at + 4)));
        match self.1 {
            Endian::Little => second << 32 | first,
            Endian::Big => first << 32 | second,
        }
    }

    fn u16(&self, at: usize) -> u16 {
        let bytes = [self.0[at], self.0[at + 1]];
        match self.1 {
            Endian::Little => u16::from_le_bytes(bytes),
            Endian::Big => u16::from_be_bytes(bytes),
        }
    }
}

/// The order of bytes of a trace of blktrace, if it is one.
pub fn order(bytes: &[u8]) -> Option<Endian> {
    let head = bytes.get(..RECORD)?;
    let is = |order: &Endian| Record(head, *order).u32(0) & !0xff == MAGIC;
    [Endian::Little, Endian::Big].into_iter().find(is)
}

/// The requests that a trace of blktrace queued, with their times.
pub fn queued(bytes: &[u8]) -> Option<Vec<(u64, [u8; RECORD])>> {
    let order = order(bytes)?;
    let (mut rest, mut found) = (bytes, Vec::new());
    while let Some(record) = rest.get(..RECORD).map(|bytes| Record(bytes, order)) {
        let action = record.u32(28);
        if action & NOTIFY == 0 && action & 0xffff == QUEUED {
            found.push((record.u64(8), record.native()));
        }
        rest = rest.get(RECORD + usize::from(record.u16(46))..).unwrap_or_default();
    }
    Some(found)
}

/// A trace of these records in the order of their times, without the data after each.
pub fn written(mut records: Vec<(u64, [u8; RECORD])>) -> Vec<u8> {
    records.sort_by_key(|record| record.0);
    let mut bytes = Vec::with_capacity(records.len() * RECORD);
    for (at_ns, mut record) in records {
        record[TIME].copy_from_slice(&at_ns.to_ne_bytes());
        record[DATA].fill(0);
        bytes.extend(record);
    }
    bytes
}

pub fn parse(
    bytes: &[u8],
    order: Endian,
    sources: &dyn Sources,
    builder: &mut Builder<'_>,
) -> Result<(), String> {
    let mut devices: HashMap<u32, String> = HashMap::new();
    let (mut depth, mut most) = (0_u32, 1);
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let cut = || format!("cut off in the record at byte {at}");
        let record = Record(rest.get(..RECORD).ok_or_else(cut)?, order);
        if record.u32(0) != MAGIC | VERSION {
            return Err(format!("no record of blktrace (version {VERSION}) at byte {at}"));
        }
        let (time_ns, offset) = (record.u64(8), record.u64(16).saturating_mul(SECTOR));
        let (len, action, device) = (record.u32(24), record.u32(28), record.u32(36));
        let data = usize::from(record.u16(46));
        rest = rest.get(RECORD + data..).ok_or_else(cut)?;
        if action & NOTIFY != 0 {
            continue;
        }
        match action & 0xffff {
            QUEUED => depth += 1,
            what if what == COMPLETED || MERGED.contains(&what) => {
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        most = depth.clamp(most, DEPTH_MAX.max(most));
        if action & 0xffff != QUEUED {
            continue;
        }
        let path = match devices.entry(device) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let redirect = builder.how.redirect.clone();
                new.insert(redirect.map_or_else(|| name(device, sources), Ok)?)
            }
        };
        let mut add = |op, len: u32| builder.event(time_ns, op, path, offset, len.into());
        match action {
            _ if action & DISCARD != 0 => add(TraceOp::Io(Dir::Trim), len)?,
            _ if action & FLUSH != 0 => {
                add(TraceOp::Fsync, 0)?;
                add(TraceOp::Io(Dir::Write), len)?;
            }
            _ if action & WRITE != 0 => add(TraceOp::Io(Dir::Write), len)?,
            _ => add(TraceOp::Io(Dir::Read), len)?,
        }
    }
    builder.trace.depth = Some(most);
    Ok(())
}

/// The path of the device with a number as the kernel has it: 20 bits for the minor number.
fn name(device: u32, sources: &dyn Sources) -> Result<String, String> {
    let (major, minor) = (device >> 20, device & 0xf_ffff);
    let path = format!("/sys/dev/block/{major}:{minor}/uevent");
    let text = sources.read(&path, 4096).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let name = text.lines().find_map(|line| line.strip_prefix("DEVNAME="));
    name.map(|name| format!("/dev/{name}")).ok_or_else(|| {
        format!("this machine has no device {major}:{minor}; name another with replay_redirect")
    })
}
