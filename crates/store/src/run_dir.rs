//! A run directory being written: `record.json`, and `samples.ndjson`, `stacks.ndjson` and `windows.ndjson`,
//! which survive a killed run.

use crate::dir::{CreatedDirs, HeldDir, Readers, with_path};
use crate::time::stamp;
use fathom_model::progress::Sample;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The user's tags of a run, one on each line.
pub(crate) const TAGS: &str = "tags";
/// A longer record is written without indentation.
const PRETTY_MAX: usize = 4 << 20;
/// Bytes of windows that are read.
pub(crate) const WINDOWS_MAX: u64 = 256 << 20;

/// A run directory that is being written. If dropped before [`RunDir::begin`], it is removed.
pub struct RunDir {
    dir: HeldDir,
    made: CreatedDirs,
    begun: bool,
    samples: LineFile,
    stacks: Option<LineFile>,
    windows: Option<LineFile>,
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if !self.begun {
            // It was created here.
            let _ = self.dir.remove_file("samples.ndjson");
        }
    }
}

impl RunDir {
    pub const FILES: [&str; 5] =
        ["record.json", "samples.ndjson", "stacks.ndjson", "windows.ndjson", TAGS];

    /// Checks that `path` can become a run directory: it does not exist, or contains none of its files.
    pub fn check(path: &str) -> Result<(), String> {
        let dir = Path::new(path);
        let what = if path.is_empty() {
            "an empty name".to_string()
        } else if dir.exists() && !dir.is_dir() {
            format!("{path} is not a directory")
        } else if let Some(file) = in_the_way(dir) {
            format!("{} already exists", file.display())
        } else if let Err(error) = HeldDir::check_new(dir) {
            error.to_string()
        } else {
            return Ok(());
        };
        Err(format!("--record={path}: {what}; name another directory"))
    }

    /// Creates the directory `named`, which must not contain a run, or a new one below [`state_dir`].
    pub fn create(named: Option<&str>, started_unix_ns: u64) -> Result<Self, String> {
        let path = match named {
            Some(path) => {
                Self::check(path)?;
                PathBuf::from(path)
            }
            None => unused(&state_dir("runs")?, started_unix_ns),
        };
        let made = HeldDir::make_all(&path).and_then(|(dir, made)| Self::within(dir, made));
        made.map_err(|error| {
            format!("cannot create the run directory {error}; use --record=DIR to name another")
        })
    }

    /// Opens the run directory `path`, whose run was interrupted, to append to it, and returns the windows that it holds.
    /// A last line that is not complete is removed.
    pub fn reopen<W: DeserializeOwned>(path: &Path) -> Result<(Self, Vec<W>), String> {
        let fail = |error: io::Error| format!("cannot resume {error}");
        let dir = HeldDir::open(path).map_err(fail)?;
        let lock = dir.append("samples.ndjson").map_err(fail)?;
        // Some network file systems have no locks.
        if flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(format!("{} is still being recorded", path.display()));
        }
        let samples = LineFile::of(lock, &dir, "samples.ndjson").map_err(fail)?.0;
        let (windows, text) = match dir.regular("windows.ndjson").map_err(fail)? {
            Some(_) => {
                LineFile::reopen(&dir, "windows.ndjson").map(|(file, text)| (Some(file), text))
            }
            None => Ok((None, Vec::new())),
        }
        .map_err(fail)?;
        let parsed =
            parse_windows(&text).map_err(|e| format!("cannot resume {}: {e}", path.display()))?;
        let made = CreatedDirs::default();
        Ok((Self { dir, made, begun: true, samples, stacks: None, windows }, parsed))
    }

    /// Uses `dir`, which must not contain a run, and takes over the directories `made` for it.
    pub fn within(dir: HeldDir, made: CreatedDirs) -> io::Result<Self> {
        let samples = LineFile::create(&dir, "samples.ndjson")?;
        // The lock shows others that it is being written; some network file systems have none.
        let _ = flock(&samples.file, FlockOperation::NonBlockingLockExclusive);
        Ok(Self { dir, made, begun: false, samples, stacks: None, windows: None })
    }

    /// Writes the first version of the record. On failure nothing of the run directory remains.
    pub fn begin(mut self, record: &impl Serialize) -> io::Result<Self> {
        if let Err(error) = self.try_record(record) {
            if self.begun {
                return Err(error);
            }
            // The rename may have succeeded and only the sync of the directory failed.
            let _ = self.dir.remove_file("record.json");
            return Err(error);
        }
        self.begun = true;
        self.made.keep();
        Ok(self)
    }

    pub fn dir(&self) -> &HeldDir {
        &self.dir
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Appends a sample, after the stacks that it is the first to refer to. Can be retried after an error.
    pub fn write(&mut self, sample: &EncodedSample) -> io::Result<()> {
        if !sample.window.is_empty() {
            let windows = match &mut self.windows {
                Some(windows) => windows,
                none => none.insert(LineFile::create(&self.dir, "windows.ndjson")?),
            };
            return windows.append(&sample.window);
        }
        let stacks_before = self.stacks.as_ref().map_or(0, |stacks| stacks.len);
        if !sample.stacks.is_empty() {
            let stacks = match &mut self.stacks {
                Some(stacks) => stacks,
                none => none.insert(LineFile::create(&self.dir, "stacks.ndjson")?),
            };
            stacks.append(&sample.stacks)?;
        }
        let written = self.samples.append(&sample.line);
        if let (Err(_), Some(stacks)) = (&written, &mut self.stacks) {
            stacks.cut(stacks_before);
        }
        written
    }

    /// Sizes of the samples and of the stacks, in bytes.
    pub fn len(&self) -> (u64, u64) {
        (self.samples.len, self.stacks.as_ref().map_or(0, |stacks| stacks.len))
    }

    /// Flushes samples, stacks and windows to the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.stacks.iter().chain(&self.windows).try_for_each(LineFile::sync)?;
        self.samples.sync()
    }

    /// Replaces the record atomically.
    pub fn record(&self, record: &impl Serialize) -> Result<(), String> {
        self.try_record(record).map_err(|e| format!("cannot write {e}"))
    }

    /// Like [`RunDir::record`], with the kind of the error.
    pub fn try_record(&self, record: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(record)?;
        // That of many machines is for programs; most of it would be indentation.
        if text.len() <= PRETTY_MAX {
            text = serde_json::to_vec_pretty(record)?;
        }
        text.push(b'\n');
        self.dir.replace("record.json", &text, Readers::Owner)
    }
}

/// The directory of a run of this process in `runs`; those that begin in the same second are numbered.
fn unused(runs: &Path, started_unix_ns: u64) -> PathBuf {
    let name = format!("{}-{}", stamp(started_unix_ns), std::process::id());
    let numbered = (2_u64..).map(|number| runs.join(format!("{name}-{number}")));
    let mut all = std::iter::once(runs.join(&name)).chain(numbered);
    all.find(|dir| dir.symlink_metadata().is_err()).unwrap_or_default()
}

/// The first entry of `dir` that has the name of a run's file.
fn in_the_way(dir: &Path) -> Option<PathBuf> {
    let files = RunDir::FILES.iter().map(|name| dir.join(name));
    files.into_iter().find(|file| file.symlink_metadata().is_ok())
}

/// A sample, encoded as the lines that store it.
pub struct EncodedSample {
    stacks: Vec<u8>,
    line: Vec<u8>,
    /// The line of `windows.ndjson`; such a line has no sample.
    window: Vec<u8>,
    pub(crate) elapsed_ns: u64,
}

impl EncodedSample {
    pub fn of(sample: &Sample) -> io::Result<Self> {
        let (mut stacks, mut line) = (Vec::new(), Vec::new());
        let new = sample.machine.stacks.iter().flat_map(|stacks| &stacks.new);
        new.into_iter().try_for_each(|stack| push_line(&mut stacks, stack))?;
        push_line(&mut line, sample)?;
        Ok(Self { stacks, line, window: Vec::new(), elapsed_ns: sample.elapsed_ns })
    }

    pub fn window(window: &impl Serialize) -> io::Result<Self> {
        let mut line = Vec::new();
        push_line(&mut line, window)?;
        Ok(Self { stacks: Vec::new(), line: Vec::new(), window: line, elapsed_ns: 0 })
    }

    pub fn size_bytes(&self) -> u64 {
        (self.stacks.len() + self.line.len() + self.window.len()) as u64
    }
}

fn push_line(text: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *text, value)?;
    text.push(b'\n');
    Ok(())
}

/// The windows in the run directory `path`; none if it was killed before the first.
pub fn read_windows<W: DeserializeOwned>(path: &Path) -> Result<Vec<W>, String> {
    let dir = HeldDir::open(path).map_err(|e| format!("cannot read {e}"))?;
    let text = match dir.regular("windows.ndjson") {
        Ok(None) => return Ok(Vec::new()),
        found => found.and_then(|_| dir.read("windows.ndjson", WINDOWS_MAX)),
    };
    let text = text.map_err(|e| format!("cannot read {e}"))?;
    parse_windows(&text).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

/// One window for each complete line.
fn parse_windows<W: DeserializeOwned>(text: &[u8]) -> serde_json::Result<Vec<W>> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| line.ends_with(b"\n")).map(serde_json::from_slice).collect()
}

struct LineFile {
    path: PathBuf,
    file: File,
    len: u64,
}

impl LineFile {
    fn create(dir: &HeldDir, name: &str) -> io::Result<Self> {
        Ok(Self { file: dir.create(name)?, path: dir.path().join(name), len: 0 })
    }

    /// Opens an existing file to append to it, without a last line that is not complete; returns its contents.
    fn reopen(dir: &HeldDir, name: &str) -> io::Result<(Self, Vec<u8>)> {
        Self::of(dir.append(name)?, dir, name)
    }

    /// The same for a file that is open.
    fn of(file: File, dir: &HeldDir, name: &str) -> io::Result<(Self, Vec<u8>)> {
        let mut text = dir.read(name, WINDOWS_MAX)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        text.truncate(whole);
        let mut file = Self { file, path: dir.path().join(name), len: whole as u64 };
        file.cut(whole as u64);
        Ok((file, text))
    }

    /// Appends lines, all or nothing, with a single write so that a kill rarely cuts one short.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(lines);
        match written {
            Ok(()) => self.len += lines.len() as u64,
            Err(_) => self.cut(self.len),
        }
        written.map_err(|e| with_path(&self.path, e))
    }

    fn cut(&mut self, len: u64) {
        // If this fails, readers skip the partial line.
        let _ = self.file.set_len(len);
        self.len = len;
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(|e| with_path(&self.path, e))
    }
}

/// A directory for fathom's state: `$XDG_STATE_HOME/fathom/NAME`, by default `~/.local/state/fathom/NAME`.
pub fn state_dir(name: &str) -> Result<PathBuf, String> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let base = state
        .or_else(|| home.map(|home| home.join(".local/state")))
        .ok_or("neither XDG_STATE_HOME nor HOME names a directory; use --record=DIR")?;
    Ok(base.join("fathom").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::RunRecord;

    #[test]
    fn a_directory_is_not_used_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        RunDir::check(path.to_str().unwrap()).unwrap();
        let first = RunDir::create(path.to_str(), 0).unwrap();
        let first = first.begin(&RunRecord::default()).unwrap();
        let checked = RunDir::check(path.to_str().unwrap()).unwrap_err();
        assert!(checked.contains("record.json already exists"), "{checked}");
        assert!(RunDir::check("").unwrap_err().contains("empty name"));
        std::fs::remove_file(path.join("record.json")).unwrap();
        let second = RunDir::create(path.to_str(), 0).err().unwrap();
        assert!(second.contains("samples.ndjson") && second.contains("--record"), "{second}");
        first.record(&RunRecord::default()).unwrap();
        assert!(path.join("record.json").exists());
    }

    #[test]
    fn an_interrupted_run_is_continued_after_its_last_complete_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let mut first =
            RunDir::create(path.to_str(), 0).unwrap().begin(&RunRecord::default()).unwrap();
        first.write(&EncodedSample::window(&1).unwrap()).unwrap();
        std::fs::write(path.join("samples.ndjson"), "{\"half").unwrap();
        assert!(RunDir::reopen::<u32>(&path).err().unwrap().contains("still being recorded"));
        let samples = std::fs::read_to_string(path.join("samples.ndjson")).unwrap();
        assert_eq!(samples, "{\"half", "a run being recorded is left alone");
        drop(first);
        let windows = path.join("windows.ndjson");
        std::fs::write(&windows, "1\n23\n4").unwrap();
        let (mut again, read) = RunDir::reopen::<u32>(&path).unwrap();
        assert_eq!(read, [1, 23]);
        again.write(&EncodedSample::window(&5).unwrap()).unwrap();
        drop(again.begin(&RunRecord::default()).unwrap());
        assert_eq!(std::fs::read_to_string(&windows).unwrap(), "1\n23\n5\n");
        assert_eq!(read_windows::<u32>(&path).unwrap(), [1, 23, 5]);
        assert!(RunDir::reopen::<u32>(dir.path()).is_err());
    }

    #[test]
    fn a_directory_that_has_not_begun_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        drop(RunDir::create(dir.path().join("a/b").to_str(), 0).unwrap());
        drop(RunDir::create(dir.path().to_str(), 0).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
