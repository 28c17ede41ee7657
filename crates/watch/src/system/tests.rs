use super::*;
use std::fs;

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn open(root: &tempfile::TempDir) -> io::Result<SystemSampler> {
    SystemSampler::open(&root.path().join("proc"), &root.path().join("sys"), None)
}

const STAT: (&str, &str) =
    ("proc/stat", "cpu  1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8\nctxt 90\nprocs_running 3\n");

#[test]
fn a_whole_machine() {
    let root = tree(&[
        STAT,
        ("proc/interrupts", "     CPU0\n 24:   5  PCI-MSI  0-edge      nvme0q1\n"),
        ("proc/softirqs", "     CPU0\n BLOCK:   6\n"),
        ("proc/meminfo", "MemTotal: 100 kB\n"),
        ("proc/vmstat", "pgscan_direct 12\n"),
        ("proc/pressure/cpu", "some avg10=0.00 total=1\nfull avg10=0.00 total=2\n"),
        ("proc/pressure/memory", "some avg10=0.00 total=3\n"),
        ("proc/pressure/io", "some avg10=0.00 total=4\n"),
        ("proc/self/cgroup", "0::/\n"),
        ("proc/self/mountinfo", "36 25 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("sys/fs/cgroup/cpu.max", "200000 100000\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "800000\n"),
    ]);
    let mut sampler = open(&root).unwrap();
    assert_eq!(sampler.missing(), []);
    let mut sample = MachineSample::default();
    sampler.take(&mut sample);
    let system = sample.system.unwrap();
    assert_eq!((system.cpus[0].steal, system.cpus[0].khz), (8, Some(800_000)));
    assert_eq!((system.context_switches, system.running), (90, 3));
    assert_eq!(system.interrupts_by[0].source, "nvme0q1");
    assert_eq!(system.soft_interrupts_by[0].counts, [(0, 6)]);
    assert_eq!((system.memory.total, system.paging.scan_direct), (102_400, 12));
    let pressure = system.pressure.unwrap();
    assert_eq!((pressure.cpu.full_us, pressure.io.some_us, pressure.irq), (2, 4, None));
    assert_eq!(system.cgroup.unwrap().cpu_limit, Some(2.0));
}

#[test]
fn missing_files_are_named_and_omitted() {
    let root = tree(&[STAT, ("proc/self/cgroup", "0::/\n")]);
    let mut sampler = open(&root).unwrap();
    let what: Vec<&str> = sampler.missing().iter().map(|missing| missing.source.as_str()).collect();
    assert_eq!(
        what,
        [
            "interrupts by source",
            "softirqs by kind",
            "memory",
            "paging and reclaim",
            "pressure (PSI)",
            "CPU frequencies",
            "cgroup limits",
        ]
    );
    let stalls = sampler.missing()[4].to_string();
    assert!(stalls.contains("pressure/cpu: ") && stalls.ends_with("psi=1"), "{stalls}");
    let system = sampler.read().unwrap();
    assert_eq!((system.cpus.len(), system.pressure, system.cgroup), (1, None, None));
}

#[test]
fn a_missing_stat_is_an_error_and_other_malformed_files_are_omitted() {
    let root = tree(&[]);
    assert!(open(&root).unwrap_err().to_string().contains("proc/stat"));
    let root = tree(&[STAT]);
    let mut sampler = open(&root).unwrap();
    fs::write(root.path().join("proc/stat"), "cpu0 x\n").unwrap();
    let mut sample = MachineSample::default();
    sampler.take(&mut sample);
    assert_eq!(sample.system, None);
}

#[test]
fn the_running_kernel() {
    let mut sampler = SystemSampler::open(Path::new("/proc"), Path::new("/sys"), None).unwrap();
    let then = sampler.read().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    let now = sampler.read().unwrap();
    let online = std::thread::available_parallelism().unwrap().get();
    assert!(now.cpus.len() >= online, "{} of {online}", now.cpus.len());
    assert!(now.running >= 1 && now.memory.total > now.memory.free);
    assert!(now.context_switches > then.context_switches);
    assert!(now.interrupts > then.interrupts && now.paging.faults >= then.paging.faults);
    assert!(now.interrupts_by.iter().all(|source| !source.counts.is_empty()));
}
