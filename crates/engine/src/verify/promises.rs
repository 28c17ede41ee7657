//! Compares what targets hold with what a journal says was acknowledged.
//!
//! Each sector of a block must be of the last write whose durability was acknowledged, or of a later one. Sectors are compared
//! with what these writes wrote, which derives from their numbers.

use super::damage::{self, Wrong, hex};
use super::header::Header;
use super::journal::{self, Event};
use super::{DESCRIBED, Expected, Verifier, content};
use crate::files::read_at;
use fathom_model::plan::{Engine, JobPlan, SyncIo};
use fathom_model::record::{BlockOutcomes, Damage, LostBlock, PromiseRecord, WrongBlock};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

const SECTOR: u64 = 512;
/// Bytes that are shown of either side.
const SHOWN: usize = 16;

/// A target of the job, opened for reading.
pub struct PromisedFile {
    pub path: String,
    pub fd: OwnedFd,
}

/// What `files`, one for each region of the job, hold of what its `journal` says. `index` is the number of the job in its run,
/// and `salt` that of the journal. Errors say what is wrong with the journal.
pub fn check_promises(
    job: &JobPlan,
    index: usize,
    salt: u64,
    journal: &[u8],
    files: &[PromisedFile],
) -> Result<PromiseRecord, String> {
    let verifier = Verifier::of_run(job, index, salt).ok_or("the job of it verifies nothing")?;
    let plan = &verifier.plan;
    if plan.offsets.iter().any(|at| *at as usize >= plan.pattern.len()) {
        return Err("the job of it has offsets beyond the end of its pattern".into());
    }
    let (events, tail) = journal::read(journal)?;
    let history = History::replay(&events, files.len(), acknowledges_durably(job))?;
    let segments = history.segments(files.len());
    let mut judge = Judge {
        verifier,
        history: &history,
        files,
        base: None,
        record: PromiseRecord {
            name: job.name.clone(),
            files: files.iter().map(|file| file.path.clone()).collect(),
            submitted: history.writes.len() as u64,
            completed: history.writes.iter().filter(|write| write.completed).count() as u64,
            durable: history.writes.iter().filter(|write| write.durable).count() as u64,
            flushes: history.flushes,
            journal_tail_bytes: tail,
            ..PromiseRecord::default()
        },
    };
    for (file, segments) in segments.iter().enumerate() {
        for (start, segment) in segments {
            judge.segment(file, *start, segment);
        }
    }
    Ok(judge.record)
}

/// Whether the completion of a write promises that it is durable.
fn acknowledges_durably(job: &JobPlan) -> bool {
    let fua = match &job.engine {
        Engine::IoUringCmd(plan) => {
            plan.scsi.map_or(plan.nvme.write_fua, |commands| commands.write_fua)
        }
        Engine::Sg(commands) => commands.write_fua,
        // What is written to a mapping is in memory only.
        Engine::Mmap => return false,
        _ => false,
    };
    fua || job.sync_io != SyncIo::None
}

#[derive(Debug, Clone, Copy)]
struct LoggedWrite {
    number: u64,
    file: u32,
    offset: u64,
    len: u32,
    completed: bool,
    durable: bool,
}

impl LoggedWrite {
    fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

/// What changed blocks, in order.
#[derive(Clone, Copy)]
enum Change {
    Write(usize),
    Trim { file: u32, offset: u64, len: u32 },
    All,
}

#[derive(Default)]
struct History {
    writes: Vec<LoggedWrite>,
    changes: Vec<Change>,
    flushes: u64,
}

/// Blocks with the same writes, from where they are in the map to `end`.
#[derive(Clone)]
struct Segment {
    end: u64,
    /// The last write that was acknowledged as durable; none if the blocks may hold anything.
    durable: Option<usize>,
    /// Those after it.
    later: Vec<usize>,
}

type Segments = BTreeMap<u64, Segment>;

impl History {
    fn replay(events: &[Event], files: usize, durably: bool) -> Result<Self, String> {
        let mut history = Self::default();
        // The completed writes of each file that await a flush, and how many of them one was submitted after.
        let mut unflushed = vec![(Vec::new(), 0); files];
        let no_file = |file: u32| format!("it names target {file} of {files}");
        for event in events {
            match *event {
                Event::Submitted { number, file, offset, len } => {
                    if number != history.writes.len() as u64 {
                        let next = history.writes.len();
                        return Err(format!("it has write {number} in place of {next}"));
                    }
                    if file as usize >= files || offset.checked_add(u64::from(len)).is_none() {
                        return Err(no_file(file));
                    }
                    history.changes.push(Change::Write(history.writes.len()));
                    let (completed, durable) = (false, false);
                    let write = LoggedWrite { number, file, offset, len, completed, durable };
                    history.writes.push(write);
                }
                Event::Completed { number } => {
                    let write = history.writes.get_mut(number as usize);
                    let write = write.ok_or(format!("write {number} completed unsubmitted"))?;
                    (write.completed, write.durable) = (true, durably);
                    unflushed[write.file as usize].0.push(number as usize);
                }
                Event::FlushBegun { file } => {
                    let (writes, begun) =
                        unflushed.get_mut(file as usize).ok_or_else(|| no_file(file))?;
                    *begun = writes.len();
                }
                Event::FlushCompleted { file } => {
                    let (writes, begun) =
                        unflushed.get_mut(file as usize).ok_or_else(|| no_file(file))?;
                    writes.drain(..*begun).for_each(|w| history.writes[w].durable = true);
                    *begun = 0;
                    history.flushes += 1;
                }
                Event::Trimmed { file, offset, len } => {
                    if file as usize >= files || offset.checked_add(u64::from(len)).is_none() {
                        return Err(no_file(file));
                    }
                    history.changes.push(Change::Trim { file, offset, len });
                }
                Event::Emptied => history.changes.push(Change::All),
            }
        }
        Ok(history)
    }

    /// What the blocks of each file may hold.
    fn segments(&self, files: usize) -> Vec<Segments> {
        let mut all = vec![Segments::new(); files];
        for change in &self.changes {
            match *change {
                Change::Write(index) => self.apply(&mut all, index),
                Change::Trim { file, offset, len } => {
                    let (map, end) = (&mut all[file as usize], offset + u64::from(len));
                    split(map, offset);
                    split(map, end);
                    map.range_mut(offset..end).for_each(|(_, segment)| segment.clear());
                }
                Change::All => {
                    all.iter_mut().flat_map(|map| map.values_mut()).for_each(Segment::clear)
                }
            }
        }
        all
    }

    fn apply(&self, all: &mut [Segments], index: usize) {
        let write = &self.writes[index];
        let (map, from, end) = (&mut all[write.file as usize], write.offset, write.end());
        if from == end {
            return;
        }
        split(map, from);
        split(map, end);
        if !write.durable {
            let mut at = from;
            let mut gaps = Vec::new();
            for (start, segment) in map.range_mut(from..end) {
                gaps.extend((at < *start).then_some((at, *start)));
                at = segment.end;
                if segment.durable.is_some() {
                    segment.later.push(index);
                }
            }
            gaps.extend((at < end).then_some((at, end)));
            let none = |end| Segment { end, durable: None, later: Vec::new() };
            map.extend(gaps.into_iter().map(|(from, to)| (from, none(to))));
            return;
        }
        let inside: Vec<u64> = map.range(from..end).map(|(start, _)| *start).collect();
        for start in inside {
            map.remove(&start);
        }
        map.insert(from, Segment { end, durable: Some(index), later: Vec::new() });
    }
}

impl Segment {
    fn clear(&mut self) {
        (self.durable, self.later) = (None, Vec::new());
    }
}

/// Has a segment begin at `at`, if one goes beyond it.
fn split(map: &mut Segments, at: u64) {
    if let Some((_, before)) = map.range_mut(..at).next_back()
        && before.end > at
    {
        let rest = before.clone();
        before.end = at;
        map.insert(at, rest);
    }
}

/// What a write wrote, and what its place holds now.
struct Compared {
    write: usize,
    right: Vec<u8>,
    found: Vec<u8>,
}

struct Judge<'a> {
    verifier: Box<Verifier>,
    history: &'a History,
    files: &'a [PromisedFile],
    /// Of the last segment's durable write, as several may be of the same.
    base: Option<Result<Compared, i32>>,
    record: PromiseRecord,
}

impl Judge<'_> {
    fn segment(&mut self, file: usize, start: u64, segment: &Segment) {
        let Some(durable) = segment.durable else {
            let interval = self.verifier.interval((segment.end - start) as usize) as u64;
            self.record.blocks.not_judged += (segment.end - start).div_ceil(interval);
            return;
        };
        let is_same = self
            .base
            .as_ref()
            .is_some_and(|base| matches!(base, Ok(compared) if compared.write == durable));
        if !is_same {
            self.base = Some(self.compared(&self.history.writes[durable], durable));
        }
        let Some(base) = self.base.take() else { return };
        let write = self.history.writes[durable];
        let interval = self.verifier.interval(write.len as usize) as u64;
        let mut from = start;
        while from < segment.end {
            let next = write.offset + ((from - write.offset) / interval + 1) * interval;
            let to = next.min(segment.end);
            match &base {
                Ok(base) => self.block(file, (from, to), base, &segment.later),
                Err(errno) => self.unreadable(file, (from, to), write.number, *errno),
            }
            from = to;
        }
        self.base = Some(base);
    }

    /// Reads what is in the place of a write, and makes what it wrote: its headers with the times that were found there.
    fn compared(&self, write: &LoggedWrite, index: usize) -> Result<Compared, i32> {
        let mut found = vec![0; write.len as usize];
        let fd = &self.files[write.file as usize].fd;
        let read = read_at(fd, &mut found, write.offset);
        read.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
        Ok(Compared { write: index, right: self.right(write, &found), found })
    }

    fn right(&self, write: &LoggedWrite, found: &[u8]) -> Vec<u8> {
        let mut right = vec![0; found.len()];
        self.verifier.fill_dated(&mut right, write.offset, write.number, |from, to| {
            self.verifier.header_of(&found[from..to]).map_or(0, |header| header.unix_ns())
        });
        right
    }

    /// Judges the block from byte `from` to `to` of a file.
    fn block(&mut self, file: usize, (from, to): (u64, u64), base: &Compared, later: &[usize]) {
        let first = self.history.writes[base.write];
        let range = |write: &LoggedWrite, (from, to): (u64, u64)| {
            (from - write.offset) as usize..(to - write.offset) as usize
        };
        let place = range(&first, (from, to));
        let blocks = &mut self.record.blocks;
        if base.right[place.clone()] == base.found[place.clone()] {
            blocks.as_acknowledged += 1;
            return;
        }
        let sectors: Vec<(u64, u64)> = sectors(from, to).collect();
        let is_of = |compared: &Compared, write: &LoggedWrite, sector: (u64, u64)| {
            let place = range(write, sector);
            compared.right[place.clone()] == compared.found[place]
        };
        let mut right: Vec<bool> =
            sectors.iter().map(|sector| is_of(base, &first, *sector)).collect();
        let mut is_newer = false;
        let covers = |write: &LoggedWrite| write.offset <= from && to <= write.end();
        let beyond = self.beyond(&first, &base.found, place.start).filter(covers);
        let header = self.header_at(&base.found, place.start);
        let is_named = |index: &&usize| {
            header.is_some_and(|header| header.number == self.history.writes[**index].number)
        };
        // The one that the header names first, as it most often is all.
        let named = later.iter().filter(|index| is_named(index));
        let known = named.chain(later.iter().filter(|index| !is_named(index)));
        for write in known.map(|index| self.history.writes[*index]).chain(beyond) {
            let Ok(compared) = self.compared(&write, base.write) else { continue };
            let mut is_all = true;
            for (sector, right) in sectors.iter().zip(&mut right) {
                let is_right = is_of(&compared, &write, *sector);
                is_all &= is_right;
                *right |= is_right;
            }
            is_newer |= is_all;
            if right.iter().all(|right| *right) {
                break;
            }
        }
        let blocks = &mut self.record.blocks;
        if is_newer {
            blocks.newer += 1;
        } else if right.iter().all(|right| *right) {
            blocks.mixed += 1;
        } else {
            self.lost(file, (from, to), base, &sectors, &right);
        }
    }

    /// The header of the block that has byte `at` of an I/O.
    fn header_at(&self, found: &[u8], at: usize) -> Option<Header> {
        let interval = self.verifier.interval(found.len());
        let start = at / interval * interval;
        self.verifier.header_of(&found[start..(start + interval).min(found.len())])
    }

    /// The write beyond the end of the journal that a header names; the journal's own disk has then lost what was on it.
    fn beyond(&self, first: &LoggedWrite, found: &[u8], at: usize) -> Option<LoggedWrite> {
        let interval = self.verifier.interval(found.len());
        let start = at / interval * interval;
        let header = self.header_at(found, at)?;
        let is_own = header.offset == first.offset + start as u64
            && header.number >= self.history.writes.len() as u64
            && header.seed == self.verifier.seed(header.number);
        let number = header.number;
        is_own.then_some(match interval == found.len() {
            true => LoggedWrite { number, offset: header.offset, len: header.len, ..*first },
            false => LoggedWrite { number, ..*first },
        })
    }

    fn lost(
        &mut self,
        file: usize,
        (from, to): (u64, u64),
        base: &Compared,
        sectors: &[(u64, u64)],
        right: &[bool],
    ) {
        let write = self.history.writes[base.write];
        let wrong = |(_, right): &(&(u64, u64), &bool)| !**right;
        let bad = || sectors.iter().zip(right).filter(wrong).map(|(sector, _)| *sector);
        let (first, last) =
            (bad().next().unwrap_or((from, to)), bad().next_back().unwrap_or((from, to)));
        let at = |offset: u64| (offset - write.offset) as usize;
        let found = &base.found[at(first.0)..at(last.1)];
        let is_zero = found.iter().all(|byte| *byte == 0);
        let part = |of: &[u8]| hex(&of[at(first.0)..][..SHOWN.min(at(last.1) - at(first.0))]);
        let mut block = WrongBlock {
            file: self.files[file].path.clone(),
            offset: from,
            len: (to - from) as u32,
            damage: match is_zero {
                true => Damage::Zero,
                false => Damage::Foreign,
            },
            header: None,
            expected: part(&base.right),
            found: part(&base.found),
            dumped: Vec::new(),
        };
        if right.iter().any(|right| *right) {
            let (from, to) = ((first.0 - from) as u32, (last.1 - from) as u32);
            block.damage = Damage::Torn { from, to, zero: is_zero };
        } else if !is_zero {
            let described = self.describe(&write, &base.found, at(from));
            block =
                WrongBlock { offset: block.offset, len: block.len, file: block.file, ..described };
        }
        self.note(write.number, block);
    }

    /// What the block at byte `at` of an I/O holds.
    fn describe(&mut self, write: &LoggedWrite, found: &[u8], at: usize) -> WrongBlock {
        let verifier = &self.verifier;
        let interval = verifier.interval(found.len());
        let (from, mut io) = (at / interval * interval, found.to_vec());
        let to = (from + interval).min(io.len());
        verifier.swap_header(&mut io[from..to], verifier.plan.method.header_bytes());
        let mut right = vec![0; io.len()];
        content::fill(&verifier.plan, &verifier.buffers, &mut right, write.offset, 0);
        let (number, seed) = (Some(write.number), Some(verifier.seed(write.number)));
        let wrong = Wrong { file: "", io: &io, io_offset: write.offset, from, to, right: &right };
        damage::describe(verifier, &wrong, &Expected { number, seed, ..Expected::default() })
    }

    fn unreadable(&mut self, file: usize, (from, to): (u64, u64), number: u64, errno: i32) {
        let file = self.files[file].path.clone();
        let (offset, len, damage) = (from, (to - from) as u32, Damage::Unreadable { errno });
        self.note(number, WrongBlock { file, offset, len, damage, ..WrongBlock::default() });
    }

    fn note(&mut self, acknowledged_write: u64, block: WrongBlock) {
        let BlockOutcomes { lost_zero, lost_stale, lost_torn, lost_other, .. } =
            &mut self.record.blocks;
        let count = match block.damage {
            Damage::Zero => lost_zero,
            Damage::Stale { .. } => lost_stale,
            Damage::Torn { .. } => lost_torn,
            _ => lost_other,
        };
        *count += 1;
        if self.record.first.len() < DESCRIBED {
            self.record.first.push(LostBlock { acknowledged_write, block });
        }
    }
}

/// The sectors, or parts of them, from byte `from` to `to`.
fn sectors(from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
    let starts = std::iter::successors(Some(from), |at| Some((at / SECTOR + 1) * SECTOR));
    starts.take_while(move |at| *at < to).map(move |at| (at, ((at / SECTOR + 1) * SECTOR).min(to)))
}

#[cfg(test)]
#[path = "promises_tests.rs"]
mod tests;
