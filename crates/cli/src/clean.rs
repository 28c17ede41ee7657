//! `fathom clean`: what killed runs left behind.

use crate::output;
use crate::stdio::{Kind, note};
use fathom_machine::leftover::{self, Leftover, LeftoverKind};
use fathom_model::{escape, units};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// What to look through.
#[derive(clap::Args)]
pub struct Args {
    /// Directories to look in, without those below them
    #[arg(default_value = ".")]
    directories: Vec<PathBuf>,
    /// Remove what is found, if it carries fathom's mark
    #[arg(long)]
    remove: bool,
}

/// Lists leftovers, or removes them. The exit status is 0 only if all that was to be removed is gone.
///
/// # Errors
/// When a directory cannot be read.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let mut text = String::new();
    let mut all_removed = true;
    let mut found = Vec::new();
    for dir in &args.directories {
        found.extend(leftover::find(dir).map_err(|error| error.to_string())?);
    }
    if found.is_empty() {
        text += "no files left by killed runs\n";
    }
    for left in found {
        let line = describe(&left);
        if args.remove
            && let Err(error) = left.remove()
        {
            note!("{error}");
            all_removed = false;
            continue;
        }
        let done = if args.remove { "removed " } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{done}{line}");
    }
    output::emit(&text, Kind::Lines, None)?;
    Ok(if all_removed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(left: &Leftover) -> String {
    let what = match left.kind {
        LeftoverKind::Scratch => "temporary file",
        LeftoverKind::Unmarked => "temporary file by name only, without fathom's mark",
        LeftoverKind::Target => "file created by a run that was killed",
    };
    format!("{}: {what}, {}", escape::path(&left.path), units::bytes(left.bytes))
}
