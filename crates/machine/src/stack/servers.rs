//! Block devices served by a process; its files open for writing are taken as the backing store.

use super::backing::Layer;
use super::{Object, paths};
use crate::device::Node;
use crate::roots::{Roots, entries, number, text};
use rustix::fs::{FileType, Stat};
use std::path::{Path, PathBuf};

/// nbd devices, whose process is in sysfs, and ublk devices, whose server has `/dev/ublkcN` open. The
/// backing store of a remote server is unknown.
pub(super) fn layers(roots: &Roots) -> Vec<Layer> {
    let block = roots.sys.join("block");
    let nodes = entries(&block).into_iter().filter_map(|name| Node::by_dir(&block.join(name)));
    nodes.filter_map(|node| served(roots, node)).collect()
}

fn served(roots: &Roots, device: Node) -> Option<Layer> {
    let name = device.name();
    let process = if name.starts_with("nbd") {
        roots.proc.join(number::<u32>(device.attribute("pid"))?.to_string())
    } else {
        let node = format!("/dev/ublkc{}", name.strip_prefix("ublkb")?);
        let pids = entries(&roots.proc).into_iter().filter(|name| name.parse::<u32>().is_ok());
        pids.map(|pid| roots.proc.join(pid)).find(|process| has_open(process, &node))?
    };
    let objects = written(&process);
    let path = PathBuf::from(text(process.join("comm")).unwrap_or_default());
    Some(Layer { device, objects, path, guess: None })
}

fn has_open(process: &Path, path: &str) -> bool {
    let fds = process.join("fd");
    entries(&fds)
        .into_iter()
        .any(|fd| std::fs::read_link(fds.join(fd)).is_ok_and(|link| link == Path::new(path)))
}

/// Files and block devices that a process has open for writing.
fn written(process: &Path) -> Vec<Object> {
    let fds = process.join("fd");
    let names = entries(&fds).into_iter().filter(|fd| is_writable(process, fd));
    names.filter_map(|fd| object(&fds.join(fd))).collect()
}

fn is_writable(process: &Path, fd: &str) -> bool {
    let info = text(process.join("fdinfo").join(fd)).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    // O_WRONLY or O_RDWR; in doubt, writable.
    flags.is_none_or(|flags| flags & 3 != 0)
}

fn object(link: &Path) -> Option<Object> {
    let stat: Stat = rustix::fs::stat(link).ok()?;
    if let Some(number) = paths::block_number(&stat) {
        return Some(Object::Device(number));
    }
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let fd = rustix::fs::open(link, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).ok();
    let overlaid = fd.is_some_and(paths::is_overlaid);
    is_file.then(|| Object::File(paths::identity(&stat, overlaid)))
}
