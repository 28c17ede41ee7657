//! The machine beside a search: a record of its own in the folder `watch` of the search's record.

use crate::folder::{Encoded, Folder, Writer};
use crate::session::Session;
use crate::session::beside::Beside;
use fathom_model::watch::Level;
use fathom_model::{Plan, RunRecord};
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
    pub fn start(level: Level, search: Option<&Folder>, session: &Session) -> Self {
        let kept = search.filter(|_| level != Level::Off).and_then(|search| {
            let folder = Folder::at(&search.path().join("watch")).map_err(|e| e.to_string());
            folder
                .and_then(Writer::start)
                .map_err(|error| eprintln!("fathom: the machine is not watched: {error}"))
                .ok()
        });
        let record = || session.new_record(&Plan::default());
        let kept = kept.map(|writer| (writer, record()));
        let level = if kept.is_some() { level } else { Level::Off };
        Self { beside: Beside::new(level, session), kept, began: Instant::now() }
    }

    /// Keeps what has been seen since it was asked last, while the disk keeps up.
    pub fn keep(&mut self) {
        while self.kept.as_ref().is_none_or(|(writer, _)| writer.has_room())
            && let Some(sample) = self.beside.next()
        {
            if let Some((writer, _)) = &self.kept {
                writer.write(Encoded::of(&sample));
            }
        }
        if let Some(error) = self.kept.as_ref().and_then(|(writer, _)| writer.failed()) {
            eprintln!("fathom: what is seen of the machine is no longer kept: {error}");
            self.kept = None;
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// When its record cannot be written.
    pub fn finish(mut self) -> Result<(), String> {
        self.keep();
        let (samples, told) = self.beside.stop();
        let Some((mut writer, record)) = self.kept else { return Ok(()) };
        samples.iter().for_each(|sample| writer.write(Encoded::of(sample)));
        let written = writer.finish();
        let elapsed_ns = self.began.elapsed().as_nanos() as u64;
        let watch = told.map(|told| told.record);
        let record = RunRecord { elapsed_ns, watch, samples_lost: written.error.clone(), ..record };
        let recorded = writer.folder().record(&record);
        written.error.map_or(recorded, Err)
    }
}
