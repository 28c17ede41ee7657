//! Names that jobs create and remove: what may be used, and what is never removed.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::says;
use fathom_machine::Roots;
use fathom_machine::guard::{self, GuardError, NamedTargets};
use fathom_model::Dir;
use fathom_model::Plan;
use fathom_model::plan::{Engine, JobPlan, Mix, NameOp, Names, Order, Paths};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

/// A job with this operation on the names `a` and `b` in `dir`.
fn names(dir: &Path, op: NameOp) -> Names {
    let path = |name: &str| dir.join(name).display().to_string();
    let within = Some(dir.display().to_string());
    let paths = Paths::new(vec![path("a"), path("b")]);
    Names { paths, within, size_bytes: 8192, ..Names::new(op) }
}

fn open(all: &[Names]) -> Result<Vec<NamedTargets>, GuardError> {
    let job = |names: &Names| {
        let order = Order::Sequential { skip: 0 };
        JobPlan::new("t", Engine::Names(names.clone()), Mix::Only(Dir::Read), order)
    };
    let plan = Plan { jobs: all.iter().map(job).collect(), ..Plan::default() };
    let checked = guard::check_names(&Roots::default(), &plan, &|| false)?;
    let mut opened: Vec<NamedTargets> = checked.into_iter().flatten().collect();
    opened.iter_mut().try_for_each(|targets| targets.lay_out(&|| false))?;
    Ok(opened)
}

fn refusal(all: &[Names]) -> String {
    open(all).err().expect("refused").to_string()
}

const ALL: [NameOp; 6] = [
    NameOp::CreateFile,
    NameOp::StatFile,
    NameOp::DeleteFile,
    NameOp::CreateDir,
    NameOp::StatDir,
    NameOp::DeleteDir,
];

#[test]
fn only_what_a_job_does_not_create_itself_is_laid_out() {
    for op in ALL {
        let dir = crate::support::dir();
        let mut targets = open(&[names(dir.path(), op)]).expect("opened");
        let made: Vec<_> = targets[0].names.iter().map(|target| target.made).collect();
        let creates = matches!(op, NameOp::CreateFile | NameOp::CreateDir);
        let paths: Vec<String> =
            targets[0].names.iter().map(|target| target.path.clone()).collect();
        for (path, made) in paths.iter().zip(made) {
            // What is going to be removed has a name that no other program gives to its files.
            let is_private = path.contains("/.fathom-scratch-");
            assert_eq!(is_private, matches!(op, NameOp::DeleteFile | NameOp::DeleteDir), "{op:?}");
            let found = fs::symlink_metadata(path).ok();
            assert_eq!(found.is_none(), creates, "{op:?}");
            assert_eq!(made, found.as_ref().map(|m| (m.dev(), m.ino())), "{op:?}");
            if let Some(found) = found {
                assert_eq!(
                    (found.is_dir(), op.is_on_dirs() || found.len() == 8192),
                    (op.is_on_dirs(), true)
                );
            }
        }
        targets[0].keep();
        targets.remove(0).finish().expect("finished");
        // Files and directories of which only the status is read stay, as in fio.
        assert_eq!(dir.path().join("a").exists(), op.is_stat(), "{op:?}");
    }
}

#[test]
fn a_job_that_did_not_start_leaves_nothing() {
    for op in ALL {
        let dir = crate::support::dir();
        drop(open(&[names(dir.path(), op)]).expect("opened"));
        assert_eq!(fs::read_dir(dir.path()).expect("directory").count(), 0, "{op:?}");
    }
    // Nor does one whose layout fails: its second name exists, as a file in place of a directory's.
    let dir = crate::support::dir();
    fs::write(dir.path().join("b"), "theirs").expect("file");
    for op in ALL.into_iter().filter(|op| *op != NameOp::StatFile) {
        assert!(open(&[names(dir.path(), op)]).is_err(), "{op:?}");
        assert_eq!(fs::read_dir(dir.path()).expect("directory").count(), 1, "{op:?}");
        assert_eq!(fs::read_to_string(dir.path().join("b")).expect("file"), "theirs");
    }
}

#[test]
fn a_name_that_was_replaced_is_not_removed() {
    let dir = crate::support::dir();
    let mut job = names(dir.path(), NameOp::StatFile);
    job.unlink = true;
    let mut targets = open(&[job]).expect("opened");
    fs::remove_file(dir.path().join("a")).expect("removed");
    fs::rename(dir.path().join("b"), dir.path().join("moved")).expect("renamed");
    fs::write(dir.path().join("b"), "theirs").expect("file");
    let error = targets.remove(0).finish().expect_err("not removed").to_string();
    says(&error, &["cannot remove", "/b", "replaced by another file"]);
    assert_eq!(fs::read_to_string(dir.path().join("b")).expect("file"), "theirs");
}

#[test]
fn names_outside_the_directory_and_under_dev_are_refused() {
    let (dir, other) = (crate::support::dir(), crate::support::dir());
    symlink(other.path(), dir.path().join("link")).expect("link");
    let mut job = names(&dir.path().join("link"), NameOp::CreateFile);
    job.within = Some(dir.path().display().to_string());
    says(&refusal(&[job]), &["outside the job's directory"]);
    let mut job = names(Path::new("/dev/shm"), NameOp::StatFile);
    job.within = None;
    says(&refusal(&[job]), &["under /dev"]);
    assert_eq!(fs::read_dir(other.path()).expect("directory").count(), 0);
}

#[test]
fn names_that_one_job_changes_belong_to_it_alone() {
    let dir = crate::support::dir();
    let job = |op| names(dir.path(), op);
    for pair in [
        [job(NameOp::StatFile), job(NameOp::DeleteFile)],
        [job(NameOp::DeleteFile), job(NameOp::StatFile)],
        [job(NameOp::CreateFile), job(NameOp::CreateFile)],
    ] {
        says(&refusal(&pair), &["/a is used by two jobs"]);
    }
    drop(open(&[job(NameOp::StatFile), job(NameOp::StatFile)]).expect("opened"));
    let mut fixed = job(NameOp::StatFile);
    fixed.create = false;
    says(&refusal(&[fixed]), &["/a does not exist", "allow_file_create"]);
}
