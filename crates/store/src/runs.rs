//! Lists, removes and prunes the run directories below [`state_dir`].

use crate::dir::{self, HeldDir};
use crate::run_dir::{RunDir, state_dir};
use crate::time::instant;
use rustix::fs::{FlockOperation, flock};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default limit on the age of runs in the default directory. Each new run removes what exceeds the limits.
pub const DEFAULT_KEEP: Duration = Duration::from_secs(90 * 86_400);
/// Default limit on their total size in bytes.
pub const DEFAULT_BYTES_MAX: u64 = 4 << 30;

#[derive(Debug, Default)]
pub struct Pruned {
    pub removed: Vec<RunEntry>,
    /// Those of which something remains that fathom did not create.
    pub kept: Vec<RunEntry>,
}

pub struct Runs {
    dir: HeldDir,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEntry {
    /// Its name, such as `20261121-193600-4711`: start (UTC) and process ID.
    pub name: String,
    pub path: PathBuf,
    /// When the run started, in nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
    pub size_bytes: u64,
    pub is_active: bool,
}

impl Runs {
    /// Opens the directory of the user's runs; `None` if there is none yet.
    pub fn open() -> Result<Option<Self>, String> {
        let path = state_dir("runs")?;
        match HeldDir::open(&path) {
            Ok(dir) => Ok(Some(Self { dir })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot read {error}")),
        }
    }

    /// All runs, oldest first. Other entries of the directory are ignored.
    pub fn list(&self) -> Result<Vec<RunEntry>, String> {
        let names = self.dir.names().map_err(|e| format!("cannot read {e}"))?;
        let names = names.filter_map(|name| name.ok()?.into_string().ok());
        let mut entries: Vec<RunEntry> = names.filter_map(|name| self.entry(name)).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn entry(&self, name: String) -> Option<RunEntry> {
        let (stamp, pid) = name.split_at_checked(15)?;
        let pid = pid.strip_prefix('-')?;
        let is_number = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
        let started_unix_ns = instant(stamp).filter(|_| is_number)?;
        let dir = self.dir.dir(&name).ok()?;
        let sizes = own_files(&dir).ok()?;
        let size_bytes = sizes.iter().map(|(_, bytes)| bytes).sum();
        let path = self.dir.path().join(&name);
        Some(RunEntry { is_active: is_locked(&dir), name, path, started_unix_ns, size_bytes })
    }

    /// Removes the run `name`, but no files that fathom did not create; whether nothing remains.
    pub fn remove(&self, name: &str) -> Result<bool, String> {
        let known = self.entry(name.to_string());
        let entry = known.ok_or_else(|| format!("no such run: {name}; `fathom runs` lists all"))?;
        if entry.is_active {
            return Err(format!("{name} is still being recorded"));
        }
        let removed = self.dir.dir(name).and_then(|dir| {
            // Version 1 recorded the samples of a search in a separate directory.
            if let Ok(watch) = dir.dir("watch") {
                remove_files(&watch)?;
                remove_empty(&dir, "watch")?;
            }
            remove_files(&dir)?;
            remove_empty(&self.dir, name)
        });
        removed.map_err(|e| format!("cannot remove {e}"))
    }

    /// Removes the runs that started more than `keep` before `now_unix_ns`, and then the oldest until all take at most
    /// `bytes_max`; returns what was removed. A run that is still being recorded stays.
    pub fn prune(
        &self,
        keep: Duration,
        bytes_max: u64,
        now_unix_ns: u64,
    ) -> Result<Pruned, String> {
        let entries = self.list()?;
        let mut bytes: u64 = entries.iter().map(|entry| entry.size_bytes).sum();
        let oldest = now_unix_ns.saturating_sub(keep.as_nanos() as u64);
        let (mut pruned, mut failure) = (Pruned::default(), None);
        for entry in entries.into_iter().filter(|entry| !entry.is_active) {
            if entry.started_unix_ns >= oldest && bytes <= bytes_max {
                continue;
            }
            match self.remove(&entry.name) {
                Ok(is_gone) => {
                    bytes = bytes.saturating_sub(entry.size_bytes);
                    if is_gone { &mut pruned.removed } else { &mut pruned.kept }.push(entry);
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(pruned), Err)
    }
}

/// Regular files that fathom writes into a run directory, with their sizes.
fn own_files(dir: &HeldDir) -> io::Result<Vec<(String, u64)>> {
    let mut own = Vec::new();
    for name in dir.names()? {
        let Ok(name) = name?.into_string() else { continue };
        if !RunDir::FILES.contains(&name.as_str()) && !dir::is_temporary(&name) {
            continue;
        }
        if let Ok(Some(found)) = dir.regular(&name) {
            own.push((name, u64::try_from(found.st_size).unwrap_or(0)));
        }
    }
    Ok(own)
}

fn remove_files(dir: &HeldDir) -> io::Result<()> {
    own_files(dir)?.iter().try_for_each(|(name, _)| dir.remove_file(name))
}

/// Removes the directory `name`; whether it was empty.
fn remove_empty(parent: &HeldDir, name: &str) -> io::Result<bool> {
    match parent.remove_dir(name) {
        Ok(()) => Ok(true),
        // POSIX permits either.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Whether the run in this directory is still being recorded.
pub fn is_active(run: &Path) -> bool {
    HeldDir::open(run).is_ok_and(|dir| is_locked(&dir))
}

/// Whether a [`RunDir`] holds the lock of its samples.
fn is_locked(dir: &HeldDir) -> bool {
    let samples = dir.open_file("samples.ndjson");
    samples.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::RunRecord;
    use std::fs;

    const DAY: u64 = 86_400_000_000_000;

    fn add(dir: &Path, name: &str) -> RunDir {
        let run = RunDir::create(dir.join(name).to_str(), 0).unwrap();
        run.begin(&RunRecord::default()).unwrap()
    }

    fn names(entries: &[RunEntry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn runs_are_pruned_by_age_and_size_but_not_while_they_are_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let runs = Runs { dir: HeldDir::open(dir.path()).unwrap() };
        let [first, second, third, active] =
            ["20261101-120000-1", "20261110-120000-2", "20261110-120000-3", "20261001-120000-9"];
        for name in [first, second, third] {
            drop(add(dir.path(), name));
        }
        let writing = add(dir.path(), active);
        fs::create_dir(dir.path().join("20261122-holiday")).unwrap();
        fs::write(dir.path().join(second).join("notes.txt"), "mine").unwrap();
        let all = runs.list().unwrap();
        assert_eq!(names(&all), [active, first, second, third]);
        assert!(all[0].is_active && !all[1].is_active);
        let now = all[1].started_unix_ns + 10 * DAY;
        let keep = Duration::from_secs(9 * 86_400);
        // A directory of that name, with nothing of fathom's in it.
        let strange = "20261010-120000-7";
        fs::create_dir_all(dir.path().join(strange).join("record.json")).unwrap();
        let pruned = runs.prune(keep, u64::MAX, now).unwrap();
        assert_eq!((names(&pruned.removed), names(&pruned.kept)), (vec![first], vec![strange]));
        let pruned = runs.prune(keep, 0, now).unwrap();
        assert_eq!(names(&pruned.removed), [third]);
        assert_eq!(names(&pruned.kept), [strange, second]);
        assert!(!runs.remove(strange).unwrap());
        assert!(dir.path().join(second).join("notes.txt").exists(), "not fathom's");
        assert!(!dir.path().join(third).exists() && dir.path().join("20261122-holiday").exists());
        assert!(runs.remove(active).unwrap_err().contains("still being recorded"));
        drop(writing);
        assert!(runs.remove(active).unwrap());
        assert!(runs.remove("../x").unwrap_err().contains("no such run"));
    }
}
