//! The machine beside a search: a record of its own in the folder `watch` of the search's record.

use crate::folder::Folder;
use crate::session::Session;
use crate::session::beside::Beside;
use fathom_model::watch::Level;
use fathom_model::{Plan, RunRecord};
use std::time::Instant;

/// Watching that goes on beside a search, or none.
pub struct Watched {
    beside: Beside,
    /// Where samples go, and what its record says.
    kept: Option<(Folder, RunRecord)>,
    began: Instant,
}

impl Watched {
    /// Watches as `level` says where `search` is kept. Where that is not possible, the search goes on
    /// without.
    pub fn start(level: Level, search: Option<&Folder>, session: &Session) -> Self {
        let kept = search.filter(|_| level != Level::Off).and_then(|search| {
            Folder::at(&search.path().join("watch"))
                .map_err(|error| eprintln!("fathom: the machine is not watched: {error}"))
                .ok()
        });
        let record = || session.new_record(&Plan::default());
        let kept = kept.map(|folder| (folder, record()));
        let level = if kept.is_some() { level } else { Level::Off };
        Self { beside: Beside::new(level, session), kept, began: Instant::now() }
    }

    /// Keeps what has been seen since it was asked last.
    pub fn keep(&mut self) {
        while let Some(sample) = self.beside.next() {
            let Some((folder, _)) = &mut self.kept else { continue };
            if let Err(error) = folder.watched(&sample) {
                eprintln!("fathom: what is seen of the machine is no longer kept: {error}");
                self.kept = None;
            }
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// When its record cannot be written.
    pub fn finish(mut self) -> Result<(), String> {
        self.keep();
        let (samples, told) = self.beside.stop();
        let Some((mut folder, record)) = self.kept else { return Ok(()) };
        for sample in &samples {
            folder.watched(sample).map_err(|error| {
                format!("samples could not be written to {}: {error}", folder.path().display())
            })?;
        }
        let elapsed_ns = self.began.elapsed().as_nanos() as u64;
        folder.record(&RunRecord { elapsed_ns, watch: told.map(|told| told.record), ..record })
    }
}
