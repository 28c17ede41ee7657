//! fio's logs of a run, appended to during the run.

use crate::output::Destination;
use fathom_engine::{EntryReceiver, EntrySender, entries};
use fathom_machine::guard::{self, LogVersion};
use fathom_model::plan::{LogKind, Plan};
use fathom_model::progress::{JobTotals, Progress};
use fathom_model::{Dir, PerDir};
use fathom_report::fio_logs::{JobLog, TotalLog, append_entry, append_event, trace_head};
use fathom_spec::Job;
use fathom_store::Readers;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Default)]
pub struct LogWriters {
    jobs: BTreeMap<usize, JobLog>,
    /// `--bandwidth-log`, and the indices of its files.
    total: Option<(TotalLog, PerDir<usize>)>,
    /// Indices into `files`.
    index: BTreeMap<(usize, LogKind), usize>,
    files: Vec<Arc<Mutex<LogFile>>>,
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
    /// After the last write.
    version: Option<LogVersion>,
    /// Whether lines are compressed (`log_store_compressed`).
    compressed: bool,
    /// A file that cannot be written is complained about once.
    failed: bool,
}

impl LogWriters {
    /// Creates the logs of `plan`, and of all jobs together at `total`, empty; none may be a file or device `used` by
    /// the run. Existing files are replaced if the command line names them, or if they are fathom's own logs.
    pub fn create<'a>(
        plan: &Plan,
        total: Option<&str>,
        used: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Self, String> {
        let mut logs = Self::default();
        // Nothing is emptied before all can be written.
        let mut places: Vec<LogTarget> = Vec::new();
        if let Some(prefix) = total {
            for dir in Dir::ALL {
                places.push(LogTarget::open(format!("{prefix}-{dir}_bw.log"), true, used.clone())?);
            }
            logs.total = Some((TotalLog::default(), PerDir::from_fn(|dir| dir as usize)));
        }
        for (number, job) in plan.jobs.iter().enumerate() {
            let Some(log) = JobLog::new(job) else { continue };
            logs.jobs.insert(number, log);
            for (kind, path) in job.logs.iter().flat_map(fathom_model::plan::Logs::files) {
                let is_named = job.logs.as_ref().is_some_and(|logs| logs.is_named(kind));
                let at = places.iter().position(|place| place.path == path);
                if kind == LogKind::Trace && at.is_some() {
                    return Err(format!(
                        "several jobs would record their I/Os in {path}; set write_iolog for each, and remove numjobs"
                    ));
                }
                logs.index.insert((number, kind), at.unwrap_or(places.len()));
                if at.is_none() {
                    let compressed = kind != LogKind::Trace
                        && job.logs.as_ref().is_some_and(|logs| logs.compressed);
                    let place = LogTarget::open(path, is_named, used.clone())?;
                    places.push(LogTarget { compressed, ..place });
                }
            }
        }
        let create = |place| LogFile::create(place).map(|file| Arc::new(Mutex::new(file)));
        let heads: Vec<(usize, String)> =
            logs.traces().map(|(number, at)| (at, trace_head(&paths(plan, number)))).collect();
        logs.files = places.into_iter().map(create).collect::<Result<_, _>>()?;
        for (at, head) in heads {
            locked(&logs.files[at]).append(&head).map_or(Ok(()), Err)?;
        }
        Ok(logs)
    }

    /// The jobs with a trace, and the index of its file.
    fn traces(&self) -> impl Iterator<Item = (usize, usize)> {
        let of = |((job, kind), at): (&(usize, LogKind), &usize)| {
            (*kind == LogKind::Trace).then_some((*job, *at))
        };
        self.index.iter().filter_map(of)
    }

    /// Starts the writer of the entries of job `number` of `plan`; returns what takes them.
    pub fn start_writer(&mut self, plan: &Plan, number: usize) -> Result<EntrySender, String> {
        let averaged = plan.jobs[number].logs.as_ref().is_some_and(|logs| logs.average_ns > 0);
        let is_of_entries = |kind| match kind {
            LogKind::Trace => true,
            LogKind::Histogram => false,
            _ => !averaged,
        };
        let of_job =
            self.index.iter().filter(|((job, kind), _)| *job == number && is_of_entries(*kind));
        let files = of_job.map(|((_, kind), at)| (*kind, Arc::clone(&self.files[*at])));
        let files: Vec<_> = files.collect();
        let (sender, receiver) = entries();
        let status = Arc::clone(&self.status);
        let (paths, plan) = (paths(plan, number), plan.jobs[number].logs.clone());
        let plan = plan.unwrap_or_default();
        let write = move || write_entries(&plan, &paths, &files, &receiver, &status);
        let writer = std::thread::Builder::new().name("log-writer".into()).spawn(write);
        self.writers.push(writer.map_err(|error| {
            format!("cannot start the writer of a log: {error}; set log_avg_msec, or lower numjobs")
        })?);
        Ok(sender)
    }

    /// Appends lines that are due; returns new errors, and the time until the next line is due.
    pub fn take(&mut self, totals: &[(usize, JobTotals)]) -> (Vec<String>, Duration) {
        let unix_ms = fathom_engine::clock::unix_ns() / 1_000_000;
        let mut errors = self.status.take_errors();
        let mut wait_ns = u64::MAX;
        for (number, totals) in totals {
            let Some(log) = self.jobs.get_mut(number) else { continue };
            for (kind, line) in log.lines(totals, unix_ms) {
                let file = self.index.get(&(*number, kind)).map(|at| &self.files[*at]);
                errors.extend(file.and_then(|file| locked(file).append(&line)));
            }
            wait_ns = wait_ns.min(log.wait_ns(totals).unwrap_or(u64::MAX));
        }
        (errors, Duration::from_nanos(wait_ns))
    }

    /// Appends the lines due in the log of all jobs together; returns new errors.
    pub fn take_total(&mut self, progress: &Progress) -> Vec<String> {
        let Some((log, index)) = &mut self.total else { return Vec::new() };
        let lines = log.lines(progress).into_iter();
        lines.filter_map(|(dir, line)| locked(&self.files[index[dir]]).append(&line)).collect()
    }

    /// Waits until all entries of the workers that ended are written, and marks the logs as fathom's own; returns the
    /// errors that are new.
    pub fn finish(&mut self) -> Vec<String> {
        self.status.is_over.store(true, Ordering::Release);
        for writer in self.writers.drain(..) {
            if writer.join().is_err() {
                self.status.add_error("a log is incomplete: its writer failed".to_string());
            }
        }
        // Without a mark, the next run asks before it replaces the log, which is safe.
        for file in &self.files {
            let file = locked(file);
            let _ = file.version.map(|version| version.mark(&file.file));
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

/// The files of job `number`, by the indices of its regions.
fn paths(plan: &Plan, number: usize) -> Vec<String> {
    let regions = plan.jobs[number].regions.iter();
    regions.map(|region| plan.targets[region.target].path.clone()).collect()
}

/// Writes the entries of one job to its files until none follow.
fn write_entries(
    plan: &fathom_model::plan::Logs,
    paths: &[String],
    files: &[(LogKind, Arc<Mutex<LogFile>>)],
    receiver: &EntryReceiver,
    status: &WriterStatus,
) {
    let mut text = String::new();
    while let Some(entries) = receiver.next(|| status.is_over.load(Ordering::Acquire)) {
        for (kind, file) in files {
            text.clear();
            for entry in &entries {
                match kind {
                    LogKind::Trace => append_event(&mut text, paths, entry),
                    _ => append_entry(&mut text, plan, *kind, entry),
                }
            }
            let error = locked(file).append(&text);
            error.into_iter().for_each(|error| status.add_error(error));
        }
        receiver.give_back(entries);
    }
}

/// Writes the merged traces of `jobs` (`merge_blktrace_file`); none may be a file or device `used` by the run.
pub fn write_merged<'a>(
    jobs: &'a [Job],
    used: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), String> {
    for job in jobs {
        let Some(path) = &job.replaying.merge else { continue };
        let given = job.given.iter().rfind(|given| given.key == "merge_blktrace_file");
        let is_named = given.is_some_and(|given| given.place.is_none());
        let inputs = job.read_iolog.iter().map(String::as_str);
        let place = LogTarget::open(path.clone(), is_named, used.clone().chain(inputs))?;
        let mut file = LogFile::create(place)?;
        for trace in &job.traces {
            let written = file.file.write_all(&trace.merged);
            written.map_err(|error| format!("cannot write merge_blktrace_file={path}: {error}"))?;
        }
        // Without a mark, the next run asks before it replaces the file, which is safe.
        let _ = LogVersion::of(&file.file).map(|version| version.mark(&file.file));
    }
    Ok(())
}

struct LogTarget {
    path: String,
    to: Destination,
    /// Whether an existing file may be replaced, whatever it is.
    is_named: bool,
    compressed: bool,
}

impl LogTarget {
    /// The place of the log `path`, which the command line names or a job file. Nothing is changed yet.
    fn open<'a>(
        path: String,
        is_named: bool,
        used: impl Iterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let to = Destination::open(&path, used).map_err(|why| {
            let why = why.strip_prefix(&format!("--output={path}: ")).unwrap_or(&why);
            format!("cannot write the log {path}: {why}")
        })?;
        let place = Self { path, to, is_named, compressed: false };
        match place.to.file_name().and_then(|(dir, name)| dir.regular(name)) {
            Ok(Some(_)) if !is_named => place.append().map(|_| place),
            _ => Ok(place),
        }
    }

    /// The file to append to. An existing one that may not be replaced is an error.
    fn append(&self) -> Result<File, String> {
        let fail = |error: io::Error| format!("cannot write the log {}: {error}", self.path);
        let (dir, name) = self.to.file_name().map_err(fail)?;
        let (file, is_new) = dir.create_or_append(name).map_err(fail)?;
        if is_new || guard::is_own_log(&file) {
            return Ok(file);
        }
        Err(format!(
            "the log {} exists and was not written by fathom, or was changed since, and only the command line may name \
             a file to be replaced; remove it, or use another prefix",
            self.path
        ))
    }

    fn create(&self) -> Result<File, String> {
        let fail = |error: io::Error| format!("cannot write the log {}: {error}", self.path);
        if self.is_named {
            let (dir, name) = self.to.file_name().map_err(fail)?;
            dir.replace(name, b"", Readers::Umask).map_err(fail)?;
            return dir.append(name).map_err(fail);
        }
        let file = self.append()?;
        file.set_len(0).map_err(fail)?;
        Ok(file)
    }
}

fn locked(file: &Mutex<LogFile>) -> MutexGuard<'_, LogFile> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LogFile {
    fn create(place: LogTarget) -> Result<Self, String> {
        let file = place.create()?;
        let version = LogVersion::of(&file).ok();
        let compressed = place.compressed;
        Ok(Self { path: place.path, file, version, compressed, failed: false })
    }

    /// Appends lines at once, so that a killed run keeps them; returns the first error.
    fn append(&mut self, lines: &str) -> Option<String> {
        let written = match self.compressed {
            true => fathom_store::compressed(lines).and_then(|bytes| self.file.write_all(&bytes)),
            false => self.file.write_all(lines.as_bytes()),
        };
        self.version = LogVersion::of(&self.file).ok();
        let error = written.err()?;
        let is_first = !std::mem::replace(&mut self.failed, true);
        is_first.then(|| format!("the log {} is incomplete: {error}", self.path))
    }
}
