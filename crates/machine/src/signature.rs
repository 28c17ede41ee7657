//! Proves that a device is blank: both ends are zero, or hold only what fathom itself wrote there.
//!
//! Whatever else a device holds is named by its signature, where that is known: file systems, partition tables, and
//! members of volumes and arrays, by their magic numbers (as defined by libblkid and the formats themselves).

mod table;

use fathom_model::write_pattern::{self, SECTOR_BYTES};
use rustix::fd::AsFd;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, pread};
use table::{AT_END, AT_START, Magic};

/// Bytes read at the start; covers all signatures except copies further in.
const HEAD: u64 = (1 << 20) + (64 << 10);
const TAIL: u64 = 1 << 20;
/// Offsets of btrfs superblock copies, for devices whose start was wiped.
const BTRFS_COPIES: [u64; 2] = [64 << 20, 256 << 30];

/// What a readable device of `size` bytes with logical blocks of `block` bytes holds, without duplicates; nothing if it
/// is proven blank. An unreadable part is reported, too, since it may contain anything.
pub fn find(fd: impl AsFd, size: u64, block: u32) -> Vec<String> {
    // The page cache may be older than the device: commands and other hosts write past it. Only advice, as is the cache.
    let _ = fadvise(&fd, 0, None, Advice::DontNeed);
    let mut found = Vec::new();
    let head = part(&fd, 0, HEAD.min(size), &mut found);
    let tail_start = size.saturating_sub(TAIL);
    let tail = part(&fd, tail_start, size - tail_start, &mut found);
    let strange = unknown(&head, 0).or_else(|| unknown(&tail, tail_start));
    if strange.is_some() {
        found.extend(names(size, block, &head, &tail));
    }
    for offset in BTRFS_COPIES.into_iter().filter(|offset| offset + 4096 <= size) {
        let copy = part(&fd, offset, 4096, &mut found);
        if slice(&copy, 0, 0x40, 8) == Some(b"_BHRfS_M") {
            found.push("btrfs".to_string());
        }
    }
    if let (true, Some(at)) = (found.is_empty(), strange) {
        found.push(format!("data that fathom did not write, at byte {at}"));
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|name| seen.insert(name.clone()));
    found
}

/// The first byte of `bytes`, which were read from `start`, that is neither zero nor in a sector that fathom wrote.
fn unknown(bytes: &[u8], start: u64) -> Option<u64> {
    let sectors = bytes.chunks(SECTOR_BYTES).zip((start..).step_by(SECTOR_BYTES));
    let mut unknown = sectors.filter(|(sector, at)| !write_pattern::is_blank(sector, *at));
    let (sector, at) = unknown.next()?;
    Some(at + sector.iter().position(|byte| *byte != 0)? as u64)
}

fn names(size: u64, block: u32, head: &[u8], tail: &[u8]) -> Vec<String> {
    let tail_start = size - tail.len() as u64;
    let at = |offset: u64, len: usize| slice(head, 0, offset, len);
    let from_end = |offset: u64, len: usize| slice(tail, tail_start, offset, len);
    let end = |magic: &Magic| size.checked_sub(magic.offset);
    let is_at_end = |magic: &Magic| end(magic).is_some_and(|offset| is_at(magic, offset, from_end));
    let at_start = AT_START.iter().filter(|magic| is_at(magic, magic.offset, at)).map(name);
    let mut found: Vec<String> = at_start.collect();
    found.extend(AT_END.iter().filter(|magic| is_at_end(magic)).map(name));
    found.extend(boot_sector(head).map(str::to_string));
    found.extend(gpt(block, size, at, from_end).map(str::to_string));
    found.extend(md_at_end(size, from_end).map(str::to_string));
    found.extend(zfs(at).or_else(|| zfs_at_end(size, from_end)).map(str::to_string));
    found
}

fn name(magic: &Magic) -> String {
    magic.name.to_string()
}

fn is_at<'a>(magic: &Magic, offset: u64, at: impl Fn(u64, usize) -> Option<&'a [u8]>) -> bool {
    at(offset, magic.bytes.len()) == Some(magic.bytes)
}

/// `len` bytes at `offset` of the device, if within `bytes`, which were read from `start`.
fn slice(bytes: &[u8], start: u64, offset: u64, len: usize) -> Option<&[u8]> {
    let from = usize::try_from(offset.checked_sub(start)?).ok()?;
    bytes.get(from..from.checked_add(len)?)
}

/// Reads a part of the device; an unreadable part is zero and added to `found`.
fn part(fd: impl AsFd, start: u64, len: u64, found: &mut Vec<String>) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    let mut done = 0;
    while done < bytes.len() {
        match pread(&fd, &mut bytes[done..], start + done as u64) {
            Ok(0) => {
                found.push(format!("an end at byte {}, before its size", start + done as u64));
                break;
            }
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => {
                found.push(format!("an unreadable part at byte {} ({error})", start + done as u64));
                break;
            }
        }
    }
    bytes
}

/// The PC boot sector, which many file systems have, too.
fn boot_sector(head: &[u8]) -> Option<&'static str> {
    if head.get(510..512)? != [0x55, 0xaa] {
        return None;
    }
    let entries = head.get(446..510)?.chunks_exact(16);
    // A partition entry has a type, and a boot flag of 0x80 or 0.
    let used = entries.filter(|entry| entry[4] != 0 && entry[0] & 0x7f == 0).count();
    Some(if used > 0 { "an MBR partition table" } else { "a boot sector" })
}

fn gpt<'a>(
    block: u32,
    size: u64,
    at: impl Fn(u64, usize) -> Option<&'a [u8]>,
    from_end: impl Fn(u64, usize) -> Option<&'a [u8]>,
) -> Option<&'static str> {
    const MAGIC: &[u8] = b"EFI PART";
    // A disk partitioned in another enclosure may have used another block size.
    let mut blocks = [u64::from(block), 512, 4096].into_iter();
    if blocks.clone().any(|block| at(block, 8) == Some(MAGIC)) {
        return Some("a GPT partition table");
    }
    let backup = |block: u64| from_end((size / block.max(1) * block).checked_sub(block)?, 8);
    blocks.any(|block| backup(block) == Some(MAGIC)).then_some("a backup GPT partition table")
}

/// Linux software RAID keeps the superblocks of versions 0.90 and 1.0 near the end.
fn md_at_end<'a>(
    size: u64,
    from_end: impl Fn(u64, usize) -> Option<&'a [u8]>,
) -> Option<&'static str> {
    const RESERVED: u64 = 64 << 10;
    let old = (size & !(RESERVED - 1)).checked_sub(RESERVED);
    // 1.0: at least 8 KiB before the end, 4 KiB aligned.
    let new = (size / 512).checked_sub(16).map(|sector| (sector & !7) * 512);
    let is_md = |offset: Option<u64>| {
        let magic = offset.and_then(|offset| from_end(offset, 4));
        // Version 0.90 uses the byte order of the machine that created it.
        magic.is_some_and(|m| m == table::MD_MAGIC_LE || m == table::MD_MAGIC_BE)
    };
    (is_md(old) || is_md(new)).then_some(table::MD)
}

/// ZFS has four labels of 256 KiB, two at each end; uberblocks fill the second half of each.
fn zfs<'a>(at: impl Fn(u64, usize) -> Option<&'a [u8]>) -> Option<&'static str> {
    uberblock(0, at)
}

fn zfs_at_end<'a>(
    size: u64,
    from_end: impl Fn(u64, usize) -> Option<&'a [u8]>,
) -> Option<&'static str> {
    const LABEL: u64 = 256 << 10;
    uberblock((size / LABEL * LABEL).checked_sub(LABEL)?, from_end)
}

fn uberblock<'a>(label: u64, at: impl Fn(u64, usize) -> Option<&'a [u8]>) -> Option<&'static str> {
    const MAGIC: u64 = 0x00ba_b10c;
    let is_magic = |offset: u64| {
        let bytes = at(label + offset, 8);
        bytes.is_some_and(|b| *b == MAGIC.to_le_bytes() || *b == MAGIC.to_be_bytes())
    };
    (128..256).any(|kib| is_magic(kib << 10)).then_some("a ZFS pool member")
}

#[cfg(test)]
mod tests;
