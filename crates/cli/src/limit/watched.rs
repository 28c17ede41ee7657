//! The machine beside a search: a record of its own in the folder `watch` of the search's record.

use super::UNFINISHED;
use crate::records::slow_disk;
use crate::session::Session;
use crate::session::beside::Beside;
use crate::stdio::note;
use fathom_model::watch::Level;
use fathom_model::{Plan, RunRecord};
use fathom_store::{EncodedSample, NewDirs, RunDir, Writer};
use std::io;
use std::time::Instant;

/// Watching that goes on beside a search, or none.
pub struct Watched {
    beside: Beside,
    /// Where samples go, and what its record says.
    kept: Option<(Writer, RunRecord)>,
    began: Instant,
}

impl Watched {
    /// Watches as `level` says where `search` is kept. Where that is not possible, the search goes on
    /// without.
    pub fn start(level: Level, search: Option<&Writer>, session: &Session) -> Self {
        let kept = search.filter(|_| level != Level::Off).and_then(|search| {
            let record = session.new_record(&Plan::default());
            let folder = folder(search, &record);
            let folder = folder.map_err(|error| note!("the machine is not watched: {error}"));
            Some((Writer::start(folder.ok()?), record))
        });
        let level = if kept.is_some() { level } else { Level::Off };
        Self { beside: Beside::new(level, session), kept, began: Instant::now() }
    }

    /// Keeps what has been seen since it was asked last, while the disk keeps up.
    pub fn keep(&mut self) {
        while self.kept.as_ref().is_none_or(|(writer, _)| writer.has_room())
            && let Some(sample) = self.beside.next()
        {
            if let Some((writer, _)) = &self.kept {
                writer.write(EncodedSample::of(&sample));
            }
        }
        if let Some(error) = self.kept.as_mut().and_then(|(writer, _)| writer.complaint()) {
            note!("what is seen of the machine is no longer kept: {error}");
        }
    }

    /// Ends the watching.
    pub fn stop(mut self) -> Stopped {
        self.keep();
        let (samples, told) = self.beside.stop();
        let kept = self.kept.map(|(writer, record)| {
            samples.iter().for_each(|sample| writer.write(EncodedSample::of(sample)));
            let elapsed_ns = self.began.elapsed().as_nanos() as u64;
            (writer, RunRecord { elapsed_ns, watch: told.map(|told| told.record), ..record })
        });
        Stopped(kept)
    }
}

/// The folder `watch` in that of the search, with a record that says that it did not end.
fn folder(search: &Writer, record: &RunRecord) -> io::Result<RunDir> {
    let dir = search.run_dir().dir().make_dir("watch")?;
    let unfinished = RunRecord { interrupted: Some(UNFINISHED.into()), ..record.clone() };
    RunDir::within(dir, NewDirs::default())?.begin(&unfinished)
}

/// What was seen, on its way to the disk.
pub struct Stopped(Option<(Writer, RunRecord)>);

impl Stopped {
    /// Waits until all is written.
    ///
    /// # Errors
    /// What could not be.
    pub fn finish(self) -> Result<(), String> {
        let Some((mut writer, mut record)) = self.0 else { return Ok(()) };
        record.samples_lost = writer.finish(slow_disk).error;
        let recorded = writer.run_dir().record(&record);
        record.samples_lost.map_or(recorded, Err)
    }
}
