//! Mounts from `/proc/<pid>/mountinfo` (proc_pid_mountinfo(5)).

use crate::device::{self, Number};
use crate::roots::{self, Roots, Unread};
use rustix::fs::{Statx, StatxFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Mount ID, as in statx(2).
    pub id: u64,
    /// st_dev of the files on it; major 0 for a file system without a block device of its own.
    pub device: Number,
    pub root: String,
    pub point: String,
    pub options: String,
    pub file_system: String,
    pub source: String,
    pub super_options: String,
}

/// A mount namespace, or what a process with a root of its own sees of it.
pub struct Namespace {
    pub process: PathBuf,
    pub mounts: Vec<Mount>,
}

/// The mounts of this process's namespace, for facts: none if they cannot be read.
pub fn own(roots: &Roots) -> Vec<Mount> {
    read(&roots.proc.join("self")).ok().flatten().unwrap_or_default()
}

/// The one of `mounts` that a file is on.
pub fn of<'a>(mounts: &'a [Mount], stat: &Statx) -> Option<&'a Mount> {
    let has_id = stat.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    let number = (stat.stx_dev_major, stat.stx_dev_minor);
    let by_id = || mounts.iter().find(|mount| mount.id == stat.stx_mnt_id);
    let by_number = || mounts.iter().find(|mount| mount.device == number);
    has_id.then(by_id).flatten().or_else(by_number)
}

/// The one of `mounts` that shows a path, by the mount points alone: the path is not accessed, since its file system may hang.
pub fn above<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    // Of several mounts on one point, the last one is visible.
    mounts.iter().filter(|mount| path.starts_with(&mount.point)).max_by_key(|m| m.point.len())
}

/// All mount namespaces of visible processes, this process's own first.
/// Those of this process, and of others that this user may see, must be readable.
pub fn namespaces(roots: &Roots) -> Result<Vec<Namespace>, Unread> {
    let process = roots.proc.join("self");
    let mounts = read(&process)?.ok_or_else(|| Unread::missing(&process.join("mountinfo")))?;
    let mut seen: HashSet<_> = identity(&process).into_iter().collect();
    let mut found = vec![Namespace { process, mounts }];
    let names = roots::list(&roots.proc)?.ok_or_else(|| Unread::missing(&roots.proc))?;
    for name in names.into_iter().filter(|name| name.parse::<u32>().is_ok()) {
        let process = roots.proc.join(name);
        let identity = identity(&process);
        if identity.as_ref().is_some_and(|identity| seen.contains(identity)) {
            continue;
        }
        match read(&process) {
            // Mounts have numbers of their own in each namespace.
            Ok(Some(mounts)) if found.iter().all(|other| other.mounts != mounts) => {
                found.push(Namespace { process, mounts });
            }
            Ok(_) => {}
            // Mounted with hidepid=1, /proc shows a user no other's processes, as with hidepid=2.
            Err(error) if error.is(&[Errno::ACCESS, Errno::PERM]) && !is_root() => {}
            Err(error) => return Err(error),
        }
        seen.extend(identity);
    }
    Ok(found)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The namespace of a process, and its root directory in it; `None` without permission, where the list of mounts
/// distinguishes namespaces, and for a process that has ended.
fn identity(process: &Path) -> Option<(PathBuf, u64, u64)> {
    let namespace = std::fs::read_link(process.join("ns/mnt")).ok()?;
    let root = rustix::fs::stat(process.join("root")).ok()?;
    Some((namespace, root.st_dev, root.st_ino))
}

/// The mounts that a process sees; `None` if it has ended.
fn read(process: &Path) -> Result<Option<Vec<Mount>>, Unread> {
    let file = process.join("mountinfo");
    let bytes = match roots::bytes(&file) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        // Of a process that is ending or a zombie.
        Err(error) if error.is(&[Errno::INVAL, Errno::SRCH]) => return Ok(None),
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&bytes);
    let mounts: Option<Vec<Mount>> = text.lines().map(parse).collect();
    mounts.map(Some).ok_or_else(|| Unread::malformed(&file))
}

fn parse(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ');
    let id = front.next()?.parse().ok()?;
    let _parent = front.next()?;
    let device = device::parse_number(front.next()?)?;
    let root = unescaped(front.next()?);
    let point = unescaped(front.next()?);
    let options = front.next()?.to_string();
    let mut back = back.split(' ');
    Some(Mount {
        id,
        device,
        root,
        point,
        options,
        file_system: back.next()?.to_string(),
        source: unescaped(back.next()?),
        super_options: back.next().unwrap_or("").to_string(),
    })
}

pub fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        let code = digits
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u8::from_str_radix(d, 8).ok());
        match code {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

pub fn unescaped(text: &str) -> String {
    String::from_utf8_lossy(&unescape(text.as_bytes())).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_optional_fields() {
        let line = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=x";
        let mount = parse(line).expect("well formed");
        assert_eq!(mount.device, (98, 0));
        assert_eq!((mount.point.as_str(), mount.options.as_str()), ("/mnt 2", "rw,noatime"));
        assert_eq!(mount.file_system, "ext3");
        assert_eq!(mount.source, "/dev/root");
        let bare = parse("1 0 0:22 / /sys rw - sysfs sysfs rw").expect("well formed");
        assert_eq!((bare.id, bare.file_system.as_str()), (1, "sysfs"));
    }

    #[test]
    fn malformed_lines_are_no_mounts() {
        for line in ["", " - ", "1 2 3 4 - ext4", "x 0 0:1 / / rw - a b c", "1 0 8 / / rw - a b c"]
        {
            assert_eq!(parse(line), None, "{line:?}");
        }
        assert_eq!(unescape(b"a\\04"), b"a\\04");
        assert_eq!(unescape(b"\\\\x\\777"), b"\\\\x\\777");
    }
}
