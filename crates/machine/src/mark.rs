//! The mark on files created by fathom: an extended attribute.
//!
//! It contains the inode, size, mtime and ctime of the file after fathom's last write. Attributes survive when another
//! program replaces the contents, some programs copy them, and some set mtime back. So the mark is void if any of the four
//! differs.

use rustix::fs::{Stat, XattrFlags, fremovexattr, fsetxattr, fstat, getxattr, stat};
use rustix::io;
use std::os::fd::{AsFd, AsRawFd};

/// Name of the attribute. Its value is fathom's version, the kind of file, and the inode; where the file must not have
/// changed since, also `size=… mtime=<ns> ctime=<ns>+<ns>`.
pub const NAME: &str = "user.fathom.made";

/// Writing the attribute changes ctime itself, so ctime may be later than the recorded one by a window, in nanoseconds, which
/// is recorded, too. This is the shortest; since Linux 6.13, each change has a ctime of its own.
const WINDOW_MIN_NS: i64 = 50_000;
/// Failed attempts after which the window is doubled.
const ATTEMPTS: u32 = 16;
const WINDOW_MAX_NS: i64 = WINDOW_MIN_NS << 6;
/// Where all times are multiples of this, in nanoseconds, they are too coarse to prove that nothing was changed.
const COARSE_NS: i64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A target created by fathom and not changed by others since.
    Target,
    /// A scratch file under a temporary name, which may be changing.
    Scratch,
    /// A target created by a run that is writing it, or was killed.
    Unfinished,
    /// The same, not changed since it was created.
    Unused,
    /// A log written by a run that ended, and not changed by others since.
    Log,
}

/// Identifies a version of a file, except for changes within the resolution of the file system's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileVersion {
    inode: u64,
    size: i64,
    mtime_ns: i128,
    ctime_ns: i128,
}

impl FileVersion {
    pub fn of(fd: impl AsFd) -> io::Result<Self> {
        Ok(Self::from(&fstat(fd)?))
    }

    pub fn size(&self) -> u64 {
        self.size.unsigned_abs()
    }

    fn is_coarse(&self) -> bool {
        self.ctime_ns % i128::from(COARSE_NS) == 0
    }

    /// The times are as recorded in `self`, or ctime is later by up to `window_ns`.
    fn became(&self, now: &Self, window_ns: i64) -> bool {
        let later = now.ctime_ns - self.ctime_ns;
        *self == Self { ctime_ns: self.ctime_ns, ..*now }
            && (0..=i128::from(window_ns)).contains(&later)
    }
}

impl From<&Stat> for FileVersion {
    #[allow(clippy::useless_conversion, reason = "types differ by architecture")]
    fn from(stat: &Stat) -> Self {
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            inode: stat.st_ino.into(),
            size: stat.st_size.into(),
            mtime_ns: ns(stat.st_mtime.into(), stat.st_mtime_nsec as i64),
            ctime_ns: ns(stat.st_ctime.into(), stat.st_ctime_nsec as i64),
        }
    }
}

/// The mark of an open file, including one opened with O_PATH. `None` if the file system has no
/// extended attributes.
pub(crate) fn read(fd: impl AsFd) -> Option<Mark> {
    let path = descriptor_path(fd);
    let mut value = [0; 256];
    let len = getxattr(path.as_str(), NAME, &mut value).ok()?;
    let value = std::str::from_utf8(value.get(..len)?).ok()?;
    parse(value, &FileVersion::from(&stat(path.as_str()).ok()?))
}

/// Whether an open file is a target created by fathom and not changed by others since.
pub(crate) fn is_own(fd: impl AsFd) -> bool {
    read(fd) == Some(Mark::Target)
}

pub(crate) fn write(fd: impl AsFd, mark: Mark) -> io::Result<()> {
    let version = FileVersion::of(&fd)?;
    write_version(fd, mark, &version)
}

/// Marks a file that fathom last changed to `version`. The mark is void if it has changed since.
pub(crate) fn write_version(fd: impl AsFd, mark: Mark, version: &FileVersion) -> io::Result<()> {
    let fd = fd.as_fd();
    match set(fd, mark, version) {
        // Without attributes, the next run treats the file as not created by fathom, which is safe.
        Err(io::Errno::OPNOTSUPP | io::Errno::NOSYS | io::Errno::PERM) => Ok(()),
        other => other,
    }
}

fn set(fd: std::os::fd::BorrowedFd<'_>, mark: Mark, version: &FileVersion) -> io::Result<()> {
    let put = |mark, version: &FileVersion, window_ns| {
        let value = format(mark, version, window_ns);
        fsetxattr(fd, NAME, value.as_bytes(), XattrFlags::empty()).map(|()| value)
    };
    if matches!(mark, Mark::Scratch | Mark::Unfinished) {
        return put(mark, version, 0).map(drop);
    }
    // Each attempt records the ctime of the one before, until the next comes soon enough.
    let mut recorded = *version;
    let is_current = FileVersion::of(fd)? == *version;
    let windows = (0..).map(|attempt| WINDOW_MIN_NS << (attempt / ATTEMPTS));
    for window_ns in windows.take_while(|ns| is_current && *ns <= WINDOW_MAX_NS) {
        let value = put(mark, &recorded, window_ns)?;
        let now = FileVersion::of(fd)?;
        if now.is_coarse() || !recorded.became(&now, i64::MAX) {
            break;
        }
        if parse(&value, &now) == Some(mark) {
            return Ok(());
        }
        recorded.ctime_ns = now.ctime_ns;
    }
    match mark {
        Mark::Unused => put(Mark::Unfinished, version, 0).map(drop),
        _ => fremovexattr(fd, NAME),
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

fn format(mark: Mark, version: &FileVersion, window_ns: i64) -> String {
    let fathom = env!("CARGO_PKG_VERSION");
    let FileVersion { inode, size, mtime_ns, ctime_ns } = version;
    let kind = match mark {
        Mark::Target => "target",
        Mark::Log => "log",
        Mark::Unused => "unused",
        // Size and times change until it is complete.
        Mark::Scratch => return format!("{fathom} scratch inode={inode}"),
        Mark::Unfinished => return format!("{fathom} unfinished inode={inode}"),
    };
    format!(
        "{fathom} {kind} inode={inode} size={size} mtime={mtime_ns} ctime={ctime_ns}+{window_ns}"
    )
}

fn parse(value: &str, now: &FileVersion) -> Option<Mark> {
    let mut words = value.split(' ').skip(1);
    let kind = words.next()?;
    let mut field = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
    let inode = field("inode")?.parse().ok()?;
    if inode != now.inode {
        return None;
    }
    match kind {
        "scratch" => return Some(Mark::Scratch),
        "unfinished" => return Some(Mark::Unfinished),
        _ => {}
    }
    let (size, mtime_ns) = (field("size")?.parse().ok()?, field("mtime")?.parse().ok()?);
    let (ctime_ns, window_ns) = field("ctime")?.split_once('+')?;
    let recorded = FileVersion { inode, size, mtime_ns, ctime_ns: ctime_ns.parse().ok()? };
    let window_ns = window_ns.parse().ok().filter(|window| *window <= WINDOW_MAX_NS)?;
    match (kind, recorded.became(now, window_ns)) {
        ("target", true) => Some(Mark::Target),
        ("log", true) => Some(Mark::Log),
        ("unused", true) => Some(Mark::Unused),
        ("unused", false) => Some(Mark::Unfinished),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]
    use super::*;

    const NOW: FileVersion =
        FileVersion { inode: 7, size: 4096, mtime_ns: 1_000_000_001, ctime_ns: 2_000_000_002 };

    #[test]
    fn a_mark_is_void_if_the_file_has_changed() {
        let mut exact = NOW;
        exact.ctime_ns += 50_000;
        for (mark, void) in [(Mark::Target, None), (Mark::Unused, Some(Mark::Unfinished))] {
            let value = format(mark, &NOW, 50_000);
            assert_eq!((parse(&value, &NOW), parse(&value, &exact)), (Some(mark), Some(mark)));
            let change = |change: fn(&mut FileVersion)| {
                let mut other = NOW;
                change(&mut other);
                parse(&value, &other)
            };
            assert_eq!(change(|now| now.inode += 1), None);
            assert_eq!(change(|now| now.size += 1), void);
            assert_eq!(change(|now| now.mtime_ns += 1), void);
            assert_eq!(change(|now| now.mtime_ns -= 1), void);
            assert_eq!(change(|now| now.ctime_ns -= 1), void);
            assert_eq!(change(|now| now.ctime_ns += 50_001), void);
        }
        for mark in [Mark::Scratch, Mark::Unfinished] {
            let value = format(mark, &NOW, 0);
            assert_eq!(parse(&value, &FileVersion { size: 0, ..NOW }), Some(mark));
            assert_eq!(parse(&value, &FileVersion { inode: 8, ..NOW }), None);
        }
    }

    #[test]
    fn values_without_a_version_are_not_marks() {
        for value in [
            "",
            "0.1.0",
            "0.1.0 unfinished 4096",
            "0.1.0 target",
            "0.1.0 target inode=",
            // Of released versions, without ctime.
            "0.1.0 target inode=7 size=4096 mtime=1.000000001",
            // Any later change would be allowed.
            "0.1.0 target inode=7 size=4096 mtime=1000000001 ctime=2000000002+9000000000",
        ] {
            assert_eq!(parse(value, &NOW), None, "{value:?}");
        }
        assert_eq!(parse("0.1.0 scratch inode=7", &NOW), Some(Mark::Scratch));
    }

    #[test]
    fn a_mark_is_valid_until_the_next_change() {
        let dir = tempfile::tempdir().expect("directory");
        let file = std::fs::File::create(dir.path().join("file")).expect("file");
        for mark in [Mark::Target, Mark::Unused] {
            write(&file, mark).expect("marked");
            assert_eq!(read(&file), Some(mark));
        }
        let version = FileVersion::of(&file).expect("version");
        file.set_len(1).expect("changed");
        assert_eq!(read(&file), Some(Mark::Unfinished));
        // Written for a version that the file no longer has.
        write_version(&file, Mark::Target, &version).expect("marked");
        assert_eq!(read(&file), None);
    }
}
