//! The record of a watching, from its first sample to its end or to the first that cannot be kept.

use super::{UNFINISHED, new_record};
use crate::folder::behind::Behind;
use crate::folder::{Encoded, Folder};
use crate::session::watching::Watching;
use fathom_model::RunRecord;
use fathom_model::progress::Sample;
use fathom_model::watch::WatchRecord;
use std::path::Path;

/// A place for a record.
pub struct NewRecording {
    folder: Folder,
    record: RunRecord,
}

impl NewRecording {
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
        Ok(Self { folder, record })
    }

    /// Says in the record how it is watched.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn begin(self, watching: &Watching) -> Result<Recording, String> {
        let record = RunRecord { watch: Some(watching.record().clone()), ..self.record };
        self.folder
            .record(&RunRecord { interrupted: Some(UNFINISHED.into()), ..record.clone() })?;
        let behind = Behind::start(self.folder);
        let behind = behind.map_err(|e| format!("cannot start to keep samples: {e}"))?;
        Ok(Recording { behind, record, told: false })
    }
}

/// A record that is being written.
pub struct Recording {
    behind: Behind,
    record: RunRecord,
    told: bool,
}

impl Recording {
    /// Where it is.
    pub fn path(&self) -> &Path {
        self.behind.path()
    }

    /// Whether nothing is kept any more.
    pub fn has_failed(&self) -> bool {
        self.behind.failed().is_some()
    }

    /// Keeps a sample. After one that cannot be kept none is: those that follow may name stacks that
    /// were lost with it.
    ///
    /// # Errors
    /// Why one cannot be kept, once.
    pub fn keep(&mut self, sample: &Sample) -> Result<(), String> {
        if self.told {
            return Ok(());
        }
        let encoded = Encoded::of(sample).map_err(|e| format!("cannot write a sample: {e}"));
        let kept = encoded.and_then(|encoded| self.behind.write(encoded)).map_err(what_to_do);
        match &kept {
            Ok(()) => self.record.elapsed_ns = sample.elapsed_ns,
            Err(_) => self.told = true,
        }
        kept
    }

    /// Ends the record.
    ///
    /// # Errors
    /// What of it could not be kept.
    pub fn end(mut self, watched: WatchRecord) -> Result<(), String> {
        let (folder, kept) = self.behind.end();
        let kept = kept.map_err(what_to_do);
        self.record.watch = Some(watched);
        self.record.interrupted = kept.as_ref().err().cloned();
        let Some(folder) = folder else { return kept };
        // What a disk refuses after the write is known only then.
        let synced = folder.sync().map_err(|e| format!("cannot write {e}"));
        let ended = synced.and_then(|()| folder.record(&self.record));
        kept.and(ended)
    }
}

fn what_to_do(error: String) -> String {
    format!(
        "{error}; what was recorded until then is kept: make room, or name another folder with \
         --record"
    )
}
