//! `fathom clean`: files left by killed runs.

use crate::page::{self, PageArgs};
use crate::stdio::error;
use fathom_machine::leftover::{self, LeftoverKind};
use fathom_report::doc::Document;
use fathom_report::json;
use fathom_report::pages::{self, LeftoverRow};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// Directories to search, including those in them that killed runs created
    #[arg(value_name = "DIR", default_value = ".")]
    directories: Vec<PathBuf>,
    /// Remove what carries fathom's mark and has not changed since the run was killed
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    page: PageArgs,
}

/// Lists the files, or removes them. The exit status is 0 only if every file to be removed was removed.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let to = args.page.destination(None)?;
    let found = args.directories.iter().map(|dir| leftover::find(dir).map_err(|e| e.to_string()));
    let (found, unread): (Vec<_>, Vec<_>) = found.partition(Result::is_ok);
    let unread: Vec<String> = unread.into_iter().filter_map(Result::err).collect();
    let mut is_done = unread.is_empty();
    unread.iter().for_each(|error| error!("{error}"));
    let mut rows = Vec::new();
    for left in found.into_iter().flatten().flatten() {
        let what = match left.kind {
            LeftoverKind::Scratch => "scratch file",
            LeftoverKind::Directory => "directory created by a killed run",
            LeftoverKind::Unused => "created by a killed run, unchanged since",
            LeftoverKind::Unmarked => "named like a scratch file, but without fathom's mark",
            LeftoverKind::Target => "target created by a killed run",
        };
        let (path, bytes) = (fathom_model::escape::path(&left.path), left.bytes);
        let mut row = LeftoverRow { path, what, bytes, removed: false };
        if args.remove {
            match left.remove() {
                Ok(()) => row.removed = true,
                Err(error) => {
                    error!("{error}");
                    is_done = false;
                }
            }
        }
        rows.push(row);
    }
    let heading = page::heading("clean", None);
    let page = Document { heading, ..pages::leftovers(&rows) };
    args.page.print(&page, || json::text(&rows), to.as_ref())?;
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
