//! If a user may create no more threads, fathom reports it, continues without the optional ones, and never
//! panics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{Answer, FATHOM, Running, is_root, says};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A directory of a user who has no processes but those of one test, with the program in it.
fn home(user: u32) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(FATHOM, dir.path().join("fathom")).unwrap();
    fs::write(dir.path().join("data"), vec![7; 1 << 20]).unwrap();
    for path in [dir.path(), &dir.path().join("data"), &dir.path().join("fathom")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        chown(path, Some(user), Some(user)).unwrap();
    }
    dir
}

/// Runs fathom with at most so many threads.
fn limited(home: &Path, threads: u32, args: &[&str]) -> Answer {
    let id = fs::metadata(home).unwrap().uid().to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "prlimit"]);
    command.arg(format!("--nproc={threads}")).arg("./fathom").args(args).current_dir(home);
    command.stdin(Stdio::null()).env("HOME", home).env_remove("XDG_STATE_HOME");
    let answer = Running::start(&mut command).wait();
    assert_eq!(answer.signal, None, "{threads} {args:?}: {}", answer.stderr);
    assert_ne!(answer.code, Some(101), "{threads} {args:?}: {}", answer.stderr);
    assert!(!answer.stderr.contains("panicked"), "{threads} {args:?}: {}", answer.stderr);
    answer
}

#[test]
fn no_command_panics() {
    if !is_root("a limit of threads") {
        return;
    }
    let home = home(64_731);
    let run = ["run", "--eta=never", "--rw=randread", "--time_based", "--runtime=200ms", "data"];
    let commands: [&[&str]; 7] = [
        &[&run[..], &["--sampling=full", "--numjobs=2"]].concat(),
        &[&run[..], &["--sampling=default", "--ioengine=psync"]].concat(),
        &["threads", "-t", "0.1"],
        &["stacks", "--duration", "0.1"],
        &["top", "--format=text", "-n", "1", "-i", "0.05", "--sampling", "full"],
        &["watch", "--duration", "0.1"],
        &["watch", "--", "true"],
    ];
    for args in commands {
        let mut codes = Vec::new();
        for threads in 1..=8 {
            let answer = limited(home.path(), threads, args);
            if answer.code == Some(1) {
                assert!(
                    answer.stderr.contains("fathom: "),
                    "{threads} {args:?}: {}",
                    answer.stderr
                );
            }
            codes.push(answer.code);
        }
        assert_ne!(codes[0], Some(0), "{args:?}: one thread is too few: {codes:?}");
    }
}

#[test]
fn a_worker_that_cannot_be_created_is_an_error_before_any_io() {
    if !is_root("a limit of threads") {
        return;
    }
    let home = home(64_732);
    let args = ["run", "--no-record", "--sampling=off", "--rw=randread", "--numjobs=8", "data"];
    let answer = limited(home.path(), 5, &args);
    assert_eq!(answer.code, Some(1));
    says(&answer.stderr, &["cannot create a worker thread", "RLIMIT_NPROC", "pids.max"]);
    says(&answer.stdout, &["did not start"]);
}

#[test]
fn a_run_goes_on_without_what_watches_and_records_it() {
    if !is_root("a limit of threads") {
        return;
    }
    let home = home(64_733);
    let args = ["run", "--eta=never", "--rw=randread", "--io_size=1m", "--sampling=full", "data"];
    // In this order: the main thread, signals, samples, the watcher, the supervisor, a worker.
    let answers: Vec<Answer> = (1..=10).map(|n| limited(home.path(), n, &args)).collect();
    let done: Vec<&Answer> = answers.iter().filter(|answer| answer.code == Some(0)).collect();
    assert!(
        !done.is_empty(),
        "{:?}",
        answers.iter().map(|a| (&a.code, &a.stderr)).collect::<Vec<_>>()
    );
    assert!(done.iter().all(|answer| answer.stdout.contains("IOPS")));
    let args = ["run", "--eta=never", "--rw=randread", "--io_size=1m", "--sampling=off", "data"];
    let answers: Vec<Answer> = (1..=10).map(|n| limited(home.path(), n, &args)).collect();
    let codes: Vec<_> = answers.iter().map(|answer| answer.code).collect();
    let first = codes.iter().position(|code| *code == Some(0)).unwrap();
    assert!(codes[first..].iter().all(|code| *code == Some(0)), "{codes:?}");
}
