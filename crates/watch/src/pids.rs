//! Processes that a user names, by their IDs or by patterns for their names.

use crate::Scope;
use std::path::{Path, PathBuf};

/// A pattern for the name or arguments of a process: alternatives separated by `|`, one of which
/// must occur in the text; `*` matches any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Vec<String>>);

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, String> {
        let part = |part: &str| {
            let pieces: Vec<String> =
                part.split('*').filter(|piece| !piece.is_empty()).map(Into::into).collect();
            if pieces.is_empty() {
                return Err(format!(
                    "`{text}` would match every process; give part of a program's name"
                ));
            }
            Ok(pieces)
        };
        text.split('|').map(part).collect::<Result<_, _>>().map(Self)
    }

    pub fn matches(&self, text: &[u8]) -> bool {
        self.0.iter().any(|pieces| {
            let mut rest = Some(text);
            for piece in pieces {
                rest = rest.and_then(|rest| after(rest, piece.as_bytes()));
            }
            rest.is_some()
        })
    }
}

/// The text after the first occurrence of `piece`. /proc separates arguments by NUL, users by a
/// space.
fn after<'t>(text: &'t [u8], piece: &[u8]) -> Option<&'t [u8]> {
    let same = |(byte, want): (&u8, &u8)| byte == want || (*byte == 0 && *want == b' ');
    let found = |window: &[u8]| window.iter().zip(piece).all(same);
    let at = text.windows(piece.len()).position(found)?;
    text.get(at + piece.len()..)
}

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

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(text.as_bytes())
    }

    #[test]
    fn parts_and_wildcards() {
        assert!(matches("fio", "/usr/bin/fio job.fio"));
        assert!(!matches("fio", "postgres"));
        assert!(matches("post|kwork", "kworker/0:1"));
        assert!(matches("post*writer", "postgres: background writer"));
        assert!(!matches("writer*post", "postgres: background writer"));
        assert!(matches("*fio*", "fio"));
        assert!(!matches("aa*a", "aa"));
        assert!(!matches("fio", ""));
        assert!(matches("fio --name", "/usr/bin/fio\0--name=x\0"));
    }

    #[test]
    fn patterns_that_match_everything_are_rejected() {
        for text in ["", "*", "a|", "|", "**"] {
            let error = Pattern::parse(text).unwrap_err();
            assert!(error.contains("every process"), "{error}");
        }
    }

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
