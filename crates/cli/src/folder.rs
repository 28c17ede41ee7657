//! The run folder: `record.json`, and `samples.ndjson` and `stacks.ndjson`, which a killed run keeps.

mod lines;
#[cfg_attr(not(test), expect(dead_code, reason = "for the commands that read records"))]
pub mod read;
mod ring;

use fathom_model::progress::{JobSample, Progress, Sample};
use fathom_model::watch::{MachineSample, Stack};
use fathom_model::{Dir, Histogram, PerDir};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A run folder that is being written.
pub struct Folder {
    path: PathBuf,
    samples: File,
    /// Made with the first stack.
    stacks: Option<File>,
    before: Vec<PerDir<Histogram>>,
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
        let in_the_way = Self::FILES.iter().map(|name| folder.join(name));
        let what = if folder.exists() && !folder.is_dir() {
            format!("{path} is not a directory")
        } else if let Some(file) = in_the_way.into_iter().find(|f| f.symlink_metadata().is_ok()) {
            format!("{} exists already", file.display())
        } else {
            return Ok(());
        };
        Err(format!("--record={path}: {what}; name another folder, or give --no-record"))
    }

    /// Makes the folder: `named`, which must not hold a run yet, or a new one among the user's runs.
    ///
    /// # Errors
    /// Names the folder and what is in the way.
    pub fn create(named: Option<&str>, started_unix_ns: u64) -> Result<Self, String> {
        let path = match named {
            Some(path) => PathBuf::from(path),
            None => {
                runs_folder()?.join(format!("{}-{}", stamp(started_unix_ns), std::process::id()))
            }
        };
        let fail = |what: &Path, error: io::Error| {
            format!(
                "cannot make the run folder {}: {error}; name another with --record=DIR, or give --no-record",
                what.display()
            )
        };
        fs::create_dir_all(&path).map_err(|e| fail(&path, e))?;
        let samples = path.join("samples.ndjson");
        let samples = File::options()
            .write(true)
            .create_new(true)
            .open(&samples)
            .map_err(|e| fail(&samples, e))?;
        Ok(Self { path, samples, stacks: None, before: Vec::new() })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends what happened since the last sample, and the machine as it is now.
    ///
    /// # Errors
    /// Those of the write.
    pub fn sample(&mut self, progress: &Progress, machine: MachineSample) -> io::Result<()> {
        self.before.resize_with(progress.jobs.len(), PerDir::default);
        let jobs = progress.jobs.iter().zip(&mut self.before).map(|(job, before)| {
            let clat = PerDir::from_fn(|dir: Dir| job.clat[dir].since(&before[dir]));
            before.clone_from(&job.clat);
            JobSample { phase: job.phase, dirs: job.dirs, in_flight: job.in_flight, clat }
        });
        let sample = Sample {
            elapsed_ns: progress.elapsed_ns,
            unix_ns: fathom_engine::clock::unix_ns(),
            jobs: jobs.collect(),
            machine,
        };
        self.watched(&sample)
    }

    /// Appends a sample, after the stacks that it is the first to name.
    ///
    /// # Errors
    /// Those of the write.
    pub fn watched(&mut self, sample: &Sample) -> io::Result<()> {
        if let Some(stacks) = sample.machine.stacks.as_ref().filter(|s| !s.new.is_empty()) {
            self.define(&stacks.new)?;
        }
        self.append(sample)
    }

    fn define(&mut self, new: &[Stack]) -> io::Result<()> {
        let mut lines = Vec::new();
        for stack in new {
            serde_json::to_writer(&mut lines, stack)?;
            lines.push(b'\n');
        }
        let file = match &mut self.stacks {
            Some(file) => file,
            none => {
                let path = self.path.join("stacks.ndjson");
                none.insert(File::options().write(true).create_new(true).open(path)?)
            }
        };
        file.write_all(&lines)
    }

    /// Appends a line to `samples.ndjson`.
    ///
    /// # Errors
    /// Those of the write.
    pub fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(line)?;
        line.push(b'\n');
        // One write for a line, so that a kill leaves whole lines.
        self.samples.write_all(&line)
    }

    /// Writes the record, whole or not at all.
    ///
    /// # Errors
    /// Those of the write; names the file.
    pub fn record(&self, record: &impl Serialize) -> Result<(), String> {
        let mut text = serde_json::to_vec_pretty(record).map_err(|e| e.to_string())?;
        text.push(b'\n');
        replace(&self.path.join("record.json"), &text)
    }
}

/// Writes a file, whole or not at all: a new one takes the old one's name once it is on the disk.
///
/// # Errors
/// Those of the write; names the file.
pub fn replace(path: &Path, contents: &[u8]) -> Result<(), String> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let write = || {
        let mut file = File::create(&part)?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    };
    write().map_err(|error: io::Error| {
        // What is left of a failed write is of no use to anyone.
        let _ = fs::remove_file(&part);
        format!("cannot write {}: {error}", path.display())
    })
}

/// Where runs are kept that name no folder: `$XDG_STATE_HOME/fathom/runs`.
fn runs_folder() -> Result<PathBuf, String> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let base = state.or_else(|| home.map(|home| home.join(".local/state"))).ok_or(
        "neither XDG_STATE_HOME nor HOME names a directory; name a run folder with --record=DIR",
    )?;
    Ok(base.join("fathom/runs"))
}

/// `20261121-193600`, in UTC (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn stamp(unix_ns: u64) -> String {
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
        let checked = Folder::check(path.to_str().unwrap()).unwrap_err();
        assert!(checked.contains("samples.ndjson exists"), "{checked}");
        let second = Folder::create(path.to_str(), 0).err().unwrap();
        assert!(second.contains("samples.ndjson") && second.contains("--record"), "{second}");
        first.record(&RunRecord::default()).unwrap();
        assert!(path.join("record.json").exists());
    }
}
