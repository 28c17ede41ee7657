//! Logs of earlier runs, recognized by fathom's mark.

use crate::mark::{self, Mark};
use rustix::fs::fstat;
use std::fs::File;
use std::io;

/// Whether fathom wrote the open file as a log, nobody has changed it since, and it has no other name: then a job file
/// may have it replaced. Never on file systems without extended attributes.
#[must_use]
pub fn is_own_log(file: &File) -> bool {
    mark::read(file) == Some(Mark::Log) && fstat(file).is_ok_and(|stat| stat.st_nlink <= 1)
}

/// Marks a log that fathom has just written to.
///
/// # Errors
/// If the system call fails; no error if the file system has no extended attributes.
pub fn mark_log(file: &File) -> io::Result<()> {
    Ok(mark::write(file, Mark::Log)?)
}
