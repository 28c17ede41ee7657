//! Where the I/Os of one worker go: writes to write pointers, reads below them, trims reset zones. As in fio, an offset
//! chooses a zone; of several that are as good, the one that the offset is nearest to.

use super::{Zone, ZoneKind, ZonedTarget, device};
use crate::error::{EngineError, Operation};
use crate::files::{FileKind, OpenFile};
use crate::queue::{Op, Request};
use fathom_model::plan::{JobPlan, Order, ZoneRules, Zoning};
use fathom_model::{Dir, PerDir};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

/// What becomes of an I/O.
#[derive(Debug)]
pub(crate) enum Placed {
    At(Request),
    /// Zones that it needs are in use: to be tried again when I/Os have completed, own ones or those of other workers.
    Wait,
    /// A zone was reset, in place of the trim of this request.
    Done(Request),
    /// There is no zone left that it could be in.
    End,
    Failed(EngineError),
}

pub(crate) struct ZoneUser {
    worker: u32,
    rules: ZoneRules,
    files: Vec<UsedZones>,
    /// The smallest I/O of each direction.
    least: PerDir<u64>,
    is_sequential: bool,
    /// Whether sequential I/O begins again where it has ended.
    makes_passes: bool,
    /// I/Os since it began again.
    placed: u64,
    /// Whether no data may be lost, because it will be verified.
    keeps_data: bool,
    writing: u32,
    resets: Cell<u64>,
}

struct UsedZones {
    target: Arc<ZonedTarget>,
    /// The device, if the target is one.
    of: (RawFd, FileKind),
    path: String,
    /// Numbers of the first zone, and of the one after the last.
    first: usize,
    end: usize,
    /// Where sequential I/O goes on, and its zone.
    next: PerDir<u64>,
    current: PerDir<usize>,
}

enum Attempt {
    At(u64, u32),
    Busy,
    TooManyOpen,
    /// It is full, and stays so.
    Full,
    Failed(EngineError),
}

/// Writes after which a zone is reset early (`zone_reset_frequency`).
pub(super) fn writes_between_resets(rules: &ZoneRules) -> u32 {
    let writes =
        if rules.reset_frequency > 0.0 { 1.0 / rules.reset_frequency } else { f64::INFINITY };
    writes.min(f64::from(u32::MAX)) as u32
}

impl ZoneUser {
    /// That of job number `worker` with its files, if it uses zones by their write pointers.
    pub fn new(
        job: &JobPlan,
        worker: usize,
        files: &[OpenFile],
        targets: &BTreeMap<usize, Arc<ZonedTarget>>,
    ) -> Option<Box<Self>> {
        let Some(Zoning::WritePointers(rules)) = job.access.zoning else { return None };
        if job.offset_regions().is_empty() {
            return None;
        }
        let used = job.offset_regions().iter().enumerate().map(|(number, region)| {
            let file = files.get(number);
            let first = (region.start / rules.zone_bytes) as usize;
            Some(UsedZones {
                target: Arc::clone(targets.get(&region.target)?),
                of: file.map_or((-1, FileKind::Regular), |file| (file.raw(), file.kind)),
                path: file.map(|file| file.path.clone()).unwrap_or_default(),
                first,
                end: ((region.start + region.len) / rules.zone_bytes) as usize,
                next: PerDir::splat(first as u64 * rules.zone_bytes),
                current: PerDir::splat(first),
            })
        });
        let once: u64 = job.offset_regions().iter().map(|region| region.len).sum();
        Some(Box::new(Self {
            worker: worker as u32,
            rules,
            files: used.collect::<Option<_>>()?,
            least: job.access.block_sizes.map(|_, sizes| sizes.min().max(1)),
            is_sequential: matches!(job.access.order, Order::Sequential { .. }),
            makes_passes: job.until.bytes.is_none_or(|bytes| bytes > once),
            placed: 0,
            keeps_data: job.verify.is_some(),
            writing: 0,
            resets: Cell::new(0),
        }))
    }

    /// Empties the zones, so that what is written to them need not be reset before it is verified.
    pub fn begin(&self) -> Result<(), EngineError> {
        for file in self.files.iter().filter(|_| self.keeps_data) {
            for zone in &file.target.zones[file.first..file.end] {
                if zone.kind == ZoneKind::Sequential && zone.room() < zone.end - zone.start {
                    file.reset(zone)?;
                    self.count_reset();
                }
            }
        }
        Ok(())
    }

    fn count_reset(&self) {
        self.resets.set(self.resets.get() + 1);
    }

    pub fn resets(&self) -> u64 {
        self.resets.get()
    }

    pub fn place(&mut self, request: &Request) -> Placed {
        let placed = self.place_once(request);
        let begins_again = self.is_sequential && self.rules.begins_again && self.placed > 0;
        if !matches!(placed, Placed::End) || !begins_again {
            return placed;
        }
        // As in fio, all directions do.
        for file in &mut self.files {
            file.current = PerDir::splat(file.first);
            file.next = PerDir::splat(file.first as u64 * self.rules.zone_bytes);
        }
        self.placed = 0;
        self.place_once(request)
    }

    fn place_once(&mut self, request: &Request) -> Placed {
        let Op::Io(dir) = request.op else { return Placed::At(*request) };
        let mut wanted = *request;
        if self.is_sequential {
            let at = self.files[request.file as usize].position(dir, self);
            let Some((at, zone)) = at else { return Placed::End };
            wanted.offset = at;
            let file = &mut self.files[request.file as usize];
            (file.next[dir], file.current[dir]) = (at, zone);
        }
        let placed = match dir {
            Dir::Read => self.read(&wanted),
            Dir::Write => self.write(&wanted),
            Dir::Trim => self.trim(&wanted),
        };
        if let Placed::At(placed) | Placed::Done(placed) = &placed {
            self.placed += 1;
            let file = &mut self.files[request.file as usize];
            file.current[dir] = file.target.index(placed.offset);
            file.next[dir] = placed.offset + u64::from(placed.len);
        }
        if matches!((&placed, dir), (Placed::At(_), Dir::Write)) {
            self.writing += 1;
        }
        placed
    }

    /// Accounts for an I/O that ended: of `len` bytes at `offset`.
    pub fn completed(&mut self, dir: Dir, file: u32, offset: u64, succeeded: bool) {
        let file = &self.files[file as usize];
        let zone = &file.target.zones[file.target.index(offset)];
        if dir == Dir::Write {
            self.writing -= 1;
        }
        match (dir, zone.kind) {
            (Dir::Read, ZoneKind::Sequential | ZoneKind::ReadOnly) if !self.rules.reads_beyond => {
                zone.readers.fetch_sub(1, SeqCst);
            }
            (Dir::Write, ZoneKind::Sequential) => file.wrote(zone, succeeded),
            _ => {}
        }
    }

    fn read(&self, wanted: &Request) -> Placed {
        let file = &self.files[wanted.file as usize];
        let (least, index) = (self.least.read, file.target.index(wanted.offset));
        let zones = &file.target.zones;
        let kind = zones[index].kind;
        if kind == ZoneKind::Conventional || self.rules.reads_beyond && kind != ZoneKind::Offline {
            return Placed::At(*wanted);
        }
        let chosen = &zones[index];
        let goes_on = |zone: &Zone| {
            !self.is_sequential || wanted.offset + least <= zone.readable.load(SeqCst)
        };
        let goes_on = goes_on(chosen);
        let others = file.candidates(index, self.is_sequential, self.makes_passes);
        let mut found = others.skip(usize::from(!goes_on));
        let found = found.find_map(|other| {
            let zone = &zones[other];
            Some((zone, zone.begin_read(least)?))
        });
        let Some((zone, data)) = found else {
            return if self.writing > 0 { Placed::Wait } else { Placed::End };
        };
        let len = u64::from(wanted.len);
        let at = match () {
            () if data <= len => 0,
            () if !self.is_sequential => {
                (wanted.offset - chosen.start) % (data - len) / least * least
            }
            () if goes_on && std::ptr::eq(zone, chosen) => wanted.offset - zone.start,
            () => 0,
        };
        let len = len.min(data - at) / least * least;
        Placed::At(Request { offset: zone.start + at, len: len as u32, ..*wanted })
    }

    fn write(&self, wanted: &Request) -> Placed {
        let number = wanted.file as usize;
        let (first, end) = (self.files[number].first, self.files[number].end);
        let from = self.files[number].target.index(wanted.offset).clamp(first, end - 1);
        let mut index = from;
        loop {
            match self.files[number].target.zones[index].kind {
                ZoneKind::Conventional => return self.conventional(index, wanted),
                ZoneKind::Sequential => match self.attempt(number, index, wanted.len) {
                    Attempt::At(offset, len) => {
                        return Placed::At(Request { offset, len, ..*wanted });
                    }
                    Attempt::Busy => return Placed::Wait,
                    Attempt::TooManyOpen => return self.write_to_open(wanted),
                    Attempt::Failed(error) => return Placed::Failed(error),
                    Attempt::Full => {}
                },
                ZoneKind::ReadOnly | ZoneKind::Offline => {}
            }
            index += 1;
            if index == end {
                if self.is_sequential && !self.makes_passes {
                    return Placed::End;
                }
                index = first;
            }
            if index == from {
                return if self.writing > 0 { Placed::Wait } else { Placed::End };
            }
        }
    }

    /// A write where there are no write pointers: it must not reach into a zone that has one.
    fn conventional(&self, index: usize, wanted: &Request) -> Placed {
        let file = &self.files[wanted.file as usize];
        let (zone, least) = (&file.target.zones[index], self.least.write);
        let end = zone.start + self.rules.zone_bytes;
        let next = file.target.zones.get(index + 1);
        let is_last = next.is_none_or(|next| next.kind != ZoneKind::Conventional);
        // A write that was meant for a zone further down begins with this one.
        let mut offset =
            if wanted.offset < end { wanted.offset.max(zone.start) } else { zone.start };
        let mut len = u64::from(wanted.len);
        if is_last {
            offset = offset.min(end.saturating_sub(least));
            len = (len.min(end - offset) / least * least).max(least);
        }
        Placed::At(Request { offset, len: len as u32, ..*wanted })
    }

    /// A write to one of the zones that are open, since no other may be opened.
    fn write_to_open(&self, wanted: &Request) -> Placed {
        let number = wanted.file as usize;
        let UsedZones { target, first, end, .. } = &self.files[number];
        let (first, end) = (*first, *end);
        let count = target.open.len();
        let bytes = (end - first) as u64 * self.rules.zone_bytes;
        let into = wanted.offset - first as u64 * self.rules.zone_bytes;
        let from = (u128::from(into) * count as u128 / u128::from(bytes.max(1))) as usize;
        let mut waits = false;
        for step in 0..count {
            let open = target.open[(from + step) % count].load(Acquire);
            let Some(index) = (open & u64::from(u32::MAX)).checked_sub(1) else {
                waits = true;
                continue;
            };
            let index = index as usize;
            let zone = &target.zones[index];
            waits |= zone.owner.load(Relaxed) != 0;
            if index < first || index >= end || zone.room() == 0 {
                continue;
            }
            match self.attempt(number, index, wanted.len) {
                Attempt::At(offset, len) => return Placed::At(Request { offset, len, ..*wanted }),
                Attempt::Failed(error) => return Placed::Failed(error),
                Attempt::Busy | Attempt::Full => waits = true,
                Attempt::TooManyOpen => {}
            }
        }
        if waits || self.writing > 0 { Placed::Wait } else { Placed::End }
    }

    /// A write of at most `len` bytes to zone number `index`, which has a write pointer.
    fn attempt(&self, number: usize, index: usize, len: u32) -> Attempt {
        let zone = &self.files[number].target.zones[index];
        if !zone.take(self.worker) {
            return Attempt::Busy;
        }
        let attempt = self.attempt_owned(number, index, len);
        zone.release();
        attempt
    }

    fn attempt_owned(&self, number: usize, index: usize, len: u32) -> Attempt {
        let (file, least) = (&self.files[number], self.least.write);
        let (target, zone) = (&file.target, &file.target.zones[index]);
        let is_idle = zone.writes.load(Relaxed) == 0;
        if !is_idle && (!self.rules.keeps_order || zone.is_off.load(Relaxed)) {
            return Attempt::Busy;
        }
        if !target.open(index, self.worker, self.rules.own_open_max) {
            return Attempt::TooManyOpen;
        }
        let room = zone.room();
        let is_full = room < if self.rules.writes_rest { 1 } else { least };
        let is_early = file.resets_early(zone, &self.rules);
        let resets = room == 0 || !is_full && is_early;
        if (is_full || resets) && !is_idle {
            if is_early {
                // Due when the writes in flight have completed.
                target.until_reset.store(1, Relaxed);
            }
            return Attempt::Busy;
        }
        if is_full && !resets || room == 0 && self.keeps_data {
            // What is left is too short for any write, so that the zone would stay open for ever.
            let finished = if is_full && !resets { file.finish(zone) } else { Ok(()) };
            target.close(zone);
            return finished.map_or_else(Attempt::Failed, |()| Attempt::Full);
        }
        if resets && !self.keeps_data {
            if !zone.withdraw() {
                return Attempt::Busy;
            }
            if let Err(error) = file.reset(zone) {
                return Attempt::Failed(error);
            }
            self.count_reset();
        }
        let mut len = u64::from(len).min(zone.room());
        if !self.rules.writes_rest || len > least {
            len = len / least * least;
        }
        if len == 0 {
            target.close(zone);
            return Attempt::Full;
        }
        let offset = zone.pointer.fetch_add(len, Relaxed);
        zone.writes.fetch_add(1, Relaxed);
        target.data.fetch_add(len, Relaxed);
        Attempt::At(offset, len as u32)
    }

    /// Resets a zone in place of a trim.
    fn trim(&self, wanted: &Request) -> Placed {
        let file = &self.files[wanted.file as usize];
        let target = &file.target;
        let index = target.index(wanted.offset);
        if target.zones[index].kind == ZoneKind::Conventional {
            return Placed::At(*wanted);
        }
        let has_data = |index: &usize| {
            let zone = &target.zones[*index];
            zone.kind == ZoneKind::Sequential
                && (self.is_sequential || zone.pointer.load(Relaxed) > zone.start)
        };
        let found = file.candidates(index, self.is_sequential, self.makes_passes).find(has_data);
        let Some(zone) = found.map(|index| &target.zones[index]) else { return Placed::End };
        if !zone.take(self.worker) {
            return Placed::Wait;
        }
        let is_free = zone.writes.load(Relaxed) == 0 && zone.withdraw();
        let is_empty = zone.pointer.load(Relaxed) == zone.start;
        let reset = if is_free && !is_empty { file.reset(zone) } else { Ok(()) };
        if is_free {
            target.close(zone);
            if !is_empty {
                self.count_reset();
            }
        }
        zone.release();
        match (reset, is_free) {
            (Err(error), _) => Placed::Failed(error),
            (Ok(()), false) => Placed::Wait,
            (Ok(()), true) => Placed::Done(Request { offset: zone.start, ..*wanted }),
        }
    }
}

impl Zone {
    /// Counts a read of at least `least` bytes; returns how much data there is, if that is enough.
    fn begin_read(&self, least: u64) -> Option<u64> {
        if self.kind == ZoneKind::Offline {
            return None;
        }
        if self.kind != ZoneKind::Conventional {
            self.readers.fetch_add(1, SeqCst);
        }
        // Read after it was counted: whoever resets the zone first takes this back, then looks for readers.
        let data = self.readable.load(SeqCst) - self.start;
        if data < least {
            if self.kind != ZoneKind::Conventional {
                self.readers.fetch_sub(1, SeqCst);
            }
            return None;
        }
        Some(data)
    }

    /// Keeps new reads away; returns whether there are none in flight.
    fn withdraw(&self) -> bool {
        self.readable.store(self.start, SeqCst);
        self.readers.load(SeqCst) == 0
    }
}

impl UsedZones {
    /// Where sequential I/O goes on, and its zone; nowhere after the end of the last pass.
    fn position(&self, dir: Dir, user: &ZoneUser) -> Option<(u64, usize)> {
        let (at, current) = (self.next[dir], self.current[dir]);
        let zone = &self.target.zones[current.min(self.target.zones.len() - 1)];
        let has_pointer = zone.kind != ZoneKind::Conventional;
        let end = match dir {
            Dir::Write if has_pointer => zone.end,
            Dir::Read if has_pointer && !user.rules.reads_beyond && user.rules.skip > 0 => {
                (zone.readable.load(SeqCst) + 1).saturating_sub(user.least.read).max(zone.start)
            }
            _ => zone.start + self.target.zone_bytes,
        };
        if at < end {
            return Some((at, current));
        }
        let skipped = (user.rules.skip / self.target.zone_bytes) as usize;
        let next = current + 1 + skipped;
        if next < self.end {
            return Some((next as u64 * self.target.zone_bytes, next));
        }
        // As in fio, size counts what is transferred, not what is left out.
        let wraps = user.makes_passes || skipped > 0;
        wraps.then_some((self.first as u64 * self.target.zone_bytes, self.first))
    }

    /// Zone numbers from `from` on: upwards, then again from the first if `wraps`, or for random I/O in both directions.
    fn candidates(
        &self,
        from: usize,
        is_sequential: bool,
        wraps: bool,
    ) -> impl Iterator<Item = usize> + use<> {
        let (first, end) = (self.first, self.end);
        let count = if is_sequential && wraps { 2 * (end - first) } else { end - first };
        (0..=count).flat_map(move |step| {
            let up = match from + step {
                up if is_sequential && wraps && up >= end => first + (up - end),
                up => up,
            };
            let down = from.checked_sub(step).filter(|_| !is_sequential && step > 0);
            [Some(up), down].into_iter().flatten().filter(move |zone| (first..end).contains(zone))
        })
    }

    fn resets_early(&self, zone: &Zone, rules: &ZoneRules) -> bool {
        let target = &self.target;
        let bytes = (self.end - self.first) as u64 * target.zone_bytes;
        if rules.reset_frequency == 0.0
            || (target.data.load(Relaxed) as f64) < bytes as f64 * rules.reset_threshold
        {
            return false;
        }
        let is_due = target.until_reset.fetch_sub(1, Relaxed) == 1;
        if is_due {
            target.until_reset.store(writes_between_resets(rules), Relaxed);
        }
        // As in fio, an empty zone is spared, and counts.
        is_due && zone.pointer.load(Relaxed) > zone.start
    }

    /// Empties a zone without I/Os in flight.
    fn reset(&self, zone: &Zone) -> Result<(), EngineError> {
        if self.target.has_device {
            device::reset(self.of, zone, self.target.zone_bytes)
                .map_err(|error| self.failed(Operation::ResetZone(zone.start), &error))?;
        }
        let lost = zone.pointer.load(Relaxed) - zone.start;
        // Of several jobs, none counts less than nothing.
        let _ =
            self.target.data.fetch_update(Relaxed, Relaxed, |data| Some(data.saturating_sub(lost)));
        zone.set_pointer(zone.start);
        Ok(())
    }

    fn finish(&self, zone: &Zone) -> Result<(), EngineError> {
        if self.target.has_device {
            device::finish(self.of, zone, self.target.zone_bytes)
                .map_err(|error| self.failed(Operation::FinishZone(zone.start), &error))?;
        }
        zone.set_pointer(zone.end);
        Ok(())
    }

    fn failed(&self, op: Operation, error: &std::io::Error) -> EngineError {
        EngineError::by_kernel(op, error).on(&self.path)
    }

    /// Accounts for a write that ended.
    fn wrote(&self, zone: &Zone, succeeded: bool) {
        if !succeeded {
            zone.is_off.store(true, Relaxed);
        }
        let left = zone.writes.load(Relaxed) - 1;
        zone.writes.store(left, Relaxed);
        if left > 0 {
            return;
        }
        if zone.is_off.swap(false, Relaxed)
            && self.target.has_device
            && let Some(at) = device::pointer(self.of, zone, self.target.zone_bytes)
        {
            zone.pointer.store(at, Relaxed);
        }
        zone.readable.store(zone.pointer.load(Relaxed), SeqCst);
        if zone.room() == 0 {
            self.target.close(zone);
        }
        zone.release();
    }
}
