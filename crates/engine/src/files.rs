//! Open targets as input to the engine.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A checked target, opened for one worker.
#[derive(Debug)]
pub struct OpenFile {
    /// Descriptor used only by this worker.
    pub fd: OwnedFd,
    /// Its type.
    pub kind: FileKind,
    /// The path, for messages.
    pub path: String,
    /// Whether this run created it.
    pub created: bool,
    /// A descriptor of the open file description that holds the block device exclusively: through any other, the kernel does
    /// not trim pages that are dirty.
    pub trims: Option<OwnedFd>,
}

/// The type of an open target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A block device.
    Block {
        /// What trims go through, if not the file itself; open as long as [`OpenFile::trims`].
        trims: Option<RawFd>,
    },
    /// An NVMe generic character device.
    NvmeGeneric {
        /// Namespace identifier.
        nsid: u32,
        /// Logical block size in bytes, a power of two.
        lba_bytes: u32,
    },
    /// A SCSI disk, or its generic character device, for commands.
    Scsi {
        /// Logical block size in bytes.
        lba_bytes: u32,
    },
}

impl OpenFile {
    pub(crate) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
