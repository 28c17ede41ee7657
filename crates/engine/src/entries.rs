//! Entries of single I/Os, on their way from a worker to the writer of its logs.

use crate::clock;
use fathom_model::io_entry::IoEntry;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

const CHUNK: usize = 4096;
/// Chunks of one job: about 40 MB, allocated only as far as the writer falls behind.
const CHUNKS_MAX: usize = 256;
/// Entries reach the writer within this time, so that a killed run keeps them.
const AGE_MAX_NS: u64 = 100_000_000;

pub struct EntrySender {
    full: SyncSender<Vec<IoEntry>>,
    empty: Receiver<Vec<IoEntry>>,
    current: Vec<IoEntry>,
    chunks: usize,
    handed_over_ns: u64,
    waited_ns: u64,
}

pub struct EntryReceiver {
    full: Receiver<Vec<IoEntry>>,
    empty: SyncSender<Vec<IoEntry>>,
}

/// The way from one worker to the writer of its logs. It holds a bounded number of entries; a worker waits for a writer
/// that does not keep up.
pub fn entries() -> (EntrySender, EntryReceiver) {
    let (full, from_worker) = sync_channel(CHUNKS_MAX);
    let (empty, from_writer) = sync_channel(CHUNKS_MAX);
    let sender = EntrySender {
        full,
        empty: from_writer,
        current: Vec::with_capacity(CHUNK),
        chunks: 1,
        handed_over_ns: 0,
        waited_ns: 0,
    };
    (sender, EntryReceiver { full: from_worker, empty })
}

impl EntrySender {
    pub(crate) fn push(&mut self, entry: IoEntry) {
        if self.current.len() == CHUNK {
            self.hand_over();
        }
        self.current.push(entry);
    }

    /// Hands over entries that have waited for long enough.
    pub(crate) fn hand_over_old(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.handed_over_ns) >= AGE_MAX_NS {
            self.handed_over_ns = now_ns;
            self.hand_over();
        }
    }

    pub(crate) fn hand_over(&mut self) {
        if self.current.is_empty() {
            return;
        }
        let next = self.empty_chunk();
        // Never blocks: the channel has room for all chunks. A writer that has ended has said why.
        let _ = self.full.send(std::mem::replace(&mut self.current, next));
    }

    fn empty_chunk(&mut self) -> Vec<IoEntry> {
        match self.empty.try_recv() {
            Ok(chunk) => return chunk,
            Err(TryRecvError::Empty) if self.chunks == CHUNKS_MAX => {}
            Err(_) => {
                self.chunks += 1;
                return Vec::with_capacity(CHUNK);
            }
        }
        let began_ns = clock::now_ns();
        let chunk = self.empty.recv();
        self.waited_ns += clock::now_ns() - began_ns;
        chunk.unwrap_or_else(|_| Vec::with_capacity(CHUNK))
    }

    pub(crate) fn waited_ns(&self) -> u64 {
        self.waited_ns
    }
}

impl Drop for EntrySender {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl EntryReceiver {
    /// The next entries; `None` after the last, or once `is_over` holds and none arrive.
    pub fn next(&self, is_over: impl Fn() -> bool) -> Option<Vec<IoEntry>> {
        loop {
            // Read first: what was sent before it is still taken.
            let over = is_over();
            match self.full.recv_timeout(Duration::from_millis(if over { 0 } else { 50 })) {
                Ok(entries) => return Some(entries),
                Err(RecvTimeoutError::Timeout) if !over => {}
                Err(_) => return None,
            }
        }
    }

    pub fn give_back(&self, mut entries: Vec<IoEntry>) {
        entries.clear();
        // A worker that has ended needs none.
        let _ = self.empty.try_send(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::Dir;
    use fathom_model::io_entry::IoEvent;

    fn entry(offset: u64) -> IoEntry {
        let event = IoEvent::Submitted { slat_ns: 1 };
        IoEntry { time_ns: 0, event, file: 0, offset, len: 512, priority: 0, dir: Dir::Read }
    }

    #[test]
    fn a_worker_waits_for_a_slow_writer_and_no_entry_is_lost() {
        let (mut sender, receiver) = entries();
        let (held, count) = ((CHUNK * CHUNKS_MAX) as u64, (CHUNK * (CHUNKS_MAX + 3) + 7) as u64);
        (0..held).for_each(|offset| sender.push(entry(offset)));
        assert_eq!(sender.chunks, CHUNKS_MAX);
        let worker = std::thread::spawn(move || {
            (held..count).for_each(|offset| sender.push(entry(offset)));
            sender.chunks
        });
        let mut next = 0;
        while let Some(entries) = receiver.next(|| false) {
            for entry in &entries {
                assert_eq!(entry.offset, next);
                next += 1;
            }
            receiver.give_back(entries);
        }
        assert_eq!(next, count);
        assert_eq!(worker.join().unwrap(), CHUNKS_MAX);
    }

    #[test]
    fn entries_are_handed_over_when_old_and_at_the_end() {
        let (mut sender, receiver) = entries();
        sender.hand_over_old(1_000_000_000);
        sender.push(entry(1));
        sender.hand_over_old(1_000_000_000 + AGE_MAX_NS - 1);
        assert!(receiver.full.try_recv().is_err());
        sender.hand_over_old(1_000_000_000 + AGE_MAX_NS);
        assert_eq!(receiver.next(|| true).unwrap(), [entry(1)]);
        assert_eq!(receiver.next(|| true), None, "a worker that hangs is not waited for");
        sender.push(entry(2));
        drop(sender);
        assert_eq!(receiver.next(|| false).unwrap(), [entry(2)]);
        assert_eq!(receiver.next(|| false), None);
    }
}
