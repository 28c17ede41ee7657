//! Which processes and threads there are, found anew only where something says that there are others.

use super::files::{File, Proc, Unread};
use super::names::{NONE, Name};
use super::parse::{self, Stat};
use super::task::Task;
use crate::Scope;

/// Looks between two listings of all processes where nothing says that there are new ones: the newest
/// task's number is that of this process's own pid namespace, whatever /proc shows.
pub(super) const LIST_EVERY: u32 = 20;
/// Looks during which a process that is not wanted may still become one that is: a shell forks
/// before it executes.
const YOUNG_LOOKS: u32 = 20;
/// Bytes of a process's arguments that are read.
const ARGUMENTS_MAX: usize = 4096;

/// The processes looked at.
#[derive(Debug)]
pub(super) struct Members {
    scope: Scope,
    /// Ascending by number.
    pub processes: Vec<Process>,
    /// Those that are not looked at, ascending by number.
    others: Vec<Other>,
    loadavg: File,
    newest: Option<u32>,
    /// Tasks of the machine, as far as is known.
    pub tasks: usize,
    listed: u32,
    /// Those that were there at the first look are no longer young.
    is_first: bool,
    /// Numbers found, kept for the next time.
    found: Vec<i32>,
}

/// A process that is looked at.
#[derive(Debug)]
pub(super) struct Process {
    pub pid: i32,
    /// Ascending by number.
    pub tasks: Vec<Task>,
    /// Arguments and user, once they were asked for.
    pub about: Option<About>,
}

/// What is asked of a process on request.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    pub cmdline: Name,
    pub user: Name,
}

impl About {
    pub const NOTHING: Self = Self { cmdline: NONE, user: NONE };
}

#[derive(Debug, Clone, Copy)]
struct Other {
    pid: i32,
    looks: u32,
}

impl Members {
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            processes: Vec::new(),
            others: Vec::new(),
            loadavg: File::default(),
            newest: None,
            tasks: 0,
            listed: 0,
            is_first: true,
            found: Vec::new(),
        }
    }

    /// Whether all processes of the machine must be known.
    pub fn is_of_all(&self) -> bool {
        matches!(self.scope, Scope::Machine | Scope::Matching { .. })
    }

    /// Finds the processes that are there now.
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

    /// Takes the processes of these threads, ascending by process, as all that are there.
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
        // Where it cannot be listed now, those known are looked at.
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
                self.others.push(Other { pid, looks: 0 });
            }
        }
        self.others.sort_unstable_by_key(|other| other.pid);
    }

    /// Takes those of the others that are wanted.
    fn choose(&mut self, proc: &mut Proc, buffer: &mut [u8]) {
        let again = matches!(self.scope, Scope::Matching { .. });
        // A child may come before its parent, as numbers wrap around.
        loop {
            let before = self.processes.len();
            for at in 0..self.others.len() {
                let Other { pid, looks } = self.others[at];
                let due = looks == 0 || again && (looks < YOUNG_LOOKS || looks % LIST_EVERY == 0);
                if due && self.wants(pid, proc, buffer) {
                    let process = Process { pid, tasks: Vec::new(), about: None };
                    let place = self.processes.partition_point(|process| process.pid < pid);
                    self.processes.insert(place, process);
                    self.others[at].pid = 0;
                }
            }
            self.others.retain(|other| other.pid != 0);
            if self.processes.len() == before || !self.scope.follows_children() {
                break;
            }
        }
        let by = if std::mem::take(&mut self.is_first) { YOUNG_LOOKS + 1 } else { 1 };
        self.others.iter_mut().for_each(|other| other.looks = other.looks.saturating_add(by));
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
        let Some(stat) = Stat::parse(text) else { return false };
        let is_member = |pid: i32| self.processes.binary_search_by_key(&pid, |p| p.pid).is_ok();
        if self.scope.follows_children() && is_member(stat.parent) {
            return true;
        }
        by_name
            && (self.scope.wants_text(pid, stat.comm) || {
                let path = format_args!("{pid}/cmdline");
                self.scope.wants_text(pid, proc.read_once(path, buffer).unwrap_or_default())
            })
    }
}

impl Process {
    /// Finds its threads; those that are known stay as they are.
    pub fn list(&mut self, proc: &mut Proc, found: &mut Vec<i32>) {
        if proc.numbers(format_args!("{}/task", self.pid), found) != Err(Unread::Denied) {
            self.take_found(proc, found);
        }
    }

    /// Takes these threads, ascending, as all that it has.
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
                self.tasks.push(Task::new(tid));
            }
        }
        self.tasks.sort_unstable_by_key(|task| task.tid);
    }

    /// Leaves out threads that have ended.
    pub fn drop_ended(&mut self, proc: &mut Proc) {
        self.tasks.retain_mut(|task| {
            if task.ended {
                task.close(proc);
            }
            !task.ended
        });
    }

    /// The program's thread for which the helper at `place` works.
    pub fn owner(&self, place: usize) -> Option<i32> {
        let works_for = self.tasks.get(place)?.works_for?;
        super::helpers::owner(works_for, |tid| {
            let at = self.tasks.binary_search_by_key(&tid, |task| task.tid).ok()?;
            Some(self.tasks.get(at)?.works_for)
        })
    }
}

/// The arguments of process `pid`, with blanks between them.
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

/// The effective user of process `pid`.
pub(super) fn user(pid: i32, proc: &Proc, buffer: &mut [u8]) -> Option<u32> {
    let text = proc.read_once(format_args!("{pid}/status"), buffer).ok()?;
    let line = text.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    // Real, effective, saved, of the file system.
    parse::number(line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).nth(1)?)
}
