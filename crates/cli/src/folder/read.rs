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
    serde_json::from_slice(&text).map_err(|e| {
        let watch = path.with_file_name("watch");
        if watch.is_dir() {
            let (path, watch) = (path.display(), watch.display());
            return format!(
                "{path} is the record of a search; what was seen of the machine is in {watch}"
            );
        }
        format!("{} is no record of a run or of watching: {e}", path.display())
    })
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
#[path = "read_tests.rs"]
mod tests;
