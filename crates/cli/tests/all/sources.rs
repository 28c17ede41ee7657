//! What fathom does where it cannot see what the kernel knows: without /sys or /proc, or with a part of them covered.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{
    Answer, FATHOM, Loop, MIB, Mounted, Place, Running, as_root, assert_one_error, checksum, says,
    tool, until,
};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const NO_SYS: &str = "umount -l /sys";
const NO_PROC: &str = "mount -t tmpfs none /proc";

/// An experiment with one variant, to which others are added.
const EXPERIMENT: &str =
    "name = \"x\"\n[job]\nrw = \"randread\"\nbs = \"4k\"\n[[variant]]\nname = \"as it is\"\n";

fn variant(what: &str) -> String {
    format!("[[variant]]\nname = \"changed\"\n{what}\n")
}

/// Starts fathom after `script` in a mount namespace of its own, with a journal of settings in `state`.
fn start(place: &Place, script: &str, args: &[&str]) -> Running {
    let journal = "mkdir -p state /run/fathom && mount --bind state /run/fathom";
    let script = format!("{journal} && {script} && exec $run \"$0\" \"$@\"");
    let own = ["--mount", "--propagation", "private", "sh", "-c", &script, FATHOM];
    Running::start(&mut place.command("unshare", &[&own[..], args].concat()))
}

fn ask(place: &Place, script: &str, args: &[&str]) -> Answer {
    start(place, script, args).wait()
}

#[test]
fn a_file_behind_a_mounted_loop_device_is_refused_without_sys() {
    let Some(_guard) = as_root("mount namespaces without /sys") else { return };
    let place = Place::new();
    place.data("image", 16 * MIB);
    let device = Loop::on(&place.path("image"));
    tool("mkfs.ext4", &["-q", "-F", &device.0]);
    let at = place.path("at");
    fs::create_dir(&at).unwrap();
    tool("mount", &[&device.0, at.to_str().unwrap()]);
    let mounted = Mounted(at);
    tool("sync", &["-f", mounted.0.to_str().unwrap()]);
    let before = checksum(place.path("image"));
    let image = place.path("image");
    let image = image.to_str().unwrap();
    let permitted = format!("--overwrite={image}");
    fs::create_dir(place.path("root")).unwrap();
    let root = place.path("root").display().to_string();
    let chroot = format!("mount --rbind / {root} && umount -l {root}/sys && run='chroot {root}'");
    for sight in [NO_SYS, "mount -t tmpfs none /sys", &chroot] {
        let run = ["run", "--no-record", "--bs=4k", "--number_ios=20", &permitted, image];
        for rw in ["--rw=randwrite", "--rw=randtrim"] {
            let answer = ask(&place, sight, &[&run[..], &[rw]].concat());
            assert_eq!(answer.code, Some(1), "{sight}: {}", answer.stderr);
            says(
                &answer.stderr,
                &["cannot check what uses", "/sys is not sysfs", "mount -t sysfs"],
            );
        }
        let variants = ["rw=randwrite bs=4k", "rw=randwrite bs=8k"];
        let options = ["--no-record", "--duration=1", &permitted, image];
        let answer = ask(&place, sight, &[&["try"], &variants[..], &options[..]].concat());
        assert!(answer.code.is_some_and(|code| code != 0), "{sight}: {}", answer.stderr);
        says(&answer.stderr, &["cannot check what uses"]);
    }
    assert_eq!(checksum(image), before);
}

#[test]
fn reading_needs_no_sys_and_says_that_it_needs_proc() {
    let Some(_guard) = as_root("mount namespaces without /proc") else { return };
    let place = Place::new();
    place.data("data", MIB);
    let read = ["run", "--no-record", "--rw=read", "--bs=64k", "--size=1m", "data"];
    ask(&place, NO_SYS, &read).done();
    let limit = ["limit", "--no-record", "--quick", "data"];
    let scratch = ["limit", "--no-record", "--quick"];
    let views = [&["threads", "-t", "1"][..], &["watch", "-t", "1"], &["blocks", "-t", "1"]];
    for args in [&read[..], &limit, &scratch, &["watch", "--", "true"]].into_iter().chain(views) {
        let answer = ask(&place, NO_PROC, args);
        assert!(answer.code.is_some_and(|code| code != 0), "{args:?}");
        says(&answer.stderr, &["needs /proc", "mount -t proc proc /proc"]);
        assert!(!answer.stderr.contains("does not exist"), "{}", answer.stderr);
    }
}

#[test]
fn settings_of_a_killed_run_stay_in_the_journal_until_they_are_seen() {
    let Some(_guard) = as_root("settings of a loop device") else { return };
    let place = Place::new();
    place.data("image", 16 * MIB);
    place.data("data", MIB);
    let device = Loop::on(&place.path("image"));
    let file = device.queue().join("nomerges");
    let value = || fs::read_to_string(&file).unwrap().trim().to_string();
    let before = value();
    let other = if before == "2" { 1 } else { 2 };
    let changed = variant(&format!("settings = {{ nomerges = \"{other}\" }}"));
    place.write("x.toml", EXPERIMENT.to_string() + &changed);
    let args = ["try", "x.toml", &device.0, "--no-record", "--duration=60", "--window=2s"];
    let experiment = start(&place, "true", &args);
    until("a changed setting", || value() != before);
    experiment.signal(Signal::KILL);
    experiment.wait();
    let read = ["run", "--no-record", "--rw=read", "--bs=4k", "--number_ios=1", "data"];
    let restore = ["restore"];
    for args in [&read[..], &restore] {
        let answer = ask(&place, NO_SYS, args);
        assert_eq!(answer.code, Some(1), "{}", answer.stderr);
        let said = answer.stdout + &answer.stderr;
        says(&said, &["not restored", "/sys is not sysfs"]);
        assert!(!said.contains("no longer exists"), "{said}");
    }
    assert_eq!(value(), other.to_string());
    let restored = ask(&place, "true", &restore).done();
    says(&restored.stdout, &["nomerges of", "restored"]);
    assert_eq!(value(), before);
    // The directory in which runs note the space that they still need stays.
    let left = fs::read_dir(place.path("state")).unwrap().flatten();
    let left: Vec<_> = left.filter(|entry| entry.file_name() != "space").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn settings_that_may_not_be_changed_are_refused_before_anything_is_measured() {
    let Some(_guard) = as_root("settings of a loop device") else { return };
    let place = Place::new();
    place.data("image", 16 * MIB);
    let device = Loop::on(&place.path("image"));
    let file = device.queue().join("scheduler");
    // User nobody may lack access to the tests' directory.
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("fathom");
    fs::copy(FATHOM, &program).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let nobody = "cd / && exec setpriv --reuid=65534 --regid=65534 --clear-groups";
    let nobody = format!("{nobody} {} \"$@\"", program.display());
    let args = ["try", "scheduler", &device.0, "--no-record", "--duration=1"];
    for (script, parts) in [
        ("mount -o remount,ro,bind /sys", ["Read-only file system", "as root on the host"]),
        (&*nobody, ["Permission denied", "run as root"]),
    ] {
        let answer = ask(&place, script, &args);
        assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""), "{}", answer.stderr);
        let named = format!("cannot write {}", file.display());
        assert_one_error(&answer.stderr, &[&parts[..], &["scheduler of loop", &named]].concat());
    }
}

#[test]
fn a_cgroup_too_small_for_fathom_itself_is_refused() {
    let Some(_guard) = as_root("a cgroup") else { return };
    let place = Place::new();
    place.data("data", MIB);
    let small = variant("settings = { cgroup = \"memory.max=1\" }");
    place.write("x.toml", EXPERIMENT.to_string() + &small);
    let args = ["try", "x.toml", "data", "--no-record", "--duration=1", "--sampling=off"];
    let answer = ask(&place, "true", &args);
    assert!(answer.signal.is_none() && answer.code != Some(0), "{}", answer.stderr);
    says(&(answer.stdout + &answer.stderr), &["too little for fathom"]);
}

#[test]
fn doctor_does_not_take_what_it_cannot_read_for_a_value() {
    let Some(_guard) = as_root("mount namespaces without /proc and /sys") else { return };
    let place = Place::new();
    let covered = |path: &str| format!("mount --bind /dev/null {path}");
    for (script, sources) in [
        (NO_SYS.to_string(), vec!["/sys/block"]),
        (NO_PROC.to_string(), vec!["/proc/loadavg", "/proc/self/status"]),
        ("mount -t tmpfs none /sys/block".to_string(), vec!["/sys/block is not sysfs"]),
        (covered("/proc/loadavg"), vec!["/proc/loadavg is not procfs"]),
        (covered("/proc/self/status"), vec!["/proc/self/status is not procfs"]),
    ] {
        // The process that mounts becomes fathom.
        let script = script.replace("/proc/self/", "/proc/$$/");
        let answer = ask(&place, &script, &["doctor"]);
        let said = format!("{}{}", answer.stdout, answer.stderr);
        says(&said, &["not checked"]);
        says(&said, &sources);
        for wrong in ["on 0 of", "run fathom as root", "load average 0.0"] {
            assert!(!said.contains(wrong), "{script}: {wrong}\n{said}");
        }
    }
}
