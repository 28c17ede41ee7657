use super::*;
use crate::blocks::device::{find, with_first};
use std::fs;

/// A disk with two partitions, a zram device and an empty loop device.
fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for (dir, dev, size) in [
        ("block/sda", "8:0", "1000"),
        ("block/sda/sda1", "8:1", "100"),
        ("block/sda/sda2", "259:5", "900"),
        ("block/zram0", "253:0", "64"),
        ("block/loop0", "7:0", "0"),
    ] {
        write(&format!("{dir}/dev"), &format!("{dev}\n"));
        write(&format!("{dir}/size"), size);
        write(&format!("{dir}/stat"), "5 0 0 0 6 0 0\n");
    }
    fs::create_dir_all(root.path().join("class/block")).unwrap();
    for (part, start) in [("sda1", "1"), ("sda2", "101")] {
        let link = root.path().join("class/block").join(part);
        std::os::unix::fs::symlink(format!("../../block/sda/{part}"), link).unwrap();
        write(&format!("block/sda/{part}/partition"), "1\n");
        write(&format!("block/sda/{part}/start"), start);
    }
    write("block/sda/mq/0/cpu_list", "0");
    write("block/sda/queue/max_segments", "168\n");
    write("block/zram0/stat", "50 0 0 0 60 0 0\n");
    root
}

fn found(root: &Path, names: &[&str]) -> Vec<BlockDevice> {
    find(root, &names.iter().map(|name| name.to_string()).collect::<Vec<_>>()).unwrap()
}

fn first(root: &Path, names: &[&str]) -> (Vec<String>, usize) {
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    let (devices, first) = with_first(root, &names).unwrap();
    (devices.into_iter().map(|d| d.name).collect(), first)
}

#[test]
fn devices_and_partitions_by_name() {
    let root = tree();
    let all = found(root.path(), &["sda2", "sda", "sda", "zram0"]);
    let names: Vec<&str> = all.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["sda2", "sda", "zram0"]);
    let sda = 8 << 20;
    let sda2 = (259 << 20) + 5;
    assert_eq!(all[0].request_filter(), format!("dev == {sda} && sector >= 101 && sector < 1001"));
    assert_eq!(all[0].bio_filter(), format!("(({}) || dev == {sda2})", all[0].request_filter()));
    assert_eq!(
        all[1].bio_filter(),
        format!("(dev == {sda} || dev == {} || dev == {sda2})", sda + 1)
    );
    assert!(all[0].owns(sda, 101) && all[0].owns(sda2, 5) && !all[0].owns(sda, 100));
    assert!(all[1].owns(sda, 100) && all[1].owns(sda2, 101) && !all[1].owns(253 << 20, 0));
    assert_eq!(all[0].limits.max_segments, 168);
    assert_eq!(all.iter().map(|d| d.bio_based).collect::<Vec<_>>(), [false, false, true]);
}

#[test]
fn by_default_the_busiest_nonempty_devices_are_traced() {
    let root = tree();
    assert_eq!(first(root.path(), &[]), (vec!["zram0".into(), "sda".into()], 0));
}

#[test]
fn devices_of_a_run_and_their_members_come_first() {
    let root = tree();
    let dm = root.path().join("block/dm-0");
    fs::create_dir_all(dm.join("slaves/sda2")).unwrap();
    fs::write(dm.join("dev"), "252:0\n").unwrap();
    fs::write(dm.join("size"), "900\n").unwrap();
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = (names(&["sda", "dm-0", "zram0"]), 2);
    assert_eq!(first(root.path(), &["dm-0", "gone"]), expected);
    assert_eq!(first(root.path(), &["sda1"]), (names(&["sda", "zram0", "dm-0"]), 1));
    // An empty device is not traced.
    assert_eq!(first(root.path(), &["loop0"]).1, 0);
}

#[test]
fn devices_beyond_the_limit_are_missing() {
    let root = tree();
    for index in 1..20 {
        let dir = root.path().join(format!("block/zram{index}"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("dev"), format!("253:{index}\n")).unwrap();
        fs::write(dir.join("size"), "64\n").unwrap();
    }
    let chosen = |count: usize| {
        let first = (1..=count).map(|index| format!("zram{index}")).collect();
        let mut missing = Vec::new();
        let devices = chosen(root.path(), &Devices::Busiest { first }, &mut missing).unwrap();
        assert_eq!(missing.len(), 1);
        assert!(missing[0].source.ends_with(" other devices"), "{missing:?}");
        devices.into_iter().map(|device| device.name).collect::<Vec<_>>()
    };
    assert_eq!(chosen(0)[..2], ["zram0", "sda"]);
    assert_eq!(chosen(0).len(), DEVICES_MAX);
    assert_eq!(chosen(3).len(), DEVICES_MAX);
    assert_eq!(chosen(3)[3], "zram0");
    assert_eq!(chosen(7).len(), 7);
    assert_eq!(chosen(18).len(), FIRST_MAX);
}

#[test]
fn unknown_devices_are_named() {
    let root = tree();
    let of = |name: &str| find(root.path(), &[name.to_string()]).unwrap_err().to_string();
    assert_eq!(
        of("nvme9"),
        "unknown block device nvme9; known devices: sda, sda1, sda2, zram0, loop0"
    );
    assert!(of("/dev/null").contains("/dev/null: not a block device"));
    assert!(of("/dev/no such").contains("No such file"));
    let empty = find(Path::new("/nonexistent"), &[]).unwrap_err().to_string();
    assert!(empty.starts_with("/nonexistent/block"), "{empty}");
}
