//! Open targets as the engine takes them.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A target that was opened, and proved usable, for one worker.
#[derive(Debug)]
pub struct OpenFile {
    /// The descriptor; it is this worker's alone.
    pub fd: OwnedFd,
    /// What it is.
    pub kind: FileKind,
    /// The path, for messages.
    pub path: String,
}

/// What an open target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A block device.
    Block,
    /// An NVMe generic character device.
    NvmeGeneric {
        /// Namespace identifier.
        nsid: u32,
        /// Size of a logical block in bytes; a power of two.
        lba_bytes: u32,
    },
}

impl OpenFile {
    pub(crate) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
