//! The run folder: `record.json`, and `samples.ndjson` and `stacks.ndjson`, which a killed run keeps.

mod bounds;
mod lines;
pub mod read;
pub mod ring;
mod writer;

pub use writer::Writer;

use crate::files::{Dir, MadeDirs, Readers, named};
use crate::stdio::note;
use fathom_model::progress::Sample;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A run folder that is being written. Until it has begun it is removed again when it is dropped.
pub struct Folder {
    dir: Dir,
    /// Directories that were not there before.
    made: MadeDirs,
    begun: bool,
    samples: Growing,
    /// Made with the first stack.
    stacks: Option<Growing>,
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.begun {
            // It was made here: there was none before.
            let _ = self.dir.remove_file("samples.ndjson");
        }
    }
}

impl Folder {
    /// Files of a run folder.
    pub const FILES: [&str; 3] = ["record.json", "samples.ndjson", "stacks.ndjson"];

    /// Whether `path` can become a run folder: it holds none of its files yet.
    ///
    /// # Errors
    /// Names what is in the way.
    pub fn check(path: &str) -> Result<(), String> {
        let folder = Path::new(path);
        let what = if path.is_empty() {
            "an empty name".to_string()
        } else if folder.exists() && !folder.is_dir() {
            format!("{path} is not a directory")
        } else if let Some(file) = in_the_way(folder) {
            format!("{} exists already", file.display())
        } else {
            return Ok(());
        };
        Err(format!("--record={path}: {what}; name another folder"))
    }

    /// Makes the folder: `named`, which must not hold a run yet, or a new one among the user's runs.
    ///
    /// # Errors
    /// Names the folder and what is in the way.
    pub fn create(named: Option<&str>, started_unix_ns: u64) -> Result<Self, String> {
        let path = match named {
            Some(path) => {
                Self::check(path)?;
                PathBuf::from(path)
            }
            None => state_folder("runs")?.join(format!(
                "{}-{}",
                stamp(started_unix_ns),
                std::process::id()
            )),
        };
        let made = Dir::make_all(&path).and_then(|(dir, made)| Self::within(dir, made));
        made.map_err(|error| {
            format!("cannot make the run folder {error}; name another with --record=DIR")
        })
    }

    /// The folder is `dir`, which must not hold a run yet; of the directories on the way to it `made` are new.
    ///
    /// # Errors
    /// Those of the kernel; names the file.
    pub fn within(dir: Dir, made: MadeDirs) -> io::Result<Self> {
        let samples = Growing::create(&dir, "samples.ndjson")?;
        Ok(Self { dir, made, begun: false, samples, stacks: None })
    }

    /// Writes the record for the first time; where that fails, nothing is left of the folder.
    ///
    /// # Errors
    /// Those of the write; names the file.
    pub fn begin(mut self, record: &impl Serialize) -> io::Result<Self> {
        if let Err(error) = self.try_record(record) {
            // It has its name already where only the directory could not be brought to the disk.
            let _ = self.dir.remove_file("record.json");
            return Err(error);
        }
        self.begun = true;
        self.made.keep();
        Ok(self)
    }

    /// The directory itself.
    #[must_use]
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Appends a sample, after the stacks that it is the first to name. After an error it can be tried
    /// again.
    ///
    /// # Errors
    /// Those of the write.
    pub fn write(&mut self, sample: &Encoded) -> io::Result<()> {
        let stacks_before = self.stacks.as_ref().map_or(0, |stacks| stacks.len);
        if !sample.stacks.is_empty() {
            let stacks = match &mut self.stacks {
                Some(stacks) => stacks,
                none => none.insert(Growing::create(&self.dir, "stacks.ndjson")?),
            };
            stacks.append(&sample.stacks)?;
        }
        let written = self.samples.append(&sample.line);
        if let (Err(_), Some(stacks)) = (&written, &mut self.stacks) {
            stacks.cut(stacks_before);
        }
        written
    }

    /// Bytes of samples and of stacks.
    #[must_use]
    pub fn len(&self) -> (u64, u64) {
        (self.samples.len, self.stacks.as_ref().map_or(0, |stacks| stacks.len))
    }

    /// Brings samples and stacks to the disk.
    ///
    /// # Errors
    /// Those of the kernel; names the file.
    pub fn sync(&self) -> io::Result<()> {
        self.stacks.iter().try_for_each(Growing::sync)?;
        self.samples.sync()
    }

    /// Writes the record, whole or not at all.
    ///
    /// # Errors
    /// Those of the write; names the file.
    pub fn record(&self, record: &impl Serialize) -> Result<(), String> {
        self.try_record(record).map_err(|e| format!("cannot write {e}"))
    }

    /// The same, for who wants to know what kind of error it is.
    ///
    /// # Errors
    /// Those of the write; names the file.
    pub fn try_record(&self, record: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(record)?;
        text.push(b'\n');
        self.dir.replace("record.json", &text, Readers::Owner)
    }
}

/// The first file of a run that is in `folder`, whatever it is.
fn in_the_way(folder: &Path) -> Option<PathBuf> {
    let files = Folder::FILES.iter().map(|name| folder.join(name));
    files.into_iter().find(|file| file.symlink_metadata().is_ok())
}

/// What was made of a run folder. One that was not asked for by name is no part of the request: of that it is only
/// said what is wrong.
///
/// # Errors
/// What is wrong with a `named` one.
pub fn wanted<T>(made: Result<T, String>, named: bool) -> Result<Option<T>, String> {
    match made {
        Err(error) if !named => {
            note!("no record is kept: {error}");
            Ok(None)
        }
        made => made.map(Some),
    }
}

/// Passes on what is wrong with a folder that was asked for by name; says so of one that was not, which is no part
/// of the request.
///
/// # Errors
/// What is wrong with a `named` one.
pub fn excuse(kept: Result<(), String>, named: bool) -> Result<(), String> {
    match kept {
        Err(error) if !named => {
            note!("no whole record is kept: {error}");
            Ok(())
        }
        kept => kept,
    }
}

/// A sample as it is stored.
pub struct Encoded {
    /// Lines of `stacks.ndjson`.
    stacks: Vec<u8>,
    /// The line of `samples.ndjson`.
    line: Vec<u8>,
    elapsed_ns: u64,
}

impl Encoded {
    /// The lines of `sample`.
    ///
    /// # Errors
    /// When it holds a number that JSON has not.
    pub fn of(sample: &Sample) -> io::Result<Self> {
        let (mut stacks, mut line) = (Vec::new(), Vec::new());
        let new = sample.machine.stacks.iter().flat_map(|stacks| &stacks.new);
        new.into_iter().try_for_each(|stack| push_line(&mut stacks, stack))?;
        push_line(&mut line, sample)?;
        Ok(Self { stacks, line, elapsed_ns: sample.elapsed_ns })
    }

    /// A line of `samples.ndjson` that is none of a run's or a machine's.
    ///
    /// # Errors
    /// When it holds a number that JSON has not.
    pub fn line(value: &impl Serialize) -> io::Result<Self> {
        let mut line = Vec::new();
        push_line(&mut line, value)?;
        Ok(Self { stacks: Vec::new(), line, elapsed_ns: 0 })
    }

    /// Bytes of all lines.
    #[must_use]
    pub fn len(&self) -> u64 {
        (self.stacks.len() + self.line.len()) as u64
    }
}

fn push_line(text: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *text, value)?;
    text.push(b'\n');
    Ok(())
}

/// A file of whole lines.
struct Growing {
    path: PathBuf,
    file: File,
    len: u64,
}

impl Growing {
    fn create(dir: &Dir, name: &str) -> io::Result<Self> {
        Ok(Self { file: dir.create(name)?, path: dir.path().join(name), len: 0 })
    }

    /// Appends lines, all or nothing. One write, so that a kill leaves whole lines.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(lines);
        match written {
            Ok(()) => self.len += lines.len() as u64,
            Err(_) => self.cut(self.len),
        }
        written.map_err(|e| named(&self.path, e))
    }

    fn cut(&mut self, len: u64) {
        // Half a line is damage that readers pass over.
        let _ = self.file.set_len(len);
        self.len = len;
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(|e| named(&self.path, e))
    }
}

/// A folder of the user's among those in which programs keep what they know: `$XDG_STATE_HOME/fathom/NAME`.
///
/// # Errors
/// Where the environment names no directory for it.
pub fn state_folder(name: &str) -> Result<PathBuf, String> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let base = state.or_else(|| home.map(|home| home.join(".local/state"))).ok_or(
        "neither XDG_STATE_HOME nor HOME names a directory; name a folder with --record=DIR",
    )?;
    Ok(base.join("fathom").join(name))
}

/// `20261121-193600`, in UTC (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
#[must_use]
pub fn stamp(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", time / 3600, time / 60 % 60, time % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::RunRecord;

    #[test]
    fn stamps_are_dates() {
        assert_eq!(stamp(0), "19700101-000000");
        assert_eq!(stamp(951_782_400_000_000_000), "20000229-000000");
        assert_eq!(stamp(1_795_289_760_000_000_000), "20261121-193600");
    }

    #[test]
    fn a_folder_is_not_used_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        Folder::check(path.to_str().unwrap()).unwrap();
        let first = Folder::create(path.to_str(), 0).unwrap();
        let first = first.begin(&RunRecord::default()).unwrap();
        let checked = Folder::check(path.to_str().unwrap()).unwrap_err();
        assert!(checked.contains("record.json exists"), "{checked}");
        assert!(Folder::check("").unwrap_err().contains("empty name"));
        std::fs::remove_file(path.join("record.json")).unwrap();
        let second = Folder::create(path.to_str(), 0).err().unwrap();
        assert!(second.contains("samples.ndjson") && second.contains("--record"), "{second}");
        first.record(&RunRecord::default()).unwrap();
        assert!(path.join("record.json").exists());
    }

    #[test]
    fn a_folder_that_has_not_begun_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        drop(Folder::create(dir.path().join("a/b").to_str(), 0).unwrap());
        drop(Folder::create(dir.path().to_str(), 0).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
