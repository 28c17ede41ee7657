//! Locations of `/proc` and `/sys`, and helpers to read their files.
//!
//! Facts are read with [`text`], [`number`] and [`entries`]: what cannot be read is left out of them. Whatever decides
//! about a write is read with [`bytes`], [`value`] and [`list`], which tell "there is none" from "unknown".

use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// File systems by their magic numbers (linux/magic.h).
const PROC: i64 = 0x9fa0;
const SYSFS: i64 = 0x6265_6572;
const CGROUP: [i64; 2] = [0x0027_e0eb, 0x6367_7270];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    pub proc: PathBuf,
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

impl Roots {
    /// Verifies that both are mounted.
    pub fn verify(&self) -> Result<(), Unread> {
        let mut both = [&self.proc, &self.sys].into_iter();
        both.try_for_each(|root| if exists(root)? { Ok(()) } else { Err(Unread::missing(root)) })
    }
}

/// A source that cannot be read, so that what it would show is unknown, and not absent.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The kernel's error.
    #[error("{path} cannot be read ({source})")]
    Failed { path: String, source: io::Error },
    /// What is at its place is not the kernel's.
    #[error("{path} is not {kind}; {}", remedy(path))]
    Foreign { path: String, kind: &'static str },
    /// It is listed, or part of every kernel, and does not exist.
    #[error("{path} is missing")]
    Missing { path: String },
    /// The kernel writes it otherwise.
    #[error("{path} does not have the kernel's format")]
    Malformed { path: String },
}

fn remedy(path: &str) -> String {
    match path {
        "/proc" => "mount it: mount -t proc proc /proc".to_string(),
        "/sys" => "mount it: mount -t sysfs sysfs /sys".to_string(),
        _ => format!("something covers it: unmount that (umount {path})"),
    }
}

impl Unread {
    pub fn failed(path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Failed { path: path.display().to_string(), source: source.into() }
    }

    pub fn missing(path: &Path) -> Self {
        Self::Missing { path: path.display().to_string() }
    }

    pub fn malformed(path: &Path) -> Self {
        Self::Malformed { path: path.display().to_string() }
    }

    /// Whether it may come of a device or process that disappeared while it was read.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Missing { .. })
    }

    pub fn is(&self, errors: &[Errno]) -> bool {
        let number = |error: &Errno| Some(error.raw_os_error());
        matches!(self, Self::Failed { source, .. } if errors.iter().any(|e| number(e) == source.raw_os_error()))
    }
}

/// Verifies that a file or directory below the real `/proc` or `/sys` is the kernel's. Elsewhere, a tree of files stands
/// for them. cgroup hierarchies are other file systems.
fn verify(path: &Path) -> Result<(), Unread> {
    let (kind, known): (_, &[i64]) = if path.starts_with("/sys/fs/cgroup") {
        ("a cgroup file system", &CGROUP)
    } else if path.starts_with("/sys") {
        ("sysfs", &[SYSFS])
    } else if path.starts_with("/proc") {
        ("procfs", &[PROC])
    } else {
        return Ok(());
    };
    match rustix::fs::statfs(path) {
        Ok(fs) if known.contains(&fs.f_type) => Ok(()),
        Ok(_) => Err(Unread::Foreign { path: path.display().to_string(), kind }),
        Err(error) => Err(Unread::failed(path, error)),
    }
}

/// Whether a directory is in a cgroup hierarchy; elsewhere than below the real `/sys`, a tree of files stands for it.
pub fn is_cgroup(roots: &Roots, dir: &Path) -> bool {
    roots.sys != Path::new("/sys")
        || rustix::fs::statfs(dir).is_ok_and(|fs| CGROUP.contains(&fs.f_type))
}

/// Whether a file of the kernel's exists. That it does not is known only if what is above it is the kernel's, and no link
/// leads nowhere.
pub fn exists(path: &Path) -> Result<bool, Unread> {
    for above in path.ancestors() {
        match std::fs::metadata(above) {
            Ok(_) => match verify(above) {
                // It has disappeared in the meantime.
                Err(error) if error.is(&[Errno::NOENT]) => {}
                verified => return verified.map(|()| above == path),
            },
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Unread::failed(above, error));
            }
            Err(_) if above.is_symlink() => return Err(Unread::missing(above)),
            Err(_) => {}
        }
    }
    Ok(false)
}

/// Verifies that descriptors can be reopened by their paths in the real `/proc`.
pub fn verify_descriptors() -> Result<(), Unread> {
    let path = Path::new("/proc/self/fd");
    if exists(path)? { Ok(()) } else { Err(Unread::missing(path)) }
}

/// The contents of a file of the kernel's; `None` if there is none.
pub fn bytes(path: &Path) -> Result<Option<Vec<u8>>, Unread> {
    if !exists(path)? {
        return Ok(None);
    }
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        // It has disappeared in the meantime.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Unread::failed(path, error)),
    }
}

/// The value in a small file of the kernel's; `None` if there is no file.
pub fn value<T: FromStr>(path: &Path) -> Result<Option<T>, Unread> {
    let Some(bytes) = bytes(path)? else { return Ok(None) };
    let text = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok());
    text.map(Some).ok_or_else(|| Unread::malformed(path))
}

/// Names of the entries of a directory of the kernel's, sorted; `None` if there is none.
pub fn list(dir: &Path) -> Result<Option<Vec<String>>, Unread> {
    if !exists(dir)? {
        return Ok(None);
    }
    let fail = |error| Unread::failed(dir, error);
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(fail)?.file_name().into_string();
        names.push(name.map_err(|_| Unread::malformed(dir))?);
    }
    names.sort();
    Ok(Some(names))
}

/// The contents of a small file without surrounding white space; `None` if unreadable or empty.
pub fn text(path: impl AsRef<Path>) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_string())
}

pub fn number<T: FromStr>(path: impl AsRef<Path>) -> Option<T> {
    text(path)?.parse().ok()
}

/// Names of the entries of a directory, sorted; empty if it cannot be read.
pub fn entries(dir: impl AsRef<Path>) -> Vec<String> {
    let Ok(listing) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> =
        listing.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
