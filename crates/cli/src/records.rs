//! What every command that keeps a record of its run does alike.

use crate::stdio::note;
use fathom_store::RunDir;
use serde::Serialize;
use std::path::Path;

/// Checks that `named` can become a run directory, and returns the files that it will have: results go elsewhere.
///
/// # Errors
/// Names the file in the way.
pub fn check(named: Option<&str>) -> Result<Vec<String>, String> {
    let Some(dir) = named else { return Ok(Vec::new()) };
    RunDir::check(dir)?;
    Ok(RunDir::FILES.map(|file| format!("{dir}/{file}")).into())
}

/// Creates the run directory `named`, or one among the user's runs, which is optional.
///
/// # Errors
/// Why `named` cannot be created.
pub fn create(named: Option<&str>) -> Result<Option<RunDir>, String> {
    optional(RunDir::create(named, fathom_engine::clock::unix_ns()), named)
}

/// Writes the first version of the record, which says that the run did not end.
///
/// # Errors
/// If it cannot be written and the directory was `named` by the user.
pub fn begin(
    dir: Option<RunDir>,
    named: Option<&str>,
    unfinished: &impl Serialize,
) -> Result<Option<RunDir>, String> {
    let Some(dir) = dir else { return Ok(None) };
    optional(dir.begin(unfinished).map_err(|e| format!("cannot write {e}")), named)
}

/// Returns the error if the user `named` the directory; otherwise reports it and goes on without a record.
fn optional<T>(made: Result<T, String>, named: Option<&str>) -> Result<Option<T>, String> {
    match made {
        Err(error) if named.is_none() => {
            note!("no record is kept: {error}");
            Ok(None)
        }
        made => made.map(Some),
    }
}

/// Returns the error if the user `named` the directory; otherwise reports that the record is incomplete.
///
/// # Errors
/// What went wrong with a `named` directory.
pub fn finish(kept: Result<(), String>, named: Option<&str>) -> Result<(), String> {
    match kept {
        Err(error) if named.is_none() => {
            note!("the record is incomplete: {error}");
            Ok(())
        }
        kept => kept,
    }
}

/// Reports a disk that delays the end of the run.
pub fn slow_disk(dir: &Path) {
    note!("waiting for the disk of {}", dir.display());
}
