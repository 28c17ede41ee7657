//! `fathom report`: recorded runs as one file to forward.

use crate::page::{self, FormatArgs, PageFormat};
use crate::show::{completed, find_all, shown, view};
use crate::{output, output::Destination, stdio};
use fathom_report::pages::{self, ReportedRun};
use fathom_store::Runs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// Run directories, names of recorded runs, or tags (all of their runs); by default the latest run
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
    /// Write the report to FILE (.html, .md, .txt) instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
    /// Also print how figures were measured, or why they are missing
    #[arg(short, long)]
    verbose: bool,
}

pub fn command(args: &Args) -> Result<ExitCode, String> {
    let named = args.output.as_deref().filter(|_| !args.format.is_given());
    let named = named.map_or(Ok(None), PageFormat::of_file)?;
    let format = args.format.or(named.unwrap_or(PageFormat::Html));
    if format.is_json() {
        return Err("a report has no JSON; `fathom show RUN --json` prints that of each run".into());
    }
    let mut dirs: Vec<PathBuf> = Vec::new();
    for named in &args.runs {
        dirs.extend(find_all(named)?);
    }
    if args.runs.is_empty() {
        dirs.push(latest()?);
    }
    let mut seen = Vec::new();
    dirs.retain(|dir| {
        !seen.contains(dir) && {
            seen.push(dir.clone());
            true
        }
    });
    let to = args.output.as_deref().map(|file| Destination::open(file, None)).transpose()?;
    let (mut runs, mut left_out) = (Vec::new(), Vec::new());
    for dir in &dirs {
        match one(dir, args.verbose)? {
            Some(run) => runs.push(run),
            None => left_out.push(format!(
                "{} holds samples without a result; print it with `fathom show`",
                name(dir)
            )),
        }
    }
    if let (true, Some(why)) = (runs.is_empty(), left_out.first()) {
        return Err(why.clone());
    }
    left_out.iter().for_each(|why| stdio::info(&format!("fathom: note: {why}")));
    let mut page = pages::report(runs);
    if dirs.len() > 1 {
        page.heading = page::heading("report", None);
    }
    let (text, kind) = format.render(&page, || Ok(String::new()), to.is_some())?;
    output::emit(&text, kind, to.as_ref())?;
    Ok(ExitCode::SUCCESS)
}

fn latest() -> Result<PathBuf, String> {
    let runs = Runs::open()?.map_or(Ok(Vec::new()), |runs| runs.list())?;
    let has_result = |dir: &PathBuf| completed(dir).is_ok_and(|record| view(&record).is_none());
    let found = runs.into_iter().rev().map(|run| run.path).find(has_result);
    found.ok_or_else(|| "no runs with a result are recorded; name a run directory".to_string())
}

fn name(dir: &Path) -> String {
    dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned()
}

/// Nothing for samples without a result.
fn one(dir: &Path, verbose: bool) -> Result<Option<ReportedRun>, String> {
    let record = completed(dir)?;
    if view(&record).is_some() {
        return Ok(None);
    }
    let summary = pages::run_summary(&record);
    let (page, _) = shown(record, dir, verbose, false)?;
    Ok(Some(ReportedRun { name: name(dir), summary, page }))
}
