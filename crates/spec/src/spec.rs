//! A parsed request: jobs, output, permissions.

use crate::args;
use crate::error::SpecError;
use crate::ini::{self, Line, Section, shorten};
use crate::job::{Given, JobSpec};
use crate::keys::{self, Action};
use crate::output::{Output, Permissions};
use crate::sources::Sources;
use crate::suggest;
use crate::value::{Value, escape_path};

/// Maximum number of worker threads in a run.
pub const JOBS_MAX: u32 = 4096;

/// A parsed request, independent of any machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spec {
    /// The jobs, in order.
    pub jobs: Vec<JobSpec>,
    /// Where and how results are reported.
    pub output: Output,
    /// Existing targets that may be written.
    pub permissions: Permissions,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Keys of `[global]` sections as given, for output.
    pub global: Vec<Given>,
    /// A number that differs from run to run, for `randrepeat=0`.
    pub entropy: u64,
}

/// Parses the arguments of `fathom run`.
///
/// With `--help` or `--cmdhelp` ([`Output::help`]), no jobs are required.
///
/// # Errors
/// What is wrong, where, and what to do.
pub fn parse(args: &[String], sources: &dyn Sources) -> Result<Spec, SpecError> {
    let args = args::split(args)?;
    let mut spec = Spec { output: args.output, permissions: args.permissions, ..Spec::default() };
    spec.entropy = sources.random();
    if spec.output.help.is_some() {
        return Ok(spec);
    }
    let mut builder = Builder { spec, defaults: JobSpec::new(), sections_seen: Vec::new() };
    if args.keys.iter().any(|line| line.key == "name") {
        builder.command_line(&args.keys)?;
        builder.files(&args.positional, sources)?;
    } else if args.keys.is_empty() {
        builder.files(&args.positional, sources)?;
    } else {
        builder.short_form(args.keys, &args.positional)?;
    }
    builder.finish(&args.positional)
}

struct Builder {
    spec: Spec,
    /// Settings of the `[global]` sections so far.
    defaults: JobSpec,
    sections_seen: Vec<String>,
}

impl Builder {
    /// fio's form: each `--name` begins a job; keys before the first one apply to all.
    fn command_line(&mut self, lines: &[Line]) -> Result<(), SpecError> {
        let first = lines.iter().position(|line| line.key == "name").unwrap_or(lines.len());
        apply_global(&mut self.defaults, &lines[..first])?;
        let mut rest = &lines[first..];
        while let Some((head, after)) = rest.split_first() {
            let end = after.iter().position(|line| line.key == "name").unwrap_or(after.len());
            let name = head.value.as_deref().unwrap_or_default();
            if name == "global" {
                apply_global(&mut self.defaults, &after[..end])?;
            } else {
                self.job(name, &after[..end], None)?;
            }
            rest = &after[end..];
        }
        Ok(())
    }

    /// The short form: keys and targets, one job.
    fn short_form(&mut self, mut keys: Vec<Line>, targets: &[String]) -> Result<(), SpecError> {
        if let Some(file) = targets.iter().find(|target| looks_like_job_file(target)) {
            return Err(SpecError::new(format!(
                "'{file}' is ambiguous with --{}: for a job file, move the keys into it; for a \
                 target, use --filename={file}",
                keys[0].key
            )));
        }
        if !targets.is_empty() {
            if keys.iter().any(|line| line.key == "filename") {
                return Err(SpecError::new(format!(
                    "both --filename and '{}' name targets; use one form",
                    targets[0]
                )));
            }
            let paths: Vec<String> = targets.iter().map(|path| escape_path(path)).collect();
            let value = Some(paths.join(":"));
            keys.push(Line { key: "filename".into(), value, place: None });
        }
        let rw = keys.iter().rev().find(|line| matches!(line.key.as_str(), "rw" | "readwrite"));
        let name = rw.and_then(|line| line.value.as_deref()).unwrap_or("job");
        let name = name.split(':').next().unwrap_or("job").to_string();
        self.job(&name, &keys, None)
    }

    fn files(&mut self, paths: &[String], sources: &dyn Sources) -> Result<(), SpecError> {
        if paths.iter().filter(|path| *path == "-").count() > 1 {
            return Err(SpecError::new("standard input ('-') is given twice; use it once"));
        }
        for (index, path) in paths.iter().enumerate() {
            if path.starts_with("/dev/") && path != "/dev/stdin" && !path.starts_with("/dev/fd/") {
                return Err(SpecError::new(format!(
                    "{path} is a device, not a job file; use --filename={}, or omit --name: \
                     fathom run --rw=randread {path}",
                    escape_path(path)
                )));
            }
            // As in fio, the jobs of a second file start when those of the first have ended.
            let mut wait = index > 0;
            for section in ini::read(path, sources)? {
                let Section { name, place, lines } = section;
                if name == "global" {
                    apply_global(&mut self.defaults, &lines)?;
                    continue;
                }
                self.sections_seen.push(name.clone());
                let wanted = &self.spec.output.sections;
                if !wanted.is_empty() && !wanted.contains(&name) {
                    continue;
                }
                self.job(&name, &lines, Some(&place)).map_err(|error| error.at(Some(&place)))?;
                if let Some(job) = self.spec.jobs.last_mut().filter(|_| wait) {
                    set_key(job, &Line::split("stonewall=1", None), false)?;
                    wait = false;
                }
            }
        }
        Ok(())
    }

    fn job(
        &mut self,
        name: &str,
        lines: &[Line],
        place: Option<&crate::Place>,
    ) -> Result<(), SpecError> {
        if self.spec.jobs.len() >= JOBS_MAX as usize {
            return Err(SpecError::new(format!("more than {JOBS_MAX} jobs; remove some")));
        }
        let mut job = self.defaults.clone();
        job.name = name.to_string();
        apply(&mut job, lines, false)?;
        if job.name.is_empty() {
            return Err(SpecError::new("empty job name; use --name=NAME"));
        }
        if job.name.starts_with("global") {
            let message = "fio treats a name that begins with 'global' as [global]; use [global], \
                           or another name";
            return Err(job_error(&job, message).at(place));
        }
        check_conflicts(&job).map_err(|why| job_error(&job, &why).at(place))?;
        if self.spec.output.readonly && job.modifies() {
            let message = "the job writes or trims, but --readonly is set; remove one";
            return Err(job_error(&job, message).at(place));
        }
        self.spec.notes.extend(opposite_units(&job));
        self.spec.notes.extend(other_clock(&job));
        self.spec.jobs.push(job);
        Ok(())
    }

    fn finish(mut self, job_files: &[String]) -> Result<Spec, SpecError> {
        for section in &self.spec.output.sections {
            if self.sections_seen.contains(section) {
                continue;
            }
            let near = suggest::nearest(section, self.sections_seen.iter().map(String::as_str));
            let near = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
            return Err(SpecError::new(format!("unknown section '{section}'{near}")));
        }
        if self.spec.jobs.is_empty() {
            return Err(SpecError::new(
                "no jobs; name a job file, or keys and targets, for example: \
                 fathom run --rw=randread --bs=4k --iodepth=32 --direct=1 TARGET",
            ));
        }
        self.spec.global = std::mem::take(&mut self.defaults.given);
        self.spec
            .notes
            .extend(keys::without_effect(&self.spec.output.idle_options, &self.spec.jobs));
        self.spec.notes.dedup();
        self.spec.output.complete();
        self.spec.output.check(&self.spec.jobs, job_files).map_err(SpecError::new)?;
        Ok(self.spec)
    }
}

fn looks_like_job_file(path: &str) -> bool {
    path == "-" || [".fio", ".job", ".ini", ".jobs"].iter().any(|end| path.ends_with(end))
}

fn apply_global(defaults: &mut JobSpec, lines: &[Line]) -> Result<(), SpecError> {
    apply(defaults, lines, true)?;
    check_conflicts(defaults).map_err(|why| SpecError::new(format!("[global]: {why}")))
}

/// Sets the keys of one section. As in fio, `kb_base` applies to its whole section in a file,
/// but on the command line only to the keys after it.
fn apply(job: &mut JobSpec, lines: &[Line], global: bool) -> Result<(), SpecError> {
    let (first, rest): (Vec<&Line>, Vec<&Line>) =
        lines.iter().partition(|line| line.key == "kb_base" && line.place.is_some());
    first.into_iter().chain(rest).try_for_each(|line| set_key(job, line, global))
}

fn set_key(job: &mut JobSpec, line: &Line, global: bool) -> Result<(), SpecError> {
    let fail = |message: String| SpecError::new(message).at(line.place.as_ref());
    let key = keys::find(&line.key).ok_or_else(|| fail(no_key(line)))?;
    let set = match key.action {
        Action::Set(set) => set.0,
        Action::Refuse(why) => return Err(fail(format!("'{}' is refused: {why}", line.key))),
    };
    let text = match line.value.as_deref() {
        Some("") => return Err(fail(format!("'{}=' has no value; add one", line.key))),
        Some(text) => text,
        None if key.is_flag() => "1",
        None => {
            let form = key.takes.form();
            return Err(fail(format!("'{0}' needs a value; use {0}={form}", line.key)));
        }
    };
    if text.contains(['\n', '\r', '\0']) {
        return Err(fail(format!(
            "{}: the value contains a line break; use a single line",
            line.key
        )));
    }
    let value = Value { text, kb_base: u64::from(job.show.kb_base) };
    set(job, value).map_err(|why| fail(format!("{}: {why}", line.key)))?;
    job.given.push(Given { key: key.name, value: text.to_string(), global });
    Ok(())
}

fn no_key(line: &Line) -> String {
    match line.key.as_str() {
        "erase" => "'erase' is not allowed in a job file; use --erase=DEVICE on the command line"
            .to_string(),
        key => keys::unknown(key),
    }
}

/// An error about a job.
pub(crate) fn job_error(job: &JobSpec, why: &str) -> SpecError {
    SpecError::new(format!("job '{}': {why}", shorten(&job.name)))
}

/// Checks for conflicting keys in one section.
fn check_conflicts(job: &JobSpec) -> Result<(), String> {
    let last = |key: &str| job.given.iter().rev().find(|g| g.key == key).map(|g| g.value.as_str());
    let both = |a: &str, b: &str| {
        let level =
            |key: &str| (job.given.iter().any(|g| g.key == key && g.global), job.has_own(key));
        let (a, b) = (level(a), level(b));
        (a.0 && b.0) || (a.1 && b.1)
    };
    for (a, b) in [("bs", "bsrange"), ("bs", "bssplit"), ("bsrange", "bssplit")] {
        if both(a, b) {
            return Err(format!("{a} and {b} conflict; remove one"));
        }
    }
    if both("direct", "buffered") && last("direct") == last("buffered") {
        return Err("direct and buffered conflict; remove one".to_string());
    }
    let (read, write) = (last("rwmixread"), last("rwmixwrite"));
    if let (true, Some(read), Some(write)) = (both("rwmixread", "rwmixwrite"), read, write) {
        let sum = read.parse::<u32>().unwrap_or(0) + write.parse::<u32>().unwrap_or(0);
        if sum != 100 {
            return Err(format!(
                "rwmixread={read} and rwmixwrite={write} add up to {sum}, not 100; remove one"
            ));
        }
    }
    Ok(())
}

/// A note that another clock source has no effect.
fn other_clock(job: &JobSpec) -> Option<String> {
    let clock = job.given.iter().rfind(|given| given.key == "clocksource")?;
    (clock.value != "clock_gettime").then(|| {
        format!(
            "clocksource={} has no effect: times come from clock_gettime (CLOCK_MONOTONIC)",
            clock.value
        )
    })
}

/// A note on `4kib`, which is 4000 bytes, as in fio.
fn opposite_units(job: &JobSpec) -> Option<String> {
    let ends = |text: &str| {
        let text = text.to_ascii_lowercase();
        ["kib", "mib", "gib", "tib", "pib"].iter().any(|unit| text.contains(unit))
    };
    let sized = ["bs", "bsrange", "bssplit", "size", "filesize", "io_size", "offset", "rate"];
    let given = job.given.iter().find(|g| sized.contains(&g.key) && ends(&g.value));
    given.filter(|_| job.show.kb_base == 1024).map(|g| {
        format!(
            "{}={}: as in fio, kib, mib and gib are powers of 1000 unless kb_base=1000; \
             write k, m or g for powers of 1024",
            g.key, g.value
        )
    })
}
