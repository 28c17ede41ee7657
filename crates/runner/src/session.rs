//! What all commands that measure or observe have in common, from before their targets are opened to the complete
//! record: the run directory, the samples of the machine, and their sum.

use crate::run::Hooks;
use crate::sampling::{BackgroundSampling, Sampling, SamplingOptions};
use crate::targets::OpenTargets;
use fathom_analysis::rules;
use fathom_analysis::watch::Observed;
use fathom_machine::Roots;
use fathom_model::outcome::{Outcome, RecordKind};
use fathom_model::plan::JobPlan;
use fathom_model::progress::Sample;
use fathom_model::record::{Header, RECORD_VERSION};
use fathom_model::watch::{CommandRecord, Level, MachineSample, SamplingRecord};
use fathom_model::{Facts, RunRecord, escape, units};
use fathom_store::{
    DEFAULT_BYTES_MAX, DEFAULT_KEEP, EncodedSample, Reader, RunDir, Runs, Writer, Written,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RecordTo {
    Nowhere,
    /// In a new directory among the user's runs; if it cannot be begun, the run continues without a record.
    #[default]
    IfPossible,
    /// In this directory, or in a new one among the user's runs; if that fails, so does the run.
    Required(Option<String>),
}

impl RecordTo {
    /// What the options `--record` and `--no-record` mean.
    pub fn from_options(record: Option<&str>, no_record: bool) -> Self {
        match record {
            _ if no_record => Self::Nowhere,
            Some(dir) => Self::Required(Some(dir.to_string())),
            None => Self::IfPossible,
        }
    }

    /// Checks that the directory named by the user can become a run directory, and returns its future files, which must
    /// not be overwritten by results.
    pub fn check(&self) -> Result<Vec<String>, String> {
        let Self::Required(Some(dir)) = self else { return Ok(Vec::new()) };
        RunDir::check(dir)?;
        Ok(RunDir::FILES.map(|file| format!("{dir}/{file}")).into())
    }
}

/// The command line of this process; bytes that are not UTF-8 are escaped, as JSON cannot hold them.
pub fn command() -> Vec<String> {
    std::env::args_os().map(|arg| escape::invalid(arg.as_bytes())).collect()
}

pub fn new_header(kind: RecordKind, facts: Facts) -> Header {
    // Empty if /proc is not mounted.
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    Header {
        record_version: RECORD_VERSION,
        kind,
        run_id: uuid.trim().to_string(),
        fathom_version: env!("CARGO_PKG_VERSION").to_string(),
        command: command(),
        started_unix_ns: fathom_engine::clock::unix_ns(),
        facts,
        ..Header::default()
    }
}

/// Passes all samples of the machine in the run directory `dir` to `take`, and returns their sum, and that of a run's jobs.
pub fn stored(
    dir: &Path,
    mut take: impl FnMut(&Sample) -> Result<(), String>,
) -> Result<Observed, String> {
    let mut reader = Reader::open(dir)?;
    let mut observed = Observed::of(reader.watch().and_then(|sampling| sampling.view.as_ref()));
    while let Some(timed) = reader.forward()? {
        // Before its samplers are open, a run records its jobs alone.
        if timed.sample.machine != MachineSample::default() {
            observed.add(&timed.sample);
            take(&timed.sample)?;
        }
    }
    observed.known_stacks = reader.stacks()?.to_vec();
    // Only a run has jobs. What cannot be read of them is missing in its charts, no more.
    let mut reader = Reader::open(dir)?;
    while let Ok(Some((elapsed_ns, jobs))) = reader.forward_jobs()
        && !jobs.is_empty()
    {
        observed.jobs_over_time.add(elapsed_ns, &jobs);
    }
    Ok(observed)
}

#[derive(Default)]
enum Storage {
    #[default]
    Nowhere,
    /// Without a record yet. If dropped, it is removed.
    New(Box<RunDir>),
    Begun(Writer),
}

/// One measurement or observation: opened before its targets, begun with its record, and finished with the complete
/// one.
#[derive(Default)]
pub struct Session {
    storage: Storage,
    pub required: bool,
    background: BackgroundSampling,
    /// How a load was to be sampled, for one that ends before a sampler is open.
    unsampled: Option<SamplingRecord>,
    observed: Observed,
    without_sum: bool,
    elapsed_ns: u64,
}

impl Session {
    pub fn open(to: &RecordTo, notice: &mut dyn FnMut(&str)) -> Result<Self, String> {
        let named = match to {
            RecordTo::Nowhere => return Ok(Self::default()),
            RecordTo::IfPossible => None,
            RecordTo::Required(named) => named.as_deref(),
        };
        let required = matches!(to, RecordTo::Required(_));
        let now_unix_ns = fathom_engine::clock::unix_ns();
        if named.is_none() {
            prune(now_unix_ns, notice);
        }
        let dir = optional(RunDir::create(named, now_unix_ns), required, notice)?;
        let storage = dir.map_or(Storage::Nowhere, |dir| Storage::New(Box::new(dir)));
        Ok(Self { storage, required, ..Self::default() })
    }

    /// Opens the run directory of an interrupted experiment; also returns the windows that it holds.
    pub fn resume<W: DeserializeOwned>(dir: &Path) -> Result<(Self, Vec<W>), String> {
        let (dir, windows) = RunDir::reopen(dir)?;
        let storage = Storage::New(Box::new(dir));
        Ok((Self { storage, required: true, ..Self::default() }, windows))
    }

    /// Opens a session without a load: creates the run directory, starts the samplers, and begins the record, which is
    /// returned.
    pub fn observe(
        options: &SamplingOptions,
        to: &RecordTo,
        notice: &mut dyn FnMut(&str),
    ) -> Result<(Self, RunRecord), String> {
        let facts = Facts { host: fathom_machine::host(&Roots::default()), ..Facts::default() };
        let header = new_header(RecordKind::Watch, facts);
        let mut session = Self::open(to, notice)?;
        session.background = BackgroundSampling::start(options)?;
        session.observed = Observed::of(options.view.as_ref());
        let header = Header { sampling: session.sampling().cloned(), ..header };
        let record = RunRecord { header, ..RunRecord::default() };
        let header = record.header.unfinished();
        session.begin(&RunRecord { header, ..record.clone() }, notice)?;
        Ok((session, record))
    }

    /// The same without the sum of its samples, for who shows only single ones; there are no findings then.
    pub fn without_sum(self) -> Self {
        Self { without_sum: true, ..self }
    }

    /// Writes the first version of the record, with the outcome of a killed run.
    pub fn begin(
        &mut self,
        unfinished: &impl Serialize,
        notice: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        self.storage = match std::mem::take(&mut self.storage) {
            Storage::New(dir) => {
                let begun = dir.begin(unfinished).map_err(|e| format!("cannot write {e}"));
                optional(begun, self.required, notice)?
                    .map_or(Storage::Nowhere, |dir| Storage::Begun(Writer::start(dir)))
            }
            other => other,
        };
        Ok(())
    }

    pub(crate) fn sample_load(&mut self, level: Level, jobs: &[JobPlan], devices: Vec<String>) {
        let unsampled = SamplingRecord { level, ..SamplingRecord::default() };
        self.unsampled = Some(unsampled).filter(|_| level != Level::Off);
        self.background = BackgroundSampling::beside_load(level, jobs, devices);
    }

    fn writer(&self) -> Option<&Writer> {
        match &self.storage {
            Storage::Begun(writer) => Some(writer),
            _ => None,
        }
    }

    /// The run directory, once the record has begun.
    pub fn record_dir(&self) -> Option<&Path> {
        self.writer().map(Writer::path)
    }

    pub fn sampling(&self) -> Option<&SamplingRecord> {
        self.background.running.as_ref().map(Sampling::record)
    }

    /// Whether a sampler panicked, so that no more samples arrive.
    pub fn has_panicked(&self) -> bool {
        self.background.running.as_ref().is_some_and(Sampling::has_panicked)
    }

    pub fn is_recording(&self) -> bool {
        self.writer().is_some_and(|writer| writer.failed().is_none())
    }

    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Whether the record's disk keeps up. If not, intervals are merged into a later sample.
    pub(crate) fn has_room(&self) -> bool {
        self.writer().is_none_or(Writer::has_room)
    }

    pub(crate) fn window(&self, window: &impl Serialize) {
        if let Some(writer) = self.writer() {
            writer.write(EncodedSample::window(window));
        }
    }

    /// Records a sample, and adds its jobs to their sum. After a failed write no more are written, because they may refer
    /// to lost stacks.
    pub(crate) fn record(&mut self, sample: &Sample) {
        self.observed.jobs_over_time.add(sample.elapsed_ns, &sample.jobs);
        if let Some(writer) = self.writer() {
            writer.write(EncodedSample::of(sample));
        }
    }

    /// Records and returns the next sample, if one arrives within `patience`.
    pub fn next(&mut self, patience: Duration) -> Option<Sample> {
        self.next_as(patience, |sample, _| sample)
    }

    /// The same; `complete` gets what is recorded, and the origin of its time.
    pub(crate) fn next_as(
        &mut self,
        patience: Duration,
        complete: impl FnOnce(Sample, Instant) -> Sample,
    ) -> Option<Sample> {
        if !self.has_room() {
            thread::sleep(patience);
            return None;
        }
        let sample = self.background.next(patience)?;
        let began = self.background.running.as_ref()?.began();
        Some(self.add(sample, |sample| complete(sample, began)))
    }

    fn add(&mut self, sample: Sample, complete: impl FnOnce(Sample) -> Sample) -> Sample {
        self.elapsed_ns = sample.elapsed_ns;
        let sample = complete(sample);
        if !self.without_sum {
            self.observed.add(&sample);
        }
        self.record(&sample);
        sample
    }

    /// Why samples are no longer recorded; returned once.
    pub fn take_error(&mut self) -> Option<String> {
        let Storage::Begun(writer) = &mut self.storage else { return None };
        writer
            .take_error()
            .map(|error| format!("samples are no longer recorded: {}", advised(error)))
    }

    /// Reports what went wrong since the last call.
    pub(crate) fn report(&mut self, notice: &mut dyn FnMut(&str)) {
        if let Some(error) = self.background.take_error() {
            notice(&format!("the machine is not sampled: {error}"));
        }
        self.take_error().iter().for_each(|error| notice(error));
    }

    /// Ends sampling: records the remaining samples, as `complete` makes them, and returns them and how the machine was
    /// sampled.
    pub(crate) fn stop_sampling(
        &mut self,
        mut complete: impl FnMut(Sample, Instant) -> Sample,
    ) -> (Vec<Sample>, Option<SamplingRecord>) {
        let Some(began) = self.background.running.as_ref().map(Sampling::began) else {
            return (Vec::new(), self.unsampled.take());
        };
        let (rest, sampling) = self.background.stop();
        let rest = rest.into_iter().map(|sample| self.add(sample, |one| complete(one, began)));
        (rest.collect(), sampling)
    }

    /// Ends an observation of `command`, if any, which a signal `interrupted`, if so: completes `record`, and returns the
    /// remaining samples.
    pub fn end(
        &mut self,
        record: &mut RunRecord,
        command: Option<CommandRecord>,
        interrupted: Option<&str>,
    ) -> Vec<Sample> {
        let (rest, sampling) = self.stop_sampling(|sample, _| sample);
        let header = &mut record.header;
        header.elapsed_ns = self.elapsed_ns;
        header.sampling = sampling.map(|sampling| SamplingRecord { command, ..sampling });
        header.outcome = interrupted.map_or(Outcome::Finished, Outcome::interrupted);
        if let Some(because) = self.writer().filter(|_| self.required).and_then(Writer::failed) {
            header.outcome = Outcome::Failed { because: advised(because) };
        }
        if !self.without_sum {
            record.header.findings = rules::judge(record, &self.observed);
        }
        rest
    }

    /// Writes the remaining samples and the complete `record`, whose `header` notes lost samples. A record that has begun
    /// and cannot be completed is an error. Also returns the error of targets that could not be `closed`. Blocks while the
    /// record's disk stalls.
    pub fn finish<R: Serialize>(
        mut self,
        record: &mut R,
        header: impl FnOnce(&mut R) -> &mut Header,
        closed: Result<(), String>,
        notice: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        let Storage::Begun(writer) = &mut self.storage else { return closed };
        let slow = |dir: &Path| notice(&format!("waiting for the disk of {}", dir.display()));
        let Written { elapsed_ns, error: lost } = writer.finish(slow);
        let header = header(record);
        header.samples_lost.clone_from(&lost);
        let is_cut = self.required && header.kind == RecordKind::Watch;
        if let Some(error) = lost.as_ref().filter(|_| is_cut) {
            header.elapsed_ns = elapsed_ns;
            header.outcome = Outcome::Failed { because: advised(error.clone()) };
        }
        // Some disks report a failed write only at the sync.
        let synced = writer.run_dir().sync().map_err(|e| format!("cannot write {e}"));
        let ended = synced.and(writer.run_dir().record(record));
        self.take_error().iter().for_each(|error| notice(error));
        let whole = ended.and(lost.map_or(Ok(()), Err));
        let whole = whole.map_err(|error| format!("the record is incomplete: {error}"));
        let errors: Vec<String> = [closed, whole].into_iter().filter_map(Result::err).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }
}

/// A measurement `H` whose targets are open, with a place for its record: a run, a search or an experiment.
pub struct Measuring<H> {
    pub(crate) targets: OpenTargets,
    pub(crate) session: Session,
    pub(crate) how: H,
}

impl<H> Measuring<H> {
    pub fn targets(&self) -> &OpenTargets {
        &self.targets
    }

    pub fn record_dir(&self) -> Option<&Path> {
        self.session.record_dir()
    }

    pub fn observed(&self) -> &Observed {
        self.session.observed()
    }

    /// Closes the targets, which is done before a result is printed: its reader may be slow.
    pub fn close_targets(&mut self) -> Result<(), String> {
        self.targets.close()
    }

    /// Closes the targets that are still open; for the rest see [`Session::finish`].
    pub fn finish<R: Serialize>(
        mut self,
        record: &mut R,
        header: impl FnOnce(&mut R) -> &mut Header,
        hooks: &mut dyn Hooks,
    ) -> Result<(), String> {
        let closed = self.targets.close();
        self.session.finish(record, header, closed, &mut |text: &str| hooks.notice(text))
    }
}

fn advised(error: String) -> String {
    format!(
        "{error}; earlier samples were recorded; free some space, or use --record to name another directory"
    )
}

fn prune(now_unix_ns: u64, notice: &mut dyn FnMut(&str)) {
    // What cannot be read or removed now is reported by `fathom runs`.
    let Ok(Some(runs)) = Runs::open() else { return };
    let pruned = runs.prune(DEFAULT_KEEP, DEFAULT_BYTES_MAX, now_unix_ns);
    let removed = pruned.unwrap_or_default().removed;
    if !removed.is_empty() {
        let days = DEFAULT_KEEP.as_secs() / 86_400;
        let size = units::bytes(DEFAULT_BYTES_MAX);
        notice(&format!(
            "removed the {} oldest runs (limits: {days} days, {size}); use --record=DIR to keep a run elsewhere",
            removed.len()
        ));
    }
}

/// Returns the error of what is `required`; otherwise reports it.
fn optional<T>(
    made: Result<T, String>,
    required: bool,
    notice: &mut dyn FnMut(&str),
) -> Result<Option<T>, String> {
    match made {
        Err(error) if !required => {
            notice(&format!("no record is written: {error}"));
            Ok(None)
        }
        made => made.map(Some),
    }
}
