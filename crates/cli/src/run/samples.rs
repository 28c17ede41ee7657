//! What is kept of a run while it goes on.

use crate::folder::{Encoded, Folder, Writer};
use fathom_model::progress::{JobSample, Progress, Sample};
use fathom_model::watch::MachineSample;
use fathom_model::{Dir, Histogram, PerDir, RunRecord};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two lines of `samples.ndjson`.
const SAMPLE: Duration = Duration::from_secs(1);

/// The run's samples.
pub struct Samples {
    /// `None` where no record is kept.
    writer: Option<Writer>,
    /// Whether it was said that no more are kept.
    said: bool,
    next: Instant,
    before: Vec<PerDir<Histogram>>,
}

impl Samples {
    /// Those that go into `folder`, where there is one.
    ///
    /// # Errors
    /// When no thread can be made that writes them.
    pub fn new(folder: Option<Folder>) -> Result<Self, String> {
        let writer = folder.map(Writer::start).transpose()?;
        Ok(Self { writer, said: false, next: Instant::now() + SAMPLE, before: Vec::new() })
    }

    /// Whether there is a folder.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        self.writer.is_some()
    }

    /// Whether the folder's disk keeps up. Where it does not, what was seen is better left where it is: it is joined
    /// with what comes next.
    #[must_use]
    pub fn have_room(&self) -> bool {
        self.writer.as_ref().is_none_or(Writer::has_room)
    }

    /// Appends one where a second has passed.
    pub fn keep_if_due(&mut self, progress: &Progress) {
        let late = Instant::now().checked_duration_since(self.next);
        if let Some(late) = late.filter(|_| self.have_room()) {
            self.next += SAMPLE * (1 + late.as_secs() as u32);
            self.keep(progress, MachineSample::default());
        }
    }

    /// Appends what happened since the last sample, and the machine as it is now.
    pub fn keep(&mut self, progress: &Progress, machine: MachineSample) {
        let Some(writer) = &self.writer else { return };
        self.before.resize_with(progress.jobs.len(), PerDir::default);
        let jobs = progress.jobs.iter().zip(&mut self.before).map(|(job, before)| {
            let clat = PerDir::from_fn(|dir: Dir| job.clat[dir].since(&before[dir]));
            before.clone_from(&job.clat);
            JobSample { phase: job.phase, dirs: job.dirs, in_flight: job.in_flight, clat }
        });
        writer.write(Encoded::of(&Sample {
            elapsed_ns: progress.elapsed_ns,
            unix_ns: fathom_engine::clock::unix_ns(),
            jobs: jobs.collect(),
            machine,
        }));
    }

    /// Says once where the folder can no longer be written: it is given up, not the run.
    pub fn complain(&mut self) {
        if let Some(error) = self.writer.as_ref().filter(|_| !self.said).and_then(Writer::failed) {
            self.say(&error);
        }
    }

    fn say(&mut self, error: &str) {
        eprintln!("fathom: samples are no longer kept: {error}");
        self.said = true;
    }

    /// Waits until all is written, and writes the record, which says where samples are lost.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn end(mut self, record: &mut RunRecord) -> Result<(), String> {
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        record.samples_lost = writer.finish().error;
        if let (Some(error), false) = (&record.samples_lost, self.said) {
            self.say(error);
        }
        writer.folder().record(record)
    }

    /// The folder, where there is one.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        self.writer.as_ref().map(|writer| writer.path().to_path_buf())
    }
}
