use super::*;
use fathom_model::watch::CgroupIo;
use std::fs;

/// A synthetic /proc and /sys.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new(groups: &str, mounts: &str) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.write("proc/7/cgroup", groups);
        tree.write("proc/self/mountinfo", mounts);
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn open(&self) -> Cgroups {
        let root = self.0.path();
        Cgroups::open(&root.join("proc"), &root.join("sys"), Some(7)).unwrap()
    }

    fn read(&self) -> Option<CgroupSample> {
        self.open().read(&mut Vec::new())
    }
}

const V2: &str = "36 25 0:31 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n\
    22 1 254:0 / / rw - ext4 /dev/vda rw\n";

#[test]
fn version_2_with_the_lowest_limit_of_all_parents() {
    let tree = Tree::new("0::/db.slice/pg.service\n", V2);
    let dir = "sys/fs/cgroup/db.slice";
    tree.write(&format!("{dir}/cpu.max"), "150000 100000\n");
    tree.write(
        &format!("{dir}/cpu.stat"),
        "usage_usec 1\nnr_periods 5\nnr_throttled 2\nthrottled_usec 700\n",
    );
    tree.write(&format!("{dir}/memory.max"), "4096000\n");
    tree.write(&format!("{dir}/memory.high"), "2048000\n");
    tree.write(&format!("{dir}/memory.current"), "1000\n");
    tree.write(&format!("{dir}/memory.events.local"), "low 9\nhigh 3\nmax 4\noom 1\n");
    let stat = "anon 5\nworkingset_refault_anon 30\nworkingset_refault_file 12\n";
    tree.write(&format!("{dir}/memory.stat"), stat);
    let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
    tree.write(&format!("{dir}/memory.pressure"), pressure);
    tree.write(&format!("{dir}/pg.service/cpu.max"), "max 100000\n");
    tree.write(&format!("{dir}/pg.service/cpu.stat"), "nr_throttled 1\nthrottled_usec 50\n");
    tree.write(&format!("{dir}/pg.service/memory.max"), "max\n");
    tree.write(&format!("{dir}/pg.service/memory.current"), "600\n");
    tree.write(
        &format!("{dir}/pg.service/io.max"),
        "254:0 rbps=1048576 wbps=max riops=100 wiops=max\n8:0 rbps=max wbps=max riops=max wiops=max\n",
    );
    tree.write(
        &format!("{dir}/pg.service/io.stat"),
        "8:0 rbytes=9 wbytes=9 rios=9 wios=9\n254:0 rbytes=81920 wbytes=4096 rios=20 wios=1 dbytes=0 dios=0\n",
    );
    tree.write(&format!("{dir}/pg.service/io.latency"), "254:0 target=2000\n");
    tree.write(&format!("{dir}/pg.service/io.weight"), "default 50\n254:0 20\n");
    tree.write("sys/fs/cgroup/io.cost.qos", "254:0 enable=1 ctrl=auto\n");
    fs::create_dir_all(tree.0.path().join("sys/dev/block")).unwrap();
    fs::create_dir_all(tree.0.path().join("sys/block/vda")).unwrap();
    std::os::unix::fs::symlink("../../block/vda", tree.0.path().join("sys/dev/block/254:0"))
        .unwrap();
    assert_eq!(
        tree.read().unwrap(),
        CgroupSample {
            path: "/db.slice/pg.service".into(),
            cpu_limit: Some(1.5),
            throttled_periods: Some(3),
            throttled_us: Some(750),
            memory_limit: Some(2_048_000),
            memory_used: Some(1000),
            memory_hits: Some(7),
            memory_refaults: Some(42),
            memory_stalled_us: Some(77),
            io_limits: vec!["/db.slice/pg.service vda rbps=1048576 riops=100".into()],
            io_limits_v1: false,
            io_done: vec![CgroupIo {
                cgroup: "/db.slice/pg.service".into(),
                device: "vda".into(),
                reads: 20,
                writes: 1,
                read_bytes: 81920,
                write_bytes: 4096,
            }],
            io_control: vec![
                "/db.slice/pg.service vda target=2000".into(),
                "/db.slice/pg.service default weight=50".into(),
                "/db.slice/pg.service vda weight=20".into(),
                "/ vda enable=1 ctrl=auto".into(),
            ],
        }
    );
}

#[test]
fn version_1_with_hierarchies_of_their_own() {
    let mounts = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        39 31 0:36 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let groups = "9:name=systemd:/\n7:blkio:/b\n4:memory:/m\n2:cpu,cpuacct:/c\n0::/\n";
    let tree = Tree::new(groups, mounts);
    let dir = "sys/fs/cgroup";
    tree.write(&format!("{dir}/cpu/c/cpu.cfs_quota_us"), "25000\n");
    tree.write(&format!("{dir}/cpu/c/cpu.cfs_period_us"), "100000\n");
    tree.write(
        &format!("{dir}/cpu/c/cpu.stat"),
        "nr_periods 9\nnr_throttled 4\nthrottled_time 8000000\n",
    );
    tree.write(&format!("{dir}/cpu/cpu.cfs_quota_us"), "-1\n");
    tree.write(&format!("{dir}/memory/m/memory.limit_in_bytes"), "9223372036854771712\n");
    tree.write(&format!("{dir}/memory/m/memory.usage_in_bytes"), "12288\n");
    tree.write(&format!("{dir}/memory/m/memory.failcnt"), "6\n");
    tree.write(&format!("{dir}/blkio/b/blkio.throttle.read_bps_device"), "254:0 1000\n");
    tree.write(&format!("{dir}/blkio/b/blkio.throttle.write_iops_device"), "254:0 50\n");
    tree.write(&format!("{dir}/blkio/b/blkio.bfq.weight"), "10\n");
    tree.write(
        &format!("{dir}/blkio/b/blkio.throttle.io_serviced_recursive"),
        "254:0 Read 20\n254:0 Write 1\n254:0 Sync 21\n254:0 Total 21\nTotal 21\n",
    );
    assert_eq!(
        tree.read().unwrap(),
        CgroupSample {
            path: "/c".into(),
            cpu_limit: Some(0.25),
            throttled_periods: Some(4),
            throttled_us: Some(8000),
            memory_limit: None,
            memory_used: Some(12288),
            memory_hits: Some(6),
            memory_refaults: None,
            memory_stalled_us: None,
            io_limits: vec!["/b 254:0 rbps=1000 wiops=50".into()],
            io_limits_v1: true,
            io_done: vec![CgroupIo {
                cgroup: "/b".into(),
                device: "254:0".into(),
                reads: 20,
                writes: 1,
                ..CgroupIo::default()
            }],
            io_control: vec!["/b default bfq_weight=10".into()],
        }
    );
}

#[test]
fn moved_processes_and_changed_limits() {
    let tree = Tree::new("0::/a\n", V2);
    tree.write("sys/fs/cgroup/a/cpu.max", "100000 100000\n");
    tree.write("sys/fs/cgroup/b/cpu.max", "300000 100000\n");
    let mut cgroups = tree.open();
    let mut limit = || cgroups.read(&mut Vec::new()).unwrap().cpu_limit;
    assert_eq!(limit(), Some(1.0));
    tree.write("sys/fs/cgroup/a/cpu.max", "200000 100000\n");
    assert_eq!(limit(), Some(2.0));
    tree.write("proc/7/cgroup", "0::/b\n");
    assert_eq!(limit(), Some(3.0));
}

#[test]
fn a_container_sees_the_hosts_cgroup_at_its_mount() {
    let mounts = "36 25 0:31 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    let tree = Tree::new("0::/docker/abc/inner\n", mounts);
    tree.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
    tree.write("sys/fs/cgroup/inner/cpu.max", "max 100000\n");
    tree.write("sys/fs/cgroup/io.max", "8:0 wbps=5\n");
    let sample = tree.read().unwrap();
    assert_eq!(sample.cpu_limit, Some(0.5));
    assert_eq!(sample.io_limits, ["/docker/abc 8:0 wbps=5"]);
    // For a cgroup outside the mounted part, the one at the mount point applies.
    tree.write("proc/7/cgroup", "0::/../other\n");
    assert_eq!(tree.read().unwrap().cpu_limit, Some(0.5));
}

#[test]
fn without_cgroups_there_are_no_limits() {
    assert_eq!(Tree::new("0::/\n", "").read(), None);
    assert_eq!(Tree::new("", V2).read(), None);
    assert_eq!(Tree::new("x\n:\n0::\n", "1 2\n - cgroup\n a b c d e - cgroup x\n").read(), None);
    let tree = Tree::new("", V2);
    let root = tree.0.path();
    assert!(Cgroups::open(&root.join("proc"), &root.join("sys"), Some(8)).is_err());
}

#[test]
fn the_running_kernel() {
    let mut cgroups = Cgroups::open(Path::new("/proc"), Path::new("/sys"), None).unwrap();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
    let Some(sample) = cgroups.read(&mut Vec::new()) else {
        eprintln!("skipped: the cgroups of this process are not mounted: {groups}");
        return;
    };
    assert!(groups.contains(&sample.path), "{sample:?}");
}

#[test]
fn an_exiting_process_keeps_its_cgroup() {
    let tree = Tree::new("0::/db\n", V2);
    tree.write("sys/fs/cgroup/db/memory.max", "4096000\n");
    tree.write("sys/fs/cgroup/cpu.stat", "nr_throttled 0\n");
    let mut cgroups = tree.open();
    let mut limit = || cgroups.read(&mut Vec::new()).unwrap().memory_limit;
    assert_eq!(limit(), Some(4_096_000));
    // PF_EXITING is set, but the process is not a zombie yet.
    tree.write("proc/7/stat", "7 (a) b) R 1 7 7 0 -1 4194308 0\n");
    tree.write("proc/7/cgroup", "0::/\n");
    assert_eq!(limit(), Some(4_096_000));
    tree.write("proc/7/stat", "7 (a) b) R 1 7 7 0 -1 4194304 0\n");
    assert_eq!(limit(), None);
}
