use super::{AT_END, AT_START, find};
use std::fs::File;
use std::os::unix::fs::FileExt;

const MIB: u64 = 1 << 20;

/// Signatures found on a sparse device of this size that contains these bytes.
fn found(size: u64, parts: &[(u64, &[u8])]) -> Vec<String> {
    let file = tempfile::tempfile().expect("file");
    file.set_len(size).expect("size");
    for (offset, bytes) in parts {
        file.write_all_at(bytes, *offset).expect("written");
    }
    find(&file, size, 512)
}

#[test]
fn blank_devices_have_no_signature() {
    for size in [0, 1, 511, 512, 4096, 65536, MIB, 3 * MIB + 512, 300 * MIB] {
        assert_eq!(found(size, &[]), Vec::<String>::new(), "{size}");
    }
}

#[test]
fn what_fathom_wrote_is_blank_and_anything_else_is_not() {
    for size in [512, MIB, 2 * MIB - 512, 4 * MIB] {
        let mut own = vec![0; size as usize];
        for (number, sector) in own.chunks_mut(512).enumerate().step_by(3) {
            fathom_model::write_pattern::fill(sector, number as u64);
        }
        assert_eq!(found(size, &[(0, &own)]), Vec::<String>::new(), "{size}");
        // Formats that no table of this kind is complete without, and nothing known at all.
        let ends = [0, size / 2 - 8, size - 1].map(|at| at.min(size - 8));
        for (at, bytes) in ends.iter().zip([b"integrt\0", b"verity\0\0", b"\0\0\0\0SnAp"]) {
            let is_near_end = *at < MIB || *at >= size - MIB;
            let names = found(size, &[(0, &own), (*at, bytes)]);
            assert_eq!(!names.is_empty(), is_near_end, "{size} {at}: {names:?}");
        }
    }
    assert_eq!(found(3 * MIB, &[(4100, b"x")]), ["data that fathom did not write, at byte 4100"]);
    let erased = vec![0xff; MIB as usize];
    assert_eq!(found(MIB, &[(0, &erased)]), ["data that fathom did not write, at byte 0"]);
}

#[test]
fn a_device_that_ends_early_is_reported() {
    let file = tempfile::tempfile().expect("file");
    file.set_len(MIB).expect("size");
    assert!(find(&file, 4 * MIB, 512)[0].contains("an end at byte 1048576"));
}

#[test]
fn magic_numbers_are_found_at_their_offsets() {
    for magic in AT_START {
        let names = found(4 * MIB, &[(magic.offset, magic.bytes)]);
        assert!(names.iter().any(|name| name == magic.name), "{} in {names:?}", magic.name);
        // But not one byte further.
        let names = found(4 * MIB, &[(magic.offset + 1, magic.bytes)]);
        assert!(!names.iter().any(|name| name == magic.name), "{} in {names:?}", magic.name);
    }
    for magic in AT_END {
        let names = found(4 * MIB, &[(4 * MIB - magic.offset, magic.bytes)]);
        assert_eq!(names, [magic.name]);
    }
}

/// Offsets from the format specifications, independent of the table.
#[test]
fn common_signatures() {
    let mut mbr = [0_u8; 512];
    mbr[510..].copy_from_slice(&[0x55, 0xaa]);
    assert_eq!(found(MIB, &[(0, &mbr)]), ["a boot sector"]);
    mbr[446 + 4] = 0x83;
    assert_eq!(found(MIB, &[(0, &mbr)]), ["an MBR partition table"]);
    let size = 8 * MIB + 512;
    let cases: &[(u64, &[u8], &str)] = &[
        (512, b"EFI PART", "a GPT partition table"),
        (4096, b"EFI PART", "a GPT partition table"),
        (size - 512, b"EFI PART", "a backup GPT partition table"),
        (1024 + 56, &[0x53, 0xef], "ext2, ext3 or ext4"),
        (0, b"XFSB", "XFS"),
        (65536 + 64, b"_BHRfS_M", "btrfs"),
        (4086, b"SWAPSPACE2", "swap space"),
        (0, b"LUKS\xba\xbe\x00\x02", "LUKS encryption"),
        (512, b"LABELONE", "an LVM physical volume"),
        (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a Linux RAID array (md)"),
        (0, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a Linux RAID array (md)"),
        // 0.90: 64 KiB before the end, rounded down to 64 KiB.
        (8 * MIB - 65536, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a Linux RAID array (md)"),
        // 1.0: 8 KiB before the end, rounded down to 4 KiB.
        (8 * MIB - 8192, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a Linux RAID array (md)"),
        (128 << 10, &0x00ba_b10c_u64.to_le_bytes(), "a ZFS pool member"),
        (8 * MIB - (128 << 10), &0x00ba_b10c_u64.to_be_bytes(), "a ZFS pool member"),
        (32769, b"CD001", "ISO 9660"),
        (3, b"NTFS    ", "NTFS"),
        (82, b"FAT32   ", "FAT"),
        (1024, &[0x10, 0x20, 0xf5, 0xf2], "f2fs"),
        (0, b"hsqs", "squashfs"),
    ];
    for (offset, bytes, name) in cases {
        assert_eq!(found(size, &[(*offset, bytes)]), [*name], "at {offset}");
    }
    assert_eq!(found(65 * MIB, &[(64 * MIB + 64, b"_BHRfS_M")]), ["btrfs"]);
}

#[test]
fn all_signatures_are_named_once() {
    let names =
        found(8 * MIB, &[(512, b"EFI PART"), (0, b"LUKS\xba\xbe"), (0x4000, b"SKUL\xba\xbe")]);
    assert_eq!(names, ["LUKS encryption", "a GPT partition table"]);
}

#[test]
fn an_unreadable_part_is_reported() {
    let dir = tempfile::tempdir().expect("directory");
    let file = File::create(dir.path().join("write-only")).expect("file");
    file.set_len(4 * MIB).expect("size");
    let names = find(&file, 4 * MIB, 512);
    assert!(
        names.first().is_some_and(|name| name.contains("unreadable part at byte 0")),
        "{names:?}"
    );
}

#[test]
fn output_of_mkfs_tools_is_found() {
    let tools: &[(&[&str], &str, &str)] = &[
        (&["mkfs.ext4", "-q", "-F"], "ext2, ext3 or ext4", "e2fsprogs"),
        (&["mkswap"], "swap space", "util-linux"),
        (&["mkfs.minix"], "minix", "util-linux"),
    ];
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("image");
    for (command, name, package) in tools {
        let file = File::create_new(&path).expect("file");
        file.set_len(8 * MIB).expect("size");
        let output = std::process::Command::new(command[0]).args(&command[1..]).arg(&path).output();
        let output = output.unwrap_or_else(|e| panic!("{command:?} ({e}): install {package}"));
        assert!(output.status.success(), "{command:?} {output:?}");
        let file = File::open(&path).expect("file");
        assert_eq!(find(&file, 8 * MIB, 512), [*name]);
        std::fs::remove_file(&path).expect("removed");
    }
}
