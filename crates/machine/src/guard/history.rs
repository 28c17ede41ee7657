//! Which version of a file fathom left, so that its mark never covers a change by others.
//! Logs of earlier runs are recognized by it.

use super::error::GuardError;
use super::subject::stat;
use crate::mark::{self, FileVersion, Mark};
use rustix::fs::{Stat, fstat};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct OpenDescriptor {
    pub fd: Arc<OwnedFd>,
    pub stat: Stat,
}

impl OpenDescriptor {
    pub fn new(path: &str, fd: Arc<OwnedFd>) -> Result<Self, GuardError> {
        Ok(Self { stat: stat(path, &fd)?, fd })
    }
}

#[derive(Default)]
pub(crate) struct History(Mutex<WriterState>);

#[derive(Default)]
struct WriterState {
    writers: u32,
    left: Option<FileVersion>,
    is_foreign: bool,
}

impl History {
    fn update<T>(&self, update: impl FnOnce(&mut WriterState) -> T) -> T {
        // No panic under this lock leaves a value half changed.
        update(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn left(&self, fd: impl AsFd) {
        self.update(|state| state.left = FileVersion::of(fd).ok());
    }

    pub fn begin(&self, fd: impl AsFd) {
        self.update(|state| {
            let changed = || FileVersion::of(fd).ok() != state.left;
            state.is_foreign |= state.writers == 0 && changed();
            state.writers += 1;
        });
    }

    pub fn end(&self, fd: impl AsFd) {
        self.update(|state| {
            state.writers = state.writers.saturating_sub(1);
            if state.writers == 0 {
                state.left = FileVersion::of(fd).ok();
            }
        });
    }

    pub fn disown(&self) {
        self.update(|state| state.is_foreign = true);
    }

    /// The version that fathom left, if the file still has it.
    pub fn current(&self, fd: impl AsFd) -> Option<FileVersion> {
        self.update(|state| {
            let left = state.left.filter(|_| state.writers == 0 && !state.is_foreign);
            left.filter(|left| FileVersion::of(fd).ok() == Some(*left))
        })
    }
}

/// What a log was after fathom's last write to it.
#[derive(Debug, Clone, Copy)]
pub struct LogVersion(FileVersion);

impl LogVersion {
    /// To be called after each write.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self(FileVersion::of(file)?))
    }

    /// Marks the log as fathom's own. The mark is void if somebody has changed the file since, and there is none if the
    /// file system has no extended attributes.
    pub fn mark(&self, file: &File) -> io::Result<()> {
        Ok(mark::write_version(file, Mark::Log, &self.0)?)
    }
}

/// Whether fathom wrote the open file as a log, nobody has changed it since, and it has no other name: then a job file
/// may have it replaced. Never on file systems without extended attributes.
pub fn is_own_log(file: &File) -> bool {
    mark::read(file) == Some(Mark::Log) && fstat(file).is_ok_and(|stat| stat.st_nlink <= 1)
}
