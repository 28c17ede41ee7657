//! Magic numbers at fixed offsets.

pub(super) struct Magic {
    pub name: &'static str,
    /// Offset from the start, or before the end, in bytes.
    pub offset: u64,
    pub bytes: &'static [u8],
}

macro_rules! magics {
    ($table:ident: $($name:tt $($offset:tt $bytes:expr),+;)*) => {
        pub(super) const $table: &[Magic] =
            &[$($(Magic { name: $name, offset: $offset, bytes: $bytes },)+)*];
    };
}

pub(super) const MD: &str = "a member of a Linux RAID array (md)";
/// Its magic number 0xa92b4efc.
pub(super) const MD_MAGIC_LE: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();
pub(super) const MD_MAGIC_BE: [u8; 4] = 0xa92b_4efc_u32.to_be_bytes();

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
