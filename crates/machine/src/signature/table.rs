//! Magic numbers at fixed offsets.

pub(super) struct Magic {
    pub name: &'static str,
    /// Offset from the start, or before the end, in bytes.
    pub offset: u64,
    pub bytes: &'static [u8],
}

const fn magic(name: &'static str, offset: u64, bytes: &'static [u8]) -> Magic {
    Magic { name, offset, bytes }
}

pub(super) const MD: &str = "a member of a Linux RAID array (md)";
/// Its magic number 0xa92b4efc.
pub(super) const MD_MAGIC_LE: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();
/// The same on a big-endian machine.
pub(super) const MD_MAGIC_BE: [u8; 4] = 0xa92b_4efc_u32.to_be_bytes();

const EXT: &str = "ext2, ext3 or ext4";
const SWAP: &str = "swap space";
const HIBERNATED: &str = "a hibernated system (swap space)";
const LUKS: &str = "LUKS encryption";
const LVM: &str = "an LVM physical volume";
const FAT: &str = "FAT";
const BCACHE: &str = "bcache or bcachefs";
const MINIX: &str = "minix";
const UDF: &str = "UDF";
const OCFS: &str = "OCFS2";

/// At fixed offsets from the start. The magic of swap is at the end of a page of 4 to 64 KiB; LUKS2
/// has its second header at one of several offsets.
pub(super) const AT_START: &[Magic] = &[
    magic(EXT, 0x438, &[0x53, 0xef]),
    magic("XFS", 0, b"XFSB"),
    magic("an external log of XFS", 0, &[0xfe, 0xed, 0xba, 0xbe]),
    magic("btrfs", 0x1_0040, b"_BHRfS_M"),
    magic("NTFS", 3, b"NTFS    "),
    magic("exFAT", 3, b"EXFAT   "),
    magic("BitLocker encryption", 3, b"-FVE-FS-"),
    magic(FAT, 0x36, b"FAT12   "),
    magic(FAT, 0x36, b"FAT16   "),
    magic(FAT, 0x36, b"FAT     "),
    magic(FAT, 0x36, b"MSDOS"),
    magic(FAT, 0x52, b"FAT32   "),
    magic(FAT, 0x52, b"MSWIN"),
    magic(SWAP, 4096 - 10, b"SWAPSPACE2"),
    magic(SWAP, 8192 - 10, b"SWAPSPACE2"),
    magic(SWAP, 16384 - 10, b"SWAPSPACE2"),
    magic(SWAP, 32768 - 10, b"SWAPSPACE2"),
    magic(SWAP, 65536 - 10, b"SWAPSPACE2"),
    magic(SWAP, 4096 - 10, b"SWAP-SPACE"),
    magic(HIBERNATED, 4096 - 10, b"S1SUSPEND"),
    magic(HIBERNATED, 4096 - 10, b"S2SUSPEND"),
    magic(HIBERNATED, 4096 - 10, b"ULSUSPEND"),
    magic(HIBERNATED, 4096 - 10, b"LINHIB0001"),
    magic(HIBERNATED, 65536 - 10, b"S1SUSPEND"),
    magic(LUKS, 0, b"LUKS\xba\xbe"),
    magic(LUKS, 0x4000, b"SKUL\xba\xbe"),
    magic(LUKS, 0x8000, b"SKUL\xba\xbe"),
    magic(LUKS, 0x1_0000, b"SKUL\xba\xbe"),
    magic(LUKS, 0x2_0000, b"SKUL\xba\xbe"),
    magic(LUKS, 0x4_0000, b"SKUL\xba\xbe"),
    magic(LUKS, 0x8_0000, b"SKUL\xba\xbe"),
    magic(LUKS, 0x10_0000, b"SKUL\xba\xbe"),
    magic(LVM, 0, b"LABELONE"),
    magic(LVM, 0x200, b"LABELONE"),
    magic(LVM, 0x400, b"LABELONE"),
    magic(LVM, 0x600, b"LABELONE"),
    magic(MD, 0, &MD_MAGIC_LE),
    magic(MD, 4096, &MD_MAGIC_LE),
    magic("ISO 9660", 0x8001, b"CD001"),
    magic(UDF, 0x8001, b"BEA01"),
    magic(UDF, 0x8001, b"NSR02"),
    magic(UDF, 0x8001, b"NSR03"),
    magic(BCACHE, 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    magic(BCACHE, 4096 + 24, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    magic("f2fs", 1024, &0xf2f5_2010_u32.to_le_bytes()),
    magic("erofs", 1024, &0xe0f5_e1e2_u32.to_le_bytes()),
    magic("squashfs", 0, b"hsqs"),
    magic("squashfs", 0, b"sqsh"),
    magic("cramfs", 0, &0x28cd_3d45_u32.to_le_bytes()),
    magic("cramfs", 0, &0x28cd_3d45_u32.to_be_bytes()),
    magic("romfs", 0, b"-rom1fs-"),
    magic("ReiserFS", 0x1_0034, b"ReIsErFs"),
    magic("ReiserFS", 0x1_0034, b"ReIsEr2Fs"),
    magic("ReiserFS", 0x1_0034, b"ReIsEr3Fs"),
    magic("ReiserFS", 0x2034, b"ReIsErFs"),
    magic("Reiser4", 0x1_0000, b"ReIsEr4"),
    magic("JFS", 0x8000, b"JFS1"),
    magic("NILFS2", 1024 + 6, &0x3434_u16.to_le_bytes()),
    magic(OCFS, 2 << 10, b"OCFSV2"),
    magic(OCFS, 4 << 10, b"OCFSV2"),
    magic(OCFS, 8 << 10, b"OCFSV2"),
    magic("GFS2", 0x1_0000, &0x0116_1970_u32.to_be_bytes()),
    magic("HFS+", 1024, b"H+"),
    magic("HFS+", 1024, b"HX"),
    magic("HFS", 1024, b"BD"),
    magic("APFS", 32, b"NXSB"),
    magic(MINIX, 0x410, &0x137f_u16.to_le_bytes()),
    magic(MINIX, 0x410, &0x138f_u16.to_le_bytes()),
    magic(MINIX, 0x410, &0x2468_u16.to_le_bytes()),
    magic(MINIX, 0x410, &0x2478_u16.to_le_bytes()),
    magic(MINIX, 0x418, &0x4d5a_u16.to_le_bytes()),
    magic("UFS", 8192 + 0x55c, &0x0001_1954_u32.to_le_bytes()),
    magic("UFS", 65536 + 0x55c, &0x1954_0119_u32.to_le_bytes()),
    magic("VMFS", 0x10_0000, &0xc001_d00d_u32.to_le_bytes()),
    magic("Ceph BlueStore", 0, b"bluestore block device"),
    magic("Oracle ASM", 32, b"ORCLDISK"),
    magic("Stratis", 512 + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    magic("VDO", 0, b"dmvdo001"),
    magic("UBI", 0, b"UBI#"),
    magic("dm-integrity", 0, b"integrt\0"),
    magic("dm-verity hashes", 0, b"verity\0\0"),
    magic("the changes of a dm-snapshot", 0, b"SnAp"),
    magic("zonefs", 0, b"SFOZ"),
    magic("an Apple partition table", 512, b"PM"),
    magic("a BSD disk label", 512, &0x8256_4557_u32.to_le_bytes()),
    magic("a BSD disk label", 64, &0x8256_4557_u32.to_le_bytes()),
    magic("an SGI disk label", 0, &0x0be5_a941_u32.to_be_bytes()),
    magic("a Sun disk label", 508, &0xdabe_u16.to_be_bytes()),
];

/// At fixed offsets before the end.
pub(super) const AT_END: &[Magic] = &[
    magic("a member of an Intel RAID array", 1024, b"Intel Raid ISM Cfg Sig. "),
    magic("a member of a DDF RAID array", 512, &0xde11_de11_u32.to_be_bytes()),
];
