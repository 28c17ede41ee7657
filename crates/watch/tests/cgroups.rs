//! cgroup limits enforced by the running kernel. Skipped, with the reason printed, if no cgroup can
//! be created.

#![allow(clippy::unwrap_used, clippy::panic)]

use fathom_model::watch::SystemSample;
use fathom_watch::system::SystemSampler;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A cgroup with one process; removed when dropped.
struct Group {
    dir: PathBuf,
    child: Option<Child>,
}

impl Group {
    /// `None`, with the reason printed, if this machine does not allow it.
    fn new(controller: &str, one: (&str, &str), two: (&str, &str)) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let enabled = fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
        let (parent, limit) = if root.join(controller).join("cgroup.procs").exists() {
            (root.join(controller), one)
        } else if enabled.split_whitespace().any(|enabled| enabled == controller) {
            (root.to_path_buf(), two)
        } else {
            eprintln!(
                "skipped: the hierarchy at {} lacks the controller {controller}",
                root.display()
            );
            return None;
        };
        let dir = parent.join(format!("fathom-test-{controller}-{}", std::process::id()));
        let group = Self { dir, child: None };
        let make = || -> io::Result<()> {
            fs::create_dir(&group.dir)?;
            fs::write(group.dir.join(limit.0), limit.1)
        };
        match make() {
            Ok(()) => Some(group),
            Err(error) => {
                eprintln!("skipped: {}: {error}", group.dir.display());
                None
            }
        }
    }

    /// Runs a shell script in the cgroup; returns its process ID.
    fn run(&mut self, script: &str) -> i32 {
        let procs = self.dir.join("cgroup.procs");
        let script = format!("echo $$ > '{}'; {script}", procs.display());
        let child = Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id() as i32;
        self.child = Some(child);
        pid
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        // The shell's children exit a little later.
        for _ in 0..100 {
            let procs = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
            if procs.is_empty() && fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Samples until the condition holds.
fn wait_for(pid: i32, what: impl Fn(&SystemSample) -> bool) -> SystemSample {
    let mut sampler =
        SystemSampler::open(Path::new("/proc"), Path::new("/sys"), Some(pid)).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let sample = sampler.read().unwrap();
        if what(&sample) {
            return sample;
        }
        assert!(Instant::now() < end, "timed out: {:?}", sample.cgroup);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn cpu_throttling() {
    let (one, two) = (("cpu.cfs_quota_us", "20000"), ("cpu.max", "20000 100000"));
    let Some(mut group) = Group::new("cpu", one, two) else { return };
    let pid = group.run("while :; do :; done");
    // The time is counted when the throttled period ends.
    let sample = wait_for(pid, |sample| {
        sample.cgroup.as_ref().is_some_and(|group| group.throttled_us > Some(0))
    });
    let limits = sample.cgroup.unwrap();
    assert_eq!(limits.cpu_limit, Some(0.2));
    assert!(
        limits.throttled_periods > Some(0) && limits.path.contains("fathom-test-cpu"),
        "{limits:?}"
    );
}

#[test]
fn memory_reclaim_at_the_limit() {
    const LIMIT: u64 = 16 << 20;
    let limit = LIMIT.to_string();
    let (one, two) = (("memory.limit_in_bytes", &*limit), ("memory.max", &*limit));
    let Some(mut group) = Group::new("memory", one, two) else { return };
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::write(file.path(), vec![7; 4 * LIMIT as usize]).unwrap();
    // Pages already cached would not be charged to this process.
    let path = file.path().display();
    let pid = group.run(&format!(
        "while :; do dd if='{path}' of=/dev/null bs=1M iflag=nocache count=0 2>/dev/null; cat '{path}'; done"
    ));
    let first = wait_for(pid, |sample| sample.cgroup.is_some());
    let sample = wait_for(pid, |sample| {
        let hits = sample.cgroup.as_ref().and_then(|group| group.memory_hits);
        hits > Some(0) && sample.paging.steal_file > first.paging.steal_file
    });
    let limits = sample.cgroup.unwrap();
    assert_eq!(limits.memory_limit, Some(LIMIT));
    assert!(limits.memory_used <= Some(LIMIT), "{limits:?}");
}
