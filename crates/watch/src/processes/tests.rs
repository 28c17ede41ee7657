use super::*;
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// A process of a synthetic /proc: its CPU time in ticks and the bytes that it read from devices.
fn process(root: &Path, (pid, parent, comm): (i32, i32, &str), ticks: u64, read: u64) {
    let dir = root.join(pid.to_string());
    fs::create_dir_all(&dir).unwrap();
    let stat = format!(
        "{pid} ({comm}) S {parent} 1 1 0 -1 4194304 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {pid} 0"
    );
    fs::write(dir.join("stat"), stat).unwrap();
    let io = format!(
        "rchar: {read}\nwchar: 0\nsyscr: 1\nsyscw: 0\nread_bytes: {read}\nwrite_bytes: 5\n"
    );
    fs::write(dir.join("io"), io).unwrap();
}

fn take(sampler: &mut ProcessSampler) -> ProcessesSample {
    let mut sample = MachineSample::default();
    sampler.finish();
    sampler.take(&mut sample);
    sample.processes.unwrap()
}

#[test]
fn watched_and_other_processes() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    process(root, (90, 1, "sh"), 1, 0);
    process(root, (91, 90, "a (b) c"), 10, 1000);
    process(root, (70, 1, "dd"), 50, 5000);
    process(root, (71, 1, "dd"), 50, 5000);
    process(root, (72, 1, "idle"), 3, 0);
    let mut sampler = ProcessSampler::open(root, Scope::Trees(vec![90])).unwrap();
    process(root, (91, 90, "a (b) c"), 30, 4000);
    process(root, (70, 1, "dd"), 60, 6000);
    process(root, (71, 1, "dd"), 51, 9000);
    let sample = take(&mut sampler);
    let tick = sampler.tick_ns;
    let watched = &sample.watched;
    assert_eq!((watched.comm.as_str(), watched.pid, watched.processes), ("a (b) c", 91, 2));
    assert_eq!(
        (watched.cpu_ns, watched.disk_read, watched.requested_read),
        (20 * tick, 3000, 3000)
    );
    assert_eq!(watched.disk_write, 0);
    let others: Vec<_> =
        sample.others.iter().map(|o| (o.comm.as_str(), o.pid, o.processes, o.cpu_ns)).collect();
    assert_eq!(others, [("dd", 70, 2, 11 * tick)]);
    assert_eq!(sample.others[0].disk_read, 5000);
    assert!(sample.elapsed_ns > 0);
}

#[test]
fn children_that_ended_count_once() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    process(root, (90, 1, "make"), 10, 0);
    process(root, (91, 90, "cc1"), 100, 8000);
    let mut sampler = ProcessSampler::open(root, Scope::Trees(vec![90])).unwrap();
    // It used 20 more ticks and ended, and so did a short one that was never seen.
    fs::remove_dir_all(root.join("91")).unwrap();
    process(root, (90, 1, "make"), 10 + 120 + 7, 9000);
    let sample = take(&mut sampler);
    assert_eq!(sample.watched.cpu_ns, 27 * sampler.tick_ns);
    assert_eq!(sample.watched.disk_read, 1000);
    // An orphan remains watched.
    process(root, (92, 90, "late"), 1, 0);
    take(&mut sampler);
    process(root, (92, 1, "late"), 4, 0);
    assert_eq!(take(&mut sampler).watched.cpu_ns, 3 * sampler.tick_ns);
}

#[test]
fn whole_trees_that_ended_count_once() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    process(root, (1, 0, "init"), 5, 0);
    process(root, (90, 1, "sh"), 10, 0);
    process(root, (91, 90, "make"), 20, 100);
    process(root, (92, 91, "cc1"), 5000, 8000);
    process(root, (93, 91, "ld"), 700, 50);
    let mut sampler = ProcessSampler::open(root, Scope::Trees(vec![90])).unwrap();
    for ended in ["91", "92", "93"] {
        fs::remove_dir_all(root.join(ended)).unwrap();
    }
    // cc1 used 7 more ticks, and make waited for it, but not for ld, for which init waited.
    process(root, (90, 1, "sh"), 10 + 20 + 5000 + 7, 8100);
    process(root, (1, 0, "init"), 5 + 700 + 2, 50);
    let sample = take(&mut sampler);
    assert_eq!(sample.watched.cpu_ns, 7 * sampler.tick_ns);
    assert_eq!((sample.watched.disk_read, sample.others[0].disk_read), (0, 0));
    assert_eq!(sample.others[0].cpu_ns, 2 * sampler.tick_ns);
}

#[test]
fn this_process_and_its_open_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse");
    let file = fs::File::create(&path).unwrap();
    file.set_len(8 << 20).unwrap();
    let synced = dir.path().join("synced");
    let dsync = OFlags::DSYNC.bits() as i32;
    let log = fs::File::options().create(true).append(true).custom_flags(dsync).open(&synced);
    let log = log.unwrap();
    log.set_len(8 << 20).unwrap();
    let mut sampler =
        ProcessSampler::open(Path::new("/proc"), Scope::Only(vec![own_pid()])).unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(60) {
        std::hint::black_box(fs::read("/proc/self/stat").unwrap());
    }
    let sample = take(&mut sampler);
    assert!(sample.watched.cpu_ns > 0 && sample.watched.requested_read > 0, "{sample:?}");
    let own = sample.files.iter().find(|open| Path::new(&open.path) == path).unwrap();
    assert_eq!((own.size, own.allocated, own.direct, own.sync), (8 << 20, 0, false, false));
    let log = sample.files.iter().find(|open| Path::new(&open.path) == synced).unwrap();
    assert!(log.sync && !log.direct, "{log:?}");
    assert!(take(&mut sampler.without_files()).files.is_empty());
}

#[test]
fn other_forms_are_skipped() {
    for text in ["", "1 (a", "1 (a) S", "1 (a) S 0 1 1 0 -1 x"] {
        assert_eq!(ProcessStat::parse(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn the_cpus_of_the_process_that_works_and_the_swap_of_all() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    process(root, (90, 1, "sh"), 1, 0);
    process(root, (91, 90, "fio"), 10, 1000);
    let mut sampler = ProcessSampler::open(root, Scope::Trees(vec![90])).unwrap();
    process(root, (91, 90, "fio"), 30, 4000);
    let status = |pid: i32, cpus: &str| {
        let text = format!("Name:\tx\nVmSwap:\t      12 kB\nCpus_allowed_list:\t{cpus}\n");
        fs::write(root.join(pid.to_string()).join("status"), text).unwrap();
    };
    status(90, "0-7");
    status(91, "2,4");
    let sample = take(&mut sampler);
    assert_eq!((sample.cpus_allowed.as_str(), sample.swapped), ("2,4", Some(24 << 10)));
    fs::write(root.join("91/status"), "VmSwap: x kB\nCpus_allowed_list:\t9-1\n").unwrap();
    fs::remove_file(root.join("90/status")).unwrap();
    let sample = take(&mut sampler);
    assert_eq!((sample.cpus_allowed.as_str(), sample.swapped), ("", None));
}

#[test]
fn kernel_threads_are_read_once() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let kthread = "60 (kworker/0:1) S 2 0 0 0 -1 2097152 0 0 0 0 5 0 0 0 20 0 1 0 60 0";
    process(root, (60, 2, "kworker/0:1"), 5, 0);
    fs::write(root.join("60/stat"), kthread).unwrap();
    let mut sampler = ProcessSampler::open(root, Scope::Machine).unwrap();
    // The same directory is the same thread, whatever its file says now.
    process(root, (60, 2, "kworker/0:1"), 90, 0);
    assert!(take(&mut sampler).watched.comm.is_empty() && sampler.known.is_empty());
    // Another process with this ID.
    process(root, (61, 1, "dd"), 90, 0);
    fs::remove_dir_all(root.join("60")).unwrap();
    fs::rename(root.join("61"), root.join("60")).unwrap();
    take(&mut sampler);
    assert!(sampler.known.contains_key(&60) && sampler.kernel.is_empty());
}
