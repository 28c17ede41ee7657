//! `fathom run`: runs fio's job files and command lines.

use crate::live::{LayoutProgress, Live, MeasureView};
use crate::logs::{LogWriters, write_merged};
use crate::output::{self, Destination, Interim};
use crate::page::{self, Color, PageFormat};
use crate::ranks::{self, Joined, Member};
use crate::rounds::{self, Judged, Rounds};
use crate::signals::Signals;
use crate::stdio::{self, Kind, error};
use crate::steady::Preparation;
use crate::{manual, settings};
use clap::CommandFactory;
use fathom_engine::EntrySender;
use fathom_machine::{Lookup, Roots};
use fathom_model::facts::TargetFacts;
use fathom_model::finding::Severity;
use fathom_model::outcome::{Outcome, RecordKind};
use fathom_model::progress::JobTotals;
use fathom_model::record::{DeviceLimit, Header};
use fathom_model::watch::Level;
use fathom_model::{Facts, Plan, Progress, RunRecord, escape, shell};
use fathom_report::doc::Document;
use fathom_runner::ranks::{Gate, Given, Reading};
use fathom_runner::{
    Hooks, RecordTo, RunOptions, Runner, System, cost, experiment, journal, new_header,
};
use fathom_spec::{Eta, Format, Help, Output, Problems, Share, Spec};
use fathom_store::Runs;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Runs the jobs that `args` describe. The exit status is 0 only if all of them were carried out.
pub fn command(args: &[String]) -> Result<ExitCode, String> {
    if let Some(joined) = ranks::join(args)? {
        return as_rank(args, joined);
    }
    let system = System::default();
    let parsed = fathom_spec::parse(args, &system);
    perform_or_explain(args, parsed, &system.into_files(), None)
}

/// The same as one of several ranks, which all run the jobs of rank 0.
fn as_rank(args: &[String], mut joined: Joined) -> Result<ExitCode, String> {
    let first = joined.is_first().then(|| {
        let reading = Reading::default();
        let parsed = fathom_spec::parse(args, &reading);
        (reading, parsed)
    });
    let runs = |parsed: &Result<Spec, Problems>| {
        parsed.as_ref().is_ok_and(|spec| answer_without_running(spec).is_none())
    };
    let read = first.as_ref().map(|(reading, parsed)| match runs(parsed) {
        true => reading.given(args, String::new()),
        false => Given::refused(),
    });
    let Some(given) = joined.share(read)? else {
        joined.leave();
        return first.map_or(Ok(ExitCode::SUCCESS), |(reading, parsed)| {
            perform_or_explain(args, parsed, &reading.into_files(), None)
        });
    };
    let (member, args, received) = joined.begin(given, Gate::Done)?;
    let parsed = fathom_spec::parse(&args, &received).and_then(|mut spec| {
        // The user's own names of ranks distinguish them already.
        let is_own = spec.output.share == Some(Share::Own) && !received.uses_names;
        let is_special = |path: &str| std::fs::metadata(path).is_ok_and(|found| !found.is_file());
        let errors = if is_own { spec.own_files(member.rank, &is_special) } else { Vec::new() };
        match errors.is_empty() {
            true => Ok(spec),
            false => Err(Problems::of(errors, spec)),
        }
    });
    let status = perform_or_explain(&args, parsed, &received.into_files(), Some(&member));
    member.leave();
    status
}

/// The same for the program started as `fio`.
pub fn as_fio(args: &[String]) -> Result<ExitCode, String> {
    if args.iter().any(|arg| matches!(arg.as_str(), "--version" | "-version" | "-v")) {
        let version = format!("{}\n", fathom_report::fio_text::FIO_VERSION);
        return output::stream(&version, Kind::Lines).map(|_| ExitCode::SUCCESS);
    }
    let system = System::default();
    let parsed = fathom_spec::parse_as_fio(args, &system);
    perform_or_explain(args, parsed, &system.into_files(), None)
}

fn perform_or_explain(
    args: &[String],
    parsed: Result<Spec, Problems>,
    files: &[String],
    member: Option<&Member>,
) -> Result<ExitCode, String> {
    let mut spec = match parsed {
        Ok(spec) => spec,
        Err(problems) => {
            let json = asks_for_json(args);
            let request = &problems.request;
            let errors = match member {
                None => texts(&problems),
                Some(member) => match member.reach::<()>(Gate::Planned, Err(texts(&problems))) {
                    Err(all) => all,
                    Ok(_) => return Ok(ExitCode::FAILURE),
                },
            };
            return explain(errors, request, files, json);
        }
    };
    if member.is_some_and(|member| member.rank > 0) {
        // Rank 0 prints for all.
        let output = &mut spec.output;
        (output.file, output.formats) = (None, Vec::new());
        (output.quiet, output.eta, output.status_interval_ns) = (true, Eta::Never, None);
        (output.compare, output.fail_if) = (None, Vec::new());
    }
    // fio's output is text whatever its file is called.
    let file = spec.output.file.as_deref().filter(|_| !spec.output.as_fio);
    if let Some(file) = file.filter(|_| spec.output.formats.is_empty()) {
        let named = match PageFormat::of_file(file) {
            Ok(Some(PageFormat::Html)) => Some(Format::Html),
            Ok(Some(PageFormat::Markdown)) => Some(Format::Markdown),
            Ok(Some(PageFormat::Json)) => Some(Format::Json),
            // fio's users name their files as they like.
            Ok(Some(PageFormat::Text) | None) | Err(_) => None,
        };
        spec.output.formats.extend(named);
    }
    set_style(&spec.output);
    if let Some(path) = &spec.output.inflate {
        let text = fathom_store::inflate(Path::new(path)).map_err(|why| {
            format!(
                "cannot read the compressed log {path}: {why}; name one of log_store_compressed"
            )
        })?;
        return output::stream(&text, Kind::Lines).map(|_| ExitCode::SUCCESS);
    }
    if spec.output.merge_only {
        return merge_only(&spec, files).map(|()| ExitCode::SUCCESS);
    }
    if let Some(text) = answer_without_running(&spec) {
        return output::stream(&text?, Kind::Lines).map(|_| ExitCode::SUCCESS);
    }
    let json = spec.output.formats.iter().any(|f| matches!(f, Format::Json | Format::JsonPlus));
    execute(&spec, files, member).or_else(|errors| {
        // fio has no such option, nor a status for its errors.
        let is_usage = errors.iter().all(|error| error.starts_with(rounds::CONDITION));
        explain(errors, &spec, files, json).or_else(|last| match is_usage {
            true => Ok(stdio::usage_error(&last)),
            false => Err(last),
        })
    })
}

/// Applies the options that all commands share.
fn set_style(output: &Output) {
    if output.quiet {
        stdio::be_quiet();
    }
    if output.utc {
        page::use_utc();
    }
    match output.color {
        Some(true) => page::set_color(Color::Always),
        Some(false) => page::set_color(Color::Never),
        None => {}
    }
}

fn execute(
    spec: &Spec,
    job_files: &[String],
    member: Option<&Member>,
) -> Result<ExitCode, Vec<String>> {
    let one = |error: String| vec![error];
    if spec.output.parse_only {
        Rounds::of(&spec.output).map_err(one)?;
        let checked = fathom_spec::check(spec);
        return checked.map(|()| ExitCode::SUCCESS).map_err(|problems| texts(&problems));
    }
    let is_restored = settings::recover();
    let resolve = |known: Facts| {
        let (mut plan, facts) = plan(spec, known)?;
        if let Some(member) = member {
            member.share(&mut plan, &facts, &spec.output).map_err(one)?;
        }
        Ok((plan, facts))
    };
    let prepare = || {
        if member.is_none() && matches!(spec.output.share, Some(Share::Split | Share::Own)) {
            return Err(vec![
                "--share=split and own are for several ranks: docs/many-machines.md".into(),
            ]);
        }
        let rounds = Rounds::of(&spec.output).map_err(one)?;
        let known = facts(spec).map_err(one)?;
        let to = check_outputs(&spec.output, &known, job_files).map_err(one)?;
        Ok((rounds, to, resolve(known)?))
    };
    let prepared = match member {
        None => Some(prepare()?),
        Some(member) => {
            let refused = ranks::unsuited(&spec.output);
            member.reach(Gate::Planned, refused.map_err(one).and_then(|()| prepare()))?
        }
    };
    let Some((mut rounds, to, first)) = prepared else { return Ok(ExitCode::FAILURE) };
    let signals = member.map_or_else(Signals::take, |member| Ok(member.signals.clone()));
    let signals = signals.map_err(one)?;
    let is_printed = member.is_none_or(|member| member.rank == 0);
    let request = Request { spec, job_files, to: to.as_ref(), signals: &signals, member };
    let (mut done, mut planned) = (is_restored, Some(first));
    if let Some((plan, facts)) = planned.as_ref().filter(|_| spec.output.steady_state) {
        rounds.prepared(request.prepare_targets(plan, facts)?);
        if let Some(reason) = signals.cancel_token().reason() {
            let why = format!("{reason} after the targets were prepared, before the first round");
            return Err(vec![why]);
        }
        planned = None;
    }
    done &= request.all_rounds(planned, &resolve, &mut rounds)?;
    if let Some(why) = rounds.why_not_steady() {
        error!("steady state: {why}");
        done = false;
    }
    if !is_printed {
        return Ok(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let concluded = conclude(&rounds, &spec.output, to.as_ref());
    concluded.as_ref().err().iter().for_each(|error| error!("{error}"));
    Ok(match concluded {
        Ok(status) if done => status,
        _ => failure(spec, &signals),
    })
}

/// The status of a run that was not carried out: started as `fio`, fio's after a signal.
fn failure(spec: &Spec, signals: &Signals) -> ExitCode {
    match signals.caught().filter(|_| spec.output.as_fio) {
        Some("SIGINT") => ExitCode::from(128),
        Some("SIGTERM") => ExitCode::from(128 + 15),
        _ => ExitCode::FAILURE,
    }
}

fn texts(problems: &Problems) -> Vec<String> {
    problems.errors.iter().map(ToString::to_string).collect()
}

fn plan(spec: &Spec, facts: Facts) -> Result<(Plan, Facts), Vec<String>> {
    let mut plan = fathom_spec::plan(spec, &facts).map_err(|problems| texts(&problems))?;
    if let Some(dir) = &spec.output.journal {
        plan.notes.extend(journal::check(dir, &plan, &facts)?);
    }
    let has_logs =
        spec.output.bandwidth_log.is_some() || plan.jobs.iter().any(|job| job.logs.is_some());
    match spec.output.rounds_max() > 1 && has_logs {
        true => Err(vec![
            "logs and several rounds (--repeat, --steady-state) conflict: each round would replace the logs before; remove one".into(),
        ]),
        false => Ok((plan, facts)),
    }
}

/// Prints what several rounds show together; the status that the requirements give.
fn conclude(
    rounds: &Rounds,
    output: &Output,
    to: Option<&Destination>,
) -> Result<ExitCode, String> {
    if rounds.is_several() {
        output::write_page(&rounds.page()?, output, to, &rounds.printed)?;
    }
    let judged = rounds.judged()?;
    if output.as_fio || !is_for_people(output) {
        judged.report();
    }
    Ok(judged.status())
}

/// Writes the merged traces of all jobs, and does no I/O.
fn merge_only(spec: &Spec, files: &[String]) -> Result<(), String> {
    if spec.jobs.iter().all(|job| job.replaying.merge.is_none()) {
        return Err("--merge-blktrace-only: no job merges traces; set merge_blktrace_file".into());
    }
    write_merged(&spec.jobs, files.iter().map(String::as_str))
}

fn answer_without_running(spec: &Spec) -> Option<Result<String, String>> {
    match &spec.output.help {
        Some(Help::Short) => return Some(Ok(fathom_spec::run_help_short())),
        Some(Help::All) => return Some(Ok(manual::of_run(crate::Cli::command()))),
        Some(Help::Key(key)) => {
            return Some(fathom_spec::key_help(key).map_err(|error| error.to_string()));
        }
        Some(Help::Engine(name)) => {
            let help = fathom_spec::engine_help(name.as_deref());
            return Some(help.map_err(|error| error.to_string()));
        }
        None => {}
    }
    spec.output.showcmd.then(|| {
        let words = spec.show_command();
        let words: Vec<_> = words.iter().map(|word| shell::quoted(word)).collect();
        // Both have the defaults of their name.
        let program = if spec.output.as_fio { "fio" } else { "fathom run" };
        Ok(format!("{program} {}\n", words.join(" ")))
    })
}

/// Checks the place of the record, and opens that of the results, which must not be a file that the run uses.
fn check_outputs(
    output: &Output,
    facts: &Facts,
    job_files: &[String],
) -> Result<Option<Destination>, String> {
    let mut record = Vec::new();
    for round in 1..=output.rounds_max() {
        record.extend(record_to(output, round).check()?);
    }
    let Some(file) = &output.file else { return Ok(None) };
    let targets = facts.targets.iter().map(|target| &target.path);
    let used = targets.chain(job_files).chain(&record).map(String::as_str);
    Destination::open(file, used).map(Some)
}

/// Where a round is recorded: of several, in a directory named by its number.
fn record_to(output: &Output, round: u32) -> RecordTo {
    let dir = output.record.as_ref().map(|dir| match output.rounds_max() {
        1 => dir.clone(),
        _ => format!("{dir}/{round}"),
    });
    RecordTo::from_options(dir.as_deref(), output.no_record)
}

fn facts(spec: &Spec) -> Result<Facts, String> {
    let roots = Roots::default();
    let queries = spec.target_paths().map_err(|e| e.to_string())?;
    let lookup = Lookup::new(&roots);
    let read = |path: &str| lookup.target(path).map_err(|e| format!("cannot read {path}: {e}"));
    let targets = queries.iter().map(|query| read(&query.path)).collect::<Result<_, _>>()?;
    Ok(Facts { host: fathom_machine::host(&roots), targets, ..Facts::default() })
}

/// What earlier searches found for the devices of a run and the disks below them; nothing if there were none, or they cannot
/// be read.
fn device_limits(record: &RunRecord) -> Vec<DeviceLimit> {
    let facts = &record.header.facts;
    let names = facts.targets.iter().flat_map(TargetFacts::device_names);
    let below = fathom_machine::inspect::disks_of(&Roots::default(), names);
    let targets = facts.targets.iter().filter_map(|target| target.device.as_ref());
    let mut devices: Vec<_> = targets.chain(&below).collect();
    devices.sort_by_key(|device| &device.name);
    devices.dedup_by_key(|device| &device.name);
    let found = record.kind_of_io().zip(Runs::open().ok().flatten());
    let found = found.map(|(kind, runs)| runs.device_limits(&facts.host, devices, kind));
    found.and_then(Result::ok).unwrap_or_default()
}

struct Request<'a> {
    spec: &'a Spec,
    job_files: &'a [String],
    to: Option<&'a Destination>,
    signals: &'a Signals,
    /// What this rank is among several.
    member: Option<&'a Member>,
}

impl Request<'_> {
    /// Whether more than the jobs' own figures would be printed, recorded or compared.
    fn is_examined(&self, record: &RecordTo) -> bool {
        let output = &self.spec.output;
        *record != RecordTo::Nowhere
            || !output.as_fio && output.formats != [Format::Terse]
            || output.compare.is_some()
            || output.confirm
            || output.idleness.is_some()
    }

    /// Runs all rounds, the first as `planned`, the others as `resolve` makes of the facts then; whether everything was carried
    /// out.
    fn all_rounds(
        &self,
        mut planned: Option<(Plan, Facts)>,
        resolve: &dyn Fn(Facts) -> Result<(Plan, Facts), Vec<String>>,
        rounds: &mut Rounds,
    ) -> Result<bool, Vec<String>> {
        let mut done = true;
        for round in 1..=rounds.count() {
            // The last round may have created files.
            let again = || facts(self.spec).map_err(|error| vec![error]).and_then(resolve);
            let ran = match (planned.take(), self.member) {
                (Some(first), _) => Ok(Some(first)),
                (None, None) => again().map(Some),
                (None, Some(member)) => member.reach(Gate::Planned, again()),
            };
            let ran = ran.and_then(|planned| match planned {
                Some((plan, facts)) => self.perform(&plan, facts, round, rounds),
                None => Ok(false),
            });
            match ran {
                Ok(is_done) => done &= is_done,
                Err(errors) if round == 1 => return Err(errors),
                // What the rounds before showed is printed.
                Err(errors) => {
                    errors.iter().for_each(|error| error!("{error}"));
                    return Ok(false);
                }
            }
            if round == rounds.count() || rounds.is_steady() {
                break;
            }
            let reason = self.signals.cancel_token().reason();
            let goes_on =
                self.member.map_or(Ok(reason.is_none()), |member| member.again(reason.is_none()));
            if goes_on == Ok(true) {
                continue;
            }
            if self.member.is_none_or(|member| member.rank == 0) {
                let why = goes_on.err().or(reason.map(String::from));
                let why = why.unwrap_or_else(|| "another rank ended".into());
                error!("{why} after {round} of {} rounds", rounds.count());
            }
            return Ok(false);
        }
        Ok(done)
    }

    /// Runs the plan; whether everything was carried out.
    fn perform(
        &self,
        plan: &Plan,
        facts: Facts,
        round: u32,
        rounds: &mut Rounds,
    ) -> Result<bool, Vec<String>> {
        let Self { spec, job_files, to, signals, member } = *self;
        let one = |error: String| vec![error];
        let output = &spec.output;
        let record = record_to(output, round);
        let is_examined = self.is_examined(&record);
        let options = RunOptions {
            permissions: spec.permissions.clone(),
            sampling: if is_examined { output.sampling } else { Level::Off },
            record,
            cancel: signals.cancel_token().clone(),
            journal: output.journal.clone(),
        };
        let mut view = RunView::new(output, plan, to, &rounds.printed);
        view.member = member;
        let targets = facts.targets.iter().map(|target| target.path.clone()).collect::<Vec<_>>();
        let opened = Runner::open(plan, facts, options, &mut view).map_err(one);
        let opened = match member {
            Some(member) => member.reach(Gate::Opened, opened)?,
            None => Some(opened?),
        };
        let Some(mut runner) = opened else { return Ok(false) };
        let used = targets.iter().chain(&output.file).chain(job_files).map(String::as_str);
        if round == 1 && member.is_none_or(|member| member.rank == 0) {
            write_merged(&spec.jobs, used.clone()).map_err(one)?;
        }
        view.logs = LogWriters::create(plan, output.bandwidth_log.as_deref(), used).map_err(one)?;
        // After the targets were opened, so that a refusal is a single line.
        if round == 1 {
            print_notes(plan, output);
        }
        let ran = runner.run(plan, &mut view);
        let errors = view.logs.finish();
        view.report_errors(&errors);
        let mut record = ran.map_err(one)?;
        view.clear();
        if record.header.outcome.is_finished() {
            cost::measure(runner.targets(), plan, signals.cancel_token(), &mut record.jobs);
        }
        if is_examined && record.header.outcome.is_finished() {
            record.device_limits = device_limits(&record);
        }
        record.header.findings = fathom_analysis::rules::judge(&record, runner.observed());
        let own = member.filter(|_| output.confirm).map(|_| record.clone());
        let is_whole = member.is_none_or(|member| member.merge(&mut record, runner.observed()));
        let is_confirmed = self.confirm(&runner, &mut record, own.as_ref(), &mut view);
        let is_printed = member.is_none_or(|member| member.rank == 0);
        let closed = runner.close_targets();
        let dir = runner.record_dir().map(Path::to_path_buf);
        let added = rounds.add(&record, runner.observed(), dir.as_deref());
        if let Some(interim) = &view.interim {
            rounds.printed = interim.kept().to_string();
        }
        // Printed before the record is completed, because its disk may be full or stall.
        let shown = match rounds.is_several() {
            _ if !is_printed => Ok(()),
            true => {
                let observed = runner.observed();
                output::write_for_programs(&record, observed, output, to, &mut rounds.printed)
            }
            false => {
                let more = rounds.judged().map_or_else(|_| Document::default(), Judged::section);
                output::write(&record, runner.observed(), output, to, (&rounds.printed, more))
            }
        };
        if is_printed {
            report_errors(&record, output);
        }
        let finished = runner.finish(&mut record, |record| &mut record.header, &mut view);
        let tagged = if finished.is_ok() { rounds.tag(&record, dir.as_deref()) } else { Ok(()) };
        match (&finished, dir) {
            (Err(error), _) => error!("{error}"),
            (Ok(()), Some(dir)) if std::io::stderr().is_terminal() => {
                stdio::info(&format!("record: {}", escape::path(&dir)));
            }
            _ => {}
        }
        let ends = [added, shown, closed, tagged];
        ends.iter().filter_map(|end| end.as_ref().err()).for_each(|error| error!("{error}"));
        Ok(ends.iter().all(Result::is_ok)
            && is_confirmed
            && is_whole
            && finished.is_ok()
            && !view.has_failed
            && record.is_complete())
    }

    /// Prepares the targets of `plan` for rounds that are to be steady; what was done, and what was not.
    fn prepare_targets(&self, plan: &Plan, facts: &Facts) -> Result<Vec<String>, Vec<String>> {
        let one = |error: String| vec![error];
        let preparation = Preparation::of(plan, facts, &self.spec.permissions);
        let mut lines = preparation.left_out.clone();
        lines.iter().for_each(|line| stdio::info(&format!("fathom: note: {line}")));
        if preparation.args.is_empty() {
            return Ok(lines);
        }
        let spec = fathom_spec::parse(&preparation.args, &System::default());
        let mut spec = spec.map_err(|problems| texts(&problems))?;
        spec.permissions = self.spec.permissions.clone();
        let (plan, facts) = self::plan(&spec, self::facts(&spec).map_err(one)?)?;
        let options = RunOptions {
            permissions: spec.permissions,
            sampling: self.spec.output.sampling,
            record: record_to(&self.spec.output, 0),
            cancel: self.signals.cancel_token().clone(),
            journal: None,
        };
        let output = Output { status_interval_ns: None, ..self.spec.output.clone() };
        let mut view = RunView::new(&output, &plan, None, "");
        let mut runner = Runner::open(&plan, facts, options, &mut view).map_err(one)?;
        let mut record = runner.run(&plan, &mut view).map_err(one)?;
        view.clear();
        record.header.findings = fathom_analysis::rules::judge(&record, runner.observed());
        report_errors(&record, &output);
        let closed = runner.close_targets();
        let finished = runner.finish(&mut record, |record| &mut record.header, &mut view);
        closed.and(finished).map_err(one)?;
        let done = preparation.done(&record).map_err(one)?;
        stdio::info(&format!("fathom: {done}"));
        lines.insert(0, done);
        Ok(lines)
    }

    /// Tests the verdict of a run that finished, if requested; whether that was possible. `own` is the record of this rank, if it is
    /// one of several.
    fn confirm(
        &self,
        runner: &Runner,
        record: &mut RunRecord,
        own: Option<&RunRecord>,
        view: &mut RunView<'_>,
    ) -> bool {
        let output = &self.spec.output;
        if !output.confirm || self.member.is_none() && !record.header.outcome.is_finished() {
            return true;
        }
        let cancel = self.signals.cancel_token();
        let mut ranks = self.member.map(|member| member.ranks.borrow_mut());
        let mut progress = MeasureView::of_experiment();
        let hooks: &mut dyn Hooks = if is_quiet(output) { view } else { &mut progress };
        let confirmed = match (ranks.as_deref_mut(), own) {
            (Some(ranks), Some(own)) if self.member.is_some_and(|member| member.rank > 0) => {
                // Without the others, rank 0 has said why.
                let Some(taken) = ranks.take() else { return true };
                let (taken, served) =
                    experiment::confirm_as_rank(runner.targets(), own, taken, cancel);
                *ranks = Some(taken);
                served.map_err(|lost| lost.to_string())
            }
            (ranks, own) => {
                experiment::confirm(runner.targets(), record, ranks.zip(own), cancel, hooks)
            }
        };
        progress.clear();
        if let Err(why) = &confirmed {
            error!("not confirmed: {why}");
        }
        confirmed.is_ok()
    }
}

/// Programs that start fio take any line for an error.
fn print_notes(plan: &Plan, output: &Output) {
    if !output.as_fio || std::env::var_os("FATHOM_NOTES").is_some_and(|value| value == "1") {
        plan.notes.iter().for_each(|note| stdio::info(&format!("fathom: note: {note}")));
    }
}

/// Prints errors on standard error unless the results, which include them, are on a terminal at once.
fn report_errors(record: &RunRecord, output: &Output) {
    let is_shown = output.file.is_none() && is_for_people(output) && output.rounds_max() == 1;
    if is_shown && std::io::stdout().is_terminal() {
        return;
    }
    for finding in record.header.findings.iter().filter(|f| f.severity == Severity::Error) {
        error!("{}", finding.summary);
    }
}

fn is_for_people(output: &Output) -> bool {
    let text = |format: &Format| matches!(format, Format::Normal | Format::Markdown | Format::Html);
    output.formats.is_empty() || output.formats.iter().any(text)
}

/// Whether no progress is shown. fio writes its own to a terminal only; programs take other lines for errors.
fn is_quiet(output: &Output) -> bool {
    let auto_off = output.as_fio && !std::io::stderr().is_terminal();
    output.eta == Eta::Never || output.eta == Eta::Auto && auto_off
}

struct RunView<'a> {
    plan: &'a Plan,
    live: Option<Live>,
    layout: LayoutProgress,
    interim: Option<Interim<'a>>,
    logs: LogWriters,
    member: Option<&'a Member>,
    /// Whether a log or an interim result could not be written.
    has_failed: bool,
}

impl<'a> RunView<'a> {
    /// `printed` is what a file holds already.
    fn new(output: &'a Output, plan: &'a Plan, to: Option<&'a Destination>, printed: &str) -> Self {
        let interim = Interim::new(output, to, printed);
        let interval = output.status_interval_ns.filter(|_| interim.is_none());
        let interval = interval.map(Duration::from_nanos);
        let quiet = is_quiet(output);
        let live = (!quiet || interval.is_some()).then(|| Live::new(interval));
        let layout = LayoutProgress::new(quiet);
        let logs = LogWriters::default();
        Self { plan, live, layout, interim, logs, member: None, has_failed: false }
    }

    fn report_errors(&mut self, errors: &[String]) {
        self.has_failed |= !errors.is_empty();
        errors.iter().for_each(|error| error!("{error}"));
    }

    fn clear(&self) {
        self.live.iter().for_each(Live::clear);
    }
}

impl Hooks for RunView<'_> {
    fn laying_out(&mut self, path: &str, done: u64, total: u64) {
        self.layout.show(path, done, total);
    }

    fn ready(&mut self) -> Result<(), String> {
        self.member.map_or(Ok(()), Member::start)
    }

    fn progress(&mut self, progress: &Progress) {
        if let Some(member) = self.member {
            member.progress(progress);
        }
        match (&mut self.live, self.member) {
            (Some(live), Some(member)) => live.show_ranks(&member.all()),
            (Some(live), None) => live.show(progress, self.plan),
            (None, _) => {}
        }
        let errors = self.logs.take_total(progress);
        self.report_errors(&errors);
    }

    fn interim(&mut self, make: &dyn Fn() -> RunRecord) {
        let shown = self.interim.as_mut().map_or(Ok(()), |interim| interim.show(make));
        if let Err(error) = shown {
            // A reader that went away stays away.
            self.interim = None;
            self.report_errors(&[error]);
        }
    }

    fn io_log(&mut self, job: usize) -> Option<EntrySender> {
        let started = self.logs.start_writer(self.plan, job);
        started.map_err(|error| self.report_errors(&[error])).ok()
    }

    fn totals(&mut self, totals: &[(usize, JobTotals)]) -> Duration {
        let (errors, wait) = self.logs.take(totals);
        self.report_errors(&errors);
        wait
    }

    fn notice(&mut self, text: &str) {
        error!("{text}");
    }
}

/// Whether a command line that cannot be parsed requests JSON.
fn asks_for_json(args: &[String]) -> bool {
    let names = |list: &str| list.split(',').any(|word| word.starts_with("json"));
    let mut args = args.iter().map(|arg| arg.trim_start_matches('-')).peekable();
    while let Some(option) = args.next() {
        let next = args.peek().copied().unwrap_or_default();
        let list = match option {
            "json" => return true,
            "output-format" | "format" => Some(next),
            _ => option.strip_prefix("output-format=").or(option.strip_prefix("format=")),
        };
        if list.is_some_and(names) {
            return true;
        }
    }
    false
}

/// Prints why nothing was done, all but the last error, which it returns. If JSON is requested, it is also written as
/// JSON, to the destination of the results of `request`; `job_files` were read for it.
fn explain<E: ToString>(
    errors: Vec<E>,
    request: &Spec,
    job_files: &[String],
    json: bool,
) -> Result<ExitCode, String> {
    let mut errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    if json {
        let outcome = Outcome::Refused { because: errors.join("; ") };
        let header = new_header(RecordKind::Run, Facts::default());
        let header = Header { outcome, ..header };
        let record = RunRecord { header, ..RunRecord::default() };
        let text = fathom_report::fio_json::render(&record, None, false);
        let to = destination(request, job_files);
        // The errors matter more than one of printing them.
        let _ = output::emit(&text, Kind::Json, to.as_ref());
    }
    let last = errors.pop().unwrap_or_default();
    errors.iter().for_each(|error| error!("{error}"));
    Err(last)
}

/// The file of `--output`, unless it may be anything but the result of another run: what could not be
/// understood may have been its use as a target.
fn destination(request: &Spec, job_files: &[String]) -> Option<Destination> {
    let file = request.output.file.as_ref()?;
    let targets = request.target_paths().ok()?;
    let targets = targets.iter().map(|target| &target.path);
    let used = targets.chain(job_files).map(String::as_str);
    let to = Destination::open(file, used).ok()?;
    let mut first = [0];
    let is_result = match File::open(file).and_then(|mut file| file.read(&mut first)) {
        Ok(read) => read == 0 || first == [b'{'],
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    (is_result || !matches!(to, Destination::File(..))).then_some(to)
}
