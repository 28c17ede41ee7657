//! Whom a sampler looks at.

use std::collections::HashSet;
use std::io;
use std::path::Path;

/// The processes that are looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scope {
    /// All of the machine, as far as this process may see.
    #[default]
    Machine,
    /// These processes and all that descend from them.
    Trees(Vec<i32>),
}

impl Scope {
    /// The processes of this scope that are there now, ascending. `proc_root` is where the proc file
    /// system is mounted: `/proc`.
    ///
    /// # Errors
    /// Where `proc_root` cannot be listed; the error names it.
    pub fn processes(&self, proc_root: &Path) -> io::Result<Vec<i32>> {
        let mut all = Vec::new();
        let named =
            |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", proc_root.display()));
        for entry in std::fs::read_dir(proc_root).map_err(named)? {
            let name = entry.map_err(named)?.file_name();
            all.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
        }
        all.sort_unstable();
        Ok(match self {
            Self::Machine => all,
            Self::Trees(roots) => descendants(proc_root, all, roots),
        })
    }
}

fn descendants(proc_root: &Path, all: Vec<i32>, roots: &[i32]) -> Vec<i32> {
    // A process that ended since the folder was read has no parent any more.
    let with_parent = |pid| {
        Some((pid, parent(&std::fs::read_to_string(proc_root.join(format!("{pid}/stat"))).ok()?)?))
    };
    let parents: Vec<(i32, i32)> = all.into_iter().filter_map(with_parent).collect();
    let mut tree: HashSet<i32> = roots.iter().copied().collect();
    // Numbers wrap around, so a child may come before its parent.
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

/// The fourth field of /proc/PID/stat; the second, a name in brackets, may hold blanks and brackets.
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
    fn a_tree_is_all_that_descends_from_its_root() {
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
    }

    #[test]
    fn the_error_names_the_folder() {
        let error = Scope::Machine.processes(Path::new("/nonexistent")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent"), "{error}");
    }

    #[test]
    fn the_real_processes() {
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tree = Scope::Trees(vec![me]).processes(Path::new("/proc")).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(tree.contains(&me) && tree.contains(&(child.id() as i32)), "{tree:?}");
        assert!(!tree.contains(&1));
    }
}
