//! The mark on files created by fathom: an extended attribute.
//!
//! It contains the inode, size and mtime of the file after fathom's last write. Attributes survive
//! when another program replaces the contents, and some programs copy them, so the mark is void if
//! any of the three differs.

use rustix::fs::{Stat, XattrFlags, fremovexattr, fsetxattr, fstat, getxattr, stat};
use rustix::io;
use std::os::fd::{AsFd, AsRawFd};

/// Name of the attribute. Its value is fathom's version, the kind of file, and
/// `inode=… size=… mtime=<seconds>.<nanoseconds>`.
pub const NAME: &str = "user.fathom.made";

/// The kind of a marked file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A target created by fathom and not changed by others since.
    Target,
    /// A scratch file under a temporary name, which may be changing.
    Scratch,
    /// A target created by a run that is writing it, or was killed.
    Unfinished,
    /// A log written by a run that ended, and not changed by others since.
    Log,
}

/// The mark of an open file, including one opened with O_PATH. `None` if the file system has no
/// extended attributes.
pub(crate) fn read(fd: impl AsFd) -> Option<Mark> {
    let path = descriptor_path(fd);
    let mut value = [0; 256];
    let len = getxattr(path.as_str(), NAME, &mut value).ok()?;
    let value = std::str::from_utf8(value.get(..len)?).ok()?;
    parse(value, &stat(path.as_str()).ok()?)
}

/// Whether an open file is a target created by fathom and not changed by others since.
pub(crate) fn is_own(fd: impl AsFd) -> bool {
    read(fd) == Some(Mark::Target)
}

/// Marks a file that fathom has just created or written.
pub(crate) fn write(fd: impl AsFd, mark: Mark) -> io::Result<()> {
    let value = format(mark, &fstat(&fd)?);
    match fsetxattr(fd, NAME, value.as_bytes(), XattrFlags::empty()) {
        // Without attributes, the next run treats the file as not created by fathom, which is safe.
        Err(io::Errno::OPNOTSUPP | io::Errno::NOSYS | io::Errno::PERM) => Ok(()),
        other => other,
    }
}

/// Removes the mark from a file that another program has changed. An error leaves no valid
/// [`Mark::Target`].
pub(crate) fn clear(fd: impl AsFd) {
    let _ = fremovexattr(fd, NAME);
}

/// A path to the file that a descriptor is open on, regardless of its current names.
pub(crate) fn descriptor_path(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

fn format(mark: Mark, stat: &Stat) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match mark {
        Mark::Target => format!("{version} target {}", state(stat)),
        Mark::Log => format!("{version} log {}", state(stat)),
        // Size and mtime change until it is complete.
        Mark::Scratch => format!("{version} scratch inode={}", stat.st_ino),
        Mark::Unfinished => format!("{version} unfinished inode={}", stat.st_ino),
    }
}

fn state(stat: &Stat) -> String {
    let Stat { st_ino, st_size, st_mtime, st_mtime_nsec, .. } = stat;
    format!("inode={st_ino} size={st_size} mtime={st_mtime}.{st_mtime_nsec:09}")
}

fn parse(value: &str, stat: &Stat) -> Option<Mark> {
    let (_version, rest) = value.split_once(' ')?;
    let (kind, recorded) = rest.split_once(' ')?;
    match kind {
        "target" if recorded == state(stat) => Some(Mark::Target),
        "log" if recorded == state(stat) => Some(Mark::Log),
        "scratch" if recorded == format!("inode={}", stat.st_ino) => Some(Mark::Scratch),
        "unfinished" if recorded == format!("inode={}", stat.st_ino) => Some(Mark::Unfinished),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]
    use super::*;

    #[test]
    fn a_mark_is_void_if_the_file_has_changed() {
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

        for mark in [Mark::Scratch, Mark::Unfinished] {
            let value = format(mark, &now);
            assert_eq!(parse(&value, &now), Some(mark));
            let mut moved = now;
            moved.st_ino += 1;
            assert_eq!(parse(&value, &moved), None);
        }
    }

    #[test]
    fn values_without_a_state_are_not_marks() {
        let dir = tempfile::tempdir().expect("directory");
        let now = stat(dir.path()).expect("status");
        for value in ["", "0.1.0", "0.1.0 unfinished 4096", "0.1.0 target", "0.1.0 target inode="] {
            assert_eq!(parse(value, &now), None, "{value:?}");
        }
    }
}
