//! `fathom restore`, and settings left changed by killed processes.

use crate::page::{self, PageArgs};
use crate::stdio;
use fathom_machine::settings::{Left, Restored, RestoredHow, Settings};
use fathom_report::doc::Document;
use fathom_report::json;
use fathom_report::pages::{self, SettingRow};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// List the changed settings without restoring them
    #[arg(long)]
    list: bool,
    /// Wait until standard input is closed, as it is when the fathom that holds it is killed, and restore what that one left
    #[arg(long, hide = true)]
    once_killed: bool,
    #[command(flatten)]
    page: PageArgs,
}

/// Restores settings, or lists them. The exit status is 0 only if everything was restored.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    if args.once_killed {
        // However it ends: the other end is closed.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        return Ok(if recover() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let to = args.page.destination(None)?;
    let settings = Settings::system();
    let heading = page::heading("restore", None);
    if args.list {
        let rows: Vec<SettingRow> =
            settings.left().map_err(|e| e.to_string())?.into_iter().map(row).collect();
        let page = Document { heading, ..pages::settings(&rows) };
        args.page.print(&page, || json::text(&rows), to.as_ref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let restored = settings.restore();
    let sentences: Vec<String> = restored.iter().map(ToString::to_string).collect();
    let page = Document { heading, ..pages::restored(&sentences) };
    args.page.print(&page, || json::text(&sentences), to.as_ref())?;
    let is_done = !restored.iter().any(Restored::is_failure);
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(left: Left) -> SettingRow {
    let state = match (left.is_kept, left.is_in_use) {
        (true, _) => "fathom doctor --fix".to_string(),
        (_, true) => format!("PID {}, running", left.pid),
        _ => format!("PID {}, killed", left.pid),
    };
    SettingRow { what: left.what, old: left.old, now: left.now, state }
}

/// Restores settings that killed processes left changed, and reports it. Returns whether none is left changed.
pub fn recover() -> bool {
    let restored = Settings::system().recover();
    for one in &restored {
        let text = format!("fathom: settings left by a killed fathom: {one}");
        match one.how {
            RestoredHow::Unchanged => {}
            _ if one.is_failure() => stdio::print_line(&text),
            _ => stdio::info(&text),
        }
    }
    !restored.iter().any(Restored::is_failure)
}
