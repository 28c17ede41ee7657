//! Operations on names against the real kernel.

use crate::common;
use fathom_engine::{JobInput, Name, WorkerNames, start_with};
use fathom_model::Dir;
use fathom_model::plan::{Engine, JobPlan, Mix, NameOp, Names, Order, Plan, Until};
use fathom_model::record::JobRecord;
use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A table of the names `0` to `count` - 1 in `dir`; those that exist may be removed.
fn table(dir: &Path, count: u64) -> WorkerNames {
    let name = |number| {
        let path = dir.join(format!("{number}"));
        let made = fs::symlink_metadata(&path).ok().map(|found| (found.dev(), found.ino()));
        let path = path.display().to_string();
        let name_at = path.rfind('/').unwrap() + 1;
        Name { dir: 0, path: CString::new(path).unwrap(), name_at, made }
    };
    let dirs = vec![fs::File::open(dir).unwrap().into()];
    // The removal itself is the caller's.
    let remove = |dir: BorrowedFd<'_>, name: &CStr, _, is_dir| {
        let path = format!("/proc/self/fd/{}/{}", dir.as_raw_fd(), name.to_str().unwrap());
        if is_dir { fs::remove_dir(path) } else { fs::remove_file(path) }
    };
    WorkerNames { dirs, names: (0..count).map(name).collect(), remove }
}

fn run(op: NameOp, unlink: bool, table: WorkerNames) -> JobRecord {
    let engine = Engine::Names(Names { unlink, ..Names::new(op) });
    let mut job = JobPlan::new("t", engine, Mix::Only(Dir::Write), Order::Sequential { skip: 0 });
    job.until = Until { ios: Some(table.names.len() as u64), ..Until::default() };
    let plan = Plan { jobs: vec![job], ..Plan::default() };
    let input = JobInput { names: Some(table), ..JobInput::default() };
    common::joined(start_with(&plan, vec![input]).unwrap()).remove(0)
}

fn count(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

#[test]
fn each_operation_counts_once_and_moves_nothing() {
    for (create, stat, delete) in [
        (NameOp::CreateFile, NameOp::StatFile, NameOp::DeleteFile),
        (NameOp::CreateDir, NameOp::StatDir, NameOp::DeleteDir),
    ] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for (op, left) in [(create, 300), (stat, 300), (delete, 0)] {
            let record = run(op, false, table(dir.path(), 300));
            let write = &record.dirs.write;
            assert_eq!(
                (record.error, write.counts.ios, write.counts.bytes),
                (None, 300, 0),
                "{op:?}"
            );
            assert_eq!((write.clat.count(), count(dir.path())), (300, left), "{op:?}");
            assert_eq!(record.depth.in_flight_max, 1);
        }
        let record = run(create, true, table(dir.path(), 300));
        assert_eq!((record.error, record.dirs.write.counts.ios), (None, 300));
        assert_eq!(count(dir.path()), 0, "unlink");
    }
}

#[test]
fn only_what_was_laid_out_is_removed() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    (0..3).for_each(|name| fs::write(dir.path().join(format!("{name}")), "laid out").unwrap());
    let names = table(dir.path(), 3);
    fs::rename(dir.path().join("1"), dir.path().join("moved")).unwrap();
    fs::write(dir.path().join("1"), "theirs").unwrap();
    let record = run(NameOp::DeleteFile, false, names);
    let error = record.error.expect("a failure");
    assert_eq!((error.errno, record.dirs.write.counts.ios), (libc::ESTALE, 1));
    for part in ["DeleteFile", "/1\"", "Replaced"] {
        assert!(error.message.contains(part), "{}", error.message);
    }
    assert_eq!(fs::read_to_string(dir.path().join("1")).unwrap(), "theirs");
    // A name that was never laid out is not removed either.
    let mut names = table(dir.path(), 2);
    names.names.iter_mut().for_each(|name| name.made = None);
    assert_eq!(run(NameOp::DeleteFile, false, names).error.expect("a failure").errno, libc::ENOENT);
    assert!(dir.path().join("1").exists());
}

#[test]
fn an_existing_name_is_not_created() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::write(dir.path().join("1"), "theirs").unwrap();
    for (op, unlink) in [(NameOp::CreateFile, true), (NameOp::CreateDir, true)] {
        let record = run(op, unlink, table(dir.path(), 3));
        assert_eq!(record.error.expect("a failure").errno, libc::EEXIST, "{op:?}");
        assert_eq!(record.dirs.write.counts.ios, 1);
        assert_eq!(fs::read_to_string(dir.path().join("1")).unwrap(), "theirs");
        assert_eq!(count(dir.path()), 1, "what was created before is removed");
    }
}
