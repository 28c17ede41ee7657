//! What is kept of a run while it goes on.

use crate::records::slow_disk;
use crate::stdio::note;
use fathom_model::progress::{JobSample, Progress, Sample};
use fathom_model::{Dir, Histogram, PerDir, RunRecord};
use fathom_store::{EncodedSample, RunDir, Writer};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two lines of `samples.ndjson`.
const SAMPLE: Duration = Duration::from_secs(1);

/// The run's samples.
pub struct Samples {
    /// `None` where no record is kept.
    writer: Option<Writer>,
    next: Instant,
    before: Vec<PerDir<Histogram>>,
}

impl Samples {
    /// Those that go into `folder`, where there is one.
    #[must_use]
    pub fn new(folder: Option<RunDir>) -> Self {
        let writer = folder.map(Writer::start);
        Self { writer, next: Instant::now() + SAMPLE, before: Vec::new() }
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
            self.keep(progress);
        }
    }

    /// Appends what happened since the last sample.
    pub fn keep(&mut self, progress: &Progress) {
        let (elapsed_ns, unix_ns) = (progress.elapsed_ns, fathom_engine::clock::unix_ns());
        self.keep_watched(progress, Sample { elapsed_ns, unix_ns, ..Sample::default() });
    }

    /// The same, with the machine as it was at the time of `seen`.
    pub fn keep_watched(&mut self, progress: &Progress, seen: Sample) {
        let Some(writer) = &self.writer else { return };
        self.before.resize_with(progress.jobs.len(), PerDir::default);
        let jobs = progress.jobs.iter().zip(&mut self.before).map(|(job, before)| {
            let clat = PerDir::from_fn(|dir: Dir| job.clat[dir].since(&before[dir]));
            before.clone_from(&job.clat);
            JobSample { phase: job.phase, dirs: job.dirs, in_flight: job.in_flight, clat }
        });
        writer.write(EncodedSample::of(&Sample { jobs: jobs.collect(), ..seen }));
    }

    /// Says once where the folder can no longer be written: it is given up, not the run.
    pub fn complain(&mut self) {
        if let Some(error) = self.writer.as_mut().and_then(Writer::complaint) {
            note!("samples are no longer kept: {error}");
        }
    }

    /// Waits until all is written, and writes the record, which says where samples are lost.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn end(mut self, record: &mut RunRecord) -> Result<(), String> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        record.samples_lost = writer.finish(slow_disk).error;
        let recorded = writer.run_dir().record(record);
        self.complain();
        recorded
    }

    /// The folder, where there is one.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        self.writer.as_ref().map(|writer| writer.path().to_path_buf())
    }
}
