//! fio's logs of a run, appended to during the run.

use crate::output::Destination;
use fathom_engine::{EntryReceiver, EntrySender, entries};
use fathom_model::plan::{LogKind, Plan};
use fathom_model::progress::{JobTotals, Progress};
use fathom_model::{Dir, PerDir};
use fathom_report::fio_logs::{JobLog, TotalLog, append_entry};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The logs of all jobs.
#[derive(Default)]
pub struct Logs {
    jobs: BTreeMap<usize, JobLog>,
    /// `--bandwidth-log`, and the indices of its files.
    total: Option<(TotalLog, PerDir<usize>)>,
    /// Indices into `files`.
    index: BTreeMap<(usize, LogKind), usize>,
    files: Vec<LogFile>,
    writers: Vec<JoinHandle<()>>,
    status: Arc<WriterStatus>,
}

/// What the writers of entries of single I/Os and the run have in common.
#[derive(Default)]
struct WriterStatus {
    is_over: AtomicBool,
    errors: Mutex<Vec<String>>,
}

struct LogFile {
    path: String,
    file: File,
    /// A file that cannot be written is complained about once.
    failed: bool,
}

impl Logs {
    /// Creates the logs of `plan`, and of all jobs together at `total`, empty; none may be a file or device `used` by
    /// the run.
    ///
    /// # Errors
    /// The log that cannot be written.
    pub fn create<'a>(
        plan: &Plan,
        total: Option<&str>,
        used: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Self, String> {
        let mut logs = Self::default();
        // Nothing is emptied before all can be written.
        let mut places: Vec<(String, Destination)> = Vec::new();
        if let Some(prefix) = total {
            for dir in Dir::ALL {
                let path = format!("{prefix}-{dir}_bw.log");
                let place = place(&path, used.clone())?;
                places.push((path, place));
            }
            logs.total = Some((TotalLog::default(), PerDir::from_fn(|dir| dir as usize)));
        }
        for (number, job) in plan.jobs.iter().enumerate() {
            let Some(log) = JobLog::new(job) else { continue };
            logs.jobs.insert(number, log);
            for (kind, path) in job.logs.iter().flat_map(fathom_model::plan::Logs::files) {
                let at = places.iter().position(|(known, _)| *known == path);
                logs.index.insert((number, kind), at.unwrap_or(places.len()));
                if at.is_none() {
                    let place = place(&path, used.clone())?;
                    places.push((path, place));
                }
            }
        }
        logs.files = places.into_iter().map(LogFile::create).collect::<Result<_, _>>()?;
        Ok(logs)
    }

    /// Starts the writer of the entries of job `number` of `plan`; returns what takes them.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_writer(&mut self, plan: &Plan, number: usize) -> Result<EntrySender, String> {
        let of_job = self
            .index
            .iter()
            .filter(|((job, kind), _)| *job == number && *kind != LogKind::Histogram);
        let files = of_job.map(|((_, kind), at)| Ok((*kind, self.files[*at].try_clone()?)));
        let (sender, receiver) = entries();
        let (status, plan) = (Arc::clone(&self.status), plan.jobs[number].logs.clone());
        let start = |files: Vec<(LogKind, LogFile)>| {
            let plan = plan.unwrap_or_default();
            let write = move || write_entries(&plan, files, &receiver, &status);
            std::thread::Builder::new().name("log-writer".into()).spawn(write)
        };
        let writer = files.collect::<io::Result<Vec<_>>>().and_then(start);
        self.writers.push(writer.map_err(|error| {
            format!("cannot start the writer of a log: {error}; set log_avg_msec, or lower numjobs")
        })?);
        Ok(sender)
    }

    /// Appends what is due; returns the errors that are new, and the time until the next line is due.
    pub fn take(&mut self, totals: &[(usize, JobTotals)]) -> (Vec<String>, Duration) {
        let unix_ms = fathom_engine::clock::unix_ns() / 1_000_000;
        let mut errors = self.status.take_errors();
        let mut wait_ns = u64::MAX;
        for (number, totals) in totals {
            let Some(log) = self.jobs.get_mut(number) else { continue };
            for (kind, line) in log.lines(totals, unix_ms) {
                let file = self.index.get(&(*number, kind)).map(|at| &mut self.files[*at]);
                errors.extend(file.and_then(|file| file.append(&line)));
            }
            wait_ns = wait_ns.min(log.wait_ns(totals).unwrap_or(u64::MAX));
        }
        (errors, Duration::from_nanos(wait_ns))
    }

    /// Appends what is due of the log of all jobs together; returns the errors that are new.
    pub fn take_total(&mut self, progress: &Progress) -> Vec<String> {
        let Some((log, index)) = &mut self.total else { return Vec::new() };
        let lines = log.lines(progress).into_iter();
        lines.filter_map(|(dir, line)| self.files[index[dir]].append(&line)).collect()
    }

    /// Waits until all entries of the workers that ended are written; returns the errors that are new.
    pub fn finish(&mut self) -> Vec<String> {
        self.status.is_over.store(true, Ordering::Release);
        for writer in self.writers.drain(..) {
            if writer.join().is_err() {
                self.status.add_error("a log is incomplete: its writer failed".to_string());
            }
        }
        self.status.take_errors()
    }
}

impl WriterStatus {
    fn add_error(&self, error: String) {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).push(error);
    }

    fn take_errors(&self) -> Vec<String> {
        std::mem::take(&mut self.errors.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Writes the entries of one job to its files until none follow.
fn write_entries(
    plan: &fathom_model::plan::Logs,
    mut files: Vec<(LogKind, LogFile)>,
    receiver: &EntryReceiver,
    status: &WriterStatus,
) {
    let mut text = String::new();
    while let Some(entries) = receiver.next(|| status.is_over.load(Ordering::Acquire)) {
        for (kind, file) in &mut files {
            text.clear();
            entries.iter().for_each(|entry| append_entry(&mut text, plan, *kind, entry));
            file.append(&text).into_iter().for_each(|error| status.add_error(error));
        }
        receiver.give_back(entries);
    }
}

/// Where the log `path` goes.
fn place<'a>(path: &str, used: impl Iterator<Item = &'a str>) -> Result<Destination, String> {
    Destination::open(path, used).map_err(|why| {
        let why = why.strip_prefix(&format!("--output={path}: ")).unwrap_or(&why);
        format!("cannot write the log {path}: {why}")
    })
}

impl LogFile {
    fn create((path, place): (String, Destination)) -> Result<Self, String> {
        let file =
            place.emptied().map_err(|error| format!("cannot write the log {path}: {error}"))?;
        Ok(Self { path, file, failed: false })
    }

    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { path: self.path.clone(), file: self.file.try_clone()?, failed: false })
    }

    /// Appends lines at once, so that a killed run keeps them; returns the first error.
    fn append(&mut self, lines: &str) -> Option<String> {
        let error = self.file.write_all(lines.as_bytes()).err()?;
        let is_first = !std::mem::replace(&mut self.failed, true);
        is_first.then(|| format!("the log {} is incomplete: {error}", self.path))
    }
}
