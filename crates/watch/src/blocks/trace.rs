//! Events that are looked at one by one: opened, read, put in order.

use super::Opening;
use super::device::Device;
use super::sizes::Tally;
use super::times::Times;
use super::windows::Windows;
use crate::perf::{EachIo, Field, OnCpus, Record, Ring, Tracepoint, bindings, refused};
use fathom_model::watch::{BlockOp, BlocksSample, Missing};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::io;

/// Bytes of each processor's ring.
const RING: usize = 256 << 10;

/// One split in so many is sampled, at most: they are as rare as large I/Os.
const SPLITS_ONE_IN: u32 = 5;

/// The lowest bit of a sector's number that decides whether its requests are timed: 4 KiB.
const FIRST_BIT: u32 = 3;

/// The sampled events of some devices.
#[derive(Debug)]
pub(super) struct Trace {
    one_in: u32,
    rings: Vec<Ring>,
    /// What a record is, by the number of its event.
    sources: HashMap<u64, (What, usize)>,
    layouts: Vec<Layout>,
    /// Read, but perhaps not before all that came earlier.
    held: Vec<Seen>,
    lost: u64,
    devices: Vec<Device>,
    tally: Tally,
    times: Times,
    windows: Option<Windows>,
    /// Kept open: closing them ends the records.
    _events: Vec<OnCpus>,
}

/// Why an event is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// One in so many I/Os that enter.
    Enter,
    /// One in so many requests at the driver.
    Issue,
    /// One in some splits.
    Split,
    /// One in so many unplugs.
    Unplug,
    /// All that happens to requests of certain sectors.
    TimedEnter,
    TimedIssue,
    TimedDone,
    /// As `TimedDone`, of a device without requests.
    TimedBioDone,
}

/// An event as it was seen. A field that its tracepoint does not have is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub time_ns: u64,
    pub what: Option<What>,
    pub dev: u32,
    pub sector: u64,
    /// Of a split, those in front.
    pub sectors: u32,
    pub op: BlockOp,
    pub error: i32,
    pub requests: u32,
    pub comm: [u8; 16],
}

/// Where the fields of a tracepoint lie.
#[derive(Debug)]
struct Layout {
    dev: Option<Field>,
    sector: Option<Field>,
    nr_sector: Option<Field>,
    new_sector: Option<Field>,
    rwbs: Option<Field>,
    error: Option<Field>,
    nr_rq: Option<Field>,
    comm: Option<Field>,
}

impl Trace {
    /// Opens the events and begins to record.
    pub fn open(opening: &mut Opening, one_in: u32, devices: Vec<Device>) -> Result<Self, Missing> {
        let fail = |error: io::Error| refused("sizes, tasks and times of block events", &error);
        let partly = opening.each_io == EachIo::Partly;
        let windows = partly.then(|| Windows::open(&opening.cpus)).transpose().map_err(fail)?;
        let mut trace = Self {
            one_in,
            rings: Vec::new(),
            sources: HashMap::new(),
            layouts: Vec::new(),
            held: Vec::new(),
            lost: 0,
            tally: Tally::new(&devices),
            times: Times::new(&devices),
            devices,
            windows: None,
            _events: Vec::new(),
        };
        let mut events: Vec<OnCpus> = Vec::new();
        for (what, name, period, filter) in trace.wanted(opening.each_io) {
            let Some(point) = opening.tracepoint(name) else { continue };
            let gate = windows.as_ref().and_then(|windows| windows.gate(what));
            let open = point.open(attr(&point, period), &opening.cpus, filter.as_deref(), gate);
            let open = open.map_err(fail)?;
            match events.first() {
                None => trace.map(&open).map_err(fail)?,
                Some(first) => join(&open, first).map_err(fail)?,
            }
            if gate.is_none() {
                open.enable().map_err(fail)?;
            }
            for event in open.events() {
                let id = event.id().map_err(fail)?;
                trace.sources.insert(id, (what, trace.layouts.len()));
            }
            trace.layouts.push(Layout::of(&point));
            events.push(open);
        }
        trace.windows = windows;
        trace._events = events;
        Ok(trace)
    }

    /// What to record: why, of which tracepoint, one in how many, matching what.
    fn wanted(&self, each_io: EachIo) -> Vec<(What, &'static str, u32, Option<String>)> {
        let one_in = self.one_in;
        let timed = |filter: &str| match mask(one_in) {
            0 => filter.to_string(),
            mask => format!("({filter}) && !(sector & {mask})"),
        };
        let any = |of: &dyn Fn(&Device) -> String, bio_based: Option<bool>| {
            let of = |device: &Device| format!("({})", of(device));
            let devices = self.devices.iter();
            let devices = devices.filter(|d| bio_based.is_none_or(|bio| d.bio_based == bio));
            devices.map(of).collect::<Vec<_>>().join(" || ")
        };
        let (enter, request, bio) = (
            any(&Device::bio_filter, None),
            any(&Device::request_filter, Some(false)),
            any(&Device::bio_filter, Some(true)),
        );
        let mut wanted = vec![
            (What::Unplug, "block_unplug", one_in, None),
            (What::Split, "block_split", one_in.min(SPLITS_ONE_IN), None),
        ];
        if enter.is_empty() || each_io == EachIo::Never {
            return wanted;
        }
        wanted.push((What::Enter, "block_bio_queue", one_in, None));
        wanted.push((What::TimedEnter, "block_bio_queue", 1, Some(timed(&enter))));
        if !request.is_empty() {
            // An error is worth a look wherever it happens.
            let done = format!("error != 0 || ({})", timed(&request));
            wanted.extend([
                (What::Issue, "block_rq_issue", one_in, None),
                (What::TimedIssue, "block_rq_issue", 1, Some(timed(&request))),
                (What::TimedDone, "block_rq_complete", 1, Some(done)),
            ]);
        }
        if !bio.is_empty() {
            let done = format!("error != 0 || ({})", timed(&bio));
            wanted.push((What::TimedBioDone, "block_bio_complete", 1, Some(done)));
        }
        wanted
    }

    fn map(&mut self, first: &OnCpus) -> io::Result<()> {
        self.rings =
            first.events().iter().map(|e| Ring::map(e, RING)).collect::<io::Result<_>>()?;
        Ok(())
    }

    /// Reads all that was recorded.
    pub fn drain(&mut self) {
        // What came before this instant is in a ring by now, on whichever processor it came.
        let now = clock_gettime(ClockId::Monotonic);
        let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let Self { rings, sources, layouts, held, lost, .. } = self;
        for ring in rings {
            ring.drain(|record| held.extend(seen(record, sources, layouts)));
            *lost += ring.take_lost();
        }
        self.held.sort_unstable_by_key(|seen| seen.time_ns);
        let ripe = self.held.partition_point(|seen| seen.time_ns < now_ns);
        for seen in self.held.drain(..ripe) {
            let owners = self.devices.iter().enumerate();
            let owners = owners.filter(|(_, d)| d.owns(seen.dev, seen.sector));
            match seen.what {
                Some(What::Unplug) => self.tally.unplug(&seen),
                Some(What::Enter | What::Issue | What::Split) => {
                    owners.for_each(|(index, device)| self.tally.add(index, device, &seen));
                }
                _ => owners.for_each(|(index, _)| {
                    self.tally.error(index, &seen);
                    self.times.add(index, &seen);
                }),
            }
        }
        self.times.forget(now_ns);
    }

    /// Begins or ends a time in which events of each I/O are seen, where that is due. All that was
    /// recorded is to be read before.
    pub fn turn(&mut self) {
        if let Some(windows) = &mut self.windows {
            windows.turn(&mut self.times);
        }
    }

    /// Puts what was seen so far into `blocks`, whose devices are those of [`Trace::open`].
    pub fn put(&self, blocks: &mut BlocksSample) {
        blocks.one_in = self.one_in;
        blocks.lost = self.lost;
        blocks.seen_ns = self.windows.as_ref().map(Windows::on_ns);
        self.tally.put(blocks);
        self.times.put(blocks);
    }
}

/// The bits of a sector's number that must be 0 for its requests to be timed, about one in `one_in`
/// of them. Bits apart, so that of large I/Os, which begin at round numbers, not all are timed.
fn mask(one_in: u32) -> u64 {
    let bits = one_in.next_power_of_two().trailing_zeros();
    (0..bits).fold(0, |mask, bit| mask | 1 << (FIRST_BIT + 2 * bit))
}

fn attr(point: &Tracepoint, period: u32) -> bindings::perf_event_attr {
    let mut attr = point.attr();
    attr.__bindgen_anon_1.sample_period = u64::from(period.max(1));
    attr.sample_type = u64::from(
        bindings::PERF_SAMPLE_IDENTIFIER | bindings::PERF_SAMPLE_TIME | bindings::PERF_SAMPLE_RAW,
    );
    attr.set_use_clockid(1);
    attr.clockid = ClockId::Monotonic as i32;
    attr
}

/// Sends the records of each event to the ring of the one on the same processor.
fn join(events: &OnCpus, first: &OnCpus) -> io::Result<()> {
    let mut pairs = events.events().iter().zip(first.events());
    pairs.try_for_each(|(event, first)| event.send_to(first))
}

/// A sample's event: number and time first, then the tracepoint's data after its length
/// (perf_event_open(2), `PERF_RECORD_SAMPLE`).
fn seen(
    record: Record<'_>,
    sources: &HashMap<u64, (What, usize)>,
    layouts: &[Layout],
) -> Option<Seen> {
    if record.kind != bindings::PERF_RECORD_SAMPLE {
        return None;
    }
    let (what, layout) = *sources.get(&record.u64_at(0)?)?;
    let size = record.u32_at(16)? as usize;
    let raw = record.body.get(20..)?.get(..size)?;
    let seen = layouts.get(layout)?.decode(raw);
    Some(Seen { time_ns: record.u64_at(8)?, what: Some(what), ..seen })
}

impl Layout {
    fn of(point: &Tracepoint) -> Self {
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

    fn decode(&self, raw: &[u8]) -> Seen {
        let number =
            |field: &Option<Field>| field.as_ref().and_then(|f| f.number(raw)).unwrap_or(0);
        let text = |field: &Option<Field>| field.as_ref().and_then(|f| f.text(raw)).unwrap_or(b"");
        let sector = number(&self.sector);
        let mut comm = [0; 16];
        let name = text(&self.comm);
        let length = name.len().min(comm.len());
        comm[..length].copy_from_slice(&name[..length]);
        let sectors = match self.new_sector {
            // The kernel keeps 32 bits of the second part's beginning.
            Some(_) => (number(&self.new_sector) as u32).wrapping_sub(sector as u32),
            None => number(&self.nr_sector) as u32,
        };
        Seen {
            dev: number(&self.dev) as u32,
            sector,
            sectors,
            op: op(text(&self.rwbs)),
            error: number(&self.error) as i32,
            requests: number(&self.nr_rq) as u32,
            comm,
            ..Seen::default()
        }
    }
}

/// What the letters of a request mean (kernel/trace/blktrace.c, `blk_fill_rwbs`): a leading `F` asks
/// for a flush before it, the next letter is the operation.
fn op(rwbs: &[u8]) -> BlockOp {
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

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
