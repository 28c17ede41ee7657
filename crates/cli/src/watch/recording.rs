//! The record of a watching, from its first sample to its end or to the first that cannot be kept.

use super::{UNFINISHED, new_record};
use crate::folder::Folder;
use crate::session::watching::Watching;
use fathom_model::RunRecord;
use fathom_model::progress::Sample;
use fathom_model::watch::WatchRecord;
use std::path::Path;

/// A record that is being written.
pub struct Recording {
    folder: Folder,
    record: RunRecord,
    failed: Option<String>,
}

impl Recording {
    /// Makes the folder `named`, or one among the user's runs.
    ///
    /// # Errors
    /// Names the folder and what is in the way.
    pub fn create(named: Option<&str>) -> Result<Self, String> {
        if let Some(path) = named {
            Folder::check(path)?;
        }
        let record = new_record();
        let folder = Folder::create(named, record.started_unix_ns)?;
        Ok(Self { folder, record, failed: None })
    }

    /// Says in the record how it is watched.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn begin(&mut self, watching: &Watching) -> Result<(), String> {
        self.record.watch = Some(watching.record().clone());
        self.folder
            .record(&RunRecord { interrupted: Some(UNFINISHED.into()), ..self.record.clone() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Why nothing is kept any more.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Keeps a sample. After one that cannot be kept none is: those that follow may name stacks that
    /// were lost with it.
    ///
    /// # Errors
    /// Why it cannot be kept, once.
    pub fn keep(&mut self, sample: &Sample) -> Result<(), String> {
        if self.failed.is_some() {
            return Ok(());
        }
        self.record.elapsed_ns = sample.elapsed_ns;
        self.folder.watched(sample).map_err(|error| {
            let error = format!(
                "cannot write {error}; what was recorded until then is kept: make room, or name \
                 another folder with --record"
            );
            self.failed = Some(error.clone());
            error
        })
    }

    /// Ends the record.
    ///
    /// # Errors
    /// What of it could not be kept.
    pub fn end(&mut self, watched: WatchRecord) -> Result<(), String> {
        self.record.watch = Some(watched);
        self.record.interrupted.clone_from(&self.failed);
        // What a disk refuses after the write is known only then.
        let synced = self.folder.sync().map_err(|e| format!("cannot write {e}"));
        let ended = synced.and_then(|()| self.folder.record(&self.record));
        self.failed.clone().map_or(ended, Err)
    }
}
