//! Reads a record folder, or a ring of them, from any instant on, also while it is being written.

use super::lines::Lines;
use super::ring::{self, Segment};
use fathom_model::RunRecord;
use fathom_model::progress::Sample;
use fathom_model::record::RECORD_VERSION;
use fathom_model::watch::Stack;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of a line that hold its `elapsed_ns`, which is its first field.
const HEAD: usize = 64;

/// A record that is read. It has a place between two samples; nothing is kept but the sample read.
pub struct Reader {
    path: PathBuf,
    segments: Vec<Segment>,
    open: Open,
}

/// A sample and its place in the record.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// The instant of its end, in nanoseconds since 1970 (UTC). Within a segment it grows as
    /// `elapsed_ns` does, whatever happened to the machine's clock.
    pub unix_ns: u64,
    /// It begins its segment: counters are not to be compared with those of the sample before.
    pub begins: bool,
    /// What was seen.
    pub sample: Sample,
}

/// The segment that is being read.
struct Open {
    segment: Segment,
    record: RunRecord,
    lines: Lines,
    /// Where the line begins that comes next.
    at: u64,
    first: Option<First>,
    stacks: Vec<Stack>,
    /// Where the first line of `stacks.ndjson` begins that is not in `stacks`.
    stacks_at: u64,
}

/// The first sample of a segment.
#[derive(Clone, Copy, Default)]
struct First {
    /// Where its line begins.
    from: u64,
    /// The instant of `elapsed_ns` 0, in nanoseconds since 1970.
    zero_unix_ns: u64,
}

/// What every version of a record has.
#[derive(Deserialize)]
struct Version {
    record_version: u32,
}

/// What places a line in time.
#[derive(Deserialize)]
struct Head {
    elapsed_ns: u64,
    unix_ns: u64,
}

impl Reader {
    /// Opens the record folder, or the ring of them, at `path`, and stands before its first sample.
    ///
    /// # Errors
    /// Names what cannot be read.
    pub fn open(path: &Path) -> Result<Self, String> {
        let segments = ring::segments(path)?;
        let Some(first) = segments.first() else { return Err(no_record(path)) };
        let open = Open::new(first.clone())?;
        Ok(Self { path: path.to_path_buf(), segments, open })
    }

    /// The record of the segment that the last sample read is in.
    #[must_use]
    pub fn record(&self) -> &RunRecord {
        &self.open.record
    }

    /// The stacks that samples of this segment name by their index.
    ///
    /// # Errors
    /// When `stacks.ndjson` cannot be read.
    pub fn stacks(&mut self) -> Result<&[Stack], String> {
        self.open.stacks()
    }

    /// Instants of the first and the last sample, in nanoseconds since 1970; `None` where there is
    /// no sample yet.
    ///
    /// # Errors
    /// Names what cannot be read.
    pub fn span(&mut self) -> Result<Option<(u64, u64)>, String> {
        self.refresh()?;
        let mut ends = (None, None);
        for segment in self.segments.clone() {
            if let Some(first) = Open::new(segment)?.forward()? {
                ends.0 = Some(first.unix_ns);
                break;
            }
        }
        for segment in self.segments.clone().into_iter().rev() {
            let mut open = Open::new(segment)?;
            open.at = open.end()?;
            if let Some(last) = open.back()? {
                ends.1 = Some(last.unix_ns);
                break;
            }
        }
        Ok(ends.0.zip(ends.1))
    }

    /// The next sample; `None` where none has been written yet: one may come later.
    ///
    /// # Errors
    /// Names what cannot be read.
    pub fn forward(&mut self) -> Result<Option<Moment>, String> {
        loop {
            if let Some(moment) = self.open.forward()? {
                return Ok(Some(moment));
            }
            self.refresh()?;
            let after = |s: &&Segment| s.name > self.open.segment.name;
            let Some(next) = self.segments.iter().find(after).cloned() else { return Ok(None) };
            // What was written between the look at the old segment and that at the new one.
            if let Some(moment) = self.open.forward()? {
                return Ok(Some(moment));
            }
            self.open = Open::new(next)?;
        }
    }

    /// The sample before; `None` where this is the first one.
    ///
    /// # Errors
    /// Names what cannot be read.
    pub fn back(&mut self) -> Result<Option<Moment>, String> {
        loop {
            if let Some(moment) = self.open.back()? {
                return Ok(Some(moment));
            }
            self.refresh()?;
            let before = |s: &&Segment| s.name < self.open.segment.name;
            let Some(last) = self.segments.iter().rfind(before).cloned() else { return Ok(None) };
            self.open = Open::new(last)?;
            self.open.at = self.open.end()?;
        }
    }

    /// Goes before the first sample whose instant is `unix_ns` or later, or behind the last one:
    /// [`Reader::forward`] then gives the sample of the interval that holds the instant,
    /// [`Reader::back`] the one that it is to be compared with.
    ///
    /// # Errors
    /// Names what cannot be read.
    pub fn seek(&mut self, unix_ns: u64) -> Result<(), String> {
        self.refresh()?;
        let begun = self.segments.iter().rfind(|s| s.started_unix_ns <= unix_ns);
        let Some(segment) = begun.or(self.segments.first()).cloned() else { return Ok(()) };
        if segment != self.open.segment {
            self.open = Open::new(segment)?;
        }
        self.open.seek(unix_ns)
    }

    fn refresh(&mut self) -> Result<(), String> {
        self.segments = ring::segments(&self.path)?;
        Ok(())
    }
}

impl Open {
    fn new(segment: Segment) -> Result<Self, String> {
        let record = read_record(&segment.path.join("record.json"))?;
        let samples = segment.path.join("samples.ndjson");
        let lines =
            Lines::open(&samples).map_err(|e| format!("cannot read {}: {e}", samples.display()))?;
        let (stacks, stacks_at) = (Vec::new(), 0);
        Ok(Self { segment, record, lines, at: 0, first: None, stacks, stacks_at })
    }

    fn forward(&mut self) -> Result<Option<Moment>, String> {
        // Lines that are no samples are damage of a machine that stopped: the others still count.
        loop {
            let from = self.at;
            let Some((sample, next)) = self.line::<Sample>(from)? else { return Ok(None) };
            self.at = next;
            if let Some(sample) = sample {
                return self.moment(sample, from).map(Some);
            }
        }
    }

    fn back(&mut self) -> Result<Option<Moment>, String> {
        while self.at > 0 {
            self.at = self.lines.start_before(self.at).map_err(|e| self.bad(&e))?;
            if let Some((Some(sample), _)) = self.line(self.at)? {
                return self.moment(sample, self.at).map(Some);
            }
        }
        Ok(None)
    }

    fn end(&mut self) -> Result<u64, String> {
        self.lines.whole_end().map_err(|e| self.bad(&e))
    }

    /// Halves the bytes, not the lines, so that it needs no index: it looks at about as many lines as
    /// the file's length has bits.
    fn seek(&mut self, unix_ns: u64) -> Result<(), String> {
        let zero = self.first()?.map_or(0, |first| first.zero_unix_ns);
        let elapsed = unix_ns.saturating_sub(zero);
        // Samples that begin before `low` are too early; what begins at `high` or later is not.
        let (mut low, mut high) = (0, self.end()?);
        while low < high {
            let middle = low + (high - low) / 2;
            let start = self.lines.start_before(middle + 1).map_err(|e| self.bad(&e))?;
            if start < low || self.elapsed(start, high)?.is_some_and(|at| at < elapsed) {
                low = middle + 1;
            } else {
                high = start;
            }
        }
        self.at = high;
        Ok(())
    }

    /// The `elapsed_ns` of the line that begins at `from`, or, where that is damaged, of the next one
    /// before `end` that is not.
    fn elapsed(&mut self, mut from: u64, end: u64) -> Result<Option<u64>, String> {
        let elapsed = self.lines.head(from, HEAD).map(elapsed_first).map_err(|e| self.bad(&e))?;
        if elapsed.is_some() {
            return Ok(elapsed);
        }
        while from < end {
            match self.line::<Head>(from)? {
                Some((Some(head), _)) => return Ok(Some(head.elapsed_ns)),
                Some((None, next)) => from = next,
                None => break,
            }
        }
        Ok(None)
    }

    /// The first sample, once there is one.
    fn first(&mut self) -> Result<Option<First>, String> {
        let mut from = 0;
        while self.first.is_none() {
            let Some((head, next)) = self.line::<Head>(from)? else { break };
            self.first = head.map(|head| First {
                from,
                zero_unix_ns: head.unix_ns.saturating_sub(head.elapsed_ns),
            });
            from = next;
        }
        Ok(self.first)
    }

    /// What the line that begins at `from` holds, `None` inside where it is damaged, and the next
    /// line's beginning.
    fn line<T: DeserializeOwned>(&mut self, from: u64) -> Result<Option<(Option<T>, u64)>, String> {
        match self.lines.line(from) {
            Ok(line) => Ok(line.map(|(text, next)| (serde_json::from_slice(text).ok(), next))),
            Err(error) => Err(self.bad(&error)),
        }
    }

    fn moment(&mut self, sample: Sample, from: u64) -> Result<Moment, String> {
        let first = self.first()?.unwrap_or_default();
        let unix_ns = first.zero_unix_ns.saturating_add(sample.elapsed_ns);
        Ok(Moment { unix_ns, begins: from == first.from, sample })
    }

    fn stacks(&mut self) -> Result<&[Stack], String> {
        let path = self.segment.path.join("stacks.ndjson");
        let fail = |error: io::Error| format!("cannot read {}: {error}", path.display());
        if path.exists() {
            let mut lines = Lines::open(&path).map_err(fail)?;
            while let Some((text, next)) = lines.line(self.stacks_at).map_err(fail)? {
                // Samples count lines: one that is damaged keeps its number.
                self.stacks.push(serde_json::from_slice(text).unwrap_or_default());
                self.stacks_at = next;
            }
        }
        Ok(&self.stacks)
    }

    fn bad(&self, error: &io::Error) -> String {
        format!("cannot read {}: {error}", self.segment.path.join("samples.ndjson").display())
    }
}

fn read_record(path: &Path) -> Result<RunRecord, String> {
    let text = fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    // What a newer program has changed may look as it did.
    let version =
        serde_json::from_slice(&text).map_or(0, |version: Version| version.record_version);
    if version > RECORD_VERSION {
        return Err(format!(
            "{} has version {version}, and this fathom reads versions up to {RECORD_VERSION}; look at \
             it with the fathom that wrote it, or a newer one",
            path.display()
        ));
    }
    serde_json::from_slice(&text)
        .map_err(|e| format!("{} is no record of a run or of watching: {e}", path.display()))
}

/// Why there is nothing to read in a folder without a segment.
fn no_record(path: &Path) -> String {
    let damaged = path.join("record.json");
    match read_record(&damaged) {
        Err(error) if damaged.exists() => error,
        _ => format!(
            "{} holds no record: neither record.json nor folders that have one; name the folder that a \
             run, fathom watch or fathom record has written",
            path.display()
        ),
    }
}

/// The number in `{"elapsed_ns":123,…`, without a look at what follows.
fn elapsed_first(head: &[u8]) -> Option<u64> {
    let digits = head.strip_prefix(b"{\"elapsed_ns\":")?;
    let len = digits.iter().position(|b| !b.is_ascii_digit())?;
    std::str::from_utf8(&digits[..len]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const SECOND: u64 = 1_000_000_000;
    const START: u64 = 1_795_289_760 * SECOND;

    /// A record with a sample at each of `seconds` after the start.
    fn record(path: &Path, started_unix_ns: u64, seconds: impl IntoIterator<Item = u64>) {
        fs::create_dir_all(path).unwrap();
        let record = RunRecord { started_unix_ns, ..RunRecord::default() };
        fs::write(path.join("record.json"), serde_json::to_vec(&record).unwrap()).unwrap();
        fs::write(path.join("samples.ndjson"), "").unwrap();
        seconds.into_iter().for_each(|s| append(path, &line(started_unix_ns, s)));
    }

    fn line(started_unix_ns: u64, second: u64) -> Vec<u8> {
        let elapsed_ns = second * SECOND;
        let unix_ns = started_unix_ns + elapsed_ns;
        let sample = Sample { elapsed_ns, unix_ns, ..Sample::default() };
        let mut line = serde_json::to_vec(&sample).unwrap();
        line.push(b'\n');
        line
    }

    fn append(path: &Path, text: &[u8]) {
        let samples = path.join("samples.ndjson");
        let mut file = fs::File::options().append(true).open(samples).unwrap();
        file.write_all(text).unwrap();
    }

    fn seconds(moment: Result<Option<Moment>, String>) -> Option<u64> {
        moment.unwrap().map(|moment| (moment.unix_ns - START) / SECOND)
    }

    #[test]
    fn seeking_finds_the_interval_of_every_instant() {
        let dir = tempfile::tempdir().unwrap();
        record(dir.path(), START, (0..400).map(|n| n * 3));
        let mut reader = Reader::open(dir.path()).unwrap();
        assert_eq!(reader.span().unwrap(), Some((START, START + 1197 * SECOND)));
        assert_eq!(reader.record().started_unix_ns, START);
        for instant in 0..1197 {
            reader.seek(START + instant * SECOND).unwrap();
            assert_eq!(seconds(reader.forward()), Some(instant.div_ceil(3) * 3), "{instant}");
        }
        reader.seek(START + 2000 * SECOND).unwrap();
        assert_eq!(reader.forward().unwrap(), None);
        assert_eq!(seconds(reader.back()), Some(1197));
        assert_eq!(seconds(reader.back()), Some(1194));
        assert_eq!(seconds(reader.forward()), Some(1194));
        reader.seek(0).unwrap();
        assert_eq!(reader.back().unwrap(), None);
        let first = reader.forward().unwrap().unwrap();
        assert!(first.begins && first.unix_ns == START);
        assert!(!reader.forward().unwrap().unwrap().begins);
    }

    #[test]
    fn damaged_lines_are_passed_over_and_half_a_line_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        record(dir.path(), START, 0..10);
        append(dir.path(), b"\0\0\0\n{\"elapsed_ns\":\n\xff\n");
        (10..20).for_each(|s| append(dir.path(), &line(START, s)));
        let half = line(START, 20);
        append(dir.path(), &half[..half.len() / 2]);
        let mut reader = Reader::open(dir.path()).unwrap();
        for instant in 0..20 {
            reader.seek(START + instant * SECOND).unwrap();
            assert_eq!(seconds(reader.forward()), Some(instant), "{instant}");
        }
        assert_eq!(reader.forward().unwrap(), None);
        append(dir.path(), &half[half.len() / 2..]);
        assert_eq!(seconds(reader.forward()), Some(20));
        let back = std::iter::from_fn(|| seconds(reader.back()));
        assert_eq!(back.collect::<Vec<_>>(), (0..=20).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_ring_is_one_record_that_begins_anew_with_each_segment() {
        let dir = tempfile::tempdir().unwrap();
        record(&dir.path().join("000001-a"), START, 0..5);
        record(&dir.path().join("000002-b"), START + 10 * SECOND, 0..0);
        record(&dir.path().join("000003-c"), START + 20 * SECOND, 0..5);
        fs::create_dir(dir.path().join("000004-not-made-yet")).unwrap();
        let mut reader = Reader::open(dir.path()).unwrap();
        assert_eq!(reader.span().unwrap(), Some((START, START + 24 * SECOND)));
        let all: Vec<Moment> = std::iter::from_fn(|| reader.forward().unwrap()).collect();
        let begins: Vec<u64> = all.iter().filter(|m| m.begins).map(|m| m.unix_ns).collect();
        assert_eq!((all.len(), begins), (10, vec![START, START + 20 * SECOND]));
        for (instant, found) in [(4, 4), (7, 20), (15, 20), (22, 22)] {
            reader.seek(START + instant * SECOND).unwrap();
            assert_eq!(seconds(reader.forward()), Some(found), "{instant}");
        }
        reader.seek(START + 20 * SECOND).unwrap();
        assert_eq!(seconds(reader.back()), Some(4));
        // What comes while it is read is read as well.
        reader.seek(START + 99 * SECOND).unwrap();
        assert_eq!(reader.forward().unwrap(), None);
        record(&dir.path().join("000004-not-made-yet"), START + 30 * SECOND, 0..1);
        assert_eq!(seconds(reader.forward()), Some(30));
    }

    #[test]
    fn stacks_are_those_of_the_segment_and_may_grow() {
        let dir = tempfile::tempdir().unwrap();
        record(dir.path(), START, 0..2);
        let mut reader = Reader::open(dir.path()).unwrap();
        assert_eq!(reader.stacks().unwrap(), []);
        let stack = Stack { kernel: vec!["vfs_read".into()], user: Vec::new() };
        let mut text = serde_json::to_vec(&stack).unwrap();
        text.extend(b"\n{\"kernel\":[\"do_");
        fs::write(dir.path().join("stacks.ndjson"), &text).unwrap();
        assert_eq!(reader.stacks().unwrap(), std::slice::from_ref(&stack));
        text.extend(b"x\"]}\n");
        fs::write(dir.path().join("stacks.ndjson"), &text).unwrap();
        assert_eq!(reader.stacks().unwrap()[1].kernel, ["do_x"]);
    }

    #[test]
    fn what_is_no_record_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &Path| Reader::open(path).err().unwrap();
        assert!(open(dir.path()).contains("holds no record"));
        assert!(open(&dir.path().join("none")).contains("none"));
        fs::write(dir.path().join("record.json"), "{\"started_unix_ns\":1}").unwrap();
        assert!(open(dir.path()).contains("record.json is no record"));
    }

    /// Twelve hours at two samples a second.
    #[test]
    fn a_long_record_is_sought_in_without_being_read() {
        let dir = tempfile::tempdir().unwrap();
        record(dir.path(), START, []);
        let path = dir.path().join("samples.ndjson");
        let mut file = io::BufWriter::new(fs::File::create(&path).unwrap());
        let filler = "x".repeat(700);
        for n in 0..86_400_u64 {
            let elapsed = n * SECOND / 2;
            let unix = START + elapsed;
            let machine = "\"machine\":{}";
            writeln!(
                file,
                "{{\"elapsed_ns\":{elapsed},\"unix_ns\":{unix},\"jobs\":[],{machine},\"f\":\"{filler}\"}}"
            )
            .unwrap();
        }
        file.into_inner().unwrap().sync_data().unwrap();
        let len = fs::metadata(&path).unwrap().len();
        let mut reader = Reader::open(dir.path()).unwrap();
        for instant in [1, 86_399, 43_200, 12_345, 77_777] {
            let before = reader.open.lines.bytes_read;
            reader.seek(START + instant * SECOND / 2).unwrap();
            let moment = reader.forward().unwrap().unwrap();
            assert_eq!(moment.unix_ns, START + instant * SECOND / 2);
            let read = reader.open.lines.bytes_read - before;
            assert!(read < len / 20, "{read} of {len} bytes");
        }
    }
}
