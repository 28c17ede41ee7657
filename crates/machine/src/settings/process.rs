//! Settings of running processes: their CPU affinity, and the CPU quotas, I/O limits and I/O weights of their cgroups.

use super::below;
use crate::host::cpu_list;
use fathom_sys::cgroup;
use fathom_sys::roots::{self, Roots, text};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::path::Path;

/// Fields of /proc/PID/stat, counted from that after the name.
const PARENT: usize = 1;
const START: usize = 19;
/// Threads started while the others were changed are found by reading again, so often at most.
const PASSES_MAX: usize = 8;

/// The affinity of a process, as the journal names it: by process ID and start, because IDs are reused.
pub(super) struct ProcessAffinity<'a> {
    pid: &'a str,
    start: &'a str,
}

/// The affinity of process `pid` as a file of the journal. Refuses what could not be restored: threads that differ.
pub(super) fn affinity_file(roots: &Roots, pid: &str) -> Result<String, String> {
    let start = started(roots, pid).ok_or_else(|| format!("there is no process {pid}"))?;
    let mut all = threads(roots, pid).into_iter().map(|thread| allowed(roots, &thread));
    let first = all.next().flatten().ok_or_else(|| format!("there is no process {pid}"))?;
    match all.flatten().all(|other| other == first) {
        true => Ok(format!("proc/{pid}@{start}")),
        false => Err("its threads or descendants have different affinities".into()),
    }
}

impl<'a> ProcessAffinity<'a> {
    pub fn parse(file: &'a str) -> Option<Self> {
        let (pid, start) = file.strip_prefix("proc/")?.split_once('@')?;
        let is_number = |text: &str| text.parse::<u64>().is_ok();
        (is_number(pid) && is_number(start)).then_some(Self { pid, start })
    }

    fn verify(&self, roots: &Roots) -> io::Result<()> {
        match started(roots, self.pid).is_some_and(|start| start == self.start) {
            true => Ok(()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// That of its first thread, which is changed last: until then, the others are not known to be changed.
    pub fn read(&self, roots: &Roots) -> io::Result<String> {
        self.verify(roots)?;
        allowed(roots, self.pid).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Sets that of all threads of the process and its descendants.
    pub fn write(&self, roots: &Roots, value: &str) -> io::Result<()> {
        self.verify(roots)?;
        let mut cpus = CpuSet::new();
        for cpu in cpu_list(value) {
            cpus.set(cpu as usize);
        }
        for _ in 0..PASSES_MAX {
            let all = threads(roots, self.pid);
            let differs = |thread: &&String| {
                allowed(roots, thread).is_some_and(|now| cpu_list(&now) != cpu_list(value))
            };
            let left: Vec<&String> = all.iter().rev().filter(differs).collect();
            if left.is_empty() {
                break;
            }
            for thread in left {
                match sched_setaffinity(
                    rustix::thread::Pid::from_raw(thread.parse().unwrap_or(0)),
                    &cpus,
                ) {
                    // It has ended.
                    Ok(()) | Err(Errno::SRCH) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

/// The threads of a process and its descendants, its first thread first.
fn threads(roots: &Roots, pid: &str) -> Vec<String> {
    let processes = roots::entries(&roots.proc);
    let parent = |process: &String| {
        process.parse::<u32>().ok()?;
        stat(roots, process, PARENT)
    };
    let parents: Vec<(String, String)> =
        processes.iter().filter_map(|process| Some((process.clone(), parent(process)?))).collect();
    let mut tree = vec![pid.to_string()];
    let mut at = 0;
    while let Some(process) = tree.get(at).cloned() {
        let children =
            parents.iter().filter(|(child, parent)| *parent == process && !tree.contains(child));
        let children: Vec<String> = children.map(|(child, _)| child.clone()).collect();
        tree.extend(children);
        at += 1;
    }
    let of = |process: &String| {
        let mut threads = roots::entries(roots.proc.join(process).join("task"));
        threads.sort_by_key(|thread| thread != process);
        threads
    };
    tree.iter().flat_map(of).collect()
}

fn allowed(roots: &Roots, thread: &str) -> Option<String> {
    let status = text(roots.proc.join(thread).join("status"))?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(list.trim().to_string())
}

/// When a process began.
fn started(roots: &Roots, pid: &str) -> Option<String> {
    pid.parse::<u32>().ok()?;
    stat(roots, pid, START)
}

fn stat(roots: &Roots, pid: &str, field: usize) -> Option<String> {
    let stat = text(roots.proc.join(pid).join("stat"))?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(field).map(ToString::to_string)
}

/// The file of a setting of a cgroup, and what it is set to.
pub(super) type GroupFile = (String, String);

/// The files of the CPU quotas that apply to process `pid`, and what removes them.
pub(super) fn quota_files(roots: &Roots, pid: &str) -> Result<Vec<GroupFile>, String> {
    group_files(roots, pid, "a CPU quota", |dir, is_v2| {
        let (name, none) = if is_v2 { ("cpu.max", "max") } else { ("cpu.cfs_quota_us", "-1") };
        let quota = text(dir.join(name));
        let is_set = quota.is_some_and(|quota| quota.split_whitespace().next() != Some(none));
        is_set.then(|| (name.to_string(), none.to_string())).into_iter().collect()
    })
}

/// The I/O limits that apply to process `pid`, each a line of a file, and what removes them.
pub(super) fn io_limit_files(roots: &Roots, pid: &str) -> Result<Vec<GroupFile>, String> {
    group_files(roots, pid, "an I/O limit", |dir, is_v2| {
        let names: &[&str] = if is_v2 { &["io.max"] } else { &THROTTLES };
        let of = |name: &&str| {
            let lines = text(dir.join(name)).unwrap_or_default();
            let devices = lines.lines().filter_map(|line| line.split_whitespace().next());
            devices.map(|device| format!("{name}@{device}")).collect::<Vec<_>>()
        };
        let lines = names.iter().flat_map(of);
        lines.map(|file| (file, if is_v2 { NO_IO_LIMIT } else { "0" }.to_string())).collect()
    })
}

/// The I/O weights of the cgroups of process `pid`, which are set to `weight`.
pub(super) fn io_weight_files(
    roots: &Roots,
    pid: &str,
    weight: &str,
) -> Result<Vec<GroupFile>, String> {
    group_files(roots, pid, "an I/O weight", |dir, is_v2| {
        let names: &[&str] = match is_v2 {
            true => &["io.bfq.weight@default", "io.weight@default"],
            false => &["blkio.bfq.weight"],
        };
        let exists = |name: &&&str| dir.join(name.split('@').next().unwrap_or(name)).exists();
        let found = names.iter().filter(exists);
        found.map(|name| ((*name).to_string(), weight.to_string())).collect()
    })
}

/// What `of` names in the directories of all cgroups of process `pid`; an error if that is nothing.
fn group_files(
    roots: &Roots,
    pid: &str,
    what: &str,
    of: impl Fn(&Path, bool) -> Vec<GroupFile>,
) -> Result<Vec<GroupFile>, String> {
    pid.parse::<u32>().map_err(|_| "expected a process ID".to_string())?;
    let groups = text(roots.proc.join(pid).join("cgroup"));
    let groups = groups.ok_or_else(|| format!("there is no process {pid}"))?;
    let mut found = Vec::new();
    for hierarchy in cgroup::hierarchies(roots, &groups) {
        for dir in hierarchy.groups() {
            for (name, value) in of(dir, hierarchy.is_v2) {
                let file = in_roots(roots, &dir.join(name));
                let file = file.ok_or("its cgroups are not mounted below /sys/fs/cgroup")?;
                found.push((file, value));
            }
        }
    }
    match found.is_empty() {
        true => Err(format!("no cgroup of this process has {what}")),
        false => Ok(found),
    }
}

/// The I/O limits of version 1, each a file with a line for each device.
const THROTTLES: [&str; 4] = [
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
];
/// A device without a limit in io.max, which then lacks its line.
const NO_IO_LIMIT: &str = "rbps=max wbps=max riops=max wiops=max";

/// A line of a file, `FILE@KEY`, that begins with this word. The kernel takes one line at a time.
pub(super) struct KeyedLine<'a> {
    pub file: &'a str,
    key: &'a str,
}

impl<'a> KeyedLine<'a> {
    pub fn parse(file: &'a str) -> Option<Self> {
        let (file, key) = file.rsplit_once('@')?;
        Some(Self { file, key })
    }

    /// The rest of the line in the file's text. A device without a line has no limit.
    pub fn value(&self, text: &str) -> String {
        let rest = |line: &str| Some(line.strip_prefix(self.key)?.strip_prefix(' ')?.to_string());
        let none = if self.file.ends_with("/io.max") { NO_IO_LIMIT } else { "0" };
        text.lines().find_map(rest).unwrap_or_else(|| none.to_string())
    }

    pub fn line(&self, value: &str) -> String {
        format!("{} {value}", self.key)
    }
}

fn in_roots(roots: &Roots, path: &Path) -> Option<String> {
    let file = format!("sys/{}", path.strip_prefix(&roots.sys).ok()?.display());
    below(roots, &file).filter(|found| found == path).map(|_| file)
}
