//! Reads a run directory or a ring from any point in time, even while it is being written.

mod bounds;
mod lines;

use crate::dir::{HeldDir, with_path};
use crate::ring::segment::{self, Segment};
use crate::stored::RECORD_MAX;
use bounds::Damage;
use fathom_model::progress::{JobSample, Sample};
use fathom_model::record::RECORD_VERSION;
use fathom_model::watch::{MachineSample, SamplingRecord, Stack};
pub(crate) use lines::LINE_MAX;
use lines::Lines;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::io;
use std::path::Path;

/// Number of bytes that contain a line's first field, `elapsed_ns`.
const HEAD: usize = 64;
/// Maximum memory of a segment's stacks, in bytes.
const STACKS_MAX: u64 = 1 << 30;

/// A cursor between two samples of a record. Keeps only the last sample read in memory.
pub struct Reader {
    root: HeldDir,
    segments: Vec<Segment>,
    open: SegmentCursor,
}

/// The part of a `record.json` of any kind that is read. Jobs, of which there may be many, are skipped.
#[derive(Deserialize)]
struct Record {
    #[serde(rename = "started_unix_ns")]
    _started_unix_ns: u64,
    #[serde(rename = "facts")]
    _facts: IgnoredAny,
    #[serde(default, alias = "watch")]
    sampling: Option<SamplingRecord>,
}

/// The part of a line of samples that is read.
#[derive(Deserialize)]
struct SampleLine {
    elapsed_ns: u64,
    unix_ns: u64,
    #[serde(default)]
    machine: MachineSample,
}

/// The other part, of the samples of a run.
#[derive(Deserialize)]
struct JobLine {
    elapsed_ns: u64,
    jobs: bounds::FewJobs,
}

/// A sample and its position in time.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSample {
    /// When it was taken, in nanoseconds since 1970 (UTC). Within a segment it advances with `elapsed_ns`, even if the
    /// machine's clock is set.
    pub unix_ns: u64,
    /// Whether it is the first of its segment, so that its counters are not comparable with the previous sample's.
    pub begins: bool,
    /// The sample, without the jobs of a run.
    pub sample: Sample,
}

struct SegmentCursor {
    segment: Segment,
    dir: HeldDir,
    record: Record,
    lines: Lines,
    at: u64,
    first: Option<FirstSample>,
    stacks: Vec<Stack>,
    /// Offset of the first line of `stacks.ndjson` that is not in `stacks`.
    stacks_at: u64,
    stacks_bytes: u64,
}

#[derive(Clone, Copy, Default)]
struct FirstSample {
    from: u64,
    /// The instant of `elapsed_ns` 0, in nanoseconds since 1970.
    zero_unix_ns: u64,
}

#[derive(Deserialize)]
struct Version {
    record_version: u32,
}

#[derive(Deserialize)]
struct Head {
    elapsed_ns: u64,
    unix_ns: u64,
}

impl Reader {
    /// Opens the run directory, or the ring of them, at `path`, positioned before its first sample.
    pub fn open(path: &Path) -> Result<Self, String> {
        let root = HeldDir::open(path).map_err(unread)?;
        let segments = segment::segments(&root, &[]).map_err(unread)?;
        let Some(first) = segments.first() else { return Err(no_record(&root)) };
        let open = SegmentCursor::new(&root, first.clone())?;
        Ok(Self { root, segments, open })
    }

    /// The sampling configuration of the segment with the last sample read.
    pub fn watch(&self) -> Option<&SamplingRecord> {
        self.open.record.sampling.as_ref()
    }

    /// The stacks that samples of this segment refer to by index.
    pub fn stacks(&mut self) -> Result<&[Stack], String> {
        self.open.stacks()
    }

    /// Times of the first and the last sample, in nanoseconds since 1970; `None` if there is no sample yet.
    pub fn span(&mut self) -> Result<Option<(u64, u64)>, String> {
        self.refresh()?;
        let mut ends = (None, None);
        for segment in self.segments.clone() {
            if let Some(first) = SegmentCursor::new(&self.root, segment)?.forward()? {
                ends.0 = Some(first.unix_ns);
                break;
            }
        }
        for segment in self.segments.clone().into_iter().rev() {
            let mut open = SegmentCursor::new(&self.root, segment)?;
            open.at = open.end()?;
            if let Some(last) = open.back()? {
                ends.1 = Some(last.unix_ns);
                break;
            }
        }
        Ok(ends.0.zip(ends.1))
    }

    /// The next sample; `None` if none has been written yet.
    pub fn forward(&mut self) -> Result<Option<StoredSample>, String> {
        loop {
            if let Some(moment) = self.open.forward()? {
                return Ok(Some(moment));
            }
            self.refresh()?;
            let after = |s: &&Segment| s.name > self.open.segment.name;
            let Some(next) = self.segments.iter().find(after).cloned() else { return Ok(None) };
            // The old segment may have grown between its last read and the creation of the new one.
            if let Some(moment) = self.open.forward()? {
                return Ok(Some(moment));
            }
            self.open = SegmentCursor::new(&self.root, next)?;
        }
    }

    /// The time since the start of a run and the state of its jobs in the next sample; `None` if none has been written
    /// yet. Samples with more than 1024 jobs are skipped.
    pub fn forward_jobs(&mut self) -> Result<Option<(u64, Vec<JobSample>)>, String> {
        let line = self.open.next_line::<JobLine>()?;
        Ok(line.map(|(line, _)| (line.elapsed_ns, line.jobs.0)))
    }

    /// The previous sample; `None` if this is the first one.
    pub fn back(&mut self) -> Result<Option<StoredSample>, String> {
        loop {
            if let Some(moment) = self.open.back()? {
                return Ok(Some(moment));
            }
            self.refresh()?;
            let before = |s: &&Segment| s.name < self.open.segment.name;
            let Some(last) = self.segments.iter().rfind(before).cloned() else { return Ok(None) };
            self.open = SegmentCursor::new(&self.root, last)?;
            self.open.at = self.open.end()?;
        }
    }

    /// Positions the cursor before the first sample at or after `unix_ns`, or after the last one. [`Reader::forward`] then
    /// returns the sample of the interval that contains this time, [`Reader::back`] its predecessor.
    pub fn seek(&mut self, unix_ns: u64) -> Result<(), String> {
        self.refresh()?;
        let begun = self.segments.iter().rfind(|s| s.started_unix_ns <= unix_ns);
        let Some(segment) = begun.or(self.segments.first()).cloned() else { return Ok(()) };
        if segment != self.open.segment {
            self.open = SegmentCursor::new(&self.root, segment)?;
        }
        self.open.seek(unix_ns)
    }

    fn refresh(&mut self) -> Result<(), String> {
        self.segments = segment::segments(&self.root, &self.segments).map_err(unread)?;
        Ok(())
    }
}

impl SegmentCursor {
    fn new(root: &HeldDir, segment: Segment) -> Result<Self, String> {
        let dir = segment.open(root).map_err(unread)?;
        let record = read_record(&dir)?;
        let lines = Lines::new(dir.open_file("samples.ndjson").map_err(unread)?);
        let (stacks, stacks_at, stacks_bytes) = (Vec::new(), 0, 0);
        let (at, first) = (0, None);
        Ok(Self { segment, dir, record, lines, at, first, stacks, stacks_at, stacks_bytes })
    }

    fn forward(&mut self) -> Result<Option<StoredSample>, String> {
        let line = self.next_line::<SampleLine>()?;
        line.map(|(line, from)| self.moment(line, from)).transpose()
    }

    fn next_line<T: DeserializeOwned>(&mut self) -> Result<Option<(T, u64)>, String> {
        // A crash of the machine leaves damaged lines, which are skipped.
        let mut damage = Damage::default();
        loop {
            let from = self.at;
            let Some((line, next)) = self.line::<T>(from)? else { return Ok(None) };
            self.at = next;
            if let Some(line) = line {
                return Ok(Some((line, from)));
            }
            damage.add(next - from).map_err(|e| self.bad(&e))?;
        }
    }

    fn back(&mut self) -> Result<Option<StoredSample>, String> {
        let mut damage = Damage::default();
        while self.at > 0 {
            let end = self.at;
            self.at = self.lines.start_before(end).map_err(|e| self.bad(&e))?;
            if let Some((Some(line), _)) = self.line(self.at)? {
                return self.moment(line, self.at).map(Some);
            }
            damage.add(end - self.at).map_err(|e| self.bad(&e))?;
        }
        Ok(None)
    }

    fn end(&mut self) -> Result<u64, String> {
        self.lines.whole_end().map_err(|e| self.bad(&e))
    }

    /// Bisects by bytes, not lines, so it needs no index, and reads a number of lines logarithmic in the file's size.
    fn seek(&mut self, unix_ns: u64) -> Result<(), String> {
        let zero = self.first()?.map_or(0, |first| first.zero_unix_ns);
        let elapsed = unix_ns.saturating_sub(zero);
        // Samples before `low` are too early, those from `high` on are not.
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

    /// The `elapsed_ns` of the line at `from` or, if it is damaged, of the next intact one before `end`.
    fn elapsed(&mut self, mut from: u64, end: u64) -> Result<Option<u64>, String> {
        let elapsed = self.lines.head(from, HEAD).map(elapsed_first).map_err(|e| self.bad(&e))?;
        if elapsed.is_some() {
            return Ok(elapsed);
        }
        let mut damage = Damage::default();
        while from < end {
            match self.line::<Head>(from)? {
                Some((Some(head), _)) => return Ok(Some(head.elapsed_ns)),
                Some((None, next)) => {
                    damage.add(next - from).map_err(|e| self.bad(&e))?;
                    from = next;
                }
                None => break,
            }
        }
        Ok(None)
    }

    /// The first sample, if there is one yet.
    fn first(&mut self) -> Result<Option<FirstSample>, String> {
        let (mut from, mut damage) = (0, Damage::default());
        while self.first.is_none() {
            let Some((head, next)) = self.line::<Head>(from)? else { break };
            damage.add(next - from).map_err(|e| self.bad(&e))?;
            self.first = head.map(|head| FirstSample {
                from,
                zero_unix_ns: head.unix_ns.saturating_sub(head.elapsed_ns),
            });
            from = next;
        }
        Ok(self.first)
    }

    /// The contents of the line at `from` (`None` if damaged), and the offset of the next line.
    fn line<T: DeserializeOwned>(&mut self, from: u64) -> Result<Option<(Option<T>, u64)>, String> {
        let line = self.lines.line(from).and_then(|line| {
            let parse = |(text, next)| Ok((bounds::parse(text)?, next));
            line.map(parse).transpose()
        });
        line.map_err(|error| self.bad(&error))
    }

    fn moment(&mut self, line: SampleLine, from: u64) -> Result<StoredSample, String> {
        let first = self.first()?.unwrap_or_default();
        let SampleLine { elapsed_ns, unix_ns, machine } = line;
        let sample = Sample { elapsed_ns, unix_ns, jobs: Vec::new(), machine };
        let unix_ns = first.zero_unix_ns.saturating_add(elapsed_ns);
        Ok(StoredSample { unix_ns, begins: from == first.from, sample })
    }

    fn stacks(&mut self) -> Result<&[Stack], String> {
        const NAME: &str = "stacks.ndjson";
        let path = self.dir.path().join(NAME);
        let fail = |error: io::Error| unread(with_path(&path, error));
        if self.dir.regular(NAME).map_err(unread)?.is_some() {
            let mut lines = Lines::new(self.dir.open_file(NAME).map_err(unread)?);
            while let Some((text, next)) = lines.line(self.stacks_at).map_err(fail)? {
                // Samples refer to line numbers, so a damaged line keeps its number.
                let stack: Stack = serde_json::from_slice(text).unwrap_or_default();
                self.stacks_bytes += bounds::memory_bytes(&stack);
                if self.stacks_bytes > STACKS_MAX {
                    let why = format!("its stacks exceed {STACKS_MAX} bytes of memory");
                    return Err(fail(io::Error::other(why)));
                }
                self.stacks.push(stack);
                self.stacks_at = next;
            }
        }
        Ok(&self.stacks)
    }

    fn bad(&self, error: &io::Error) -> String {
        format!("cannot read {}: {error}", self.dir.path().join("samples.ndjson").display())
    }
}

pub(crate) fn unread(error: io::Error) -> String {
    format!("cannot read {error}")
}

pub(crate) fn read_text(dir: &HeldDir) -> Result<Vec<u8>, String> {
    dir.read("record.json", RECORD_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound
            if dir.regular("samples.ndjson").is_ok_and(|file| file.is_some()) =>
        {
            let name = dir.path().file_name().unwrap_or_default().to_string_lossy();
            format!("{name} has no result: fathom was killed before it measured")
        }
        io::ErrorKind::NotFound => format!(
            "{} is not a run directory; name a run, its directory or a tag (`fathom runs` lists all)",
            dir.path().display()
        ),
        _ => unread(error),
    })
}

fn read_record(dir: &HeldDir) -> Result<Record, String> {
    let text = read_text(dir)?;
    let path = dir.path().join("record.json");
    let version = check_version(&path, &text)?;
    if version == 1 && dir.dir("watch").is_ok() {
        let watch = path.with_file_name("watch");
        return Err(format!(
            "{} is the record of a search by fathom 0.1; its samples of the machine are in {}",
            path.display(),
            watch.display()
        ));
    }
    serde_json::from_slice(&text)
        .map_err(|e| format!("{} is not a record of fathom: {e}", path.display()))
}

/// The version of the record `text`; 0 if it has none.
pub(crate) fn check_version(path: &Path, text: &[u8]) -> Result<u32, String> {
    let version = serde_json::from_slice(text).map_or(0, |version: Version| version.record_version);
    if version <= RECORD_VERSION {
        return Ok(version);
    }
    Err(format!(
        "{} has version {version}, and this fathom reads versions up to {RECORD_VERSION}; use the fathom that wrote it, or \
         a newer one",
        path.display()
    ))
}

/// Why a directory without a segment cannot be read.
fn no_record(root: &HeldDir) -> String {
    match root.regular("record.json") {
        Err(error) => unread(error),
        Ok(_) => format!(
            "{} contains no record (no record.json, nor a subdirectory with one); name a directory written by fathom \
             run, watch or record",
            root.path().display()
        ),
    }
}

/// The number in `{"elapsed_ns":123,…`, without parsing the rest.
fn elapsed_first(head: &[u8]) -> Option<u64> {
    let digits = head.strip_prefix(b"{\"elapsed_ns\":")?;
    let len = digits.iter().position(|b| !b.is_ascii_digit())?;
    std::str::from_utf8(&digits[..len]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
