//! Open targets as input to the engine, and the layout of new files.

use crate::buffers::Filler;
use fathom_model::facts::NvmeMetadata;
use fathom_model::plan::Buffers;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

#[derive(Debug)]
pub struct OpenFile {
    pub fd: OwnedFd,
    pub kind: FileKind,
    pub path: String,
    pub created: bool,
    /// A descriptor of the open file description that holds the block device exclusively: through any other, the kernel does
    /// not trim pages that are dirty.
    pub trims: Option<OwnedFd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Regular,
    Block {
        /// What trims go through, if not the file itself; open as long as [`OpenFile::trims`].
        trims: Option<RawFd>,
    },
    NvmeGeneric {
        nsid: u32,
        lba_bytes: u32,
        metadata: Option<NvmeMetadata>,
    },
    /// A SCSI disk, or its generic character device, for commands.
    Scsi {
        lba_bytes: u32,
    },
}

impl OpenFile {
    pub(crate) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Reads all of `buffer`; beyond the end of a file are zeroes.
pub(crate) fn read_at(fd: &OwnedFd, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match rustix::io::pread(fd, &mut buffer[done..], offset + done as u64) {
            Ok(0) => {
                buffer[done..].fill(0);
                return Ok(());
            }
            Ok(read) => done += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

const CHUNK: u64 = 1 << 20;
/// Bytes between flushes, which cannot be interrupted, so that none takes long.
const FLUSH: u64 = 64 << 20;

/// Writes bytes `from..to` of a file with contents according to `buffers`, and flushes them. Calls
/// `done` with the number of bytes written so far; it returns whether to continue.
pub fn fill(
    fd: OwnedFd,
    from: u64,
    to: u64,
    buffers: &Buffers,
    seed: u64,
    mut done: impl FnMut(u64) -> bool,
) -> io::Result<()> {
    let file = File::from(fd);
    let mut filler = Filler::new(buffers, seed);
    let mut chunk = vec![0u8; CHUNK.min(to.saturating_sub(from)) as usize];
    filler.fill(&mut chunk);
    let mut at = from;
    while at < to {
        let part = &mut chunk[..CHUNK.min(to - at) as usize];
        if filler.stamps() {
            filler.stamp(part, at);
        } else {
            filler.fill(part);
        }
        file.write_all_at(part, at)?;
        at += part.len() as u64;
        if !done(at - from) {
            return Err(io::Error::from(io::ErrorKind::Interrupted));
        }
        if (at - from).is_multiple_of(FLUSH) {
            file.sync_data()?;
        }
    }
    file.sync_data()
}
