//! Proves that a device is blank: both ends are zero, or hold only what fathom itself wrote there.
//!
//! Whatever else a device holds is named by its signature, where that is known: file systems, partition tables, and
//! members of volumes and arrays, by their magic numbers (as defined by libblkid and the formats themselves).

use fathom_model::write_pattern::{self, SECTOR_BYTES};
use rustix::fd::AsFd;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, pread};

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
        magic.is_some_and(|m| m == MD_MAGIC_LE || m == MD_MAGIC_BE)
    };
    (is_md(old) || is_md(new)).then_some(MD)
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

struct Magic {
    pub name: &'static str,
    /// Offset from the start, or before the end, in bytes.
    pub offset: u64,
    pub bytes: &'static [u8],
}

macro_rules! magics {
    ($table:ident: $($name:tt $($offset:tt $bytes:expr),+;)*) => {
        const $table: &[Magic] =
            &[$($(Magic { name: $name, offset: $offset, bytes: $bytes },)+)*];
    };
}

const MD: &str = "a member of a Linux RAID array (md)";
/// Its magic number 0xa92b4efc.
const MD_MAGIC_LE: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();
const MD_MAGIC_BE: [u8; 4] = 0xa92b_4efc_u32.to_be_bytes();

// From the start. The magic of swap is at the end of a page of 4 to 64 KiB; LUKS2 has its second header at one of several
// offsets.
magics! { AT_START:
    "ext2, ext3 or ext4" 0x438 &[0x53, 0xef];
    "XFS" 0 b"XFSB";
    "an external log of XFS" 0 &[0xfe, 0xed, 0xba, 0xbe];
    "btrfs" 0x1_0040 b"_BHRfS_M";
    "NTFS" 3 b"NTFS    ";
    "exFAT" 3 b"EXFAT   ";
    "BitLocker encryption" 3 b"-FVE-FS-";
    "FAT" 0x36 b"FAT12   ", 0x36 b"FAT16   ", 0x36 b"FAT     ", 0x36 b"MSDOS", 0x52 b"FAT32   ", 0x52 b"MSWIN";
    "swap space" (4096 - 10) b"SWAPSPACE2", (8192 - 10) b"SWAPSPACE2", (16384 - 10) b"SWAPSPACE2",
        (32768 - 10) b"SWAPSPACE2", (65536 - 10) b"SWAPSPACE2", (4096 - 10) b"SWAP-SPACE";
    "a hibernated system (swap space)" (4096 - 10) b"S1SUSPEND", (4096 - 10) b"S2SUSPEND",
        (4096 - 10) b"ULSUSPEND", (4096 - 10) b"LINHIB0001",
        (65536 - 10) b"S1SUSPEND";
    "LUKS encryption" 0 b"LUKS\xba\xbe", 0x4000 b"SKUL\xba\xbe", 0x8000 b"SKUL\xba\xbe", 0x1_0000 b"SKUL\xba\xbe",
        0x2_0000 b"SKUL\xba\xbe", 0x4_0000 b"SKUL\xba\xbe", 0x8_0000 b"SKUL\xba\xbe",
        0x10_0000 b"SKUL\xba\xbe";
    "an LVM physical volume" 0 b"LABELONE", 0x200 b"LABELONE", 0x400 b"LABELONE", 0x600 b"LABELONE";
    MD 0 &MD_MAGIC_LE, 4096 &MD_MAGIC_LE;
    "ISO 9660" 0x8001 b"CD001";
    "UDF" 0x8001 b"BEA01", 0x8001 b"NSR02", 0x8001 b"NSR03";
    "bcache or bcachefs" (4096 + 24) b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
        (4096 + 24) b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
    "f2fs" 1024 &0xf2f5_2010_u32.to_le_bytes();
    "erofs" 1024 &0xe0f5_e1e2_u32.to_le_bytes();
    "squashfs" 0 b"hsqs", 0 b"sqsh";
    "cramfs" 0 &0x28cd_3d45_u32.to_le_bytes(), 0 &0x28cd_3d45_u32.to_be_bytes();
    "romfs" 0 b"-rom1fs-";
    "ReiserFS" 0x1_0034 b"ReIsErFs", 0x1_0034 b"ReIsEr2Fs", 0x1_0034 b"ReIsEr3Fs", 0x2034 b"ReIsErFs";
    "Reiser4" 0x1_0000 b"ReIsEr4";
    "JFS" 0x8000 b"JFS1";
    "NILFS2" (1024 + 6) &0x3434_u16.to_le_bytes();
    "OCFS2" (2 << 10) b"OCFSV2", (4 << 10) b"OCFSV2", (8 << 10) b"OCFSV2";
    "GFS2" 0x1_0000 &0x0116_1970_u32.to_be_bytes();
    "HFS+" 1024 b"H+", 1024 b"HX";
    "HFS" 1024 b"BD";
    "APFS" 32 b"NXSB";
    "minix" 0x410 &0x137f_u16.to_le_bytes(), 0x410 &0x138f_u16.to_le_bytes(), 0x410 &0x2468_u16.to_le_bytes(),
        0x410 &0x2478_u16.to_le_bytes(), 0x418 &0x4d5a_u16.to_le_bytes();
    "UFS" (8192 + 0x55c) &0x0001_1954_u32.to_le_bytes(), (65536 + 0x55c) &0x1954_0119_u32.to_le_bytes();
    "VMFS" 0x10_0000 &0xc001_d00d_u32.to_le_bytes();
    "Ceph BlueStore" 0 b"bluestore block device";
    "Oracle ASM" 32 b"ORCLDISK";
    "Stratis" (512 + 4) b"!Stra0tis\x86\xff\x02^\x41rh";
    "VDO" 0 b"dmvdo001";
    "UBI" 0 b"UBI#";
    "dm-integrity" 0 b"integrt\0";
    "dm-verity hashes" 0 b"verity\0\0";
    "the changes of a dm-snapshot" 0 b"SnAp";
    "zonefs" 0 b"SFOZ";
    "an Apple partition table" 512 b"PM";
    "a BSD disk label" 512 &0x8256_4557_u32.to_le_bytes(), 64 &0x8256_4557_u32.to_le_bytes();
    "an SGI disk label" 0 &0x0be5_a941_u32.to_be_bytes();
    "a Sun disk label" 508 &0xdabe_u16.to_be_bytes();
}

// Before the end.
magics! { AT_END:
    "a member of an Intel RAID array" 1024 b"Intel Raid ISM Cfg Sig. ";
    "a member of a DDF RAID array" 512 &0xde11_de11_u32.to_be_bytes();
}

#[cfg(test)]
mod tests;
