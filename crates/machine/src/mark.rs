//! The mark on files that fathom made: an extended attribute.
//!
//! It holds the file's inode, size and time of last change as they were when fathom wrote it last.
//! Attributes stay with a file whose contents someone replaces, and some programs copy them: where
//! one of the three differs, the mark counts for nothing.

use rustix::fs::{Stat, XattrFlags, fsetxattr, fstat, getxattr, stat};
use rustix::io;
use std::os::fd::{AsFd, AsRawFd};

/// Name of the attribute. Its value is the version of fathom, then what the file is, then
/// `inode=… size=… mtime=<seconds>.<nanoseconds>`.
pub const NAME: &str = "user.fathom.made";

/// What a marked file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A target that fathom made and nobody else has changed.
    Target,
    /// A file under a temporary name of fathom's, which may be changing.
    Scratch,
}

/// The mark of an open file, also of one opened with O_PATH. Where the file system has no extended
/// attributes there is none.
pub(crate) fn read(fd: impl AsFd) -> Option<Mark> {
    let path = descriptor_path(fd);
    let mut value = [0; 256];
    let len = getxattr(path.as_str(), NAME, &mut value).ok()?;
    let value = std::str::from_utf8(value.get(..len)?).ok()?;
    parse(value, &stat(path.as_str()).ok()?)
}

/// Whether an open file is a target that fathom made and nobody else has changed.
pub(crate) fn is_own(fd: impl AsFd) -> bool {
    read(fd) == Some(Mark::Target)
}

/// Marks a file that fathom has just made or written.
pub(crate) fn write(fd: impl AsFd, mark: Mark) -> io::Result<()> {
    let value = format(mark, &fstat(&fd)?);
    match fsetxattr(fd, NAME, value.as_bytes(), XattrFlags::empty()) {
        // Without attributes the file counts as not fathom's own next time, which is safe.
        Err(io::Errno::OPNOTSUPP | io::Errno::NOSYS | io::Errno::PERM) => Ok(()),
        other => other,
    }
}

/// A path that leads to the very file that a descriptor is open on, whatever its names are now.
pub(crate) fn descriptor_path(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

fn format(mark: Mark, stat: &Stat) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match mark {
        Mark::Target => format!("{version} target {}", state(stat)),
        // It changes until it is complete; its name says whose it is.
        Mark::Scratch => format!("{version} scratch inode={}", stat.st_ino),
    }
}

fn state(stat: &Stat) -> String {
    let Stat { st_ino, st_size, st_mtime, st_mtime_nsec, .. } = stat;
    format!("inode={st_ino} size={st_size} mtime={st_mtime}.{st_mtime_nsec:09}")
}

fn parse(value: &str, stat: &Stat) -> Option<Mark> {
    let (_version, rest) = value.split_once(' ')?;
    let (kind, told) = rest.split_once(' ')?;
    match kind {
        "target" if told == state(stat) => Some(Mark::Target),
        "scratch" if told == format!("inode={}", stat.st_ino) => Some(Mark::Scratch),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]
    use super::*;

    #[test]
    fn a_mark_is_void_where_the_file_has_changed() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("file");
        std::fs::write(&path, "0123").expect("file");
        let now = stat(&path).expect("status");
        let value = format(Mark::Target, &now);
        assert_eq!(parse(&value, &now), Some(Mark::Target));
        let change = |change: fn(&mut Stat)| {
            let mut other = now;
            change(&mut other);
            parse(&value, &other)
        };
        assert_eq!(change(|stat| stat.st_ino += 1), None);
        assert_eq!(change(|stat| stat.st_size += 1), None);
        assert_eq!(change(|stat| stat.st_mtime += 1), None);
        assert_eq!(change(|stat| stat.st_mtime_nsec ^= 1), None);

        let value = format(Mark::Scratch, &now);
        assert_eq!(parse(&value, &now), Some(Mark::Scratch));
        let mut moved = now;
        moved.st_ino += 1;
        assert_eq!(parse(&value, &moved), None);
    }

    #[test]
    fn values_without_a_state_are_no_marks() {
        let dir = tempfile::tempdir().expect("directory");
        let now = stat(dir.path()).expect("status");
        for value in ["", "0.1.0", "0.1.0 unfinished 4096", "0.1.0 target", "0.1.0 target inode="] {
            assert_eq!(parse(value, &now), None, "{value:?}");
        }
    }
}
