//! Events that report forks, names and exits, and what samplers of tracepoints record of each event.

use super::event::{EventTarget, PerfEvent};
use super::per_cpu::PerCpuEvents;
use super::ring::PerfRecord;
use perf_event_open_sys::bindings::{self, perf_event_attr};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::io;

/// Events that report forks, names and exits on these CPUs. Their ring buffers may hold other records, too.
pub(crate) fn task_events(cpus: &[u32]) -> io::Result<PerCpuEvents> {
    let mut attr = perf_event_attr {
        type_: bindings::PERF_TYPE_SOFTWARE,
        config: bindings::PERF_COUNT_SW_DUMMY.into(),
        ..Default::default()
    };
    attr.set_task(1);
    attr.set_comm(1);
    record_raw(&mut attr);
    let open = |cpu: &u32| PerfEvent::open(attr, EventTarget::Cpu(*cpu), None);
    let events: Result<Vec<PerfEvent>, Errno> = cpus.iter().map(open).collect();
    Ok(PerCpuEvents::new(events?))
}

/// Event ID, process and thread, time, raw data.
pub(crate) fn record_raw(attr: &mut perf_event_attr) {
    attr.sample_type = u64::from(
        bindings::PERF_SAMPLE_IDENTIFIER
            | bindings::PERF_SAMPLE_TID
            | bindings::PERF_SAMPLE_TIME
            | bindings::PERF_SAMPLE_RAW,
    );
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    attr.clockid = ClockId::Monotonic as i32;
}

/// The time of such records, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What happened to a process or thread.
#[derive(Debug)]
pub(crate) enum TaskEvent {
    Forked { pid: i32, tid: i32, parent: i32 },
    Named { pid: i32, comm: String },
    Ended { tid: i32 },
}

impl TaskEvent {
    /// With its time. Process, parent, thread, parent thread, time, for forks and exits; or process, thread, name; then thread, time and ID.
    pub fn decode(record: PerfRecord<'_>) -> Option<(u64, Self)> {
        let id = |at| record.u32_at(at).map(|id| id as i32);
        match record.kind {
            bindings::PERF_RECORD_FORK => {
                let event = Self::Forked { pid: id(0)?, tid: id(8)?, parent: id(4)? };
                Some((record.u64_at(16)?, event))
            }
            bindings::PERF_RECORD_EXIT => Some((record.u64_at(16)?, Self::Ended { tid: id(8)? })),
            bindings::PERF_RECORD_COMM => {
                let time = record.u64_at(record.body.len().checked_sub(16)?)?;
                Some((time, Self::Named { pid: id(0)?, comm: record.text_at(8)?.into() }))
            }
            _ => None,
        }
    }

    pub fn ended(&self) -> Option<i32> {
        match self {
            Self::Ended { tid } => Some(*tid),
            Self::Forked { .. } | Self::Named { .. } => None,
        }
    }
}
