//! Simulates a power cut of disks with a volatile cache: what was neither flushed nor written through is lost. QEMU logs what reaches a disk in the format of the kernel's dm-log-writes.

use super::guest;
use crate::Result;
use fathom_model::split_mix;
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

/// Of what a lying disk was last given to write, the part that it may lose whatever was flushed.
const CACHED: usize = 256;

/// What a power cut does besides losing all that is not durable.
#[derive(Debug, Default, PartialEq)]
pub struct Cut {
    /// Some sectors of what is not durable survive, chosen by this number.
    seed: Option<u64>,
    /// Disks that ignore flushes and FUA, and lose some of their last writes.
    lying: Vec<usize>,
}

impl Cut {
    /// `[SEED [DISK…]]`
    pub fn parse(text: &str) -> Result<Cut> {
        let mut words = text.split_whitespace();
        let number = |word: &str| -> Result<u64> {
            word.parse().map_err(|_| format!("powercut: {word} is no number").into())
        };
        let seed = words.next().map(number).transpose()?;
        let lying = words.map(|word| Ok(number(word)? as usize)).collect::<Result<_>>()?;
        Ok(Cut { seed, lying })
    }

    /// What of a disk's writes survives, in their order.
    fn survivors(&self, index: usize, log: &[u8]) -> Vec<Entry> {
        let lies = self.lying.contains(&index);
        let all = entries(log);
        let flushed = all.iter().rposition(|entry| entry.flags & FLUSH != 0).unwrap_or(0);
        let sure = if lies { all.len().saturating_sub(CACHED) } else { flushed };
        let mut random = Random { seed: self.seed.unwrap_or(0) ^ (index as u64) << 32, drawn: 0 };
        // All cuts differ in how much was written by itself.
        let kept = random.below(91);
        let mut survivors = Vec::new();
        for (at, entry) in all.into_iter().enumerate().filter(|(_, entry)| entry.len > 0) {
            match self.seed {
                _ if at < sure || entry.flags & FUA != 0 && !lies => survivors.push(entry),
                Some(_) => entry.torn(&mut random, kept, &mut survivors),
                None => {}
            }
        }
        survivors
    }
}

struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.drawn += 1;
        split_mix::nth(self.seed, self.drawn) % end
    }
}

/// How long the log of each disk is. All that a guest was told to be done is in it.
pub fn lengths(dir: &Path, disks: usize) -> Result<Vec<u64>> {
    (0..disks).map(|index| Ok(fs::metadata(log_path(dir, index))?.len())).collect()
}

/// Applies a power cut at the time when the logs were so long to all disks, after the guest has ended.
pub fn take_back(dir: &Path, lengths: &[u64], cut: &Cut) -> Result<()> {
    for (index, len) in lengths.iter().enumerate() {
        let base = base_path(dir, index);
        let mut log = fs::read(log_path(dir, index))?;
        log.truncate(*len as usize);
        let file = File::options().write(true).open(&base)?;
        for entry in cut.survivors(index, &log) {
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
    /// Adds what survives by chance: all of it, nothing, or one of four times some of its sectors.
    fn torn(self, random: &mut Random, kept_percent: u64, survivors: &mut Vec<Entry>) {
        let is_torn = self.flags & DISCARD == 0 && random.below(4) == 0;
        if !is_torn {
            if random.below(100) < kept_percent {
                survivors.push(self);
            }
            return;
        }
        for sector in 0..self.len / SECTOR {
            if random.below(100) < kept_percent {
                let (offset, data) =
                    (self.offset + sector * SECTOR, self.data + (sector * SECTOR) as usize);
                survivors.push(Entry { flags: self.flags, offset, len: SECTOR, data });
            }
        }
    }

    fn apply(&self, log: &[u8], disk: &File) -> Result<()> {
        if self.flags & DISCARD != 0 {
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            return Ok(fallocate(disk, how, self.offset, self.len)?);
        }
        let data = log.get(self.data..).and_then(|rest| rest.get(..self.len as usize));
        Ok(disk.write_all_at(data.ok_or("the log of writes is cut short")?, self.offset)?)
    }
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
    #![allow(clippy::unwrap_used)]
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

    fn survivors(cut: &str, log: &[u8]) -> Vec<u64> {
        let survivors = Cut::parse(cut).unwrap().survivors(0, log);
        survivors.iter().map(|entry| entry.offset / SECTOR).collect()
    }

    fn sectors(log: &[u8]) -> Vec<u64> {
        survivors("", log)
    }

    #[test]
    fn an_honest_disk_loses_by_chance_only_what_is_not_durable() {
        let mut entries: Vec<_> = (0..100).map(|sector| (sector, 1, 0)).collect();
        entries.push((0, 0, FLUSH));
        entries.extend((100..200).map(|sector| (sector, 1, FUA * (sector % 2))));
        let log = log(&entries);
        let survive = |seed: u64, lying: &str| survivors(&format!("{seed} {lying}"), &log);
        let mut counts = Vec::new();
        for seed in 0..50 {
            let honest = survive(seed, "1");
            let is_sure = |sector: &u64| *sector < 100 || sector % 2 == 1;
            assert_eq!(honest.iter().filter(|sector| is_sure(sector)).count(), 150);
            assert_eq!(honest, survive(seed, "2 3"));
            counts.push(honest.len());
        }
        counts.sort_unstable();
        assert!(counts[0] < 160 && counts[49] > 190, "{counts:?}");
        let lost = (0..50).filter(|seed| survive(*seed, "1 0").len() < 150).count();
        assert!(lost > 20, "{lost}");
        assert!(Cut::parse("1 x").is_err());
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
        assert!(sectors(&log(&[(1, 2, 0), (9, 1, 0)])).is_empty());
        assert!(sectors(&[]).is_empty());
    }

    #[test]
    fn what_was_not_logged_as_a_whole_is_left_out() {
        let whole = log(&[(1, 2, FUA), (9, 2, FUA)]);
        assert_eq!(sectors(&whole[..whole.len() - 600]), [1]);
    }
}
