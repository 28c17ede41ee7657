//! `fathom confirm`: tests the verdict of a recorded run by experiments, and stores what they show.

use crate::experiment::{PermitArgs, record_files};
use crate::live::MeasureView;
use crate::page::PageArgs;
use crate::signals::Signals;
use crate::{quantity, show};
use fathom_model::outcome::RecordKind;
use fathom_model::record::RECORD_VERSION;
use fathom_model::{Record, RunRecord};
use fathom_report::{fio_json, pages};
use fathom_runner::experiment;
use fathom_store::{RunDir, read_record};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    /// Run directory, name of a recorded run, or a tag (its latest run); by default the latest run
    #[arg(value_name = "DIR|NAME")]
    run: Option<PathBuf>,
    /// How long to test at most, such as 10 (seconds) or 2m; by default 30 seconds
    #[arg(short = 't', long, value_name = "TIME", value_parser = quantity::time)]
    duration: Option<Duration>,
    #[command(flatten)]
    permit: PermitArgs,
    #[command(flatten)]
    page: PageArgs,
}

pub fn command(args: &Args) -> Result<ExitCode, String> {
    let dir = show::find(args.run.as_deref())?;
    let mut record = stored(&dir)?;
    let mut used = record_files(std::slice::from_ref(&dir));
    used.extend(record.plan.targets.iter().map(|target| target.path.clone()));
    let to = args.page.destination(used.iter().map(String::as_str))?;
    // Locked, and known to be writable, before anything is measured.
    let (run_dir, _) = RunDir::reopen::<Value>(&dir)?;
    let signals = Signals::take()?;
    let permissions = args.permit.permissions();
    let mut view = MeasureView::of_experiment();
    let cancel = signals.cancel_token();
    let confirmed =
        experiment::confirm_recorded(&mut record, &permissions, args.duration, cancel, &mut view);
    view.clear();
    confirmed.map_err(|why| format!("not confirmed: {why}"))?;
    run_dir.record(&record)?;
    let observed = fathom_runner::stored(&dir, |_| Ok(()))?;
    let page = pages::run(&record, Some(&observed), args.page.verbose);
    args.page.print(
        &page,
        || Ok(fio_json::render(&record, Some(&observed), false)),
        to.as_ref(),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The complete record of a run in `dir`, which this fathom can write again.
fn stored(dir: &Path) -> Result<RunRecord, String> {
    let refuse = |why: &str| Err(format!("{}: {why}", dir.display()));
    match read_record(dir)? {
        Record::Run(record) if record.header.kind == RecordKind::Run => match &record.header {
            header if header.record_version != RECORD_VERSION => refuse(
                "another version of fathom recorded it; repeat it with `fathom run --confirm`",
            ),
            header if !header.outcome.is_finished() => refuse("the run did not finish"),
            _ => Ok(*record),
        },
        _ => refuse("not a record of `fathom run`"),
    }
}
