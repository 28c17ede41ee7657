//! Files left by killed runs.

use crate::guard::GuardError;
use crate::mark::{self, Mark};
use crate::scratch;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, flock, openat, statat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A file left by a killed run.
#[derive(Debug)]
pub struct Leftover {
    /// Path of the file.
    pub path: PathBuf,
    /// Allocated bytes.
    pub bytes: u64,
    /// What it is.
    pub kind: LeftoverKind,
    dir: PathBuf,
    name: String,
    identity: (u64, u64),
    /// Locked, so that no run uses it.
    _lock: OwnedFd,
}

/// What a file left by a killed run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftoverKind {
    /// A scratch file with fathom's mark.
    Scratch,
    /// A file with the name of a scratch file, but without fathom's mark.
    Unmarked,
    /// A target that the run created to write to. It may have been changed since.
    Target,
}

/// The files that killed runs left in `dir`, not including subdirectories, sorted by name. Files of
/// active runs are locked and not listed, nor are files without read permission.
///
/// # Errors
/// When the directory cannot be read.
pub fn find(dir: &Path) -> Result<Vec<Leftover>, GuardError> {
    let shown = dir.to_string_lossy();
    let fail =
        |source| GuardError::Io { path: shown.to_string(), doing: "read the directory", source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        // Opening a device or FIFO can have side effects.
        if entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Some(name) = entry.file_name().to_str()
        {
            found.extend(check(dir, name));
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn check(dir: &Path, name: &str) -> Option<Leftover> {
    let path = dir.join(name);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(&path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    let kind = match (mark::read(&fd), name.starts_with(scratch::PREFIX)) {
        (Some(Mark::Unfinished), _) => LeftoverKind::Target,
        (Some(Mark::Scratch), true) => LeftoverKind::Scratch,
        (_, true) => LeftoverKind::Unmarked,
        (_, false) => return None,
    };
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let is_free = || flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok();
    (is_file && is_free()).then(|| Leftover {
        path,
        bytes: u64::try_from(stat.st_blocks).unwrap_or(0) * 512,
        kind,
        dir: dir.to_path_buf(),
        name: name.to_string(),
        identity: identity(&stat),
        _lock: fd,
    })
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

impl Leftover {
    /// Removes a scratch file that carries fathom's mark, if its name still refers to it. Never removes
    /// a target: the time of the killed run's last write is unknown, so later changes are not detected.
    ///
    /// # Errors
    /// Why the file was not removed.
    pub fn remove(self) -> Result<(), GuardError> {
        let path = self.path.to_string_lossy();
        match self.kind {
            LeftoverKind::Scratch => {}
            LeftoverKind::Unmarked => {
                return Err(GuardError::Unmarked { path: path.into_owned() });
            }
            LeftoverKind::Target => {
                return Err(GuardError::Unfinished { path: path.into_owned() });
            }
        }
        let fail = |error: Errno| GuardError::io(&path, "remove", error);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(rustix::fs::CWD, &self.dir, flags, Mode::empty()).map_err(fail)?;
        let now = statat(&dir, &self.name, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
        if identity(&now) != self.identity {
            return Err(GuardError::Changed { path: path.into_owned() });
        }
        rustix::fs::unlinkat(&dir, &self.name, AtFlags::empty()).map_err(fail)
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
        assert_eq!(names(dir.path()), [".fathom-scratch-1-0"]);
        drop(held);
        assert_eq!(names(dir.path()).len(), 2);
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
        assert!(matches!(error, GuardError::Changed { .. }) && path.exists());
    }
}
