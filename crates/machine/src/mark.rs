//! The mark on files that fathom made: an extended attribute.

use rustix::fs::{XattrFlags, fsetxattr, getxattr};
use rustix::io;
use std::os::fd::{AsFd, AsRawFd};

/// Name of the attribute. Its value is the version of fathom that made the file; while the file is
/// being filled with data, ` unfinished <first byte that is not filled>` follows.
pub const NAME: &str = "user.fathom.made";

/// What a mark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Filling the file was begun and never finished; the contents from this byte on mean nothing.
    pub unfinished_from: Option<u64>,
}

/// The mark of an open file, also of one opened with O_PATH. Where the file system has no extended
/// attributes there is none.
pub(crate) fn read(fd: impl AsFd) -> Option<Mark> {
    let path = descriptor_path(fd);
    let mut value = [0; 256];
    let len = getxattr(path.as_str(), NAME, &mut value).ok()?;
    Some(parse(&String::from_utf8_lossy(value.get(..len)?)))
}

/// Marks a file that fathom has just made, or changes its mark.
pub(crate) fn write(fd: impl AsFd, mark: Mark) -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let value = match mark.unfinished_from {
        Some(from) => format!("{version} unfinished {from}"),
        None => version.to_string(),
    };
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

fn parse(value: &str) -> Mark {
    let mut words = value.split(' ').skip(1);
    let unfinished = words.next().filter(|word| *word == "unfinished");
    Mark { unfinished_from: unfinished.and_then(|_| words.next()?.parse().ok()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!(parse("0.1.0").unfinished_from, None);
        assert_eq!(parse("").unfinished_from, None);
        assert_eq!(parse("0.1.0 unfinished 4096").unfinished_from, Some(4096));
        assert_eq!(parse("0.1.0 unfinished x").unfinished_from, None);
    }
}
