//! `fathom run`: job files and command lines that people have for fio.

use crate::folder::Folder;
use crate::live::Live;
use crate::output;
use crate::session::Session;
use crate::signals::Signals;
use crate::sources::System;
use fathom_machine::Roots;
use fathom_machine::guard::Permissions;
use fathom_model::{Facts, Plan, RunRecord};
use fathom_spec::{Eta, Help, Output, Spec};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Between two lines of `samples.ndjson`.
const SAMPLE: Duration = Duration::from_secs(1);

/// Runs what `args` describe. The exit status is 0 only if all of it was done.
///
/// # Errors
/// Why nothing was done.
pub fn command(args: &[String]) -> Result<ExitCode, String> {
    let spec = fathom_spec::parse(args, &System).map_err(|e| e.to_string())?;
    if let Some(text) = answer_without_running(&spec) {
        return output::emit(&text, None).map(|()| ExitCode::SUCCESS);
    }
    let facts = facts(&spec)?;
    let plan = fathom_spec::plan(&spec, &facts).map_err(|e| e.to_string())?;
    if spec.output.parse_only {
        return Ok(ExitCode::SUCCESS);
    }
    for note in &plan.notes {
        eprintln!("fathom: note: {note}");
    }
    let signals = Signals::take().map_err(|e| format!("cannot take signals: {e}"))?;
    let record = perform(&spec, &plan, facts, &signals)?;
    Ok(if record.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn answer_without_running(spec: &Spec) -> Option<String> {
    match &spec.output.help {
        Some(Help::All) => return Some(fathom_spec::run_help()),
        Some(Help::Key(key)) => {
            return Some(fathom_spec::key_help(key).unwrap_or_else(|e| format!("{e}\n")));
        }
        None => {}
    }
    spec.output.showcmd.then(|| spec.show_command().join("\n") + "\n")
}

fn facts(spec: &Spec) -> Result<Facts, String> {
    let roots = Roots::default();
    let queries = spec.target_paths().map_err(|e| e.to_string())?;
    let targets = queries
        .iter()
        .map(|q| {
            fathom_machine::target(&roots, &q.path)
                .map_err(|e| format!("cannot look at {}: {e}", q.path))
        })
        .collect::<Result<_, _>>()?;
    Ok(Facts { host: fathom_machine::host(&roots), targets })
}

fn perform(spec: &Spec, plan: &Plan, facts: Facts, signals: &Signals) -> Result<RunRecord, String> {
    let permissions = Permissions {
        erase: spec.permissions.erase.clone(),
        overwrite: spec.permissions.overwrite.clone(),
    };
    let mut session = Session::open(plan, facts, &permissions)?;
    session.fill(signals, show_layout())?;
    let mut folder = open_folder(&spec.output, &session, plan)?;
    let mut record = watch(&session, plan, signals, &spec.output, folder.as_mut())?;
    record.findings = fathom_analysis::run::findings(&record);
    if let Some(folder) = &folder {
        folder.record(&record)?;
    }
    output::write(&record, &spec.output)?;
    if let Some(folder) = folder.filter(|_| std::io::stderr().is_terminal()) {
        eprintln!("record: {}", folder.path().display());
    }
    session.finish()?;
    Ok(record)
}

/// A run folder with a record that says that the run did not end, until it has.
fn open_folder(output: &Output, session: &Session, plan: &Plan) -> Result<Option<Folder>, String> {
    if output.no_record {
        return Ok(None);
    }
    let mut record = session.new_record(plan);
    record.interrupted = Some("the run did not end: it was killed, or the machine stopped".into());
    let made = Folder::create(output.record.as_deref(), record.started_unix_ns)
        .and_then(|folder| folder.record(&record).map(|()| folder));
    match made {
        Ok(folder) => Ok(Some(folder)),
        // Only a folder that was asked for by name is part of the request.
        Err(error) if output.record.is_none() => {
            eprintln!("fathom: no record is kept: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn watch(
    session: &Session,
    plan: &Plan,
    signals: &Signals,
    output: &Output,
    mut folder: Option<&mut Folder>,
) -> Result<RunRecord, String> {
    let interval = output.status_interval_ns.map(Duration::from_nanos);
    let shows = output.eta != Eta::Never || interval.is_some();
    let mut live = shows.then(|| Live::new(interval));
    let mut next_sample = Instant::now() + SAMPLE;
    let mut last = None;
    let record = session.run(plan, signals, |progress| {
        if let Some(live) = &mut live {
            live.show(progress, plan);
        }
        if Instant::now() >= next_sample {
            next_sample += SAMPLE;
            sample(&mut folder, progress);
        }
        last = Some(progress.clone());
    });
    if let Some(progress) = last {
        sample(&mut folder, &progress);
    }
    if let Some(live) = &mut live {
        live.clear();
    }
    record
}

/// Appends a sample; a folder that can no longer be written is given up, not the run.
fn sample(folder: &mut Option<&mut Folder>, progress: &fathom_model::Progress) {
    if let Some(Err(error)) = folder.as_mut().map(|folder| folder.sample(progress)) {
        eprintln!("fathom: samples are no longer written: {error}");
        *folder = None;
    }
}

/// Tells on standard error how far the laying out of files is.
pub fn show_layout() -> impl FnMut(&str, u64, u64) {
    let terminal = std::io::stderr().is_terminal();
    let mut next = Instant::now() + Duration::from_millis(500);
    move |path, done, total| {
        if Instant::now() < next && done < total {
            return;
        }
        next = Instant::now() + Duration::from_millis(500);
        let text = format!("laying out {path}: {}%", done * 100 / total.max(1));
        let text = match (terminal, done < total) {
            (true, true) => format!("\r{text}\x1b[K"),
            (true, false) => "\r\x1b[K".to_string(),
            (false, _) => format!("{text}\n"),
        };
        // A view that cannot be shown must not end the work that it shows.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}
