//! Logs of earlier runs, recognized by fathom's mark.

use crate::mark::{self, Mark, Version};
use rustix::fs::fstat;
use std::fs::File;
use std::io;

/// What a log was after fathom's last write to it.
#[derive(Debug, Clone, Copy)]
pub struct LogVersion(Version);

impl LogVersion {
    /// To be called after each write.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self(Version::of(file)?))
    }

    /// Marks the log as fathom's own. The mark is void if somebody has changed the file since, and there is none if the
    /// file system has no extended attributes.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn mark(&self, file: &File) -> io::Result<()> {
        Ok(mark::write_version(file, Mark::Log, &self.0)?)
    }
}

/// Whether fathom wrote the open file as a log, nobody has changed it since, and it has no other name: then a job file
/// may have it replaced. Never on file systems without extended attributes.
#[must_use]
pub fn is_own_log(file: &File) -> bool {
    mark::read(file) == Some(Mark::Log) && fstat(file).is_ok_and(|stat| stat.st_nlink <= 1)
}
