//! Lays out new files by writing data, so that reads of them reach the disk.

use crate::buffers::Filler;
use fathom_model::plan::Buffers;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

const CHUNK: u64 = 1 << 20;
/// Bytes between flushes, which cannot be interrupted, so that none takes long.
const FLUSH: u64 = 64 << 20;

/// Writes bytes `from..to` of a file with contents according to `buffers`, and flushes them. Calls
/// `done` with the number of bytes written so far; it returns whether to continue.
///
/// # Errors
///
/// The error of write(2) or fdatasync(2); `Interrupted` if `done` returned false.
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
