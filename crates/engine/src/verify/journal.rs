//! The journal of a job: what it submitted and what was acknowledged, in the order in which the worker saw it.
//!
//! What is about to be submitted is on disk before it is, so no block can be newer than the journal. Acknowledgments may be
//! missing at its end: it then promises less, never more.

use super::checksum::crc32c;
use crate::queue::Request;
use std::fs::File;
use std::io::{self, Write};

pub(super) const RECORD: usize = 32;
/// Records that are written at once at the latest.
const ROOM: usize = 1 << 11;

/// Where the journal of a job goes.
#[derive(Debug)]
pub struct JournalFile {
    /// Empty, and open for writing.
    pub file: File,
    pub path: String,
    /// Distinguishes the data of this run from that of earlier ones with the same seeds.
    pub salt: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Submitted {
        number: u64,
        file: u32,
        offset: u64,
        len: u32,
    },
    Completed {
        number: u64,
    },
    FlushBegun {
        file: u32,
    },
    FlushCompleted {
        file: u32,
    },
    Trimmed {
        file: u32,
        offset: u64,
        len: u32,
    },
    /// All targets lose their blocks (`unlink_each_loop`).
    Emptied,
}

impl Event {
    /// The record: kind, file, batch, number, offset, length, checksum.
    pub(super) fn encode(self, batch: u32) -> [u8; RECORD] {
        let (kind, file, number, offset, len) = match self {
            Self::Submitted { number, file, offset, len } => (1u16, file, number, offset, len),
            Self::Completed { number } => (2, 0, number, 0, 0),
            Self::FlushBegun { file } => (3, file, 0, 0, 0),
            Self::FlushCompleted { file } => (4, file, 0, 0, 0),
            Self::Trimmed { file, offset, len } => (5, file, 0, offset, len),
            Self::Emptied => (6, 0, 0, 0, 0),
        };
        let mut record = [0; RECORD];
        record[..2].copy_from_slice(&kind.to_le_bytes());
        record[2..4].copy_from_slice(&(file as u16).to_le_bytes());
        record[4..8].copy_from_slice(&batch.to_le_bytes());
        record[8..16].copy_from_slice(&number.to_le_bytes());
        record[16..24].copy_from_slice(&offset.to_le_bytes());
        record[24..28].copy_from_slice(&len.to_le_bytes());
        let crc = crc32c(&record[..28]);
        record[28..].copy_from_slice(&crc.to_le_bytes());
        record
    }

    /// The event of an intact record, and its batch.
    fn decode(record: &[u8]) -> Option<(Self, u32)> {
        let word = |at: usize| record.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let long = |at: usize| record.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let (first, batch, len) = (word(0)?, word(4)?, word(24)?);
        if word(28)? != crc32c(&record[..28]) {
            return None;
        }
        let (file, number, offset) = (first >> 16, long(8)?, long(16)?);
        let event = match first & 0xffff {
            1 => Self::Submitted { number, file, offset, len },
            2 => Self::Completed { number },
            3 => Self::FlushBegun { file },
            4 => Self::FlushCompleted { file },
            5 => Self::Trimmed { file, offset, len },
            6 => Self::Emptied,
            _ => return None,
        };
        Some((event, batch))
    }
}

/// The intact records, and how many bytes at the end are not. Those are what a power cut left of the last records, which were
/// not on disk yet; records that are damaged before are an error.
pub(super) fn read(journal: &[u8]) -> Result<(Vec<Event>, u64), String> {
    let mut events = Vec::with_capacity(journal.len() / RECORD);
    let mut last = 0;
    let (records, _) = journal.as_chunks::<RECORD>();
    for record in records {
        let Some((event, batch)) = Event::decode(record) else { break };
        events.push(event);
        last = batch;
    }
    let rest = &records[events.len()..];
    // Each batch was on disk before the next began.
    if rest.iter().filter_map(|record| Event::decode(record)).any(|(_, batch)| batch > last + 1) {
        let at = events.len() * RECORD;
        return Err(format!("the record at byte {at} is damaged, and intact ones follow it"));
    }
    let tail = journal.len() - events.len() * RECORD;
    Ok((events, tail as u64))
}

pub(super) struct Journal {
    file: File,
    pub path: String,
    buffer: Vec<u8>,
    /// The write that each slot of the queue carries.
    numbers: Box<[u64]>,
    batch: u32,
    /// Whether something is to be on disk before it is submitted.
    is_due: bool,
    /// Whether it could not be written, which ends the job, and why, until that was reported.
    failed: bool,
    error: Option<io::Error>,
}

impl Journal {
    pub fn new(to: JournalFile, depth: u32) -> Self {
        Self {
            file: to.file,
            path: to.path,
            buffer: Vec::with_capacity(ROOM * RECORD),
            numbers: vec![0; depth as usize].into(),
            batch: 0,
            is_due: false,
            failed: false,
            error: None,
        }
    }

    fn add(&mut self, event: Event) {
        if self.buffer.len() == self.buffer.capacity() {
            self.write();
        }
        if !self.failed {
            self.buffer.extend_from_slice(&event.encode(self.batch));
        }
    }

    /// An error shows when it is to be on disk.
    fn write(&mut self) {
        if let Err(error) = self.file.write_all(&self.buffer) {
            (self.failed, self.is_due, self.error) = (true, true, Some(error));
        }
        self.buffer.clear();
    }

    pub fn submitted(&mut self, slot: u32, number: u64, request: &Request) {
        self.numbers[slot as usize] = number;
        let Request { file, offset, len, .. } = *request;
        self.add(Event::Submitted { number, file, offset, len });
        self.is_due = true;
    }

    pub fn completed(&mut self, slot: u32) {
        self.add(Event::Completed { number: self.numbers[slot as usize] });
    }

    pub fn trimmed(&mut self, request: &Request) {
        let Request { file, offset, len, .. } = *request;
        self.add(Event::Trimmed { file, offset, len });
        self.is_due = true;
    }

    pub fn emptied(&mut self) {
        self.add(Event::Emptied);
        self.is_due = true;
    }

    pub fn flush_begun(&mut self, file: u32) {
        self.add(Event::FlushBegun { file });
    }

    pub fn flush_completed(&mut self, file: u32) {
        self.add(Event::FlushCompleted { file });
    }

    /// Puts everything on disk, if something is about to be submitted.
    pub fn write_ahead(&mut self) -> io::Result<()> {
        if self.is_due { self.sync() } else { Ok(()) }
    }

    /// Puts everything on disk. Fails once.
    pub fn sync(&mut self) -> io::Result<()> {
        self.is_due = false;
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.failed || self.buffer.is_empty() {
            return Ok(());
        }
        let synced = self.file.write_all(&self.buffer).and_then(|()| self.file.sync_data());
        self.failed = synced.is_err();
        self.buffer.clear();
        self.batch += 1;
        synced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [Event; 6] = [
        Event::Submitted { number: 1 << 40, file: 7, offset: 1 << 45, len: 4096 },
        Event::Completed { number: 3 },
        Event::FlushBegun { file: 65535 },
        Event::FlushCompleted { file: 1 },
        Event::Trimmed { file: 2, offset: 512, len: 1 << 30 },
        Event::Emptied,
    ];

    fn journal(batches: [u32; 6]) -> Vec<u8> {
        EVENTS.iter().zip(batches).flat_map(|(event, batch)| event.encode(batch)).collect()
    }

    #[test]
    fn what_was_written_is_read() {
        let journal = journal([0, 0, 1, 2, 2, 3]);
        assert_eq!(read(&journal), Ok((EVENTS.to_vec(), 0)));
        assert_eq!(read(&[]), Ok((Vec::new(), 0)));
    }

    #[test]
    fn only_the_end_may_be_incomplete() {
        let mut journal = journal([0, 1, 2, 3, 3, 3]);
        // A hole in what was not on disk yet.
        journal[3 * RECORD..4 * RECORD].fill(0);
        assert_eq!(read(&journal), Ok((EVENTS[..3].to_vec(), 3 * RECORD as u64)));
        assert_eq!(read(&journal[..2 * RECORD + 5]), Ok((EVENTS[..2].to_vec(), 5)));
        journal[RECORD + 9] ^= 1;
        assert!(read(&journal).is_err_and(|why| why.contains("at byte 32 is damaged")));
    }
}
