//! Block devices served by a process; its files open for writing are taken as the backing store.

use super::backing::BackedDevice;
use super::{Object, paths};
use fathom_sys::device::Node;
use fathom_sys::roots::{self, Roots, Unread, text};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// A process has ended, or closed a descriptor.
const ENDED: [Errno; 2] = [Errno::NOENT, Errno::SRCH];

/// nbd devices, whose process is in sysfs, and ublk devices, whose server has `/dev/ublkcN` open. The
/// backing store of a remote server is unknown.
pub(super) fn layers(roots: &Roots) -> Result<Vec<BackedDevice>, Unread> {
    let block = roots.sys.join("block");
    let mut layers = Vec::new();
    for prefix in ["nbd", "ublkb"] {
        for node in Node::listed(&block, prefix)? {
            layers.extend(served(roots, node)?);
        }
    }
    Ok(layers)
}

fn served(roots: &Roots, device: Node) -> Result<Option<BackedDevice>, Unread> {
    let name = device.name();
    let process = match name.strip_prefix("ublkb") {
        Some(number) => server(roots, Path::new(&format!("/dev/ublkc{number}")))?,
        None => {
            let pid = roots::value::<u32>(&device.attribute("pid"))?;
            pid.map(|pid| roots.proc.join(pid.to_string()))
        }
    };
    let Some(process) = process else { return Ok(None) };
    let objects = written(&process)?;
    // Only for messages.
    let path = PathBuf::from(text(process.join("comm")).unwrap_or_default());
    Ok(Some(BackedDevice { device, objects, path, guess: None }))
}

/// The process that has `node` open.
fn server(roots: &Roots, node: &Path) -> Result<Option<PathBuf>, Unread> {
    let names = roots::list(&roots.proc)?.ok_or_else(|| Unread::missing(&roots.proc))?;
    for pid in names.into_iter().filter(|name| name.parse::<u32>().is_ok()) {
        let process = roots.proc.join(pid);
        for link in descriptors(&process)? {
            // A descriptor that has been closed.
            if std::fs::read_link(&link).is_ok_and(|to| to == node) {
                return Ok(Some(process));
            }
        }
    }
    Ok(None)
}

/// The links of a process's descriptors; none if it has ended.
fn descriptors(process: &Path) -> Result<Vec<PathBuf>, Unread> {
    let dir = process.join("fd");
    match roots::list(&dir) {
        Ok(names) => Ok(names.unwrap_or_default().iter().map(|name| dir.join(name)).collect()),
        Err(error) if error.is(&ENDED) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Files and block devices that a process has open for writing.
fn written(process: &Path) -> Result<Vec<Object>, Unread> {
    let links = descriptors(process)?.into_iter().filter(|link| is_writable(process, link));
    links.filter_map(|link| object(&link).transpose()).collect()
}

fn is_writable(process: &Path, link: &Path) -> bool {
    let info = text(process.join("fdinfo").join(link.file_name().unwrap_or_default()));
    let info = info.unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    // O_WRONLY or O_RDWR; in doubt, writable.
    flags.is_none_or(|flags| flags & 3 != 0)
}

fn object(link: &Path) -> Result<Option<Object>, Unread> {
    let stat: Stat = match rustix::fs::stat(link) {
        Ok(stat) => stat,
        Err(error) if ENDED.contains(&error) => return Ok(None),
        Err(error) => return Err(Unread::failed(link, error)),
    };
    if let Some(number) = paths::block_number(&stat) {
        return Ok(Some(Object::Device(number)));
    }
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    // In doubt, on an overlay, where a file is known by its size.
    let overlaid = rustix::fs::statfs(link).map_or(true, |fs| paths::is_overlay(&fs));
    Ok(is_file.then(|| Object::File(paths::identity(&stat, overlaid))))
}
