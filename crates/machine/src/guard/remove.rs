//! Removes what fathom created, and nothing that took its name.

use crate::scratch;
use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, linkat, mkdirat, openat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub type Identity = (u64, u64);

type At<'a> = (BorrowedFd<'a>, &'a [u8]);

/// Removes `name` from `dir` if it refers to `made`. A name that is gone is no error.
///
/// Another file can take the name between a check and the removal. It is therefore moved to a name that nobody else uses,
/// checked there, and removed, or moved back.
/// If the name refers to something else, that is kept, and this is an error.
pub fn remove(dir: impl AsFd, name: &[u8], made: Identity, is_dir: bool) -> io::Result<()> {
    let at = (dir.as_fd(), name);
    match identity(at)? {
        None => return Ok(()),
        // Left alone, so that its users find it.
        Some(now) if now != made => return Err(replaced("")),
        Some(_) if scratch::is_of_this_process(name) => return Ok(unlink(at, is_dir)?),
        Some(_) => {}
    }
    let aside = scratch::name();
    let aside = (at.0, aside.as_bytes());
    match renameat_with(at.0, name, aside.0, aside.1, RenameFlags::NOREPLACE) {
        Ok(()) => remove_moved(aside, at, made, is_dir),
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            remove_in_directory(aside, at, made, is_dir)
        }
        Err(error) => Err(error.into()),
    }
}

/// The same where a file system cannot move without replacing (NFS): into a new directory, where nothing can be replaced.
fn remove_in_directory(aside: At<'_>, at: At<'_>, made: Identity, is_dir: bool) -> io::Result<()> {
    mkdirat(aside.0, aside.1, Mode::from_raw_mode(0o700))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inner: io::Result<OwnedFd> = Ok(openat(aside.0, aside.1, flags, Mode::empty())?);
    let removed = inner.and_then(|inner| match renameat(at.0, at.1, &inner, at.1) {
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(()) => remove_moved((inner.as_fd(), at.1), at, made, is_dir),
    });
    // Not empty if what was moved could not be moved back.
    let _ = unlinkat(aside.0, aside.1, AtFlags::REMOVEDIR);
    removed
}

/// Removes what was moved from `at` to `moved`, or moves it back if it is not `made`.
fn remove_moved(moved: At<'_>, at: At<'_>, made: Identity, is_dir: bool) -> io::Result<()> {
    if identity(moved)? == Some(made) {
        return unlink(moved, is_dir).map_err(|error| {
            let _ = move_back(moved, at);
            error.into()
        });
    }
    match move_back(moved, at) {
        Ok(()) => Err(replaced("")),
        Err(_) => {
            let now = crate::target::resolved(moved.0);
            let name = String::from_utf8_lossy(moved.1);
            Err(replaced(&format!(", which is now {now}/{name}, because its name was taken again")))
        }
    }
}

fn move_back(moved: At<'_>, at: At<'_>) -> Result<(), Errno> {
    match renameat_with(moved.0, moved.1, at.0, at.1, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            linkat(moved.0, moved.1, at.0, at.1, AtFlags::empty())?;
            unlink(moved, false)
        }
        other => other,
    }
}

fn unlink(at: At<'_>, is_dir: bool) -> Result<(), Errno> {
    unlinkat(at.0, at.1, if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() })
}

/// What a name refers to, without following a link; `None` if nothing.
fn identity(at: At<'_>) -> Result<Option<Identity>, Errno> {
    match statat(at.0, at.1, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some((stat.st_dev, stat.st_ino))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn replaced(addition: &str) -> io::Error {
    io::Error::other(format!("it was replaced by another file{addition}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    fn made(path: &Path) -> Identity {
        let stat = fs::symlink_metadata(path).expect("status");
        (stat.dev(), stat.ino())
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("directory").flatten();
        entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect()
    }

    /// Removes `file` with both methods, as if `theirs` had taken the name after it was checked.
    #[test]
    fn what_took_the_name_is_moved_back() {
        for in_directory in [false, true] {
            let dir = tempfile::tempdir().expect("directory");
            let (file, theirs) = (dir.path().join("file"), dir.path().join("theirs"));
            let open = fs::File::open(dir.path()).expect("directory");
            let (at, aside) = ((open.as_fd(), &b"file"[..]), (open.as_fd(), &b"aside"[..]));
            let act = |identity| match in_directory {
                true => remove_in_directory(aside, at, identity, false),
                false => {
                    fs::rename(&file, dir.path().join("aside")).expect("moved");
                    remove_moved(aside, at, identity, false)
                }
            };
            fs::write(&file, "fathom's").expect("file");
            let own = made(&file);
            fs::write(&theirs, "theirs").expect("file");
            fs::rename(&theirs, &file).expect("replaced");
            let error = act(own).expect_err("kept").to_string();
            assert_eq!(error, "it was replaced by another file");
            assert_eq!(fs::read_to_string(&file).expect("there"), "theirs");
            assert_eq!(names(dir.path()), ["file"]);
            act(made(&file)).expect("removed");
            assert!(names(dir.path()).is_empty());
        }
    }

    #[test]
    fn what_cannot_be_moved_back_is_kept_and_named() {
        let dir = tempfile::tempdir().expect("directory");
        fs::write(dir.path().join("file"), "fathom's").expect("file");
        fs::write(dir.path().join("aside"), "theirs").expect("file");
        let open = fs::File::open(dir.path()).expect("directory");
        let (at, aside) = ((open.as_fd(), &b"file"[..]), (open.as_fd(), &b"aside"[..]));
        let own = made(&dir.path().join("file"));
        let error = remove_moved(aside, at, own, false).expect_err("kept").to_string();
        assert!(error.contains("/aside, because its name was taken again"), "{error}");
        assert_eq!(names(dir.path()).len(), 2);
    }

    #[test]
    fn directories_are_removed_only_if_empty() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("sub");
        fs::create_dir(&path).expect("directory");
        fs::write(path.join("theirs"), "theirs").expect("file");
        let open = fs::File::open(dir.path()).expect("directory");
        let own = made(&path);
        remove(&open, b"sub", own, true).expect_err("kept");
        assert_eq!(fs::read_to_string(path.join("theirs")).expect("there"), "theirs");
        fs::remove_file(path.join("theirs")).expect("removed");
        remove(&open, b"sub", own, true).expect("removed");
        remove(&open, b"sub", own, true).expect("gone already");
        assert!(names(dir.path()).is_empty());
    }
}
