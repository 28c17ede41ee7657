//! The record of a watching, from its first sample to its end or to the first that cannot be kept.

use super::{UNFINISHED, new_record};
use crate::records::slow_disk;
use crate::session::watching::Watching;
use fathom_model::RunRecord;
use fathom_model::progress::Sample;
use fathom_model::watch::WatchRecord;
use fathom_store::{EncodedSample, RunDir, Writer};
use std::path::Path;

/// A place for a record.
pub struct NewRecording {
    folder: RunDir,
    record: RunRecord,
}

impl NewRecording {
    /// Makes the folder `named`, or one among the user's runs.
    ///
    /// # Errors
    /// Names the folder and what is in the way.
    pub fn create(named: Option<&str>) -> Result<Self, String> {
        let record = new_record();
        let folder = RunDir::create(named, record.started_unix_ns)?;
        Ok(Self { folder, record })
    }

    /// Says in the record how it is watched.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn begin(self, watching: &Watching) -> Result<Recording, String> {
        let record = RunRecord { watch: Some(watching.record().clone()), ..self.record };
        let unfinished = RunRecord { interrupted: Some(UNFINISHED.into()), ..record.clone() };
        let folder = self.folder.begin(&unfinished).map_err(|e| format!("cannot write {e}"))?;
        Ok(Recording { writer: Writer::start(folder), record })
    }
}

/// A record that is being written.
pub struct Recording {
    writer: Writer,
    record: RunRecord,
}

impl Recording {
    /// Where it is.
    pub fn path(&self) -> &Path {
        self.writer.path()
    }

    /// Whether nothing is kept any more.
    pub fn has_failed(&self) -> bool {
        self.writer.failed().is_some()
    }

    /// Whether its disk keeps up. Where it does not, samples are better left where they are.
    pub fn has_room(&self) -> bool {
        self.writer.has_room()
    }

    /// Keeps a sample. After one that cannot be kept none is: those that follow may name stacks that
    /// were lost with it.
    pub fn keep(&mut self, sample: &Sample) {
        self.writer.write(EncodedSample::of(sample));
    }

    /// Why nothing is kept any more, once.
    pub fn complaint(&mut self) -> Option<String> {
        self.writer.complaint().map(what_to_do)
    }

    /// Ends the record, which a signal has `interrupted` where it came before its time; gives it, and what of it could not be kept.
    pub fn end(
        mut self,
        watched: WatchRecord,
        interrupted: Option<&str>,
    ) -> (RunRecord, Result<(), String>) {
        let written = self.writer.finish(slow_disk);
        let kept = written.error.map_or(Ok(()), |error| Err(what_to_do(error)));
        self.record.elapsed_ns = written.elapsed_ns;
        self.record.watch = Some(watched);
        self.record.interrupted = kept.as_ref().err().cloned().or(interrupted.map(String::from));
        let folder = self.writer.run_dir();
        // What a disk refuses after the write is known only then.
        let synced = folder.sync().map_err(|e| format!("cannot write {e}"));
        let ended = kept.and(synced.and_then(|()| folder.record(&self.record)));
        drop(folder);
        (self.record, ended)
    }
}

fn what_to_do(error: String) -> String {
    format!(
        "{error}; what was recorded until then is kept: make room, or name another folder with \
         --record"
    )
}
