//! Traces of I/Os, to be replayed: fio's text in versions 1 to 3, and binary ones of blktrace.

mod binary;
#[cfg(test)]
mod tests;

use crate::job::Job;
use crate::sources::Sources;
use fathom_model::plan::{Replay, TraceEvent, TraceOp};
use fathom_model::units::bytes as show;
use fathom_model::{Dir, PerDir};
use std::collections::HashMap;
use std::sync::Arc;

/// Largest size of a trace in bytes: it is held in memory.
const TRACE_BYTES_MAX: usize = 4 << 30;
/// The longest read or write that Linux does at once is a little less than 2 GiB; trims may have nearly 4 GiB, as in fio,
/// and are divided.
const LEN_MAX: u64 = 1 << 30;
/// Most events of a trace: 4 GiB of memory.
const EVENTS_MAX: usize = 1 << 27;
/// Lines named of those that are not understood.
const NAMED_MAX: usize = 3;
/// As in fio, the queue depth of a trace of blktrace is not higher.
const DEPTH_MAX: u32 = 1024;

/// A trace as it is to be replayed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// The file that it was read from.
    pub name: String,
    /// The files of its events.
    pub files: Vec<TraceFile>,
    /// In the order of time.
    pub events: Arc<Vec<TraceEvent>>,
    /// Writes and trims left out, as `--readonly` forbids them.
    pub forbidden: u64,
    /// The most I/Os that were in flight, if the trace says so.
    pub depth: Option<u32>,
    /// What the file of `merge_blktrace_file` is to hold, if it is of several.
    pub merged: Vec<u8>,
}

/// A file of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceFile {
    /// Its path; empty in version 1, which has no names.
    pub name: String,
    /// The end of its last I/O, in bytes.
    pub end: u64,
    /// The directions of its I/Os.
    pub used: PerDir<bool>,
}

/// What the keys say of how traces are replayed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Replaying {
    pub no_stall: bool,
    /// In percent of the recorded rate.
    pub time_scale: u64,
    pub redirect: Option<String>,
    /// In bytes, a power of two; 0 for none.
    pub align: u64,
    pub scale: u64,
    pub skip: PerDir<bool>,
    pub skip_flushes: bool,
    /// The file of the one trace into which all are merged (`merge_blktrace_file`).
    pub merge: Option<String>,
    /// Of each trace to merge, its time in percent, and how often it is repeated.
    pub merge_scalars: Vec<u64>,
    pub merge_iterations: Vec<u64>,
}

/// The traces of `job`; its clones share them.
pub fn load(
    job: &Job,
    readonly: bool,
    sources: &dyn Sources,
) -> Result<Vec<Arc<Trace>>, Vec<String>> {
    let how = &job.replaying;
    let (mut traces, mut inputs) = (Vec::new(), Vec::new());
    let mut problems = Vec::new();
    for name in &job.read_iolog {
        match read(name, how, readonly, sources) {
            Ok((trace, bytes)) => {
                traces.push(trace);
                inputs.extend(how.merge.as_ref().map(|_| bytes));
            }
            Err(why) => problems.extend(why),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    if how.merge.is_some() {
        let builder = Builder::new(how, readonly);
        let merged = merge(&traces, &inputs, how, builder, sources);
        traces = vec![merged.map_err(|why| vec![why])?];
    }
    for trace in &mut traces {
        trace.complete(how).map_err(|why| vec![why])?;
    }
    Ok(traces.into_iter().map(Arc::new).collect())
}

fn read(
    name: &str,
    how: &Replaying,
    readonly: bool,
    sources: &dyn Sources,
) -> Result<(Trace, Vec<u8>), Vec<String>> {
    let one = |why: String| vec![format!("read_iolog: {why}")];
    let bytes = sources.read(name, TRACE_BYTES_MAX);
    let bytes = bytes.map_err(|why| one(format!("cannot read {name}: {why}")))?;
    if bytes.len() > TRACE_BYTES_MAX {
        return Err(one(format!(
            "{name} is longer than the {} that fit; divide it",
            show(TRACE_BYTES_MAX as u64)
        )));
    }
    let mut builder = Builder::new(how, readonly);
    builder.trace.name = name.to_string();
    match binary::order(&bytes) {
        Some(order) => binary::parse(&bytes, order, sources, &mut builder)
            .map_err(|why| one(format!("{name}: {why}")))?,
        None => text(&bytes, &mut builder).map_err(|lines| {
            lines
                .into_iter()
                .map(|(line, why)| match line {
                    0 => format!("read_iolog: {name}: {why}"),
                    line => format!("{name}:{line}: {why}"),
                })
                .collect::<Vec<_>>()
        })?,
    }
    Ok((builder.trace, bytes))
}

struct Builder<'a> {
    how: &'a Replaying,
    readonly: bool,
    trace: Trace,
    index: HashMap<String, u32>,
}

impl<'a> Builder<'a> {
    fn new(how: &'a Replaying, readonly: bool) -> Self {
        Self { how, readonly, trace: Trace::default(), index: HashMap::new() }
    }

    fn file(&mut self, name: &str) -> u32 {
        let name = self.how.redirect.as_deref().unwrap_or(name);
        if let Some(index) = self.index.get(name) {
            return *index;
        }
        let index = self.trace.files.len() as u32;
        self.index.insert(name.to_string(), index);
        let file = TraceFile { name: name.to_string(), ..TraceFile::default() };
        self.trace.files.push(file);
        index
    }

    /// Adds an event at `at_ns`, whose length is 0 for a flush.
    fn event(
        &mut self,
        at_ns: u64,
        op: TraceOp,
        file: &str,
        offset: u64,
        len: u64,
    ) -> Result<(), String> {
        let TraceOp::Io(dir) = op else {
            if !self.how.skip_flushes {
                let file = self.file(file);
                self.push(TraceEvent { at_ns, op, file, offset: 0, len: 0 })?;
            }
            return Ok(());
        };
        if self.how.skip[dir] || len == 0 {
            return Ok(());
        }
        if self.readonly && dir.modifies() {
            self.trace.forbidden += 1;
            return Ok(());
        }
        let most = if dir == Dir::Trim { u64::from(u32::MAX) } else { LEN_MAX };
        if len > most {
            let most = show(most);
            return Err(format!("a {dir} of {len} bytes is longer than the {most} of one I/O"));
        }
        let align = self.how.align.max(1);
        let offset = (offset / self.how.scale) & !(align - 1);
        let beyond = || format!("offset {offset} plus length {len} exceeds 2^64");
        let len = len.checked_next_multiple_of(align).filter(|len| *len <= most);
        let len = len.ok_or_else(|| {
            format!("replay_align={align} makes a {dir} longer than the {} of one I/O", show(most))
        })?;
        let end = offset.checked_add(len).ok_or_else(beyond)?;
        let file = self.file(file);
        let used = &mut self.trace.files[file as usize];
        used.end = end.max(used.end);
        used.used[dir] = true;
        let mut start = offset;
        while start < end {
            let len = (end - start).min(LEN_MAX);
            self.push(TraceEvent { at_ns, op, file, offset: start, len: len as u32 })?;
            start += len;
        }
        Ok(())
    }

    fn push(&mut self, event: TraceEvent) -> Result<(), String> {
        let events = Arc::make_mut(&mut self.trace.events);
        if events.len() == EVENTS_MAX {
            return Err(format!("more than {EVENTS_MAX} I/Os; divide the trace"));
        }
        events.push(event);
        Ok(())
    }
}

/// The lines that are not understood, by number; 0 stands for the whole text.
fn text(bytes: &[u8], builder: &mut Builder<'_>) -> Result<(), Vec<(usize, String)>> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        let why = "neither a trace of fio (text), nor one of blktrace (`blkparse DEVICE -d FILE` joins those of all CPUs)";
        return Err(vec![(0, why.to_string())]);
    };
    let mut lines = text.lines().enumerate();
    let version = match lines.next().map_or("", |(_, line)| line.trim()) {
        "" if bytes.is_empty() => return Err(vec![(0, "the file is empty".to_string())]),
        "fio version 3 iolog" => 3,
        "fio version 2 iolog" => 2,
        first if v1(first).is_some() => 1,
        _ => {
            let why = "no trace: expected `fio version 3 iolog` or `fio version 2 iolog` in the first line";
            return Err(vec![(1, why.to_string())]);
        }
    };
    if version == 1 {
        lines = text.lines().enumerate();
    }
    let mut now_ns = 0;
    let (mut bad, mut count) = (Vec::new(), 0);
    for (index, line) in lines {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Err(why) = entry(line, version, &mut now_ns, builder) {
            count += 1;
            if bad.len() < NAMED_MAX {
                bad.push((index + 1, why));
            }
        }
    }
    if count > bad.len() {
        bad.push((0, format!("{} more lines that are not understood", count - bad.len())));
    }
    if bad.is_empty() { Ok(()) } else { Err(bad) }
}

/// `rw, offset, length` of version 1.
fn v1(line: &str) -> Option<(TraceOp, u64, u64)> {
    let mut parts = line.split(',').map(|part| part.trim().parse::<u64>().ok());
    let dir = match parts.next()?? {
        0 => Dir::Read,
        1 => Dir::Write,
        _ => return None,
    };
    let (offset, len) = (parts.next()??, parts.next()??);
    parts.next().is_none().then_some((TraceOp::Io(dir), offset, len))
}

/// One line after the first: `[TIME] FILE ACTION [OFFSET LENGTH]`, in which a name may have spaces.
fn entry(
    line: &str,
    version: u32,
    now_ns: &mut u64,
    builder: &mut Builder<'_>,
) -> Result<(), String> {
    if version == 1 {
        let (op, offset, len) =
            v1(line).ok_or("expected `0, OFFSET, LENGTH` (a read) or `1, OFFSET, LENGTH`")?;
        return builder.event(0, op, "", offset, len);
    }
    let form = match version {
        3 => "TIME FILE ACTION OFFSET LENGTH",
        _ => "FILE ACTION OFFSET LENGTH",
    };
    let fail = || format!("expected `{form}`, with ACTION read, write, trim, sync or datasync");
    let mut line = line;
    if version == 3 {
        let (time, rest) = line.split_once(char::is_whitespace).ok_or_else(fail)?;
        let time_us: u64 = time.parse().map_err(|_| fail())?;
        *now_ns = time_us.checked_mul(1000).ok_or_else(fail)?;
        line = rest.trim_start();
    }
    let (rest, last) = line.rsplit_once(char::is_whitespace).ok_or_else(fail)?;
    if matches!(last, "add" | "open" | "close") {
        return Ok(());
    }
    let len: u64 = last.parse().map_err(|_| fail())?;
    let (rest, offset) = rest.trim_end().rsplit_once(char::is_whitespace).ok_or_else(fail)?;
    let offset: u64 = offset.parse().map_err(|_| fail())?;
    let (file, action) = rest.trim_end().rsplit_once(char::is_whitespace).ok_or_else(fail)?;
    let op = match action {
        "read" => TraceOp::Io(Dir::Read),
        "write" => TraceOp::Io(Dir::Write),
        "trim" => TraceOp::Io(Dir::Trim),
        "sync" => TraceOp::Fsync,
        "datasync" => TraceOp::Fdatasync,
        "wait" if version == 2 => {
            *now_ns = now_ns.saturating_add(offset.saturating_mul(1000));
            return Ok(());
        }
        _ => return Err(fail()),
    };
    builder.event(*now_ns, op, file.trim_end(), offset, len)
}

/// One trace of several of blktrace, each scaled and repeated, in the order of time; their names and contents are in
/// `inputs`.
fn merge(
    traces: &[Trace],
    inputs: &[Vec<u8>],
    how: &Replaying,
    builder: Builder<'_>,
    sources: &dyn Sources,
) -> Result<Trace, String> {
    let count = traces.len();
    for (key, list) in [
        ("merge_blktrace_scalars", &how.merge_scalars),
        ("merge_blktrace_iters", &how.merge_iterations),
    ] {
        if !list.is_empty() && list.len() != count {
            let has = list.len();
            return Err(format!("{key} has {has} numbers for {count} traces; give one for each"));
        }
    }
    let mut records = Vec::new();
    for (number, (trace, bytes)) in traces.iter().zip(inputs).enumerate() {
        let of = |list: &[u64], default| list.get(number).copied().unwrap_or(default);
        let (percent, times) = (of(&how.merge_scalars, 100), of(&how.merge_iterations, 1));
        let queued = binary::queued(bytes).ok_or_else(|| {
            format!(
                "merge_blktrace_file: {} is no trace of blktrace; remove it, or the key",
                trace.name
            )
        })?;
        let events = (queued.len() as u64).saturating_mul(times);
        if events.saturating_add(records.len() as u64) > EVENTS_MAX as u64 {
            return Err(format!(
                "the merged trace has more than {EVENTS_MAX} I/Os; lower merge_blktrace_iters"
            ));
        }
        let length_ns = queued.iter().map(|record| record.0).max().unwrap_or(0);
        for pass in 0..times {
            let moved = |(at_ns, record): &(u64, [u8; binary::RECORD])| {
                let at_ns = at_ns.saturating_add(length_ns.saturating_mul(pass));
                ((u128::from(at_ns) * u128::from(percent) / 100) as u64, *record)
            };
            records.extend(queued.iter().map(moved));
        }
    }
    let bytes = binary::written(records);
    let names: Vec<&str> = traces.iter().map(|trace| trace.name.as_str()).collect();
    let mut builder = builder;
    if let Some(order) = binary::order(&bytes) {
        binary::parse(&bytes, order, sources, &mut builder)?;
    }
    let depth: u32 = traces.iter().map(|trace| trace.depth.unwrap_or(1)).sum();
    let depth = Some(depth.clamp(1, DEPTH_MAX));
    Ok(Trace { name: names.join(":"), depth, merged: bytes, ..builder.trace })
}

impl Trace {
    /// In the order of time, the first event at 0.
    fn sort(&mut self) {
        let events = Arc::make_mut(&mut self.events);
        events.sort_by_key(|event| event.at_ns);
        let first_ns = events.first().map_or(0, |event| event.at_ns);
        events.iter_mut().for_each(|event| event.at_ns -= first_ns);
    }

    fn complete(&mut self, how: &Replaying) -> Result<(), String> {
        if !self.events.iter().any(|event| matches!(event.op, TraceOp::Io(_))) {
            let name = &self.name;
            let why = if self.forbidden > 0 {
                "but writes and trims, which --readonly forbids"
            } else {
                "to replay; see replay_skip"
            };
            return Err(format!("read_iolog: {name} has no I/O {why}"));
        }
        self.sort();
        let events = Arc::make_mut(&mut self.events);
        if how.no_stall {
            events.iter_mut().for_each(|event| event.at_ns = 0);
        } else if how.time_scale != 100 {
            let scaled = |at_ns: u64| (u128::from(at_ns) * 100 / u128::from(how.time_scale)) as u64;
            events.iter_mut().for_each(|event| event.at_ns = scaled(event.at_ns));
        }
        Ok(())
    }

    /// The least and the greatest length of its I/Os in `dir`, in bytes.
    pub fn lengths(&self, dir: Dir) -> Option<(u64, u64)> {
        let lengths = || self.of(dir).map(|event| u64::from(event.len));
        lengths().min().zip(lengths().max())
    }

    fn of(&self, dir: Dir) -> impl Iterator<Item = &TraceEvent> {
        self.events.iter().filter(move |event| event.op == TraceOp::Io(dir))
    }

    /// The first I/O of a file that is not in multiples of `unit` bytes.
    pub fn misaligned(&self, file: usize, unit: u64) -> Option<&TraceEvent> {
        let fits = |bytes: u64| bytes.is_multiple_of(unit);
        let is_odd = |event: &&TraceEvent| {
            event.file as usize == file && !(fits(event.offset) && fits(event.len.into()))
        };
        self.events.iter().find(is_odd)
    }

    /// Whether its events have times to keep to.
    pub fn is_timed(&self) -> bool {
        self.events.last().is_some_and(|event| event.at_ns > 0)
    }

    /// What a job issues of it, `passes` times.
    pub fn plan(&self, passes: Option<u32>) -> Replay {
        let is_flush = |event: &&TraceEvent| !matches!(event.op, TraceOp::Io(_));
        Replay {
            trace: self.name.clone(),
            ios: PerDir::from_fn(|dir| self.of(dir).count() as u64),
            bytes: PerDir::from_fn(|dir| self.of(dir).map(|event| u64::from(event.len)).sum()),
            flushes: self.events.iter().filter(is_flush).count() as u64,
            length_ns: self.events.last().map_or(0, |event| event.at_ns),
            timed: self.is_timed(),
            passes,
            events: Arc::clone(&self.events),
        }
    }
}
