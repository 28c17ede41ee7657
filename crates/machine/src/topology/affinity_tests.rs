//! Synthetic device trees, then the running kernel.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;

fn roots(root: &Path) -> Roots {
    Roots { sys: root.into(), proc: root.join("none") }
}

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
    let at = root.path();
    disk(at, "pci0/01:00.0/nvme/nvme0", "nvme0n1", "259:0\n");
    for irq in ["40", "41", "9"] {
        put(at, &format!("devices/pci0/01:00.0/msi_irqs/{irq}"), "msix\n");
    }
    for (queue, cpus) in [("0", "0, 2\n"), ("10", "5\n"), ("2", "1, 3\n")] {
        put(at, &format!("devices/pci0/01:00.0/nvme/nvme0/nvme0n1/mq/{queue}/cpu_list"), cpus);
    }
    disk(at, "pci0/02:00.0/virtio1/block", "vda", "254:0\n");
    put(at, "devices/pci0/02:00.0/irq", "11\n");
    put(at, "devices/pci0/irq", "99\n");
    disk(at, "virtual/block", "dm-0", "253:0\n");
    disk(at, "virtual/block", "dm-1", "253:1\n");
    for (upper, lower) in [("dm-0", "nvme0n1"), ("dm-0", "vda"), ("dm-1", "dm-0")] {
        put(at, &format!("devices/virtual/block/{upper}/slaves/{lower}"), "");
    }
    disk(at, "virtual/block", "zram0", "252:0\n");
    root
}

fn irqs(root: &Path, name: &str) -> Vec<String> {
    wiring(&roots(root), &[name.to_string()]).remove(0).irqs
}

#[test]
fn interrupts_of_the_controller() {
    let root = machine();
    let root = root.path();
    assert_eq!(irqs(root, "nvme0n1"), ["9", "40", "41"]);
    assert_eq!(irqs(root, "vda"), ["11"]);
    assert_eq!(irqs(root, "dm-1"), ["9", "11", "40", "41"]);
    assert_eq!(irqs(root, "zram0"), [""; 0]);
    assert_eq!(irqs(root, "gone"), [""; 0]);
    let nvme = &wiring(&roots(root), &["nvme0n1".to_string()])[0];
    assert_eq!(nvme.queues, [vec![0, 2], vec![1, 3], vec![5]]);
    let all: Vec<String> =
        wiring(&roots(root), &[]).into_iter().map(|device| device.name).collect();
    assert_eq!(all, ["dm-0", "dm-1", "nvme0n1", "vda"], "memory-backed devices have none");
}

#[test]
fn a_multipath_disk_has_the_interrupts_of_all_paths() {
    let root = machine();
    let root = root.path();
    disk(root, "virtual/nvme-subsystem/nvme-subsys3", "nvme3n1", "259:5\n");
    for (controller, irq) in [("nvme3", "50"), ("nvme4", "60")] {
        put(root, &format!("devices/pci0/{controller}/msi_irqs/{irq}"), "msix\n");
        fs::create_dir_all(root.join(format!("devices/pci0/{controller}/nvme/{controller}")))
            .unwrap();
        let link = format!("devices/virtual/nvme-subsystem/nvme-subsys3/{controller}");
        symlink(format!("../../../pci0/{controller}/nvme/{controller}"), root.join(link)).unwrap();
    }
    assert_eq!(irqs(root, "nvme3n1"), ["50", "60"]);
}

#[test]
fn the_real_devices() {
    let all = wiring(&Roots::default(), &[]);
    for device in &all {
        assert!(Path::new("/sys/block").join(device.name.replace('/', "!")).exists());
        assert!(device.queues.iter().all(|cpus| !cpus.is_empty()), "{device:?}");
    }
}
