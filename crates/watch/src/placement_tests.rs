//! Synthetic device trees, then the running kernel.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// `sys/block/NAME` as a link to `devices/DEVICE/NAME`.
fn disk(root: &Path, device: &str, name: &str, number: &str) {
    put(root, &format!("devices/{device}/{name}/dev"), number);
    fs::create_dir_all(root.join("block")).unwrap();
    symlink(format!("../devices/{device}/{name}"), root.join("block").join(name)).unwrap();
}

fn machine() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    disk(root.path(), "pci0/01:00.0/nvme/nvme0", "nvme0n1", "259:0\n");
    disk(root.path(), "virtual/block", "dm-1", "253:1\n");
    disk(root.path(), "virtual/block", "zram0", "252:0\n");
    root
}

#[test]
fn filters_use_the_device_number() {
    let root = machine();
    assert_eq!(filter(root.path(), "nvme0n1").unwrap(), format!("dev == {}", 259 << 20));
    assert_eq!(filter(root.path(), "dm-1").unwrap(), format!("dev == {}", 253 << 20 | 1));
    put(root.path(), "devices/virtual/block/zram0/dev", "x\n");
    for name in ["zram0", "gone"] {
        let missing = filter(root.path(), name).unwrap_err().to_string();
        assert!(missing.contains(&format!("block/{name}/dev")), "{missing}");
    }
}

#[test]
fn submissions_are_counted_on_the_running_kernel() {
    let (proc_root, sys_root) = (Path::new("/proc"), Path::new("/sys"));
    let mut all = match PlacementSampler::open(proc_root, sys_root, &[], TraceCoverage::Full) {
        Ok(sampler) => sampler,
        Err(missing) => return println!("skipped: {missing}"),
    };
    let total = |sampler: &mut PlacementSampler| -> u64 {
        let mut sample = MachineSample::default();
        sampler.take(&mut sample);
        assert_eq!(sample.submits[0].device, "");
        sample.submits[0].by_cpu.iter().map(|(_, count)| count).sum()
    };
    let before = total(&mut all);
    // Written through to the underlying disk, whichever that is.
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    std::io::Write::write_all(&mut file, &[1; 4096]).unwrap();
    file.as_file().sync_all().unwrap();
    assert!(total(&mut all) > before);
    let none = PlacementSampler::open(
        proc_root,
        sys_root,
        &["no-such-disk".to_string()],
        TraceCoverage::Full,
    );
    assert!(none.unwrap_err().to_string().contains("no-such-disk"));
}
