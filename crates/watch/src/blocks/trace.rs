//! Sampled events: opened, read, and sorted by time.

use super::BlockTracepoints;
use super::device::BlockDevice;
use super::events::{EventKind, EventStream};
use super::sizes::SizeTally;
use super::times::RequestTimes;
use super::windows::SamplingWindows;
use crate::perf::{TraceCoverage, Tracepoint, bindings, refused};
use fathom_model::watch::{BlocksSample, Unavailable};
use rustix::time::ClockId;
use std::io;

const RING: usize = 256 << 10;

/// Maximum sampling period of splits, which are as rare as large I/Os, and of unplugs in windows.
const RARE_ONE_IN: u32 = 5;

/// Lowest bit of the sector number that selects requests to be timed: 4 KiB.
const FIRST_BIT: u32 = 3;

#[derive(Debug)]
pub(super) struct EventTrace {
    one_in: u32,
    each_io: TraceCoverage,
    events: EventStream,
    devices: Vec<BlockDevice>,
    tally: SizeTally,
    times: RequestTimes,
    windows: Option<SamplingWindows>,
}

impl EventTrace {
    pub fn open(
        tracepoints: &mut BlockTracepoints,
        one_in: u32,
        devices: Vec<BlockDevice>,
        windows: Option<SamplingWindows>,
    ) -> Result<Self, Unavailable> {
        let fail =
            |error: io::Error| refused("sizes, tasks and latencies of block layer events", &error);
        let mut trace = Self {
            one_in,
            each_io: tracepoints.each_io,
            events: EventStream::default(),
            tally: SizeTally::new(&devices),
            times: RequestTimes::new(&devices),
            devices,
            windows: None,
        };
        for (what, name, period, filter) in trace.wanted() {
            let Some(point) = tracepoints.tracepoint(name) else { continue };
            let leaders = windows.as_ref().and_then(|windows| windows.leaders(what));
            let open =
                point.open(attr(&point, period), &tracepoints.cpus, filter.as_deref(), leaders);
            let open = trace.events.add(what, &point, open.map_err(fail)?, RING).map_err(fail)?;
            if leaders.is_none() {
                open.enable().map_err(fail)?;
            }
        }
        trace.windows = windows;
        Ok(trace)
    }

    /// Events to record: kind, tracepoint, sampling period, filter.
    fn wanted(&self) -> Vec<(EventKind, &'static str, u32, Option<String>)> {
        let Self { one_in, each_io, .. } = *self;
        let timed = |filter: &str| match mask(one_in) {
            0 => filter.to_string(),
            // First what rejects most, as the kernel stops there.
            mask => format!("!(sector & {mask}) && ({filter})"),
        };
        let any = |of: &dyn Fn(&BlockDevice) -> String, bio_based: Option<bool>| {
            let of = |device: &BlockDevice| format!("({})", of(device));
            let devices = self.devices.iter();
            let devices = devices.filter(|d| bio_based.is_none_or(|bio| d.bio_based == bio));
            devices.map(of).collect::<Vec<_>>().join(" || ")
        };
        let (enter, request, bio) = (
            any(&BlockDevice::bio_filter, None),
            any(&BlockDevice::request_filter, Some(false)),
            any(&BlockDevice::bio_filter, Some(true)),
        );
        let mut wanted = vec![
            (EventKind::Unplug, "block_unplug", self.unplugs_one_in(), None),
            (EventKind::Split, "block_split", one_in.min(RARE_ONE_IN), None),
        ];
        if enter.is_empty() || each_io == TraceCoverage::Off {
            return wanted;
        }
        wanted.push((EventKind::Enter, "block_bio_queue", one_in, None));
        wanted.push((EventKind::TimedEnter, "block_bio_queue", 1, Some(timed(&enter))));
        if !request.is_empty() {
            // Errors are recorded whatever their sector, and so are flushes, whose sector is -1.
            let flush = format!("sector == {} && ({request})", u64::MAX);
            let done = format!("error != 0 || ({flush}) || ({})", timed(&request));
            wanted.extend([
                (EventKind::Issue, "block_rq_issue", one_in, None),
                (EventKind::TimedIssue, "block_rq_issue", 1, Some(timed(&request))),
                (EventKind::TimedDone, "block_rq_complete", 1, Some(done)),
            ]);
        }
        if !bio.is_empty() {
            let done = format!("error != 0 || ({})", timed(&bio));
            wanted.push((EventKind::TimedBioDone, "block_bio_complete", 1, Some(done)));
        }
        wanted
    }

    fn unplugs_one_in(&self) -> u32 {
        match self.each_io {
            TraceCoverage::Full => self.one_in,
            TraceCoverage::Off | TraceCoverage::DutyCycle => self.one_in.min(RARE_ONE_IN),
        }
    }

    pub fn drain(&mut self) {
        let Self { events, devices, tally, times, .. } = self;
        let now_ns = events.drain(|event| {
            let owners = devices.iter().enumerate();
            let owners = owners.filter(|(_, d)| d.owns(event.dev, event.sector));
            match event.what {
                Some(EventKind::Unplug) => tally.unplug(event),
                Some(EventKind::Enter | EventKind::Issue | EventKind::Split) => {
                    owners.for_each(|(index, device)| tally.add(index, device, event));
                }
                _ => owners.for_each(|(index, _)| {
                    tally.error(index, event);
                    times.add(index, event);
                }),
            }
        });
        self.times.forget(now_ns);
    }

    /// Starts or ends a sampling window if due. Call [`EventTrace::drain`] first.
    pub fn advance(&mut self) {
        if let Some(windows) = &mut self.windows {
            windows.advance(&mut self.times);
        }
    }

    pub fn put(&self, blocks: &mut BlocksSample) {
        blocks.one_in = self.one_in;
        blocks.lost = self.events.lost;
        blocks.unplugs_seen_ns = self.windows.as_ref().map(SamplingWindows::enabled_ns);
        blocks.seen_ns = blocks.unplugs_seen_ns.filter(|_| self.each_io != TraceCoverage::Off);
        if self.windows.is_some() {
            blocks.unplugs = self.tally.unplugs(self.unplugs_one_in());
        }
        self.tally.put(blocks);
        self.times.put(blocks);
    }
}

/// Bits of the sector number that must be 0 for a request to be timed: about one request in
/// `one_in`. Non-adjacent bits, because large I/Os start at multiples of powers of two.
fn mask(one_in: u32) -> u64 {
    let bits = one_in.next_power_of_two().trailing_zeros();
    (0..bits).fold(0, |mask, bit| mask | 1 << (FIRST_BIT + 2 * bit))
}

pub(super) fn attr(point: &Tracepoint, period: u32) -> bindings::perf_event_attr {
    let mut attr = point.attr();
    attr.__bindgen_anon_1.sample_period = u64::from(period.max(1));
    attr.sample_type = u64::from(
        bindings::PERF_SAMPLE_IDENTIFIER | bindings::PERF_SAMPLE_TIME | bindings::PERF_SAMPLE_RAW,
    );
    attr.set_use_clockid(1);
    attr.clockid = ClockId::Monotonic as i32;
    attr
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
