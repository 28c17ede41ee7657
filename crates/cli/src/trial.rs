//! `fathom try`: variants compared with each other, one thing changed at a time.

mod measure;

pub use measure::{MeasureArgs, MeasurePlan, measure};

use crate::page::PageArgs;
use crate::{experiments, show};
use fathom_analysis::experiment::compare_stored;
use fathom_analysis::rules::judge_experiment;
use fathom_model::Record;
use fathom_model::experiment::{Experiment, ExperimentRecord, Metric, TrialWindow};
use fathom_report::json;
use fathom_report::pages::{self, ShippedExperiment};
use fathom_runner::System;
use fathom_spec::{Sources, SpecError, experiment};
use fathom_store::{RunDir, read_record, read_windows};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes of an experiment's file at most.
const FILE_MAX: u64 = 1 << 20;

/// What `fathom try` takes.
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
    /// Compare two recorded runs of the experiment, for example on two kernels, instead of measuring
    #[arg(long, value_name = "DIR|NAME", num_args = 2)]
    runs: Option<Vec<PathBuf>>,
    /// Continue an interrupted experiment in its run directory
    #[arg(long, value_name = "DIR|NAME", conflicts_with_all = ["words", "runs", "record", "no_record"])]
    resume: Option<PathBuf>,
    #[command(flatten)]
    measure: MeasureArgs,
    #[command(flatten)]
    page: PageArgs,
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

/// Measures an experiment and prints what it shows.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    if args.list {
        let to = args.page.destination(None)?;
        let all = shipped()?;
        args.page.print(&pages::experiments(&all), || json::text(&all), to.as_ref())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(dirs) = &args.runs {
        let found = dirs.iter().map(|named| show::find(Some(named)));
        return compare(args, &found.collect::<Result<Vec<PathBuf>, String>>()?);
    }
    if let Some(named) = &args.resume {
        let dir = show::find(Some(named))?;
        let record: ExperimentRecord = stored(&dir)?;
        return measure::resume(&args.measure, &args.page, &dir, record);
    }
    let (experiment, targets) = args.experiment()?;
    measure(&args.measure, &args.page, MeasurePlan { experiment, targets, is_sweep: false })
}

impl Args {
    /// The experiment, and the targets that are named after it.
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
        let text = match experiments::find(first) {
            Some(text) => text.to_string(),
            None => read(first)?,
        };
        let found =
            experiment::experiment(&text, first, cpus, targets.len().max(1)).map_err(joined)?;
        Ok((found, targets))
    }
}

/// Words that are not options.
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
        let names = experiments::ALL.map(|(name, _)| name).join(", ");
        return Err(format!("unknown experiment '{path}'; use {names}, or a .toml file"));
    }
    let failed = |e: std::io::Error| format!("cannot read {path}: {e}");
    let found = std::fs::metadata(path).map_err(failed)?;
    if !found.is_file() {
        return Err(format!(
            "{path} is not an experiment file; name an experiment or jobs before the targets"
        ));
    }
    if found.len() > FILE_MAX {
        return Err(format!(
            "{path} has {} bytes, more than the maximum size of an experiment file",
            found.len()
        ));
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
    experiments::ALL.iter().map(one).collect()
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

/// Prints the second of two stored runs relative to the first.
fn compare(args: &Args, dirs: &[PathBuf]) -> Result<ExitCode, String> {
    let [first, second] = dirs else { return Err("--runs needs two run directories".into()) };
    let records = (stored(first)?, stored(second)?);
    let windows: (Vec<TrialWindow>, Vec<TrialWindow>) =
        (read_windows(first)?, read_windows(second)?);
    let kernels = (&records.0.header.facts.host.kernel, &records.1.header.facts.host.kernel);
    let names = match kernels.0 == kernels.1 {
        true => ("first".to_string(), "second".to_string()),
        false => (kernels.0.clone(), kernels.1.clone()),
    };
    let mut compared =
        compare_stored((&names.0, &records.0, &windows.0), (&names.1, &records.1, &windows.1))?;
    compared.header.findings = judge_experiment(&compared);
    let to = args.page.destination(record_files(dirs).iter().map(String::as_str))?;
    let page = pages::experiment(&compared, args.page.verbose);
    args.page.print(&page, || json::text(&compared), to.as_ref())?;
    Ok(ExitCode::SUCCESS)
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
        for (name, text) in experiments::ALL {
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
