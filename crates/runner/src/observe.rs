//! Samples and records the machine without running a load.

use crate::recording::{NewRecording, RecordTo, Recording};
use crate::sampling::{Sampling, SamplingOptions};
use fathom_analysis::rules;
use fathom_analysis::watch::Observed;
use fathom_machine::Roots;
use fathom_model::outcome::{Outcome, RecordKind};
use fathom_model::progress::Sample;
use fathom_model::record::{Header, RECORD_VERSION};
use fathom_model::watch::{CommandRecord, MachineSample, SamplingRecord};
use fathom_model::{Facts, RunRecord};
use fathom_store::Reader;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The header of a record that begins now.
pub fn new_header(kind: RecordKind, facts: Facts) -> Header {
    // Empty if /proc is not mounted.
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    Header {
        record_version: RECORD_VERSION,
        kind,
        run_id: uuid.trim().to_string(),
        fathom_version: env!("CARGO_PKG_VERSION").to_string(),
        command: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
        started_unix_ns: fathom_engine::clock::unix_ns(),
        facts,
        ..Header::default()
    }
}

/// A record of this machine, without results.
pub fn new_record() -> RunRecord {
    let facts = Facts { host: fathom_machine::host(&Roots::default()), ..Facts::default() };
    RunRecord { header: new_header(RecordKind::Watch, facts), ..RunRecord::default() }
}

/// `record` as it is stored until the observation ends.
pub fn unfinished(record: &RunRecord) -> RunRecord {
    RunRecord { header: record.header.unfinished(), ..record.clone() }
}

/// All samples of the machine in the run directory `dir`.
pub fn stored(dir: &Path) -> Result<Observed, String> {
    let mut reader = Reader::open(dir)?;
    let mut observed = Observed::default();
    while let Some(timed) = reader.forward()? {
        // Before its samplers are open, a run records its jobs alone.
        if timed.sample.machine != MachineSample::default() {
            observed.add(&timed.sample);
        }
    }
    observed.known_stacks = reader.stacks()?.to_vec();
    Ok(observed)
}

/// Samplers whose samples are recorded.
pub struct Observer {
    sampling: Sampling,
    recording: Recording,
    record: RunRecord,
    /// `None` where nobody wants the verdict.
    observed: Option<Observed>,
}

/// The end of an observation.
pub struct Observation {
    /// All samples.
    pub observed: Observed,
    /// The complete record.
    pub record: RunRecord,
    /// Why part of it could not be written.
    pub written: Result<(), String>,
}

impl Observer {
    /// Creates the run directory and starts the samplers.
    pub fn start(options: &SamplingOptions, to: &RecordTo) -> Result<Self, String> {
        // Nothing is optional here, so there is nothing to report.
        let ignore = &mut |_: &str| ();
        let mut record = new_record();
        let new = NewRecording::create(to, ignore)?;
        let sampling = Sampling::start(options)?;
        record.header.sampling = Some(sampling.record().clone());
        let recording = new.begin(&unfinished(&record), ignore)?;
        Ok(Self { sampling, recording, record, observed: Some(Observed::default()) })
    }

    /// Takes samples for a view of each, without a verdict on all of them.
    pub fn without_verdict(self) -> Self {
        Self { observed: None, ..self }
    }

    /// The run directory.
    pub fn record_dir(&self) -> Option<&Path> {
        self.recording.path()
    }

    /// How the machine is sampled.
    pub fn watch(&self) -> &SamplingRecord {
        self.sampling.record()
    }

    /// Whether a sampler panicked, so that no more samples arrive.
    pub fn has_panicked(&self) -> bool {
        self.sampling.has_panicked()
    }

    /// Whether samples are being recorded.
    pub fn is_recording(&self) -> bool {
        self.recording.is_kept() && !self.recording.has_failed()
    }

    /// Records and returns the next sample, if one arrives within `patience`. While the record's disk does not keep up,
    /// intervals are merged into a later sample.
    pub fn next(&mut self, patience: Duration) -> Option<Sample> {
        if !self.recording.has_room() {
            thread::sleep(patience);
            return None;
        }
        let sample = self.sampling.next(patience)?;
        self.observed.iter_mut().for_each(|observed| observed.add(&sample));
        self.recording.sample(&sample);
        Some(sample)
    }

    /// Why samples are no longer recorded; returned once.
    pub fn complaint(&mut self) -> Option<String> {
        self.recording.complaint().map(what_to_do)
    }

    /// Ends the observation, with the `command` that was observed and the signal that `interrupted` it, if any. `notice`
    /// is called if the record's disk is slow.
    pub fn finish(
        mut self,
        command: Option<CommandRecord>,
        interrupted: Option<&str>,
        notice: &mut dyn FnMut(&str),
    ) -> Observation {
        let (rest, watch) = self.sampling.stop();
        let mut observed = self.observed.unwrap_or_default();
        for sample in &rest {
            observed.add(sample);
            self.recording.sample(sample);
        }
        let written = self.recording.flush(notice);
        let lost = written.error.map(what_to_do);
        self.record.header.elapsed_ns = written.elapsed_ns;
        self.record.header.sampling = Some(SamplingRecord { command, ..watch });
        self.record.header.outcome = match (&lost, interrupted) {
            (Some(because), _) => Outcome::Failed { because: because.clone() },
            (None, Some(by)) => Outcome::interrupted(by),
            (None, None) => Outcome::Finished,
        };
        self.record.header.findings = rules::judge(&self.record, &observed);
        let ended = self.recording.end(&self.record, notice);
        Observation { observed, record: self.record, written: lost.map_or(ended, Err) }
    }
}

fn what_to_do(error: String) -> String {
    format!(
        "{error}; earlier samples were recorded; free some space, or use --record to name another directory"
    )
}
