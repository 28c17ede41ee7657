//! Names of threads, and which processes to sample.

use super::table::NameTable;
use crate::Scope;
use crate::scope::ScopeMembers;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct TaskTable {
    proc_root: PathBuf,
    comms: HashMap<i32, u32>,
    ended: Vec<i32>,
    members: ScopeMembers,
}

impl TaskTable {
    pub fn new(proc_root: &Path, scope: &Scope) -> io::Result<Self> {
        let members = ScopeMembers::new(proc_root, scope)?;
        let (comms, ended) = (HashMap::new(), Vec::new());
        Ok(Self { proc_root: proc_root.into(), comms, ended, members })
    }

    pub fn wanted(&self, pid: i32) -> bool {
        self.members.contains(pid)
    }

    pub fn forked(&mut self, (pid, tid): (i32, i32), (parent, parent_tid): (i32, i32)) {
        if let Some(comm) = self.comms.get(&parent_tid).copied() {
            self.comms.insert(tid, comm);
        } else {
            self.comms.remove(&tid);
        }
        self.members.forked(pid, parent);
    }

    pub fn named(&mut self, (pid, tid): (i32, i32), comm: &str, names: &mut NameTable) {
        self.members.named(pid, comm.as_bytes());
        self.comms.insert(tid, names.id(plain(comm)));
    }

    /// A thread has exited; samples of its last moments may still follow.
    pub fn ended(&mut self, tid: i32) {
        self.ended.push(tid);
    }

    /// Drops exited threads, or all if records of names were `lost`.
    pub fn forget(&mut self, lost: bool) {
        for tid in self.ended.drain(..) {
            self.comms.remove(&tid);
        }
        if lost {
            self.comms.clear();
        }
    }

    /// The ID of a thread's name. A thread that exited before its name was read gets the name of
    /// its process, with which most threads start.
    pub fn comm(&mut self, pid: i32, tid: i32, names: &mut NameTable) -> u32 {
        if let Some(comm) = self.comms.get(&tid) {
            return *comm;
        }
        let read = |dir: String| fs::read_to_string(self.proc_root.join(dir).join("comm"));
        let text = match tid {
            0 => "swapper".into(),
            _ => read(format!("{pid}/task/{tid}"))
                .or_else(|_| read(pid.to_string()))
                .unwrap_or_default(),
        };
        let id = names.id(plain(text.trim_end_matches('\n')));
        self.comms.insert(tid, id);
        id
    }
}

/// The name of a kworker without its current work item, which changes without notice.
fn plain(comm: &str) -> &str {
    match comm.find(['-', '+']) {
        Some(end) if comm.starts_with("kworker/") => &comm[..end],
        _ => comm,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(processes: &[(i32, i32, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (pid, parent, comm) in processes {
            let task = dir.path().join(format!("{pid}/task/{pid}"));
            fs::create_dir_all(&task).unwrap();
            let stat = format!("{pid} ({comm}) S {parent} 1 1 0");
            fs::write(dir.path().join(format!("{pid}/stat")), stat).unwrap();
            for dir in [dir.path().join(pid.to_string()), task] {
                fs::write(dir.join("comm"), format!("{comm}\n")).unwrap();
            }
        }
        dir
    }

    #[test]
    fn descendants_are_followed() {
        let proc = tree(&[(40, 30, "c"), (30, 20, "b) S 1 ("), (20, 1, "a"), (50, 1, "x")]);
        let mut tasks = TaskTable::new(proc.path(), &Scope::Trees(vec![20])).unwrap();
        assert_eq!(
            [20, 30, 40, 50, 1].map(|pid| tasks.wanted(pid)),
            [true, true, true, false, false]
        );
        tasks.forked((60, 60), (40, 40));
        tasks.forked((60, 61), (60, 60));
        tasks.forked((70, 70), (50, 50));
        assert_eq!([60, 61, 70].map(|pid| tasks.wanted(pid)), [true, false, false]);
        tasks.forked((60, 60), (50, 50));
        assert!(!tasks.wanted(60));
        assert!(TaskTable::new(proc.path(), &Scope::Machine).unwrap().wanted(50));
    }

    #[test]
    fn renamed_processes_are_sampled_from_then_on() {
        let proc = tree(&[(20, 1, "sh"), (30, 1, "fio")]);
        let pattern = crate::Pattern::parse("fio").unwrap();
        let scope = Scope::Matching { pattern, descendants: false };
        let (mut tasks, mut names) =
            (TaskTable::new(proc.path(), &scope).unwrap(), NameTable::new());
        assert_eq!([20, 30].map(|pid| tasks.wanted(pid)), [false, true]);
        tasks.named((20, 20), "fio", &mut names);
        tasks.forked((40, 40), (30, 30));
        assert_eq!([20, 30, 40].map(|pid| tasks.wanted(pid)), [true, true, false]);
    }

    #[test]
    fn names_come_from_records_or_proc() {
        let proc = tree(&[(20, 1, "fio"), (21, 2, "kworker/1:2H-kblockd")]);
        let (mut tasks, mut names) =
            (TaskTable::new(proc.path(), &Scope::Machine).unwrap(), NameTable::new());
        let mut comm = |tasks: &mut TaskTable, pid, tid| {
            let id = tasks.comm(pid, tid, &mut names);
            names.name(id).to_string()
        };
        assert_eq!(comm(&mut tasks, 20, 20), "fio");
        assert_eq!(comm(&mut tasks, 21, 21), "kworker/1:2H");
        assert_eq!(comm(&mut tasks, 0, 0), "swapper");
        assert_eq!(comm(&mut tasks, 99, 99), "");
        tasks.forked((20, 25), (20, 20));
        assert_eq!(comm(&mut tasks, 20, 25), "fio");
        let mut names = NameTable::new();
        tasks.named((20, 25), "iou-wrk-20", &mut names);
        let id = tasks.comm(20, 25, &mut names);
        assert_eq!(names.name(id), "iou-wrk-20");
        tasks.ended(25);
        assert_eq!(tasks.comm(20, 25, &mut names), id);
        tasks.forget(false);
        let id = tasks.comm(20, 25, &mut names);
        assert_eq!(names.name(id), "fio");
    }
}
