//! Mounts from `/proc/<pid>/mountinfo` (proc_pid_mountinfo(5)).

use crate::device::Number;
use crate::roots::{Roots, entries};
use std::collections::HashSet;
use std::path::PathBuf;

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Mount ID, as in statx(2).
    pub id: u64,
    /// st_dev of the files on it; major 0 for a file system without a block device of its own.
    pub device: Number,
    /// The directory of the file system that is the root of the mount.
    pub root: String,
    /// Mount point.
    pub point: String,
    /// Options of the mount.
    pub options: String,
    /// File system type.
    pub file_system: String,
    /// Mount source, often a device path.
    pub source: String,
    /// Per-superblock options.
    pub super_options: String,
}

/// A mount namespace, identified by one of its processes.
pub(crate) struct Namespace {
    /// The process's directory in `/proc`.
    pub process: PathBuf,
    /// Its mounts.
    pub mounts: Vec<Mount>,
}

/// The mounts of this process's namespace.
pub(crate) fn own(roots: &Roots) -> Vec<Mount> {
    read(&roots.proc.join("self"))
}

/// All mount namespaces of visible processes, this process's own first.
pub(crate) fn namespaces(roots: &Roots) -> Vec<Namespace> {
    let pids = entries(&roots.proc).into_iter().filter(|name| name.parse::<u32>().is_ok());
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for name in std::iter::once("self".to_string()).chain(pids) {
        let process = roots.proc.join(name);
        // Without permission to read another process's namespace, its mounts are unknown; O_EXCL
        // still detects them.
        let Ok(id) = std::fs::read_link(process.join("ns/mnt")) else { continue };
        if seen.insert(id) {
            found.push(Namespace { mounts: read(&process), process });
        }
    }
    found
}

fn read(process: &std::path::Path) -> Vec<Mount> {
    let bytes = std::fs::read(process.join("mountinfo")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ');
    let id = front.next()?.parse().ok()?;
    let _parent = front.next()?;
    let device = crate::device::parse_number(front.next()?)?;
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

/// Decodes the kernel's octal escapes of white space and backslash, such as `\040`.
pub(crate) fn unescape(bytes: &[u8]) -> Vec<u8> {
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

fn unescaped(text: &str) -> String {
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
    fn malformed_lines_are_skipped() {
        for line in ["", " - ", "1 2 3 4 - ext4", "x 0 0:1 / / rw - a b c", "1 0 8 / / rw - a b c"]
        {
            assert_eq!(parse(line), None, "{line:?}");
        }
        assert_eq!(unescape(b"a\\04"), b"a\\04");
        assert_eq!(unescape(b"\\\\x\\777"), b"\\\\x\\777");
    }
}
