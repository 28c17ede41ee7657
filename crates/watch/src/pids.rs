//! Processes that a user names.

use crate::{Pattern, Scope};
use std::path::{Path, PathBuf};

fn matching(proc_root: &Path, text: &str) -> Result<Vec<i32>, String> {
    let pattern = Pattern::parse(text).map_err(|why| format!("--pid {text}: {why}"))?;
    let scope = Scope::Matching { pattern, descendants: false };
    let found = scope.processes(proc_root).map_err(|e| e.to_string())?;
    if found.is_empty() {
        return Err(format!("--pid {text}: no running process matches this name"));
    }
    Ok(found)
}

/// A running process, as distinct from a later one with the same ID.
#[derive(Debug)]
pub struct Process {
    pub pid: i32,
    stat: PathBuf,
    started: String,
}

impl Process {
    /// The processes that `--pid` names: numbers, separated by commas, or a pattern that is matched against names and
    /// arguments once.
    pub fn named(proc_root: &Path, names: &[String]) -> Result<Vec<Self>, String> {
        let mut pids = Vec::new();
        for text in names {
            let numbers: Result<Vec<i32>, _> = text.split(',').map(|n| n.trim().parse()).collect();
            match numbers {
                Ok(numbers) => pids.extend(numbers),
                Err(_) => pids.extend(matching(proc_root, text)?),
            }
        }
        pids.into_iter().map(|pid| Self::find(proc_root, pid)).collect()
    }

    fn find(proc_root: &Path, pid: i32) -> Result<Self, String> {
        let stat = proc_root.join(pid.to_string()).join("stat");
        let text = std::fs::read_to_string(&stat).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("--pid {pid}: no such process")
            }
            _ => format!("--pid {pid}: {}: {error}", stat.display()),
        })?;
        let started = started(&text).ok_or(format!("--pid {pid}: this process has ended"))?;
        Ok(Self { pid, started, stat })
    }

    pub fn is_alive(&self) -> bool {
        let text = std::fs::read_to_string(&self.stat).ok();
        text.and_then(|text| started(&text)).is_some_and(|started| started == self.started)
    }
}

/// When a process began, by /proc/PID/stat; `None` for one that has ended and is only kept for its
/// parent.
fn started(stat: &str) -> Option<String> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then_some(())?;
    // Field 22 of the line; the state is field 3.
    fields.nth(18).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start() {
        let line = "7 (a) Z) S 1 7 7 0 -1 4 9 0 0 0 1 2 0 0 20 0 1 0 4711 1 1 1";
        assert_eq!(started(line).as_deref(), Some("4711"));
        assert_eq!(started(&line.replace(") S 1", ") Z 1")), None);
        assert_eq!(started("7 (a"), None);
        let own = Process::find(Path::new("/proc"), std::process::id() as i32).unwrap();
        assert!(own.is_alive());
        assert!(!Process { started: "1".into(), ..own }.is_alive());
        assert!(
            Process::find(Path::new("/proc"), i32::MAX).err().unwrap().contains("--pid 2147483647")
        );
    }
}
