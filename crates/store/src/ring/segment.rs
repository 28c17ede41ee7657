//! A segment of a ring on disk: a directory created by fathom, identified by a marker file.

use crate::dir::{self, CreatedDirs, HeldDir, Readers, with_path};
use crate::run_dir::RunDir;
use crate::time::instant;
use fathom_model::RunRecord;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The marker file of a segment. It contains the directory's name, so that a copied or renamed directory is not one.
const MARK: &str = ".fathom-segment";
const MARK_MAX: u64 = 64;
/// Sizes are counted in blocks of a file system.
pub const BLOCK: u64 = 4096;
/// Size of a segment without its record and samples: its directory and marker.
pub const BYTES_FIXED: u64 = 2 * BLOCK;

pub fn begin(ring: &HeldDir, name: &str, record: &RunRecord) -> io::Result<RunDir> {
    let dir = ring.make_dir(name)?;
    let marked = dir.replace(MARK, name.as_bytes(), Readers::Owner);
    let begun = marked
        .and_then(|()| RunDir::within(dir, CreatedDirs::default()))
        .and_then(|dir| dir.begin(record));
    if begun.is_err() {
        // The remains must not be in the way of the next attempt.
        let _ = remove(ring, name).and_then(|removed| match removed {
            Removal::NotOurs => ring.remove_dir(name),
            _ => Ok(()),
        });
    }
    begun
}

/// Opens the segment `name`; `None` if it is not one.
fn open(ring: &HeldDir, name: &str) -> Option<HeldDir> {
    let dir = ring.dir(name).ok()?;
    let mark = dir.read(MARK, MARK_MAX).ok()?;
    (mark == name.as_bytes()).then_some(dir)
}

/// Whether a file of this name is one that fathom writes into a segment.
fn is_own(name: &str) -> bool {
    name == MARK || RunDir::FILES.contains(&name) || dir::is_temporary(name)
}

/// fathom's own files in a segment, regular files only. The marker is last.
fn own_files(dir: &HeldDir) -> io::Result<Vec<String>> {
    let mut own = Vec::new();
    for name in dir.names()? {
        let name = name?.into_string().ok().filter(|name| is_own(name));
        own.extend(name.filter(|name| dir.regular(name).is_ok_and(|found| found.is_some())));
    }
    own.sort_by_key(|name| name == MARK);
    Ok(own)
}

/// Bytes of the segment `name`, in whole blocks, and when it was last written, in nanoseconds since 1970; `None` if
/// it is not one.
pub fn measure(ring: &HeldDir, name: &str) -> io::Result<Option<(u64, u64)>> {
    let Some(dir) = open(ring, name) else { return Ok(None) };
    let (mut bytes, mut written_ns) = (BLOCK, 0);
    for name in own_files(&dir)? {
        let file = dir.open_file(&name)?.metadata()?;
        bytes += blocks(file.len());
        let seconds = u64::try_from(file.mtime()).unwrap_or(0);
        written_ns = written_ns.max(seconds.saturating_mul(1_000_000_000));
    }
    Ok(Some((bytes, written_ns)))
}

#[derive(Debug, PartialEq, Eq)]
pub enum Removal {
    Whole,
    /// Only fathom's files were removed; others remain, and so does the directory.
    OwnFiles,
    /// Nothing was removed, because it is no longer a segment.
    NotOurs,
}

/// Removes the segment `name`, but no files that fathom did not create.
pub fn remove(ring: &HeldDir, name: &str) -> io::Result<Removal> {
    if ring.dir(name).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(Removal::Whole);
    }
    let Some(dir) = open(ring, name) else { return Ok(Removal::NotOurs) };
    own_files(&dir)?.iter().try_for_each(|file| dir.remove_file(file))?;
    match ring.remove_dir(name) {
        Ok(()) => Ok(Removal::Whole),
        // POSIX permits either.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
            ) =>
        {
            Ok(Removal::OwnFiles)
        }
        Err(error) => Err(error),
    }
}

pub fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK).saturating_mul(BLOCK)
}

/// Maximum number of segments, more than a ring has in practice.
const SEGMENTS_MAX: usize = 100_000;

/// One run directory of a ring, or a single run directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its name in the ring, which sorts by time; `None` for a single run directory.
    pub name: Option<String>,
    /// When it started, to the second, in nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
}

impl Segment {
    pub fn open(&self, root: &HeldDir) -> io::Result<HeldDir> {
        match &self.name {
            Some(name) => root.dir(name),
            None => HeldDir::open(root.path()),
        }
    }
}

/// The run directories in `root`, oldest first: `root` itself, or its immediate subdirectories with a record. `known` ones
/// are not read again.
pub fn segments(root: &HeldDir, known: &[Segment]) -> io::Result<Vec<Segment>> {
    if known.first().is_some_and(|only| only.name.is_none()) || has_record(root) {
        return Ok(vec![Segment { name: None, started_unix_ns: 0 }]);
    }
    let mut found = Vec::new();
    for name in root.names()? {
        let name = name?.into_string().ok().and_then(|name| Some((started(&name)?, name)));
        let Some((started_unix_ns, name)) = name else { continue };
        let segment = Segment { name: Some(name), started_unix_ns };
        let is_known = known.binary_search_by(|known| known.name.cmp(&segment.name)).is_ok();
        // A directory without a record is being created or removed.
        if is_known || segment.open(root).is_ok_and(|dir| has_record(&dir)) {
            found.push(segment);
        }
        if found.len() > SEGMENTS_MAX {
            let why = format!("it contains more than {SEGMENTS_MAX} records");
            return Err(with_path(root.path(), io::Error::other(why)));
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Whether there is a record, which must be a regular file.
pub fn has_record(dir: &HeldDir) -> bool {
    dir.regular("record.json").is_ok_and(|found| found.is_some())
}

/// The number in the name of a segment, such as 2 in `00000002-20261122-034500`.
pub fn number(name: &str) -> Option<u64> {
    started(name)?;
    name.get(..8)?.parse().ok()
}

/// The time in the name of a segment, in nanoseconds since 1970; `None` for any other name.
fn started(name: &str) -> Option<u64> {
    let (number, stamp) = name.split_at_checked(8)?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    instant(stamp.strip_prefix('-')?).filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_segments_are_taken_for_segments() {
        assert_eq!(number("00000042-20261121-193600"), Some(42));
        assert_eq!(started("00000042-20261121-193600"), Some(1_795_289_760_000_000_000));
        for name in [
            "20261122-holiday",
            "20261122-034203-4711",
            "00000042-20261321-193600",
            "00000042-20261121-1936000",
            "00000042-20261121-19360",
            "0000004a-20261121-193600",
            "00000042_20261121-193600",
            "+0000042-20261121-193600",
            "00000042-2026\u{661}\u{662}21-193600",
            "",
        ] {
            assert_eq!(number(name), None, "{name}");
        }
    }
}
