//! Verification of data: prepares what is written, checks what is read, as fio does (verify.c), and says what wrong
//! data is.

mod checksum;
mod content;
mod damage;
mod header;
mod helpers;
mod journal;
mod promises;
pub(crate) mod state;
#[cfg(test)]
mod tests;
mod written;

use crate::clock;
use crate::error::BlockDump;
use crate::queue::{Op, Request};
use checksum::checksum;
use damage::Wrong;
use fathom_model::plan::{
    Buffers, Distribution, HEADER_BYTES, JobPlan, Order, Verify, VerifyMethod,
};
use fathom_model::record::{VerifyRecord, WrongBlock};
use fathom_model::{Dir, split_mix};
use header::{Header, number_of};
use journal::Journal;
use state::State;
use std::collections::VecDeque;
use std::io;
use written::Written;

pub(crate) use helpers::{Helpers, Io};
pub use journal::JournalFile;
pub use promises::{PromisedFile, check_promises};

/// Wrong blocks that are described; others are counted.
const DESCRIBED: usize = 16;
/// 2^64 divided by the golden ratio: multiples of it are spread evenly.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
/// Longest checksum, in bytes.
const CHECKSUM_MAX: usize = 128;

/// Of one worker.
pub(crate) struct Verifier {
    plan: Verify,
    buffers: Buffers,
    /// Number of the job, from 1.
    job: u16,
    seed_base: u64,
    /// Writes so far.
    number: u64,
    /// What is added to this machine's clock, and when the job was set up.
    unix_offset_ns: u64,
    since_unix_ns: u64,
    written: Option<Written>,
    /// Which of the writes took place.
    state: State,
    /// Those of a run before, if only they are to be verified.
    before: Option<State>,
    /// Reads of blocks that failed to be written then.
    unknown: Vec<(u32, u64)>,
    trims: Trims,
    journal: Option<Journal>,
    /// Whether the reads in flight are to be verified.
    pub checking: bool,
    pub record: VerifyRecord,
    /// Of the wrong blocks that are described, if asked for (`verify_dump`).
    pub dumps: Vec<BlockDump>,
    /// Room for the pattern of the I/O that is being verified.
    right: Vec<u8>,
}

/// What the verification of one I/O found.
#[derive(Default)]
pub(crate) struct Checked {
    blocks: u64,
    bytes: u64,
    wrong: Vec<(WrongBlock, Option<BlockDump>)>,
}

/// Blocks to trim (`trim_percentage`).
#[derive(Default)]
struct Trims {
    /// They, and their writes.
    next: VecDeque<(Request, u64)>,
    writes: u64,
}

/// What the block of a write must say, as far as it is known.
#[derive(Default)]
struct Expected {
    /// When it was written at the earliest, in nanoseconds since 1970.
    since_unix_ns: u64,
    number: Option<u64>,
    seed: Option<u64>,
    /// Nothing but zeroes.
    zero: bool,
}

impl Verifier {
    /// For worker `index` of the run.
    pub fn new(job: &JobPlan, index: usize, journal: Option<JournalFile>) -> Option<Box<Self>> {
        let salt = journal.as_ref().map_or(0, |journal| journal.salt);
        let mut verifier = Self::of_run(job, index, salt)?;
        let plan = &verifier.plan;
        let keeps = job.access.mix.has(Dir::Write) && plan.remembers();
        verifier.written = keeps.then(|| Written::new(job, plan.backlog > 0));
        verifier.journal = journal.map(|file| Journal::new(file, job.depth));
        Some(verifier)
    }

    /// For what worker `index` of a run with this salt wrote.
    fn of_run(job: &JobPlan, index: usize, salt: u64) -> Option<Box<Self>> {
        let since_unix_ns = clock::unix_ns();
        Some(Box::new(Self {
            buffers: job.buffers.clone(),
            job: (index as u16).wrapping_add(1),
            // Offsets derive from the same seed; contents must not repeat those numbers.
            seed_base: job.access.seed ^ 0x7665_7269_6679_2e21 ^ salt,
            number: 0,
            unix_offset_ns: since_unix_ns.saturating_sub(clock::now_ns()),
            since_unix_ns,
            written: None,
            journal: None,
            state: State::default(),
            before: None,
            unknown: Vec::new(),
            trims: Trims::default(),
            checking: !job.access.mix.has(Dir::Write),
            record: VerifyRecord::default(),
            dumps: Vec::new(),
            right: Vec::new(),
            plan: job.verify.clone()?,
        }))
    }

    /// Whether the I/Os of `job` may not overlap while in flight: which write of a block came last must be known.
    pub fn serializes(job: &JobPlan, has_journal: bool) -> bool {
        let once = match &job.access.order {
            Order::Random { distribution: Distribution::EachOnce, .. } => true,
            Order::Sequential { .. } => true,
            Order::Random { .. } => false,
        };
        let reads_back = |plan: &Verify| plan.read_back || plan.backlog > 0 || has_journal;
        job.verify.as_ref().is_some_and(reads_back)
            && job.access.mix.has(Dir::Write)
            && !(once && job.depth == 1)
    }

    fn seed(&self, number: u64) -> u64 {
        split_mix::nth(self.seed_base, number)
    }

    /// Prepares the data of a write.
    pub fn prepare(&mut self, slot: u32, buffer: &mut [u8], request: &Request, now_ns: u64) {
        let number = self.count(request);
        if let Some(journal) = &mut self.journal {
            journal.submitted(slot, number, request);
        }
        if self.plan.method == VerifyMethod::Null {
            return;
        }
        self.fill(buffer, request.offset, number, now_ns);
    }

    fn count(&mut self, request: &Request) -> u64 {
        let number = self.number;
        self.number += 1;
        if let Some(written) = &mut self.written {
            written.write(request, number);
        }
        if let Some(plan) = self.plan.trims {
            self.trims.writes += 1;
            // Spread evenly, so that few writes have the percentage, too.
            let draw = self.seed_base.wrapping_add(number.wrapping_mul(GOLDEN_RATIO));
            if ((draw >> 32) * 100) >> 32 < u64::from(plan.percent) {
                let trim = Request { op: Op::Io(Dir::Trim), ..*request };
                self.trims.next.push_back((trim, number));
            }
        }
        number
    }

    /// Counts a write that does not take place (`verify_only`); returns whether it took place before.
    pub fn pretend(&mut self, request: &Request) -> bool {
        if self.before.as_ref().is_some_and(|before| self.number >= before.end()) {
            return false;
        }
        self.record.counted_ios += 1;
        self.record.counted_bytes += u64::from(request.len);
        let number = self.count(request);
        if self.before.as_ref().is_some_and(|before| before.failed.contains(&number)) {
            self.forget(request);
        }
        true
    }

    /// Counts a read of a job that only reads, by which it knows the write before it.
    pub fn count_read(&mut self, request: &Request) {
        let Some(before) = self.before.as_ref().filter(|_| self.written.is_none()) else { return };
        if before.failed.contains(&self.number) {
            self.unknown.push((request.file, request.offset));
        }
        self.number += 1;
    }

    /// Verifies only what was written according to `state`.
    pub fn resume(&mut self, state: State) {
        self.unknown.reserve(state.failed.len());
        self.before = Some(state);
    }

    /// How many I/Os of a job that only reads were written.
    pub fn reads_max(&self) -> Option<u64> {
        self.before.as_ref().filter(|_| self.written.is_none()).map(State::end)
    }

    /// Which of the writes took place; `lost` are those that never completed.
    pub fn state(&mut self, lost: &[Request]) -> State {
        let lost = lost.iter().filter_map(|r| self.written.as_ref()?.number(r.file, r.offset));
        let in_flight = lost.collect();
        let numbers = if self.plan.fsynced { self.state.numbers } else { self.number };
        State { numbers, in_flight, failed: std::mem::take(&mut self.state.failed) }
    }

    /// A write failed.
    pub fn fail(&mut self, request: &Request) {
        let number = self.written.as_ref().and_then(|w| w.number(request.file, request.offset));
        self.state.failed.extend(number);
        self.forget(request);
    }

    /// A trim is on its way.
    pub fn trim(&mut self, request: &Request) {
        match (&mut self.written, self.plan.trims) {
            (Some(written), Some(plan)) if plan.zero => written.trim(request),
            _ => self.forget(request),
        }
        self.journal.iter_mut().for_each(|journal| journal.trimmed(request));
    }

    fn trims_are_due(&self) -> bool {
        let plan = self.plan.trims.filter(|plan| self.trims.writes >= plan.backlog);
        plan.is_some() && !self.trims.next.is_empty()
    }

    /// The trims that are due, of blocks that nothing has overwritten.
    pub fn trims(&mut self) -> Vec<Request> {
        let Some(plan) = self.plan.trims.filter(|_| self.trims_are_due()) else {
            return Vec::new();
        };
        self.trims.writes = 0;
        let batch = self.trims.next.len().min(usize::try_from(plan.batch).unwrap_or(usize::MAX));
        let last = |request: &Request| self.written.as_ref()?.number(request.file, request.offset);
        let due =
            self.trims.next.drain(..batch).filter(|(trim, number)| last(trim) == Some(*number));
        due.map(|(trim, _)| trim).collect()
    }

    fn fill(&self, buffer: &mut [u8], offset: u64, number: u64, now_ns: u64) {
        let unix_ns = self.unix_offset_ns + now_ns;
        self.fill_dated(buffer, offset, number, |_, _| unix_ns);
    }

    /// Fills the buffer of a write; `unix_ns` is the time in the header of the block from and to these bytes of it.
    fn fill_dated(
        &self,
        buffer: &mut [u8],
        offset: u64,
        number: u64,
        unix_ns: impl Fn(usize, usize) -> u64,
    ) {
        let seed = self.seed(number);
        content::fill(&self.plan, &self.buffers, buffer, offset, seed);
        if self.plan.method == VerifyMethod::Pattern {
            return;
        }
        let (mut at, mut from) = (offset, 0);
        for block in buffer.chunks_mut(self.interval(buffer.len())) {
            let unix_ns = unix_ns(from, from + block.len());
            let header = Header {
                method: number_of(self.plan.method),
                len: block.len() as u32,
                seed,
                offset: at,
                seconds: (unix_ns / 1_000_000_000) as u32,
                nanos: (unix_ns % 1_000_000_000) as u32,
                number,
                job: self.job,
                bytes: HEADER_BYTES,
            };
            at += block.len() as u64;
            from += block.len();
            self.seal(block, &header);
        }
    }

    /// Puts the header and the checksum into a block.
    fn seal(&self, block: &mut [u8], header: &Header) {
        let bytes = self.plan.method.header_bytes();
        if block.len() <= bytes {
            return;
        }
        header.write(block);
        let (head, data) = block.split_at_mut(bytes);
        checksum(self.plan.method, data, &mut head[HEADER_BYTES..]);
        swap(block, self.plan.header_offset as usize, bytes);
    }

    /// Bytes with a header of their own in an I/O of `len`.
    fn interval(&self, len: usize) -> usize {
        let interval = self.plan.interval as usize;
        if interval == 0 || interval > len { len.max(1) } else { interval }
    }

    /// Something took away what a write wrote.
    pub fn forget(&mut self, request: &Request) {
        if let Some(written) = &mut self.written {
            written.forget(request);
        }
    }

    /// The write of a slot has completed.
    pub fn completed(&mut self, slot: u32) {
        self.journal.iter_mut().for_each(|journal| journal.completed(slot));
    }

    pub fn flush_begun(&mut self, file: u32) {
        self.journal.iter_mut().for_each(|journal| journal.flush_begun(file));
    }

    /// All writes that completed so far are on the target for good, by a flush of the job itself.
    pub fn flushed(&mut self) {
        self.state.numbers = self.number;
    }

    pub fn flush_completed(&mut self, file: u32) {
        self.journal.iter_mut().for_each(|journal| journal.flush_completed(file));
    }

    /// Puts on disk what the journal has to say before the next I/Os are submitted.
    pub fn write_ahead(&mut self) -> io::Result<()> {
        self.journal.as_mut().map_or(Ok(()), Journal::write_ahead)
    }

    /// Puts all of the journal on disk.
    pub fn sync_journal(&mut self) -> io::Result<()> {
        self.journal.as_mut().map_or(Ok(()), Journal::sync)
    }

    pub fn journal_path(&self) -> &str {
        self.journal.as_ref().map_or("", |journal| &journal.path)
    }

    /// Whether it is time to trim (`trim_backlog`), or to read back what was written (`verify_backlog`).
    pub fn is_due(&self) -> bool {
        self.trims_are_due() || self.reads_are_due()
    }

    fn reads_are_due(&self) -> bool {
        let backlog = self.plan.backlog as usize;
        backlog > 0 && self.written.as_ref().is_some_and(|written| written.recent() >= backlog)
    }

    /// The writes that are to be read back, if it is time.
    pub fn due(&mut self) -> Vec<Request> {
        if !self.reads_are_due() {
            return Vec::new();
        }
        let most = match self.plan.backlog_batch {
            0 => usize::MAX,
            batch => batch as usize,
        };
        self.written.as_mut().map(|written| written.take_recent(most)).unwrap_or_default()
    }

    /// The next of all that is still to be read back, in the order of offsets.
    pub fn next_chunk(&mut self) -> Vec<Request> {
        self.written.as_mut().map(Written::next_chunk).unwrap_or_default()
    }

    /// Of what was to be read back, the bytes that were not.
    pub fn bytes_left(&self) -> u64 {
        let written = self.written.as_ref().filter(|_| self.plan.read_back);
        written.map_or(0, Written::bytes_left)
    }

    /// The targets are about to be emptied.
    pub fn forget_all(&mut self) {
        self.written.iter_mut().for_each(Written::forget_all);
        self.trims.next.clear();
        self.journal.iter_mut().for_each(Journal::emptied);
    }

    pub fn reads_back(&self) -> bool {
        self.plan.read_back
    }

    pub fn only(&self) -> bool {
        self.plan.only
    }

    fn expected(&self, file: u32, offset: u64) -> Expected {
        let written = self.written.as_ref().filter(|_| self.checking);
        let number = written.and_then(|written| written.number(file, offset));
        let is_own = number.is_some() && !self.plan.only;
        Expected {
            since_unix_ns: if is_own { self.since_unix_ns } else { 0 },
            number: number.filter(|_| self.plan.sequence),
            seed: number.filter(|_| self.plan.seed).map(|number| self.seed(number)),
            zero: written.is_some_and(|written| written.is_trimmed(file, offset)),
        }
    }

    /// Verifies what was read; returns the first wrong block of it, and whether the job is to end.
    pub fn check(
        &mut self,
        io: &mut [u8],
        request: &Request,
        path: &str,
    ) -> Option<(WrongBlock, bool)> {
        let mut right = std::mem::take(&mut self.right);
        let checked = self.examine(io, request, path, &mut right);
        self.right = right;
        self.enter(checked)
    }

    /// Verifies what was read, with `right` as room for a pattern.
    fn examine(
        &self,
        io: &mut [u8],
        request: &Request,
        path: &str,
        right: &mut Vec<u8>,
    ) -> Checked {
        let mut checked = Checked::default();
        if self.unknown.contains(&(request.file, request.offset)) {
            return checked;
        }
        let expected = self.expected(request.file, request.offset);
        let (interval, header_bytes) = match self.plan.method {
            VerifyMethod::Pattern | VerifyMethod::Null => (io.len().max(1), 0),
            method => (self.interval(io.len()), method.header_bytes()),
        };
        if self.compares_pattern() {
            right.resize(io.len(), 0);
            content::fill(&self.plan, &self.buffers, right, request.offset, 0);
        }
        for from in (0..io.len()).step_by(interval) {
            let to = (from + interval).min(io.len());
            checked.blocks += 1;
            checked.bytes += (to - from) as u64;
            if !expected.zero {
                self.swap_header(&mut io[from..to], header_bytes);
            }
            let place = Wrong { file: path, io, io_offset: request.offset, from, to, right };
            if self.is_right(&place, &expected) {
                continue;
            }
            let dump = self.plan.dump.as_ref().map(|directory| BlockDump {
                directory: directory.clone(),
                ..self.dump(&place, &expected)
            });
            checked.wrong.push((damage::describe(self, &place, &expected), dump));
            if self.plan.fatal {
                break;
            }
        }
        checked
    }

    /// Enters what was found into the record; returns the first wrong block, and whether the job is to end.
    pub fn enter(&mut self, checked: Checked) -> Option<(WrongBlock, bool)> {
        self.record.blocks += checked.blocks;
        self.record.bytes += checked.bytes;
        let first = checked.wrong.first().map(|(wrong, _)| wrong.clone());
        for (wrong, dump) in checked.wrong {
            self.record.wrong += 1;
            if self.record.first.len() < DESCRIBED {
                let block = self.record.first.len();
                self.record.first.push(wrong);
                self.dumps.extend(dump.map(|dump| BlockDump { block, ..dump }));
            }
        }
        first.map(|wrong| (wrong, self.plan.fatal || !self.plan.keep_going))
    }

    /// The bytes of a wrong block as they are on the target, and those that should be there.
    fn dump(&self, wrong: &Wrong<'_>, expected: &Expected) -> BlockDump {
        let mut received = wrong.io[wrong.from..wrong.to].to_vec();
        if !expected.zero && self.plan.method.has_header() {
            let shorter = Header::claimed(&received).map_or(0, |found| HEADER_BYTES - found.bytes);
            let len = self.plan.method.header_bytes().saturating_sub(shorter);
            swap(&mut received, self.plan.header_offset as usize, len);
        }
        let expected = self.right_block(wrong, expected);
        BlockDump { received, expected, ..BlockDump::default() }
    }

    /// What a block should be, by the last write of it, or by its header; with the time of what was found.
    fn right_block(&self, wrong: &Wrong<'_>, expected: &Expected) -> Option<Vec<u8>> {
        let len = wrong.to - wrong.from;
        if expected.zero {
            return Some(vec![0; len]);
        }
        let found = Header::of(&wrong.io[wrong.from..wrong.to]);
        let seed = expected.seed.or(found.as_ref().map(|found| found.seed));
        if seed.is_none() && self.plan.pattern.is_empty() {
            return None;
        }
        let seed = seed.unwrap_or(0);
        let mut io = vec![0; wrong.io.len()];
        content::fill(&self.plan, &self.buffers, &mut io, wrong.io_offset, seed);
        let mut block = io[wrong.from..wrong.to].to_vec();
        if self.plan.method.has_header() {
            let found = found.unwrap_or_default();
            let header = Header {
                method: number_of(self.plan.method),
                len: len as u32,
                seed,
                offset: wrong.io_offset + wrong.from as u64,
                number: expected.number.unwrap_or(found.number),
                bytes: HEADER_BYTES,
                ..found
            };
            self.seal(&mut block, &header);
        }
        Some(block)
    }

    /// Puts the header, which is elsewhere (`verify_offset`), to the start. That of an old fio is shorter.
    fn swap_header(&self, block: &mut [u8], header_bytes: usize) {
        let at = self.plan.header_offset as usize;
        let claimed = block.get(at..).filter(|_| at > 0).and_then(Header::claimed);
        let shorter = claimed.map_or(0, |header| HEADER_BYTES - header.bytes);
        swap(block, at, header_bytes.saturating_sub(shorter));
    }

    /// The header of a block as it was read.
    fn header_of(&self, block: &[u8]) -> Option<Header> {
        if self.plan.header_offset == 0 {
            return Header::of(block);
        }
        let mut block = block.to_vec();
        self.swap_header(&mut block, self.plan.method.header_bytes());
        Header::of(&block)
    }

    /// Whether the data is compared with the pattern, not with a checksum.
    fn compares_pattern(&self) -> bool {
        match self.plan.method {
            VerifyMethod::Pattern | VerifyMethod::PatternHeader => true,
            VerifyMethod::Meta => !self.plan.pattern.is_empty(),
            _ => false,
        }
    }

    /// Whether the data after a damaged header is right; unknown if nothing says what it is to be.
    fn has_right_data(&self, wrong: &Wrong<'_>, header_bytes: usize) -> Option<bool> {
        let from = wrong.from + header_bytes + self.plan.method.checksum_bytes();
        match self.plan.method {
            VerifyMethod::Meta if self.plan.pattern.is_empty() => None,
            _ if self.compares_pattern() => {
                Some(wrong.io[from..wrong.to] == wrong.right[from..wrong.to])
            }
            _ => Some(self.has_checksum(&wrong.io[wrong.from..wrong.to], header_bytes)),
        }
    }

    fn is_right(&self, place: &Wrong<'_>, expected: &Expected) -> bool {
        let Wrong { io, from, to, right, .. } = *place;
        let (block, method) = (&io[from..to], self.plan.method);
        match method {
            VerifyMethod::Null => return true,
            _ if expected.zero => return block.iter().all(|byte| *byte == 0),
            VerifyMethod::Pattern => return *block == right[from..to],
            // The end of an I/O that was shortened, with no room for a header.
            _ if block.len() <= method.header_bytes() => return true,
            _ => {}
        }
        let Some(header) = Header::of(block) else { return false };
        let is_own = header.len as usize == block.len()
            && header.offset == place.io_offset + from as u64
            && header.unix_ns() >= expected.since_unix_ns
            && expected.seed.is_none_or(|seed| seed == header.seed)
            && expected.number.is_none_or(|n| !header.has_whole_number() || n == header.number);
        let bytes = header.bytes + method.checksum_bytes();
        if !is_own || self.compares_pattern() {
            return is_own && io[from + bytes..to] == right[from + bytes..to];
        }
        // Before fio 3.40, what fio stored was not a digest.
        if method == VerifyMethod::Sha512 && !header.has_whole_number() {
            return true;
        }
        self.has_checksum(block, header.bytes)
    }

    /// Whether the checksum after a header of so many bytes is that of the data.
    fn has_checksum(&self, block: &[u8], header_bytes: usize) -> bool {
        let method = self.plan.method;
        let bytes = header_bytes + method.checksum_bytes();
        let mut digest = [0; CHECKSUM_MAX];
        let digest = &mut digest[..method.checksum_bytes()];
        checksum(method, &block[bytes..], digest);
        *digest == block[header_bytes..bytes]
    }

    /// Whether zeroes may be right.
    fn may_be_zero(&self) -> bool {
        self.plan.method == VerifyMethod::Pattern && self.plan.pattern.iter().all(|byte| *byte == 0)
    }

    /// What a block was to hold: by its header, or by the write that is known to be its last.
    fn regenerate(
        &self,
        wrong: &Wrong<'_>,
        expected: &Expected,
        found: Option<&Header>,
    ) -> Option<Vec<u8>> {
        let mut io = vec![0; wrong.io.len()];
        let seed = found.map(|header| header.seed).or(expected.seed);
        if seed.is_none() && self.plan.pattern.is_empty() {
            return None;
        }
        content::fill(&self.plan, &self.buffers, &mut io, wrong.io_offset, seed.unwrap_or(0));
        let mut block = io[wrong.from..wrong.to].to_vec();
        let bytes = found.map_or(HEADER_BYTES, |header| header.bytes);
        let header_bytes = match self.plan.method {
            VerifyMethod::Pattern => 0,
            method => bytes + method.checksum_bytes(),
        };
        if block.len() <= header_bytes {
            return None;
        }
        // The header is right or not known; the checksum is that of the right data.
        block[..header_bytes].copy_from_slice(&wrong.io[wrong.from..wrong.from + header_bytes]);
        if found.is_some() && self.plan.method != VerifyMethod::Sha512 {
            let (head, data) = block.split_at_mut(header_bytes);
            checksum(self.plan.method, data, &mut head[bytes..]);
        }
        Some(block)
    }
}

/// Exchanges the first `len` bytes with those at `to` (`verify_offset`), as fio does.
fn swap(block: &mut [u8], to: usize, len: usize) {
    for at in 0..len {
        if to > 0 && to + at < block.len() {
            block.swap(at, to + at);
        }
    }
}
