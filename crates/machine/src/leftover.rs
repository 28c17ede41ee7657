//! Files left by killed runs.

use crate::guard::{self, GuardError, Identity};
use crate::mark::{self, Mark};
use crate::scratch;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, openat, statat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug)]
pub struct Leftover {
    pub path: PathBuf,
    pub bytes: u64,
    pub kind: LeftoverKind,
    name: String,
    identity: Identity,
    is_dir: bool,
    dir: Arc<OwnedFd>,
    lock: Arc<OwnedFd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftoverKind {
    /// A scratch file with fathom's mark, or a directory with the name of one.
    Scratch,
    Directory,
    /// A file with the name of a scratch file, but without fathom's mark.
    Unmarked,
    /// A target that has not changed since the run created it.
    Unused,
    /// A target that the run created to write to. It may have been changed since.
    Target,
}

/// The files and directories that killed runs left in `dir`, sorted by name; of subdirectories, only in those that killed
/// runs created, whose contents come before them. Files of active runs are locked and not listed, nor are files without
/// read permission.
pub fn find(dir: &Path) -> Result<Vec<Leftover>, GuardError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(dir, flags, Mode::empty());
    opened.and_then(|opened| find_in(dir, &Arc::new(opened))).map_err(|error| GuardError::Io {
        path: dir.to_string_lossy().into_owned(),
        doing: "read the directory",
        source: error.into(),
    })
}

/// The same in an open directory.
fn find_in(path: &Path, dir: &Arc<OwnedFd>) -> Result<Vec<Leftover>, Errno> {
    // Jobs that operate on names lock the directory, and not each of their files.
    let is_free = flock(dir, FlockOperation::NonBlockingLockExclusive).is_ok();
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_str().ok();
        names.extend(name.filter(|name| !matches!(*name, "." | "..")).map(str::to_string));
    }
    names.sort();
    let mut found = Vec::new();
    for name in names {
        let Some(left) = check(path, dir, name, is_free) else { continue };
        if left.kind == LeftoverKind::Directory {
            found.extend(find_in(&left.path, &left.lock).unwrap_or_default());
        }
        found.push(left);
    }
    Ok(found)
}

fn check(path: &Path, dir: &Arc<OwnedFd>, name: String, is_free: bool) -> Option<Leftover> {
    // Opening a device or FIFO can have side effects.
    let kind = statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let kind = FileType::from_raw_mode(kind.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = openat(dir, &name, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let kind = match (mark::read(&fd), name.starts_with(scratch::PREFIX)) {
        (Some(Mark::Scratch), true) => LeftoverKind::Scratch,
        (Some(Mark::Unused), _) => LeftoverKind::Unused,
        (Some(Mark::Unfinished), _) if is_dir => LeftoverKind::Directory,
        (Some(Mark::Unfinished), _) => LeftoverKind::Target,
        // Only an empty one is ever removed.
        (_, true) if is_dir => LeftoverKind::Scratch,
        (_, true) => LeftoverKind::Unmarked,
        (_, false) => return None,
    };
    let is_locked_itself = kind == LeftoverKind::Scratch && !is_dir;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile && !is_dir
        || !is_free && !is_locked_itself
        || flock(&fd, FlockOperation::NonBlockingLockExclusive).is_err()
    {
        return None;
    }
    Some(Leftover {
        path: path.join(&name),
        bytes: u64::try_from(stat.st_blocks).unwrap_or(0) * 512,
        kind,
        name,
        identity: (stat.st_dev, stat.st_ino),
        is_dir,
        dir: Arc::clone(dir),
        lock: Arc::new(fd),
    })
}

impl Leftover {
    /// Removes a file that carries fathom's mark and cannot hold anything of others, if its name still refers to it. Never
    /// removes a target that may have been changed: the time of the killed run's last write is unknown.
    pub fn remove(self) -> Result<(), GuardError> {
        let path = self.path.to_string_lossy();
        match self.kind {
            LeftoverKind::Scratch | LeftoverKind::Directory => {}
            // Locked by now: no run changes it, but another program may have done so.
            LeftoverKind::Unused if mark::read(&self.lock) == Some(Mark::Unused) => {}
            LeftoverKind::Unmarked => {
                return Err(GuardError::Unmarked { path: path.into_owned() });
            }
            LeftoverKind::Target | LeftoverKind::Unused => {
                return Err(GuardError::Unfinished { path: path.into_owned() });
            }
        }
        guard::remove(&self.dir, self.name.as_bytes(), self.identity, self.is_dir)
            .map_err(|source| GuardError::io(&path, "remove", source))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]
    use super::*;
    use crate::mark::Mark;
    use std::fs::{self, File};

    fn made(path: &Path, mark: Mark) -> File {
        let file = File::create(path).expect("file");
        mark::write(&file, mark).expect("mark");
        file
    }

    fn names(dir: &Path) -> Vec<String> {
        find(dir).expect("read").into_iter().map(|left| left.name).collect()
    }

    #[test]
    fn only_files_of_killed_runs_are_found() {
        let dir = tempfile::tempdir().expect("directory");
        let at = |name: &str| dir.path().join(name);
        made(&at("target"), Mark::Target);
        let held = made(&at(".fathom-scratch-0-0"), Mark::Scratch);
        flock(&held, FlockOperation::LockExclusive).expect("lock");
        made(&at(".fathom-scratch-1-0"), Mark::Scratch);
        fs::write(at("someone's"), "x").expect("file");
        std::os::unix::fs::symlink(at("target"), at(".fathom-scratch-2-0")).expect("link");
        fs::create_dir(at(".fathom-scratch-3-0")).expect("directory");
        assert_eq!(names(dir.path()), [".fathom-scratch-1-0", ".fathom-scratch-3-0"]);
        drop(held);
        assert_eq!(names(dir.path()).len(), 3);
    }

    #[test]
    fn only_marked_files_are_removed() {
        let dir = tempfile::tempdir().expect("directory");
        let (marked, plain) =
            (dir.path().join(".fathom-scratch-1-0"), dir.path().join(".fathom-scratch-1-1"));
        made(&marked, Mark::Scratch);
        fs::write(&plain, "x").expect("file");
        let results: Vec<_> =
            find(dir.path()).expect("read").into_iter().map(Leftover::remove).collect();
        assert!(results[0].is_ok() && !marked.exists());
        let error = results[1].as_ref().expect_err("kept").to_string();
        assert!(error.contains("rm ") && plain.exists(), "{error}");
    }

    #[test]
    fn a_replaced_file_is_not_removed() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join(".fathom-scratch-1-0");
        made(&path, Mark::Scratch);
        let left = find(dir.path()).expect("read").remove(0);
        fs::rename(&path, dir.path().join("other")).expect("moved");
        fs::write(&path, "someone's").expect("file");
        let error = left.remove().expect_err("kept");
        assert!(error.to_string().contains("replaced by another file") && path.exists());
    }

    #[test]
    fn directories_that_runs_created_are_searched_and_removed_once_empty() {
        let dir = tempfile::tempdir().expect("directory");
        let at = |name: &str| dir.path().join(name);
        for name in ["made", "made/inner", "theirs", "theirs/made"] {
            fs::create_dir(at(name)).expect("directory");
        }
        for name in ["made", "made/inner", "theirs/made"] {
            mark::write(File::open(at(name)).expect("directory"), Mark::Unfinished).expect("mark");
        }
        made(&at("made/inner/0"), Mark::Unused);
        fs::write(at("made/mine"), "mine").expect("file");
        let found = find(dir.path()).expect("read");
        let paths: Vec<_> = found.iter().map(|left| left.path.clone()).collect();
        assert_eq!(paths, ["made/inner/0", "made/inner", "made"].map(at));
        let kept: Vec<bool> = found.into_iter().map(|left| left.remove().is_err()).collect();
        assert_eq!(kept, [false, false, true]);
        assert!(at("made/mine").exists() && !at("made/inner").exists());
        fs::remove_file(at("made/mine")).expect("removed");
        for left in find(dir.path()).expect("read") {
            left.remove().expect("empty");
        }
        assert!(!at("made").exists() && at("theirs/made").exists());
    }

    #[test]
    fn a_target_is_removed_only_if_unchanged_since_it_was_created() {
        let dir = tempfile::tempdir().expect("directory");
        let at = |name: &str| dir.path().join(name);
        for name in ["changed", "unchanged"] {
            made(&at(name), Mark::Unused);
        }
        fs::write(at("changed"), "x").expect("changed");
        let found = find(dir.path()).expect("read");
        let kinds: Vec<LeftoverKind> = found.iter().map(|left| left.kind).collect();
        assert_eq!(kinds, [LeftoverKind::Target, LeftoverKind::Unused]);
        let kept: Vec<bool> = found.into_iter().map(|left| left.remove().is_err()).collect();
        assert_eq!(kept, [true, false]);
        // Changed after it was found.
        made(&at("unchanged"), Mark::Unused);
        let left = find(dir.path()).expect("read").pop().expect("found");
        fs::write(at("unchanged"), "x").expect("changed");
        assert!(left.remove().is_err() && at("unchanged").exists());
    }

    #[test]
    fn files_in_the_directory_of_a_running_job_on_names_are_not_listed() {
        let dir = tempfile::tempdir().expect("directory");
        made(&dir.path().join("laid out"), Mark::Unused);
        let used = File::open(dir.path()).expect("directory");
        flock(&used, FlockOperation::LockShared).expect("lock");
        assert!(names(dir.path()).is_empty());
        drop(used);
        assert_eq!(names(dir.path()), ["laid out"]);
    }
}
