//! Sampled block layer events, decoded.

use crate::perf::{
    EventField, PerCpuEvents, PerfRecord, PerfRing, Tracepoint, bindings, monotonic_ns,
};
use fathom_model::watch::BlockOp;
use std::collections::HashMap;
use std::io;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    /// A bio was queued; one in `one_in`.
    Enter,
    /// A request was issued to the driver; one in `one_in`.
    Issue,
    /// A bio was split; one in a few.
    Split,
    /// A plug was flushed; one in `one_in`.
    Unplug,
    /// Every event of a request whose sector is selected for latency measurement.
    TimedEnter,
    TimedIssue,
    TimedDone,
    /// Like `TimedDone`, for a bio-based device.
    TimedBioDone,
}

/// A decoded event. Fields that its tracepoint lacks are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BlockEvent {
    pub time_ns: u64,
    pub what: Option<EventKind>,
    pub dev: u32,
    pub sector: u64,
    /// For a split: the sectors of its front part.
    pub sectors: u32,
    pub op: BlockOp,
    /// Whether it is an I/O before which the device flushes its cache.
    pub flushes_first: bool,
    /// Whether it completes only once it is durable.
    pub fua: bool,
    pub error: i32,
    pub requests: u32,
    pub comm: [u8; 16],
}

#[derive(Debug)]
pub(super) struct EventLayout {
    dev: Option<EventField>,
    sector: Option<EventField>,
    nr_sector: Option<EventField>,
    new_sector: Option<EventField>,
    rwbs: Option<EventField>,
    error: Option<EventField>,
    nr_rq: Option<EventField>,
    comm: Option<EventField>,
}

/// Decodes a sample: event ID and time, then the tracepoint's data after its length
/// (perf_event_open(2), `PERF_RECORD_SAMPLE`).
pub(super) fn decode_sample(
    record: PerfRecord<'_>,
    sources: &HashMap<u64, (EventKind, usize)>,
    layouts: &[EventLayout],
) -> Option<BlockEvent> {
    if record.kind != bindings::PERF_RECORD_SAMPLE {
        return None;
    }
    let (what, layout) = *sources.get(&record.u64_at(0)?)?;
    let size = record.u32_at(16)? as usize;
    let raw = record.body.get(20..)?.get(..size)?;
    let event = layouts.get(layout)?.decode(raw);
    Some(BlockEvent { time_ns: record.u64_at(8)?, what: Some(what), ..event })
}

/// Events of all CPUs in the order of time.
#[derive(Debug, Default)]
pub(super) struct EventStream {
    rings: Vec<PerfRing>,
    pub(super) sources: HashMap<u64, (EventKind, usize)>,
    layouts: Vec<EventLayout>,
    /// Read, but earlier events may still follow from another CPU.
    pending: Vec<BlockEvent>,
    pub lost: u64,
    /// Closing these ends the recording.
    events: Vec<PerCpuEvents>,
}

impl EventStream {
    /// Adds `events` of `point`, not yet enabled or in a group; the rings of the first, of so many bytes, are those of all.
    pub fn add(
        &mut self,
        what: EventKind,
        point: &Tracepoint,
        events: PerCpuEvents,
        ring_bytes: usize,
    ) -> io::Result<&PerCpuEvents> {
        match self.events.first() {
            None => self.rings = events.map_rings(ring_bytes)?,
            Some(first) => events.send_to(first)?,
        }
        for event in events.events() {
            self.sources.insert(event.id()?, (what, self.layouts.len()));
        }
        self.layouts.push(EventLayout::of(point));
        self.events.push(events);
        Ok(&self.events[self.events.len() - 1])
    }

    /// Passes what came since the last call to `each`; returns the time, in nanoseconds, before which all came.
    pub fn drain(&mut self, mut each: impl FnMut(&BlockEvent)) -> u64 {
        // Every event before this instant is in some CPU's ring buffer by now.
        let now_ns = monotonic_ns();
        let Self { rings, sources, layouts, pending, lost, .. } = self;
        for ring in rings {
            ring.drain(|record| pending.extend(decode_sample(record, sources, layouts)));
            *lost += ring.take_lost();
        }
        pending.sort_by_key(|event| event.time_ns);
        let ordered = pending.partition_point(|event| event.time_ns < now_ns);
        pending.drain(..ordered).for_each(|event| each(&event));
        now_ns
    }
}

impl EventLayout {
    pub fn of(point: &Tracepoint) -> Self {
        let field = |name: &str| point.field(name).cloned();
        Self {
            dev: field("dev"),
            sector: field("sector"),
            nr_sector: field("nr_sector"),
            new_sector: field("new_sector"),
            rwbs: field("rwbs"),
            error: field("error"),
            nr_rq: field("nr_rq"),
            comm: field("comm"),
        }
    }

    pub(super) fn decode(&self, raw: &[u8]) -> BlockEvent {
        let number =
            |field: &Option<EventField>| field.as_ref().and_then(|f| f.number(raw)).unwrap_or(0);
        let text =
            |field: &Option<EventField>| field.as_ref().and_then(|f| f.text(raw)).unwrap_or(b"");
        let sector = number(&self.sector);
        let mut comm = [0; 16];
        let name = text(&self.comm);
        let length = name.len().min(comm.len());
        comm[..length].copy_from_slice(&name[..length]);
        let sectors = match self.new_sector {
            // The kernel reports the low 32 bits of the second part's first sector.
            Some(_) => (number(&self.new_sector) as u32).wrapping_sub(sector as u32),
            None => number(&self.nr_sector) as u32,
        };
        let rwbs = text(&self.rwbs);
        // A flush without data is at sector 0 when it is queued and issued, at -1 when it completes.
        let is_flush = rwbs.first() == Some(&b'F') && sectors == 0 && self.nr_sector.is_some();
        BlockEvent {
            dev: number(&self.dev) as u32,
            sector: if is_flush { 0 } else { sector },
            sectors,
            op: if is_flush { BlockOp::Flush } else { op(rwbs) },
            flushes_first: !is_flush && rwbs.len() > 1 && rwbs[0] == b'F',
            // A preceding flush has the same letter.
            fua: !is_flush && rwbs.iter().skip(1).any(|flag| *flag == b'F'),
            error: number(&self.error) as i32,
            requests: number(&self.nr_rq) as u32,
            comm,
            ..BlockEvent::default()
        }
    }
}

/// Decodes the `rwbs` string (kernel/trace/blktrace.c, `blk_fill_rwbs`): an optional `F` for a
/// preceding flush, then the operation.
pub(super) fn op(rwbs: &[u8]) -> BlockOp {
    match rwbs {
        [b'F', b'F', ..] | [b'F'] => BlockOp::Flush,
        [b'F', rest @ ..] | rest => match rest.first() {
            Some(b'R') => BlockOp::Read,
            Some(b'W') => BlockOp::Write,
            Some(b'Z') if rest.get(1) == Some(&b'A') => BlockOp::Write,
            Some(b'D') => BlockOp::Discard,
            _ => BlockOp::Other,
        },
    }
}
