//! A parsed request: jobs, output, permissions.

use crate::error::{Place, Problems, SpecError};
use crate::ini::{self, IniSection, Line, shorten};
use crate::job::{Given, Job, Size};
use crate::keys::{self, Action, Takes};
use crate::names::PATHS_MAX;
use crate::output::Output;
use crate::sources::{Sources, without_mark};
use crate::value::{KeyValue, escape_path, placed_ranges, with_files};
use crate::{args, suggest, trace};
use fathom_model::plan::{Engine, Permissions, Psync};

pub const JOBS_MAX: u32 = 4096;

/// The part of a file that shows whether it is a job file.
const HEAD_BYTES: usize = 4096;
/// Most bytes that are read of `dp_scheme`.
const SCHEME_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spec {
    pub jobs: Vec<Job>,
    pub output: Output,
    pub permissions: Permissions,
    pub notes: Vec<String>,
    pub global: Vec<Given>,
    /// Whether fio would run it with another default engine: it has job files, or jobs with `--name`.
    pub fio_form: bool,
    /// A number that differs from run to run, for `randrepeat=0`.
    pub entropy: u64,
}

/// Parses the arguments of `fathom run`.
///
/// With `--help` or `--cmdhelp` ([`Output::help`]), and with `--parse-only`, no jobs are required.
pub fn parse(args: &[String], sources: &dyn Sources) -> Result<Spec, Problems> {
    parse_with(args, sources, Job::new(), false)
}

/// Parses the arguments of a program that was started as `fio`: psync is the default engine, results look like fio's,
/// and no record is kept.
pub fn parse_as_fio(args: &[String], sources: &dyn Sources) -> Result<Spec, Problems> {
    let mut defaults = Job::new();
    defaults.engine = Engine::Psync(Psync::Plain);
    parse_with(args, sources, defaults, true)
}

fn parse_with(
    args: &[String],
    sources: &dyn Sources,
    defaults: Job,
    as_fio: bool,
) -> Result<Spec, Problems> {
    let mut problems = Problems::default();
    let args = args::split(args, &mut problems);
    let mut spec = Spec { output: args.output, permissions: args.permissions, ..Spec::default() };
    spec.entropy = sources.random();
    spec.output.as_fio = as_fio;
    spec.output.no_record |= as_fio && spec.output.record.is_none();
    if spec.output.help.is_some() {
        return problems.or(spec);
    }
    let mut builder = SpecBuilder { spec, problems, defaults, sources, sections_seen: Vec::new() };
    let named = args.keys.iter().any(|line| line.key == "name");
    if named || args.keys.is_empty() || job_files(&args.positional, sources) {
        builder.spec.fio_form = !as_fio;
        builder.command_line(&args.keys);
        builder.files(&args.positional);
    } else {
        builder.short_form(args.keys, &args.positional);
    }
    builder.finish(&args.positional)
}

struct SpecBuilder<'a> {
    spec: Spec,
    problems: Problems,
    /// Settings of the `[global]` sections so far.
    defaults: Job,
    sections_seen: Vec<String>,
    sources: &'a dyn Sources,
}

impl SpecBuilder<'_> {
    /// fio's form: each `--name` begins a job; keys before the first one apply to all, also to those
    /// of job files.
    fn command_line(&mut self, lines: &[Line]) {
        let first = lines.iter().position(|line| line.key == "name").unwrap_or(lines.len());
        self.global(&lines[..first]);
        let mut rest = &lines[first..];
        while let Some((head, after)) = rest.split_first() {
            let end = after.iter().position(|line| line.key == "name").unwrap_or(after.len());
            let name = head.value.as_deref().unwrap_or_default();
            if name == "global" {
                self.global(&after[..end]);
            } else {
                self.job(name, &after[..end], None);
            }
            rest = &after[end..];
        }
    }

    /// The short form: keys and targets, one job.
    fn short_form(&mut self, mut keys: Vec<Line>, targets: &[String]) {
        if let Some(file) = targets.iter().find(|target| looks_like_job_file(target)) {
            let message = format!(
                "'{file}' is ambiguous beside targets; name only job files, or use --filename={file}"
            );
            self.problems.add(SpecError::new(message));
        }
        if let Some(target) = targets.first() {
            if keys.iter().any(|line| line.key == "filename") {
                let message = format!("both --filename and '{target}' name targets; use one form");
                self.problems.add(SpecError::new(message));
            }
            let paths: Vec<String> = targets.iter().map(|path| escape_path(path)).collect();
            let value = Some(paths.join(":"));
            keys.push(Line { key: "filename".into(), value, place: None });
        }
        let rw = keys.iter().rev().find(|line| matches!(line.key.as_str(), "rw" | "readwrite"));
        let name = rw.and_then(|line| line.value.as_deref()).unwrap_or("job");
        let name = name.split(':').next().unwrap_or("job").to_string();
        self.job(&name, &keys, None);
    }

    fn files(&mut self, paths: &[String]) {
        if paths.iter().filter(|path| *path == "-").count() > 1 {
            let message = "standard input ('-') is given twice; use it once";
            return self.problems.add(SpecError::new(message));
        }
        for (index, path) in paths.iter().enumerate() {
            if path.starts_with("/dev/") && path != "/dev/stdin" && !path.starts_with("/dev/fd/") {
                self.problems.add(SpecError::new(format!(
                    "{path} is a device, not a job file; use --filename={}, or omit --name: \
                     fathom run --rw=randread {path}",
                    escape_path(path)
                )));
                continue;
            }
            let sections = ini::read(path, self.sources, &mut self.problems);
            self.sections(sections, index > 0);
        }
    }

    /// The sections of a job file. As in fio, the jobs of a second file `wait` for those of the first.
    fn sections(&mut self, sections: Vec<IniSection>, mut wait: bool) {
        for IniSection { name, place, lines } in sections {
            if self.problems.is_full() {
                return;
            }
            if name == "global" {
                self.global(&lines);
                continue;
            }
            self.sections_seen.push(name.clone());
            let wanted = &self.spec.output.sections;
            if !wanted.is_empty() && !wanted.contains(&name) {
                continue;
            }
            self.job(&name, &lines, Some(place));
            if let Some(job) = self.spec.jobs.last_mut().filter(|_| wait) {
                let stonewall = set_key(job, &Line::split("stonewall=1", None), false);
                self.problems.ok(stonewall);
                wait = false;
            }
        }
    }

    fn global(&mut self, lines: &[Line]) {
        apply(&mut self.defaults, lines, true, self.sources, &mut self.problems);
    }

    fn job(&mut self, name: &str, lines: &[Line], place: Option<Place>) {
        if self.spec.jobs.len() >= JOBS_MAX as usize {
            let message = format!("more than {JOBS_MAX} jobs; remove some");
            return self.problems.add(SpecError::new(message));
        }
        let mut job = self.defaults.clone();
        job.name = name.to_string();
        job.place = place;
        apply(&mut job, lines, false, self.sources, &mut self.problems);
        let minute = self.spec.output.steady_state.then(|| round_of_a_minute(&mut job)).flatten();
        let without_runtime = without_runtime(&mut job);
        self.traces(&mut job);
        self.placements(&mut job);
        for directory in &job.opendir {
            // Without a size, nothing in an empty file is read or written.
            let with_empty = job.has("size") || job.has("filesize");
            match self.sources.files_below(directory, PATHS_MAX, with_empty) {
                Ok(files) if !files.is_empty() => job.filename.extend(files),
                Ok(_) => self.problems.add(job_error(
                    &job,
                    &format!(
                        "opendir: there are no files in {directory}{}; use filename",
                        if with_empty { "" } else { ", or only empty ones" }
                    ),
                )),
                Err(why) => self.problems.add(job_error(&job, &format!("opendir: {why}"))),
            }
        }
        job.complete();
        let problem = match () {
            () if job.name.is_empty() => Some("empty job name; use --name=NAME".to_string()),
            () if job.name.starts_with("global") => Some(
                "fio treats a name that begins with 'global' as [global]; use [global], or another \
                 name"
                    .to_string(),
            ),
            () if self.spec.output.readonly && job.modifies() => {
                Some("the job writes or trims, but --readonly is set; remove one".to_string())
            }
            () => None,
        };
        if let Some(why) = problem {
            self.problems.add(job_error(&job, &why));
        }
        self.spec.notes.extend(notes(&job));
        self.spec.notes.extend(minute);
        self.spec.notes.extend(without_runtime);
        self.spec.notes.extend(self.spec.fio_form.then(|| default_engine(&job)).flatten());
        self.spec.jobs.push(job);
    }

    /// Reads which placements writes of `job` have by their offsets.
    fn placements(&mut self, job: &mut Job) {
        let Some(path) = job.dp_scheme.clone() else { return };
        if self.spec.output.parse_only && !self.sources.is_regular(&path) {
            return;
        }
        let text = self.sources.read(&path, SCHEME_BYTES_MAX);
        match text.and_then(|bytes| placed_ranges(&String::from_utf8_lossy(&bytes))) {
            Ok(ranges) => job.placing.by_offset = ranges,
            Err(why) => self.problems.add(job_error(job, &format!("dp_scheme: {path}: {why}"))),
        }
    }

    /// Reads the traces that `job` replays.
    fn traces(&mut self, job: &mut Job) {
        let is_there = |path: &String| self.sources.is_regular(path);
        if self.spec.output.parse_only && !job.read_iolog.iter().all(is_there) {
            return;
        }
        let readonly = self.spec.output.readonly;
        match trace::load(job, readonly, self.sources) {
            Ok(traces) => job.traces = traces,
            Err(problems) => {
                problems.iter().for_each(|why| self.problems.add(job_error(job, why)));
            }
        }
        for trace in job.traces.iter().filter(|trace| trace.forbidden > 0) {
            let (count, name) = (trace.forbidden, &trace.name);
            let note = format!("--readonly: {count} writes and trims of {name} are not replayed");
            self.spec.notes.push(note);
        }
    }

    fn finish(mut self, job_files: &[String]) -> Result<Spec, Problems> {
        for section in &self.spec.output.sections {
            if self.sections_seen.contains(section) {
                continue;
            }
            let near = suggest::nearest(section, self.sections_seen.iter().map(String::as_str));
            let near = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
            self.problems.add(SpecError::new(format!("unknown section '{section}'{near}")));
        }
        // What could not be understood may have been the jobs.
        let output = &self.spec.output;
        let excused =
            !self.problems.errors.is_empty() || output.parse_only || output.inflate.is_some();
        if self.spec.jobs.is_empty() && !excused {
            let message = match job_files {
                [] => "no jobs; name a job file, or keys and targets, for example: fathom run --rw=randread --bs=4k \
                       --iodepth=32 --direct=1 TARGET"
                    .to_string(),
                files => format!("no jobs in {}; begin each with a line of its [name]", files.join(", ")),
            };
            self.problems.add(SpecError::new(message));
        }
        self.spec.notes.append(&mut self.problems.notes);
        self.spec.notes.extend(keys::overridden_by_files(&self.defaults.given, &self.spec.jobs));
        self.spec.global = std::mem::take(&mut self.defaults.given);
        self.spec
            .notes
            .extend(keys::without_effect(&self.spec.output.idle_options, &self.spec.jobs));
        self.spec.notes.dedup();
        self.spec.output.complete();
        let outputs = self.spec.output.check(&self.spec.jobs, job_files);
        self.problems.ok(outputs.map_err(SpecError::new));
        match self.problems.or(()) {
            Ok(()) => Ok(self.spec),
            Err(problems) => Err(Problems { request: Box::new(self.spec), ..problems }),
        }
    }
}

/// Whether keys without `--name` are defaults for job files, as in fio, and not a job of their own on
/// these targets.
fn job_files(paths: &[String], sources: &dyn Sources) -> bool {
    let looks = |path: &String| looks_like_job_file(path) || begins_like_job_file(path, sources);
    !paths.is_empty() && paths.iter().all(looks)
}

/// Whether the first line of a file, besides comments, is `[section]`.
fn begins_like_job_file(path: &str, sources: &dyn Sources) -> bool {
    if path.starts_with("/dev/") || !sources.is_regular(path) {
        return false;
    }
    let Ok(bytes) = sources.read(path, HEAD_BYTES) else { return false };
    let head = String::from_utf8_lossy(&bytes);
    let lines = without_mark(&head).lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    lines.next().is_some_and(|line| {
        line.strip_prefix('[')
            .is_some_and(|rest| rest.split(['#', ';']).any(|part| part.trim_end().ends_with(']')))
    })
}

fn looks_like_job_file(path: &str) -> bool {
    path == "-" || [".fio", ".job", ".ini", ".jobs"].iter().any(|end| path.ends_with(end))
}

/// Sets the keys of one section. As in fio, `kb_base` applies to its whole section in a file,
/// but on the command line only to the keys after it.
fn apply(
    job: &mut Job,
    lines: &[Line],
    global: bool,
    sources: &dyn Sources,
    problems: &mut Problems,
) {
    let mut lines: Vec<&Line> = lines.iter().collect();
    lines.sort_by_key(|line| !(line.key == "kb_base" && line.place.is_some()));
    // Others stay where they are: kb_base may stand between two of these.
    let is_block_size = |line: &Line| block_size_rank(&line.key) > 0;
    let places: Vec<usize> = (0..lines.len()).filter(|at| is_block_size(lines[*at])).collect();
    let mut sizes: Vec<&Line> = places.iter().map(|at| lines[*at]).collect();
    sizes.sort_by_key(|line| block_size_rank(&line.key));
    places.into_iter().zip(sizes).for_each(|(at, line)| lines[at] = line);
    for line in lines {
        let set = set_with_files(job, line, global, sources);
        problems.ok(set);
    }
}

/// Sets a key, of whose pattern parts may be in files.
fn set_with_files(
    job: &mut Job,
    line: &Line,
    global: bool,
    sources: &dyn Sources,
) -> Result<(), SpecError> {
    let named = match (line.key.as_str(), &line.value) {
        ("buffer_pattern" | "verify_pattern", Some(value)) if value.contains('\'') => value,
        _ => return set_key(job, line, global),
    };
    let read = with_files(named, sources)
        .map_err(|why| SpecError::new(format!("{}: {why}", line.key)).at(line.place.as_ref()))?;
    set_key(job, &Line { value: Some(read), ..line.clone() }, global)?;
    // Results show the key as it was given.
    job.given.iter_mut().next_back().into_iter().for_each(|given| given.value.clone_from(named));
    Ok(())
}

/// As in fio, `bssplit` overrides `bsrange`, and both `bs`, whatever their order in a section.
fn block_size_rank(key: &str) -> u8 {
    match keys::find(key).map(|key| key.name) {
        Some("bs") => 1,
        Some("bsrange") => 2,
        Some("bssplit") => 3,
        _ => 0,
    }
}

pub(crate) fn set_key(job: &mut Job, line: &Line, global: bool) -> Result<(), SpecError> {
    let fail = |message: String| SpecError::new(message).at(line.place.as_ref());
    let key = keys::find(&line.key).ok_or_else(|| fail(no_key(line)))?;
    let text = match line.value.as_deref() {
        None | Some("") if matches!(key.takes, Takes::Optional(_)) => "",
        Some("") => return Err(fail(format!("'{}=' has no value; add one", line.key))),
        Some(text) if key.takes == Takes::AnyNumber && text.parse().is_ok_and(|n: u32| n > 0) => {
            "1"
        }
        Some(text) => text,
        None if key.is_flag() || matches!(key.action, Action::Refuse(_)) => "1",
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
    let mut cut = false;
    match key.action {
        Action::Set(set) => {
            let value = KeyValue::strict(text, u64::from(job.show.kb_base));
            if let Err(why) = set(job, value) {
                cut = set(job, KeyValue { lax: true, ..value }).is_ok();
                cut.then_some(()).ok_or_else(|| fail(format!("{}: {why}", line.key)))?;
            }
        }
        Action::Refuse(_) if key.is_off(text) => {}
        Action::Refuse(why) => return Err(fail(format!("'{}' is refused: {why}", line.key))),
    }
    let (value, place) = (text.to_string(), line.place.clone());
    job.given.push(Given { key: key.name, value, global, place, cut });
    Ok(())
}

fn no_key(line: &Line) -> String {
    match line.key.as_str() {
        "erase" => "'erase' is not allowed in a job file; use --erase=DEVICE on the command line"
            .to_string(),
        key => keys::unknown(key),
    }
}

pub(crate) fn job_error(job: &Job, why: &str) -> SpecError {
    SpecError::new(format!("job '{}': {why}", shorten(&job.name))).at(job.place.as_ref())
}

/// Notes on block sizes that another key of the same section overrides.
fn overridden_sizes(job: &Job) -> impl Iterator<Item = String> {
    let is_set = |key: &str, global: bool| {
        job.given.iter().any(|given| given.key == key && given.global == global)
    };
    let pairs = [("bs", "bsrange"), ("bs", "bssplit"), ("bsrange", "bssplit")];
    pairs.into_iter().filter_map(move |(weak, strong)| {
        let both = |global| is_set(weak, global) && is_set(strong, global);
        (both(false) || both(true)).then(|| format!("{strong} overrides {weak}, as in fio"))
    })
}

fn notes(job: &Job) -> impl Iterator<Item = String> {
    let contradictions = [
        contradiction(job, "direct", "buffered", |a, b| a == b),
        contradiction(job, "rwmixread", "rwmixwrite", |a, b| {
            let percent = |text: &str| text.parse::<u32>().unwrap_or(0);
            percent(a) + percent(b) != 100
        }),
    ];
    let others = [opposite_units(job), other_clock(job), idle_priority(job), more_than_all(job)];
    let cut = job.given.iter().filter(|given| given.cut).map(|given| {
        format!(
            "{}={}: as in fio, a number ends before an operator or a repeated unit, and the rest is ignored; put an expression in \
             parentheses",
            given.key, given.value
        )
    });
    let others = contradictions.into_iter().chain(others).flatten().chain(cut);
    others.chain(overridden_sizes(job))
}

fn more_than_all(job: &Job) -> Option<String> {
    let Some(Size::Percent(percent @ 101..)) = job.size else { return None };
    Some(format!(
        "size={percent}%: as in fio, a pass ends at the end of the device; use size=100% and loops for several passes"
    ))
}

/// A note on two keys of one section that contradict each other: as in fio, the last one applies.
fn contradiction(
    job: &Job,
    a: &str,
    b: &str,
    differ: impl Fn(&str, &str) -> bool,
) -> Option<String> {
    let last = |key: &str| job.given.iter().enumerate().rev().find(|(_, given)| given.key == key);
    let ((at_a, a), (at_b, b)) = (last(a)?, last(b)?);
    let (first, last) = if at_a < at_b { (a, b) } else { (b, a) };
    // A job's own key overrides one of [global] on purpose.
    (a.global == b.global && differ(&a.value, &b.value)).then(|| {
        format!(
            "{}={} contradicts {}={}; the last one applies, as in fio",
            first.key, first.value, last.key, last.value
        )
    })
}

/// A round of `--steady-state` lasts a minute, as in SNIA's specification, unless the job says when it ends.
fn round_of_a_minute(job: &mut Job) -> Option<String> {
    let ends = job.until.runtime_ns.is_some() || job.until.ios.is_some() || job.io_size.is_some();
    if ends || job.loops > 1 || !job.read_iolog.is_empty() {
        return None;
    }
    (job.until.runtime_ns, job.time_based) = (Some(60_000_000_000), true);
    let name = shorten(&job.name);
    Some(format!("job '{name}': each round lasts a minute; set runtime for another time"))
}

/// As in fio, `time_based` without `runtime` is ignored, with a note.
fn without_runtime(job: &mut Job) -> Option<String> {
    let ignored = job.time_based && job.until.runtime_ns.is_none();
    job.time_based &= !ignored;
    ignored.then(|| {
        let name = shorten(&job.name);
        format!("job '{name}': time_based is ignored without runtime, as in fio; set runtime")
    })
}

fn default_engine(job: &Job) -> Option<String> {
    (job.depth > 1 && !job.has("ioengine")).then(|| {
        format!(
            "job '{}': no ioengine is set: fathom uses io_uring at the requested queue depth, fio would use psync at \
             queue depth 1; set ioengine for the same behavior in both",
            shorten(&job.name)
        )
    })
}

fn other_clock(job: &Job) -> Option<String> {
    let clock = job.last("clocksource")?;
    (clock.value != "clock_gettime").then(|| {
        format!(
            "clocksource={} has no effect: times come from clock_gettime (CLOCK_MONOTONIC)",
            clock.value
        )
    })
}

/// A note that a class, level or hint of single I/Os has no effect, since all have the priority of their thread.
fn idle_priority(job: &Job) -> Option<String> {
    let keys = ["cmdprio_class", "cmdprio", "cmdprio_hint"];
    let given = keys.into_iter().find(|key| job.has(key))?;
    job.priorities
        .is_empty()
        .then(|| format!("{given} has no effect without cmdprio_percentage or cmdprio_bssplit"))
}

/// A note on `4kib`, which is 4000 bytes, as in fio.
fn opposite_units(job: &Job) -> Option<String> {
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

impl Spec {
    /// The arguments of a command line in fio's form that defines the same jobs.
    ///
    /// Keys of a `[global]` section follow `--name=global`, before the first job that they apply
    /// to.
    pub fn show_command(&self) -> Vec<String> {
        let mut args = Vec::new();
        let mut global_done = 0;
        for job in &self.jobs {
            // `--name` comes first and begins the job.
            let given = job.given.iter().filter(|given| given.key != "name");
            let (global, own): (Vec<&Given>, Vec<&Given>) = given.partition(|g| g.global);
            if global.len() > global_done {
                args.push("--name=global".to_string());
                args.extend(global[global_done..].iter().map(|given| argument(given)));
                global_done = global.len();
            }
            args.push(format!("--name={}", job.name));
            args.extend(own.into_iter().map(argument));
        }
        args
    }
}

fn argument(given: &Given) -> String {
    format!("--{}={}", given.key, given.value)
}
