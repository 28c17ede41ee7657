//! A ring of record folders with bounds: the oldest gives way to the newest.
//!
//! A folder of the ring is a whole record, with stacks of its own, so that any of them can be kept or
//! sent alone. What counts as its size is what a file system with blocks of 4 KiB needs for it.

use crate::folder::{Encoded, Folder, stamp};
use fathom_model::RunRecord;
use rustix::fs::FlockOperation;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Parts of the bounds that one folder takes: so much more than asked is kept, or less, at times.
const PARTS: u32 = 16;
/// Folders are not begun more often, so that opening samplers costs little.
const SEGMENT_MIN: Duration = Duration::from_secs(60);
/// What is in use keeps others out.
const LOCK: &str = "ring.lock";
const BLOCK: u64 = 4096;

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// This long at least, unless the size forbids it.
    pub keep: Duration,
    /// Bytes at most, at any instant.
    pub bytes_max: u64,
}

/// A ring that is written. No other process writes it meanwhile.
pub struct Ring {
    path: PathBuf,
    bounds: Bounds,
    /// Oldest first; the open one is not among them.
    old: VecDeque<Old>,
    open: Option<Open>,
    next_number: u64,
    _lock: File,
}

/// A folder that is written no more.
struct Old {
    path: PathBuf,
    bytes: u64,
    ended_unix_ns: u64,
}

struct Open {
    folder: Folder,
    /// Of `record.json` twice over, as it is replaced at the end, and of the folder itself.
    bytes_fixed: u64,
    last_unix_ns: u64,
}

impl Ring {
    /// Opens the ring at `path`, or makes it; what is beyond the bounds is removed at once.
    ///
    /// # Errors
    /// When it cannot be written, or another process writes it.
    pub fn open(path: &Path, bounds: Bounds) -> Result<Self, String> {
        let fail = |error: io::Error| format!("cannot keep a ring in {}: {error}", path.display());
        if path.join("record.json").exists() {
            let path = path.display();
            return Err(format!("{path} holds the record of a run; name another folder with -o"));
        }
        fs::create_dir_all(path).map_err(fail)?;
        let lock = File::options().create(true).append(true).open(path.join(LOCK)).map_err(fail)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            let path = path.display();
            match error {
                rustix::io::Errno::WOULDBLOCK => format!(
                    "{path} is being written by another fathom record; end that one, or name \
                     another folder with -o"
                ),
                error => format!("cannot lock {path}/{LOCK}: {error}"),
            }
        })?;
        let (old, next_number) = find(path).map_err(fail)?;
        let path = path.to_path_buf();
        let mut ring = Self { path, bounds, old, open: None, next_number, _lock: lock };
        ring.make_room(0)?;
        Ok(ring)
    }

    /// How long a folder is written at most.
    #[must_use]
    pub fn segment_time(&self) -> Duration {
        (self.bounds.keep / PARTS).max(SEGMENT_MIN)
    }

    /// Whether the open folder has its part of the bytes.
    #[must_use]
    pub fn is_segment_full(&self) -> bool {
        self.open_bytes() >= self.bounds.bytes_max / u64::from(PARTS)
    }

    /// Bytes of the open folder.
    fn open_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, Open::bytes)
    }

    /// Bytes of the ring.
    fn bytes(&self) -> u64 {
        self.old.iter().map(|old| old.bytes).sum::<u64>() + self.open_bytes()
    }

    /// Begins a folder with `record`.
    ///
    /// # Errors
    /// When it cannot be made, though all that is older was removed.
    pub fn begin(&mut self, record: &RunRecord) -> Result<(), String> {
        self.forget(record.started_unix_ns)?;
        let bytes_fixed = BLOCK + 2 * blocks(json_len(record));
        self.make_room(bytes_fixed)?;
        let name = format!("{:08}-{}", self.next_number, stamp(record.started_unix_ns));
        let path = self.path.join(name);
        loop {
            let made = Folder::at(&path);
            match made.and_then(|folder| folder.try_record(record).map(|()| folder)) {
                Ok(folder) => {
                    let last_unix_ns = record.started_unix_ns;
                    self.open = Some(Open { folder, bytes_fixed, last_unix_ns });
                    self.next_number += 1;
                    return Ok(());
                }
                Err(error) => {
                    // What was made of it must not be in the way of the next attempt.
                    let _ = remove(&path);
                    if !is_full(&error) || !self.drop_oldest()? {
                        return Err(format!("cannot begin a record: {error}"));
                    }
                }
            }
        }
    }

    /// Appends a sample of the instant `unix_ns` to the open folder. Where there is no room, for the
    /// bounds or on the disk, the oldest folders give way.
    ///
    /// # Errors
    /// When it cannot be written, though all that is older was removed; what is written stays whole.
    pub fn keep(&mut self, sample: &Encoded, unix_ns: u64) -> Result<(), String> {
        self.forget(unix_ns)?;
        // Up to a block more for each of the two files.
        self.make_room(sample.len() + 2 * BLOCK)?;
        loop {
            let Some(open) = &mut self.open else { return Ok(()) };
            open.last_unix_ns = unix_ns;
            let Err(error) = open.folder.write(sample) else { return Ok(()) };
            if !is_full(&error) || !self.drop_oldest()? {
                return Err(format!("cannot write {error}"));
            }
        }
    }

    /// Brings what was kept so far to the disk.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn sync(&self) -> Result<(), String> {
        let Some(open) = &self.open else { return Ok(()) };
        open.folder.sync().map_err(|e| format!("cannot bring to the disk {e}"))
    }

    /// Ends the open folder with its `record`.
    ///
    /// # Errors
    /// When it cannot be written; the folder then keeps the record that it began with.
    pub fn end(&mut self, record: &RunRecord) -> Result<(), String> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let write = || open.folder.sync().and_then(|()| open.folder.try_record(record));
        let mut written = write();
        while written.as_ref().is_err_and(is_full) && self.drop_oldest()? {
            written = write();
        }
        let path = open.folder.path().to_path_buf();
        let bytes = open.bytes();
        self.old.push_back(Old { path, bytes, ended_unix_ns: open.last_unix_ns });
        written.map_err(|e| format!("cannot write {e}"))
    }

    /// Removes what ended longer ago than is to be kept.
    fn forget(&mut self, now_unix_ns: u64) -> Result<(), String> {
        let keep = self.bounds.keep.as_nanos() as u64;
        let is_over = |old: &Old| old.ended_unix_ns.saturating_add(keep) < now_unix_ns;
        while self.old.front().is_some_and(is_over) {
            self.drop_oldest()?;
        }
        Ok(())
    }

    fn make_room(&mut self, bytes: u64) -> Result<(), String> {
        while self.bytes() + bytes > self.bounds.bytes_max {
            if !self.drop_oldest()? {
                return Err(format!(
                    "the bound of {} bytes leaves no room for {bytes} more; give a larger --max-size",
                    self.bounds.bytes_max
                ));
            }
        }
        Ok(())
    }

    /// Whether there was one to drop.
    fn drop_oldest(&mut self) -> Result<bool, String> {
        let Some(old) = self.old.pop_front() else { return Ok(false) };
        remove(&old.path)
            .map_err(|e| format!("cannot remove the oldest record {}: {e}", old.path.display()))?;
        Ok(true)
    }
}

impl Open {
    fn bytes(&self) -> u64 {
        let (samples, stacks) = self.folder.len();
        self.bytes_fixed + blocks(samples) + blocks(stacks)
    }
}

/// Whether room would help; removing old records for anything else would lose them for nothing.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The folders of a ring, oldest first, and the number of the next one.
fn find(ring: &Path) -> io::Result<(VecDeque<Old>, u64)> {
    let mut numbered = Vec::new();
    for entry in fs::read_dir(ring)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.split_once('-'));
        let number = number.filter(|(number, _)| number.len() == 8 && entry.path().is_dir());
        if let Some(number) = number.and_then(|(number, _)| number.parse::<u64>().ok()) {
            let (bytes, ended_unix_ns) = measure(&entry.path())?;
            numbered.push((number, Old { path: entry.path(), bytes, ended_unix_ns }));
        }
    }
    numbered.sort_by_key(|(number, _)| *number);
    let next = numbered.last().map_or(1, |(number, _)| number + 1);
    Ok((numbered.into_iter().map(|(_, old)| old).collect(), next))
}

/// Bytes of a folder, and when it was last written, in nanoseconds since 1970.
fn measure(path: &Path) -> io::Result<(u64, u64)> {
    let (mut bytes, mut written) = (BLOCK, 0);
    for file in fs::read_dir(path)? {
        let file = file?.metadata()?;
        let modified = file.modified()?.duration_since(std::time::UNIX_EPOCH);
        bytes += blocks(file.len());
        written = written.max(modified.map_or(0, |since| since.as_nanos() as u64));
    }
    Ok((bytes, written))
}

/// Removes a record folder, and nothing that fathom did not put there.
fn remove(path: &Path) -> io::Result<()> {
    for file in fs::read_dir(path)? {
        let name = file?.file_name();
        let is_part = |name: &str| name.starts_with("record.json.") && name.ends_with(".part");
        if name.to_str().is_some_and(|name| Folder::FILES.contains(&name) || is_part(name)) {
            fs::remove_file(path.join(name))?;
        }
    }
    fs::remove_dir(path)
}

fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK) * BLOCK
}

/// Bytes of `record.json`, with some for the figures that its end adds.
fn json_len(record: &RunRecord) -> u64 {
    serde_json::to_vec_pretty(record).map_or(0, |text| text.len() as u64) + BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::read::Reader;
    use fathom_model::progress::Sample;
    use fathom_model::watch::{MachineSample, Stack, StacksSample};

    const SECOND: u64 = 1_000_000_000;
    const START: u64 = 1_795_289_760 * SECOND;
    const MIB: u64 = 1 << 20;

    fn bounds(seconds: u64, bytes_max: u64) -> Bounds {
        Bounds { keep: Duration::from_secs(seconds), bytes_max }
    }

    fn record(second: u64) -> RunRecord {
        RunRecord { started_unix_ns: START + second * SECOND, ..RunRecord::default() }
    }

    /// A sample of some 6 KiB, half of it a stack.
    fn sample(second: u64) -> Encoded {
        let stack = Stack { kernel: vec!["f".repeat(3000)], user: Vec::new() };
        let stacks =
            StacksSample { event: "e".repeat(3000), new: vec![stack], ..StacksSample::default() };
        let machine = MachineSample { stacks: Some(stacks), ..MachineSample::default() };
        let unix_ns = START + second * SECOND;
        Encoded::of(&Sample { elapsed_ns: unix_ns - START, unix_ns, machine, ..Sample::default() })
            .unwrap()
    }

    /// Bytes that the files take on the disk, with a block for each folder.
    fn on_disk(path: &Path) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let mut bytes = 0;
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            bytes += match entry.metadata().unwrap() {
                folder if folder.is_dir() => BLOCK + on_disk(&entry.path()),
                file => file.len().max(file.blocks() * 512),
            };
        }
        bytes
    }

    /// Writes a sample for each of `seconds`, a folder for every `each` of them.
    fn write(ring: &mut Ring, seconds: std::ops::Range<u64>, each: usize, max: u64) {
        for folder in seconds.collect::<Vec<_>>().chunks(each) {
            ring.begin(&record(folder[0])).unwrap();
            for second in folder {
                ring.keep(&sample(*second), START + second * SECOND).unwrap();
                assert!(ring.bytes() <= max);
                assert!(on_disk(&ring.path) <= max, "after {second}");
            }
            ring.end(&record(folder[0])).unwrap();
        }
    }

    #[test]
    fn the_oldest_gives_way_to_size() {
        let dir = tempfile::tempdir().unwrap();
        let mut ring = Ring::open(dir.path(), bounds(100_000, MIB)).unwrap();
        write(&mut ring, 0..400, 10, MIB);
        let (first, last) = Reader::open(dir.path()).unwrap().span().unwrap().unwrap();
        assert_eq!(last, START + 399 * SECOND);
        let kept = (last - first) / SECOND;
        assert!(kept >= 100, "{kept} seconds");
    }

    #[test]
    fn the_oldest_gives_way_to_time() {
        let dir = tempfile::tempdir().unwrap();
        let mut ring = Ring::open(dir.path(), bounds(50, 100 * MIB)).unwrap();
        write(&mut ring, 0..200, 10, 100 * MIB);
        let (first, last) = Reader::open(dir.path()).unwrap().span().unwrap().unwrap();
        assert_eq!(last - first, 59 * SECOND);
    }

    #[test]
    fn a_ring_that_was_killed_goes_on_within_its_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let mut ring = Ring::open(dir.path(), bounds(100_000, 8 * MIB)).unwrap();
        write(&mut ring, 0..100, 10, 8 * MIB);
        ring.begin(&record(100)).unwrap();
        ring.keep(&sample(100), START + 100 * SECOND).unwrap();
        drop(ring);
        // Killed while it made the next folder.
        fs::create_dir(dir.path().join("00000099-x")).unwrap();
        fs::write(dir.path().join("00000099-x/record.json.1.part"), vec![0; 1 << 19]).unwrap();
        // It is on: what the smaller bound leaves no room for goes at once.
        let mut ring = Ring::open(dir.path(), bounds(100_000, MIB)).unwrap();
        assert!(on_disk(dir.path()) <= MIB);
        write(&mut ring, 200..400, 10, MIB);
        let mut reader = Reader::open(dir.path()).unwrap();
        assert_eq!(reader.span().unwrap().unwrap().1, START + 399 * SECOND);
        assert!(!dir.path().join("00000099-x").exists());
    }

    #[test]
    fn what_is_not_fathoms_stays() {
        let dir = tempfile::tempdir().unwrap();
        let mut ring = Ring::open(dir.path(), bounds(5, MIB)).unwrap();
        write(&mut ring, 0..2, 1, MIB);
        fs::write(dir.path().join("notes"), "mine").unwrap();
        let first = ring.old[0].path.join("notes");
        fs::write(&first, "mine").unwrap();
        ring.begin(&record(20)).err().unwrap();
        assert!(first.exists() && dir.path().join("notes").exists());
        // Said once; then it is no longer fathom's concern.
        ring.begin(&record(20)).unwrap();
    }

    #[test]
    fn one_process_writes_a_ring() {
        let dir = tempfile::tempdir().unwrap();
        let _first = Ring::open(dir.path(), bounds(5, MIB)).unwrap();
        let second = Ring::open(dir.path(), bounds(5, MIB)).err().unwrap();
        assert!(second.contains("another fathom record"), "{second}");
    }

    #[test]
    fn a_bound_without_room_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut ring = Ring::open(dir.path(), bounds(5, 5000)).unwrap();
        assert!(ring.begin(&record(0)).unwrap_err().contains("--max-size"));
    }
}
