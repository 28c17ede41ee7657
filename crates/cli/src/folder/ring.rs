//! A ring of record folders: a folder whose folders are records, in the order of their names.

use serde::Deserialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One record folder of a ring, or the only one of a record that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its name in the ring, by which it is sorted; empty for a record that is no ring.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// When it began, in nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
}

#[derive(Deserialize)]
struct Start {
    started_unix_ns: u64,
}

/// The record folders at `path`, oldest first: itself, or those that are right in it. None where
/// there is no record.
///
/// # Errors
/// When `path` cannot be read.
pub fn segments(path: &Path) -> Result<Vec<Segment>, String> {
    if let Some(only) = segment(path, String::new()) {
        return Ok(vec![only]);
    }
    let fail = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(fail)? {
        // One whose record cannot be read has just been removed, or not been made yet.
        let entry = entry.map_err(fail)?;
        let name = entry.file_name().into_string().ok();
        found.extend(name.and_then(|name| segment(&entry.path(), name)));
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn segment(path: &Path, name: String) -> Option<Segment> {
    let record = fs::read(path.join("record.json")).ok()?;
    let start: Start = serde_json::from_slice(&record).ok()?;
    Some(Segment { name, path: path.to_path_buf(), started_unix_ns: start.started_unix_ns })
}
