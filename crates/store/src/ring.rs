//! A ring of run directories, bounded in age and size by deleting the oldest.
//!
//! Each segment is a complete record with its own stacks, so that it can be copied or sent alone. Sizes are counted in
//! blocks of 4 KiB.

pub(crate) mod segment;

use crate::dir::HeldDir;
use crate::run_dir::{EncodedSample, RunDir};
use crate::time::stamp;
use fathom_model::RunRecord;
use rustix::fs::FlockOperation;
use segment::{BLOCK, BYTES_FIXED, Removal, blocks, has_record, number};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A segment covers this fraction of the age and size limits, which are therefore honored to this granularity.
const PARTS: u32 = 16;
/// Shortest time between two segments, so that opening samplers costs little.
const SEGMENT_MIN: Duration = Duration::from_secs(60);
/// Locked by the process that writes the ring. A directory that contains it is a ring.
const LOCK: &str = "ring.lock";
/// Numbers of segments have eight digits.
const NUMBER_MAX: u64 = 99_999_999;

#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Minimum time, unless the size is reached first.
    pub keep: Duration,
    pub bytes_max: u64,
}

/// A ring opened for writing; locked against other writers.
pub struct SampleRing {
    dir: HeldDir,
    bounds: Retention,
    old: VecDeque<ClosedSegment>,
    open: Option<OpenSegment>,
    next_number: u64,
    not_removed: Vec<PathBuf>,
    _lock: File,
}

struct ClosedSegment {
    name: String,
    bytes: u64,
    ended_unix_ns: u64,
}

struct OpenSegment {
    name: String,
    run_dir: RunDir,
    /// Bytes of `record.json` twice, because it is replaced at the end, and of the directory with its mark.
    bytes_fixed: u64,
    last_unix_ns: u64,
}

impl SampleRing {
    /// Opens the ring at `path`, or creates it; segments beyond the limits are deleted immediately.
    pub fn open(path: &Path, bounds: Retention) -> Result<Self, String> {
        let fail = |error: io::Error| format!("cannot create a ring in {error}");
        let (dir, mut made) = HeldDir::make_all(path).map_err(fail)?;
        if dir.regular(LOCK).map_err(fail)?.is_none()
            && let Some(record) = run_in(&dir).map_err(fail)?
        {
            return Err(format!(
                "{} contains the record of a run, {record}; use --record to name another directory",
                path.display()
            ));
        }
        let lock = dir.open_lock(LOCK).map_err(fail)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            let path = path.display();
            match error {
                rustix::io::Errno::WOULDBLOCK => format!(
                    "{path} is being written by another fathom record; end that one, or use --record to name another \
                     directory"
                ),
                error => format!("cannot lock {path}/{LOCK}: {error}"),
            }
        })?;
        made.keep();
        let (old, next_number) = find(&dir).map_err(fail)?;
        let not_removed = Vec::new();
        let mut ring = Self { dir, bounds, old, open: None, next_number, not_removed, _lock: lock };
        ring.make_room(0)?;
        Ok(ring)
    }

    /// Takes the directories that could not be removed because they contain other files.
    pub fn take_not_removed(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.not_removed)
    }

    pub fn segment_time(&self) -> Duration {
        (self.bounds.keep / PARTS).max(SEGMENT_MIN)
    }

    pub fn is_segment_full(&self) -> bool {
        self.open_bytes() >= self.bounds.bytes_max / u64::from(PARTS)
    }

    fn open_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, OpenSegment::bytes)
    }

    fn bytes(&self) -> u64 {
        self.old.iter().map(|old| old.bytes).sum::<u64>() + self.open_bytes()
    }

    pub fn begin(&mut self, record: &RunRecord) -> Result<(), String> {
        self.forget(record.header.started_unix_ns)?;
        let bytes_fixed = BYTES_FIXED + 2 * blocks(json_len(record));
        self.make_room(bytes_fixed)?;
        if self.next_number > NUMBER_MAX {
            let path = self.dir.path().display();
            return Err(format!(
                "{path} has no segment numbers left; use --record to name another directory"
            ));
        }
        let name = format!("{:08}-{}", self.next_number, stamp(record.header.started_unix_ns));
        loop {
            match segment::begin(&self.dir, &name, record) {
                Ok(run_dir) => {
                    let last_unix_ns = record.header.started_unix_ns;
                    self.open = Some(OpenSegment { name, run_dir, bytes_fixed, last_unix_ns });
                    self.next_number += 1;
                    return Ok(());
                }
                Err(error) if !is_full(&error) || !self.drop_oldest()? => {
                    return Err(format!("cannot create a record: {error}"));
                }
                Err(_) => {}
            }
        }
    }

    /// Appends a sample taken at `unix_ns` to the open segment. If that exceeds a limit or the disk is full, the oldest
    /// segments are deleted.
    pub fn keep(&mut self, sample: &EncodedSample, unix_ns: u64) -> Result<(), String> {
        self.forget(unix_ns)?;
        // Each of the two files may take one more block.
        self.make_room(sample.size_bytes() + 2 * BLOCK)?;
        loop {
            let Some(open) = &mut self.open else { return Ok(()) };
            open.last_unix_ns = unix_ns;
            let Err(error) = open.run_dir.write(sample) else { return Ok(()) };
            if !is_full(&error) || !self.drop_oldest()? {
                return Err(format!("cannot write {error}"));
            }
        }
    }

    pub fn sync(&self) -> Result<(), String> {
        let Some(open) = &self.open else { return Ok(()) };
        open.run_dir.sync().map_err(|e| format!("cannot sync {e}"))
    }

    pub fn end(&mut self, record: &RunRecord) -> Result<(), String> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let write = || open.run_dir.sync().and_then(|()| open.run_dir.try_record(record));
        let mut written = write();
        while written.as_ref().is_err_and(is_full) && self.drop_oldest()? {
            written = write();
        }
        let bytes = open.bytes();
        self.old.push_back(ClosedSegment {
            name: open.name,
            bytes,
            ended_unix_ns: open.last_unix_ns,
        });
        written.map_err(|e| format!("cannot write {e}"))
    }

    fn forget(&mut self, now_unix_ns: u64) -> Result<(), String> {
        let keep = self.bounds.keep.as_nanos() as u64;
        let is_over = |old: &ClosedSegment| old.ended_unix_ns.saturating_add(keep) < now_unix_ns;
        while self.old.front().is_some_and(is_over) {
            self.drop_oldest()?;
        }
        Ok(())
    }

    fn make_room(&mut self, bytes: u64) -> Result<(), String> {
        while self.bytes() + bytes > self.bounds.bytes_max {
            if !self.drop_oldest()? {
                return Err(format!(
                    "the limit of {} bytes leaves no room for {bytes} more; increase --max-size",
                    self.bounds.bytes_max
                ));
            }
        }
        Ok(())
    }

    fn drop_oldest(&mut self) -> Result<bool, String> {
        let Some(old) = self.old.pop_front() else { return Ok(false) };
        let removed = segment::remove(&self.dir, &old.name);
        let removed = removed.map_err(|e| format!("cannot remove the oldest record {e}"))?;
        if removed != Removal::Whole {
            self.not_removed.push(self.dir.path().join(&old.name));
        }
        Ok(true)
    }
}

impl OpenSegment {
    fn bytes(&self) -> u64 {
        let (samples, stacks) = self.run_dir.len();
        self.bytes_fixed + blocks(samples) + blocks(stacks)
    }
}

/// Whether freeing space would help; deleting old segments for any other error would be pointless.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The first record of a run in a directory or its immediate subdirectories.
fn run_in(dir: &HeldDir) -> io::Result<Option<String>> {
    if has_record(dir) {
        return Ok(Some("record.json".into()));
    }
    for name in dir.names()? {
        let name = name?.to_string_lossy().into_owned();
        if dir.dir(&name).is_ok_and(|inner| has_record(&inner)) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// The segments of a ring, oldest first, and the number of the next one.
fn find(ring: &HeldDir) -> io::Result<(VecDeque<ClosedSegment>, u64)> {
    let mut old = Vec::new();
    for name in ring.names()? {
        let name = name?.into_string().ok().filter(|name| number(name).is_some());
        let Some(name) = name else { continue };
        if let Some((bytes, ended_unix_ns)) = segment::measure(ring, &name)? {
            old.push(ClosedSegment { name, bytes, ended_unix_ns });
        }
    }
    old.sort_by(|a, b| a.name.cmp(&b.name));
    let next = old.last().and_then(|last| number(&last.name)).map_or(1, |number| number + 1);
    Ok((old.into(), next))
}

/// Bytes of `record.json`, including an allowance for the fields added at the end.
fn json_len(record: &RunRecord) -> u64 {
    serde_json::to_vec_pretty(record).map_or(0, |text| text.len() as u64) + BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Reader;
    use fathom_model::progress::Sample;
    use fathom_model::watch::{MachineSample, Stack, StacksSample};
    use std::fs;

    const SECOND: u64 = 1_000_000_000;
    const START: u64 = 1_795_289_760 * SECOND;
    const MIB: u64 = 1 << 20;

    fn bounds(seconds: u64, bytes_max: u64) -> Retention {
        Retention { keep: Duration::from_secs(seconds), bytes_max }
    }

    fn record(second: u64) -> RunRecord {
        let mut record = RunRecord::default();
        record.header.started_unix_ns = START + second * SECOND;
        record
    }

    /// A sample of some 6 KiB, half of it a stack.
    fn sample(second: u64) -> EncodedSample {
        let stack = Stack { kernel: vec!["f".repeat(3000)], user: Vec::new() };
        let stacks =
            StacksSample { event: "e".repeat(3000), new: vec![stack], ..StacksSample::default() };
        let machine = MachineSample { stacks: Some(stacks), ..MachineSample::default() };
        let unix_ns = START + second * SECOND;
        EncodedSample::of(&Sample {
            elapsed_ns: unix_ns - START,
            unix_ns,
            machine,
            ..Sample::default()
        })
        .unwrap()
    }

    /// Bytes that the files take on the disk, with a block for each segment.
    fn on_disk(path: &Path) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let mut bytes = 0;
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            bytes += match entry.metadata().unwrap() {
                dir if dir.is_dir() => BLOCK + on_disk(&entry.path()),
                file => file.len().max(file.blocks() * 512),
            };
        }
        bytes
    }

    /// Writes a sample for each of `seconds`, a segment for every `each` of them.
    fn write(ring: &mut SampleRing, seconds: std::ops::Range<u64>, each: usize, max: u64) {
        for part in seconds.collect::<Vec<_>>().chunks(each) {
            ring.begin(&record(part[0])).unwrap();
            for second in part {
                ring.keep(&sample(*second), START + second * SECOND).unwrap();
                assert!(ring.bytes() <= max);
                assert!(on_disk(ring.dir.path()) <= max, "after {second}");
            }
            ring.end(&record(part[0])).unwrap();
        }
    }

    #[test]
    fn the_oldest_gives_way_to_size() {
        let dir = tempfile::tempdir().unwrap();
        let mut ring = SampleRing::open(dir.path(), bounds(100_000, MIB)).unwrap();
        write(&mut ring, 0..400, 10, MIB);
        let (first, last) = Reader::open(dir.path()).unwrap().span().unwrap().unwrap();
        assert_eq!(last, START + 399 * SECOND);
        let kept = (last - first) / SECOND;
        assert!(kept >= 100, "{kept} seconds");
    }

    #[test]
    fn the_oldest_gives_way_to_time() {
        let dir = tempfile::tempdir().unwrap();
        let mut ring = SampleRing::open(dir.path(), bounds(50, 100 * MIB)).unwrap();
        write(&mut ring, 0..200, 10, 100 * MIB);
        let (first, last) = Reader::open(dir.path()).unwrap().span().unwrap().unwrap();
        assert_eq!(last - first, 59 * SECOND);
    }

    #[test]
    fn a_ring_that_was_killed_goes_on_within_its_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let mut ring = SampleRing::open(dir.path(), bounds(100_000, 8 * MIB)).unwrap();
        write(&mut ring, 0..100, 10, 8 * MIB);
        ring.begin(&record(100)).unwrap();
        ring.keep(&sample(100), START + 100 * SECOND).unwrap();
        drop(ring);
        // Killed while it made the next segment.
        let name = "00000099-20261122-021500";
        let killed = dir.path().join(name);
        fs::create_dir(&killed).unwrap();
        fs::write(killed.join(".fathom-segment"), name).unwrap();
        fs::write(killed.join(".fathom-0123456789abcdef.part"), vec![0; 1 << 19]).unwrap();
        // Segments beyond the smaller limit are deleted immediately.
        let mut ring = SampleRing::open(dir.path(), bounds(100_000, MIB)).unwrap();
        assert!(on_disk(dir.path()) <= MIB);
        write(&mut ring, 200..400, 10, MIB);
        let mut reader = Reader::open(dir.path()).unwrap();
        assert_eq!(reader.span().unwrap().unwrap().1, START + 399 * SECOND);
        assert!(!killed.exists());
    }

    #[test]
    fn what_is_not_fathoms_stays() {
        let dir = tempfile::tempdir().unwrap();
        let mut ring = SampleRing::open(dir.path(), bounds(5, MIB)).unwrap();
        write(&mut ring, 0..2, 1, MIB);
        fs::write(dir.path().join("notes"), "mine").unwrap();
        let first = dir.path().join(&ring.old[0].name);
        fs::write(first.join("notes"), "mine").unwrap();
        // Another takes the second's place.
        let second = dir.path().join(&ring.old[1].name);
        fs::rename(&second, dir.path().join("kept")).unwrap();
        fs::create_dir(&second).unwrap();
        fs::write(second.join("record.json"), "mine").unwrap();
        ring.begin(&record(20)).unwrap();
        assert!(first.join("notes").exists() && dir.path().join("notes").exists());
        assert_eq!(fs::read_dir(&first).unwrap().count(), 1);
        assert!(second.join("record.json").exists());
        assert_eq!(fs::read_dir(dir.path().join("kept")).unwrap().count(), 4);
    }

    #[test]
    fn a_segment_that_could_not_begin_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut ring = SampleRing::open(dir.path(), bounds(5, MIB)).unwrap();
        let name = format!("00000001-{}", stamp(START));
        fs::write(dir.path().join(&name), "mine").unwrap();
        assert!(ring.begin(&record(0)).unwrap_err().contains(&name));
        assert_eq!(fs::read_to_string(dir.path().join(&name)).unwrap(), "mine");
        ring.begin(&record(1)).unwrap();
        ring.end(&record(1)).unwrap();
        ring.next_number = NUMBER_MAX + 1;
        assert!(ring.begin(&record(2)).unwrap_err().contains("no segment numbers left"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[test]
    fn one_process_writes_a_ring() {
        let dir = tempfile::tempdir().unwrap();
        let _first = SampleRing::open(dir.path(), bounds(5, MIB)).unwrap();
        let second = SampleRing::open(dir.path(), bounds(5, MIB)).err().unwrap();
        assert!(second.contains("another fathom record"), "{second}");
    }

    #[test]
    fn a_bound_without_room_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut ring = SampleRing::open(dir.path(), bounds(5, 5000)).unwrap();
        assert!(ring.begin(&record(0)).unwrap_err().contains("--max-size"));
    }
}
