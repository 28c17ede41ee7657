//! Settings are restored, whatever happens: on synthetic /sys trees whose elevator resets other settings, as the
//! kernel's do, with processes killed at every step.
#![allow(clippy::expect_used, clippy::panic)]

use fathom_machine::Roots;
use fathom_machine::settings::{Restored, RestoredHow, Settings, SettingsError};
use fathom_model::setting::SettingChange;
use rustix::process::{Signal, getpid, kill_process};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const QUEUE: &str = "sys/block/sda/queue";
const TREE: &[(&str, &str)] = &[
    ("sys/block/sda/dev", "8:0\n"),
    ("sys/block/sda/queue/scheduler", "none [mq-deadline] kyber\n"),
    ("sys/block/sda/queue/nr_requests", "512\n"),
    ("sys/block/sda/queue/read_ahead_kb", "128\n"),
    ("sys/block/sda/queue/nomerges", "0\n"),
    ("sys/block/sda/queue/iostats", "1\n"),
    ("sys/block/sda/queue/wbt_lat_usec", "75000\n"),
    ("sys/block/sda/queue/iosched/read_expire", "123\n"),
    ("sys/block/sdb/dev", "8:16\n"),
    ("sys/block/sdb/queue/nomerges", "0\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"),
    ("sys/devices/system/cpu/cpufreq/policy4/scaling_governor", "schedutil\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("proc/irq/24/smp_affinity_list", "0-3\n"),
    ("proc/sys/vm/drop_caches", "0\n"),
    ("proc/sys/kernel/random/boot_id", "first-boot\n"),
    (
        "proc/self/mountinfo",
        "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n31 20 0:27 / /sys/fs/cpu rw - cgroup cgroup rw,cpu\n",
    ),
    ("proc/self/status", "RssAnon:\t1024 kB\n"),
    ("proc/self/cgroup", "0::/user\n3:cpu:/user\n"),
    ("sys/fs/cgroup/cgroup.subtree_control", "memory\n"),
    ("sys/fs/cgroup/user/cgroup.procs", ""),
    ("sys/fs/cgroup/user/cpu.max", "20000 100000\n"),
    ("sys/fs/cgroup/user/io.max", "8:0 rbps=1048576 wbps=max riops=max wiops=max\n"),
    ("sys/fs/cgroup/user/io.bfq.weight", "default 10\n"),
    ("proc/4711/cgroup", "0::/user\n"),
    ("sys/fs/cpu/user/cgroup.procs", ""),
];
/// All settings of the tree that are files.
const CHANGES: &[&str] = &[
    "nomerges=2",
    "nr_requests=64",
    "read_ahead_kb=0",
    "iostats=0",
    "governor=performance",
    "transparent_hugepage=never",
    "irq_affinity:24=1,2",
    "scheduler=none",
    "cpu_max:4711=max",
    "io_max:4711=max",
    "io_weight:4711=1000",
];

fn tree() -> tempfile::TempDir {
    // In memory, where syncing is fast.
    let dir = tempfile::tempdir_in("/dev/shm").expect("directory");
    for (path, content) in TREE {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("below")).expect("directory");
        std::fs::write(path, content).expect("file");
    }
    dir
}

fn settings(dir: &Path) -> Settings {
    let roots = Roots { proc: dir.join("proc"), sys: dir.join("sys") };
    let dir = dir.to_path_buf();
    Settings::new(roots, dir.join("run")).with_steps(Arc::new(move || resets(&dir)))
}

/// As the kernel does: a new elevator sets its own number of requests and brings its own settings, and a change of the
/// queue's limits raises a small read-ahead.
fn resets(dir: &Path) {
    let queue = dir.join(QUEUE);
    if !queue.exists() {
        return;
    }
    let (limits, known) = (value(dir, &format!("{QUEUE}/iostats")), dir.join("limits"));
    if std::fs::read_to_string(&known).unwrap_or_else(|_| "1".into()) != limits {
        std::fs::write(known, limits).expect("written");
        if value(dir, &format!("{QUEUE}/read_ahead_kb")).parse::<u32>().expect("a number") < 128 {
            std::fs::write(queue.join("read_ahead_kb"), "128\n").expect("written");
        }
    }
    let scheduler = value(dir, &format!("{QUEUE}/scheduler"));
    let own = queue.join("iosched/read_expire");
    if scheduler == "none" && own.exists() {
        std::fs::remove_file(own).expect("removed");
        std::fs::write(queue.join("nr_requests"), "1023\n").expect("written");
    } else if scheduler == "mq-deadline" && !own.exists() {
        std::fs::write(own, "500\n").expect("written");
        std::fs::write(queue.join("nr_requests"), "256\n").expect("written");
    }
}

fn value(dir: &Path, file: &str) -> String {
    let text = std::fs::read_to_string(dir.join(file)).expect("readable");
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(text.trim(), |(word, _)| word).to_string()
}

fn is_setting(path: &str) -> bool {
    let of_group = ["/cpu.max", "/io.max", "/io.bfq.weight"];
    !path.contains("cgroup") || of_group.iter().any(|file| path.ends_with(file))
}

/// Values of all files that the tests change.
fn values(dir: &Path) -> BTreeMap<String, String> {
    let settings = TREE.iter().filter(|(path, _)| !path.ends_with("/dev") && is_setting(path));
    let exists = |path: &&(&str, &str)| dir.join(path.0).exists();
    settings.filter(exists).map(|(path, _)| ((*path).into(), value(dir, path))).collect()
}

fn changes(texts: &[&str]) -> Vec<SettingChange> {
    texts.iter().map(|text| SettingChange::parse(text, "sda").expect("a change")).collect()
}

fn put(dir: &Path, file: &str, text: &str) {
    std::fs::write(dir.join(file), text).expect("written");
}

fn none_failed(restored: &[Restored]) {
    assert!(!restored.iter().any(Restored::is_failure), "{restored:?}");
}

#[test]
fn changes_last_as_long_as_their_guard() {
    let dir = tree();
    let before = values(dir.path());
    let guard = settings(dir.path()).apply(&changes(CHANGES)).expect("applied");
    assert_eq!(value(dir.path(), "sys/block/sda/queue/scheduler"), "none");
    assert_eq!(value(dir.path(), "sys/block/sda/queue/nr_requests"), "64");
    assert_eq!(
        value(dir.path(), "sys/devices/system/cpu/cpufreq/policy4/scaling_governor"),
        "performance"
    );
    let first = &guard.applied()[0];
    assert_eq!(
        (first.change.to_string().as_str(), first.old.as_str()),
        ("scheduler of sda=none", "mq-deadline")
    );
    assert_eq!(settings(dir.path()).left().expect("readable").len(), 12);
    let restored = guard.restore();
    none_failed(&restored);
    assert!(
        restored
            .iter()
            .any(|one| one.to_string() == "scheduler of sda restored: none → mq-deadline")
    );
    assert_eq!(values(dir.path()), before);
    assert_eq!(settings(dir.path()).left().expect("readable"), []);
}

#[test]
fn a_dropped_guard_restores_and_a_refused_change_restores_the_others() {
    let dir = tree();
    let before = values(dir.path());
    drop(settings(dir.path()).apply(&changes(CHANGES)).expect("applied"));
    assert_eq!(values(dir.path()), before);
    let error = settings(dir.path()).apply(&changes(&["nomerges=2", "io_poll=0"])).err();
    let error = error.expect("refused").to_string();
    assert_eq!(error, "io_poll of sda=0: sda has no queue/io_poll in sysfs");
    std::fs::create_dir(dir.path().join("sys/block/sda/queue/rq_affinity")).expect("directory");
    let error = settings(dir.path()).apply(&changes(&["nomerges=2", "rq_affinity=2"])).err();
    assert!(matches!(error, Some(SettingsError::Unreadable { .. })), "{error:?}");
    assert_eq!(value(dir.path(), "sys/block/sda/queue/nomerges"), "0");
}

#[test]
fn what_takes_no_effect_is_an_error() {
    let dir = tree();
    let path = dir.path().to_path_buf();
    let stubborn =
        Settings::new(Roots { proc: path.join("proc"), sys: path.join("sys") }, path.join("run"))
            .with_steps(Arc::new(move || put(&path, "sys/block/sda/queue/nomerges", "1\n")));
    let error = stubborn.apply(&changes(&["nomerges=2"])).err().expect("refused").to_string();
    assert!(
        error.starts_with("nomerges of sda not restored: wrote 0, but the value is 1"),
        "{error}"
    );
}

#[test]
fn a_value_that_the_kernel_normalises_is_restored() {
    let dir = tree();
    let path = dir.path().to_path_buf();
    let file = "sys/block/sda/queue/nomerges";
    let normalises = move || {
        if value(&path, file) == "2" {
            put(&path, file, "1\n");
        }
    };
    let roots = Roots { proc: dir.path().join("proc"), sys: dir.path().join("sys") };
    let settings = Settings::new(roots, dir.path().join("run")).with_steps(Arc::new(normalises));
    let error = settings.apply(&changes(&["nomerges=2"])).err();
    assert!(matches!(error, Some(SettingsError::NotInEffect { .. })), "{error:?}");
    assert_eq!(value(dir.path(), file), "0");
    assert_eq!(settings.left().expect("readable"), []);
}

#[test]
fn read_ahead_is_rounded_to_pages() {
    let dir = tree();
    let guard = settings(dir.path()).apply(&changes(&["read_ahead_kb=128"])).expect("applied");
    assert_eq!(guard.applied().len(), 1);
}

#[test]
fn a_second_process_is_refused_on_the_same_disk_only() {
    let dir = tree();
    let guard = settings(dir.path()).apply(&changes(&["nomerges=2"])).expect("applied");
    let error = settings(dir.path()).apply(&changes(&["read_ahead_kb=0"])).err();
    let error = error.expect("refused").to_string();
    let pid = std::process::id();
    assert!(
        error.starts_with(&format!("another fathom (PID {pid}) is changing settings of sda")),
        "{error}"
    );
    let other = SettingChange::parse("nomerges=1", "/dev/sdb").expect("a change");
    drop(settings(dir.path()).apply(&[other]).expect("another disk"));
    assert_eq!(settings(dir.path()).recover(), [], "a running process restores its own");
    let left = settings(dir.path()).left().expect("readable");
    assert!(left[0].is_in_use && left[0].what == "nomerges of sda=2", "{left:?}");
    let in_use = settings(dir.path()).restore();
    assert!(in_use.len() == 1 && in_use[0].is_failure(), "{in_use:?}");
    assert_eq!(locks(dir.path()), ["sda.lock"], "that of sdb is gone");
    drop(guard);
    assert_eq!(locks(dir.path()), [""; 0]);
}

#[test]
fn the_affinity_of_a_process_and_its_threads_is_restored() {
    let dir = tempfile::tempdir().expect("directory");
    let settings = Settings::new(Roots::default(), dir.path().join("run"));
    // A shell with a child that outlives the change.
    let mut shell = Command::new("sh").args(["-c", "sleep 100 & wait"]).spawn().expect("started");
    let pid = shell.id();
    let child = || {
        let all = std::fs::read_dir("/proc").expect("readable").flatten();
        let mut all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        all.find(|other| {
            let stat = std::fs::read_to_string(format!("/proc/{other}/stat")).unwrap_or_default();
            stat.contains(&format!(") S {pid} ")) && stat.contains("(sleep)")
        })
    };
    let child = std::iter::repeat_with(child).flatten().next().expect("a child");
    let allowed = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("readable");
        let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
        line.expect("a list").split_whitespace().nth(1).expect("a list").to_string()
    };
    let before = allowed(pid);
    let one = before.split(['-', ',']).next().expect("a CPU").to_string();
    let text = format!("cpu_affinity:{pid}={one}");
    let change = [SettingChange::parse(&text, "").expect("a change")];
    let guard = settings.apply(&change).expect("applied");
    assert_eq!([allowed(pid), allowed(child)], [one.clone(), one.clone()]);
    assert_eq!(settings.left().expect("readable")[0].old, before);
    none_failed(&guard.restore());
    assert_eq!([allowed(pid), allowed(child)], [before.clone(), before.clone()]);
    for step in 0.. {
        let was_killed = is_killed_with(dir.path(), step, false, Some(&text));
        none_failed(&settings.recover());
        let now = [allowed(pid), allowed(child)];
        assert_eq!(now, [before.clone(), before.clone()], "killed at step {step}");
        if !was_killed {
            assert!(step > 8, "{step} steps");
            break;
        }
    }
    let guard = settings.apply(&change).expect("applied");
    shell.kill().expect("killed");
    shell.wait().expect("ended");
    assert_eq!(guard.restore()[0].how, RestoredHow::Gone);
    let raw = i32::try_from(child).ok().and_then(rustix::process::Pid::from_raw).expect("an ID");
    kill_process(raw, Signal::KILL).expect("killed");
    let error = settings.apply(&change).err().expect("refused").to_string();
    assert_eq!(error, format!("cpu_affinity of {pid}={one}: there is no process {pid}"));
}

#[test]
fn what_others_changed_is_left_alone_and_reported() {
    let dir = tree();
    let guard =
        settings(dir.path()).apply(&changes(&["nomerges=2", "read_ahead_kb=0"])).expect("applied");
    put(dir.path(), "sys/block/sda/queue/nomerges", "1\n");
    let restored = guard.restore();
    let texts: Vec<String> = restored.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "nomerges of sda was changed by another program to 1 and left unchanged; it was 0 before fathom changed it",
            "read_ahead_kb of sda restored: 0 → 128"
        ]
    );
    assert_eq!(value(dir.path(), "sys/block/sda/queue/nomerges"), "1");
}

#[test]
fn a_small_read_ahead_survives_a_change_of_the_limits() {
    let dir = tree();
    put(dir.path(), "sys/block/sda/queue/read_ahead_kb", "0\n");
    let guard = settings(dir.path()).apply(&changes(&["iostats=0"])).expect("applied");
    assert_eq!(value(dir.path(), "sys/block/sda/queue/read_ahead_kb"), "128", "as the kernel does");
    none_failed(&guard.restore());
    assert_eq!(value(dir.path(), "sys/block/sda/queue/read_ahead_kb"), "0");
}

#[test]
fn a_foreign_scheduler_keeps_what_it_set() {
    let dir = tree();
    let guard = settings(dir.path()).apply(&changes(&["scheduler=none"])).expect("applied");
    put(dir.path(), "sys/block/sda/queue/scheduler", "none mq-deadline [kyber]\n");
    put(dir.path(), "sys/block/sda/queue/nr_requests", "256\n");
    assert!(matches!(guard.restore()[0].how, RestoredHow::ChangedByOthers { .. }));
    assert_eq!(value(dir.path(), "sys/block/sda/queue/nr_requests"), "256");
}

#[test]
fn kept_changes_last_until_they_are_restored() {
    let dir = tree();
    let before = values(dir.path());
    settings(dir.path()).keep(&changes(&["scheduler=none"])).expect("kept");
    settings(dir.path()).keep(&changes(&["nomerges=2", "scheduler=kyber"])).expect("kept");
    assert_eq!(settings(dir.path()).recover(), []);
    drop(settings(dir.path()).apply(&changes(&["nomerges=1"])).expect("applied"));
    assert_eq!(value(dir.path(), "sys/block/sda/queue/nomerges"), "2");
    assert!(
        settings(dir.path())
            .left()
            .expect("readable")
            .iter()
            .all(|left| left.is_kept && !left.is_in_use)
    );
    none_failed(&settings(dir.path()).restore());
    assert_eq!(values(dir.path()), before);
    assert_eq!(settings(dir.path()).left().expect("readable"), []);
}

#[test]
fn a_reboot_voids_the_journal() {
    let dir = tree();
    settings(dir.path()).keep(&changes(&["nomerges=2"])).expect("kept");
    put(dir.path(), "proc/sys/kernel/random/boot_id", "second-boot\n");
    assert_eq!(settings(dir.path()).restore(), []);
    assert_eq!(value(dir.path(), "sys/block/sda/queue/nomerges"), "2");
    assert_eq!(settings(dir.path()).left().expect("readable"), []);
}

#[test]
fn a_disk_that_is_gone_needs_no_restoring() {
    let dir = tree();
    let guard = settings(dir.path()).apply(&changes(&["nomerges=2"])).expect("applied");
    std::fs::remove_dir_all(dir.path().join("sys/block/sda")).expect("removed");
    assert_eq!(guard.restore()[0].how, RestoredHow::Gone);
    assert_eq!(settings(dir.path()).left().expect("readable"), []);
}

#[test]
fn what_is_out_of_sight_stays_in_the_journal() {
    let dir = tree();
    settings(dir.path()).keep(&changes(&["nomerges=2"])).expect("kept");
    let journal = dir.path().join("run/sda.kept");
    for (away, said) in [
        ("sys", "sys is missing"),
        ("sys/block", "not restored: "),
        ("proc/sys/kernel/random", "boot_id is missing"),
    ] {
        let (there, hidden) = (dir.path().join(away), dir.path().join("hidden"));
        std::fs::rename(&there, &hidden).expect("moved");
        if away == "sys/block" {
            // Its disks lead nowhere.
            std::fs::create_dir(&there).expect("directory");
            std::os::unix::fs::symlink(hidden.join("none"), there.join("sda")).expect("link");
        }
        let restored = settings(dir.path()).restore();
        assert!(restored.len() == 1 && restored[0].is_failure(), "{away}: {restored:?}");
        assert!(restored[0].to_string().contains(said), "{restored:?}");
        assert!(journal.exists(), "{away}");
        if away != "sys/block" {
            let error = settings(dir.path()).apply(&changes(&["nomerges=1"])).err();
            assert!(matches!(error, Some(SettingsError::Unread { .. })), "{error:?}");
        }
        let _ = std::fs::remove_dir_all(&there);
        std::fs::rename(&hidden, &there).expect("moved back");
    }
    none_failed(&settings(dir.path()).restore());
    assert_eq!(value(dir.path(), "sys/block/sda/queue/nomerges"), "0");
    assert!(!journal.exists());
}

#[test]
fn files_of_other_kinds_in_the_journals_place_hang_nothing() {
    type Make = fn(&Path);
    let kinds: [(&str, Make); 4] = [
        ("fifo", |at| assert!(Command::new("mkfifo").arg(at).status().expect("runs").success())),
        ("directory", |at| std::fs::create_dir(at).expect("directory")),
        ("socket", |at| drop(std::os::unix::net::UnixListener::bind(at).expect("socket"))),
        ("link", |at| std::os::unix::fs::symlink("sdb.kept", at).expect("link")),
    ];
    for (kind, make) in kinds {
        for name in ["sda.json", "sda.kept", "sda.lock", "sda.new"] {
            let dir = tree();
            settings(dir.path()).keep(&changes(&["iostats=0"])).expect("kept");
            let at = dir.path().join("run").join(name);
            let _ = std::fs::remove_file(&at);
            make(&at);
            let restored = settings(dir.path()).restore();
            let said: Vec<String> = restored.iter().map(ToString::to_string).collect();
            let is_reported = said.iter().any(|text| text.contains("it is not a regular file"));
            assert!(is_reported, "{kind} as {name}: {said:?}");
            // What is another disk's is restored all the same.
            let other = SettingChange::parse("nomerges=1", "sdb").expect("a change");
            drop(settings(dir.path()).apply(&[other]).expect("another disk"));
        }
    }
}

#[test]
fn lock_files_of_killed_processes_are_removed() {
    let dir = tree();
    let guard = settings(dir.path()).apply(&changes(&["nomerges=2"])).expect("applied");
    put(dir.path(), "run/cgroup-4194304.lock", "4194304\n");
    put(dir.path(), "run/sdb.lock", "");
    put(dir.path(), "run/sdb.new", "{");
    assert_eq!(settings(dir.path()).recover(), []);
    assert_eq!(locks(dir.path()), ["sda.lock"], "that of a running process stays");
    assert!(!dir.path().join("run/sdb.new").exists());
    drop(guard);
}

#[test]
fn caches_are_dropped_without_a_journal() {
    let dir = tree();
    let guard = settings(dir.path()).apply(&changes(&["drop_caches=3"])).expect("dropped");
    assert_eq!(value(dir.path(), "proc/sys/vm/drop_caches"), "3");
    assert_eq!(guard.restore(), []);
}

#[test]
fn a_control_group_has_limits_in_both_versions() {
    let dir = tree();
    let name = format!("fathom-{}", std::process::id());
    // mkdir creates the kernel's files in a real hierarchy.
    let (path, made) = (dir.path().to_path_buf(), name.clone());
    let hook = move || {
        for (group, files) in [
            ("cgroup", ["memory.max", "", ""]),
            ("cpu", ["cpu.cfs_quota_us", "cpu.cfs_period_us", ""]),
        ] {
            let group = path.join("sys/fs").join(group).join(&made);
            for file in files.iter().chain(&["cgroup.procs"]).filter(|file| !file.is_empty()) {
                if group.is_dir() && !group.join(file).exists() {
                    std::fs::write(group.join(file), "").expect("written");
                }
            }
        }
    };
    let roots = Roots { proc: dir.path().join("proc"), sys: dir.path().join("sys") };
    let settings = Settings::new(roots, dir.path().join("run")).with_steps(Arc::new(hook));
    let error = settings.apply(&changes(&["cgroup=memory.max=16m"])).err().expect("too little");
    assert!(error.to_string().contains("set at least 17m"), "{error}");
    assert!(!dir.path().join("sys/fs/cgroup").join(&name).exists());
    let guard = settings.apply(&changes(&["cgroup=memory.max=64m,cpu.max=0.5"])).expect("applied");
    let at = |file: &str| dir.path().join("sys/fs").join(file.replace('*', &name));
    let read = |file: &str| std::fs::read_to_string(at(file)).expect("readable");
    assert_eq!(read("cgroup/*/memory.max"), "67108864");
    assert_eq!(
        (read("cpu/*/cpu.cfs_quota_us"), read("cpu/*/cpu.cfs_period_us")),
        ("50000".into(), "100000".into())
    );
    assert_eq!(read("cgroup/*/cgroup.procs"), std::process::id().to_string());
    // rmdir removes the kernel's files; here they are in the way.
    std::fs::remove_dir_all(at("cgroup/*")).expect("removed");
    std::fs::remove_dir_all(at("cpu/*")).expect("removed");
    none_failed(&guard.restore());
    assert_eq!(locks(dir.path()), [""; 0]);
}

/// The lock files.
fn locks(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("run")).expect("a directory").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".lock")).collect()
}

/// Where a child is to be killed, and in which tree.
const KILL_AT: &str = "FATHOM_TEST_KILL_AT";
const IN_TREE: &str = "FATHOM_TEST_TREE";
const RECOVERS: &str = "FATHOM_TEST_RECOVERS";
/// A change of a real process's affinity, instead of those in the tree.
const AFFINITY_OF: &str = "FATHOM_TEST_AFFINITY_OF";

/// Runs as a child of the test below: changes and restores settings, or recovers, until it is killed.
#[test]
fn child_that_is_killed() {
    let Some(dir) = std::env::var_os(IN_TREE).map(PathBuf::from) else { return };
    let at: usize = std::env::var(KILL_AT).expect("a step").parse().expect("a number");
    let process = std::env::var(AFFINITY_OF).ok();
    let (roots, wanted) = match &process {
        Some(text) => (Roots::default(), vec![text.as_str()]),
        None => (Roots { proc: dir.join("proc"), sys: dir.join("sys") }, CHANGES.to_vec()),
    };
    let (steps, tree) = (AtomicUsize::new(0), dir.clone());
    let hook = move || {
        resets(&tree);
        if steps.fetch_add(1, Ordering::Relaxed) == at {
            kill_process(getpid(), Signal::KILL).expect("killed");
        }
    };
    let settings = Settings::new(roots, dir.join("run")).with_steps(Arc::new(hook));
    if std::env::var_os(RECOVERS).is_some() {
        none_failed(&settings.recover());
    } else {
        none_failed(&settings.apply(&changes(&wanted)).expect("applied").restore());
    }
}

/// Whether it was killed at step `at`, and not done before.
fn is_killed(dir: &Path, at: usize, recovers: bool) -> bool {
    is_killed_with(dir, at, recovers, None)
}

fn is_killed_with(dir: &Path, at: usize, recovers: bool, affinity: Option<&str>) -> bool {
    let mut child = Command::new(std::env::current_exe().expect("this test"));
    child.args(["--exact", "settings::child_that_is_killed", "--test-threads=1"]);
    child.env(IN_TREE, dir).env(KILL_AT, at.to_string());
    if recovers {
        child.env(RECOVERS, "1");
    }
    child.envs(affinity.map(|change| (AFFINITY_OF, change)));
    let output = child.output().expect("runs");
    let is_killed = output.status.signal() == Some(9);
    assert!(is_killed || output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    is_killed
}

#[test]
fn killed_at_every_step_nothing_stays_changed() {
    let mut steps = 0;
    loop {
        let dir = tree();
        let before = values(dir.path());
        let was_killed = is_killed(dir.path(), steps, false);
        // What restores it may be killed, too.
        is_killed(dir.path(), steps * 7 % 23, true);
        none_failed(&settings(dir.path()).recover());
        assert_eq!(values(dir.path()), before, "killed at step {steps}");
        assert_eq!(settings(dir.path()).left().expect("readable"), [], "killed at step {steps}");
        if !was_killed {
            break;
        }
        steps += 1;
    }
    assert!(steps > 60, "{steps} steps");
}
