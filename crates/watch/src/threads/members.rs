//! The set of processes and threads to sample, refreshed only when there are signs of new ones.

use super::activity::{NONE, TextId};
use super::files::{Proc, ReadError, TaskFile};
use super::parse::{self, TaskStat};
use super::task::SampledThread;
use crate::Scope;
use crate::scope::is_own_ancestor;

/// Samples between listings of /proc without signs of new processes: the newest task ID in loadavg
/// is that of this process's own PID namespace, whatever /proc shows.
pub(super) const LIST_EVERY: u32 = 20;
/// Samples during which a process may still start to match: a shell forks before it executes a
/// program.
const YOUNG_SAMPLES: u32 = 20;
/// Maximum length of a process's arguments, in bytes.
const ARGUMENTS_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct ProcessSet {
    scope: Scope,
    pub processes: Vec<SampledProcess>,
    others: Vec<SkippedProcess>,
    loadavg: TaskFile,
    newest: Option<u32>,
    pub tasks: usize,
    listed: u32,
    /// Processes that existed at the first sample are not young.
    is_first: bool,
    found: Vec<i32>,
}

#[derive(Debug)]
pub(super) struct SampledProcess {
    pub pid: i32,
    pub tasks: Vec<SampledThread>,
    /// Arguments and user, once requested.
    pub about: Option<ProcessDetails>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessDetails {
    pub cmdline: TextId,
    pub user: TextId,
}

impl ProcessDetails {
    pub const NOTHING: Self = Self { cmdline: NONE, user: NONE };
}

#[derive(Debug, Clone, Copy)]
struct SkippedProcess {
    pid: i32,
    samples: u32,
}

impl ProcessSet {
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            processes: Vec::new(),
            others: Vec::new(),
            loadavg: TaskFile::default(),
            newest: None,
            tasks: 0,
            listed: 0,
            is_first: true,
            found: Vec::new(),
        }
    }

    /// Whether all processes must be examined.
    pub fn is_of_all(&self) -> bool {
        matches!(self.scope, Scope::Machine | Scope::Matching { .. })
    }

    pub fn refresh(&mut self, proc: &mut Proc, buffer: &mut [u8]) {
        let loadavg = proc.read(&mut self.loadavg, format_args!("loadavg"), buffer);
        let tasks = loadavg.ok().and_then(parse::tasks);
        self.tasks = tasks.map_or(0, |(all, _)| all);
        let newest = tasks.map(|(_, newest)| newest);
        self.listed += 1;
        if newest.is_none() || newest != self.newest || self.listed >= LIST_EVERY {
            self.newest = newest;
            self.listed = 0;
            self.list(proc);
        }
        self.choose(proc, buffer);
    }

    /// Replaces the set of processes by those of these threads, ascending by process.
    pub fn refresh_by(
        &mut self,
        threads: impl Iterator<Item = (i32, i32)>,
        proc: &mut Proc,
        buffer: &mut [u8],
    ) {
        self.found.clear();
        self.tasks = 0;
        for (pid, _) in threads {
            self.tasks += 1;
            if self.found.last() != Some(&pid) {
                self.found.push(pid);
            }
        }
        self.take_found(proc);
        self.choose(proc, buffer);
    }

    fn list(&mut self, proc: &mut Proc) {
        if let Scope::Only(pids) = &self.scope {
            // Those that do not exist have no threads.
            self.found.clone_from(pids);
            self.found.sort_unstable();
            self.found.dedup();
            return self.take_found(proc);
        }
        // If the listing fails, the known processes are sampled.
        if proc.numbers(format_args!("."), &mut self.found).is_ok() {
            self.take_found(proc);
        }
    }

    fn take_found(&mut self, proc: &mut Proc) {
        let found = &self.found;
        self.processes.retain_mut(|process| {
            let is_there = found.binary_search(&process.pid).is_ok();
            if !is_there {
                process.tasks.iter_mut().for_each(|task| task.close(proc));
            }
            is_there
        });
        self.others.retain(|other| found.binary_search(&other.pid).is_ok());
        let known = self.others.len();
        for &pid in found {
            let is_member = self.processes.binary_search_by_key(&pid, |p| p.pid).is_ok();
            let is_other = self.others[..known].binary_search_by_key(&pid, |o| o.pid).is_ok();
            if !is_member && !is_other {
                self.others.push(SkippedProcess { pid, samples: 0 });
            }
        }
        self.others.sort_unstable_by_key(|other| other.pid);
    }

    fn choose(&mut self, proc: &mut Proc, buffer: &mut [u8]) {
        let again = matches!(self.scope, Scope::Matching { .. });
        // Process IDs wrap, so a child may precede its parent.
        loop {
            let before = self.processes.len();
            for at in 0..self.others.len() {
                let SkippedProcess { pid, samples } = self.others[at];
                let due =
                    samples == 0 || again && (samples < YOUNG_SAMPLES || samples % LIST_EVERY == 0);
                if due && self.wants(pid, proc, buffer) {
                    let process = SampledProcess { pid, tasks: Vec::new(), about: None };
                    let index = self.processes.partition_point(|process| process.pid < pid);
                    self.processes.insert(index, process);
                    self.others[at].pid = 0;
                }
            }
            self.others.retain(|other| other.pid != 0);
            if self.processes.len() == before || !self.scope.follows_children() {
                break;
            }
        }
        let by = if std::mem::take(&mut self.is_first) { YOUNG_SAMPLES + 1 } else { 1 };
        self.others.iter_mut().for_each(|other| other.samples = other.samples.saturating_add(by));
    }

    fn wants(&self, pid: i32, proc: &mut Proc, buffer: &mut [u8]) -> bool {
        if self.scope.wants_number(pid) {
            return true;
        }
        let by_name = matches!(self.scope, Scope::Matching { .. });
        if !by_name && !self.scope.follows_children() {
            return false;
        }
        let Ok(text) = proc.read_once(format_args!("{pid}/stat"), buffer) else { return false };
        let Some(stat) = TaskStat::parse(text) else { return false };
        let is_member = |pid: i32| self.processes.binary_search_by_key(&pid, |p| p.pid).is_ok();
        if self.scope.follows_children() && is_member(stat.parent) {
            return true;
        }
        by_name
            && (self.scope.wants_text(pid, stat.comm) || {
                let path = format_args!("{pid}/cmdline");
                self.scope.wants_text(pid, proc.read_once(path, buffer).unwrap_or_default())
                    && !is_own_ancestor(pid, |pid| {
                        let stat = proc.read_once(format_args!("{pid}/stat"), buffer).ok()?;
                        Some(TaskStat::parse(stat)?.parent)
                    })
            })
    }
}

impl SampledProcess {
    /// Lists its threads; known ones are kept.
    pub fn list(&mut self, proc: &mut Proc, found: &mut Vec<i32>) {
        if proc.numbers(format_args!("{}/task", self.pid), found) != Err(ReadError::Denied) {
            self.take_found(proc, found);
        }
    }

    /// Replaces its threads by these, ascending; known ones are kept.
    pub fn take_found(&mut self, proc: &mut Proc, found: &[i32]) {
        let are_known = found.iter().eq(self.tasks.iter().map(|task| &task.tid));
        if are_known {
            return;
        }
        self.tasks.retain_mut(|task| {
            let is_there = found.binary_search(&task.tid).is_ok();
            if !is_there {
                task.close(proc);
            }
            is_there
        });
        let known = self.tasks.len();
        for &tid in found {
            if self.tasks[..known].binary_search_by_key(&tid, |task| task.tid).is_err() {
                self.tasks.push(SampledThread::new(tid));
            }
        }
        self.tasks.sort_unstable_by_key(|task| task.tid);
    }

    pub fn drop_ended(&mut self, proc: &mut Proc) {
        self.tasks.retain_mut(|task| {
            if task.ended {
                task.close(proc);
            }
            !task.ended
        });
    }

    pub fn name(&self) -> TextId {
        let main = self.tasks.binary_search_by_key(&self.pid, |task| task.tid);
        main.map_or(NONE, |at| self.tasks[at].comm)
    }

    /// The program's thread for which the io_uring thread at index `place` works.
    pub fn owner(&self, index: usize) -> Option<i32> {
        let works_for = self.tasks.get(index)?.works_for?;
        super::helpers::owner(works_for, |tid| {
            let at = self.tasks.binary_search_by_key(&tid, |task| task.tid).ok()?;
            Some(self.tasks.get(at)?.works_for)
        })
    }
}

pub(super) fn arguments<'b>(pid: i32, proc: &Proc, buffer: &'b mut [u8]) -> &'b [u8] {
    let most = buffer.len().min(ARGUMENTS_MAX);
    let Ok(len) =
        proc.read_once(format_args!("{pid}/cmdline"), &mut buffer[..most]).map(<[u8]>::len)
    else {
        return &[];
    };
    let text = &mut buffer[..len];
    text.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    text.trim_ascii_end()
}

pub(super) fn user(pid: i32, proc: &Proc, buffer: &mut [u8]) -> Option<u32> {
    let text = proc.read_once(format_args!("{pid}/status"), buffer).ok()?;
    let line = text.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    // Real, effective, saved, file system.
    parse::number(line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).nth(1)?)
}
