//! `fathom verify`: what targets hold, after a crash or a power cut, of what was acknowledged.

use crate::page::{self, PageArgs};
use crate::stdio::error;
use fathom_report::{json, pages};
use fathom_runner::journal;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// The directory that `fathom run --journal=DIR` was given
    #[arg(value_name = "DIR")]
    dir: String,
    /// Where a target is now, if it has another name than in the run, such as /dev/sdb=/dev/sdc; may be repeated
    #[arg(long, value_name = "THEN=NOW", value_parser = moved)]
    target: Vec<(String, String)>,
    #[command(flatten)]
    page: PageArgs,
}

fn moved(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((then, now)) if !then.is_empty() && !now.is_empty() => Ok((then.into(), now.into())),
        _ => Err("expected THEN=NOW, such as /dev/sdb=/dev/sdc".into()),
    }
}

/// The exit status is 0 if nothing was lost, 1 if something was, and 2 if that cannot be told, or nothing could be.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let report = match journal::verify(&args.dir, &args.target) {
        Ok(report) => report,
        Err(errors) => {
            errors.iter().for_each(|error| error!("{error}"));
            return Ok(ExitCode::from(2));
        }
    };
    let used = report.jobs.iter().flat_map(|job| &job.files).map(String::as_str);
    let to = args.page.destination(used)?;
    let mut page = pages::promises(&report);
    page.heading = page::heading("verify", None);
    args.page.print(&page, || json::text(&report), to.as_ref())?;
    let is_any_judged = report.jobs.iter().any(|job| job.blocks.judged() > 0);
    Ok(match report.kept {
        true if is_any_judged => ExitCode::SUCCESS,
        true => ExitCode::from(2),
        false => ExitCode::FAILURE,
    })
}
