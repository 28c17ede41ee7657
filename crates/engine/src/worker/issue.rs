//! Issuing. Hot: runs once per I/O.

use super::{Core, DeferredIo, IssueState, Slot, Worker};
use crate::buffers::{Filler, Slab};
use crate::clock;
use crate::files::OpenFile;
use crate::pace::{Due, Pace};
use crate::queue::{Op, Push, Queue, Request};
use crate::source::{IoGenerator, Source, Upcoming};
use crate::stats::Shared;
use crate::sync_queue::outcome;
use crate::token::{Tag, Token};
use crate::verify::{Helpers, Verifier};
use crate::zones::Placed;
use fathom_model::Dir;
use fathom_model::plan::{FlushPlan, JobPlan, RangeSync};
use std::os::fd::RawFd;

impl<Q: Queue, S: Source> Worker<'_, Q, S> {
    /// Issues as many I/Os as limits and free slots allow; returns the time before which none is due, or 0.
    #[inline]
    pub(super) fn refill(&mut self) -> u64 {
        let Self { core, queue, source } = self;
        if core.is_interrupted() && !core.resume(queue) {
            return 0;
        }
        let before = match S::FULL {
            true => core.idle_len.saturating_sub(core.withheld),
            false => core.idle_len,
        };
        let allowed = core.left_ios.min(core.until_think).min(u64::from(queue.sq_space_left()));
        let mut most = before.min(allowed as usize).min(core.batch_limit.get());
        if S::FIXED {
            most = most.min((core.left_bytes / u64::from(source.len())) as usize);
        }
        if most == 0 || core.left_bytes == 0 {
            return 0;
        }
        let most = source.ready(most);
        let (pushed, not_before) =
            if S::FIXED { (self.issue_alike(most), 0) } else { self.issue_any(most) };
        let count = pushed.iter().sum::<u64>() as usize;
        if count > 0 {
            let now = clock::now_ns();
            if S::FULL {
                self.core.observe_submitted(count, now, &self.queue);
            }
            self.core.account_batch(count, &pushed, now);
        }
        not_before
    }

    /// Issues `most` I/Os that differ only in their offsets; returns the number per direction.
    #[inline]
    fn issue_alike(&mut self, most: usize) -> [u64; 3] {
        let Self { core, queue, source } = self;
        let Core { offsets, idle, writes, batches, .. } = core;
        // Locals stay in registers: stores to entries might alias fields of `self`.
        let (mut out, mut draw) = (queue.batch_alike(most as u32), source.batch());
        let offsets = &mut offsets[..];
        let dir = draw.next_direction();
        let tag = Tag::new(batches.next(), dir);
        for &index in idle[core.idle_len - most..core.idle_len].iter().rev() {
            let request = draw.next_io(dir, u64::MAX);
            // SAFETY: `idle` holds only numbers of slots.
            *unsafe { offsets.get_unchecked_mut(index as usize) } = request.offset;
            if dir == Dir::Write {
                writes.prepare(index, &request);
            }
            out.push(Token::new(index, tag), &request);
        }
        drop(out);
        draw.end(most);
        core.left_bytes -= most as u64 * u64::from(source.len());
        let mut pushed = [0; 3];
        pushed[dir as usize] = most as u64;
        pushed
    }

    /// Issues at most `most` I/Os of any kind; returns the number per direction, and the time
    /// before which none is due, or 0.
    #[inline]
    fn issue_any(&mut self, most: usize) -> ([u64; 3], u64) {
        let mut pushed = [0; 3];
        let Self { core, queue, source } = self;
        let now_ns = core.now_ns;
        let Core { slots, offsets, idle, pace, writes, left_bytes, issue_state, .. } = core;
        let Core { deferred, zones, .. } = core;
        let zones = if S::FULL { zones.as_deref_mut() } else { None };
        let mut zones = zones.filter(|_| !writes.is_checking());
        let elapsed_ns =
            pace.as_ref().map_or(u64::MAX, |pace| now_ns.saturating_sub(pace.start_ns()));
        let serializes = S::FULL && source.serializes();
        let mut not_placed = None;
        let (mut out, mut draw) = (queue.batch(), source.batch());
        for &index in idle[core.idle_len - most..core.idle_len].iter().rev() {
            let waited = if S::FULL { deferred.take() } else { None };
            if S::FULL && waited.is_none() {
                match draw.upcoming(elapsed_ns) {
                    Upcoming::Io => {}
                    Upcoming::Flush(op, file) => {
                        *issue_state = IssueState::FlushBeside(op, file);
                        break;
                    }
                    Upcoming::End => {
                        core.left_ios = pushed.iter().sum();
                        break;
                    }
                }
            }
            let (dir, due_ns) = match (&waited, &pace) {
                (Some(deferred), _) if S::FULL => (deferred.dir, deferred.due_ns),
                (_, Some(pace)) if S::FULL => match next_due(pace, &mut draw, now_ns) {
                    Ok(next) => next,
                    Err(instant) => return (pushed, instant),
                },
                _ => (draw.next_direction(), 0),
            };
            let mut request = match waited {
                Some(deferred) if S::FULL => deferred.request,
                _ => draw.next_io(dir, *left_bytes),
            };
            if S::FULL
                && let Some(zones) = &mut zones
                && !waited.is_some_and(|waited| waited.is_placed)
            {
                match zones.place(&request) {
                    Placed::At(placed) => request = placed,
                    other => {
                        *deferred = Some(DeferredIo { dir, due_ns, request, is_placed: false });
                        not_placed = Some(other);
                        break;
                    }
                }
            }
            if S::FULL && serializes {
                let taken = pushed.iter().sum::<u64>() as usize;
                if overlaps(&request, &idle[..core.idle_len - taken], slots, offsets) {
                    let is_placed = zones.is_some();
                    *deferred = Some(DeferredIo { dir, due_ns, request, is_placed });
                    break;
                }
            }
            let (Request { len, file, .. }, tag) = (request, Tag::new(core.batches.next(), dir));
            slots[index as usize] = Slot { due_ns, len, file, tag, expect: expected(dir, len) };
            offsets[index as usize] = request.offset;
            if dir == Dir::Write {
                *issue_state = writes.prepare(index, &request);
            }
            if S::FULL && writes.verifier.is_some() {
                *issue_state = writes.verify(index, &request, now_ns, *issue_state);
            }
            if S::FULL
                && let Some(pace) = pace
            {
                pace.advance(dir, len);
            }
            out.push(Token::new(index, tag), &request);
            pushed[dir as usize] += 1;
            // The last of a mix may be longer than what is left.
            *left_bytes = left_bytes.saturating_sub(u64::from(len));
            if *issue_state != IssueState::Issuing || *left_bytes == 0 {
                break;
            }
        }
        drop(out);
        let wait_until = match not_placed {
            Some(not_placed) if S::FULL => core.not_placed(not_placed, pushed.iter().sum()),
            _ => 0,
        };
        (pushed, wait_until)
    }
}

/// Whether `request` overlaps the I/O of any slot that is not `idle`.
fn overlaps(request: &Request, idle: &[u32], slots: &[Slot], offsets: &[u64]) -> bool {
    let end = request.offset + u64::from(request.len);
    let conflicts = |slot: usize| {
        let Slot { file, len, .. } = slots[slot];
        file == request.file
            && offsets[slot] < end
            && request.offset < offsets[slot] + u64::from(len)
    };
    let busy = |slot: &usize| !idle.contains(&(*slot as u32));
    // The comparison is cheaper than the search, and rarely true.
    (0..slots.len()).any(|slot| conflicts(slot) && busy(&slot))
}

/// The next I/O due under the schedule, or the time before which none is.
fn next_due(pace: &Pace, draw: &mut impl IoGenerator, now_ns: u64) -> Result<(Dir, u64), u64> {
    match pace.due(now_ns) {
        Due::At(dir, due) => Ok((dir, due)),
        Due::NotBefore(instant) => Err(instant),
        Due::Free => {
            let due_ns = draw.due_ns().map(|at_ns| pace.start_ns().saturating_add(at_ns));
            if let Some(due_ns) = due_ns {
                return if due_ns > now_ns {
                    Err(due_ns)
                } else {
                    Ok((draw.next_direction(), due_ns))
                };
            }
            let dir = draw.next_direction();
            Ok((if pace.is_free(dir) { dir } else { pace.free().unwrap_or(dir) }, 0))
        }
    }
}

#[inline]
fn expected(dir: Dir, len: u32) -> u32 {
    if dir == Dir::Trim { 0 } else { len }
}

/// What was written to each file since the last sync_file_range(2).
pub(crate) struct RangeSyncs {
    plan: RangeSync,
    since: u32,
    /// Descriptor, first byte, and the one after the last.
    files: Vec<(RawFd, u64, u64)>,
}

impl RangeSyncs {
    pub fn new(job: &JobPlan, files: &[OpenFile]) -> Option<Box<Self>> {
        let files = files.iter().map(|file| (file.raw(), u64::MAX, 0)).collect();
        job.sync.range.map(|plan| Box::new(Self { plan, since: 0, files }))
    }

    /// Notes a write; returns whether a call is due after it.
    fn is_due_after(&mut self, write: &Request) -> bool {
        let (_, from, to) = &mut self.files[write.file as usize];
        (*from, *to) = ((*from).min(write.offset), (*to).max(write.offset + u64::from(write.len)));
        self.since += 1;
        self.since >= self.plan.every
    }

    /// Calls sync_file_range(2) for what was written to `file`; returns 0 or `-errno`.
    pub(super) fn sync(&mut self, file: u32) -> i32 {
        self.since = 0;
        let (fd, from, to) = self.files[file as usize];
        self.files[file as usize] = (fd, u64::MAX, 0);
        let (offset, len) = (from as i64, to.saturating_sub(from) as i64);
        // SAFETY: takes no pointers.
        outcome(unsafe { libc::sync_file_range(fd, offset, len, self.plan.flags) as isize })
    }
}

pub(super) struct Writes {
    pub slab: Slab,
    /// In place of the filler, if the data is to be verified.
    pub verifier: Option<Box<Verifier>>,
    /// Threads that check data beside the worker.
    pub helpers: Option<Box<Helpers>>,
    filler: Option<Filler>,
    plan: FlushPlan,
    /// What is to be written back by sync_file_range(2), if the job calls it.
    pub ranges: Option<Box<RangeSyncs>>,
    since_fsync: u32,
    since_fdatasync: u32,
}

impl Writes {
    /// Fills all buffers; ends early if a stop is requested, as no I/O follows then.
    pub fn new(job: &JobPlan, mut slab: Slab, shared: &Shared) -> Self {
        let fills = job.access.mix.has(Dir::Write) && job.verify.is_none();
        let filler = fills.then(|| {
            let mut filler = Filler::new(&job.buffers, job.access.seed);
            for slot in 0..slab.slots() {
                filler.fill_unless(slab.slot_mut(slot), || shared.is_stopping());
            }
            filler
        });
        Self {
            slab,
            verifier: None,
            helpers: None,
            filler,
            plan: job.sync,
            ranges: None,
            since_fsync: 0,
            since_fdatasync: 0,
        }
    }

    /// Prepares the contents of a write; returns the state after it.
    pub fn prepare(&mut self, slot: u32, request: &Request) -> IssueState {
        if let Some(filler) = &mut self.filler {
            let buffer = &mut self.slab.slot_mut(slot)[..request.len as usize];
            if filler.refills() {
                filler.fill(buffer);
            } else if filler.stamps() {
                filler.stamp(buffer, request.offset);
            }
        }
        self.since_fsync += 1;
        self.since_fdatasync += 1;
        if self.plan.fsync_every > 0 && self.since_fsync >= self.plan.fsync_every {
            IssueState::DrainToFlush(Op::Fsync, request.file)
        } else if self.plan.fdatasync_every > 0 && self.since_fdatasync >= self.plan.fdatasync_every
        {
            IssueState::DrainToFlush(Op::Fdatasync, request.file)
        } else if self.ranges.as_mut().is_some_and(|ranges| ranges.is_due_after(request)) {
            IssueState::DrainToSyncRange(request.file)
        } else {
            IssueState::Issuing
        }
    }

    /// Whether what is read now is read only to be verified.
    pub fn is_checking(&self) -> bool {
        self.verifier.as_ref().is_some_and(|verifier| verifier.checking)
    }

    /// Prepares data that is to be verified; returns the state after it, in place of `state`.
    #[inline(never)]
    pub fn verify(
        &mut self,
        slot: u32,
        request: &Request,
        now_ns: u64,
        state: IssueState,
    ) -> IssueState {
        let Some(verifier) = &mut self.verifier else { return state };
        match request.op {
            Op::Io(Dir::Write) => {
                let buffer = &mut self.slab.slot_mut(slot)[..request.len as usize];
                verifier.prepare(slot, buffer, request, now_ns);
            }
            Op::Io(Dir::Trim) => {
                verifier.trim(request);
                return state;
            }
            Op::Io(Dir::Read) => {
                verifier.count_read(request);
                return state;
            }
            _ => return state,
        }
        match state {
            IssueState::Issuing if verifier.is_due() => IssueState::DrainToVerify,
            state => state,
        }
    }

    /// Resets the counts after a flush was issued.
    pub fn flushed(&mut self) {
        (self.since_fsync, self.since_fdatasync) = (0, 0);
    }
}
