//! What is kept of a run while it goes on.

use crate::folder::behind::Behind;
use crate::folder::{Encoded, Folder};
use fathom_model::progress::{JobSample, Progress, Sample};
use fathom_model::watch::MachineSample;
use fathom_model::{Dir, Histogram, PerDir};
use std::time::{Duration, Instant};

/// Between two lines of `samples.ndjson`.
const SAMPLE: Duration = Duration::from_secs(1);

/// The run's samples.
pub struct Samples {
    /// `None` where no record is kept.
    behind: Option<Behind>,
    told: bool,
    next: Instant,
    before: Vec<PerDir<Histogram>>,
}

impl Samples {
    /// Those that go into `folder`, where there is one.
    ///
    /// # Errors
    /// When no thread can be made that writes them.
    pub fn new(folder: Option<Folder>) -> Result<Self, String> {
        let behind = folder.map(Behind::start).transpose();
        let behind = behind.map_err(|e| format!("cannot start to keep samples: {e}"))?;
        Ok(Self { behind, told: false, next: Instant::now() + SAMPLE, before: Vec::new() })
    }

    /// Whether there is a folder.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        self.behind.is_some()
    }

    /// Appends one where a second has passed.
    pub fn keep_if_due(&mut self, progress: &Progress) {
        if Instant::now() >= self.next {
            self.next += SAMPLE;
            self.keep(progress, MachineSample::default());
        }
    }

    /// Appends what happened since the last sample, and the machine as it is now. A folder that can no longer
    /// be written is given up, not the run.
    pub fn keep(&mut self, progress: &Progress, machine: MachineSample) {
        if self.told || self.behind.is_none() {
            return;
        }
        let encoded = Encoded::of(&self.sample(progress, machine));
        let encoded = encoded.map_err(|e| format!("cannot write a sample: {e}"));
        let kept = encoded.and_then(|encoded| match &self.behind {
            Some(behind) => behind.write(encoded),
            None => Ok(()),
        });
        self.tell(kept);
    }

    fn sample(&mut self, progress: &Progress, machine: MachineSample) -> Sample {
        self.before.resize_with(progress.jobs.len(), PerDir::default);
        let jobs = progress.jobs.iter().zip(&mut self.before).map(|(job, before)| {
            let clat = PerDir::from_fn(|dir: Dir| job.clat[dir].since(&before[dir]));
            before.clone_from(&job.clat);
            JobSample { phase: job.phase, dirs: job.dirs, in_flight: job.in_flight, clat }
        });
        Sample {
            elapsed_ns: progress.elapsed_ns,
            unix_ns: fathom_engine::clock::unix_ns(),
            jobs: jobs.collect(),
            machine,
        }
    }

    /// Waits until all is written, and gives the folder back.
    pub fn end(mut self) -> Option<Folder> {
        let (folder, written) = self.behind.take()?.end();
        self.tell(written);
        folder
    }

    fn tell(&mut self, kept: Result<(), String>) {
        if let (Err(error), false) = (kept, self.told) {
            eprintln!("fathom: samples are no longer written: {error}");
            self.told = true;
        }
    }
}
