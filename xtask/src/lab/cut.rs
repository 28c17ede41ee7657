//! Simulates a power cut of disks with a volatile cache: everything that was neither flushed nor written through is lost. QEMU logs what reaches a disk in the format of the kernel's dm-log-writes.

use super::guest;
use crate::Result;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SECTOR: u64 = 512;
const FLUSH: u64 = 1;
/// Written through (force unit access).
const FUA: u64 = 2;
const DISCARD: u64 = 4;

pub fn log_path(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("nvme{index}.log"))
}

/// The contents of a disk after a power cut at boot.
pub fn base_path(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("nvme{index}.base"))
}

/// Applies a power cut to all disks, after the guest has ended.
pub fn take_back(dir: &Path, disks: usize) -> Result<()> {
    for index in 0..disks {
        let base = base_path(dir, index);
        let log = fs::read(log_path(dir, index))?;
        let file = File::options().write(true).open(&base)?;
        for entry in durable(&log) {
            entry.apply(&log, &file)?;
        }
        let mut copy = Command::new("cp");
        copy.arg("--sparse=always").arg(&base).arg(guest::disk_path(dir, index));
        if !copy.status()?.success() {
            return Err(format!("{}: cannot be copied", base.display()).into());
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
struct Entry {
    flags: u64,
    offset: u64,
    len: u64,
    data: usize,
}

impl Entry {
    fn apply(&self, log: &[u8], disk: &File) -> Result<()> {
        if self.flags & DISCARD != 0 {
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            return Ok(fallocate(disk, how, self.offset, self.len)?);
        }
        let data = log.get(self.data..).and_then(|rest| rest.get(..self.len as usize));
        Ok(disk.write_all_at(data.ok_or("the log of writes is cut short")?, self.offset)?)
    }
}

/// Entries that survive: those before the last flush, and later ones that were written through.
fn durable(log: &[u8]) -> Vec<Entry> {
    let all = entries(log);
    let flushed = all.iter().rposition(|entry| entry.flags & FLUSH != 0).unwrap_or(0);
    let survives = |(index, entry): &(usize, Entry)| {
        entry.len > 0 && (*index < flushed || entry.flags & FUA != 0)
    };
    all.into_iter().enumerate().filter(survives).map(|(_, entry)| entry).collect()
}

/// All complete entries. The number in the log's first sector includes only those before the last flush.
fn entries(log: &[u8]) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut at = SECTOR as usize;
    while let Some(head) = log.get(at..at + 32) {
        let field = |index: usize| {
            head[8 * index..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let (sector, sectors, flags) = (field(0), field(1), field(2));
        if sectors == 0 && flags & FLUSH == 0 {
            break;
        }
        let data = at + SECTOR as usize;
        at = data;
        if flags & DISCARD == 0 {
            at += (sectors * SECTOR) as usize;
        }
        if at > log.len().next_multiple_of(SECTOR as usize) {
            break;
        }
        all.push(Entry { flags, offset: sector * SECTOR, len: sectors * SECTOR, data });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(entries: &[(u64, u64, u64)]) -> Vec<u8> {
        let mut log = vec![0; SECTOR as usize];
        for (sector, sectors, flags) in entries {
            let mut head: Vec<u8> =
                [*sector, *sectors, *flags, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
            head.resize(SECTOR as usize, 0);
            log.extend(head);
            if flags & DISCARD == 0 {
                log.extend(vec![7; (sectors * SECTOR) as usize]);
            }
        }
        log
    }

    fn sectors(log: &[u8]) -> Vec<u64> {
        durable(log).iter().map(|entry| entry.offset / SECTOR).collect()
    }

    #[test]
    fn what_is_flushed_or_written_through_survives() {
        let log = log(&[
            (1, 2, 0),
            (2, 8, DISCARD),
            (0, 0, FLUSH),
            (3, 1, 0),
            (0, 0, FLUSH),
            (4, 1, 0),
            (5, 1, FUA),
            (6, 9, DISCARD),
        ]);
        assert_eq!(entries(&log).len(), 8);
        assert_eq!(sectors(&log), [1, 2, 3, 5]);
    }

    #[test]
    fn without_a_flush_nothing_survives() {
        assert!(durable(&log(&[(1, 2, 0), (9, 1, 0)])).is_empty());
        assert!(durable(&[]).is_empty());
    }

    #[test]
    fn what_was_not_logged_as_a_whole_is_left_out() {
        let whole = log(&[(1, 2, FUA), (9, 2, FUA)]);
        assert_eq!(sectors(&whole[..whole.len() - 600]), [1]);
    }
}
