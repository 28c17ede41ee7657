//! What killed runs left behind: files under temporary names.

use crate::guard::GuardError;
use crate::mark::{self, Mark};
use crate::scratch;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, flock, openat, statat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A file that a killed run left behind.
#[derive(Debug)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes that it takes on the disk.
    pub bytes: u64,
    /// It carries fathom's mark. Without it only its name says whose it is.
    pub marked: bool,
    dir: PathBuf,
    name: String,
    identity: (u64, u64),
    /// Locked, so that no run takes it up.
    _lock: OwnedFd,
}

/// The files in `dir` itself that killed runs left there, by name. Those of runs that go on are
/// locked and are not listed, nor are those that may not be read.
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
        // Opening anything but a file can do things.
        if entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Some(name) = entry.file_name().to_str()
        {
            found.extend(look(dir, name));
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn look(dir: &Path, name: &str) -> Option<Leftover> {
    let path = dir.join(name);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(&path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    let is_left = name.starts_with(scratch::PREFIX);
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let is_free = || flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok();
    (is_left && is_file && is_free()).then(|| Leftover {
        path,
        bytes: u64::try_from(stat.st_blocks).unwrap_or(0) * 512,
        marked: mark::read(&fd) == Some(Mark::Scratch),
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
    /// Removes it, if it carries fathom's mark and its name still leads to it.
    ///
    /// # Errors
    /// Why it stays.
    pub fn remove(self) -> Result<(), GuardError> {
        let path = self.path.to_string_lossy();
        if !self.marked {
            return Err(GuardError::Unmarked { path: path.into_owned() });
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
    fn only_what_killed_runs_left_is_found() {
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
    fn only_what_is_marked_is_removed() {
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
    fn what_took_its_name_is_not_removed() {
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
