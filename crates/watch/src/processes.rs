//! CPU time and I/O of the watched processes and of those that compete with them.

mod parse;
mod peers;
mod remotes;
mod sockets;
#[cfg(test)]
mod tests;

use crate::proc_file::numbered;
use crate::{Sampler, Scope, own_pid};
use fathom_model::watch::{MachineSample, ProcessFile, ProcessUse, ProcessesSample};
use parse::{ProcessStat, ProcessStatus, less, used};
pub(crate) use peers::Peers;
use remotes::Remotes;
use rustix::fs::{FileType, OFlags};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Number of other programs to keep, by CPU time and by I/O.
const OTHERS_MAX: usize = 5;
/// Maximum number of watched processes whose status is read.
const STATUS_MAX: usize = 256;
/// Upper bound for reading all processes, as 1/n of a CPU's time.
const PART: u32 = 100;
/// Maximum number of ancestors followed: process IDs reused meanwhile could form a cycle.
const ANCESTORS_MAX: usize = 64;

/// Reads the counters of all processes at the end of each interval, or of every few if there are many.
#[derive(Debug)]
pub struct ProcessSampler {
    proc_root: PathBuf,
    scope: Scope,
    tick_ns: u64,
    known: HashMap<i32, KnownProcess>,
    /// Kernel threads, by the inodes of their directories: that of another process with the same ID differs.
    kernel: HashMap<i32, u64>,
    /// Whether open files and connections of the watched processes are looked at.
    with_files: bool,
    read_at: Instant,
    next_at: Instant,
    peers: Peers,
    remotes: Remotes,
}

#[derive(Debug, Clone)]
struct KnownProcess {
    stat: ProcessStat,
    used: ProcessUse,
    watched: bool,
}

impl ProcessSampler {
    /// Processes of `scope` are those watched; other programs compete with them.
    pub fn open(proc_root: &Path, scope: Scope) -> io::Result<Self> {
        let mut sampler = Self {
            proc_root: proc_root.to_path_buf(),
            scope,
            tick_ns: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
            known: HashMap::new(),
            kernel: HashMap::new(),
            with_files: true,
            read_at: Instant::now(),
            next_at: Instant::now(),
            peers: Peers::default(),
            remotes: Remotes::default(),
        };
        sampler.known = sampler.read()?;
        // What is known of connections begins here.
        sampler.remotes.look(proc_root, &watched(&sampler.known));
        Ok(sampler)
    }

    /// Leaves out open files and connections of the watched processes: a run knows its own.
    pub fn without_files(self) -> Self {
        Self { with_files: false, ..self }
    }

    fn read(&mut self) -> io::Result<HashMap<i32, KnownProcess>> {
        let began = Instant::now();
        let mut found = HashMap::new();
        let before = std::mem::take(&mut self.kernel);
        for (pid, inode) in numbered(&self.proc_root)? {
            if before.get(&pid) == Some(&inode) {
                self.kernel.insert(pid, inode);
                continue;
            }
            let dir = self.proc_root.join(pid.to_string());
            let Ok(text) = std::fs::read(dir.join("stat")) else { continue };
            let Some(stat) = ProcessStat::parse(&text) else { continue };
            if stat.is_kernel {
                self.kernel.insert(pid, inode);
                continue;
            }
            // Another user's are hidden: then only CPU time is known.
            let io = std::fs::read(dir.join("io")).unwrap_or_default();
            let used = used(pid, &stat, self.tick_ns, &io);
            found.insert(pid, KnownProcess { stat, used, watched: false });
        }
        let watched: Vec<i32> =
            found.keys().copied().filter(|pid| self.is_watched(*pid, &found)).collect();
        for pid in watched {
            found.get_mut(&pid).into_iter().for_each(|known| known.watched = true);
        }
        (self.read_at, self.next_at) = (began, Instant::now() + began.elapsed() * PART);
        Ok(found)
    }

    fn is_watched(&self, pid: i32, found: &HashMap<i32, KnownProcess>) -> bool {
        let parent = |pid: &i32| found.get(pid).map(|known| known.stat.parent);
        let lineage = std::iter::successors(Some(pid), parent);
        let followed = if self.scope.follows_children() { ANCESTORS_MAX } else { 1 };
        let was = |known: &KnownProcess| {
            known.watched && found.get(&pid).is_some_and(|now| now.stat.start == known.stat.start)
        };
        self.known.get(&pid).is_some_and(was)
            || lineage.take(followed).any(|pid| self.scope.named().contains(&pid))
    }

    fn used(&mut self) -> Option<ProcessesSample> {
        let from = self.read_at;
        let now = self.read().ok()?;
        let mut sample = ProcessesSample {
            elapsed_ns: self.read_at.duration_since(from).as_nanos() as u64,
            ..ProcessesSample::default()
        };
        let growth = self.growth(&now);
        let watched = watched(&now);
        let mut active: Vec<(u64, i32, u64)> = growth
            .iter()
            .filter(|(pid, used)| !now[pid].watched && less(used, used) != **used)
            .map(|(pid, used)| (used.cpu_ns, *pid, now[pid].stat.start))
            .collect();
        active.sort_unstable_by(|a, b| b.cmp(a));
        let used_by: Vec<(i32, u64)> = watched
            .iter()
            .map(|pid| (*pid, growth.get(pid).map_or(0, |used| used.cpu_ns)))
            .collect();
        if self.with_files {
            let active = active.into_iter().map(|(_, pid, start)| (pid, start));
            self.peers.refresh(&self.proc_root, &watched, active);
        }
        let mut others: BTreeMap<(String, bool), ProcessUse> = BTreeMap::new();
        for (pid, mut one) in growth {
            let known = &now[&pid];
            if known.watched {
                sample.watched.add(&one);
            } else if pid != own_pid() {
                one.peer = self.peers.contains(pid, known.stat.start);
                others.entry((one.comm.clone(), one.peer)).or_default().add(&one);
            }
        }
        sample.others = largest(others.into_values().collect());
        add_status(&mut sample, &self.proc_root, &used_by);
        if self.with_files {
            self.remotes.look(&self.proc_root, &watched);
            sample.remotes = self.remotes.take();
            sample.files = open_files(&self.proc_root, watched.into_iter());
        }
        self.known = now;
        Some(sample)
    }

    /// What each process used since the last read. When a process is waited for, its counters, with those of the
    /// children that it waited for, become its parent's, or those of whoever adopted it: what was known of a process
    /// that ended is taken from its nearest ancestor that grew by as much.
    fn growth(&self, now: &HashMap<i32, KnownProcess>) -> HashMap<i32, ProcessUse> {
        let same = |pid: &i32, one: &KnownProcess, all: &HashMap<i32, KnownProcess>| {
            all.get(pid).is_some_and(|other| other.stat.start == one.stat.start)
        };
        let since = |(pid, known): (&i32, &KnownProcess)| {
            let before = self.known.get(pid).filter(|_| same(pid, known, &self.known));
            let used = |before: &KnownProcess| less(&known.used, &before.used);
            (*pid, before.map_or_else(|| known.used.clone(), used))
        };
        let mut growth: HashMap<i32, ProcessUse> = now.iter().map(since).collect();
        let mut ended: Vec<&KnownProcess> = self
            .known
            .iter()
            .filter(|(pid, one)| !same(pid, one, now))
            .map(|(_, one)| one)
            .collect();
        // Where not all had one heir, the largest fits one only.
        ended.sort_by_key(|one| std::cmp::Reverse(one.used.cpu_ns));
        for ended in ended {
            let parent = |pid: &i32| self.known.get(pid).map(|known| known.stat.parent);
            let heir = std::iter::successors(Some(ended.stat.parent), parent)
                .take(ANCESTORS_MAX)
                .filter(|pid| self.known.get(pid).is_some_and(|known| same(pid, known, now)))
                .find(|pid| growth[pid].cpu_ns >= ended.used.cpu_ns);
            if let Some(grown) = heir.and_then(|pid| growth.get_mut(&pid)) {
                *grown = less(grown, &ended.used);
            }
        }
        growth
    }
}

/// Adds what the status of the watched processes, with their CPU time in this interval, shows: the CPUs on which those that
/// used most may run, and how much of the memory of all is swapped out.
fn add_status(sample: &mut ProcessesSample, proc_root: &Path, watched: &[(i32, u64)]) {
    let most = watched.iter().map(|(_, cpu_ns)| *cpu_ns).max().unwrap_or(0);
    let mut cpus = BTreeSet::new();
    for (pid, cpu_ns) in watched.iter().take(STATUS_MAX) {
        let text = std::fs::read(proc_root.join(pid.to_string()).join("status"));
        let status = text.map(|text| ProcessStatus::parse(&text)).unwrap_or_default();
        if *cpu_ns >= most / 4 {
            cpus.extend(status.cpus_allowed);
        }
        if let Some(bytes) = status.swapped {
            *sample.swapped.get_or_insert(0) += bytes;
        }
    }
    sample.cpus_allowed = fathom_model::cpus::list(&Vec::from_iter(cpus));
}

fn watched(all: &HashMap<i32, KnownProcess>) -> Vec<i32> {
    all.iter().filter(|(_, known)| known.watched).map(|(pid, _)| *pid).collect()
}

/// The processes with the most CPU time and the most I/O, without idle ones.
fn largest(mut all: Vec<ProcessUse>) -> Vec<ProcessUse> {
    all.retain(|one| one.cpu_ns > 0 || one.disk_bytes() > 0);
    all.sort_by_key(|one| std::cmp::Reverse(one.disk_bytes()));
    let mut rest = all.split_off(all.len().min(OTHERS_MAX));
    rest.sort_by_key(|one| std::cmp::Reverse(one.cpu_ns));
    all.extend(rest.into_iter().take(OTHERS_MAX));
    all.sort_by_key(|one| std::cmp::Reverse(one.cpu_ns));
    all
}

impl Sampler for ProcessSampler {
    fn name(&self) -> &'static str {
        "processes"
    }

    fn finish(&mut self) {
        self.next_at = self.read_at;
    }

    fn take(&mut self, sample: &mut MachineSample) {
        if self.next_at <= Instant::now() {
            sample.processes = self.used();
        } else if self.with_files {
            // Before they end.
            self.remotes.look(&self.proc_root, &watched(&self.known));
        }
    }
}

/// Maximum number of descriptors checked per interval, and per process.
const DESCRIPTORS_MAX: usize = 256;
const PER_PROCESS_MAX: usize = 64;
/// Smaller files, such as logs and configuration, are not bottlenecks.
const SIZE_MIN: u64 = 1 << 20;
/// File systems in memory (include/uapi/linux/magic.h): `TMPFS_MAGIC`, `RAMFS_MAGIC`.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// The larger files that `processes` have open now.
fn open_files(proc_root: &Path, processes: impl Iterator<Item = i32>) -> Vec<ProcessFile> {
    let descriptors = processes.flat_map(|pid| {
        let dir = std::fs::read_dir(proc_root.join(pid.to_string()).join("fd"));
        dir.into_iter().flatten().flatten().take(PER_PROCESS_MAX)
    });
    let mut files: BTreeMap<String, ProcessFile> = BTreeMap::new();
    for descriptor in descriptors.take(DESCRIPTORS_MAX) {
        if let Some(file) = open_file(&descriptor.path()) {
            let (direct, sync) = (file.direct, file.sync);
            let known = files.entry(file.path.clone()).or_insert(file);
            (known.direct, known.sync) = (known.direct | direct, known.sync | sync);
        }
    }
    files.into_values().collect()
}

fn open_file(descriptor: &Path) -> Option<ProcessFile> {
    let path = std::fs::read_link(descriptor).ok()?;
    let meta = std::fs::metadata(descriptor).ok()?;
    let is_regular = FileType::from_raw_mode(meta.mode()) == FileType::RegularFile;
    if !is_regular || meta.size() < SIZE_MIN {
        return None;
    }
    let name = descriptor.file_name()?;
    let info = descriptor.parent()?.parent()?.join("fdinfo").join(name);
    let info = std::fs::read_to_string(info).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
    let system = rustix::fs::statfs(descriptor).map_or(0, |statfs| statfs.f_type as u64);
    Some(ProcessFile {
        path: path.to_string_lossy().into_owned(),
        size: meta.size(),
        allocated: meta.blocks() * 512,
        in_memory: IN_MEMORY.contains(&(system & 0xffff_ffff)),
        direct: flags & OFlags::DIRECT.bits() != 0,
        // The bit of O_DSYNC is set for O_SYNC, too.
        sync: flags & OFlags::DSYNC.bits() != 0,
    })
}
