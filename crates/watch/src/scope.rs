//! Which processes a sampler covers.

use crate::Pattern;
use crate::perf::TaskEvent;
use crate::proc_file::numbers;
use std::collections::HashSet;
use std::io;
use std::path::Path;

/// Maximum number of ancestors followed: process IDs reused meanwhile could form a cycle.
const ANCESTORS_MAX: usize = 64;

pub(crate) fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    Machine,
    Trees(Vec<i32>),
    Only(Vec<i32>),
    /// Processes other than this one whose name or arguments match.
    Matching {
        pattern: Pattern,
        descendants: bool,
    },
}

impl Scope {
    /// The existing processes of this scope, ascending.
    pub fn processes(&self, proc_root: &Path) -> io::Result<Vec<i32>> {
        let mut all = numbers(proc_root)?;
        all.sort_unstable();
        Ok(match self {
            Self::Machine => all,
            Self::Trees(roots) => descendants(proc_root, all, roots),
            Self::Only(wanted) => all.into_iter().filter(|pid| wanted.contains(pid)).collect(),
            Self::Matching { .. } => {
                let roots: Vec<i32> =
                    all.iter().copied().filter(|pid| self.matches(proc_root, *pid)).collect();
                if self.follows_children() { descendants(proc_root, all, &roots) } else { roots }
            }
        })
    }

    /// Whether a process belongs to this scope now.
    pub fn holds(&self, proc_root: &Path, pid: i32) -> bool {
        let ancestors = std::iter::successors(Some(pid), |pid| parent_of(proc_root, *pid));
        let mut lineage = ancestors.take(if self.follows_children() { ANCESTORS_MAX } else { 1 });
        lineage.any(|pid| self.wants_number(pid) || self.matches(proc_root, pid))
    }

    pub(crate) fn named(&self) -> &[i32] {
        match self {
            Self::Trees(pids) | Self::Only(pids) => pids,
            Self::Machine | Self::Matching { .. } => &[],
        }
    }

    fn matches(&self, proc_root: &Path, pid: i32) -> bool {
        if !matches!(self, Self::Matching { .. }) {
            return false;
        }
        // Processes that have exited match nothing.
        let wants = |file: &str| {
            std::fs::read(proc_root.join(format!("{pid}/{file}")))
                .is_ok_and(|text| self.wants_text(pid, &text))
        };
        wants("comm")
            || (wants("cmdline") && !is_own_ancestor(pid, |pid| parent_of(proc_root, pid)))
    }

    pub(crate) fn wants_number(&self, pid: i32) -> bool {
        matches!(self, Self::Machine) || self.named().contains(&pid)
    }

    pub(crate) fn wants_text(&self, pid: i32, text: &[u8]) -> bool {
        // This program's own arguments contain the pattern.
        matches!(self, Self::Matching { pattern, .. } if pid != own_pid() && pattern.matches(text))
    }

    pub(crate) fn follows_children(&self) -> bool {
        matches!(self, Self::Trees(_) | Self::Matching { descendants: true, .. })
    }
}

/// The processes of a scope, kept current by reports of forks and names.
#[derive(Debug)]
pub(crate) struct ScopeMembers {
    scope: Scope,
    /// `None` for all.
    only: Option<HashSet<i32>>,
}

impl ScopeMembers {
    pub fn new(proc_root: &Path, scope: &Scope) -> io::Result<Self> {
        let only = match scope {
            Scope::Machine => None,
            scope => Some(scope.processes(proc_root)?.into_iter().collect()),
        };
        Ok(Self { scope: scope.clone(), only })
    }

    pub fn contains(&self, pid: i32) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&pid))
    }

    pub fn forked(&mut self, pid: i32, parent: i32) {
        let Some(only) = &mut self.only else { return };
        if pid == parent {
            return;
        }
        // A reused process ID belongs to a different process.
        let wanted = self.scope.follows_children() && only.contains(&parent);
        if wanted {
            only.insert(pid)
        } else {
            only.remove(&pid)
        };
    }

    /// Follows what was reported.
    pub fn apply(&mut self, event: &TaskEvent) {
        match event {
            TaskEvent::Forked { pid, parent, .. } => self.forked(*pid, *parent),
            TaskEvent::Named { pid, comm } => self.named(*pid, comm.as_bytes()),
            TaskEvent::Ended { .. } => {}
        }
    }

    pub fn named(&mut self, pid: i32, comm: &[u8]) {
        if let Some(only) = &mut self.only
            && self.scope.wants_text(pid, comm)
        {
            only.insert(pid);
        }
    }
}

/// The arguments of a shell, `sudo` or `timeout` that runs this program contain the pattern, too.
pub(crate) fn is_own_ancestor(pid: i32, mut parent: impl FnMut(i32) -> Option<i32>) -> bool {
    let own = std::iter::successors(Some(own_pid()), |pid| parent(*pid));
    own.take(ANCESTORS_MAX).any(|of| of == pid)
}

fn descendants(proc_root: &Path, all: Vec<i32>, roots: &[i32]) -> Vec<i32> {
    // A process that has exited since the directory was read has no parent.
    let with_parent = |pid| {
        Some((pid, parent(&std::fs::read_to_string(proc_root.join(format!("{pid}/stat"))).ok()?)?))
    };
    let parents: Vec<(i32, i32)> = all.into_iter().filter_map(with_parent).collect();
    let mut tree: HashSet<i32> = roots.iter().copied().collect();
    // Process IDs wrap, so a child may precede its parent.
    loop {
        let before = tree.len();
        for (pid, parent) in &parents {
            if tree.contains(parent) {
                tree.insert(*pid);
            }
        }
        if tree.len() == before {
            break;
        }
    }
    parents.into_iter().map(|(pid, _)| pid).filter(|pid| tree.contains(pid)).collect()
}

/// The fourth field of /proc/PID/stat; the second, a name in parentheses, may contain anything.
fn parent_of(proc_root: &Path, pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(proc_root.join(format!("{pid}/stat"))).ok()?;
    parent(&stat).filter(|parent| *parent != 0)
}

fn parent(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(root: &Path, pid: i32, parent: i32) {
        let dir = root.join(pid.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("stat"), format!("{pid} (a b) c) S {parent} 1 1 0\n")).unwrap();
    }

    #[test]
    fn a_tree_includes_all_descendants() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (pid, parent) in [(1, 0), (90, 1), (91, 90), (7, 91), (8, 7), (92, 1)] {
            process(root, pid, parent);
        }
        std::fs::create_dir(root.join("sys")).unwrap();
        std::fs::create_dir(root.join("95")).unwrap(); // just ended
        let of = |scope: Scope| scope.processes(root).unwrap();
        assert_eq!(of(Scope::Machine), [1, 7, 8, 90, 91, 92, 95]);
        assert_eq!(of(Scope::Trees(vec![90])), [7, 8, 90, 91]);
        assert_eq!(of(Scope::Trees(vec![91, 92])), [7, 8, 91, 92]);
        assert_eq!(of(Scope::Trees(vec![4711])), [0; 0]);
        let tree = Scope::Trees(vec![91]);
        let held = [90, 91, 7, 8, 92, 95, 4711].map(|pid| tree.holds(root, pid));
        assert_eq!(held, [false, true, true, true, false, false, false]);
        assert!(Scope::Only(vec![91]).holds(root, 91) && !Scope::Only(vec![91]).holds(root, 7));
        assert!(Scope::Machine.holds(root, 95));
    }

    #[test]
    fn matching_processes() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (pid, parent, name) in
            [(1, 0, "init"), (90, 1, "postgres"), (91, 90, "sh"), (7, 1, "fio")]
        {
            process(root, pid, parent);
            std::fs::write(root.join(format!("{pid}/comm")), format!("{name}\n")).unwrap();
            std::fs::write(root.join(format!("{pid}/cmdline")), "/bin/prog\0--x\0").unwrap();
        }
        let of = |pattern: &str, descendants| {
            let pattern = Pattern::parse(pattern).unwrap();
            let scope = Scope::Matching { pattern, descendants };
            let found = scope.processes(root).unwrap();
            assert!(
                [1, 7, 90, 91].iter().all(|pid| scope.holds(root, *pid) == found.contains(pid))
            );
            found
        };
        assert_eq!(of("post|fio", false), [7, 90]);
        assert_eq!(of("post|fio", true), [7, 90, 91]);
        assert_eq!(of("prog", false), [1, 7, 90, 91]);
        assert_eq!(of("progs", false), [0; 0]);
        assert_eq!(Scope::Only(vec![90, 4711]).processes(root).unwrap(), [90]);
    }

    #[test]
    fn a_wrapper_of_this_program_does_not_match_by_its_arguments() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (pid, parent, name) in [(1, 0, "sudo"), (own_pid(), 1, "fathom"), (3, 1, "postgres")] {
            process(root, pid, parent);
            std::fs::write(root.join(format!("{pid}/comm")), format!("{name}\n")).unwrap();
            std::fs::write(root.join(format!("{pid}/cmdline")), format!("{name}\0postgres\0"))
                .unwrap();
        }
        let of = |pattern: &str| {
            let pattern = Pattern::parse(pattern).unwrap();
            Scope::Matching { pattern, descendants: false }.processes(root).unwrap()
        };
        assert_eq!(of("postgres"), [3]);
        assert_eq!(of("sudo"), [1]);
    }

    #[test]
    fn the_error_names_the_directory() {
        let error = Scope::Machine.processes(Path::new("/nonexistent")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent"), "{error}");
    }

    #[test]
    fn the_real_processes() {
        let me = own_pid();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tree = Scope::Trees(vec![me]).processes(Path::new("/proc")).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(tree.contains(&me) && tree.contains(&(child.id() as i32)), "{tree:?}");
        assert!(!tree.contains(&1));
    }
}
