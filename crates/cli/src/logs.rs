//! fio's logs of a run, appended to during the run.

use crate::output::Destination;
use fathom_model::plan::{LogKind, Plan};
use fathom_model::progress::{JobTotals, Progress};
use fathom_model::{Dir, PerDir};
use fathom_report::fio_logs::{JobLog, TotalLog};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
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

    /// Appends what is due; returns the errors that are new, and the time until the next line is due.
    pub fn take(&mut self, totals: &[(usize, JobTotals)]) -> (Vec<String>, Duration) {
        let unix_ms = fathom_engine::clock::unix_ns() / 1_000_000;
        let mut errors = Vec::new();
        let mut wait_ns = u64::MAX;
        for (number, totals) in totals {
            let Some(log) = self.jobs.get_mut(number) else { continue };
            for (kind, line) in log.lines(totals, unix_ms) {
                let file = self.index.get(&(*number, kind)).map(|at| &mut self.files[*at]);
                errors.extend(file.and_then(|file| file.append(line)));
            }
            wait_ns = wait_ns.min(log.wait_ns(totals).unwrap_or(u64::MAX));
        }
        (errors, Duration::from_nanos(wait_ns))
    }

    /// Appends what is due of the log of all jobs together; returns the errors that are new.
    pub fn take_total(&mut self, progress: &Progress) -> Vec<String> {
        let Some((log, index)) = &mut self.total else { return Vec::new() };
        let lines = log.lines(progress).into_iter();
        lines.filter_map(|(dir, line)| self.files[index[dir]].append(line)).collect()
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

    /// Appends a line at once, so that a killed run keeps it; returns the first error.
    fn append(&mut self, line: String) -> Option<String> {
        let error = self.file.write_all((line + "\n").as_bytes()).err()?;
        let is_first = !std::mem::replace(&mut self.failed, true);
        is_first.then(|| format!("the log {} is incomplete: {error}", self.path))
    }
}
