//! The record of a run: its directory from before the first I/O to the complete `record.json`.

use fathom_model::progress::Sample;
use fathom_model::units;
use fathom_store::{DEFAULT_BYTES_MAX, DEFAULT_KEEP, EncodedSample, RunDir, Runs, Writer, Written};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Where a run is recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RecordTo {
    /// Nowhere.
    Nowhere,
    /// In a new directory among the user's runs; if that fails, the run continues without a record.
    #[default]
    IfPossible,
    /// In this directory, or in a new one among the user's runs; if that fails, so does the run.
    Required(Option<String>),
}

impl RecordTo {
    /// What the options `--record` and `--no-record` mean.
    pub fn from_options(record: Option<&str>, no_record: bool) -> Self {
        match record {
            _ if no_record => Self::Nowhere,
            Some(dir) => Self::Required(Some(dir.to_string())),
            None => Self::IfPossible,
        }
    }

    /// Checks that the directory named by the user can become a run directory, and returns its future files, which must
    /// not be overwritten by results.
    pub fn check(&self) -> Result<Vec<String>, String> {
        let Self::Required(Some(dir)) = self else { return Ok(Vec::new()) };
        RunDir::check(dir)?;
        Ok(RunDir::FILES.map(|file| format!("{dir}/{file}")).into())
    }
}

/// A run directory without a record yet. If dropped, it is removed.
pub struct NewRecording {
    dir: Option<RunDir>,
    required: bool,
}

impl NewRecording {
    /// Creates the run directory.
    pub fn create(to: &RecordTo, notice: &mut dyn FnMut(&str)) -> Result<Self, String> {
        let named = match to {
            RecordTo::Nowhere => return Ok(Self { dir: None, required: false }),
            RecordTo::IfPossible => None,
            RecordTo::Required(named) => named.as_deref(),
        };
        let required = matches!(to, RecordTo::Required(_));
        let now_unix_ns = fathom_engine::clock::unix_ns();
        if named.is_none() {
            prune(now_unix_ns, notice);
        }
        let dir = RunDir::create(named, now_unix_ns);
        Ok(Self { dir: optional(dir, required, notice)?, required })
    }

    /// The run directory of an interrupted experiment, and the windows that it holds.
    pub fn resume<W: DeserializeOwned>(dir: &Path) -> Result<(Self, Vec<W>), String> {
        let (dir, windows) = RunDir::reopen(dir)?;
        Ok((Self { dir: Some(dir), required: true }, windows))
    }

    /// Writes the first version of the record, with the outcome of a killed run.
    pub fn begin(
        self,
        unfinished: &impl Serialize,
        notice: &mut dyn FnMut(&str),
    ) -> Result<Recording, String> {
        let begin = |dir: RunDir| dir.begin(unfinished).map_err(|e| format!("cannot write {e}"));
        let begun = self.dir.map(|dir| optional(begin(dir), self.required, notice)).transpose()?;
        Ok(Recording { writer: begun.flatten().map(Writer::start), required: self.required })
    }
}

/// Applies the default retention to the user's runs.
fn prune(now_unix_ns: u64, notice: &mut dyn FnMut(&str)) {
    // What cannot be read or removed now is reported by `fathom runs`.
    let Ok(Some(runs)) = Runs::open() else { return };
    let pruned = runs.prune(DEFAULT_KEEP, DEFAULT_BYTES_MAX, now_unix_ns);
    let removed = pruned.unwrap_or_default().removed;
    if !removed.is_empty() {
        let days = DEFAULT_KEEP.as_secs() / 86_400;
        let size = units::bytes(DEFAULT_BYTES_MAX);
        notice(&format!(
            "removed the {} oldest runs (limits: {days} days, {size}); use --record=DIR to keep a run elsewhere",
            removed.len()
        ));
    }
}

/// Returns the error if `required`; otherwise reports it.
fn optional<T>(
    made: Result<T, String>,
    required: bool,
    notice: &mut dyn FnMut(&str),
) -> Result<Option<T>, String> {
    match made {
        Err(error) if !required => {
            notice(&format!("no record is written: {error}"));
            Ok(None)
        }
        made => made.map(Some),
    }
}

/// A record that is being written, or none.
pub struct Recording {
    writer: Option<Writer>,
    required: bool,
}

impl Recording {
    /// Its directory.
    pub fn path(&self) -> Option<&Path> {
        self.writer.as_ref().map(Writer::path)
    }

    /// Whether there is a record.
    pub fn is_kept(&self) -> bool {
        self.writer.is_some()
    }

    /// Whether samples are no longer written.
    pub fn has_failed(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.failed().is_some())
    }

    /// Whether its disk keeps up. If not, samples should be merged instead of queued.
    pub fn has_room(&self) -> bool {
        self.writer.as_ref().is_none_or(Writer::has_room)
    }

    /// Queues a sample. After a failed write no more are written, because they may refer to lost stacks.
    pub fn sample(&self, sample: &Sample) {
        if let Some(writer) = &self.writer {
            writer.write(EncodedSample::of(sample));
        }
    }

    /// Queues a window of a search.
    pub fn window(&self, window: &impl Serialize) {
        if let Some(writer) = &self.writer {
            writer.write(EncodedSample::window(window));
        }
    }

    /// Why samples are no longer written; returned once.
    pub fn complaint(&mut self) -> Option<String> {
        self.writer.as_mut().and_then(Writer::complaint)
    }

    /// Waits until all samples are written; `notice` is called if the disk is slow.
    pub fn flush(&mut self, notice: &mut dyn FnMut(&str)) -> Written {
        let slow = |dir: &Path| notice(&format!("waiting for the disk of {}", dir.display()));
        self.writer.as_mut().map(|writer| writer.finish(slow)).unwrap_or_default()
    }

    /// Writes what is buffered, and the complete record.
    pub fn finish(
        mut self,
        record: &impl Serialize,
        notice: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        let lost = self.flush(notice).error.filter(|_| self.required);
        let ended = self.end(record, notice);
        let errors: Vec<String> = ended.err().into_iter().chain(lost).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }

    /// Writes the complete record, after [`Recording::flush`].
    pub fn end(self, record: &impl Serialize, notice: &mut dyn FnMut(&str)) -> Result<(), String> {
        let Some(writer) = self.writer else { return Ok(()) };
        // Some disks report a failed write only at the sync.
        let synced = writer.run_dir().sync().map_err(|e| format!("cannot write {e}"));
        let ended = synced.and(writer.run_dir().record(record));
        match ended {
            Err(error) if !self.required => {
                notice(&format!("the record is incomplete: {error}"));
                Ok(())
            }
            ended => ended,
        }
    }
}
