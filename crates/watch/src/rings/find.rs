//! Rings and io-wq workers of processes.

use crate::proc_file::numbers;
use fathom_model::watch::{RingWorkers, Unavailable};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fstat, openat, readlinkat_raw, statat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::path::Path;

const LINK: &[u8] = b"anon_inode:[io_uring]";
const WORKER: &str = "iou-wrk-";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RingLocation {
    pub pid: i32,
    pub fd: i32,
    pub inode: Option<u64>,
    pub unique: bool,
    pub processes: u32,
}

impl RingLocation {
    pub fn unique_inode(&self) -> Option<u64> {
        self.inode.filter(|_| self.unique)
    }

    pub fn is_same(&self, other: &Self) -> bool {
        (self.pid, self.fd, self.inode) == (other.pid, other.fd, other.inode)
    }
}

#[derive(Debug, Default)]
pub(super) struct FoundRings {
    pub rings: Vec<RingLocation>,
    pub processes: Vec<i32>,
    pub missing: Vec<Unavailable>,
}

/// Finds all rings that are open in these processes, which must be in ascending order.
pub(super) fn rings(proc_root: &Path, pids: &[i32]) -> FoundRings {
    let shared = shared_inode();
    let mut found = FoundRings::default();
    let mut indices: HashMap<u64, (usize, i32)> = HashMap::new();
    let mut denied: Vec<i32> = Vec::new();
    for &pid in pids {
        let of_process = match descriptors(proc_root, pid) {
            Ok(rings) => rings,
            Err(error) => {
                denied.extend((error == Errno::ACCESS || error == Errno::PERM).then_some(pid));
                continue;
            }
        };
        found.processes.extend((!of_process.is_empty()).then_some(pid));
        for (fd, inode) in of_process {
            let unique = inode.is_some() && inode != shared;
            let known = inode.filter(|_| unique).and_then(|inode| indices.get_mut(&inode));
            if let Some((index, last)) = known {
                found.rings[*index].processes += u32::from(*last != pid);
                *last = pid;
                continue;
            }
            indices.extend(inode.filter(|_| unique).map(|inode| (inode, (found.rings.len(), pid))));
            found.rings.push(RingLocation { pid, fd, inode, unique, processes: 1 });
        }
    }
    found.missing.extend(missing(&denied));
    found
}

/// Descriptors of a process that are rings, ascending, with their inodes.
fn descriptors(proc_root: &Path, pid: i32) -> Result<Vec<(i32, Option<u64>)>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, proc_root.join(format!("{pid}/fd")), flags, Mode::empty())?;
    let mut rings = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(fd) = name.to_str().ok().and_then(|name| name.parse().ok()) else { continue };
        let mut text = [MaybeUninit::uninit(); LINK.len() + 1];
        // Closed since the directory was read, or not a link.
        let Ok((link, _)) = readlinkat_raw(&folder, name, &mut text[..]) else { continue };
        if *link == *LINK {
            let inode = statat(&folder, name, AtFlags::empty()).ok().map(|stat| stat.st_ino);
            rings.push((fd, inode));
        }
    }
    rings.sort_unstable();
    Ok(rings)
}

/// The inode that older kernels use for all rings, as all kernels do for event descriptors.
fn shared_inode() -> Option<u64> {
    let event = eventfd(0, EventfdFlags::CLOEXEC).ok()?;
    Some(fstat(event).ok()?.st_ino)
}

fn missing(denied: &[i32]) -> Option<Unavailable> {
    let first = denied.first()?;
    Some(Unavailable {
        source: format!("rings of {} processes", denied.len()),
        reason: format!("/proc/{first}/fd: permission denied"),
        remedy: "run as root or as the user of these processes".into(),
    })
}

#[derive(Debug, Default)]
pub(super) struct WorkerCounter {
    known: HashMap<i32, KnownThread>,
    samples: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct KnownThread {
    is_worker: bool,
    read: u8,
    last_sample: u64,
}

/// A worker has its process's name until it first runs, so reading the name once is not enough.
const READINGS: u8 = 2;

impl WorkerCounter {
    /// Number of workers of each of `pids`; processes without workers are omitted.
    pub fn count(&mut self, proc_root: &Path, pids: &[i32]) -> Vec<RingWorkers> {
        self.samples += 1;
        let of = |pid: &i32| RingWorkers { pid: *pid, threads: self.of(proc_root, *pid) };
        let all: Vec<RingWorkers> = pids.iter().map(of).collect();
        let now = self.samples;
        self.known.retain(|_, thread| thread.last_sample == now);
        all.into_iter().filter(|workers| workers.threads > 0).collect()
    }

    fn of(&mut self, proc_root: &Path, pid: i32) -> u32 {
        let folder = proc_root.join(format!("{pid}/task"));
        // The process may have exited.
        let Ok(tids) = numbers(&folder) else { return 0 };
        let mut workers = 0;
        for tid in tids {
            let thread: &mut KnownThread = self.known.entry(tid).or_default();
            thread.last_sample = self.samples;
            if !thread.is_worker && thread.read < READINGS {
                let name = std::fs::read_to_string(folder.join(format!("{tid}/comm")));
                let name = name.unwrap_or_default();
                thread.is_worker = name.starts_with(WORKER);
                thread.read += 1;
            }
            workers += u32::from(thread.is_worker);
        }
        workers
    }
}
