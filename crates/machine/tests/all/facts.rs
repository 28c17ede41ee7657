//! Facts, from made-up /proc and /sys trees and from this machine's.
#![allow(clippy::expect_used, clippy::panic)]

use fathom_machine::{Roots, device::device, host};
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

/// Writes files below a directory: (path, content).
fn tree(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().expect("directory");
    for (path, content) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("below")).expect("directory");
        std::fs::write(path, content).expect("file");
    }
    dir
}

/// What every machine has, and who writes must read.
const LISTS: [(&str, &str); 3] =
    [("proc/self/mountinfo", ""), ("proc/filesystems", "\text4\n"), ("sys/block/x", "")];

fn roots(dir: &Path) -> Roots {
    Roots { proc: dir.join("proc"), sys: dir.join("sys") }
}

const HOST: &[(&str, &str)] = &[
    ("proc/sys/kernel/hostname", "box\n"),
    ("proc/sys/kernel/osrelease", "6.12.1\n"),
    ("proc/sys/kernel/arch", "aarch64\n"),
    ("proc/sys/kernel/io_uring_disabled", "2\n"),
    ("proc/sys/kernel/perf_event_paranoid", "-1\n"),
    ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast CPU @ 3: GHz\n\nprocessor\t: 1\n"),
    ("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\n"),
    ("proc/loadavg", "0.25 0.50 0.75 1/100 1234\n"),
    (
        "proc/self/status",
        "Name:\tfathom\nCapEff:\t0000000000200000\nCpus_allowed_list:\t0-1,4\nVmSize:\t    1024 kB\n",
    ),
    (
        "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units\n\
         Max open files            1024                 524288               files\n\
         Max address space         3145728              unlimited            bytes\n\
         Max locked memory         8388608              unlimited            bytes\n",
    ),
    ("sys/devices/system/cpu/online", "0-4,6\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
];

#[test]
fn facts_of_a_synthetic_host() {
    let dir = tree(HOST);
    let host = host(&roots(dir.path()));
    assert_eq!((host.hostname.as_str(), host.kernel.as_str()), ("box", "6.12.1"));
    assert_eq!((host.arch.as_str(), host.cpu_model.as_str()), ("aarch64", "Fast CPU @ 3: GHz"));
    assert_eq!(host.cpus_allowed, [0, 1, 4]);
    assert_eq!(host.cpus_online, 6);
    assert_eq!((host.memory_bytes, host.memory_available_bytes), (16 << 20, 8 << 20));
    assert_eq!((host.memlock_limit_bytes, host.open_files_limit), (Some(8 << 20), 1024));
    assert_eq!((host.io_uring_disabled, host.perf_event_paranoid), (Some(2), Some(-1)));
    assert!(host.privileged);
    assert_eq!((host.load_1min, host.clocksource.as_str()), (0.25, "tsc"));
    assert_eq!(host.cgroup_memory_max_bytes, None);
    assert_eq!(host.address_space_available_bytes, Some(2 << 20));
}

#[test]
fn a_host_with_missing_or_malformed_files() {
    let dir = tempfile::tempdir().expect("directory");
    let empty = host(&roots(dir.path()));
    assert_eq!((empty.memory_bytes, empty.cpus_online, empty.privileged), (0, 0, false));
    assert_eq!(empty.io_uring_disabled, None);
    let dir = tree(&[
        ("proc/self/status", "Cpus_allowed_list:\t4294967295-0,x-3,0-4294967295\nCapEff:\tzz\n"),
        ("proc/meminfo", "MemTotal: 99999999999999999999 kB\n"),
        ("proc/self/limits", "Max locked memory unlimited unlimited bytes\nMax open files\n"),
        ("proc/self/cgroup", "x\n::\n0::/a\n4:memory:\n"),
        ("proc/cpuinfo", "\u{fffd}\0:::\n"),
    ]);
    let host = host(&roots(dir.path()));
    assert_eq!((host.memory_bytes, host.memlock_limit_bytes), (0, None));
    assert!(host.cpus_allowed.len() <= 1 << 17, "bounded");
}

#[test]
fn memory_limits_of_cgroup_v1_and_v2() {
    let one = "36 35 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    let two = "37 35 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let mounts = format!("{two}{one}");
    let files = [
        ("proc/self/mountinfo", mounts.as_str()),
        ("proc/self/cgroup", "4:cpu,memory:/a/b\n1:cpu:/\n0::/u/v\n"),
        ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/unified/u/v/memory.max", "max\n"),
        ("sys/fs/cgroup/unified/u/memory.max", "7000\n"),
    ];
    let dir = tree(&files);
    assert_eq!(host(&roots(dir.path())).cgroup_memory_max_bytes, Some(5000));
    std::fs::remove_dir_all(dir.path().join("sys/fs/cgroup/memory/a")).expect("removed");
    assert_eq!(host(&roots(dir.path())).cgroup_memory_max_bytes, Some(7000));
}

#[test]
fn a_container_sees_only_its_own_cgroup() {
    let mounted = "36 35 0:30 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
    for group in ["0::/docker/x/job\n", "0::/job\n", "0::/../../elsewhere\n"] {
        let dir = tree(&[
            ("proc/self/mountinfo", mounted),
            ("proc/self/cgroup", group),
            ("sys/fs/cgroup/memory.max", "9000\n"),
            ("sys/fs/cgroup/job/memory.max", "max\n"),
        ]);
        assert_eq!(host(&roots(dir.path())).cgroup_memory_max_bytes, Some(9000), "{group}");
    }
}

/// An NVMe disk with one partition and its generic device.
fn nvme() -> TempDir {
    let at = "sys/devices/pci0/nvme987/nvme987n1";
    let files: Vec<(String, &str)> = [
        ("dev", "259:0\n"),
        ("size", "2048\n"),
        ("nsid", "7\n"),
        ("ro", "0\n"),
        ("device/model", "Quick Disk 2000   \n"),
        ("device/serial", "S123 \n"),
        ("queue/logical_block_size", "4096\n"),
        ("queue/physical_block_size", "16384\n"),
        ("queue/scheduler", "[none] mq-deadline kyber\n"),
        ("queue/nr_requests", "1023\n"),
        ("queue/max_sectors_kb", "128\n"),
        ("queue/max_segments", "33\n"),
        ("queue/rotational", "0\n"),
        ("queue/io_poll", "1\n"),
        ("queue/wbt_lat_usec", "2000\n"),
        ("queue/write_cache", "write back\n"),
        ("queue/discard_max_bytes", "0\n"),
        ("mq/0/cpu_list", "0\n"),
        ("mq/1/cpu_list", "1\n"),
        ("nvme987n1p1/dev", "259:1\n"),
        ("nvme987n1p1/partition", "1\n"),
        ("nvme987n1p1/size", "1024\n"),
        ("../ng987n1/dev", "1:3\n"),
    ]
    .map(|(path, content)| (format!("{at}/{path}"), content))
    .into();
    let files: Vec<(&str, &str)> = files.iter().map(|(p, c)| (p.as_str(), *c)).collect();
    let dir = tree(
        &[
            &files[..],
            &[("sys/dev/block/x", ""), ("sys/dev/char/x", ""), LISTS[0], LISTS[1], LISTS[2]],
        ]
        .concat(),
    );
    let sys = dir.path().join("sys");
    let link = |to: &str, from: &str| {
        symlink(sys.join("devices/pci0/nvme987").join(to), sys.join(from)).expect("link");
    };
    link("nvme987n1", "dev/block/259:0");
    link("nvme987n1/nvme987n1p1", "dev/block/259:1");
    // The number of /dev/null, so that a character device with it is there.
    link("ng987n1", "dev/char/1:3");
    dir
}

#[test]
fn facts_of_a_disk_and_its_partition() {
    let dir = nvme();
    let disk = device(&roots(dir.path()), (259, 0)).expect("there");
    assert_eq!((disk.name.as_str(), disk.size_bytes), ("nvme987n1", 1 << 20));
    assert_eq!(disk.model.as_deref(), Some("Quick Disk 2000"));
    assert_eq!(disk.serial.as_deref(), Some("S123"));
    assert_eq!((disk.logical_block, disk.physical_block), (4096, 16384));
    assert_eq!(disk.scheduler.as_deref(), Some("none"));
    assert_eq!((disk.nr_requests, disk.hardware_queues), (Some(1023), Some(2)));
    assert_eq!((disk.max_sectors_kb, disk.max_segments), (Some(128), Some(33)));
    assert_eq!((disk.rotational, disk.io_poll), (Some(false), Some(true)));
    assert_eq!((disk.wbt_lat_usec, disk.discard_max_bytes), (Some(2000), Some(0)));
    assert_eq!((disk.write_cache.as_deref(), disk.nvme_nsid), (Some("write back"), Some(7)));
    let partition = device(&roots(dir.path()), (259, 1)).expect("there");
    assert_eq!((partition.name.as_str(), partition.size_bytes), ("nvme987n1p1", 512 << 10));
    assert_eq!((partition.serial, partition.logical_block), (disk.serial, 4096));
    assert_eq!(device(&roots(dir.path()), (259, 2)), None);
}

#[test]
fn the_serial_number_of_a_scsi_disk() {
    let dir = tree(&[
        ("sys/dev/block/8:0/dev", "8:0\n"),
        ("sys/dev/block/8:0/size", "8\n"),
        ("sys/dev/block/8:0/device/vpd_pg80", "\0\u{80}\0\u{8}  WD-42  "),
    ]);
    // The header is four bytes, of which U+0080 makes two here.
    let path = dir.path().join("sys/dev/block/8:0/device/vpd_pg80");
    std::fs::write(path, b"\x00\x80\x00\x08  WD-42  ").expect("page");
    let disk = device(&roots(dir.path()), (8, 0)).expect("there");
    assert_eq!(disk.serial.as_deref(), Some("WD-42"));
    std::fs::write(dir.path().join("sys/dev/block/8:0/device/vpd_pg80"), b"\x00").expect("page");
    assert_eq!(device(&roots(dir.path()), (8, 0)).expect("there").serial, None);
}

/// A SCSI disk with one partition and its generic device, which has the number of /dev/null.
fn scsi() -> TempDir {
    let dir = tree(&[
        LISTS[0],
        LISTS[1],
        LISTS[2],
        ("sys/bus/scsi/uevent", ""),
        ("sys/dev/block/x", ""),
        ("sys/dev/char/x", ""),
        ("sys/devices/0:0:0:0/block/sdzz/dev", "8:987\n"),
        ("sys/devices/0:0:0:0/block/sdzz/size", "2048\n"),
        ("sys/devices/0:0:0:0/block/sdzz/queue/logical_block_size", "4096\n"),
        ("sys/devices/0:0:0:0/block/sdzz/sdzz1/dev", "8:988\n"),
        ("sys/devices/0:0:0:0/block/sdzz/sdzz1/partition", "1\n"),
        ("sys/devices/0:0:0:0/block/sdzz/sdzz1/device/x", ""),
        ("sys/devices/0:0:0:0/scsi_generic/sg987/dev", "1:3\n"),
    ]);
    let sys = dir.path().join("sys");
    let disk = sys.join("devices/0:0:0:0");
    let link = |to: std::path::PathBuf, from: &str| symlink(to, sys.join(from)).expect("link");
    link(sys.join("bus/scsi"), "devices/0:0:0:0/subsystem");
    link(disk.clone(), "devices/0:0:0:0/block/sdzz/device");
    link(disk.join("block/sdzz"), "dev/block/8:987");
    link(disk.join("block/sdzz/sdzz1"), "dev/block/8:988");
    link(disk.join("scsi_generic/sg987"), "dev/char/1:3");
    dir
}

#[test]
fn commands_address_a_scsi_disk_but_not_its_partition() {
    let dir = scsi();
    let is_disk = |number| device(&roots(dir.path()), number).expect("there").scsi_disk;
    assert!(is_disk((8, 987)));
    assert!(!is_disk((8, 988)));
    let nvme = nvme();
    assert!(!device(&roots(nvme.path()), (259, 0)).expect("there").scsi_disk);
}

mod generic {
    //! Generic devices: the number of /dev/null stands for one in the made-up tree.

    use super::{nvme, roots, scsi};
    use fathom_machine::Lookup;
    use fathom_machine::guard::{self, Permissions};
    use fathom_model::Plan;
    use fathom_model::facts::TargetKind;
    use fathom_model::plan::{Fallocate, Target};

    fn plan(written: bool) -> Plan {
        let target = Target {
            path: "/dev/null".to_string(),
            within: None,
            create_size: None,
            fallocate: Fallocate::None,
            fill: false,
            create_on_open: false,
            unlink: false,
            invalidate: true,
            written,
            trimmed: false,
        };
        Plan { targets: vec![target], ..Plan::default() }
    }

    #[test]
    fn generic_device_resolves_to_its_block_device() {
        let dir = nvme();
        let facts = Lookup::new(&roots(dir.path())).target("/dev/null").expect("there");
        assert_eq!(facts.kind, TargetKind::NvmeGeneric);
        assert_eq!((facts.size_bytes, facts.device_number), (1 << 20, (1, 3)));
        let device = facts.device.expect("its block device");
        assert_eq!((device.name.as_str(), device.nvme_nsid), ("nvme987n1", Some(7)));
        let opened =
            guard::open_all(&roots(dir.path()), &plan(false), &Permissions::default(), &|| false);
        assert_eq!(opened.expect("reading is free")[0].facts.size_bytes, 1 << 20);
    }

    #[test]
    fn scsi_generic_device_resolves_to_its_disk() {
        let dir = scsi();
        let facts = Lookup::new(&roots(dir.path())).target("/dev/null").expect("there");
        assert_eq!((facts.kind, facts.size_bytes), (TargetKind::ScsiGeneric, 1 << 20));
        let disk = facts.device.expect("its disk");
        assert_eq!((disk.name.as_str(), disk.logical_block, disk.scsi_disk), ("sdzz", 4096, true));
        // That of a tape drive or an enclosure.
        std::fs::remove_dir_all(dir.path().join("sys/devices/0:0:0:0/block"))
            .expect("made-up tree");
        let facts = Lookup::new(&roots(dir.path())).target("/dev/null").expect("there");
        assert_eq!(facts.kind, TargetKind::Other);
    }

    /// The same disk with the number of /dev/null for its bsg device.
    fn bsg() -> tempfile::TempDir {
        let dir = scsi();
        let sys = dir.path().join("sys");
        let node = sys.join("devices/0:0:0:0/bsg/0:0:0:0");
        std::fs::create_dir_all(&node).expect("made-up tree");
        std::fs::remove_file(sys.join("dev/char/1:3")).expect("made-up tree");
        std::os::unix::fs::symlink(node, sys.join("dev/char/1:3")).expect("link");
        dir
    }

    #[test]
    fn bsg_device_resolves_to_its_disk() {
        let dir = bsg();
        let facts = Lookup::new(&roots(dir.path())).target("/dev/null").expect("there");
        assert_eq!((facts.kind, facts.size_bytes), (TargetKind::ScsiBsg, 1 << 20));
        assert_eq!(facts.device.expect("its disk").name, "sdzz");
    }

    #[test]
    fn writing_a_scsi_generic_device_holds_the_disk() {
        [scsi(), bsg()].iter().for_each(holds_the_disk);
    }

    fn holds_the_disk(dir: &tempfile::TempDir) {
        let erase = vec!["/dev/null".to_string()];
        let all = Permissions { erase, ..Permissions::default() };
        let refusal = || {
            let result = guard::open_all(&roots(dir.path()), &plan(true), &all, &|| false);
            result.err().expect("refused").to_string()
        };
        assert!(refusal().contains("/dev/sdzz"), "{}", refusal());
        let disk = dir.path().join("sys/devices/0:0:0:0/block/sdzz");
        std::fs::create_dir_all(disk.join("sdzz1/holders/md0")).expect("made-up tree");
        assert!(refusal().contains("md0 is stacked on /dev/sdzz1"), "{}", refusal());
    }

    #[test]
    fn namespace_is_unknown_without_a_block_size() {
        let dir = nvme();
        let disk = dir.path().join("sys/dev/char/1:3").canonicalize().expect("generic node");
        let block = disk.parent().expect("controller").join("nvme987n1/queue/logical_block_size");
        std::fs::remove_file(block).expect("removed");
        let facts = Lookup::new(&roots(dir.path())).target("/dev/null").expect("there");
        assert_eq!(facts.device.expect("its block device").nvme_nsid, None);
    }

    #[test]
    fn writing_holds_the_block_device() {
        let dir = nvme();
        let erase = vec!["/dev/null".to_string(), "/dev/nvme987n1@S123".to_string()];
        let all = Permissions { erase, ..Permissions::default() };
        let refusal = || {
            let result = guard::open_all(&roots(dir.path()), &plan(true), &all, &|| false);
            result.err().expect("refused").to_string()
        };
        // There is no such block device here that could be held.
        assert!(refusal().contains("/dev/nvme987n1"), "{}", refusal());
        let disk = dir.path().join("sys/devices/pci0/nvme987/nvme987n1");
        std::fs::create_dir_all(disk.join("nvme987n1p1/holders/md0")).expect("made-up tree");
        assert!(refusal().contains("md0 is stacked on /dev/nvme987n1p1"), "{}", refusal());
        std::fs::remove_dir_all(disk.join("nvme987n1p1/holders")).expect("made-up tree");
        std::fs::write(disk.join("ro"), "1\n").expect("made-up tree");
        assert!(refusal().contains("read-only"), "{}", refusal());
    }
}

#[test]
fn a_stacked_device_lists_its_members() {
    let dir = tree(&[
        ("sys/devices/virtual/block/md987/dev", "9:987\n"),
        ("sys/devices/virtual/block/md987/slaves/nvme8n1/size", "8\n"),
        ("sys/devices/virtual/block/md987/slaves/nvme9n1/size", "8\n"),
    ]);
    std::fs::create_dir_all(dir.path().join("sys/dev/block")).expect("made-up tree");
    symlink("../../devices/virtual/block/md987", dir.path().join("sys/dev/block/9:987"))
        .expect("made-up tree");
    let facts = device(&roots(dir.path()), (9, 987)).expect("it is there");
    assert_eq!((facts.name.as_str(), facts.members.join(" ")), ("md987", "nvme8n1 nvme9n1".into()));
}

#[test]
fn facts_of_this_machine() {
    let host = host(&Roots::default());
    assert!(!host.hostname.is_empty() && !host.kernel.is_empty() && !host.arch.is_empty());
    assert!(host.memory_bytes >= host.memory_available_bytes && host.memory_available_bytes > 0);
    assert!(!host.cpus_allowed.is_empty() && host.cpus_online > 0);
    let affinity = rustix::thread::sched_getaffinity(None).expect("affinity");
    assert_eq!(host.cpus_allowed.len(), affinity.count() as usize);
    assert!(!host.clocksource.is_empty() && host.open_files_limit > 0);
}
