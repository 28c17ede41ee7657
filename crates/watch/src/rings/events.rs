//! Counts of io_uring events, and setup flags of new rings (include/trace/events/io_uring.h of the
//! kernel).

use super::punted::PuntCounter;
use crate::perf::{
    EventField, GroupLeaders, PerCpuEvents, PerfRecord, PerfRing, TraceCoverage, Tracefs,
    Tracepoint, WindowSchedule, bindings, online_cpus, refused,
};
use fathom_model::watch::{RingEvents, Unavailable};
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// Buckets of task work runs by number of requests, each up to the next. The kernel evaluates one
/// filter per bucket at each run.
const BATCHES: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Ring buffer size per CPU for records of new rings, of some 100 bytes each.
const RECORDS: usize = 4096;
/// Offsets in a record of pid and tid, and of the raw data after its length.
const PID: usize = 0;
const RAW: usize = 12;

/// Counts of io_uring events of all processes since the start.
#[derive(Debug)]
pub(super) struct EventCounters {
    punted: Option<PuntCounter>,
    overflows: Option<PerCpuEvents>,
    /// By minimum number of requests, for both kinds of task work.
    task_work: Vec<(u32, Vec<PerCpuEvents>)>,
    creations: Option<CreateEvents>,
    /// Enables the task work counters in windows, unless they are always enabled.
    partly: Option<(GroupLeaders, WindowSchedule)>,
}

impl EventCounters {
    /// Opens all events that this kernel has; the others are reported in `missing`.
    pub fn open(
        proc_root: &Path,
        sys_root: &Path,
        each_io: TraceCoverage,
        missing: &mut Vec<Unavailable>,
    ) -> Option<Self> {
        let what = "io_uring events";
        let found = Tracefs::find(proc_root, what).and_then(|tracefs| {
            let refused = |error| refused(what, &error);
            let cpus = online_cpus(sys_root).map_err(refused)?;
            let partly = each_io == TraceCoverage::DutyCycle;
            let leaders = partly.then(|| GroupLeaders::open(&cpus)).transpose().map_err(refused)?;
            Ok(RingTracepoints { tracefs, cpus, leaders })
        });
        let source = found.map_err(|missed| missing.push(missed)).ok()?;
        let punted = source.punted(each_io).map_err(|missed| missing.push(missed)).ok();
        let overflows = source.count("io_uring_cqe_overflow", None, None);
        let overflows = overflows.map_err(|missed| missing.push(missed)).ok();
        let kinds: &[&str] = match each_io {
            TraceCoverage::Off => &[],
            _ => &["io_uring_task_work_run", "io_uring_local_work_run"],
        };
        let mut by_batch: Vec<(u32, Vec<PerCpuEvents>)> = Vec::new();
        for kind in kinds {
            let count = |index| source.count(kind, Some(&batch(index)), source.leaders.as_ref());
            let all: Result<Vec<PerCpuEvents>, Unavailable> =
                (0..BATCHES.len()).map(count).collect();
            let Ok(all) = all.map_err(|missed| missing.push(missed)) else { continue };
            by_batch.resize_with(BATCHES.len(), || (0, Vec::new()));
            for ((least, counters), (batch, counter)) in
                by_batch.iter_mut().zip(BATCHES.iter().zip(all))
            {
                *least = *batch;
                counters.push(counter);
            }
        }
        let creations = source.creations().map_err(|missed| missing.push(missed)).ok();
        let partly = source.leaders.map(|leaders| (leaders, WindowSchedule::default()));
        let events = Self { punted, overflows, task_work: by_batch, creations, partly };
        (events.punted.is_some() || events.overflows.is_some() || !events.task_work.is_empty())
            .then_some(events)
    }

    /// Opens and closes sampling windows. Call once per [`WindowSchedule::PERIOD`].
    pub fn advance(&mut self) {
        if let Some(punted) = &mut self.punted {
            punted.advance();
        }
        if let Some((leaders, schedule)) = &mut self.partly {
            leaders.set_enabled(schedule.next());
        }
    }

    pub fn read(&mut self) -> RingEvents {
        let punted = self.punted.as_mut().and_then(PuntCounter::read);
        let runs = |counters: &Vec<PerCpuEvents>| -> io::Result<u64> {
            counters.iter().try_fold(0, |sum, counter| Ok(sum + counter.read()?))
        };
        let batches = self.task_work.iter();
        RingEvents {
            punted: punted.map(|(count, _)| count),
            punted_estimated: punted.is_some_and(|(_, is_estimate)| is_estimate),
            overflows: self.overflows.as_ref().and_then(|counter| counter.read().ok()),
            task_work_ns: self.partly.as_ref().map(|(leaders, _)| leaders.enabled_ns()),
            task_work: batches.map_while(|(least, all)| Some((*least, runs(all).ok()?))).collect(),
        }
    }

    /// Whether [`EventCounters::created`] reports the rings of all processes.
    pub fn reports_new(&self) -> bool {
        self.creations.is_some()
    }

    /// Setup flags of the rings created since the last call, by process and descriptor.
    pub fn created(&mut self) -> HashMap<(i32, i32), u32> {
        self.creations.as_mut().map_or_else(HashMap::new, CreateEvents::drain)
    }
}

/// Filter for runs in bucket `index` of [`BATCHES`].
fn batch(index: usize) -> String {
    let least = BATCHES[index];
    match BATCHES.get(index + 1) {
        Some(next) => format!("count >= {least} && count < {next}"),
        None => format!("count >= {least}"),
    }
}

struct RingTracepoints {
    tracefs: Tracefs,
    cpus: Vec<u32>,
    leaders: Option<GroupLeaders>,
}

impl RingTracepoints {
    fn punted(&self, each_io: TraceCoverage) -> Result<PuntCounter, Unavailable> {
        let point = self.tracefs.tracepoint("io_uring", "io_uring_queue_async_work")?;
        let counter =
            |leaders: Option<&GroupLeaders>| point.count_grouped(&self.cpus, None, leaders);
        let punted = PuntCounter::open(each_io, || GroupLeaders::open(&self.cpus), counter);
        punted.map_err(|error| refused(&point.name, &error))
    }

    /// Counts events, all or those that match `filter`: from now on, or while `leaders` are enabled.
    fn count(
        &self,
        name: &str,
        filter: Option<&str>,
        leaders: Option<&GroupLeaders>,
    ) -> Result<PerCpuEvents, Unavailable> {
        let point = self.tracefs.tracepoint("io_uring", name)?;
        let counters = point.count_grouped(&self.cpus, filter, leaders);
        counters.map_err(|error| refused(&point.name, &error))
    }

    fn creations(&self) -> Result<CreateEvents, Unavailable> {
        let point = self.tracefs.tracepoint("io_uring", "io_uring_create")?;
        CreateEvents::open(&point, &self.cpus).map_err(|error| Unavailable {
            source: "setup flags of rings".into(),
            ..refused(&point.name, &error)
        })
    }
}

#[derive(Debug)]
struct CreateEvents {
    // Declared before the events, so that it is unmapped before they are closed.
    records: Vec<PerfRing>,
    _events: PerCpuEvents,
    fd: EventField,
    flags: EventField,
}

impl CreateEvents {
    fn open(point: &Tracepoint, cpus: &[u32]) -> io::Result<Self> {
        let field = |name: &str| {
            point.field(name).cloned().ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("no field {name}"))
            })
        };
        let mut attr = point.attr();
        attr.__bindgen_anon_1.sample_period = 1;
        attr.sample_type = u64::from(bindings::PERF_SAMPLE_TID | bindings::PERF_SAMPLE_RAW);
        let events = point.open(attr, cpus, None, None)?;
        let records = events.map_rings(RECORDS)?;
        events.enable()?;
        Ok(Self { records, _events: events, fd: field("fd")?, flags: field("flags")? })
    }

    fn drain(&mut self) -> HashMap<(i32, i32), u32> {
        let mut flags = HashMap::new();
        let mut add = |record: PerfRecord<'_>| {
            let raw = record.body.get(RAW..)?;
            let pid = i32::try_from(record.u32_at(PID)?).ok()?;
            let fd = self.fd.number(raw)? as i32;
            flags.insert((pid, fd), self.flags.number(raw)? as u32);
            Some(())
        };
        for ring in &mut self.records {
            ring.drain(|record| {
                if record.kind == bindings::PERF_RECORD_SAMPLE {
                    // Records that are too short are ignored.
                    let _ = add(record);
                }
            });
        }
        flags
    }
}
