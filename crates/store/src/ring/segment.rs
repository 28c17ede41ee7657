//! A segment of a ring on the disk: a directory that fathom made there, which a mark in it proves.

use crate::dir::{self, Dir, NewDirs, Readers};
use crate::run_dir::RunDir;
use fathom_model::RunRecord;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The file that makes a directory a segment. It holds the directory's name, so that a copy or a renamed one is none.
const MARK: &str = ".fathom-segment";
const MARK_MAX: u64 = 64;
/// Sizes are counted in blocks of a file system.
pub const BLOCK: u64 = 4096;
/// What a segment takes without its record and its samples: its directory and its mark.
pub const BYTES_FIXED: u64 = 2 * BLOCK;

/// Makes the segment `name` and begins it with `record`; where that fails, nothing of it is left.
///
/// # Errors
/// Those of the kernel; where there is something of that name.
pub fn begin(ring: &Dir, name: &str, record: &RunRecord) -> io::Result<RunDir> {
    let dir = ring.make_dir(name)?;
    let marked = dir.replace(MARK, name.as_bytes(), Readers::Owner);
    let begun = marked
        .and_then(|()| RunDir::within(dir, NewDirs::default()))
        .and_then(|dir| dir.begin(record));
    if begun.is_err() {
        // What was made of it must not be in the way of the next attempt. Without its mark it is empty.
        let _ = remove(ring, name).and_then(|removed| match removed {
            Removal::NotOurs => ring.remove_dir(name),
            _ => Ok(()),
        });
    }
    begun
}

/// Opens the segment `name`; `None` where it is none.
fn open(ring: &Dir, name: &str) -> Option<Dir> {
    let dir = ring.dir(name).ok()?;
    let mark = dir.read(MARK, MARK_MAX).ok()?;
    (mark == name.as_bytes()).then_some(dir)
}

/// Whether a file of this name is one that fathom writes into a segment.
fn is_own(name: &str) -> bool {
    name == MARK || RunDir::FILES.contains(&name) || dir::is_temporary(name)
}

/// fathom's own files in a segment, regular files only. The marker is last.
fn own_files(dir: &Dir) -> io::Result<Vec<String>> {
    let mut own = Vec::new();
    for name in dir.names()? {
        let name = name?.into_string().ok().filter(|name| is_own(name));
        own.extend(name.filter(|name| dir.regular(name).is_ok_and(|found| found.is_some())));
    }
    own.sort_by_key(|name| name == MARK);
    Ok(own)
}

/// Bytes of the segment `name`, in whole blocks, and when it was last written, in nanoseconds since 1970; `None` where
/// it is none.
///
/// # Errors
/// Those of the kernel.
pub fn measure(ring: &Dir, name: &str) -> io::Result<Option<(u64, u64)>> {
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

/// What became of a segment.
#[derive(Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is gone.
    Whole,
    /// Of its files those that are fathom's; the others are still there, and the directory.
    OwnFiles,
    /// Nothing: by now it is no segment.
    NotOurs,
}

/// Removes the segment `name`, and nothing that fathom did not put there.
///
/// # Errors
/// Those of the kernel.
pub fn remove(ring: &Dir, name: &str) -> io::Result<Removal> {
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
#[must_use]
pub fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK).saturating_mul(BLOCK)
}
