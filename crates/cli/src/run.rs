//! `fathom run`: job files and command lines that people have for fio.

mod samples;

use crate::live::Live;
use crate::output::{self, Destination};
use crate::records;
use crate::session::Session;
use crate::session::beside::{Beside, Told};
use crate::session::turns::{self, Turns};
use crate::signals::Signals;
use crate::sources::System;
use crate::stdio::{self, Kind, note};
use fathom_machine::guard::Permissions;
use fathom_machine::{Lookup, Roots};
use fathom_model::escape;
use fathom_model::finding::Severity;
use fathom_model::progress::Sample;
use fathom_model::record::RECORD_VERSION;
use fathom_model::watch::Level;
use fathom_model::{Facts, Plan, Progress, RunRecord};
use fathom_spec::{Eta, Format, Help, Output, Spec};
use samples::Samples;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a record says until it is complete.
const UNFINISHED: &str = "the run did not end: it was killed, or the machine stopped";

/// Runs what `args` describe. The exit status is 0 only if all of it was done.
///
/// # Errors
/// Why nothing was done.
pub fn command(args: &[String]) -> Result<ExitCode, String> {
    let system = System::default();
    let spec = fathom_spec::parse(args, &system)
        .map_err(|e| e.to_string())
        .or_else(|error| refuse(asks_for_json(args), error))?;
    if let Some(text) = answer_without_running(&spec) {
        return output::stream(&text?, Kind::Lines).map(|_| ExitCode::SUCCESS);
    }
    let json = spec.output.formats.iter().any(|f| matches!(f, Format::Json | Format::JsonPlus));
    execute(&spec, &system.into_files()).or_else(|error| refuse(json, error))
}

fn execute(spec: &Spec, job_files: &[String]) -> Result<ExitCode, String> {
    let facts = facts(spec)?;
    let to = check_outputs(&spec.output, &facts, job_files)?;
    let plan = fathom_spec::plan(spec, &facts).map_err(|e| e.to_string())?;
    if let Some(length) = spec.output.watch_turns_ns {
        turns::check(&plan, Duration::from_nanos(length))?;
    }
    if spec.output.parse_only {
        return Ok(ExitCode::SUCCESS);
    }
    for note in &plan.notes {
        note!("note: {note}");
    }
    let signals = Signals::take().map_err(|e| format!("cannot take signals: {e}"))?;
    let done = perform(spec, &plan, facts, &signals, to.as_ref())?;
    Ok(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a command line that cannot be read asks for JSON.
fn asks_for_json(args: &[String]) -> bool {
    args.iter().any(|arg| {
        let format = arg.trim_start_matches('-').strip_prefix("output-format=");
        format.is_some_and(|list| list.split(',').any(|word| word.starts_with("json")))
    })
}

/// Passes on why nothing was done. Who reads JSON gets it as JSON too.
fn refuse<T>(json: bool, error: String) -> Result<T, String> {
    if json {
        let record = RunRecord {
            record_version: RECORD_VERSION,
            fathom_version: env!("CARGO_PKG_VERSION").to_string(),
            command: std::env::args().collect(),
            started_unix_ns: fathom_engine::clock::unix_ns(),
            interrupted: Some(error.clone()),
            ..RunRecord::default()
        };
        // The error that is passed on matters more than one of printing it.
        let text = fathom_report::fio_json::render(&record, false);
        let _ = output::emit(&text, Kind::Json, None);
    }
    Err(error)
}

fn answer_without_running(spec: &Spec) -> Option<Result<String, String>> {
    match &spec.output.help {
        Some(Help::All) => return Some(Ok(fathom_spec::run_help())),
        Some(Help::Key(key)) => {
            return Some(fathom_spec::key_help(key).map_err(|error| error.to_string()));
        }
        None => {}
    }
    spec.output.showcmd.then(|| Ok(spec.show_command().join("\n") + "\n"))
}

/// Whether the record has a place, and where results go, which is no file that the run uses.
fn check_outputs(
    output: &Output,
    facts: &Facts,
    job_files: &[String],
) -> Result<Option<Destination>, String> {
    let record = records::check(output.record.as_deref())?;
    let Some(file) = &output.file else { return Ok(None) };
    let targets = facts.targets.iter().map(|target| &target.path);
    let used = targets.chain(job_files).chain(&record).map(String::as_str);
    Destination::open(file, used).map(Some)
}

fn facts(spec: &Spec) -> Result<Facts, String> {
    let roots = Roots::default();
    let queries = spec.target_paths().map_err(|e| e.to_string())?;
    let lookup = Lookup::new(&roots);
    let look = |path: &str| lookup.target(path).map_err(|e| format!("cannot look at {path}: {e}"));
    let targets = queries.iter().map(|query| look(&query.path)).collect::<Result<_, _>>()?;
    Ok(Facts { host: fathom_machine::host(&roots), targets })
}

/// Whether all of it was done.
fn perform(
    spec: &Spec,
    plan: &Plan,
    facts: Facts,
    signals: &Signals,
    to: Option<&Destination>,
) -> Result<bool, String> {
    // Before any target is made or changed, and gone again where one is refused.
    let named = spec.output.record.as_deref();
    let dir = if spec.output.no_record { None } else { records::create(named)? };
    let permissions = Permissions {
        erase: spec.permissions.erase.clone(),
        overwrite: spec.permissions.overwrite.clone(),
    };
    let mut session = Session::open(plan, facts, &permissions, signals)?;
    let quiet = spec.output.eta == Eta::Never;
    let laid_out = session.fill(signals, show_layout(quiet));
    let interrupted = match (laid_out, signals.caught()) {
        (Ok(()), _) => None,
        (Err(_), Some(signal)) => Some(signal.to_string()),
        (Err(error), None) => return Err(error),
    };
    let unfinished = RunRecord { interrupted: Some(UNFINISHED.into()), ..session.new_record(plan) };
    let mut samples = Samples::new(records::begin(dir, named, &unfinished)?);
    let (mut record, told) = match interrupted {
        None => observe(&session, plan, signals, &spec.output, &mut samples)?,
        some => (RunRecord { interrupted: some, ..session.new_record(plan) }, None),
    };
    record.findings = fathom_analysis::run::findings(&record);
    // A record whose disk is full or stalls keeps no result from who waits for it.
    let shown = output::write(&record, told.as_ref(), &spec.output, to);
    complain(&record, &spec.output);
    let finished = session.finish();
    let folder = samples.path();
    let recorded = samples.end(&mut record);
    let folder = folder.filter(|_| recorded.is_ok() && std::io::stderr().is_terminal());
    let kept = records::finish(recorded, named);
    let ended = [&finished, &kept].into_iter().filter_map(|result| result.as_ref().err());
    ended.for_each(|error| note!("{error}"));
    if let Some(folder) = folder {
        stdio::say(&format!("record: {}", escape::path(folder)));
    }
    let lost = record.samples_lost.is_some() && spec.output.record.is_some();
    let done = finished.is_ok() && kept.is_ok() && !lost && record.is_complete();
    shown.map(|()| done)
}

/// Says on standard error what was not done, where no person sees the results.
fn complain(record: &RunRecord, output: &Output) {
    if output.file.is_none() && tells_people(output) && std::io::stdout().is_terminal() {
        return;
    }
    for finding in record.findings.iter().filter(|f| f.severity == Severity::Error) {
        note!("{}", finding.summary);
    }
}

/// Runs the plan, shows how it stands and keeps what is seen meanwhile.
fn observe(
    session: &Session,
    plan: &Plan,
    signals: &Signals,
    output: &Output,
    samples: &mut Samples,
) -> Result<(RunRecord, Option<Told>), String> {
    let interval = output.status_interval_ns.map(Duration::from_nanos);
    let shows = output.eta != Eta::Never || interval.is_some();
    let mut live = shows.then(|| Live::new(interval));
    // What nobody is told and nobody keeps is not worth looking at.
    let kept = samples.are_kept() || tells_people(output);
    let turns = output.watch_turns_ns.map(Duration::from_nanos);
    let mut turns = turns.map(|length| Turns::new(session, output.watch, length));
    let level = if kept && turns.is_none() { output.watch } else { Level::Off };
    let mut beside = Beside::new(level, session);
    let mut last = Progress::default();
    // When watching began, in the time of the run.
    let mut began_ns = 0;
    let record = session.run(plan, signals, |progress| {
        if let Some(live) = &mut live {
            live.show(progress, plan);
        }
        if let Some(turns) = &mut turns {
            turns.look(progress);
        }
        if let Some(began) = beside.began() {
            began_ns = progress.elapsed_ns as i64 - began.elapsed().as_nanos() as i64;
        }
        let seen = if samples.have_room() { beside.next() } else { None };
        match seen {
            Some(sample) => samples.keep_watched(progress, later(sample, began_ns)),
            None if !beside.is_on() => samples.keep_if_due(progress),
            None => {}
        }
        samples.complain();
        last.clone_from(progress);
    });
    let (rest, told) = beside.stop();
    if rest.is_empty() {
        samples.keep(&last);
    }
    rest.into_iter().for_each(|sample| samples.keep_watched(&last, later(sample, began_ns)));
    if let Some(live) = &mut live {
        live.clear();
    }
    let in_turns = turns.map(Turns::finish);
    let watch = in_turns.or_else(|| told.as_ref().map(|told| told.record.clone()));
    Ok((RunRecord { watch, ..record? }, told))
}

/// A sample in the time of the run, in which watching began at `began_ns`.
fn later(sample: Sample, began_ns: i64) -> Sample {
    Sample { elapsed_ns: sample.elapsed_ns.saturating_add_signed(began_ns), ..sample }
}

/// Whether people read the results.
fn tells_people(output: &Output) -> bool {
    output.formats.is_empty() || output.formats.contains(&Format::Normal)
}

/// Tells on standard error, unless it is to be `quiet`, how far the laying out of files is.
pub fn show_layout(quiet: bool) -> impl FnMut(&str, u64, u64) {
    let terminal = std::io::stderr().is_terminal();
    let mut next = Instant::now() + Duration::from_millis(500);
    move |path, done, total| {
        if quiet || Instant::now() < next && done < total {
            return;
        }
        next = Instant::now() + Duration::from_millis(500);
        let text = format!("laying out {path}: {}%", done * 100 / total.max(1));
        match terminal && done >= total {
            true => stdio::clear_status(),
            false => stdio::status(&text, terminal),
        }
    }
}
