//! A segment of a ring on disk: a directory created by fathom, identified by a marker file.

use crate::dir::{self, CreatedDirs, HeldDir, Readers};
use crate::run_dir::RunDir;
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

/// Creates the segment `name` with `record`; on failure nothing remains of it.
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

/// The result of removing a segment.
#[derive(Debug, PartialEq, Eq)]
pub enum Removal {
    /// It was removed.
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

/// Bytes in whole blocks.
pub fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK).saturating_mul(BLOCK)
}
