//! io_uring's tracepoints, counted, and the flags that rings are set up with
//! (include/trace/events/io_uring.h of the kernel).

use crate::perf::{
    Field, OnCpus, Record, Ring, Tracefs, Tracepoint, bindings, online_cpus, refused,
};
use fathom_model::watch::{Missing, RingEvents};
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// Runs of task work are told apart by these least numbers of requests. Each is one more filter that
/// the kernel tries at each run.
const BATCHES: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Bytes for records of new rings on each processor, each some 100 bytes.
const RECORDS: usize = 4096;
/// Places in a record of pid and tid, then of the raw data, after its length.
const PID: usize = 0;
const RAW: usize = 12;

/// Counters of io_uring's events, of all processes, since they were opened.
#[derive(Debug)]
pub(super) struct Events {
    punted: Option<OnCpus>,
    overflows: Option<OnCpus>,
    /// By least number of requests, over both kinds of task work.
    task_work: Vec<(u32, Vec<OnCpus>)>,
    creations: Option<Creations>,
}

impl Events {
    /// Opens all that the kernel has; what it has not is told in `missing`.
    pub fn open(
        proc_root: &Path,
        sys_root: &Path,
        task_work: bool,
        missing: &mut Vec<Missing>,
    ) -> Option<Self> {
        let found = Tracefs::find(proc_root).and_then(|tracefs| {
            let cpus =
                online_cpus(sys_root).map_err(|error| refused("io_uring's events", &error))?;
            Ok(Source { tracefs, cpus })
        });
        let source = found.map_err(|missed| missing.push(missed)).ok()?;
        let mut keep =
            |result: Result<OnCpus, Missing>| result.map_err(|missed| missing.push(missed)).ok();
        let punted = keep(source.count("io_uring_queue_async_work", None));
        let overflows = keep(source.count("io_uring_cqe_overflow", None));
        let kinds: &[&str] =
            if task_work { &["io_uring_task_work_run", "io_uring_local_work_run"] } else { &[] };
        let mut by_batch: Vec<(u32, Vec<OnCpus>)> = Vec::new();
        for kind in kinds {
            let all: Result<Vec<OnCpus>, Missing> =
                (0..BATCHES.len()).map(|index| source.count(kind, Some(&batch(index)))).collect();
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
        let events = Self { punted, overflows, task_work: by_batch, creations };
        (events.punted.is_some() || events.overflows.is_some() || !events.task_work.is_empty())
            .then_some(events)
    }

    /// The counters as they stand.
    pub fn read(&self) -> RingEvents {
        let one = |counter: &Option<OnCpus>| counter.as_ref()?.read().ok();
        let runs = |counters: &Vec<OnCpus>| -> io::Result<u64> {
            counters.iter().try_fold(0, |sum, counter| Ok(sum + counter.read()?))
        };
        let batches = self.task_work.iter();
        RingEvents {
            punted: one(&self.punted),
            overflows: one(&self.overflows),
            task_work: batches.map_while(|(least, all)| Some((*least, runs(all).ok()?))).collect(),
        }
    }

    /// Adds the flags of rings that were made since the last call, by process and descriptor.
    pub fn created(&mut self, flags: &mut HashMap<(i32, i32), u32>) {
        if let Some(creations) = &mut self.creations {
            creations.drain(flags);
        }
    }
}

/// The filter for runs of [`BATCHES`]`[index]` requests and more, up to the next.
fn batch(index: usize) -> String {
    let least = BATCHES[index];
    match BATCHES.get(index + 1) {
        Some(next) => format!("count >= {least} && count < {next}"),
        None => format!("count >= {least}"),
    }
}

/// Where events come from.
struct Source {
    tracefs: Tracefs,
    cpus: Vec<u32>,
}

impl Source {
    fn count(&self, name: &str, filter: Option<&str>) -> Result<OnCpus, Missing> {
        let point = self.tracefs.tracepoint("io_uring", name)?;
        let counters = point.count(&self.cpus, filter);
        let counters = counters.and_then(|counters| counters.enable().map(|()| counters));
        counters.map_err(|error| refused(&point.name, &error))
    }

    fn creations(&self) -> Result<Creations, Missing> {
        let point = self.tracefs.tracepoint("io_uring", "io_uring_create")?;
        Creations::open(&point, &self.cpus).map_err(|error| Missing {
            what: "the flags that rings are set up with".into(),
            ..refused(&point.name, &error)
        })
    }
}

/// Records of rings that are made.
#[derive(Debug)]
struct Creations {
    // Before the events, so that it is unmapped before they are closed.
    records: Vec<Ring>,
    _events: OnCpus,
    fd: Field,
    flags: Field,
}

impl Creations {
    fn open(point: &Tracepoint, cpus: &[u32]) -> io::Result<Self> {
        let field = |name: &str| {
            point.field(name).cloned().ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("it has no field {name}"))
            })
        };
        let mut attr = point.attr();
        attr.__bindgen_anon_1.sample_period = 1;
        attr.sample_type = u64::from(bindings::PERF_SAMPLE_TID | bindings::PERF_SAMPLE_RAW);
        let events = point.open(attr, cpus, None)?;
        let records = events
            .events()
            .iter()
            .map(|event| Ring::map(event, RECORDS))
            .collect::<io::Result<_>>()?;
        events.enable()?;
        Ok(Self { records, _events: events, fd: field("fd")?, flags: field("flags")? })
    }

    fn drain(&mut self, flags: &mut HashMap<(i32, i32), u32>) {
        let mut add = |record: Record<'_>| {
            let raw = record.body.get(RAW..)?;
            let pid = i32::try_from(record.u32_at(PID)?).ok()?;
            let fd = self.fd.number(raw)? as i32;
            flags.insert((pid, fd), self.flags.number(raw)? as u32);
            Some(())
        };
        for ring in &mut self.records {
            ring.drain(|record| {
                if record.kind == bindings::PERF_RECORD_SAMPLE {
                    // A record that is too short tells nothing.
                    let _ = add(record);
                }
            });
        }
    }
}
