//! `fathom show`: reprints a recorded run as it was printed.

use crate::blocks::BlocksView;
use crate::page::PageArgs;
use crate::stacks::StacksView;
use crate::threads::ThreadsView;
use crate::watch::SampleView;
use fathom_analysis::derive::{PartialRun, complete_experiment, complete_limit};
use fathom_analysis::processes::competitors;
use fathom_analysis::rules::{judge, judge_experiment, judge_limit, missing_verdict};
use fathom_analysis::watch::Observed;
use fathom_model::outcome::{Outcome, RecordKind};
use fathom_model::watch::SampledView;
use fathom_model::{Record, RunRecord};
use fathom_report::doc::Document;
use fathom_report::fio_json;
use fathom_report::json::{self, LimitResult, WatchResult};
use fathom_report::pages::{self, judged_anew};
use fathom_store::{Reader, Runs, is_active, read_record, read_windows};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    /// Run directory, name of a recorded run, or a tag (its latest run); by default the latest run
    #[arg(value_name = "DIR|NAME")]
    run: Option<PathBuf>,
    /// Judge the stored figures anew, and print what this changes
    ///
    /// By default, findings and verdict are those of the fathom that made the record.
    #[arg(long)]
    judge: bool,
    #[command(flatten)]
    page: PageArgs,
}

pub fn command(args: &Args) -> Result<ExitCode, String> {
    let dir = find(args.run.as_deref())?;
    let record = completed(&dir)?;
    if let (Record::Run(record), Some(view)) = (&record, view(&record)) {
        return show_view(view, record, &dir, &args.page);
    }
    let (page, json) = shown(record, &dir, args.page.verbose, args.judge)?;
    let to = args.page.destination(None)?;
    args.page.print(&page, || Ok(json), to.as_ref())?;
    Ok(ExitCode::SUCCESS)
}

/// How the samples of a record were printed; `None` if it holds a result.
pub fn view(record: &Record) -> Option<&SampledView> {
    record.header().sampling.as_ref()?.view.as_ref()
}

/// The page of a record with a result, and its JSON. With `judge_anew`, its figures are judged again, and the page says
/// what this changes.
pub fn shown(
    mut record: Record,
    dir: &Path,
    verbose: bool,
    judge_anew: bool,
) -> Result<(Document, String), String> {
    let observed = match &record {
        Record::Run(_) => fathom_runner::stored(dir, |_| Ok(()))?,
        _ => Observed::default(),
    };
    let missing = missing_verdict(&record, &observed);
    record.header_mut().findings.extend(missing);
    let before = record.header().findings.clone();
    if judge_anew {
        record.header_mut().findings = match &record {
            Record::Run(record) => judge(record, &observed),
            Record::Limit(record) => judge_limit(record),
            Record::Experiment(record) => judge_experiment(record),
        };
    }
    let (mut page, json) = match &record {
        Record::Limit(record) => {
            (pages::limit(record, verbose), json::text(&LimitResult::of(record))?)
        }
        Record::Experiment(record) => (pages::experiment(record, verbose), json::text(record)?),
        Record::Run(record) if record.header.kind == RecordKind::Run => {
            let page = pages::run(record, Some(&observed), verbose);
            (page, fio_json::render(record, Some(&observed), false))
        }
        Record::Run(record) => {
            let json = json::text(&WatchResult::of(record, &observed))?;
            (pages::watch(&observed, record, verbose), json)
        }
    };
    if judge_anew {
        page.blocks.extend(judged_anew(&before, &record.header().findings).blocks);
    }
    Ok((page, json))
}

/// Prints the samples in `dir` as the command with this view did.
fn show_view(
    view: &SampledView,
    record: &RunRecord,
    dir: &Path,
    page: &PageArgs,
) -> Result<ExitCode, String> {
    let interval_ns = record.header.sampling.as_ref().map_or(0, |sampling| sampling.interval_ns);
    let mut shown: Box<dyn SampleView> = match view {
        SampledView::Threads { .. } => {
            Box::new(ThreadsView::new(view, page, page.destination(None)?))
        }
        SampledView::Stacks { rows } => Box::new(StacksView::open(*rows, page, &[])?),
        SampledView::Blocks => {
            let interval = Duration::from_nanos(interval_ns);
            Box::new(BlocksView::new(interval, page, page.destination(None)?, false))
        }
    };
    let observed = fathom_runner::stored(dir, |sample| shown.add(sample).map(drop))?;
    shown.finish(record, &observed).map(|()| ExitCode::SUCCESS)
}

/// The run directory that is named: by its path, by the name of a run, or by a tag, of which it is the latest run. The
/// latest of all by default.
pub fn find(named: Option<&Path>) -> Result<PathBuf, String> {
    let latest = match named {
        Some(named) => find_all(named)?.pop(),
        None => Runs::open()?.map_or(Ok(Vec::new()), |runs| runs.list())?.pop().map(|run| run.path),
    };
    latest.ok_or_else(|| "no runs are recorded; name a run directory".to_string())
}

/// The path, or the run directories, that a path, the name of a run or a tag stand for: of a tag all runs, oldest first.
pub fn find_all(named: &Path) -> Result<Vec<PathBuf>, String> {
    if !named.exists() {
        return recorded(named);
    }
    match recorded(named) {
        Ok(_) => Err(format!(
            "{0} is a path and a tag or run; write ./{0} for the path, or take the tag away (fathom runs untag)",
            named.display()
        )),
        Err(_) => Ok(vec![named.to_path_buf()]),
    }
}

/// The same of runs in the default directory, by name or tag; at least one.
pub fn recorded(named: &Path) -> Result<Vec<PathBuf>, String> {
    let mut runs = Runs::open()?.map_or(Ok(Vec::new()), |runs| runs.list())?;
    let is_name = runs.iter().any(|run| Path::new(&run.name) == named);
    runs.retain(|run| match is_name {
        true => Path::new(&run.name) == named,
        false => run.tags.iter().any(|tag| Path::new(tag) == named),
    });
    match runs.is_empty() {
        true => Err(format!("no such run or tag: {}; `fathom runs` lists all", named.display())),
        false => Ok(runs.into_iter().map(|run| run.path).collect()),
    }
}

/// The record in `dir`; one that is still being made or was not finished is completed from its samples or windows.
pub fn completed(dir: &Path) -> Result<Record, String> {
    let mut record = read_record(dir)?;
    if record.header().outcome != Outcome::unfinished() {
        return Ok(record);
    }
    match &mut record {
        Record::Run(record) if record.header.kind == RecordKind::Run => {
            let (mut reader, mut so_far) = (Reader::open(dir)?, PartialRun::default());
            while let Some((elapsed_ns, jobs)) = reader.forward_jobs()? {
                so_far.add(elapsed_ns, &jobs);
            }
            so_far.complete(record, is_active(dir));
        }
        Record::Run(_) => {}
        Record::Limit(record) => {
            complete_limit(record, &read_windows(dir)?, is_active(dir));
            record.competitors = competitors(&fathom_runner::stored(dir, |_| Ok(()))?.processes);
            record.header.findings = judge_limit(record);
        }
        Record::Experiment(record) => {
            complete_experiment(record, &read_windows(dir)?, is_active(dir));
            record.header.findings = judge_experiment(record);
        }
    }
    Ok(record)
}
