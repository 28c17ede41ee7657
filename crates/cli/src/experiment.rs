//! `fathom try`: variants compared with each other, one thing changed at a time; and what it shares with `fathom sweep`.

use crate::live::MeasureView;
use crate::output::Destination;
use crate::page::{PageArgs, RecordArgs};
use crate::ranks::{self, Member};
use crate::signals::{self, Signals};
use crate::{Command, quantity, show, stdio, sweep};
use fathom_machine::guard::Permissions;
use fathom_model::Record;
use fathom_model::experiment::{Experiment, ExperimentRecord, Metric, Protocol, Request};
use fathom_model::watch::Level;
use fathom_report::json;
use fathom_report::pages::{self, ShippedExperiment};
use fathom_runner::experiment::{ExperimentOptions, ExperimentRunner};
use fathom_runner::ranks::Gate;
use fathom_runner::{Hooks, RecordTo, System};
use fathom_spec::{Sources, SpecError, experiment};
use fathom_store::{RunDir, read_record};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const FILE_MAX: u64 = 1 << 20;
/// Rounds that a comparison needs, of which the first one warms up; and those of a sweep.
const ROUNDS: u32 = 8;
const ROUNDS_SWEEP: u32 = 3;
/// Rounds for which the default time is enough.
const ROUNDS_PLANNED: f64 = 60.0;
const ROUNDS_PLANNED_SWEEP: f64 = 5.0;
const ROUNDS_PLANNED_SAMPLED: f64 = 20.0;
/// Length of a window, in seconds. For a comparison, many short ones: it ends early on an idle machine, and a burst of
/// other load spoils few rounds on a busy one.
const WINDOW: f64 = 0.2;
const WINDOW_SWEEP: f64 = 0.5;
/// For what sampling costs: samplers take a sample each second, and the first ones cost more.
const WINDOW_SAMPLED: f64 = 2.0;
const WINDOW_MIN: f64 = 0.1;
const WINDOW_MAX: f64 = 2.0;
/// The part of a window that is spent under load before it.
const RAMP_PART: f64 = 0.2;
/// Bounds of the default time, in seconds.
const SECONDS_MIN: f64 = 15.0;
const SECONDS_MAX: f64 = 900.0;
const SCRATCH: u64 = 1 << 30;
/// With more conditions, they are not sampled one by one.
const DETAILS_MAX: usize = 32;

/// Name and file of each, in the order in which they are listed.
const SHIPPED: [(&str, &str); 14] = [
    ("one-disk", include_str!("../../../experiments/one-disk.toml")),
    ("all-disks", include_str!("../../../experiments/all-disks.toml")),
    ("direct-buffered", include_str!("../../../experiments/direct-buffered.toml")),
    ("readahead", include_str!("../../../experiments/readahead.toml")),
    ("scheduler", include_str!("../../../experiments/scheduler.toml")),
    ("polled", include_str!("../../../experiments/polled.toml")),
    ("clock", include_str!("../../../experiments/clock.toml")),
    ("async-buffered", include_str!("../../../experiments/async-buffered.toml")),
    ("sqpoll", include_str!("../../../experiments/sqpoll.toml")),
    ("one-core-peak", include_str!("../../../experiments/one-core-peak.toml")),
    ("block-size", include_str!("../../../experiments/block-size.toml")),
    ("kernels", include_str!("../../../experiments/kernels.toml")),
    ("filesystems", include_str!("../../../experiments/filesystems.toml")),
    ("sampling", include_str!("../../../experiments/sampling.toml")),
];

#[derive(clap::Args)]
pub struct Args {
    /// A built-in experiment, a TOML file, or two or more jobs (each a quoted list of fio keys), then files or block devices
    #[arg(value_name = "EXPERIMENT|JOB|TARGET")]
    words: Vec<String>,
    /// List the built-in experiments
    #[arg(long)]
    list: bool,
    /// Metric for comparing jobs given on the command line: iops, bandwidth, latency, cpu or time
    #[arg(long, value_name = "METRIC", value_parser = metric, default_value = "iops")]
    metric: Metric,
    /// Continue an interrupted experiment in its run directory
    #[arg(long, value_name = "DIR|NAME", conflicts_with_all = ["words", "record", "no_record"])]
    resume: Option<PathBuf>,
    #[command(flatten)]
    pub measure: MeasureArgs,
    #[command(flatten)]
    pub page: PageArgs,
}

/// `args` with the leading dashes of jobs removed, which would be taken for options: `--rw=read --bs=4k` in one word.
pub fn without_dashes(args: Vec<OsString>) -> Vec<OsString> {
    let is_try = args.get(1).is_some_and(|command| command == "try");
    let bare = |arg: OsString| match arg.to_str() {
        Some(text) if is_try && text.contains(' ') && experiment::job_words(text).is_some() => {
            text.trim_start_matches('-').into()
        }
        _ => arg,
    };
    args.into_iter().map(bare).collect()
}

fn metric(text: &str) -> Result<Metric, String> {
    let found = Metric::NAMES.iter().find(|(name, _)| *name == text);
    found.map(|(_, metric)| *metric).ok_or_else(|| {
        format!("expected one of {}", Metric::NAMES.map(|(name, _)| name).join(", "))
    })
}

pub fn command(args: &Args) -> Result<ExitCode, String> {
    if args.list {
        let to = args.page.destination(None)?;
        let all = shipped()?;
        args.page.print(&pages::experiments(&all), || json::text(&all), to.as_ref())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(named) = &args.resume {
        return resume(&args.measure, &args.page, named, false);
    }
    measure(&args.measure, &args.page, &|| {
        let (experiment, targets) = args.experiment()?;
        Ok(MeasurePlan { experiment, targets, is_sweep: false })
    })
}

impl Args {
    fn experiment(&self) -> Result<(Experiment, Vec<String>), String> {
        let words = |word: &String| experiment::job_words(word);
        let count = self.words.iter().map_while(words).count();
        let (first, rest) = match self.words.split_first() {
            None => {
                return Err(
                    "name an experiment, or two jobs; `fathom try --list` lists experiments".into(),
                );
            }
            Some((_, _)) if count > 0 => {
                let jobs: Vec<Vec<String>> = self.words.iter().map_while(words).collect();
                if count < 2 {
                    return Err(format!(
                        "'{}' is one job; add a second one to compare it with",
                        self.words[0]
                    ));
                }
                let targets = targets(&self.words[count..])?;
                let found = experiment::compare_jobs(&jobs, self.metric).map_err(joined)?;
                return Ok((found, targets));
            }
            Some(words) => words,
        };
        let targets = targets(rest)?;
        let cpus = System::default().machine().cpus;
        let text = match SHIPPED.iter().find(|(name, _)| name == first) {
            Some((_, text)) => (*text).to_string(),
            None => read(first)?,
        };
        let found =
            experiment::experiment(&text, first, cpus, targets.len().max(1)).map_err(joined)?;
        Ok((found, targets))
    }
}

fn targets(words: &[String]) -> Result<Vec<String>, String> {
    match words.iter().find(|word| word.starts_with('-')) {
        Some(option) => Err(format!("unknown option or key '{option}'; see `fathom try -h`")),
        None => Ok(words.to_vec()),
    }
}

/// All problems, one a line.
pub fn joined(problems: Vec<SpecError>) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn read(path: &str) -> Result<String, String> {
    if !path.ends_with(".toml") && !path.contains('/') {
        let names = SHIPPED.map(|(name, _)| name).join(", ");
        return Err(format!("unknown experiment '{path}'; use {names}, or a .toml file"));
    }
    let hint = "not an experiment file; name an experiment or jobs before the targets";
    read_toml(path, hint)
}

/// The text of a file that a user wrote; `otherwise` says what something else than a file is.
///
/// # Errors
/// If it cannot be read, is not a file, or is larger than anybody writes.
pub fn read_toml(path: &str, otherwise: &str) -> Result<String, String> {
    let failed = |e: std::io::Error| format!("cannot read {path}: {e}");
    let found = std::fs::metadata(path).map_err(failed)?;
    if !found.is_file() {
        return Err(format!("{path} is {otherwise}"));
    }
    if found.len() > FILE_MAX {
        return Err(format!("{path} has {} bytes; expected at most {FILE_MAX}", found.len()));
    }
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(FILE_MAX).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

fn shipped() -> Result<Vec<ShippedExperiment>, String> {
    let one = |(name, text): &(&'static str, &str)| {
        let found = experiment::experiment(text, name, 1, 0).map_err(joined)?;
        Ok(ShippedExperiment { experiment: name, question: found.question })
    };
    SHIPPED.iter().map(one).collect()
}

fn stored(dir: &Path) -> Result<ExperimentRecord, String> {
    match read_record(dir)? {
        Record::Experiment(record) => Ok(*record),
        _ => Err(format!("{} is not a record of an experiment", dir.display())),
    }
}

/// The files of the run directories `dirs`, which no result may replace.
pub fn record_files(dirs: &[PathBuf]) -> Vec<String> {
    let files = dirs.iter().flat_map(|dir| RunDir::FILES.map(|name| dir.join(name)));
    files.map(|file| file.to_string_lossy().into_owned()).collect()
}

#[derive(Debug, Clone, Default, clap::Args)]
pub struct PermitArgs {
    /// Permit writing to this existing file
    #[arg(long, value_name = "FILE")]
    overwrite: Vec<String>,
    /// Permit writing to this block device: DEVICE or DEVICE@SERIAL
    #[arg(long, value_name = "DEVICE")]
    erase: Vec<String>,
}

impl PermitArgs {
    pub fn permissions(&self) -> Permissions {
        Permissions { erase: self.erase.clone(), overwrite: self.overwrite.clone() }
    }
}

#[derive(Debug, Clone, Default, clap::Args)]
pub struct MeasureArgs {
    /// Maximum measuring time, such as 30 (seconds) or 5m; by default depends on the number of variants
    #[arg(short = 't', long, value_name = "TIME", value_parser = quantity::time)]
    duration: Option<Duration>,
    /// Length of each window; by default 100ms to 2s, to fit the duration
    #[arg(long, value_name = "TIME", value_parser = quantity::interval)]
    window: Option<Duration>,
    /// Stop once intervals are narrower than ± this percent; by default 1 (try) or 3 (sweep)
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    precision: Option<f64>,
    #[command(flatten)]
    permit: PermitArgs,
    /// Size of the scratch file, such as 4g; at most a tenth of the free space
    #[arg(long, value_parser = quantity::scratch_size)]
    size: Option<u64>,
    /// Directory of the scratch file
    #[arg(long, value_name = "DIR", default_value = ".")]
    scratch_dir: String,
    #[command(flatten)]
    record: RecordArgs,
    /// How much of the machine to sample: by default each variant once, after the rounds
    #[arg(long, value_parser = quantity::level(), default_value = "default")]
    sampling: Level,
    /// Measure alone, even if a launcher started several
    #[arg(long)]
    no_ranks: bool,
}

pub struct MeasurePlan {
    pub experiment: Experiment,
    pub targets: Vec<String>,
    /// Whether each cell stands for itself.
    pub is_sweep: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    number
        .filter(|percent| (0.1..=50.0).contains(percent))
        .ok_or_else(|| "expected a percentage from 0.1 to 50".to_string())
}

/// Measures what `plan` says: alone, or as one of several ranks, for all of which rank 0 makes it.
pub fn measure(
    args: &MeasureArgs,
    page: &PageArgs,
    plan: &dyn Fn() -> Result<MeasurePlan, String>,
) -> Result<ExitCode, String> {
    let request = || plan().map(|plan| args.request(plan));
    let text = || serde_json::to_string(&request()).unwrap_or_default();
    if let Some((member, given, text)) = ranks::joined(args.no_ranks, Gate::Ready, &text)? {
        return measure_as_rank(member, &given, &text);
    }
    let request = match request().and_then(|request| check_ranks(request, None)) {
        Ok(request) => request,
        Err(error) => return Ok(stdio::usage_error(&error)),
    };
    perform(args, page, args.options(request), None)
}

/// The same as one of several ranks: the command line of rank 0 is `given`, and what it requests is in `text`.
fn measure_as_rank(member: Member, given: &[String], text: &str) -> Result<ExitCode, String> {
    let request = serde_json::from_str::<Result<Request, String>>(text);
    let request = request.map_err(|error| error.to_string()).and_then(|request| request);
    let request = request.and_then(|request| check_ranks(request, Some(member.size)));
    let request = match request {
        Ok(request) => request,
        Err(why) => {
            // Rank 0 says it for all.
            let own = if member.rank == 0 { Err(why) } else { Ok(()) };
            let _ = member.pass(Gate::Opened, own);
            return Ok(ExitCode::FAILURE);
        }
    };
    let (args, page) = match crate::parsed_again(given)? {
        Command::Try(Args { measure, page, .. }) => (measure, page),
        Command::Sweep(sweep::Args { measure, page, .. }) => (measure, page),
        _ => return Err("rank 0 runs another command; start the same one on all hosts".into()),
    };
    let mut options = args.options(request);
    // A directory that is named may be that of rank 0.
    if member.rank > 0 && matches!(options.record, RecordTo::Required(_)) {
        options.record = RecordTo::Nowhere;
    }
    perform(&args, &page, options, Some(member))
}

/// Refuses numbers of ranks beyond those that there are.
fn check_ranks(request: Request, size: Option<u32>) -> Result<Request, String> {
    let most = request.experiment.conditions.iter().filter_map(|condition| condition.ranks).max();
    match (most, size) {
        (Some(_), None) => Err("--ranks is for several ranks: docs/many-machines.md".into()),
        (Some(most), Some(size)) if most > size => {
            Err(format!("--ranks: {most} of {size} ranks cannot take part; shorten the list"))
        }
        _ => Ok(request),
    }
}

/// Continues the experiment or sweep in a run directory.
pub fn resume(
    args: &MeasureArgs,
    page: &PageArgs,
    named: &Path,
    is_sweep: bool,
) -> Result<ExitCode, String> {
    if ranks::is_one_of_several(args.no_ranks) {
        return Err(
            "--resume is not supported with several ranks; start the experiment anew".into()
        );
    }
    let dir = show::find(Some(named))?;
    let record: ExperimentRecord = stored(&dir)?;
    if record.request.is_sweep != is_sweep {
        let kind = if record.request.is_sweep { "a sweep" } else { "an experiment of `try`" };
        let command = resume_command(record.request.is_sweep, &dir);
        return Err(format!("{} is {kind}; continue it with `{command}`", dir.display()));
    }
    if record.header.outcome.is_finished() {
        return Err(format!("{} is complete; `fathom show` prints it", dir.display()));
    }
    if !record.ranks.is_empty() {
        return Err(format!(
            "{} was measured by several ranks, which is not supported by --resume; start it anew",
            dir.display()
        ));
    }
    let mut request = record.request;
    if let Some(duration) = args.duration {
        request.protocol.seconds = duration.as_secs_f64();
    }
    let resume = Some(dir.to_path_buf());
    let record = RecordTo::Required(None);
    let options = ExperimentOptions { request, resume, record, ..ExperimentOptions::default() };
    perform(args, page, options, None)
}

fn perform(
    args: &MeasureArgs,
    page: &PageArgs,
    options: ExperimentOptions,
    member: Option<Member>,
) -> Result<ExitCode, String> {
    let signals =
        member.as_ref().map_or_else(Signals::take, |member| Ok(member.signals.clone()))?;
    let is_first = member.as_ref().is_none_or(|member| member.rank == 0);
    let mut view = MeasureView::of_experiment();
    let mut silent = ();
    let hooks: &mut dyn Hooks = if is_first { &mut view } else { &mut silent };
    let opened = open(args, page, options, (&signals, is_first), hooks);
    let (mut runner, to, mut ranks) = match member {
        None => {
            let (mut runner, to) = opened?;
            runner.lay_out(hooks)?;
            (runner, to, None)
        }
        Some(member) => {
            let opened = member.pass(Gate::Opened, opened);
            let Some((mut runner, to)) = opened else { return Ok(ExitCode::FAILURE) };
            let laid_out = runner.lay_out(hooks);
            let ready = member.in_step(Gate::Ready, laid_out);
            let Some((_, ranks)) = ready else { return Ok(ExitCode::FAILURE) };
            (runner, to, Some(ranks))
        }
    };
    if let Some(ranks) = ranks.take_if(|ranks| ranks.rank > 0) {
        let (mut ranks, mut record) = runner.serve(ranks)?;
        // The launcher may have gone already.
        let _ = ranks.leave();
        let closed = runner.close_targets();
        closed.and(runner.finish(&mut record, |record| &mut record.header, &mut ()))?;
        let is_finished = record.header.outcome.is_finished();
        return Ok(if is_finished { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let measured = runner.run(hooks, &mut ranks);
    let _ = ranks.map(|mut ranks| ranks.leave());
    let mut record = measured?;
    view.clear();
    let closed = runner.close_targets();
    let shown =
        page.print(&pages::experiment(&record, page.verbose), || json::text(&record), to.as_ref());
    let dir = runner.record_dir().map(Path::to_path_buf);
    // After the result is printed: the record's disk may be full, or stall.
    let finished = runner.finish(&mut record, |record| &mut record.header, &mut view);
    shown.and(closed).and(finished)?;
    let may_resume = !record.header.outcome.is_finished() && record.ranks.is_empty();
    if let Some(dir) = dir.filter(|_| may_resume) {
        let command = resume_command(record.request.is_sweep, &dir);
        stdio::info(&format!("fathom: continue with `{command}`"));
    }
    Ok(if record.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn resume_command(is_sweep: bool, dir: &Path) -> String {
    let command = if is_sweep { "sweep" } else { "try" };
    let path = dir.display().to_string();
    format!("fathom {command} --resume {}", fathom_model::shell::quoted(&path))
}

type Opened = (ExperimentRunner, Option<Destination>);

/// Opens the experiment, and where its result goes, if this is the rank that prints it.
fn open(
    args: &MeasureArgs,
    page: &PageArgs,
    options: ExperimentOptions,
    (signals, is_first): (&Signals, bool),
    hooks: &mut dyn Hooks,
) -> Result<Opened, String> {
    let mut used = options.record.check()?;
    used.extend(record_files(options.resume.as_slice()));
    let options = ExperimentOptions {
        permissions: args.permit.permissions(),
        cancel: signals.cancel_token().clone(),
        command_limits: signals::raise_limits(),
        ..options
    };
    let runner = ExperimentRunner::open(options, hooks)?;
    let targets = runner.targets().facts.targets.iter().map(|target| &target.path);
    let to = match is_first {
        true => page.destination(targets.chain(&used).map(String::as_str))?,
        false => None,
    };
    Ok((runner, to))
}

impl MeasureArgs {
    fn request(&self, plan: MeasurePlan) -> Request {
        let protocol = self.protocol(&plan);
        let MeasurePlan { mut experiment, targets, is_sweep } = plan;
        if self.sampling == Level::Full {
            experiment.conditions.iter_mut().for_each(|condition| condition.sampling = Level::Full);
        }
        let details = self.sampling != Level::Off && experiment.conditions.len() <= DETAILS_MAX;
        Request {
            experiment,
            protocol,
            targets,
            scratch_bytes: self.size.unwrap_or(SCRATCH),
            scratch_dir: self.scratch_dir.clone(),
            details,
            is_sweep,
            ..Request::default()
        }
    }

    fn options(&self, request: Request) -> ExperimentOptions {
        ExperimentOptions {
            request,
            is_scratch_exact: self.size.is_some(),
            record: self.record.to(),
            ..ExperimentOptions::default()
        }
    }

    fn protocol(&self, plan: &MeasurePlan) -> Protocol {
        let conditions = plan.experiment.conditions.len().max(1) as f64;
        let mut levels = plan.experiment.conditions.iter().map(|condition| condition.sampling);
        let first = levels.next();
        let is_of_sampling = levels.any(|level| Some(level) != first);
        let (rounds, planned, usual) = match plan.is_sweep {
            true => (ROUNDS_SWEEP, ROUNDS_PLANNED_SWEEP, WINDOW_SWEEP),
            false if is_of_sampling => (ROUNDS, ROUNDS_PLANNED_SAMPLED, WINDOW_SAMPLED),
            false => (ROUNDS, ROUNDS_PLANNED, WINDOW),
        };
        let default = conditions * planned * usual * (1.0 + RAMP_PART);
        let seconds =
            self.duration.map_or(default.clamp(SECONDS_MIN, SECONDS_MAX), |t| t.as_secs_f64());
        let each = seconds / conditions / (f64::from(rounds) + 4.0) / (1.0 + RAMP_PART);
        let window = self
            .window
            .map_or(each.clamp(WINDOW_MIN, WINDOW_MAX).min(usual.max(each / 8.0)), |t| {
                t.as_secs_f64()
            });
        Protocol {
            seconds,
            window_ns: (window * 1e9) as u64,
            ramp_ns: (window * RAMP_PART * 1e9) as u64,
            precision: self.precision.unwrap_or(if plan.is_sweep { 3.0 } else { 1.0 }) / 100.0,
            rounds_min: rounds,
            rounds_warm: u32::from(!plan.is_sweep),
            seed: System::default().random(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::experiment::Load;

    #[test]
    fn jobs_are_no_options() {
        let args = |words: &[&str]| without_dashes(words.iter().map(OsString::from).collect());
        let found = args(&["fathom", "try", "--rw=read --bs=4k", "--record=a b", "--list"]);
        assert_eq!(found[2..], ["rw=read --bs=4k", "--record=a b", "--list"]);
        assert_eq!(args(&["fathom", "run", "--rw=read --bs=4k"])[2], "--rw=read --bs=4k");
    }

    #[test]
    fn every_shipped_experiment_is_valid_and_asks_a_question() {
        for (name, text) in SHIPPED {
            for targets in [2, 3] {
                let found = experiment::experiment(text, name, 4, targets);
                let found = found.unwrap_or_else(|problems| panic!("{name}: {}", joined(problems)));
                assert_eq!(found.name, name);
                assert!(found.question.ends_with('?') && !found.source.is_empty(), "{name}");
                assert!(found.conditions.len() > 1, "{name}");
                for condition in &found.conditions {
                    let Load::Job(_) = &condition.load else { continue };
                    let target = ["/dev/null".to_string(), "/a".into(), "/b".into()];
                    let mut args = vec!["--runtime=1".to_string(), "--time_based=1".into()];
                    args.extend(experiment::condition_args(condition, &target));
                    let parsed = fathom_spec::parse(&args, &System::default());
                    parsed.unwrap_or_else(|e| panic!("{name}, {}: {e}", condition.name));
                }
            }
        }
        shipped().unwrap();
    }
}
