//! `fathom compare`: stored results against others, or sets of repetitions against other sets.

use crate::experiment::record_files;
use crate::page::{self, PageArgs};
use crate::rounds::CONDITION;
use crate::stdio::{self, Kind};
use crate::{output, show};
use fathom_analysis::compare::{
    Comparison, Measured, Published, SET_MIN, Threshold, ThresholdOutcome, compare, is_fio,
};
use fathom_analysis::hosts::{HostsReport, InspectedHost};
use fathom_analysis::rules::missing_verdict;
use fathom_analysis::watch::Observed;
use fathom_model::outcome::RecordKind;
use fathom_model::{Record, RunRecord};
use fathom_report::json::{LimitResult, WatchResult};
use fathom_report::junit::junit;
use fathom_report::{fio_json, json, pages};
use fathom_store::{Runs, is_other_dir, read_record, read_windows};
use serde_json::Value;
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const FIO_MAX: u64 = 64 << 20;
/// Earlier runs looked at, the newest first, and used.
const EARLIER_READ: usize = 200;
const EARLIER_USED: usize = 20;

#[derive(clap::Args)]
pub struct Args {
    /// Recorded runs, by name, directory or tag, or fio's JSON files: BEFORE and AFTER, or with --to all runs before
    ///
    /// A tag stands for all of its runs. Files of `topo --json` or `doctor --json` compare machines: in what they differ.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The runs after, if there are several on a side
    #[arg(long, value_name = "RUN", num_args = 1..)]
    to: Vec<PathBuf>,
    /// The run before, or the tag of all runs before; all others are after
    #[arg(long, value_name = "RUN|TAG", conflicts_with = "to")]
    baseline: Option<PathBuf>,
    /// Exit with status 3 if this holds, such as 'p99 > +5%', 'iops < -3%' or 'p99 > 2ms'; may be repeated
    ///
    /// The status is 4 if no condition holds and one cannot be decided. FIGURE is a name of docs/figures.md, a percentile
    /// (p95), or any number of the JSON by its last keys (clat_ns.max, usr_cpu); `JOB:FIGURE` is that of one job. A change (+5%)
    /// is decided by its interval, a value (2ms) by the runs after alone.
    #[arg(long, value_name = "FIGURE OP VALUE", value_parser = Threshold::parse)]
    fail_if: Vec<Threshold>,
    /// Print JUnit XML with a test for each --fail-if, for CI systems
    #[arg(long, requires = "fail_if", conflicts_with_all = ["format", "json"])]
    junit: bool,
    #[command(flatten)]
    page: PageArgs,
}

pub enum Stored {
    Record {
        dir: PathBuf,
        record: Box<Record>,
    },
    Fio(Value),
    /// What `topo` or `doctor` printed as JSON.
    Machine(InspectedHost),
}

/// Results of one side, with their names.
pub type Side = Vec<(String, Stored)>;

pub fn command(args: &Args) -> Result<ExitCode, String> {
    let (before, after) = match args.sides() {
        Ok(sides) => sides,
        Err(error) => return Ok(stdio::usage_error(&error)),
    };
    let other = before.iter().chain(after).find(|named| is_other_dir(named));
    if let Some(Err(error)) = other.map(|dir| read_record(dir)) {
        return Ok(stdio::usage_error(&error));
    }
    let (before, after) = (open(before)?, open(after)?);
    let all = || before.iter().chain(&after);
    if let Some(twice) = named_twice(all()) {
        return Ok(stdio::usage_error(&format!("{twice} is named twice; name each result once")));
    }
    let dirs: Vec<PathBuf> = all().filter_map(|(_, one)| one.dir().cloned()).collect();
    let fio = all().filter(|(_, one)| one.dir().is_none()).map(|(name, _)| name.clone());
    let used: Vec<String> = record_files(&dirs).into_iter().chain(fio).collect();
    let names = used.iter().map(String::as_str);
    let to = if args.junit { args.page.file(names) } else { args.page.destination(names) }?;
    if let Some(machines) = machines(all())? {
        if !args.fail_if.is_empty() {
            return Ok(stdio::usage_error("--fail-if is for results; machines have no figures"));
        }
        let report = HostsReport::of(&machines);
        page::print_hosts("compare", &report, &args.page, to.as_ref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_any_fio = all().any(|(_, one)| one.dir().is_none());
    let before = measured(&before, is_any_fio, &args.fail_if)?;
    let after = measured(&after, is_any_fio, &args.fail_if)?;
    if let Some(error) = unknown_figures(&args.fail_if, before.iter().chain(&after)).first() {
        return Ok(stdio::usage_error(error));
    }
    let compared = compare_sides(&before, &after, &dirs, &args.fail_if)?;
    if args.junit {
        output::emit(&junit(&compared.requirements)?, Kind::Lines, to.as_ref())?;
    } else {
        let page = pages::compare(&compared, &fathom_runner::command(), page::zone());
        args.page.print(&page, || json::text(&compared), to.as_ref())?;
    }
    Ok(status(&compared))
}

/// All, if they are machines; an error if some are.
fn machines<'a>(
    all: impl Iterator<Item = &'a (String, Stored)>,
) -> Result<Option<Vec<InspectedHost>>, String> {
    let (mut machines, mut others) = (Vec::new(), 0);
    for (_, stored) in all {
        match stored {
            Stored::Machine(machine) => machines.push(machine.clone()),
            _ => others += 1,
        }
    }
    match (machines.first(), others) {
        (None, _) => Ok(None),
        (Some(first), 0) => match machines.iter().find(|other| other.by != first.by) {
            Some(other) => Err(format!(
                "{} is of `{}`, {} of `{}`; compare results of one command",
                first.hostname, first.by, other.hostname, other.by
            )),
            None => Ok(Some(machines)),
        },
        (Some(machine), _) => Err(format!(
            "{} describes a machine (topo or doctor), others are results; compare results with results",
            machine.hostname
        )),
    }
}

/// The name of a result that is there under another name as well.
fn named_twice<'a>(all: impl Iterator<Item = &'a (String, Stored)>) -> Option<&'a str> {
    let mut seen = HashSet::new();
    let path = |(name, stored): &(String, Stored)| {
        let path = stored.dir().cloned().unwrap_or_else(|| PathBuf::from(name));
        path.canonicalize().unwrap_or(path)
    };
    let mut again = all.filter(|one| !seen.insert(path(one)));
    again.next().map(|(name, _)| name.as_str())
}

/// Compares results, of which those in `dirs` are recorded.
pub fn compare_sides(
    before: &[Measured],
    after: &[Measured],
    dirs: &[PathBuf],
    fail_if: &[Threshold],
) -> Result<Comparison, String> {
    let is_any_fio = before.iter().chain(after).any(|one| one.is_fio);
    let earlier = match before.len().min(after.len()) >= SET_MIN || is_any_fio {
        true => Vec::new(),
        false => earlier(before, after, dirs, fail_if)?,
    };
    compare(before, after, &earlier, fail_if)
}

/// The exit status that the requirements give.
pub fn status(compared: &Comparison) -> ExitCode {
    let has = |wanted| compared.requirements.iter().any(|one| one.outcome == wanted);
    match (has(ThresholdOutcome::Holds), has(ThresholdOutcome::Inconclusive)) {
        (true, _) => ExitCode::from(stdio::MISSED),
        (false, true) => ExitCode::from(stdio::INCONCLUSIVE),
        (false, false) => ExitCode::SUCCESS,
    }
}

/// The figures of results, where some are fio's only those that fio's JSON holds.
pub fn measured(side: &Side, as_fio: bool, fail_if: &[Threshold]) -> Result<Vec<Measured>, String> {
    side.iter().map(|(name, stored)| stored.measured(name, as_fio, fail_if)).collect()
}

/// What is wrong with conditions on figures that none of `results` has.
pub fn unknown_figures<'a>(
    fail_if: &[Threshold],
    results: impl Iterator<Item = &'a Measured> + Clone,
) -> Vec<String> {
    let near = |word: &str, all: &[&str]| {
        fathom_spec::nearest(word, all.iter().copied()).map(String::from)
    };
    let error = |one: &Threshold| {
        let error = one.unknown(results.clone(), near)?;
        Some(format!("{CONDITION}{}': {error}", one.text))
    };
    fail_if.iter().filter_map(error).collect()
}

/// The numbers of the JSON of a run; none unless a condition names one.
pub fn published_by_run(run: &RunRecord, observed: &Observed, fail_if: &[Threshold]) -> Published {
    if !fail_if.iter().any(Threshold::is_of_json) {
        return Published::default();
    }
    let percentiles: Vec<f64> = fail_if.iter().filter_map(Threshold::percent).collect();
    Published::of(&fio_json::with_percentiles(run, Some(observed), &percentiles))
}

/// The same of any result.
fn published(
    record: &Record,
    observed: &Observed,
    fail_if: &[Threshold],
) -> Result<Published, String> {
    if !fail_if.iter().any(Threshold::is_of_json) {
        return Ok(Published::default());
    }
    let json = match record {
        Record::Run(run) if run.header.kind == RecordKind::Run => {
            return Ok(published_by_run(run, observed, fail_if));
        }
        Record::Run(run) => serde_json::to_value(WatchResult::of(run, observed)),
        Record::Limit(record) => serde_json::to_value(LimitResult::of(record)),
        Record::Experiment(record) => serde_json::to_value(record),
    };
    json.map(|json| Published::of(&json)).map_err(|error| error.to_string())
}

impl Args {
    fn sides(&self) -> Result<(&[PathBuf], &[PathBuf]), String> {
        match (self.runs.as_slice(), self.to.as_slice(), &self.baseline) {
            (runs, [], Some(baseline)) => Ok((std::slice::from_ref(baseline), runs)),
            ([_, _], [], None) => Ok(self.runs.split_at(1)),
            ([_], [], None) => Err("name two runs: BEFORE and AFTER".into()),
            (runs, [], None) => Err(format!(
                "{} runs: name BEFORE and AFTER, or write --to before the runs after",
                runs.len()
            )),
            (runs, to, _) => Ok((runs, to)),
        }
    }
}

/// Results by name: runs, all runs of a tag, and fio's JSON.
pub fn open(names: &[PathBuf]) -> Result<Side, String> {
    let mut side = Vec::new();
    for named in names {
        let is_path = named.exists();
        for path in show::find_all(named)? {
            let own = path.file_name().filter(|_| !is_path).map(Path::new);
            let name = own.unwrap_or(named).display().to_string();
            side.push(match path.is_file() {
                true => {
                    let data = json_file(&path)?;
                    let machine = InspectedHost::of_json(&name, &data);
                    let stored = machine.map_or(Stored::Fio(data), Stored::Machine);
                    (name, stored)
                }
                false => {
                    let record = Box::new(show::completed(&path)?);
                    (name, Stored::Record { dir: path, record })
                }
            });
        }
    }
    Ok(side)
}

fn json_file(path: &Path) -> Result<Value, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let file = File::open(path).map_err(failed)?;
    let mut text = Vec::new();
    file.take(FIO_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > FIO_MAX {
        return Err(format!(
            "{} is too large for fio's JSON; name a run directory",
            path.display()
        ));
    }
    // fio prints messages before it.
    let begin = text.iter().position(|byte| *byte == b'{').unwrap_or(text.len());
    let mut documents = serde_json::Deserializer::from_slice(&text[begin..]).into_iter::<Value>();
    match (documents.next(), documents.next()) {
        (Some(Ok(_)), Some(Ok(_))) => Err(format!(
            "{} holds several results; name run directories, or files with one each",
            path.display()
        )),
        (Some(Ok(data)), _) if is_fio(&data) || InspectedHost::of_json("", &data).is_some() => {
            Ok(data)
        }
        _ => Err(format!(
            "{} is not fio's JSON; name a run directory, or a file made with --output-format=json, or with `topo` or \
             `doctor --json`",
            path.display()
        )),
    }
}

impl Stored {
    /// Its run directory; fio's JSON has none.
    pub fn dir(&self) -> Option<&PathBuf> {
        match self {
            Self::Record { dir, .. } => Some(dir),
            Self::Fio(_) | Self::Machine(_) => None,
        }
    }

    /// What is compared; where other results are fio's, of a run only what fio's JSON holds.
    fn measured(
        &self,
        name: &str,
        as_fio: bool,
        fail_if: &[Threshold],
    ) -> Result<Measured, String> {
        let (dir, record) = match self {
            Self::Record { dir, record } => (dir, record.as_ref()),
            Self::Fio(data) => return Measured::of_fio(name, data),
            Self::Machine(_) => return Err(format!("{name} describes a machine; name a result")),
        };
        let observed = match record {
            Record::Experiment(_) => Observed::default(),
            _ => fathom_runner::stored(dir, |_| Ok(()))?,
        };
        let measured = match record {
            Record::Run(run) => {
                if run.header.sampling.as_ref().is_some_and(|sampling| sampling.view.is_some()) {
                    return Err(format!(
                        "{name} holds samples of one source; compare results of run, watch, limit, sweep or try"
                    ));
                }
                let mut run = run.clone();
                run.header.findings.extend(missing_verdict(record, &observed));
                let whole = Measured::of_run(name, &run, &observed);
                match as_fio && run.header.kind == RecordKind::Run {
                    // What else the machine did is known of this one.
                    true => Measured {
                        conditions: whole.conditions,
                        limited_by: whole.limited_by,
                        ..Measured::of_fio(name, &fio_json::value(&run))?
                    },
                    false => whole,
                }
            }
            Record::Limit(search) => {
                let mut search = search.clone();
                search.header.findings.extend(missing_verdict(record, &Observed::default()));
                Measured::of_limit(name, &search, &observed, &read_windows(dir)?)
            }
            Record::Experiment(record) => {
                Measured::of_experiment(name, record, &read_windows(dir)?)
            }
        };
        Ok(Measured { published: published(record, &observed, fail_if)?, ..measured })
    }
}

/// What shows how much runs differ where not both sides do: complete runs of the same plan on the same machine that began
/// before those after, or the runs of one side.
fn earlier(
    before: &[Measured],
    after: &[Measured],
    compared: &[PathBuf],
    fail_if: &[Threshold],
) -> Result<Vec<Measured>, String> {
    let Some(first) = before.first() else { return Ok(Vec::new()) };
    if before.iter().chain(after).any(|run| !run.is_repetition_of(first)) {
        return Ok(Vec::new());
    }
    let until = after.iter().map(|run| run.started_unix_ns).min().unwrap_or(0);
    let compared: Vec<PathBuf> =
        compared.iter().filter_map(|dir| dir.canonicalize().ok()).collect();
    let mut runs = Runs::open()?.map_or(Ok(Vec::new()), |runs| runs.list())?;
    runs.retain(|run| {
        let is_compared = run.path.canonicalize().is_ok_and(|path| compared.contains(&path));
        !run.is_active && !is_compared && run.started_unix_ns < until
    });
    let none = Observed::default();
    let measured = runs.iter().rev().take(EARLIER_READ).filter_map(|run| {
        // A record that cannot be read shows nothing about this plan.
        let record = read_record(&run.path).ok()?;
        let found = match &record {
            Record::Run(record) => Measured::of_run(&run.name, record, &none),
            Record::Limit(record) => Measured::of_limit(&run.name, record, &none, &[]),
            Record::Experiment(record) => Measured::of_experiment(&run.name, record, &[]),
        };
        let is_alike = found.incomplete.is_none() && found.is_repetition_of(first);
        let published = is_alike.then(|| published(&record, &none, fail_if).ok())??;
        Some(Measured { published, ..found })
    });
    let earlier: Vec<Measured> = measured.take(EARLIER_USED).collect();
    // Runs of other days differ more than those that follow each other.
    let repeated = [before, after].into_iter().find(|side| side.len() >= SET_MIN);
    Ok(match repeated {
        Some(side) if earlier.len() < SET_MIN => side.to_vec(),
        _ => earlier,
    })
}
